//! `cargo xtask interop`: our server and our client against the official SDKs, case by case, in both eras and over both
//! transports.
//!
//! Three servers have the same tools, prompt and resources, and three clients play the same cases: ours in `examples/interop`,
//! and one on the public API of each SDK in `interop/`. A client only reports what it observed; what that should have been
//! stands in `interop/cases.json`, and which cells differ by the peer's own fault in `interop/known.json`.
//!
//! | module | what is in it |
//! |---|---|
//! | this file | the command line, and what is printed |
//! | `install` | the SDKs, from npm and from PyPI |
//! | `matrix` | peers, sides, eras and transports |
//! | `expected` | what each cell must show, and whether it did |
//! | `play` | starting servers and clients, and reading what they say |

mod expected;
mod install;
mod matrix;
mod play;

use std::env;
use std::io::{self, Write as _};

use serde_json::{Value, json};

use crate::failure::Failure;
use expected::{Cell, Expected, Verdict};
use install::{Installed, Sdks};
use matrix::{Choice, Era, Ours, Peer, Transport};

const HELP: &str = "\
cargo xtask interop [--json] [--peer PEER].. [--ours SIDE].. [--era ERA].. [--transport TRANSPORT].. [--case CASE]..

Installs the official SDKs, builds examples/interop, and plays each case of interop/cases.json: the SDK's client on our
server, and our client on the SDK's server. Each option narrows the matrix, and may be repeated.

  --json                 one JSON object with every cell on stdout, nothing else there
  --peer PEER            typescript or python
  --ours SIDE            server (their client on our server) or client (our client on their server)
  --era ERA              2026-07-28 or 2025-11-25
  --transport TRANSPORT  http or stdio
  --case CASE            a case of interop/cases.json

A cell is ok; or it FAILED; or peer, the peer's own fault, which interop/known.json lists with the rule that it breaks; or
n/a, with the reason. An entry of that list that does not happen any more fails the run too.

It needs npm, and Python 3.11 or newer with its module venv. Without them nothing is run and the exit code is 0, but where
the variable CI is set that is a failure. What the programs wrote to stderr stands in target/interop/logs.
";

/// A peer's name, and the program and arguments that start its server.
pub(crate) type PeerServer = (&'static str, Vec<String>);

/// The SDKs' own servers: their names, and the words that start each. `None`, with the reason, where they cannot be installed.
pub(crate) fn peer_servers() -> Result<Result<Vec<PeerServer>, String>, Failure> {
    Ok(match install::install()? {
        Installed::Missing(what) => Err(what),
        Installed::Sdks(sdks) => {
            let peers = Peer::ALL.iter();
            let servers = peers.map(|peer| (peer.word(), sdks.command(*peer, "server")));
            Ok(servers.collect())
        }
    })
}

/// Plays the matrix. The table goes to stdout, everything else to stderr.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    let Some(options) = Options::parse(args)? else {
        return Ok(io::stdout().write_all(HELP.as_bytes())?);
    };
    let expected = Expected::read()?;
    let cases = expected.chosen(&options.cases)?;
    let sdks = match install::install()? {
        Installed::Sdks(sdks) => sdks,
        Installed::Missing(what) if in_ci() => {
            return Err(Failure::failed(
                format!("{what}, so that the SDKs cannot be installed"),
                "install it (on Debian: nodejs, npm, python3 and python3-venv); .ci/run does",
            ));
        }
        Installed::Missing(what) => return skipped(&what, options.json),
    };
    let mut cells = Vec::new();
    play::play(&sdks, &options.choice, &cases, &expected, &mut cells)?;
    let mut problems = cells.iter().filter(|cell| cell.failed()).count();
    if options.is_whole() {
        for stale in expected.never_met(&cells) {
            eprintln!("interop/known.json lists what no cell is: {stale}");
            problems += 1;
        }
    }
    let text = match options.json {
        true => format!("{:#}\n", report(&sdks, &cells, problems == 0)),
        false => table(&cells),
    };
    io::stdout().write_all(text.as_bytes())?;
    match problems {
        0 => Ok(()),
        _ => Err(Failure::failed(
            format!("{problems} of {} cells are not as expected", cells.len()),
            "each stands above, with what was expected and observed; the options play one alone",
        )),
    }
}

pub(crate) fn in_ci() -> bool {
    env::var_os("CI").is_some_and(|value| !value.is_empty())
}

fn skipped(what: &str, json: bool) -> Result<(), Failure> {
    let line = match json {
        true => format!("{:#}\n", json!({ "skipped": what, "cells": [] })),
        false => format!("interop: not run: {what}\n"),
    };
    Ok(io::stdout().write_all(line.as_bytes())?)
}

fn count(cells: &[Cell], word: &str) -> usize {
    let of_this = cells.iter().filter(|cell| cell.verdict.word() == word);
    of_this.count()
}

fn report(sdks: &Sdks, cells: &[Cell], ok: bool) -> Value {
    json!({
        "versions": sdks.versions(),
        "cells": cells.iter().map(Cell::json).collect::<Vec<_>>(),
        "counts": {
            "ok": count(cells, "ok"),
            "failed": count(cells, "failed"),
            "peer": count(cells, "peer"),
            "n/a": count(cells, "n/a"),
        },
        "ok": ok,
    })
}

/// A table for each side of each peer: a line for a case, a column for era and transport. Then why a cell is not simply ok.
fn table(cells: &[Cell]) -> String {
    let mut text = String::new();
    for &peer in Peer::ALL {
        for &ours in Ours::ALL {
            let of_this = |cell: &&Cell| cell.run.peer == peer && cell.run.ours == ours;
            let part: Vec<&Cell> = cells.iter().filter(of_this).collect();
            if !part.is_empty() {
                text.push_str(&part_of_table(&ours.title(peer), &part));
            }
        }
    }
    // One line for a reason, however many cells have it.
    let mut reasons: Vec<String> = Vec::new();
    for why in cells.iter().filter_map(Cell::why) {
        if !reasons.contains(&why) {
            reasons.push(why);
        }
    }
    for reason in &reasons {
        text.push_str(reason);
        text.push('\n');
    }
    let total = format!(
        "{} cells: {} ok, {} failed, {} the peer's own fault, {} n/a\n",
        cells.len(),
        count(cells, "ok"),
        count(cells, "failed"),
        count(cells, "peer"),
        count(cells, "n/a"),
    );
    text + &total
}

fn part_of_table(title: &str, cells: &[&Cell]) -> String {
    let mut columns: Vec<(Era, Transport)> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for cell in cells {
        let column = (cell.run.era, cell.run.transport);
        if !columns.contains(&column) {
            columns.push(column);
        }
        if !names.contains(&&*cell.case) {
            names.push(&cell.case);
        }
    }
    let mut text = format!("{title:<42}");
    for (era, transport) in &columns {
        text.push_str(&format!("  {:<16}", format!("{era} {transport}")));
    }
    let mut text = format!("{}\n", text.trim_end());
    for name in names {
        let mut line = format!("  {name:<40}");
        for (era, transport) in &columns {
            let cell = cells.iter().find(|cell| {
                cell.case == name && cell.run.era == *era && cell.run.transport == *transport
            });
            let word = match cell.map(|cell| &cell.verdict) {
                Some(Verdict::Failed(_)) => "FAILED",
                Some(verdict) => verdict.word(),
                None => "",
            };
            line.push_str(&format!("  {word:<16}"));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push('\n');
    text
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    json: bool,
    choice: Choice,
    cases: Vec<String>,
}

impl Options {
    /// `None` where help was asked for.
    fn parse(args: &[String]) -> Result<Option<Self>, Failure> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let (flag, value) = match arg.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (arg.as_str(), None),
            };
            match flag {
                "-h" | "--help" => return Ok(None),
                "--json" => {
                    options.json = true;
                    continue;
                }
                "--peer" | "--ours" | "--era" | "--transport" | "--case" => {}
                _ => {
                    return Err(Failure::usage(format!(
                        "`interop` does not know the argument `{arg}`"
                    )));
                }
            }
            let value = value
                .or_else(|| args.next().cloned())
                .ok_or_else(|| Failure::usage(format!("`{flag}` needs a value")))?;
            match flag {
                "--case" => options.cases.push(value),
                _ => options.choice.add(flag, &value)?,
            }
        }
        Ok(Some(options))
    }

    /// Whether all of the matrix is played.
    fn is_whole(&self) -> bool {
        self.choice == Choice::default() && self.cases.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::matrix::Run;
    use super::*;

    fn parse(line: &str) -> Result<Option<Options>, Failure> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&args)
    }

    #[test]
    fn options_narrow_the_matrix() {
        let all = parse("").unwrap().unwrap();
        assert!(all.is_whole());
        assert_eq!(all.choice.runs().count(), 16);
        let json = parse("--json").unwrap().unwrap();
        assert!(json.json && json.is_whole());
        let one = "--peer python --ours=client --era 2026-07-28 --transport stdio --case plain";
        let one = parse(one).unwrap().unwrap();
        assert!(!one.is_whole());
        assert_eq!(one.cases, ["plain"]);
        let runs: Vec<Run> = one.choice.runs().collect();
        assert_eq!(runs.len(), 1);
        assert_eq!(runs[0].to_string(), "python, our client, 2026-07-28, stdio");
        assert!(!parse("--case plain").unwrap().unwrap().is_whole());
        assert_eq!(parse("--json --help").unwrap(), None);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in [
            "--peer",
            "--peer rust",
            "--era 2024",
            "--fast",
            "python",
            "--ours=both",
        ] {
            assert!(matches!(parse(line), Err(Failure::Usage(_))), "{line}");
        }
    }
}
