#![forbid(unsafe_code)]
#![doc = include_str!("docs/map.md")]

mod books;
mod builder;
mod columns;
mod fault;
mod inspect;
mod ledger;
mod metrics;
mod perform;
mod pool;
mod rows;
mod schema;
mod session;
mod sql;
mod sweep;
mod taking;
mod totals;

pub use builder::{Builder, OpenError};
pub use inspect::{Finding, Stats, Verified};
pub use ledger::PostgresLedger;
/// Of [`Stats`].
pub use mrtr_ledger::KindStats;

/// The driver whose [`Config`](tokio_postgres::Config) and transactions are used.
pub use tokio_postgres;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/scale.md")]
struct GuideExamples;
