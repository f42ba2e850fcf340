//! Streams that break and are resumed (*2025-11-25, Transports, Resumability and Redelivery*).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mrtr_client::{CallError, ClientBuilder, EraChoice, RequestError};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::script::{
    Recorder, Reply, Seen, Streams, form_request, in_process, response, session, text, yes,
};

fn earlier(recorder: &Recorder) -> ClientBuilder {
    in_process(recorder).era(EraChoice::Earlier)
}

/// A server whose call ends its stream after `first`, and whose GET is answered by `then`; both get the id of the call.
fn breaking(
    first: impl Fn(&Value) -> Vec<String> + Send + Sync + 'static,
    then: impl Fn(&Value, &Seen, usize) -> Reply + Send + Sync + 'static,
) -> Recorder {
    let id = std::sync::Mutex::new(Value::Null);
    let gets = AtomicUsize::new(0);
    Recorder::new(session("2025-11-25", move |seen| match seen.what() {
        "tools/call" => {
            *id.lock().unwrap() = seen.id().clone();
            Some(Reply::Stream(first(seen.id()), false))
        }
        "GET" => {
            let nth = gets.fetch_add(1, Ordering::Relaxed) + 1;
            Some(then(&id.lock().unwrap(), seen, nth))
        }
        _ => None,
    }))
}

fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

fn gets(recorder: &Recorder) -> usize {
    recorder
        .methods()
        .iter()
        .filter(|what| *what == "GET")
        .count()
}

#[tokio::test(start_paused = true)]
async fn the_rest_is_asked_for_after_the_server_s_own_pause() {
    let recorder = breaking(
        |_| vec!["id: e-1\ndata:\n\n".to_owned(), "retry: 500\n\n".to_owned()],
        |id, seen, _| {
            assert_eq!(seen.header("last-event-id"), "e-1");
            assert_eq!(seen.header("accept"), "text/event-stream");
            assert_eq!(seen.header("mcp-session-id"), "s-1");
            assert_eq!(seen.header("mcp-protocol-version"), "2025-11-25");
            Reply::Stream(vec![event(&response(id, text("late")))], true)
        },
    );
    let client = earlier(&recorder).build().unwrap();
    let begun = Instant::now();
    let result = client.call_tool("t", ()).await.unwrap();
    assert_eq!(result.joined_text(), "late");
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_millis(500), "{waited:?}");
    assert!(waited < Duration::from_millis(600), "{waited:?}");
    let calls = recorder
        .methods()
        .iter()
        .filter(|what| *what == "tools/call")
        .count();
    assert_eq!((calls, gets(&recorder)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_may_be_polled_for_as_long_as_the_request_may_take() {
    let recorder = breaking(
        |_| vec!["retry: 2000\nid: 0\n\n".to_owned()],
        |id, seen, nth| {
            assert_eq!(seen.header("last-event-id"), (nth - 1).to_string());
            if nth < 100 {
                Reply::Stream(vec![format!("id: {nth}\n\n")], false)
            } else {
                Reply::Stream(vec![event(&response(id, text("late")))], false)
            }
        },
    );
    let client = earlier(&recorder).build().unwrap();
    assert_eq!(
        client.call_tool("t", ()).await.unwrap().joined_text(),
        "late"
    );
    assert_eq!(gets(&recorder), 100);
    // And no longer.
    let recorder = breaking(
        |_| vec!["retry: 2000\nid: 0\n\n".to_owned()],
        |_, _, nth| Reply::Stream(vec![format!("id: {nth}\n\n")], false),
    );
    let hasty = earlier(&recorder)
        .request_timeout(Duration::from_secs(15))
        .build()
        .unwrap();
    let error = hasty.call_tool("t", ()).await.unwrap_err();
    assert!(
        matches!(
            error,
            CallError::OutcomeUnknown {
                source: RequestError::TimedOut { .. },
                ..
            }
        ),
        "{error}"
    );
    recorder.until("notifications/cancelled", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_ids_is_not_resumed() {
    for events in [
        vec![],
        vec!["data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n".to_owned()],
        vec!["id: 1\n".to_owned()],
    ] {
        let recorder = breaking(move |_| events.clone(), |_, _, _| Reply::Accepted);
        let error = earlier(&recorder)
            .build()
            .unwrap()
            .call_tool("t", ())
            .await
            .unwrap_err();
        assert!(
            matches!(
                error,
                CallError::OutcomeUnknown {
                    source: RequestError::NoResponse,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(gets(&recorder), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_resumed_is_given_up() {
    let refusals: [(fn() -> Reply, usize); 8] = [
        (|| Reply::status(405), 1),
        (|| Reply::status(404), 1),
        (|| Reply::status(400), 1),
        (|| Reply::Accepted, 1),
        (|| Reply::Result(json!({})), 1),
        (|| Reply::status(503), 5),
        // Accepted, and closed at once.
        (|| Reply::Stream(vec![], false), 5),
        (|| Reply::Stream(vec![": nothing\n\n".to_owned()], false), 5),
    ];
    for (refusal, tries) in refusals {
        let recorder = breaking(|_| vec!["id: 1\n\n".to_owned()], move |_, _, _| refusal());
        let client = earlier(&recorder)
            .request_timeout(None)
            .max_request_time(None)
            .build()
            .unwrap();
        let error = client.call_tool("t", ()).await.unwrap_err();
        assert!(
            matches!(
                error,
                CallError::OutcomeUnknown {
                    source: RequestError::NoResponse,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(gets(&recorder), tries);
        // A broken connection is no cancellation, and no reason to call again.
        tokio::time::sleep(Duration::from_secs(60)).await;
        let again = recorder
            .methods()
            .iter()
            .filter(|what| *what == "tools/call" || *what == "notifications/cancelled")
            .count();
        assert_eq!(again, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_gone_when_its_stream_is_resumed_is_not_used_again() {
    let recorder = breaking(
        |_| vec!["id: 1\n\n".to_owned()],
        |_, _, _| Reply::status(404),
    );
    let client = earlier(&recorder).build().unwrap();
    client.call_tool("t", ()).await.unwrap_err();
    client.ping().await.unwrap();
    let opened = recorder
        .methods()
        .iter()
        .filter(|what| *what == "initialize")
        .count();
    assert_eq!(opened, 2);
}

#[tokio::test(start_paused = true)]
async fn junk_in_ids_and_pauses_does_no_harm() {
    // Each with what is sent back, or nothing where it can be no header.
    let long = "x".repeat(2_000);
    for (events, sent) in [
        ("id: a b\n\n".to_owned(), Some("a b")),
        ("id: 7\nretry: -5\n\n".to_owned(), Some("7")),
        ("id: 7\nretry: soon\n\n".to_owned(), Some("7")),
        ("id: 7\n\nid: 8\0\n\n".to_owned(), Some("7")),
        ("id: 7\n\nid: 8\ndata: cut".to_owned(), Some("7")),
        ("id: \u{1}\n\n".to_owned(), None),
        (format!("id: {long}\n\n"), None),
        ("id: 7\n\nid:\n\n".to_owned(), None),
    ] {
        let first = events.clone();
        let recorder = breaking(
            move |_| vec![first.clone()],
            |id, _, _| Reply::Stream(vec![event(&response(id, text("x")))], false),
        );
        let answered = earlier(&recorder).build().unwrap().call_tool("t", ()).await;
        match sent {
            Some(sent) => {
                answered.unwrap();
                let get = recorder.until("GET", 1).await;
                assert_eq!(get.header("last-event-id"), sent, "{events:.30}");
            }
            None => {
                answered.unwrap_err();
                assert_eq!(gets(&recorder), 0, "{events:.30}");
            }
        }
    }
    // A pause beyond all waiting is the request's own limit.
    let recorder = breaking(
        |_| vec![format!("id: 1\nretry: {}\n\n", "9".repeat(30))],
        |_, _, _| panic!("asked before its time"),
    );
    let error = earlier(&recorder)
        .build()
        .unwrap()
        .call_tool("t", ())
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            CallError::OutcomeUnknown {
                source: RequestError::TimedOut { .. },
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn no_server_is_asked_in_a_circle() {
    let recorder = breaking(
        |_| vec!["id: 0\nretry: 0\n\n".to_owned()],
        |_, _, nth| Reply::Stream(vec![format!("id: {nth}\nretry: 0\n\n")], false),
    );
    let client = earlier(&recorder)
        .request_timeout(Duration::from_secs(60))
        .build()
        .unwrap();
    client.call_tool("t", ()).await.unwrap_err();
    assert!(gets(&recorder) <= 600, "{}", gets(&recorder));
}

#[tokio::test(start_paused = true)]
async fn a_question_outlives_the_connection_that_it_came_on() {
    let streams = Streams::default();
    let open = streams.clone();
    let recorder = Recorder::new(session("2025-11-25", move |seen| match seen.what() {
        "tools/call" => Some(open.open()),
        "GET" => Some(open.open()),
        _ => None,
    }));
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let client = earlier(&recorder)
        .on_form(move |question| {
            counter.fetch_add(1, Ordering::Relaxed);
            async move {
                tokio::time::sleep(Duration::from_secs(30)).await;
                yes(question).await
            }
        })
        .build()
        .unwrap();
    let call = tokio::spawn(async move { client.call_tool("t", ()).await });
    let seen = recorder.until("tools/call", 1).await;
    // The first GET is the stream for what is unasked.
    let unasked = recorder.until("GET", 1).await;
    assert!(!unasked.headers.contains_key("last-event-id"));
    let (call_stream, _) = if recorder
        .methods()
        .iter()
        .position(|what| what == "tools/call")
        < recorder.methods().iter().position(|what| what == "GET")
    {
        (0, 1)
    } else {
        (1, 0)
    };
    streams.write(call_stream, format!("id: 1\ndata: {}\n\n", form_request(5)));
    while asked.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    streams.close(call_stream);
    recorder.until("GET", 2).await;
    // Delivered a second time, on the resumed stream.
    streams.send(2, &form_request(5));
    let answer = recorder.until("response", 1).await;
    assert_eq!(answer.body["id"], 5);
    streams.send(2, &response(seen.id(), text("x")));
    call.await.unwrap().unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_cannot_be_read_is_skipped_and_told_if_nothing_better_comes() {
    let recorder = breaking(
        |id| {
            let good = event(&response(id, text("x")));
            vec![
                "data: {\n\n".to_owned(),
                "data: [1]\n\ndata: null\n\n".to_owned(),
                good,
            ]
        },
        |_, _, _| Reply::status(405),
    );
    earlier(&recorder)
        .build()
        .unwrap()
        .call_tool("t", ())
        .await
        .unwrap();
    let recorder = breaking(
        |id| {
            vec![format!(
                "data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":7}}\n\n"
            )]
        },
        |_, _, _| Reply::status(405),
    );
    let error = earlier(&recorder)
        .build()
        .unwrap()
        .call_tool("t", ())
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            CallError::OutcomeUnknown {
                source: RequestError::Protocol(_),
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn an_endless_event_is_given_up() {
    let recorder = breaking(
        |_| vec![format!("data: {}", "x".repeat(20_000))],
        |_, _, _| Reply::status(405),
    );
    let client = earlier(&recorder)
        .max_response_bytes(10_000)
        .build()
        .unwrap();
    let error = client.call_tool("t", ()).await.unwrap_err();
    assert!(
        matches!(
            error,
            CallError::OutcomeUnknown {
                source: RequestError::TooLarge { .. },
                ..
            }
        ),
        "{error}"
    );
}
