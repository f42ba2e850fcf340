//! docs/specification.md: every rule of the protocol's specification is a row, and what each row names has to be there.
//!
//! A row names what keeps its rule, and a test that fails when it is broken; or it says why there is nothing to test. Tests are
//! named as `cargo test` runs them, package and path, so that a renamed test or one that moved leaves its row behind. Whether a
//! test shows what its row says is for readers to judge.

use std::collections::{BTreeMap, HashSet};

use super::tables::{Row, in_suite, tables};
use super::{File, Finding, Member, Workspace, rust_text};

const PAGE: &str = "docs/specification.md";
/// The columns of a table of rules.
const COLUMNS: [&str; 7] = ["Id", "Section", "Level", "Rule", "Side", "Kept by", "Test"];
/// The columns of the table of pages, which says how many rules each has.
const PAGES: [&str; 4] = ["Page", "Rows", "MUST", "SHOULD"];
/// Whom a rule can bind.
const SIDES: [&str; 6] = ["server", "client", "both", "host", "author", "proxy"];
/// How the specification says that something is a rule, and whether it is one that must be kept.
const LEVELS: [(&str, bool); 5] = [
    ("MUST", true),
    ("MUST NOT", true),
    ("REQUIRED", true),
    ("SHOULD", false),
    ("SHOULD NOT", false),
];
/// A reason of fewer words is none.
const REASON_WORDS: usize = 4;
/// How the reason of a row begins whose rule waits for something that is not built yet.
const OPEN: &str = "open:";

/// The rows, the ids, and what they name.
pub(super) fn rows(workspace: &Workspace) -> Vec<Finding> {
    let text = workspace.file(PAGE).map_or("", |file| file.text.as_str());
    let tables = tables(text, COLUMNS[0]);
    if tables.iter().all(|(_, rows)| rows.is_empty()) {
        return vec![finding(
            1,
            "no table of rules",
            "add one for each page of the specification",
        )];
    }
    let names = Names::of(workspace);
    let mut findings = Vec::new();
    let mut seen = HashSet::new();
    for (head, rows) in &tables {
        if head.cells != COLUMNS {
            findings.push(finding(
                head.line,
                "a table of rules with other columns",
                format!("give it the columns {}", COLUMNS.join(", ")),
            ));
            continue;
        }
        findings.extend(ids(rows, &mut seen));
        for row in rows {
            findings.extend(check_row(row, &names));
        }
    }
    findings
}

/// The table of pages: for each prefix, as many rules as the page of the specification has.
pub(super) fn counts(workspace: &Workspace) -> Vec<Finding> {
    let text = workspace.file(PAGE).map_or("", |file| file.text.as_str());
    let mut claimed: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let rules = tables(text, COLUMNS[0]);
    for row in rules.iter().flat_map(|(_, rows)| rows) {
        let (must, should) = levels(row.cell(2)).unwrap_or_default();
        let (musts, shoulds) = claimed.entry(prefix(row.cell(0))).or_default();
        *musts += must;
        *shoulds += should;
    }
    let pages = tables(text, PAGES[0]);
    let [(head, pages)] = &pages[..] else {
        return vec![finding(
            1,
            "not one table of pages",
            format!(
                "say how many rules each page has, with the columns {}",
                PAGES.join(", ")
            ),
        )];
    };
    if head.cells != PAGES {
        return vec![finding(
            head.line,
            "a table of pages with other columns",
            format!("give it the columns {}", PAGES.join(", ")),
        )];
    }
    let mut findings = Vec::new();
    for page in pages {
        let (must, should) = claimed.remove(page.cell(1)).unwrap_or_default();
        for (column, counted) in [(2, must), (3, should)] {
            if page.cell(column) != counted.to_string() {
                findings.push(finding(
                    page.line,
                    format!(
                        "{} says {} {}, and its rows cover {counted}",
                        page.cell(0),
                        page.cell(column),
                        PAGES.get(column).copied().unwrap_or_default(),
                    ),
                    "cover each of them in a row whose level says so",
                ));
            }
        }
    }
    for prefix in claimed.keys() {
        findings.push(finding(
            head.line,
            format!("no page has the rows {prefix}"),
            "add the page, and how many rules it has",
        ));
    }
    findings
}

/// Rules that wait for something that is not built yet.
pub(super) fn open(workspace: &Workspace) -> Vec<Finding> {
    let text = workspace.file(PAGE).map_or("", |file| file.text.as_str());
    let rules = tables(text, COLUMNS[0]);
    let open: Vec<&Row<'_>> = rules
        .iter()
        .flat_map(|(_, rows)| rows)
        .filter(|row| row.cell(6).starts_with(OPEN))
        .collect();
    let Some(first) = open.first() else {
        return Vec::new();
    };
    let ids: Vec<&str> = open.iter().map(|row| row.cell(0)).collect();
    vec![finding(
        first.line,
        format!("{} rows are open: {}", ids.len(), ids.join(" ")),
        "name the test once there is one",
    )]
}

fn finding(line: usize, what: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding::new(PAGE, line, what, mend)
}

/// Ids are a prefix of the table's own and a number that counts up.
fn ids<'a>(rows: &[Row<'a>], seen: &mut HashSet<&'a str>) -> Vec<Finding> {
    let first = rows.first().map_or("", |row| prefix(row.cell(0)));
    let mut findings = Vec::new();
    if !first.is_empty() && !seen.insert(first) {
        findings.push(finding(
            rows.first().map_or(1, |row| row.line),
            format!("a second table of the rows {first}"),
            "one table for each page, with a prefix of its own",
        ));
    }
    for (number, row) in (1..).zip(rows) {
        let expected = format!("{first}-{number:02}");
        if row.cell(0) != expected {
            findings.push(finding(
                row.line,
                format!("the id is {}, and {expected} is the next", row.cell(0)),
                "number the rows of a table from 01, without a gap and none twice",
            ));
        }
    }
    findings
}

fn prefix(id: &str) -> &str {
    id.rsplit_once('-').map_or(id, |(prefix, _)| prefix)
}

fn check_row(row: &Row<'_>, names: &Names) -> Vec<Finding> {
    let wrong = |what: String, mend: &str| vec![finding(row.line, what, mend)];
    if row.cells.len() != COLUMNS.len() {
        return wrong(
            format!("a row of {} cells", row.cells.len()),
            "fill every column; write no `|` inside of a cell",
        );
    }
    for (cell, column) in row.cells.iter().zip(COLUMNS) {
        if cell.is_empty() && column != "Kept by" {
            return wrong(format!("nothing under `{column}`"), "fill it in");
        }
    }
    if levels(row.cell(2)).is_none() {
        return wrong(
            format!("the level {:?} is none", row.cell(2)),
            "write MUST, MUST NOT, REQUIRED, SHOULD or SHOULD NOT, with `×2` behind one that is covered twice",
        );
    }
    if !SIDES.contains(&row.cell(4)) {
        return wrong(
            format!("a rule binds no {:?}", row.cell(4)),
            "name a side that the page's introduction explains",
        );
    }
    let mut findings = Vec::new();
    for name in quoted(row.cell(5)) {
        let last = name.rsplit("::").next().unwrap_or(name);
        if !names.declared.contains(last) {
            findings.extend(wrong(
                format!("nothing is declared by the name `{name}`"),
                "name a type, function, constant or module that is there",
            ));
        }
    }
    let last = row.cell(6);
    if !last.starts_with('`') {
        if !last.starts_with(OPEN) && last.split_whitespace().count() < REASON_WORDS {
            findings.extend(wrong(
                "a row with neither a test nor a reason".to_owned(),
                "name the test that fails when the rule is broken, or say why there is none",
            ));
        }
        return findings;
    }
    if quoted(row.cell(5)).is_empty() {
        findings.extend(wrong(
            "a row with a test that does not say what keeps its rule".to_owned(),
            "name the type or function in backticks",
        ));
    }
    for test in quoted(last) {
        if !names.tests.contains(test) {
            findings.extend(wrong(
                format!("no test is called `{test}`"),
                &names.instead_of(test),
            ));
        }
    }
    findings
}

/// How many rules that must be kept, and that should, a cell such as `MUST ×2, SHOULD` covers.
fn levels(cell: &str) -> Option<(usize, usize)> {
    let (mut must, mut should) = (0, 0);
    for part in cell.split(", ") {
        let (word, times) = match part.split_once(" ×") {
            Some((word, times)) => (word, times.parse().ok().filter(|times| *times > 1)?),
            None => (part, 1_usize),
        };
        let (_, binding) = LEVELS.iter().find(|(level, _)| *level == word)?;
        *(if *binding { &mut must } else { &mut should }) += times;
    }
    Some((must, should))
}

fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// What the sources declare.
struct Names {
    declared: HashSet<String>,
    /// `package path::of::test`.
    tests: HashSet<String>,
}

impl Names {
    fn of(workspace: &Workspace) -> Self {
        let mut names = Self {
            declared: HashSet::new(),
            tests: HashSet::new(),
        };
        for file in workspace
            .files
            .iter()
            .filter(|file| file.path.ends_with(".rs"))
        {
            let code = rust_text::code(&file.text);
            names.declared.extend(declared(&code));
            if let Some((member, path)) = module(workspace, file) {
                let found = tests(&code, in_suite(&file.path));
                names.tests.extend(found.into_iter().map(|inside| {
                    let parts: Vec<&str> = path
                        .iter()
                        .copied()
                        .chain(inside.iter().map(String::as_str))
                        .collect();
                    format!("{} {}", member.name, parts.join("::"))
                }));
            }
        }
        names
    }

    /// Where a test of the same name is, if there is one.
    fn instead_of(&self, test: &str) -> String {
        let last = |test: &str| {
            test.rsplit([' ', ':'])
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        let mut found: Vec<&str> = self
            .tests
            .iter()
            .filter(|known| last(known) == last(test))
            .map(String::as_str)
            .collect();
        found.sort_unstable();
        match found.first() {
            Some(found) => format!("there is `{found}`"),
            None => "name one that is there as `package path::of::the_test`".to_owned(),
        }
    }
}

/// The package of a file, and the module that the file is.
fn module<'w>(workspace: &'w Workspace, file: &'w File) -> Option<(&'w Member, Vec<&'w str>)> {
    workspace.members.iter().find_map(|member| {
        let inside = file.path.strip_prefix(&member.folder)?.strip_prefix('/')?;
        let inside = inside
            .strip_prefix("src/")
            .or_else(|| inside.strip_prefix("tests/it/"))?;
        let mut path: Vec<&str> = inside.strip_suffix(".rs")?.split('/').collect();
        let is_root = path.len() == 1 && matches!(path.last(), Some(&("lib" | "main")));
        if is_root || path.last() == Some(&"mod") {
            path.pop();
        }
        Some((member, path))
    })
}

/// The names behind the words that declare something.
fn declared(code: &str) -> impl Iterator<Item = String> {
    const WORDS: [&str; 9] = [
        "struct", "enum", "union", "trait", "type", "fn", "const", "static", "mod",
    ];
    let mut before = "";
    words(code).filter_map(move |word| {
        let declares = WORDS.contains(&before);
        before = word;
        declares.then(|| word.to_owned())
    })
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
}

/// The paths, inside of a file, of its functions with a test's attribute; with `suite`, of all its functions.
fn tests(code: &str, suite: bool) -> Vec<Vec<String>> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    // The inline modules around a line, and how deep each of them stands.
    let mut modules: Vec<(&str, usize)> = Vec::new();
    let mut depth = 0_usize;
    for (at, line) in lines.iter().enumerate() {
        let mut before = "";
        for word in words(line) {
            if before == "fn" && (suite || is_test(lines.get(..at).unwrap_or_default())) {
                let path = modules.iter().map(|(name, _)| *name).chain([word]);
                found.push(path.map(str::to_owned).collect());
            }
            if before == "mod" && line.trim_end().ends_with('{') {
                modules.push((word, depth));
            }
            before = word;
        }
        for c in line.chars() {
            match c {
                '{' => depth += 1,
                '}' => {
                    depth = depth.saturating_sub(1);
                    modules.retain(|(_, outside)| *outside < depth);
                }
                _ => {}
            }
        }
    }
    found
}

/// Whether the attributes that end these lines make a test of what follows. One that is ignored shows nothing.
fn is_test(above: &[&str]) -> bool {
    let has = |word: &str| {
        above
            .iter()
            .rev()
            .map(|line| line.trim())
            .take_while(|line| line.is_empty() || line.starts_with("#["))
            .any(|line| words(line).any(|it| it == word) && !line.starts_with("#[cfg"))
    };
    has("test") && !has("ignore")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted() {
        assert_eq!(levels("MUST"), Some((1, 0)));
        assert_eq!(levels("MUST ×2, MUST NOT, SHOULD"), Some((3, 1)));
        assert_eq!(levels("REQUIRED, SHOULD NOT ×3"), Some((1, 3)));
        for bad in [
            "",
            "must",
            "MUST ×1",
            "MUST ×",
            "MUST SHOULD",
            "MUST,SHOULD",
        ] {
            assert_eq!(levels(bad), None, "{bad}");
        }
    }

    #[test]
    fn tests_are_found_with_their_modules() {
        let code = "#[test]\nfn one() { x }\nfn no_test() {}\nmod a {\n    mod b {\n        #[tokio::test(start_paused = true)]\n\n        async fn two() {\n        }\n    }\n    proptest! {\n        #[test]\n        fn three(x in any()) {}\n    }\n}\n#[test]\n#[ignore]\nfn ignored() {}\n#[cfg(test)]\nfn helper() {}\n#[test]\nfn four() {}\n";
        let found = |suite| -> Vec<String> {
            let paths = super::tests(code, suite);
            paths.iter().map(|path| path.join("::")).collect()
        };
        assert_eq!(found(false), ["one", "a::b::two", "a::three", "four"]);
        assert!(found(true).contains(&"helper".to_owned()));
    }

    #[test]
    fn names_are_those_that_something_declares() {
        let code = "pub(crate) async fn f() {}\npub struct S<T>(T);\nuse a::B;\nconst C: u8 = D;";
        assert_eq!(declared(code).collect::<Vec<_>>(), ["f", "S", "C"]);
    }
}
