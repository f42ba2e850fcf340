//! One guard off at a time: the rows that it governs must turn red. A row that stays green with its guard off proves
//! nothing about the guard.

use std::io::Write as _;

use mrtr_testkit::guards::Guard;
use serde_json::json;

use crate::board::{Case, Governed, Row};
use crate::servers::Stage;
use crate::{clear_progress, progress, sections};

/// A governed row, and what came of it with each guard off.
struct Line {
    case: Case,
    governs: Guard,
    /// By guard, in the order of [`Guard::ALL`].
    rows: Vec<Row>,
}

/// Plays every governed row without each guard in turn, and prints the matrix. True when every row turned red without the
/// guard that governs it.
pub(crate) async fn run(stage: &Stage, as_json: bool) -> std::io::Result<bool> {
    let mut lines: Vec<Line> = Vec::new();
    let mut ungoverned: Vec<(String, &'static str)> = Vec::new();
    for case in sections::all() {
        match case.governed {
            Governed::By(governs) => lines.push(Line {
                case,
                governs,
                rows: Vec::new(),
            }),
            Governed::Not(why) => {
                ungoverned.push((format!("{}: {}", case.section, case.case), why))
            }
        }
    }
    let total = lines.len() * Guard::ALL.len();
    let mut number = 0;
    for guard in Guard::ALL {
        let bare = Stage {
            without: vec![guard.to_string()],
            ..stage.clone()
        };
        for line in &mut lines {
            number += 1;
            progress(
                number,
                total,
                &format!("without {guard}: {}", line.case.case),
            );
            line.rows.push(line.case.play(&bare).await);
        }
    }
    clear_progress();
    let unmeasured: Vec<&Row> = lines
        .iter()
        .flat_map(|line| &line.rows)
        .filter(|row| !row.was_measured)
        .collect();
    let green = lines
        .iter()
        .filter(|line| line.red_without(line.governs) == Some(false))
        .count();
    let idle: Vec<Guard> = Guard::ALL
        .into_iter()
        .filter(|guard| lines.iter().all(|line| line.governs != *guard))
        .collect();
    let mut stdout = std::io::stdout().lock();
    if as_json {
        writeln!(stdout, "{}", to_json(&lines))?;
    } else {
        print(&lines, &ungoverned, &mut stdout)?;
        for guard in &idle {
            writeln!(stdout, "  No row is governed by `{guard}`.")?;
        }
        for row in &unmeasured {
            writeln!(stdout, "  {}: {}: {}", row.section, row.case, row.measured)?;
        }
        match green {
            0 if !unmeasured.is_empty() => {
                writeln!(
                    stdout,
                    "\n  {} cells were not measured, which proves nothing.",
                    unmeasured.len()
                )?;
            }
            0 => writeln!(
                stdout,
                "\n  Every governed row turned red without its guard."
            )?,
            some => writeln!(stdout, "\n  {some} rows stayed green without their guard.")?,
        }
    }
    Ok(green == 0 && idle.is_empty() && unmeasured.is_empty())
}

impl Line {
    /// Whether the row turned red with this guard off; `None` when it was not measured.
    fn red_without(&self, guard: Guard) -> Option<bool> {
        let at = Guard::ALL.iter().position(|known| *known == guard)?;
        let row = self.rows.get(at).filter(|row| row.was_measured)?;
        Some(!row.ok)
    }
}

fn print(
    lines: &[Line],
    ungoverned: &[(String, &'static str)],
    out: &mut impl std::io::Write,
) -> std::io::Result<()> {
    let name = |line: &Line| format!("{}: {}", line.case.section, line.case.case);
    let width = lines
        .iter()
        .map(|line| name(line).chars().count())
        .max()
        .unwrap_or(0);
    writeln!(
        out,
        "\n  ONE GUARD OFF AT A TIME   (RED: its guard is off, and the row says so; red: another guard's row fell too)\n"
    )?;
    write!(out, "  {:width$}", "row")?;
    for guard in Guard::ALL {
        write!(out, "  {guard:<9}")?;
    }
    writeln!(out)?;
    for line in lines {
        write!(out, "  {:width$}", name(line))?;
        for guard in Guard::ALL {
            let mark = match (line.red_without(guard), line.governs == guard) {
                (Some(true), true) => "RED",
                (Some(true), false) => "red",
                (Some(false), true) => "GREEN!",
                (Some(false), false) => "·",
                (None, _) => "?",
            };
            write!(out, "  {mark:<9}")?;
        }
        writeln!(out)?;
    }
    writeln!(out, "\n  Not governed by a guard that can be taken off:")?;
    for (row, why) in ungoverned {
        writeln!(out, "    {row}\n        {why}")?;
    }
    Ok(())
}

fn to_json(lines: &[Line]) -> serde_json::Value {
    let rows = lines.iter().map(|line| {
        let without: serde_json::Map<_, _> = Guard::ALL
            .iter()
            .zip(&line.rows)
            .map(|(guard, row)| {
                (
                    guard.to_string(),
                    json!({ "measured": row.measured, "red": !row.ok }),
                )
            })
            .collect();
        json!({
            "section": line.case.section,
            "case": line.case.case,
            "expected": line.case.expected,
            "governed_by": line.governs.to_string(),
            "without": without,
            "ok": line.red_without(line.governs) == Some(true),
        })
    });
    json!({ "rows": rows.collect::<Vec<_>>() })
}
