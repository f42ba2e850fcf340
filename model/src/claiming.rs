//! The round's claim: who runs it, and what everybody else is told.

use crate::label::{Label, Said, Told, Word};
use crate::ledger::{Asks, Place, Seen, row};
use crate::machine::{Came, Events, Machine, Next};
use crate::promise::Promise;
use crate::turn::Turn;
use crate::world::{At, NO_MARK, Outcome, Row, Status, World, at_hour, end};

impl Machine {
    pub(crate) fn claim_round(&self, world: &World, call: usize, next: &mut Next) {
        let does = "claims its round";
        let is_new = world.calls.get(call).is_some_and(|it| it.at == At::Unsent);
        if let Some(passes) = self.seen_before(world, call)
            && passes
        {
            let mut seen = *world;
            self.at(&mut seen, call, At::Deciding);
            let label = Label::call(call, "reads what its round's claim depends on");
            self.push(world, label, seen, next);
            return;
        }
        self.claim_round_now(world, call, Seen::Now, does, next);
        // A claim that never arrives, and is given up, is as if it had not been sent.
        if is_new && self.is(Turn::NoWordIsNoFirst) {
            let mut never = *world;
            self.at(&mut never, call, At::Claiming);
            let label = Label::call(call, does).word(Word::Never);
            self.push(world, label, never, next);
        }
    }

    /// With the reply that arrives, and with the one that is lost.
    fn claim_round_now(
        &self,
        world: &World,
        call: usize,
        seen: Seen,
        does: &'static str,
        next: &mut Next,
    ) {
        let rooms: &[bool] = if self.may(Events::ROOM) {
            &[true, false]
        } else {
            &[true]
        };
        for has_room in rooms {
            let mut after = *world;
            let said = match self.take_round(&mut after, call, seen, *has_room) {
                Ok(said) => said,
                Err(fallen) => {
                    next.falls(Label::call(call, does).said(Said::First), fallen);
                    continue;
                }
            };
            if !has_room && said != Said::Full {
                continue;
            }
            let label = Label::call(call, does).said(said);
            self.after_claim(world, label, after, call, said, next);
            if self.is(Turn::DurableBeforeAnswered) && said == Said::First {
                // Answered, and lost with the machine's power.
                self.after_claim(world, label, *world, call, said, next);
            }
            if self.may(Events::LOST) && said != Said::Full {
                self.at(&mut after, call, At::Claiming);
                if self.is(Turn::ClaimIsRepeatedWithItsToken) {
                    self.with(&mut after, call, |it| it.redrawn = true);
                }
                self.push(world, label.word(Word::Lost), after, next);
            }
        }
    }

    /// What a claim in two statements reads in the first; `None` where claims are one.
    fn seen_before(&self, world: &World, call: usize) -> Option<bool> {
        let place = self.round_of(call);
        let live = at_hour(world.hour) < end(self.end_of(place));
        let free = row(world, place).is_none();
        match self.turn()? {
            Turn::OneStatement => Some(free && live && !world.rotated),
            Turn::MarkExcludesClaims => Some(live && world.marks[0] == NO_MARK),
            Turn::EpochInTheStatement => Some(!world.rotated),
            _ => None,
        }
    }

    /// The second statement of a claim in two.
    pub(crate) fn claim_decided(&self, world: &World, call: usize, next: &mut Next) {
        let seen = match self.turn() {
            Some(Turn::MarkExcludesClaims) => Seen::ClockAndMark,
            Some(Turn::EpochInTheStatement) => Seen::Epoch,
            _ => {
                // It was free when it was read, and so it is written.
                let place = self.round_of(call);
                let mut after = *world;
                let row = Row {
                    status: Status::Owned {
                        lease: world.hour + 1,
                        again: false,
                    },
                    token: self.token(world, call),
                    print: self.print(call),
                };
                if let Some(old) = after.rounds.get_mut(place.slot) {
                    *old = row;
                }
                let label =
                    Label::call(call, "writes what it has read to be free").said(Said::First);
                match self.granted(world, &mut after, call) {
                    Ok(()) => self.after_claim(world, label, after, call, Said::First, next),
                    Err(fallen) => next.falls(label, fallen),
                }
                return;
            }
        };
        self.claim_round_now(
            world,
            call,
            seen,
            "claims its round with what it has read",
            next,
        );
    }

    /// Asks the ledger, and checks what its `First` promises.
    fn take_round(&self, world: &mut World, call: usize, seen: Seen, has_room: bool) -> Came<Said> {
        let before = *world;
        let asks = Asks {
            place: self.round_of(call),
            token: self.token(world, call),
            print: self.print(call),
            under: None,
            has_room,
        };
        let said = self.claim(world, &asks, seen);
        if said == Said::First {
            self.granted(&before, world, call)?;
        }
        if said == Said::Unknown {
            self.lose(world, asks.place);
        }
        Ok(said)
    }

    fn granted(&self, before: &World, world: &mut World, call: usize) -> Came<()> {
        let Some(retry) = self.retry(call) else {
            return Ok(());
        };
        let place = self.round_of(call);
        if at_hour(world.hour) >= end(self.end_of(Place::round(retry.state))) {
            self.broken(Promise::Lifetime, "a state is claimed after its end")?;
        }
        if let Some(claimed) = world.claimed.get_mut(retry.state) {
            if claimed.is_some_and(|answer| answer != retry.answer) {
                self.broken(
                    Promise::OneAnswer,
                    "a state is claimed with another answer than before",
                )?;
            }
            *claimed = Some(retry.answer);
        }
        // Whoever owned it and runs has lost it; whoever has it now has it anew.
        if let Some(row) = row(before, place)
            && let Some(lost) = world.lost.get_mut(row.owner())
        {
            *lost = true;
        }
        if let Some(lost) = world.lost.get_mut(call) {
            *lost = false;
        }
        Ok(())
    }

    fn after_claim(
        &self,
        before: &World,
        label: Label,
        mut world: World,
        call: usize,
        said: Said,
        next: &mut Next,
    ) {
        let place = self.round_of(call);
        if let Err(fallen) = self.told_of_its_own(&world, call, place, said) {
            return next.falls(label, fallen);
        }
        // An attempt without word may have been granted before this one was refused, and is given back.
        let over = if self.owns(&world, place, call) {
            At::Releasing
        } else {
            At::Done
        };
        match said {
            Said::First => {
                self.offer(before, label, self.begin(world, call), next);
                if self.may(Events::ROOM) {
                    let label = Label {
                        does: "claims its round and finds no room for its body",
                        ..label
                    };
                    self.with(&mut world, call, |it| it.at = At::Releasing);
                    self.reply(
                        before,
                        label,
                        world,
                        call,
                        Told::Repeat,
                        At::Releasing,
                        next,
                    );
                }
            }
            Said::Settled(outcome) => self.replay(before, label, world, call, outcome, over, next),
            Said::InProgress => {
                self.reply(before, label, world, call, Told::InProgress, over, next);
            }
            Said::Conflict => self.reply(before, label, world, call, Told::Used, over, next),
            Said::StaleEpoch => self.reply(before, label, world, call, Told::Stale, over, next),
            Said::Unknown => {
                self.reply(before, label, world, call, Told::Unknown, over, next);
            }
            Said::Expired => match self.is_over(&world, place) {
                Ok(()) => {
                    self.with(&mut world, call, |it| {
                        it.at = match over {
                            At::Releasing => At::Returning,
                            _ => At::Looking,
                        };
                        it.came = Some(Outcome::Late);
                    });
                    self.push(before, label, world, next);
                }
                Err(fallen) => next.falls(label, fallen),
            },
            _ => self.reply(before, label, world, call, Told::Repeat, over, next),
        }
    }

    /// The server takes the state for expired and looks it up at once. Its clock may say anything.
    pub(crate) fn come_late(&self, world: &World, call: usize, next: &mut Next) {
        let mut late = *world;
        self.with(&mut late, call, |it| {
            it.at = At::Looking;
            it.came = Some(Outcome::Late);
        });
        let it = late.calls.get(call).copied().unwrap_or_default();
        self.look_round_up_from(world, &late, call, it, "comes late and is looked up", next);
    }

    pub(crate) fn give_up_claiming(&self, world: &World, call: usize, next: &mut Next) {
        let label = Label::call(call, "has no word on its claim and gives up");
        if self.is(Turn::NoWordIsNoFirst) {
            return self.offer(world, label, self.begin(*world, call), next);
        }
        self.reply(
            world,
            label,
            *world,
            call,
            Told::Repeat,
            At::Releasing,
            next,
        );
    }
}
