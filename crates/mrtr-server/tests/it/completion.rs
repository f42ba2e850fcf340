//! Completion: suggestions while somebody types, for whom they are, and how many.

use std::time::Duration;

use http::StatusCode;
use mrtr_server::{
    Args, BuildError, Caller, Cancelled, Completion, Flow, Partial, Prompt, Resource, Server,
    State, ToolError, prompt, resource, template, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bank::{Bank, Call, Effects, Reply};
use crate::cases::Refusal;
use crate::session::Session;

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "what is completed is looked at, not what is read")]
struct Review {
    language: String,
    framework: Option<String>,
    plain: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "what is completed is looked at, not what is read")]
struct Day {
    year: String,
    day: String,
}

#[derive(Clone)]
struct Names(&'static [&'static str]);

fn review() -> Prompt {
    prompt("review", async |_: Args<Review>| "x")
        .complete(
            "language",
            async |typed: Partial, State(names): State<Names>| {
                typed.matching(names.0.iter().copied())
            },
        )
        .complete("framework", async |typed: Partial| {
            match typed.chosen("language") {
                Some("python") => typed.matching(["django", "flask"]),
                Some(_) => vec![],
                None => vec![format!("other: {:?}", typed.chosen("nonsense"))],
            }
        })
}

fn library() -> Bank {
    Bank::with(|builder| {
        builder
            .state(Names(&["rust", "Pascal", "python", "cpython"]))
            .prompt(review())
            .prompt(
                prompt("odd", async |_: Args<Review>| "x")
                    .complete("language", async || {
                        (0..250).map(|n| n.to_string()).collect::<Vec<_>>()
                    })
                    .complete("framework", async || -> Result<Vec<String>, ToolError> {
                        Ok(vec![std::fs::read_to_string("/nonexistent/secret-path")?])
                    })
                    .complete("plain", async |Caller(who): Caller| match who {
                        mrtr_server::Principal::User(user) => vec![user.subject().to_owned()],
                        _ => vec![],
                    }),
            )
            .resource(
                template("note://{year}/{day}", async |_: Args<Day>| "x")
                    .complete("year", async || ["2025", "2026"])
                    .complete("day", async |typed: Partial| {
                        if typed.value() == "panic" {
                            panic!("as the test wants");
                        }
                        let mut some = Completion::new(vec!["x"; 3]);
                        some.values = vec!["y".to_owned(); 101];
                        some.total = Some(365);
                        Ok::<_, ToolError>(some)
                    }),
            )
            .resource(resource("note://today", async || "x"))
    })
}

fn ask(reference: Value, argument: &str, value: &str) -> Call {
    Call::nameless("completion/complete")
        .param("ref", reference)
        .param("argument", json!({ "name": argument, "value": value }))
}

fn of_prompt(name: &str, argument: &str, value: &str) -> Call {
    ask(
        json!({ "type": "ref/prompt", "name": name }),
        argument,
        value,
    )
}

fn of_resource(uri: &str, argument: &str, value: &str) -> Call {
    ask(
        json!({ "type": "ref/resource", "uri": uri }),
        argument,
        value,
    )
}

fn chosen(call: Call, arguments: Value) -> Call {
    call.param("context", json!({ "arguments": arguments }))
}

fn values(reply: &Reply) -> Vec<&str> {
    reply.body["result"]["completion"]["values"]
        .as_array()
        .unwrap_or_else(|| panic!("no values in {reply:?}"))
        .iter()
        .map(|value| value.as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn what_is_typed_is_completed() {
    let bank = library();
    let reply = bank.send(&of_prompt("review", "language", "p")).await;
    assert_eq!(values(&reply), ["Pascal", "python", "cpython"], "{reply:?}");
    let result = &reply.body["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(
        result["completion"],
        json!({ "values": ["Pascal", "python", "cpython"], "total": 3, "hasMore": false })
    );
    assert_eq!(
        result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
        "bank"
    );
    let all = bank.send(&of_prompt("review", "language", "")).await;
    assert_eq!(values(&all).len(), 4);
    let years = bank
        .send(&of_resource("note://{year}/{day}", "year", ""))
        .await;
    assert_eq!(values(&years), ["2025", "2026"]);
    // An argument that nobody completes is one all the same.
    let none = bank.send(&of_prompt("review", "plain", "x")).await;
    assert_eq!(values(&none), [""; 0]);
}

#[tokio::test]
async fn what_was_chosen_before_is_context() {
    let bank = library();
    let call = || of_prompt("review", "framework", "f");
    let python = bank
        .send(&chosen(call(), json!({ "language": "python" })))
        .await;
    assert_eq!(values(&python), ["flask"]);
    let rust = bank
        .send(&chosen(call(), json!({ "language": "rust" })))
        .await;
    assert_eq!(values(&rust), [""; 0]);
    // What is no argument of the prompt does not reach the handler.
    let nonsense = bank.send(&chosen(call(), json!({ "nonsense": "x" }))).await;
    assert_eq!(values(&nonsense), ["other: None"]);
    assert_eq!(
        values(&bank.send(&call().param("context", json!({}))).await),
        ["other: None"]
    );
}

#[tokio::test]
async fn a_hundred_values_leave_and_no_more() {
    let bank = library();
    let many = bank.send(&of_prompt("odd", "language", "")).await;
    assert_eq!(values(&many).len(), 100);
    let completion = &many.body["result"]["completion"];
    assert_eq!(
        (&completion["total"], &completion["hasMore"]),
        (&json!(250), &json!(true))
    );
    // One that is made by hand is cut too, and says so.
    let by_hand = bank
        .send(&of_resource("note://{year}/{day}", "day", ""))
        .await;
    assert_eq!(values(&by_hand).len(), 100);
    let completion = &by_hand.body["result"]["completion"];
    assert_eq!(
        (&completion["total"], &completion["hasMore"]),
        (&json!(365), &json!(true))
    );
}

#[tokio::test]
async fn suggestions_are_for_whoever_asks() {
    let bank = library();
    for user in ["user-a", "user-b"] {
        let reply = bank.send(&of_prompt("odd", "plain", "").by(user)).await;
        assert_eq!(values(&reply), [user]);
    }
    let nobody = bank.send(&of_prompt("odd", "plain", "").by("nobody")).await;
    assert_eq!(nobody.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn what_is_not_there_or_does_not_fit_is_an_error() {
    let bank = library();
    let good = || of_prompt("review", "language", "p");
    assert_eq!(values(&bank.send(&good()).await).len(), 3);
    let long = "x".repeat(64 * 1024 + 1);
    for (name, call) in [
        ("unknown prompt", of_prompt("nobody", "language", "p")),
        ("unknown argument", of_prompt("review", "nothing", "p")),
        (
            "unknown template",
            of_resource("note://{other}", "year", "p"),
        ),
        (
            "a template is no prompt",
            of_prompt("note://{year}/{day}", "year", "p"),
        ),
        ("a URI that fits", of_resource("note://2026/1", "day", "p")),
        (
            "a resource has no variables",
            of_resource("note://today", "day", "p"),
        ),
        ("a tool is not completed", of_prompt("transfer", "to", "p")),
        (
            "another reference",
            ask(
                json!({ "type": "ref/tool", "name": "review" }),
                "language",
                "p",
            ),
        ),
        (
            "no name",
            ask(json!({ "type": "ref/prompt" }), "language", "p"),
        ),
        (
            "a reference that is none",
            ask(json!("review"), "language", "p"),
        ),
        ("no reference", good().without_param("ref")),
        ("no argument", good().without_param("argument")),
        (
            "a value that is no text",
            good().param("argument", json!({ "name": "language", "value": 1 })),
        ),
        (
            "an array",
            good().param("argument", json!(["language", "p"])),
        ),
        ("context that is none", good().param("context", json!(null))),
        (
            "arguments that are no text",
            chosen(good(), json!({ "framework": 1 })),
        ),
        ("much text", of_prompt("review", "language", &long)),
        ("much context", chosen(good(), json!({ "anything": long }))),
    ] {
        Refusal::params().check(name, &bank.send(&call).await);
    }
    for call in [
        of_prompt("odd", "framework", ""),
        of_resource("note://{year}/{day}", "day", "panic"),
    ] {
        let reply = bank.send(&call).await;
        assert_eq!(reply.code(), Some(-32603), "{reply:?}");
        assert!(
            !reply.body.to_string().contains("secret-path"),
            "the cause stays in the log"
        );
    }
    assert_eq!(values(&bank.send(&good()).await).len(), 3);
}

#[tokio::test]
async fn nobody_asks_faster_than_a_person_types() {
    let bank = Bank::with(|builder| {
        builder
            .limits(|limits| limits.completions_per_second = 5)
            .state(Names(&["rust"]))
            .prompt(review())
    });
    let call = of_prompt("review", "language", "r");
    for _ in 0..5 {
        assert_eq!(values(&bank.send(&call).await), ["rust"]);
    }
    let refused = bank.send(&call).await;
    assert_eq!(refused.code(), Some(1003), "{refused:?}");
    // Not even of one that has no answer: asking is what is counted.
    let unanswered = bank.send(&of_prompt("review", "plain", "r")).await;
    assert_eq!(unanswered.code(), Some(1003));
    let other = bank.send(&call.clone().by("user-b")).await;
    assert_eq!(values(&other), ["rust"], "another's pace is another's");
    bank.advance(std::time::Duration::from_millis(200));
    assert_eq!(values(&bank.send(&call).await), ["rust"]);
    assert_eq!(bank.send(&call).await.code(), Some(1003));
}

#[tokio::test]
async fn the_capability_is_there_when_something_is_completed() {
    let capabilities = async |bank: &Bank| {
        let discovered = bank.send(&Call::nameless("server/discover")).await;
        discovered.body["result"]["capabilities"].clone()
    };
    assert_eq!(capabilities(&library()).await["completions"], json!({}));
    let plain = Bank::with(|builder| builder.prompt(prompt("review", async |_: Args<Review>| "x")));
    assert_eq!(
        capabilities(&plain).await,
        json!({ "tools": {}, "prompts": {} })
    );
    let reply = plain.send(&of_prompt("review", "language", "p")).await;
    Refusal::http(StatusCode::NOT_FOUND, -32601).check("not served", &reply);
}

#[test]
fn completions_that_cannot_be_served_are_refused() {
    let build = |prompt: Prompt| {
        Server::builder("s", "1")
            .allow_anonymous()
            .prompt(prompt)
            .build()
            .map(drop)
    };
    let build_resource = |resource: Resource| {
        Server::builder("s", "1")
            .allow_anonymous()
            .resource(resource)
            .build()
            .map(drop)
    };
    let bare = || prompt("p", async |_: Args<Review>| "x");
    let named = |result: Result<(), BuildError>, part: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    assert!(build(bare().complete("language", async || ["x"])).is_ok());
    named(
        build(bare().complete("nothing", async || ["x"])),
        "no argument `nothing`",
    );
    let twice = bare()
        .complete("language", async || ["x"])
        .complete("language", async || ["y"]);
    named(build(twice), "twice");
    named(
        build(bare().complete("language", async |_: Flow| ["x"])),
        "it cannot ask",
    );
    named(
        build(bare().complete("language", async |_: Args<Review>| ["x"])),
        "it cannot ask",
    );
    named(
        build(bare().complete("language", async |_: State<Names>| ["x"])),
        "`State<",
    );
    named(build(prompt("p", async |_: Partial| "x")), "`Partial`");
    named(
        build_resource(resource("a://b", async || "x").complete("x", async || ["x"])),
        "use `template`",
    );
    let twins = Server::builder("s", "1")
        .allow_anonymous()
        .resource(template("a://{x}", async || "1"))
        .resource(template("a://{x}", async || "2"))
        .build();
    named(twins.map(drop), "two of template `a://{x}`");
    let tool = Server::builder("s", "1")
        .allow_anonymous()
        .tool(tool("t", async |_: Partial| "x"))
        .build();
    named(tool.map(drop), "`Partial`");
}

#[tokio::test]
async fn the_earlier_era_completes_too() {
    let bank = library();
    let session = Session::open(&bank.server, json!({})).await;
    let params = json!({
        "ref": { "type": "ref/prompt", "name": "review" },
        "argument": { "name": "language", "value": "ru" },
    });
    let reply = session.reply("completion/complete", params.clone()).await;
    assert_eq!(values(&reply), ["rust"]);
    assert!(
        reply.body["result"].get("resultType").is_none(),
        "{reply:?}"
    );
    let mut unknown = params;
    unknown["ref"]["name"] = "nobody".into();
    let reply = session.reply("completion/complete", unknown).await;
    assert_eq!(reply.code(), Some(-32602), "{reply:?}");
}

#[tokio::test]
async fn a_completion_learns_that_its_client_has_gone() {
    let bank = Bank::with(|builder| {
        builder.prompt(prompt("review", async |_: Args<Review>| "x").complete(
            "language",
            async |gone: Cancelled, State(effects): State<Effects>| {
                tokio::spawn(async move {
                    gone.happens().await;
                    effects.happen();
                });
                std::future::pending::<Vec<String>>().await
            },
        ))
    });
    let call = of_prompt("review", "language", "r");
    let sending = bank.send(&call);
    let waited = tokio::time::timeout(Duration::from_millis(50), sending).await;
    assert!(waited.is_err());
    tokio::task::yield_now().await;
    assert_eq!(bank.effects.count(), 1);
}
