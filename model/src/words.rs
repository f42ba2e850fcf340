//! What callers are told, and whether it is so.

use crate::label::{Label, Said, Told};
use crate::ledger::{Place, row};
use crate::machine::{Came, Events, Machine, Next};
use crate::promise::Promise;
use crate::turn::Turn;
use crate::world::{At, Call, Chore, Outcome, World, at_hour, end, shelf};

impl Machine {
    /// A caller is answered, and the call goes on to `over`.
    #[allow(clippy::too_many_arguments, reason = "each is one word of a sentence")]
    pub(crate) fn reply(
        &self,
        before: &World,
        label: Label,
        world: World,
        call: usize,
        told: Told,
        over: At,
        next: &mut Next,
    ) {
        let it = world.calls.get(call).copied().unwrap_or_default();
        let arrives = !it.left;
        let on = if over.is_idle() {
            it.over(over)
        } else {
            Call { at: over, ..it }
        };
        let label = label.told(told, arrives);
        let mut after = world;
        self.set(&mut after, call, on);
        let Told::Result(outcome) = told else {
            let checked = self.is_so(&world, label, call, it, told);
            return self.offer(before, label, checked.map(|()| after), next);
        };
        if arrives {
            self.offer(before, label, self.hear(after, call, outcome), next);
        }
        if !arrives || self.may(Events::LEAVE) {
            self.push(before, label.told(told, false), after, next);
        }
    }

    /// A stored outcome is told to a retry, as far as this request's client may have it.
    #[allow(clippy::too_many_arguments, reason = "as above")]
    pub(crate) fn replay(
        &self,
        before: &World,
        label: Label,
        world: World,
        call: usize,
        outcome: Outcome,
        over: At,
        next: &mut Next,
    ) {
        let declares = self.retry(call).is_some_and(|retry| retry.declares);
        let told = match outcome {
            Outcome::Asks(_) if !declares && !self.is(Turn::StoredQuestionIsChecked) => {
                Told::Undeclared
            }
            Outcome::NotRun => Told::Expired,
            outcome => Told::Result(outcome),
        };
        self.reply(before, label, world, call, told, over, next);
    }

    /// The result arrives.
    fn hear(&self, mut world: World, call: usize, outcome: Outcome) -> Came<World> {
        let Some(retry) = self.retry(call) else {
            return Ok(world);
        };
        if !outcome.is_kept() {
            self.broken(
                Promise::TrueWords,
                "what was true for a moment is told for ever, as the outcome",
            )?;
        }
        if matches!(outcome, Outcome::Asks(_)) && !retry.declares {
            self.broken(
                Promise::Declared,
                "a question is put to a client that does not declare it",
            )?;
        }
        let effects: u8 = world.effects.iter().sum();
        let done = match outcome {
            Outcome::Done(_) | Outcome::Asks(_) => 1,
            Outcome::Err | Outcome::Failed => 0,
            // They say to check what was done.
            _ => effects,
        };
        if effects != done && !world.restored {
            let why = if done == 1 {
                "the caller is told that it is done, and the effect is not there"
            } else {
                "the caller is told that it is not done, and the effect is there"
            };
            self.broken(Promise::ExactlyOnce, why)?;
        }
        if let Some(heard) = world.heard.get_mut(usize::from(retry.answer)) {
            if heard.is_some_and(|heard| heard != outcome) {
                self.broken(
                    Promise::NoContradiction,
                    "two callers of one retry are told different results",
                )?;
            }
            *heard = Some(outcome);
        }
        Ok(world)
    }

    /// Whether what a caller is told besides results is so.
    fn is_so(&self, world: &World, label: Label, call: usize, it: Call, told: Told) -> Came<()> {
        let Some(retry) = self.retry(call) else {
            return Ok(());
        };
        let heard = world.heard.get(usize::from(retry.answer));
        let acknowledged = heard.is_some_and(Option::is_some);
        // Who has no word from the ledger says so, which contradicts nothing.
        let by_the_ledger = matches!(
            label.said,
            Said::Unknown | Said::InProgress | Said::Conflict
        );
        if acknowledged
            && by_the_ledger
            && matches!(told, Told::Unknown | Told::InProgress | Told::Used)
        {
            self.broken(
                Promise::NoContradiction,
                "a result was acknowledged, and the same retry is told that there is none",
            )?;
        }
        if told != Told::Unknown {
            return Ok(());
        }
        if matches!(it.came, Some(Outcome::NoRoom | Outcome::Dropped)) {
            self.broken(
                Promise::UnknownHasACause,
                "an outcome is unknown, and nothing has happened that would explain it",
            )?;
        }
        let safe = self.scenario.run_again && self.scenario.once_in;
        let came_late = it.came == Some(Outcome::Late);
        if safe && !came_late && self.lives(world, retry.state) {
            self.broken(
                Promise::NoUnknown,
                "somebody is told unknown although one more retry would know",
            )?;
        }
        Ok(())
    }

    /// Whether a state can still be claimed.
    pub(crate) fn lives(&self, world: &World, state: usize) -> bool {
        let place = Place::round(state);
        let number = self.end_of(place);
        let marked = world.marks.first().is_some_and(|mark| *mark >= number);
        at_hour(world.hour) < end(number) && !marked && !world.rotated
    }

    /// What the ledger says of a round to somebody who asks: it is their own round, and it is true.
    pub(crate) fn told_of_its_own(
        &self,
        world: &World,
        call: usize,
        place: Place,
        said: Said,
    ) -> Came<()> {
        let Some(retry) = self.retry(call) else {
            return Ok(());
        };
        let others = || {
            let others = world.calls.iter().enumerate();
            others.filter(|(other, _)| *other != call)
        };
        if said == Said::Conflict {
            let claimed = world.claimed.get(retry.state).copied().flatten();
            let other_answer = claimed.is_some_and(|answer| answer != retry.answer);
            if !other_answer {
                self.broken(
                    Promise::TrueWords,
                    "a state is said to be used with another answer, and nobody gave one",
                )?;
            }
        }
        if !matches!(said, Said::Settled(_) | Said::InProgress | Said::Unknown) {
            return Ok(());
        }
        let owner = row(world, place).map_or(call, |row| row.owner());
        if self
            .retry(owner)
            .is_some_and(|other| other.answer != retry.answer)
        {
            self.broken(
                Promise::OwnWords,
                "what became of a run is told to another answer's caller",
            )?;
        }
        if said == Said::InProgress {
            let runs = others().any(|(other, it)| {
                let same = self
                    .retry(other)
                    .is_some_and(|other| other.answer == retry.answer);
                same && (it.is_running() || it.at == At::Crashed)
            });
            if !runs {
                self.broken(
                    Promise::TrueWords,
                    "a retry is said to be in progress, and nobody runs it",
                )?;
            }
        }
        if said == Said::Unknown {
            self.has_a_cause(world, place)?;
        }
        Ok(())
    }

    /// An owner that was dropped with its connection is none that was lost.
    pub(crate) fn has_a_cause(&self, world: &World, place: Place) -> Came<()> {
        let owner = row(world, place).and_then(|row| world.calls.get(row.owner()));
        if owner.is_some_and(|owner| owner.at == At::Dropped) {
            self.broken(
                Promise::UnknownHasACause,
                "an outcome is unknown because a body was dropped: nothing crashed, lapsed or was lost",
            )?;
        }
        Ok(())
    }

    /// Nothing is known of a state on which a body has run only when that was forgotten in good order.
    pub(crate) fn nothing_is_known(&self, world: &World, call: usize, said: Said) -> Came<()> {
        let state = self.state_of(call);
        let has_run = world.ran.get(state) == Some(&true);
        if said == Said::Absent && has_run && !self.is_forgotten(world, Place::round(state)) {
            self.broken(
                Promise::TrueWords,
                "nothing is said to be known of a state on which a body has run",
            )?;
        }
        Ok(())
    }

    /// A run is refused what is its own only when somebody was told, or its row has gone in good order.
    pub(crate) fn has_lost_its_round(&self, world: &World, call: usize) -> Came<()> {
        let place = self.round_of(call);
        let lost = world.lost.get(call) == Some(&true);
        let gone = row(world, place).is_none() && self.is_forgotten(world, place);
        if lost || gone || world.restored {
            return Ok(());
        }
        self.broken(
            Promise::Undisturbed,
            "a run has lost its round, and nobody was told that it is unknown",
        )
    }

    pub(crate) fn step_was_taken_away(&self, world: &World, place: Place) -> Came<()> {
        if row(world, place).is_none() && self.is_forgotten(world, place) {
            return Ok(());
        }
        self.broken(
            Promise::Kept,
            "the outcome of a step that has happened is refused",
        )
    }

    pub(crate) fn step_is_run_by_another(&self, world: &World, call: usize, place: Place) -> bool {
        let owner = row(world, place).map_or(call, |row| row.owner());
        let it = world.calls.get(owner).copied().unwrap_or_default();
        // Its own, of an attempt without word, is being given back.
        let returns = owner == call && it.chore == Chore::Release;
        returns || owner != call && (it.is_running() || it.at == At::Crashed)
    }

    /// Its row was purged, or the ledger restored.
    fn is_forgotten(&self, world: &World, place: Place) -> bool {
        let due = world.due.get(shelf(place.kind)).copied().unwrap_or(0);
        world.restored || due >= self.end_of(place)
    }
}
