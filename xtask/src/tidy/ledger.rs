//! docs/ledger.md: every rule of the model has a row that says what breaks without it and which test shows it.
//!
//! The model names its rules in [`RULES`], one after the other: `Turn "name" in SCENARIO for Promise: "rule"`. Whether the promise
//! falls when the rule is turned is what `cargo xtask model` finds out; here it is checked that the page says the same,
//! rule for rule. What the page has beside that needs a reason and a test.

use std::collections::BTreeMap;

use super::tables::{Row, Sources, in_backticks, tables};
use super::{Finding, Workspace, numbered};

const PAGE: &str = "docs/ledger.md";
/// Where the model names its rules.
const RULES: &str = "model/src/turn.rs";
/// The columns of a table of rules.
const COLUMNS: [&str; 4] = ["Rule", "Switch", "Falls", "Test"];
/// The columns of the table of what is no rule of the model.
const OTHERS: [&str; 3] = ["Said", "Why it is no switch", "Test"];
/// A reason of fewer words is none.
const REASON_WORDS: usize = 4;

/// A rule of the model.
struct Rule<'a> {
    line: usize,
    name: &'a str,
    promise: String,
    text: &'a str,
}

/// The tables of rules, against the model's own list.
pub(super) fn rules(workspace: &Workspace) -> Vec<Finding> {
    let page = text(workspace, PAGE);
    let rules = named(text(workspace, RULES));
    if rules.is_empty() {
        let mend = "if the list has moved, name its new place in xtask/src/tidy/ledger.rs";
        return vec![Finding::new(RULES, 1, "no rules were found here", mend)];
    }
    let sources = Sources::of(workspace);
    let mut findings = Vec::new();
    let mut left: BTreeMap<&str, &Rule<'_>> = rules.iter().map(|rule| (rule.name, rule)).collect();
    for (head, rows) in tables(page, COLUMNS[0]) {
        if head.cells != COLUMNS {
            findings.push(columns(&head, &COLUMNS));
            continue;
        }
        for row in rows {
            let switch = in_backticks(row.cell(1));
            let rule = match switch.as_slice() {
                [name] => left.remove(name),
                _ => None,
            };
            match rule {
                Some(rule) => findings.extend(differs(&row, rule)),
                None => findings.push(Finding::new(
                    PAGE,
                    row.line,
                    format!(
                        "{} is no rule of the model that has no row yet",
                        row.cell(1)
                    ),
                    format!("name one of {RULES} in backticks, each once"),
                )),
            }
            findings.extend(tests(&row, 3, &sources));
        }
    }
    findings.extend(left.into_values().map(|rule| {
        Finding::new(
            RULES,
            rule.line,
            format!("{PAGE} has no row of `{}`", rule.name),
            "say there what the rule is, what falls without it, and which test shows it",
        )
    }));
    findings
}

/// The table of what is said and is no rule of the model.
pub(super) fn others(workspace: &Workspace) -> Vec<Finding> {
    let sources = Sources::of(workspace);
    let mut findings = Vec::new();
    for (head, rows) in tables(text(workspace, PAGE), OTHERS[0]) {
        if head.cells != OTHERS {
            findings.push(columns(&head, &OTHERS));
            continue;
        }
        for row in rows {
            if row.cell(1).split_whitespace().count() < REASON_WORDS {
                findings.push(Finding::new(
                    PAGE,
                    row.line,
                    "a row without a reason",
                    "say why the model has no such rule",
                ));
            }
            findings.extend(tests(&row, 2, &sources));
        }
    }
    findings
}

fn text<'w>(workspace: &'w Workspace, path: &str) -> &'w str {
    workspace.file(path).map_or("", |file| file.text.as_str())
}

/// The model's rules, from their lines and the lines below.
fn named(source: &str) -> Vec<Rule<'_>> {
    let lines: Vec<(usize, &str)> = numbered(source).collect();
    let next = lines.iter().skip(1).map(|(_, text)| text.trim());
    let mut rules = Vec::new();
    for ((line, first), second) in lines.iter().zip(next) {
        let Some((head, promise)) = first.trim().split_once(" for ") else {
            continue;
        };
        let quoted = |text: &'_ str| text.split('"').nth(1).map(str::len);
        let (Some(_), Some(promise)) = (quoted(head), promise.strip_suffix(':')) else {
            continue;
        };
        rules.push(Rule {
            line: *line,
            name: head.split('"').nth(1).unwrap_or_default(),
            promise: spelt(promise),
            text: second.trim_matches('"'),
        });
    }
    rules
}

/// `AtMostOnce` as `at-most-once`.
fn spelt(promise: &str) -> String {
    let mut name = String::new();
    for c in promise.chars() {
        if c.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(c.to_lowercase());
    }
    name
}

/// What a row says otherwise than the model does.
fn differs(row: &Row<'_>, rule: &Rule<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if row.cell(0) != rule.text {
        findings.push(Finding::new(
            PAGE,
            row.line,
            format!("the model calls the rule {:?}", rule.text),
            "say the same in both places",
        ));
    }
    if in_backticks(row.cell(2)) != [rule.promise.as_str()] {
        findings.push(Finding::new(
            PAGE,
            row.line,
            format!(
                "in the model it is `{}` that rests on the rule",
                rule.promise
            ),
            "name that promise in backticks, and no other",
        ));
    }
    findings
}

fn tests(row: &Row<'_>, at: usize, sources: &Sources) -> Vec<Finding> {
    let names = in_backticks(row.cell(at));
    if names.is_empty() {
        let what = "a row that names no test";
        return vec![Finding::new(PAGE, row.line, what, "name it in backticks")];
    }
    let missing = names.into_iter().filter(|name| !sources.have_test(name));
    let finding = |name| {
        let what = format!("no test is called `{name}`");
        Finding::new(PAGE, row.line, what, "name one that is there")
    };
    missing.map(finding).collect()
}

fn columns(head: &Row<'_>, columns: &[&str]) -> Finding {
    Finding::new(
        PAGE,
        head.line,
        "a table with other columns",
        format!("give it the columns {}", columns.join(", ")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_the_model_has_them() {
        let source = "macro for nothing:\nrules! {\n    // The key.\n    OneTokenOwns \"one-token-owns\" in FORK for AtMostOnce:\n        \"A token owns it.\"\n}\n";
        let rules = named(source);
        let found: Vec<_> = rules
            .iter()
            .map(|rule| (rule.line, rule.name, rule.promise.as_str(), rule.text))
            .collect();
        assert_eq!(
            found,
            [(4, "one-token-owns", "at-most-once", "A token owns it.")]
        );
    }
}
