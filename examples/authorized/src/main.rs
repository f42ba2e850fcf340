//! A server whose callers log in: tokens of an authorization server, a scope for the tool that acts, and states that are one
//! person's in one app.
//!
//! It starts two things: the MCP endpoint, and on another port an authorization server with the people `alice`, `bob` and `carol`
//! (each with a password like `alice-password`) and the apps `desk-app` and `phone-app`. **That authorization server is for
//! tests and study, never for production**: what is real here is the MCP server beside it, which trusts its keys alone.
//!
//! ```sh
//! cargo run -p authorized -- --listen 127.0.0.1:3001
//! curl -si http://127.0.0.1:3001/mcp -H 'Content-Type: application/json' -d '{}' | grep -i www-authenticate
//! curl -s http://127.0.0.1:3001/.well-known/oauth-protected-resource/mcp
//! ```
//!
//! The first answer says where the second is; the second names the authorization server, and a client goes on from there: it
//! sends its person to log in, exchanges the code, and calls `transfer` with the token. `transfer` needs the scope
//! `transfers:write`, which carol may not grant; `balance` needs `transfers:read`, which the other one implies.
//!
//! It takes the flags of `stage`. stdout has `listening on http://ADDRESS/mcp`, and last `logins at URL`.

#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;

use authorized::issuer::{Client, Issuer};
use mrtr_auth::server::{Algorithm, JwtAuthenticator, ProtectedResource, TrustedIssuer};
use mrtr_server::{
    Answer, Args, DurableFlow, Form, Server, ServerBuilder, State, ToolError, WithoutScope, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use stage::arguments::Arguments;
use stage::record::Record;
use stage::{DefaultLedger, Prepared, StartError};

const NAME: &str = "authorized";
const READ: &str = "transfers:read";
const WRITE: &str = "transfers:write";

#[derive(Deserialize, JsonSchema)]
struct Transfer {
    /// Where to.
    to: String,
    /// In euros.
    #[schemars(range(min = 0.0))]
    amount: f64,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Transfer it?
    ok: bool,
}

async fn transfer(
    Args(Transfer { to, amount }): Args<Transfer>,
    flow: DurableFlow,
    State(record): State<Record>,
) -> Result<String, ToolError> {
    let question = Form::<Confirm>::new(format!("Transfer {amount:.2} to {to}?"));
    match flow.ask("confirm", question).await {
        Answer::Accept(Confirm { ok: true }) => {}
        Answer::Accept(_) | Answer::Cancel => {
            return Ok("Nothing was transferred. Ask again later if it is still needed.".into());
        }
        Answer::Decline => {
            return Ok(
                "Nothing was transferred: the person said no. Do not ask again for this.".into(),
            );
        }
    }
    let value = json!({ "to": to, "amount": amount });
    let entry = flow
        .once("transfer", async || record.append("transfer", &value).await)
        .await?;
    Ok(format!("Transferred as entry {entry}."))
}

async fn balance(State(record): State<Record>) -> Result<String, ToolError> {
    Ok(format!("{} transfers so far.", record.count().await?))
}

/// Who may log in, from which app.
async fn issuer() -> io::Result<Issuer> {
    Issuer::builder()
        .person("alice", "alice-password", [READ, WRITE])
        .person("bob", "bob-password", [READ, WRITE])
        .person("carol", "carol-password", [READ])
        .client(Client::public("desk-app", "http://127.0.0.1/callback"))
        .client(Client::public("phone-app", "http://127.0.0.1/callback"))
        .start()
        .await
}

fn server(
    builder: ServerBuilder,
    issuer: &Issuer,
    resource: &ProtectedResource,
    record: Record,
) -> Result<Server, Box<dyn Error>> {
    let trusted =
        TrustedIssuer::new(issuer.url(), issuer.jwks_uri()).algorithms([Algorithm::Es256]);
    let authenticator = JwtAuthenticator::builder(resource)
        .issuer(trusted)
        .require_access_token_type()
        .build()?;
    let transfer = tool("transfer", transfer)
        .description("Transfers money after a confirmation.")
        .scopes([WRITE])
        // Listed, so that a client finds it and asks its person for the scope.
        .without_scope(WithoutScope::Listed);
    let balance = tool("balance", balance)
        .description("Says how many transfers there were.")
        .scopes([READ]);
    Ok(builder
        .authenticator(authenticator)
        .state(record)
        .tool(transfer)
        .tool(balance)
        .build()?)
}

async fn serve() -> Result<(), StartError> {
    let Prepared {
        builder,
        data,
        process,
        ..
    } = stage::prepare(NAME, DefaultLedger::Sqlite, Arguments::of_this_process())?;
    let record = data.record().map_err(StartError::Data)?;
    let listener = process.listen().await.map_err(StartError::Listener)?;
    let address = listener.local_addr().map_err(StartError::Listener)?;
    let issuer = issuer().await.map_err(StartError::Listener)?;
    let other = |error: Box<dyn Error>| StartError::Listener(io::Error::other(error.to_string()));
    let resource = ProtectedResource::builder(format!("http://{address}/mcp"), issuer.url())
        .scopes_supported([READ])
        .implies(WRITE, [READ])
        .name("Transfers")
        .build()
        .map_err(|error| other(error.into()))?;
    let server = server(builder, &issuer, &resource, record).map_err(other)?;
    say(&format!("logins at {}", issuer.url())).map_err(StartError::Listener)?;
    // The document that clients look for is at the endpoint's own origin.
    let app = server.router("/mcp").merge(resource.routes());
    axum::serve(listener, app)
        .with_graceful_shutdown(process.ended())
        .await
        .map_err(StartError::Listener)
}

#[tokio::main]
async fn main() -> ExitCode {
    stage::exit_code(NAME, serve().await)
}

fn say(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}
