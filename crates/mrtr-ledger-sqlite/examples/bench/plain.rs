//! The other side: a table of the same row, and one insert a transaction.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use crate::Outcome;
use crate::load::Draw;

const TABLE: &str = "
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
";

/// A connection as somebody would open it who wants durable inserts and nothing else.
pub(crate) struct Plain {
    connection: Connection,
}

impl Plain {
    pub(crate) fn create(path: &Path) -> Outcome<Self> {
        let connection = Connection::open(path)?;
        let journal: String =
            connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        connection.execute_batch("PRAGMA synchronous = FULL")?;
        let synchronous: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0))?;
        if (journal.as_str(), synchronous) != ("wal", 2) {
            return Err("the plain connection is not as durable as the ledger's".into());
        }
        connection.execute_batch(TABLE)?;
        Ok(Self { connection })
    }

    /// Inserts until the time is over. The latency of each.
    pub(crate) fn run(&self, draw: &mut Draw, time: Duration) -> Outcome<Vec<Duration>> {
        let mut insert = self.connection.prepare(
            "INSERT INTO rounds (expiry, hash, fingerprint, account, token, status, lease)
             VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6)",
        )?;
        let mut took = Vec::new();
        let start = Instant::now();
        while start.elapsed() < time {
            let claim = draw.claim()?;
            let expiry = i64::try_from(claim.key.expiry.as_millis())?;
            let began = Instant::now();
            insert.execute(params![
                expiry,
                claim.key.hash,
                claim.fingerprint.as_bytes(),
                claim.account.as_bytes(),
                claim.token.as_bytes(),
                expiry
            ])?;
            took.push(began.elapsed());
        }
        Ok(took)
    }
}
