//! Requests, rounds, questions and cancellation on one channel for everything.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mrtr_client::{BuildError, CallError, Client, FormQuestion, Progress, Repeat, RequestError};
use mrtr_protocol::LogLevel;
use serde_json::{Value, json};

use super::peer::{Peer, Said, earlier, modern, result, text};
use crate::script::{accepted, form, form_request, yes};

fn round(to: &Value, state: &str) -> Said {
    result(
        to,
        json!({"resultType": "input_required", "inputRequests": {"k": form()}, "requestState": state}),
    )
}

#[tokio::test]
async fn rounds_are_carried_as_over_http() {
    let (client, peer) = modern(|message| match message["params"].get("requestState") {
        None => vec![round(message, "S-é\n")],
        Some(_) => vec![text(message, "done")],
    });
    let client = client.on_form(yes).build().unwrap();
    assert_eq!(
        client.call_tool("t", ()).await.unwrap().joined_text(),
        "done"
    );
    let retry = peer.until("tools/call", 2).await;
    assert_eq!(retry["params"]["requestState"], "S-é\n");
    assert_eq!(retry["params"]["inputResponses"], json!({"k": accepted()}));
}

#[tokio::test]
async fn annotations_for_headers_mean_nothing_here() {
    let tool = json!({"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "a b"}}}});
    let (client, _peer) = modern(move |message| match message["method"].as_str() {
        Some("tools/list") => vec![result(
            message,
            json!({"resultType": "complete", "tools": [tool.clone()], "ttlMs": 0, "cacheScope": "private"}),
        )],
        _ => vec![text(message, "x")],
    });
    let client = client.build().unwrap();
    assert_eq!(client.list_tools().await.unwrap().len(), 1);
    client.call_tool("t", json!({"a": 1.5})).await.unwrap();
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_in_either_era() {
    for (client, peer) in [modern(|_| Vec::new()), earlier(|_| Vec::new())] {
        let client = client.build().unwrap();
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool("t", ()).await }
        });
        let seen = peer.until("tools/call", 1).await;
        call.abort();
        let cancelled = peer.until("notifications/cancelled", 1).await;
        assert_eq!(cancelled["params"]["requestId"], seen["id"]);
        assert!(cancelled.get("id").is_none());
        // A late answer is nobody's.
        let Said::Line(late) = text(&seen, "late") else {
            panic!()
        };
        peer.say(&late);
        let hasty = client.with_timeout(Duration::from_millis(50));
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
        let seen = peer.until("tools/call", 2).await;
        let cancelled = peer.until("notifications/cancelled", 2).await;
        assert_eq!(cancelled["params"]["requestId"], seen["id"]);
    }
}

/// While a person is asked no request is open, so there is none to cancel: a call that is dropped then says nothing.
#[tokio::test]
async fn case_149_a_call_dropped_between_rounds_cancels_nothing() {
    let (client, peer) = modern(|message| vec![round(message, "S")]);
    let (shown, mut prompt) = tokio::sync::mpsc::unbounded_channel();
    let client = client
        .on_form(move |question| {
            let shown = shown.clone();
            async move {
                shown.send(()).unwrap();
                std::future::pending::<()>().await;
                yes(question).await
            }
        })
        .build()
        .unwrap();
    tokio::select! {
        result = client.call_tool("t", ()) => panic!("{result:?}"),
        _ = prompt.recv() => {}
    }
    client.fresh().discover().await.unwrap();
    let methods = peer.methods();
    let probes = methods.iter().filter(|method| *method == "server/discover");
    assert_eq!((probes.count(), methods.len()), (2, 3), "{methods:?}");
}

#[tokio::test]
async fn a_broken_connection_is_an_unknown_outcome_and_the_pending_call() {
    let (client, peer) = modern(|message| match message["params"].get("requestState") {
        None => vec![round(message, "S")],
        Some(_) => Vec::new(),
    });
    let client = client.on_form(yes).build().unwrap();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("t", ()).await }
    });
    peer.until("tools/call", 2).await;
    peer.hang_up();
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.repeat(), Some(Repeat::SafeWithLedger), "{error}");
    let pending = error.into_pending().unwrap();
    // These streams are used up; another client of the same name can go on.
    let error = client.resume(pending.clone()).await.unwrap_err();
    assert!(matches!(error, CallError::NotSent { .. }), "{error}");
    let (other, peer) = modern(|message| vec![text(message, "done")]);
    let other = other.build().unwrap();
    let Progress::Done(done) = other.resume(pending.clone()).await.unwrap() else {
        panic!("another round")
    };
    assert_eq!(done.joined_text(), "done");
    assert_eq!(
        peer.until("tools/call", 1).await["params"]["requestState"],
        "S"
    );
    let stranger = Client::pipe("stranger", tokio::io::empty(), tokio::io::sink())
        .build()
        .unwrap();
    let error = stranger.resume(pending).await.unwrap_err();
    assert!(matches!(error, CallError::OtherServer { .. }), "{error}");
}

#[tokio::test]
async fn questions_of_an_earlier_server_name_no_call() {
    let (client, peer) = earlier(|message| match message["method"].as_str() {
        Some("tools/call") => vec![Said::Line(form_request("q"))],
        _ => Vec::new(),
    });
    let asked: Arc<Mutex<Vec<FormQuestion>>> = Arc::default();
    let into = Arc::clone(&asked);
    let client = client
        .on_form(move |question: FormQuestion| {
            into.lock().unwrap().push(question.clone());
            yes(question)
        })
        .build()
        .unwrap();
    let call = tokio::spawn(async move { client.call_tool("t", ()).await });
    let seen = peer.until("tools/call", 1).await;
    let answer = peer.until("response", 1).await;
    assert_eq!(
        (&answer["id"], &answer["result"]),
        (&json!("q"), &accepted())
    );
    let question = asked.lock().unwrap().remove(0);
    assert_eq!(
        (question.target, question.server.url.as_str()),
        (None, "stdio:peer")
    );
    assert_eq!(question.server.self_reported.as_deref(), Some("old"));
    // What was not declared is an error.
    peer.say(&json!({"jsonrpc": "2.0", "id": 2, "method": "roots/list"}));
    assert_eq!(peer.until("response", 2).await["error"]["code"], -32601);
    peer.say(&json!({"jsonrpc": "2.0", "id": 3, "method": "ping"}));
    assert_eq!(peer.until("response", 3).await["result"], json!({}));
    let Said::Line(done) = text(&seen, "x") else {
        panic!()
    };
    peer.say(&done);
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn questions_are_counted_from_the_last_request_on() {
    let (client, peer) = earlier(|_| Vec::new());
    let client = client
        .max_questions(2)
        .max_rounds(3)
        .on_form(yes)
        .build()
        .unwrap();
    client.ping().await.unwrap();
    let mut answers = 0;
    let mut ask = async |n: i32| {
        peer.say(&form_request(n));
        answers += 1;
        peer.until("response", answers).await
    };
    for n in 1..=6 {
        assert_eq!(ask(n).await["result"], accepted(), "{n}");
    }
    assert_eq!(ask(7).await["error"]["code"], -32603);
    client.ping().await.unwrap();
    assert_eq!(ask(8).await["result"], accepted());
}

#[tokio::test(start_paused = true)]
async fn a_person_who_thinks_holds_up_every_time_out_of_the_session() {
    let (client, peer) = earlier(|message| match message["params"]["name"].as_str() {
        Some("asks") => vec![Said::Line(form_request(1))],
        _ => Vec::new(),
    });
    let client = client
        .request_timeout(Duration::from_secs(60))
        .on_form(async |question| {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            yes(question).await
        })
        .build()
        .unwrap();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("asks", ()).await }
    });
    let seen = peer.until("tools/call", 1).await;
    tokio::time::sleep(Duration::from_secs(3_620)).await;
    assert!(!call.is_finished());
    let Said::Line(done) = text(&seen, "x") else {
        panic!()
    };
    peer.say(&done);
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn progress_and_log_messages_find_their_listeners() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let (progress, log) = (Arc::clone(&heard), Arc::clone(&heard));
    let (client, peer) = modern(|message| {
        let token = &message["params"]["_meta"]["progressToken"];
        let notify = |method: &str, params: Value| {
            Said::Line(json!({"jsonrpc": "2.0", "method": method, "params": params}))
        };
        vec![
            notify(
                "notifications/progress",
                json!({"progressToken": token, "progress": 1}),
            ),
            notify(
                "notifications/progress",
                json!({"progressToken": "other", "progress": 2}),
            ),
            notify(
                "notifications/message",
                json!({"level": "error", "data": "broken"}),
            ),
            notify(
                "notifications/message",
                json!({"level": "debug", "data": "chatter"}),
            ),
            text(message, "x"),
        ]
    });
    let client = client
        .on_progress(move |report| {
            let text = format!("{} {}", report.target.unwrap(), report.progress);
            progress.lock().unwrap().push(text);
        })
        .on_log(LogLevel::Info, move |message| {
            log.lock().unwrap().push(message.data.get().to_owned());
        })
        .build()
        .unwrap();
    client.call_tool("t", ()).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["tool t 1", "\"broken\""]);
    let seen = peer.until("tools/call", 1).await;
    assert_eq!(
        seen["params"]["_meta"]["io.modelcontextprotocol/logLevel"],
        "info"
    );
}

#[tokio::test]
async fn closing_ends_the_streams_and_withdraws_prompts() {
    let (client, peer) = earlier(|message| match message["method"].as_str() {
        Some("tools/call") => vec![Said::Line(form_request(1))],
        _ => Vec::new(),
    });
    let open = Arc::new(());
    let prompt = Arc::clone(&open);
    let client = client
        .on_form(move |_| {
            let prompt = Arc::clone(&prompt);
            async move {
                let _prompt = prompt;
                std::future::pending().await
            }
        })
        .build()
        .unwrap();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("t", ()).await }
    });
    peer.until("tools/call", 1).await;
    while Arc::strong_count(&open) < 3 {
        tokio::task::yield_now().await;
    }
    client.close().await;
    peer.until("END", 1).await;
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::OutcomeUnknown { .. }), "{error}");
    while Arc::strong_count(&open) > 2 {
        tokio::task::yield_now().await;
    }
    assert!(!peer.methods().contains(&"response".to_owned()));
}

#[tokio::test]
async fn dropping_the_last_clone_ends_the_streams() {
    let (client, peer) = modern(|message| vec![text(message, "x")]);
    let client = client.build().unwrap();
    client.call_tool("t", ()).await.unwrap();
    let clone = client.clone();
    drop(client);
    clone.call_tool("t", ()).await.unwrap();
    assert!(!peer.methods().contains(&"END".to_owned()));
    drop(clone);
    peer.until("END", 1).await;
}

#[tokio::test]
async fn a_peer_that_does_not_read_holds_up_nobody_else() {
    // Its buffer is full after a few calls; they time out, and the client lives.
    let (reader, _into_client) = tokio::io::duplex(1024);
    let (_from_client, writer) = tokio::io::duplex(1024);
    let client = Client::pipe("deaf", reader, writer)
        .request_timeout(Duration::from_millis(50))
        .era(mrtr_client::EraChoice::Earlier)
        .build()
        .unwrap();
    let calls = (0..50).map(|_| client.call_tool("t", json!({"x": "y".repeat(2_000)})));
    for answered in futures_util::future::join_all(calls).await {
        answered.unwrap_err();
    }
    tokio::time::timeout(Duration::from_secs(30), client.close())
        .await
        .unwrap();
}

#[tokio::test]
async fn what_belongs_to_http_is_refused_when_it_is_built() {
    let build = |change: fn(mrtr_client::ClientBuilder) -> mrtr_client::ClientBuilder| {
        let (client, _peer): (_, Peer) = modern(|_| Vec::new());
        change(client).build().map(drop)
    };
    assert!(build(|client| client).is_ok());
    assert!(matches!(
        build(|client| client.bearer("x")),
        Err(BuildError::OnlyOverHttp)
    ));
    let nameless = Client::pipe("", tokio::io::empty(), tokio::io::sink()).build();
    assert!(matches!(nameless, Err(BuildError::Name)));
}
