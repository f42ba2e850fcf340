//! The earlier era over HTTP: the same handlers, asked while the call stays open.

use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode};
use mrtr_server::{
    Answer, CreateMessageParams, DurableFlow, Flow, Form, Roots, Sampling, SamplingMessage, Server,
    State, ToolError, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bank::{Bank, Call, Effects, accept};
use crate::session::{Session, everything, initialize, text};

fn transfer() -> Value {
    json!({ "to": "acct-7", "amount": 100 })
}

fn yes() -> Value {
    accept(json!({ "ok": true }))
}

/// A session with a bank, and its call of `transfer` up to the question.
async fn asked(bank: &Bank) -> (Session, crate::session::Answer, Value) {
    let session = Session::open(&bank.server, everything()).await;
    let mut call = session.call(1, "transfer", transfer()).await;
    let question = call.message().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    (session, call, question)
}

#[tokio::test]
async fn a_question_is_put_on_the_calls_own_stream_and_answered_by_post() {
    let bank = Bank::new();
    let (session, mut call, question) = asked(&bank).await;
    assert_eq!(question["params"]["message"], "Transfer?");
    assert_eq!(bank.effects.count(), 0);
    assert_eq!(
        session.answer(&question, yes()).await.status,
        StatusCode::ACCEPTED
    );
    let result = call.message().await;
    assert_eq!((result["id"].as_i64(), text(&result)), (Some(1), "done 1"));
    // What only the modern era has is not there.
    assert_eq!(result["result"].get("resultType"), None);
    assert_eq!(result["result"].get("_meta"), None);
    assert_eq!(call.event().await, None);
    assert_eq!(bank.effects.count(), 1);
}

#[tokio::test]
async fn a_no_and_a_dismissal_do_nothing() {
    for (action, said) in [("decline", "declined"), ("cancel", "cancelled")] {
        let bank = Bank::new();
        let (session, mut call, question) = asked(&bank).await;
        // Content beside a no cannot be reached.
        let answer = json!({ "action": action, "content": { "ok": true } });
        session.answer(&question, answer).await;
        assert_eq!(text(&call.message().await), said);
        assert_eq!(bank.effects.count(), 0);
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_again() {
    let bank = Bank::new();
    let (session, mut call, first) = asked(&bank).await;
    session.answer(&first, accept(json!({ "ok": "yes" }))).await;
    let again = call.message().await;
    assert_eq!(again["params"], first["params"]);
    assert_ne!(again["id"], first["id"]);
    // The first question is over: an answer to it is nobody's.
    assert_eq!(
        session.answer(&first, yes()).await.status,
        StatusCode::BAD_REQUEST
    );
    session.answer(&again, yes()).await;
    assert_eq!(text(&call.message().await), "done 1");
}

#[tokio::test]
async fn an_answer_of_another_shape_or_an_error_ends_the_call() {
    let bank = Bank::new();
    let (session, mut call, question) = asked(&bank).await;
    session
        .answer(&question, json!({ "action": "perhaps" }))
        .await;
    let result = call.message().await;
    assert_eq!(result["result"]["isError"], true, "{result}");
    let (session, mut call, question) = asked(&bank).await;
    let error = json!({ "code": -32603, "message": "no screen <script>" });
    let error = json!({ "jsonrpc": "2.0", "id": question["id"], "error": error });
    session.post(&error).await;
    let result = call.message().await;
    assert_eq!(result["result"]["isError"], true, "{result}");
    assert!(text(&result).contains("-32603") && !text(&result).contains("script"));
    assert_eq!(bank.effects.count(), 0);
}

#[tokio::test]
async fn a_session_belongs_to_whoever_opened_it() {
    let bank = Bank::new();
    let (session, mut call, question) = asked(&bank).await;
    let thief = Session {
        token: "user-b",
        ..session.clone()
    };
    assert_eq!(
        thief.answer(&question, yes()).await.status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(thief.get(None).await.status, StatusCode::NOT_FOUND);
    assert_eq!(thief.get(Some("1-0")).await.status, StatusCode::NOT_FOUND);
    assert_eq!(thief.delete().await.status, StatusCode::NOT_FOUND);
    // Nor does the same person's other session answer for this one.
    let other = Session::open(&bank.server, everything()).await;
    assert_eq!(
        other.answer(&question, yes()).await.status,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(bank.effects.count(), 0);
    session.answer(&question, yes()).await;
    assert_eq!(text(&call.message().await), "done 1");
}

#[tokio::test]
async fn what_was_not_declared_is_not_asked() {
    let bank = Bank::new();
    let session = Session::open(&bank.server, json!({})).await;
    let result = session.call(1, "transfer", transfer()).await.json().await;
    assert_eq!(result["result"]["isError"], true, "{result}");
    assert!(text(&result).contains("elicitation by form"));
    // An era without elicitation has none, whatever is declared.
    let session = Session::of(&bank.server, "user-a", "2025-03-26", everything()).await;
    let result = session.call(1, "transfer", transfer()).await.json().await;
    assert_eq!(result["result"]["isError"], true, "{result}");
}

#[tokio::test]
async fn case_232_a_stream_that_broke_is_resumed_where_it_was() {
    let bank = Bank::new();
    let session = Session::open(&bank.server, everything()).await;
    let mut call = session.call(1, "transfer", transfer()).await;
    let primed = call.event().await.unwrap();
    assert_eq!(primed.data, Value::Null);
    let question = call.event().await.unwrap();
    drop(call);
    session.answer(&question.data, yes()).await;
    for seen in [&question.id, &question.id] {
        // Twice: what is resumed once can be resumed again.
        let mut rest = session.get(seen.as_deref()).await;
        assert_eq!(text(&rest.message().await), "done 1");
        assert_eq!(rest.event().await, None);
    }
    let mut all = session.get(primed.id.as_deref()).await;
    assert_eq!(all.event().await.unwrap(), question);
    assert_eq!(text(&all.message().await), "done 1");
    assert_eq!(bank.effects.count(), 1);
    for junk in [
        "",
        "x",
        "1",
        "99-1",
        "-1-1",
        "1-1-1",
        "18446744073709551616-0",
    ] {
        assert_eq!(
            session.get(Some(junk)).await.status,
            StatusCode::BAD_REQUEST,
            "{junk:?}"
        );
    }
}

#[tokio::test]
async fn what_is_kept_of_streams_that_ended_is_bounded() {
    let bank = Bank::with(|builder| builder.tool(tool("large", async || "x".repeat(100 << 10))));
    let session = Session::open(&bank.server, everything()).await;
    let mut first_events = Vec::new();
    for (tool, count) in [("plain", 20), ("large", 4)] {
        for n in 0..count {
            let params = json!({ "name": tool });
            let call =
                json!({ "jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params });
            let mut answer = session.post_for_events(&call).await;
            first_events.push(answer.event().await.unwrap().id.unwrap());
            while answer.event().await.is_some() {}
        }
    }
    let mut kept = Vec::new();
    for id in &first_events {
        kept.push(session.get(Some(id)).await.status == StatusCode::OK);
    }
    // Of the large ones two fit, and of what is older nothing is kept.
    assert_eq!(kept.iter().filter(|kept| **kept).count(), 2);
    assert!(kept.ends_with(&[false, true, true]));
}

#[tokio::test]
async fn whoever_names_streams_first_gets_one() {
    let bank = Bank::new();
    let session = Session::open(&bank.server, everything()).await;
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    assert!(!session.post(&list).await.is_stream());
    let mut answers = Vec::new();
    for id in 1..=3 {
        let mut list = list.clone();
        list["id"] = id.into();
        answers.push((id, session.post_for_events(&list).await));
    }
    for (id, answer) in &mut answers {
        let primed = answer.event().await.unwrap();
        let listed = answer.message().await;
        assert_eq!(listed["id"], *id);
        assert_eq!(answer.event().await, None);
        // And can come back to it.
        let mut again = session.get(primed.id.as_deref()).await;
        assert_eq!(again.message().await, listed);
    }
}

#[tokio::test]
async fn a_stream_has_one_reader_and_the_last_one_is_it() {
    let bank = Bank::new();
    let session = Session::open(&bank.server, everything()).await;
    let mut call = session.call(1, "transfer", transfer()).await;
    let primed = call.event().await.unwrap();
    let mut second = session.get(primed.id.as_deref()).await;
    assert_eq!(call.event().await, None);
    let question = second.message().await;
    session.answer(&question, yes()).await;
    assert_eq!(text(&second.message().await), "done 1");
}

#[tokio::test(start_paused = true)]
async fn case_130_nobody_answers_in_time() {
    let bank = Bank::new();
    let (session, mut call, question) = asked(&bank).await;
    let result = call.message().await;
    // The client is told that it need not ask on, and the model that nobody answered.
    assert_eq!(result["method"], "notifications/cancelled", "{result}");
    assert_eq!(result["params"]["requestId"], question["id"]);
    let result = call.message().await;
    assert_eq!(result["result"]["isError"], true);
    assert!(text(&result).contains("in time"), "{result}");
    assert_eq!(
        session.answer(&question, yes()).await.status,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(bank.effects.count(), 0);
}

#[tokio::test]
async fn a_cancelled_call_is_gone_and_nothing_more_is_said_of_it() {
    let bank = Bank::new();
    let (session, mut call, question) = asked(&bank).await;
    session
        .notify("notifications/cancelled", json!({ "requestId": 1 }))
        .await;
    while let Some(event) = call.event().await {
        assert_ne!(event.data["id"], 1, "{event:?}");
    }
    bank.server.settled().await;
    assert_eq!(
        session.answer(&question, yes()).await.status,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(bank.effects.count(), 0);
    // What is not known is ignored.
    for params in [
        json!({ "requestId": 99 }),
        json!({ "requestId": null }),
        json!({}),
    ] {
        let answer = session.notify("notifications/cancelled", params).await;
        assert_eq!(answer.status, StatusCode::ACCEPTED);
    }
}

#[tokio::test]
async fn deleting_a_session_ends_what_is_open_in_it() {
    let bank = Bank::new();
    let (session, mut call, question) = asked(&bank).await;
    let mut standalone = session.get(None).await;
    assert_eq!(bank.server.open_sessions(), 1);
    assert_eq!(session.delete().await.status, StatusCode::NO_CONTENT);
    assert_eq!(bank.server.open_sessions(), 0);
    assert_eq!(standalone.event().await, None);
    while let Some(event) = call.event().await {
        assert_ne!(event.data["id"], 1, "{event:?}");
    }
    assert_eq!(
        session.answer(&question, yes()).await.status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        session.call(2, "plain", json!({})).await.status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(session.delete().await.status, StatusCode::NOT_FOUND);
    bank.server.settled().await;
    assert_eq!(bank.effects.count(), 0);
}

#[tokio::test]
async fn case_233_sessions_are_bounded_in_number_and_time() {
    let bank = Bank::with(|builder| {
        builder.limits(|limits| {
            limits.sessions = 3;
            limits.sessions_per_principal = 2;
            limits.session_idle = Duration::from_secs(60);
        })
    });
    let first = Session::open(&bank.server, everything()).await;
    let _second = Session::open(&bank.server, everything()).await;
    let refused = async |token| {
        let nobody = Session {
            id: String::new(),
            token,
            ..first.clone()
        };
        nobody
            .post(&initialize("2025-11-25", json!({})))
            .await
            .status
    };
    assert_eq!(refused("user-a").await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused("user-b").await, StatusCode::OK);
    assert_eq!(refused("user-b").await, StatusCode::SERVICE_UNAVAILABLE);
    bank.advance(Duration::from_secs(59));
    assert_eq!(
        first.call(1, "plain", json!({})).await.status,
        StatusCode::OK
    );
    bank.advance(Duration::from_secs(59));
    // The one that was used is there, and the others have made room.
    assert_eq!(refused("user-b").await, StatusCode::OK);
    assert_eq!(bank.server.open_sessions(), 2);
    assert_eq!(
        first.call(1, "plain", json!({})).await.status,
        StatusCode::OK
    );
    // A session in which a call waits is not idle.
    let mut call = first.call(2, "transfer", transfer()).await;
    let question = call.message().await;
    bank.advance(Duration::from_secs(61));
    assert_eq!(refused("user-b").await, StatusCode::OK);
    first.answer(&question, yes()).await;
    assert_eq!(text(&call.message().await), "done 3");
    drop(call);
    bank.advance(Duration::from_secs(60));
    assert_eq!(
        first.call(3, "plain", json!({})).await.status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn one_url_serves_both_eras_and_tells_them_apart() {
    let bank = Bank::new();
    let session = Session::open(&bank.server, everything()).await;
    let state = bank.open().await;
    assert_eq!(bank.send(&Call::retry(&state)).await.text(), "done 1");
    assert_eq!(
        text(&session.call(1, "plain", json!({})).await.json().await),
        "done"
    );
    // With the modern era's `_meta` or header, `initialize` is a method that is not there.
    let mut modern = Call::nameless("initialize");
    assert_eq!(bank.send(&modern).await.code(), Some(-32601));
    modern = modern.header("mcp-protocol-version", "2025-11-25");
    assert_eq!(bank.send(&modern).await.code(), Some(-32020));
    // A session's id on a modern request is nobody's.
    let reply = bank
        .send(&Call::of("plain", json!({})).header("mcp-session-id", &session.id))
        .await;
    assert_eq!(reply.text(), "done");
    assert!(!reply.headers.contains_key("mcp-session-id"));
    // Without the header that says so, a modern request is none of the session's: its state would be lost there.
    let unnamed = Call::retry(&bank.open().await)
        .header("mcp-session-id", &session.id)
        .without_header("mcp-protocol-version");
    assert_eq!(bank.send(&unnamed).await.code(), Some(-32020));
    // A server for the modern era alone knows no other.
    let modern = Bank::with(|builder| builder.modern_only());
    let nobody = Session {
        server: modern.server.clone(),
        id: String::new(),
        ..session.clone()
    };
    assert_eq!(
        nobody
            .post(&initialize("2025-11-25", json!({})))
            .await
            .status,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(modern.server.open_sessions(), 0);
}

#[tokio::test]
async fn methods_of_the_other_era_are_not_there() {
    let bank = Bank::new();
    let session = Session::open(&bank.server, everything()).await;
    let pong = session.ask(1, "ping", json!({})).await.json().await;
    assert_eq!(pong, json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    for method in [
        "server/discover",
        "subscriptions/listen",
        "tasks/list",
        "logging/setLevel",
    ] {
        let reply = session.ask(1, method, json!({})).await.json().await;
        assert_eq!(reply["error"]["code"], -32601, "{method}");
    }
    let again = session.post(&initialize("2025-11-25", json!({}))).await;
    assert_eq!(again.status, StatusCode::BAD_REQUEST);
    let list = session.ask("l", "tools/list", json!({})).await.json().await;
    assert!(list["result"]["tools"].as_array().unwrap().len() > 5);
    assert_eq!(list["result"].get("ttlMs"), None);
}

#[tokio::test]
async fn versions_are_negotiated() {
    let bank = Bank::new();
    let nobody = Session {
        server: bank.server.clone(),
        id: String::new(),
        token: "user-a",
        version: "2025-11-25",
    };
    for (asked, given) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("", "2025-11-25"),
    ] {
        let reply = nobody
            .post(&initialize(asked, json!({})))
            .await
            .json()
            .await;
        assert_eq!(reply["result"]["protocolVersion"], given, "{asked}");
        assert_eq!(reply["result"]["serverInfo"]["name"], "bank");
    }
    for params in [
        json!({}),
        json!({ "protocolVersion": "2025-11-25" }),
        json!({ "protocolVersion": 1 }),
    ] {
        let message =
            json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        assert_eq!(
            nobody.post(&message).await.json().await["error"]["code"],
            -32602
        );
    }
    // In a session every message names a version that is served, or none.
    let session = Session::open(&bank.server, everything()).await;
    let strange = Session {
        version: "1999-01-01",
        ..session.clone()
    };
    assert_eq!(
        strange.call(1, "plain", json!({})).await.status,
        StatusCode::BAD_REQUEST
    );
    let without = Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("authorization", "Bearer user-a")
        .header("mcp-session-id", &session.id);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    assert_eq!(
        session
            .send(without.body(Body::from(body)).unwrap())
            .await
            .status,
        StatusCode::OK
    );
}

#[tokio::test]
async fn requests_outside_a_session_and_twice_in_one_are_refused() {
    let bank = Bank::new();
    let session = Session::open(&bank.server, everything()).await;
    let nobody = Session {
        id: "not-a-session".into(),
        ..session.clone()
    };
    assert_eq!(
        nobody.call(1, "plain", json!({})).await.status,
        StatusCode::NOT_FOUND
    );
    let mut call = session.call(7, "transfer", transfer()).await;
    let question = call.message().await;
    assert_eq!(
        session.call(7, "transfer", transfer()).await.status,
        StatusCode::BAD_REQUEST
    );
    // An id of another type is another id.
    assert_eq!(
        session.call("7", "plain", json!({})).await.status,
        StatusCode::OK
    );
    session.answer(&question, yes()).await;
    assert_eq!(text(&call.message().await), "done 2");
    assert_eq!(call.event().await, None);
    assert_eq!(
        session.call(7, "plain", json!({})).await.status,
        StatusCode::OK
    );
}

#[tokio::test]
async fn batches_are_of_one_revision() {
    let bank = Bank::new();
    let ping = |id: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    let batch = json!([ping(json!(1)), { "jsonrpc": "2.0", "method": "notifications/x" }, ping(json!("b"))]);
    let session = Session::of(&bank.server, "user-a", "2025-03-26", json!({})).await;
    let answers = session.post(&batch).await.json().await;
    let ids: Vec<&Value> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| &answer["id"])
        .collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.contains(&&json!(1)) && ids.contains(&&json!("b")));
    assert_eq!(
        session.post(&json!([])).await.status,
        StatusCode::BAD_REQUEST
    );
    let many: Vec<Value> = (0..65).map(|n| ping(n.into())).collect();
    assert_eq!(
        session.post(&many.into()).await.status,
        StatusCode::BAD_REQUEST
    );
    let session = Session::open(&bank.server, json!({})).await;
    assert_eq!(session.post(&batch).await.status, StatusCode::BAD_REQUEST);
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

fn form(message: &str) -> Form<Confirm> {
    Form::new(message)
}

/// Asks for ever.
async fn insatiable(flow: Flow) -> &'static str {
    for n in 0.. {
        let _ = flow
            .ask(format!("q{n}"), form(&format!("Question {n}?")))
            .await;
    }
    "never"
}

/// The first of two answers wins.
async fn either(flow: Flow) -> &'static str {
    tokio::select! {
        _ = flow.ask("a", form("A?")) => "a",
        _ = flow.ask("b", form("B?")) => "b",
    }
}

/// Both at once, behind combinators that poll only who was woken.
async fn all(flow: Flow) -> String {
    let asks = ["a", "b", "c"].map(|key| flow.ask(key, form(key)));
    let answers = futures_util::future::join_all(asks).await;
    answers
        .into_iter()
        .filter(|answer| matches!(answer, Answer::Accept(Confirm { ok: true })))
        .count()
        .to_string()
}

async fn steps(flow: DurableFlow, State(effects): State<Effects>) -> Result<String, ToolError> {
    let before = flow
        .once("before", async || Ok::<_, ToolError>(effects.happen()))
        .await?;
    let memo: usize = flow.memo("memo", async || effects.happen()).await;
    let _ = flow.ask("q", form("Go on?")).await;
    let after = flow
        .once("after", async || Ok::<_, ToolError>(effects.happen()))
        .await?;
    Ok(format!("{before} {memo} {after}"))
}

async fn everybody(flow: Flow) -> String {
    let model = Sampling::new(CreateMessageParams::new(
        vec![SamplingMessage::user("Say hi.")],
        10,
    ));
    let (model, roots) = tokio::join!(
        flow.ask("model", model),
        flow.ask("roots", Roots::default())
    );
    format!(
        "{} {}",
        model.accepted().is_some(),
        roots.accepted().map_or(0, |roots| roots.len())
    )
}

fn asking() -> Bank {
    Bank::with(|builder| {
        builder
            .tool(tool("insatiable", insatiable))
            .tool(tool("either", either))
            .tool(tool("all", all))
            .tool(tool("steps_once", steps))
            .tool(tool("everybody", everybody))
    })
}

#[tokio::test]
async fn rounds_are_counted_as_in_the_modern_era() {
    let bank = asking();
    let session = Session::open(&bank.server, everything()).await;
    let mut call = session.call(1, "insatiable", json!({})).await;
    for n in 0..16 {
        let question = call.message().await;
        assert_eq!(question["params"]["message"], format!("Question {n}?"));
        session.answer(&question, yes()).await;
    }
    let result = call.message().await;
    assert_eq!(result["result"]["isError"], true);
    assert!(text(&result).contains("16 rounds"), "{result}");
}

#[tokio::test]
async fn the_loser_of_a_race_is_withdrawn() {
    let bank = asking();
    let session = Session::open(&bank.server, everything()).await;
    let mut call = session.call(1, "either", json!({})).await;
    // A race polls its branches in an order of its own.
    let (a, b) = match (call.message().await, call.message().await) {
        (a, b) if a["params"]["message"] == "A?" => (a, b),
        (b, a) => (a, b),
    };
    session.answer(&b, yes()).await;
    let withdrawn = call.message().await;
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], a["id"]);
    assert_eq!(text(&call.message().await), "b");
}

#[tokio::test]
async fn questions_that_are_asked_together_are_put_together_and_answered_in_any_order() {
    let bank = asking();
    let session = Session::open(&bank.server, everything()).await;
    let mut call = session.call(1, "all", json!({})).await;
    let questions = [
        call.message().await,
        call.message().await,
        call.message().await,
    ];
    session.answer(&questions[2], yes()).await;
    session.answer(&questions[0], yes()).await;
    session
        .answer(&questions[1], json!({ "action": "decline" }))
        .await;
    assert_eq!(text(&call.message().await), "2");
}

#[tokio::test]
async fn a_body_does_not_run_again() {
    let bank = asking();
    let session = Session::open(&bank.server, everything()).await;
    let mut call = session.call(1, "steps_once", json!({})).await;
    let question = call.message().await;
    session.answer(&question, yes()).await;
    assert_eq!(text(&call.message().await), "1 2 3");
    assert_eq!(bank.effects.count(), 3);
}

#[tokio::test]
async fn a_model_and_folders_are_asked_for_by_request_too() {
    let bank = asking();
    let session = Session::open(&bank.server, everything()).await;
    let message =
        json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "hi" } });
    let roots = json!({ "roots": [{ "uri": "file:///a" }, { "uri": "file:///b" }] });
    let mut call = session.call(1, "everybody", json!({})).await;
    let (model, folders) = (call.message().await, call.message().await);
    assert_eq!(model["method"], "sampling/createMessage");
    assert_eq!(folders["method"], "roots/list");
    session.answer(&folders, roots.clone()).await;
    session.answer(&model, message).await;
    assert_eq!(text(&call.message().await), "true 2");
    // What a person does not let a model answer is declined.
    let mut call = session.call(2, "everybody", json!({})).await;
    let (model, folders) = (call.message().await, call.message().await);
    let rejected = json!({ "code": -1, "message": "User rejected sampling request" });
    session
        .post(&json!({ "jsonrpc": "2.0", "id": model["id"], "error": rejected }))
        .await;
    session.answer(&folders, roots).await;
    assert_eq!(text(&call.message().await), "false 2");
}

#[tokio::test]
async fn case_237_a_resource_that_is_not_there_has_this_eras_code() {
    let server = Server::builder("files", "1")
        .allow_anonymous()
        .resource(mrtr_server::resource("file:///a", async || "a"))
        .build()
        .unwrap();
    let session = Session::open(&server, json!({})).await;
    let found = session
        .ask(1, "resources/read", json!({ "uri": "file:///a" }))
        .await
        .json()
        .await;
    assert_eq!(found["result"]["contents"][0]["text"], "a");
    let missing = session
        .ask(2, "resources/read", json!({ "uri": "file:///b" }))
        .await
        .json()
        .await;
    assert_eq!(missing["error"]["code"], -32002, "{missing}");
}

#[derive(Deserialize, JsonSchema)]
struct Order {
    size: Size,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Size {
    /// Fits nobody.
    Small,
    /// Fits all.
    Large,
}

async fn order(flow: Flow) -> &'static str {
    match flow.ask("size", Form::<Order>::new("Which size?")).await {
        Answer::Accept(Order { size: Size::Large }) => "large",
        Answer::Accept(Order { size: Size::Small }) => "small",
        _ => "none",
    }
}

#[tokio::test]
async fn case_160_a_choice_with_titles_is_spelt_as_the_session_s_revision_has_it() {
    let bank = Bank::with(|builder| builder.tool(tool("order", order)));
    for (version, names) in [("2025-11-25", false), ("2025-06-18", true)] {
        let session = Session::of(&bank.server, "user-a", version, everything()).await;
        let mut call = session.call(1, "order", json!({})).await;
        let question = call.message().await;
        let size = &question["params"]["requestedSchema"]["properties"]["size"];
        assert_eq!(size.get("oneOf").is_some(), !names, "{question}");
        if names {
            assert_eq!(size["enum"], json!(["small", "large"]));
            assert_eq!(size["enumNames"], json!(["Fits nobody.", "Fits all."]));
        }
        let answer = accept(json!({ "size": "large" }));
        session.answer(&question, answer).await;
        assert_eq!(text(&call.message().await), "large", "{version}");
    }
}

/// Works for a while, and asks nothing.
async fn works(State(effects): State<Effects>) -> &'static str {
    tokio::time::sleep(Duration::from_millis(200)).await;
    effects.happen();
    "worked"
}

#[tokio::test]
async fn a_shutdown_lets_calls_finish_and_ends_questions() {
    let bank = Bank::with(|builder| builder.tool(tool("works", works)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = bank.server.clone();
    let serving =
        tokio::spawn(async move { server.serve(listener, async { drop(stopped.await) }).await });
    let session = Session::open(&bank.server, everything()).await;
    let mut standalone = session.get(None).await;
    let mut asking = session.call(1, "transfer", transfer()).await;
    asking.message().await;
    let working = tokio::spawn({
        let session = session.clone();
        async move { session.call(2, "works", json!({})).await.json().await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    stop.send(()).unwrap();
    assert_eq!(text(&working.await.unwrap()), "worked");
    assert_eq!(standalone.event().await, None);
    assert_eq!(asking.message().await["method"], "notifications/cancelled");
    let ended = asking.message().await;
    assert_eq!(ended["result"]["isError"], true, "{ended}");
    assert!(text(&ended).contains("shutting down"));
    serving.await.unwrap().unwrap();
    assert_eq!((bank.effects.count(), bank.server.open_sessions()), (1, 0));
}

#[tokio::test]
async fn a_bad_message_spoils_no_other_of_its_batch() {
    let bank = Bank::new();
    let session = Session::of(&bank.server, "user-a", "2025-03-26", json!({})).await;
    let ping = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
    let batch = json!([ping(1), { "jsonrpc": "2.0", "id": 2 }, ping(3), ping(1)]);
    let answers = session.post(&batch).await.json().await;
    let answers = answers.as_array().unwrap();
    let good = |id: u64| {
        let of_id = answers.iter().filter(|answer| answer["id"] == id);
        of_id.filter(|answer| answer["result"] == json!({})).count()
    };
    assert_eq!(
        (good(1), good(2), good(3), answers.len()),
        (1, 0, 1, 4),
        "{answers:?}"
    );
    assert_eq!(
        answers
            .iter()
            .filter(|answer| answer["error"]["code"] == -32600)
            .count(),
        2
    );
    let none = session
        .post(&json!([{ "jsonrpc": "2.0", "id": 2 }]))
        .await
        .json()
        .await;
    assert_eq!(none[0]["error"]["code"], -32600);
}

#[tokio::test(start_paused = true)]
async fn a_question_does_not_outlive_its_flow() {
    let bank = Bank::with(|builder| {
        builder.tool(
            tool("brief", async |flow: Flow| {
                tokio::time::sleep(Duration::from_secs(50)).await;
                let _ = flow.ask("q", form("Now?")).await;
                "asked"
            })
            .lifetime(Duration::from_secs(60))
            .flow_lifetime(Duration::from_secs(60)),
        )
    });
    let session = Session::open(&bank.server, everything()).await;
    let clock = bank.clock.clone();
    // The server's clock goes as the runtime's does.
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            clock.advance(Duration::from_secs(1));
        }
    });
    let began = tokio::time::Instant::now();
    let mut call = session.call(1, "brief", json!({})).await;
    assert_eq!(call.message().await["method"], "elicitation/create");
    assert_eq!(call.message().await["method"], "notifications/cancelled");
    assert!(text(&call.message().await).contains("in time"));
    assert!(
        began.elapsed() < Duration::from_secs(70),
        "{:?}",
        began.elapsed()
    );
}
