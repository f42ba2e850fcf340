//! The suite on a file, and what only a file can get wrong.

mod bench;
mod faults;
mod files;
mod processes;
mod suite;
