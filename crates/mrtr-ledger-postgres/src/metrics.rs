//! Numbers for operators, as records of the target `mrtr::metrics` at level `TRACE`; the server's own are in `mrtr-server`.
//!
//! The names of their fields are those that `tracing-opentelemetry`'s metrics layer makes instruments of; what stands beside
//! them is an attribute, and is always one of a few words.

use std::time::Duration;

use mrtr_ledger::Purged;
use tracing::{Level, event};

use crate::fault::Fault;

const TARGET: &str = "mrtr::metrics";

/// A connection was lent, after so long. Longer than a moment: there are too few.
pub(crate) fn lent(wait: Duration) {
    let seconds = wait.as_secs_f64();
    event!(target: TARGET, Level::TRACE, { histogram.mrtr.ledger.postgres.wait.duration = seconds });
}

/// A connection was made.
pub(crate) fn connected() {
    event!(target: TARGET, Level::TRACE, { monotonic_counter.mrtr.ledger.postgres.connected = 1_u64 });
}

/// An operation came to its end on its connection, after so long.
pub(crate) fn done(time: Duration) {
    let seconds = time.as_secs_f64();
    event!(target: TARGET, Level::TRACE, { histogram.mrtr.ledger.postgres.operation.duration = seconds });
}

/// An attempt at an operation has failed. It may be tried again.
pub(crate) fn failed(fault: &Fault) {
    let fault = fault.word();
    event!(target: TARGET, Level::TRACE, { monotonic_counter.mrtr.ledger.postgres.failed = 1_u64, fault });
}

/// So many rows were removed.
pub(crate) fn purged(purged: &Purged) {
    for (kind, rows) in [
        ("round", purged.rounds),
        ("step", purged.steps),
        ("note", purged.notes),
    ] {
        if rows > 0 {
            event!(target: TARGET, Level::TRACE, { monotonic_counter.mrtr.ledger.purged = rows, kind });
        }
    }
}
