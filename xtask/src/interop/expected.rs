//! What each cell must show, and whether it did.

use std::fs;

use serde_json::{Value, json};

use super::matrix::Run;
use crate::cargo::{self, array, text};
use crate::failure::Failure;

const CASES: &str = "interop/cases.json";
const KNOWN: &str = "interop/known.json";

/// What stands in the two files.
#[derive(Debug)]
pub(super) struct Expected {
    cases: Vec<Case>,
    known: Vec<Known>,
}

/// A case, and what must be observed in it.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) name: String,
    expected: Value,
    /// Where something else must be observed, the first that fits.
    unless: Vec<(Filter, Value)>,
    /// Where there is no such thing, and why.
    absent: Vec<(Filter, String)>,
}

/// An entry of the list of what is known.
#[derive(Debug)]
struct Known {
    case: String,
    filter: Filter,
    observed: Value,
    is_peer: bool,
    reason: String,
    section: String,
}

/// The cells that an entry speaks of: what it does not name may be anything.
#[derive(Debug, Clone)]
struct Filter(Vec<(&'static str, String)>);

impl Filter {
    fn of(entry: &Value) -> Self {
        let names = ["peer", "ours", "era", "transport"];
        let named = |name| Some((name, text(entry, name)?.to_owned()));
        Self(names.into_iter().filter_map(named).collect())
    }

    fn fits(&self, run: &Run) -> bool {
        self.0.iter().all(|(name, wanted)| {
            let word = match *name {
                "peer" => run.peer.word(),
                "ours" => run.ours.word(),
                "era" => run.era.word(),
                _ => run.transport.word(),
            };
            word == wanted
        })
    }
}

/// One cell of the matrix, played.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) run: Run,
    pub(super) case: String,
    pub(super) verdict: Verdict,
    observed: Value,
}

/// What became of a cell.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Ok,
    /// Not as expected, and nothing says that it would be so.
    Failed(String),
    /// The peer's own fault: the rule that it breaks, and where that stands.
    Peer {
        reason: String,
        section: String,
    },
    /// There is no such thing to be tried.
    NotApplicable {
        reason: String,
    },
}

impl Verdict {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed(_) => "failed",
            Self::Peer { .. } => "peer",
            Self::NotApplicable { .. } => "n/a",
        }
    }
}

impl Cell {
    pub(super) fn failed(&self) -> bool {
        matches!(self.verdict, Verdict::Failed(_))
    }

    pub(super) fn json(&self) -> Value {
        let run = &self.run;
        let (reason, section) = match &self.verdict {
            Verdict::Ok => (None, None),
            Verdict::Failed(reason) | Verdict::NotApplicable { reason } => (Some(reason), None),
            Verdict::Peer { reason, section } => (Some(reason), Some(section)),
        };
        json!({
            "peer": run.peer.word(),
            "ours": run.ours.word(),
            "era": run.era.word(),
            "transport": run.transport.word(),
            "case": self.case,
            "verdict": self.verdict.word(),
            "reason": reason,
            "section": section,
            "observed": self.observed,
        })
    }

    /// Why it is not simply ok, on one line for people.
    pub(super) fn why(&self) -> Option<String> {
        let (peer, case) = (self.run.peer, &self.case);
        match &self.verdict {
            Verdict::Ok => None,
            Verdict::Failed(_) => Some(format!("FAILED  {}: {case}", self.run)),
            Verdict::Peer { reason, section } => {
                Some(format!("peer    {peer}: {case}: {reason} ({section})"))
            }
            Verdict::NotApplicable { reason } => Some(format!("n/a     {peer}: {case}: {reason}")),
        }
    }
}

impl Expected {
    pub(super) fn read() -> Result<Self, Failure> {
        Self::of(&json_of(CASES)?, &json_of(KNOWN)?)
    }

    fn of(cases: &Value, known: &Value) -> Result<Self, Failure> {
        let cases: Option<Vec<Case>> = array(cases.get("cases")).map(Case::of).collect();
        let known: Option<Vec<Known>> = array(known.get("known")).map(Known::of).collect();
        let malformed = |file: &str| {
            Failure::failed(
                format!("{file} is not as it should be"),
                "an entry lacks a member that the others have",
            )
        };
        Ok(Self {
            cases: cases
                .filter(|cases| !cases.is_empty())
                .ok_or_else(|| malformed(CASES))?,
            known: known.ok_or_else(|| malformed(KNOWN))?,
        })
    }

    /// The cases of these names; all, where there are none.
    pub(super) fn chosen(&self, names: &[String]) -> Result<Vec<Case>, Failure> {
        if names.is_empty() {
            return Ok(self.cases.clone());
        }
        let find = |name: &String| {
            let case = self.cases.iter().find(|case| case.name == *name);
            case.cloned()
                .ok_or_else(|| Failure::usage(format!("there is no case `{name}` in {CASES}")))
        };
        names.iter().map(find).collect()
    }

    /// A cell of which there is no such thing; `None` where it is to be played.
    pub(super) fn without_playing(&self, run: &Run, case: &Case) -> Option<Cell> {
        let (_, why) = case.absent.iter().find(|(filter, _)| filter.fits(run))?;
        Some(Cell {
            run: *run,
            case: case.name.clone(),
            verdict: Verdict::NotApplicable {
                reason: why.clone(),
            },
            observed: Value::Null,
        })
    }

    /// Judges what a client observed.
    pub(super) fn judge(&self, run: &Run, case: &Case, observed: Value) -> Cell {
        let expected = case.expected(run);
        let known = self.known.iter().find(|known| known.speaks_of(run, case));
        let verdict = match (same(&observed, expected), known) {
            (true, None) => Verdict::Ok,
            (true, Some(_)) => Verdict::Failed(format!(
                "{KNOWN} says that this cell differs, and it does not: strike the entry"
            )),
            (false, Some(known)) if same(&observed, &known.observed) => known.verdict(),
            (false, _) => Verdict::Failed(format!("expected {expected}, observed {observed}")),
        };
        Cell {
            run: *run,
            case: case.name.clone(),
            verdict,
            observed,
        }
    }

    /// A cell whose client did not say what it observed.
    pub(super) fn broken(&self, run: &Run, case: &Case, why: String) -> Cell {
        Cell {
            run: *run,
            case: case.name.clone(),
            verdict: Verdict::Failed(why),
            observed: Value::Null,
        }
    }

    /// Entries that speak of no cell, of all that there are.
    pub(super) fn never_met(&self, cells: &[Cell]) -> Vec<String> {
        let met = |known: &&Known| {
            let of_this = |cell: &Cell| cell.case == known.case && known.filter.fits(&cell.run);
            !cells.iter().any(of_this)
        };
        let entries = self.known.iter().filter(met);
        entries
            .map(|known| format!("{} {:?}", known.case, known.filter.0))
            .collect()
    }
}

impl Case {
    fn of(entry: &Value) -> Option<Self> {
        let unless = array(entry.get("unless"))
            .map(|other| Some((Filter::of(other), other.get("expected")?.clone())))
            .collect::<Option<_>>()?;
        let absent = array(entry.get("absent"))
            .map(|one| Some((Filter::of(one), text(one, "why")?.to_owned())))
            .collect::<Option<_>>()?;
        text(entry, "what")?;
        Some(Self {
            name: text(entry, "case")?.to_owned(),
            expected: entry.get("expected")?.clone(),
            unless,
            absent,
        })
    }

    fn expected(&self, run: &Run) -> &Value {
        let other = self.unless.iter().find(|(filter, _)| filter.fits(run));
        other.map_or(&self.expected, |(_, expected)| expected)
    }
}

impl Known {
    fn of(entry: &Value) -> Option<Self> {
        let is_peer = match text(entry, "verdict")? {
            "peer" => true,
            "n/a" => false,
            _ => return None,
        };
        let stated = |name| text(entry, name).filter(|text| !text.is_empty());
        Some(Self {
            case: text(entry, "case")?.to_owned(),
            filter: Filter::of(entry),
            observed: entry.get("observed")?.clone(),
            is_peer,
            reason: stated("reason")?.to_owned(),
            section: stated("section")?.to_owned(),
        })
    }

    fn speaks_of(&self, run: &Run, case: &Case) -> bool {
        self.case == case.name && self.filter.fits(run)
    }

    fn verdict(&self) -> Verdict {
        let reason = self.reason.clone();
        match self.is_peer {
            true => Verdict::Peer {
                reason,
                section: self.section.clone(),
            },
            false => Verdict::NotApplicable { reason },
        }
    }
}

fn json_of(file: &str) -> Result<Value, Failure> {
    let unreadable =
        |why: String| Failure::failed(format!("{file}: {why}"), "is the checkout complete?");
    let text = fs::read_to_string(cargo::root().join(file));
    let text = text.map_err(|error| unreadable(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))
}

/// Whether two values are the same, where 1 and 1.0 are.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let matches = |(name, value)| other.get(name).is_some_and(|other| same(value, other));
            one.len() == other.len() && one.iter().all(matches)
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::matrix::{Era, Ours, Peer, Transport};
    use super::*;

    const RUN: Run = Run {
        peer: Peer::Python,
        ours: Ours::Client,
        era: Era::Modern,
        transport: Transport::Http,
    };

    fn expected() -> Expected {
        let cases = json!({ "cases": [
            { "case": "a", "what": "w", "expected": { "n": 1 } },
            { "case": "b", "what": "w", "absent": [{ "era": "2025-11-25", "why": "none" }], "expected": 1,
              "unless": [{ "ours": "client", "expected": 2 }] },
        ] });
        let known = json!({ "known": [
            { "verdict": "peer", "peer": "python", "case": "a", "observed": { "n": 3 }, "reason": "r", "section": "s" },
        ] });
        Expected::of(&cases, &known).unwrap()
    }

    fn judged(run: &Run, case: &str, observed: Value) -> &'static str {
        let expected = expected();
        let case = &expected.chosen(&[case.to_owned()]).unwrap()[0];
        expected.judge(run, case, observed).verdict.word()
    }

    #[test]
    fn a_cell_is_judged_by_its_values() {
        let ours = Run {
            peer: Peer::TypeScript,
            ..RUN
        };
        assert_eq!(judged(&ours, "a", json!({ "n": 1.0 })), "ok");
        for other in [
            json!({ "n": 2 }),
            json!({ "n": 1, "m": 1 }),
            json!({}),
            json!(null),
        ] {
            assert_eq!(judged(&ours, "a", other), "failed");
        }
        assert_eq!(judged(&RUN, "b", json!(2)), "ok");
        assert_eq!(judged(&RUN, "b", json!(1)), "failed");
        let server = Run {
            ours: Ours::Server,
            ..RUN
        };
        assert_eq!(judged(&server, "b", json!(1)), "ok");
    }

    #[test]
    fn a_peers_fault_is_that_one_fault_and_must_still_happen() {
        assert_eq!(judged(&RUN, "a", json!({ "n": 3 })), "peer");
        // Another fault than the one that is listed, and none.
        assert_eq!(judged(&RUN, "a", json!({ "n": 4 })), "failed");
        assert_eq!(judged(&RUN, "a", json!({ "n": 1 })), "failed");
    }

    #[test]
    fn an_entry_without_a_cell_is_reported() {
        let expected = expected();
        let cases = expected.chosen(&[]).unwrap();
        let cell = |run: &Run| expected.judge(run, &cases[0], json!({ "n": 3 }));
        assert!(expected.never_met(&[cell(&RUN)]).is_empty());
        let other = Run {
            peer: Peer::TypeScript,
            ..RUN
        };
        assert_eq!(expected.never_met(&[cell(&other)]).len(), 1);
    }

    #[test]
    fn what_an_era_does_not_have_is_not_played() {
        let expected = expected();
        let cases = expected.chosen(&[]).unwrap();
        let earlier = Run {
            era: Era::Earlier,
            ..RUN
        };
        assert!(expected.without_playing(&RUN, &cases[1]).is_none());
        let cell = expected.without_playing(&earlier, &cases[1]).unwrap();
        assert_eq!(cell.verdict.word(), "n/a");
        assert!(expected.without_playing(&earlier, &cases[0]).is_none());
    }

    #[test]
    fn a_list_without_reasons_is_refused() {
        let cases = json!({ "cases": [{ "case": "a", "what": "w", "expected": 1 }] });
        for gone in ["reason", "section", "observed", "case", "verdict"] {
            let mut entry = json!({
                "verdict": "n/a", "case": "a", "observed": 1, "reason": "r", "section": "s",
            });
            entry.as_object_mut().unwrap().remove(gone);
            let known = json!({ "known": [entry] });
            assert!(Expected::of(&cases, &known).is_err(), "{gone}");
        }
        let unexplained = json!({ "cases": [{ "case": "a", "what": "w", "absent": [{ "era": "2025-11-25" }], "expected": 1 }] });
        assert!(Expected::of(&unexplained, &json!({ "known": [] })).is_err());
        assert!(Expected::read().is_ok());
    }
}
