//! What is searched: calls of a tool, what can happen around them, and perhaps a rule that is turned.

use crate::label::Label;
use crate::pack::Packed;
use crate::promise::Promise;
use crate::turn::Turn;
use crate::world::{At, CALLS, Call, Chore, Flying, ONE_MORE, Outcome, Status, World};

/// A call: a retry of one of two states with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    /// State 1 is 0, state 2, which is minted when the body asks again, is 1.
    pub(crate) state: usize,
    /// Retries with the same number are the same retry. 0 and 1 answer state 1, 2 answers state 2.
    pub(crate) answer: u8,
    /// Its client declares what the body asks for.
    pub(crate) declares: bool,
}

impl Retry {
    const fn of(state: usize, answer: u8) -> Self {
        Self {
            state,
            answer,
            declares: true,
        }
    }
}

/// A tool, and who calls it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) calls: &'static [Retry],
    /// The body asks again in state 1's round, so that there is a state 2.
    pub(crate) asks: bool,
    /// The tool says that it may run again.
    pub(crate) run_again: bool,
    /// The step's effect is in the ledger's own transaction.
    pub(crate) once_in: bool,
    /// The body computes a memo before its step.
    pub(crate) memo: bool,
}

/// Two that are the same retry, and one that answers the same state otherwise.
const TWO_ANSWERS: &[Retry] = &[Retry::of(0, 0), Retry::of(0, 0), Retry::of(0, 1)];
/// Two that are the same retry, the second from a client that declares less, and one that answers the next state.
const TWO_ROUNDS: &[Retry] = &[
    Retry::of(0, 0),
    Retry {
        declares: false,
        ..Retry::of(0, 0)
    },
    Retry::of(1, 2),
];

pub(crate) const FORK: Scenario = Scenario {
    name: "fork",
    about: "calls 1 and 2 are the same retry, call 3 answers the same state otherwise",
    calls: TWO_ANSWERS,
    asks: false,
    run_again: false,
    once_in: false,
    memo: false,
};
pub(crate) const ROUNDS: Scenario = Scenario {
    name: "rounds",
    about: "calls 1 and 2 are the same retry, 2 from a client that declares less; call 3 answers the next round's state",
    calls: TWO_ROUNDS,
    asks: true,
    ..FORK
};
pub(crate) const FORK_AGAIN: Scenario = Scenario {
    name: "fork, run_again",
    about: "as fork; the tool may run again, and has a memo",
    run_again: true,
    memo: true,
    ..FORK
};
pub(crate) const ROUNDS_AGAIN: Scenario = Scenario {
    name: "rounds, run_again",
    about: "as rounds; the tool may run again",
    run_again: true,
    ..ROUNDS
};
pub(crate) const FORK_IN: Scenario = Scenario {
    name: "fork, once_in",
    about: "as fork; the tool may run again, and its effect is in the ledger's transaction",
    run_again: true,
    once_in: true,
    ..FORK
};
pub(crate) const ROUNDS_IN: Scenario = Scenario {
    name: "rounds, once_in",
    about: "as rounds; the tool may run again, and its effect is in the ledger's transaction",
    run_again: true,
    once_in: true,
    ..ROUNDS
};

/// Three that are the same retry.
const THREE_AT_ONCE: &[Retry] = &[Retry::of(0, 0), Retry::of(0, 0), Retry::of(0, 0)];
pub(crate) const CROWD_AGAIN: Scenario = Scenario {
    name: "crowd, run_again",
    about: "all three calls are the same retry; the tool may run again",
    calls: THREE_AT_ONCE,
    run_again: true,
    ..FORK
};
pub(crate) const CROWD_IN: Scenario = Scenario {
    name: "crowd, once_in",
    about: "all three calls are the same retry; the tool may run again, and its effect is in the ledger's transaction",
    calls: THREE_AT_ONCE,
    run_again: true,
    once_in: true,
    ..FORK
};

/// All of them.
pub(crate) const SCENARIOS: [Scenario; 8] = [
    FORK,
    ROUNDS,
    FORK_AGAIN,
    ROUNDS_AGAIN,
    FORK_IN,
    ROUNDS_IN,
    CROWD_AGAIN,
    CROWD_IN,
];

/// What may happen around the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Events(u16);

impl Events {
    /// The clock goes on, and is set back.
    pub(crate) const CLOCK: Self = Self(1);
    /// Servers crash.
    pub(crate) const CRASH: Self = Self(1 << 1);
    /// Clients leave, and responses are lost.
    pub(crate) const LEAVE: Self = Self(1 << 2);
    /// The ledger's word is lost, or the question.
    pub(crate) const LOST: Self = Self(1 << 3);
    /// Bodies are cut off.
    pub(crate) const CUT: Self = Self(1 << 4);
    /// Owners give signs of life.
    pub(crate) const BEAT: Self = Self(1 << 5);
    /// Old rows are purged.
    pub(crate) const PURGE: Self = Self(1 << 6);
    /// The epoch is rotated.
    pub(crate) const ROTATE: Self = Self(1 << 7);
    /// The ledger is restored from a backup.
    pub(crate) const RESTORE: Self = Self(1 << 8);
    /// The ledger is full, or the server has no room for a body.
    pub(crate) const ROOM: Self = Self(1 << 9);
    /// Steps come to nothing: they say that they did nothing, or fail and are rolled back.
    pub(crate) const FAIL: Self = Self(1 << 10);
    /// Servers take a state for expired and look it up.
    pub(crate) const LATE: Self = Self(1 << 11);

    /// Everything.
    pub(crate) const ALL: Self = Self((1 << 12) - 1);
    /// Nothing: what is sent arrives.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn holds(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What is searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    pub(crate) scenario: Scenario,
    pub(crate) events: Events,
    turn: Option<Turn>,
    /// The promise that is looked for, if it is one alone; others may fall on the way.
    only: Option<Promise>,
    /// Worlds are told apart that differ in nothing that matters.
    whole: bool,
    /// What one more retry would be, where it is asked what would come of it.
    one_more: Option<Retry>,
}

/// A promise that does not hold, and what shows it.
#[derive(Clone, Debug)]
pub(crate) struct Fall {
    pub(crate) promise: Promise,
    pub(crate) why: &'static str,
    /// What one more retry does, if it is that which shows it.
    pub(crate) one_more: Vec<Label>,
}

/// What a move comes to.
pub(crate) type Came<T> = Result<T, Fall>;

/// The worlds that follow on one.
#[derive(Debug, Default)]
pub(crate) struct Next {
    pub(crate) worlds: Vec<(Label, World)>,
    /// The first promise that falls on the way to one of them.
    pub(crate) fall: Option<(Label, Fall)>,
}

impl Next {
    pub(crate) fn clear(&mut self) {
        self.worlds.clear();
        self.fall = None;
    }

    pub(crate) fn falls(&mut self, label: Label, fall: Fall) {
        self.fall.get_or_insert((label, fall));
    }
}

impl Machine {
    pub(crate) const fn new(scenario: Scenario, events: Events, turn: Option<Turn>) -> Self {
        Self {
            scenario,
            events,
            turn,
            only: None,
            whole: false,
            one_more: None,
        }
    }

    /// The same, with every world for itself.
    pub(crate) fn whole(self) -> Self {
        Self {
            whole: true,
            ..self
        }
    }

    /// The same, looking for one promise alone.
    pub(crate) fn looking_for(self, promise: Promise) -> Self {
        Self {
            only: Some(promise),
            ..self
        }
    }

    /// A promise does not hold.
    pub(crate) fn broken(&self, promise: Promise, why: &'static str) -> Came<()> {
        match self.only {
            Some(only) if only != promise => Ok(()),
            _ => Err(Fall {
                promise,
                why,
                one_more: Vec::new(),
            }),
        }
    }

    /// The same with nothing happening around the calls, and with one more retry.
    pub(crate) fn undisturbed(self, one_more: Retry) -> Self {
        Self {
            events: Events::NONE,
            one_more: Some(one_more),
            ..self
        }
    }

    pub(crate) const fn turn(&self) -> Option<Turn> {
        self.turn
    }

    /// Whether this rule is the one that is turned.
    pub(crate) fn is(&self, turn: Turn) -> bool {
        self.turn == Some(turn)
    }

    pub(crate) const fn may(&self, events: Events) -> bool {
        self.events.holds(events)
    }

    /// Whether rounds are claimed so that they are taken over.
    pub(crate) fn runs_again(&self) -> bool {
        self.scenario.run_again && !self.is(Turn::RoundNeedsRunAgain)
    }

    /// Whether somebody will read of it, so that names and reasons matter.
    pub(crate) const fn tells(&self) -> bool {
        self.turn.is_some() || self.whole || self.one_more.is_some()
    }

    pub(crate) const fn one_more(&self) -> Option<Retry> {
        self.one_more
    }

    /// What a call is.
    pub(crate) fn retry(&self, call: usize) -> Option<Retry> {
        match call {
            ONE_MORE => self.one_more,
            call => self.scenario.calls.get(call).copied(),
        }
    }

    /// Every world that follows on this one.
    pub(crate) fn moves(&self, world: &World, next: &mut Next) {
        for call in 0..self.scenario.calls.len() {
            self.call_moves(world, call, next);
        }
        self.world_moves(world, next);
    }

    /// A world as the search keeps it. Calls that are the same retry have no names but for those who read a trace, and two
    /// worlds that differ in such names are one.
    pub(crate) fn packed(&self, world: &World) -> Packed {
        if self.tells() {
            return world.pack();
        }
        let mut order = [0_u8, 1, 2, 3];
        let same = self.namesakes();
        let Some(namesakes) = order.get_mut(..same) else {
            return world.pack();
        };
        namesakes.sort_by_key(|call| std::cmp::Reverse(world.portrait(usize::from(*call))));
        if order.is_sorted() {
            return world.pack();
        }
        let mut names = [0_u8, 1, 2, 3];
        for (name, call) in (0..).zip(order) {
            if let Some(old) = names.get_mut(usize::from(call)) {
                *old = name;
            }
        }
        world.renamed(names).pack()
    }

    /// How many calls, from the first on, are the same retry.
    fn namesakes(&self) -> usize {
        let first = self.retry(0);
        let all = 0..self.scenario.calls.len();
        all.take_while(|call| self.retry(*call) == first).count()
    }

    /// Adds a world, if no promise falls in it.
    pub(crate) fn push(&self, before: &World, label: Label, world: World, next: &mut Next) {
        let checked = self.check(before, &world, label);
        let mut world = world;
        if !self.tells() {
            self.forget_what_is_over(&mut world);
        }
        let world = tidied(world);
        match checked {
            Ok(()) if world == *before => {}
            Ok(()) => next.worlds.push((label, world)),
            Err(fall) => next.falls(label, fall),
        }
    }

    /// Adds what a move comes to.
    pub(crate) fn offer(&self, before: &World, label: Label, came: Came<World>, next: &mut Next) {
        match came {
            Ok(world) => self.push(before, label, world, next),
            Err(fall) => next.falls(label, fall),
        }
    }
}

impl Machine {
    /// Where no trace will be told: what is tried on although it cannot come to anything any more is as good as done,
    /// and a claim that took nothing is as if it had not been sent.
    fn forget_what_is_over(&self, world: &mut World) {
        for call in 0..CALLS {
            let Some(it) = world.calls.get(call).copied() else {
                continue;
            };
            let round = self.owns(world, self.round_of(call), call);
            let step = self.owns(world, self.step_of(call), call);
            self.with(world, call, |now| {
                if !step {
                    now.chore = Chore::None;
                }
                match it.at {
                    At::Claiming | At::Releasing | At::Keeping if !round => {
                        *now = now.over(At::Done)
                    }
                    At::Returning if !round => now.at = At::Looking,
                    At::Stepping if !step => now.at = At::Step,
                    At::Looking if it.came != Some(Outcome::Late) => {
                        now.came = Some(self.as_told(Outcome::NoWord));
                    }
                    _ => {}
                }
            });
        }
    }
}

/// Without what nothing depends on any more, so that worlds that differ in nothing else are one.
///
/// A call that is over can be sent again, as another: there is no end to retries. Only one that has crashed is
/// remembered for as long as the ledger takes it for an owner.
fn tidied(mut world: World) -> World {
    let rows = world.rounds.iter().chain(&world.steps);
    let mut owns = [false; CALLS + 1];
    for row in rows.filter(|row| matches!(row.status, Status::Owned { .. })) {
        if let Some(owns) = owns.get_mut(row.owner()) {
            *owns = true;
        }
    }
    if let Some(Flying { call, .. }) = world.flying
        && let Some(owns) = owns.get_mut(usize::from(call))
    {
        *owns = true;
    }
    let calls = world.calls.iter_mut().zip(&mut world.lost).zip(owns);
    for ((call, lost), owns) in calls.take(CALLS) {
        if call.is_running() {
            continue;
        }
        *lost = false;
        if !owns && call.at != At::Dropped {
            *call = Call::default();
        }
    }
    world
}
