//! The published example messages, read and written again.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests panic, and a skipped test says so"
)]

mod examples;
mod numbers;
