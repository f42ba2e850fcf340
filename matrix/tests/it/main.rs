//! Builds the matrix four times, runs each build, and compares what they say.
//!
//! Each build is a cargo of its own, so that it has the features that are named here and not those of the tests' own build.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "in a test, what panics has failed"
)]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// A build: the features that it is asked for, and those that its serde_json must then have.
struct Build {
    asked: &'static str,
    measured: &'static str,
    program: PathBuf,
}

const BUILDS: [(&str, &str); 4] = [
    ("", ""),
    ("arbitrary_precision", "arbitrary_precision"),
    ("server", "preserve_order"),
    (
        "server,arbitrary_precision",
        "preserve_order+arbitrary_precision",
    ),
];

/// The four, for every test of this binary.
static FOUR: LazyLock<Vec<Build>> = LazyLock::new(|| {
    let builds = builds();
    for build in &builds {
        // Without this the four might be one.
        let measured = build.run("features", "");
        assert_eq!(measured, [build.measured], "asked for {:?}", build.asked);
    }
    builds
});

/// Builds them one after the other, each copied away before the next takes its place.
fn builds() -> Vec<Build> {
    let build = |(number, (asked, measured)): (usize, (&'static str, &'static str))| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "build",
            "--quiet",
            "--locked",
            "--message-format",
            "json-render-diagnostics",
        ]);
        cargo.args([
            "-p",
            "matrix",
            "--bin",
            "matrix",
            "--no-default-features",
            "--features",
            asked,
        ]);
        cargo
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stderr(Stdio::inherit());
        for (name, _) in std::env::vars_os() {
            // What cargo sets for the tests that it runs: some build scripts watch it, and would build their crates again.
            let of_tests =
                |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
            if name.to_str().is_some_and(of_tests) {
                cargo.env_remove(name);
            }
        }
        let output = cargo.output().unwrap();
        assert!(output.status.success(), "the build with {asked:?} failed");
        let messages = String::from_utf8(output.stdout).unwrap();
        let built = messages
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
            .next_back()
            .expect("cargo names what it built");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("matrix-{number}"));
        std::fs::copy(built, &program).unwrap();
        Build {
            asked,
            measured,
            program,
        }
    };
    BUILDS.into_iter().enumerate().map(build).collect()
}

impl Build {
    /// Its lines. What `input` holds is written by a thread, because the program may write before it has read all.
    fn run(&self, mode: &str, input: &str) -> Vec<String> {
        let mut command = Command::new(&self.program);
        command
            .arg(mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        // A mode that reads nothing may be gone before all of it is written.
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().unwrap();
        drop(writer.join().unwrap());
        assert!(
            output.status.success(),
            "`matrix {mode}` with {:?} failed",
            self.asked
        );
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn has_server(&self) -> bool {
        self.asked.starts_with("server")
    }

    /// Its verdicts by section and input.
    fn verdicts(&self) -> BTreeMap<(String, String), Vec<String>> {
        let mut verdicts: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for line in self.run("verdicts", "") {
            let mut cells = line.splitn(3, '\t').map(str::to_owned);
            let mut cell = || {
                cells
                    .next()
                    .unwrap_or_else(|| panic!("half a line: {line}"))
            };
            verdicts.entry((cell(), cell())).or_default().push(cell());
        }
        verdicts
    }
}

/// What is said of the same input in the sections that are chosen, where it differs.
fn differences(builds: &[Build], chosen: impl Fn(&str) -> bool) -> Vec<String> {
    let all: Vec<_> = builds.iter().map(Build::verdicts).collect();
    let mut differences = Vec::new();
    for (build, verdicts) in builds.iter().zip(&all) {
        // The sections of the server are in two of the four.
        let first = usize::from(build.has_server()) * 2;
        for (key, verdict) in verdicts.iter().filter(|(key, _)| chosen(&key.0)) {
            let expected = all[0].get(key).or_else(|| all[first].get(key));
            if expected != Some(verdict) {
                differences.push(format!(
                    "{} of {} with {:?}: {verdict:?}, and elsewhere {expected:?}",
                    key.0, key.1, build.asked
                ));
            }
        }
        let missing = all[0].keys().find(|key| !verdicts.contains_key(*key));
        assert_eq!(missing, None, "{:?} says nothing of it", build.asked);
    }
    differences
}

#[test]
fn case_058_four_builds_digest_alike_and_open_each_other_s_states() {
    let differences = differences(&FOUR, |section| {
        section.contains("digest") || section.contains("bytes")
    });
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    sealed_here_opened_there(&FOUR);
    asked_here_answered_there(&FOUR);
}

#[test]
fn case_059_four_builds_accept_and_refuse_alike() {
    let differences = differences(&FOUR, |_| true);
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

/// A state of one build opens in every other, for the same arguments in whatever build's reading.
fn sealed_here_opened_there(builds: &[Build]) {
    for sealing in builds {
        let sealed = sealing.run("seal", "");
        assert!(sealed.len() > 100, "{} states", sealed.len());
        for opening in builds {
            let opened = opening.run("open", &sealed.join("\n"));
            assert_eq!(opened.len(), sealed.len());
            let refused: Vec<_> = opened
                .iter()
                .filter(|line| !line.ends_with("\topened"))
                .collect();
            assert!(
                refused.is_empty(),
                "sealed with {:?}, opened with {:?}: {refused:?}",
                sealing.asked,
                opening.asked
            );
        }
    }
}

/// A flow that one build began is ended by another.
fn asked_here_answered_there(builds: &[Build]) {
    for asking in builds.iter().filter(|build| build.has_server()) {
        let asked = asking.run("ask", "");
        assert!(asked.len() > 50, "{} states", asked.len());
        for answering in builds.iter().filter(|build| build.has_server()) {
            let answered = answering.run("answer", &asked.join("\n"));
            assert_eq!(answered.len(), asked.len());
            let refused: Vec<_> = answered
                .iter()
                .filter(|line| !line.contains("says \"Some("))
                .collect();
            assert!(
                refused.is_empty(),
                "asked with {:?}, answered with {:?}: {refused:?}",
                asking.asked,
                answering.asked
            );
        }
    }
}
