//! Numbers for operators, as records of the target `mrtr::metrics` at level `TRACE`.
//!
//! The names of their fields are those that `tracing-opentelemetry`'s metrics layer makes instruments of; what stands beside
//! them is an attribute, and is always one of a few words. `docs/operations.md` has the list.

use std::time::Duration;

use mrtr_ledger::{Claimed, Kept, Kind, LedgerError, Performed, Redemption, Settled};
use tracing::{Level, event};

const TARGET: &str = "mrtr::metrics";

/// A state was sealed: a round was put.
pub(crate) fn sealed() {
    event!(target: TARGET, Level::TRACE, { monotonic_counter.mrtr.states.sealed = 1_u64 });
}

/// A state was refused, for this reason.
pub(crate) fn rejected(reason: &'static str) {
    event!(target: TARGET, Level::TRACE, { monotonic_counter.mrtr.states.rejected = 1_u64, reason });
}

/// A round was claimed, or tried to be.
pub(crate) fn redeemed(redemption: &Result<Redemption, LedgerError>, time: Duration) {
    took("claim", time);
    let answer = match redemption {
        Ok(Redemption::Redeemed(_)) => "first",
        Ok(Redemption::InProgress { .. }) => "in_progress",
        Ok(Redemption::Settled(_)) => "settled",
        Ok(Redemption::Conflict) => "conflict",
        Ok(Redemption::Abandoned) => "abandoned",
        Ok(Redemption::Expired) => "expired",
        Ok(Redemption::StaleEpoch) => "stale_epoch",
        Ok(Redemption::Full) => "full",
        Ok(_) => "other",
        Err(_) => "no_word",
    };
    count_claim(Kind::Round, answer);
}

/// A step was claimed, or tried to be.
pub(crate) fn claimed(kind: Kind, claimed: &Result<Claimed, LedgerError>) {
    count_claim(kind, claimed.as_ref().map_or("no_word", answer));
}

/// A step was performed in the ledger's database, or was not: its claim, and with it its effect and outcome.
pub(crate) fn performed<R>(performed: &Result<Performed<R>, LedgerError>, time: Duration) {
    took("perform", time);
    let answer = match performed {
        Ok(Performed::Ran(_) | Performed::Panicked(_)) => "first",
        Ok(Performed::Not(claimed)) => answer(claimed),
        Err(_) => "no_word",
    };
    count_claim(Kind::Step, answer);
}

/// A note was written, or was there.
pub(crate) fn kept(kept: &Result<Kept, LedgerError>) {
    let answer = match kept {
        Ok(Kept::Stored) => "first",
        Ok(Kept::Before(_)) => "settled",
        Ok(Kept::Conflict) => "conflict",
        Ok(Kept::Expired) => "expired",
        Ok(Kept::StaleEpoch) => "stale_epoch",
        Ok(Kept::StaleOwner) => "stale_owner",
        Ok(Kept::Full) => "full",
        Ok(_) => "other",
        Err(_) => "no_word",
    };
    count_claim(Kind::Note, answer);
}

fn count_claim(kind: Kind, answer: &'static str) {
    let kind = match kind {
        Kind::Round => "round",
        Kind::Step => "step",
        Kind::Note => "note",
    };
    event!(target: TARGET, Level::TRACE, { monotonic_counter.mrtr.ledger.claims = 1_u64, kind, answer });
}

fn answer(claimed: &Claimed) -> &'static str {
    match claimed {
        Claimed::First => "first",
        Claimed::InProgress { .. } => "in_progress",
        Claimed::Settled(_) => "settled",
        Claimed::Conflict => "conflict",
        Claimed::Abandoned => "abandoned",
        Claimed::Expired => "expired",
        Claimed::StaleEpoch => "stale_epoch",
        Claimed::StaleOwner => "stale_owner",
        Claimed::Full => "full",
        _ => "other",
    }
}

/// A settlement was taken or not.
pub(crate) fn settled(settled: &Result<Settled, LedgerError>) {
    let answer = match settled {
        Ok(Settled::Stored) => "stored",
        Ok(Settled::Refused) => "refused",
        Err(_) => "no_word",
    };
    event!(target: TARGET, Level::TRACE, { monotonic_counter.mrtr.ledger.settlements = 1_u64, answer });
}

/// How long the ledger took to answer, or not to.
pub(crate) fn took(operation: &'static str, time: Duration) {
    let seconds = time.as_secs_f64();
    event!(target: TARGET, Level::TRACE, { histogram.mrtr.ledger.duration = seconds, operation });
}
