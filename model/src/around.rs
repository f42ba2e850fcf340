//! What happens around the calls: clocks, crashes, clients that leave, purges, rotations, restores.

use mrtr_ledger::Kind;

use crate::label::{Label, Word};
use crate::ledger::{MARK_BY_THE_CLOCK, Place, row};
use crate::machine::{Events, Machine, Next};
use crate::promise::Promise;
use crate::turn::Turn;
use crate::world::{
    At, Call, Chore, Flying, LAST_HOUR, NO_MARK, Outcome, RETENTION, Row, Status, World, at_hour,
    end, shelf, short,
};

/// Every row there is.
const PLACES: [Place; 5] = [
    Place::round(0),
    Place::round(1),
    Place::step(0),
    Place::step(1),
    Place::NOTE,
];

impl Machine {
    pub(crate) fn world_moves(&self, world: &World, next: &mut Next) {
        if self.may(Events::CLOCK) {
            let mut later = *world;
            later.hour = (world.hour + 1).min(LAST_HOUR);
            self.push(world, Label::world("an hour passes"), later, next);
            // Where no trace will be told it is enough that it is set back at the end: hours pass without anything else.
            let mut earlier = *world;
            if self.tells() || world.hour == LAST_HOUR {
                earlier.hour = 0;
            }
            self.push(
                world,
                Label::world("the clock is set back to its beginning"),
                earlier,
                next,
            );
        }
        for call in 0..self.scenario.calls.len() {
            self.things_that_happen_to(world, call, next);
        }
        if let Some(flying) = world.flying {
            self.commit_lands(world, flying, next);
        }
        // A transaction holds what it has read: marks and epoch wait for it.
        let is_open =
            world.flying.is_some() || world.calls.iter().any(|call| call.at == At::Transaction);
        if self.may(Events::PURGE) && !world.rotated {
            self.purge(world, is_open, next);
        }
        if self.may(Events::ROTATE) && !is_open {
            let mut rotated = *world;
            rotated.rotated = true;
            // No claim of the flow is asked for its mark any more, and so a rotation forgets the marks.
            rotated.marks = [NO_MARK; 3];
            self.push(world, Label::world("the epoch is rotated"), rotated, next);
        }
        if self.may(Events::RESTORE) && !world.restored {
            self.restore(world, next);
        }
        if self.is(Turn::NothingIsEvicted) {
            self.evict(world, next);
        }
    }

    fn things_that_happen_to(&self, world: &World, call: usize, next: &mut Next) {
        let Some(it) = world.calls.get(call).copied() else {
            return;
        };
        if self.may(Events::LEAVE) && self.notices_leaving(it) {
            let (mut gone, label) = (*world, Label::call(call, "loses its client"));
            self.with(&mut gone, call, |it| it.left = true);
            if self.is(Turn::TaskOutlivesConnection) {
                self.set(&mut gone, call, Call::default().over(At::Dropped));
            }
            let in_flight = matches!(it.at, At::Effect | At::Effected | At::Freeing);
            if self.is(Turn::StepIsCarriedThrough) && in_flight {
                self.with(&mut gone, call, |it| {
                    it.chore = Chore::Abandon;
                    it.at = At::Ending;
                    it.came = Some(Outcome::Dropped);
                });
            }
            self.push(world, label, gone, next);
        }
        if self.is(Turn::ShutdownWaits) && it.is_running() {
            let mut shut = *world;
            self.set(&mut shut, call, Call::default().over(At::Dropped));
            let label = Label::call(call, "is dropped by its server's shutdown");
            self.push(world, label, shut, next);
        }
        if self.may(Events::CRASH) && it.is_running() {
            self.crash(world, call, it, next);
        }
        if self.may(Events::CUT) && it.at.is_body() {
            self.cut_off(world, call, it, next);
        }
        if self.may(Events::BEAT) {
            self.give_signs_of_life(world, call, it, next);
        }
    }

    /// Where a client that leaves makes a difference: before the step, which then does not begin. Later it only does not
    /// hear its reply, and that may be lost anyway.
    fn notices_leaving(&self, it: Call) -> bool {
        let anywhere = [
            Turn::TaskOutlivesConnection,
            Turn::StepIsCarriedThrough,
            Turn::SettlesAfterLeaving,
        ];
        let anywhere = anywhere.iter().any(|turn| self.is(*turn));
        !it.left && (it.at == At::Step || anywhere && it.at.is_awaited())
    }

    fn crash(&self, world: &World, call: usize, it: Call, next: &mut Next) {
        let mut crashed = *world;
        self.set(&mut crashed, call, Call::default().over(At::Crashed));
        self.push(
            world,
            Label::call(call, "loses its server: a crash"),
            crashed,
            next,
        );
        if it.at == At::Transaction {
            // It had asked for the commit.
            crashed.flying = Some(Flying {
                call: short(call),
                failed: false,
            });
            let label = Label::call(call, "loses its server: a crash, with its commit under way");
            self.push(world, label, crashed, next);
        }
    }

    fn cut_off(&self, world: &World, call: usize, it: Call, next: &mut Next) {
        let mut cut = *world;
        self.with(&mut cut, call, |cut| {
            cut.chore = match it.at {
                // A claim that nobody waits for is given back; an effect that may have begun is not.
                At::Stepping => Chore::Release,
                At::Effect | At::Effected | At::Freeing => Chore::Abandon,
                _ => cut.chore,
            };
            cut.redrawn &= it.at != At::Freeing;
        });
        self.end(&mut cut, call, Outcome::Cut);
        self.push(
            world,
            Label::call(call, "is cut off in its body"),
            cut,
            next,
        );
    }

    fn give_signs_of_life(&self, world: &World, call: usize, it: Call, next: &mut Next) {
        let token = self.token(world, call);
        if it.at.is_body() || it.at == At::Ending {
            let mut alive = *world;
            if self.beat(&mut alive, self.round_of(call), token) {
                self.push(world, Label::call(call, "beats for its round"), alive, next);
            }
        }
        if matches!(it.at, At::Effect | At::Effected) {
            let mut alive = *world;
            if self.beat(&mut alive, self.step_of(call), token) {
                self.push(world, Label::call(call, "beats for its step"), alive, next);
            }
        }
    }

    fn commit_lands(&self, world: &World, flying: Flying, next: &mut Next) {
        let mut landed = *world;
        landed.flying = None;
        let never = Label::world("the commit without word").word(Word::Never);
        self.push(world, never, landed, next);
        let came = self.land(&mut landed, flying).map(|_| landed);
        let label = Label::world("the commit without word happens");
        self.offer(world, label, came, next);
    }

    /// First a kind's mark is raised, and then what it covers goes, a row at a time.
    fn purge(&self, world: &World, is_open: bool, next: &mut Next) {
        let after = self.is(Turn::RowsGoAfterTheMark);
        // Notes end with the flow as steps do, and their marks are raised together.
        for kinds in [&[Kind::Round][..], &[Kind::Step, Kind::Note]] {
            let ripe = PLACES.iter().filter(|place| kinds.contains(&place.kind));
            let ripe = ripe.filter(|place| self.is_removable(world, **place));
            let last = ripe.map(|place| self.end_of(*place)).max();
            let due = kinds
                .iter()
                .filter_map(|kind| world.due.get(shelf(*kind)).copied());
            let due = due.max().unwrap_or(NO_MARK);
            let raise = if after {
                (due != NO_MARK).then_some(due)
            } else {
                last
            };
            if let Some(last) = raise.filter(|_| !is_open) {
                let mut raised = *world;
                let to = if self.is(Turn::MarkIsNeverNow) {
                    MARK_BY_THE_CLOCK
                } else {
                    last
                };
                for kind in kinds {
                    let which = shelf(*kind);
                    if let (Some(mark), Some(due)) =
                        (raised.marks.get_mut(which), raised.due.get_mut(which))
                    {
                        *mark = if self.is(Turn::MarkNeverFalls) {
                            to
                        } else {
                            to.max(*mark)
                        };
                        *due = last.max(*due);
                    }
                }
                let label = match kinds.first() {
                    Some(Kind::Round) => "a purge raises the rounds' mark",
                    _ => "a purge raises the marks of steps and notes",
                };
                self.push(world, Label::world(label), raised, next);
            }
        }
        for place in PLACES {
            let covered = world
                .marks
                .get(shelf(place.kind))
                .is_some_and(|mark| *mark >= self.end_of(place));
            if self.is_removable(world, place) && (covered || after) {
                self.remove(world, place, after, next);
            }
        }
    }

    fn remove(&self, world: &World, place: Place, notes_due: bool, next: &mut Next) {
        let mut gone = *world;
        let label = Label::world(removes(place));
        if notes_due && let Some(due) = gone.due.get_mut(shelf(place.kind)) {
            *due = self.end_of(place).max(*due);
        }
        let settled = row(world, place).is_some_and(|row| matches!(row.status, Status::Settled(_)));
        let kept_until = end(self.end_of(place)).as_millis() + RETENTION;
        if settled && at_hour(world.hour).as_millis() <= kept_until {
            let too_soon = "an outcome is removed before its retention is over";
            if let Err(fallen) = self.broken(Promise::Retained, too_soon) {
                return next.falls(label, fallen);
            }
        }
        clear(&mut gone, place);
        self.push(world, label, gone, next);
    }

    fn evict(&self, world: &World, next: &mut Next) {
        for place in [Place::round(0), Place::step(0)] {
            if row(world, place).is_some_and(|row| matches!(row.status, Status::Settled(_))) {
                let mut gone = *world;
                clear(&mut gone, place);
                self.push(
                    world,
                    Label::world("a row is evicted to make room"),
                    gone,
                    next,
                );
            }
        }
    }

    /// From the backup of the beginning, in which there is nothing; and the epoch is rotated before any server connects.
    fn restore(&self, world: &World, next: &mut Next) {
        let mut restored = *world;
        for place in PLACES {
            clear(&mut restored, place);
        }
        restored.restored = true;
        restored.rotated |= !self.is(Turn::RestoredIsRotated);
        restored.marks = [NO_MARK; 3];
        restored.flying = None;
        for call in 0..restored.calls.len() {
            if restored
                .calls
                .get(call)
                .is_some_and(|it| it.at == At::Transaction)
            {
                self.at(&mut restored, call, At::Asking);
            }
        }
        if self.scenario.once_in {
            // The effects are in the same database, and were taken back with it; so is what was said of them.
            restored.effects = [0; 2];
            restored.heard = [None; 3];
            restored.seen = None;
        }
        let label = Label::world("the ledger is restored from its backup, which is empty");
        self.push(world, label, restored, next);
    }
}

fn clear(world: &mut World, place: Place) {
    match place.kind {
        Kind::Round => {
            if let Some(row) = world.rounds.get_mut(place.slot) {
                *row = Row::default();
            }
        }
        Kind::Step => {
            if let Some(row) = world.steps.get_mut(place.slot) {
                *row = Row::default();
            }
        }
        Kind::Note => world.note = None,
    }
}

const fn removes(place: Place) -> &'static str {
    match (place.kind, place.slot) {
        (Kind::Round, 0) => "a purge removes state 1's round",
        (Kind::Round, _) => "a purge removes state 2's round",
        (Kind::Step, _) => "a purge removes the step",
        (Kind::Note, _) => "a purge removes the memo",
    }
}
