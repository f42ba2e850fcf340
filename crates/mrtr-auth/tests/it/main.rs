//! Integration tests, in one binary.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "in a test, what panics has failed"
)]

mod client;
mod server;
mod together;
