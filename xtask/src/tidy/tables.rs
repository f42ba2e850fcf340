//! Tables that promise something: what each row names has to be there.
//!
//! A promise without a test is a wish. The README's table of rules names a type and a test in each row, the threat model
//! names a test for each promise; here it is checked that those types are declared and those tests exist. Whether a test
//! shows what its row says is for readers to judge.

use super::{Finding, Workspace, numbered, rust_text};

/// A table of a document, by the words in the first cell of its head.
struct Table {
    path: &'static str,
    head: &'static str,
    /// Where each row names something, by the words in the column's head.
    columns: &'static [(&'static str, Named)],
    /// Added to the report of a document that has no such table.
    purpose: &'static str,
}

/// What a cell names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Type,
    Test,
}

impl Named {
    const fn as_str(self) -> &'static str {
        match self {
            Named::Type => "type",
            Named::Test => "test",
        }
    }
}

const README: Table = Table {
    path: "README.md",
    head: "Rule",
    columns: &[("Type", Named::Type), ("Test", Named::Test)],
    purpose: "which rule of the specification is kept by which type and shown by which test",
};

const THREAT_MODEL: Table = Table {
    path: "docs/threat-model.md",
    head: "Promise",
    columns: &[("Test", Named::Test)],
    purpose: "what is promised against whom, and which test shows it",
};

/// The README's table of rules.
pub(super) fn readme(workspace: &Workspace) -> Vec<Finding> {
    README.check(workspace)
}

/// Every table of promises in the threat model.
pub(super) fn threat_model(workspace: &Workspace) -> Vec<Finding> {
    THREAT_MODEL.check(workspace)
}

/// A row of a table: its line, and its cells.
pub(super) struct Row<'a> {
    pub(super) line: usize,
    pub(super) cells: Vec<&'a str>,
}

impl<'a> Row<'a> {
    fn read(line: usize, text: &'a str) -> Self {
        let text = text.trim();
        let text = text.strip_prefix('|').unwrap_or(text);
        let text = text.strip_suffix('|').unwrap_or(text);
        Self {
            line,
            cells: text.split('|').map(str::trim).collect(),
        }
    }

    pub(super) fn cell(&self, at: usize) -> &'a str {
        self.cells.get(at).copied().unwrap_or_default()
    }
}

impl Table {
    fn check(&self, workspace: &Workspace) -> Vec<Finding> {
        let text = workspace
            .file(self.path)
            .map_or("", |file| file.text.as_str());
        let tables = tables(text, self.head);
        let mut findings = Vec::new();
        if tables.iter().all(|(_, rows)| rows.is_empty()) {
            let columns: Vec<&str> = self.columns.iter().map(|(head, _)| *head).collect();
            findings.push(Finding::new(
                self.path,
                1,
                format!(
                    "no table with the columns {}, {}",
                    self.head,
                    columns.join(", ")
                ),
                format!("add one: {}", self.purpose),
            ));
        }
        let sources = Sources::of(workspace);
        for (head, rows) in &tables {
            for (column, named) in self.columns {
                match head.cells.iter().position(|cell| cell == column) {
                    Some(at) => {
                        for row in rows {
                            findings.extend(self.check_cell(row, at, *named, &sources));
                        }
                    }
                    None => findings.push(Finding::new(
                        self.path,
                        head.line,
                        format!(
                            "a table of the kind `{}` without a column `{column}`",
                            self.head
                        ),
                        format!("add it: {}", self.purpose),
                    )),
                }
            }
        }
        findings
    }

    fn check_cell(
        &self,
        row: &Row<'_>,
        at: usize,
        named: Named,
        sources: &Sources,
    ) -> Vec<Finding> {
        let kind = named.as_str();
        let names = in_backticks(row.cell(at));
        if names.is_empty() {
            return vec![Finding::new(
                self.path,
                row.line,
                format!("a row that names no {kind}"),
                "name it in backticks",
            )];
        }
        names
            .into_iter()
            .filter(|name| !sources.have(named, name))
            .map(|name| {
                Finding::new(
                    self.path,
                    row.line,
                    format!("no {kind} is called `{name}`"),
                    "name one that is there; the last part of its path is enough",
                )
            })
            .collect()
    }
}

/// Every table whose head begins with this cell: the head, and the rows below its rule.
pub(super) fn tables<'a>(text: &'a str, first: &str) -> Vec<(Row<'a>, Vec<Row<'a>>)> {
    let mut found: Vec<(Row<'a>, Vec<Row<'a>>)> = Vec::new();
    // The rows of a table that is not looked for are not those of the one above it.
    let mut inside = false;
    let mut before = "";
    for (line, text) in numbered(text) {
        if text.starts_with('|') {
            let row = Row::read(line, text);
            if !before.starts_with('|') {
                inside = row.cell(0) == first;
                if inside {
                    found.push((row, Vec::new()));
                }
            } else if inside
                && !text.starts_with("|-")
                && let Some((_, rows)) = found.last_mut()
            {
                rows.push(row);
            }
        }
        before = text;
    }
    found
}

/// The code of every Rust file, and whether its functions are cases of a public suite.
pub(super) struct Sources(Vec<(bool, String)>);

impl Sources {
    pub(super) fn of(workspace: &Workspace) -> Self {
        Self(
            workspace
                .files
                .iter()
                .filter(|file| file.path.ends_with(".rs"))
                .map(|file| (in_suite(&file.path), rust_text::code(&file.text)))
                .collect(),
        )
    }

    fn have(&self, named: Named, name: &str) -> bool {
        match named {
            Named::Type => {
                let declarations = ["struct", "enum", "trait"].map(|kind| format!("{kind} {name}"));
                self.0.iter().any(|(_, code)| {
                    declarations
                        .iter()
                        .any(|text| rust_text::holds_word(code, text))
                })
            }
            Named::Test => self.have_test(name),
        }
    }

    pub(super) fn have_test(&self, name: &str) -> bool {
        let mut sources = self.0.iter();
        sources.any(|(suite, code)| holds_test(code, name, *suite))
    }
}

/// The cases of a public suite are plain functions, which `codec_suite!` and `ledger_suite!` make tests of.
pub(super) fn in_suite(path: &str) -> bool {
    path.ends_with("/suite.rs") || path.contains("/suite/")
}

/// What makes tests of the functions that it lists, one for each ledger.
const LIST: &str = "on_each_ledger! {";

/// Whether a source has a function of that name, with a test's attribute in the lines above it, in a list of tests, or as a
/// suite's case.
pub(super) fn holds_test(code: &str, name: &str, suite: bool) -> bool {
    let declaration = format!("fn {name}");
    if !code.contains(&declaration) {
        return false;
    }
    let listed = code.split(LIST).skip(1).any(|list| {
        let list = list.split('}').next().unwrap_or_default();
        rust_text::holds_word(list, name)
    });
    if listed {
        return true;
    }
    let lines: Vec<&str> = code.lines().collect();
    lines.iter().enumerate().any(|(at, line)| {
        let above = lines.get(at.saturating_sub(4)..at).unwrap_or_default();
        let attribute = |line: &&str| line.trim_start().starts_with("#[") && line.contains("test");
        rust_text::holds_word(line, &declaration) && (suite || above.iter().any(attribute))
    })
}

/// The last parts of the paths that stand in backticks: `Form` for `mrtr_server::Form`.
pub(super) fn in_backticks(cell: &str) -> Vec<&str> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|path| path.rsplit("::").next())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_known_by_their_attribute_or_their_suite() {
        let code = "#[tokio::test(flavor = \"multi_thread\")]\nasync fn one() {}\n\n\n\n\npub fn two() {}\n";
        assert!(holds_test(code, "one", false));
        assert!(!holds_test(code, "two", false));
        assert!(holds_test(code, "two", true));
        let listed = "on_each_ledger! {\n    three,\n}\nfn three() {}\nfn four() {}\n";
        assert!(holds_test(listed, "three", false));
        assert!(!holds_test(listed, "four", false));
        assert!(in_suite("crates/mrtr-ledger/src/suite/claims.rs"));
        assert!(!in_suite("crates/mrtr-ledger/src/claims.rs"));
    }

    #[test]
    fn tables_are_found_by_their_head_and_keep_their_own_rows() {
        let text = "| Promise | Test |\n|---|---|\n| a | `b` |\n\n| Other | x |\n|---|---|\n| c | d |\n\n| Promise |\n|---|\n| e |\n";
        let found = tables(text, "Promise");
        let rows: Vec<(usize, Vec<usize>)> = found
            .iter()
            .map(|(head, rows)| (head.line, rows.iter().map(|row| row.line).collect()))
            .collect();
        assert_eq!(rows, [(1, vec![3]), (9, vec![11])]);
        assert_eq!(found[0].1[0].cells, ["a", "`b`"]);
    }
}
