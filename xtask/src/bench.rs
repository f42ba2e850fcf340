//! `cargo xtask bench`: builds a measurement in release mode and hands over to it.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::Stdio;

use crate::cargo::{self, cargo};
use crate::failure::Failure;
use crate::postgres;

const HELP: &str = "\
cargo xtask bench [--json] [--smoke] [--turns N] [--millis N] [GROUP]..

What calls, rounds and seals cost, beside bare servers and beside peers, as ratios of one run; `--help` behind another
option says more. It is built from bench/, a workspace of its own that depends on the peers. Exit code 1: a ratio is not
within its bound.

cargo xtask bench ledger [--json] [--rows N] [--rounds N] [--only MEASURE]..

What a durable claim costs on SQLite, as ratios of one run; `cargo xtask bench ledger --help` says more. A release build
comes first. Exit code 1: a ratio is not within its bound.

cargo xtask bench postgres [MILLISECONDS [ROWS]]

The same on a PostgreSQL server of its own, without bounds: each side is measured for a second at a time, and with
1,000,000 rows, unless told otherwise. docs/scale.md has a run.
";

/// Runs the measurement that is named, with the user's arguments; stdout is its own.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    match args.split_first() {
        Some((word, [])) if matches!(word.as_str(), "-h" | "--help") => {
            Ok(io::stdout().write_all(HELP.as_bytes())?)
        }
        Some((word, rest)) if word == "ledger" => ledger(rest),
        Some((word, rest)) if word == "postgres" => on_postgres(rest),
        _ => beside_peers(args),
    }
}

/// That all of it is built and runs. Bounds are not judged.
pub(crate) fn smoke() -> Result<(), Failure> {
    beside_peers(&["--smoke".to_owned()])
}

fn beside_peers(args: &[String]) -> Result<(), Failure> {
    let target = cargo::target(&cargo::metadata(false)?)?;
    let built = target.join("bench-peers");
    let mut build = cargo(["build", "--release", "--locked", "--bins"]);
    build
        .arg("--manifest-path")
        .arg(cargo::root().join("bench/Cargo.toml"))
        .arg("--target-dir")
        .arg(&built)
        .stdout(Stdio::null());
    cargo::run(build, "mend what the compiler reports above")?;
    let folder = target.join("bench");
    std::fs::create_dir_all(&folder)?;
    let program = built.join(format!(
        "release/mrtr-bench{}",
        std::env::consts::EXE_SUFFIX
    ));
    let mut bench = std::process::Command::new(program);
    bench.arg("--folder").arg(folder).args(args);
    measure(bench)
}

fn ledger(args: &[String]) -> Result<(), Failure> {
    let (program, target) = built("mrtr-ledger-sqlite", "bench")?;
    let mut bench = std::process::Command::new(program);
    bench.arg("--folder").arg(target.join("bench")).args(args);
    measure(bench)
}

fn on_postgres(args: &[String]) -> Result<(), Failure> {
    let (program, _) = built("mrtr-ledger-postgres", "bench_postgres")?;
    let server = match postgres::Server::start()? {
        postgres::Started::Server(server) => server,
        postgres::Started::Not(why) => {
            return Err(Failure::failed(why, "install it (on Debian: postgresql)"));
        }
    };
    let mut bench = std::process::Command::new(program);
    bench.args(args).env(postgres::VARIABLE, &server.connection);
    measure(bench)
}

/// A package's example, built in release mode, and the folder of what is built.
fn built(package: &str, example: &str) -> Result<(PathBuf, PathBuf), Failure> {
    let metadata = cargo::metadata(false)?;
    let mut build = cargo(["build", "--release", "-p", package, "--example", example]);
    build.stdout(Stdio::null());
    cargo::run(build, "mend what the compiler reports above")?;

    let target = cargo::target(&metadata)?;
    let program = target
        .join("release/examples")
        .join(format!("{example}{}", std::env::consts::EXE_SUFFIX));
    Ok((program, target))
}

fn measure(mut bench: std::process::Command) -> Result<(), Failure> {
    bench.current_dir(cargo::root());
    cargo::without_run_variables(&mut bench);
    cargo::hand_over(bench)
}
