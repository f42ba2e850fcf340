//! Sessions: opened, carried, lost, ended; and requests in them.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mrtr_client::{CallError, Client, ClientBuilder, EraChoice, ProtocolError, RequestError};
use mrtr_protocol::LogLevel;
use serde_json::{Value, json};

use crate::script::{
    Recorder, Reply, Seen, Server, Streams, in_process, response, session, text, yes,
};

fn earlier(recorder: &Recorder) -> ClientBuilder {
    in_process(recorder).era(EraChoice::Earlier)
}

#[tokio::test]
async fn everything_after_the_handshake_is_in_the_session() {
    let server = Server::start(session("2025-06-18", |seen| match seen.what() {
        "tools/call" => Some(Reply::Result(text("x"))),
        "tools/list" => Some(Reply::Result(
            json!({"tools": [], "resultType": "nonsense"}),
        )),
        _ => None,
    }))
    .await;
    let client = server
        .client()
        .era(EraChoice::Earlier)
        .bearer("user-a")
        .on_form(yes)
        .on_roots(async |_| Ok(vec![]))
        .build()
        .unwrap();
    client.list_tools().await.unwrap();
    client.call_tool("t", json!({"a": 1})).await.unwrap();
    client.close().await;
    let seen = server.seen();
    let initialize = seen
        .iter()
        .find(|seen| seen.what() == "initialize")
        .unwrap();
    assert_eq!(
        *initialize.params(),
        json!({"protocolVersion": "2025-11-25", "clientInfo": {"name": "mrtr-client", "version": env!("CARGO_PKG_VERSION")},
            "capabilities": {"elicitation": {"form": {}}, "roots": {"listChanged": true}}})
    );
    for name in ["mcp-session-id", "mcp-protocol-version"] {
        assert!(initialize.headers.get(name).is_none(), "{name}");
    }
    for after in seen.iter().filter(|seen| seen.what() != "initialize") {
        assert_eq!(after.header("mcp-session-id"), "s-1", "{after:?}");
        assert_eq!(
            after.header("mcp-protocol-version"),
            "2025-06-18",
            "{after:?}"
        );
        assert_eq!(after.header("authorization"), "Bearer user-a", "{after:?}");
        assert!(after.headers.get("mcp-method").is_none(), "{after:?}");
    }
    let call = server.recorder.until("tools/call", 1).await;
    assert_eq!(*call.params(), json!({"name": "t", "arguments": {"a": 1}}));
    assert!(
        call.header("accept")
            .contains("application/json, text/event-stream")
    );
    assert_eq!(server.recorder.methods().last().unwrap(), "DELETE");
}

#[tokio::test]
async fn a_server_without_sessions_is_one_too() {
    let recorder = Recorder::new(session("2025-03-26", |seen| match seen.what() {
        "initialize" => Some(Reply::Result(
            json!({"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}),
        )),
        "tools/call" => Some(Reply::Result(text("x"))),
        _ => None,
    }));
    let client = earlier(&recorder).build().unwrap();
    client.call_tool("t", ()).await.unwrap();
    client.close().await;
    assert!(
        recorder
            .seen()
            .iter()
            .all(|seen| !seen.headers.contains_key("mcp-session-id"))
    );
    assert!(!recorder.methods().contains(&"DELETE".to_owned()));
}

#[tokio::test]
async fn one_session_is_opened_however_many_call_first() {
    let recorder = Recorder::new(session("2025-11-25", |seen| {
        (seen.what() == "tools/call" && !seen.is_modern()).then(|| Reply::Result(text("x")))
    }));
    let client = in_process(&recorder).build().unwrap();
    let calls = (0..20).map(|_| client.call_tool("t", ()));
    futures_util::future::try_join_all(calls).await.unwrap();
    let count = |what: &str| recorder.methods().iter().filter(|own| *own == what).count();
    assert_eq!(
        (count("initialize"), count("notifications/initialized")),
        (1, 1)
    );
}

#[tokio::test]
async fn a_result_of_this_era_is_complete_whatever_it_says() {
    let round = json!({"resultType": "input_required", "content": [{"type": "text", "text": "x"}], "requestState": "S",
        "inputRequests": {"k": crate::script::form()}});
    let recorder = Recorder::new(session("2025-11-25", move |seen| {
        (seen.what() == "tools/call").then(|| Reply::Result(round.clone()))
    }));
    let client = earlier(&recorder)
        .on_form(async |_| panic!("asked"))
        .build()
        .unwrap();
    let result = client.call_tool("t", ()).await.unwrap();
    assert_eq!(result.joined_text(), "x");
}

#[tokio::test]
async fn answers_may_come_as_streams_and_in_batches() {
    let body = |seen: &Seen| {
        let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": 1}});
        let other = response(&json!("other"), text("not mine"));
        json!([log, 7, other, response(seen.id(), text("x"))]).to_string()
    };
    let as_json = Recorder::new(session("2025-03-26", move |seen| {
        let ok = axum::http::StatusCode::OK;
        (seen.what() == "tools/call").then(|| Reply::Raw(ok, "application/json", body(seen)))
    }));
    let as_events = Recorder::new(session("2025-03-26", move |seen| {
        (seen.what() == "tools/call")
            .then(|| Reply::Stream(vec![format!("data: {}\n\n", body(seen))], true))
    }));
    for recorder in [as_json, as_events] {
        let heard = Arc::new(AtomicUsize::new(0));
        let into = Arc::clone(&heard);
        let client = earlier(&recorder)
            .on_log(LogLevel::Debug, move |_| {
                into.fetch_add(1, Ordering::Relaxed);
            })
            .build()
            .unwrap();
        let result = client.call_tool("t", ()).await.unwrap();
        assert_eq!(result.joined_text(), "x");
        assert_eq!(heard.load(Ordering::Relaxed), 1);
    }
    // Later revisions have none.
    let recorder = Recorder::new(session("2025-06-18", move |seen| {
        let ok = axum::http::StatusCode::OK;
        (seen.what() == "tools/call").then(|| Reply::Raw(ok, "application/json", body(seen)))
    }));
    let client = earlier(&recorder).build().unwrap();
    let error = client.call_tool("t", ()).await.unwrap_err();
    assert!(matches!(error, CallError::OutcomeUnknown { .. }), "{error}");
}

#[tokio::test]
async fn a_session_id_that_no_header_should_carry_is_refused() {
    let with_id = |id: &str| {
        let id = id.to_owned();
        Recorder::new(session("2025-11-25", move |seen| match seen.what() {
            "initialize" => Some(Reply::With(
                "mcp-session-id",
                id.clone(),
                Box::new(Reply::Result(
                    json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}),
                )),
            )),
            "tools/call" => Some(Reply::Result(text("x"))),
            _ => None,
        }))
    };
    let longest = "x".repeat(1024);
    for good in ["!", "~", "eyJ.a-b_c", &longest] {
        let recorder = with_id(good);
        earlier(&recorder)
            .build()
            .unwrap()
            .call_tool("t", ())
            .await
            .unwrap();
        assert_eq!(
            recorder
                .until("tools/call", 1)
                .await
                .header("mcp-session-id"),
            good
        );
    }
    let long = "x".repeat(1025);
    for bad in ["", "a b", "a\tb", "é", &long] {
        let recorder = with_id(bad);
        let error = earlier(&recorder)
            .build()
            .unwrap()
            .call_tool("t", ())
            .await
            .unwrap_err();
        let CallError::NotSent {
            source: RequestError::Handshake(source),
            ..
        } = &error
        else {
            panic!("{bad:.9}: {error}")
        };
        assert!(matches!(
            **source,
            RequestError::Protocol(ProtocolError::SessionId)
        ));
        assert_eq!(recorder.methods(), ["initialize"]);
    }
}

#[tokio::test]
async fn versions_are_negotiated_and_a_foreign_one_ends_it() {
    let offers = |version: &'static str| session(version, |_| None);
    for good in ["2025-11-25", "2025-06-18", "2025-03-26"] {
        let recorder = Recorder::new(offers(good));
        earlier(&recorder).build().unwrap().ping().await.unwrap();
    }
    for bad in ["2024-11-05", "2026-07-28", "1", ""] {
        let recorder = Recorder::new(offers(bad));
        let error = earlier(&recorder)
            .build()
            .unwrap()
            .call_tool("t", ())
            .await
            .unwrap_err();
        assert!(matches!(error, CallError::NotSent { .. }), "{error}");
        assert!(
            error.to_string().contains(&format!("revision {bad:?}")),
            "{error}"
        );
        // Disconnected, which here means that the session is given up.
        assert_eq!(recorder.methods(), ["initialize", "DELETE"]);
    }
    // A server that says which it has instead of offering one.
    let picky = session("2025-03-26", |seen| {
        let wants_latest = seen.param("protocolVersion") == Some(&json!("2025-11-25"));
        wants_latest.then(|| {
            let data =
                json!({"supported": ["2024-11-05", "2025-03-26"], "requested": "2025-11-25"});
            Reply::Error(
                axum::http::StatusCode::BAD_REQUEST,
                json!({"code": -32602, "message": "Unsupported protocol version", "data": data}),
            )
        })
    });
    let recorder = Recorder::new(picky);
    earlier(&recorder).build().unwrap().ping().await.unwrap();
    assert_eq!(recorder.seen()[1].params()["protocolVersion"], "2025-03-26");
}

#[tokio::test]
async fn the_session_is_the_one_that_was_opened() {
    let recorder = Recorder::new(session("2025-11-25", |seen| match seen.what() {
        "tools/call" => Some(Reply::With(
            "mcp-session-id",
            "s-666".to_owned(),
            Box::new(Reply::Result(text("x"))),
        )),
        _ => None,
    }));
    let client = earlier(&recorder).build().unwrap();
    client.call_tool("t", ()).await.unwrap();
    client.call_tool("t", ()).await.unwrap();
    let second = recorder.until("tools/call", 2).await;
    assert_eq!(second.header("mcp-session-id"), "s-1");
}

#[tokio::test]
async fn an_answer_to_another_request_is_no_answer() {
    let other = json!({"jsonrpc": "2.0", "id": "other", "result": text("stolen")}).to_string();
    let (as_json, as_event) = (other.clone(), format!("data: {other}\n\n"));
    let recorder = Recorder::new(session("2025-11-25", move |seen| match seen.what() {
        "tools/call" if seen.params()["name"] == "json" => Some(Reply::Raw(
            axum::http::StatusCode::OK,
            "application/json",
            as_json.clone(),
        )),
        "tools/call" => Some(Reply::Stream(vec![as_event.clone()], false)),
        _ => None,
    }));
    let client = earlier(&recorder).build().unwrap();
    for tool in ["json", "stream"] {
        let error = client.call_tool(tool, ()).await.unwrap_err();
        assert!(
            matches!(error, CallError::OutcomeUnknown { .. }),
            "{tool}: {error}"
        );
    }
}

#[tokio::test]
async fn case_230_a_lost_session_is_opened_anew_and_no_call_is_repeated() {
    let lost: [fn() -> Reply; 3] = [
        || Reply::status(404),
        || {
            Reply::Raw(
                axum::http::StatusCode::NOT_FOUND,
                "application/json",
                "{}".to_owned(),
            )
        },
        || {
            Reply::Error(
                axum::http::StatusCode::NOT_FOUND,
                json!({"code": -32001, "message": "Session not found"}),
            )
        },
    ];
    for lost in lost {
        let sessions = Arc::new(AtomicUsize::new(0));
        let opened = Arc::clone(&sessions);
        let recorder = Recorder::new(session("2025-11-25", move |seen| match seen.what() {
            "initialize" => {
                assert!(!seen.headers.contains_key("mcp-session-id"));
                let id = opened.fetch_add(1, Ordering::Relaxed) + 1;
                Some(Reply::With(
                    "mcp-session-id",
                    format!("s-{id}"),
                    Box::new(Reply::Result(
                        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}),
                    )),
                ))
            }
            "tools/call" | "tools/list" if seen.header("mcp-session-id") == "s-1" => Some(lost()),
            "tools/call" => Some(Reply::Result(text("x"))),
            "tools/list" => Some(Reply::Result(json!({"tools": []}))),
            _ => None,
        }));
        let client = earlier(&recorder).build().unwrap();
        let error = client.call_tool("t", ()).await.unwrap_err();
        let CallError::SessionLost { pending } = error else {
            panic!("{error}")
        };
        let count = |what: &str| recorder.methods().iter().filter(|own| *own == what).count();
        assert_eq!(
            (count("tools/call"), sessions.load(Ordering::Relaxed)),
            (1, 1)
        );
        // The next request opens another, and the call goes on when its host says so.
        client.finish(*pending).await.unwrap();
        assert_eq!(
            (count("tools/call"), sessions.load(Ordering::Relaxed)),
            (2, 2)
        );
        // What has no effect is sent again by itself.
        let client = earlier(&recorder).build().unwrap();
        sessions.store(0, Ordering::Relaxed);
        client.list_tools().await.unwrap();
        assert_eq!(
            (count("tools/list"), sessions.load(Ordering::Relaxed)),
            (2, 2)
        );
    }
}

#[tokio::test]
async fn a_method_that_is_not_found_is_no_lost_session() {
    let recorder = Recorder::new(session("2025-11-25", |seen| {
        let error = json!({"code": -32601, "message": "Method not found"});
        (seen.what() == "tools/call")
            .then(|| Reply::Error(axum::http::StatusCode::NOT_FOUND, error))
    }));
    let client = earlier(&recorder).build().unwrap();
    for _ in 0..2 {
        let error = client.call_tool("t", ()).await.unwrap_err();
        assert!(matches!(error, CallError::Rpc { .. }), "{error}");
    }
    let count = recorder
        .methods()
        .iter()
        .filter(|own| *own == "initialize")
        .count();
    assert_eq!(count, 1);
}

#[tokio::test]
async fn a_handshake_that_fails_leaves_the_call_unsent() {
    for status in [401, 500] {
        let recorder = Recorder::new(session("2025-11-25", move |seen| {
            (seen.what() == "initialize").then(|| Reply::status(status))
        }));
        let error = earlier(&recorder)
            .build()
            .unwrap()
            .call_tool("t", ())
            .await
            .unwrap_err();
        assert!(matches!(error, CallError::NotSent { .. }), "{error}");
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        assert_eq!(recorder.methods(), ["initialize"]);
    }
    let recorder = Recorder::new(session("2025-11-25", |seen| {
        (seen.what() == "notifications/initialized").then(|| Reply::status(400))
    }));
    let error = earlier(&recorder)
        .build()
        .unwrap()
        .call_tool("t", ())
        .await
        .unwrap_err();
    assert!(matches!(error, CallError::NotSent { .. }), "{error}");
}

/// Where each call's stream goes.
fn open_streams(streams: &Streams) -> impl Fn(usize, &Seen) -> Reply + Send + Sync + 'static {
    let streams = streams.clone();
    session("2025-11-25", move |seen| {
        (seen.what() == "tools/call").then(|| streams.open())
    })
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_and_so_is_one_that_takes_too_long() {
    let streams = Streams::default();
    let recorder = Recorder::new(open_streams(&streams));
    let client = earlier(&recorder).build().unwrap();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("t", ()).await }
    });
    let seen = recorder.until("tools/call", 1).await;
    call.abort();
    let cancelled = recorder.until("notifications/cancelled", 1).await;
    assert_eq!(cancelled.params()["requestId"], *seen.id());
    assert_eq!(cancelled.header("mcp-session-id"), "s-1");
    streams.closed(0).await;

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
    let seen = recorder.until("tools/call", 2).await;
    let cancelled = recorder.until("notifications/cancelled", 2).await;
    assert_eq!(cancelled.params()["requestId"], *seen.id());
    // What is answered is not cancelled.
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("t", ()).await }
    });
    let seen = recorder.until("tools/call", 3).await;
    streams.send(2, &response(seen.id(), text("x")));
    call.await.unwrap().unwrap();
    client.ping().await.unwrap();
    let count = |what: &str| recorder.methods().iter().filter(|own| *own == what).count();
    assert_eq!(count("notifications/cancelled"), 2);
}

#[tokio::test]
async fn the_handshake_is_never_cancelled() {
    let recorder = Recorder::new(session("2025-11-25", |seen| {
        (seen.what() == "initialize").then_some(Reply::Silence)
    }));
    let client = earlier(&recorder)
        .request_timeout(Duration::from_millis(50))
        .build()
        .unwrap();
    let error = client.call_tool("t", ()).await.unwrap_err();
    assert!(matches!(error, CallError::NotSent { .. }), "{error}");
    tokio::task::yield_now().await;
    assert_eq!(recorder.methods(), ["initialize"]);
}

fn progress(token: &Value, progress: u32) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": progress, "total": 100, "message": "m"}})
}

#[tokio::test(start_paused = true)]
async fn progress_is_reported_and_lets_a_call_take_longer() {
    let streams = Streams::default();
    let recorder = Recorder::new(open_streams(&streams));
    let heard: Arc<Mutex<Vec<(String, f64)>>> = Arc::default();
    let into = Arc::clone(&heard);
    let client = earlier(&recorder)
        .request_timeout(Duration::from_secs(60))
        .max_request_time(Duration::from_secs(600))
        .on_progress(move |report| {
            let target = report.target.unwrap().to_string();
            into.lock().unwrap().push((target, report.progress));
        })
        .build()
        .unwrap();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("t", ()).await }
    });
    let seen = recorder.until("tools/call", 1).await;
    let token = seen.params()["_meta"]["progressToken"].clone();
    assert_eq!(token, *seen.id());
    for n in 1..=5 {
        tokio::time::sleep(Duration::from_secs(50)).await;
        streams.send(0, &progress(&token, n));
    }
    tokio::time::sleep(Duration::from_secs(50)).await;
    streams.send(0, &response(seen.id(), text("x")));
    call.await.unwrap().unwrap();
    let all = heard.lock().unwrap().clone();
    assert_eq!(all.len(), 5);
    assert_eq!(all[4], ("tool t".to_owned(), 5.0));
    // There is an end to it.
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("t", ()).await }
    });
    let seen = recorder.until("tools/call", 2).await;
    let token = seen.params()["_meta"]["progressToken"].clone();
    let begun = tokio::time::Instant::now();
    for n in 1.. {
        if call.is_finished() {
            break;
        }
        streams.send(1, &progress(&token, n));
        tokio::time::sleep(Duration::from_secs(50)).await;
    }
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(
        error,
        CallError::OutcomeUnknown {
            source: RequestError::TimedOut { .. },
            ..
        }
    ));
    assert!(begun.elapsed() <= Duration::from_secs(650));
    // Without a listener nobody asks for reports.
    let quiet: Client = earlier(&recorder).build().unwrap();
    let call = quiet.with_timeout(Duration::from_secs(1));
    call.call_tool("t", ()).await.unwrap_err();
    assert!(
        recorder
            .until("tools/call", 3)
            .await
            .param("_meta")
            .is_none()
    );
}

#[tokio::test]
async fn the_session_is_told_which_log_messages_are_wanted() {
    let recorder = Recorder::new(session("2025-11-25", |seen| {
        (seen.what() == "tools/call").then(|| Reply::Result(text("x")))
    }));
    let client = earlier(&recorder)
        .on_log(LogLevel::Notice, |_| {})
        .build()
        .unwrap();
    client.call_tool("t", ()).await.unwrap();
    let set = recorder.until("logging/setLevel", 1).await;
    assert_eq!(*set.params(), json!({"level": "notice"}));
    client.set_log_level(LogLevel::Error).await.unwrap();
    let set = recorder.until("logging/setLevel", 2).await;
    assert_eq!(*set.params(), json!({"level": "error"}));
    // The session is told, not each call.
    assert!(
        recorder
            .until("tools/call", 1)
            .await
            .param("_meta")
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_take_the_level_holds_up_no_call_for_long() {
    let recorder = Recorder::new(session("2025-11-25", |seen| match seen.what() {
        "tools/call" => Some(Reply::Result(text("x"))),
        "logging/setLevel" => Some(Reply::Silence),
        _ => None,
    }));
    let client = earlier(&recorder)
        .on_log(LogLevel::Notice, |_| {})
        .build()
        .unwrap();
    let begun = tokio::time::Instant::now();
    client.call_tool("t", ()).await.unwrap();
    assert!(
        begun.elapsed() <= Duration::from_secs(12),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn meta_of_the_host_goes_with_its_requests() {
    let recorder = Recorder::new(session("2025-11-25", |seen| {
        (seen.what() == "tools/call").then(|| Reply::Result(text("x")))
    }));
    let client = earlier(&recorder).build().unwrap();
    let traced = client.with_meta("traceparent", "00-1").unwrap();
    traced.call_tool("t", ()).await.unwrap();
    assert_eq!(
        recorder.until("tools/call", 1).await.params()["_meta"],
        json!({"traceparent": "00-1"})
    );
    for own in ["progressToken", "io.modelcontextprotocol/protocolVersion"] {
        assert!(client.with_meta(own, "x").is_err(), "{own}");
    }
}

#[tokio::test]
async fn closing_ends_the_session_and_the_next_request_opens_another() {
    let recorder = Recorder::new(session("2025-11-25", |seen| match seen.what() {
        "DELETE" => Some(Reply::status(405)),
        _ => None,
    }));
    let client = earlier(&recorder).build().unwrap();
    client.close().await;
    assert_eq!(recorder.count(), 0, "nothing was open");
    client.ping().await.unwrap();
    client.close().await;
    client.close().await;
    client.ping().await.unwrap();
    assert_eq!(
        recorder.methods(),
        [
            "initialize",
            "notifications/initialized",
            "ping",
            "DELETE",
            "initialize",
            "notifications/initialized",
            "ping"
        ]
    );
    assert!(!recorder.seen()[4].headers.contains_key("mcp-session-id"));
}

#[tokio::test]
async fn folders_that_changed_are_announced_to_whoever_may_ask_for_them() {
    let recorder = Recorder::new(session("2025-11-25", |_| None));
    let client = earlier(&recorder)
        .on_roots(async |_| Ok(vec![]))
        .build()
        .unwrap();
    client.roots_changed().await.unwrap();
    assert_eq!(recorder.count(), 0, "no session, and a new one asks anyway");
    client.ping().await.unwrap();
    client.roots_changed().await.unwrap();
    let told = recorder.until("notifications/roots/list_changed", 1).await;
    assert!(told.body.get("id").is_none());
    let recorder = Recorder::new(session("2025-11-25", |_| None));
    let client = earlier(&recorder).build().unwrap();
    client.ping().await.unwrap();
    client.roots_changed().await.unwrap();
    assert!(
        !recorder
            .methods()
            .contains(&"notifications/roots/list_changed".to_owned())
    );
}
