//! Why a command stopped, and the exit code that says so.

use std::io;
use std::process::ExitCode;

/// Why a command stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line was not understood: exit code 2.
    Usage(String),
    /// Something is not as it should be: exit code 1, with what to do next.
    Failed { what: String, next: String },
    /// A program that was started has already said what is wrong; its exit code is ours.
    Exit(u8),
}

impl Failure {
    pub(crate) fn usage(what: String) -> Self {
        Self::Usage(what)
    }

    pub(crate) fn failed(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self::Failed {
            what: what.into(),
            next: next.into(),
        }
    }

    /// Says on stderr what is wrong and turns into the exit code.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Usage(what) => {
                eprintln!("xtask: {what}\n       `cargo xtask --help` shows what there is");
                ExitCode::from(2)
            }
            Self::Failed { what, next } => {
                eprintln!("xtask: {what}\n       {next}");
                ExitCode::FAILURE
            }
            Self::Exit(code) => ExitCode::from(code),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        // A reader that closed our stdout has seen what it wanted; anything else is worth a word.
        Self::failed(
            format!("input or output failed: {error}"),
            "see the lines above for what was being done",
        )
    }
}
