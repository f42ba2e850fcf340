//! Prompts: plain, with arguments, with content that is no text, and one that asks.

use mrtr_server::protocol::Role;
use mrtr_server::{
    Args, ContentBlock, Flow, Form, Partial, PromptMessage, ResourceContents, ServerBuilder, prompt,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::content::PNG;

pub(crate) fn add(server: ServerBuilder) -> ServerBuilder {
    server
        .prompt(prompt("test_simple_prompt", simple).description("Has no arguments."))
        .prompt(
            prompt("test_prompt_with_arguments", arguments)
                .description("Repeats its arguments.")
                .complete("arg1", async |typed: Partial| {
                    typed.matching(["testValue1", "another value"])
                }),
        )
        .prompt(
            prompt("test_prompt_with_embedded_resource", embedded)
                .description("Has a resource in its first message."),
        )
        .prompt(
            prompt("test_prompt_with_image", image)
                .description("Has a picture in its first message."),
        )
        .prompt(
            prompt("test_input_required_result_prompt", asking)
                .description("Asks for a context before it has messages."),
        )
}

async fn simple() -> &'static str {
    "This is a simple prompt for testing."
}

#[derive(Deserialize, JsonSchema)]
struct Two {
    /// The first argument.
    arg1: String,
    /// The second argument.
    arg2: String,
}

async fn arguments(Args(Two { arg1, arg2 }): Args<Two>) -> String {
    format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Uri {
    /// The URI of the resource in the first message.
    resource_uri: String,
}

async fn embedded(Args(Uri { resource_uri }): Args<Uri>) -> Vec<PromptMessage> {
    let text = "Embedded resource content for testing.";
    let resource = ResourceContents::text(resource_uri, text).with_mime_type("text/plain");
    vec![
        user(ContentBlock::resource(resource)),
        PromptMessage::user("Please process the embedded resource above."),
    ]
}

async fn image() -> Vec<PromptMessage> {
    vec![
        user(ContentBlock::image(PNG, "image/png")),
        PromptMessage::user("Please analyze the image above."),
    ]
}

fn user(content: ContentBlock) -> PromptMessage {
    PromptMessage {
        role: Role::User,
        content,
    }
}

#[derive(Deserialize, JsonSchema)]
struct Context {
    context: String,
}

async fn asking(flow: Flow) -> String {
    let question = Form::<Context>::new("What context should the prompt use?");
    match flow.ask("user_context", question).await.accepted() {
        Some(Context { context }) => format!("Use this context: {context}"),
        None => "Use no context.".into(),
    }
}
