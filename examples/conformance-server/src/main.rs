//! What the official conformance suite asks of a server. `cargo xtask conformance` runs the suite against it.
//!
//! The names and texts in here are the suite's; how they are written is how anybody would write a server. State is sealed
//! with AEAD, and each state is good for one answer, by a ledger in SQLite.
//!
//! | module | what is in it |
//! |---|---|
//! | this file | flags, and a server with everything on it |
//! | `content` | tools that return content of each type |
//! | `schema` | a tool whose schema is written by hand, and one with an argument that headers repeat |
//! | `asking` | tools that ask, each in the way that one scenario looks at |
//! | `changing` | tools that announce a change to whoever subscribed |
//! | `streaming` | tools that say something before their result |
//! | `forms` | forms with defaults, and with every way to offer a choice |
//! | `prompts`, `resources` | what their names say |
//!
//! ```sh
//! cargo run -p conformance-server -- --listen 127.0.0.1:3010
//! cargo xtask conformance --leg server-2026-07-28
//! ```

mod asking;
mod changing;
mod content;
mod forms;
mod prompts;
mod resources;
mod schema;
mod streaming;

use std::path::PathBuf;
use std::process::ExitCode;

use mrtr_ledger_sqlite::{OpenError, SqliteLedger};
use mrtr_server::{BuildError, Server};
use mrtr_state::{KeyError, KeyRing, RandomError};
use mrtr_state_aead::AeadCodec;
use stage::arguments::{Arguments, UsageError};
use stage::process::Process;

const NAME: &str = "conformance-server";

const HELP: &str = "\
conformance-server [--listen ADDR] [--until-stdin-closes] [--data DIR]
conformance-server --stdio [--data DIR]

  --listen ADDR           where to listen; default 127.0.0.1:0, a free port. The one line on stdout says which
  --until-stdin-closes    end gracefully when stdin reaches its end, so that the end of a parent ends it too
  --stdio                 serve one client over standard input and output, in both eras
  --data DIR              where the ledger is kept; default: a fresh directory that goes with the process
";

/// Why it does not start, or ended badly.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Usage(#[from] UsageError),
    #[error("no keys: {0}")]
    Random(#[from] RandomError),
    #[error("no codec: {0}")]
    Keys(#[from] KeyError),
    #[error("no ledger: {0}")]
    Ledger(#[from] OpenError),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(UsageError::Help)) => {
            eprint!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{NAME}: {failure}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), Failure> {
    let mut arguments = Arguments::of_this_process();
    let process = Process::take(&mut arguments)?;
    let data: Option<PathBuf> = arguments.value("--data")?;
    let stdio = arguments.flag("--stdio");
    arguments.finish()?;

    // Kept until the end of this function, and so of the server.
    let fresh = tempfile::tempdir()?;
    let folder = data.unwrap_or_else(|| fresh.path().to_owned());
    std::fs::create_dir_all(&folder)?;
    let server = server(SqliteLedger::open(folder.join("ledger.sqlite"))?)?;

    if stdio {
        return Ok(server.serve_stdio(process.ended()).await?);
    }
    let listener = process.listen().await?;
    Ok(server.serve(listener, process.ended()).await?)
}

/// The server that the suite looks at. It logs nobody in, because the suite's server scenarios carry no tokens.
fn server(ledger: SqliteLedger) -> Result<Server, Failure> {
    let builder = Server::builder(NAME, env!("CARGO_PKG_VERSION"))
        .instructions(
            "A server for the official conformance suite. Nothing here does anything useful.",
        )
        .audience("http://localhost/conformance-server")
        .allow_anonymous()
        .codec(AeadCodec::new(KeyRing::generate()?)?)
        .ledger(ledger);
    // The suite calls the first tool without arguments, and reads the first resource.
    let builder = content::add(builder);
    let builder = schema::add(builder);
    let builder = streaming::add(builder);
    let builder = changing::add(builder);
    let builder = asking::add(builder);
    let builder = forms::add(builder);
    let builder = prompts::add(builder);
    let builder = resources::add(builder);
    Ok(builder.build()?)
}
