//! The suite on a file, and what only a file can get wrong.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that finds nothing there has failed"
)]
#![allow(
    clippy::print_stdout,
    reason = "a child process answers on its standard output"
)]

mod bench;
mod command;
mod effects;
mod faults;
mod files;
mod golden;
mod inspect;
mod processes;
mod sharing;
mod suite;
