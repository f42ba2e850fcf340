//! The book of expenses: a table in the ledger's file, beside the ledger's own.

use std::io;

use mrtr_ledger_sqlite::SqliteLedger;
use mrtr_ledger_sqlite::rusqlite::{self, Connection};

use crate::Expense;

/// Makes the table where there is none.
///
/// # Errors
///
/// Where the file cannot be written.
pub(crate) async fn open(ledger: &SqliteLedger) -> io::Result<()> {
    ledger
        .transact(|db| {
            db.execute_batch(
                "CREATE TABLE IF NOT EXISTS book (entry INTEGER PRIMARY KEY, amount REAL NOT NULL, memo TEXT NOT NULL CHECK (memo <> '')) STRICT",
            )
        })
        .await
        .map_err(io::Error::other)?
        .map_err(io::Error::other)
}

/// Writes an entry and returns its number. It runs inside the step's transaction: what it writes is there with the step's outcome or
/// not at all.
///
/// # Errors
///
/// SQLite's; nothing is written then.
pub(crate) fn append(db: &Connection, expense: &Expense) -> rusqlite::Result<i64> {
    db.execute(
        "INSERT INTO book (amount, memo) VALUES (?1, ?2)",
        (expense.amount, &expense.memo),
    )?;
    Ok(db.last_insert_rowid())
}

/// How many entries there are.
///
/// # Errors
///
/// SQLite's.
pub(crate) fn count(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("SELECT count(*) FROM book", [], |row| row.get(0))
}
