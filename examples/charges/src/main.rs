//! The same charge in four orders: what an effect before a question does, and what makes it safe.
//!
//! The body of a tool runs again from its top on every retry. `charge_bad` charges and then asks, and so charges once a
//! round. `charge_good` asks first. `charge_once` has the bad order, inside `once`, which keeps the effect to one. And
//! `charge_insistent` does not take no for an answer: after a decline the same question is not put again under any key,
//! after a dismissal it is.
//!
//! `charge_for_a_receipt` and `charge_or_reject` are `charge_good`, but for what the same retry gets when it is sent again: that it is
//! done, or that its state was used. The result itself is not kept.
//!
//! `charge_and_receipt` has two effects with a pause between them. Kill the server in that pause, start it again with the same keys and
//! data, and send the same retry: what came of the call is unknown. `charge_and_receipt_again` is the same body, of which it is said
//! that it may run again after a crash, and it goes on where it was cut off.
//!
//! ```sh
//! cargo run -p charges -- --listen 127.0.0.1:3002
//! curl -s http://127.0.0.1:3002/mcp -H 'Authorization: Bearer alice-token' \
//!   -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: charge_bad' -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
//!   "name":"charge_bad","arguments":{"amount":30},
//!   "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}'
//! ```
//!
//! The retry is the same request with another id and, in its params, the `requestState` that came back and
//! `"inputResponses":{"confirm":{"action":"accept","content":{"ok":true}}}`.
//! Then count the lines of `record.jsonl` in the directory that was printed.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use mrtr_server::{Answer, Args, DurableFlow, Flow, Form, Repeat, State, ToolError, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use stage::DefaultLedger;
use stage::record::Record;

#[derive(Deserialize, JsonSchema)]
struct Charge {
    /// In euros.
    #[schemars(range(min = 0.0))]
    amount: f64,
}

#[derive(Deserialize, JsonSchema)]
struct SlowCharge {
    /// In euros.
    #[schemars(range(min = 0.0))]
    amount: f64,
    /// How long the pause before the receipt is, in milliseconds.
    #[schemars(range(max = 60_000))]
    millis: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Charge it?
    ok: bool,
}

/// The account that is charged.
#[derive(Clone)]
struct Account(Record);

impl Account {
    async fn charge(&self, tool: &str, charge: &Charge) -> io::Result<u64> {
        let value = json!({ "tool": tool, "amount": charge.amount });
        self.0.append("charge", &value).await
    }
}

/// The question of all four.
fn question(charge: &Charge) -> Form<Confirm> {
    Form::new(format!("Charge {:.2}?", charge.amount))
}

/// **Do not write this.** The charge comes before the question, so that it happens in every round.
async fn charge_bad(
    Args(charge): Args<Charge>,
    flow: Flow,
    State(account): State<Account>,
) -> Result<String, ToolError> {
    let entry = account.charge("charge_bad", &charge).await?;
    Ok(match flow.ask("confirm", question(&charge)).await {
        Answer::Accept(Confirm { ok: true }) => format!("Charged as entry {entry}."),
        Answer::Accept(_) => format!(
            "Charged as entry {entry}, although the box was not ticked. Tell the person, and refund it."
        ),
        Answer::Decline => format!(
            "Charged as entry {entry}, although the person said no. Tell the person, and refund it."
        ),
        Answer::Cancel => format!(
            "Charged as entry {entry}, although nobody agreed. Tell the person before you go on."
        ),
    })
}

/// Ask first, act last.
async fn charge_good(
    Args(charge): Args<Charge>,
    flow: Flow,
    State(account): State<Account>,
) -> Result<String, ToolError> {
    match flow.ask("confirm", question(&charge)).await {
        Answer::Accept(Confirm { ok: true }) => {}
        refused => return Ok(nothing(&refused).into()),
    }
    let entry = account.charge("charge_good", &charge).await?;
    Ok(format!("Charged as entry {entry}."))
}

/// The bad order, made safe: `once` runs the charge in the first round, and returns its outcome in all others. It does not
/// undo it when the person says no.
async fn charge_once(
    Args(charge): Args<Charge>,
    flow: DurableFlow,
    State(account): State<Account>,
) -> Result<String, ToolError> {
    let entry = flow
        .once("charge", async || {
            account.charge("charge_once", &charge).await
        })
        .await?;
    Ok(match flow.ask("confirm", question(&charge)).await {
        Answer::Accept(Confirm { ok: true }) => format!("Charged once, as entry {entry}."),
        Answer::Accept(_) => format!(
            "Charged once, as entry {entry}, before the question; the box was not ticked. Refund it."
        ),
        Answer::Decline => format!(
            "Charged once, as entry {entry}, before the question; the person said no. Refund it."
        ),
        Answer::Cancel => format!(
            "Charged once, as entry {entry}, before the question; nobody agreed. Ask the person what to do."
        ),
    })
}

/// Two effects, each inside `once`, and a number that both need and that changes with the record inside `memo`: so it may run again from
/// its top after a crash.
async fn charge_and_receipt(
    Args(SlowCharge { amount, millis }): Args<SlowCharge>,
    flow: DurableFlow,
    State(Account(record)): State<Account>,
) -> Result<String, ToolError> {
    match flow.ask("confirm", question(&Charge { amount })).await {
        Answer::Accept(Confirm { ok: true }) => {}
        refused => return Ok(nothing(&refused).into()),
    }
    let number = flow
        .memo("number", async || {
            record.count().await.unwrap_or_default() + 1
        })
        .await;
    let value = json!({ "number": number, "amount": amount });
    flow.once("charge", async || record.append("charge", &value).await)
        .await?;
    tokio::time::sleep(Duration::from_millis(millis)).await;
    flow.once("receipt", async || record.append("receipt", &value).await)
        .await?;
    Ok(format!("Charged, and receipt {number} was sent."))
}

/// Asks twice. The second question is the first word for word, under another key: it is put after a dismissal, and never
/// after a decline.
async fn charge_insistent(
    Args(charge): Args<Charge>,
    flow: Flow,
    State(account): State<Account>,
) -> Result<String, ToolError> {
    let mut answer = flow.ask("confirm", question(&charge)).await;
    if !matches!(answer, Answer::Accept(_)) {
        answer = flow.ask("confirm_again", question(&charge)).await;
    }
    match answer {
        Answer::Accept(Confirm { ok: true }) => {}
        refused => return Ok(nothing(&refused).into()),
    }
    let entry = account.charge("charge_insistent", &charge).await?;
    Ok(format!("Charged as entry {entry}."))
}

/// What the model reads when nothing was charged: what happened, and what to do next.
fn nothing(answer: &Answer<Confirm>) -> &'static str {
    match answer {
        Answer::Accept(_) => {
            "Nothing was charged: the box was not ticked. Ask again later if it is still needed."
        }
        Answer::Decline => "Nothing was charged: the person said no. Do not ask again for this.",
        Answer::Cancel => {
            "Nothing was charged: the question was dismissed. Ask again later if it is still needed."
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    stage::run("charges", DefaultLedger::Sqlite, |server, data| {
        Ok(server
            .state(Account(data.record()?))
            .tool(
                tool("charge_bad", charge_bad)
                    .description("Charges, then asks. Shows what not to do."),
            )
            .tool(tool("charge_good", charge_good).description("Asks, then charges."))
            .tool(
                tool("charge_for_a_receipt", charge_good)
                    .repeat(Repeat::Receipt)
                    .description(
                        "Asks, then charges; sent again, says that it is done, and no more.",
                    ),
            )
            .tool(
                tool("charge_or_reject", charge_good)
                    .repeat(Repeat::Reject)
                    .description("Asks, then charges; sent again, says that the state was used."),
            )
            .tool(tool("charge_once", charge_once).description("Charges once, then asks."))
            .tool(
                tool("charge_and_receipt", charge_and_receipt)
                    .description("Asks, charges, and sends a receipt after a pause."),
            )
            .tool(
                tool("charge_and_receipt_again", charge_and_receipt)
                    .run_again()
                    .description("The same; after a crash it goes on where it was cut off."),
            )
            .tool(
                tool("charge_insistent", charge_insistent)
                    .description("Asks up to twice, then charges."),
            ))
    })
    .await
}
