//! Effects in the ledger's own database: a table beside the ledger's, written in a step's transaction.

use mrtr_ledger::TransactionalLedger;
use mrtr_ledger_postgres::{PostgresLedger, tokio_postgres};
use mrtr_ledger_sqlite::SqliteLedger;
use rusqlite::params;

use crate::trace::Effect;

/// What is to be written, and into which table.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) table: String,
    pub(crate) effect: Effect,
}

/// A ledger in whose transactions effects can be written.
pub(crate) trait Shelf: TransactionalLedger {
    /// Why one could not be.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Writes an effect, and returns its name.
    fn write<'t>(tx: &'t Self::Tx<'t>, entry: Entry)
    -> Self::Work<'t, Result<String, Self::Error>>;
}

/// The table's columns. No two rows are kept from being the same: that is the ledger's business.
pub(crate) const COLUMNS: &str = "(flow bigint NOT NULL, step text NOT NULL, entry text NOT NULL, pick bigint, price bigint, at bigint NOT NULL)";

impl Shelf for SqliteLedger {
    type Error = rusqlite::Error;

    fn write<'t>(
        tx: &'t Self::Tx<'t>,
        Entry { table, effect }: Entry,
    ) -> Result<String, rusqlite::Error> {
        let insert = format!("INSERT INTO {table} VALUES (?1, ?2, ?3, ?4, ?5, ?6)");
        tx.execute(
            &insert,
            params![
                effect.flow.cast_signed(),
                effect.step,
                effect.entry,
                effect.pick,
                effect.price,
                effect.at.cast_signed(),
            ],
        )?;
        Ok(effect.entry)
    }
}

impl Shelf for PostgresLedger {
    type Error = tokio_postgres::Error;

    fn write<'t>(
        tx: &'t Self::Tx<'t>,
        Entry { table, effect }: Entry,
    ) -> Self::Work<'t, Result<String, tokio_postgres::Error>> {
        Box::pin(async move {
            let insert = format!("INSERT INTO {table} VALUES ($1, $2, $3, $4, $5, $6)");
            let (flow, at) = (effect.flow.cast_signed(), effect.at.cast_signed());
            let (pick, price) = (effect.pick.map(i64::from), effect.price.map(i64::from));
            tx.execute(
                &insert,
                &[&flow, &effect.step, &effect.entry, &pick, &price, &at],
            )
            .await?;
            Ok(effect.entry)
        })
    }
}
