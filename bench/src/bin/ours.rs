//! This project's server: `echo` asks nothing, `pay` asks once.
//!
//! Arguments: `--codec hmac|aead`, `--ledger PATH`, `--tools N` (that many more tools beside), `--anonymous` (nobody is told apart;
//! otherwise states are bound to the bearer token's principal).

use std::future::pending;

use mrtr_bench::{KEY, Options, TOKEN, listen, say_address};
use mrtr_ledger::Limits;
use mrtr_ledger_sqlite::SqliteLedger;
use mrtr_server::{Answer, Args, Flow, Form, Principal, Server, StaticTokens, tool};
use mrtr_state::{Key, KeyRing};
use mrtr_state_aead::AeadCodec;
use mrtr_state_hmac::HmacCodec;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Payment {
    to: String,
    amount: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

async fn echo(Args(Echo { text }): Args<Echo>) -> String {
    text
}

async fn pay(Args(payment): Args<Payment>, flow: Flow) -> &'static str {
    let question = Form::<Confirm>::new(format!("Pay {} to {}?", payment.amount, payment.to));
    match flow.ask("confirm", question).await {
        Answer::Accept(Confirm { ok: true }) => "done",
        _ => "not done",
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::parse();
    let keys = || -> Result<KeyRing, Box<dyn std::error::Error>> {
        Ok(KeyRing::new(Key::from_bytes(&KEY)?))
    };
    let mut server = Server::builder("bench", "0.0.0")
        .audience("http://bench.example/mcp")
        .tool(tool("echo", echo).description("Says the same."))
        .tool(tool("pay", pay).description("Pays, after a confirmation."));
    server = match options.codec.as_str() {
        "aead" => server.codec(AeadCodec::new(keys()?)?),
        _ => server.codec(HmacCodec::new(keys()?)?),
    };
    server = if options.anonymous {
        server.allow_anonymous()
    } else {
        server.authenticator(
            StaticTokens::new().token(TOKEN, Principal::user("https://bench.example", "somebody")),
        )
    };
    if let Some(path) = &options.ledger {
        let room = Limits {
            rows_per_account: 100_000_000,
            bytes_per_account: 1 << 40,
            rows: 1_000_000_000,
            bytes: 1 << 40,
        };
        server = server.ledger(SqliteLedger::builder(path).limits(room).open()?);
    }
    for number in 0..options.tools {
        server = server.tool(tool(format!("tool-{number}"), echo).description("One of many."));
    }
    let server = server.build()?;
    let listener = listen().await?;
    say_address(&listener)?;
    server.serve(listener, pending()).await?;
    Ok(())
}
