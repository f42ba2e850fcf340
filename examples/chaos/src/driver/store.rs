//! What the driver does to the ledger under all servers, past all of them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mrtr_ledger::{Ledger, Rows};
use mrtr_ledger_sqlite::SqliteLedger;
use rusqlite::Connection;
use tokio::time::sleep;

use crate::driver::Failure;
use crate::history::{Recorder, What};
use crate::server::sqlite_file;
use crate::trace;

/// The ledger of a run.
#[derive(Debug)]
pub(crate) struct Store {
    file: PathBuf,
    ledger: SqliteLedger,
}

impl Store {
    /// Creates it.
    pub(crate) fn create(folder: &Path) -> Result<Self, Failure> {
        let file = sqlite_file(folder);
        let ledger = SqliteLedger::builder(&file)
            // Nobody holds the file for longer than a fault lasts.
            .wait(Duration::from_secs(20))
            .open()?;
        Ok(Self { file, ledger })
    }

    pub(crate) async fn rotate(&self, seen: &Recorder) -> Result<(), Failure> {
        let from = trace::now();
        self.ledger.rotate_epoch().await?;
        seen.incident(What::Rotated, from);
        Ok(())
    }

    /// Holds the lock for a while.
    pub(crate) async fn silence(&self, lasts: Duration, seen: &Recorder) -> Result<(), Failure> {
        let file = self.file.clone();
        let from = trace::now();
        let lock = tokio::task::spawn_blocking(move || {
            let connection = Connection::open(file)?;
            connection.busy_timeout(Duration::from_secs(20))?;
            connection.execute_batch("BEGIN IMMEDIATE")?;
            Ok::<_, rusqlite::Error>(connection)
        })
        .await??;
        sleep(lasts).await;
        lock.execute_batch("ROLLBACK")?;
        seen.incident(What::Silenced, from);
        Ok(())
    }

    /// What is left in it.
    pub(crate) async fn rows(&self) -> Result<Rows, Failure> {
        Ok(self.ledger.rows().await?)
    }
}
