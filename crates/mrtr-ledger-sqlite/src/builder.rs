//! How a ledger is opened, and why it is not.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::{LedgerError, Limits, MIN_RETENTION, RETENTION};
use mrtr_state::{Clock, SystemClock};
use tokio::sync::mpsc;

use crate::books::Policy;
use crate::guard::Guard;
use crate::storage::Storage;
use crate::writer::Writer;
use crate::{SqliteLedger, file, mount};

/// How many operations wait at most before callers wait to ask.
const QUEUE: usize = 4_096;

/// Settings of a [`SqliteLedger`]. Every one has a default.
#[derive(Debug)]
#[must_use = "nothing is opened before `open`"]
pub struct Builder {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    limits: Limits,
    retention: Duration,
    wait: Duration,
}

impl Builder {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            clock: Arc::new(SystemClock),
            limits: Limits::default(),
            retention: RETENTION,
            wait: Duration::from_secs(5),
        }
    }

    /// The clock that decides what has expired. The host's by default.
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// How much is held before new work is refused. See [`Limits`] for the defaults. Every process that uses the file
    /// goes by its own.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// How long rows are kept after they expire. Ten minutes by default; less than [`MIN_RETENTION`] counts as that.
    pub fn retention(self, retention: Duration) -> Self {
        Self {
            retention: retention.max(MIN_RETENTION),
            ..self
        }
    }

    /// How long an operation waits for another process's lock before there is no word from the ledger. Five seconds by
    /// default: much longer than a commit, and shorter than callers wait.
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Opens the file, creates it if there is none, and starts the ledger's thread.
    ///
    /// It reads and writes, and may wait for other processes that create the same file: call it where a program starts,
    /// not on an async thread.
    ///
    /// # Errors
    /// The file is not fit to be a ledger, or cannot be read and written. Nothing is changed in a file that is refused.
    pub fn open(self) -> Result<SqliteLedger, OpenError> {
        let path = file::resolve(&self.path)?;
        if let Some(kind) = mount::network_file_system(&path) {
            return Err(OpenError::NetworkFileSystem { kind });
        }
        let (clock, retention) = (Arc::clone(&self.clock), self.retention);
        let policy = Policy {
            clock: self.clock,
            limits: self.limits,
            retention: self.retention,
            guard: Guard::default(),
        };
        let storage = Storage::create(path.clone(), self.wait, &policy)?;
        let (sender, queue) = mpsc::channel(QUEUE);
        let writer = Writer::new(policy, storage);
        std::thread::Builder::new()
            .name("mrtr-ledger".to_owned())
            .spawn(move || writer.run(queue))
            .map_err(OpenError::Io)?;
        Ok(SqliteLedger::new(path, self.wait, clock, retention, sender))
    }
}

/// Why a file was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The operating system refused.
    #[error("the ledger's file could not be opened or created")]
    Io(#[from] io::Error),
    /// The path does not name a regular file.
    #[error("the ledger's path does not name a regular file")]
    NotAFile,
    /// The path names a symbolic link, which others may be able to point elsewhere.
    #[error("the ledger's path is a symbolic link; name the file itself")]
    Symlink,
    /// The file is gone.
    #[error("the ledger's file is not there")]
    Missing,
    /// Others than the owner may read or write the file. It holds what tools answered.
    #[error(
        "{path} has mode {mode:03o}, and others than its owner may not have access: chmod 600 it, if nobody has read it"
    )]
    Permissions {
        /// The file, or the log beside it.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is a database, but not a ledger.
    #[error("the file is another program's database")]
    Foreign,
    /// The file was made by another version of this crate.
    #[error("the ledger's file has version {found}, and this program knows version {known}")]
    Version {
        /// The file's.
        found: i32,
        /// This crate's.
        known: i32,
    },
    /// The file is where other machines can open it too. Its locks and shared memory do not reach them. (Found on Linux
    /// only.)
    #[error(
        "the ledger's file is on a network file system ({kind}); put it on a local disk, or use a database server"
    )]
    NetworkFileSystem {
        /// As the operating system calls it.
        kind: String,
    },
    /// SQLite could not switch to a write-ahead log, as on file systems without shared memory.
    #[error(
        "the ledger's file system does not allow a write-ahead log; put the file on a local disk"
    )]
    NoWriteAheadLog,
    /// SQLite did not accept `synchronous = FULL`.
    #[error("SQLite does not make commits durable")]
    NotDurable,
    /// There is no word from the file.
    #[error(transparent)]
    Ledger(LedgerError),
}
