//! Servers at the other end of lines: framing, eras, and child processes.

mod eras;
mod framing;
pub(crate) mod peer;
#[cfg(unix)]
mod processes;
mod requests;
