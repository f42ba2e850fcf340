//! Figures, and the table that shows them.

use serde_json::{Value, json};

/// What a ratio must keep.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    fn is_kept(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(bound) => ratio >= bound,
            Self::AtMost(bound) => ratio <= bound,
        }
    }
}

/// One line: a ratio of two figures that were measured in turn.
#[derive(Debug)]
pub(crate) struct Line {
    group: &'static str,
    what: String,
    against: String,
    ratios: Vec<f64>,
    figures: String,
    bound: Option<Bound>,
}

impl Line {
    fn is_kept(&self) -> Option<bool> {
        self.bound.map(|bound| bound.is_kept(median(&self.ratios)))
    }
}

/// All lines.
#[derive(Debug, Default)]
pub(crate) struct Report {
    lines: Vec<Line>,
}

impl Report {
    pub(crate) fn add(
        &mut self,
        group: &'static str,
        (what, against): (impl Into<String>, impl Into<String>),
        ratios: Vec<f64>,
        figures: String,
        bound: Option<Bound>,
    ) {
        let line = Line {
            group,
            what: what.into(),
            against: against.into(),
            ratios,
            figures,
            bound,
        };
        eprintln!(
            "  {} / {}: {:.2}",
            line.what,
            line.against,
            median(&line.ratios)
        );
        self.lines.push(line);
    }

    pub(crate) fn missed(&self) -> usize {
        self.lines
            .iter()
            .filter(|line| line.is_kept() == Some(false))
            .count()
    }

    pub(crate) fn to_json(&self) -> Value {
        let lines: Vec<Value> = self
            .lines
            .iter()
            .map(|line| {
                let (low, high) = spread(&line.ratios);
                let bound = line.bound.map(|bound| match bound {
                    Bound::AtLeast(bound) => json!({ "atLeast": bound }),
                    Bound::AtMost(bound) => json!({ "atMost": bound }),
                });
                json!({
                    "group": line.group, "what": line.what, "against": line.against, "ratio": median(&line.ratios),
                    "low": low, "high": high, "turns": line.ratios.len(), "figures": line.figures, "bound": bound, "kept": line.is_kept(),
                })
            })
            .collect();
        json!({ "lines": lines, "missed": self.missed() })
    }

    pub(crate) fn table(&self) -> String {
        let mut out = String::new();
        let mut group = "";
        for line in &self.lines {
            if line.group != group {
                group = line.group;
                out.push_str(&format!(
                    "\n{group}\n  {:<46} {:<30} {:>6}  {:<14} {:<16} figures\n",
                    "what", "against", "ratio", "spread", "bound"
                ));
            }
            let (low, high) = spread(&line.ratios);
            let bound = match (line.bound, line.is_kept()) {
                (Some(Bound::AtLeast(bound)), Some(true)) => format!(">= {bound} ok"),
                (Some(Bound::AtLeast(bound)), _) => format!(">= {bound} MISSED"),
                (Some(Bound::AtMost(bound)), Some(true)) => format!("<= {bound} ok"),
                (Some(Bound::AtMost(bound)), _) => format!("<= {bound} MISSED"),
                (None, _) => String::new(),
            };
            out.push_str(&format!(
                "  {:<46} {:<30} {:>6.2}  {:<14} {:<16} {}\n",
                line.what,
                line.against,
                median(&line.ratios),
                format!("{low:.2} to {high:.2}"),
                bound,
                line.figures
            ));
        }
        out
    }
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

fn spread(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low, high)
}
