//! What a run found, row by row.

mod sarif;
mod table;

use serde::Serialize;

/// What is to be said of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// Every try was held.
    Safe,
    /// At least one try did what must not be done.
    Unsafe,
    /// It could not be judged; the note says what would tell.
    Unknown,
    /// The server has nothing that this could be tried on; the note says why.
    NotApplicable,
}

impl Verdict {
    /// The word of the tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Safe => "safe",
            Verdict::Unsafe => "unsafe",
            Verdict::Unknown => "unknown",
            Verdict::NotApplicable => "not applicable",
        }
    }
}

/// One attack and what came of it.
///
/// `sent` and `received` are of the exchange that decided, or of the last one. They hold no bearer token, and of a state its beginning
/// alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Row {
    /// Its name, which does not change.
    pub id: &'static str,
    /// What is tried.
    pub title: &'static str,
    /// What came of it.
    pub verdict: Verdict,
    /// The section of the specification that forbids it, or `POLICY` and the reason.
    pub rule: &'static str,
    /// How it was decided.
    pub note: String,
    /// What was sent.
    pub sent: String,
    /// What came back.
    pub received: String,
}

/// How many rows there are of each verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Totals {
    /// Rows that are safe.
    pub safe: usize,
    /// Rows that are unsafe.
    #[serde(rename = "unsafe")]
    pub unsafe_rows: usize,
    /// Rows that could not be judged.
    pub unknown: usize,
    /// Rows that have nothing to try on.
    pub not_applicable: usize,
}

/// Everything that a run found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Report {
    /// The version of this program.
    pub version: &'static str,
    /// The revision that is spoken.
    pub revision: &'static str,
    /// The endpoint.
    pub url: String,
    /// The tool that was attacked.
    pub tool: String,
    /// Whether effects were counted by a tool of the server's (`--effect-tool`).
    pub effects_counted: bool,
    /// How many requests were sent.
    pub requests: usize,
    /// How long it took, in milliseconds.
    pub millis: u64,
    /// How many rows there are of each verdict.
    pub totals: Totals,
    /// The rows, the good path first.
    pub rows: Vec<Row>,
}

impl Report {
    /// Whether a row is unsafe.
    #[must_use]
    pub fn is_unsafe(&self) -> bool {
        self.totals.unsafe_rows > 0
    }

    /// The row of this name.
    #[must_use]
    pub fn row(&self, id: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == id)
    }
}

impl Totals {
    pub(crate) fn of(rows: &[Row]) -> Self {
        let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
        Self {
            safe: count(Verdict::Safe),
            unsafe_rows: count(Verdict::Unsafe),
            unknown: count(Verdict::Unknown),
            not_applicable: count(Verdict::NotApplicable),
        }
    }
}
