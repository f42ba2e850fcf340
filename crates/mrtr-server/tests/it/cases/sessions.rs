//! Cases 228 to 240: the earlier era answers to the same rules.

use std::time::Duration;

use ::http::StatusCode;
use serde_json::{Value, json};

use crate::bank::{Bank, Call, accept};
use crate::session::{Answer, Session, everything, initialize, text};

fn transfer() -> Value {
    json!({ "to": "acct-7", "amount": 100 })
}

fn yes() -> Value {
    accept(json!({ "ok": true }))
}

/// A session of its own, and the question of a call in it.
async fn asked(bank: &Bank, tool: &str, arguments: Value) -> (Session, Answer, Value) {
    let session = Session::open(&bank.server, everything()).await;
    let mut call = session.call(1, tool, arguments).await;
    let question = call.message().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    (session, call, question)
}

/// Case 2, in a session.
#[tokio::test]
async fn case_228_answers_beside_a_call_are_no_consent() {
    let bank = Bank::new();
    let state = bank.open().await;
    let session = Session::open(&bank.server, everything()).await;
    let params = json!({
        "name": "transfer", "arguments": transfer(),
        "inputResponses": { "confirm": yes() }, "requestState": state,
    });
    let mut call = session.ask(1, "tools/call", params).await;
    let question = call.message().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    assert_eq!((bank.effects.count(), bank.rows().await), (0, (0, 0)));
    session.answer(&question, yes()).await;
    assert_eq!(text(&call.message().await), "done 1");
}

/// Cases 95, 121, 155 and 156, in a session.
#[tokio::test]
async fn case_228_a_no_is_a_no_whatever_comes_with_it_and_after_it() {
    for (action, said) in [("decline", "declined"), ("cancel", "cancelled")] {
        for content in [
            json!(null),
            json!({ "ok": true }),
            json!({ "ok": 7, "x": [] }),
        ] {
            let bank = Bank::new();
            let (session, mut call, question) = asked(&bank, "transfer", transfer()).await;
            let mut answer = json!({ "action": action, "content": content });
            if content.is_null() {
                answer.as_object_mut().unwrap().remove("content");
            }
            session.answer(&question, answer).await;
            assert_eq!(text(&call.message().await), said, "{content}");
            // The question is over.
            let late = session.answer(&question, yes()).await;
            assert_eq!(late.status, StatusCode::BAD_REQUEST);
            assert_eq!(call.event().await, None);
            assert_eq!(bank.effects.count(), 0, "{action} {content}");
            let (session, mut call, question) = asked(&bank, "transfer", transfer()).await;
            session.answer(&question, yes()).await;
            assert_eq!(text(&call.message().await), "done 1", "a yes is a yes");
        }
    }
}

/// Cases 117 and 118, in a session.
#[tokio::test]
async fn case_228_each_question_waits_for_its_own_answer() {
    let bank = Bank::new();
    let (session, mut call, one) = asked(&bank, "two", json!({})).await;
    let other = call.message().await;
    for id in [json!("zzz"), json!(999), json!(null)] {
        let nobody = json!({ "id": id });
        assert_eq!(
            session.answer(&nobody, yes()).await.status,
            StatusCode::BAD_REQUEST
        );
    }
    assert_eq!(
        session.answer(&one, yes()).await.status,
        StatusCode::ACCEPTED
    );
    assert_eq!(bank.effects.count(), 0);
    assert_eq!(
        session.answer(&one, yes()).await.status,
        StatusCode::BAD_REQUEST
    );
    session.answer(&other, yes()).await;
    assert_eq!(text(&call.message().await), "true true");
    assert_eq!(bank.effects.count(), 1);
}

/// Case 120, in a session.
#[tokio::test]
async fn case_228_an_answer_of_another_kind_is_none() {
    for answer in [
        json!({ "role": "assistant", "content": { "type": "text", "text": "yes" }, "model": "m" }),
        json!({ "roots": [] }),
        json!({}),
        json!({ "action": "ACCEPT" }),
        json!({ "action": "accept" }),
        json!({ "action": ["accept"], "content": { "ok": true } }),
        json!({ "action": "accept", "content": [true] }),
    ] {
        let bank = Bank::new();
        let (session, mut call, question) = asked(&bank, "transfer", transfer()).await;
        session.answer(&question, answer.clone()).await;
        let ended = call.message().await;
        assert_eq!(ended["result"]["isError"], true, "{answer}: {ended}");
        assert_eq!(bank.effects.count(), 0, "{answer}");
    }
}

/// Case 122: the body does not run again here, so what comes before a question happens once.
#[tokio::test]
async fn case_228_an_effect_before_a_question_happens_once() {
    for tool in ["eager", "eager_once"] {
        let bank = Bank::new();
        let (session, mut call, question) = asked(&bank, tool, json!({})).await;
        session.answer(&question, yes()).await;
        assert_eq!(text(&call.message().await), "done");
        assert_eq!(bank.effects.count(), 1, "{tool}");
    }
}

/// Case 157, in a session.
#[tokio::test]
async fn case_228_accepted_content_is_validated() {
    let good = || json!({ "age": 5, "mail": "a@b.example", "c": "R", "tags": ["R", "R"] });
    for (member, value) in [
        ("age", json!("5")),
        ("age", json!(121)),
        ("age", json!(1.5)),
        ("age", json!(null)),
        ("mail", json!("x")),
        ("c", json!("B")),
        ("tags", json!([])),
        ("tags", json!([1])),
    ] {
        let bank = Bank::new();
        let (session, mut call, question) = asked(&bank, "survey", json!({})).await;
        let mut bad = good();
        bad[member] = value.clone();
        session.answer(&question, accept(bad)).await;
        let again = call.message().await;
        assert_eq!(again["params"], question["params"], "{member}: {value}");
        assert_eq!(bank.effects.count(), 0, "{member}: {value}");
        session.answer(&again, accept(good())).await;
        assert_eq!(text(&call.message().await), "done");
    }
}

#[tokio::test]
async fn case_230_a_session_that_is_not_there() {
    let bank = Bank::new();
    let session = Session::open(&bank.server, everything()).await;
    assert_eq!(
        text(&session.call(1, "plain", json!({})).await.json().await),
        "done"
    );
    let elsewhere = Session::open(&Bank::new().server, everything()).await;
    let mut lost = vec![
        Session {
            id: "never-was".into(),
            ..session.clone()
        },
        Session {
            server: bank.server.clone(),
            ..elsewhere
        },
    ];
    for lost in &lost {
        assert_lost(lost, "unknown, or another replica's").await;
    }
    bank.advance(Duration::from_secs(30 * 60));
    lost.push(session.clone());
    assert_lost(&session, "expired").await;
    // Without an id it is nobody's: a request of this era is refused, and there is no stream to read and nothing to end.
    let nobody = Session {
        id: String::new(),
        ..session
    };
    assert_eq!(
        nobody.call(1, "plain", json!({})).await.status,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(
        nobody.get(None).await.status,
        StatusCode::METHOD_NOT_ALLOWED
    );
    assert_eq!(nobody.delete().await.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(bank.effects.count(), 1, "the first call alone");
}

async fn assert_lost(session: &Session, why: &str) {
    for status in [
        session.call(2, "plain", json!({})).await.status,
        session
            .notify("notifications/initialized", json!({}))
            .await
            .status,
        session.answer(&json!({ "id": 1 }), yes()).await.status,
        session.get(None).await.status,
        session.get(Some("1-0")).await.status,
        session.delete().await.status,
    ] {
        assert_eq!(status, StatusCode::NOT_FOUND, "{why}");
    }
}

#[tokio::test]
async fn case_232_a_stream_is_resumed_with_what_is_its_own() {
    let bank = Bank::new();
    let session = Session::open(&bank.server, everything()).await;
    let mut broken = Vec::new();
    for id in [1, 2] {
        let mut call = session.call(id, "transfer", transfer()).await;
        call.event().await.expect("an id to resume from");
        let question = call.event().await.unwrap();
        broken.push((id, question.id.clone(), question.data));
        // That a connection broke cancels nothing.
        drop(call);
    }
    let mut standalone = session.get(None).await;
    for (_, _, question) in broken.iter().rev() {
        assert_eq!(
            session.answer(question, yes()).await.status,
            StatusCode::ACCEPTED
        );
    }
    for (id, seen, _) in &broken {
        let mut rest = session.get(seen.as_deref()).await;
        assert_eq!(rest.message().await["id"], *id);
        assert_eq!(rest.event().await, None, "nothing of the other call");
    }
    assert_eq!(bank.effects.count(), 2);
    session.delete().await;
    while let Some(event) = standalone.event().await {
        assert_eq!(
            event.data,
            Value::Null,
            "no response outside of its stream: {event:?}"
        );
    }
}

#[tokio::test]
async fn case_233_sessions_that_nobody_ends() {
    let bank = Bank::new();
    let nobody = |token| Session {
        server: bank.server.clone(),
        id: String::new(),
        token,
        version: "2025-11-25",
    };
    let mut opened = 0;
    for _ in 0..10_000 {
        let answer = nobody("user-a")
            .post(&initialize("2025-11-25", json!({})))
            .await;
        match answer.status {
            StatusCode::OK => opened += 1,
            status => assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE),
        }
    }
    assert_eq!((opened, bank.server.open_sessions()), (64, 64));
    // Nobody else pays for it, in neither era.
    let other = nobody("user-b")
        .post(&initialize("2025-11-25", json!({})))
        .await;
    assert_eq!(other.status, StatusCode::OK);
    assert_eq!(bank.send(&Call::first()).await.asks(), ["confirm"]);
    bank.advance(Duration::from_secs(30 * 60));
    let again = nobody("user-a")
        .post(&initialize("2025-11-25", json!({})))
        .await;
    assert_eq!(again.status, StatusCode::OK);
    assert_eq!(bank.server.open_sessions(), 1, "the idle ones have gone");
}

#[tokio::test]
async fn case_234_what_may_come_before_the_session_is_ready() {
    let bank = Bank::new();
    let mut session = Session {
        server: bank.server.clone(),
        id: String::new(),
        token: "user-a",
        version: "2025-11-25",
    };
    let opened = session.post(&initialize("2025-11-25", json!({}))).await;
    opened.headers["mcp-session-id"]
        .to_str()
        .unwrap()
        .clone_into(&mut session.id);
    let ping = session.ask(1, "ping", json!({})).await.json().await;
    assert_eq!(ping["result"], json!({}));
    for (id, method, params) in [
        (2, "tools/list", json!({})),
        (3, "logging/setLevel", json!({ "level": "info" })),
    ] {
        let answer = session.ask(id, method, params).await.json().await;
        assert_eq!(answer["id"], id, "{method}");
    }
    session.notify("notifications/initialized", json!({})).await;
    assert_eq!(
        text(&session.call(4, "plain", json!({})).await.json().await),
        "done"
    );
}

#[tokio::test]
async fn case_237_a_resource_that_is_not_there_has_the_modern_code() {
    let bank = Bank::with(|builder| {
        builder.resource(mrtr_server::resource("note://today", async || "a note"))
    });
    let read = Call::resource("note://today");
    assert_eq!(bank.send(&read).await.status, StatusCode::OK);
    let missing = bank.send(&Call::resource("note://gone")).await;
    assert_eq!(
        (missing.status, missing.code()),
        (StatusCode::OK, Some(-32602))
    );
    assert_eq!(missing.body["error"]["data"]["uri"], "note://gone");
}

#[tokio::test]
async fn case_238_initialize_where_there_are_no_sessions() {
    let bank = Bank::with(|builder| builder.modern_only());
    let nobody = Session {
        server: bank.server.clone(),
        id: String::new(),
        token: "user-a",
        version: "2025-11-25",
    };
    let mut refused = nobody.post(&initialize("2025-11-25", json!({}))).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert_eq!(refused.json().await["error"]["code"], -32020);
    assert!(!refused.headers.contains_key("mcp-session-id"));
    assert_eq!(bank.server.open_sessions(), 0);
    assert_eq!(bank.send(&Call::first()).await.asks(), ["confirm"]);
}

#[tokio::test]
async fn case_240_a_question_goes_out_once_on_its_calls_own_stream() {
    let bank = Bank::new();
    let session = Session::open(&bank.server, everything()).await;
    let mut standalone = session.get(None).await;
    let mut beside = session.call(1, "steps", json!({})).await;
    assert_eq!(beside.message().await["params"]["message"], "First?");
    let mut call = session.call(2, "transfer", transfer()).await;
    let question = call.message().await;
    assert_eq!(question["params"]["message"], "Transfer?");
    session.answer(&question, yes()).await;
    assert_eq!(text(&call.message().await), "done 1");
    assert_eq!(call.event().await, None);
    // Whatever else is open had nothing of it.
    session.delete().await;
    for stream in [&mut standalone, &mut beside] {
        while let Some(event) = stream.event().await {
            assert_ne!(event.data["method"], "elicitation/create", "{event:?}");
        }
    }
}
