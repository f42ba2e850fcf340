//! `cargo xtask chaos`: builds the driver, which is its own server too, and hands over to it.

use std::process::{Command, Stdio};

use crate::cargo::{self, cargo};
use crate::failure::Failure;
use crate::postgres;

/// The package that makes the trouble and judges it.
pub(crate) const PACKAGE: &str = "chaos";

/// Runs it with the user's arguments; stdout is its own. The database that it needs is started for it, and ends with it.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let mut driver = prepare(args)?;
    let server = match wants_postgres(args) {
        Wants::Nothing => None,
        Wants::IfThereIsOne => postgres::for_tests()?,
        Wants::One => match postgres::for_tests()? {
            Some(server) => Some(server),
            None => {
                return Err(Failure::failed(
                    "there is no PostgreSQL to run on",
                    "install it (on Debian: postgresql), or name a server with --postgres CONNECTION",
                ));
            }
        },
    };
    if let Some(server) = &server {
        driver.arg("--postgres").arg(&server.connection);
    }
    let outcome = cargo::hand_over(driver);
    drop(server);
    outcome
}

#[derive(Debug, PartialEq, Eq)]
enum Wants {
    Nothing,
    IfThereIsOne,
    One,
}

/// Whether a database is to be started: not where one is named, or none is asked for.
fn wants_postgres(args: &[String]) -> Wants {
    let is = |flag: &str| {
        let with_value = format!("{flag}=");
        args.iter()
            .any(|arg| arg == flag || arg.starts_with(&with_value))
    };
    if is("--postgres") || is("--help") || is("-h") {
        return Wants::Nothing;
    }
    let mut ledger = args.iter().skip_while(|arg| *arg != "--ledger").skip(1);
    let ledger = ledger
        .next()
        .map(String::as_str)
        .or_else(|| args.iter().find_map(|arg| arg.strip_prefix("--ledger=")));
    match ledger {
        None | Some("both") => Wants::IfThereIsOne,
        Some("postgres") => Wants::One,
        Some(_) => Wants::Nothing,
    }
}

/// Builds it and returns its command, ready to start.
fn prepare(args: &[String]) -> Result<Command, Failure> {
    let metadata = cargo::metadata(false)?;
    let mut build = cargo(["build", "--quiet", "-p", PACKAGE]);
    // Cargo reports on stderr; whatever else a build might print must not reach the driver's stdout.
    build.stdout(Stdio::null());
    cargo::run(build, "mend what the compiler reports above")?;
    let name = format!("{PACKAGE}{}", std::env::consts::EXE_SUFFIX);
    let mut driver = Command::new(cargo::target(&metadata)?.join("debug").join(name));
    driver.args(args).current_dir(cargo::root());
    cargo::without_run_variables(&mut driver);
    Ok(driver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_started_where_it_is_of_use() {
        let wants = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            wants_postgres(&words)
        };
        assert_eq!(wants(""), Wants::IfThereIsOne);
        assert_eq!(wants("--minutes 1 --ledger both"), Wants::IfThereIsOne);
        assert_eq!(wants("--ledger postgres --json"), Wants::One);
        assert_eq!(wants("--ledger=postgres"), Wants::One);
        for line in [
            "--ledger sqlite",
            "--ledger=sqlite",
            "--help",
            "--postgres host=h",
            "--postgres=h",
        ] {
            assert_eq!(wants(line), Wants::Nothing, "{line}");
        }
    }
}
