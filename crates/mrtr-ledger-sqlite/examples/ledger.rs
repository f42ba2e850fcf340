//! A ledger's file, from the command line:
//!
//! ```text
//! cargo run -p mrtr-ledger-sqlite --example ledger -- stats /var/lib/pay/ledger.sqlite
//! ```
//!
//! It opens the file as a server does, and servers may go on meanwhile.

use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use mrtr_ledger::{Ledger as _, RETENTION};
use mrtr_ledger_sqlite::rusqlite::{Connection, OpenFlags};
use mrtr_ledger_sqlite::{KindStats, SqliteLedger, Stats};
use mrtr_state::{Clock as _, Epoch, SystemClock, Timestamp};
use serde_json::{Value, json};

const HELP: &str = "\
ledger COMMAND FILE [--json] [--retention SECONDS] [--yes]

  stats         what the file holds: rows by kind and status, accounts, marks, sizes
  verify        whether the file is what a ledger would have written; it reads everything several times
  purge         removes what has expired, retention included, in portions between which servers go on
  rotate-epoch  ENDS EVERY OPEN FLOW: to be done after a restore from a backup, before any server connects

  --json               one JSON object on stdout, nothing else there
  --retention SECONDS  how long rows are kept after they expire (600 by default, 60 at least): purge, stats, verify
  --yes                rotate-epoch does not ask; a file of an older version is brought up to date

Exit codes: 0 done, and verify found nothing; 1 verify found something, or there was no word from the file;
2 the command line was not understood, or nobody said yes.
";

pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) what: String,
}

fn usage(what: impl Into<String>) -> Failure {
    let what = format!("{}\n`--help` shows what there is", what.into());
    Failure { code: 2, what }
}

fn failed(what: impl std::fmt::Display) -> Failure {
    let what = what.to_string();
    Failure { code: 1, what }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let done = runtime
        .map_err(failed)
        .and_then(|runtime| runtime.block_on(run(&args, ask, &mut std::io::stdout())));
    match done {
        Ok(code) => ExitCode::from(code),
        Err(Failure { code, what }) => {
            eprintln!("ledger: {what}");
            ExitCode::from(code)
        }
    }
}

/// Asks whoever sits at the terminal. `None`: nobody does.
fn ask(question: &str) -> Option<String> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return None;
    }
    eprint!("{question}");
    let mut line = String::new();
    stdin.read_line(&mut line).ok()?;
    Some(line)
}

struct Options {
    command: String,
    file: PathBuf,
    json: bool,
    yes: bool,
    retention: Duration,
}

/// `None`: help was asked for.
fn parse(args: &[String]) -> Result<Option<Options>, Failure> {
    let (mut json, mut yes, mut retention) = (false, false, RETENTION);
    let mut words = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-h" | "--help" => return Ok(None),
            "--json" => json = true,
            "--yes" => yes = true,
            "--retention" => {
                let seconds = args.next().and_then(|seconds| seconds.parse().ok());
                let Some(seconds) = seconds.filter(|seconds| *seconds >= 60) else {
                    return Err(usage("--retention wants a number of seconds, 60 at least"));
                };
                retention = Duration::from_secs(seconds);
            }
            option if option.starts_with('-') => {
                return Err(usage(format!("unknown option `{option}`")));
            }
            word => words.push(word.to_owned()),
        }
    }
    let Ok([command, file]) = <[String; 2]>::try_from(words) else {
        return Err(usage("a command and a file are wanted"));
    };
    Ok(Some(Options {
        command,
        file: file.into(),
        json,
        yes,
        retention,
    }))
}

/// Writes what was asked for, and returns the exit code.
pub(crate) async fn run(
    args: &[String],
    ask: impl Fn(&str) -> Option<String>,
    out: &mut impl Write,
) -> Result<u8, Failure> {
    let Some(options) = parse(args)? else {
        write!(out, "{HELP}").map_err(failed)?;
        return Ok(0);
    };
    let (text, code) = match options.command.as_str() {
        "stats" => (stats(&options).await?, 0),
        "verify" => verify(&options).await?,
        "purge" => (purge(&options).await?, 0),
        "rotate-epoch" => (rotate(&options, ask).await?, 0),
        unknown => return Err(usage(format!("unknown command `{unknown}`"))),
    };
    writeln!(out, "{text}").map_err(failed)?;
    Ok(code)
}

fn open(options: &Options) -> Result<SqliteLedger, Failure> {
    // A ledger makes its file where there is none, or an empty one. That is not what somebody wants who looks at one.
    let length = std::fs::metadata(&options.file)
        .map_err(|error| failed(format!("{}: {error}", options.file.display())))?
        .len();
    if length == 0 {
        let name = options.file.display();
        return Err(failed(format!("{name} is empty, and no ledger")));
    }
    // Opening an older file brings it up to date, which is not what somebody wants who looks at one either.
    if let Some(version) = version(options).filter(|version| *version < SqliteLedger::FILE_VERSION)
        && !options.yes
    {
        return Err(failed(format!(
            "{} has version {version}. Opened by this program it would have version {}, and servers of the older version \
             would refuse it; say --yes if there are none",
            options.file.display(),
            SqliteLedger::FILE_VERSION
        )));
    }
    SqliteLedger::builder(&options.file)
        .retention(options.retention)
        .open()
        .map_err(|error| failed(format!("{}: {error}", options.file.display())))
}

/// The version that a ledger's file says it has; `None` if it is not one, which opening it explains.
fn version(options: &Options) -> Option<i32> {
    let file = Connection::open_with_flags(&options.file, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    file.query_row("PRAGMA user_version", [], |row| row.get(0))
        .ok()
        .filter(|version| *version > 0)
}

async fn stats(options: &Options) -> Result<String, Failure> {
    let stats = open(options)?.stats().await.map_err(failed)?;
    Ok(if options.json {
        format!("{:#}", stats_as_json(&stats))
    } else {
        stats_as_text(&stats, SystemClock.now())
    })
}

fn stats_as_json(stats: &Stats) -> Value {
    let kind = |kind: &KindStats| {
        let time = |time: Option<Timestamp>| time.map(Timestamp::as_millis);
        json!({
            "rows": kind.rows, "unexpired": kind.unexpired, "removable": kind.removable,
            "running": kind.running, "lapsed": kind.lapsed, "released": kind.released,
            "settled": kind.settled, "abandoned": kind.abandoned, "bytes": kind.bytes,
            "oldest_expiry": time(kind.oldest_expiry), "newest_expiry": time(kind.newest_expiry),
            "mark": time(kind.mark),
        })
    };
    json!({
        "rounds": kind(&stats.rounds), "steps": kind(&stats.steps), "notes": kind(&stats.notes),
        "accounts": stats.accounts, "epoch": stats.epoch,
        "file_bytes": stats.file_bytes, "log_bytes": stats.log_bytes,
    })
}

fn stats_as_text(stats: &Stats, now: Timestamp) -> String {
    let mut text = format!(
        "{:<34} {:>12} {:>12} {:>12}\n",
        "", "rounds", "steps", "notes"
    );
    let kinds = [&stats.rounds, &stats.steps, &stats.notes];
    let mut line = |name: &str, values: [String; 3]| {
        let [rounds, steps, notes] = values;
        text += &format!("{name:<34} {rounds:>12} {steps:>12} {notes:>12}\n");
    };
    let number = |of: fn(&KindStats) -> u64| kinds.map(|kind| of(kind).to_string());
    line("rows", number(|kind| kind.rows));
    line("  unexpired", number(|kind| kind.unexpired));
    line("  to be removed by a purge", number(|kind| kind.removable));
    line("owned, under way", number(|kind| kind.running));
    line("owned, lease lapsed", number(|kind| kind.lapsed));
    line("released", number(|kind| kind.released));
    line("settled", number(|kind| kind.settled));
    line("abandoned (outcome unknown)", number(|kind| kind.abandoned));
    line("bytes of outcomes", number(|kind| kind.bytes));
    let time = |of: fn(&KindStats) -> Option<Timestamp>| kinds.map(|kind| ago(of(kind), now));
    line("earliest expiry", time(|kind| kind.oldest_expiry));
    line("latest expiry", time(|kind| kind.newest_expiry));
    line("mark (removed up to here)", time(|kind| kind.mark));
    text += &format!(
        "accounts with unexpired rows {}, epoch {}.., file {} bytes, log {} bytes",
        stats.accounts, stats.epoch, stats.file_bytes, stats.log_bytes
    );
    text
}

/// A time as seconds from now.
fn ago(time: Option<Timestamp>, now: Timestamp) -> String {
    match time {
        None => "-".to_owned(),
        Some(time) if time < now => format!("{} s ago", now.saturating_since(time).as_secs()),
        Some(time) => format!("in {} s", time.saturating_since(now).as_secs()),
    }
}

async fn verify(options: &Options) -> Result<(String, u8), Failure> {
    let verified = open(options)?.verify().await.map_err(failed)?;
    let mut lines: Vec<String> = verified.findings.iter().map(ToString::to_string).collect();
    let text = if options.json {
        format!(
            "{:#}",
            json!({ "sound": verified.is_sound(), "rows": verified.rows, "findings": lines })
        )
    } else {
        lines.push(match lines.len() {
            0 => format!("nothing was found; {} rows were looked at", verified.rows),
            found => format!("{found} findings"),
        });
        lines.join("\n")
    };
    Ok((text, u8::from(!verified.is_sound())))
}

async fn purge(options: &Options) -> Result<String, Failure> {
    let purged = open(options)?.purge().await.map_err(failed)?;
    Ok(if options.json {
        format!(
            "{:#}",
            json!({ "rounds": purged.rounds, "steps": purged.steps, "notes": purged.notes })
        )
    } else {
        format!(
            "removed {} rounds, {} steps and {} notes",
            purged.rounds, purged.steps, purged.notes
        )
    })
}

async fn rotate(
    options: &Options,
    ask: impl Fn(&str) -> Option<String>,
) -> Result<String, Failure> {
    let ledger = open(options)?;
    let before = ledger.epoch().await.map_err(failed)?;
    if !options.yes {
        let question =
            "Every open flow ends, and its callers have to start again. Type `rotate` to go on: ";
        let what = match ask(question) {
            Some(line) if line.trim() == "rotate" => None,
            Some(_) => Some("nothing was changed"),
            None => Some("rotate-epoch ends every open flow; say --yes if that is what you want"),
        };
        if let Some(what) = what {
            let what = what.to_owned();
            return Err(Failure { code: 2, what });
        }
    }
    let after = ledger.rotate_epoch().await.map_err(failed)?;
    let short = |epoch: Epoch| epoch.to_text().chars().take(8).collect::<String>();
    let (before, after) = (short(before), short(after));
    Ok(if options.json {
        format!("{:#}", json!({ "before": before, "after": after }))
    } else {
        format!("epoch {before}.. is over; it is {after}.. now")
    })
}
