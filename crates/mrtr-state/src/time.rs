//! Time as a value that is handed in, never read from the wall in passing.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A moment, in whole milliseconds since the Unix epoch.
///
/// Arithmetic saturates: a moment that cannot be represented is the last one that can, so a
/// huge lifetime never wraps into the past. Serialized as a number of milliseconds.
///
/// ```
/// use std::time::Duration;
/// use mrtr_state::Timestamp;
///
/// let t0 = Timestamp::from_millis(1_800_000_000_000);
/// let t1 = t0.saturating_add(Duration::from_secs(600));
/// assert_eq!(t1.as_millis(), 1_800_000_600_000);
/// assert_eq!(t1.saturating_since(t0), Duration::from_secs(600));
/// assert_eq!(t0.saturating_since(t1), Duration::ZERO);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The last moment that can be represented.
    pub const MAX: Timestamp = Timestamp(u64::MAX);

    /// The moment `millis` milliseconds after the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Timestamp {
        Timestamp(millis)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// This moment plus `duration`, in whole milliseconds (what is left over is dropped), or
    /// [`Timestamp::MAX`].
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Timestamp {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Timestamp(self.0.saturating_add(millis))
    }

    /// The time since `earlier`, or zero where `earlier` is not earlier.
    #[must_use]
    pub fn saturating_since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Where the time comes from.
///
/// Implementers return the current time on every call and never block. Time may step backwards
/// (clocks are set); whoever compares moments has to stand that.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// The host's wall clock.
///
/// A clock set before the Unix epoch reads as the epoch itself: everything sealed is then not
/// valid yet, which fails closed.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the wall clock"
    )]
    fn now(&self) -> Timestamp {
        of_the_host(SystemTime::now())
    }
}

fn of_the_host(time: SystemTime) -> Timestamp {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Timestamp::from_millis(0).saturating_add(since_epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        let last = Timestamp::MAX;
        assert_eq!(last.saturating_add(Duration::from_millis(1)), last);
        assert_eq!(
            Timestamp::from_millis(1).saturating_add(Duration::MAX),
            last
        );
        assert_eq!(
            Timestamp::from_millis(5).saturating_add(Duration::from_millis(1)),
            Timestamp::from_millis(6)
        );
    }

    #[test]
    fn less_than_a_millisecond_is_dropped() {
        let t = Timestamp::from_millis(7);
        assert_eq!(t.saturating_add(Duration::from_micros(999)), t);
    }

    #[test]
    fn system_clock_reads_milliseconds() {
        // After 2020 and before the year 2286: seconds or microseconds would be far outside.
        let now = SystemClock.now().as_millis();
        assert!((1_577_836_800_000..10_000_000_000_000).contains(&now));
    }

    #[test]
    fn case_085_a_clock_before_the_epoch_reads_as_the_epoch() {
        let second = Duration::from_secs(1);
        assert_eq!(of_the_host(UNIX_EPOCH + second).as_millis(), 1_000);
        for before in [Duration::from_nanos(1), second, second * 3_000_000_000] {
            assert_eq!(of_the_host(UNIX_EPOCH - before).as_millis(), 0);
        }
        let (early, late) = (of_the_host(UNIX_EPOCH - second), of_the_host(UNIX_EPOCH));
        assert_eq!(early.saturating_since(late), Duration::ZERO);
    }

    #[test]
    fn written_as_a_number() {
        let text = serde_json::to_string(&Timestamp::from_millis(12)).unwrap();
        assert_eq!(text, "12");
        assert!(serde_json::from_str::<Timestamp>("12.5").is_err());
        assert!(serde_json::from_str::<Timestamp>("-1").is_err());
    }
}
