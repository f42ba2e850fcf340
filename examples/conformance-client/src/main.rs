//! What the official conformance suite asks of a client. `cargo xtask conformance` has the suite start it, once for each
//! scenario:
//!
//! ```sh
//! MCP_CONFORMANCE_SCENARIO=tools_call MCP_CONFORMANCE_PROTOCOL_VERSION=2026-07-28 \
//!   cargo run -p conformance-client -- http://127.0.0.1:3010/mcp
//! cargo xtask conformance --leg client-2026-07-28
//! ```
//!
//! It ends by itself, at the latest after a minute. When everything went well the last line on stdout is `done`; otherwise
//! stderr says what did not, and the exit code is 1.
//!
//! | module | what is in it |
//! |---|---|
//! | this file | what the environment says, the time limit, the end |
//! | `people` | the handlers: somebody who says yes to everything |
//! | `authorization`, `person` | credentials, and somebody who agrees at the authorization server |
//! | `scenarios` | what is done in each scenario |

mod authorization;
mod people;
mod person;
mod scenarios;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use mrtr_auth::client::AuthError;
use mrtr_client::protocol::{EarlierRevision, REVISION};
use mrtr_client::{BuildError, CallError, Client, EraChoice, RequestError};
use serde::Deserialize;
use serde_json::Value;

use crate::scenarios::Scenario;

/// The suite ends a client that takes longer, and some hosts do not survive that. All scenarios run at once.
const LIMIT: Duration = Duration::from_secs(60);

/// Why a scenario was not played to its end.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("`{0}` is not set; the suite sets it")]
    Unset(&'static str),
    #[error("the one argument is the server's URL")]
    Url,
    #[error("MCP_CONFORMANCE_CONTEXT cannot be read: {0}")]
    Context(#[from] serde_json::Error),
    #[error("the revision `{0}` is not spoken here")]
    Revision(String),
    #[error("the scenario `{0}` is not known here")]
    Scenario(String),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Authorization(#[from] AuthError),
    #[error("there is a token, and there should be none")]
    Authorized,
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Call(Box<CallError>),
    #[error("the server has no {0}")]
    Missing(&'static str),
    #[error("not done within {} s", LIMIT.as_secs())]
    TooSlow,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::Call(Box::new(error))
    }
}

impl Failure {
    /// Why there is no token, if that is what went wrong.
    fn refusal(&self) -> Option<&AuthError> {
        let mut request = match self {
            Self::Request(error) => error,
            Self::Call(error) => match &**error {
                CallError::NoCredentials { source, .. } => return source.cause().downcast_ref(),
                _ => return None,
            },
            _ => return None,
        };
        // A session cannot be opened without one.
        while let RequestError::Handshake(error) = request {
            request = error;
        }
        match request {
            RequestError::Credentials(error) => error.cause().downcast_ref(),
            _ => None,
        }
    }
}

/// What some scenarios are told beside the URL.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Context {
    #[serde(rename = "toolCalls")]
    tool_calls: Vec<ToolCall>,
    #[serde(flatten)]
    authorization: authorization::Given,
}

/// A call that is to be made as it is written here.
#[derive(Debug, Deserialize)]
struct ToolCall {
    name: String,
    arguments: Value,
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .init();
    let played = match tokio::time::timeout(LIMIT, play()).await {
        Ok(played) => played,
        Err(_) => Err(Failure::TooSlow),
    };
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("conformance-client: {}", chain(&failure));
            ExitCode::FAILURE
        }
    }
}

async fn play() -> Result<(), Failure> {
    let url = std::env::args().nth(1).ok_or(Failure::Url)?;
    let scenario = variable("MCP_CONFORMANCE_SCENARIO")?;
    let revision = variable("MCP_CONFORMANCE_PROTOCOL_VERSION")?;
    let mut context = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(context) => serde_json::from_str(&context)?,
        Err(_) => Context::default(),
    };
    let played = Scenario::named(&scenario).ok_or(Failure::Scenario(scenario.clone()))?;
    let era = match &*revision {
        REVISION => EraChoice::Modern,
        word if EarlierRevision::from_word(word).is_some() => EraChoice::Earlier,
        _ => return Err(Failure::Revision(revision)),
    };
    let mut builder = people::attend(Client::builder(&url).era(era));
    if played == Scenario::Authorized {
        let given = std::mem::take(&mut context.authorization);
        builder = builder.credentials(given.credentials(&scenario, &url)?);
    }
    let client = builder.build()?;
    let outcome = played.play(&client, &context).await;
    match (authorization::refusal(&scenario), outcome) {
        (None, outcome) => outcome?,
        (Some(_), Ok(())) => return Err(Failure::Authorized),
        (Some(is_expected), Err(failure)) => {
            if !failure.refusal().is_some_and(is_expected) {
                return Err(failure);
            }
        }
    }
    client.close().await;
    writeln!(std::io::stdout(), "done")?;
    Ok(())
}

fn variable(name: &'static str) -> Result<String, Failure> {
    std::env::var(name).map_err(|_| Failure::Unset(name))
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
