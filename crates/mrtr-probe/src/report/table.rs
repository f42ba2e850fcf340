//! The table for people.

use std::fmt;

use super::{Report, Verdict};

/// The table, the worst rows with what crossed the wire, and the sums.
impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|row| row.title.chars().count()).max();
        let width = width.unwrap_or_default();
        for row in &self.rows {
            writeln!(
                out,
                "{:<14}  {:<width$}  {}",
                row.verdict.word(),
                row.title,
                row.note
            )?;
            if matches!(row.verdict, Verdict::Unsafe | Verdict::Unknown) {
                let lines = [
                    ("rule", row.rule),
                    ("sent", &row.sent),
                    ("came", &row.received),
                ];
                for (name, text) in lines.iter().filter(|(_, text)| !text.is_empty()) {
                    writeln!(out, "{:<14}  {name}: {text}", "")?;
                }
            }
        }
        let totals = self.totals;
        write!(
            out,
            "{}: {} unsafe, {} unknown, {} safe, {} not applicable; {} requests in {:.1} s",
            self.tool,
            totals.unsafe_rows,
            totals.unknown,
            totals.safe,
            totals.not_applicable,
            self.requests,
            std::time::Duration::from_millis(self.millis).as_secs_f64(),
        )?;
        if totals.unknown > 0 {
            write!(
                out,
                "\nunknown is not safe: the exit code does not count it, and you should"
            )?;
        }
        if !self.effects_counted {
            write!(
                out,
                "\neffects were not counted: --effect-tool names a tool that returns how many there were"
            )?;
        }
        writeln!(out)
    }
}
