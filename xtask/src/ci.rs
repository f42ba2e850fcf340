//! `cargo xtask ci`: what a change must pass, step by step, each with its time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cargo::{self, array, cargo, text};
use crate::failure::Failure;
use crate::{bench, conformance, demo, fuzz, heading, interop, model, probe, suite, tidy};

/// What a minimal HTTP server may bring along; the peers that were counted bring 112 and 126.
const MINIMAL_BUDGET: usize = 125;

/// A step: its name and what it runs.
type Step = (&'static str, fn() -> Result<(), Failure>);

const STEPS: &[Step] = &[
    ("format", format),
    ("clippy", clippy),
    ("tidy", tidy::run),
    ("test", suite::run),
    ("model", model),
    ("demo", play),
    ("demo, one guard off at a time", sabotage),
    ("conformance", conform),
    ("interop", peers),
    ("probe", attack),
    ("fuzz, a smoke run", smoke),
    ("docs", docs),
    ("each crate alone", alone),
    ("dependency budget", budget),
    ("bench, for a moment", bench::smoke),
];

/// Runs the steps to the first that fails, then shows what each took.
pub(crate) fn run() -> Result<(), Failure> {
    let mut table = Vec::new();
    let mut outcome = Ok(());
    for (name, step) in STEPS {
        if outcome.is_err() {
            table.push((*name, "not run", None));
            continue;
        }
        heading(name);
        let start = Instant::now();
        outcome = step();
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        table.push((*name, word, Some(start.elapsed())));
    }
    heading("summary");
    for row in table {
        eprintln!("{}", table_row(row));
    }
    outcome
}

fn table_row((name, word, took): (&str, &str, Option<Duration>)) -> String {
    let took = took.map_or_else(String::new, |took| format!("{:.1} s", took.as_secs_f64()));
    format!("{name:<30} {word:<8} {took:>9}")
        .trim_end()
        .to_owned()
}

fn format() -> Result<(), Failure> {
    cargo::run(cargo(["fmt", "--all", "--check"]), "run `cargo fmt --all`")
}

fn clippy() -> Result<(), Failure> {
    let command = cargo([
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]);
    cargo::run(
        command,
        "mend what is reported, or allow it in place with a reason",
    )
}

/// Every seed, and a few seconds of what comes of them, for each target.
fn smoke() -> Result<(), Failure> {
    fuzz::run(&["--seconds".to_owned(), "3".to_owned()])
}

fn docs() -> Result<(), Failure> {
    let mut command = cargo(["doc", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    cargo::run(command, "mend the documentation that is reported")
}

/// The demo's rows, kept in target/demo.json; each must be ok.
fn play() -> Result<(), Failure> {
    let driver = demo::prepare(&["--json".to_owned()])?;
    let (status, json) = cargo::output(driver, "run `cargo xtask demo` to see the rows as tables")?;
    let folder = cargo::root().join("target");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("demo.json"), &json)?;
    let summary = summary(&json).map_err(|problem| {
        Failure::failed(
            format!("the demo's output is not as promised: {problem}"),
            "it stands in target/demo.json",
        )
    })?;
    eprint!("{summary}");
    if !summary.failed.is_empty() || !status.success() {
        return Err(Failure::failed(
            format!(
                "{} rows are not as expected ({status})",
                summary.failed.len()
            ),
            "`cargo xtask demo` shows expected beside measured",
        ));
    }
    Ok(())
}

/// The demo's rows, counted by section in the order in which they come.
#[derive(Debug, Default)]
struct Summary {
    sections: Vec<(String, usize, usize)>,
    failed: Vec<String>,
}

fn summary(json: &str) -> Result<Summary, String> {
    let value: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let mut summary = Summary::default();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for row in array(value.get("rows")) {
        let field =
            |name| text(row, name).ok_or_else(|| format!("a row without the text `{name}`: {row}"));
        let (section, case) = (field("section")?, field("case")?);
        let (expected, measured) = (field("expected")?, field("measured")?);
        let ok = row
            .get("ok")
            .and_then(Value::as_bool)
            .ok_or_else(|| format!("a row without `ok`: {row}"))?;
        let index = *seen.entry(section.to_owned()).or_insert_with(|| {
            summary.sections.push((section.to_owned(), 0, 0));
            summary.sections.len() - 1
        });
        if let Some((_, rows, good)) = summary.sections.get_mut(index) {
            *rows += 1;
            *good += usize::from(ok);
        }
        if !ok {
            summary.failed.push(format!(
                "{section}: {case}: expected {expected}; measured {measured}"
            ));
        }
    }
    if summary.sections.is_empty() {
        return Err("no rows".to_owned());
    }
    Ok(summary)
}

impl std::fmt::Display for Summary {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (section, rows, good) in &self.sections {
            writeln!(out, "{section:<12} {good:>3} of {rows:>3} as expected")?;
        }
        for row in &self.failed {
            writeln!(out, "not as expected: {row}")?;
        }
        Ok(())
    }
}

fn sabotage() -> Result<(), Failure> {
    demo::run(&["--sabotage".to_owned()])
}

/// Every world of the model, and each rule turned.
fn model() -> Result<(), Failure> {
    model::run(&[])
}

/// The official suite, all four legs.
fn conform() -> Result<(), Failure> {
    conformance::run(&[])
}

/// The official SDKs, every cell of the matrix.
fn peers() -> Result<(), Failure> {
    interop::run(&[])
}

/// Every attack on the examples, and on the official SDKs.
fn attack() -> Result<(), Failure> {
    probe::run(&["--peers".to_owned()])
}

/// Each member with its own default features: what compiles only beside another crate fails here.
fn alone() -> Result<(), Failure> {
    for member in cargo::members(&cargo::metadata(false)?) {
        eprintln!("{}", member.name);
        cargo::run(
            cargo(["check", "--quiet", "-p", &member.name]),
            "the crate leans on a feature that another one turns on; name it in its own manifest",
        )?;
    }
    Ok(())
}

/// The crates that `examples/minimal` brings along.
fn budget() -> Result<(), Failure> {
    let command = cargo(["tree", "-e", "normal", "--prefix", "none", "-p", "minimal"]);
    let (status, tree) = cargo::output(command, "is there an examples/minimal?")?;
    let crates = distinct_crates(&tree);
    eprintln!("examples/minimal: {crates} crates, at most {MINIMAL_BUDGET} are allowed");
    if !status.success() || crates == 0 {
        return Err(Failure::failed(
            "`cargo tree` did not list examples/minimal",
            "is there an examples/minimal?",
        ));
    }
    if crates > MINIMAL_BUDGET {
        return Err(Failure::failed(
            format!("examples/minimal brings {crates} crates along"),
            "`cargo tree -e normal -p minimal` shows who brings what",
        ));
    }
    Ok(())
}

/// The distinct lines of `cargo tree`, without its marks for repetition and proc macros.
fn distinct_crates(tree: &str) -> usize {
    tree.lines()
        .map(|line| {
            line.replacen(" (*)", "", 1)
                .replacen(" (proc-macro)", "", 1)
        })
        .filter(|line| !line.is_empty())
        .collect::<BTreeSet<_>>()
        .len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_counted_once() {
        let tree = "minimal v0.1.0 (/w/examples/minimal)\nserde v1.0.0\nserde_derive v1.0.0 (proc-macro)\n\
                    serde v1.0.0 (*)\nserde_derive v1.0.0 (proc-macro) (*)\nserde v2.0.0\n\n";
        assert_eq!(distinct_crates(tree), 4);
        assert_eq!(distinct_crates(""), 0);
    }

    fn row(section: &str, ok: bool) -> String {
        format!(r#"{{"section":"{section}","case":"c","expected":"1","measured":"2","ok":{ok}}}"#)
    }

    #[test]
    fn rows_are_counted_by_section_and_bad_ones_are_named() {
        let json = format!(
            r#"{{"rows":[{},{},{}]}}"#,
            row("expense", true),
            row("attack", false),
            row("expense", true)
        );
        let summary = summary(&json).unwrap();
        assert_eq!(
            summary.to_string(),
            "expense        2 of   2 as expected\nattack         0 of   1 as expected\n\
             not as expected: attack: c: expected 1; measured 2\n"
        );
        assert_eq!(summary.failed.len(), 1);
    }

    #[test]
    fn output_without_rows_or_with_half_a_row_is_refused() {
        for json in [
            "",
            "{}",
            r#"{"rows":[]}"#,
            r#"{"rows":[{"section":"a","case":"b"}]}"#,
            r#"{"rows":[{"section":"a","case":"b","expected":"1","measured":"1"}]}"#,
        ] {
            assert!(summary(json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_row_of_the_table_shows_state_and_time() {
        assert_eq!(
            table_row(("docs", "ok", Some(Duration::from_millis(1250)))),
            format!("{:<30} ok           1.2 s", "docs")
        );
        assert_eq!(
            table_row(("docs", "not run", None)),
            format!("{:<30} not run", "docs")
        );
    }
}
