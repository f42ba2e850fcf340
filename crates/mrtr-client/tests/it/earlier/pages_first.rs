//! -32042: pages that must be visited before the same call is sent again (*2025-11-25, Elicitation, URL Elicitation Required Error*).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use mrtr_client::{
    Abandoned, CallError, ClientBuilder, EraChoice, FormAnswer, PendingCall, Progress, UrlAnswer,
    UrlQuestion,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::script::{Recorder, Reply, Streams, in_process, session, text};

fn earlier(recorder: &Recorder) -> ClientBuilder {
    in_process(recorder).era(EraChoice::Earlier)
}

fn page(id: &str) -> Value {
    json!({"mode": "url", "elicitationId": id, "url": format!("https://a.example/{id}"), "message": "Connect"})
}

fn visit_first(pages: Value) -> Reply {
    let error =
        json!({"code": -32042, "message": "More is needed.", "data": {"elicitations": pages}});
    Reply::Error(StatusCode::OK, error)
}

/// A server that wants `pages` visited before it takes the nth call.
fn wanting(revision: &'static str, pages: Value, until: usize) -> Recorder {
    let calls = Mutex::new(0);
    Recorder::new(session(revision, move |seen| {
        (seen.what() == "tools/call").then(|| {
            let mut calls = calls.lock().unwrap();
            *calls += 1;
            if *calls < until {
                visit_first(pages.clone())
            } else {
                Reply::Result(text("done"))
            }
        })
    }))
}

fn calls(recorder: &Recorder) -> usize {
    recorder
        .methods()
        .iter()
        .filter(|what| *what == "tools/call")
        .count()
}

#[tokio::test(start_paused = true)]
async fn the_person_is_sent_there_and_the_same_call_is_made_again() {
    let recorder = wanting("2025-11-25", json!([page("e1"), page("e2")]), 4);
    let seen: Arc<Mutex<Vec<(String, u32)>>> = Arc::default();
    let into = Arc::clone(&seen);
    let client = earlier(&recorder)
        .on_url(move |page: UrlQuestion| {
            assert_eq!(page.target.as_ref().unwrap().to_string(), "tool t");
            into.lock()
                .unwrap()
                .push((page.url.to_string(), page.repeated));
            async { Ok(UrlAnswer::Accept) }
        })
        .build()
        .unwrap();
    let begun = Instant::now();
    let result = client.call_tool("t", json!({"a": 1})).await.unwrap();
    assert_eq!(result.joined_text(), "done");
    assert_eq!(calls(&recorder), 4);
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    let all: Vec<_> = ["e1", "e2"]
        .iter()
        .flat_map(|id| (0..3).map(move |n| (format!("https://a.example/{id}"), n)))
        .collect();
    assert_eq!(seen, all);
    // 1, 2 and 4 seconds at least: the person is in the browser.
    assert!(
        begun.elapsed() >= Duration::from_secs(7),
        "{:?}",
        begun.elapsed()
    );
    // The same call, without an answer in it.
    let requests = recorder.seen();
    let sent = requests.iter().filter(|seen| seen.what() == "tools/call");
    for call in sent {
        assert_eq!(*call.params(), json!({"name": "t", "arguments": {"a": 1}}));
    }
}

#[tokio::test(start_paused = true)]
async fn word_of_the_visit_ends_the_wait() {
    let streams = Streams::default();
    let open = streams.clone();
    let first = Mutex::new(true);
    let recorder = Recorder::new(session("2025-11-25", move |seen| match seen.what() {
        "GET" => Some(open.open()),
        "tools/call" if std::mem::take(&mut *first.lock().unwrap()) => {
            Some(visit_first(json!([page("e1")])))
        }
        "tools/call" => Some(Reply::Result(text("done"))),
        _ => None,
    }));
    let client = earlier(&recorder)
        .on_url(move |_| {
            let streams = streams.clone();
            async move {
                // Other ids, and ids of nobody, are ignored.
                for id in ["e2", "e1"] {
                    let params = json!({"elicitationId": id});
                    streams.send(0, &json!({"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": params}));
                }
                Ok(UrlAnswer::Accept)
            }
        })
        .build()
        .unwrap();
    client.ping().await.unwrap();
    recorder.until("GET", 1).await;
    let begun = Instant::now();
    client.call_tool("t", ()).await.unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_declined_page_ends_the_call_and_nothing_is_sent() {
    for answer in [UrlAnswer::Decline, UrlAnswer::Cancel] {
        let recorder = wanting("2025-11-25", json!([page("e1")]), 2);
        let client = earlier(&recorder)
            .on_url(move |_| async move { Ok(answer) })
            .build()
            .unwrap();
        let error = client.call_tool("t", ()).await.unwrap_err();
        let CallError::Abandoned {
            why: Abandoned::PageDeclined { key },
            pending,
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!((key.as_str(), calls(&recorder)), ("e1", 1));
        // Another answer, given by hand, lets it go on.
        let mut pending = *pending;
        pending.answer_url("e1", UrlAnswer::Accept).unwrap();
        client.resume(pending).await.unwrap();
        assert_eq!(calls(&recorder), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_the_server_always_wants_another() {
    let recorder = wanting("2025-11-25", json!([page("e1")]), usize::MAX);
    let client = earlier(&recorder)
        .max_rounds(3)
        .on_url(async |_| Ok(UrlAnswer::Accept))
        .build()
        .unwrap();
    let error = client.call_tool("t", ()).await.unwrap_err();
    assert!(
        matches!(
            error,
            CallError::Abandoned {
                why: Abandoned::TooManyRounds { limit: 3 },
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(calls(&recorder), 4);
}

#[tokio::test]
async fn nobody_is_sent_anywhere_without_a_handler_or_by_a_malformed_error() {
    let recorder = wanting("2025-11-25", json!([page("e1")]), 2);
    let client = earlier(&recorder).build().unwrap();
    let error = client.call_tool("t", ()).await.unwrap_err();
    assert!(
        matches!(
            error,
            CallError::Abandoned {
                why: Abandoned::Unhandled { .. },
                ..
            }
        ),
        "{error}"
    );
    let mut script = page("e1");
    script["url"] = json!("javascript:alert(1)");
    let mut form = page("e1");
    form["mode"] = json!("form");
    for pages in [
        json!([]),
        json!(null),
        json!([form]),
        json!([page("e1"), page("e1")]),
        json!([page("e1"), {}]),
    ] {
        let recorder = wanting("2025-11-25", pages.clone(), 2);
        let client = earlier(&recorder)
            .on_url(async |_| panic!("asked"))
            .build()
            .unwrap();
        let error = client.call_tool("t", ()).await.unwrap_err();
        assert!(matches!(error, CallError::Rpc { .. }), "{pages}: {error}");
    }
    let recorder = wanting("2025-11-25", json!([script]), 2);
    let client = earlier(&recorder)
        .on_url(async |_| panic!("asked"))
        .build()
        .unwrap();
    let error = client.call_tool("t", ()).await.unwrap_err();
    assert!(
        matches!(
            error,
            CallError::Abandoned {
                why: Abandoned::Question { .. },
                ..
            }
        ),
        "{error}"
    );
    // No other revision has it, the modern one least of all.
    let recorder = wanting("2025-06-18", json!([page("e1")]), 2);
    let client = earlier(&recorder)
        .on_url(async |_| panic!("asked"))
        .build()
        .unwrap();
    client.call_tool("t", ()).await.unwrap_err();
    let recorder = Recorder::new(|_, _| visit_first(json!([page("e1")])));
    let client = in_process(&recorder)
        .on_url(async |_| panic!("asked"))
        .build()
        .unwrap();
    let error = client.call_tool("t", ()).await.unwrap_err();
    assert!(matches!(error, CallError::Rpc { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn by_hand_it_is_a_round_that_can_be_stored() {
    let recorder = wanting("2025-11-25", json!([page("e1")]), 2);
    let client = earlier(&recorder)
        .on_url(async |_| panic!("asked"))
        .build()
        .unwrap();
    let Progress::InputRequired(pending) = client.begin("t", ()).await.unwrap() else {
        panic!("no round")
    };
    let stored = serde_json::to_string(&pending).unwrap();
    let mut pending: PendingCall = serde_json::from_str(&stored).unwrap();
    assert!(!pending.has_state());
    assert!(
        pending
            .answer("e1", &FormAnswer::Accept(json!({})))
            .is_err()
    );
    let open = pending.clone();
    assert!(matches!(
        client.resume(open).await,
        Err(CallError::Unanswered { .. })
    ));
    pending.answer_url("e1", UrlAnswer::Accept).unwrap();
    let Progress::Done(done) = client.resume(pending).await.unwrap() else {
        panic!("another round")
    };
    assert_eq!(done.joined_text(), "done");
    assert!(
        recorder
            .until("tools/call", 2)
            .await
            .param("inputResponses")
            .is_none()
    );
}
