//! An exchange with the model in two rounds, and what the server keeps between them.
//!
//! `bake` asks the host's model what to bake for, looks up what is on the shelf for that, and asks the model which of it to
//! take. What it looked up travels through the client as `{focus, depth, jars, jarIds}`, kept with `memo`, and the tool
//! ends by reading from it how many jars there are. The numbers in it were the server's own, and they stay its own only
//! because the state is sealed *and the seal is checked*: `--codec unsealed` and `--codec unchecked` show the rest.
//!
//! Sampling is deprecated since 2026-07-28: a new server calls a model provider itself. The example is here for servers
//! that have it; with a form in place of the model nothing about the state would be different.
//!
//! ```sh
//! cargo run -p kitchen -- --listen 127.0.0.1:3008
//! curl -s http://127.0.0.1:3008/mcp -H 'Authorization: Bearer alice-token' \
//!   -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: bake' -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
//!   "name":"bake","arguments":{},
//!   "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}}}'
//! ```
//!
//! The retry is the same request with another id and, in its params, the `requestState` that came back and
//! `"inputResponses":{"focus":{"role":"assistant","model":"m","content":{"type":"text","text":"breakfast"}}}`.

use std::process::ExitCode;

use mrtr_server::{CreateMessageParams, Flow, Sampling, SamplingMessage, State, ToolError, tool};
use serde::{Deserialize, Serialize};
use serde_json::json;
use stage::DefaultLedger;
use stage::record::Record;

/// What the server knows of the exchange after its first round, as it travels in the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shelf {
    /// What is baked for.
    focus: Focus,
    /// How many shelves deep was looked.
    depth: u32,
    /// How many jars there are.
    #[serde(default = "three")]
    jars: u32,
    jar_ids: Vec<String>,
}

/// A small shelf, where nothing else is said.
const fn three() -> u32 {
    3
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Focus {
    Breakfast,
    Dinner,
}

impl Focus {
    /// The first of the two words in what the model said. A model says what it likes.
    fn in_words_of(model: &str) -> Option<Focus> {
        model.split(|c: char| !c.is_alphabetic()).find_map(|word| {
            match word.to_lowercase().as_str() {
                "breakfast" => Some(Focus::Breakfast),
                "dinner" => Some(Focus::Dinner),
                _ => None,
            }
        })
    }
}

/// What is on the shelf. A real kitchen would ask its stock, which may be another one in the next round.
fn look_up(focus: Focus) -> Shelf {
    let jar_ids = match focus {
        Focus::Breakfast => ["apricot", "plum", "quince"],
        Focus::Dinner => ["olive", "pepper", "tomato"],
    };
    Shelf {
        focus,
        depth: 1,
        jars: three(),
        jar_ids: jar_ids.map(str::to_owned).to_vec(),
    }
}

/// A question for the model; its answer is a few words.
fn question(text: String) -> Sampling {
    Sampling::new(CreateMessageParams::new(
        vec![SamplingMessage::user(text)],
        50,
    ))
}

async fn bake(flow: Flow, State(record): State<Record>) -> Result<String, ToolError> {
    let which = question("Is it baked for breakfast or for dinner? Answer in one word.".into());
    let said = flow.ask("focus", which).await.accepted();
    let Some(focus) = said.and_then(|said| Focus::in_words_of(&said.joined_text())) else {
        return Ok("Nothing was baked: the model named neither breakfast nor dinner.".into());
    };

    // Looked up in this round, and the same in the next.
    let shelf = flow.memo("kitchen", async || look_up(focus)).await;
    let ids = shelf.jar_ids.join(", ");
    let which = question(format!("Which of these jars goes into the cake: {ids}?"));
    let said = flow.ask("jars", which).await.accepted();
    let said = said.map(|said| said.joined_text()).unwrap_or_default();
    let taken: Vec<&String> = shelf
        .jar_ids
        .iter()
        .filter(|id| said.to_lowercase().contains(id.as_str()))
        .collect();

    let cake = json!({ "focus": shelf.focus, "jars": shelf.jars, "taken": taken });
    let entry = record.append("cake", &cake).await?;
    Ok(format!(
        "Baked with {} of {} jars, as entry {entry}.",
        taken.len(),
        shelf.jars
    ))
}

#[tokio::main]
async fn main() -> ExitCode {
    stage::run("kitchen", DefaultLedger::None, |server, data| {
        let bake = tool("bake", bake).description("Bakes a cake with what the model picks.");
        Ok(server.state(data.record()?).tool(bake))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shelf_is_kept_under_its_names_and_jars_default_to_three() {
        let shelf = look_up(Focus::Breakfast);
        let kept = json!({ "focus": "breakfast", "depth": 1, "jars": 3, "jarIds": ["apricot", "plum", "quince"] });
        assert_eq!(serde_json::to_value(&shelf).unwrap(), kept);
        let unsaid =
            json!({ "focus": "breakfast", "depth": 1, "jarIds": ["apricot", "plum", "quince"] });
        assert_eq!(serde_json::from_value::<Shelf>(unsaid).unwrap(), shelf);
    }

    #[test]
    fn a_model_is_heard_in_its_own_words() {
        assert_eq!(
            Focus::in_words_of("For **Dinner**, I think."),
            Some(Focus::Dinner)
        );
        assert_eq!(Focus::in_words_of("Lunch"), None);
    }
}
