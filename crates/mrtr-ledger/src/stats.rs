//! What operators are told of a ledger's tables, whichever they are.

use mrtr_state::Timestamp;

/// Rows of one kind, in numbers. What a ledger on disk tells besides is its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindStats {
    /// All of them.
    pub rows: u64,
    /// Those that have not expired.
    pub unexpired: u64,
    /// Those that a purge would remove now: expired, retention over, no lease.
    pub removable: u64,
    /// Owned, with a lease that runs: under way.
    pub running: u64,
    /// Owned, with a lease that has lapsed: the owner is late, or lost.
    pub lapsed: u64,
    /// Given back before anything ran.
    pub released: u64,
    /// With a stored outcome.
    pub settled: u64,
    /// Told as unknown.
    pub abandoned: u64,
    /// Bytes of outcomes.
    pub bytes: u64,
    /// The earliest expiry of any row.
    pub oldest_expiry: Option<Timestamp>,
    /// The latest expiry of any row.
    pub newest_expiry: Option<Timestamp>,
    /// The largest expiry of any row that was removed. What expires up to then is refused for good.
    pub mark: Option<Timestamp>,
}
