//! The project's own commands: `cargo xtask demo`, `conformance`, `interop`, `probe`, `bench`, `chaos`, `fuzz`, `model`, `test`, `mutants`, `postgres`, `tidy`, `ci`.
//!
//! Start here: [`parse`] and [`run`] map a word to a command. `demo`, `conformance`, `interop`, `probe`, `bench`, `chaos`, `fuzz`, `model`,
//! `suite` (the command `test`), `postgres` and `ci` start other programs, cargo's through [`cargo`]; `tidy` only reads.

mod bench;
mod cargo;
mod chaos;
mod ci;
mod conformance;
mod demo;
mod failure;
mod fuzz;
mod interop;
mod model;
mod mutants;
mod npm;
mod postgres;
mod probe;
mod suite;
mod tidy;

use std::io::{self, Write as _};
use std::process::ExitCode;

use failure::Failure;

const HELP: &str = "\
cargo xtask COMMAND

  demo [--json] [--sabotage]  build the example servers, play every case over HTTP, compare with what must come out
                                --json      one JSON object with all rows on stdout, nothing else there
                                --sabotage  take one guard off at a time and show that its rows turn red
  conformance [--json] [--leg LEG]..
                              the official conformance suite against our server and our client, in both revisions
                                --json      one JSON object with the totals of each leg on stdout, nothing else there
                                --leg LEG   one leg alone; `conformance --help` names them
  interop [--json] [--peer PEER] ..
                              our server and our client against the official SDKs, case by case, in both eras and over
                              both transports; `interop --help` says more
  probe [--peers] [--json]    the attacks of mrtr-probe on the examples voucher and expenses: none unsafe, none unknown; with
                              --peers on the official SDKs too, whose replays it must find
  bench [--json] [--smoke] [GROUP]..
                              calls, rounds and seals beside bare servers and beside peers, as ratios of one run
  bench ledger [--json] ..    what a durable claim costs on SQLite, as ratios of one run; `bench ledger --help` says more
  bench postgres ..           the same on a PostgreSQL server of its own, without bounds
  chaos [--minutes N] [--seed S] [--ledger LEDGER] [--sabotage] [--json]
                              servers that are killed, stalled and misled while clients retry, fork and replay, and what
                              the effects' own record says of it; `chaos --help` says more
  fuzz [--seconds N] [--json] [TARGET]..
                              arbitrary bytes into everything that reads what others wrote; `fuzz --help` says more
  model [--json] [--rules] [--scenario NAME].. [--rule NAME]..
                              the exhaustive model of rounds and steps: every world with all rules in force, then each
                              rule turned and what breaks by it; `model --help` says more
  test                        unit, integration and doc tests of the whole workspace, then tidy; what needs
                              PostgreSQL gets a server of its own
  mutants [--json] [PACKAGE]..
                              change the code in small ways and see that a test notices; `mutants --help` says more
  postgres                    a throw-away PostgreSQL server, until the input ends; `postgres --help` says more
  tidy                        the project's own rules: dependency arrows, clocks, READMEs, links, licences
  ci                          everything that a change must pass: format, clippy, tidy, test, demo,
                              conformance, interop, probe, fuzz, docs, budget, bench

Exit codes: 0 all is as it should be; 1 something is not; 2 the command line was not understood.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match parse(&args).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Action<'a> {
    Help,
    Demo(&'a [String]),
    Conformance(&'a [String]),
    Interop(&'a [String]),
    Probe(&'a [String]),
    Bench(&'a [String]),
    Chaos(&'a [String]),
    Fuzz(&'a [String]),
    Model(&'a [String]),
    Mutants(&'a [String]),
    Postgres(&'a [String]),
    Test,
    Tidy,
    Ci,
}

fn parse(args: &[String]) -> Result<Action<'_>, Failure> {
    let Some((command, rest)) = args.split_first() else {
        return Ok(Action::Help);
    };
    let action = match command.as_str() {
        "-h" | "--help" | "help" => return Ok(Action::Help),
        // These read their own options, `--help` among them.
        "demo" => return Ok(Action::Demo(rest)),
        "conformance" => return Ok(Action::Conformance(rest)),
        "interop" => return Ok(Action::Interop(rest)),
        "probe" => return Ok(Action::Probe(rest)),
        "bench" => return Ok(Action::Bench(rest)),
        "chaos" => return Ok(Action::Chaos(rest)),
        "fuzz" => return Ok(Action::Fuzz(rest)),
        "model" => return Ok(Action::Model(rest)),
        "mutants" => return Ok(Action::Mutants(rest)),
        "postgres" => return Ok(Action::Postgres(rest)),
        "test" => Action::Test,
        "tidy" => Action::Tidy,
        "ci" => Action::Ci,
        unknown => {
            return Err(Failure::usage(format!(
                "unknown command `{unknown}`; the commands are demo, conformance, interop, probe, bench, chaos, fuzz, model, mutants, test, postgres, tidy and ci"
            )));
        }
    };
    match rest.first().map(String::as_str) {
        None => Ok(action),
        Some("-h" | "--help") => Ok(Action::Help),
        Some(arg) => Err(Failure::usage(format!(
            "`{command}` takes no arguments, but was given `{arg}`"
        ))),
    }
}

fn run(action: Action<'_>) -> Result<(), Failure> {
    match action {
        Action::Help => Ok(io::stdout().write_all(HELP.as_bytes())?),
        Action::Demo(args) => demo::run(args),
        Action::Conformance(args) => conformance::run(args),
        Action::Interop(args) => interop::run(args),
        Action::Probe(args) => probe::run(args),
        Action::Bench(args) => bench::run(args),
        Action::Chaos(args) => chaos::run(args),
        Action::Fuzz(args) => fuzz::run(args),
        Action::Model(args) => model::run(args),
        Action::Mutants(args) => mutants::run(args),
        Action::Postgres(args) => postgres::run(args),
        Action::Test => suite::run(),
        Action::Tidy => tidy::run(),
        Action::Ci => ci::run(),
    }
}

/// A heading on stderr, so that stdout stays what the command is about.
fn heading(text: &str) {
    eprintln!("\n== {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn help_is_understood_and_unknown_words_are_not() {
        for line in ["", "--help", "-h", "help", "tidy --help", "ci -h"] {
            assert_eq!(parse(&words(line)).unwrap(), Action::Help, "{line}");
        }
        assert_eq!(parse(&words("test")).unwrap(), Action::Test);
        for line in ["dmeo", "tidy now", "test --fast", "ci --json", "--json"] {
            assert!(
                matches!(parse(&words(line)), Err(Failure::Usage(_))),
                "{line}"
            );
        }
    }

    #[test]
    fn demo_and_conformance_get_their_arguments_as_they_are() {
        let rest = words("--json --help");
        let args = words("demo --json --help");
        assert_eq!(parse(&args).unwrap(), Action::Demo(&rest));
        let args = words("conformance --json --help");
        assert_eq!(parse(&args).unwrap(), Action::Conformance(&rest));
        let args = words("interop --json --help");
        assert_eq!(parse(&args).unwrap(), Action::Interop(&rest));
        let args = words("bench --json --help");
        assert_eq!(parse(&args).unwrap(), Action::Bench(&rest));
    }
}
