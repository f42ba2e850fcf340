//! `cargo xtask bench`: builds a measurement in release mode and hands over to it.

use std::io::{self, Write as _};
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

    let target = cargo::target(&metadata)?;
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
    cargo::hand_over(bench)
}
