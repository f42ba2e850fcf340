//! What a form can ask, and how questions make rounds.
//!
//! `survey` puts one form with a field of each sort, and records what it got, typed. `several` puts three questions in one
//! round. `two_rounds` puts its second question because of the first one's answer, and uses both.
//!
//! No ledger by default: nothing here is spoilt by being recorded twice.
//!
//! ```sh
//! cargo run -p questions -- --listen 127.0.0.1:3006
//! curl -s http://127.0.0.1:3006/mcp -H 'Authorization: Bearer alice-token' \
//!   -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: tools/call' -H 'Mcp-Name: survey' -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
//!   "name":"survey","arguments":{},
//!   "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}'
//! ```
//!
//! The retry is the same request with another id and, in its params, the `requestState` that came back and
//! `"inputResponses":{"survey":{"action":"accept","content":{"consent":true,"place":"garden","guests":4,
//! "email":"ada@example.com"}}}`.

use std::process::ExitCode;

use mrtr_server::{Answer, Flow, Form, State, ToolError, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use stage::DefaultLedger;
use stage::record::Record;

/// A field of each sort. What arrives here was held against the schema that the client was shown.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Survey {
    /// May we keep what you say?
    consent: bool,
    /// Where would you like to sit?
    place: Place,
    /// How many of you are coming?
    #[schemars(range(min = 1, max = 12))]
    guests: u8,
    /// Where shall we write to?
    #[schemars(email)]
    email: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Place {
    Window,
    Garden,
    Bar,
}

async fn survey(flow: Flow, State(record): State<Record>) -> Result<String, ToolError> {
    let question = Form::<Survey>::new("How shall we seat you?");
    match flow.ask("survey", question).await {
        Answer::Accept(survey) if survey.consent => {
            let entry = record.append("survey", &survey).await?;
            Ok(format!("Kept as entry {entry}."))
        }
        Answer::Accept(_) => Ok("Nothing was kept: the person did not consent.".into()),
        refused => Ok(nothing(&refused).into()),
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Dish {
    /// Leave the kitchen the choice with "any".
    dish: String,
}

/// Three questions in one round: they are asked in one poll, and answered in one retry, in whatever order.
async fn several(flow: Flow, State(record): State<Record>) -> Result<String, ToolError> {
    let course = |course: &str| Form::<Dish>::new(format!("What would you like for {course}?"));
    let (starter, main, dessert) = tokio::join!(
        flow.ask("starter", course("a starter")),
        flow.ask("main", course("the main course")),
        flow.ask("dessert", course("dessert")),
    );
    // A course that nobody wants to choose is no reason to go hungry.
    let courses =
        [starter, main, dessert].map(|answer| answer.accepted().map(|chosen| chosen.dish));
    let [starter, main, dessert] = &courses;
    let meal = json!({ "starter": starter, "main": main, "dessert": dessert });
    let entry = record.append("meal", &meal).await?;
    let chosen = courses.iter().flatten().count();
    Ok(format!("{chosen} courses are ordered, as entry {entry}."))
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Destination {
    /// The town.
    town: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Nights {
    /// How many nights?
    #[schemars(range(min = 1, max = 30))]
    nights: u8,
}

/// The second question is made from the first answer, which is in the sealed state by then: it need not be asked again.
async fn two_rounds(flow: Flow, State(record): State<Record>) -> Result<String, ToolError> {
    let question = Form::<Destination>::new("Where would you like to go?");
    let town = match flow.ask("destination", question).await {
        Answer::Accept(Destination { town }) => town,
        refused => return Ok(nothing(&refused).into()),
    };
    let question = Form::<Nights>::new(format!("How many nights in {town}?"));
    let nights = match flow.ask("nights", question).await {
        Answer::Accept(Nights { nights }) => nights,
        refused => return Ok(nothing(&refused).into()),
    };
    let stay = json!({ "town": town, "nights": nights });
    let entry = record.append("stay", &stay).await?;
    Ok(format!("{nights} nights in {town}, as entry {entry}."))
}

/// What the model reads when nothing was done: what happened, and what to do next.
fn nothing<T>(answer: &Answer<T>) -> &'static str {
    match answer {
        Answer::Decline => "Nothing was done: the person said no. Do not ask again for this.",
        Answer::Accept(_) | Answer::Cancel => {
            "Nothing was done: the question was dismissed. Ask again later if it is still needed."
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    stage::run("questions", DefaultLedger::None, |server, data| {
        Ok(server
            .state(data.record()?)
            .tool(tool("survey", survey).description("Asks how somebody would like to be seated."))
            .tool(tool("several", several).description("Orders a meal of three courses."))
            .tool(tool("two_rounds", two_rounds).description("Plans a stay in a town.")))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_can_be_put() {
        Form::<Survey>::check().unwrap();
        Form::<Dish>::check().unwrap();
        Form::<Destination>::check().unwrap();
        Form::<Nights>::check().unwrap();
    }
}
