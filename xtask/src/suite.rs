//! `cargo xtask test`: every test of the workspace, doc tests included, then tidy.

use std::io::{self, Read as _, Write as _};
use std::process::Stdio;

use crate::cargo::{self, cargo};
use crate::failure::Failure;
use crate::{heading, postgres, tidy};

/// Runs the tests, then tidy. The last line of stdout is `N passed, N failed`, whatever came out.
pub(crate) fn run() -> Result<(), Failure> {
    let mut counts = Counts::default();
    let outcome = steps(&mut counts);
    // What went wrong stands above the counts, so that the counts are the last line.
    let outcome = outcome.map_err(|failure| {
        failure.report();
        Failure::Exit(1)
    });
    writeln!(io::stdout(), "{}", counts.line())?;
    outcome
}

fn steps(counts: &mut Counts) -> Result<(), Failure> {
    heading("tests: unit, integration and doc tests of the workspace");
    let clean = tests(counts)?;
    if !clean && counts.failed == 0 {
        // Without this a test binary that did not build or was killed would leave "0 failed" on the last line.
        counts.failed = 1;
        return Err(Failure::failed(
            "a test binary did not build or did not come to its end (counted as one failure)",
            "mend what cargo reports above",
        ));
    }
    if !clean {
        return Err(Failure::failed(
            format!("failed tests: {}", counts.failed),
            "run one alone with `cargo test -p CRATE NAME`; its output stands above",
        ));
    }
    if counts.passed == 0 {
        return Err(Failure::failed(
            "no test ran",
            "the output above should show `test result:` lines; is the checkout complete?",
        ));
    }
    heading("tidy: the project's own rules");
    tidy::run()
}

/// Runs `cargo test`, passes its output on as it comes, and counts; true when cargo was content.
fn tests(counts: &mut Counts) -> Result<bool, Failure> {
    // `--workspace` without a choice of targets runs libraries, binaries, integration and doc tests, and builds the
    // examples. `--no-fail-fast` makes the counts those of the whole run.
    let mut command = cargo(["test", "--workspace", "--no-fail-fast"]);
    // Ends when this function does.
    let server = postgres::for_tests()?;
    let connection = server
        .as_ref()
        .map_or(postgres::NONE, |server| &server.connection);
    command.env(postgres::VARIABLE, connection);
    let line = cargo::shown(&command);
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| {
        Failure::failed(
            format!("`{line}` could not be started: {error}"),
            "is cargo on the path?",
        )
    })?;
    if let Some(mut from) = child.stdout.take() {
        let mut to = io::stdout().lock();
        let mut lines = Lines::default();
        let mut chunk = [0_u8; 8192];
        loop {
            let read = from.read(&mut chunk)?;
            let bytes = chunk.get(..read).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            to.write_all(bytes)?;
            to.flush()?;
            lines.feed(bytes, |line| counts.add(line));
        }
        lines.finish(|line| counts.add(line));
    }
    Ok(child.wait()?.success())
}

/// What the test binaries counted, summed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Counts {
    /// Adds a line such as `test result: ok. 12 passed; 0 failed; 1 ignored; ..`; every other line says nothing.
    fn add(&mut self, line: &str) {
        // Not only at the start of a line: a program that a test starts may have left one unfinished.
        let Some((_, result)) = line.split_once("test result: ") else {
            return;
        };
        let Some(counts) = result
            .strip_prefix("ok. ")
            .or_else(|| result.strip_prefix("FAILED. "))
        else {
            return;
        };
        for part in counts.split(';') {
            let Some((number, word)) = part.trim().split_once(' ') else {
                continue;
            };
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match word {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }

    fn line(&self) -> String {
        let Self {
            passed,
            failed,
            skipped,
        } = self;
        match skipped {
            0 => format!("{passed} passed, {failed} failed"),
            _ => format!("{passed} passed, {failed} failed, {skipped} skipped"),
        }
    }
}

/// Puts chunks of output together to lines.
#[derive(Debug, Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) {
        for byte in bytes {
            if *byte == b'\n' {
                each(String::from_utf8_lossy(&self.rest).trim_end());
                self.rest.clear();
            } else {
                self.rest.push(*byte);
            }
        }
    }

    fn finish(self, mut each: impl FnMut(&str)) {
        each(String::from_utf8_lossy(&self.rest).trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(chunks: &[&str]) -> Counts {
        let mut counts = Counts::default();
        let mut lines = Lines::default();
        for chunk in chunks {
            lines.feed(chunk.as_bytes(), |line| counts.add(line));
        }
        lines.finish(|line| counts.add(line));
        counts
    }

    #[test]
    fn results_are_summed_over_binaries_and_chunks() {
        let counts = counted(&[
            "running 3 tests\ntest a ... ok\ntest result: ok. 2 passed; 0 failed; 1 ig",
            "nored; 0 measured; 4 filtered out; finished in 0.01s\n\ntest result: FAILED. 5 passed; 2 failed; 0 ignored; ",
            "0 measured; 0 filtered out; finished in 1.50s\r\n",
        ]);
        assert_eq!(counts.line(), "7 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn a_last_line_without_its_end_counts() {
        let counts = counted(&["test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured"]);
        assert_eq!(counts.line(), "2 passed, 0 failed");
    }

    #[test]
    fn other_lines_say_nothing() {
        let counts = counted(&[
            "9 passed; 9 failed\ntest result: 9 passed\ntest result: nothing. 9 passed;\n",
        ]);
        assert_eq!(counts, Counts::default());
    }
}
