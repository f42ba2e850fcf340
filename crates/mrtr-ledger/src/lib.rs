#![forbid(unsafe_code)]
#![doc = include_str!("docs/map.md")]

mod claim;
mod error;
mod key;
mod ledger;
mod limits;
mod memory;
mod redeem;
pub mod rules;
mod stats;
pub mod suite;
pub mod tally;
mod transactional;

pub use claim::{Claim, Claimed, Found, Kept, Note, Purged, Rows, Settled, Settlement};
pub use error::LedgerError;
pub use key::{Account, Fingerprint, Kind, Owner, RowKey, Token};
pub use ledger::{Ledger, LedgerFuture};
pub use limits::{Limits, MIN_RETENTION, RETENTION};
pub use memory::MemoryLedger;
pub use redeem::{RedeemedState, Redemption, RoundClaim, redeem};
pub use stats::KindStats;
pub use transactional::{Conclusion, Performed, TransactionalLedger};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
