//! The body: its memo, and its step inside `once`.

use crate::label::{Label, Said, Word};
use crate::ledger::{Asks, Place, Seen};
use crate::machine::{Came, Events, Machine, Next};
use crate::promise::Promise;
use crate::turn::Turn;
use crate::world::{At, Chore, Outcome, World, at_hour, end, short};

impl Machine {
    /// The body starts.
    pub(crate) fn begin(&self, mut world: World, call: usize) -> Came<World> {
        let state = self.state_of(call);
        if let Some(ran) = world.ran.get_mut(state) {
            if *ran && !self.scenario.run_again {
                self.broken(Promise::OneRun, "the body of one state runs a second time")?;
            }
            if *ran && self.is(Turn::EffectsAreInsideOnce) {
                self.broken(
                    Promise::AtMostOnce,
                    "an effect outside of `once` happens a second time",
                )?;
            }
            *ran = true;
        }
        let answer = self.retry(call).map(|retry| retry.answer);
        let claimed = world.claimed.get(state).copied().flatten();
        if claimed.is_some() && claimed != answer {
            self.broken(
                Promise::OneAnswer,
                "bodies run on one state with two answers",
            )?;
        }
        let at = if self.scenario.memo {
            At::Memo
        } else {
            At::Step
        };
        self.at(&mut world, call, at);
        Ok(world)
    }

    pub(crate) fn memo(&self, world: &World, call: usize, next: &mut Next) {
        let does = "keeps its memo";
        if self.is(Turn::MemoIsKeptFirst) {
            let label = Label::call(call, "uses its memo, which is kept nowhere");
            return self.offer(world, label, self.use_memo(*world, call, short(call)), next);
        }
        let mut after = *world;
        let under = (self.state_of(call), self.token(world, call));
        let said = self.keep(&mut after, short(call), under);
        let label = Label::call(call, does).said(said);
        match said {
            Said::Stored => self.offer(world, label, self.use_memo(after, call, short(call)), next),
            Said::Before(value) => {
                self.offer(world, label, self.use_memo(after, call, value), next)
            }
            said => {
                let mut over = after;
                self.end(&mut over, call, refusal(said));
                self.push(world, label, over, next);
            }
        }
        if self.may(Events::LOST) {
            self.push(world, label.word(Word::Lost), after, next);
            let mut over = *world;
            self.end(&mut over, call, Outcome::NoWord);
            self.push(world, Label::call(call, does).word(Word::Never), over, next);
        }
    }

    fn use_memo(&self, mut world: World, call: usize, value: u8) -> Came<World> {
        if world.used.is_some_and(|used| used != value) {
            self.broken(
                Promise::OneValue,
                "two bodies of one flow go by different memos",
            )?;
        }
        world.used = Some(value);
        self.at(&mut world, call, At::Step);
        Ok(world)
    }

    pub(crate) fn claim_step(&self, world: &World, call: usize, next: &mut Next) {
        if self.is(Turn::OwnerInTheStatement) && self.owns(world, self.round_of(call), call) {
            let mut seen = *world;
            self.at(&mut seen, call, At::StepDeciding);
            let label = Label::call(call, "reads that it owns its round");
            return self.push(world, label, seen, next);
        }
        self.claim_step_seen(world, call, Seen::Now, next);
    }

    pub(crate) fn claim_step_seen(&self, world: &World, call: usize, seen: Seen, next: &mut Next) {
        let does = "claims its step";
        if self.is_locked(world, self.step_of(call)) {
            return;
        }
        let is_new = world.calls.get(call).is_some_and(|it| it.at == At::Step);
        let full = self.is(Turn::BegunIsNeverRefusedForRoom);
        for has_room in [true, false].iter().take(1 + usize::from(full)) {
            let asks = self.step_claim(world, call, *has_room);
            let mut after = *world;
            let said = self.claim(&mut after, &asks, seen);
            let label = Label::call(call, does).said(said);
            self.offer(
                world,
                label,
                self.after_step(after, call, said, is_new),
                next,
            );
            if self.may(Events::LOST) && *has_room {
                self.at(&mut after, call, At::Stepping);
                self.push(world, label.word(Word::Lost), after, next);
            }
        }
        if self.may(Events::LOST) && is_new {
            let mut never = *world;
            if self.is(Turn::NoWordIsNoEffect) {
                self.at(&mut never, call, At::Stepping);
            } else {
                // Repeated, it is as if it had been sent later; this is where it is given up.
                self.end(&mut never, call, Outcome::NoWord);
            }
            self.push(
                world,
                Label::call(call, does).word(Word::Never),
                never,
                next,
            );
        }
    }

    pub(crate) fn step_claim(&self, world: &World, call: usize, has_room: bool) -> Asks {
        let state = self.state_of(call);
        Asks {
            place: self.step_of(call),
            token: self.token(world, call),
            print: if self.is(Turn::StepPrintWithoutAnswers) {
                self.print(call)
            } else {
                0
            },
            under: Some((state, self.token(world, call))),
            has_room,
        }
    }

    /// What the ledger's word on a step's claim means for the body.
    pub(crate) fn after_step(
        &self,
        mut world: World,
        call: usize,
        said: Said,
        is_new: bool,
    ) -> Came<World> {
        let place = self.step_of(call);
        if said != Said::First && self.owns(&world, place, call) {
            // As with a round's claim.
            self.with(&mut world, call, |it| it.chore = Chore::Release);
        }
        match said {
            Said::First => {
                self.may_start(&world, call, place, is_new)?;
                self.at(&mut world, call, At::Effect);
            }
            Said::Settled(outcome) => self.go_by(&mut world, call, outcome)?,
            Said::InProgress => {
                let runs = self.step_is_run_by_another(&world, call, place);
                if !runs {
                    self.broken(
                        Promise::TrueWords,
                        "a step is said to be in progress, and nobody runs it",
                    )?;
                }
                self.end(&mut world, call, Outcome::InProgress);
            }
            Said::Unknown => {
                self.has_a_cause(&world, place)?;
                self.end(&mut world, call, Outcome::Unknown);
            }
            Said::Conflict => {
                self.broken(
                    Promise::UnknownHasACause,
                    "a step is unknown because its row is taken for another's",
                )?;
            }
            Said::Expired => {
                self.is_over(&world, place)?;
                self.at(&mut world, call, At::StepLooking);
            }
            Said::StaleOwner => {
                self.has_lost_its_round(&world, call)?;
                self.end(&mut world, call, Outcome::NoWord);
            }
            Said::Full => self.end(&mut world, call, Outcome::NoRoom),
            said => self.end(&mut world, call, refusal(said)),
        }
        Ok(world)
    }

    pub(crate) fn may_start(
        &self,
        world: &World,
        call: usize,
        place: Place,
        is_new: bool,
    ) -> Came<()> {
        if world.lost.get(call) == Some(&true) {
            self.broken(
                Promise::UnknownIsFinal,
                "a step begins in a round of which somebody was told that it is unknown",
            )?;
        }
        if is_new && world.calls.get(call).is_some_and(|it| it.left) {
            self.broken(
                Promise::NotForTheGone,
                "a step begins for a client that has left",
            )?;
        }
        if at_hour(world.hour) >= end(self.end_of(place)) {
            self.broken(Promise::Lifetime, "a step is claimed after its end")?;
        }
        Ok(())
    }

    pub(crate) fn give_up_stepping(&self, world: &World, call: usize, next: &mut Next) {
        let label = Label::call(call, "has no word on its step's claim and gives up");
        let mut over = *world;
        if self.is(Turn::NoWordIsNoEffect) {
            self.at(&mut over, call, At::Effect);
        } else {
            self.with(&mut over, call, |it| it.chore = Chore::Release);
            self.end(&mut over, call, Outcome::NoWord);
        }
        self.push(world, label, over, next);
    }

    pub(crate) fn effect(&self, world: &World, call: usize, next: &mut Next) {
        let label = Label::call(call, "does its effect");
        let place = self.step_of(call);
        match self.happen(*world, call) {
            Err(fallen) => next.falls(label, fallen),
            Ok(mut after) if self.is(Turn::OneTransaction) => {
                // Effect and outcome are one transaction, and the claim was another.
                let token = self.token(world, call);
                self.settle(&mut after, place, token, Some(Outcome::Done(short(call))));
                let came = self.go_by(&mut after, call, Outcome::Done(short(call)));
                self.offer(world, label, came.map(|()| after), next);
            }
            Ok(mut after) => {
                self.at(&mut after, call, At::Effected);
                self.push(world, label, after, next);
            }
        }
        if self.may(Events::FAIL) {
            let mut after = *world;
            self.at(&mut after, call, At::Freeing);
            self.push(
                world,
                Label::call(call, "says that nothing was done"),
                after,
                next,
            );
        }
    }

    /// The effect's own record has one more.
    pub(crate) fn happen(&self, mut world: World, call: usize) -> Came<World> {
        let which = usize::from(self.takes_the_other_path(call));
        if let Some(effects) = world.effects.get_mut(which) {
            *effects = (*effects + 1).min(2);
        }
        if world.effects.iter().sum::<u8>() > 1 {
            self.broken(Promise::AtMostOnce, "the effect happens a second time")?;
        }
        Ok(world)
    }

    pub(crate) fn settle_step(&self, world: &World, call: usize, next: &mut Next) {
        let (place, does) = (self.step_of(call), "settles its step");
        if self.is(Turn::OnlyNotDoneFrees) {
            let mut after = *world;
            self.at(&mut after, call, At::Freeing);
            let label = Label::call(call, "fails after its effect, and gives the step back");
            self.push(world, label, after, next);
        }
        let mut after = *world;
        let outcome = Outcome::Done(short(call));
        let said = self.settle(&mut after, place, self.token(world, call), Some(outcome));
        let label = Label::call(call, does).said(said);
        let came = match said {
            Said::Stored => {
                let mut world = after;
                self.go_by(&mut world, call, outcome).map(|()| world)
            }
            _ => self.step_was_taken_away(&after, place).map(|()| {
                let mut world = after;
                self.end(&mut world, call, Outcome::Unknown);
                world
            }),
        };
        self.offer(world, label, came, next);
        if self.may(Events::LOST) {
            for (label, mut world_after) in [
                (label.word(Word::Lost), after),
                (Label::call(call, does).word(Word::Never), *world),
            ] {
                self.with(&mut world_after, call, |it| it.chore = Chore::Settle);
                self.end(&mut world_after, call, Outcome::NoWord);
                self.push(world, label, world_after, next);
            }
        }
    }

    pub(crate) fn free_step(&self, world: &World, call: usize, next: &mut Next) {
        let (place, does) = (self.step_of(call), "releases its step");
        let mut after = *world;
        let freed = self.release(&mut after, place, self.token(world, call));
        let label = Label::call(call, does).said(if freed { Said::Yes } else { Said::No });
        let mut over = after;
        // A second token owned it only to ask: what it asked for is known now.
        self.with(&mut over, call, |it| it.redrawn = false);
        self.end(&mut over, call, Outcome::Failed);
        self.push(world, label, over, next);
        if self.may(Events::LOST) {
            for (label, mut world_after) in [
                (label.word(Word::Lost), after),
                (Label::call(call, does).word(Word::Never), *world),
            ] {
                self.with(&mut world_after, call, |it| it.chore = Chore::Release);
                self.end(&mut world_after, call, Outcome::NoWord);
                self.push(world, label, world_after, next);
            }
        }
    }

    pub(crate) fn look_step_up(&self, world: &World, call: usize, next: &mut Next) {
        let (place, does) = (self.step_of(call), "looks its step up");
        let mut after = *world;
        let said = self.look_up(&mut after, place, self.step_claim(world, call, true).print);
        let label = Label::call(call, does).said(said);
        let came = match said {
            Said::Absent => {
                self.end(&mut after, call, Outcome::NotRun);
                Ok(after)
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

    /// What the body does with its step's outcome.
    pub(crate) fn go_by(&self, world: &mut World, call: usize, outcome: Outcome) -> Came<()> {
        if world.seen.is_some_and(|seen| seen != outcome) {
            self.broken(
                Promise::OneValue,
                "two bodies of one flow are told different outcomes of one step",
            )?;
        }
        world.seen = Some(outcome);
        let declares = self.retry(call).is_some_and(|retry| retry.declares);
        let asks = self.scenario.asks && self.state_of(call) == 0;
        let came = match outcome {
            // A call that may not be asked ends with an error that says so.
            Outcome::Done(_) if asks && !declares => Outcome::NotRun,
            Outcome::Done(_) if asks => Outcome::Asks(short(call)),
            outcome => outcome,
        };
        self.end(world, call, came);
        Ok(())
    }
}

/// What a refusal that nothing else follows on is to the caller.
const fn refusal(said: Said) -> Outcome {
    match said {
        Said::StaleEpoch | Said::Expired => Outcome::NotRun,
        _ => Outcome::NoWord,
    }
}
