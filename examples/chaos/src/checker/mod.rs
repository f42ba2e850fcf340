//! Judges a run by its history.
//!
//! Two things are held against each other that know nothing of one another: what clients were told, and the effects' own
//! record. What the servers wrote down of the ledger's answers is asked for one thing alone: what is behind a word like
//! *unknown* or *in progress*.
//!
//! | module | what is in it |
//! |---|---|
//! | [`effects`] | at most once, and what was acknowledged exactly once |
//! | [`replays`] | the same result for the same retry, and none for another answer |
//! | [`owners`] | one run for each row |
//! | [`unknowns`] | what is behind an *unknown* |
//! | [`rejections`] | what is behind every other refusal |
//! | [`leases`] | who owned a row, and until when |
//! | [`evidence`] | a history from all sides |
//!
//! Where a history leaves something open (a clock that was set between two moments, a claim whose process was killed
//! before it could tell), the servers have the benefit of the doubt.

pub(crate) mod effects;
pub(crate) mod evidence;
pub(crate) mod leases;
pub(crate) mod owners;
pub(crate) mod rejections;
pub(crate) mod replays;
pub(crate) mod unknowns;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::checker::evidence::Evidence;
use crate::checker::unknowns::Cause;
use crate::history::History;

/// What is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Promise {
    /// Each effect of a flow happens at most once.
    AtMostOnce,
    /// What was acknowledged happened exactly once, as it was acknowledged.
    Acknowledged,
    /// The same retry has the same result, whenever and wherever it is sent.
    SameResult,
    /// A state is good for one answer.
    OneAnswer,
    /// Until a row expires, one run owns it.
    OneOwner,
    /// An unknown outcome has a crash, a lapsed lease, a lost word or a cut-off body behind it.
    UnknownForAReason,
    /// Where effect and outcome are one transaction, and a lost run may be taken over, nothing is unknown while its state
    /// lives.
    Certain,
    /// Every other refusal has its reason too.
    JustRefusal,
    /// Nothing else comes.
    NoSurprise,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Promise::AtMostOnce => "at most once",
            Promise::Acknowledged => "what was acknowledged happened exactly once",
            Promise::SameResult => "the same retry has the same result",
            Promise::OneAnswer => "a state is good for one answer",
            Promise::OneOwner => "one run owns a row",
            Promise::UnknownForAReason => "unknown for a reason",
            Promise::Certain => "nothing unknown in one transaction",
            Promise::JustRefusal => "refused for a reason",
            Promise::NoSurprise => "no surprises",
        })
    }
}

/// A promise that was not kept.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) promise: Promise,
    pub(crate) flow: u64,
    pub(crate) what: String,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) violations: Vec<Violation>,
    /// Reported unknowns, by what is behind them.
    pub(crate) unknowns: BTreeMap<Cause, u64>,
    /// Rejected states, by reason.
    pub(crate) rejections: BTreeMap<String, u64>,
    /// Steps that were vouched for, in whatever number of responses.
    acknowledged: BTreeSet<(u64, String)>,
}

impl Findings {
    fn broken(&mut self, promise: Promise, flow: u64, what: String) {
        self.violations.push(Violation {
            promise,
            flow,
            what,
        });
    }

    fn unknown(&mut self, cause: Cause) {
        *self.unknowns.entry(cause).or_default() += 1;
    }

    fn rejected(&mut self, reason: &str) {
        *self.rejections.entry(reason.to_owned()).or_default() += 1;
    }

    fn acknowledged(&mut self, flow: u64, step: &str) {
        self.acknowledged.insert((flow, step.to_owned()));
    }

    /// How many effects were acknowledged.
    pub(crate) fn effects_acknowledged(&self) -> usize {
        self.acknowledged.len()
    }
}

/// Judges a run.
pub(crate) fn check(history: &History) -> Findings {
    let evidence = Evidence::of(history);
    let mut findings = Findings::default();
    effects::check(&evidence, &mut findings);
    replays::check(&evidence, &mut findings);
    owners::check(&evidence, &mut findings);
    rejections::check(&evidence, &mut findings);
    findings
        .violations
        .sort_by_key(|violation| (violation.promise, violation.flow));
    findings
}

#[cfg(test)]
mod tests;
