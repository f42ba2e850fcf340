//! Removing what may go.

use mrtr_ledger::Kind;
use mrtr_ledger::tally;
use mrtr_state::Timestamp;
use rusqlite::params;

use super::{Books, Result, int, signed};
use crate::metrics;

/// How many rows of a kind are removed at most before claims go on.
///
/// They are constants in the statements: with a parameter for the limit SQLite prepares a statement anew each time that
/// the parameter is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Portion {
    /// In passing, while callers wait.
    Small,
    /// While callers wait, in a purge or behind many claims.
    Middle,
    /// While nobody waits.
    Large,
}

impl Portion {
    pub(crate) const fn rows(self) -> u64 {
        match self {
            Self::Small => 16,
            Self::Middle => 256,
            Self::Large => 1_000,
        }
    }
}

/// A statement for each portion.
macro_rules! for_portion {
    ($portion:expr, $sql:literal) => {
        match $portion {
            Portion::Small => concat!($sql, " LIMIT 16"),
            Portion::Middle => concat!($sql, " LIMIT 256"),
            Portion::Large => concat!($sql, " LIMIT 1000"),
        }
    };
}

impl Books<'_> {
    /// Removes up to a portion of rows of a kind, raising its mark in the same transaction, so that no claim can see the
    /// one without the other. Returns how many.
    pub(crate) fn sweep(&self, kind: Kind, portion: Portion) -> Result<u64> {
        let now = self.policy.clock.now();
        let Some(old) = self.too_old(now) else {
            return Ok(0);
        };
        let Some(last) = self.last_to_go(kind, portion, old, now)? else {
            return Ok(0);
        };
        self.known.set_head(None);
        let (mark, delete) = match kind {
            Kind::Round => (
                "UPDATE ledger SET rounds_mark = max(coalesce(rounds_mark, ?1), ?1)",
                "DELETE FROM rounds WHERE (expiry, hash) <= (?1, ?2) AND NOT (status = 0 AND lease > ?3)",
            ),
            Kind::Step => (
                "UPDATE ledger SET steps_mark = max(coalesce(steps_mark, ?1), ?1)",
                "DELETE FROM steps WHERE (expiry, hash) <= (?1, ?2) AND NOT (status = 0 AND lease > ?3)",
            ),
            Kind::Note => (
                "UPDATE ledger SET notes_mark = max(coalesce(notes_mark, ?1), ?1)",
                "DELETE FROM notes WHERE (expiry, hash) <= (?1, ?2) AND ?3",
            ),
        };
        self.cached(mark)?.execute(params![last.0])?;
        let gone = self
            .cached(delete)?
            .execute(params![last.0, last.1, int(now)])?;
        Ok(gone as u64)
    }

    /// The last row of the portion that goes first. Rows on which a lease runs are passed over.
    fn last_to_go(
        &self,
        kind: Kind,
        portion: Portion,
        old: Timestamp,
        now: Timestamp,
    ) -> Result<Option<(i64, [u8; 32])>> {
        let mut select = self.cached(match kind {
            Kind::Round => for_portion!(
                portion,
                "SELECT expiry, hash FROM rounds WHERE expiry < ?1 AND NOT (status = 0 AND lease > ?2) ORDER BY expiry, hash"
            ),
            Kind::Step => for_portion!(
                portion,
                "SELECT expiry, hash FROM steps WHERE expiry < ?1 AND NOT (status = 0 AND lease > ?2) ORDER BY expiry, hash"
            ),
            Kind::Note => for_portion!(
                portion,
                "SELECT expiry, hash FROM notes WHERE expiry < ?1 AND ?2 ORDER BY expiry, hash"
            ),
        })?;
        let mut rows = select.query(params![int(old), int(now)])?;
        let mut last = None;
        while let Some(row) = rows.next()? {
            last = Some((row.get(0)?, row.get(1)?));
        }
        Ok(last)
    }

    /// Forgets up to a portion of counts that no claim reads any more, one retention late, in case the clock goes back.
    pub(crate) fn sweep_counts(&self, portion: Portion) -> Result<u64> {
        let Some(old) = self.too_old(self.policy.clock.now()) else {
            return Ok(0);
        };
        let over = signed(tally::first_counted(old));
        let mut old = self.cached(for_portion!(
            portion,
            "SELECT account, bucket FROM tally INDEXED BY tally_by_bucket WHERE bucket < ?1"
        ))?;
        let mut rows = old.query([over])?;
        let mut gone = 0;
        let mut delete = self.cached("DELETE FROM tally WHERE account = ?1 AND bucket = ?2")?;
        let mut counts: Vec<(Vec<u8>, i64)> = Vec::new();
        while let Some(row) = rows.next()? {
            counts.push((row.get(0)?, row.get(1)?));
        }
        for count in counts {
            gone += delete.execute(params![count.0, count.1])?;
        }
        Ok(gone as u64)
    }

    /// Removes in passing what rows that were added pay for: each two that may go, of every kind, so that a ledger on
    /// which nobody calls `purge` stays bounded. It is done for several rows together, since most often there is nothing.
    pub(crate) fn pay(&self) -> Result<()> {
        const ROWS: usize = 8;
        loop {
            let due = self.known.due();
            let portion = match due {
                ..ROWS => return Ok(()),
                ROWS..128 => Portion::Small,
                _ => Portion::Middle,
            };
            let gone = [
                self.sweep(Kind::Round, portion)?,
                self.sweep(Kind::Step, portion)?,
                self.sweep(Kind::Note, portion)?,
                self.sweep_counts(portion)?,
            ];
            let [rounds, steps, notes, _] = gone;
            metrics::purged(rounds, steps, notes);
            // One that comes back with less has nothing left.
            if gone.iter().all(|gone| *gone < portion.rows()) {
                self.known.set_due(0);
                return Ok(());
            }
            let paid = usize::try_from(portion.rows() / 2).unwrap_or(usize::MAX);
            self.known.set_due(due.saturating_sub(paid));
        }
    }
}
