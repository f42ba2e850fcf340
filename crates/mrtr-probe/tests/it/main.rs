//! The probe against servers: ours, which must hold, and one that is weak in one thing at a time.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "in a test, what panics has failed"
)]

mod bounds;
mod ours;
mod program;
mod sabotage;
mod weak;
