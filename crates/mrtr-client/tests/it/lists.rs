//! Discovery and the list of tools.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::Request;
use mrtr_client::{Client, ClientBuilder, ProtocolError, RequestError, Transport, TransportFuture};
use mrtr_protocol::CacheScope;
use serde_json::{Value, json};

use crate::script::{Recorder, Reply, Server};

#[tokio::test]
async fn discovers_a_server() {
    let server = Server::start(|_, _| {
        Reply::Result(json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 5, "cacheScope": "public",
            "instructions": "Ask first.", "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "expenses", "version": "1"}}}))
    })
    .await;
    let found = server.client().build().unwrap().discover().await.unwrap();
    assert_eq!(found.supported_versions, ["2026-07-28"]);
    assert!(found.capabilities.tools.is_some());
    assert_eq!(found.cache_scope, CacheScope::Public);
    assert_eq!(found.meta.server_info().unwrap().name, "expenses");
    let [seen] = &server.seen()[..] else { panic!() };
    assert_eq!(seen.header("mcp-method"), "server/discover");
    assert!(seen.headers.get("mcp-name").is_none());
    assert_eq!(
        seen.params()
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        ["_meta"]
    );
}

fn page(tools: &[&str], next: Option<&str>) -> Reply {
    let tools: Vec<Value> = tools
        .iter()
        .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
        .collect();
    let mut result =
        json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"});
    if let Some(next) = next {
        result["nextCursor"] = json!(next);
    }
    Reply::Result(result)
}

#[tokio::test]
async fn follows_every_page() {
    let server = Server::start(|n, _| match n {
        1 => page(&["b", "a"], Some("p2")),
        2 => page(&[], Some("")),
        _ => page(&["c"], None),
    })
    .await;
    let tools = server.client().build().unwrap().list_tools().await.unwrap();
    assert_eq!(
        tools
            .iter()
            .map(|tool| tool.name.as_str())
            .collect::<Vec<_>>(),
        ["b", "a", "c"]
    );
    let cursors: Vec<_> = server
        .seen()
        .iter()
        .map(|seen| seen.param("cursor").cloned())
        .collect();
    assert_eq!(cursors, [None, Some(json!("p2")), Some(json!(""))]);
}

#[tokio::test]
async fn a_list_must_end() {
    let server = Server::start(|_, _| page(&["a"], Some("again"))).await;
    let error = server
        .client()
        .build()
        .unwrap()
        .list_tools()
        .await
        .unwrap_err();
    assert!(
        matches!(error, RequestError::Protocol(ProtocolError::EndlessPages)),
        "{error}"
    );
    assert_eq!(server.count(), 2);
}

/// Lists `pages` pages of one tool each, the cursor of page n being `cursor(n)`.
fn pages(pages: usize, cursor: fn(usize) -> String) -> Recorder {
    Recorder::new(move |n, _| {
        let next = (n < pages).then(|| cursor(n));
        page(&[&format!("t{n}")], next.as_deref())
    })
}

async fn listed(
    recorder: &Recorder,
    set: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Result<usize, RequestError> {
    let client = Client::builder("http://server.example/mcp").transport(recorder.clone());
    let tools = set(client).build().unwrap().list_tools().await;
    tools.map(|tools| tools.len())
}

#[tokio::test]
async fn a_list_has_a_hundred_pages_and_no_cursor_twice() {
    let server = pages(100, |n| n.to_string());
    assert_eq!(listed(&server, |client| client).await.unwrap(), 100);
    let server = pages(101, |n| n.to_string());
    let error = listed(&server, |client| client).await.unwrap_err();
    assert!(
        matches!(error, RequestError::Protocol(ProtocolError::EndlessPages)),
        "{error}"
    );
    assert_eq!(server.count(), 100);
    // Three cursors in a ring.
    let server = pages(50, |n| (n % 3).to_string());
    let error = listed(&server, |client| client).await.unwrap_err();
    assert!(
        matches!(error, RequestError::Protocol(ProtocolError::EndlessPages)),
        "{error}"
    );
    assert_eq!(server.count(), 4);
}

#[tokio::test]
async fn all_pages_share_one_budget_of_bytes() {
    let server = pages(10, |n| n.to_string());
    let enough = |client: ClientBuilder| client.max_response_bytes(4_000);
    assert_eq!(listed(&server, enough).await.unwrap(), 10);
    let server = pages(90, |n| n.to_string());
    let error = listed(&server, enough).await.unwrap_err();
    assert!(
        matches!(error, RequestError::TooLarge { limit: 4_000 }),
        "{error}"
    );
    assert!((10..50).contains(&server.count()), "{}", server.count());
    // On streams too, and what is no answer counts as well.
    let streamed = |padding: usize| {
        Recorder::new(move |n, seen| {
            let next = if n < 20 {
                format!(r#","nextCursor":"{n}""#)
            } else {
                String::new()
            };
            Reply::Stream(
                vec![
                    format!(": {}\n\n", "x".repeat(padding)),
                    format!(
                        "data: {{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"resultType\":\"complete\",\"tools\":[],\"ttlMs\":0,\"cacheScope\":\"private\"{next}}}}}\n\n",
                        seen.id()
                    ),
                ],
                false,
            )
        })
    };
    assert_eq!(listed(&streamed(1), enough).await.unwrap(), 0);
    let error = listed(&streamed(1_000), enough).await.unwrap_err();
    assert!(matches!(error, RequestError::TooLarge { .. }), "{error}");
}

/// Answers each request after 20 seconds of a clock that stands still.
#[derive(Debug)]
struct Slow(Recorder);

impl Transport for Slow {
    fn send(&self, request: Request<Bytes>) -> TransportFuture<'_> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(20)).await;
            self.0.send(request).await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn all_pages_share_one_budget_of_time() {
    for (count, good) in [(2, true), (50, false)] {
        let server = pages(count, |n| n.to_string());
        let client = Client::builder("http://server.example/mcp")
            .transport(Slow(server.clone()))
            .request_timeout(Duration::from_secs(60))
            .build()
            .unwrap();
        let begun = tokio::time::Instant::now();
        match client.list_tools().await {
            Ok(tools) => assert!(good && tools.len() == count),
            Err(error) => assert!(
                !good && matches!(error, RequestError::TimedOut { .. }),
                "{error}"
            ),
        }
        assert!(begun.elapsed() <= Duration::from_secs(60));
    }
}

#[tokio::test]
async fn these_methods_may_not_ask() {
    let server = Server::start(|_, _| {
        Reply::Result(json!({"resultType": "input_required", "requestState": "S"}))
    })
    .await;
    let client = server.client().build().unwrap();
    let error = client.list_tools().await.unwrap_err();
    assert!(
        matches!(
            error,
            RequestError::Protocol(ProtocolError::RoundNotAllowed)
        ),
        "{error}"
    );
    let error = client.discover().await.unwrap_err();
    assert!(
        matches!(
            error,
            RequestError::Protocol(ProtocolError::RoundNotAllowed)
        ),
        "{error}"
    );
    assert!(
        server
            .seen()
            .iter()
            .all(|seen| seen.param("requestState").is_none())
    );
}
