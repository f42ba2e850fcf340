//! A tool that asks a person above a limit, and submits once.
//!
//! Up to 100 there is one request and no question. Above, the first request comes back with a question and a sealed state;
//! the retry with the answer submits. Whatever is repeated or lost on the way, `once` keeps it to one entry in the book.
//!
//! ```sh
//! cargo run -p expenses -- --listen 127.0.0.1:3001
//! curl -s http://127.0.0.1:3001/mcp -H 'Authorization: Bearer alice-token' \
//!   -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: submit_expense' -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
//!   "name":"submit_expense","arguments":{"amount":250,"memo":"chairs"},
//!   "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}'
//! ```
//!
//! The retry is the same request with another id and, in its params, the `requestState` that came back and
//! `"inputResponses":{"confirm":{"action":"accept","content":{"ok":true}}}`.

use std::io;
use std::process::ExitCode;

use mrtr_server::{Answer, Args, DurableFlow, Form, State, ToolError, ToolResult, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stage::DefaultLedger;
use stage::record::Record;

#[derive(Deserialize, Serialize, JsonSchema)]
struct Expense {
    /// In euros.
    #[schemars(range(min = 0.0))]
    amount: f64,
    /// What it was for.
    memo: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Submit it?
    ok: bool,
}

/// The book of expenses.
#[derive(Clone)]
struct Book(Record);

impl Book {
    async fn append(&self, expense: &Expense) -> io::Result<u64> {
        self.0.append("expense", expense).await
    }
}

async fn submit_expense(
    Args(e): Args<Expense>,
    flow: DurableFlow,
    State(book): State<Book>,
) -> Result<ToolResult, ToolError> {
    if e.amount > 100.0 {
        // The whole request is in the question: the person sees what they agree to, and an answer counts for nothing else.
        let question = Form::<Confirm>::new(format!("Submit {} for {}?", e.amount, e.memo));
        match flow.ask("confirm", question).await {
            Answer::Accept(Confirm { ok: true }) => {}
            Answer::Accept(_) => return Ok("Nothing was submitted: the box was not ticked. Ask again later if it is still needed.".into()),
            Answer::Decline => return Ok("Nothing was submitted: the person said no. Do not ask again for this.".into()),
            Answer::Cancel => return Ok("Nothing was submitted. Ask again later if it is still needed.".into()),
        }
    }
    let entry = flow.once("submit", async || book.append(&e).await).await?;
    Ok(format!("Submitted as entry {entry}.").into())
}

#[tokio::main]
async fn main() -> ExitCode {
    stage::run("expenses", DefaultLedger::Sqlite, |server, data| {
        Ok(server.state(Book(data.record()?)).tool(
            tool("submit_expense", submit_expense)
                .title("Submit an expense")
                .description("Submits an expense. Above 100 a person confirms it."),
        ))
    })
    .await
}
