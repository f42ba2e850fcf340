//! The contract's own tests: the suite on the memory ledger, and on ledgers that break it.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing there has failed"
)]

mod broken;
mod broken_effects;
mod memory;
mod redeem;
