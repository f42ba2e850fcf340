//! A voucher that must not be redeemed twice.
//!
//! `redeem_voucher` asks and then redeems, with a plain `Flow`: with a ledger (the default) each sealed state is good for
//! one answer, and the same retry sent again gets the stored result. Start it with `--ledger none`, send the retry twice,
//! and the voucher is redeemed twice. `redeem_slowly` takes its time, so that there is time to interrupt it. `reveal` keeps
//! a secret in its state while it asks: readable with `--codec hmac`, private with `--codec aead`. `vouchers_redeemed` counts.
//!
//! ```sh
//! cargo run -p voucher -- --listen 127.0.0.1:3004
//! curl -s http://127.0.0.1:3004/mcp -H 'Authorization: Bearer alice-token' \
//!   -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: redeem_voucher' -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
//!   "name":"redeem_voucher","arguments":{"code":"SPRING"},
//!   "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}'
//! ```
//!
//! The retry is the same request with another id and, in its params, the `requestState` that came back and
//! `"inputResponses":{"confirm":{"action":"accept","content":{"ok":true}}}`.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use mrtr_server::{Answer, Args, Flow, Form, State, ToolError, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use stage::DefaultLedger;
use stage::record::Record;

#[derive(Deserialize, JsonSchema)]
struct Voucher {
    /// What is printed on it.
    #[schemars(length(min = 1, max = 100))]
    code: String,
}

#[derive(Deserialize, JsonSchema)]
struct SlowVoucher {
    /// What is printed on it.
    #[schemars(length(min = 1, max = 100))]
    code: String,
    /// How long redeeming takes, in milliseconds.
    #[schemars(range(max = 60_000))]
    millis: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Redeem it?
    ok: bool,
}

/// The shop that takes vouchers.
#[derive(Clone)]
struct Shop(Record);

impl Shop {
    async fn redeem(&self, tool: &str, code: &str) -> io::Result<u64> {
        let value = json!({ "tool": tool, "code": code });
        self.0.append("voucher", &value).await
    }
}

/// Asks; `Err` holds what the model reads when the answer was not yes.
async fn confirmed(flow: &Flow, code: &str) -> Result<(), &'static str> {
    let question = Form::<Confirm>::new(format!("Redeem voucher {code}?"));
    match flow.ask("confirm", question).await {
        Answer::Accept(Confirm { ok: true }) => Ok(()),
        Answer::Accept(_) => Err(
            "Nothing was redeemed: the box was not ticked. Ask again later if it is still needed.",
        ),
        Answer::Decline => {
            Err("Nothing was redeemed: the person said no. Do not ask again for this.")
        }
        Answer::Cancel => Err(
            "Nothing was redeemed: the question was dismissed. Ask again later if it is still needed.",
        ),
    }
}

async fn redeem_voucher(
    Args(voucher): Args<Voucher>,
    flow: Flow,
    State(shop): State<Shop>,
) -> Result<String, ToolError> {
    if let Err(nothing) = confirmed(&flow, &voucher.code).await {
        return Ok(nothing.into());
    }
    let entry = shop.redeem("redeem_voucher", &voucher.code).await?;
    Ok(format!("Redeemed {} as entry {entry}.", voucher.code))
}

async fn redeem_slowly(
    Args(voucher): Args<SlowVoucher>,
    flow: Flow,
    State(shop): State<Shop>,
) -> Result<String, ToolError> {
    if let Err(nothing) = confirmed(&flow, &voucher.code).await {
        return Ok(nothing.into());
    }
    tokio::time::sleep(Duration::from_millis(voucher.millis)).await;
    let entry = shop.redeem("redeem_slowly", &voucher.code).await?;
    Ok(format!("Redeemed {} as entry {entry}.", voucher.code))
}

#[derive(Deserialize, JsonSchema)]
struct Kept {
    /// What is kept while the person is asked.
    secret: String,
}

/// The secret is not in the question. It is in the state, because the next round needs it.
async fn reveal(Args(kept): Args<Kept>, flow: Flow) -> String {
    let secret = flow.memo("secret", async || kept.secret.clone()).await;
    match flow.ask("confirm", Form::<Confirm>::new("Reveal what is kept for you?")).await {
        Answer::Accept(Confirm { ok: true }) => format!("It is: {secret}"),
        Answer::Accept(_) => "Nothing was revealed: the box was not ticked. Ask again later if it is still needed.".into(),
        Answer::Decline => "Nothing was revealed: the person said no. Do not ask again for this.".into(),
        Answer::Cancel => "Nothing was revealed: the question was dismissed. Ask again later if it is still needed.".into(),
    }
}

/// Asks nothing and changes nothing: what `cargo xtask probe` counts effects by.
async fn vouchers_redeemed(State(shop): State<Shop>) -> Result<String, ToolError> {
    Ok(shop.0.count().await?.to_string())
}

#[tokio::main]
async fn main() -> ExitCode {
    stage::run("voucher", DefaultLedger::Sqlite, |server, data| {
        Ok(server
            .state(Shop(data.record()?))
            .tool(
                tool("redeem_voucher", redeem_voucher)
                    .description("Redeems a voucher after a person has confirmed it."),
            )
            .tool(
                tool("redeem_slowly", redeem_slowly)
                    .description("The same, with a pause before it is redeemed."),
            )
            .tool(tool("reveal", reveal).description("Keeps a secret in its state while it asks."))
            .tool(
                tool("vouchers_redeemed", vouchers_redeemed)
                    .description("How many vouchers were redeemed."),
            ))
    })
    .await
}
