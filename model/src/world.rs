//! One moment of the model's world, small enough to keep a hundred million of them.
//!
//! Everything that a run of the search may depend on is here and nothing else: what the ledger holds, where each call
//! stands, what the effects' own record says, and what was said to whom.

use mrtr_ledger::Kind;
use mrtr_state::Timestamp;

/// How many calls there are at most.
pub(crate) const CALLS: usize = 3;
/// One more retry, which is made when nothing is under way any more, and never kept.
pub(crate) const ONE_MORE: usize = CALLS;
/// The largest number that the clock shows.
pub(crate) const LAST_HOUR: u8 = 3;

/// The clock shows one of four hours, so that each order of lease, expiry and retention occurs:
///
/// | hour | a lease from hour 0 | state 1 (ends at 19) | state 2, steps, notes (end at 22) |
/// |---|---|---|---|
/// | 0 | runs | lives | live |
/// | 1 | has lapsed | lives | live |
/// | 2 | | has expired, and is retained | live |
/// | 3 | | may be purged | may be purged |
const HOUR: u64 = 10;
/// How long a lease lasts.
pub(crate) const LEASE: u64 = HOUR;
/// How long rows stay after their expiry.
pub(crate) const RETENTION: u64 = 5;
/// Ends of rows and marks, by the number under which the world keeps them. The last is no row's, but the clock's.
const ENDS: [u64; 4] = [0, 19, 22, 30];
/// No mark.
pub(crate) const NO_MARK: u8 = 0;
/// Where state 1 ends.
pub(crate) const END_OF_STATE_1: u8 = 1;
/// Where the flow ends, and with it state 2, steps and notes.
pub(crate) const END_OF_FLOW: u8 = 2;
/// The last hour, as a mark.
pub(crate) const END_OF_TIME: u8 = 3;

/// A call's number as the world keeps it.
#[allow(
    clippy::cast_possible_truncation,
    reason = "there are four calls at most"
)]
pub(crate) const fn short(call: usize) -> u8 {
    call as u8
}

/// What the clock shows at an hour.
pub(crate) fn at_hour(hour: u8) -> Timestamp {
    Timestamp::from_millis(u64::from(hour) * HOUR)
}

/// The hour at which a lease lapses. Leases begin at whole hours and last one.
pub(crate) fn hour_of(lease: Timestamp) -> u8 {
    u8::try_from(lease.as_millis() / HOUR).unwrap_or(u8::MAX)
}

/// An end by its number.
pub(crate) fn end(number: u8) -> Timestamp {
    let millis = ENDS.get(usize::from(number)).copied().unwrap_or(u64::MAX);
    Timestamp::from_millis(millis)
}

/// What a row, or a body that is over, has come to; also what a call's reply will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The effect that this call ran; the body's final result names it.
    Done(u8),
    /// The body of this call asks: it has minted state 2.
    Asks(u8),
    /// The effect has failed, and was taken back with its transaction.
    Err,
    /// The step said that nothing was done, or the flow had ended before it.
    Failed,
    /// The client left before the step.
    Cancelled,
    /// A rejection in the body, which says to check what was done: expired, or from before the ledger was reset.
    NotRun,
    /// 1001, and so not to be kept: another run is inside the step.
    InProgress,
    /// 1002: nobody knows what came of the step.
    Unknown,
    /// 1003: no word from the ledger.
    NoWord,
    /// The body was cut off.
    Cut,
    /// There was no room for the step. Only where that rule is turned.
    NoRoom,
    /// The body was dropped with its connection. Only where that rule is turned.
    Dropped,
    /// No body has run: the state was taken for expired.
    Late,
}

impl Outcome {
    /// 1001 to 1003, and bodies that did not come to their end: nothing that may be kept.
    pub(crate) const fn is_kept(self) -> bool {
        matches!(
            self,
            Self::Done(_)
                | Self::Asks(_)
                | Self::Err
                | Self::Failed
                | Self::Cancelled
                | Self::NotRun
        )
    }

    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done(call) => call,
            Self::Asks(call) => 4 + call,
            Self::Err => 8,
            Self::Failed => 9,
            Self::Cancelled => 10,
            Self::NotRun => 11,
            Self::InProgress => 12,
            Self::Unknown => 13,
            Self::NoWord => 14,
            Self::Cut => 15,
            Self::NoRoom => 16,
            Self::Dropped => 17,
            Self::Late => 18,
        }
    }

    pub(crate) const fn from_code(code: u8) -> Self {
        match code {
            0..=3 => Self::Done(code),
            4..=7 => Self::Asks(code - 4),
            8 => Self::Err,
            9 => Self::Failed,
            10 => Self::Cancelled,
            11 => Self::NotRun,
            12 => Self::InProgress,
            13 => Self::Unknown,
            14 => Self::NoWord,
            15 => Self::Cut,
            16 => Self::NoRoom,
            17 => Self::Dropped,
            _ => Self::Late,
        }
    }
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Status {
    /// There is no row.
    #[default]
    Absent,
    /// A token owns it.
    Owned {
        /// The hour at which the lease lapses.
        lease: u8,
        /// It was taken over.
        again: bool,
    },
    /// It was given back.
    Released,
    /// It has an outcome.
    Settled(Outcome),
    /// Its outcome is unknown.
    Abandoned,
}

/// A row of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Row {
    /// What became of it.
    pub(crate) status: Status,
    /// Who owned it last: a call, or a call + 4 where a rule is turned and a second token drawn.
    pub(crate) token: u8,
    /// The fingerprint.
    pub(crate) print: u8,
}

impl Row {
    /// The call that the token belongs to.
    pub(crate) const fn owner(&self) -> usize {
        (self.token & 3) as usize
    }

    pub(crate) const fn is_there(&self) -> bool {
        !matches!(self.status, Status::Absent)
    }
}

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
#[repr(u8)]
pub(crate) enum At {
    /// It has not been sent.
    #[default]
    Unsent,
    /// Its round's claim was sent, and there was no word.
    Claiming,
    /// Its round's claim was decided and nothing is written yet. Only where a rule is turned.
    Deciding,
    /// The body has begun and computes its memo.
    Memo,
    /// The body has come to its step.
    Step,
    /// The step's claim was sent, and there was no word.
    Stepping,
    /// The step's claim was decided and nothing is written yet. Only where a rule is turned.
    StepDeciding,
    /// The step is owned; its effect has not happened.
    Effect,
    /// The effect has happened; the step is not settled.
    Effected,
    /// The step says that nothing was done, and is to be released.
    Freeing,
    /// A transaction is open in which the step was claimed and its effect made.
    Transaction,
    /// There was no word on the commit.
    Asking,
    /// The ledger calls the step expired; it is to be looked up.
    StepLooking,
    /// The body is over; the round is to be settled.
    Ending,
    /// There was no word on the settling and the caller was told; it is tried on.
    Keeping,
    /// The settling was refused, or the state called expired; the round is to be looked up.
    Looking,
    /// The claim is refused, and an earlier one without word was granted: that is given back before the look-up.
    Returning,
    /// The round is to be given back; the caller was told.
    Releasing,
    /// The caller was told before the round was settled. Only where a rule is turned.
    Answered,
    /// It has come to its end.
    Done,
    /// Its server has crashed.
    Crashed,
    /// It was dropped with its connection. Only where a rule is turned.
    Dropped,
}

impl At {
    const ALL: [Self; 22] = [
        Self::Unsent,
        Self::Claiming,
        Self::Deciding,
        Self::Memo,
        Self::Step,
        Self::Stepping,
        Self::StepDeciding,
        Self::Effect,
        Self::Effected,
        Self::Freeing,
        Self::Transaction,
        Self::Asking,
        Self::StepLooking,
        Self::Ending,
        Self::Keeping,
        Self::Looking,
        Self::Returning,
        Self::Releasing,
        Self::Answered,
        Self::Done,
        Self::Crashed,
        Self::Dropped,
    ];

    pub(crate) fn from_code(code: u8) -> Self {
        Self::ALL
            .get(usize::from(code))
            .copied()
            .unwrap_or(Self::Unsent)
    }

    /// Not begun, or over.
    pub(crate) const fn is_idle(self) -> bool {
        matches!(
            self,
            Self::Unsent | Self::Done | Self::Crashed | Self::Dropped
        )
    }

    /// Its client still waits for a word.
    pub(crate) const fn is_awaited(self) -> bool {
        !self.is_idle() && !matches!(self, Self::Keeping | Self::Releasing | Self::Answered)
    }

    /// The body runs.
    pub(crate) const fn is_body(self) -> bool {
        matches!(
            self,
            Self::Memo
                | Self::Step
                | Self::Stepping
                | Self::Effect
                | Self::Effected
                | Self::Freeing
                | Self::Transaction
                | Self::Asking
                | Self::StepLooking
        )
    }
}

/// What goes on in the background for a step that the body has left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub(crate) enum Chore {
    /// Nothing.
    #[default]
    None,
    /// Its outcome is to be settled.
    Settle,
    /// It is to be abandoned.
    Abandon,
    /// It is to be released.
    Release,
}

/// One call, on a server of its own: two that crash at once are two that crash one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Call {
    /// Where it stands.
    pub(crate) at: At,
    /// Its connection has closed.
    pub(crate) left: bool,
    /// What is left to do for its step.
    pub(crate) chore: Chore,
    /// What its body has come to, once it is over.
    pub(crate) came: Option<Outcome>,
    /// It claims with its second token. Only where a rule is turned.
    pub(crate) redrawn: bool,
}

impl Call {
    /// Its server still has something to do for it.
    pub(crate) const fn is_running(&self) -> bool {
        !self.at.is_idle() || !matches!(self.chore, Chore::None)
    }

    /// A call that is over remembers how, and nothing else but what is left to do.
    pub(crate) fn over(self, at: At) -> Self {
        Self {
            at,
            chore: self.chore,
            ..Self::default()
        }
    }
}

/// A commit of which nobody has heard, and which may yet happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flying {
    /// Whose step.
    pub(crate) call: u8,
    /// Its effect has failed, so that nothing but the failure is kept.
    pub(crate) failed: bool,
}

/// Everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct World {
    /// The hour that the ledger's clock shows.
    pub(crate) hour: u8,
    /// The epoch is not the one under which the flow opened.
    pub(crate) rotated: bool,
    /// The ledger was restored from its first backup, which is empty.
    pub(crate) restored: bool,
    /// The rows of the two states.
    pub(crate) rounds: [Row; 2],
    /// The row of the step; the second is used only where a rule is turned.
    pub(crate) steps: [Row; 2],
    /// The note of the memo: the call that computed its value.
    pub(crate) note: Option<u8>,
    /// The purge marks of the three kinds, by number.
    pub(crate) marks: [u8; 3],
    /// What the marks would be if they were raised as they should.
    pub(crate) due: [u8; 3],
    /// A commit without word.
    pub(crate) flying: Option<Flying>,
    /// The calls.
    pub(crate) calls: [Call; CALLS + 1],
    /// How often each effect happened, by its own record; at most 2 is kept.
    pub(crate) effects: [u8; 2],
    /// With which answer each state was claimed first.
    pub(crate) claimed: [Option<u8>; 2],
    /// Whether a body has run on each state.
    pub(crate) ran: [bool; 2],
    /// What the callers of each answer were told as its result.
    pub(crate) heard: [Option<Outcome>; 3],
    /// The memo's value that bodies went by.
    pub(crate) used: Option<u8>,
    /// The step's outcome that bodies went by.
    pub(crate) seen: Option<Outcome>,
    /// Whose round somebody was told to be unknown, or has taken over, while it runs.
    pub(crate) lost: [bool; CALLS + 1],
}

/// Where a mark of the kind is kept.
pub(crate) const fn shelf(kind: Kind) -> usize {
    match kind {
        Kind::Round => 0,
        Kind::Step => 1,
        Kind::Note => 2,
    }
}
