//! A ledger that breaks its promises, to show that the checker notices.

use std::any::Any;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use mrtr_ledger::{
    Claim, Claimed, Conclusion, Fingerprint, Found, Kept, Kind, Ledger, LedgerFuture, Note,
    Performed, Purged, RowKey, Rows, Settled, Settlement, Token, TransactionalLedger,
};
use mrtr_state::{Clock, Epoch, Timestamp};

use crate::server::clock::OffsetClock;
use crate::server::marks::Marks;
use crate::server::shelf::{Entry, Shelf};
use crate::terms::RETENTION;

/// Which promise is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sabotage {
    /// Whoever claims is the first.
    AlwaysFirst,
    /// Settlements are acknowledged and not kept.
    SkippedSettle,
    /// What has expired is removed at once, by the clock of whoever purges, instead of a retention later.
    PurgeByNow,
    /// A purge raises the marks to the moment of whoever purges, instead of to the largest expiry that it removes.
    MarkByNow,
    /// Signs of life are acknowledged and not kept.
    NoBeats,
}

impl Sabotage {
    pub(crate) const ALL: [Sabotage; 5] = [
        Sabotage::AlwaysFirst,
        Sabotage::SkippedSettle,
        Sabotage::PurgeByNow,
        Sabotage::MarkByNow,
        Sabotage::NoBeats,
    ];
}

impl fmt::Display for Sabotage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sabotage::AlwaysFirst => "always-first",
            Sabotage::SkippedSettle => "skipped-settle",
            Sabotage::PurgeByNow => "purge-by-now",
            Sabotage::MarkByNow => "mark-by-now",
            Sabotage::NoBeats => "no-beats",
        })
    }
}

impl FromStr for Sabotage {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let named = |sabotage: &Sabotage| sabotage.to_string() == name;
        Sabotage::ALL
            .into_iter()
            .find(named)
            .ok_or("take always-first, skipped-settle, purge-by-now, mark-by-now or no-beats")
    }
}

/// A ledger, sabotaged or not.
#[derive(Debug)]
pub(crate) struct Sabotaged<L> {
    inner: L,
    how: Option<Sabotage>,
    /// The same rows through a clock that is ahead by the retention: what it purges has only just expired.
    hurried: Option<L>,
    marks: Marks,
    clock: OffsetClock,
}

impl<L: Ledger> Sabotaged<L> {
    /// `hurried` is the same ledger by a [`HurriedClock`], for [`Sabotage::PurgeByNow`].
    pub(crate) fn new(
        inner: L,
        how: Option<Sabotage>,
        hurried: Option<L>,
        marks: Marks,
        clock: OffsetClock,
    ) -> Self {
        Self {
            inner,
            how,
            hurried,
            marks,
            clock,
        }
    }
}

impl<L: Ledger> Ledger for Sabotaged<L> {
    fn claim(&self, claim: Claim) -> LedgerFuture<'_, Claimed> {
        match self.how {
            Some(Sabotage::AlwaysFirst) => Box::pin(async { Ok(Claimed::First) }),
            _ => self.inner.claim(claim),
        }
    }

    fn settle(&self, key: RowKey, by: Token, settlement: Settlement) -> LedgerFuture<'_, Settled> {
        match self.how {
            Some(Sabotage::AlwaysFirst | Sabotage::SkippedSettle) => {
                Box::pin(async { Ok(Settled::Stored) })
            }
            _ => self.inner.settle(key, by, settlement),
        }
    }

    fn beat(&self, key: RowKey, by: Token, lease: Duration) -> LedgerFuture<'_, bool> {
        match self.how {
            Some(Sabotage::NoBeats) => Box::pin(async { Ok(true) }),
            _ => self.inner.beat(key, by, lease),
        }
    }

    fn release(&self, key: RowKey, by: Token) -> LedgerFuture<'_, bool> {
        self.inner.release(key, by)
    }

    fn keep(&self, note: Note) -> LedgerFuture<'_, Kept> {
        self.inner.keep(note)
    }

    fn lookup(&self, kind: Kind, key: RowKey, fingerprint: Fingerprint) -> LedgerFuture<'_, Found> {
        self.inner.lookup(kind, key, fingerprint)
    }

    fn purge(&self) -> LedgerFuture<'_, Purged> {
        match (self.how, &self.hurried) {
            (Some(Sabotage::PurgeByNow), Some(hurried)) => hurried.purge(),
            (Some(Sabotage::MarkByNow), _) => Box::pin(async {
                // What did not come off is tried again with the next purge.
                _ = self.marks.raise(self.clock.now()).await;
                self.inner.purge().await
            }),
            _ => self.inner.purge(),
        }
    }

    fn epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.inner.epoch()
    }

    fn rotate_epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.inner.rotate_epoch()
    }

    fn rows(&self) -> LedgerFuture<'_, Rows> {
        self.inner.rows()
    }

    fn survives_restart(&self) -> bool {
        self.inner.survives_restart()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<L: TransactionalLedger> TransactionalLedger for Sabotaged<L> {
    type Tx<'t> = L::Tx<'t>;
    type Work<'t, O: Send + 'static> = L::Work<'t, O>;

    fn done<'t, O: Send + 'static>(outcome: O) -> Self::Work<'t, O> {
        L::done(outcome)
    }

    fn perform<O, R, F, C>(
        &self,
        mut claim: Claim,
        effect: F,
        conclude: C,
    ) -> LedgerFuture<'_, Performed<R>>
    where
        O: Send + 'static,
        R: Send + 'static,
        F: for<'t> FnOnce(&'t Self::Tx<'t>) -> Self::Work<'t, O> + Send + 'static,
        C: FnOnce(O) -> (Conclusion, R) + Send + 'static,
    {
        if self.how == Some(Sabotage::AlwaysFirst) {
            // A row that nobody has claimed, so that the effect runs.
            fastrand::fill(&mut claim.key.hash);
            claim.under_round = None;
        }
        self.inner.perform(claim, effect, conclude)
    }
}

impl<L: Shelf> Shelf for Sabotaged<L> {
    type Error = L::Error;

    fn write<'t>(
        tx: &'t Self::Tx<'t>,
        entry: Entry,
    ) -> Self::Work<'t, Result<String, Self::Error>> {
        L::write(tx, entry)
    }
}

/// A clock that is ahead of another by the retention.
#[derive(Debug)]
pub(crate) struct HurriedClock<C>(pub(crate) C);

impl<C: Clock> Clock for HurriedClock<C> {
    fn now(&self) -> Timestamp {
        self.0.now().saturating_add(RETENTION)
    }
}
