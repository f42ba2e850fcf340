//! The tables, and a connection on which they are there and every commit is durable.

use std::path::Path;
use std::time::{Duration, Instant};

use mrtr_state::Epoch;
use rusqlite::{Connection, OpenFlags, params};

use crate::fault::Fault;
use crate::guard::Guard;
use crate::{OpenError, file};

/// "MRTR": what the file says it is.
pub(crate) const APPLICATION_ID: i32 = 0x4d52_5452;

/// The version of the tables.
pub(crate) const VERSION: i32 = 2;

/// Rows are kept in the order in which they expire, so that inserts append and a purge is one range. An expiry, lease
/// or mark is milliseconds since the Unix epoch. The status is 0 owned, 1 released, 2 settled, 3 abandoned.
///
/// `tally` counts rows and bytes by the minute in which they expire, for each account and (under the empty one) for
/// all, so that limits are checked without counting rows.
pub(crate) const TABLES: &str = "
    CREATE TABLE ledger (
        only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
        epoch BLOB NOT NULL CHECK (length(epoch) = 16),
        rounds_mark INTEGER,
        steps_mark INTEGER
    ) STRICT;

    CREATE TABLE rounds (
        expiry INTEGER NOT NULL,
        hash BLOB NOT NULL CHECK (length(hash) = 32),
        fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32),
        account BLOB NOT NULL CHECK (length(account) = 32),
        token BLOB NOT NULL CHECK (length(token) = 16),
        status INTEGER NOT NULL CHECK (status BETWEEN 0 AND 3),
        lease INTEGER NOT NULL,
        outcome BLOB CHECK ((outcome IS NOT NULL) = (status = 2)),
        PRIMARY KEY (expiry, hash)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE steps (
        expiry INTEGER NOT NULL,
        hash BLOB NOT NULL CHECK (length(hash) = 32),
        fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32),
        account BLOB NOT NULL CHECK (length(account) = 32),
        token BLOB NOT NULL CHECK (length(token) = 16),
        status INTEGER NOT NULL CHECK (status BETWEEN 0 AND 3),
        lease INTEGER NOT NULL,
        outcome BLOB CHECK ((outcome IS NOT NULL) = (status = 2)),
        PRIMARY KEY (expiry, hash)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE tally (
        account BLOB NOT NULL CHECK (length(account) IN (0, 32)),
        bucket INTEGER NOT NULL,
        rows INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (account, bucket)
    ) STRICT, WITHOUT ROWID;

    CREATE INDEX tally_by_bucket ON tally (bucket);
";

/// What version 2 adds: notes, and rounds that were taken over. `again` says that something may have run under another
/// owner.
pub(crate) const TABLES_OF_2: &str = "
    ALTER TABLE ledger ADD COLUMN notes_mark INTEGER;

    ALTER TABLE rounds ADD COLUMN again INTEGER NOT NULL DEFAULT 0 CHECK (again IN (0, 1));

    CREATE TABLE notes (
        expiry INTEGER NOT NULL,
        hash BLOB NOT NULL CHECK (length(hash) = 32),
        fingerprint BLOB NOT NULL CHECK (length(fingerprint) = 32),
        account BLOB NOT NULL CHECK (length(account) = 32),
        value BLOB NOT NULL,
        PRIMARY KEY (expiry, hash)
    ) STRICT, WITHOUT ROWID;
";

/// Opens an existing file. Tables are made in it if it is empty, by one process of however many try at once.
pub(crate) fn connect(path: &Path, wait: Duration, guard: &Guard) -> Result<Connection, OpenError> {
    file::check(path)?;
    // No URI names, nothing created by SQLite (which would go by the umask), no symbolic link put there meanwhile.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(path, flags)?;
    // SQLite's own waiting sleeps up to 100 ms at a time, and some locks it does not wait for at all.
    connection.busy_timeout(Duration::ZERO)?;
    connection.set_prepared_statement_cache_capacity(64);

    let patience = Patience::new(wait);
    let found_version = patience.retry(|| {
        // One snapshot: between two of these questions another process may create the tables.
        let snapshot = connection.unchecked_transaction()?;
        found(&snapshot)
    })?;
    let journal: String = patience.retry(|| {
        Ok::<_, OpenError>(connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?)
    })?;
    if !journal.eq_ignore_ascii_case("wal") {
        return Err(OpenError::NoWriteAheadLog);
    }
    // The second line only says something on macOS, where fsync alone does not reach the disk.
    connection.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
         PRAGMA cell_size_check = ON;
         PRAGMA trusted_schema = OFF;
         PRAGMA journal_size_limit = 67108864;
         PRAGMA cache_size = -16384;",
    )?;
    let synchronous: i32 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0))?;
    if synchronous != 2 {
        return Err(OpenError::NotDurable);
    }
    if found_version < VERSION {
        patience.retry(|| bring_up_to_date(&mut connection))?;
    }
    guard.watch(&mut connection)?;
    Ok(connection)
}

/// The version of the tables that are there, asked inside a transaction; 0 says that the file is empty. Anything else is
/// refused before anything is written to it.
fn found(connection: &Connection) -> Result<i32, OpenError> {
    let application: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let version: i32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (application, version, tables) {
        (0, 0, 0) => Ok(0),
        (APPLICATION_ID, 1..=VERSION, 1..) => Ok(version),
        (APPLICATION_ID, found, _) if !(1..=VERSION).contains(&found) => Err(OpenError::Version {
            found,
            known: VERSION,
        }),
        _ => Err(OpenError::Foreign),
    }
}

/// Makes the tables, or adds what an older version did not have. Nothing that is there is lost.
fn bring_up_to_date(connection: &mut Connection) -> Result<(), OpenError> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Another process may have been first.
    let found = found(&transaction)?;
    if found < 1 {
        let epoch = Epoch::generate().map_err(|error| OpenError::Ledger(error.into()))?;
        transaction.execute_batch(TABLES)?;
        transaction.execute(
            "INSERT INTO ledger (only_row, epoch) VALUES (1, ?1)",
            params![epoch.as_bytes()],
        )?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    if found < 2 {
        transaction.execute_batch(TABLES_OF_2)?;
    }
    if found < VERSION {
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()?;
    Ok(())
}

/// How long to try again while others hold the lock. Monotonic: the host's clock may do what it likes.
pub(crate) struct Patience {
    until: Instant,
}

impl Patience {
    const SHORTEST: Duration = Duration::from_micros(200);
    const LONGEST: Duration = Duration::from_millis(4);

    pub(crate) fn new(wait: Duration) -> Self {
        let now = Instant::now();
        // A wait beyond what an instant can hold is for ever as far as a lock goes.
        Self {
            until: now
                .checked_add(wait)
                .unwrap_or(now + Duration::from_secs(86_400)),
        }
    }

    /// Repeats what only another's lock makes fail.
    pub(crate) fn retry<T, E>(&self, mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E>
    where
        E: IsBusy,
    {
        let mut pause = Self::SHORTEST;
        loop {
            match attempt() {
                Err(error) if error.is_busy() && Instant::now() < self.until => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Self::LONGEST);
                }
                result => return result,
            }
        }
    }
}

pub(crate) trait IsBusy {
    fn is_busy(&self) -> bool;
}

impl IsBusy for Fault {
    fn is_busy(&self) -> bool {
        matches!(self, Fault::Busy)
    }
}

impl IsBusy for OpenError {
    fn is_busy(&self) -> bool {
        matches!(self, OpenError::Ledger(mrtr_ledger::LedgerError::Busy))
    }
}
