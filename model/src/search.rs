//! The search: every world that can be reached, breadth first, so that the first trace that is found is a shortest.
//!
//! Worlds are kept whole, never as hashes of themselves: two that differ are two. For each there is the world from which
//! it was reached first; the way to it is found again by going from one to the next.

use std::time::{Duration, Instant};

use crate::label::Label;
use crate::machine::{Fall, Machine, Next};
use crate::pack::Packed;
use crate::world::World;

/// How it went.
#[derive(Debug)]
pub(crate) struct Found {
    /// Worlds that were reached.
    pub(crate) worlds: usize,
    /// Moves from one to another, or to the same again.
    pub(crate) moves: u64,
    /// The longest shortest way to a world.
    pub(crate) depth: u32,
    pub(crate) took: Duration,
    /// The way to a promise that falls, if one does.
    pub(crate) trace: Option<Trace>,
}

/// A way from the beginning to a promise that falls.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) way: Vec<Label>,
    pub(crate) fall: Fall,
}

/// Searches everything, or up to the first promise that falls. `progress` hears of each level.
pub(crate) fn search(machine: &Machine, mut progress: impl FnMut(u32, usize)) -> Found {
    let start = Instant::now();
    let mut seen = Seen::default();
    seen.add_all([World::default().pack()].into_iter(), 0);
    let mut next = Next::default();
    let (mut at, mut level_end, mut depth, mut moves) = (0, 1, 0, 0);
    let mut trace = None;
    while let Some(packed) = seen.worlds.get(at).copied() {
        if at == level_end {
            depth += 1;
            level_end = seen.worlds.len();
            progress(depth, level_end);
        }
        next.clear();
        machine.moves(&World::unpack(&packed), &mut next);
        if let Some((label, fall)) = next.fall.take() {
            let mut way = seen.way_to(machine, at);
            way.push(label);
            depth += 1;
            trace = Some(Trace { way, fall });
            break;
        }
        moves += next.worlds.len() as u64;
        seen.add_all(
            next.worlds.iter().map(|(_, world)| machine.packed(world)),
            at,
        );
        at += 1;
    }
    Found {
        worlds: seen.worlds.len(),
        moves,
        depth,
        took: start.elapsed(),
        trace,
    }
}

/// The worlds in the order in which they were found, and a table to find them again.
#[derive(Default)]
struct Seen {
    worlds: Vec<Packed>,
    /// From which each was reached first.
    from: Vec<u32>,
    /// Numbers of worlds, plus one, where their hashes point; zero is nobody.
    table: Vec<u32>,
    /// Worlds that are looked for at once, with their places: memory is far away, and the ways there overlap.
    asked: Vec<(Packed, usize, u32)>,
}

impl Seen {
    fn add_all(&mut self, worlds: impl Iterator<Item = Packed>, from: usize) {
        let mut asked = std::mem::take(&mut self.asked);
        asked.clear();
        asked.extend(worlds.map(|world| (world, 0, 0)));
        if self.table.len() < 2 * (self.worlds.len() + asked.len()) {
            self.grow();
        }
        let mask = self.table.len() - 1;
        for (world, place, slot) in &mut asked {
            *place = hash(world) & mask;
            *slot = self.table.get(*place).copied().unwrap_or(0);
        }
        for (world, place, slot) in &asked {
            let known = *slot != 0 && self.worlds.get(*slot as usize - 1) == Some(world);
            if !known {
                self.add(*world, *place, from);
            }
        }
        self.asked = asked;
    }

    /// Adds a world that is not at the first place where it would be.
    fn add(&mut self, world: Packed, first: usize, from: usize) {
        let place = self.place(&world, first);
        let Some(slot) = self.table.get_mut(place) else {
            return;
        };
        if *slot == 0 {
            self.worlds.push(world);
            self.from.push(number(from));
            *slot = number(self.worlds.len());
        }
    }

    /// Where the world is, or would be, from the first such place on.
    fn place(&self, world: &Packed, first: usize) -> usize {
        let mask = self.table.len() - 1;
        let mut place = first;
        loop {
            match self.table.get(place).copied() {
                Some(0) | None => return place,
                Some(taken) if self.worlds.get(taken as usize - 1) == Some(world) => return place,
                Some(_) => place = (place + 1) & mask,
            }
        }
    }

    fn grow(&mut self) {
        let size = (self.table.len() * 2).max(1 << 12);
        self.table.clear();
        self.table.resize(size, 0);
        let mask = size - 1;
        for (at, world) in self.worlds.iter().enumerate() {
            let mut place = hash(world) & mask;
            while self.table.get(place).is_some_and(|slot| *slot != 0) {
                place = (place + 1) & mask;
            }
            if let Some(slot) = self.table.get_mut(place) {
                *slot = number(at + 1);
            }
        }
    }

    fn way_to(&self, machine: &Machine, world: usize) -> Vec<Label> {
        let mut chain = vec![world];
        let mut at = world;
        while at != 0 {
            at = self.from.get(at).map_or(0, |from| *from as usize);
            chain.push(at);
        }
        chain.reverse();
        let mut way = Vec::new();
        let mut next = Next::default();
        for (from, to) in chain.iter().zip(chain.iter().skip(1)) {
            let (Some(from), Some(to)) = (self.worlds.get(*from), self.worlds.get(*to)) else {
                continue;
            };
            next.clear();
            machine.moves(&World::unpack(from), &mut next);
            let moved = next
                .worlds
                .iter()
                .find(|(_, world)| machine.packed(world) == *to);
            way.extend(moved.map(|(label, _)| *label));
        }
        way
    }
}

/// There is no memory for more worlds than this counts.
fn number(world: usize) -> u32 {
    u32::try_from(world).unwrap_or(u32::MAX)
}

/// Mixes well and fast; nobody chooses these keys to collide.
fn hash(world: &Packed) -> usize {
    let mut mixed = 0x9e37_79b9_7f4a_7c15_u64;
    for word in world {
        mixed ^= *word;
        mixed = mixed.wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^= mixed >> 32;
    }
    usize::try_from(mixed & 0xffff_ffff).unwrap_or(0)
        | usize::try_from(mixed >> 32).unwrap_or(0) << 32
}
