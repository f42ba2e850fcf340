//! The step inside `once_in`: claim, effect and outcome are one transaction.

use crate::label::{Label, Said, Word};
use crate::ledger::Seen;
use crate::machine::{Came, Events, Machine, Next};
use crate::turn::Turn;
use crate::world::{At, Flying, Outcome, Row, Status, World, short};

impl Machine {
    pub(crate) fn open_transaction(&self, world: &World, call: usize, next: &mut Next) {
        if self.is_locked(world, self.step_of(call)) {
            return;
        }
        let does = "opens a transaction and claims its step";
        let mut after = *world;
        let said = self.claim(&mut after, &self.step_claim(world, call, true), Seen::Now);
        let label = Label::call(call, does).said(said);
        let came = match said {
            // Nothing of it is seen before the commit.
            Said::First => self
                .may_start(world, call, self.step_of(call), true)
                .map(|()| {
                    let mut open = *world;
                    self.at(&mut open, call, At::Transaction);
                    open
                }),
            said => self.after_step(after, call, said, true),
        };
        self.offer(world, label, came, next);
    }

    pub(crate) fn commit(&self, world: &World, call: usize, next: &mut Next) {
        let failures: &[bool] = if self.may(Events::FAIL) {
            &[false, true]
        } else {
            &[false]
        };
        for failed in failures {
            let flying = Flying {
                call: short(call),
                failed: *failed,
            };
            let does = if *failed {
                "rolls its failed effect back and commits"
            } else {
                "commits effect and outcome"
            };
            let mut after = *world;
            let label = Label::call(call, does);
            let came = self.land(&mut after, flying).and_then(|outcome| {
                self.go_by(&mut after, call, outcome)?;
                Ok(after)
            });
            self.offer(world, label, came, next);
            if self.may(Events::LOST) {
                let mut unheard = *world;
                unheard.flying = Some(flying);
                self.without_word(&mut unheard, call);
                let label = Label::call(call, "has no word on its commit, which may yet happen");
                self.push(world, label, unheard, next);
            }
        }
        if self.may(Events::LOST) {
            let mut unheard = *world;
            self.without_word(&mut unheard, call);
            let label = Label::call(call, "has no word on its commit, which never happens");
            self.push(world, label, unheard, next);
        }
        if self.may(Events::FAIL) {
            let mut nothing = *world;
            self.end(&mut nothing, call, Outcome::Failed);
            let label = Label::call(call, "says that nothing was done, and rolls back");
            self.push(world, label, nothing, next);
        }
    }

    fn without_word(&self, world: &mut World, call: usize) {
        if self.is(Turn::UnansweredCommitIsAskedFor) {
            self.end(world, call, Outcome::Failed);
        } else {
            self.at(world, call, At::Asking);
        }
    }

    /// A commit happens: the step's row is settled and the effect is there, or not.
    pub(crate) fn land(&self, world: &mut World, flying: Flying) -> Came<Outcome> {
        let call = usize::from(flying.call);
        let outcome = if flying.failed {
            Outcome::Err
        } else {
            Outcome::Done(flying.call)
        };
        let keeps = !(flying.failed && self.is(Turn::FailureIsKept));
        let row = Row {
            status: Status::Settled(outcome),
            token: flying.call,
            print: 0,
        };
        if keeps && let Some(step) = world.steps.get_mut(self.step_of(call).slot) {
            *step = row;
        }
        if !flying.failed || self.is(Turn::FailureRollsBack) {
            *world = self.happen(*world, call)?;
        }
        Ok(outcome)
    }

    pub(crate) fn ask(&self, world: &World, call: usize, next: &mut Next) {
        let place = self.step_of(call);
        let waits = !self.is(Turn::AskingWaits);
        if waits && self.is_locked(world, place) {
            return;
        }
        let does = "asks what came of its commit";
        let mut after = *world;
        let said = if waits {
            let mut asks = self.step_claim(world, call, true);
            asks.token += 4;
            self.claim(&mut after, &asks, Seen::Now)
        } else {
            self.look_up(&mut after, place, 0)
        };
        let label = Label::call(call, does).said(said);
        let came = match said {
            Said::First if self.is(Turn::AskingLeavesNothing) => {
                self.with(&mut after, call, |it| {
                    it.at = At::Freeing;
                    it.redrawn = true;
                });
                Ok(after)
            }
            // It did not happen and never will. The transaction that asked is rolled back.
            Said::First | Said::Absent => {
                let mut over = *world;
                self.end(&mut over, call, Outcome::Failed);
                Ok(over)
            }
            said => self.after_step(after, call, said, false),
        };
        self.offer(world, label, came, next);
        if self.may(Events::LOST) {
            let mut over = *world;
            self.end(&mut over, call, Outcome::NoWord);
            self.push(world, Label::call(call, does).word(Word::Never), over, next);
        }
    }
}
