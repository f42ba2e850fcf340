#![forbid(unsafe_code)]
//! What every example server shares, so that its `main.rs` is about its tools. `cargo run -p stage` prints the flags.
//!
//! **For demonstration only**: its bearer tokens are in this file, and a flag takes guards off.
//!
//! | module | what is in it |
//! |---|---|
//! | this file | [`run`]: from flags to a served server; [`prepare`] for one that serves more |
//! | [`arguments`] | reading flags |
//! | [`process`] | listening, announcing, ending |
//! | [`record`] | the record of effects |
//! | `options` | what codec, ledger and guards the flags ask for |

pub mod arguments;
mod options;
pub mod process;
pub mod record;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use mrtr_ledger_sqlite::SqliteLedger;
use mrtr_server::{BuildError, Principal, Server, ServerBuilder, StaticTokens};

use crate::arguments::{Arguments, UsageError};
use crate::options::Options;
pub use crate::options::{DefaultLedger, OptionsError};
use crate::process::Process;
use crate::record::Record;

/// What `--help` prints.
pub const HELP: &str = include_str!("help.txt");

/// Reads the flags, lets `tools` put its tools on a builder that has everything else, and serves until the process is
/// told to end.
///
/// `ledger` is what is taken without the flag `--ledger`. The exit code is 0 after a graceful end, 1 where the server does
/// not start or its listener fails, and 2 for flags that cannot be read; stderr says why.
pub async fn run(
    name: &'static str,
    ledger: DefaultLedger,
    tools: impl FnOnce(ServerBuilder, &Data) -> io::Result<ServerBuilder>,
) -> ExitCode {
    exit_code(name, serve(name, ledger, tools).await)
}

async fn serve(
    name: &'static str,
    ledger: DefaultLedger,
    tools: impl FnOnce(ServerBuilder, &Data) -> io::Result<ServerBuilder>,
) -> Result<(), StartError> {
    let Prepared {
        builder,
        data,
        process,
        ..
    } = prepare(name, ledger, Arguments::of_this_process())?;
    let server = tools(builder, &data).map_err(StartError::Data)?.build()?;

    let listener = process.listen().await.map_err(StartError::Listener)?;
    server
        .serve(listener, process.ended())
        .await
        .map_err(StartError::Listener)
}

/// What [`run`] has before it serves, for an example that serves something beside the MCP endpoint.
#[derive(Debug)]
pub struct Prepared {
    /// Everything but tools.
    pub builder: ServerBuilder,
    /// Where data is kept.
    pub data: Data,
    /// Where to listen, and what ends it.
    pub process: Process,
    /// The ledger, where it is SQLite: for an example whose effects are in its file.
    pub sqlite: Option<Arc<SqliteLedger>>,
}

/// Reads the flags of [`HELP`] from what an example has left of its command line, and refuses the rest.
///
/// # Errors
///
/// [`StartError`].
pub fn prepare(
    name: &'static str,
    ledger: DefaultLedger,
    mut arguments: Arguments,
) -> Result<Prepared, StartError> {
    let process = Process::take(&mut arguments)?;
    let options = Options::take(&mut arguments)?;
    arguments.finish()?;

    let data = Data::open(name, options.data.clone())?;
    let audience = options
        .audience
        .clone()
        .unwrap_or_else(|| format!("http://localhost/{name}"));
    let builder = Server::builder(name, env!("CARGO_PKG_VERSION"))
        .audience(audience)
        .authenticator(tokens());
    // A ledger's file is opened here, which blocks; nothing is served yet.
    let (builder, sqlite) = options.equip(builder, ledger, &data)?;
    Ok(Prepared {
        builder,
        data,
        process,
        sqlite,
    })
}

/// Who is who in the examples. Demonstration only: anybody can read these tokens here.
fn tokens() -> StaticTokens {
    let user = |subject| Principal::user("https://login.example", subject).with_client("demo");
    StaticTokens::new()
        .token("alice-token", user("alice"))
        .token("bob-token", user("bob"))
}

/// Where an example keeps its data: `--data`, or a fresh directory.
#[derive(Debug, Clone)]
pub struct Data {
    dir: PathBuf,
}

impl Data {
    fn open(name: &str, dir: Option<PathBuf>) -> Result<Data, StartError> {
        let dir = match dir {
            Some(dir) => std::fs::create_dir_all(&dir).map(|()| dir),
            None => tempfile::Builder::new()
                .prefix(&format!("{name}-"))
                .tempdir()
                .map(tempfile::TempDir::keep),
        }
        .map_err(StartError::Data)?;
        eprintln!("{name}: data is kept in {}", dir.display());
        Ok(Data { dir })
    }

    /// The path of a file of this name.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The record of effects.
    ///
    /// # Errors
    ///
    /// Where the file cannot be opened or created.
    pub fn record(&self) -> io::Result<Record> {
        Record::open(self.path(Record::FILE))
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Why an example does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The flags cannot be read.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// Codec or ledger cannot be made as the flags say.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The builder refused.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The data directory.
    #[error("its data cannot be kept")]
    Data(#[source] io::Error),
    /// The address.
    #[error("its address cannot be listened on")]
    Listener(#[source] io::Error),
}

/// Makes a program's exit code from what it came to, and says on stderr, in one line, why it does not start.
pub fn exit_code(name: &str, ended: Result<(), StartError>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(StartError::Usage(UsageError::Help)) => {
            eprint!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(StartError::Usage(error)) => {
            eprintln!("{name}: {error}");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("{name} does not start: {}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// An error and its sources on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        line.push_str(&format!(": {error}"));
        source = error.source();
    }
    line
}
