//! What is asked of a ledger, and what it answers.

use std::fmt;
use std::time::Duration;

use mrtr_state::Epoch;

use crate::{Account, Fingerprint, Kind, Owner, RowKey, Token};

/// A request to be the one that runs a round or a step.
///
/// Made with [`Claim::round`] or [`Claim::step`]; a [note](Note) is not claimed, and a claim of one is `Conflict`. The
/// fields are open for ledgers to read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// Round or step.
    pub kind: Kind,
    /// The row to own.
    pub key: RowKey,
    /// The ledger's epoch when the **flow** opened, never a newer one. Another one than the ledger's is `StaleEpoch`.
    pub epoch: Epoch,
    /// What an earlier claim of the row must have matched.
    pub fingerprint: Fingerprint,
    /// Whose limits the row counts towards.
    pub account: Account,
    /// Drawn by the caller for this run. The same claim is repeated with the same token, never another run's.
    pub token: Token,
    /// The round in which a step is reached. If that round's token no longer owns it the claim is `StaleOwner`.
    /// `None` for a round, and for a step of a first call, which has no round.
    pub under_round: Option<Owner>,
    /// Whether the claim may be refused as `Full`. True for a round, and for the first step of a call that has no round.
    /// What has begun is never refused for lack of room.
    pub checks_limits: bool,
    /// Whether a round that was lost may run again: see [`Claim::run_again`].
    pub run_again: bool,
    /// How long the owner may go without a [`beat`](crate::Ledger::beat) before others are told that its outcome is
    /// unknown. Longer means that a crash is noticed later; shorter means that a stalled owner is given up.
    pub lease: Duration,
}

impl Claim {
    /// A round's claim: the last step before the body runs. It may be refused as `Full`.
    #[must_use]
    pub fn round(
        key: RowKey,
        epoch: Epoch,
        fingerprint: Fingerprint,
        account: Account,
        token: Token,
        lease: Duration,
    ) -> Self {
        let kind = Kind::Round;
        Self {
            kind,
            key,
            epoch,
            fingerprint,
            account,
            token,
            under_round: None,
            checks_limits: true,
            run_again: false,
            lease,
        }
    }

    /// The claim of a first call's first step, which may be refused as `Full`. For other steps add [`Claim::under`]
    /// (a retry's) or [`Claim::later`] (a first call's second and following).
    #[must_use]
    pub fn step(
        key: RowKey,
        epoch: Epoch,
        fingerprint: Fingerprint,
        account: Account,
        token: Token,
        lease: Duration,
    ) -> Self {
        let kind = Kind::Step;
        Self {
            kind,
            key,
            epoch,
            fingerprint,
            account,
            token,
            under_round: None,
            checks_limits: true,
            run_again: false,
            lease,
        }
    }

    /// The step is reached in this round. The round was admitted, so its steps are not refused as `Full`.
    #[must_use]
    pub fn under(self, round: Owner) -> Self {
        Self {
            under_round: Some(round),
            checks_limits: false,
            ..self
        }
    }

    /// The round takes over what is *unknown*: a round whose owner's lease has lapsed, or that was abandoned, is `First`
    /// again, and the lost owner's token is withdrawn with the same write. A step is never taken over.
    ///
    /// Only for a body that can run again from its top whatever the lost run has done: all its effects are steps, and
    /// which of them it reaches depends on nothing but the request, answers, memos and outcomes of steps.
    #[must_use]
    pub fn run_again(self) -> Self {
        Self {
            run_again: true,
            ..self
        }
    }

    /// The step comes after another one in the same first call, which was admitted with that one.
    #[must_use]
    pub fn later(self) -> Self {
        Self {
            checks_limits: false,
            ..self
        }
    }
}

/// A value that is written once, and read with [`lookup`](crate::Ledger::lookup).
///
/// Nobody owns it and nobody settles it: of two that write the same note the first one's value stands, and both read
/// that one.
#[derive(Clone)]
#[non_exhaustive]
pub struct Note {
    /// The row.
    pub key: RowKey,
    /// The ledger's epoch when the **flow** opened.
    pub epoch: Epoch,
    /// What whoever reads it must match.
    pub fingerprint: Fingerprint,
    /// Whose limits row and bytes count towards.
    pub account: Account,
    /// The round in which it is written. If that round's token no longer owns it the answer is `StaleOwner`.
    pub under_round: Option<Owner>,
    /// Whether it may be refused as `Full`.
    pub checks_limits: bool,
    /// The value. The ledger stores the bytes as they are; whether they are sealed is the caller's business.
    pub value: Vec<u8>,
}

impl Note {
    /// A note that may be refused as `Full`.
    #[must_use]
    pub fn new(
        key: RowKey,
        epoch: Epoch,
        fingerprint: Fingerprint,
        account: Account,
        value: Vec<u8>,
    ) -> Self {
        Self {
            key,
            epoch,
            fingerprint,
            account,
            under_round: None,
            checks_limits: true,
            value,
        }
    }

    /// It is written in this round, which was admitted: it is not refused as `Full`, and not taken from an owner that was
    /// withdrawn.
    #[must_use]
    pub fn under(self, round: Owner) -> Self {
        Self {
            under_round: Some(round),
            checks_limits: false,
            ..self
        }
    }
}

/// The answer to a [`Note`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kept {
    /// Written, durably as far as the ledger is durable.
    Stored,
    /// It was written before; this is the value that stands. Also the answer to the same note repeated.
    Before(Vec<u8>),
    /// The row belongs to another request.
    Conflict,
    /// `now < expiry` does not hold, or purging has passed the key.
    Expired,
    /// The flow opened under another epoch, or on another ledger.
    StaleEpoch,
    /// The round in which it was to be written is not owned by its token any more.
    StaleOwner,
    /// The account or the ledger is at its limit. Retryable: nothing was written.
    Full,
}

/// The answer to a [`Claim`]. Only [`Claimed::First`] permits the body or effect to run.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Claimed {
    /// The token owns the row, durably as far as the ledger is durable. Also the answer to the same claim repeated
    /// while the token still owns the row unsettled, and to one that [takes over](Claim::run_again).
    First,
    /// Someone else runs it.
    InProgress {
        /// When to ask again. A hint: the outcome may be there sooner or later.
        retry_after: Duration,
    },
    /// It has run; this is the outcome that was stored.
    Settled(Vec<u8>),
    /// The row belongs to another request or another answer (`already_used`), whatever became of it.
    Conflict,
    /// The outcome is unknown, and nothing runs again. Telling this of a round has withdrawn its owner's token.
    Abandoned,
    /// `now < expiry` does not hold, or purging has passed the key. The row may still exist:
    /// [`lookup`](crate::Ledger::lookup) says.
    Expired,
    /// The flow opened under another epoch, or on another ledger.
    StaleEpoch,
    /// The round in which the step was reached is not owned by its token any more.
    StaleOwner,
    /// The account or the ledger is at its limit. Retryable: nothing was claimed.
    Full,
}

/// The answer to a [`lookup`](crate::Ledger::lookup).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found {
    /// No row, or one that was released before anything ran. It may also have been purged.
    Absent,
    /// Someone runs it.
    InProgress {
        /// When to ask again. A hint.
        retry_after: Duration,
    },
    /// It has run; this is the outcome that was stored.
    Settled(Vec<u8>),
    /// The row belongs to another request or another answer.
    Conflict,
    /// The outcome is unknown. Telling this of a round has withdrawn its owner's token.
    Abandoned,
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq)]
pub enum Settlement {
    /// With this outcome, to be told to every later retry. The ledger stores the bytes as they are; how large they may
    /// be, and whether they are sealed, is the caller's business.
    Outcome(Vec<u8>),
    /// Cut off: the outcome is unknown for good.
    Abandoned,
}

/// Whether a settlement counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a refused settlement means that somebody was told that the outcome is unknown"]
pub enum Settled {
    /// Stored, durably as far as the ledger is durable. Also the answer to the same settlement repeated.
    Stored,
    /// The token does not own the row (any more). The caller answers what a lookup says.
    Refused,
}

/// What a purge removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Purged {
    /// Rounds removed.
    pub rounds: u64,
    /// Steps removed.
    pub steps: u64,
    /// Notes removed.
    pub notes: u64,
}

/// How many rows a ledger holds, expired ones that wait for a purge included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rows {
    /// Rounds in any status.
    pub rounds: u64,
    /// Steps in any status.
    pub steps: u64,
    /// Rounds with a stored outcome.
    pub settled_rounds: u64,
    /// Steps with a stored outcome.
    pub settled_steps: u64,
    /// Notes.
    pub notes: u64,
}

// Outcomes and notes hold what a tool answered or a person said, so Debug shows their length alone.

impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Note")
            .field("key", &self.key)
            .field("under_round", &self.under_round)
            .field("bytes", &self.value.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored => f.write_str("Stored"),
            Self::Before(value) => write!(f, "Before({} bytes)", value.len()),
            Self::Conflict => f.write_str("Conflict"),
            Self::Expired => f.write_str("Expired"),
            Self::StaleEpoch => f.write_str("StaleEpoch"),
            Self::StaleOwner => f.write_str("StaleOwner"),
            Self::Full => f.write_str("Full"),
        }
    }
}

impl fmt::Debug for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("First"),
            Self::InProgress { retry_after } => write!(f, "InProgress({retry_after:?})"),
            Self::Settled(outcome) => write!(f, "Settled({} bytes)", outcome.len()),
            Self::Conflict => f.write_str("Conflict"),
            Self::Abandoned => f.write_str("Abandoned"),
            Self::Expired => f.write_str("Expired"),
            Self::StaleEpoch => f.write_str("StaleEpoch"),
            Self::StaleOwner => f.write_str("StaleOwner"),
            Self::Full => f.write_str("Full"),
        }
    }
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("Absent"),
            Self::InProgress { retry_after } => write!(f, "InProgress({retry_after:?})"),
            Self::Settled(outcome) => write!(f, "Settled({} bytes)", outcome.len()),
            Self::Conflict => f.write_str("Conflict"),
            Self::Abandoned => f.write_str("Abandoned"),
        }
    }
}

impl fmt::Debug for Settlement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outcome(outcome) => write!(f, "Outcome({} bytes)", outcome.len()),
            Self::Abandoned => f.write_str("Abandoned"),
        }
    }
}
