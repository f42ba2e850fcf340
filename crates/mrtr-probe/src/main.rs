#![forbid(unsafe_code)]
//! `mrtr-probe URL --tool NAME ..`: see `--help`.

mod options;

use std::io::{self, Write as _};
use std::process::ExitCode;

use mrtr_probe::{ProbeError, Report, Row};

use options::{Format, Options, Parsed};

fn main() -> ExitCode {
    let parsed = Options::parse(std::env::args().skip(1), |name| std::env::var(name).ok());
    let options = match parsed {
        Ok(Parsed::Help) => {
            let _ = io::stdout().write_all(options::HELP.as_bytes());
            return ExitCode::SUCCESS;
        }
        Ok(Parsed::Run(options)) => options,
        Err(error) => {
            eprintln!("mrtr-probe: {error}\n            --help shows what there is");
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.to_string(), 3),
    };
    match runtime.block_on(mrtr_probe::run(&options.target, progress)) {
        Ok(report) => print(&report, options.format),
        Err(error @ ProbeError::Endpoint { .. }) => failed(&error.to_string(), 2),
        Err(error) => failed(&error.to_string(), 3),
    }
}

fn failed(why: &str, code: u8) -> ExitCode {
    eprintln!("mrtr-probe: {why}");
    ExitCode::from(code)
}

/// One line a row, as it is done.
fn progress(row: &Row) {
    eprintln!("{:<14}  {}", row.verdict.word(), row.title);
}

fn print(report: &Report, format: Format) -> ExitCode {
    let text = match format {
        Format::Table => Ok(report.to_string()),
        Format::Json => serde_json::to_string_pretty(report).map(|text| text + "\n"),
        Format::Sarif => serde_json::to_string_pretty(&report.to_sarif()).map(|text| text + "\n"),
    };
    let written = text
        .map_err(io::Error::from)
        .and_then(|text| io::stdout().write_all(text.as_bytes()));
    if let Err(error) = written {
        return failed(&error.to_string(), 3);
    }
    if report.totals.unknown > 0 {
        eprintln!(
            "{} rows are unknown; the exit code does not count them",
            report.totals.unknown
        );
    }
    match report.is_unsafe() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}
