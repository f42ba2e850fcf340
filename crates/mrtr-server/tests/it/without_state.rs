//! Answers that come on a first call, without a state: for handlers that say so, and for nobody else.

use http::StatusCode;
use mrtr_server::{
    Answer, CreateMessageParams, DurableFlow, Flow, Form, Roots, Sampling, SamplingMessage, Server,
    State, ToolError, prompt, resource, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bank::{Bank, Call, Effects, Reply, accept, codec};
use crate::cases::Refusal;
use crate::session::Session;

#[derive(Deserialize, JsonSchema)]
struct Named {
    #[schemars(length(min = 2))]
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

async fn greet(flow: Flow, State(effects): State<Effects>) -> String {
    let named = flow
        .ask("user_name", Form::<Named>::new("What is your name?"))
        .await;
    effects.happen();
    match named {
        Answer::Accept(Named { name }) => format!("Hello, {name}!"),
        Answer::Decline => "declined".into(),
        Answer::Cancel => "cancelled".into(),
    }
}

async fn greet_surely(flow: Flow, effects: State<Effects>) -> String {
    let sure = flow.ask("sure", Form::<Confirm>::new("Sure?"));
    match sure.await {
        Answer::Accept(Confirm { ok: true }) => greet(flow, effects).await,
        _ => "not sure".into(),
    }
}

/// The same question under two keys.
async fn nag(flow: Flow) -> String {
    let a = flow.ask("a", Form::<Confirm>::new("Again?")).await;
    let b = flow.ask("b", Form::<Confirm>::new("Again?")).await;
    format!("{} {}", a == Answer::Decline, b == Answer::Decline)
}

impl PartialEq for Confirm {
    fn eq(&self, other: &Self) -> bool {
        self.ok == other.ok
    }
}

async fn other_kinds(flow: Flow) -> String {
    let ask = CreateMessageParams::new(vec![SamplingMessage::user("Capital?")], 10);
    let (text, roots) = tokio::join!(
        flow.ask("capital", Sampling::new(ask)),
        flow.ask("roots", Roots::new())
    );
    let text = text.accepted().map(|message| message.joined_text());
    let roots = roots.accepted().unwrap_or_default().len();
    format!("{text:?} {roots}")
}

fn bank() -> Bank {
    Bank::with(|builder| {
        builder
            .tool(tool("greet", greet).accept_answers_without_state())
            .tool(tool("greet_strictly", greet))
            .tool(tool("greet_surely", greet_surely).accept_answers_without_state())
            .tool(tool("nag", nag).accept_answers_without_state())
            .tool(tool("other_kinds", other_kinds).accept_answers_without_state())
            .prompt(prompt("greet", greet).accept_answers_without_state())
            .resource(resource("greet://me", greet).accept_answers_without_state())
    })
}

fn call(tool: &str) -> Call {
    Call::of(tool, json!({}))
}

fn alice() -> Value {
    accept(json!({ "name": "Alice" }))
}

#[tokio::test]
async fn an_answer_on_a_first_call_counts_where_the_handler_says_so() {
    let bank = bank();
    let done = bank.send(&call("greet").answer("user_name", alice())).await;
    assert_eq!(done.text(), "Hello, Alice!");
    // The same handler without the opt-in asks, whatever came.
    let asked = bank
        .send(&call("greet_strictly").answer("user_name", alice()))
        .await;
    assert_eq!(asked.asks(), ["user_name"], "{asked:?}");
    let prompted = bank
        .send(&Call::prompt("greet", json!({})).answer("user_name", alice()))
        .await;
    assert_eq!(
        prompted.body["result"]["messages"][0]["content"]["text"],
        "Hello, Alice!"
    );
    let read = bank
        .send(&Call::resource("greet://me").answer("user_name", alice()))
        .await;
    assert_eq!(read.body["result"]["contents"][0]["text"], "Hello, Alice!");
    assert_eq!(bank.effects.count(), 3);
}

#[tokio::test]
async fn declining_and_dismissing_count_too() {
    let bank = bank();
    for (action, text) in [("decline", "declined"), ("cancel", "cancelled")] {
        let reply = bank
            .send(&call("greet").answer("user_name", json!({ "action": action })))
            .await;
        assert_eq!(reply.text(), text);
    }
    // A declined question is not put again under another key, without a state as with one.
    let reply = bank
        .send(&call("nag").answer("a", json!({ "action": "decline" })))
        .await;
    assert_eq!(reply.text(), "true true");
}

#[tokio::test]
async fn unknown_keys_are_ignored_and_what_is_missing_is_asked_for() {
    let bank = bank();
    let surplus = call("greet")
        .answer("user_name", alice())
        .answer("other", accept(json!({ "x": 1 })))
        .answer("third", json!({ "roots": [] }));
    assert_eq!(bank.send(&surplus).await.text(), "Hello, Alice!");
    let wrong = bank.send(&call("greet").answer("wrong_key", alice())).await;
    assert_eq!(wrong.asks(), ["user_name"], "{wrong:?}");
    assert_eq!(bank.effects.count(), 1);
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_and_the_state_is_as_good_as_any() {
    for bad in [
        accept(json!({})),
        accept(json!({ "name": "A" })),
        accept(json!({ "name": 7 })),
        json!({ "action": "accept" }),
        json!({ "action": "ACCEPT", "content": { "name": "Alice" } }),
        json!({ "role": "assistant", "content": { "type": "text", "text": "Alice" }, "model": "m" }),
        json!({ "roots": [] }),
        json!({}),
    ] {
        let bank = bank();
        let asked = bank
            .send(&call("greet").answer("user_name", bad.clone()))
            .await;
        assert_eq!(asked.asks(), ["user_name"], "{bad}: {asked:?}");
        assert_eq!(bank.effects.count(), 0, "{bad}");
        let retry = |state: &str| call("greet").id(2).state(state);
        // With a state the rules of every state hold: shape and kind are checked, and nothing else is put in its place.
        let tampered = format!("{}x", asked.state());
        let refused = bank
            .send(&retry(&tampered).answer("user_name", alice()))
            .await;
        assert_eq!(refused.reason(), Some("malformed"), "{refused:?}");
        let done = bank
            .send(&retry(asked.state()).answer("user_name", alice()))
            .await;
        assert_eq!((done.text(), bank.effects.count()), ("Hello, Alice!", 1));
    }
}

#[tokio::test]
async fn what_are_no_input_responses_is_an_error() {
    let bank = bank();
    let with = |responses: Value| call("greet").param("inputResponses", responses);
    let good = bank.send(&with(json!({ "user_name": alice() }))).await;
    assert_eq!(good.text(), "Hello, Alice!");
    for bad in [
        json!(null),
        json!([]),
        json!("x"),
        json!({ "user_name": 12345 }),
        json!({ "user_name": alice(), "other": null }),
    ] {
        let name = bad.to_string();
        Refusal::params().check(&name, &bank.send(&with(bad)).await);
    }
    assert_eq!(bank.effects.count(), 1);
}

#[tokio::test]
async fn an_early_answer_is_kept_for_the_round_that_follows_it_and_no_longer() {
    let bank = bank();
    let yes = || accept(json!({ "ok": true }));
    let both = call("greet_surely")
        .answer("sure", yes())
        .answer("user_name", alice());
    assert_eq!(bank.send(&both).await.text(), "Hello, Alice!");
    // The first answer is used, and is in the state of the second question.
    let asked = bank.send(&call("greet_surely").answer("sure", yes())).await;
    assert_eq!(asked.asks(), ["user_name"]);
    let retry = |asked: &Reply| call("greet_surely").id(2).state(asked.state());
    let done = bank.send(&retry(&asked).answer("user_name", alice())).await;
    assert_eq!(done.text(), "Hello, Alice!");
    // An answer to what was not asked in its round is gone in the next: from here on there is a state.
    let asked = bank
        .send(&call("greet_surely").answer("user_name", alice()))
        .await;
    assert_eq!(asked.asks(), ["sure"]);
    let next = bank
        .send(
            &retry(&asked)
                .answer("sure", yes())
                .answer("user_name", alice()),
        )
        .await;
    assert_eq!(next.asks(), ["user_name"], "{next:?}");
}

#[tokio::test]
async fn every_kind_is_read_as_what_is_asked() {
    let bank = bank();
    let declaring =
        || call("other_kinds").declaring(json!({ "sampling": {}, "roots": {}, "elicitation": {} }));
    let model = json!({ "role": "assistant", "content": { "type": "text", "text": "Paris" }, "model": "m" });
    let roots = json!({ "roots": [{ "uri": "file:///a" }] });
    let good = declaring()
        .answer("capital", model.clone())
        .answer("roots", roots.clone());
    assert_eq!(bank.send(&good).await.text(), "Some(\"Paris\") 1");
    let swapped = declaring().answer("capital", roots).answer("roots", model);
    assert_eq!(bank.send(&swapped).await.asks(), ["capital", "roots"]);
    // What the client did not declare is not asked, and an answer to it does not help.
    let undeclared = bank.send(&call("other_kinds")).await;
    Refusal::http(StatusCode::BAD_REQUEST, -32021).check("undeclared", &undeclared);
}

#[test]
fn the_opt_in_is_refused_where_it_would_break_a_promise() {
    let build = |tool| {
        let ledger = mrtr_ledger::MemoryLedger::new(std::sync::Arc::new(mrtr_state::SystemClock));
        Server::builder("s", "1")
            .audience("s")
            .codec(codec())
            .ledger(ledger.unwrap())
            .dangerous()
            .allow_forgetful_ledger()
            .allow_anonymous()
            .tool(tool)
            .build()
            .map(drop)
    };
    let durable = |flow: DurableFlow| async move {
        let done = flow.once("s", async || Ok::<_, ToolError>(1)).await?;
        Ok::<_, ToolError>(format!("{done}"))
    };
    assert!(build(tool("t", durable)).is_ok());
    let refused = build(tool("t", durable).accept_answers_without_state()).unwrap_err();
    assert!(refused.to_string().contains("`DurableFlow`"), "{refused}");
    let refused = build(tool("t", async || "x").accept_answers_without_state()).unwrap_err();
    assert!(refused.to_string().contains("no `Flow`"), "{refused}");
}

#[tokio::test]
async fn the_earlier_era_has_no_answers_beside_the_call() {
    let bank = bank();
    // This session can be asked nothing, so that an answer could only come from beside the call.
    let session = Session::open(&bank.server, json!({})).await;
    let params =
        json!({ "name": "greet", "arguments": {}, "inputResponses": { "user_name": alice() } });
    let reply = session.reply("tools/call", params).await;
    assert_eq!(reply.body["result"]["isError"], true, "{reply:?}");
    assert_eq!(bank.effects.count(), 0);
}
