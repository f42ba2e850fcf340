//! What is asked of a ledger, and what it answers.

use std::fmt;
use std::time::Duration;

use mrtr_state::Epoch;

use crate::{Account, Fingerprint, Kind, Owner, RowKey, Token};

/// A request to be the one that runs a round or a step.
///
/// Made with [`Claim::round`] or [`Claim::step`]; the fields are open for ledgers to read.
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

    /// The step comes after another one in the same first call, which was admitted with that one.
    #[must_use]
    pub fn later(self) -> Self {
        Self {
            checks_limits: false,
            ..self
        }
    }
}

/// The answer to a [`Claim`]. Only [`Claimed::First`] permits the body or effect to run.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Claimed {
    /// The token owns the row, durably as far as the ledger is durable. Also the answer to the same claim repeated
    /// while the token still owns the row unsettled.
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
}

// Outcomes hold what a tool answered, so Debug shows their length alone.

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
