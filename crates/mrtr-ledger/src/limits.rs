//! How much a ledger holds, and how long after expiry.

use std::time::Duration;

/// The shortest time for which rows are kept after they expire: the skew that servers' clocks are allowed.
///
/// A row that went sooner could be missed by a server whose clock is behind, and which still takes the state as live.
pub const MIN_RETENTION: Duration = Duration::from_secs(60);

/// How long rows are kept after they expire unless told otherwise, so that a late repeat of a lost response gets it.
pub const RETENTION: Duration = Duration::from_secs(600);

/// How many unexpired rows, and bytes of stored outcomes, a ledger takes before it refuses new rounds as `Full`.
///
/// Nothing is ever evicted to make room: a row that went early is a replay. Limits are checked where work begins, at a
/// round's claim and a first call's first step, and never at later steps or settlements, so they can be exceeded by
/// what has already begun. A row may count for up to a minute after it has expired.
///
/// ```
/// use mrtr_ledger::Limits;
/// let limits = Limits { rows_per_account: 1_000, ..Limits::default() };
/// # assert!(limits.rows > limits.rows_per_account);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rows of one account. Default 10,000: more than a person or an agent answers in an hour, and small beside the
    /// total, so that one caller cannot use the room of all.
    pub rows_per_account: u64,
    /// Bytes of stored outcomes of one account. Default 64 MiB.
    pub bytes_per_account: u64,
    /// Rows of all accounts. Default 1,000,000.
    pub rows: u64,
    /// Bytes of stored outcomes of all accounts. Default 1 GiB.
    pub bytes: u64,
}

impl Limits {
    /// No limits at all. Whoever can make calls can then fill the storage.
    pub const NONE: Limits = Limits {
        rows_per_account: u64::MAX,
        bytes_per_account: u64::MAX,
        rows: u64::MAX,
        bytes: u64::MAX,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            rows_per_account: 10_000,
            bytes_per_account: 64 << 20,
            rows: 1_000_000,
            bytes: 1 << 30,
        }
    }
}
