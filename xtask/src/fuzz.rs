//! `cargo xtask fuzz`: arbitrary bytes into everything that reads what others wrote, target by target.
//!
//! The targets are a workspace of their own under fuzz/, in the layout of cargo-fuzz. Here they are built without it, by the compiler that
//! builds the rest: coverage is an LLVM pass that every release of rustc has, and libFuzzer is linked as a library. There is no `unsafe` in
//! the project, so no sanitizer; what is looked for is a broken promise, and the targets assert those.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cargo::{self, cargo};
use crate::failure::Failure;
use crate::heading;

const HELP: &str = "\
cargo xtask fuzz [--seconds N] [--json] [TARGET]..
cargo xtask fuzz --input FILE TARGET

  Feeds each TARGET (without one: all of them) for N seconds with what it has not seen yet, one after the other. What a target
  asserts is in fuzz/src; it begins from fuzz/seeds and from what earlier runs found worth keeping in target/fuzz/corpus.

    --seconds N     for each target; 60 without it
    --json          one JSON object for all targets on stdout, nothing else there
    --input FILE    one input, to repeat a finding

  A finding is an input, written to target/fuzz/findings/TARGET. Exit 1: there was one. libFuzzer is compiled from C++.
";

/// What the pass is told: edge counters in a table, and the operands of comparisons.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing";

/// The longest input, in bytes: a few requests.
const LONGEST: usize = 8 << 10;

/// Lines of a target's output that are shown when it fails.
const TAIL: usize = 60;

/// Between two signs of life.
const PULSE: Duration = Duration::from_secs(15);

#[derive(Debug, PartialEq, Eq)]
struct Options {
    seconds: u64,
    as_json: bool,
    input: Option<PathBuf>,
    targets: Vec<String>,
}

/// Builds and runs the targets.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let Some(options) = parse(args)? else {
        return Ok(io::stdout().write_all(HELP.as_bytes())?);
    };
    let all = targets()?;
    if let Some(unknown) = options.targets.iter().find(|target| !all.contains(target)) {
        return Err(Failure::usage(format!(
            "there is no target `{unknown}`; the targets are {}",
            all.join(", ")
        )));
    }
    if let Some(reason) = missing() {
        if std::env::var_os("CI").is_some() {
            return Err(Failure::failed(reason, "install it: .ci/run does"));
        }
        eprintln!("skipped: {reason}");
        return Ok(());
    }
    let chosen = if options.targets.is_empty() {
        all
    } else {
        options.targets
    };
    heading("building the targets");
    let programs = build()?;
    if let Some(input) = options.input {
        return repeat(&programs, &chosen, &input);
    }
    let mut reports = Vec::new();
    for target in chosen {
        heading(&format!("{target}, {} s", options.seconds));
        reports.push(fuzz(&programs, target, options.seconds)?);
    }
    summarize(&reports, options.as_json)
}

fn parse(args: &[String]) -> Result<Option<Options>, Failure> {
    let mut options = Options {
        seconds: 60,
        as_json: false,
        input: None,
        targets: Vec::new(),
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-h" | "--help" => return Ok(None),
            "--json" => options.as_json = true,
            "--seconds" => {
                let seconds = args.next().and_then(|text| text.parse().ok());
                options.seconds = seconds.filter(|seconds| *seconds > 0).ok_or_else(|| {
                    Failure::usage("`--seconds` takes a whole number from 1 on".to_owned())
                })?;
            }
            "--input" => {
                let file = args
                    .next()
                    .ok_or_else(|| Failure::usage("`--input` takes a file".to_owned()))?;
                options.input = Some(PathBuf::from(file));
            }
            option if option.starts_with('-') => {
                return Err(Failure::usage(format!(
                    "`fuzz` knows no option `{option}`; `cargo xtask fuzz --help` shows what there is"
                )));
            }
            target => options.targets.push(target.to_owned()),
        }
    }
    if options.input.is_some() && options.targets.len() != 1 {
        return Err(Failure::usage("`--input` goes with one target".to_owned()));
    }
    Ok(Some(options))
}

/// The targets: the files of fuzz/fuzz_targets.
fn targets() -> Result<Vec<String>, Failure> {
    let mut targets = Vec::new();
    for entry in fs::read_dir(cargo::root().join("fuzz/fuzz_targets"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        targets.extend(name.strip_suffix(".rs").map(str::to_owned));
    }
    targets.sort();
    Ok(targets)
}

/// What this machine lacks.
fn missing() -> Option<&'static str> {
    if !cfg!(unix) {
        return Some("libFuzzer is linked on Unix alone");
    }
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let found = Command::new(compiler)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match found {
        Ok(status) if status.success() => None,
        _ => Some("there is no C++ compiler, and libFuzzer is C++"),
    }
}

fn folder() -> PathBuf {
    cargo::root().join("target/fuzz")
}

/// Builds all targets; where their programs are.
fn build() -> Result<PathBuf, Failure> {
    let next = "mend what the compiler reports above";
    let host = host()?;
    let mut command = cargo(["build", "--release", "--manifest-path", "fuzz/Cargo.toml"]);
    // The lock file is the one that is committed; where somebody works on a manifest it is brought up to date.
    if std::env::var_os("CI").is_some() {
        command.arg("--locked");
    }
    // With a target, build scripts and procedural macros are built without the pass.
    command
        .args(["--bins", "--target", &host, "--target-dir"])
        .arg(folder());
    command
        .env("RUSTFLAGS", COVERAGE)
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    command.stdout(Stdio::from(io::stderr()));
    cargo::run(command, next)?;
    Ok(folder().join(host).join("release"))
}

/// The platform that rustc builds for by itself.
fn host() -> Result<String, Failure> {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.arg("-vV").current_dir(cargo::root());
    let (_, text) = cargo::output(rustc, "is rustc on the path?")?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| Failure::failed("`rustc -vV` names no host", "is this rustc?"))
}

/// One input into one target; its own output and exit code.
fn repeat(programs: &Path, chosen: &[String], input: &Path) -> Result<(), Failure> {
    for target in chosen {
        let mut command = Command::new(programs.join(target));
        command.arg(input);
        cargo::hand_over(command)?;
    }
    Ok(())
}

/// What came of a target.
#[derive(Debug, Default, PartialEq, Eq)]
struct Report {
    target: String,
    executions: u64,
    edges: u64,
    kept: u64,
    seconds: u64,
    /// Files, and what the target said last.
    finding: Option<String>,
}

fn fuzz(programs: &Path, target: String, seconds: u64) -> Result<Report, Failure> {
    let seeds = cargo::root().join("fuzz/seeds").join(&target);
    let corpus = folder().join("corpus").join(&target);
    let findings = folder().join("findings").join(&target);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&findings)?;
    let mut command = Command::new(programs.join(&target));
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={LONGEST}"))
        .arg(format!("-artifact_prefix={}/", findings.display()))
        .args(["-print_final_stats=1", "-timeout=20", "-rss_limit_mb=2048"])
        .args([&corpus, &seeds])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn()?;
    let mut output = Output::default();
    if let Some(stderr) = child.stderr.take() {
        let mut shown = start;
        for line in BufReader::new(stderr).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            output.take(&line);
            if shown.elapsed() >= PULSE {
                shown = Instant::now();
                eprintln!(
                    "{target}: {} executions, {} edges",
                    output.executions, output.edges
                );
            }
        }
    }
    let status = child.wait()?;
    let report = output.report(target, start.elapsed().as_secs(), status);
    eprint!("{}", report.line());
    Ok(report)
}

/// What libFuzzer writes, as it comes.
#[derive(Debug, Default)]
struct Output {
    executions: u64,
    edges: u64,
    kept: u64,
    artifact: Option<String>,
    tail: VecDeque<String>,
}

impl Output {
    /// Reads `#1234 NEW cov: 56 ft: 78 corp: 9/1Kb ..`, `stat::number_of_executed_units: 1234`, and where a finding is written.
    fn take(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |label: &str| {
            let at = words.iter().position(|word| *word == label)?;
            words.get(at + 1)?.split('/').next()?.parse().ok()
        };
        if let Some(rest) = line.strip_prefix('#') {
            let number = rest
                .split_whitespace()
                .next()
                .and_then(|word| word.parse().ok());
            self.executions = number.unwrap_or(self.executions);
            self.edges = after("cov:").unwrap_or(self.edges);
            self.kept = after("corp:").unwrap_or(self.kept);
            return;
        }
        if let Some(executions) = after("stat::number_of_executed_units:") {
            self.executions = executions;
        }
        if let Some((_, path)) = line.split_once("Test unit written to ") {
            self.artifact = Some(path.trim().to_owned());
        }
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line.to_owned());
    }

    fn report(self, target: String, seconds: u64, status: ExitStatus) -> Report {
        let finding = (!status.success()).then(|| {
            for line in &self.tail {
                eprintln!("{line}");
            }
            self.artifact
                .unwrap_or_else(|| format!("no input was written ({status})"))
        });
        Report {
            target,
            executions: self.executions,
            edges: self.edges,
            kept: self.kept,
            seconds,
            finding,
        }
    }
}

impl Report {
    fn line(&self) -> String {
        let Self {
            target,
            executions,
            edges,
            kept,
            seconds,
            finding,
        } = self;
        let rate = executions / (*seconds).max(1);
        let found = finding
            .as_ref()
            .map_or_else(|| "no finding".to_owned(), |path| format!("FOUND {path}"));
        format!(
            "{target:<12} {executions:>9} executions, {rate:>6} a second, {edges:>6} edges, {kept:>5} inputs kept, {seconds:>4} s: {found}\n"
        )
    }

    fn to_json(&self) -> Value {
        json!({
            "target": self.target,
            "executions": self.executions,
            "edges": self.edges,
            "inputsKept": self.kept,
            "seconds": self.seconds,
            "finding": self.finding,
        })
    }
}

fn summarize(reports: &[Report], as_json: bool) -> Result<(), Failure> {
    if as_json {
        let rows: Vec<Value> = reports.iter().map(Report::to_json).collect();
        writeln!(io::stdout(), "{}", json!({ "targets": rows }))?;
    }
    heading("summary");
    for report in reports {
        eprint!("{}", report.line());
    }
    // What ran nothing has found nothing, and shows nothing.
    if let Some(idle) = reports
        .iter()
        .find(|report| report.executions == 0 || report.edges == 0)
    {
        return Err(Failure::failed(
            format!("{} executed nothing, or without coverage", idle.target),
            "run it alone and read what it says",
        ));
    }
    let found: Vec<&Report> = reports
        .iter()
        .filter(|report| report.finding.is_some())
        .collect();
    match found.first() {
        None => Ok(()),
        Some(first) => Err(Failure::failed(
            format!("{} targets have a finding", found.len()),
            format!(
                "repeat it: cargo xtask fuzz --input {} {}",
                first.finding.as_deref().unwrap_or_default(),
                first.target
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn targets_and_seconds_are_read_and_nothing_else() {
        let options = parse(&words("--seconds 5 token --json sse"))
            .unwrap()
            .unwrap();
        assert_eq!((options.seconds, options.as_json), (5, true));
        assert_eq!(options.targets, ["token", "sse"]);
        assert_eq!(parse(&words("--help")).unwrap(), None);
        for line in [
            "--seconds",
            "--seconds 0",
            "--seconds x",
            "--fast",
            "--input f",
            "--input f a b",
            "--input",
        ] {
            assert!(
                matches!(parse(&words(line)), Err(Failure::Usage(_))),
                "{line}"
            );
        }
    }

    #[test]
    fn what_the_fuzzer_writes_is_read() {
        let mut output = Output::default();
        output
            .take("#4096\tpulse  cov: 812 ft: 2311 corp: 97/4351b lim: 128 exec/s: 2048 rss: 61Mb");
        assert_eq!(
            (output.executions, output.edges, output.kept),
            (4096, 812, 97)
        );
        output.take("thread '<unnamed>' panicked at src/token.rs:80:9:");
        output.take("artifact_prefix='/t/'; Test unit written to /t/crash-1f");
        output.take("stat::number_of_executed_units: 5000");
        assert_eq!(output.executions, 5000);
        assert_eq!(output.artifact.as_deref(), Some("/t/crash-1f"));
        assert_eq!(output.tail.len(), 3);
    }

    #[test]
    fn a_run_without_coverage_is_no_success() {
        let report = |executions, edges, finding: Option<&str>| Report {
            executions,
            edges,
            finding: finding.map(str::to_owned),
            ..Report::default()
        };
        assert!(summarize(&[report(9, 9, None)], false).is_ok());
        for bad in [
            report(0, 9, None),
            report(9, 0, None),
            report(9, 9, Some("f")),
        ] {
            assert!(summarize(&[report(9, 9, None), bad], false).is_err());
        }
    }

    #[test]
    fn every_target_has_seeds_and_a_binary() {
        let manifest = fs::read_to_string(cargo::root().join("fuzz/Cargo.toml")).unwrap();
        let targets = targets().unwrap();
        assert!(targets.len() >= 10, "{targets:?}");
        for target in targets {
            assert!(
                manifest.contains(&format!("name = \"{target}\"")),
                "{target}"
            );
            let seeds = fs::read_dir(cargo::root().join("fuzz/seeds").join(&target));
            assert!(seeds.is_ok_and(|seeds| seeds.count() > 4), "{target}");
        }
    }
}
