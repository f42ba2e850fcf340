//! Words that must not stand in sources.

use super::rust_text::{self, holds_word};
use super::{File, Finding, Workspace, numbered};

/// The one file that may read the wall clock.
const CLOCK: &str = "crates/mrtr-state/src/time.rs";

/// What reads the wall clock, or silences the lint that forbids it.
const WALL_CLOCK: &[&str] = &[
    "SystemTime::now",
    "UNIX_EPOCH",
    "Utc::now",
    "Local::now",
    "OffsetDateTime::now",
    "clippy::disallowed_methods",
];

/// Crates whose every time is a `Timestamp` of their caller's clock: a monotonic clock pinned to a start would be a
/// wall clock by another name.
const TIMELESS: &[&str] = &[
    "crates/mrtr-protocol/",
    "crates/mrtr-state",
    "crates/mrtr-ledger/",
];

// Spelt in two halves, so that this file does not break the rules that it holds.
const TRUNCATED_MAC: &str = concat!("verify_", "truncated");
const PLACEHOLDERS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("db", "g!"),
];
const REGISTRY_HOSTS: &[&str] = &[
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("files.python", "hosted.org"),
    concat!("registry.", "npmjs.org"),
    concat!("deb.", "debian.org"),
];

/// What makes a build another one.
const BUILD_WORDS: &[&str] = &[
    "debug_assertions",
    "debug_assert",
    "cfg(feature",
    "cfg!(",
    "feature =",
];
/// Crates whose checks must be the same in every build.
const CHECKING: &[&str] = &[
    "crates/mrtr-protocol/src/",
    "crates/mrtr-state",
    "crates/mrtr-ledger",
    "crates/mrtr-server/src/",
    "crates/mrtr-client/src/",
];
/// Where a feature adds something that checks nothing: the process's own standard input and output.
const ADDS_ALONE: &str = "crates/mrtr-server/src/stdio/mod.rs";

const LONG: usize = 700;

pub(super) fn wall_clock(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !workspace.exists(CLOCK) {
        findings.push(Finding::new(
            CLOCK,
            1,
            "the one file that may read the wall clock is missing",
            "if it was moved, name its new place in xtask/src/tidy/sources.rs",
        ));
    }
    for file in rust_files(workspace).filter(|file| file.path != CLOCK && !is_test(&file.path)) {
        let code = rust_text::code_outside_tests(&file.text);
        // A measurement of a crate is no part of it.
        let timeless = TIMELESS.iter().any(|folder| file.path.starts_with(folder))
            && !file.path.contains("/examples/");
        let monotonic: &[&str] = if timeless { &["Instant::now"] } else { &[] };
        for (number, line) in numbered(&code) {
            for word in WALL_CLOCK
                .iter()
                .chain(monotonic)
                .filter(|word| holds_word(line, word))
            {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("`{word}` outside of {CLOCK}"),
                    "take a `Clock`, or the time itself, from the caller",
                ));
            }
        }
    }
    findings
}

pub(super) fn truncated_macs(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in rust_files(workspace) {
        for (number, line) in numbered(&rust_text::code(&file.text)) {
            if line.contains(TRUNCATED_MAC) {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    "a truncated MAC is accepted in part",
                    "verify all bytes with `verify_slice` or compare them in constant time",
                ));
            }
        }
    }
    findings
}

/// A check that a build can leave out is left out in somebody's.
pub(super) fn builds(workspace: &Workspace) -> Vec<Finding> {
    let checking = |path: &str| CHECKING.iter().any(|folder| path.starts_with(folder));
    let mut findings = Vec::new();
    for file in rust_files(workspace)
        .filter(|file| checking(&file.path) && file.path.contains("/src/") && !is_test(&file.path))
    {
        let code = rust_text::code_outside_tests(&file.text);
        for (number, line) in numbered(&code) {
            let word = BUILD_WORDS.iter().find(|word| line.contains(**word));
            if let Some(word) = word.filter(|_| file.path != ADDS_ALONE) {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("`{word}`: what is checked depends on the build"),
                    "check it always; what takes a guard off is a type of mrtr-testkit whose name says so",
                ));
            }
        }
    }
    findings
}

pub(super) fn placeholders(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in workspace.files.iter().filter(|file| is_source(&file.path)) {
        for (number, line) in numbered(&file.text) {
            for word in PLACEHOLDERS.iter().filter(|word| holds_word(line, word)) {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("`{word}`"),
                    "do it, or say in a sentence what the limitation is and what it means",
                ));
            }
        }
    }
    findings
}

pub(super) fn registry_hosts(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &workspace.files {
        for (number, line) in numbered(&file.text) {
            // Cargo writes these itself; they name the index's repository.
            if file.path.ends_with("Cargo.lock")
                && line.starts_with("source = \"registry+https://github.com/")
            {
                continue;
            }
            for host in REGISTRY_HOSTS.iter().filter(|host| line.contains(**host)) {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("`{host}`"),
                    "name the package; where packages come from is the machine's configuration",
                ));
            }
        }
    }
    findings
}

pub(super) fn long_files(workspace: &Workspace) -> Vec<Finding> {
    rust_files(workspace)
        .filter(|file| file.path.starts_with("crates/") && file.path.contains("/src/"))
        .filter_map(|file| {
            let lines = file.text.lines().count();
            (lines > LONG).then(|| {
                Finding::new(
                    &file.path,
                    LONG,
                    format!("{lines} lines"),
                    "split it where a second idea starts, if there is one",
                )
            })
        })
        .collect()
}

fn rust_files(workspace: &Workspace) -> impl Iterator<Item = &File> {
    workspace
        .files
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
}

fn is_source(path: &str) -> bool {
    let extension = path
        .rsplit('/')
        .next()
        .and_then(|name| name.rsplit_once('.'))
        .map(|(_, end)| end);
    matches!(
        extension,
        Some("rs" | "toml" | "md" | "py" | "sh" | "sql" | "yml" | "yaml")
    ) || path.starts_with(".ci/")
}

/// Tests may read any clock: integration tests, benches and modules in a file `tests.rs` or a folder `tests`.
fn is_test(path: &str) -> bool {
    path.split('/')
        .any(|part| matches!(part, "tests" | "benches" | "tests.rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_are_known_by_their_path() {
        for path in [
            "crates/a/tests/it/main.rs",
            "crates/a/src/seal/tests.rs",
            "crates/a/benches/b.rs",
        ] {
            assert!(is_test(path), "{path}");
        }
        for path in [
            "crates/a/src/tests_of_time.rs",
            "crates/mrtr-testkit/src/lib.rs",
        ] {
            assert!(!is_test(path), "{path}");
        }
    }
}
