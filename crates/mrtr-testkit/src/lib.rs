#![forbid(unsafe_code)]
//! Tools for testing MRTR servers and clients, and for showing what each of their guards is good for.
//!
//! **A dev-dependency.** Some of what is here takes protections away, under names that say so; none of it belongs into a
//! program that serves anybody.
//!
//! # Map
//!
//! | to | see |
//! |---|---|
//! | set the time by hand | [`ManualClock`] |
//! | see what a guard is good for, by taking it off | [`guards`], [`Guard`](guards::Guard) |
//! | read and forge states that nothing protects | [`UnsealedCodec`](guards::UnsealedCodec) |
//! | test a codec or a ledger of your own | `mrtr_state::codec_suite!`, `mrtr_ledger::ledger_suite!` |

pub mod clock;
pub mod guards;

pub use clock::ManualClock;
