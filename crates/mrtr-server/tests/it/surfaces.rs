//! Prompts and resources, which ask as tools do; and questions of every kind.

use http::StatusCode;
use mrtr_server::{
    Args, BuildError, CreateMessageParams, DurableFlow, Flow, Form, Json, Kind, PromptMessage,
    Roots, Sampling, SamplingMessage, Server, State, ToolError, prompt, resource, template, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bank::{Bank, Call, Effects, Reply, accept};
use crate::cases::Refusal;

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Topic {
    /// What to brief about.
    topic: String,
    tone: Option<Tone>,
}

#[derive(Deserialize, JsonSchema, Debug)]
#[serde(rename_all = "lowercase")]
enum Tone {
    Dry,
    Warm,
}

async fn briefing(Args(Topic { topic, tone }): Args<Topic>, flow: Flow) -> String {
    let ok = flow
        .ask(
            "confirm",
            Form::<Confirm>::new(format!("Brief about {topic}?")),
        )
        .await
        .accepted();
    format!("{topic} {tone:?} {}", ok.is_some_and(|Confirm { ok }| ok))
}

#[derive(Deserialize, JsonSchema)]
struct Day {
    day: String,
}

async fn note(
    Args(Day { day }): Args<Day>,
    flow: DurableFlow,
    State(effects): State<Effects>,
) -> Result<String, ToolError> {
    let _ = flow.ask("confirm", Form::<Confirm>::new("Read it?")).await;
    flow.once("read", async || Ok::<_, ToolError>(effects.happen()))
        .await?;
    Ok(format!("the note of {day}"))
}

fn library() -> Bank {
    Bank::with(|builder| {
        builder
            .prompt(prompt("transfer", briefing).description("Briefs."))
            .prompt(prompt("both", async || {
                vec![PromptMessage::user("Q"), PromptMessage::assistant("A")]
            }))
            .resource(
                resource("note://today", async || "today's note")
                    .name("today")
                    .mime_type("text/plain"),
            )
            .resource(template("note://{day}", note))
            .resource(resource("data://json", async || Json(json!({ "a": 1 }))))
            .resource(resource("data://bytes", async || vec![1_u8, 2, 3]))
            .resource(resource(
                "data://broken",
                async || -> Result<String, ToolError> {
                    Ok(std::fs::read_to_string("/nonexistent/secret-path")?)
                },
            ))
            .tool(tool("sentence", async |flow: Flow| {
                let ask =
                    CreateMessageParams::new(vec![SamplingMessage::user("One sentence.")], 50);
                match flow.ask("s", Sampling::new(ask)).await.accepted() {
                    Some(message) => message.joined_text(),
                    None => "none".into(),
                }
            }))
            .tool(tool("folders", async |flow: Flow| {
                let roots = flow
                    .ask("r", Roots::new())
                    .await
                    .accepted()
                    .unwrap_or_default();
                roots
                    .iter()
                    .map(|root| root.uri().to_owned())
                    .collect::<Vec<_>>()
                    .join(" ")
            }))
    })
}

fn everything() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {} })
}

fn yes() -> Value {
    accept(json!({ "ok": true }))
}

fn message(reply: &Reply) -> &str {
    reply.body["result"]["messages"][0]["content"]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{reply:?}"))
}

#[tokio::test]
async fn a_prompt_asks_and_goes_on() {
    let bank = library();
    let call = || Call::prompt("transfer", json!({ "topic": "tea", "tone": "dry" }));
    let asked = bank.send(&call()).await;
    assert_eq!(asked.asks(), ["confirm"], "{asked:?}");
    let done = bank
        .send(&call().id(2).state(asked.state()).answer("confirm", yes()))
        .await;
    assert_eq!(message(&done), "tea Some(Dry) true");
    assert_eq!(done.body["result"]["resultType"], "complete");
    let again = bank
        .send(&call().id(3).state(asked.state()).answer("confirm", yes()))
        .await;
    assert!(again.is_replayed(), "{again:?}");
    let both = bank.send(&Call::prompt("both", json!({}))).await;
    assert_eq!(both.body["result"]["messages"][1]["role"], "assistant");
}

#[tokio::test]
async fn a_resource_asks_and_goes_on() {
    let bank = library();
    let call = || Call::resource("note://monday");
    let asked = bank.send(&call()).await;
    assert_eq!(asked.asks(), ["confirm"], "{asked:?}");
    for times in 0..2 {
        let done = bank
            .send(&call().id(2).state(asked.state()).answer("confirm", yes()))
            .await;
        let contents = &done.body["result"]["contents"][0];
        assert_eq!(
            (&contents["text"], &contents["uri"]),
            (&json!("the note of monday"), &json!("note://monday"))
        );
        assert_eq!((done.is_replayed(), bank.effects.count()), (times == 1, 1));
    }
    let other = bank
        .send(
            &Call::resource("note://tuesday")
                .id(2)
                .state(asked.state())
                .answer("confirm", yes()),
        )
        .await;
    assert_eq!(other.reason(), Some("different_request"));
}

#[tokio::test]
async fn a_state_of_a_tool_is_no_state_of_a_prompt_of_the_same_name() {
    let bank = library();
    let arguments = json!({ "topic": "tea" });
    let tool_state = bank.open().await;
    let on_prompt = bank
        .send(
            &Call::prompt("transfer", arguments.clone())
                .id(2)
                .state(&tool_state)
                .answer("confirm", yes()),
        )
        .await;
    assert_eq!(
        on_prompt.reason(),
        Some("different_request"),
        "{on_prompt:?}"
    );
    let same = json!({ "to": "acct-7", "amount": 100 });
    let bent = bank
        .send(
            &Call::prompt("transfer", json!({ "topic": "x" }))
                .param("arguments", same)
                .id(2)
                .state(&tool_state),
        )
        .await;
    assert_eq!(
        bent.code(),
        Some(-32602),
        "numbers are no prompt arguments: {bent:?}"
    );
    let prompt_state = bank
        .send(&Call::prompt("transfer", arguments))
        .await
        .state()
        .to_owned();
    let on_tool = bank.send(&Call::retry(&prompt_state)).await;
    assert_eq!(on_tool.reason(), Some("different_request"));
    crate::cases::works("and each is good where it belongs", &bank, &tool_state).await;
}

#[tokio::test]
async fn what_is_published_is_what_is_served() {
    let bank = library();
    let discovered = bank.send(&Call::nameless("server/discover")).await;
    assert_eq!(
        discovered.body["result"]["capabilities"],
        json!({ "tools": {}, "prompts": {}, "resources": {} })
    );
    let prompts = bank.send(&Call::nameless("prompts/list")).await;
    let first = &prompts.body["result"]["prompts"][0];
    assert_eq!(first["name"], "transfer");
    assert_eq!(
        first["arguments"],
        json!([
            { "name": "topic", "description": "What to brief about.", "required": true },
            { "name": "tone", "required": false },
        ])
    );
    let resources = bank.send(&Call::nameless("resources/list")).await;
    assert_eq!(
        resources.body["result"]["resources"][0],
        json!({ "uri": "note://today", "name": "today", "mimeType": "text/plain" })
    );
    let templates = bank.send(&Call::nameless("resources/templates/list")).await;
    assert_eq!(
        templates.body["result"]["resourceTemplates"][0]["uriTemplate"],
        "note://{day}"
    );
    let read = async |uri: &str| bank.send(&Call::resource(uri)).await;
    assert_eq!(
        read("note://today").await.body["result"]["contents"][0]["text"],
        "today's note",
        "the exact URI comes first"
    );
    assert_eq!(
        read("data://json").await.body["result"]["contents"][0]["mimeType"],
        "application/json"
    );
    assert_eq!(
        read("data://bytes").await.body["result"]["contents"][0]["blob"],
        "AQID"
    );
}

#[tokio::test]
async fn what_is_not_there_or_does_not_fit_is_an_error() {
    let bank = library();
    let params = Refusal::params();
    params.check(
        "unknown prompt",
        &bank.send(&Call::prompt("nobody", json!({}))).await,
    );
    params.check(
        "no topic",
        &bank.send(&Call::prompt("transfer", json!({}))).await,
    );
    params.check(
        "no such tone",
        &bank
            .send(&Call::prompt(
                "transfer",
                json!({ "topic": "a", "tone": "loud" }),
            ))
            .await,
    );
    let nowhere = bank.send(&Call::resource("note://a/b")).await;
    params.check("unknown resource", &nowhere);
    assert_eq!(nowhere.body["error"]["data"]["uri"], "note://a/b");
    let broken = bank.send(&Call::resource("data://broken")).await;
    assert_eq!(broken.code(), Some(-32603), "{broken:?}");
    assert!(
        !broken.body.to_string().contains("secret-path"),
        "the cause stays in the log"
    );
    let mismatch = Refusal::http(StatusCode::BAD_REQUEST, -32020);
    mismatch.check(
        "a header of another URI",
        &bank
            .send(&Call::resource("note://today").header("mcp-name", "note://x"))
            .await,
    );
    // A server without them does not know the methods.
    let plain = Bank::new();
    let not_found = Refusal::http(StatusCode::NOT_FOUND, -32601);
    for call in [
        Call::prompt("x", json!({})),
        Call::resource("x://y"),
        Call::nameless("prompts/list"),
        Call::nameless("resources/list"),
    ] {
        not_found.check("not served here", &plain.send(&call).await);
    }
}

#[tokio::test]
async fn kinds_that_were_not_declared_are_not_asked() {
    let bank = library();
    for (tool, capabilities, required) in [
        (
            "sentence",
            json!({ "elicitation": {}, "roots": {} }),
            json!({ "sampling": {} }),
        ),
        (
            "folders",
            json!({ "elicitation": {}, "sampling": {} }),
            json!({ "roots": {} }),
        ),
    ] {
        let reply = bank
            .send(&Call::of(tool, json!({})).declaring(capabilities))
            .await;
        Refusal::http(StatusCode::BAD_REQUEST, -32021).check(tool, &reply);
        assert_eq!(
            reply.body["error"]["data"]["requiredCapabilities"],
            required
        );
        assert!(
            !bank
                .send(&Call::of(tool, json!({})).declaring(everything()))
                .await
                .asks()
                .is_empty()
        );
    }
}

#[tokio::test]
async fn sampling_and_roots_are_answered_in_their_own_shape() {
    let bank = library();
    let good = [
        (
            "sentence",
            "s",
            json!({ "role": "assistant", "content": { "type": "text", "text": "Tea is warm." }, "model": "m" }),
            "Tea is warm.",
        ),
        (
            "folders",
            "r",
            json!({ "roots": [{ "uri": "file:///a" }, { "uri": "file:///b" }] }),
            "file:///a file:///b",
        ),
    ];
    for (tool, key, answer, text) in good {
        let call = || Call::of(tool, json!({})).declaring(everything());
        let asked = bank.send(&call()).await;
        assert_eq!(asked.asks(), [key], "{asked:?}");
        for bad in [
            yes(),
            json!({}),
            json!({ "roots": "all" }),
            json!({ "role": "user" }),
            json!({ "action": "decline" }),
        ] {
            let reply = bank
                .send(&call().id(2).state(asked.state()).answer(key, bad))
                .await;
            Refusal::params().check(tool, &reply);
        }
        let done = bank
            .send(&call().id(2).state(asked.state()).answer(key, answer))
            .await;
        assert_eq!(done.text(), text);
    }
}

#[test]
fn prompts_and_templates_that_cannot_be_served_are_refused() {
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only the schema is looked at")]
    struct Counted {
        count: u32,
    }
    let builder = || Server::builder("s", "1").allow_anonymous();
    let named =
        |error: BuildError, name: &str| assert!(error.to_string().contains(name), "{error}");
    named(
        builder()
            .prompt(prompt("p", async |_: Args<Counted>| "x"))
            .build()
            .unwrap_err(),
        "`count` is not text",
    );
    named(
        builder()
            .resource(template("a://{other}", async |_: Args<Day>| "x"))
            .build()
            .unwrap_err(),
        "no variable `day`",
    );
    named(
        builder()
            .resource(template("a://{x:3}", async || "x"))
            .build()
            .unwrap_err(),
        "{x:3}",
    );
    named(
        builder()
            .resource(resource("a://x", async |_: Args<Day>| "x"))
            .build()
            .unwrap_err(),
        "use `template`",
    );
    let twice = builder()
        .resource(resource("a://x", async || "1"))
        .resource(resource("a://x", async || "2"));
    named(twice.build().unwrap_err(), "two of resource `a://x`");
    named(
        builder()
            .prompt(prompt("p", async |flow: Flow| {
                if flow.can_ask(Kind::Form) { "x" } else { "y" }
            }))
            .build()
            .unwrap_err(),
        "prompt `p`",
    );
}

#[derive(Deserialize, JsonSchema)]
struct File {
    repo: String,
    path: Vec<String>,
    rev: Option<String>,
    tags: Option<Vec<String>>,
}

#[derive(Deserialize, JsonSchema)]
struct Whole {
    path: String,
}

#[tokio::test]
async fn templates_with_operators_give_texts_and_lists() {
    let bank = Bank::with(|builder| {
        builder
            .resource(template(
                "git://{repo}{/path*}{?rev,tags*}",
                async |Args(file): Args<File>| {
                    let File {
                        repo,
                        path,
                        rev,
                        tags,
                    } = file;
                    Json(json!([repo, path, rev, tags]))
                },
            ))
            .resource(template(
                "file:///{+path}",
                async |Args(Whole { path }): Args<Whole>| path,
            ))
    });
    let read = async |uri: &str| bank.send(&Call::resource(uri)).await;
    let text = |reply: &Reply| {
        let text = &reply.body["result"]["contents"][0]["text"];
        text.as_str()
            .unwrap_or_else(|| panic!("{reply:?}"))
            .to_owned()
    };
    for (uri, expected) in [
        (
            "git://mrtr/src/main.rs",
            json!(["mrtr", ["src", "main.rs"], null, null]),
        ),
        (
            "git://mrtr/a%2Fb?rev=1",
            json!(["mrtr", ["a/b"], "1", null]),
        ),
        (
            "git://mrtr/a?tags=x&tags=y",
            json!(["mrtr", ["a"], null, ["x", "y"]]),
        ),
    ] {
        let reply = read(uri).await;
        assert_eq!(
            serde_json::from_str::<Value>(&text(&reply)).unwrap(),
            expected,
            "{uri}"
        );
    }
    assert_eq!(text(&read("file:///etc/a/b").await), "etc/a/b");
    let params = Refusal::params();
    for uri in [
        // The path is needed.
        "git://mrtr",
        "git://mrtr/a?rev=1&rev=2",
        "git://mrtr/a?tags=x&rev=1",
        "git://mrtr/a#b",
        // A file's path has no detour, however much of it one variable holds.
        "file:///a/../../etc/passwd",
        "file:///a/%2e%2e/b",
        "file:///a%2Fb",
    ] {
        let reply = read(uri).await;
        params.check(uri, &reply);
        assert_eq!(reply.body["error"]["data"]["uri"], uri);
    }
}

#[test]
fn templates_whose_uris_have_two_readings_are_refused_by_name() {
    let build = |resource| {
        Server::builder("s", "1")
            .allow_anonymous()
            .resource(resource)
            .build()
            .map(drop)
    };
    let named = |result: Result<(), BuildError>, part: &str| {
        let error = result.unwrap_err().to_string();
        assert!(
            error.contains(part) && error.contains("resource `"),
            "{error}"
        );
    };
    named(
        build(template("a://{x}-{y}", async || "x")),
        "could be read in two ways",
    );
    named(
        build(template("git://{repo}{/path}", async |_: Args<File>| "x")),
        "`path` is not text",
    );
    named(
        build(template("file:///{+path*}", async |_: Args<Whole>| "x")),
        "two ways",
    );
    named(
        build(template("a://b{/path*}", async |_: Args<Whole>| "x")),
        "`path` is exploded",
    );
}
