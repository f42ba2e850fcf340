//! What each leg must show, as `conformance/legs.json` says, and whether it did.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::results::Outcome;
use super::shown;
use crate::cargo::strings;
use crate::failure::Failure;

/// Which peer is tested, in which revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leg {
    pub(super) side: Side,
    pub(super) scenarios: Scenarios,
    name: &'static str,
}

/// Which of the suite's scenarios are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scenarios {
    /// All of a revision.
    Of(&'static str),
    /// Those of the extensions, which belong to no revision.
    Extensions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Server,
    Client,
}

impl Leg {
    pub(super) const ALL: [Leg; 5] = [
        Leg::of(Side::Server, "2026-07-28", "server-2026-07-28"),
        Leg::of(Side::Server, "2025-11-25", "server-2025-11-25"),
        Leg::of(Side::Client, "2026-07-28", "client-2026-07-28"),
        Leg::of(Side::Client, "2025-11-25", "client-2025-11-25"),
        Leg {
            side: Side::Client,
            scenarios: Scenarios::Extensions,
            name: "client-extensions",
        },
    ];

    const fn of(side: Side, revision: &'static str, name: &'static str) -> Self {
        Self {
            side,
            scenarios: Scenarios::Of(revision),
            name,
        }
    }

    pub(super) fn name(self) -> &'static str {
        self.name
    }
}

impl fmt::Display for Leg {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name)
    }
}

/// What every leg must show.
#[derive(Debug)]
pub(super) struct Required {
    legs: BTreeMap<String, OfLeg>,
}

#[derive(Debug, Default)]
struct OfLeg {
    /// How many checks must have succeeded, over all scenarios.
    checks: u64,
    /// Scenarios that must pass, and how many checks must have succeeded in each.
    scenarios: BTreeMap<String, u64>,
    /// The checks that may be skipped, by scenario.
    skipped: BTreeMap<String, BTreeSet<String>>,
    /// Scenarios that fail, and are known to.
    expected_failures: BTreeSet<String>,
}

impl Required {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let broken = |problem: &str| {
            Failure::failed(
                format!("{}: {problem}", shown(path)),
                "each leg has `checks`, `scenarios`, `skipped` and `expectedFailures`",
            )
        };
        let text = fs::read_to_string(path).map_err(|error| broken(&error.to_string()))?;
        Self::parse(&text).map_err(|problem| broken(&problem))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut legs = BTreeMap::new();
        for leg in Leg::ALL {
            let name = leg.name();
            let of_leg = value
                .get(name)
                .and_then(OfLeg::parse)
                .ok_or_else(|| format!("the leg `{name}` is missing or not as it should be"))?;
            legs.insert(name.to_owned(), of_leg);
        }
        Ok(Self { legs })
    }

    /// Holds what came out against what must come out.
    pub(super) fn judge(&self, leg: Leg, outcomes: &BTreeMap<String, Outcome>) -> Verdict {
        let nothing = OfLeg::default();
        let of_leg = self.legs.get(leg.name()).unwrap_or(&nothing);
        let mut verdict = Verdict::new(leg, of_leg);
        for (scenario, least) in &of_leg.scenarios {
            match outcomes.get(scenario) {
                Some(outcome) => verdict.require(scenario, *least, of_leg, outcome),
                None => verdict
                    .problems
                    .push(format!("{scenario}: the suite left no result")),
            }
        }
        for scenario in &of_leg.expected_failures {
            match outcomes.get(scenario) {
                Some(outcome) => verdict.expect_failure(scenario, outcome),
                None => verdict.problems.push(format!(
                    "{scenario}: expected to fail, but the suite left no result"
                )),
            }
        }
        for scenario in outcomes.keys() {
            if !of_leg.scenarios.contains_key(scenario)
                && !of_leg.expected_failures.contains(scenario)
            {
                verdict.problems.push(format!(
                    "{scenario}: the suite ran it, and conformance/legs.json does not know it"
                ));
            }
        }
        if verdict.success < verdict.required_checks {
            verdict.problems.push(format!(
                "{} checks succeeded, {} must",
                verdict.success, verdict.required_checks
            ));
        }
        verdict
    }
}

impl OfLeg {
    fn parse(value: &Value) -> Option<Self> {
        let scenarios = value.get("scenarios")?.as_object()?.iter();
        let skipped = value.get("skipped")?.as_object()?.iter();
        value.get("expectedFailures")?.as_array()?;
        Some(Self {
            checks: value.get("checks")?.as_u64()?,
            scenarios: scenarios
                .map(|(name, least)| Some((name.clone(), least.as_u64()?)))
                .collect::<Option<_>>()?,
            skipped: skipped
                .map(|(name, checks)| {
                    (
                        name.clone(),
                        strings(Some(checks)).map(str::to_owned).collect(),
                    )
                })
                .collect(),
            expected_failures: strings(value.get("expectedFailures"))
                .map(str::to_owned)
                .collect(),
        })
    }
}

/// What came of a leg.
#[derive(Debug)]
pub(super) struct Verdict {
    leg: Leg,
    passed: usize,
    required: usize,
    /// Checks that succeeded in the required scenarios; skipped ones and notes are none.
    success: u64,
    required_checks: u64,
    failures: usize,
    warnings: usize,
    skipped: usize,
    expected_failures: usize,
    problems: Vec<String>,
}

impl Verdict {
    fn new(leg: Leg, of_leg: &OfLeg) -> Self {
        Self {
            leg,
            passed: 0,
            required: of_leg.scenarios.len(),
            success: 0,
            required_checks: of_leg.checks,
            failures: 0,
            warnings: 0,
            skipped: 0,
            expected_failures: of_leg.expected_failures.len(),
            problems: Vec::new(),
        }
    }

    fn require(&mut self, scenario: &str, least: u64, of_leg: &OfLeg, outcome: &Outcome) {
        let before = self.problems.len();
        let file = shown(&outcome.file);
        self.success += outcome.success;
        self.failures += outcome.failures.len();
        self.warnings += outcome.warnings.len();
        self.skipped += outcome.skipped.len();
        for failure in &outcome.failures {
            self.problems
                .push(format!("{scenario}: failed: {failure}\n    {file}"));
        }
        for warning in &outcome.warnings {
            self.problems
                .push(format!("{scenario}: warning: {warning}\n    {file}"));
        }
        let may_skip = of_leg.skipped.get(scenario);
        for skipped in &outcome.skipped {
            if !may_skip.is_some_and(|may| may.contains(skipped)) {
                self.problems
                    .push(format!("{scenario}: skipped: {skipped}\n    {file}"));
            }
        }
        if outcome.success < least {
            self.problems.push(format!(
                "{scenario}: {} checks succeeded, {least} must\n    {file}",
                outcome.success
            ));
        }
        // The suite would not say so: what it scores are checks, and they had succeeded by then.
        if self.leg.side == Side::Client && !outcome.client_done {
            self.problems.push(format!(
                "{scenario}: the client did not come to a good end\n    {}",
                shown(&outcome.file.with_file_name("stderr.txt"))
            ));
        }
        self.passed += usize::from(self.problems.len() == before);
    }

    fn expect_failure(&mut self, scenario: &str, outcome: &Outcome) {
        let passes =
            outcome.success > 0 && outcome.failures.is_empty() && outcome.warnings.is_empty();
        if passes && outcome.client_done {
            self.problems.push(format!(
                "{scenario}: it passes, so that it is no expected failure: move it to `scenarios` in conformance/legs.json"
            ));
        }
    }

    pub(super) fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }

    /// The totals on one line.
    pub(super) fn line(&self) -> String {
        format!(
            "{:<18} {:>2} of {:>2} scenarios, {:>3} of {:>3} checks, {} failed, {} warnings, {} skipped, {} expected to fail: {}\n",
            self.leg.name(),
            self.passed,
            self.required,
            self.success,
            self.required_checks,
            self.failures,
            self.warnings,
            self.skipped,
            self.expected_failures,
            if self.is_ok() { "ok" } else { "FALLS SHORT" },
        )
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "leg": self.leg.name(),
            "scenarios": { "passed": self.passed, "required": self.required },
            "checks": { "success": self.success, "required": self.required_checks },
            "failures": self.failures,
            "warnings": self.warnings,
            "skipped": self.skipped,
            "expectedFailures": self.expected_failures,
            "ok": self.is_ok(),
        })
    }

    /// What falls short, a paragraph each.
    pub(super) fn problems_shown(&self) -> String {
        let mut text = String::new();
        for problem in &self.problems {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{}: {problem}", self.leg);
        }
        text
    }
}

#[cfg(test)]
mod tests;
