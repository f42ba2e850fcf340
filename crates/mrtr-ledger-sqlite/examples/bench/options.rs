//! The command line.

use std::path::PathBuf;

use crate::report::Measure;

const HELP: &str = "\
cargo xtask bench ledger [--json] [--rows N] [--rounds N] [--only MEASURE].. [--folder PATH]

What a durable claim costs, as ratios measured in one run. Files are written to a folder that is removed afterwards.

  --json          one JSON object on stdout, nothing else there
  --rows N        how many live rows are many (10000000 by default, which takes 5 GB and some minutes)
  --expired N     how many expired rows are purged (1000000 by default)
  --rounds N      how often both sides take turns (9 by default)
  --only MEASURE  this measure alone; may be repeated: throughput, latency, rows, purge
  --folder PATH   where the files are made (target/bench by default); it must be on a disk

Exit codes: 0 every ratio is within its bound; 1 one is not, or something failed; 2 the command line was not understood.
";

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) json: bool,
    pub(crate) rows: u64,
    pub(crate) expired: u64,
    pub(crate) rounds: usize,
    pub(crate) folder: PathBuf,
    only: Vec<Measure>,
}

impl Options {
    /// `None`: help was asked for.
    pub(crate) fn parse(args: &[String]) -> Result<Option<Self>, String> {
        let mut options = Self {
            json: false,
            rows: 10_000_000,
            expired: 1_000_000,
            rounds: 9,
            folder: PathBuf::from("target/bench"),
            only: Vec::new(),
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || {
                args.next()
                    .ok_or_else(|| format!("`{arg}` needs a value after it"))
            };
            match arg.as_str() {
                "-h" | "--help" => return Ok(None),
                "--json" => options.json = true,
                "--rows" => options.rows = number(arg, value()?)?,
                "--expired" => options.expired = number(arg, value()?)?,
                "--rounds" => {
                    options.rounds = usize::try_from(number(arg, value()?)?)
                        .map_err(|error| format!("`{arg}`: {error}"))?;
                }
                "--folder" => options.folder = PathBuf::from(value()?),
                "--only" => {
                    let name = value()?;
                    options.only.push(Measure::named(name).ok_or_else(|| {
                        format!("`{name}` is no measure: throughput, latency, rows, purge")
                    })?);
                }
                unknown => return Err(format!("unknown argument `{unknown}`")),
            }
        }
        Ok(Some(options))
    }

    pub(crate) fn wants(&self, measure: Measure) -> bool {
        self.only.is_empty() || self.only.contains(&measure)
    }
}

fn number(arg: &str, text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("`{arg}` wants a number above 0, not `{text}`")),
    }
}

#[allow(clippy::print_stdout, reason = "help was asked for")]
pub(crate) fn help() {
    print!("{HELP}");
}
