//! A tool that asks a person above a limit, and submits once.
//!
//! Up to 100 there is one request and no question. Above, the first request comes back with a question and a sealed state;
//! the retry with the answer submits. The book is a table in the ledger's own file, and `once_in` puts the entry and the record that it
//! was made into one transaction: whatever is repeated, lost or killed on the way, there is one entry, and nobody is left in doubt.
//! `expenses_submitted` counts.
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

mod book;
#[cfg(test)]
mod tests;

use std::process::ExitCode;
use std::sync::Arc;

use mrtr_ledger_sqlite::SqliteLedger;
use mrtr_server::{Answer, Args, FlowIn, Form, State, Tool, ToolError, ToolResult, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use stage::arguments::Arguments;
use stage::{DefaultLedger, Prepared, StartError};

const NAME: &str = "expenses";

#[derive(Deserialize, JsonSchema)]
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

async fn submit_expense(
    Args(e): Args<Expense>,
    flow: FlowIn<SqliteLedger>,
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
    let entry = flow
        .once_in("submit", move |db| book::append(db, &e))
        .await?;
    Ok(format!("Submitted as entry {entry}.").into())
}

/// All that the body does is ask and `once_in`, so it may run again after a crash: a crash leaves nothing in doubt.
fn submit_expense_tool() -> Tool {
    tool("submit_expense", submit_expense)
        .run_again()
        .title("Submit an expense")
        .description("Submits an expense. Above 100 a person confirms it.")
}

/// Asks nothing and changes nothing: what `cargo xtask probe` counts effects by.
async fn expenses_submitted(State(ledger): State<Arc<SqliteLedger>>) -> Result<String, ToolError> {
    Ok(ledger.transact(book::count).await??.to_string())
}

#[tokio::main]
async fn main() -> ExitCode {
    stage::exit_code(NAME, serve().await)
}

async fn serve() -> Result<(), StartError> {
    let Prepared {
        mut builder,
        process,
        sqlite,
        ..
    } = stage::prepare(NAME, DefaultLedger::Sqlite, Arguments::of_this_process())?;
    if let Some(ledger) = sqlite {
        book::open(&ledger).await.map_err(StartError::Data)?;
        let counts = tool("expenses_submitted", expenses_submitted);
        let counts = counts.description("How many expenses were submitted.");
        builder = builder.state(ledger).tool(counts);
    }
    // Without that ledger this refuses, and says what is missing.
    let server = builder.tool(submit_expense_tool()).build()?;
    let listener = process.listen().await.map_err(StartError::Listener)?;
    server
        .serve(listener, process.ended())
        .await
        .map_err(StartError::Listener)
}
