//! Rows and tables.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use mrtr_testkit::guards::Guard;
use serde::Serialize;

use crate::Fault;
use crate::servers::Stage;

/// How long a row may take; a row that hangs is a row that is not as expected.
const PATIENCE: Duration = Duration::from_secs(60);

type Measurement = Pin<Box<dyn Future<Output = Result<String, Fault>> + Send>>;

/// What stands between a row's attack and its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Governed {
    /// With this guard off, the row must turn red.
    By(Guard),
    /// No guard of the server's decides this row, and why.
    Not(&'static str),
}

/// A row before it is played.
pub(crate) struct Case {
    pub(crate) section: &'static str,
    pub(crate) case: String,
    pub(crate) expected: String,
    pub(crate) governed: Governed,
    play: Box<dyn Fn(Stage) -> Measurement + Send + Sync>,
}

/// A row after it was played.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) section: &'static str,
    pub(crate) case: String,
    pub(crate) expected: String,
    pub(crate) measured: String,
    pub(crate) ok: bool,
    /// Whether there is a measurement at all: a server that did not start proves nothing, one way or the other.
    #[serde(skip)]
    pub(crate) was_measured: bool,
}

impl Case {
    pub(crate) fn new<F, Fut>(
        section: &'static str,
        case: impl Into<String>,
        expected: impl Into<String>,
        governed: Governed,
        play: F,
    ) -> Self
    where
        F: Fn(Stage) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String, Fault>> + Send + 'static,
    {
        Self {
            section,
            case: case.into(),
            expected: expected.into(),
            governed,
            play: Box::new(move |stage| Box::pin(play(stage))),
        }
    }

    /// Plays the row. What cannot be measured is told as it is, and is not as expected.
    pub(crate) async fn play(&self, stage: &Stage) -> Row {
        let played = tokio::time::timeout(PATIENCE, (self.play)(stage.clone())).await;
        let (measured, was_measured) = match played {
            Ok(Ok(measured)) => (measured, true),
            Ok(Err(fault)) => (format!("not measured: {fault}"), false),
            Err(_) => (
                format!("not measured: nothing came in {} s", PATIENCE.as_secs()),
                false,
            ),
        };
        Row {
            section: self.section,
            case: self.case.clone(),
            expected: self.expected.clone(),
            ok: measured == self.expected,
            measured,
            was_measured,
        }
    }
}

/// Prints a section's rows as a table.
pub(crate) fn table(rows: &[Row], out: &mut impl std::io::Write) -> std::io::Result<()> {
    let Some(first) = rows.first() else {
        return Ok(());
    };
    let width = |heading: &str, of: fn(&Row) -> &str| {
        let widest = rows.iter().map(|row| of(row).chars().count()).max();
        widest.unwrap_or(0).max(heading.len())
    };
    let cases = width("case", |row| &row.case);
    let expected = width("expected", |row| &row.expected);
    writeln!(out, "\n  {}", first.section.to_uppercase())?;
    writeln!(
        out,
        "      {:cases$}  {:expected$}  measured",
        "case", "expected"
    )?;
    for row in rows {
        let mark = if row.ok { "ok" } else { "NO" };
        writeln!(
            out,
            "  {mark}  {:cases$}  {:expected$}  {}",
            row.case, row.expected, row.measured
        )?;
    }
    Ok(())
}
