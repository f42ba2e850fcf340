//! The times that servers and checker go by. Short, so that a run of two minutes sees every one of them pass often.

use std::time::Duration;

/// How long a state may be answered.
pub(crate) const LIFETIME: Duration = Duration::from_secs(15);

/// How long a flow may take; steps are kept that long.
pub(crate) const FLOW_LIFETIME: Duration = Duration::from_secs(30);

/// How long a claim stands without a sign of life. Most bodies are over in a fraction of it, and some take longer.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

/// How long rows are kept after they expire: the least that a ledger takes.
pub(crate) const RETENTION: Duration = mrtr_ledger::MIN_RETENTION;

/// How far a state's birth may lie in the future.
pub(crate) const SKEW: Duration = Duration::from_secs(60);

/// How long a ledger waits for another process's lock.
pub(crate) const WAIT: Duration = Duration::from_secs(1);

/// How long a server that was asked to stop waits for what runs.
pub(crate) const SHUTDOWN: Duration = Duration::from_secs(4);

/// How long a server may go on with an epoch that was rotated elsewhere before it looks again.
pub(crate) const EPOCH_AGE: Duration = Duration::from_secs(2);

/// Milliseconds, as moments are counted.
pub(crate) const fn millis(duration: Duration) -> u64 {
    // None of these times has more seconds than fit.
    duration.as_secs() * 1_000 + duration.subsec_millis() as u64
}
