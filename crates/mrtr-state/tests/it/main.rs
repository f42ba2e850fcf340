//! `mrtr-state` with its two codecs.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "helpers of tests are tests"
)]

mod cases;
mod digest;
mod faults;
mod round_trip;
mod vectors;
