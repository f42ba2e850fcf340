//! Our side of `cargo xtask interop`: a server and a client that are run against the official SDKs, which play the same
//! parts in `interop/typescript` and `interop/python`.
//!
//! ```sh
//! cargo run -p interop -- serve
//! cargo run -p interop -- call --url http://127.0.0.1:PORT/mcp --era 2026-07-28 --case plain
//! ```
//!
//! | module | what is in it |
//! |---|---|
//! | this file | the command line |
//! | `server` | the tools, prompt and resources that every server here has |
//! | `page` | the page that a URL question leads to |
//! | `client` | connecting, and one line for each case |
//! | `cases` | what is done in each case |
//! | `people` | who answers, and what was asked of them |

#![forbid(unsafe_code)]

mod cases;
mod client;
mod page;
mod people;
mod server;

use std::process::ExitCode;

use stage::arguments::{Arguments, UsageError};

const HELP: &str = "\
interop serve [--listen ADDR] [--until-stdin-closes]
interop serve --stdio
interop call (--url URL | --command JSON) --era REVISION --case CASE..

serve: one line on stdout says where it listens; with --stdio it serves one client over standard input and output.
call: plays each case against a server, and writes one JSON object a line: the case, and what was observed in it.

  --command JSON  the server's program and its arguments, an array of strings
  --era REVISION  2026-07-28 or 2025-11-25
";

/// The bearer token that the server takes over HTTP. For demonstration only: anybody can read it here.
const TOKEN: &str = "interop-token";

/// Why it does not start, or ended badly.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Usage(#[from] UsageError),
    #[error("say `serve` or `call`; --help says more")]
    Command,
    #[error("{0}")]
    Argument(String),
    #[error(transparent)]
    Serve(#[from] server::ServeError),
    #[error(transparent)]
    Call(#[from] client::ClientError),
}

#[tokio::main]
async fn main() -> ExitCode {
    let failure = match run().await {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    match failure {
        Failure::Usage(UsageError::Help) => {
            eprint!("{HELP}");
            ExitCode::SUCCESS
        }
        failure @ (Failure::Usage(_) | Failure::Command | Failure::Argument(_)) => {
            eprintln!("interop: {failure}");
            ExitCode::from(2)
        }
        failure => {
            eprintln!("interop: {failure}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let command = words.next();
    let mut arguments = Arguments::of(words);
    match command.as_deref() {
        Some("serve") => {
            let process = stage::process::Process::take(&mut arguments)?;
            let stdio = arguments.flag("--stdio");
            arguments.finish()?;
            Ok(server::serve(&process, stdio).await?)
        }
        Some("call") => {
            let plan = client::Plan::take(&mut arguments)?;
            arguments.finish()?;
            Ok(plan.play().await?)
        }
        Some("-h" | "--help") => Err(UsageError::Help.into()),
        _ => Err(Failure::Command),
    }
}
