//! The loop by hand, and calls that are stored.

use axum::http::StatusCode;
use mrtr_client::{AnswerError, CallError, FormAnswer, PendingCall, Progress, Repeat, Target};
use serde_json::{Value, json};

use crate::script::{Reply, Server, accepted, asks, done, form, yes};

fn open(progress: Progress) -> PendingCall {
    match progress {
        Progress::InputRequired(pending) => *pending,
        Progress::Done(result) => panic!("{result:?}"),
    }
}

#[tokio::test]
async fn a_call_goes_on_by_hand() {
    // As text: a `Value` may sort its keys.
    let server = Server::start(|n, seen| match n {
        1 => {
            let result = format!(r#"{{"resultType":"input_required","requestState":"S","inputRequests":{{"b":{0},"a":{0}}}}}"#, form());
            let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, seen.id());
            Reply::Raw(StatusCode::OK, "application/json", body)
        }
        _ => done("booked"),
    })
    .await;
    let client = server.client().on_form(yes).build().unwrap();
    let mut pending = open(
        client
            .begin("submit", json!({"amount": 250}))
            .await
            .unwrap(),
    );
    assert_eq!(
        (pending.target(), pending.round(), pending.has_state()),
        (&Target::Tool("submit".to_owned()), 1, true)
    );
    assert_eq!(
        pending
            .requests()
            .iter()
            .map(|(key, _)| key)
            .collect::<Vec<_>>(),
        ["b", "a"]
    );

    let yes = FormAnswer::Accept(json!({"ok": true}));
    assert_eq!(
        pending.answer("zzz", &yes),
        Err(AnswerError::NoSuchQuestion)
    );
    assert!(matches!(
        pending.answer("a", &FormAnswer::Accept(json!({"ok": 1}))),
        Err(AnswerError::DoesNotFit { .. })
    ));
    pending.answer("a", &yes).unwrap();
    let CallError::Unanswered { key, mut pending } = client.resume(pending).await.unwrap_err()
    else {
        panic!()
    };
    assert_eq!(key, "b");
    assert_eq!(server.count(), 1, "nothing is sent with a question open");

    pending.answer("b", &yes).unwrap();
    pending.answer("b", &FormAnswer::Decline).unwrap();
    assert!(
        matches!(client.resume(*pending).await.unwrap(), Progress::Done(result) if result.joined_text() == "booked")
    );
    assert_eq!(
        server.seen()[1].param("inputResponses"),
        Some(&json!({"a": accepted(), "b": {"action": "decline"}}))
    );
}

#[tokio::test]
async fn a_stored_call_is_resumed_by_another_client() {
    let state = "S \"é\" \u{2028}\0";
    let server = Server::start(move |n, _| if n == 1 { asks("k", state) } else { done("x") }).await;
    let stored = {
        let client = server.client().on_form(yes).build().unwrap();
        let pending = open(
            client
                .begin(
                    "submit",
                    json!({"amount": 1.00, "big": 9_007_199_254_740_993_i64}),
                )
                .await
                .unwrap(),
        );
        serde_json::to_string(&pending).unwrap()
    };
    let pending: PendingCall = serde_json::from_str(&stored).unwrap();
    let client = server.client().on_form(yes).build().unwrap();
    client.finish(pending).await.unwrap();
    let [first, second] = &server.seen()[..] else {
        panic!()
    };
    assert_eq!(second.param("requestState").unwrap(), state);
    assert_eq!(second.param("arguments"), first.param("arguments"));
    assert_eq!(
        second.param("inputResponses"),
        Some(&json!({"k": accepted()}))
    );

    // What is not this form is refused.
    let mut value: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(value["format"], "mrtr-pending-2");
    assert_eq!(
        value["target"],
        json!({"method": "tools/call", "name": "submit"})
    );
    assert!(serde_json::from_str::<PendingCall>(&value.to_string()).is_ok());
    for (member, other) in [
        ("format", json!("mrtr-pending-1")),
        ("format", json!("mrtr-pending-3")),
        ("target", json!("submit")),
        ("target", json!({"method": "tools/list", "name": "submit"})),
        ("target", json!({"method": "tools/call"})),
    ] {
        let mut changed = value.clone();
        changed[member] = other;
        assert!(
            serde_json::from_str::<PendingCall>(&changed.to_string()).is_err(),
            "{changed}"
        );
    }
    value["format"] = json!("mrtr-pending-1");
    assert!(serde_json::from_str::<PendingCall>(&value.to_string()).is_err());
    assert!(
        serde_json::from_str::<PendingCall>(&stored.replacen('{', r#"{"more":1,"#, 1)).is_err()
    );
}

#[tokio::test]
async fn a_state_goes_only_to_the_server_that_made_it() {
    let server = Server::start(|n, _| if n == 1 { asks("k", "S") } else { done("x") }).await;
    let other = Server::start(|_, _| done("stolen")).await;
    let mut pending = open(
        server
            .client()
            .on_form(yes)
            .build()
            .unwrap()
            .begin("t", ())
            .await
            .unwrap(),
    );
    pending.answer("k", &FormAnswer::Decline).unwrap();
    let CallError::OtherServer { pending } = other
        .client()
        .build()
        .unwrap()
        .resume(pending)
        .await
        .unwrap_err()
    else {
        panic!()
    };
    assert_eq!(other.count(), 0);
    server
        .client()
        .build()
        .unwrap()
        .resume(*pending)
        .await
        .unwrap();
}

#[tokio::test]
async fn debug_and_errors_hold_no_secret() {
    let server = Server::start(|n, _| {
        if n == 1 {
            asks("k", "secret-state")
        } else {
            Reply::Error(StatusCode::OK, json!({"code": 1003, "message": "away"}))
        }
    })
    .await;
    let client = server.client().on_form(yes).build().unwrap();
    let mut pending = open(
        client
            .begin("t", json!({"pin": "secret-argument"}))
            .await
            .unwrap(),
    );
    pending
        .answer(
            "k",
            &FormAnswer::Accept(json!({"ok": true, "note": "secret-answer"})),
        )
        .unwrap();
    assert!(
        serde_json::to_string(&pending)
            .unwrap()
            .contains("secret-state"),
        "the stored form has to have it"
    );
    assert!(!format!("{pending:?}").contains("secret"));
    let error = client.resume(pending).await.unwrap_err();
    assert!(
        !format!("{error:?} {error}").contains("secret"),
        "{error:?}"
    );
    assert_eq!(error.pending().unwrap().repeat(), Repeat::SafeWithLedger);
}
