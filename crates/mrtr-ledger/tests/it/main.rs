//! The contract's own tests: the suite on the memory ledger, and on ledgers that break it.

mod broken;
mod memory;
mod redeem;
