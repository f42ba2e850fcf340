//! The end of a call: settling, replies, and what goes on when nobody waits any more.

use crate::label::{Label, Said, Told, Word};
use crate::ledger::Place;
use crate::machine::{Came, Events, Machine, Next};
use crate::promise::Promise;
use crate::turn::Turn;
use crate::world::{At, Call, Chore, Outcome, World, short};

impl Machine {
    pub(crate) fn settle_round(
        &self,
        world: &World,
        call: usize,
        it: Call,
        state: usize,
        next: &mut Next,
    ) {
        let came = it.came.unwrap_or(Outcome::Cut);
        let does = "settles its round";
        if self.is(Turn::RespondsAfterSettling) {
            let label = Label::call(call, "answers before it settles");
            return self.reply(
                world,
                label,
                *world,
                call,
                self.word(came),
                At::Answered,
                next,
            );
        }
        if it.left && self.is(Turn::SettlesAfterLeaving) {
            let mut dropped = *world;
            self.set(&mut dropped, call, it.over(At::Dropped));
            let label = Label::call(call, "ends without settling, for nobody waits");
            return self.push(world, label, dropped, next);
        }
        if came == Outcome::Cut && self.is(Turn::CutOffIsAbandonedAtOnce) {
            let label = Label::call(call, "leaves its round to the lease");
            return self.reply(world, label, *world, call, self.word(came), At::Done, next);
        }
        if !came.is_kept() && self.is(Turn::ReleaseBeforeTheBodyOnly) {
            let mut after = *world;
            let freed = self.release(&mut after, self.round_of(call), self.token(world, call));
            let said = if freed { Said::Yes } else { Said::No };
            let label = Label::call(call, "gives its round back after its body").said(said);
            return self.reply(world, label, after, call, self.word(came), At::Done, next);
        }
        let (after, said, checked) = self.settle_with(world, call, state, came);
        let label = Label::call(call, does).said(said);
        if let Err(fallen) = checked {
            return next.falls(label, fallen);
        }
        if said == Said::Stored {
            self.reply(world, label, after, call, self.word(came), At::Done, next);
            if self.is(Turn::DurableBeforeAnswered) && came.is_kept() {
                self.reply(world, label, *world, call, self.word(came), At::Done, next);
            }
        } else if self.is(Turn::RefusedOwnerLooksUp) {
            self.reply(world, label, after, call, self.word(came), At::Done, next);
        } else {
            let mut looking = after;
            self.at(&mut looking, call, At::Looking);
            self.push(world, label, looking, next);
        }
        if self.may(Events::LOST) {
            let told = if self.is(Turn::NoWordOnSettlingIsUnknown) {
                self.word(came)
            } else {
                self.lost_word()
            };
            let on = if self.is(Turn::OwnerKeepsTrying) {
                At::Done
            } else {
                At::Keeping
            };
            self.reply(world, label.word(Word::Lost), after, call, told, on, next);
            let never = Label::call(call, does).word(Word::Never);
            self.reply(world, never, *world, call, told, on, next);
        }
    }

    fn settle_with(
        &self,
        world: &World,
        call: usize,
        state: usize,
        came: Outcome,
    ) -> (World, Said, Came<()>) {
        let kept = came.is_kept() || self.is(Turn::TransientIsNotKept);
        let mut after = *world;
        let place = Place::round(if self.is(Turn::RoundIsKeyedByNonce) {
            0
        } else {
            state
        });
        let token = self.token(world, call);
        let said = self.settle(&mut after, place, token, kept.then_some(came));
        let checked = match said {
            Said::Stored if kept && world.lost.get(call) == Some(&true) => self.broken(
                Promise::UnknownIsFinal,
                "an outcome is stored of which somebody was told that it is unknown",
            ),
            Said::Refused => self.has_lost_its_round(world, call),
            _ => Ok(()),
        };
        (after, said, checked)
    }

    /// Nobody waits for it any more.
    pub(crate) fn settle_on(
        &self,
        world: &World,
        call: usize,
        it: Call,
        state: usize,
        next: &mut Next,
    ) {
        let came = it.came.unwrap_or(Outcome::Cut);
        let does = "settles its round, after its caller was answered";
        let (mut after, said, checked) = self.settle_with(world, call, state, came);
        let label = Label::call(call, does).said(said);
        if let Err(fallen) = checked {
            return next.falls(label, fallen);
        }
        if self.may(Events::LOST) {
            self.push(world, label.word(Word::Lost), after, next);
        }
        self.with(&mut after, call, |it| *it = it.over(At::Done));
        self.push(world, label, after, next);
    }

    pub(crate) fn look_round_up(&self, world: &World, call: usize, it: Call, next: &mut Next) {
        self.look_round_up_from(world, world, call, it, "looks its round up", next);
        if self.may(Events::LOST) {
            let label = Label::call(call, "looks its round up").word(Word::Never);
            let told = self.no_word_on_a_look_up(it);
            self.reply(world, label, *world, call, told, At::Done, next);
        }
    }

    pub(crate) fn look_round_up_from(
        &self,
        before: &World,
        world: &World,
        call: usize,
        it: Call,
        does: &'static str,
        next: &mut Next,
    ) {
        let place = self.round_of(call);
        let mut after = *world;
        let said = self.look_up(&mut after, place, self.print(call));
        let label = Label::call(call, does).said(said);
        let checked = self
            .told_of_its_own(&after, call, place, said)
            .and_then(|()| self.nothing_is_known(&after, call, said));
        if let Err(fallen) = checked {
            return next.falls(label, fallen);
        }
        let has_run = it.came != Some(Outcome::Late);
        if said == Said::Unknown {
            self.lose(&mut after, place);
        }
        if self.may(Events::LOST) && after.rounds != world.rounds {
            let told = self.no_word_on_a_look_up(it);
            self.reply(
                before,
                label.word(Word::Lost),
                after,
                call,
                told,
                At::Done,
                next,
            );
        }
        let told = match said {
            Said::Settled(outcome) => {
                return self.replay(before, label, after, call, outcome, At::Done, next);
            }
            Said::InProgress => Told::InProgress,
            Said::Conflict => Told::Used,
            // Where a retry takes over there is nothing to despair of.
            Said::Unknown if has_run && self.runs_again() && !self.is(Turn::RefusedRunsAgain) => {
                Told::Repeat
            }
            Said::Unknown => Told::Unknown,
            _ if has_run => Told::Unknown,
            _ => Told::Expired,
        };
        self.reply(before, label, after, call, told, At::Done, next);
    }

    fn no_word_on_a_look_up(&self, it: Call) -> Told {
        match it.came {
            Some(Outcome::Late) => Told::Repeat,
            _ => self.lost_word(),
        }
    }

    pub(crate) fn release_round(
        &self,
        world: &World,
        call: usize,
        it: Call,
        state: usize,
        next: &mut Next,
    ) {
        let mut after = *world;
        let freed = self.release(&mut after, Place::round(state), self.token(world, call));
        let said = if freed { Said::Yes } else { Said::No };
        let label = Label::call(call, "gives its round back").said(said);
        if self.may(Events::LOST) {
            self.push(world, label.word(Word::Lost), after, next);
        }
        match it.at {
            At::Returning => self.at(&mut after, call, At::Looking),
            _ => self.set(&mut after, call, it.over(At::Done)),
        }
        self.push(world, label, after, next);
    }

    pub(crate) fn chore(&self, world: &World, call: usize, it: Call, next: &mut Next) {
        let (place, token) = (self.step_of(call), self.token(world, call));
        let mut after = *world;
        let (does, said) = match it.chore {
            Chore::None => return,
            Chore::Settle => (
                "settles its step, in the background",
                self.settle(&mut after, place, token, Some(Outcome::Done(short(call)))),
            ),
            Chore::Abandon => (
                "abandons its step, in the background",
                self.settle(&mut after, place, token, None),
            ),
            Chore::Release => (
                "releases its step, in the background",
                if self.release(&mut after, place, token) {
                    Said::Yes
                } else {
                    Said::No
                },
            ),
        };
        let label = Label::call(call, does).said(said);
        if self.may(Events::LOST) {
            self.push(world, label.word(Word::Lost), after, next);
        }
        self.with(&mut after, call, |it| it.chore = Chore::None);
        self.push(world, label, after, next);
    }

    /// The word for what a body has come to.
    pub(crate) fn word(&self, came: Outcome) -> Told {
        let again = self.scenario.run_again;
        match came {
            Outcome::Done(_)
            | Outcome::Asks(_)
            | Outcome::Err
            | Outcome::Failed
            | Outcome::Cancelled => Told::Result(came),
            Outcome::NotRun => Told::Expired,
            Outcome::InProgress if again => Told::InProgress,
            Outcome::NoWord | Outcome::Cut | Outcome::NoRoom | Outcome::Dropped if again => {
                Told::Repeat
            }
            _ => Told::Unknown,
        }
    }

    /// The word where the ledger has none.
    pub(crate) const fn lost_word(&self) -> Told {
        if self.scenario.run_again {
            Told::Repeat
        } else {
            Told::Unknown
        }
    }
}
