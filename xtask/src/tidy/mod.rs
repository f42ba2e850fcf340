//! `cargo xtask tidy`: the rules that neither the compiler nor clippy keeps.
//!
//! [`read`] collects everything once into a [`Workspace`]; each check is a function over that plain data, so that a
//! test can hand it a workspace that breaks its rule (`tests.rs` does, for every one).

mod cases;
mod deprecated;
mod documents;
mod graph;
mod layers;
mod ledger;
mod manifests;
mod read;
mod rust_text;
mod sources;
mod specification;
mod tables;
#[cfg(test)]
mod tests;

use graph::Graph;

use crate::failure::Failure;

/// One rule and the function that finds what breaks it.
struct Check {
    rule: &'static str,
    find: fn(&Workspace) -> Vec<Finding>,
    severity: Severity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    Error,
    /// Worth a look; the exit code stays 0.
    Warning,
}

/// A place that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    file: String,
    line: usize,
    what: String,
    mend: String,
}

impl Finding {
    fn new(file: &str, line: usize, what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            what: what.into(),
            mend: mend.into(),
        }
    }
}

/// Everything that the checks look at.
#[derive(Debug, Clone, Default)]
struct Workspace {
    graph: Graph,
    members: Vec<Member>,
    files: Vec<File>,
}

/// A package of the workspace.
#[derive(Debug, Clone)]
struct Member {
    name: String,
    /// Relative to the root, with forward slashes.
    folder: String,
    /// The names in `[dependencies]`, optional ones and those of single platforms included.
    declared: Vec<String>,
}

/// A file that is, or would be, committed.
#[derive(Debug, Clone)]
struct File {
    /// Relative to the root, with forward slashes.
    path: String,
    /// Empty where the file is not UTF-8.
    text: String,
    /// Whether version control knows it already.
    committed: bool,
}

impl Workspace {
    fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The library crates: those that users take.
    fn crates(&self) -> impl Iterator<Item = &Member> {
        self.members
            .iter()
            .filter(|member| member.folder.starts_with("crates/"))
    }

    /// Whether a file or a folder of that path is there.
    fn exists(&self, path: &str) -> bool {
        self.files.iter().any(|file| {
            file.path
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

impl Member {
    fn manifest(&self) -> String {
        self.path("Cargo.toml")
    }

    fn path(&self, inside: &str) -> String {
        format!("{}/{inside}", self.folder)
    }
}

const fn error(rule: &'static str, find: fn(&Workspace) -> Vec<Finding>) -> Check {
    Check {
        rule,
        find,
        severity: Severity::Error,
    }
}

/// All checks, in the order in which they report.
const CHECKS: &[Check] = &[
    error(
        "dependencies follow the arrows of the workspace drawing",
        layers::arrows,
    ),
    error(
        "what a crate must not know is not in its closure of normal dependencies",
        layers::closures,
    ),
    error(
        "no dependency asks for a newer Rust than the workspace promises",
        layers::rust_versions,
    ),
    error(
        "every crate's folder is named like its package",
        manifests::folder_names,
    ),
    error(
        "the workspace forbids unsafe code and every member takes its lints",
        manifests::lints,
    ),
    error(
        "license and rust-version are the workspace's",
        manifests::inherited,
    ),
    error(
        "every crate has a README of 15 to 60 lines",
        manifests::readmes,
    ),
    error(
        "one integration binary per crate: tests/it/main.rs",
        manifests::integration_binaries,
    ),
    error(
        "an example opens with the command that runs it",
        manifests::run_commands,
    ),
    error("Cargo.lock is committed", manifests::lock_file),
    error(
        "only `SystemClock` reads the wall clock",
        sources::wall_clock,
    ),
    error("a MAC is compared whole", sources::truncated_macs),
    error("what is checked is checked in every build", sources::builds),
    error(
        "what is public of sampling and roots says that it is deprecated",
        deprecated::sampling_and_roots,
    ),
    error(
        "no placeholders in what is committed",
        sources::placeholders,
    ),
    error(
        "no file names a package registry's host",
        sources::registry_hosts,
    ),
    error(
        "links to files in this repository lead somewhere",
        documents::links,
    ),
    error(
        "the README's code is the code of examples/readme",
        documents::readme_code,
    ),
    error(
        "docs/errors.md explains every code and every reason",
        documents::error_page,
    ),
    error(
        "the README's table names types and tests that exist",
        tables::readme,
    ),
    error(
        "each promise of docs/threat-model.md names a test that exists",
        tables::threat_model,
    ),
    error(
        "each row of docs/specification.md says what keeps its rule and which test shows it, or why not",
        specification::rows,
    ),
    error(
        "docs/specification.md covers as many rules of each page as it says that the page has",
        specification::counts,
    ),
    error(
        "no row of docs/specification.md waits for what is not built yet",
        specification::open,
    ),
    error(
        "docs/ledger.md has each rule of the model, the promise that rests on it, and a test that exists",
        ledger::rules,
    ),
    error(
        "what docs/ledger.md has beside the model's rules has a reason and a test that exists",
        ledger::others,
    ),
    error(
        "each row of docs/cases.md has a test, a command or a reason, and each test of a case is in its row",
        cases::rows,
    ),
    error("README.md leads to every guide in docs/", documents::guides),
    error("ARCHITECTURE.md names each crate", documents::architecture),
    error(
        "CHANGELOG.md has an Unreleased section, and its bullets say what kind of change they are",
        documents::changelog,
    ),
    Check {
        rule: "a file of more than 700 lines may hold a second idea",
        find: sources::long_files,
        severity: Severity::Warning,
    },
];

/// Reads the workspace and reports what breaks a rule.
pub(crate) fn run() -> Result<(), Failure> {
    let workspace = read::workspace()?;
    let mut errors = 0_usize;
    let mut warnings = 0_usize;
    for check in CHECKS {
        for finding in (check.find)(&workspace) {
            let label = match check.severity {
                Severity::Error => {
                    errors += 1;
                    "error"
                }
                Severity::Warning => {
                    warnings += 1;
                    "warning"
                }
            };
            let Finding {
                file,
                line,
                what,
                mend,
            } = finding;
            eprintln!(
                "{label}: {file}:{line}: {what}\n  rule: {}\n  mend: {mend}",
                check.rule
            );
        }
    }
    eprintln!(
        "tidy: {} rules over {} packages and {} files: {errors} errors, {warnings} warnings",
        CHECKS.len(),
        workspace.members.len(),
        workspace.files.len()
    );
    if errors == 0 {
        Ok(())
    } else {
        Err(Failure::failed(
            format!("tidy found {errors} errors"),
            "each is listed above with its place and how to mend it",
        ))
    }
}

/// The first line (from 1) that holds a text; 1 where none does.
fn line_of(text: &str, needle: &str) -> usize {
    text.lines()
        .position(|line| line.contains(needle))
        .map_or(1, |index| index + 1)
}

/// The lines of a text, numbered from 1.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines())
}
