//! The smallest server that asks: HTTP, an HMAC codec, no ledger.
//!
//! What it has to remember while the question is open travels in a sealed state through the client; the server holds
//! nothing. Without a ledger a state can be answered again until it expires, which is fine for a greeting.
//!
//! ```sh
//! cargo run -p minimal    # with an address behind it to listen elsewhere
//! curl -s http://127.0.0.1:3000/mcp -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: greet' -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
//!   "name":"greet","arguments":{},
//!   "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}'
//! ```
//!
//! The retry is the same request with another id and, in its params, the `requestState` that came back and
//! `"inputResponses":{"name":{"action":"accept","content":{"name":"Ada"}}}`.

use std::error::Error;
use std::future::pending;

use mrtr_server::{Answer, Flow, Form, Server, tool};
use mrtr_state::KeyRing;
use mrtr_state_hmac::HmacCodec;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::net::TcpListener;

#[derive(Deserialize, JsonSchema)]
struct Name {
    /// How shall we call you?
    #[schemars(length(min = 1, max = 80))]
    name: String,
}

async fn greet(flow: Flow) -> String {
    match flow
        .ask("name", Form::<Name>::new("What is your name?"))
        .await
    {
        Answer::Accept(Name { name }) => format!("Say hello to {name}."),
        Answer::Decline => {
            "The person will not say their name. Greet them without it, and do not ask again."
                .into()
        }
        Answer::Cancel => {
            "The person did not answer. Greet them without a name; you may ask again later.".into()
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::builder("minimal", env!("CARGO_PKG_VERSION"))
        .audience("http://127.0.0.1:3000/mcp")
        // A fresh key: what it sealed is lost with the process. A real server reads lasting ones from a secret store.
        .codec(HmacCodec::new(KeyRing::generate()?)?)
        // Nobody is told apart, so that a state is good for whoever holds it.
        .allow_anonymous()
        .tool(tool("greet", greet).description("Finds out how to greet the person."))
        .build()?;

    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:3000")).await?;
    eprintln!("listening on http://{}/mcp", listener.local_addr()?);
    server.serve(listener, pending()).await?;
    Ok(())
}
