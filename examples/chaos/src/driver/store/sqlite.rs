//! A file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mrtr_ledger_sqlite::SqliteLedger;
use rusqlite::Connection;
use tokio::time::sleep;

use super::PATIENCE;
use crate::driver::Failure;
use crate::server::shelf::COLUMNS;
use crate::trace::Effect;

#[derive(Debug)]
pub(crate) struct Sqlite {
    file: PathBuf,
    pub(super) ledger: SqliteLedger,
}

impl Sqlite {
    pub(super) async fn create(file: &Path, table: &str) -> Result<Self, Failure> {
        let ledger = SqliteLedger::builder(file).wait(PATIENCE).open()?;
        let create = format!("CREATE TABLE {table} {COLUMNS}");
        ledger
            .transact(move |db| db.execute_batch(&create))
            .await??;
        Ok(Self {
            file: file.to_owned(),
            ledger,
        })
    }

    /// What steps have written.
    pub(super) async fn booked(&self, table: &str) -> Result<Vec<Effect>, Failure> {
        let (file, query) = (self.file.clone(), format!("SELECT * FROM {table}"));
        let effects = tokio::task::spawn_blocking(move || {
            let connection = Connection::open(file)?;
            let mut query = connection.prepare(&query)?;
            let rows = query.query_map([], |row| {
                Ok(Effect {
                    flow: row.get::<_, i64>(0)?.cast_unsigned(),
                    step: row.get(1)?,
                    entry: row.get(2)?,
                    pick: row.get(3)?,
                    price: row.get(4)?,
                    at: row.get::<_, i64>(5)?.cast_unsigned(),
                })
            })?;
            rows.collect::<Result<Vec<_>, rusqlite::Error>>()
        });
        Ok(effects.await??)
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
