//! A price that changes while a person thinks.
//!
//! `buy_ticket` pins the price with `memo`: what the person was shown is what is charged. `buy_ticket_unpinned` reads it
//! anew in every round; because an answer counts only for the question that was put, a person who agreed to the old price
//! is asked again. `buy_pair` asks twice, and when the price changes in between even the first answer is asked for again.
//! `set_list_price` is what an administrator would do meanwhile.
//!
//! No ledger by default: it shows what sealing and the binding of answers give by themselves.
//!
//! ```sh
//! cargo run -p tickets -- --listen 127.0.0.1:3003
//! curl -s http://127.0.0.1:3003/mcp -H 'Authorization: Bearer alice-token' \
//!   -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: buy_ticket' -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
//!   "name":"buy_ticket","arguments":{"quantity":2},
//!   "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}'
//! ```
//!
//! The retry is the same request with another id and, in its params, the `requestState` that came back and
//! `"inputResponses":{"confirm":{"action":"accept","content":{"ok":true}}}`.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use mrtr_server::{Answer, Args, Flow, Form, State, ToolError, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use stage::DefaultLedger;
use stage::record::Record;

/// A price, as the text that people read: `190.00`. It is what the question says, what a state carries and what the record
/// holds, so that none of them can differ by a rounding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Price(String);

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The box office: its list price, and its record of what was charged.
#[derive(Clone)]
struct Office {
    list_price: Arc<PathBuf>,
    record: Record,
}

impl Office {
    fn list_price(&self) -> io::Result<Price> {
        match std::fs::read_to_string(&*self.list_price) {
            Ok(price) => Ok(Price(price.trim_end().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Price("190.00".to_owned())),
            Err(error) => Err(error),
        }
    }

    async fn charge(&self, tool: &str, quantity: u32, price: &Price) -> Result<String, ToolError> {
        let value = json!({ "tool": tool, "quantity": quantity, "price": price });
        let entry = self.record.append("ticket", &value).await?;
        Ok(format!(
            "Bought {quantity} at {price} each, as entry {entry}."
        ))
    }
}

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// How many tickets.
    #[schemars(range(min = 1, max = 100))]
    quantity: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Buy?
    ok: bool,
}

fn question(quantity: u32, price: &Price) -> Form<Confirm> {
    Form::new(format!("Buy {quantity} tickets at {price} each?"))
}

/// The price of the first round is pinned: it travels in the sealed state, and later rounds get it instead of the newer one.
async fn buy_ticket(
    Args(order): Args<Order>,
    flow: Flow,
    State(office): State<Office>,
) -> Result<String, ToolError> {
    let now = office.list_price()?;
    let price = flow.memo("price", async || now).await;
    match flow.ask("confirm", question(order.quantity, &price)).await {
        Answer::Accept(Confirm { ok: true }) => {
            office.charge("buy_ticket", order.quantity, &price).await
        }
        refused => Ok(nothing(&refused).into()),
    }
}

/// The price is read in every round. The question names it, and so a price that changed is a question that nobody answered.
async fn buy_ticket_unpinned(
    Args(order): Args<Order>,
    flow: Flow,
    State(office): State<Office>,
) -> Result<String, ToolError> {
    let price = office.list_price()?;
    match flow.ask("confirm", question(order.quantity, &price)).await {
        Answer::Accept(Confirm { ok: true }) => {
            office
                .charge("buy_ticket_unpinned", order.quantity, &price)
                .await
        }
        refused => Ok(nothing(&refused).into()),
    }
}

/// Two questions in two rounds, both at the price of the moment.
async fn buy_pair(flow: Flow, State(office): State<Office>) -> Result<String, ToolError> {
    let price = office.list_price()?;
    for which in ["first", "second"] {
        let question =
            Form::<Confirm>::new(format!("Buy the {which} ticket of the pair at {price}?"));
        match flow.ask(which, question).await {
            Answer::Accept(Confirm { ok: true }) => {}
            refused => return Ok(nothing(&refused).into()),
        }
    }
    office.charge("buy_pair", 2, &price).await
}

/// What the model reads when nothing was bought: what happened, and what to do next.
fn nothing(answer: &Answer<Confirm>) -> &'static str {
    match answer {
        Answer::Accept(_) => {
            "Nothing was bought: the box was not ticked. Ask again later if it is still needed."
        }
        Answer::Decline => "Nothing was bought: the person said no. Do not ask again for this.",
        Answer::Cancel => {
            "Nothing was bought: the question was dismissed. Ask again later if it is still needed."
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct NewPrice {
    /// In euros.
    #[schemars(range(min = 0.01, max = 10_000.0))]
    price: f64,
}

async fn set_list_price(
    Args(new): Args<NewPrice>,
    State(office): State<Office>,
) -> Result<String, ToolError> {
    let price = Price(format!("{:.2}", new.price));
    // In one step, so that nobody reads half a price.
    let fresh = office.list_price.with_extension("new");
    std::fs::write(&fresh, price.to_string())?;
    std::fs::rename(&fresh, &*office.list_price)?;
    Ok(format!("The list price is {price} now."))
}

#[tokio::main]
async fn main() -> ExitCode {
    stage::run("tickets", DefaultLedger::None, |server, data| {
        let office = Office {
            list_price: Arc::new(data.path("list-price")),
            record: data.record()?,
        };
        Ok(server
            .state(office)
            .tool(
                tool("buy_ticket", buy_ticket)
                    .description("Buys tickets at the price that the person was shown."),
            )
            .tool(
                tool("buy_ticket_unpinned", buy_ticket_unpinned)
                    .description("Buys tickets at the price of the moment."),
            )
            .tool(
                tool("buy_pair", buy_pair)
                    .description("Buys two tickets, with a question for each."),
            )
            .tool(tool("set_list_price", set_list_price).description("Changes the list price.")))
    })
    .await
}
