//! Numbers for operators, as records of the target `mrtr::metrics` at level `TRACE`; the server's own are in `mrtr-server`.
//!
//! The names of their fields are those that `tracing-opentelemetry`'s metrics layer makes instruments of; what stands beside
//! them is an attribute, and is always one of a few words.

use std::time::Duration;

use tracing::{Level, event};

use crate::fault::Fault;

const TARGET: &str = "mrtr::metrics";

/// So many operations were committed together, and it took so long.
pub(crate) fn committed(operations: usize, time: Duration) {
    let (operations, seconds) = (operations as u64, time.as_secs_f64());
    event!(target: TARGET, Level::TRACE, {
        histogram.mrtr.ledger.sqlite.batch = operations,
        histogram.mrtr.ledger.sqlite.commit.duration = seconds,
    });
}

/// A commit has failed, and nobody of its batch has had a word, or it is tried again without one.
pub(crate) fn failed(fault: &Fault) {
    let fault = fault.word();
    event!(target: TARGET, Level::TRACE, { monotonic_counter.mrtr.ledger.sqlite.failed = 1_u64, fault });
}

/// So many rows were removed.
pub(crate) fn purged(rounds: u64, steps: u64, notes: u64) {
    for (kind, rows) in [("round", rounds), ("step", steps), ("note", notes)] {
        if rows > 0 {
            event!(target: TARGET, Level::TRACE, { monotonic_counter.mrtr.ledger.purged = rows, kind });
        }
    }
}
