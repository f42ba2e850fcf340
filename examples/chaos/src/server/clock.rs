//! A server's clock, which can be set while the server runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use mrtr_state::{Clock, SystemClock, Timestamp};

/// The host's clock and an offset. Clones are one clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct OffsetClock(Arc<AtomicI64>);

impl OffsetClock {
    /// Sets it to this many milliseconds ahead of the host's, or behind.
    pub(crate) fn set(&self, offset: i64) {
        self.0.store(offset, Ordering::SeqCst);
    }
}

impl Clock for OffsetClock {
    fn now(&self) -> Timestamp {
        let offset = self.0.load(Ordering::SeqCst);
        let now = SystemClock.now().as_millis();
        Timestamp::from_millis(now.saturating_add_signed(offset))
    }
}
