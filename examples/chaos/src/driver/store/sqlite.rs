//! A file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mrtr_ledger_sqlite::SqliteLedger;
use rusqlite::Connection;
use tokio::time::sleep;

use super::PATIENCE;
use crate::driver::Failure;

#[derive(Debug)]
pub(crate) struct Sqlite {
    file: PathBuf,
    pub(super) ledger: SqliteLedger,
}

impl Sqlite {
    pub(super) fn create(file: &Path) -> Result<Self, Failure> {
        let ledger = SqliteLedger::builder(file).wait(PATIENCE).open()?;
        Ok(Self {
            file: file.to_owned(),
            ledger,
        })
    }

    /// Holds the lock of writers.
    pub(super) async fn hold(&self, lasts: Duration) -> Result<(), Failure> {
        let file = self.file.clone();
        let lock = tokio::task::spawn_blocking(move || {
            let connection = Connection::open(file)?;
            connection.busy_timeout(PATIENCE)?;
            connection.execute_batch("BEGIN IMMEDIATE")?;
            Ok::<_, rusqlite::Error>(connection)
        })
        .await??;
        sleep(lasts).await;
        Ok(lock.execute_batch("ROLLBACK")?)
    }
}
