#![forbid(unsafe_code)]
//! What one build makes of a corpus of JSON texts, a line each. `tests/it` builds this four times and compares.
//!
//! Cargo unifies features: any crate of a build can turn on serde_json's `preserve_order` and `arbitrary_precision` for all the
//! others. What is accepted, and what a state is bound to, must not depend on that: two servers of one fleet may be built differently.
//!
//! ```sh
//! cargo run -p matrix -- verdicts
//! cargo run -p matrix --features server,arbitrary_precision -- verdicts
//! cargo run -p matrix -- seal | cargo run -p matrix --features preserve_order -- open
//! ```
//!
//! * `features`: what this build's serde_json does, measured and not remembered;
//! * `verdicts`: `section TAB input TAB verdict`;
//! * `seal` prints sealed states, and `open` reads them;
//! * `ask` prints the states of first calls, and `answer` reads them (with the feature `server`).

mod corpus;
#[cfg(feature = "server")]
mod flows;
mod states;
mod verdicts;

use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

/// What cannot go on ends the program with its text.
type Problem = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let lines = match run(&mode) {
        Ok(lines) => lines,
        Err(problem) => {
            eprintln!("matrix {mode}: {problem}");
            return ExitCode::FAILURE;
        }
    };
    let mut text = lines.join("\n");
    text.push('\n');
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run(mode: &str) -> Result<Vec<String>, Problem> {
    match mode {
        "features" => Ok(vec![features()]),
        "verdicts" => verdicts(),
        "seal" => states::seal(),
        "open" => states::open(&input()?),
        #[cfg(feature = "server")]
        "ask" => flows::ask(),
        #[cfg(feature = "server")]
        "answer" => flows::answer(&input()?),
        _ => Err("modes: features, verdicts, seal, open; with `server` also ask, answer".into()),
    }
}

fn verdicts() -> Result<Vec<String>, Problem> {
    let mut lines = verdicts::all();
    lines.extend(states::verdicts()?);
    #[cfg(feature = "server")]
    lines.extend(flows::verdicts()?);
    Ok(lines)
}

fn input() -> Result<String, Problem> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

/// The features that this build's serde_json has, whoever turned them on.
fn features() -> String {
    let mut names = Vec::new();
    let shown = |text: &str| {
        serde_json::from_str::<serde_json::Value>(text).map_or_else(
            |error| format!("refused: {error}"),
            |value| value.to_string(),
        )
    };
    if shown(r#"{"b":1,"a":2}"#) == r#"{"b":1,"a":2}"# {
        names.push("preserve_order");
    }
    if shown("1.00") == "1.00" {
        names.push("arbitrary_precision");
    }
    names.join("+")
}

/// One line of output. Input and verdict are cut where they are long, and never hold a tab or the end of a line.
fn line(section: &str, input: &str, verdict: &str) -> String {
    let clean = |text: &str| {
        let short: String = text.chars().take(160).collect();
        format!("{:?} ({} bytes)", short, text.len())
    };
    format!("{section}\t{}\t{verdict}", clean(input))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
