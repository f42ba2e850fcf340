//! Behind every *unknown* there is something that makes it true: a crash, a lapsed lease, a lost reply of the ledger, a
//! body that was cut off. Told from what the server that said it had heard from the ledger, back to the run whose outcome
//! is not known, to what happened to that run.

use std::fmt;

use crate::checker::evidence::Evidence;
use crate::checker::leases::Owner;
use crate::history::{Call, Op, What};
use crate::server::tools::PANIC;
use crate::terms::{LEASE, RETENTION, millis};
use crate::trace::{Answer, Kind, Millis, Process, Question, RowId, TokenId};

/// What is behind an *unknown*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// The run's process was killed.
    Killed,
    /// The run's process was stopped, and had no more time.
    ShutDown,
    /// The ledger's word did not come: to a claim, a settlement or a sign of life.
    LostWord,
    /// The lease lapsed by a clock that was set.
    ClockSet,
    /// The lease lapsed while the run's process, or the one that asked, stood still.
    StoodStill,
    /// The lease lapsed because process or ledger were too slow for signs of life.
    Slow,
    /// The tool dropped the step half-way.
    CutOff,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Killed => "crash",
            Cause::ShutDown => "shutdown",
            Cause::LostWord => "lost word of the ledger",
            Cause::ClockSet => "lapsed lease, clock set",
            Cause::StoodStill => "lapsed lease, process stood still",
            Cause::Slow => "lapsed lease, slow",
            Cause::CutOff => "cut-off body",
        })
    }
}

/// A chain of causes is never longer: a round that was given up for a step whose run was withdrawn with its own round.
const DEPTH: u32 = 6;

/// So many operations are asked for a reason at most. Where a row has hundreds of owners there is none to be found.
const PATIENCE: u32 = 400;

type Found = Result<Cause, String>;

impl Evidence<'_> {
    /// What is behind the *unknown* that a call got.
    pub(crate) fn cause(&self, call: &Call) -> Found {
        let heard = self.ops_during(call.flow, call.to, call.from..=call.till);
        self.patience.set(PATIENCE);
        self.among(call.flow, &heard, DEPTH).unwrap_or_else(|| {
            Err(format!(
                "nothing that {} heard of its rows in that time makes it unknown",
                call.to
            ))
        })
    }

    /// The first operation that explains an *unknown*; otherwise why one does not that should.
    fn among(&self, flow: u64, heard: &[&Op], depth: u32) -> Option<Found> {
        let mut found = None;
        for op in heard {
            match self.explain(flow, op, depth) {
                Some(Ok(cause)) => return Some(Ok(cause)),
                other => found = found.or(other),
            }
        }
        found
    }

    /// What an operation says of why something is unknown, if it says that.
    fn explain(&self, flow: u64, op: &Op, depth: u32) -> Option<Found> {
        let left = self.patience.get().checked_sub(1);
        let (Some(depth), Some(left)) = (depth.checked_sub(1), left) else {
            return Some(Err("its causes go round in a circle".to_owned()));
        };
        self.patience.set(left);
        match (&op.question, op.answer()?) {
            (
                Question::Claim { .. }
                | Question::Settle { .. }
                | Question::Keep { .. }
                | Question::Lookup { .. },
                Answer::NoWord(_),
            ) => Some(Ok(Cause::LostWord)),
            (
                Question::Claim { kind, row, .. } | Question::Lookup { kind, row },
                Answer::Abandoned,
            ) => Some(match kind {
                Kind::Round => self.round_given_up(flow, *row, op.till(), depth),
                Kind::Step => self.step_in_doubt(flow, *row, op),
                Kind::Note => Err("a note was told to be unknown".to_owned()),
            }),
            (
                Question::Claim {
                    under: Some(round), ..
                }
                | Question::Keep {
                    under: Some(round), ..
                },
                Answer::StaleOwner,
            ) => Some(self.withdrawn(flow, *round, op.till(), depth)),
            (Question::Settle { row, token, .. }, Answer::Refused) => {
                Some(self.withdrawn(flow, (*row, *token), op.till(), depth))
            }
            (
                Question::Claim {
                    kind: Kind::Step,
                    row,
                    token,
                    ..
                },
                Answer::InProgress,
            ) => Some(self.rival(flow, *row, *token, op.till(), depth)),
            _ => None,
        }
    }

    /// Why a round is abandoned: its own run gave it up, or somebody found its lease lapsed.
    fn round_given_up(&self, flow: u64, row: RowId, known: Millis, depth: u32) -> Found {
        let owners = self.owners(row);
        if let Some(why) = self.settled_before(&owners, known) {
            return Err(why);
        }
        let mut why = format!("nobody is known to have owned the round {row:?}");
        for owner in &owners {
            let gave_up = self
                .ops_of(*owner)
                .find(|op| op.abandons() && op.asked <= known);
            if let Some(gave_up) = gave_up {
                let heard = self.ops_during(flow, owner.by, owner.from..=gave_up.asked);
                match self.among(flow, &heard, depth) {
                    Some(Ok(cause)) => return Ok(cause),
                    Some(Err(because)) => why = because,
                    None if self.panicked(flow, *owner, gave_up) => return Ok(Cause::CutOff),
                    None => {
                        why = format!(
                            "{} gave the round up, and nothing that it heard is a reason",
                            owner.by
                        );
                    }
                }
            }
        }
        // Otherwise somebody found its lease lapsed, and heard that or not, or took the round over.
        for finder in self.ops_on(row).iter().filter(|op| op.asked <= known) {
            for owner in owners.iter().filter(|owner| finder.withdraws(**owner)) {
                match self.lapse(*owner, finder) {
                    Ok(cause) => return Ok(cause),
                    Err(because) => why = because,
                }
            }
        }
        Err(why)
    }

    fn panicked(&self, flow: u64, owner: Owner, gave_up: &Op) -> bool {
        let mut cuts = self.cuts(flow);
        cuts.any(|cut| {
            cut.step == PANIC
                && cut.by == owner.by
                && (owner.from..=gave_up.asked).contains(&cut.at)
        })
    }

    /// Why a step's outcome is not known: its run dropped it, or its lease has lapsed.
    fn step_in_doubt(&self, flow: u64, row: RowId, told: &Op) -> Found {
        let owners = self.owners(row);
        if let Some(why) = self.settled_before(&owners, told.asked) {
            return Err(why);
        }
        let mut why = format!("nobody is known to have owned the step {row:?}");
        for owner in owners.iter().filter(|owner| !told.is_by(owner.token)) {
            let dropped = self
                .ops_of(*owner)
                .any(|op| op.abandons() && op.asked <= told.till());
            let cut = self
                .cuts(flow)
                .any(|cut| cut.by == owner.by && owner.from <= cut.at && cut.at <= told.till());
            match self.lapse(*owner, told) {
                Ok(cause) => return Ok(cause),
                Err(_) if dropped && cut => return Ok(Cause::CutOff),
                Err(_) if dropped => {
                    why = format!("{} dropped the step, and no tool did that", owner.by);
                }
                Err(because) => why = because,
            }
        }
        Err(why)
    }

    /// Why a run is not the owner of its round any more.
    fn withdrawn(
        &self,
        flow: u64,
        (row, token): (RowId, TokenId),
        known: Millis,
        depth: u32,
    ) -> Found {
        if !self.owners(row).iter().any(|owner| owner.token == token) {
            return Err(format!(
                "{row:?} was said to be owned by somebody who never claimed it"
            ));
        }
        let RowId(expiry, _) = row;
        let removed = self.furthest(known) > expiry.saturating_add(millis(RETENTION));
        match self.round_given_up(flow, row, known, depth) {
            Err(_) if removed => Ok(Cause::ClockSet),
            found => found,
        }
    }

    /// Why another run of the same flow is inside a step: its round was given up, or its tool went on without it.
    fn rival(&self, flow: u64, row: RowId, own: TokenId, known: Millis, depth: u32) -> Found {
        let mut why = format!("nobody else is known to have owned the step {row:?}");
        for owner in self.owners(row).iter().filter(|owner| owner.token != own) {
            let mut cuts = self.cuts(flow);
            if cuts.any(|cut| cut.by == owner.by && owner.from <= cut.at && cut.at <= known) {
                return Ok(Cause::CutOff);
            }
            match owner.under {
                Some(round) => match self.withdrawn(flow, round, known, depth) {
                    Ok(cause) => return Ok(cause),
                    Err(because) => why = because,
                },
                None => why = format!("{} was inside the step in a first call", owner.by),
            }
        }
        Err(why)
    }

    /// That a row was settled with an outcome, if it was before a moment.
    fn settled_before(&self, owners: &[Owner], known: Millis) -> Option<String> {
        let settled = owners.iter().find(|owner| {
            self.ops_of(**owner).any(|op| {
                let settles = matches!(
                    op.question,
                    Question::Settle {
                        abandoned: false,
                        ..
                    }
                );
                settles && op.answer() == Some(&Answer::Stored) && op.till() < known
            })
        });
        settled.map(|owner| format!("{} had settled {:?} with an outcome", owner.by, owner.row))
    }

    /// Why an owner's lease had lapsed when somebody asked.
    fn lapse(&self, owner: Owner, told: &Op) -> Found {
        if !self.may_have_lapsed(owner, told) {
            return Err(format!(
                "the lease of {} on {:?} was running",
                owner.by, owner.row
            ));
        }
        let till = self.end_of_op(told);
        if let Some(end) = self.end_of(owner.by).filter(|end| end.from <= till) {
            return Ok(match end.what {
                What::Stopped(_) => Cause::ShutDown,
                _ => Cause::Killed,
            });
        }
        if self
            .ops_of(owner)
            .any(|op| matches!(op.answer(), Some(Answer::NoWord(_))))
        {
            return Ok(Cause::LostWord);
        }
        let mut meanwhile = self
            .history
            .incidents
            .iter()
            .filter(|incident| incident.from <= till && owner.from <= incident.till);
        let mut stood_still = false;
        for incident in meanwhile.by_ref() {
            match incident.what {
                What::Paused(process) => stood_still |= [owner.by, told.by].contains(&process),
                What::Clock(process, _) if [owner.by, told.by].contains(&process) => {
                    return Ok(Cause::ClockSet);
                }
                _ => {}
            }
        }
        let (_, own) = self.shown(owner.by, owner.from, owner.from);
        let (_, theirs) = self.shown(told.by, owner.from, owner.from);
        if own != theirs {
            return Ok(Cause::ClockSet);
        }
        if stood_still {
            return Ok(Cause::StoodStill);
        }
        match self.was_slow(owner.by, owner.from, told.asked) {
            true => Ok(Cause::Slow),
            false => Err(format!(
                "the lease of {} on {:?} lapsed, and neither it nor the ledger was slow",
                owner.by, owner.row
            )),
        }
    }

    /// Whether a process may have come too late with its signs of life through no fault of its own.
    fn was_slow(&self, by: Process, from: Millis, till: Millis) -> bool {
        self.slow_times(by).iter().any(|time| {
            let (begin, end) = (from.max(*time.start()), till.min(*time.end()));
            end.saturating_sub(begin) >= millis(LEASE) / 2
        })
    }
}

impl Op {
    fn abandons(&self) -> bool {
        matches!(
            self.question,
            Question::Settle {
                abandoned: true,
                ..
            }
        )
    }

    /// Whether it may have withdrawn a round's owner, if that one's lease had lapsed.
    pub(crate) fn withdraws(&self, owner: Owner) -> bool {
        let may_have_found = matches!(
            self.answer(),
            None | Some(Answer::Abandoned | Answer::NoWord(_))
        );
        match self.question {
            Question::Lookup { .. } => may_have_found,
            Question::Claim { token, again, .. } => {
                let took_over = again && self.answer() == Some(&Answer::First);
                token != owner.token && owner.from <= self.till() && (may_have_found || took_over)
            }
            _ => false,
        }
    }

    fn is_by(&self, of: TokenId) -> bool {
        matches!(&self.question, Question::Claim { token, .. } if *token == of)
    }
}
