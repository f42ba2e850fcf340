//! How much all accounts together hold, as this process knows it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mrtr_ledger::tally::Use;
use tokio::time::Instant;

/// How old a sum over all accounts may be while it says that there is room.
///
/// The sum is over every minute and lane, so it is not taken for each claim; what this process adds meanwhile is added
/// to it here. Others add too: the limits of all can be exceeded by as much as they admit in this time.
const FRESH: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Totals(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// When the sum was asked for, and what it was.
    summed: Option<(Instant, Use)>,
    /// What this process has added since.
    since: Use,
    /// What it has added since the sum was asked for that has not come yet.
    meanwhile: Use,
}

impl Totals {
    /// What is held by all, if that is known well enough.
    pub(crate) fn known(&self) -> Option<Use> {
        let known = self.known_now();
        let (at, sum) = known.summed?;
        (at.elapsed() < FRESH).then(|| sum.plus(known.since))
    }

    /// A sum is about to be asked for. What is added from now on may be in it or not, and counts twice rather than not at
    /// all.
    pub(crate) fn begin(&self) {
        self.known_now().meanwhile = Use::default();
    }

    pub(crate) fn learn(&self, sum: Use) {
        let mut known = self.known_now();
        known.summed = Some((Instant::now(), sum));
        known.since = known.meanwhile;
    }

    pub(crate) fn add(&self, more: Use) {
        let mut known = self.known_now();
        known.since = known.since.plus(more);
        known.meanwhile = known.meanwhile.plus(more);
    }

    // Held for a few additions, and never across an await.
    fn known_now(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: u64) -> Use {
        Use { rows, bytes: 0 }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sum_is_added_to_and_grows_old() {
        let totals = Totals::default();
        assert_eq!(totals.known(), None);
        totals.begin();
        totals.add(rows(1));
        totals.learn(rows(10));
        totals.add(rows(2));
        assert_eq!(totals.known(), Some(rows(13)));
        // A second sum is on its way: what was known stays known until it is there.
        totals.begin();
        assert_eq!(totals.known(), Some(rows(13)));
        totals.add(rows(4));
        totals.learn(rows(13));
        assert_eq!(totals.known(), Some(rows(17)));
        tokio::time::advance(FRESH).await;
        assert_eq!(totals.known(), None);
    }
}
