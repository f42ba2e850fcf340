#![forbid(unsafe_code)]
#![doc = include_str!("docs/map.md")]

mod books;
mod builder;
mod checkpoint;
mod effect;
mod fault;
mod file;
mod guard;
mod inspect;
mod intake;
mod job;
mod known;
mod ledger;
mod metrics;
mod mount;
mod schema;
mod storage;
mod writer;

pub use builder::{Builder, OpenError};
pub use inspect::{Finding, Stats, Verified};
pub use ledger::SqliteLedger;
/// Of [`Stats`].
pub use mrtr_ledger::KindStats;
/// The version of `rusqlite` whose connection effects are given.
pub use rusqlite;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
