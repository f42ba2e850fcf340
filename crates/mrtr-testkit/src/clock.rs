//! Clocks that go by hand, or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mrtr_state::{Clock, Timestamp};

/// A clock that stands until it is moved. Clones are the same clock: keep one and hand another to the server.
///
/// ```
/// use std::time::Duration;
/// use mrtr_state::{Clock, Timestamp};
/// use mrtr_testkit::ManualClock;
///
/// let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
/// let of_the_server = clock.clone();
/// clock.advance(Duration::from_secs(600));
/// assert_eq!(of_the_server.now().as_millis(), 1_800_000_600_000);
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> ManualClock {
        ManualClock(Arc::new(AtomicU64::new(now.as_millis())))
    }

    /// Moves it forwards, in whole milliseconds; at the end of time it stays there.
    pub fn advance(&self, by: Duration) {
        let forwards = |now| Some(Timestamp::from_millis(now).saturating_add(by).as_millis());
        // `forwards` always gives a value, so there is no error to look at.
        let _ = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, forwards);
    }

    /// Sets it, backwards too: clocks are set in earnest as well.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_millis(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Takes the guard [`Lifetime`](crate::guards::Guard::Lifetime) off: time stands still, and no state expires.
///
/// A ledger has a clock of its own, which decides too: give it the same one.
#[derive(Clone, Copy, Debug)]
pub struct StoppedClock(Timestamp);

impl StoppedClock {
    /// Shows for ever what `clock` shows now.
    #[must_use]
    pub fn new(clock: &impl Clock) -> StoppedClock {
        StoppedClock(clock.now())
    }
}

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    #[test]
    fn clones_are_one_clock() {
        let clock = ManualClock::at(T0);
        let clone = clock.clone();
        clone.advance(Duration::from_millis(5));
        assert_eq!(clock.now().as_millis(), T0.as_millis() + 5);
        clock.set(T0);
        assert_eq!(clone.now(), T0);
        clock.advance(Duration::MAX);
        assert_eq!(clone.now(), Timestamp::MAX);
    }

    #[test]
    fn a_stopped_clock_does_not_follow_the_one_it_was_made_from() {
        let clock = ManualClock::at(T0);
        let stopped = StoppedClock::new(&clock);
        clock.advance(Duration::from_secs(1));
        assert_eq!(stopped.now(), T0);
    }
}
