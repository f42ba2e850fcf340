//! Many searches, a few at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::machine::{Events, Machine, Scenario};
use crate::search::{Found, search};
use crate::turn::Rule;

/// How often a long search says how far it is.
const EVERY: Duration = Duration::from_secs(5);

/// One search.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Job {
    /// Everything, with all rules in force.
    Whole(Scenario),
    /// The same, with every world for itself.
    Apart(Scenario),
    /// With one rule turned, up to the promise that rests on it.
    Turned(&'static Rule),
}

impl Job {
    pub(crate) fn machine(&self) -> Machine {
        match self {
            Self::Whole(scenario) => Machine::new(*scenario, Events::ALL, None),
            Self::Apart(scenario) => Machine::new(*scenario, Events::ALL, None).whole(),
            Self::Turned(rule) => {
                Machine::new(*rule.scenario, Events::ALL, Some(rule.turn)).looking_for(rule.promise)
            }
        }
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Whole(scenario) | Self::Apart(scenario) => scenario.name,
            Self::Turned(rule) => rule.name,
        }
    }
}

/// A search and what it found.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) job: Job,
    pub(crate) found: Found,
}

/// Runs them, `threads` at a time, and tells on stderr how far they are.
pub(crate) fn run(jobs: &[Job], threads: usize) -> Vec<Done> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Done)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(jobs.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at) else { return };
                    let found = one(job);
                    if let Ok(mut done) = done.lock() {
                        done.push((at, Done { job: *job, found }));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, done)| done).collect()
}

fn one(job: &Job) -> Found {
    let mut last = Instant::now();
    let found = search(&job.machine(), |depth, worlds| {
        if last.elapsed() >= EVERY {
            last = Instant::now();
            eprintln!("{}: {depth} moves deep, {worlds} worlds", job.name());
        }
    });
    let comes_to = found.trace.as_ref().map_or_else(
        || "every promise holds".to_owned(),
        |trace| {
            format!(
                "{} falls after {} moves",
                trace.fall.promise,
                trace.way.len()
            )
        },
    );
    eprintln!(
        "{}: {} worlds in {:.1} s; {comes_to}",
        job.name(),
        found.worlds,
        found.took.as_secs_f64()
    );
    found
}
