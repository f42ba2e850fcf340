#![forbid(unsafe_code)]
#![doc = include_str!("docs/map.md")]

mod books;
mod builder;
mod fault;
mod file;
mod ledger;
mod mount;
mod schema;
mod writer;

pub use builder::{Builder, OpenError};
pub use ledger::SqliteLedger;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
