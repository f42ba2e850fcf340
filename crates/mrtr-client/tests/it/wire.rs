//! Statuses, ids, broken connections.

use std::time::Duration;

use axum::http::StatusCode;
use mrtr_client::{
    CallError, Client, EraChoice, HttpTransport, Progress, ProtocolError, Repeat, RequestError,
};
use mrtr_protocol::KnownError;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::script::{Reply, Server, asks, done, form, yes};

pub(crate) fn message(id: &Value, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "content": [{"type": "text", "text": text}]}})
}

#[tokio::test]
async fn case_211_redirects_are_not_followed() {
    let target = Server::start(|_, _| done("stolen")).await;
    // Another origin, and the same one: what would be sent again is the call.
    for to in [
        target.url.as_str(),
        "/elsewhere",
        "https://other.example/mcp",
    ] {
        for status in [301, 302, 303, 307, 308] {
            let status = StatusCode::from_u16(status).unwrap();
            let to = to.to_owned();
            let server = Server::start(move |n, _| match n {
                1 => asks("k", "S"),
                _ => Reply::Redirect(status, to.clone()),
            })
            .await;
            let client = server.client().bearer("user-a").on_form(yes);
            let error = client
                .build()
                .unwrap()
                .call_tool("t", ())
                .await
                .unwrap_err();
            assert!(
                matches!(&error, CallError::Http { status: told, .. } if *told == status),
                "{error}"
            );
            assert!(error.to_string().contains("redirects are not followed"));
            assert_eq!((server.count(), target.count()), (2, 0), "{status}");
        }
    }
}

/// Runs [`with_a_proxy_in_the_environment`] in a process of its own: the environment of this one belongs to every test.
async fn calls_beside_a_proxy(transport: &'static str) -> (usize, usize) {
    let target = Server::start(|_, _| done("x")).await;
    let proxy = Server::start(|_, _| done("x")).await;
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child
        .args([
            "--exact",
            "wire::with_a_proxy_in_the_environment",
            "--ignored",
        ])
        .env("MRTR_TEST_TARGET", &target.url)
        .env("MRTR_TEST_TRANSPORT", transport)
        .env_remove("NO_PROXY")
        .env_remove("no_proxy");
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(name, proxy.url.trim_end_matches("/mcp"));
    }
    let output = tokio::task::spawn_blocking(move || child.output())
        .await
        .unwrap()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    (target.count(), proxy.count())
}

#[tokio::test]
async fn no_proxy_is_taken_from_the_environment() {
    // reqwest left to itself would take it, so the environment is one that counts.
    assert_eq!(calls_beside_a_proxy("reqwest").await, (0, 1));
    assert_eq!(calls_beside_a_proxy("default").await, (1, 0));
}

#[tokio::test]
#[ignore = "a child process of `no_proxy_is_taken_from_the_environment`"]
async fn with_a_proxy_in_the_environment() {
    let Ok(url) = std::env::var("MRTR_TEST_TARGET") else {
        return;
    };
    let mut client = Client::builder(url);
    if std::env::var("MRTR_TEST_TRANSPORT").as_deref() == Ok("reqwest") {
        client = client.transport(HttpTransport::from_reqwest(reqwest::Client::new()));
    }
    client.build().unwrap().call_tool("t", ()).await.unwrap();
}

#[tokio::test]
async fn statuses_without_a_json_rpc_answer() {
    let server = Server::start(|_, seen| {
        let status = seen.params()["arguments"]["status"].as_u64().unwrap();
        let media = if status % 2 == 0 {
            "application/json"
        } else {
            "text/html"
        };
        Reply::Raw(
            StatusCode::from_u16(u16::try_from(status).unwrap()).unwrap(),
            media,
            "{\"error\":\"no\"}".to_owned(),
        )
    })
    .await;
    let client = server.client().era(EraChoice::Modern).build().unwrap();
    for code in [301, 400, 401, 403, 404, 405, 413, 415, 429] {
        let error = client
            .call_tool("t", json!({"status": code}))
            .await
            .unwrap_err();
        assert!(
            matches!(&error, CallError::Http { status, .. } if status.as_u16() == code),
            "{code}: {error}"
        );
    }
    for code in [500, 502, 503, 504] {
        let error = client
            .call_tool("t", json!({"status": code}))
            .await
            .unwrap_err();
        assert!(
            matches!(
                &error,
                CallError::OutcomeUnknown {
                    source: RequestError::Http { .. },
                    ..
                }
            ),
            "{code}: {error}"
        );
    }
    for (code, expected) in [(200, "not a JSON-RPC response"), (201, "neither")] {
        let error = client
            .call_tool("t", json!({"status": code}))
            .await
            .unwrap_err();
        assert!(
            matches!(
                error,
                CallError::OutcomeUnknown {
                    source: RequestError::Protocol(_),
                    ..
                }
            ) && error.to_string().contains(expected),
            "{code}: {error}"
        );
    }
}

#[tokio::test]
async fn advice_on_a_status_is_given_with_and_without_a_json_rpc_error() {
    let server = Server::start(|_, seen| {
        let arguments = &seen.params()["arguments"];
        let status = u16::try_from(arguments["status"].as_u64().unwrap()).unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        if arguments["rpc"] == true {
            Reply::Error(status, json!({"code": -32600, "message": "No."}))
        } else {
            Reply::Raw(status, "text/plain", "no".to_owned())
        }
    })
    .await;
    let client = server.client().era(EraChoice::Modern).build().unwrap();
    let text = async |status: u16, rpc: bool| {
        let arguments = json!({"status": status, "rpc": rpc});
        client
            .call_tool("t", arguments)
            .await
            .unwrap_err()
            .to_string()
    };
    for (status, advice) in [
        (401, "the bearer token is missing, wrong or expired"),
        (403, "this Origin or Host"),
        (413, "the request is too large"),
        (429, "wait before the next"),
    ] {
        for rpc in [false, true] {
            let text = text(status, rpc).await;
            assert!(text.contains(&format!("HTTP status {status}")), "{text}");
            assert!(text.contains(advice), "{text}");
            assert_eq!(text.contains("error -32600: No."), rpc, "{text}");
        }
    }
    assert!(text(404, false).await.contains("check the path"));
    let not_found = text(404, true).await;
    assert!(
        not_found.contains("HTTP status 404") && !not_found.contains("path"),
        "{not_found}"
    );
    assert_eq!(
        text(200, true).await,
        "the server answered with error -32600: No."
    );
}

#[tokio::test]
async fn errors_of_the_server_are_typed() {
    let server = Server::start(|_, seen| {
        Reply::Error(StatusCode::BAD_REQUEST, seen.params()["arguments"].clone())
    })
    .await;
    let client = server.client().build().unwrap();
    let call = async |error: Value| match client.call_tool("t", error).await {
        Err(CallError::Rpc { source, .. }) => (source.known(), source.to_string()),
        other => panic!("{other:?}"),
    };
    let (known, text) = call(json!({"code": -32021, "message": "needs forms", "data": {"requiredCapabilities": {"elicitation": {"form": {}}}}})).await;
    assert!(matches!(known, Some(KnownError::MissingCapability(_))));
    assert!(text.ends_with("(register a handler for: form)"), "{text}");
    let (known, text) = call(json!({"code": -32022, "message": "no", "data": {"supported": ["2025-11-25"], "requested": "2026-07-28"}})).await;
    assert!(matches!(known, Some(KnownError::UnsupportedVersion(_))));
    assert!(text.contains("2025-11-25"), "{text}");
    let (known, _) = call(json!({"code": -32602, "message": "Invalid requestState: expired.", "data": {"reason": "expired"}})).await;
    assert!(matches!(known, Some(KnownError::StateRejected(data)) if data.reason == "expired"));
    let (known, _) = call(json!({"code": -32602, "message": "Unknown tool"})).await;
    assert_eq!(known, None);
    let (known, _) = call(json!({"code": 1002, "message": "unknown"})).await;
    assert_eq!(known, Some(KnownError::OutcomeUnknown));
}

#[tokio::test]
async fn case_256_ids_of_responses_are_checked() {
    let server = Server::start(|_, seen| {
        let arguments = &seen.params()["arguments"];
        let mut body = arguments["body"].clone();
        if arguments["own"] == true {
            body["id"] = seen.id().clone();
        }
        Reply::Raw(
            StatusCode::OK,
            "application/json; charset=utf-8",
            body.to_string(),
        )
    })
    .await;
    let client = server.client().build().unwrap();
    let result = json!({"resultType": "complete", "content": []});
    let error = json!({"code": -32700, "message": "x"});
    client
        .call_tool(
            "t",
            json!({"own": true, "body": {"jsonrpc": "2.0", "result": result}}),
        )
        .await
        .unwrap();
    for body in [
        json!({"jsonrpc": "2.0", "error": error}),
        json!({"jsonrpc": "2.0", "id": null, "error": error}),
    ] {
        assert!(
            matches!(
                client.call_tool("t", json!({"body": body})).await,
                Err(CallError::Rpc { .. })
            ),
            "{body}"
        );
    }
    for body in [
        json!({"jsonrpc": "2.0", "id": 999, "result": result}),
        json!({"jsonrpc": "2.0", "id": "1", "result": result}),
        json!({"jsonrpc": "2.0", "id": 999, "error": error}),
    ] {
        assert!(
            matches!(
                client.call_tool("t", json!({"body": body})).await,
                Err(CallError::OutcomeUnknown {
                    source: RequestError::Protocol(ProtocolError::OtherId),
                    ..
                })
            ),
            "{body}"
        );
    }
    for body in [
        json!({"jsonrpc": "2.0", "id": null, "result": result}),
        json!({"jsonrpc": "2.0", "result": result, "error": error}),
        json!([{"jsonrpc": "2.0", "id": 1, "result": result}]),
        json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create"}),
    ] {
        assert!(
            matches!(
                client.call_tool("t", json!({"body": body})).await,
                Err(CallError::OutcomeUnknown {
                    source: RequestError::Protocol(ProtocolError::Envelope(_)),
                    ..
                })
            ),
            "{body}"
        );
    }
}

#[tokio::test]
async fn ambiguous_answers_are_refused() {
    let server = Server::start(|_, seen| {
        let twice = seen.params()["arguments"]["twice"].as_str().unwrap();
        Reply::Raw(StatusCode::OK, "application/json", format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"complete","content":[],"_meta":{{"a":1,"{twice}":2}}}}}}"#, seen.id()))
    })
    .await;
    let client = server.client().build().unwrap();
    client.call_tool("t", json!({"twice": "b"})).await.unwrap();
    for twice in ["a", r"\u0061", "$serde_json::private::RawValue"] {
        assert!(
            matches!(
                client.call_tool("t", json!({"twice": twice})).await,
                Err(CallError::OutcomeUnknown {
                    source: RequestError::Protocol(ProtocolError::Strict(_)),
                    ..
                })
            ),
            "{twice}"
        );
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_an_unknown_outcome() {
    let results = [
        json!({"resultType": "complete", "content": 7}),
        json!({"resultType": "task"}),
        json!({"resultType": "input_required"}),
        json!({"resultType": "input_required", "inputRequests": [], "requestState": "S2"}),
    ];
    for result in results {
        let server = Server::start(move |n, seen| match n {
            1 => asks("k", "S1"),
            2 => Reply::Result(result.clone()),
            3 => Reply::Raw(StatusCode::OK, "application/json", "{".to_owned()),
            4 => Reply::Raw(StatusCode::OK, "text/html", "<p>".to_owned()),
            5 => Reply::Stream(vec!["data: {\n\n".to_owned()], false),
            _ => {
                assert_eq!(seen.param("requestState"), Some(&json!("S1")));
                done("booked")
            }
        })
        .await;
        let client = server.client().on_form(yes).build().unwrap();
        let mut error = client.call_tool("t", json!({"a": 1})).await.unwrap_err();
        for count in 2..=5 {
            assert!(
                matches!(
                    &error,
                    CallError::OutcomeUnknown {
                        source: RequestError::Protocol(_),
                        ..
                    }
                ),
                "{error}"
            );
            assert_eq!(error.repeat(), Some(Repeat::SafeWithLedger));
            assert_eq!(server.count(), count, "nothing is repeated by itself");
            let pending = error.into_pending().unwrap();
            // The call as it was sent: the person need not answer again.
            assert_eq!((pending.round(), pending.unanswered().count()), (1, 0));
            match client.resume(pending).await {
                Ok(Progress::Done(result)) => {
                    assert_eq!((result.joined_text().as_str(), count), ("booked", 5));
                    break;
                }
                Ok(other) => panic!("{other:?}"),
                Err(next) => error = next,
            }
        }
        let seen = server.seen();
        assert_eq!(seen.len(), 6);
        for again in &seen[2..] {
            assert_eq!(
                again.param("inputResponses"),
                seen[1].param("inputResponses")
            );
        }
    }
}

#[tokio::test]
async fn a_server_that_is_away_was_sent_nothing() {
    // A port that was just free.
    let address = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let client = Client::builder(format!("http://{address}/mcp"))
        .build()
        .unwrap();
    let error = client.call_tool("t", ()).await.unwrap_err();
    assert!(matches!(error, CallError::NotSent { .. }), "{error}");
    assert!(error.to_string().contains("nothing was sent"));
    assert!(matches!(
        client.discover().await,
        Err(RequestError::NotSent(_))
    ));
}

/// Reads one whole request and returns its body.
async fn read_request(stream: &mut TcpStream) -> Value {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let n = stream.read(&mut chunk).await.unwrap();
        assert!(n > 0, "the request ends too early");
        bytes.extend_from_slice(&chunk[..n]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_ascii_lowercase();
        let length: usize = head
            .split("content-length: ")
            .nth(1)
            .unwrap()
            .lines()
            .next()
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        if body.len() >= length {
            return serde_json::from_str(body).unwrap();
        }
    }
}

async fn respond(stream: &mut TcpStream, body: &Value) {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .await
        .unwrap();
}

/// Cuts connections: those whose number is in `cut`, once the request was read. Others are answered: the first request with a question,
/// one with a state with a result. Sends every body that arrived.
async fn cutting_server(
    cut: &'static [usize],
) -> (String, tokio::sync::mpsc::UnboundedReceiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        for n in 1.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = read_request(&mut stream).await;
            if !cut.contains(&n) {
                let result = match request["params"].get("requestState") {
                    Some(_) => message(&request["id"], "done")["result"].clone(),
                    None => {
                        json!({"resultType": "input_required", "inputRequests": {"k": form()}, "requestState": "S"})
                    }
                };
                respond(
                    &mut stream,
                    &json!({"jsonrpc": "2.0", "id": request["id"], "result": result}),
                )
                .await;
            }
            if sender.send(request).is_err() {
                return;
            }
        }
    });
    (url, receiver)
}

#[tokio::test]
async fn case_151_a_cut_first_request_may_repeat_effects() {
    let (url, mut seen) = cutting_server(&[1]).await;
    let client = Client::builder(url).on_form(yes).build().unwrap();
    let error = client
        .call_tool("t", json!({"amount": 1}))
        .await
        .unwrap_err();
    assert!(
        matches!(
            &error,
            CallError::OutcomeUnknown {
                source: RequestError::Interrupted(_),
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.repeat(), Some(Repeat::MayRepeatEffects));
    assert!(
        error.to_string().contains("may repeat its effects"),
        "{error}"
    );
    let first = seen.recv().await.unwrap();
    assert!(seen.try_recv().is_err(), "it is not repeated by itself");

    // The host decides to send it again.
    client.finish(error.into_pending().unwrap()).await.unwrap();
    let second = seen.recv().await.unwrap();
    assert_eq!(first["params"], second["params"]);
    assert_ne!(first["id"], second["id"]);
}

#[tokio::test]
async fn case_151_a_cut_retry_is_safe_with_a_ledger() {
    let (url, mut seen) = cutting_server(&[2]).await;
    let client = Client::builder(url).on_form(yes).build().unwrap();
    let error = client
        .call_tool("t", json!({"amount": 1}))
        .await
        .unwrap_err();
    assert_eq!(error.repeat(), Some(Repeat::SafeWithLedger));
    assert!(
        error
            .to_string()
            .contains("safe against a server with a replay ledger"),
        "{error}"
    );
    seen.recv().await.unwrap();
    let cut = seen.recv().await.unwrap();
    assert!(seen.try_recv().is_err(), "it is not repeated by itself");

    // Stored and reloaded, the same retry goes out: state and answers, under a new id. Nobody is asked again.
    let stored = serde_json::to_string(&error.into_pending().unwrap()).unwrap();
    let Progress::Done(result) = client
        .resume(serde_json::from_str(&stored).unwrap())
        .await
        .unwrap()
    else {
        panic!()
    };
    assert_eq!(result.joined_text(), "done");
    let again = seen.recv().await.unwrap();
    assert_eq!(cut["params"], again["params"]);
    assert_ne!(cut["id"], again["id"]);
}

#[tokio::test]
async fn an_answer_cut_in_the_middle_is_an_unknown_outcome() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"jsonrpc\":\"2.0\",").await.unwrap();
    });
    let error = Client::builder(url)
        .build()
        .unwrap()
        .call_tool("t", ())
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            CallError::OutcomeUnknown {
                source: RequestError::Interrupted(_),
                ..
            }
        ),
        "{error}"
    );
    server.await.unwrap();
}

#[tokio::test]
async fn in_progress_says_when_to_come_back() {
    let server = Server::start(|n, _| match n {
        1 => asks("k", "S"),
        2 => Reply::Error(
            StatusCode::OK,
            json!({"code": 1001, "message": "In progress", "data": {"retryAfterMs": 250}}),
        ),
        3 => Reply::Error(
            StatusCode::OK,
            json!({"code": 1001, "message": "In progress"}),
        ),
        _ => done("stored"),
    })
    .await;
    let client = server.client().on_form(yes).build().unwrap();
    let CallError::InProgress {
        retry_after,
        pending,
    } = client.call_tool("t", ()).await.unwrap_err()
    else {
        panic!()
    };
    assert_eq!(retry_after, Duration::from_millis(250));
    let CallError::Rpc { pending, .. } = client.resume(*pending).await.unwrap_err() else {
        panic!("without a time it is an error like any other")
    };
    assert!(
        matches!(client.resume(*pending).await.unwrap(), Progress::Done(result) if result.joined_text() == "stored")
    );
    let seen = server.seen();
    assert_eq!(seen[1].params(), seen[3].params());
}

#[tokio::test]
async fn case_213_an_expired_token_does_not_cost_the_answers() {
    let server = Server::start(|n, seen| match (n, seen.header("authorization")) {
        (1, _) => asks("k", "S"),
        (_, "Bearer new") => done("x"),
        _ => Reply::Raw(StatusCode::UNAUTHORIZED, "text/plain", String::new()),
    })
    .await;
    let old = server.client().bearer("old").on_form(yes).build().unwrap();
    let error = old.call_tool("t", ()).await.unwrap_err();
    assert!(
        matches!(
            error,
            CallError::Http {
                status: StatusCode::UNAUTHORIZED,
                ..
            }
        ),
        "{error}"
    );
    let new = server.client().bearer("new").build().unwrap();
    assert!(matches!(
        new.resume(error.into_pending().unwrap()).await.unwrap(),
        Progress::Done(_)
    ));
}
