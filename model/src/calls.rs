//! How a server carries a call: claim, body, settling, reply.
//!
//! This follows `call/job.rs`, `call/row.rs` and `flow/durable.rs` of `mrtr-server`. Wherever the ledger is asked there
//! are three ways on: its word arrives; it is lost; or the question is. What happens in one move happens at once: the
//! moves are as long as nothing else can come between that would make a difference.

use crate::label::Label;
use crate::ledger::{Place, Seen, row};
use crate::machine::{Came, Events, Machine, Next};
use crate::promise::Promise;
use crate::turn::Turn;
use crate::world::{At, Call, Chore, ONE_MORE, Outcome, Status, World, at_hour, end, short};

impl Machine {
    pub(crate) fn call_moves(&self, world: &World, call: usize, next: &mut Next) {
        let (Some(it), Some(retry)) = (world.calls.get(call).copied(), self.retry(call)) else {
            return;
        };
        if it.chore != Chore::None {
            self.chore(world, call, it, next);
        }
        match it.at {
            At::Unsent if self.can_be_sent(world, call) => {
                if self.is(Turn::EveryRoundIsClaimed) {
                    let label = Label::call(call, "is run without a claim");
                    self.offer(world, label, self.begin(*world, call), next);
                } else {
                    self.claim_round(world, call, next);
                    if self.may(Events::LATE) {
                        self.come_late(world, call, next);
                    }
                }
            }
            At::Claiming => {
                self.claim_round(world, call, next);
                if self.may(Events::LOST) {
                    self.give_up_claiming(world, call, next);
                }
            }
            At::Deciding => self.claim_decided(world, call, next),
            At::Memo => self.memo(world, call, next),
            At::Step if it.left && !self.is(Turn::NoStepAfterLeaving) => {
                let label = Label::call(call, "sees that its client has left before the step");
                let mut stopped = *world;
                if self.is(Turn::StoppedIsSettled) {
                    self.set(&mut stopped, call, it.over(At::Dropped));
                } else {
                    self.end(&mut stopped, call, Outcome::Cancelled);
                }
                self.push(world, label, stopped, next);
            }
            At::Step if self.scenario.once_in && !self.is(Turn::OneTransaction) => {
                self.open_transaction(world, call, next);
            }
            At::Step => self.claim_step(world, call, next),
            At::Stepping => {
                self.claim_step(world, call, next);
                if self.may(Events::LOST) {
                    self.give_up_stepping(world, call, next);
                }
            }
            At::StepDeciding => self.claim_step_seen(world, call, Seen::Owner, next),
            At::Effect => self.effect(world, call, next),
            At::Effected => self.settle_step(world, call, next),
            At::Freeing => self.free_step(world, call, next),
            At::Transaction => self.commit(world, call, next),
            At::Asking => self.ask(world, call, next),
            At::StepLooking => self.look_step_up(world, call, next),
            At::Ending => self.settle_round(world, call, it, retry.state, next),
            At::Answered | At::Keeping => self.settle_on(world, call, it, retry.state, next),
            At::Looking => self.look_round_up(world, call, it, next),
            At::Returning | At::Releasing => {
                self.release_round(world, call, it, retry.state, next);
            }
            At::Unsent | At::Done | At::Crashed | At::Dropped => {}
        }
    }

    /// State 2 has to be known to a client first. Of those that are the same retry, and of which nothing else tells them
    /// apart, the first is sent: it would come to the same.
    fn can_be_sent(&self, world: &World, call: usize) -> bool {
        let Some(retry) = self.retry(call) else {
            return false;
        };
        let minted = matches!(world.heard.first(), Some(Some(Outcome::Asks(_))));
        let portrait = world.portrait(call);
        let named = call == ONE_MORE
            || (0..call)
                .all(|other| self.retry(other) != Some(retry) || world.portrait(other) != portrait);
        (retry.state == 0 || minted) && named
    }

    // What a server knows.

    pub(crate) fn end(&self, world: &mut World, call: usize, came: Outcome) {
        let came = self.as_told(came);
        self.with(world, call, |it| {
            it.at = At::Ending;
            it.came = Some(came);
        });
    }

    /// Where no trace will be told, bodies that come to the same word are one.
    pub(crate) fn as_told(&self, came: Outcome) -> Outcome {
        match came {
            came if self.tells() || came.is_kept() => came,
            Outcome::Unknown if self.scenario.run_again => came,
            _ if self.scenario.run_again => Outcome::NoWord,
            _ => Outcome::Unknown,
        }
    }

    pub(crate) fn at(&self, world: &mut World, call: usize, at: At) {
        self.with(world, call, |it| it.at = at);
    }

    pub(crate) fn set(&self, world: &mut World, call: usize, to: Call) {
        self.with(world, call, |it| *it = to);
    }

    pub(crate) fn with(&self, world: &mut World, call: usize, change: impl FnOnce(&mut Call)) {
        if let Some(call) = world.calls.get_mut(call) {
            change(call);
        }
    }

    pub(crate) fn state_of(&self, call: usize) -> usize {
        self.retry(call).map_or(0, |retry| retry.state)
    }

    pub(crate) fn round_of(&self, call: usize) -> Place {
        Place::round(if self.is(Turn::RoundIsKeyedByNonce) {
            0
        } else {
            self.state_of(call)
        })
    }

    pub(crate) fn step_of(&self, call: usize) -> Place {
        let by_round = self.is(Turn::StepIsKeyedByFlow) || self.is(Turn::StepExpiresWithTheFlow);
        let other = by_round && self.state_of(call) == 1 || self.takes_the_other_path(call);
        Place::step(usize::from(other))
    }

    /// Where its path may depend on anything, the second call's does.
    pub(crate) fn takes_the_other_path(&self, call: usize) -> bool {
        self.is(Turn::PathDependsOnWhatIsKept) && call == 1
    }

    pub(crate) fn token(&self, world: &World, call: usize) -> u8 {
        let redrawn = world.calls.get(call).is_some_and(|it| it.redrawn);
        short(call) + if redrawn { 4 } else { 0 }
    }

    pub(crate) fn print(&self, call: usize) -> u8 {
        let answer = self.retry(call).map_or(0, |retry| retry.answer);
        match answer {
            1 if self.is(Turn::PrintCoversAnswers) => 0,
            answer => answer,
        }
    }

    pub(crate) fn owns(&self, world: &World, place: Place, call: usize) -> bool {
        let row = row(world, place).filter(|row| row.token == self.token(world, call));
        row.is_some_and(|row| matches!(row.status, Status::Owned { .. }))
    }

    /// A transaction is open on the step, or may yet be committed; who claims it waits.
    pub(crate) fn is_locked(&self, world: &World, place: Place) -> bool {
        let open = |call: usize, it: &Call| it.at == At::Transaction && self.step_of(call) == place;
        world.flying.is_some()
            || world
                .calls
                .iter()
                .enumerate()
                .any(|(call, it)| open(call, it))
    }

    /// Somebody was told that the round is unknown: its owner, if it runs, has lost it.
    pub(crate) fn lose(&self, world: &mut World, place: Place) {
        if let Some(row) = row(world, place)
            && let Some(lost) = world.lost.get_mut(row.owner())
        {
            *lost = true;
        }
    }

    pub(crate) fn is_over(&self, world: &World, place: Place) -> Came<()> {
        let number = self.end_of(place);
        let shelf = crate::world::shelf(place.kind);
        let removed = world.due.get(shelf).is_some_and(|due| *due >= number);
        if at_hour(world.hour) < end(number) && !removed {
            self.broken(
                Promise::TrueWords,
                "what lives and was never removed is said to be expired",
            )?;
        }
        Ok(())
    }
}
