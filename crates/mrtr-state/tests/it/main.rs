//! `mrtr-state` with its two codecs.

mod digest;
mod faults;
mod round_trip;
mod vectors;
