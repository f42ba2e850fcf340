//! The code of the README, with what it takes to serve it: keys, a ledger that lasts, somebody who may call.
//!
//! ```sh
//! cargo run -p readme    # with an address behind it to listen elsewhere
//! curl -s http://127.0.0.1:3000/mcp -H 'Authorization: Bearer alice-token' \
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
//! It keeps its ledger and its book in `mrtr-readme`, in the directory for temporary files.

use std::error::Error;
use std::fs::OpenOptions;
use std::future::pending;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use mrtr_ledger_sqlite::SqliteLedger;
use mrtr_server::{
    Answer, Args, DurableFlow, Form, Principal, Server, State, StaticTokens, ToolError, ToolResult,
    tool,
};
use mrtr_state::KeyRing;
use mrtr_state_hmac::HmacCodec;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::net::TcpListener;

// readme:start
#[derive(Deserialize, JsonSchema)]
struct Expense {
    amount: f64,
    memo: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

async fn submit_expense(
    Args(e): Args<Expense>,
    flow: DurableFlow,
    State(book): State<Book>,
) -> Result<ToolResult, ToolError> {
    if e.amount > 100.0 {
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
// readme:end

/// Where submitted expenses are written: a line each.
#[derive(Clone)]
struct Book(Arc<Mutex<Entries>>);

struct Entries {
    file: std::fs::File,
    count: u64,
}

impl Book {
    fn open(path: &Path) -> io::Result<Book> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        let count = std::fs::read_to_string(path)?
            .lines()
            .count()
            .try_into()
            .unwrap_or(u64::MAX);
        Ok(Book(Arc::new(Mutex::new(Entries { file, count }))))
    }

    /// Writes a line and returns its number. It blocks for a write to the disk, which a book with more to do would move
    /// off the async threads.
    async fn append(&self, expense: &Expense) -> io::Result<u64> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = format!("{}\t{:?}\n", expense.amount, expense.memo);
        entries.file.write_all(line.as_bytes())?;
        entries.file.sync_data()?;
        entries.count += 1;
        Ok(entries.count)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::temp_dir().join("mrtr-readme");
    std::fs::create_dir_all(&dir)?;
    let server = Server::builder("readme", env!("CARGO_PKG_VERSION"))
        .audience("http://127.0.0.1:3000/mcp")
        // A fresh key, for a first try. Read lasting ones from a secret store, and a call survives a restart.
        .codec(HmacCodec::new(KeyRing::generate()?)?)
        .ledger(SqliteLedger::open(dir.join("ledger.sqlite"))?)
        .authenticator(StaticTokens::new().token(
            "alice-token",
            Principal::user("https://login.example", "alice"),
        ))
        .state(Book::open(&dir.join("book.txt"))?)
        .tool(
            tool("submit_expense", submit_expense)
                .description("Submits an expense. Above 100 a person confirms it."),
        )
        .build()?;

    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:3000")).await?;
    eprintln!("listening on http://{}/mcp", listener.local_addr()?);
    server.serve(listener, pending()).await?;
    Ok(())
}
