//! Looking at the file without holding up claims: on a thread and a read-only connection of its own.

mod stats;
mod verify;

use std::path::{Path, PathBuf};
use std::time::Duration;

use mrtr_ledger::{LedgerError, Rows};
use rusqlite::{Connection, OpenFlags, Transaction};
use tokio::sync::oneshot;

use crate::fault::Fault;
use crate::schema::Patience;

pub use stats::Stats;
pub(crate) use stats::stats;
pub(crate) use verify::verify;
pub use verify::{Finding, Verified};

/// Runs `look` on one snapshot of the file, and again if a lock was in the way.
pub(crate) async fn look<T: Send + 'static>(
    path: PathBuf,
    wait: Duration,
    look: impl Fn(&Transaction<'_>) -> Result<T, Fault> + Send + 'static,
) -> Result<T, LedgerError> {
    let (reply, answer) = oneshot::channel();
    std::thread::Builder::new()
        .name("mrtr-ledger-look".to_owned())
        .spawn(move || {
            let seen = Patience::new(wait).retry(|| {
                let connection = open(&path)?;
                look(&connection.unchecked_transaction()?)
            });
            _ = reply.send(seen.map_err(LedgerError::from));
        })
        .map_err(|error| LedgerError::Unavailable(Box::new(error)))?;
    answer.await.unwrap_or(Err(LedgerError::Closed))
}

fn open(path: &Path) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::ZERO)?;
    Ok(connection)
}

/// Counts rows.
pub(crate) fn rows(snapshot: &Transaction<'_>) -> Result<Rows, Fault> {
    let count = |sql| -> Result<(u64, u64), Fault> {
        let counted = snapshot.query_row(sql, [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        })?;
        Ok((counted.0.unsigned_abs(), counted.1.unsigned_abs()))
    };
    let mut rows = Rows::default();
    (rows.rounds, rows.settled_rounds) =
        count("SELECT count(*), count(*) FILTER (WHERE status = 2) FROM rounds")?;
    (rows.steps, rows.settled_steps) =
        count("SELECT count(*), count(*) FILTER (WHERE status = 2) FROM steps")?;
    (rows.notes, _) = count("SELECT count(*), 0 FROM notes")?;
    Ok(rows)
}
