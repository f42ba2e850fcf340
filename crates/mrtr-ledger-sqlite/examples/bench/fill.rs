//! Rows by the million, past the ledger's own way, which would take an hour.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::Outcome;

/// How many rows are written in one transaction.
const CHUNK: u64 = 200_000;

/// Adds rounds whose expiries lie evenly between two times (milliseconds since the Unix epoch), in their order: half of
/// them settled with 200 bytes, half abandoned, of 5000 accounts. They are counted as the ledger counts.
pub(crate) fn fill(path: &Path, rows: u64, from: i64, to: i64) -> Outcome<()> {
    let connection = Connection::open(path)?;
    // Not durable, and not meant to be: what matters is that the rows are there.
    connection.execute_batch(
        "PRAGMA synchronous = OFF; PRAGMA cache_size = -200000; PRAGMA temp_store = MEMORY;",
    )?;
    let mut done = 0;
    while done < rows {
        let next = rows.min(done + CHUNK);
        connection
            .prepare_cached(
                "WITH RECURSIVE number(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM number WHERE i + 1 < ?2)
                 INSERT INTO rounds (expiry, hash, fingerprint, account, token, status, lease, outcome)
                 SELECT ?3 + i * (?4 - ?3) / ?5, randomblob(32), randomblob(32),
                        CAST(printf('%032d', i % 5000) AS BLOB), randomblob(16),
                        2 + i % 2, 0, iif(i % 2 = 0, randomblob(200), NULL)
                 FROM number",
            )?
            .execute(params![
                i64::try_from(done)?,
                i64::try_from(next)?,
                from,
                to,
                i64::try_from(rows)?
            ])?;
        done = next;
        if done % 2_000_000 == 0 {
            eprintln!("  {done} of {rows} rows are there");
        }
    }
    for account in ["account", "x''"] {
        connection.execute(
            &format!(
                "INSERT INTO tally (account, bucket, rows, bytes)
                 SELECT {account}, expiry / 60000, count(*), coalesce(sum(length(outcome)), 0) FROM rounds
                 WHERE expiry BETWEEN ?1 AND ?2 GROUP BY 1, 2
                 ON CONFLICT (account, bucket) DO UPDATE SET rows = rows + excluded.rows, bytes = bytes + excluded.bytes"
            ),
            params![from, to],
        )?;
    }
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    // What was written without a sync is written now, and not while something is measured.
    std::fs::File::open(path)?.sync_all()?;
    Ok(())
}
