//! What is in the file, in numbers.

use std::path::Path;
use std::time::Duration;

use mrtr_ledger::KindStats;
use mrtr_state::{Epoch, Timestamp};
use rusqlite::{OptionalExtension as _, Transaction, params};

use crate::books::{int, time};
use crate::fault::Fault;
use crate::file;

/// What a ledger's file holds, for operators. Made by [`SqliteLedger::stats`](crate::SqliteLedger::stats).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Rounds: sealed states that were answered.
    pub rounds: KindStats,
    /// Steps: effects.
    pub steps: KindStats,
    /// Notes, which count as settled.
    pub notes: KindStats,
    /// Accounts with rows that count towards their limits.
    pub accounts: u64,
    /// The beginning of the epoch's text: enough to tell two apart, and no more than logs may have.
    pub epoch: String,
    /// The size of the file, in bytes, pages that are free for new rows included.
    pub file_bytes: u64,
    /// The size of the write-ahead log, in bytes. It is kept and written over.
    pub log_bytes: u64,
}

pub(crate) fn stats(
    snapshot: &Transaction<'_>,
    path: &Path,
    now: Timestamp,
    retention: Duration,
) -> Result<Stats, Fault> {
    let (epoch, marks) = snapshot
        .query_row(
            "SELECT epoch, rounds_mark, steps_mark, notes_mark FROM ledger",
            [],
            |row| {
                let marks: [Option<i64>; 3] = [row.get(1)?, row.get(2)?, row.get(3)?];
                Ok((Epoch::from_bytes(row.get(0)?), marks))
            },
        )
        .optional()?
        .ok_or(Fault::Corrupt)?;
    let retention = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
    let kind = |sql: &str, mark: Option<i64>| -> Result<KindStats, Fault> {
        let counted = snapshot.query_row(sql, params![int(now), retention], |row| {
            let number = |at: usize| row.get::<_, i64>(at).map(i64::unsigned_abs);
            Ok(KindStats {
                rows: number(0)?,
                unexpired: number(1)?,
                removable: number(2)?,
                running: number(3)?,
                lapsed: number(4)?,
                released: number(5)?,
                settled: number(6)?,
                abandoned: number(7)?,
                bytes: number(8)?,
                oldest_expiry: row.get::<_, Option<i64>>(9)?.map(time),
                newest_expiry: row.get::<_, Option<i64>>(10)?.map(time),
                mark: mark.map(time),
            })
        })?;
        Ok(counted)
    };
    let [of_rounds, of_steps, of_notes] = marks;
    Ok(Stats {
        rounds: kind(&counts("rounds", "status", "lease", "outcome"), of_rounds)?,
        steps: kind(&counts("steps", "status", "lease", "outcome"), of_steps)?,
        notes: kind(&counts("notes", "2", "0", "value"), of_notes)?,
        accounts: snapshot
            .query_row(
                "SELECT count(DISTINCT account) FROM tally WHERE account <> x'' AND bucket >= (?1 + 1) / 60000",
                [int(now)],
                |row| row.get::<_, i64>(0),
            )?
            .unsigned_abs(),
        epoch: epoch.to_text().chars().take(8).collect(),
        file_bytes: size(path),
        log_bytes: size(&file::beside(path, "-wal")),
    })
}

/// The names are this file's own.
fn counts(table: &str, status: &str, lease: &str, outcome: &str) -> String {
    let is = |number: u8| format!("count(*) FILTER (WHERE {status} = {number})");
    let leased = format!("{status} = 0 AND {lease} > ?1");
    format!(
        "SELECT count(*), count(*) FILTER (WHERE ?1 < expiry),
                count(*) FILTER (WHERE expiry < ?1 - ?2 AND NOT ({leased})),
                count(*) FILTER (WHERE {leased}),
                count(*) FILTER (WHERE {status} = 0 AND {lease} <= ?1),
                {}, {}, {}, coalesce(sum(length({outcome})), 0), min(expiry), max(expiry) FROM {table}",
        is(1),
        is(2),
        is(3)
    )
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}
