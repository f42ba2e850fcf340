//! Plays the story against the example servers, over real HTTP, and measures what comes of it. Run it with
//! `cargo xtask demo`, which builds the servers first:
//!
//! ```text
//! cargo xtask demo               tables for people; exits 1 if a row is not as expected
//! cargo xtask demo --json        one JSON object on stdout, and nothing else there
//! cargo xtask demo --sabotage    one guard off at a time: each row that it governs must turn red
//! ```

#![allow(
    clippy::indexing_slicing,
    reason = "only JSON values are indexed, and what is not there is null"
)]

mod board;
mod browser;
mod login;
mod people;
mod sabotage;
mod sections;
mod servers;
mod session;
mod wire;

use std::fmt;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use board::Row;
use servers::Stage;

/// Why something could not be measured.
#[derive(Debug)]
pub(crate) struct Fault(pub(crate) String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Fault {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self(text)
    }
}

struct Options {
    json: bool,
    sabotage: bool,
    binaries: PathBuf,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        json: false,
        sabotage: false,
        binaries: PathBuf::new(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => options.json = true,
            "--sabotage" => options.sabotage = true,
            "--bin-dir" => {
                options.binaries = arguments
                    .next()
                    .ok_or("--bin-dir needs a directory")?
                    .into()
            }
            other => {
                return Err(format!(
                    "{other:?} is not known here; there are --json and --sabotage"
                ));
            }
        }
    }
    if options.binaries.as_os_str().is_empty() {
        // Beside this binary is where cargo puts the example servers too.
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        options.binaries = this.parent().map(PathBuf::from).unwrap_or_default();
    }
    Ok(options)
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("demo: {error}");
            return ExitCode::from(2);
        }
    };
    let stage = Stage {
        binaries: options.binaries.clone(),
        without: Vec::new(),
    };
    let as_expected = if options.sabotage {
        sabotage::run(&stage, options.json).await
    } else {
        play(&stage, options.json).await
    };
    match as_expected {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Plays every row.
async fn play(stage: &Stage, json: bool) -> std::io::Result<bool> {
    let cases = sections::all();
    let total = cases.len();
    let mut rows: Vec<Row> = Vec::with_capacity(total);
    for (number, case) in cases.iter().enumerate() {
        progress(
            number + 1,
            total,
            &format!("{}: {}", case.section, case.case),
        );
        rows.push(case.play(stage).await);
        let section_ends = cases
            .get(number + 1)
            .is_none_or(|next| next.section != case.section);
        if section_ends && !json {
            clear_progress();
            let section: Vec<Row> = rows
                .iter()
                .filter(|row| row.section == case.section)
                .cloned()
                .collect();
            board::table(&section, &mut std::io::stdout().lock())?;
        }
    }
    clear_progress();
    let failed = rows.iter().filter(|row| !row.ok).count();
    let mut stdout = std::io::stdout().lock();
    if json {
        writeln!(stdout, "{}", serde_json::json!({ "rows": rows }))?;
    } else {
        writeln!(
            stdout,
            "\n  {} of {total} rows as expected.",
            total - failed
        )?;
    }
    Ok(failed == 0)
}

/// One line on stderr that overwrites itself where people watch, and nothing elsewhere.
pub(crate) fn progress(number: usize, total: usize, what: &str) {
    use std::io::IsTerminal as _;
    if std::io::stderr().is_terminal() {
        let what: String = what.chars().take(90).collect();
        eprint!("\r\x1b[K  {number}/{total}  {what}");
    }
}

pub(crate) fn clear_progress() {
    use std::io::IsTerminal as _;
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}
