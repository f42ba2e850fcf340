//! A tool that has an account linked on a page, so that the secret never passes through the client.
//!
//! `link_account` asks the person to open a page of this server. There they log in, and paste an API key, which goes from
//! their browser to the server's vault. The client sees a link, and later that an account is linked; the key is in nothing
//! that passes it. Consenting to the link is not enough: until the page has taken a key, the same link is put again.
//!
//! ```sh
//! cargo run -p link-account -- --listen 127.0.0.1:3001 --page-listen 127.0.0.1:3002
//! curl -s http://127.0.0.1:3001/mcp -H 'Authorization: Bearer alice-token' \
//!   -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: link_account' -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
//!   "name":"link_account","arguments":{},
//!   "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}}}}'
//! ```
//!
//! Open the `url` that comes back, log in as alice with `alice-password`, and paste anything. The retry is the same request
//! with another id and, in its params, the `requestState` that came back and `"inputResponses":{"link":{"action":"accept"}}`.
//!
//! It takes the flags of `stage`, and two more: `--page-listen ADDR` says where the pages listen (default 127.0.0.1:0, a free
//! port), `--page-url URL` how browsers reach them, for pages behind a proxy that speaks https (default
//! `http://ADDRESS/connect`). stdout has two lines: `listening on http://ADDRESS/mcp`, then `pages on URL`.
//!
//! **For demonstration only**: the login's passwords stand in `login.rs`, and the vault's file is not encrypted.
//!
//! | module | what is in it |
//! |---|---|
//! | this file | the tools, and the two listeners |
//! | `page` | the page: what it shows, what it takes |
//! | `login` | the demonstration login: sessions and their cookie |
//! | `html` | text into HTML, and the frame of all pages |
//! | `vault` | secrets by principal, in a file |

#![forbid(unsafe_code)]

mod html;
mod login;
mod page;
mod vault;

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use http::Uri;
use mrtr_server::{
    Answer, Caller, Flow, MemoryVisits, Pages, State, ToolAnnotations, ToolError, ToolResult, tool,
};
use mrtr_state::SystemClock;
use stage::arguments::{Arguments, UsageError};
use stage::{DefaultLedger, Prepared, StartError};
use tokio::net::TcpListener;

use crate::login::Login;
use crate::page::Connect;
use crate::vault::Vault;

const NAME: &str = "link-account";

/// Whose API key is asked for.
const SERVICE: &str = "tickets.example";

async fn link_account(
    flow: Flow,
    caller: Caller,
    State(pages): State<Pages>,
    State(vault): State<Vault>,
) -> Result<ToolResult, ToolError> {
    let why = format!(
        "To act for you at {SERVICE}, this server needs an API key of yours. Enter it on this server's own page: it does not \
         pass through this client, and no model reads it."
    );
    Ok(match flow.ask_url("link", why, &pages).await {
        // The page has taken a key: the visit is not done before. Whether it is still there is the vault's word.
        Answer::Accept(()) if vault.holds(&caller.0) => {
            format!("The account at {SERVICE} is linked.").into()
        }
        Answer::Accept(()) => format!("No account at {SERVICE} is linked any more.").into(),
        Answer::Decline => {
            "No account was linked: the person said no. Do not ask again for this.".into()
        }
        Answer::Cancel => "No account was linked. Ask again later if it is still needed.".into(),
    })
}

/// Yes or no, and nothing about the secret itself.
async fn account_status(caller: Caller, State(vault): State<Vault>) -> ToolResult {
    match vault.holds(&caller.0) {
        true => format!("An account at {SERVICE} is linked."),
        false => format!("No account at {SERVICE} is linked."),
    }
    .into()
}

#[tokio::main]
async fn main() -> ExitCode {
    stage::exit_code(NAME, serve().await)
}

async fn serve() -> Result<(), StartError> {
    let mut arguments = Arguments::of_this_process();
    let page_listen: Option<SocketAddr> = arguments.value("--page-listen")?;
    let page_url: Option<Uri> = arguments.value("--page-url")?;
    let Prepared {
        builder,
        data,
        process,
        ..
    } = stage::prepare(NAME, DefaultLedger::None, arguments)?;

    let vault = Vault::open(data.path(Vault::FILE)).map_err(StartError::Data)?;
    let page_listener = TcpListener::bind(page_listen.unwrap_or((Ipv4Addr::LOCALHOST, 0).into()))
        .await
        .map_err(StartError::Listener)?;
    let page_url = match page_url {
        Some(url) => url.to_string(),
        None => {
            let address = page_listener.local_addr().map_err(StartError::Listener)?;
            format!("http://{address}/connect")
        }
    };
    let clock = Arc::new(SystemClock);
    let pages = Pages::new(&page_url, MemoryVisits::new(Arc::clone(&clock))).map_err(|error| {
        UsageError::Value {
            flag: "--page-url",
            why: error.to_string(),
        }
    })?;
    let (host, path) = host_and_path(&page_url);
    let login = Login::new(clock, &host, page_url.starts_with("https:"));
    let connect = Connect {
        login: login.clone(),
        vault: vault.clone(),
        record: data.record().map_err(StartError::Data)?,
        host,
        path,
    };
    let browser_side = pages.routes(connect).merge(login.routes());

    let server = builder
        .state(pages)
        .state(vault)
        .tool(
            tool("link_account", link_account)
                .title("Link an account")
                .description(format!(
                    "Has the person link their account at {SERVICE}, on a page."
                )),
        )
        .tool(
            tool("account_status", account_status)
                .title("Whether an account is linked")
                .description(format!("Says whether an account at {SERVICE} is linked."))
                .annotations(ToolAnnotations {
                    read_only_hint: Some(true),
                    ..ToolAnnotations::default()
                }),
        )
        .build()?;

    let mcp_listener = process.listen().await.map_err(StartError::Listener)?;
    say(&format!("pages on {page_url}")).map_err(StartError::Listener)?;
    // The pages end with the MCP endpoint, at once: what the vault has taken is on the disk, whole or not at all.
    tokio::select! {
        ended = server.serve(mcp_listener, process.ended()) => ended,
        ended = async { axum::serve(page_listener, browser_side).await } => ended,
    }
    .map_err(StartError::Listener)
}

fn say(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// Host and port, as the browser's address line shows them, and the path.
fn host_and_path(url: &str) -> (String, String) {
    let uri: Uri = url.parse().unwrap_or_default();
    let host = uri.authority().map(ToString::to_string);
    (
        host.unwrap_or_default(),
        uri.path().trim_end_matches('/').to_owned(),
    )
}
