//! How the use of a ledger is counted, so that limits need no count over all rows and no upkeep when rows expire.

use mrtr_state::Timestamp;

use crate::{Account, Limits};

/// Rows and bytes that expire in the same minute share a bucket; a bucket counts until its minute is over. Nothing has
/// to be taken off when time passes, whichever way a clock jumps, and a count reads as many buckets as the longest
/// lifetime has minutes.
pub const BUCKET_MILLIS: u64 = 60_000;

/// The bucket of a row that expires at `expiry`.
#[must_use]
pub const fn bucket(expiry: Timestamp) -> u64 {
    expiry.as_millis() / BUCKET_MILLIS
}

/// The first bucket that still counts at `now`: its minute holds an expiry that has not come.
#[must_use]
pub const fn first_counted(now: Timestamp) -> u64 {
    now.as_millis().saturating_add(1) / BUCKET_MILLIS
}

/// Whose use is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counted {
    /// Every account's.
    All,
    /// One account's.
    Account(Account),
}

/// Unexpired rows, and bytes of their stored outcomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Rows.
    pub rows: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Use {
    /// Both together.
    #[must_use]
    pub const fn plus(self, more: Use) -> Use {
        Use {
            rows: self.rows.saturating_add(more.rows),
            bytes: self.bytes.saturating_add(more.bytes),
        }
    }
}

impl Limits {
    /// Whether one more row may be added to this use by the account and by all.
    #[must_use]
    pub const fn leave_room(&self, account: Use, all: Use) -> bool {
        account.rows < self.rows_per_account
            && account.bytes < self.bytes_per_account
            && all.rows < self.rows
            && all.bytes < self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_counts_until_nothing_in_it_is_unexpired() {
        let at = Timestamp::from_millis;
        // 119,999 is the last expiry of its bucket. It is unexpired at 119,998 and expired at 119,999.
        assert_eq!(bucket(at(119_999)), 1);
        assert!(bucket(at(119_999)) >= first_counted(at(119_998)));
        assert!(bucket(at(119_999)) < first_counted(at(119_999)));
        assert!(bucket(at(120_000)) >= first_counted(at(119_999)));
    }

    #[test]
    fn the_first_row_at_a_limit_is_refused_and_the_one_below_is_not() {
        let limits = Limits {
            rows_per_account: 2,
            bytes_per_account: 10,
            rows: 4,
            bytes: 20,
        };
        let used = |rows, bytes| Use { rows, bytes };
        assert!(limits.leave_room(used(1, 9), used(3, 19)));
        assert!(!limits.leave_room(used(2, 9), used(3, 19)));
        assert!(!limits.leave_room(used(1, 10), used(3, 19)));
        assert!(!limits.leave_room(used(1, 9), used(4, 19)));
        assert!(!limits.leave_room(used(1, 9), used(3, 20)));
    }
}
