//! Ratios, their bounds, and how both are shown.

use std::time::Duration;

use serde_json::{Value, json};

use crate::options::Options;

/// What is measured, and how far it may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Throughput,
    Latency,
    Rows,
    Purge,
}

impl Measure {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "throughput" => Self::Throughput,
            "latency" => Self::Latency,
            "rows" => Self::Rows,
            "purge" => Self::Purge,
            _ => return None,
        })
    }
}

/// A ratio, and on which side of a number it has to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    fn holds(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(bound) => ratio >= bound,
            Self::AtMost(bound) => ratio <= bound,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(bound) => format!("at least {bound}"),
            Self::AtMost(bound) => format!("at most {bound}"),
        }
    }
}

struct Row {
    name: &'static str,
    ratios: Vec<f64>,
    bound: Bound,
    /// The two sides, as they were measured.
    ours: String,
    theirs: String,
}

/// All rows of a run.
pub(crate) struct Report {
    rows: Vec<Row>,
    live: u64,
    expired: u64,
}

impl Report {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            rows: Vec::new(),
            live: options.rows,
            expired: options.expired,
        }
    }

    /// Adds a ratio of each round; what counts is their median.
    pub(crate) fn add(
        &mut self,
        name: &'static str,
        bound: Bound,
        ratios: Vec<f64>,
        ours: String,
        theirs: String,
    ) {
        let row = Row {
            name,
            ratios,
            bound,
            ours,
            theirs,
        };
        eprintln!(
            "  {name}: {:.2} ({ours} against {theirs})",
            median(&row.ratios),
            ours = row.ours,
            theirs = row.theirs
        );
        self.rows.push(row);
    }

    pub(crate) fn is_ok(&self) -> bool {
        self.rows
            .iter()
            .all(|row| row.bound.holds(median(&row.ratios)))
    }

    #[allow(clippy::print_stdout, reason = "this is what was asked for")]
    pub(crate) fn print(&self, as_json: bool) {
        if as_json {
            println!("{:#}", self.json());
            return;
        }
        println!(
            "{:<44} {:>7} {:>15} {:>14} {:<6} ours / against",
            "ratio", "median", "spread", "bound", ""
        );
        for row in &self.rows {
            let (low, high) = spread(&row.ratios);
            let ratio = median(&row.ratios);
            let word = if row.bound.holds(ratio) {
                "ok"
            } else {
                "MISSED"
            };
            println!(
                "{:<44} {ratio:>7.2} {:>15} {:>14} {word:<6} {} / {}",
                row.name,
                format!("{low:.2} to {high:.2}"),
                row.bound.text(),
                row.ours,
                row.theirs
            );
        }
    }

    fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                let (low, high) = spread(&row.ratios);
                let ratio = median(&row.ratios);
                json!({
                    "name": row.name, "ratio": ratio, "low": low, "high": high, "rounds": row.ratios,
                    "bound": row.bound.text(), "ok": row.bound.holds(ratio),
                    "ours": row.ours, "against": row.theirs,
                })
            })
            .collect();
        json!({ "live_rows": self.live, "expired_rows": self.expired, "ok": self.is_ok(), "ratios": rows })
    }
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn spread(values: &[f64]) -> (f64, f64) {
    values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(*value), high.max(*value))
        })
}

/// The value below which this part of the sorted durations lies.
pub(crate) fn percentile(sorted: &[Duration], part: f64) -> Duration {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let index = (sorted.len() as f64 * part) as usize;
    sorted
        .get(index.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}

pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
