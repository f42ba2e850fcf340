//! The server as a process: what it says over standard input and output.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "in a test, what panics has failed"
)]

mod stdio;
