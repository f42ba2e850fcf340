//! Whether the tables are what a ledger would have written.

use std::fmt;

use mrtr_state::Timestamp;

use crate::books::{Books, Result};
use crate::columns::{int, time, unsigned};

/// How many findings of one sort are listed one by one.
const LISTED: usize = 20;

/// What came of [`PostgresLedger::verify`](crate::PostgresLedger::verify).
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
    /// A table or index is missing, or not as this version makes it; or something was added to one.
    Form {
        /// Its name.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The row of epoch and marks is missing.
    NoHead,
    /// A mark that no purge can have raised at this time: the clock was ahead once, or is behind now.
    MarkAhead {
        /// Whose mark.
        kind: &'static str,
        /// The mark.
        mark: Timestamp,
        /// What a purge may remove at most now.
        purged_until: Timestamp,
    },
    /// An account uses more than was counted, so that it can exceed its limit.
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
            Self::Form { name, what } => write!(
                f,
                "`{name}` {what}. Another program, or a person, has changed the ledger's tables: restore them"
            ),
            Self::NoHead => f.write_str(
                "`ledger` has no row, and must have one with epoch and marks. Restore the schema, then rotate the epoch",
            ),
            Self::MarkAhead { kind, mark, purged_until } => write!(
                f,
                "the mark of {kind} is {} s ahead of what a purge may remove now. The clock was ahead, or is behind: what \
                 expires until then is refused, and nothing else is wrong",
                mark.saturating_since(*purged_until).as_secs()
            ),
            Self::Count { account, minute, counted, there } => {
                let account = match account.as_str() {
                    "" => "all accounts together".to_owned(),
                    account => format!("account {account}.."),
                };
                write!(
                    f,
                    "{account}: of what expires in minute {minute}, {} rows and {} bytes were counted and {} rows and {} bytes \
                     are there. The account can exceed its limit until that minute is over",
                    counted.0, counted.1, there.0, there.1
                )
            }
            Self::More(number) => write!(f, "and {number} more of that sort"),
        }
    }
}

/// The columns that this version makes, with their types; a `!` says that there is always a value.
const COLUMNS: &[(&str, &str)] = &[
    ("gate", "nothing boolean"),
    (
        "ledger",
        "epoch bytea!, home text, notes_mark bigint, only_row boolean!, rounds_mark bigint, steps_mark bigint, version integer!",
    ),
    (
        "rows",
        "account bytea!, again boolean!, expiry bigint!, fingerprint bytea!, hash bytea!, kind smallint!, lease bigint!, \
         outcome bytea, status smallint!, token bytea!",
    ),
    (
        "tally",
        "account bytea!, bucket bigint!, bytes bigint!, lane integer!, rows bigint!",
    ),
];

/// What each table must be unique by, or be found by, as PostgreSQL describes the index.
const INDEXES: &[(&str, &str)] = &[
    ("rows", "UNIQUE btree (kind, expiry, hash)"),
    ("tally", "UNIQUE btree (account, bucket, lane)"),
    ("ledger", "UNIQUE btree (only_row)"),
    ("tally", "btree (bucket)"),
];

impl Books<'_> {
    pub(super) async fn verify(&self) -> Result<Verified> {
        let mut verified = Verified::default();
        self.forms(&mut verified.findings).await?;
        // What does not have its form cannot be read any further.
        if !verified.findings.is_empty() {
            return Ok(verified);
        }
        self.marks(&mut verified.findings).await?;
        self.recount(&mut verified.findings).await?;
        let rows = self
            .client
            .query_one(&self.named("SELECT count(*) FROM {s}.rows"), &[])
            .await?;
        verified.rows = unsigned(rows.try_get(0)?);
        Ok(verified)
    }

    async fn forms(&self, findings: &mut Vec<Finding>) -> Result<()> {
        let schema = self.manner.texts.schema();
        let mut find = |name: &str, what| {
            let name = name.to_owned();
            findings.push(Finding::Form { name, what });
        };
        let columns = "
            SELECT coalesce(string_agg(attname || ' ' || format_type(atttypid, NULL) || CASE WHEN attnotnull THEN '!' ELSE '' END,
                ', ' ORDER BY attname), '')
            FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE '\"' || nspname || '\"' = $1 AND relname = $2 AND attnum > 0 AND NOT attisdropped";
        for (table, ours) in COLUMNS {
            let theirs = self.client.query_one(columns, &[&schema, table]).await?;
            match theirs.try_get::<_, &str>(0)? {
                "" => find(table, "is missing"),
                theirs if theirs != *ours => {
                    find(table, "does not have the columns that this version makes")
                }
                _ => {}
            }
        }
        // An index that is not valid lets the same row in twice.
        let indexes = "
            SELECT count(*) FROM pg_index
                JOIN pg_class ON pg_class.oid = indrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE '\"' || nspname || '\"' = $1 AND relname = $2 AND indisvalid AND indpred IS NULL
                AND CASE WHEN indisunique THEN 'UNIQUE ' ELSE '' END
                    || substring(pg_get_indexdef(indexrelid) FROM 'USING (.*)$') = $3";
        for (table, ours) in INDEXES {
            let found = self
                .client
                .query_one(indexes, &[&schema, table, ours])
                .await?;
            if found.try_get::<_, i64>(0)? == 0 {
                find(table, "lacks an index, or has one that is not valid");
            }
        }
        let added = "
            SELECT relname::text, 'trigger' FROM pg_trigger
                JOIN pg_class ON pg_class.oid = tgrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE '\"' || nspname || '\"' = $1 AND relname IN ('gate', 'ledger', 'rows', 'tally') AND NOT tgisinternal
            UNION ALL SELECT relname::text, 'rule' FROM pg_rewrite
                JOIN pg_class ON pg_class.oid = ev_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE '\"' || nspname || '\"' = $1 AND relname IN ('gate', 'ledger', 'rows', 'tally')
            UNION ALL SELECT relname::text, 'reference' FROM pg_constraint
                JOIN pg_class ON pg_class.oid = confrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE '\"' || nspname || '\"' = $1 AND relname IN ('gate', 'ledger', 'rows', 'tally')
            UNION ALL SELECT relname::text, 'policy' FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE '\"' || nspname || '\"' = $1 AND relname IN ('gate', 'ledger', 'rows', 'tally') AND relrowsecurity";
        for row in self.client.query(added, &[&schema]).await? {
            let what = match row.try_get::<_, &str>(1)? {
                "trigger" => "has a trigger",
                "rule" => "has a rule",
                "reference" => {
                    "is referred to by another table, which keeps rows from being purged"
                }
                _ => "hides rows by a policy",
            };
            find(row.try_get(0)?, what);
        }
        Ok(())
    }

    async fn marks(&self, findings: &mut Vec<Finding>) -> Result<()> {
        let purged_until = int(self.moment().await?.now).saturating_sub(self.policy.retention());
        let marks = self.named("SELECT rounds_mark, steps_mark, notes_mark FROM {s}.ledger");
        let Some(marks) = self.client.query_opt(&marks, &[]).await? else {
            findings.push(Finding::NoHead);
            return Ok(());
        };
        for (at, kind) in ["rounds", "steps", "notes"].into_iter().enumerate() {
            let mark: Option<i64> = marks.try_get(at)?;
            if let Some(mark) = mark.filter(|mark| *mark >= purged_until) {
                let (mark, purged_until) = (time(mark), time(purged_until));
                findings.push(Finding::MarkAhead {
                    kind,
                    mark,
                    purged_until,
                });
            }
        }
        Ok(())
    }

    /// Counts again. More than is there may have been counted, of rows that were removed since; less lets an account
    /// exceed its limit.
    async fn recount(&self, findings: &mut Vec<Finding>) -> Result<()> {
        let recount = self.named(
            "WITH there AS (
                SELECT account, expiry / 60000 AS bucket, count(*) AS rows, coalesce(sum(octet_length(outcome)), 0) AS bytes
                FROM {s}.rows GROUP BY 1, 2
                UNION ALL SELECT ''::bytea, expiry / 60000, count(*), coalesce(sum(octet_length(outcome)), 0)
                FROM {s}.rows GROUP BY 2
            ), counted AS (
                SELECT account, bucket, sum(rows) AS rows, sum(bytes) AS bytes FROM {s}.tally GROUP BY 1, 2
            )
            SELECT encode(substring(account FROM 1 FOR 4), 'hex'), bucket,
                coalesce(counted.rows, 0)::bigint, coalesce(counted.bytes, 0)::bigint,
                coalesce(there.rows, 0)::bigint, coalesce(there.bytes, 0)::bigint
            FROM there LEFT JOIN counted USING (account, bucket)
            WHERE coalesce(counted.rows, 0) < there.rows OR coalesce(counted.bytes, 0) < there.bytes
            ORDER BY bucket, account",
        );
        let rows = self.client.query(&recount, &[]).await?;
        for row in rows.iter().take(LISTED) {
            let number = |at: usize| row.try_get::<_, i64>(at).map(unsigned);
            findings.push(Finding::Count {
                account: row.try_get(0)?,
                minute: number(1)?,
                counted: (number(2)?, number(3)?),
                there: (number(4)?, number(5)?),
            });
        }
        if rows.len() > LISTED {
            findings.push(Finding::More((rows.len() - LISTED) as u64));
        }
        Ok(())
    }
}
