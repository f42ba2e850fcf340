//! What a claim costs, as ratios of one run: `cargo xtask bench ledger`.
//!
//! | measure | against |
//! |---|---|
//! | durable claims a second, 64 callers | one insert a transaction on a plain connection, same `synchronous`, same row |
//! | one caller's latency | the same |
//! | a claim's cost with many live rows | with few |
//! | claims' 99th percentile during a purge | without one |
//!
//! Rounds of both sides take turns, so that what else the machine does meets both; each ratio is the median of the
//! rounds' ratios, with the smallest and the largest beside it. Files are made in a folder that must be on a disk, not in
//! memory: without a disk's `fsync` there is nothing to compare.

mod few_and_many;
mod fill;
mod load;
mod options;
mod plain;
mod purging;
mod report;
mod throughput;

use std::process::ExitCode;

use options::Options;
use report::{Measure, Report};

/// What a measure can stop with.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let options = match Options::parse(&args) {
        Ok(Some(options)) => options,
        Ok(None) => {
            options::help();
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("bench: {problem}\n       `--help` shows what there is");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(report) => {
            report.print(options.json);
            if report.is_ok() {
                ExitCode::SUCCESS
            } else {
                eprintln!("bench: a ratio is not within its bound; see the table");
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!(
                "bench: {error}\n       is the folder {} writable and on a disk with room?",
                options.folder.display()
            );
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Outcome<Report> {
    std::fs::create_dir_all(&options.folder)?;
    let folder = tempfile::Builder::new()
        .prefix("bench-")
        .tempdir_in(&options.folder)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()?;
    let mut report = Report::new(options);
    if options.wants(Measure::Throughput) || options.wants(Measure::Latency) {
        throughput::measure(options, folder.path(), &runtime, &mut report)?;
    }
    if options.wants(Measure::Rows) {
        few_and_many::measure(options, folder.path(), &runtime, &mut report)?;
    }
    if options.wants(Measure::Purge) {
        purging::measure(options, folder.path(), &runtime, &mut report)?;
    }
    Ok(report)
}
