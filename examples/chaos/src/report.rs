//! What a run came to: counts, and for each violation the flow's whole history.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Write as _};
use std::time::Duration;

use mrtr_ledger::Rows;
use serde_json::{Value, json};

use crate::checker::evidence::Evidence;
use crate::checker::{Findings, Violation};
use crate::history::{Call, Got, History, Sent, What};
use crate::server::account;
use crate::trace::{Answer, Millis, Question, RowId};

/// Violations of each promise whose flow is told in full. The others are only named.
const TOLD: usize = 2;

/// From this length on a run meets with everything that needs no waiting.
const SHORT: Duration = Duration::from_secs(20);

/// From this length on, with what needs a state to be over for a retention too.
const LONG: Duration = Duration::from_secs(110);

/// A count and its name, group by group.
#[derive(Debug)]
pub(crate) struct Counts(Vec<(&'static str, Vec<(String, u64)>)>);

impl Counts {
    pub(crate) fn of(history: &History, findings: &Findings) -> Self {
        let of = |name: &str, count: u64| (name.to_owned(), count);
        let mut groups = vec![
            ("calls", calls(history)),
            ("faults", faults(history)),
            ("answers", answers(history)),
        ];
        let unknowns = findings.unknowns.iter();
        groups.push((
            "unknown",
            unknowns.map(|(cause, n)| (cause.to_string(), *n)).collect(),
        ));
        let rejections = findings.rejections.iter();
        groups.push((
            "rejected",
            rejections.map(|(why, n)| (why.clone(), *n)).collect(),
        ));
        groups.push(("ledger", ledger(history)));
        groups.push((
            "effects",
            vec![
                of("recorded", history.effects.len() as u64),
                of("acknowledged", findings.effects_acknowledged() as u64),
                of("violations", findings.violations.len() as u64),
            ],
        ));
        Self(groups)
    }

    /// What a run of this length must have met with, and has not: whatever was promised for it was not put to the test.
    pub(crate) fn absent(&self, length: Duration) -> Vec<&'static str> {
        let after = [
            (SHORT, "effects", "acknowledged"),
            (SHORT, "answers", "replayed of both"),
            (SHORT, "answers", "in progress"),
            (SHORT, "answers", "unknown"),
            (SHORT, "rejected", "already_used"),
            (SHORT, "calls", "forks"),
            (SHORT, "calls", "lost responses"),
            (SHORT, "faults", "kills"),
            (SHORT, "faults", "clock jumps"),
            (SHORT, "faults", "silences of the ledger"),
            (SHORT, "ledger", "purges"),
            (LONG, "faults", "rotations"),
            (LONG, "ledger", "rows purged by them"),
        ];
        let due = after.into_iter().filter(|(from, ..)| length >= *from);
        due.filter(|(_, group, name)| self.count(group, name) == 0)
            .map(|(_, _, name)| name)
            .collect()
    }

    fn count(&self, group: &str, name: &str) -> u64 {
        let groups = self.0.iter().filter(|(of, _)| *of == group);
        let counts = groups.flat_map(|(_, counts)| counts);
        let count = counts.filter(|(of, _)| of == name).map(|(_, count)| count);
        count.sum()
    }

    pub(crate) fn to_json(&self) -> Value {
        let groups = self.0.iter().map(|(group, counts)| {
            let counts: BTreeMap<&str, u64> =
                counts.iter().map(|(name, n)| (name.as_str(), *n)).collect();
            (*group, counts)
        });
        json!(groups.collect::<BTreeMap<_, _>>())
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (group, counts) in &self.0 {
            let counts: Vec<String> = counts
                .iter()
                .map(|(name, n)| format!("{n} {name}"))
                .collect();
            let counts = if counts.is_empty() {
                "none".to_owned()
            } else {
                counts.join(", ")
            };
            writeln!(f, "  {group:<9} {counts}")?;
        }
        Ok(())
    }
}

fn calls(history: &History) -> Vec<(String, u64)> {
    let mut by_time: Vec<&Call> = history.calls.iter().collect();
    by_time.sort_by_key(|call| call.from);
    let mut first_replies = HashMap::new();
    let mut sent_before = BTreeSet::new();
    let (mut first, mut retries, mut forks, mut repeats, mut lost) = (0, 0, 0, 0, 0);
    for call in by_time {
        match call.sent {
            Sent::Opening => first += 1,
            Sent::Retry(state, reply) => {
                let fork = *first_replies.entry(state).or_insert(reply) != reply;
                let repeat = !sent_before.insert((state, reply));
                match (repeat, fork) {
                    (true, _) => repeats += 1,
                    (false, true) => forks += 1,
                    (false, false) => retries += 1,
                }
            }
        }
        lost += u64::from(!call.heeded || matches!(call.got, Got::Broken(_) | Got::Silence));
    }
    named([
        ("in all", history.calls.len() as u64),
        ("first", first),
        ("answers", retries),
        ("forks", forks),
        ("repeats", repeats),
        ("lost responses", lost),
    ])
}

fn faults(history: &History) -> Vec<(String, u64)> {
    let count = |of: fn(What) -> bool| {
        history
            .incidents
            .iter()
            .filter(|incident| of(incident.what))
            .count() as u64
    };
    named([
        ("kills", count(|what| matches!(what, What::Killed(_)))),
        ("stops", count(|what| matches!(what, What::Stopped(_)))),
        ("pauses", count(|what| matches!(what, What::Paused(_)))),
        ("clock jumps", count(|what| matches!(what, What::Clock(..)))),
        (
            "silences of the ledger",
            count(|what| what == What::Silenced),
        ),
        (
            "cuts of its connections",
            count(|what| what == What::Severed),
        ),
        ("rotations", count(|what| what == What::Rotated)),
    ])
}

fn answers(history: &History) -> Vec<(String, u64)> {
    let count = |of: &dyn Fn(&Got) -> bool| {
        history.calls.iter().filter(|call| of(&call.got)).count() as u64
    };
    let refused =
        |with: i64| count(&move |got| matches!(got, Got::Refused { code, .. } if *code == with));
    let replayed = |got: &Got| {
        matches!(
            got,
            Got::Asked { replayed: true, .. } | Got::Done { replayed: true, .. }
        )
    };
    named([
        ("questions", count(&|got| matches!(got, Got::Asked { .. }))),
        ("results", count(&|got| matches!(got, Got::Done { .. }))),
        ("replayed of both", count(&replayed)),
        ("in progress", refused(1001)),
        ("unknown", refused(1002)),
        ("ledger unavailable", refused(1003)),
        ("rejected", refused(-32602)),
    ])
}

fn ledger(history: &History) -> Vec<(String, u64)> {
    let mut claimed: BTreeSet<RowId> = BTreeSet::new();
    let (mut purges, mut purged, mut no_word, mut by_itself) = (0, 0, 0, 0);
    for op in &history.ops {
        match op.answer() {
            Some(Answer::First) => claimed.extend(op.row()),
            Some(Answer::Purged(rows)) => {
                purges += 1;
                purged += rows;
            }
            Some(Answer::NoWord(_)) => {
                no_word += 1;
                let silenced = history.incidents.iter().any(|incident| {
                    // Who stands still may hold the lock.
                    matches!(
                        incident.what,
                        What::Silenced | What::Severed | What::Paused(_)
                    ) && incident.from <= op.till()
                        && op.asked <= incident.till
                });
                by_itself += u64::from(!silenced);
            }
            _ => {}
        }
    }
    let Rows {
        rounds,
        steps,
        notes,
        ..
    } = history.rows_left;
    named([
        ("operations", history.ops.len() as u64),
        ("rows claimed", claimed.len() as u64),
        ("purges", purges),
        ("rows purged by them", purged),
        ("rows left", rounds + steps + notes),
        ("without word", no_word),
        ("of these through no fault here", by_itself),
    ])
}

fn named<const N: usize>(counts: [(&str, u64); N]) -> Vec<(String, u64)> {
    counts.map(|(name, count)| (name.to_owned(), count)).into()
}

/// The violations, and what led to the first of them.
pub(crate) fn violations(history: &History, findings: &Findings) -> String {
    let evidence = Evidence::of(history);
    let mut text = String::new();
    let mut told = BTreeSet::new();
    let mut of_each = BTreeMap::new();
    for Violation {
        promise,
        flow,
        what,
    } in &findings.violations
    {
        // Writing to a string does not fail.
        _ = writeln!(text, "\n  NOT KEPT: {promise}. Flow {flow}: {what}");
        let told_of_it: &mut usize = of_each.entry(*promise).or_default();
        if *told_of_it < TOLD && told.insert(*flow) {
            *told_of_it += 1;
            text.push_str(&story(&evidence, *flow));
        }
    }
    text
}

/// Everything that concerns a flow, in order of time.
fn story(evidence: &Evidence<'_>, flow: u64) -> String {
    let history = evidence.history;
    let start = history
        .incidents
        .iter()
        .map(|incident| incident.from)
        .min()
        .unwrap_or(0);
    let mut lines: Vec<(Millis, String)> = Vec::new();
    for call in evidence.calls(flow) {
        let heeded = if call.heeded {
            ""
        } else {
            " (lost on the client's side)"
        };
        lines.push((call.from, format!("to {}: {:?}", call.to, call.sent)));
        lines.push((
            call.till,
            format!(
                "from {}, to what was sent at {}: {:?}{heeded}",
                call.to,
                call.from - start,
                call.got
            ),
        ));
    }
    for effect in evidence.effects(flow) {
        lines.push((effect.at, format!("EFFECT {effect:?}")));
    }
    for cut in evidence.cuts(flow) {
        lines.push((cut.at, format!("{} drops step {:?}", cut.by, cut.step)));
    }
    let rows: BTreeSet<RowId> = history
        .ops
        .iter()
        .filter_map(|op| match &op.question {
            Question::Claim {
                row, account: of, ..
            }
            | Question::Keep {
                row, account: of, ..
            } if *of == account(flow) => Some(*row),
            _ => None,
        })
        .collect();
    let mut processes: BTreeSet<_> = evidence.calls(flow).iter().map(|call| call.to).collect();
    for op in rows.iter().flat_map(|row| evidence.ops_on(*row)) {
        processes.insert(op.by);
        let asked = format!("{} asks {:?}", op.by, op.question);
        lines.push(match &op.answered {
            Some((till, answer)) => (op.asked, format!("{asked}: {answer:?} at {}", till - start)),
            None => (op.asked, format!("{asked}, and does not live to hear")),
        });
    }
    let (first, last) = (
        lines.iter().map(|(at, _)| *at).min().unwrap_or(0),
        lines.iter().map(|(at, _)| *at).max().unwrap_or(0),
    );
    for incident in &history.incidents {
        let concerns = match incident.what {
            What::Started(process)
            | What::Killed(process)
            | What::Stopped(process)
            | What::Paused(process)
            | What::Clock(process, _) => processes.contains(&process),
            What::Silenced | What::Severed | What::Rotated => {
                first <= incident.till && incident.from <= last
            }
        };
        if concerns {
            let till = incident.till.saturating_sub(start);
            lines.push((
                incident.from,
                format!("    {:?} until {till}", incident.what),
            ));
        }
    }
    lines.sort();
    let mut text = String::new();
    if let Some(errand) = history.errands.get(&flow) {
        _ = writeln!(text, "    {} {:?}", errand.tool, errand.arguments);
    }
    for (at, line) in lines {
        _ = writeln!(text, "    {:>7} {line}", at.saturating_sub(start));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_did_not_meet_with_is_named_once_it_is_long_enough() {
        let nothing = Counts::of(&History::default(), &Findings::default());
        assert!(nothing.absent(Duration::from_secs(5)).is_empty());
        let short = nothing.absent(SHORT);
        assert!(short.contains(&"kills") && !short.contains(&"rotations"));
        assert!(nothing.absent(LONG).contains(&"rotations"));

        let mut history = History::default();
        history.incidents.push(crate::history::Incident {
            what: What::Killed(crate::trace::Process { slot: 0, life: 0 }),
            from: 1,
            till: 2,
        });
        let killed = Counts::of(&history, &Findings::default());
        assert!(!killed.absent(SHORT).contains(&"kills"));
    }
}
