//! `cargo xtask conformance`: the official conformance suite against `examples/conformance-server` and
//! `examples/conformance-client`, in both revisions. One process of the server is tested in both.
//!
//! The suite's own summary is not what is believed here: in server mode it hides warnings, and a peer that does nothing
//! passes some scenarios. So its result files are read, and `conformance/legs.json` says how many checks of each
//! scenario must have succeeded.
//!
//! | module | what is in it |
//! |---|---|
//! | this file | the command line, and one leg after the other |
//! | `install` | the suite from npm, and a Node that can run it |
//! | `peers` | building and starting what is tested, and the suite against it |
//! | `results` | the suite's result files |
//! | `legs` | what each leg must show, and whether it did |

mod install;
mod legs;
mod peers;
mod results;

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cargo;
use crate::failure::Failure;
use install::{Installed, Suite};
use legs::{Leg, Required, Verdict};
use peers::Peers;

const HELP: &str = "\
cargo xtask conformance [--json] [--leg LEG]..

Installs the official conformance suite, builds examples/conformance-server and examples/conformance-client, runs the suite
against them and holds its result files against conformance/legs.json.

  --json      one JSON object with the totals of each leg on stdout, nothing else there
  --leg LEG   that leg alone; may be repeated: server-2026-07-28, server-2025-11-25, client-2026-07-28, client-2025-11-25,
              client-extensions

It needs npm, and brings a Node of its own where the machine's is older than 22. Without npm nothing is run and the exit
code is 0, but where the variable CI is set that is a failure. What the suite wrote stands in target/conformance.
";

/// Runs the legs that were asked for. Totals go to stdout, everything else to stderr.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let Some(options) = Options::parse(args)? else {
        return Ok(io::stdout().write_all(HELP.as_bytes())?);
    };
    let required = Required::read(&cargo::root().join("conformance/legs.json"))?;
    let suite = match install::install()? {
        Installed::Suite(suite) => suite,
        Installed::NoNpm if in_ci() => {
            return Err(Failure::failed(
                "npm is not on the path, so that the conformance suite cannot be installed",
                "install it (on Debian: nodejs and npm); .ci/run does",
            ));
        }
        Installed::NoNpm => return skipped(options.json),
    };
    let verdicts = legs(&options.legs, &suite, &required)?;
    let bad = verdicts.iter().filter(|verdict| !verdict.is_ok()).count();
    for verdict in &verdicts {
        eprint!("{}", verdict.problems_shown());
    }
    let text = match options.json {
        true => format!("{:#}\n", totals(&suite, &verdicts)),
        false => verdicts.iter().map(Verdict::line).collect(),
    };
    io::stdout().write_all(text.as_bytes())?;
    match bad {
        0 => Ok(()),
        _ => Err(Failure::failed(
            format!("{bad} of {} legs fall short", verdicts.len()),
            "what fails stands above, each with its result file; `--leg` runs one leg alone",
        )),
    }
}

fn legs(legs: &[Leg], suite: &Suite, required: &Required) -> Result<Vec<Verdict>, Failure> {
    let metadata = cargo::metadata(false)?;
    let peers = Peers::start(&metadata, legs, &emptied("server")?)?;
    let mut verdicts = Vec::new();
    for leg in legs {
        let folder = emptied(leg.name())?;
        eprintln!("{leg}: running; its output goes to {}", shown(&folder));
        peers.run(suite, *leg, &folder)?;
        let outcomes = results::read(&folder)?;
        verdicts.push(required.judge(*leg, &outcomes));
    }
    Ok(verdicts)
}

/// An empty folder of this name, for what a run leaves behind.
fn emptied(name: &str) -> Result<PathBuf, Failure> {
    let folder = install::folder().join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn skipped(json: bool) -> Result<(), Failure> {
    let why = "npm is not on the path, so that the conformance suite cannot be installed";
    let line = match json {
        true => format!("{:#}\n", json!({ "skipped": why, "legs": [] })),
        false => format!("conformance: not run: {why}\n"),
    };
    Ok(io::stdout().write_all(line.as_bytes())?)
}

fn totals(suite: &Suite, verdicts: &[Verdict]) -> Value {
    json!({
        "suite": suite.version,
        "node": suite.node.version,
        "legs": verdicts.iter().map(Verdict::json).collect::<Vec<_>>(),
        "ok": verdicts.iter().all(Verdict::is_ok),
    })
}

/// A path under the workspace's root, as it is typed there.
fn shown(path: &Path) -> String {
    let root = cargo::root();
    path.strip_prefix(&root)
        .unwrap_or(path)
        .display()
        .to_string()
}

fn in_ci() -> bool {
    env::var_os("CI").is_some_and(|value| !value.is_empty())
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    json: bool,
    legs: Vec<Leg>,
}

impl Options {
    /// `None` where help was asked for.
    fn parse(args: &[String]) -> Result<Option<Self>, Failure> {
        let mut json = false;
        let mut chosen = Vec::new();
        let mut args = args.iter().map(String::as_str);
        while let Some(arg) = args.next() {
            let name = match arg {
                "-h" | "--help" => return Ok(None),
                "--json" => {
                    json = true;
                    continue;
                }
                "--leg" => args
                    .next()
                    .ok_or_else(|| Failure::usage("`--leg` needs the name of a leg".to_owned()))?,
                _ => arg.strip_prefix("--leg=").ok_or_else(|| {
                    Failure::usage(format!("`conformance` does not know the argument `{arg}`"))
                })?,
            };
            let leg = Leg::ALL
                .into_iter()
                .find(|leg| leg.name() == name)
                .ok_or_else(|| {
                    let names = Leg::ALL.map(Leg::name).join(", ");
                    Failure::usage(format!("there is no leg `{name}`; the legs are {names}"))
                })?;
            if !chosen.contains(&leg) {
                chosen.push(leg);
            }
        }
        if chosen.is_empty() {
            chosen = Leg::ALL.to_vec();
        }
        Ok(Some(Self { json, legs: chosen }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Options>, Failure> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&args)
    }

    #[test]
    fn legs_are_chosen_by_name_and_all_are_run_without_a_choice() {
        let all = parse("").unwrap().unwrap();
        assert_eq!(
            all.legs.iter().map(|leg| leg.name()).collect::<Vec<_>>(),
            [
                "server-2026-07-28",
                "server-2025-11-25",
                "client-2026-07-28",
                "client-2025-11-25",
                "client-extensions",
            ]
        );
        assert!(!all.json);
        let two = "--leg client-2025-11-25 --json --leg=server-2026-07-28 --leg client-2025-11-25";
        let two = parse(two).unwrap().unwrap();
        assert_eq!(
            two.legs.iter().map(|leg| leg.name()).collect::<Vec<_>>(),
            ["client-2025-11-25", "server-2026-07-28"]
        );
        assert!(two.json);
        assert_eq!(parse("--json --help").unwrap(), None);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in ["--leg", "--leg server", "--fast", "server-2026-07-28"] {
            assert!(matches!(parse(line), Err(Failure::Usage(_))), "{line}");
        }
    }
}
