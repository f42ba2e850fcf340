//! The suite on a PostgreSQL server, and what only a server can get wrong.

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
mod durability;
mod effects;
mod faults;
mod inspect;
mod processes;
mod schemas;
mod server;
mod suite;
mod sweeps;
