//! A world as the search keeps it: as few bits as will do.

use crate::world::{At, CALLS, Call, Chore, Flying, Outcome, Status, World, short};

/// A world as the search keeps it.
pub(crate) type Packed = [u64; 3];

impl World {
    /// As few bits as will do.
    pub(crate) fn pack(&self) -> Packed {
        let mut bits = Bits::default();
        bits.put(self.hour, 2);
        bits.put(u8::from(self.rotated), 1);
        bits.put(u8::from(self.restored), 1);
        for row in self.rounds.iter().chain(&self.steps) {
            let (status, detail) = match row.status {
                Status::Absent => (0, 0),
                Status::Owned { lease, again } => (1, lease << 1 | u8::from(again)),
                Status::Released => (2, 0),
                Status::Settled(outcome) => (3, outcome.code()),
                Status::Abandoned => (4, 0),
            };
            bits.put(status, 3);
            bits.put(detail, 5);
            bits.put(row.token, 3);
            bits.put(row.print, 2);
        }
        bits.maybe(self.note, 2);
        for mark in self.marks.iter().chain(&self.due) {
            bits.put(*mark, 2);
        }
        let flying = self
            .flying
            .map(|flying| flying.call << 1 | u8::from(flying.failed));
        bits.maybe(flying, 3);
        for call in self.calls.iter().take(CALLS) {
            bits.put(call.at as u8, 5);
            bits.put(u8::from(call.left), 1);
            bits.put(call.chore as u8, 2);
            bits.maybe(call.came.map(Outcome::code), 5);
            bits.put(u8::from(call.redrawn), 1);
        }
        for effects in self.effects {
            bits.put(effects, 2);
        }
        for answer in self.claimed {
            bits.maybe(answer, 2);
        }
        for ran in self.ran.iter().chain(self.lost.iter().take(CALLS)) {
            bits.put(u8::from(*ran), 1);
        }
        for outcome in self.heard.iter().chain([&self.seen]) {
            bits.maybe(outcome.map(Outcome::code), 5);
        }
        bits.maybe(self.used, 2);
        bits.words
    }

    /// The same with other names for the calls: `names` has the new name of each.
    pub(crate) fn renamed(&self, names: [u8; CALLS + 1]) -> Self {
        let name = |call: u8| {
            names
                .get(usize::from(call & 3))
                .map_or(call, |name| call & 4 | name)
        };
        let renamed = |came: Outcome| match came {
            Outcome::Done(call) => Outcome::Done(name(call)),
            Outcome::Asks(call) => Outcome::Asks(name(call)),
            came => came,
        };
        let mut world = *self;
        for row in world.rounds.iter_mut().chain(&mut world.steps) {
            if row.is_there() {
                row.token = name(row.token);
            }
            if let Status::Settled(came) = &mut row.status {
                *came = renamed(*came);
            }
        }
        world.note = world.note.map(name);
        world.used = world.used.map(name);
        world.flying = world.flying.map(|flying| Flying {
            call: name(flying.call),
            ..flying
        });
        for came in world.heard.iter_mut().chain([&mut world.seen]) {
            *came = came.map(renamed);
        }
        for ((call, lost), to) in self.calls.iter().zip(self.lost).zip(names) {
            let to = usize::from(to);
            if let (Some(it), Some(its)) = (world.calls.get_mut(to), world.lost.get_mut(to)) {
                *it = Call {
                    came: call.came.map(renamed),
                    ..*call
                };
                *its = lost;
            }
        }
        world
    }

    /// Everything about a call that its name does not say: where it stands, and where its name stands.
    pub(crate) fn portrait(&self, call: usize) -> u64 {
        let Some(it) = self.calls.get(call) else {
            return 0;
        };
        let call = short(call);
        let is = |other: u8| other & 3 == call;
        let of = |came: Option<Outcome>| matches!(came, Some(Outcome::Done(other) | Outcome::Asks(other)) if is(other));
        let mut bits = Bits::default();
        bits.put(it.at as u8, 5);
        bits.put(u8::from(it.left), 1);
        bits.put(it.chore as u8, 2);
        bits.put(u8::from(it.redrawn), 1);
        // Whose effect it goes by is in the name; whether it is its own is not.
        bits.maybe(
            it.came
                .filter(|came| !matches!(came, Outcome::Done(_) | Outcome::Asks(_)))
                .map(Outcome::code),
            5,
        );
        bits.put(u8::from(of(it.came)), 1);
        bits.put(u8::from(it.came.is_some()), 1);
        bits.put(u8::from(self.lost.get(usize::from(call)) == Some(&true)), 1);
        for row in self.rounds.iter().chain(&self.steps) {
            bits.put(u8::from(row.is_there() && is(row.token)), 1);
            let settled = match row.status {
                Status::Settled(came) => Some(came),
                _ => None,
            };
            bits.put(u8::from(of(settled)), 1);
        }
        for name in [self.note, self.used, self.flying.map(|flying| flying.call)] {
            bits.put(u8::from(name.is_some_and(is)), 1);
        }
        for came in self.heard.iter().chain([&self.seen]) {
            bits.put(u8::from(of(*came)), 1);
        }
        let others = self.calls.iter().filter(|other| of(other.came)).count();
        bits.put(u8::try_from(others).unwrap_or(3), 2);
        bits.words.first().copied().unwrap_or(0)
    }

    /// The same world again.
    pub(crate) fn unpack(packed: &Packed) -> Self {
        let mut bits = Bits {
            words: *packed,
            at: 0,
        };
        let mut world = Self {
            hour: bits.take(2),
            rotated: bits.take(1) == 1,
            restored: bits.take(1) == 1,
            ..Self::default()
        };
        for row in world.rounds.iter_mut().chain(&mut world.steps) {
            let (status, detail) = (bits.take(3), bits.take(5));
            row.status = match status {
                1 => Status::Owned {
                    lease: detail >> 1,
                    again: detail & 1 == 1,
                },
                2 => Status::Released,
                3 => Status::Settled(Outcome::from_code(detail)),
                4 => Status::Abandoned,
                _ => Status::Absent,
            };
            row.token = bits.take(3);
            row.print = bits.take(2);
        }
        world.note = bits.take_maybe(2);
        for mark in world.marks.iter_mut().chain(&mut world.due) {
            *mark = bits.take(2);
        }
        world.flying = bits.take_maybe(3).map(|flying| Flying {
            call: flying >> 1,
            failed: flying & 1 == 1,
        });
        for call in world.calls.iter_mut().take(CALLS) {
            call.at = At::from_code(bits.take(5));
            call.left = bits.take(1) == 1;
            call.chore = match bits.take(2) {
                1 => Chore::Settle,
                2 => Chore::Abandon,
                3 => Chore::Release,
                _ => Chore::None,
            };
            call.came = bits.take_maybe(5).map(Outcome::from_code);
            call.redrawn = bits.take(1) == 1;
        }
        for effects in &mut world.effects {
            *effects = bits.take(2);
        }
        for answer in &mut world.claimed {
            *answer = bits.take_maybe(2);
        }
        for ran in world
            .ran
            .iter_mut()
            .chain(world.lost.iter_mut().take(CALLS))
        {
            *ran = bits.take(1) == 1;
        }
        for outcome in world.heard.iter_mut().chain([&mut world.seen]) {
            *outcome = bits.take_maybe(5).map(Outcome::from_code);
        }
        world.used = bits.take_maybe(2);
        world
    }
}

/// Writes and reads bits in order. No field lies across two words, so some bits between them are lost.
#[derive(Default)]
struct Bits {
    words: Packed,
    at: u32,
}

impl Bits {
    fn put(&mut self, value: u8, width: u32) {
        debug_assert!(
            u32::from(value) < 1 << width,
            "{value} has more than {width} bits"
        );
        let (word, shift) = self.next(width);
        if let Some(word) = self.words.get_mut(word) {
            *word |= u64::from(value) << shift;
        }
    }

    fn take(&mut self, width: u32) -> u8 {
        let (word, shift) = self.next(width);
        let bits = self.words.get(word).map_or(0, |word| word >> shift);
        u8::try_from(bits & ((1 << width) - 1)).unwrap_or(0)
    }

    fn maybe(&mut self, value: Option<u8>, width: u32) {
        self.put(u8::from(value.is_some()), 1);
        self.put(value.unwrap_or(0), width);
    }

    fn take_maybe(&mut self, width: u32) -> Option<u8> {
        let there = self.take(1) == 1;
        let value = self.take(width);
        there.then_some(value)
    }

    fn next(&mut self, width: u32) -> (usize, u32) {
        if self.at / 64 != (self.at + width - 1) / 64 {
            self.at = (self.at / 64 + 1) * 64;
        }
        let place = ((self.at / 64) as usize, self.at % 64);
        self.at += width;
        debug_assert!(self.at <= 192, "a world has more bits than three words");
        place
    }
}
