//! What the tables hold, in numbers.

use mrtr_ledger::KindStats;
use mrtr_state::Epoch;

use crate::books::{Books, Result};
use crate::columns::{bytes, int, time, unsigned};
use crate::fault::Fault;

/// What a ledger's tables hold, for operators. Made by [`PostgresLedger::stats`](crate::PostgresLedger::stats).
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
    /// The server that the ledger is on, and its timeline, as far as the server tells.
    pub home: Option<String>,
    /// The size of the tables and their indexes, in bytes, space that is free for new rows included.
    pub table_bytes: u64,
}

const COUNTS: &str = "
    SELECT kind, count(*), count(*) FILTER (WHERE $1 < expiry),
        count(*) FILTER (WHERE expiry < $2 AND NOT (status = 0 AND lease > $1)),
        count(*) FILTER (WHERE status = 0 AND lease > $1), count(*) FILTER (WHERE status = 0 AND lease <= $1),
        count(*) FILTER (WHERE status = 1), count(*) FILTER (WHERE status = 2), count(*) FILTER (WHERE status = 3),
        coalesce(sum(octet_length(outcome)), 0)::bigint, min(expiry), max(expiry)
    FROM {s}.rows GROUP BY kind";

const SIZE: &str = "
    SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0)::bigint
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'p') AND '\"' || nspname || '\"' = $1 AND relname IN ('ledger', 'rows', 'tally', 'gate')";

impl Books<'_> {
    pub(super) async fn stats(&self) -> Result<Stats> {
        let now = int(self.moment().await?.now);
        let old = now.saturating_sub(self.policy.retention());
        let head =
            self.named("SELECT epoch, home, rounds_mark, steps_mark, notes_mark FROM {s}.ledger");
        let head = self
            .client
            .query_opt(&head, &[])
            .await?
            .ok_or(Fault::Corrupt)?;
        let accounts = self.named(
            "SELECT count(DISTINCT account) FROM {s}.tally WHERE account <> ''::bytea AND bucket >= ($1::bigint + 1) / 60000",
        );
        let accounts = self.client.query_one(&accounts, &[&now]).await?;
        let size = self
            .client
            .query_one(SIZE, &[&self.manner.texts.schema()])
            .await?;
        let epoch = Epoch::from_bytes(bytes(&head, 0)?);
        let mut stats = Stats {
            rounds: KindStats {
                mark: head.try_get::<_, Option<i64>>(2)?.map(time),
                ..KindStats::default()
            },
            steps: KindStats {
                mark: head.try_get::<_, Option<i64>>(3)?.map(time),
                ..KindStats::default()
            },
            notes: KindStats {
                mark: head.try_get::<_, Option<i64>>(4)?.map(time),
                ..KindStats::default()
            },
            accounts: unsigned(accounts.try_get(0)?),
            epoch: epoch.to_text().chars().take(8).collect(),
            home: head.try_get(1)?,
            table_bytes: unsigned(size.try_get(0)?),
        };
        for row in self
            .client
            .query(&self.named(COUNTS), &[&now, &old])
            .await?
        {
            let kind = match row.try_get::<_, i16>(0)? {
                0 => &mut stats.rounds,
                1 => &mut stats.steps,
                2 => &mut stats.notes,
                _ => return Err(Fault::Corrupt),
            };
            let number = |at: usize| row.try_get::<_, i64>(at).map(unsigned);
            *kind = KindStats {
                rows: number(1)?,
                unexpired: number(2)?,
                removable: number(3)?,
                running: number(4)?,
                lapsed: number(5)?,
                released: number(6)?,
                settled: number(7)?,
                abandoned: number(8)?,
                bytes: number(9)?,
                oldest_expiry: row.try_get::<_, Option<i64>>(10)?.map(time),
                newest_expiry: row.try_get::<_, Option<i64>>(11)?.map(time),
                mark: kind.mark,
            };
        }
        Ok(stats)
    }
}
