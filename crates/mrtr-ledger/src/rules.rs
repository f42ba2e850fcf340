//! The decisions of the contract, free of storage and of clocks.
//!
//! A ledger reads the rows that a question is about, asks the function here what to answer and what to write, and does
//! both under one lock or in one transaction. Everything that makes a state good for one answer is in this file;
//! everything that makes it durable is not.

use std::fmt;
use std::time::Duration;

use mrtr_state::{Epoch, Timestamp};

use crate::{Claim, Claimed, Fingerprint, Found, Kind, RowKey, Settled, Settlement, Token};

/// What becomes of a row. It starts as `Owned`; `Settled` and `Abandoned` are final.
///
/// ```text
///            claim                      settle
///   (none) --------> Owned(token) -------------------> Settled(outcome)
///                    ^    |   \   settle(Abandoned),
///      claim, same   |    |    \  a lapsed round told
///      fingerprint   |    | release \
///                    |    v          +---------------> Abandoned
///                   Released
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum Status {
    /// A token owns it until it is settled or withdrawn.
    Owned {
        /// When the lease lapses. `now < lease` means that it runs.
        lease: Timestamp,
    },
    /// Nothing has run; the same fingerprint may claim it.
    Released,
    /// This is the outcome.
    Settled(Vec<u8>),
    /// The outcome is unknown, for good.
    Abandoned,
}

impl Status {
    /// How much it counts towards the limits: the length of a stored outcome.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Settled(outcome) => outcome.len() as u64,
            Self::Owned { .. } | Self::Released | Self::Abandoned => 0,
        }
    }
}

// By hand: an outcome is what a tool answered, so its length is all that prints.
impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owned { lease } => write!(f, "Owned(until {})", lease.as_millis()),
            Self::Released => f.write_str("Released"),
            Self::Settled(outcome) => write!(f, "Settled({} bytes)", outcome.len()),
            Self::Abandoned => f.write_str("Abandoned"),
        }
    }
}

/// A row, as the decisions see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Of the claim that made the row.
    pub fingerprint: Fingerprint,
    /// The last token that owned it.
    pub token: Token,
    /// What became of it.
    pub status: Status,
}

impl Row {
    fn is_owned_by(&self, token: &Token) -> bool {
        matches!(self.status, Status::Owned { .. }) && self.token == *token
    }
}

/// What the ledger as a whole says at the moment of the decision.
#[derive(Clone, Copy, Debug)]
pub struct Present {
    /// The clock, read once the lock is held.
    pub now: Timestamp,
    /// The epoch.
    pub epoch: Epoch,
    /// The claim's kind's mark: the largest expiry of any row of the kind that was removed, if any was.
    pub mark: Option<Timestamp>,
}

/// What to write for a claim, beside its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Nothing.
    Nothing,
    /// A new row, owned by the claim's token until this lease.
    Insert {
        /// When the lease lapses.
        lease: Timestamp,
    },
    /// The row that is there is now owned by the claim's token until this lease.
    Own {
        /// When the lease lapses.
        lease: Timestamp,
    },
    /// The row that is there is abandoned.
    Abandon,
}

/// Decides a claim.
///
/// `row` is the row under the claim's key and kind, `round` the one that [`Claim::under_round`] names. `room` is asked
/// only where a row would be added and limits apply.
///
/// # Errors
/// Those of `room`.
pub fn claim<E>(
    claim: &Claim,
    row: Option<&Row>,
    round: Option<&Row>,
    present: Present,
    room: impl FnOnce() -> Result<bool, E>,
) -> Result<(Claimed, Write), E> {
    let refused = |answer| Ok((answer, Write::Nothing));
    if row.is_some_and(|row| row.fingerprint != claim.fingerprint) {
        return refused(Claimed::Conflict);
    }
    if claim.epoch != present.epoch {
        return refused(Claimed::StaleEpoch);
    }
    if let Some(owner) = &claim.under_round
        && !round.is_some_and(|round| round.is_owned_by(&owner.token))
    {
        return refused(Claimed::StaleOwner);
    }
    if !is_live(claim.key, present) {
        return refused(Claimed::Expired);
    }

    let lease = present.now.saturating_add(claim.lease);
    let Some(row) = row else {
        let limited = claim.kind == Kind::Round || claim.checks_limits;
        if limited && !room()? {
            return refused(Claimed::Full);
        }
        return Ok((Claimed::First, Write::Insert { lease }));
    };
    Ok(match &row.status {
        Status::Released => (Claimed::First, Write::Own { lease }),
        Status::Owned { .. } if row.token == claim.token => (Claimed::First, Write::Own { lease }),
        _ => match told(claim.kind, row, present.now) {
            Told::InProgress { retry_after } => {
                (Claimed::InProgress { retry_after }, Write::Nothing)
            }
            Told::Settled(outcome) => (Claimed::Settled(outcome), Write::Nothing),
            Told::Unknown => (Claimed::Abandoned, Write::Nothing),
            Told::UnknownFromNow => (Claimed::Abandoned, Write::Abandon),
        },
    })
}

/// Decides a lookup. True: the row is to be abandoned, as for [`Write::Abandon`].
#[must_use]
pub fn lookup(
    kind: Kind,
    fingerprint: &Fingerprint,
    row: Option<&Row>,
    now: Timestamp,
) -> (Found, bool) {
    let Some(row) = row else {
        return (Found::Absent, false);
    };
    if row.fingerprint != *fingerprint {
        return (Found::Conflict, false);
    }
    if row.status == Status::Released {
        return (Found::Absent, false);
    }
    match told(kind, row, now) {
        Told::InProgress { retry_after } => (Found::InProgress { retry_after }, false),
        Told::Settled(outcome) => (Found::Settled(outcome), false),
        Told::Unknown => (Found::Abandoned, false),
        Told::UnknownFromNow => (Found::Abandoned, true),
    }
}

/// Decides a settlement. The status to write, if any, is that of the settlement.
pub fn settle(
    row: Option<&Row>,
    token: &Token,
    settlement: &Settlement,
) -> (Settled, Option<Status>) {
    let Some(row) = row.filter(|row| row.token == *token) else {
        return (Settled::Refused, None);
    };
    let status = match settlement {
        Settlement::Outcome(outcome) => Status::Settled(outcome.clone()),
        Settlement::Abandoned => Status::Abandoned,
    };
    match &row.status {
        Status::Owned { .. } => (Settled::Stored, Some(status)),
        // Its answer was lost and it is made again. Anything else would rewrite what others were told.
        Status::Settled(_) | Status::Abandoned if row.status == status => (Settled::Stored, None),
        Status::Settled(_) | Status::Abandoned | Status::Released => (Settled::Refused, None),
    }
}

/// Decides a beat: the new lease, if the token owns the row.
#[must_use]
pub fn beat(
    row: Option<&Row>,
    token: &Token,
    lease: Duration,
    now: Timestamp,
) -> Option<Timestamp> {
    match row? {
        Row {
            status: Status::Owned { lease: running },
            token: owner,
            ..
        } if owner == token => Some(now.saturating_add(lease).max(*running)),
        _ => None,
    }
}

/// Decides a release. The first value is the answer, the second says whether the row becomes `Released`.
#[must_use]
pub fn release(row: Option<&Row>, token: &Token) -> (bool, bool) {
    match row.filter(|row| row.token == *token).map(|row| &row.status) {
        Some(Status::Owned { .. }) => (true, true),
        Some(Status::Released) => (true, false),
        _ => (false, false),
    }
}

/// Whether a purge may remove a row: expiry and retention have passed, and no lease runs on it.
#[must_use]
pub fn is_removable(key: RowKey, status: &Status, retention: Duration, now: Timestamp) -> bool {
    let leased = matches!(status, Status::Owned { lease } if now < *lease);
    key.expiry.saturating_add(retention) < now && !leased
}

/// `now < expiry`, and above the mark: what was removed once is not claimed again, whatever the clock says by then.
fn is_live(key: RowKey, present: Present) -> bool {
    present.now < key.expiry && present.mark.is_none_or(|mark| mark < key.expiry)
}

enum Told {
    InProgress {
        retry_after: Duration,
    },
    Settled(Vec<u8>),
    Unknown,
    /// Unknown, and because somebody hears it the owner loses the row.
    UnknownFromNow,
}

/// What someone who does not own the row is told about it.
fn told(kind: Kind, row: &Row, now: Timestamp) -> Told {
    match &row.status {
        Status::Owned { lease } if now < *lease => Told::InProgress {
            retry_after: retry_hint(lease.saturating_since(now)),
        },
        Status::Owned { .. } => match kind {
            Kind::Round => Told::UnknownFromNow,
            // Its effect may be under way, and nobody else will ever run it: a late settlement is good news.
            Kind::Step => Told::Unknown,
        },
        Status::Settled(outcome) => Told::Settled(outcome.clone()),
        Status::Abandoned | Status::Released => Told::Unknown,
    }
}

/// Soon enough to be useful, seldom enough to be polite; when the lease ends sooner, then.
fn retry_hint(lease: Duration) -> Duration {
    lease.clamp(Duration::from_millis(50), Duration::from_secs(1))
}

#[cfg(test)]
mod tests;
