//! Whether the file is what a ledger would have written.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use mrtr_state::Timestamp;
use rusqlite::{Connection, Transaction, params};

use crate::books::{int, time};
use crate::fault::Fault;
use crate::{guard, schema};

/// How many findings of one sort are listed one by one.
const LISTED: usize = 20;

/// What came of [`SqliteLedger::verify`](crate::SqliteLedger::verify).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// What is wrong. Empty: nothing was found.
    pub findings: Vec<Finding>,
    /// How many rows were looked at.
    pub rows: u64,
}

impl Verified {
    /// Whether nothing was found.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Something that a ledger would not have written. It prints in plain words, with what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// SQLite finds the file damaged. In its words.
    Damaged(String),
    /// A table or index is missing, or not as this version makes it; or something was added to one.
    Form {
        /// Its name.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A foreign key of another table holds the ledger's rows in place.
    Reference,
    /// The row of epoch and marks is missing, or there are several.
    Heads(u64),
    /// Notes that expire before the mark, and must have been removed with the others.
    BelowTheMark(u64),
    /// A mark that no purge can have raised at this time: the clock was ahead once, or is behind now.
    MarkAhead {
        /// Whose mark.
        table: &'static str,
        /// The mark.
        mark: Timestamp,
        /// What a purge may remove at most now.
        purged_until: Timestamp,
    },
    /// What an account uses is not what was counted, so that its limit is kept wrongly.
    Count {
        /// The beginning of the account's hash in hexadecimal; empty for all accounts together.
        account: String,
        /// The minute in which the rows expire, since the Unix epoch.
        minute: u64,
        /// Rows and bytes as they were counted.
        counted: (u64, u64),
        /// Rows and bytes that are there.
        there: (u64, u64),
    },
    /// So many more of the last sort.
    More(u64),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(what) => write!(
                f,
                "SQLite finds the file damaged: {what}. Restore it from a backup, then rotate the epoch"
            ),
            Self::Form { name, what } => write!(
                f,
                "`{name}` {what}. Another program, or a person, has changed the ledger's tables: restore them"
            ),
            Self::Reference => f.write_str(
                "a table has a foreign key to one of the ledger's, which keeps rows from being purged. Make it anew without",
            ),
            Self::Heads(rows) => write!(
                f,
                "`ledger` has {rows} rows, and must have one with epoch and marks. Restore the file, then rotate the epoch"
            ),
            Self::BelowTheMark(rows) => write!(
                f,
                "{rows} notes expire before the mark up to which notes were removed. Rows were put back by hand: rotate the epoch"
            ),
            Self::MarkAhead {
                table,
                mark,
                purged_until,
            } => write!(
                f,
                "the mark of `{table}` is {} s ahead of what a purge may remove now. The clock was ahead, or is behind: \
                 what expires until then is refused, and nothing else is wrong",
                mark.saturating_since(*purged_until).as_secs()
            ),
            Self::Count {
                account,
                minute,
                counted,
                there,
            } => {
                let account = match account.as_str() {
                    "" => "all accounts together".to_owned(),
                    account => format!("account {account}.."),
                };
                write!(
                    f,
                    "{account}: of what expires in minute {minute}, {} rows and {} bytes were counted and {} rows and {} bytes \
                     are there. Limits are kept wrongly until that minute is over",
                    counted.0, counted.1, there.0, there.1
                )
            }
            Self::More(number) => write!(f, "and {number} more of that sort"),
        }
    }
}

pub(crate) fn verify(
    snapshot: &Transaction<'_>,
    now: Timestamp,
    retention: Duration,
) -> Result<Verified, Fault> {
    let mut verified = Verified::default();
    let findings = &mut verified.findings;
    damage(snapshot, findings)?;
    forms(snapshot, findings)?;
    // What does not have its form cannot be read any further.
    if !findings.is_empty() {
        return Ok(verified);
    }
    if guard::references(snapshot)? {
        findings.push(Finding::Reference);
    }
    marks(snapshot, now, retention, findings)?;
    counts(snapshot, now, findings)?;
    verified.rows = snapshot
        .query_row(
            "SELECT (SELECT count(*) FROM rounds) + (SELECT count(*) FROM steps) + (SELECT count(*) FROM notes)",
            [],
            |row| row.get::<_, i64>(0),
        )?
        .unsigned_abs();
    Ok(verified)
}

fn damage(snapshot: &Transaction<'_>, findings: &mut Vec<Finding>) -> Result<(), Fault> {
    let mut check = snapshot.prepare("PRAGMA integrity_check(20)")?;
    let mut lines = check.query([])?;
    // Where a page cannot even be read there is an error, and no line.
    loop {
        match lines.next() {
            Ok(None) => return Ok(()),
            Ok(Some(line)) => {
                let line: String = line.get(0)?;
                if line != "ok" {
                    findings.push(Finding::Damaged(line));
                }
            }
            Err(error) => match Fault::from(error) {
                fault @ Fault::Corrupt => {
                    findings.push(Finding::Damaged(fault.to_string()));
                    return Ok(());
                }
                fault => return Err(fault),
            },
        }
    }
}

/// Holds the tables against those of a ledger that is made here and now.
fn forms(snapshot: &Transaction<'_>, findings: &mut Vec<Finding>) -> Result<(), Fault> {
    let fresh = Connection::open_in_memory()?;
    fresh.execute_batch(schema::TABLES)?;
    fresh.execute_batch(schema::TABLES_OF_2)?;
    let (ours, theirs) = (objects(&fresh)?, objects(snapshot)?);
    let mut find = |name: &str, what| {
        let name = name.to_owned();
        findings.push(Finding::Form { name, what });
    };
    for (name, object) in &ours {
        match theirs.get(name) {
            None => find(name, "is missing"),
            Some(other) if other != object => find(name, "is not as this version makes it"),
            Some(_) => {}
        }
    }
    for (name, object) in &theirs {
        let is_on_ours = ours.values().any(|our| our.table == object.table);
        if is_on_ours && !ours.contains_key(name) {
            find(name, "was added to one of the ledger's tables");
        }
    }
    let number = |pragma| snapshot.query_row(pragma, [], |row| row.get::<_, i32>(0));
    if number("PRAGMA application_id")? != schema::APPLICATION_ID
        || number("PRAGMA user_version")? != schema::VERSION
    {
        find("user_version", "does not say that this is a ledger");
    }
    Ok(())
}

#[derive(PartialEq, Eq)]
struct Object {
    table: String,
    sql: Option<String>,
}

fn objects(connection: &Connection) -> Result<BTreeMap<String, Object>, Fault> {
    let mut select = connection.prepare("SELECT name, tbl_name, sql FROM sqlite_schema")?;
    let objects = select.query_map([], |row| {
        let (table, sql) = (row.get(1)?, row.get(2)?);
        Ok((row.get(0)?, Object { table, sql }))
    })?;
    Ok(objects.collect::<Result<_, _>>()?)
}

fn marks(
    snapshot: &Transaction<'_>,
    now: Timestamp,
    retention: Duration,
    findings: &mut Vec<Finding>,
) -> Result<(), Fault> {
    let heads: i64 = snapshot.query_row("SELECT count(*) FROM ledger", [], |row| row.get(0))?;
    if heads != 1 {
        findings.push(Finding::Heads(heads.unsigned_abs()));
        return Ok(());
    }
    let retention = u64::try_from(retention.as_millis()).unwrap_or(u64::MAX);
    let purged_until = Timestamp::from_millis(now.as_millis().saturating_sub(retention));
    for (table, sql) in [
        ("rounds", "SELECT rounds_mark FROM ledger"),
        ("steps", "SELECT steps_mark FROM ledger"),
        ("notes", "SELECT notes_mark FROM ledger"),
    ] {
        let mark: Option<i64> = snapshot.query_row(sql, [], |row| row.get(0))?;
        if let Some(mark) = mark.map(time).filter(|mark| *mark >= purged_until) {
            findings.push(Finding::MarkAhead {
                table,
                mark,
                purged_until,
            });
        }
    }
    // A note has no lease that could have kept it; rounds and steps may have had one. At the mark there may be some: a
    // portion ends where it ends, among rows that expire in the same millisecond.
    let below: i64 = snapshot.query_row(
        "SELECT count(*) FROM notes WHERE expiry < (SELECT notes_mark FROM ledger)",
        [],
        |row| row.get(0),
    )?;
    if below > 0 {
        findings.push(Finding::BelowTheMark(below.unsigned_abs()));
    }
    Ok(())
}

/// Counts again. Where rows were removed (which a rotation forgets) more was counted than is there, as it should be: up to the
/// marks, and up to now.
fn counts(
    snapshot: &Transaction<'_>,
    now: Timestamp,
    findings: &mut Vec<Finding>,
) -> Result<(), Fault> {
    let mut recount = snapshot.prepare(
        "WITH
         row (account, bucket, bytes) AS (
            SELECT account, expiry / 60000, coalesce(length(outcome), 0) FROM rounds
            UNION ALL SELECT account, expiry / 60000, coalesce(length(outcome), 0) FROM steps
            UNION ALL SELECT account, expiry / 60000, length(value) FROM notes),
         there (account, bucket, rows, bytes) AS (
            SELECT account, bucket, count(*), sum(bytes) FROM row GROUP BY account, bucket
            UNION ALL SELECT x'', bucket, count(*), sum(bytes) FROM row GROUP BY bucket),
         removed (bucket) AS (
            SELECT max(coalesce(rounds_mark, 0), coalesce(steps_mark, 0), coalesce(notes_mark, 0), ?2) / 60000 FROM ledger)
         SELECT account, bucket, coalesce(tally.rows, 0), coalesce(tally.bytes, 0),
                coalesce(there.rows, 0), coalesce(there.bytes, 0)
         FROM tally FULL JOIN there USING (account, bucket)
         WHERE CASE WHEN bucket > (SELECT bucket FROM removed)
               THEN (tally.rows, tally.bytes) IS NOT (there.rows, there.bytes)
               ELSE tally.rows < there.rows OR tally.bytes < there.bytes END
           AND bucket < ?1
         ORDER BY bucket, account",
    )?;
    // Where times end they were rounded, each in its own way.
    let end = int(Timestamp::MAX) / 60_000;
    let mut rows = recount.query(params![end, int(now)])?;
    let mut found = 0_u64;
    while let Some(row) = rows.next()? {
        found += 1;
        if found > LISTED as u64 {
            continue;
        }
        let number =
            |at: usize| -> Result<u64, Fault> { Ok(row.get::<_, i64>(at)?.unsigned_abs()) };
        let account: Vec<u8> = row.get(0)?;
        findings.push(Finding::Count {
            account: account
                .iter()
                .take(4)
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            minute: number(1)?,
            counted: (number(2)?, number(3)?),
            there: (number(4)?, number(5)?),
        });
    }
    if found > LISTED as u64 {
        findings.push(Finding::More(found - LISTED as u64));
    }
    Ok(())
}
