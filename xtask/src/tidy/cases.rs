//! docs/cases.md: every fault that others had is a row, and what shows that this project does not have it is there.
//!
//! A row names the tests that are called by its number, with their crates, or the command that runs what is too long for a
//! test, or refuses the case with a reason. The other way round, a test that is called by a number stands in that number's
//! row. Whether a test shows its case is for readers to judge.

use std::collections::BTreeSet;

use super::tables::{Row, holds_test, in_suite, tables};
use super::{Finding, Workspace, numbered, rust_text};

const PAGE: &str = "docs/cases.md";
const HEAD: &str = "case";
/// Case, fault, priority, shown by.
const COLUMNS: usize = 4;
const PRIORITIES: [&str; 3] = ["P0", "P1", "P2"];
/// While the page says so, a cell may be empty.
const UNFINISHED: &str = "An empty cell: not shown yet.";
/// How a row begins whose case is not shown and will not be.
const REFUSED: &str = "refused:";
/// No more cases than these are refused.
const MOST_REFUSED: usize = 10;
/// A reason of fewer words is none.
const REASON_WORDS: usize = 4;

/// Every row, and every test that is called by a case's number.
pub(super) fn rows(workspace: &Workspace) -> Vec<Finding> {
    let text = workspace.file(PAGE).map_or("", |file| file.text.as_str());
    let tables = tables(text, HEAD);
    let rows: Vec<&Row<'_>> = tables.iter().flat_map(|(_, rows)| rows).collect();
    if rows.is_empty() {
        return vec![finding(
            1,
            "no table of cases",
            "add the cases with the columns case, fault, priority, shown by",
        )];
    }
    let unfinished = text.contains(UNFINISHED);
    let sources = Sources::of(workspace);
    let mut findings = ascending(&rows);
    let mut named = BTreeSet::new();
    for row in &rows {
        findings.extend(check_row(row, unfinished, &sources, &mut named));
    }
    let refused: Vec<&&Row<'_>> = rows
        .iter()
        .filter(|row| row.cell(3).starts_with(REFUSED))
        .collect();
    if let Some(row) = refused.get(MOST_REFUSED) {
        findings.push(finding(
            row.line,
            format!("{} cases are refused", refused.len()),
            format!("show all of them but {MOST_REFUSED}"),
        ));
    }
    findings.extend(sources.unnamed(&named));
    findings
}

fn finding(line: usize, what: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding::new(PAGE, line, what, mend)
}

/// Numbers go up, and none is there twice.
fn ascending(rows: &[&Row<'_>]) -> Vec<Finding> {
    let mut last = 0;
    let mut findings = Vec::new();
    for row in rows {
        let number: u32 = row.cell(0).parse().unwrap_or(0);
        if number <= last {
            findings.push(finding(
                row.line,
                format!("case {:?} comes after case {last}", row.cell(0)),
                "give each case one row, in the order of their numbers",
            ));
        }
        last = last.max(number);
    }
    findings
}

/// One row; the tests that it names are added to `named`.
fn check_row(
    row: &Row<'_>,
    unfinished: bool,
    sources: &Sources<'_>,
    named: &mut BTreeSet<(String, String)>,
) -> Vec<Finding> {
    let wrong = |what: String, mend: &str| vec![finding(row.line, what, mend)];
    if row.cells.len() != COLUMNS || !PRIORITIES.contains(&row.cell(2)) || row.cell(1).is_empty() {
        return wrong(
            "a row that is not case, fault, priority, shown by".to_owned(),
            "fill every column, with P0, P1 or P2 in the third; write no `|` inside of a cell",
        );
    }
    let shown = row.cell(3);
    if shown.is_empty() && unfinished {
        return Vec::new();
    }
    if shown.is_empty() {
        return wrong(
            format!("nothing shows case {}", row.cell(0)),
            "name its test or its command, or refuse it with a reason",
        );
    }
    if let Some(reason) = shown.strip_prefix(REFUSED) {
        return if reason.split_whitespace().count() < REASON_WORDS {
            wrong(
                format!("case {} is refused without a reason", row.cell(0)),
                "say why there is nothing to show",
            )
        } else {
            Vec::new()
        };
    }
    let mut findings = Vec::new();
    for part in shown.split(';').map(str::trim) {
        match Shown::read(part) {
            Some(Shown::Command(command)) => {
                findings.extend(
                    sources
                        .command(command)
                        .map(|what| finding(row.line, what, "name a command that there is")),
                );
            }
            Some(Shown::Tests { package, names }) => {
                for name in names {
                    named.insert((package.to_owned(), name.to_owned()));
                    findings.extend(
                        sources
                            .test(row.cell(0), package, name)
                            .map(|what| finding(row.line, what, "write ``crate: `test_name` ``, of a test that is there and is called by the case's number")),
                    );
                }
            }
            None => findings.extend(wrong(
                format!("{part:?} is neither a test nor a command"),
                "write ``crate: `test_name` ``, or a command in backticks; put `;` between them",
            )),
        }
    }
    findings
}

/// What a part of the last cell names.
enum Shown<'a> {
    /// `` `cargo xtask chaos` ``
    Command(&'a str),
    /// `` crate: `case_001_a`, `case_001_b` ``
    Tests {
        package: &'a str,
        names: Vec<&'a str>,
    },
}

impl<'a> Shown<'a> {
    fn read(part: &'a str) -> Option<Self> {
        if let Some(rest) = part.strip_prefix('`') {
            return rest
                .split('`')
                .next()
                .filter(|command| command.starts_with("cargo "))
                .map(Shown::Command);
        }
        let (package, rest) = part.split_once(": ")?;
        let names = rest
            .split(',')
            .map(|name| {
                let name = name.trim().strip_prefix('`')?.strip_suffix('`')?;
                (!name.contains('`')).then_some(name)
            })
            .collect::<Option<_>>()?;
        Some(Shown::Tests { package, names })
    }
}

/// The Rust files that speak of cases.
struct Sources<'w> {
    workspace: &'w Workspace,
    /// Path and code.
    files: Vec<(&'w str, String)>,
}

impl<'w> Sources<'w> {
    fn of(workspace: &'w Workspace) -> Self {
        let files = workspace
            .files
            .iter()
            .filter(|file| file.path.ends_with(".rs") && file.text.contains("fn case_"))
            .map(|file| (file.path.as_str(), rust_text::code(&file.text)))
            .collect();
        Self { workspace, files }
    }

    /// What is wrong with a test that a row names, if anything is.
    fn test(&self, number: &str, package: &str, name: &str) -> Option<String> {
        if number_of(name) != number.parse().ok() {
            return Some(format!("`{name}` is not called by the number of its case"));
        }
        let Some(member) = self.workspace.members.iter().find(|m| m.name == package) else {
            return Some(format!("no package is called {package:?}"));
        };
        let folder = format!("{}/", member.folder);
        let found = self
            .files
            .iter()
            .filter(|(path, _)| path.starts_with(&folder))
            .any(|(path, code)| holds_test(code, name, in_suite(path)));
        (!found).then(|| format!("{package} has no test `{name}`"))
    }

    /// What is wrong with a command, if anything is. Of cargo's own ones nothing is known here.
    fn command(&self, command: &str) -> Option<String> {
        let word = command.strip_prefix("cargo xtask ")?.split(' ').next()?;
        let known = self
            .workspace
            .file("xtask/src/main.rs")
            .is_some_and(|main| main.text.contains(&format!("\"{word}\" =>")));
        (!known).then(|| format!("`cargo xtask` has no command `{word}`"))
    }

    /// Functions that are called by a case's number and are not in its row.
    fn unnamed(&self, named: &BTreeSet<(String, String)>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (path, code) in &self.files {
            let package = self
                .workspace
                .members
                .iter()
                .find(|member| path.starts_with(&format!("{}/", member.folder)))
                .map_or("", |member| &member.name);
            for (line, text) in numbered(code) {
                let Some(name) = declared_case(text) else {
                    continue;
                };
                if !named.contains(&(package.to_owned(), name.to_owned())) {
                    findings.push(Finding::new(
                        path,
                        line,
                        format!("{PAGE} does not name `{name}` of {package}"),
                        "name it in the row of its number",
                    ));
                }
            }
        }
        findings
    }
}

/// The name behind `fn` in a line of code, where it is called by a case's number.
fn declared_case(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("fn case_")?;
    let start = line.len() - rest.len() - "case_".len();
    let name = line
        .get(start..)?
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .next()?;
    number_of(name).map(|_| name)
}

/// The number in `case_053_changed_arguments`.
fn number_of(name: &str) -> Option<u32> {
    let (number, rest) = name.strip_prefix("case_")?.split_once('_')?;
    let digits = number.len() == 3 && number.bytes().all(|c| c.is_ascii_digit());
    (digits && !rest.is_empty())
        .then(|| number.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_called_by_three_digits_and_words() {
        assert_eq!(number_of("case_053_changed_arguments"), Some(53));
        for other in [
            "case_53_x",
            "case_0053_x",
            "case_053",
            "case_053_",
            "case_abc_x",
            "053_x",
        ] {
            assert_eq!(number_of(other), None, "{other}");
        }
        assert_eq!(
            declared_case("async fn case_001_a(bank: &Bank) {"),
            Some("case_001_a")
        );
        assert_eq!(declared_case("fn case_of_two() {}"), None);
        assert_eq!(declared_case("case_001_a().await"), None);
    }

    #[test]
    fn a_cell_names_tests_of_a_crate_or_a_command() {
        match Shown::read("mrtr-server: `case_001_a`, `case_001_b`") {
            Some(Shown::Tests { package, names }) => {
                assert_eq!(
                    (package, names),
                    ("mrtr-server", vec!["case_001_a", "case_001_b"])
                );
            }
            _ => panic!("not read"),
        }
        assert!(matches!(
            Shown::read("`cargo xtask chaos --minutes 2`, with a smoke run in CI"),
            Some(Shown::Command("cargo xtask chaos --minutes 2"))
        ));
        for other in [
            "",
            "mrtr-server",
            "`case_001_a`",
            "mrtr-server: case_001_a",
            "a: `b` and `c`",
        ] {
            assert!(Shown::read(other).is_none(), "{other}");
        }
    }
}
