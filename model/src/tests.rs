//! The model's own machinery. What it shows is shown by running it.

use std::collections::BTreeSet;

use crate::jobs::Job;
use crate::machine::{Events, FORK, Machine, Next, SCENARIOS};
use crate::promise::Promise;
use crate::search::search;
use crate::turn::{RULES, Turn};
use crate::world::World;

/// Worlds of all scenarios, as many moves deep.
fn worlds(depth: usize) -> Vec<(Machine, World)> {
    let mut all = Vec::new();
    for scenario in SCENARIOS {
        let machine = Machine::new(scenario, Events::ALL, None);
        let mut level = vec![World::default()];
        let mut seen = BTreeSet::new();
        for _ in 0..depth {
            let mut next = Next::default();
            for world in &level {
                machine.moves(world, &mut next);
            }
            level = next.worlds.iter().map(|(_, world)| *world).collect();
            level.retain(|world| seen.insert(world.pack()));
            all.extend(level.iter().map(|world| (machine, *world)));
        }
    }
    assert!(all.len() > 10_000, "{} worlds", all.len());
    all
}

#[test]
fn a_world_is_the_same_packed_and_unpacked() {
    for (_, world) in worlds(6) {
        assert_eq!(World::unpack(&world.pack()), world);
    }
}

/// Two worlds that differ in the names of calls that are the same retry are kept as one, and come to the same.
#[test]
fn names_do_not_matter() {
    for (machine, world) in worlds(6) {
        if machine.retry(0) != machine.retry(1) {
            continue;
        }
        let exchanged = world.renamed([1, 0, 2, 3]);
        assert_eq!(exchanged.renamed([1, 0, 2, 3]), world);
        assert_eq!(machine.packed(&world), machine.packed(&exchanged));
        let from = |world: &World| -> BTreeSet<_> {
            let mut next = Next::default();
            machine.moves(world, &mut next);
            assert!(next.fall.is_none());
            let after = next.worlds.iter();
            after.map(|(_, world)| machine.packed(world)).collect()
        };
        assert_eq!(from(&world), from(&exchanged), "{world:?}");
    }
}

/// A search finds what is there and stops: without anything happening around them three calls are few worlds.
#[test]
fn nothing_happens_to_undisturbed_calls() {
    let found = search(&Machine::new(FORK, Events::NONE, None), |_, _| {});
    assert!(found.trace.is_none());
    assert!((5..200).contains(&found.worlds), "{} worlds", found.worlds);
}

#[test]
fn a_turned_rule_falls_with_a_trace_from_the_beginning() {
    let rule = RULES
        .iter()
        .find(|rule| rule.turn == Turn::OneTokenOwns)
        .unwrap();
    let found = search(&Job::Turned(rule).machine(), |_, _| {});
    let trace = found.trace.unwrap();
    assert_eq!(trace.fall.promise, Promise::OneRun);
    let way: Vec<String> = trace.way.iter().map(ToString::to_string).collect();
    assert_eq!(
        way,
        [
            "call 1 claims its round: First",
            "call 2 claims its round: First"
        ]
    );
}

/// Each rule that is turned breaks its promise; and each promise is broken by one.
#[test]
fn every_rule_holds_up_its_promise() {
    let mut broken = BTreeSet::new();
    for rule in RULES {
        let found = search(&Job::Turned(rule).machine(), |_, _| {});
        let fallen = found.trace.map(|trace| trace.fall.promise);
        assert_eq!(fallen, Some(rule.promise), "{}", rule.name);
        broken.extend(fallen);
    }
    let idle: Vec<_> = Promise::ALL
        .iter()
        .filter(|promise| !broken.contains(promise))
        .collect();
    assert!(idle.is_empty(), "no rule breaks {idle:?}");
}

#[test]
fn rules_have_names_of_their_own() {
    let names: BTreeSet<&str> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(names.len(), RULES.len());
}
