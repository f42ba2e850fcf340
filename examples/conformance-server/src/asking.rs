//! Tools that ask, each in the way that one scenario looks at.
//!
//! Sampling and roots are deprecated since 2026-07-28; they are here because clients and the suite still have them.

use mrtr_server::{
    Answer, Args, CreateMessageParams, Flow, Form, Kind, Roots, Sampling, SamplingMessage,
    ServerBuilder, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) fn add(server: ServerBuilder) -> ServerBuilder {
    let by_name = tool("test_input_required_result_elicitation", greet)
        .description("Asks for a name and greets.")
        // The greeting protects nothing, and the suite answers before it was asked.
        .accept_answers_without_state();
    server
        .tool(by_name)
        .tool(
            tool("test_input_required_result_sampling", capital)
                .description("Asks the model for a capital."),
        )
        .tool(
            tool("test_input_required_result_list_roots", folders)
                .description("Asks for the client's folders."),
        )
        .tool(
            tool("test_input_required_result_request_state", confirm)
                .description("Asks for a confirmation."),
        )
        .tool(
            tool("test_input_required_result_multiple_inputs", three_at_once)
                .description("Asks for three things in one round."),
        )
        .tool(
            tool("test_input_required_result_multi_round", two_rounds)
                .description("Asks in two rounds."),
        )
        .tool(
            tool("test_input_required_result_tampered_state", confirm)
                .description("Asks for a confirmation, with a state that may not be changed."),
        )
        .tool(
            tool("test_input_required_result_capabilities", whatever_is_there)
                .description("Asks in a way that the client has declared."),
        )
        .tool(
            tool("test_missing_capability", capital)
                .description("Needs a client that has declared sampling."),
        )
        .tool(
            tool("test_streaming_elicitation", greet)
                .description("Asks for a name, without a request of the server's own."),
        )
        .tool(tool("test_sampling", sample).description("Passes a prompt to the client's model."))
        .tool(tool("test_elicitation", elicit).description("Asks for a user's name and address."))
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

async fn greet(flow: Flow) -> String {
    let question = Form::<Name>::new("What is your name?");
    match flow.ask("user_name", question).await {
        Answer::Accept(Name { name }) => format!("Hello, {name}!"),
        Answer::Decline | Answer::Cancel => "Hello, whoever you are!".into(),
    }
}

/// One message of the user's, and at most a hundred tokens in return.
fn prompt(text: impl Into<String>) -> Sampling {
    let message = SamplingMessage::user(text.into());
    Sampling::new(CreateMessageParams::new(vec![message], 100))
}

async fn capital(flow: Flow) -> String {
    let question = prompt("What is the capital of France?");
    match flow.ask("capital_question", question).await.accepted() {
        Some(message) => message.joined_text(),
        None => "The model did not say.".into(),
    }
}

async fn folders(flow: Flow) -> String {
    match flow.ask("client_roots", Roots::new()).await.accepted() {
        Some(roots) => format!("{} folders", roots.len()),
        None => "No folders".into(),
    }
}

#[derive(Deserialize, JsonSchema)]
struct Confirmation {
    ok: bool,
}

async fn confirm(flow: Flow) -> &'static str {
    let question = Form::<Confirmation>::new("Please confirm");
    match flow.ask("confirm", question).await {
        Answer::Accept(Confirmation { ok: true }) => "state-ok: confirmed",
        _ => "state-ok: not confirmed",
    }
}

async fn three_at_once(flow: Flow) -> String {
    let (name, greeting, roots) = tokio::join!(
        flow.ask("user_name", Form::<Name>::new("What is your name?")),
        flow.ask("greeting", prompt("Write a greeting.")),
        flow.ask("client_roots", Roots::new()),
    );
    let name = name.accepted().map_or("somebody".into(), |name| name.name);
    let greeting = greeting.accepted().map(|message| message.joined_text());
    let folders = roots.accepted().map_or(0, |roots| roots.len());
    format!(
        "{}, {name}! You have {folders} folders.",
        greeting.unwrap_or_default()
    )
}

#[derive(Deserialize, JsonSchema)]
struct Colour {
    color: String,
}

async fn two_rounds(flow: Flow) -> String {
    let question = Form::<Name>::new("Step 1: What is your name?");
    let Some(Name { name }) = flow.ask("step1", question).await.accepted() else {
        return "Stopped at step 1.".into();
    };
    let question = Form::<Colour>::new(format!("Step 2: What is your favorite color, {name}?"));
    let Some(Colour { color }) = flow.ask("step2", question).await.accepted() else {
        return "Stopped at step 2.".into();
    };
    format!("{name} likes {color}.")
}

async fn whatever_is_there(flow: Flow) -> String {
    if flow.can_ask(Kind::Form) {
        greet(flow).await
    } else {
        capital(flow).await
    }
}

#[derive(Deserialize, JsonSchema)]
struct Prompt {
    /// The prompt for the model.
    prompt: String,
}

async fn sample(Args(args): Args<Prompt>, flow: Flow) -> String {
    match flow.ask("message", prompt(args.prompt)).await.accepted() {
        Some(message) => format!("LLM response: {}", message.joined_text()),
        None => "LLM response: none".into(),
    }
}

#[derive(Deserialize, JsonSchema)]
struct Message {
    /// What the person reads above the form.
    message: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "it is printed, by Debug")]
struct User {
    /// The user's name.
    username: String,
    /// The user's address.
    email: String,
}

async fn elicit(Args(args): Args<Message>, flow: Flow) -> String {
    let answer = flow.ask("user", Form::<User>::new(args.message)).await;
    format!("User response: {answer:?}")
}
