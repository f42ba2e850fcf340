//! What holds of every world, and between each two.

use crate::label::{Label, Told};
use crate::ledger::row;
use crate::machine::{Came, Fall, Machine, Next, Retry};
use crate::promise::Promise;
use crate::world::{At, ONE_MORE, Row, Status, World};

/// How many moves one more retry takes at most.
const MOVES: usize = 32;

impl Machine {
    /// Checks a world, and the move that led to it.
    pub(crate) fn check(&self, before: &World, world: &World, label: Label) -> Came<()> {
        self.is_undisturbed(before, world, label)?;
        self.is_kept(world)?;
        if self.one_more().is_none() && is_quiet(world) {
            self.completes(world)?;
        }
        Ok(())
    }

    /// One more retry, undisturbed, is told what became of it.
    fn completes(&self, world: &World) -> Came<()> {
        for (state, claimed) in world.claimed.iter().enumerate() {
            let Some(answer) = claimed else { continue };
            if !self.lives(world, state) {
                continue;
            }
            let retry = Retry {
                state,
                answer: *answer,
                declares: true,
            };
            let machine = self.undisturbed(retry);
            let mut way = Vec::new();
            let told = machine.one_more_retry(*world, &mut way)?;
            let safe = self.scenario.run_again && self.scenario.once_in;
            let told = match told {
                // Its owner has crashed, and nobody knows that before the lease has lapsed. Later it may be too late.
                Some(Told::InProgress) => {
                    let lease = owned(world.rounds.get(state));
                    let mut later = *world;
                    later.hour = lease.unwrap_or(world.hour);
                    if !machine.lives(&later, state) {
                        continue;
                    }
                    machine.one_more_retry(later, &mut way)?
                }
                told => told,
            };
            let ends = match told {
                Some(Told::Result(outcome)) => outcome.is_kept(),
                Some(Told::Expired) => true,
                Some(Told::Unknown) => !safe,
                // A step of a run that crashed is in progress as long as its lease runs.
                Some(Told::InProgress) => row(world, machine.step_of(ONE_MORE))
                    .is_some_and(|row| owned(Some(&row)).is_some_and(|lease| world.hour < lease)),
                _ => false,
            };
            if !ends {
                let broken = self.broken(
                    Promise::Completes,
                    "nothing is under way, and one more retry is not told how it ended",
                );
                broken.map_err(|fall| Fall {
                    one_more: way,
                    ..fall
                })?;
            }
        }
        Ok(())
    }

    /// What one more retry is told when everything that it sends arrives.
    fn one_more_retry(&self, mut world: World, way: &mut Vec<Label>) -> Came<Option<Told>> {
        let mut next = Next::default();
        way.clear();
        for _ in 0..MOVES {
            next.clear();
            self.call_moves(&world, ONE_MORE, &mut next);
            if let Some((label, fall)) = next.fall.take() {
                way.push(label);
                let one_more = std::mem::take(way);
                return Err(Fall { one_more, ..fall });
            }
            let Some((label, after)) = next.worlds.first().copied() else {
                return Ok(None);
            };
            way.push(label);
            if let Some((told, _)) = label.told {
                return Ok(Some(told));
            }
            world = after;
        }
        Ok(None)
    }

    /// Nobody loses a row whose lease runs, but by doing something themselves.
    fn is_undisturbed(&self, before: &World, world: &World, label: Label) -> Came<()> {
        let rounds = before.rounds.iter().zip(&world.rounds);
        let steps = before.steps.iter().zip(&world.steps);
        for (old, new) in rounds.chain(steps) {
            let Status::Owned { lease, .. } = old.status else {
                continue;
            };
            let owner = before.calls.get(old.owner());
            let runs = before.hour < lease && owner.is_some_and(|owner| owner.is_running());
            let its_own = label
                .call
                .is_some_and(|call| usize::from(call) == old.owner());
            let holds = matches!(new.status, Status::Owned { .. }) && new.token == old.token;
            let restored = world.restored && !new.is_there();
            if runs && !its_own && !holds && !restored {
                self.broken(
                    Promise::Undisturbed,
                    "an owner loses its row while its lease runs",
                )?;
            }
        }
        Ok(())
    }

    /// Who came to an end on a server that lives has left nothing open, and no outcome behind.
    fn is_kept(&self, world: &World) -> Came<()> {
        for row in world.rounds.iter().chain(&world.steps) {
            let Some(call) = world.calls.get(row.owner()) else {
                continue;
            };
            let ended = !call.is_running() && matches!(call.at, At::Done | At::Dropped);
            if ended && matches!(row.status, Status::Owned { .. }) {
                self.broken(
                    Promise::Kept,
                    "a run is over, its server lives, and its row says that it runs",
                )?;
            }
        }
        Ok(())
    }
}

fn owned(row: Option<&Row>) -> Option<u8> {
    match row?.status {
        Status::Owned { lease, .. } => Some(lease),
        _ => None,
    }
}

/// Nothing is under way.
fn is_quiet(world: &World) -> bool {
    world.flying.is_none() && !world.calls.iter().any(|call| call.is_running())
}
