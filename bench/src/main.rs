//! `cargo xtask bench`: what calls, rounds and seals cost, beside bare servers and beside peers, in one run.
//!
//! Servers of a group take turns under the same load, several times; a ratio is the median of its turns. With two processors or more servers
//! have one of them and the load another, so that neither takes from the other.

mod http;
mod load;
mod process;
mod report;
mod seals;
mod service;
mod timing;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use report::Report;

/// What a group can stop with.
type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A group: its name on the command line, and what measures it.
type Group = (&'static str, fn(&Options, &mut Report) -> Outcome);

const GROUPS: &[Group] = &[
    ("plain", http::plain),
    ("rounds", http::rounds),
    ("durable", http::durable),
    ("seals", seals::seals),
    ("digests", seals::digests),
    ("journal", service::journal_growth),
    ("allocations", http::allocations),
    ("memory", http::memory),
];

/// What the command line says.
struct Options {
    json: bool,
    smoke: bool,
    turns: usize,
    turn: Duration,
    only: Vec<String>,
    folder: PathBuf,
}

const HELP: &str = "\
cargo xtask bench [--json] [--smoke] [--turns N] [--millis N] [--folder PATH] [GROUP]..

What calls, rounds and seals cost, as ratios of one run, beside bare servers and beside peers.

  --json         one JSON object on stdout, nothing else there
  --smoke        every group for a moment: that all is built and runs; bounds are shown and not judged
  --turns N      how often the servers of a group take turns (7 by default)
  --millis N     how long a turn is (1000 by default)
  --folder PATH  where files are made (the folder of temporary files by default); it must be on a disk

Exit codes: 0 every ratio is within its bound; 1 one is not, or something failed; 2 the command line was not understood.
";

impl Options {
    fn parse() -> Result<Option<Self>, String> {
        let mut options = Self {
            json: false,
            smoke: false,
            turns: 7,
            turn: Duration::from_millis(1000),
            only: Vec::new(),
            folder: std::env::temp_dir(),
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut number = || -> Result<u64, String> {
                let value = args.next().and_then(|value| value.parse().ok());
                value
                    .filter(|&value| value > 0)
                    .ok_or_else(|| format!("`{arg}` takes a number above 0"))
            };
            match arg.as_str() {
                "-h" | "--help" => return Ok(None),
                "--json" => options.json = true,
                "--smoke" => options.smoke = true,
                "--turns" => {
                    options.turns = usize::try_from(number()?).map_err(|error| error.to_string())?
                }
                "--millis" => options.turn = Duration::from_millis(number()?),
                "--folder" => {
                    options.folder = args
                        .next()
                        .map(PathBuf::from)
                        .ok_or("`--folder` takes a path")?
                }
                name if GROUPS.iter().any(|(known, _)| *known == name) => {
                    options.only.push(name.to_owned())
                }
                other => {
                    let known: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
                    return Err(format!(
                        "there is no group or option `{other}`; there are {}",
                        known.join(", ")
                    ));
                }
            }
        }
        if options.smoke {
            options.turns = 1;
            options.turn = Duration::from_millis(100);
        }
        Ok(Some(options))
    }
}

fn main() -> ExitCode {
    let options = match Options::parse() {
        Ok(Some(options)) => options,
        Ok(None) => {
            eprint!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("bench: {problem}\n       `--help` shows what there is");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(report) => {
            if options.json {
                println!("{}", report.to_json());
            } else {
                println!("{}", report.table());
            }
            if report.missed() == 0 || options.smoke {
                ExitCode::SUCCESS
            } else {
                eprintln!(
                    "bench: {} ratios are not within their bounds; see the table",
                    report.missed()
                );
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<Report, Box<dyn std::error::Error + Send + Sync>> {
    if !process::two_processors() {
        eprintln!(
            "bench: one processor alone: load and servers share it, and ratios are closer to 1 than they would be"
        );
    }
    process::keep_to_the_loads_processor()?;
    let mut report = Report::default();
    for (name, measure) in GROUPS {
        if options.only.is_empty() || options.only.iter().any(|only| only == name) {
            measure(options, &mut report)?;
        }
    }
    Ok(report)
}
