//! Lines: cut anywhere, too long, and such as are no messages (*stdio*).

use mrtr_client::{CallError, RequestError};
use serde_json::{Value, json};

use super::peer::{Said, modern, text};

fn bytes(said: Said) -> Vec<u8> {
    match said {
        Said::Line(message) => format!("{message}\n").into_bytes(),
        Said::Raw(bytes) => bytes,
    }
}

#[tokio::test]
async fn case_242_an_answer_may_be_cut_anywhere() {
    let (client, peer) = modern(|_| Vec::new());
    let client = client.build().unwrap();
    let call = tokio::spawn(async move { client.call_tool("t", ()).await });
    let seen = peer.until("tools/call", 1).await;
    for byte in bytes(text(&seen, "é😀\nx")) {
        peer.write([byte]);
        tokio::task::yield_now().await;
    }
    assert_eq!(call.await.unwrap().unwrap().joined_text(), "é😀\nx");
}

#[tokio::test]
async fn case_242_the_last_line_need_not_end() {
    let (client, peer) = modern(|_| Vec::new());
    let client = client.build().unwrap();
    let call = tokio::spawn(async move { client.call_tool("t", ()).await });
    let seen = peer.until("tools/call", 1).await;
    let mut line = bytes(text(&seen, "x"));
    line.pop();
    peer.write(line);
    peer.hang_up();
    assert_eq!(call.await.unwrap().unwrap().joined_text(), "x");
}

#[tokio::test]
async fn case_243_what_is_no_message_is_skipped_and_not_answered() {
    let mut garbage: Vec<Vec<u8>> = [
        "Listening on stdio",
        "",
        "   ",
        "\r",
        "\u{feff}",
        "null",
        "[]",
        "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}]",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"x\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":{\"code\":1,\"message\":\"x\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":99999,\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":null}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"x/y\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"elicitation/create\",\"params\":{}}",
        "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\"}",
    ]
    .iter()
    .map(|line| format!("{line}\n").into_bytes())
    .collect();
    garbage.push(b"\xff\xfe\n".to_vec());
    garbage.push([b"x".repeat(100_000), b"\n".to_vec()].concat());
    let (client, peer) = modern(move |message| {
        let mut said: Vec<Said> = garbage.iter().cloned().map(Said::Raw).collect();
        said.push(text(message, "x"));
        said
    });
    let client = client
        .max_response_bytes(10_000)
        .on_form(async |_| panic!("asked"))
        .build()
        .unwrap();
    for _ in 0..3 {
        assert_eq!(client.call_tool("t", ()).await.unwrap().joined_text(), "x");
    }
    assert_eq!(
        peer.methods(),
        ["server/discover", "tools/call", "tools/call", "tools/call"]
    );
}

/// Responses that are nobody's, or are none, while two calls wait for theirs.
#[tokio::test]
async fn case_256_a_response_that_is_nobodys_touches_no_call() {
    let (client, peer) = modern(|_| Vec::new());
    let client = client.build().unwrap();
    let calls = [(); 2].map(|()| {
        let client = client.clone();
        tokio::spawn(async move { client.call_tool("t", ()).await })
    });
    let first = peer.until("tools/call", 1).await;
    let second = peer.until("tools/call", 2).await;
    let error = json!({"code": -32603, "message": "x"});
    for (id, outcome) in [
        (json!(999), json!({"result": {}})),
        (json!(first["id"].to_string()), json!({"result": {}})),
        (json!(null), json!({"result": {}})),
        (json!(null), json!({"error": error})),
        (first["id"].clone(), json!({"result": {}, "error": error})),
        (first["id"].clone(), json!({})),
        (first["id"].clone(), json!({"Result": {}})),
        (first["id"].clone(), json!({"result": []})),
    ] {
        let mut message = outcome;
        message["jsonrpc"] = "2.0".into();
        message["id"] = id;
        peer.say(&message);
    }
    for (seen, said) in [(&second, "two"), (&first, "one")] {
        let Said::Line(answer) = text(seen, said) else {
            panic!()
        };
        peer.say(&answer);
    }
    let [one, two] = calls;
    assert_eq!(one.await.unwrap().unwrap().joined_text(), "one");
    assert_eq!(two.await.unwrap().unwrap().joined_text(), "two");
    assert_eq!(peer.methods().len(), 3, "and nothing is said to it");
}

#[tokio::test]
async fn case_250_an_answer_that_is_too_long_ends_its_own_request_at_once() {
    let (client, _peer) = modern(|message| {
        let size = message["params"]["arguments"]["size"].as_u64().unwrap();
        vec![text(message, &"x".repeat(usize::try_from(size).unwrap()))]
    });
    let client = client.max_response_bytes(10_000).build().unwrap();
    let call = async |size: u32| client.call_tool("t", json!({"size": size})).await;
    let (large, small) = tokio::join!(call(500_000), call(5));
    small.unwrap();
    let error = large.unwrap_err();
    assert!(
        matches!(
            error,
            CallError::OutcomeUnknown {
                source: RequestError::TooLarge { limit: 10_000 },
                ..
            }
        ),
        "{error}"
    );
    call(9_000).await.unwrap();
}

#[tokio::test]
async fn messages_are_one_line_whatever_the_host_hands_in() {
    let (client, peer) = modern(|message| vec![text(message, "x")]);
    let client = client.build().unwrap();
    let pretty: Box<serde_json::value::RawValue> =
        serde_json::from_str("{\n  \"a\": \"line\\nbreak\",\r\n  \"b\": [\n1]\n}").unwrap();
    client.call_tool("t", &pretty).await.unwrap();
    let seen = peer.until("tools/call", 1).await;
    assert_eq!(
        seen["params"]["arguments"],
        json!({"a": "line\nbreak", "b": [1]})
    );
}

#[tokio::test]
async fn many_write_at_once_and_nothing_is_mixed() {
    let (client, peer) = modern(|message| {
        let arguments = &message["params"]["arguments"];
        vec![text(message, &arguments["n"].to_string())]
    });
    let client = client.build().unwrap();
    let filler = "y".repeat(30_000);
    let calls = (0..100).map(|n| {
        let (client, filler) = (client.clone(), filler.clone());
        async move {
            let call = client.call_tool("t", json!({"n": n, "filler": filler}));
            if n % 3 == 0 {
                // Given up at some point, perhaps in the middle of writing.
                drop(tokio::time::timeout(std::time::Duration::from_micros(n * 10), call).await);
                return;
            }
            assert_eq!(call.await.unwrap().joined_text(), n.to_string());
        }
    });
    futures_util::future::join_all(calls).await;
    // Each line was a message: the peer would have panicked.
    client.call_tool("t", json!({"n": 1000})).await.unwrap();
    let ids: Vec<Value> = peer.seen().iter().map(|seen| seen["id"].clone()).collect();
    let requests = ids.iter().filter(|id| !id.is_null());
    let distinct: std::collections::HashSet<String> =
        requests.clone().map(Value::to_string).collect();
    assert_eq!(distinct.len(), requests.count());
}
