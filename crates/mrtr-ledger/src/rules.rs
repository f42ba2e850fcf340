//! The decisions of the contract, free of storage and of clocks.
//!
//! A ledger reads the rows that a question is about, asks the function here what to answer and what to write, and does
//! both under one lock or in one transaction. Everything that makes a state good for one answer is in this file;
//! everything that makes it durable is not.

use std::fmt;
use std::time::Duration;

use mrtr_state::{Epoch, Timestamp};

use crate::{
    Claim, Claimed, Fingerprint, Found, Kept, Kind, Note, Owner, RowKey, Settled, Settlement, Token,
};

/// What becomes of a row. It starts as `Owned`; `Settled` is final, and so is `Abandoned` for all but a round that may
/// [run again](Claim::run_again).
///
/// ```text
///            claim                      settle
///   (none) --------> Owned(token) -------------------> Settled(outcome)
///                    ^    |   \   settle(Abandoned),
///      claim, same   |    |    \  a lapsed round told
///      fingerprint   |    | release \
///                    |    v          +---------------> Abandoned
///                   Released                               |
///                                                          | a claim that runs again; of a lapsed
///                         Owned(token, again) <------------+ round too, without a detour
///                              | settle --> Settled(outcome)
///                              +- release, settle(Abandoned), told --> Abandoned
/// ```
///
/// A note has one status from its beginning: `Settled`, with its value.
#[derive(Clone, PartialEq, Eq)]
pub enum Status {
    /// A token owns it until it is settled or withdrawn.
    Owned {
        /// When the lease lapses. `now < lease` means that it runs.
        lease: Timestamp,
        /// It was taken over from an owner whose body may have run, so that nobody can say any more that nothing has.
        again: bool,
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
            Self::Owned { lease, again } => {
                let again = if *again { ", again" } else { "" };
                write!(f, "Owned(until {}{again})", lease.as_millis())
            }
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
    /// The row of a note. No token owns it.
    #[must_use]
    pub fn of_note(fingerprint: Fingerprint, value: Vec<u8>) -> Self {
        Self {
            fingerprint,
            token: Token::from_bytes([0; 16]),
            status: Status::Settled(value),
        }
    }

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
    /// The mark of the kind that is asked for: the largest expiry of any row of the kind that was removed, if any was.
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
        /// Whether it is, or was before, taken over: see [`Status::Owned`].
        again: bool,
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
    let Claim {
        kind,
        key,
        epoch,
        fingerprint,
        under_round,
        ..
    } = claim;
    // Notes are kept and not claimed: nobody can own one.
    if *kind == Kind::Note {
        return Ok((Claimed::Conflict, Write::Nothing));
    }
    let asked = Asked {
        key: *key,
        epoch: *epoch,
        fingerprint,
        under_round: under_round.as_ref(),
    };
    if let Some(refusal) = refuse(&asked, row, round, present) {
        return Ok((refusal.into(), Write::Nothing));
    }

    let lease = present.now.saturating_add(claim.lease);
    let Some(row) = row else {
        let limited = *kind == Kind::Round || claim.checks_limits;
        if limited && !room()? {
            return Ok((Claimed::Full, Write::Nothing));
        }
        return Ok((Claimed::First, Write::Insert { lease }));
    };
    let own = |again| (Claimed::First, Write::Own { lease, again });
    let takes_over = *kind == Kind::Round && claim.run_again;
    Ok(match &row.status {
        Status::Released => own(false),
        Status::Owned { again, .. } if row.token == claim.token => own(*again),
        _ => match told(*kind, row, present.now) {
            Told::InProgress { retry_after } => {
                (Claimed::InProgress { retry_after }, Write::Nothing)
            }
            Told::Settled(outcome) => (Claimed::Settled(outcome), Write::Nothing),
            // The row's token is overwritten, so the owner that was lost is withdrawn with the same write.
            Told::Unknown | Told::UnknownFromNow if takes_over => own(true),
            Told::Unknown => (Claimed::Abandoned, Write::Nothing),
            Told::UnknownFromNow => (Claimed::Abandoned, Write::Abandon),
        },
    })
}

/// Decides whether a note is written. True: it is to be inserted, as [`Row::of_note`].
///
/// `row` is the note under the key, `round` the round that [`Note::under_round`] names. `room` is asked only where
/// limits apply.
///
/// # Errors
/// Those of `room`.
pub fn keep<E>(
    note: &Note,
    row: Option<&Row>,
    round: Option<&Row>,
    present: Present,
    room: impl FnOnce() -> Result<bool, E>,
) -> Result<(Kept, bool), E> {
    let asked = Asked {
        key: note.key,
        epoch: note.epoch,
        fingerprint: &note.fingerprint,
        under_round: note.under_round.as_ref(),
    };
    if let Some(refusal) = refuse(&asked, row, round, present) {
        return Ok((refusal.into(), false));
    }
    match row.map(|row| &row.status) {
        Some(Status::Settled(value)) => Ok((Kept::Before(value.clone()), false)),
        // Not a note. Whoever wrote it, nothing is put in its place.
        Some(_) => Ok((Kept::Conflict, false)),
        None if note.checks_limits && !room()? => Ok((Kept::Full, false)),
        None => Ok((Kept::Stored, true)),
    }
}

/// What a claim and a note have in common.
struct Asked<'a> {
    key: RowKey,
    epoch: Epoch,
    fingerprint: &'a Fingerprint,
    under_round: Option<&'a Owner>,
}

/// Why nothing is written whatever the row says, in the order in which it is told.
enum Refusal {
    Conflict,
    StaleEpoch,
    StaleOwner,
    Expired,
}

fn refuse(
    asked: &Asked<'_>,
    row: Option<&Row>,
    round: Option<&Row>,
    present: Present,
) -> Option<Refusal> {
    if row.is_some_and(|row| row.fingerprint != *asked.fingerprint) {
        return Some(Refusal::Conflict);
    }
    if asked.epoch != present.epoch {
        return Some(Refusal::StaleEpoch);
    }
    if let Some(owner) = asked.under_round
        && !round.is_some_and(|round| round.is_owned_by(&owner.token))
    {
        return Some(Refusal::StaleOwner);
    }
    (!is_live(asked.key, present)).then_some(Refusal::Expired)
}

impl From<Refusal> for Claimed {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Conflict => Self::Conflict,
            Refusal::StaleEpoch => Self::StaleEpoch,
            Refusal::StaleOwner => Self::StaleOwner,
            Refusal::Expired => Self::Expired,
        }
    }
}

impl From<Refusal> for Kept {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Conflict => Self::Conflict,
            Refusal::StaleEpoch => Self::StaleEpoch,
            Refusal::StaleOwner => Self::StaleOwner,
            Refusal::Expired => Self::Expired,
        }
    }
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

/// Decides a beat: the status with the new lease, if the token owns the row.
#[must_use]
pub fn beat(row: Option<&Row>, token: &Token, lease: Duration, now: Timestamp) -> Option<Status> {
    match row? {
        Row {
            status:
                Status::Owned {
                    lease: running,
                    again,
                },
            token: owner,
            ..
        } if owner == token => Some(Status::Owned {
            lease: now.saturating_add(lease).max(*running),
            again: *again,
        }),
        _ => None,
    }
}

/// Decides a release: the answer, and what the row becomes. A row that was taken over is not free again: that this run
/// has done nothing does not say that nothing was done.
#[must_use]
pub fn release(row: Option<&Row>, token: &Token) -> (bool, Option<Status>) {
    match row.filter(|row| row.token == *token).map(|row| &row.status) {
        Some(Status::Owned { again: false, .. }) => (true, Some(Status::Released)),
        Some(Status::Owned { again: true, .. }) => (true, Some(Status::Abandoned)),
        Some(Status::Released) => (true, None),
        _ => (false, None),
    }
}

/// Whether a purge may remove a row: expiry and retention have passed, and no lease runs on it.
#[must_use]
pub fn is_removable(key: RowKey, status: &Status, retention: Duration, now: Timestamp) -> bool {
    let leased = matches!(status, Status::Owned { lease, .. } if now < *lease);
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
        Status::Owned { lease, .. } if now < *lease => Told::InProgress {
            retry_after: retry_hint(lease.saturating_since(now)),
        },
        Status::Owned { .. } => match kind {
            Kind::Round => Told::UnknownFromNow,
            // Its effect may be under way, and nobody else will ever run it: a late settlement is good news.
            Kind::Step | Kind::Note => Told::Unknown,
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
