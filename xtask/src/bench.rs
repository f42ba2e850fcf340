//! `cargo xtask bench`: builds a measurement in release mode and hands over to it.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::Stdio;

use crate::cargo::{self, cargo};
use crate::failure::Failure;

const HELP: &str = "\
cargo xtask bench ledger [--json] [--rows N] [--rounds N] [--only MEASURE]..

What a durable claim costs on SQLite, as ratios of one run; `cargo xtask bench ledger --help` says more. A release build
comes first. Exit code 1: a ratio is not within its bound.
";

/// Runs the measurement that is named, with the user's arguments; stdout is its own.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    match args.split_first() {
        None => Ok(io::stdout().write_all(HELP.as_bytes())?),
        Some((word, _)) if matches!(word.as_str(), "-h" | "--help") => {
            Ok(io::stdout().write_all(HELP.as_bytes())?)
        }
        Some((word, rest)) if word == "ledger" => ledger(rest),
        Some((word, _)) => Err(Failure::usage(format!(
            "there is no bench `{word}`; there is `ledger`"
        ))),
    }
}

fn ledger(args: &[String]) -> Result<(), Failure> {
    let metadata = cargo::metadata(false)?;
    let mut build = cargo([
        "build",
        "--release",
        "-p",
        "mrtr-ledger-sqlite",
        "--example",
        "bench",
    ]);
    build.stdout(Stdio::null());
    cargo::run(build, "mend what the compiler reports above")?;

    let target = cargo::text(&metadata, "target_directory")
        .map(PathBuf::from)
        .ok_or_else(|| {
            Failure::failed(
                "`cargo metadata` names no target directory",
                "is this cargo 1.89 or newer?",
            )
        })?;
    let program = target
        .join("release/examples")
        .join(format!("bench{}", std::env::consts::EXE_SUFFIX));
    let mut bench = std::process::Command::new(program);
    bench
        .arg("--folder")
        .arg(target.join("bench"))
        .args(args)
        .current_dir(cargo::root());
    cargo::without_run_variables(&mut bench);
    let line = cargo::shown(&bench);
    let status = bench.status().map_err(|error| {
        Failure::failed(
            format!("`{line}` could not be started: {error}"),
            "was it built?",
        )
    })?;
    match status.code() {
        Some(0) => Ok(()),
        // The program has said what is wrong.
        Some(code) => Err(Failure::Exit(u8::try_from(code).unwrap_or(1))),
        None => Err(Failure::failed(
            format!("`{line}` was ended by a signal ({status})"),
            "run it again; if it happens again, run it alone from the line above",
        )),
    }
}
