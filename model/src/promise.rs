//! What must hold in every world, whatever happens.

use std::fmt;

/// A promise. The first ten are those of the project's front page, taken apart; the others are what the ledger says of
/// itself, without which the first would be worth less than they look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Promise {
    OneAnswer,
    OneRun,
    AtMostOnce,
    ExactlyOnce,
    NoContradiction,
    UnknownIsFinal,
    UnknownHasACause,
    NoUnknown,
    Completes,
    OneValue,
    TrueWords,
    OwnWords,
    Kept,
    Undisturbed,
    Retained,
    Lifetime,
    NotForTheGone,
    Declared,
}

impl Promise {
    /// All of them, in the order in which they are told.
    pub(crate) const ALL: [Self; 18] = [
        Self::OneAnswer,
        Self::OneRun,
        Self::AtMostOnce,
        Self::ExactlyOnce,
        Self::NoContradiction,
        Self::UnknownIsFinal,
        Self::UnknownHasACause,
        Self::NoUnknown,
        Self::Completes,
        Self::OneValue,
        Self::TrueWords,
        Self::OwnWords,
        Self::Kept,
        Self::Undisturbed,
        Self::Retained,
        Self::Lifetime,
        Self::NotForTheGone,
        Self::Declared,
    ];

    /// Its name, as in docs/ledger.md.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OneAnswer => "one-answer",
            Self::OneRun => "one-run",
            Self::AtMostOnce => "at-most-once",
            Self::ExactlyOnce => "exactly-once",
            Self::NoContradiction => "no-contradiction",
            Self::UnknownIsFinal => "unknown-is-final",
            Self::UnknownHasACause => "unknown-has-a-cause",
            Self::NoUnknown => "no-unknown",
            Self::Completes => "completes",
            Self::OneValue => "one-value",
            Self::TrueWords => "true-words",
            Self::OwnWords => "own-words",
            Self::Kept => "kept",
            Self::Undisturbed => "undisturbed",
            Self::Retained => "retained",
            Self::Lifetime => "lifetime",
            Self::NotForTheGone => "not-for-the-gone",
            Self::Declared => "declared",
        }
    }

    /// What it says.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::OneAnswer => "a sealed state is claimed with one answer, ever",
            Self::OneRun => "a body that may not run again runs once",
            Self::AtMostOnce => {
                "an effect inside `once` happens at most once a flow, and so does one of two that exclude each other"
            }
            Self::ExactlyOnce => {
                "who was told that it is done can rely on it: it happened, once; who was told that it is not done, on that"
            }
            Self::NoContradiction => "nothing that was acknowledged is contradicted later",
            Self::UnknownIsFinal => {
                "once somebody was told *unknown*, the run that was lost starts no step and stores no outcome"
            }
            Self::UnknownHasACause => {
                "every *unknown* has a crash, a lapsed lease, a lost ledger reply or a cut-off body behind it"
            }
            Self::NoUnknown => {
                "with `run_again` and `once_in` nobody is told *unknown* while the state lives"
            }
            Self::Completes => {
                "when nothing is under way any more, one more retry of a living state is told how it ended"
            }
            Self::OneValue => {
                "a memo, and a step's outcome, is the same for all bodies that went by it"
            }
            Self::TrueWords => {
                "*in progress*, *already used*, *expired* and *nothing is known* are said only where it is so"
            }
            Self::OwnWords => "what became of a run is told to its own retry alone",
            Self::Kept => "what comes to its end on a server that lives is written down",
            Self::Undisturbed => {
                "nobody loses a row while its lease runs, nor without somebody being told"
            }
            Self::Retained => "an outcome is there until its retention is over",
            Self::Lifetime => "nothing is claimed after its end, by the ledger's clock",
            Self::NotForTheGone => "no step begins for a client that has left",
            Self::Declared => "nobody is asked what they did not declare",
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
