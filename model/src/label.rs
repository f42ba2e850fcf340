//! What happened between two worlds, in words.

use std::fmt;

use crate::world::{ONE_MORE, Outcome, short};

/// What a ledger, or a server, said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Nothing,
    First,
    InProgress,
    Settled(Outcome),
    Conflict,
    Unknown,
    Expired,
    StaleEpoch,
    StaleOwner,
    Full,
    Absent,
    Stored,
    Before(u8),
    Refused,
    Yes,
    No,
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::First => f.write_str("First"),
            Self::InProgress => f.write_str("InProgress"),
            Self::Settled(outcome) => write!(f, "Settled({outcome})"),
            Self::Conflict => f.write_str("Conflict"),
            Self::Unknown => f.write_str("Abandoned"),
            Self::Expired => f.write_str("Expired"),
            Self::StaleEpoch => f.write_str("StaleEpoch"),
            Self::StaleOwner => f.write_str("StaleOwner"),
            Self::Full => f.write_str("Full"),
            Self::Absent => f.write_str("Absent"),
            Self::Stored => f.write_str("Stored"),
            Self::Before(call) => write!(f, "Before(what call {} computed)", call + 1),
            Self::Refused => f.write_str("Refused"),
            Self::Yes => f.write_str("true"),
            Self::No => f.write_str("false"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(call) => write!(f, "done by call {}", call + 1),
            Self::Asks(call) => write!(f, "the question of call {}", call + 1),
            Self::Err => f.write_str("the step failed"),
            Self::Failed => f.write_str("not done"),
            Self::Cancelled => f.write_str("cancelled before the step"),
            Self::NotRun => f.write_str("expired"),
            Self::InProgress => f.write_str("1001, in progress"),
            Self::Unknown => f.write_str("1002, unknown"),
            Self::NoWord => f.write_str("1003, no word"),
            Self::Cut => f.write_str("cut off"),
            Self::NoRoom => f.write_str("1003, no room"),
            Self::Dropped => f.write_str("dropped"),
            Self::Late => f.write_str("not run"),
        }
    }
}

/// Whether the ledger's word arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// It did.
    Heard,
    /// It was done, and the word was lost.
    Lost,
    /// It was not done, and there was no word.
    Never,
}

/// What a caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The result, or the question.
    Result(Outcome),
    /// 1001.
    InProgress,
    /// 1002.
    Unknown,
    /// 1003: repeat the same request.
    Repeat,
    /// `already_used`.
    Used,
    /// `expired`, with the advice to check what was done.
    Expired,
    /// `stale_epoch`, with the same advice.
    Stale,
    /// -32021.
    Undeclared,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Result(outcome) => write!(f, "{outcome}"),
            Self::InProgress => f.write_str("1001, in progress"),
            Self::Unknown => f.write_str("1002, unknown"),
            Self::Repeat => f.write_str("1003, repeat it"),
            Self::Used => f.write_str("already_used"),
            Self::Expired => f.write_str("expired"),
            Self::Stale => f.write_str("stale_epoch"),
            Self::Undeclared => f.write_str("-32021, a capability is missing"),
        }
    }
}

/// One line of a trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    /// A call, or nobody's.
    pub(crate) call: Option<u8>,
    /// What it does.
    pub(crate) does: &'static str,
    /// What the ledger said.
    pub(crate) said: Said,
    /// Whether that arrived.
    pub(crate) word: Word,
    /// What its caller was told, and whether that arrived.
    pub(crate) told: Option<(Told, bool)>,
}

impl Label {
    /// Something that no call does.
    pub(crate) const fn world(does: &'static str) -> Self {
        Self {
            call: None,
            does,
            said: Said::Nothing,
            word: Word::Heard,
            told: None,
        }
    }

    /// What a call does.
    pub(crate) const fn call(call: usize, does: &'static str) -> Self {
        Self {
            call: Some(short(call)),
            does,
            said: Said::Nothing,
            word: Word::Heard,
            told: None,
        }
    }

    pub(crate) const fn said(self, said: Said) -> Self {
        Self { said, ..self }
    }

    pub(crate) const fn word(self, word: Word) -> Self {
        Self { word, ..self }
    }

    pub(crate) const fn told(self, told: Told, arrives: bool) -> Self {
        Self {
            told: Some((told, arrives)),
            ..self
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.call {
            Some(call) if usize::from(call) == ONE_MORE => f.write_str("one more retry ")?,
            Some(call) => write!(f, "call {} ", call + 1)?,
            None => {}
        }
        f.write_str(self.does)?;
        match (self.word, self.said) {
            (Word::Never, _) => f.write_str(": it does not arrive, no word")?,
            (Word::Lost, Said::Nothing) => f.write_str(": done, and the word is lost")?,
            (Word::Lost, said) => write!(f, ": {said}, and the word is lost")?,
            (Word::Heard, Said::Nothing) => {}
            (Word::Heard, said) => write!(f, ": {said}")?,
        }
        match self.told {
            None => Ok(()),
            Some((told, true)) => write!(f, "; its caller is told: {told}"),
            Some((told, false)) => write!(f, "; its caller does not hear: {told}"),
        }
    }
}
