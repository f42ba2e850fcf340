//! What the searches came to, for people and for programs.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Value, json};

use crate::jobs::{Done, Job};
use crate::label::Label;
use crate::promise::Promise;
use crate::search::Trace;
use crate::turn::{RULES, Rule};

pub(crate) struct Report {
    done: Vec<Done>,
    peak: Option<u64>,
}

impl Report {
    pub(crate) fn new(done: Vec<Done>) -> Self {
        Self {
            done,
            peak: peak_bytes(),
        }
    }

    /// Everything holds with all rules, and with each rule turned the promise falls that rests on it; and where all
    /// rules were turned, each promise rests on one of them.
    pub(crate) fn is_as_it_should_be(&self) -> bool {
        self.done.iter().all(is_as_it_should_be) && self.idle_promises().is_empty()
    }

    /// Promises that no rule breaks: they would be kept by a model in which nothing happens.
    fn idle_promises(&self) -> Vec<Promise> {
        let fallen: BTreeSet<Promise> =
            self.traces().map(|(_, trace)| trace.fall.promise).collect();
        let turned = self
            .done
            .iter()
            .filter(|done| matches!(done.job, Job::Turned(_)));
        if turned.count() < RULES.len() {
            return Vec::new();
        }
        let all = Promise::ALL.into_iter();
        all.filter(|promise| !fallen.contains(promise)).collect()
    }

    fn traces(&self) -> impl Iterator<Item = (&Done, &Trace)> {
        self.done
            .iter()
            .filter_map(|done| Some((done, done.found.trace.as_ref()?)))
    }

    fn totals(&self) -> (usize, u64) {
        let whole = self
            .done
            .iter()
            .filter(|done| !matches!(done.job, Job::Turned(_)));
        whole.fold((0, 0), |(worlds, moves), done| {
            (worlds + done.found.worlds, moves + done.found.moves)
        })
    }

    pub(crate) fn json(&self) -> String {
        let rows: Vec<Value> = self.done.iter().map(row).collect();
        let of = |kind: &str| -> Vec<&Value> {
            rows.iter().filter(|row| row.get(kind).is_some()).collect()
        };
        let value = json!({
            "ok": self.is_as_it_should_be(),
            "scenarios": of("scenario"),
            "rules": of("rule"),
            "promises": Promise::ALL.map(|promise| json!({"promise": promise.name(), "says": promise.text()})),
            "peakBytes": self.peak,
        });
        format!("{value}\n")
    }
}

fn is_as_it_should_be(done: &Done) -> bool {
    let fallen = done.found.trace.as_ref().map(|trace| trace.fall.promise);
    match done.job {
        Job::Whole(_) | Job::Apart(_) => fallen.is_none(),
        Job::Turned(rule) => fallen == Some(rule.promise),
    }
}

fn row(done: &Done) -> Value {
    let found = &done.found;
    let mut row = json!({
        "ok": is_as_it_should_be(done),
        "worlds": found.worlds,
        "moves": found.moves,
        "depth": found.depth,
        "millis": u64::try_from(found.took.as_millis()).unwrap_or(u64::MAX),
        "falls": found.trace.as_ref().map(|trace| trace.fall.promise.name()),
        "why": found.trace.as_ref().map(|trace| trace.fall.why),
        "trace": found.trace.as_ref().map(lines),
    });
    if let Some(row) = row.as_object_mut() {
        match done.job {
            Job::Whole(scenario) | Job::Apart(scenario) => {
                row.insert("scenario".into(), scenario.name.into());
                row.insert("about".into(), scenario.about.into());
            }
            Job::Turned(rule) => {
                row.insert("rule".into(), rule.name.into());
                row.insert("says".into(), rule.text.into());
                row.insert("in".into(), rule.scenario.name.into());
                row.insert("promise".into(), rule.promise.name().into());
            }
        }
    }
    row
}

/// The moves of a trace, a line each.
fn lines(trace: &Trace) -> Vec<String> {
    let way = trace.way.iter().chain(&trace.fall.one_more);
    way.map(Label::to_string).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |whole: bool| {
            let done = self.done.iter();
            done.filter(move |done| !matches!(done.job, Job::Turned(_)) == whole)
        };
        if of(true).next().is_some() {
            writeln!(f, "Every rule in force: {} promises\n", Promise::ALL.len())?;
            for promise in Promise::ALL {
                writeln!(f, "  {:<20} {}", promise.name(), promise.text())?;
            }
            writeln!(
                f,
                "\n  {:<18} {:>11} {:>12} {:>6} {:>8}",
                "scenario", "worlds", "moves", "depth", "seconds"
            )?;
        }
        for done in of(true) {
            let found = &done.found;
            writeln!(
                f,
                "  {:<18} {:>11} {:>12} {:>6} {:>8.1}  {}",
                done.job.name(),
                found.worlds,
                found.moves,
                found.depth,
                found.took.as_secs_f64(),
                if found.trace.is_none() {
                    "all hold"
                } else {
                    "FALLS"
                },
            )?;
            if let Some(trace) = &found.trace {
                tell(f, trace)?;
            }
        }
        if of(true).count() > 1 {
            let (worlds, moves) = self.totals();
            writeln!(f, "  {:<18} {worlds:>11} {moves:>12}", "together")?;
        }
        if of(false).next().is_some() {
            writeln!(
                f,
                "\nEach rule turned, and a shortest way to the promise that rests on it"
            )?;
        }
        for done in of(false) {
            if let Job::Turned(rule) = done.job {
                turned(f, rule, done)?;
            }
        }
        for promise in self.idle_promises() {
            writeln!(
                f,
                "\nNo rule breaks {promise}, so nothing shows that the model could."
            )?;
        }
        let wrong = self
            .done
            .iter()
            .filter(|done| !is_as_it_should_be(done))
            .count();
        writeln!(
            f,
            "\n{} searches, {wrong} not as they should be",
            self.done.len()
        )?;
        match self.peak {
            Some(peak) => writeln!(f, "peak memory: {} MiB", peak >> 20),
            None => Ok(()),
        }
    }
}

fn turned(f: &mut fmt::Formatter<'_>, rule: &Rule, done: &Done) -> fmt::Result {
    writeln!(f, "\n{}: {}", rule.name, rule.text)?;
    writeln!(f, "  in {} ({})", rule.scenario.name, rule.scenario.about)?;
    match &done.found.trace {
        Some(trace) => tell(f, trace),
        None => writeln!(
            f,
            "  HOLDS: {} stands without the rule, in all {} worlds",
            rule.promise, done.found.worlds
        ),
    }
}

fn tell(f: &mut fmt::Formatter<'_>, trace: &Trace) -> fmt::Result {
    for (number, line) in (1..).zip(lines(trace)) {
        writeln!(f, "  {number:>3}. {line}")?;
    }
    writeln!(f, "  {} falls: {}", trace.fall.promise, trace.fall.why)
}

/// The most memory that this process has had, where the system says it.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}
