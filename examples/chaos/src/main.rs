//! Servers on one ledger, and everything that goes wrong: clients that retry, fork, replay and lose responses, servers
//! that are killed, stopped, stalled and misled about the time, a ledger that has no word, and a purge all the while. At
//! the end the effects' own record is held against what was acknowledged.
//!
//! ```text
//! cargo xtask chaos                    two minutes on SQLite, two on PostgreSQL
//! cargo xtask chaos --minutes 0.5 --seed 7
//! cargo xtask chaos --sabotage         ledgers that break a promise each: the checker must notice
//! ```
//!
//! | module | what is in it |
//! |---|---|
//! | [`plan`] | what is to go wrong and when, drawn from a seed |
//! | [`server`] | a server of the fleet: `chaos serve` is started by the driver |
//! | [`driver`] | a run: servers, clients, faults |
//! | [`trace`], [`history`] | what servers and clients wrote down |
//! | [`checker`] | what is made of it |
//! | [`report`] | how it is told |
//! | [`catalogue`], [`terms`] | the tools, and the times that all go by |

mod catalogue;
mod checker;
mod driver;
mod history;
mod options;
mod place;
mod plan;
mod report;
mod server;
mod terms;
mod trace;

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use stage::arguments::{Arguments, UsageError};
use tracing_subscriber::EnvFilter;

use crate::checker::{Findings, Promise};
use crate::driver::{Failure, Run};
use crate::options::Options;
use crate::plan::Tempers;
use crate::report::Counts;
use crate::server::sabotage::Sabotage;

/// How long a sabotaged run lasts.
const SABOTAGED: Duration = Duration::from_secs(12);

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let serves = arguments.first().is_some_and(|word| word == "serve");
    if serves {
        arguments.remove(0);
    }
    let arguments = Arguments::of(arguments);
    let outcome = match serves {
        true => serve(arguments).await,
        false => drive(arguments).await,
    };
    match outcome {
        Ok(code) => code,
        Err(Ended::Usage(UsageError::Help)) => {
            _ = io::stdout().write_all(options::HELP.as_bytes());
            ExitCode::SUCCESS
        }
        Err(Ended::Usage(error)) => {
            eprintln!("chaos: {error}");
            ExitCode::from(2)
        }
        Err(Ended::Failure(failure)) => {
            eprintln!("chaos: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Why there is nothing to tell.
enum Ended {
    Usage(UsageError),
    Failure(Failure),
}

impl From<UsageError> for Ended {
    fn from(error: UsageError) -> Self {
        Self::Usage(error)
    }
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

async fn serve(arguments: Arguments) -> Result<ExitCode, Ended> {
    // What a server would say in its log is what is done to it here; `RUST_LOG` shows it all the same.
    let filter = EnvFilter::builder()
        .with_default_directive(tracing_subscriber::filter::LevelFilter::OFF.into())
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .init();
    server::run(server::Options::take(arguments)?).await?;
    Ok(ExitCode::SUCCESS)
}

async fn drive(arguments: Arguments) -> Result<ExitCode, Ended> {
    let options = Options::take(arguments)?;
    let told = match options.sabotage {
        true => sabotage(&options).await?,
        false => play(&options).await?,
    };
    if options.json {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{}", told.json).map_err(Failure::from)?;
    }
    Ok(match told.ok {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// What came of all runs.
struct Told {
    ok: bool,
    json: Value,
}

impl Told {
    fn of(what: &'static str, runs: Vec<Value>) -> Self {
        let ok = runs
            .iter()
            .all(|run| run.get("ok") == Some(&Value::Bool(true)));
        Self {
            ok,
            json: json!({ what: runs, "ok": ok }),
        }
    }
}

async fn play(options: &Options) -> Result<Told, Failure> {
    let mut runs = Vec::new();
    for on in &options.on {
        let Options { seed, length, .. } = *options;
        let seconds = length.as_secs_f64();
        say(options, &format!("\n{on}, {seconds} s, seed {seed}"))?;
        let run = Run {
            seed,
            length,
            tempers: Tempers::WILD,
            calm: driver::CALM,
            long_one_in: 60,
            sabotage: None,
        };
        let history = driver::run(run, on).await?;
        let findings = checker::check(&history);
        let counts = Counts::of(&history, &findings);
        say(options, &format!("\n{counts}"))?;
        say(options, &report::violations(&history, &findings))?;
        let absent = counts.absent(length);
        let kept = findings.violations.is_empty();
        let verdict = match (kept, absent.is_empty()) {
            (true, true) => "  Every promise was kept.".to_owned(),
            (true, false) => format!(
                "  NOTHING WAS SHOWN: there were no {}.",
                absent.join(", no ")
            ),
            (false, _) => "  NOT every promise was kept.".to_owned(),
        };
        say(options, &verdict)?;
        let ok = kept && absent.is_empty();
        runs.push(json!({
            "ledger": on.to_string(),
            "seed": seed,
            "seconds": seconds,
            "counts": counts.to_json(),
            "violations": broken(&findings),
            "absent": absent,
            "ok": ok,
        }));
    }
    Ok(Told::of("runs", runs))
}

/// Runs on ledgers that break a promise, of which the checker must notice every one.
async fn sabotage(options: &Options) -> Result<Told, Failure> {
    let mut runs = Vec::new();
    for on in &options.on {
        say(options, &format!("\n{on}, {} s each", SABOTAGED.as_secs()))?;
        for how in Sabotage::ALL {
            let run = Run {
                seed: options.seed,
                length: SABOTAGED,
                tempers: match how {
                    Sabotage::PurgeByNow | Sabotage::MarkByNow => Tempers::UNTIMELY,
                    _ => Tempers::WILD,
                },
                calm: Duration::from_secs(3),
                // Where signs of life are not kept, there must be some.
                long_one_in: if how == Sabotage::NoBeats { 5 } else { 60 },
                sabotage: Some(how),
            };
            let findings = checker::check(&driver::run(run, on).await?);
            let found = noticed(how, &findings);
            let word = if found { "found" } else { "NOT FOUND" };
            let broken = broken(&findings);
            let promises: Vec<String> = broken
                .iter()
                .map(|(promise, n)| format!("{n} × {promise}"))
                .collect();
            say(
                options,
                &format!("  {how:<15} {word}: {}", promises.join("; ")),
            )?;
            if let Some(first) = findings.violations.first() {
                let what: String = first.what.chars().take(160).collect();
                let flow = first.flow;
                say(options, &format!("  {:<15} flow {flow}: {what}", ""))?;
            }
            runs.push(json!({
                "ledger": on.to_string(),
                "seed": options.seed,
                "sabotage": how.to_string(),
                "broken": broken,
                "ok": found,
            }));
        }
    }
    Ok(Told::of("sabotage", runs))
}

/// Whether the promise that this breaks was seen to be broken.
fn noticed(how: Sabotage, findings: &Findings) -> bool {
    let breaks: &[Promise] = match how {
        Sabotage::AlwaysFirst => &[Promise::AtMostOnce],
        Sabotage::SkippedSettle => &[Promise::SameResult],
        Sabotage::PurgeByNow => &[Promise::SameResult, Promise::JustRefusal],
        Sabotage::MarkByNow => &[Promise::JustRefusal],
        Sabotage::NoBeats => &[Promise::UnknownForAReason],
    };
    let mut violations = findings.violations.iter();
    violations.any(|violation| breaks.contains(&violation.promise))
}

/// Violations by promise.
fn broken(findings: &Findings) -> BTreeMap<String, u64> {
    let mut broken: BTreeMap<String, u64> = BTreeMap::new();
    for violation in &findings.violations {
        *broken.entry(violation.promise.to_string()).or_default() += 1;
    }
    broken
}

/// Says it to people; with `--json` there are none.
fn say(options: &Options, text: &str) -> Result<(), Failure> {
    if options.json || text.is_empty() {
        return Ok(());
    }
    Ok(writeln!(io::stdout().lock(), "{text}")?)
}
