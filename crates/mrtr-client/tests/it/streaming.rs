//! Answers that are streams of events: whole, cut, endless and silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mrtr_client::{CallError, RequestError};
use serde_json::json;

use crate::script::{Recorder, Reply, Server, done, form, in_process, yes};
use crate::wire::message;

#[tokio::test]
async fn case_222_streams_are_read_up_to_the_response() {
    let server = Server::start(|_, seen| {
        let answer = message(seen.id(), "é😀").to_string();
        let (a, b) = answer.split_at(answer.find('é').unwrap() + "é".len());
        let chunks = vec![
            "\u{feff}: hello\r\n\r\n".to_owned(),
            "event: message\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\r\ndata: \"params\":{}}\r\n\r\n".to_owned(),
            format!("data: {}\n\n", message(&json!("other"), "not mine")),
            "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"elicitation/create\",\"params\":{}}\r\r".to_owned(),
            "data\n\n".to_owned(),
            format!("data: {a}"),
            format!("{b}\n\n"),
            format!("data: {}\n\n", message(seen.id(), "too late")),
        ];
        // The connection stays open: the client must not wait for its end.
        Reply::Stream(chunks, true)
    })
    .await;
    let prompts = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&prompts);
    let counting = move |question| {
        counter.fetch_add(1, Ordering::Relaxed);
        yes(question)
    };
    let client = server.client().on_form(counting).build().unwrap();
    let call = client.call_tool("t", ());
    let result = tokio::time::timeout(Duration::from_secs(30), call)
        .await
        .expect("waited for the end of the stream")
        .unwrap();
    assert_eq!(result.joined_text(), "é😀");
    // A request on the stream is neither prompted for nor answered.
    assert_eq!((prompts.load(Ordering::Relaxed), server.count()), (0, 1));
}

#[tokio::test]
async fn a_round_may_come_on_a_stream() {
    let server = Server::start(|n, seen| {
        let round = json!({"jsonrpc": "2.0", "id": seen.id(), "result": {"resultType": "input_required", "inputRequests": {"k": form()}, "requestState": "S"}});
        if n == 1 { Reply::Stream(vec![format!("data: {round}\n\n")], false) } else { done("x") }
    })
    .await;
    server
        .client()
        .on_form(yes)
        .build()
        .unwrap()
        .call_tool("t", ())
        .await
        .unwrap();
    assert_eq!(server.seen()[1].param("requestState"), Some(&json!("S")));
}

#[tokio::test]
async fn case_221_a_stream_without_a_response_is_an_unknown_outcome() {
    let progress =
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n";
    for chunks in [
        vec![],
        vec![progress.to_owned()],
        vec![format!("{progress}data: {{\"jsonrpc\"")],
    ] {
        let server = Server::start(move |_, _| Reply::Stream(chunks.clone(), false)).await;
        let error = server
            .client()
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
        assert_eq!(server.count(), 1, "it is not repeated");
    }
}

#[tokio::test]
async fn case_219_answers_are_bounded() {
    let server = Server::start(|_, seen| match seen.params()["arguments"]["as"].as_str() {
        Some("json") => done(&"x".repeat(20_000)),
        Some("stream") => Reply::Stream(vec![format!("data: {}", "x".repeat(20_000))], true),
        _ => done("small"),
    })
    .await;
    let client = server.client().max_response_bytes(10_000).build().unwrap();
    client.call_tool("t", ()).await.unwrap();
    for kind in ["json", "stream"] {
        let error = client
            .call_tool("t", json!({"as": kind}))
            .await
            .unwrap_err();
        assert!(
            matches!(
                error,
                CallError::OutcomeUnknown {
                    source: RequestError::TooLarge { limit: 10_000 },
                    ..
                }
            ),
            "{kind}: {error}"
        );
    }
}

/// A gigabyte without a line's end would come; so much of it is taken as one answer may have.
#[tokio::test]
async fn case_219_an_event_without_end_is_taken_up_to_the_limit() {
    let recorder = Recorder::new(|_, _| {
        let chunk = "x".repeat(1 << 20);
        let chunks = std::iter::once("data: ".to_owned()).chain(std::iter::repeat_n(chunk, 20));
        Reply::Stream(chunks.collect(), true)
    });
    let client = in_process(&recorder).build().unwrap();
    let error = client.call_tool("t", ()).await.unwrap_err();
    const LIMIT: usize = 16 << 20;
    assert!(
        matches!(
            error,
            CallError::OutcomeUnknown {
                source: RequestError::TooLarge { limit: LIMIT },
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(recorder.count(), 1, "it is not repeated");
}

/// A stream that was opened and says nothing, or nothing that is about the call.
#[tokio::test(start_paused = true)]
async fn case_219_a_stream_that_says_nothing_is_given_up() {
    for said in ["", ": alive\n\n", "data: "] {
        let recorder = Recorder::new(move |_, _| Reply::Stream(vec![said.to_owned()], true));
        let client = in_process(&recorder)
            .request_timeout(Duration::from_secs(60))
            .build()
            .unwrap();
        let begun = tokio::time::Instant::now();
        let error = client.call_tool("t", ()).await.unwrap_err();
        assert!(
            matches!(
                error,
                CallError::OutcomeUnknown {
                    source: RequestError::TimedOut { .. },
                    ..
                }
            ),
            "{said:?}: {error}"
        );
        assert!(begun.elapsed() <= Duration::from_secs(61));
        assert_eq!(recorder.count(), 1, "it is not repeated");
    }
}
