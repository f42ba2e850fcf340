//! The stream for what a server sends unasked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mrtr_client::{ClientBuilder, EraChoice, FormQuestion};
use mrtr_protocol::LogLevel;
use serde_json::json;

use crate::script::{
    Recorder, Reply, Streams, accepted, form_request, in_process, request, session, text, yes,
};

fn earlier(recorder: &Recorder) -> ClientBuilder {
    in_process(recorder).era(EraChoice::Earlier)
}

fn with_unasked(streams: &Streams) -> Recorder {
    let streams = streams.clone();
    Recorder::new(session("2025-11-25", move |seen| match seen.what() {
        "GET" => Some(streams.open()),
        "tools/call" => Some(Reply::Result(text("x"))),
        _ => None,
    }))
}

#[tokio::test]
async fn a_question_outside_of_a_call_is_put_without_one() {
    let streams = Streams::default();
    let recorder = with_unasked(&streams);
    let asked: Arc<Mutex<Vec<FormQuestion>>> = Arc::default();
    let into = Arc::clone(&asked);
    let client = earlier(&recorder)
        .on_form(move |question: FormQuestion| {
            into.lock().unwrap().push(question.clone());
            yes(question)
        })
        .build()
        .unwrap();
    client.call_tool("t", ()).await.unwrap();
    recorder.until("GET", 1).await;
    streams.send(0, &form_request(1));
    let answer = recorder.until("response", 1).await;
    assert_eq!(
        (&answer.body["id"], &answer.body["result"]),
        (&json!(1), &accepted())
    );
    assert_eq!(asked.lock().unwrap().remove(0).target, None);
    streams.send(0, &request(2, "ping", json!({})));
    assert_eq!(
        recorder.until("response", 2).await.body["result"],
        json!({})
    );
}

#[tokio::test]
async fn it_is_opened_only_for_whoever_wants_it_and_ends_with_the_client() {
    let streams = Streams::default();
    let recorder = with_unasked(&streams);
    let client = earlier(&recorder).build().unwrap();
    client.call_tool("t", ()).await.unwrap();
    client.close().await;
    assert!(!recorder.methods().contains(&"GET".to_owned()));
    // By a handler; dropping the client is enough to end it.
    let client = earlier(&recorder).on_form(yes).build().unwrap();
    client.ping().await.unwrap();
    recorder.until("GET", 1).await;
    drop(client);
    streams.closed(0).await;
    // By a listener; and closing ends it too.
    let client = earlier(&recorder)
        .on_log(LogLevel::Info, |_| {})
        .build()
        .unwrap();
    client.ping().await.unwrap();
    recorder.until("GET", 2).await;
    client.close().await;
    streams.closed(1).await;
}

#[tokio::test]
async fn log_messages_are_heard_on_it() {
    let streams = Streams::default();
    let recorder = with_unasked(&streams);
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let client = earlier(&recorder)
        .on_log(LogLevel::Warning, move |message| {
            sender.send(message.data.get().to_owned()).unwrap();
        })
        .build()
        .unwrap();
    client.ping().await.unwrap();
    recorder.until("GET", 1).await;
    for (level, data) in [("info", 1), ("error", 2)] {
        let params = json!({"level": level, "data": data});
        streams.send(
            0,
            &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}),
        );
    }
    assert_eq!(receiver.recv().await.unwrap(), "2");
}

/// A server may put a call's question there, and lose it while nobody listens.
#[tokio::test(start_paused = true)]
async fn it_is_open_before_the_first_request_unless_the_server_says_nothing() {
    let streams = Streams::default();
    let recorder = with_unasked(&streams);
    let client = earlier(&recorder).on_form(yes).build().unwrap();
    client.call_tool("t", ()).await.unwrap();
    let order = [
        "initialize",
        "notifications/initialized",
        "GET",
        "tools/call",
    ];
    assert_eq!(recorder.methods(), order);

    let recorder = Recorder::new(session("2025-11-25", |seen| {
        (seen.what() == "GET").then_some(Reply::Silence)
    }));
    let client = earlier(&recorder).on_form(yes).build().unwrap();
    let begun = tokio::time::Instant::now();
    client.ping().await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 1);
    client.ping().await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn it_is_resumed_and_given_up_in_the_end() {
    let streams = Streams::default();
    let recorder = with_unasked(&streams);
    let client = earlier(&recorder).on_form(yes).build().unwrap();
    client.ping().await.unwrap();
    recorder.until("GET", 1).await;
    streams.write(0, "id: a\nretry: 3000\n\n".to_owned());
    streams.close(0);
    let begun = tokio::time::Instant::now();
    let second = recorder.until("GET", 2).await;
    assert_eq!(second.header("last-event-id"), "a");
    assert!(begun.elapsed() >= Duration::from_secs(3));
    streams.send(1, &form_request(1));
    recorder.until("response", 1).await;

    let recorder = Recorder::new(session("2025-11-25", |seen| {
        (seen.what() == "GET").then(|| Reply::status(503))
    }));
    let client = earlier(&recorder).on_form(yes).build().unwrap();
    client.ping().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let tries = recorder
        .methods()
        .iter()
        .filter(|what| *what == "GET")
        .count();
    assert_eq!(tries, 6);
    client.ping().await.unwrap();
}

#[tokio::test]
async fn a_session_that_is_gone_there_is_gone_everywhere() {
    let recorder = Recorder::new(session("2025-11-25", |seen| {
        (seen.what() == "GET").then(|| Reply::status(404))
    }));
    let client = earlier(&recorder).on_form(yes).build().unwrap();
    client.ping().await.unwrap();
    recorder.until("GET", 1).await;
    while client.era().is_some()
        && recorder
            .methods()
            .iter()
            .filter(|what| *what == "initialize")
            .count()
            < 2
    {
        client.ping().await.unwrap();
    }
}
