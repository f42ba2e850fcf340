//! A prompt and a resource that ask before they answer, and the two kinds of question that are deprecated.
//!
//! The prompt `briefing` asks who it is for; so does the resource `briefing://today`; and so does a tool that is called
//! `briefing` too and puts the very same question. A state of one is good for no other: it belongs to its request.
//!
//! `folders` asks for roots, `sentence` and `sentence_with_tools` ask the host's model. Both are deprecated since
//! 2026-07-28: a new server takes folders as parameters, resource URIs or configuration, and calls a model provider itself.
//!
//! No ledger by default: nothing here has an effect.
//!
//! ```sh
//! cargo run -p briefing -- --listen 127.0.0.1:3007
//! curl -s http://127.0.0.1:3007/mcp -H 'Authorization: Bearer alice-token' \
//!   -H 'Content-Type: application/json' \
//!   -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' \
//!   -H 'Mcp-Method: prompts/get' -H 'Mcp-Name: briefing' -d '{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{
//!   "name":"briefing","arguments":{"topic":"the harvest"},
//!   "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
//!   "io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}'
//! ```
//!
//! The retry is the same request with another id and, in its params, the `requestState` that came back and
//! `"inputResponses":{"audience":{"action":"accept","content":{"audience":"board"}}}`.

use std::fmt;
use std::process::ExitCode;

use mrtr_protocol::sampling::{SamplingBlock, ToolResultContent};
use mrtr_protocol::{ContentBlock, JsonObject};
use mrtr_server::{
    Args, CreateMessageParams, Flow, Form, Roots, Sampling, SamplingMessage, ToolError, prompt,
    resource, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use stage::DefaultLedger;

/// What prompt and tool take. A prompt's arguments are strings on the wire.
#[derive(Deserialize, JsonSchema)]
struct Topic {
    /// What to brief about.
    topic: String,
}

#[derive(Deserialize, JsonSchema)]
struct Reader {
    /// Who will read it?
    audience: Audience,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Audience {
    Team,
    Board,
    Public,
}

impl fmt::Display for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Audience::Team => "team",
            Audience::Board => "board",
            Audience::Public => "public",
        })
    }
}

/// Asks who reads; without an answer it is written for the team.
async fn audience(flow: &Flow) -> Audience {
    let question = Form::<Reader>::new("Who is the briefing for?");
    let reader = flow.ask("audience", question).await.accepted();
    reader.map_or(Audience::Team, |reader| reader.audience)
}

/// The prompt, and the tool of the same name: what is returned is a message of the user's here, and a text there.
async fn briefing(Args(Topic { topic }): Args<Topic>, flow: Flow) -> String {
    let audience = audience(&flow).await;
    format!("Brief the {audience} about {topic}, in three sentences.")
}

async fn today(flow: Flow) -> String {
    let audience = audience(&flow).await;
    format!("Today, for the {audience}: nothing has happened yet.")
}

/// Deprecated since 2026-07-28, as roots are: take folders as parameters, resource URIs or configuration. What the client
/// names is a wish: it proves nothing, and keeps nobody out.
async fn folders(flow: Flow) -> String {
    let folders = flow.ask("folders", Roots::new()).await.accepted();
    let folders = folders.unwrap_or_default();
    match folders.as_slice() {
        [] => "The client offers no folders.".into(),
        folders => {
            let lines = folders.iter().map(|folder| match &folder.name {
                Some(name) => format!("{name}: {}", folder.uri()),
                None => folder.uri().to_owned(),
            });
            lines.collect::<Vec<_>>().join("\n")
        }
    }
}

/// Deprecated since 2026-07-28, as sampling is: call a model provider yourself.
async fn sentence(flow: Flow) -> String {
    let ask = CreateMessageParams::new(vec![SamplingMessage::user("Write me one sentence.")], 100);
    match flow.ask("sentence", Sampling::new(ask)).await.accepted() {
        Some(message) => message.joined_text(),
        None => "No sentence came.".into(),
    }
}

/// The model may count the words of what it wrote. Deprecated since 2026-07-28, as sampling is: call a model provider
/// yourself.
async fn sentence_with_tools(flow: Flow) -> Result<String, ToolError> {
    const TURNS: usize = 4;
    #[derive(Deserialize)]
    struct Count {
        text: String,
    }
    let schema = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
    let count = mrtr_protocol::Tool::new("count_words", JsonObject::parse(schema)?);

    let mut conversation = vec![SamplingMessage::user("Write me a sentence of seven words.")];
    // Every turn is a question of its own, under a key of its own.
    for turn in 1..=TURNS {
        let mut ask = CreateMessageParams::new(conversation.clone(), 200);
        ask.tools = Some(vec![count.clone()]);
        let answer = flow.ask(format!("turn-{turn}"), Sampling::new(ask)).await;
        let Some(message) = answer.accepted() else {
            break;
        };
        let results = message.tool_uses().map(|tool_use| {
            let words = match serde_json::from_str::<Count>(tool_use.input.as_str()) {
                Ok(Count { text }) => format!("{} words", text.split_whitespace().count()),
                Err(error) => format!("That is not what this tool takes: {error}"),
            };
            let content = vec![ContentBlock::text(words)];
            SamplingBlock::ToolResult(ToolResultContent::new(&tool_use.id, content))
        });
        let results: Vec<_> = results.collect();
        if results.is_empty() {
            return Ok(message.joined_text());
        }
        conversation.push(message.to_message());
        conversation.push(SamplingMessage::user(results));
    }
    Err(ToolError::text("The model wrote no sentence."))
}

#[tokio::main]
async fn main() -> ExitCode {
    stage::run("briefing", DefaultLedger::None, |server, _| {
        let about = "A briefing about a topic, for whoever reads it.";
        Ok(server
            .prompt(prompt("briefing", briefing).description(about))
            .resource(resource("briefing://today", today).name("Today's briefing"))
            .tool(tool("briefing", briefing).description(about))
            .tool(tool("folders", folders).description("Lists the client's folders."))
            .tool(tool("sentence", sentence).description("One sentence of the host's model."))
            .tool(
                tool("sentence_with_tools", sentence_with_tools)
                    .description("One sentence, whose words the host's model may count."),
            ))
    })
    .await
}
