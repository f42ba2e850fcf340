//! A model of rounds and steps: every world that calls, crashes, clocks and lost words can lead to.
//!
//! Run it: `cargo xtask model`, or `cargo run --release -p model`.
//!
//! With every rule in force, all promises hold in every world that can be reached. With any one rule turned, the promise
//! that rests on it falls, and a shortest way there is told. The decisions are those of `mrtr_ledger::rules`, so a
//! fault there falls out here. docs/ledger.md says which sentence of the contract is which rule.
//!
//! `world` is one moment, `machine` what is searched, `calls` how a server carries a call (`claiming`, `body`,
//! `transaction`, `ending`), `ledger` what it asks, `around` what happens to it, `words` and `checks` what must hold, `promise` the promises, `turn` the rules, and
//! `search` the search.

mod around;
mod body;
mod calls;
mod checks;
mod claiming;
mod ending;
mod jobs;
mod label;
mod ledger;
mod machine;
mod pack;
mod promise;
mod report;
mod search;
#[cfg(test)]
mod tests;
mod transaction;
mod turn;
mod words;
mod world;

use std::io::{self, Write as _};
use std::process::ExitCode;

use jobs::Job;
use machine::SCENARIOS;
use turn::RULES;

const HELP: &str = "\
cargo xtask model [--json] [--rules] [--apart] [--scenario NAME].. [--rule NAME]..

Searches every world of every scenario with all rules in force, and then turns each rule.

  --json            one JSON object on stdout, nothing else there
  --rules           turn the rules alone, without the search of everything; it takes seconds
  --scenario NAME   this scenario alone, with all rules in force
  --rule NAME       turn this rule alone
  --apart           do not take worlds for one that differ in nothing that matters; many times larger
  --threads N       how many searches go on at once; as many as there are processors if it is not said

Exit codes: 0 all promises hold, and fall where a rule is turned; 1 they do not; 2 the command line was not understood.
";

/// What the command line asks for.
#[derive(Debug, Default)]
struct Asked {
    help: bool,
    json: bool,
    threads: Option<usize>,
    jobs: Vec<Job>,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let asked = match parse(&args) {
        Ok(asked) => asked,
        Err(problem) => {
            eprintln!("model: {problem}\n       `cargo xtask model --help` shows what there is");
            return ExitCode::from(2);
        }
    };
    if asked.help {
        return written(HELP, true);
    }
    let threads = asked
        .threads
        .or_else(|| std::thread::available_parallelism().ok().map(Into::into));
    let report = report::Report::new(jobs::run(&asked.jobs, threads.unwrap_or(1)));
    let text = if asked.json {
        report.json()
    } else {
        report.to_string()
    };
    written(&text, report.is_as_it_should_be())
}

fn written(text: &str, good: bool) -> ExitCode {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) if good => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn parse(args: &[String]) -> Result<Asked, String> {
    let mut asked = Asked::default();
    let (mut rules_alone, mut apart) = (false, false);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "-h" | "--help" => asked.help = true,
            "--json" => asked.json = true,
            "--rules" => rules_alone = true,
            "--apart" => apart = true,
            "--scenario" => {
                let name = value()?;
                let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name);
                let scenario = scenario.ok_or_else(|| {
                    let names = SCENARIOS.map(|scenario| format!("{:?}", scenario.name));
                    format!(
                        "no scenario is called {name:?}; there are {}",
                        names.join(", ")
                    )
                })?;
                asked.jobs.push(Job::Whole(*scenario));
            }
            "--rule" => {
                let name = value()?;
                let rule = RULES.iter().find(|rule| rule.name == name);
                let rule = rule.ok_or_else(|| {
                    format!("no rule is called {name:?}; model/src/turn.rs has them all")
                })?;
                asked.jobs.push(Job::Turned(rule));
            }
            "--threads" => {
                let number = value()?.parse().ok().filter(|number| *number > 0);
                asked.threads = Some(number.ok_or("--threads needs a number")?);
            }
            unknown => return Err(format!("unknown argument {unknown:?}")),
        }
    }
    if asked.jobs.is_empty() {
        if !rules_alone {
            asked.jobs.extend(SCENARIOS.map(Job::Whole));
        }
        asked.jobs.extend(RULES.iter().map(Job::Turned));
    }
    if apart {
        for job in &mut asked.jobs {
            if let Job::Whole(scenario) = *job {
                *job = Job::Apart(scenario);
            }
        }
    }
    Ok(asked)
}
