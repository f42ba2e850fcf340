//! The tools are tested on real servers, codecs and ledgers: each guard stops its attack, and without it the attack passes.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "these are tests, and panic to say so"
)]

mod bank;
mod eras;
mod gateway;
mod guards;
mod harness;
mod replay;
mod rounds;
mod shop;
mod suites;
mod tamper;
