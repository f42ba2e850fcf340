//! The tools, prompt and resources that every server of the matrix has, and how they are served.
//!
//! Sampling and roots are deprecated since 2026-07-28; they are here because both eras still have them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mrtr_ledger::MemoryLedger;
use mrtr_server::{
    Answer, Args, BuildError, Changes, CreateMessageParams, DurableFlow, Flow, Form, Pages,
    Principal, Progress, Roots, Sampling, SamplingMessage, Server, ServerBuilder, State,
    StaticTokens, ToolError, prompt, resource, tool,
};
use mrtr_state::{KeyError, KeyRing, RandomError, SystemClock};
use mrtr_state_aead::AeadCodec;
use schemars::JsonSchema;
use serde::Deserialize;
use stage::process::Process;

use crate::{TOKEN, page};

/// Why the server does not start, or ended badly.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error("no randomness: {0}")]
    Random(#[from] RandomError),
    #[error("no codec: {0}")]
    Keys(#[from] KeyError),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Pages(#[from] mrtr_server::page::PagesError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// Serves until the process is told to end: over HTTP, or one client over standard input and output.
pub(crate) async fn serve(process: &Process, stdio: bool) -> Result<(), ServeError> {
    let (pages, browser_side) = page::open().await?;
    let server = server(pages)?;
    let served = async {
        match stdio {
            true => server.serve_stdio(process.ended()).await,
            false => {
                let listener = process.listen().await?;
                server.serve(listener, process.ended()).await
            }
        }
    };
    // The page ends with the server.
    tokio::select! {
        served = served => Ok(served?),
        ended = browser_side => Ok(ended?),
    }
}

fn server(pages: Pages) -> Result<Server, ServeError> {
    let somebody = Principal::user("https://login.example", "somebody");
    let builder = Server::builder("interop", env!("CARGO_PKG_VERSION"))
        .audience("http://localhost/interop")
        .authenticator(StaticTokens::new().token(TOKEN, somebody))
        .codec(AeadCodec::new(KeyRing::generate()?)?)
        .ledger(MemoryLedger::new(Arc::new(SystemClock))?)
        .announces_changes()
        .state(Effects::default())
        .state(pages);
    Ok(equipped(builder).build()?)
}

fn equipped(builder: ServerBuilder) -> ServerBuilder {
    builder
        .tool(tool("add", add).description("Adds two numbers."))
        .tool(tool("order", order).description("Orders something, after asking how much of it."))
        .tool(tool("travel", travel).description("Books a way, after asking whence and whither."))
        .tool(tool("survey", survey).description("Asks two things at once."))
        .tool(tool("gather", gather).description("Asks three things of three kinds at once."))
        .tool(tool("visit", visit).description("Has a page visited."))
        .tool(tool("ask_model", ask_model).description("Asks the client's model."))
        .tool(tool("folders", folders).description("Asks for the client's folders."))
        .tool(tool("count", count).description("Counts to three, and reports it."))
        .tool(tool("wait", wait).description("Waits until nobody wants it any more."))
        .tool(tool("write", write).description("Writes on the board."))
        .tool(tool("endless", endless).description("Asks for ever."))
        .tool(tool("effects", effects).description("How often something was done."))
        .prompt(prompt("greeting", greeting).description("Greets somebody whose name it asks for."))
        .resource(
            resource(LETTER, letter).description("A letter to somebody whose name it asks for."),
        )
        .resource(resource(BOARD, board).description("The board."))
}

const LETTER: &str = "interop://letter";
const BOARD: &str = "interop://board";

/// How often something was done, by the label of the call that did it.
#[derive(Debug, Clone, Default)]
struct Effects(Arc<Mutex<HashMap<String, u32>>>);

impl Effects {
    fn add(&self, label: &str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(label.to_owned()).or_default() += 1;
    }

    fn of(&self, label: &str) -> u32 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(label).copied().unwrap_or(0)
    }

    /// Does it, at most once in this flow.
    async fn once(&self, flow: &DurableFlow, label: &str) -> Result<(), ToolError> {
        let effect = async || {
            self.add(label);
            Ok::<(), ToolError>(())
        };
        flow.once("effect", effect).await
    }
}

#[derive(Deserialize, JsonSchema)]
struct Terms {
    a: i64,
    b: i64,
}

async fn add(Args(Terms { a, b }): Args<Terms>) -> String {
    (a + b).to_string()
}

/// Arguments of a tool whose effects are counted.
#[derive(Deserialize, JsonSchema)]
struct Labelled {
    /// Under which its effects are counted.
    label: String,
}

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// Under which its effects are counted.
    label: String,
    /// What is ordered.
    item: String,
}

#[derive(Deserialize, JsonSchema)]
struct Quantity {
    quantity: u32,
    gift: bool,
}

async fn order(
    Args(Order { label, item }): Args<Order>,
    flow: DurableFlow,
    State(effects): State<Effects>,
) -> Result<String, ToolError> {
    let question = Form::<Quantity>::new(format!("Order {item}?"));
    Ok(match flow.ask("quantity", question).await {
        Answer::Accept(Quantity { quantity, gift }) => {
            effects.once(&flow, &label).await?;
            let wrapped = if gift { " as a gift" } else { "" };
            format!("Ordered {quantity} of {item}{wrapped}.")
        }
        Answer::Decline => "Declined.".into(),
        Answer::Cancel => "Cancelled.".into(),
    })
}

#[derive(Deserialize, JsonSchema)]
struct From {
    from: String,
}

#[derive(Deserialize, JsonSchema)]
struct To {
    to: String,
}

async fn travel(
    Args(Labelled { label }): Args<Labelled>,
    flow: DurableFlow,
    State(effects): State<Effects>,
) -> Result<String, ToolError> {
    let question = Form::<From>::new("Where from?");
    let Some(From { from }) = flow.ask("from", question).await.accepted() else {
        return Ok("Stayed.".into());
    };
    let question = Form::<To>::new(format!("From {from} to where?"));
    let Some(To { to }) = flow.ask("to", question).await.accepted() else {
        return Ok("Stayed.".into());
    };
    effects.once(&flow, &label).await?;
    Ok(format!("From {from} to {to}."))
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Colour {
    colour: String,
}

async fn survey(
    Args(Labelled { label }): Args<Labelled>,
    flow: DurableFlow,
    State(effects): State<Effects>,
) -> Result<String, ToolError> {
    let (name, colour) = tokio::join!(
        flow.ask("name", Form::<Name>::new("Which name?")),
        flow.ask("colour", Form::<Colour>::new("Which colour?")),
    );
    let (Some(Name { name }), Some(Colour { colour })) = (name.accepted(), colour.accepted())
    else {
        return Ok("Nobody said.".into());
    };
    effects.once(&flow, &label).await?;
    Ok(format!("{name} likes {colour}."))
}

async fn gather(flow: Flow) -> String {
    let (name, model, folders) = tokio::join!(
        flow.ask("name", Form::<Name>::new("Which name?")),
        flow.ask("capital", capital()),
        flow.ask("folders", Roots::new()),
    );
    match (name.accepted(), model.accepted(), folders.accepted()) {
        (Some(Name { name }), Some(message), Some(roots)) => {
            let count = roots.len();
            format!("{name}, {} and {count} folders.", message.joined_text())
        }
        _ => "Nobody said.".into(),
    }
}

async fn visit(
    Args(Labelled { label }): Args<Labelled>,
    flow: DurableFlow,
    State(pages): State<Pages>,
    State(effects): State<Effects>,
) -> Result<String, ToolError> {
    match flow.ask_url("page", "Please open the page.", &pages).await {
        Answer::Accept(()) => {
            effects.once(&flow, &label).await?;
            Ok("The page was visited.".into())
        }
        Answer::Decline | Answer::Cancel => Ok("The page was not visited.".into()),
    }
}

fn capital() -> Sampling {
    let message = SamplingMessage::user("What is the capital of France?");
    Sampling::new(CreateMessageParams::new(vec![message], 100))
}

async fn ask_model(flow: Flow) -> String {
    match flow.ask("capital", capital()).await.accepted() {
        Some(message) => format!("{} said: {}", message.model, message.joined_text()),
        None => "The model did not say.".into(),
    }
}

async fn folders(flow: Flow) -> String {
    match flow.ask("folders", Roots::new()).await.accepted() {
        Some(roots) => {
            let uris: Vec<&str> = roots.iter().map(|root| root.uri()).collect();
            format!("{}.", uris.join(" and "))
        }
        None => "No folders.".into(),
    }
}

/// Between two messages, so that each is seen to come by itself.
const PAUSE: Duration = Duration::from_millis(50);

async fn count(progress: Progress) -> &'static str {
    for (step, word) in [(1.0, "one"), (2.0, "two"), (3.0, "three")] {
        progress.report(step, Some(3.0), Some(word));
        // Reports that wait to be sent are merged, and some clients lose one that comes together with the result.
        tokio::time::sleep(PAUSE).await;
    }
    "Counted to three."
}

/// Adds an effect when it is dropped: so a body notices that its call was cancelled.
struct AtTheEnd(Effects, String);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        self.0.add(&self.1);
    }
}

async fn wait(
    Args(Labelled { label }): Args<Labelled>,
    progress: Progress,
    State(effects): State<Effects>,
) -> &'static str {
    let _noticed = AtTheEnd(effects, label);
    progress.report(1.0, None, Some("begun"));
    std::future::pending().await
}

async fn write(
    Args(Labelled { label }): Args<Labelled>,
    changes: Changes,
    State(effects): State<Effects>,
) -> &'static str {
    effects.add(&label);
    changes.resource(BOARD);
    "Written."
}

#[derive(Deserialize, JsonSchema)]
struct Word {
    #[expect(dead_code, reason = "whatever it is, there is another question")]
    word: String,
}

async fn endless(flow: Flow) -> String {
    let mut number = 1;
    loop {
        let question = Form::<Word>::new(format!("Question {number}?"));
        if flow
            .ask(format!("question-{number}"), question)
            .await
            .accepted()
            .is_none()
        {
            return format!("Left at question {number}.");
        }
        number += 1;
    }
}

async fn effects(
    Args(Labelled { label }): Args<Labelled>,
    State(effects): State<Effects>,
) -> String {
    effects.of(&label).to_string()
}

#[derive(Deserialize, JsonSchema)]
struct Tone {
    /// Such as "warm".
    tone: String,
}

async fn greeting(Args(Tone { tone }): Args<Tone>, flow: Flow) -> String {
    match flow
        .ask("name", Form::<Name>::new("Greet whom?"))
        .await
        .accepted()
    {
        Some(Name { name }) => format!("A {tone} welcome to {name}."),
        None => format!("A {tone} welcome to whoever it is."),
    }
}

async fn letter(flow: Flow) -> String {
    match flow
        .ask("name", Form::<Name>::new("To whom?"))
        .await
        .accepted()
    {
        Some(Name { name }) => format!("Dear {name}."),
        None => "Dear all.".into(),
    }
}

async fn board() -> &'static str {
    "A board."
}
