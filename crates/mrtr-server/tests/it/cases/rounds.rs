//! Cases 113 to 134: what a round is, what it passes on its way, and what ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::middleware::map_response;
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use mrtr_server::protocol::InputResponses;
use mrtr_server::{
    Args, CreateMessageParams, DurableFlow, Flow, Form, Roots, Sampling, SamplingMessage, Server,
    State, ToolError, prompt, resource, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tower_service::Service as _;

use super::{Refusal, refused, works};
use crate::bank::{Bank, Call, Effects, accept};

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

#[derive(Deserialize, JsonSchema)]
#[allow(
    dead_code,
    reason = "what is typed is completed, and nobody looks at it"
)]
struct Topic {
    topic: String,
}

fn confirm(message: &str) -> Form<Confirm> {
    Form::new(message)
}

async fn asks(flow: Flow) -> String {
    let answer = flow.ask("confirm", confirm("Sure?")).await;
    format!("{:?}", answer.accepted().map(|Confirm { ok }| ok))
}

/// The three that may ask, each as a call.
fn asking() -> (Bank, [Call; 3]) {
    let bank = Bank::with(|builder| {
        builder
            .tool(tool("asks", asks))
            .prompt(prompt("asks", asks))
            .resource(resource("r://asks", asks))
    });
    let calls = [
        Call::of("asks", json!({})),
        Call::prompt("asks", json!({})),
        Call::resource("r://asks"),
    ];
    (bank, calls)
}

/// Nothing but tools, prompts and resources has a handler that could ask; a completion that would is not built.
#[test]
fn case_113_a_completion_cannot_ask() {
    let topic = || prompt("p", async |_: Args<Topic>| "x");
    let build = |prompt| {
        let builder = Server::builder("s", "1").allow_anonymous();
        builder.prompt(prompt).build().map(drop)
    };
    build(topic().complete("topic", async || ["x"])).unwrap();
    let error = build(topic().complete("topic", async |_: Flow| ["x"])).unwrap_err();
    assert!(error.to_string().contains("it cannot ask"), "{error}");
}

/// A question that is asked only now and then shifts no answer to another question: keys are names, and no positions.
#[tokio::test]
async fn case_125_an_answer_stays_with_its_key() {
    let first_too = Arc::new(AtomicBool::new(false));
    let bank = Bank::with(|builder| {
        builder.state(Arc::clone(&first_too)).tool(tool(
            "t",
            async |flow: Flow, State(first_too): State<Arc<AtomicBool>>| {
                let mut said = Map::new();
                if first_too.load(Ordering::SeqCst) {
                    let a = flow.ask("a", confirm("A?")).await.accepted();
                    said.insert("a".into(), a.map(|a| a.ok).into());
                }
                for key in ["b", "c"] {
                    let answer = flow.ask(key, confirm(key)).await.accepted();
                    said.insert(key.into(), answer.map(|answer| answer.ok).into());
                }
                Value::Object(said).to_string()
            },
        ))
    });
    let call = || Call::of("t", json!({}));
    let said = |ok: bool| accept(json!({ "ok": ok }));
    let one = bank.send(&call()).await;
    assert_eq!(one.asks(), ["b"]);
    first_too.store(true, Ordering::SeqCst);
    let retry = call().id(2).state(one.state()).answer("b", said(false));
    let two = bank.send(&retry).await;
    assert_eq!(two.asks(), ["a"], "not answered by what was said to `b`");
    let retry = call().id(3).state(two.state()).answer("a", said(true));
    let three = bank.send(&retry).await;
    assert_eq!(three.asks(), ["c"]);
    first_too.store(false, Ordering::SeqCst);
    let retry = call().id(4).state(three.state()).answer("c", said(true));
    assert_eq!(bank.send(&retry).await.text(), r#"{"b":false,"c":true}"#);
}

/// A round of each method that may have one goes through layers around the server as it is, and nothing of a final result is in it.
#[tokio::test]
async fn case_128_a_round_passes_layers_untouched() {
    let (bank, calls) = asking();
    let router = axum::Router::new()
        .fallback_service(bank.server.clone())
        .layer(map_response(async |mut response: Response<Body>| {
            response
                .headers_mut()
                .insert("x-layer", "1".parse().unwrap());
            response
        }));
    for call in calls {
        let request = call.with_body(call.body.to_string());
        let response = router.clone().call(request).await.unwrap();
        assert_eq!(response.headers()["x-layer"], "1");
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&bytes).unwrap();
        let result = body["result"].as_object().unwrap();
        let members: Vec<_> = result.keys().filter(|name| *name != "_meta").collect();
        assert_eq!(members, ["resultType", "inputRequests", "requestState"]);
        assert_eq!(result["resultType"], "input_required");
        assert_eq!(
            result["inputRequests"]["confirm"]["method"],
            "elicitation/create"
        );

        let state = result["requestState"].as_str().unwrap();
        let retry = call
            .id(2)
            .state(state)
            .answer("confirm", accept(json!({ "ok": true })));
        let done = bank.send(&retry).await;
        assert_eq!(done.body["result"]["resultType"], "complete", "{done:?}");
        assert!(done.body.to_string().contains("Some(true)"), "{done:?}");
    }
}

async fn describes(flow: Flow, State(effects): State<Effects>) -> String {
    let ask = CreateMessageParams::new(vec![SamplingMessage::user("What is in it?")], 100);
    let answer = flow.ask("picture", Sampling::new(ask)).await;
    effects.happen();
    answer
        .accepted()
        .map_or_else(String::new, |message| message.model)
}

/// Answers are bounded in number and in bytes, before anything is spent.
#[tokio::test]
async fn case_132_answers_that_carry_too_much() {
    let many = |state: &str, more: usize| {
        let no = json!({ "action": "cancel" });
        (0..more).fold(Call::retry(state), |call, n| {
            call.answer(&format!("zzz{n}"), no.clone())
        })
    };
    refused("10,000 answers", &Refusal::params(), |state| {
        many(state, 10_000)
    })
    .await;
    refused("one too many", &Refusal::params(), |state| {
        many(state, InputResponses::LIMIT)
    })
    .await;
    let too_large = Refusal::http(StatusCode::PAYLOAD_TOO_LARGE, -32600);
    refused("one of 5 MiB", &too_large, |state| {
        let content = json!({ "ok": true, "zz": "x".repeat(5 << 20) });
        Call::retry(state).answer("confirm", accept(content))
    })
    .await;
    let bank = Bank::new();
    let state = bank.open().await;
    let most = bank.send(&many(&state, InputResponses::LIMIT - 1)).await;
    assert_eq!(most.text(), "done 1", "as many as there may be");

    let bank = Bank::with(|builder| builder.tool(tool("describes", describes)));
    let call = || Call::of("describes", json!({})).declaring(json!({ "sampling": {} }));
    let state = bank.send(&call()).await.state().to_owned();
    let picture = |bytes: usize| {
        let data = "A".repeat(bytes);
        let content = json!({ "type": "image", "mimeType": "image/png", "data": data });
        let message = json!({ "role": "assistant", "content": content, "model": "m" });
        call().id(2).state(&state).answer("picture", message)
    };
    too_large.check("10 MiB of picture", &bank.send(&picture(10 << 20)).await);
    assert_eq!((bank.effects.count(), bank.rows().await), (0, (0, 0)));
    assert_eq!(bank.send(&picture(1 << 20)).await.text(), "m");
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Failing {
    Before,
    After,
    Error,
}

#[derive(Deserialize, JsonSchema)]
struct How {
    fails: Failing,
}

async fn fails(
    Args(how): Args<How>,
    flow: DurableFlow,
    State(effects): State<Effects>,
) -> Result<&'static str, ToolError> {
    let _ = flow.ask("confirm", confirm("Sure?")).await;
    if matches!(how.fails, Failing::Before) {
        panic!("before the effect");
    }
    flow.once("effect", async || Ok::<_, ToolError>(effects.happen()))
        .await?;
    match how.fails {
        Failing::Error => Err(ToolError::text("The bank is closed.")),
        _ => panic!("after the effect"),
    }
}

/// A round that fails is spent, and every repetition of it is told the same; the server goes on.
#[tokio::test]
async fn case_134_what_fails_after_its_question_fails_once() {
    for (how, code, effects) in [
        ("before", Some(-32603), 0),
        ("after", Some(-32603), 1),
        ("error", None, 1),
    ] {
        let bank = Bank::with(|builder| builder.tool(tool("fails", fails)));
        let call = || Call::of("fails", json!({ "fails": how }));
        let asked = bank.send(&call()).await;
        let retry = |ok: bool| {
            let answer = accept(json!({ "ok": ok }));
            call().id(2).state(asked.state()).answer("confirm", answer)
        };
        let failed = bank.send(&retry(true)).await;
        assert_eq!(failed.code(), code, "{how}: {failed:?}");
        if code.is_none() {
            assert_eq!(failed.body["result"]["isError"], true, "{how}: {failed:?}");
        }
        let again = bank.send(&retry(true)).await;
        assert_eq!(again.body["error"], failed.body["error"], "{how}");
        assert_eq!(again.is_replayed(), code.is_none(), "{how}: {again:?}");
        let other = bank.send(&retry(false)).await;
        Refusal::state("already_used").check(how, &other);
        let rows = bank.ledger.as_ref().unwrap().rows().await.unwrap();
        assert_eq!((rows.rounds, rows.settled_rounds), (1, 1), "{how}");
        assert_eq!(bank.effects.count(), effects, "{how}");
        let state = bank.open().await;
        works("the next call", &bank, &state).await;
    }
}

async fn both(flow: Flow, State(effects): State<Effects>) -> String {
    let ask = CreateMessageParams::new(vec![SamplingMessage::user("Capital?")], 10);
    let (capital, roots) = tokio::join!(
        flow.ask("capital", Sampling::new(ask)),
        flow.ask("roots", Roots::new())
    );
    effects.happen();
    let capital = capital.accepted().map(|message| message.joined_text());
    format!("{capital:?} {}", roots.accepted().unwrap_or_default().len())
}

/// A model's answer is none to the question for folders, nor the other way round; a person's is neither.
#[tokio::test]
async fn case_180_an_answer_is_read_by_the_kind_of_its_key() {
    let model = json!({ "role": "assistant", "content": { "type": "text", "text": "Paris" }, "model": "m" });
    let folders = json!({ "roots": [{ "uri": "file:///a" }] });
    let person = accept(json!({ "ok": true }));
    let bank = Bank::with(|builder| builder.tool(tool("both", both)));
    let call = || Call::of("both", json!({})).declaring(json!({ "sampling": {}, "roots": {} }));
    let state = bank.send(&call()).await.state().to_owned();
    let retry = |capital: &Value, roots: &Value| {
        call()
            .id(2)
            .state(&state)
            .answer("capital", capital.clone())
            .answer("roots", roots.clone())
    };
    for (capital, roots) in [
        (&folders, &model),
        (&folders, &folders),
        (&model, &model),
        (&person, &folders),
        (&model, &person),
    ] {
        let reply = bank.send(&retry(capital, roots)).await;
        Refusal::params().check(&format!("{capital} {roots}"), &reply);
    }
    assert_eq!((bank.effects.count(), bank.rows().await), (0, (0, 0)));
    let done = bank.send(&retry(&model, &folders)).await;
    assert_eq!(done.text(), r#"Some("Paris") 1"#);
}
