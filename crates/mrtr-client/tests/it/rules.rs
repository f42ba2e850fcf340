//! Rules of the specification that no other test here is about: what every request has, and what is never done with a URL.

use std::fmt;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::http::{Method, Request};
use mrtr_client::{Transport, TransportFuture, UrlAnswer, UrlQuestion};
use serde_json::{Value, json};

use crate::script::{Recorder, Reply, Seen, asks, done, in_process, puts, yes};

/// Records the HTTP method of each request too.
#[derive(Clone)]
struct Methods(Recorder, Arc<Mutex<Vec<Method>>>);

impl Transport for Methods {
    fn send(&self, request: Request<Bytes>) -> TransportFuture<'_> {
        self.1.lock().unwrap().push(request.method().clone());
        self.0.send(request)
    }
}

impl fmt::Debug for Methods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Methods")
    }
}

/// A server that has one of everything, and asks once about each.
fn everything(_: usize, seen: &Seen) -> Reply {
    let mut result = match seen.header("mcp-method") {
        "server/discover" => {
            json!({"supportedVersions": ["2026-07-28"], "capabilities": {}, "ttlMs": 0, "cacheScope": "private"})
        }
        "tools/list" => {
            json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}], "ttlMs": 0, "cacheScope": "private"})
        }
        "prompts/list" => json!({"prompts": [], "ttlMs": 0, "cacheScope": "private"}),
        "resources/list" => json!({"resources": [], "ttlMs": 0, "cacheScope": "private"}),
        "resources/templates/list" => {
            json!({"resourceTemplates": [], "ttlMs": 0, "cacheScope": "private"})
        }
        _ if seen.param("requestState").is_none() => return asks("k", "S"),
        "prompts/get" => json!({"messages": []}),
        "resources/read" => json!({"contents": [], "ttlMs": 0, "cacheScope": "private"}),
        _ => return done("x"),
    };
    result["resultType"] = json!("complete");
    Reply::Result(result)
}

#[tokio::test]
async fn every_message_is_a_post_of_one_request_that_its_headers_describe() {
    let recorder = Recorder::new(everything);
    let transport = Methods(recorder.clone(), Arc::default());
    let client = in_process(&recorder)
        .transport(transport.clone())
        .on_form(yes)
        .build()
        .unwrap();
    client.discover().await.unwrap();
    client.list_tools().await.unwrap();
    client.list_prompts().await.unwrap();
    client.list_resources().await.unwrap();
    client.list_resource_templates().await.unwrap();
    client.call_tool("t", json!({"a": 1})).await.unwrap();
    client.get_prompt("p", ()).await.unwrap();
    client.read_resource("note://caf%C3%A9").await.unwrap();

    let methods = transport.1.lock().unwrap();
    assert_eq!((methods.len(), recorder.count()), (11, 11));
    assert!(methods.iter().all(|method| method == Method::POST));
    let mut ids: Vec<Value> = Vec::new();
    for seen in recorder.seen() {
        let accepted = seen.header("accept");
        assert!(
            accepted.contains("application/json") && accepted.contains("text/event-stream"),
            "{accepted}"
        );
        let body = seen.body.as_object().unwrap();
        assert_eq!(body["jsonrpc"], "2.0");
        assert!(!body.contains_key("result") && !body.contains_key("error"));
        assert_eq!(seen.header("mcp-method"), body["method"]);
        let meta = seen.param("_meta").unwrap();
        let version = &meta["io.modelcontextprotocol/protocolVersion"];
        assert_eq!(seen.header("mcp-protocol-version"), version);
        assert!(
            meta["io.modelcontextprotocol/clientCapabilities"]["elicitation"]["form"].is_object()
        );
        let named = seen.param("name").or_else(|| seen.param("uri"));
        let header = seen.headers.get("mcp-name");
        assert_eq!(
            header.map(|name| name.to_str().unwrap()),
            named.and_then(Value::as_str)
        );
        assert!(seen.id().is_i64() || seen.id().is_string());
        assert!(!ids.contains(seen.id()), "an id is used twice");
        ids.push(seen.id().clone());
    }
}

#[tokio::test]
async fn case_168_a_page_is_neither_fetched_nor_opened() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let page = format!("http://{}/connect", listener.local_addr().unwrap());
    let question = json!({"method": "elicitation/create", "params": {"mode": "url", "url": page, "message": "Go there."}});
    for answer in [UrlAnswer::Accept, UrlAnswer::Decline, UrlAnswer::Cancel] {
        let question = question.clone();
        let recorder = Recorder::new(move |n, _| match n {
            1 => puts(&question, "S"),
            _ => done("x"),
        });
        let client = in_process(&recorder)
            .on_url(move |_: UrlQuestion| std::future::ready(Ok(answer)))
            .build()
            .unwrap();
        client.call_tool("link", ()).await.unwrap();
        assert_eq!(recorder.count(), 2, "the question was put and answered");
        let visit = listener.accept();
        assert_eq!(
            visit.unwrap_err().kind(),
            ErrorKind::WouldBlock,
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn progress_is_asked_for_under_a_token_of_each_request_s_own() {
    let recorder = Recorder::new(everything);
    let client = in_process(&recorder)
        .on_form(yes)
        .on_progress(|_| {})
        .build()
        .unwrap();
    let (a, b) = tokio::join!(client.call_tool("a", ()), client.call_tool("b", ()));
    a.unwrap();
    b.unwrap();
    let tokens: Vec<Value> = recorder
        .seen()
        .iter()
        .map(|seen| seen.params()["_meta"]["progressToken"].clone())
        .collect();
    assert_eq!(tokens.len(), 4, "two rounds each");
    for (at, token) in tokens.iter().enumerate() {
        assert!(token.is_string() || token.is_i64(), "{token}");
        assert!(!tokens[..at].contains(token), "{token} is used twice");
    }
}
