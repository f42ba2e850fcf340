//! Moving what was committed from the log into the file, while commits go on.
//!
//! A *passive* checkpoint copies what it can without holding up anybody, so it has a thread and a connection of its own.
//! But as long as something is written meanwhile it never reaches the log's end, and only then can the log begin anew. So
//! when the log has become long and little of it is left to copy, the writer finishes it between two commits: that takes
//! the lock, and about as long as a commit.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;

use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

use crate::fault::Fault;

/// After how many pages of log some are copied: 1 MiB.
const SOME: u32 = 250;

/// From how many pages on the log begins anew as soon as little is left to copy: 4 MiB. While it grows, each commit writes
/// the log file's new length too; once it has begun anew there is room, and a commit is faster.
const LONG: u32 = 1_000;

/// How many are little.
const LITTLE: u32 = 125;

/// From how many pages on the writer does it however many are left, so that the log has an end where the thread cannot keep
/// up with the writes: 64 MiB.
const TOO_LONG: u32 = 16_384;

/// What the connection, the writer and the thread tell each other. Pages are counted from the log's beginning.
#[derive(Debug, Default)]
struct Marks {
    /// How long the log was after the last commit on the writer's connection.
    log: AtomicU32,
    /// How often it has begun anew since it was opened.
    turn: AtomicU32,
    /// In which turn the thread has copied how much: the first in the upper half, the second in the lower.
    copied: AtomicU64,
    /// The thread is at work, or is to be.
    busy: AtomicBool,
    ends: AtomicBool,
}

impl Marks {
    fn set_copied(&self, turn: u32, pages: u32) {
        let both = u64::from(turn) << 32 | u64::from(pages);
        self.copied.store(both, Ordering::Release);
    }

    /// What was copied in this turn.
    fn copied(&self, turn: u32) -> u32 {
        let both = self.copied.load(Ordering::Acquire);
        #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
        let (of, pages) = ((both >> 32) as u32, both as u32);
        if of == turn { pages } else { 0 }
    }
}

/// The writer's side.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    marks: Arc<Marks>,
    thread: Option<JoinHandle<()>>,
    /// How long the log was when it was last looked at.
    log: u32,
    /// From how long on finishing it is tried.
    next_try: u32,
}

impl Checkpoints {
    /// Takes over from SQLite, which would do it in the middle of a commit, and starts the thread. The connection must be
    /// on this file.
    pub(crate) fn start(connection: &mut Connection, path: &Path) -> Result<Self, Fault> {
        let marks = Arc::new(Marks::default());
        let of_hook = Arc::clone(&marks);
        // In the place of SQLite's own hook, which is the automatic checkpoint.
        connection.wal_hook(Some(move |_: &mut Wal, pages| {
            let pages = u32::try_from(pages).unwrap_or(0);
            of_hook.log.store(pages, Ordering::Relaxed);
            Ok(())
        }))?;
        let (of_thread, path) = (Arc::clone(&marks), path.to_owned());
        let thread = std::thread::Builder::new()
            .name("mrtr-ledger-log".to_owned())
            .spawn(move || run(&of_thread, &path))
            .map_err(|error| Fault::Other(Arc::new(error)))?;
        Ok(Self {
            marks,
            thread: Some(thread),
            log: 0,
            next_try: LONG,
        })
    }

    /// After a commit: sets the thread to work if there is enough to copy, and finishes the log if it is long.
    pub(crate) fn look(&mut self, connection: &Connection) {
        let log = self.marks.log.load(Ordering::Relaxed);
        if log < self.log {
            self.marks.turn.fetch_add(1, Ordering::Release);
            self.next_try = LONG;
        }
        self.log = log;
        if log < SOME || self.marks.busy.load(Ordering::Acquire) {
            return;
        }
        let turn = self.marks.turn.load(Ordering::Relaxed);
        let left = log.saturating_sub(self.marks.copied(turn));
        if left >= SOME
            && let Some(thread) = &self.thread
        {
            self.marks.busy.store(true, Ordering::Release);
            thread.thread().unpark();
        }
        if log >= self.next_try && (left <= LITTLE || log >= TOO_LONG) {
            // While somebody reads an old part of the log it cannot begin anew. It is tried again, but not at each commit.
            self.next_try = log.saturating_add(SOME);
            match checkpoint(connection, "PRAGMA wal_checkpoint(RESTART)") {
                Ok(done) => tracing::trace!(log, left, done.copied, "finished the log"),
                Err(fault) => tracing::debug!(%fault, "the log could not be finished"),
            }
        }
    }
}

#[cfg(test)]
impl Checkpoints {
    /// How long the log was when it was last looked at, in pages, and how often it has begun anew.
    pub(crate) fn pages_and_turn(&self) -> (u32, u32) {
        (self.log, self.marks.turn.load(Ordering::Relaxed))
    }

    /// Whether the thread has something to do.
    pub(crate) fn is_busy(&self) -> bool {
        self.marks.busy.load(Ordering::Acquire)
    }
}

impl Drop for Checkpoints {
    // Its connection is closed before the writer's: the last one to go puts everything into the file and removes the log.
    fn drop(&mut self) {
        self.marks.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            _ = thread.join();
        }
    }
}

fn run(marks: &Marks, path: &Path) {
    let mut connection = None;
    while !marks.ends.load(Ordering::Acquire) {
        if !marks.busy.load(Ordering::Acquire) {
            std::thread::park();
            continue;
        }
        let turn = marks.turn.load(Ordering::Acquire);
        match copy(&mut connection, path) {
            Ok(done) => marks.set_copied(turn, done.copied),
            // The writer's connection finds out by itself what is wrong with the file.
            Err(fault) => {
                tracing::debug!(%fault, "the log could not be copied");
                connection = None;
            }
        }
        marks.busy.store(false, Ordering::Release);
    }
}

fn copy(connection: &mut Option<Connection>, path: &Path) -> Result<Done, Fault> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(open(path)?),
    };
    checkpoint(connection, "PRAGMA wal_checkpoint(PASSIVE)")
}

/// A connection for checkpoints alone. They must be as durable as commits: the log is overwritten when they are done.
fn open(path: &Path) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(std::time::Duration::ZERO)?;
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
         PRAGMA wal_autocheckpoint = 0;",
    )?;
    Ok(connection)
}

struct Done {
    copied: u32,
}

fn checkpoint(connection: &Connection, sql: &'static str) -> Result<Done, Fault> {
    // Three columns: whether somebody was in the way, the log's length, and how much of it is in the file.
    let copied: i64 = connection
        .prepare_cached(sql)?
        .query_row([], |row| row.get(2))?;
    Ok(Done {
        copied: u32::try_from(copied).unwrap_or(0),
    })
}
