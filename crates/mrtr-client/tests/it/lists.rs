//! Discovery and the list of tools.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::Request;
use mrtr_client::{Client, ClientBuilder, ProtocolError, RequestError, Transport, TransportFuture};
use mrtr_protocol::CacheScope;
use serde_json::{Value, json};

use crate::script::{Recorder, Reply, Seen, Server};

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

/// Two pages of each list, by its method.
fn pages(seen: &Seen, again: bool) -> Reply {
    let cursor = seen.param("cursor").cloned();
    let nth = if cursor.is_none() { 1 } else { 2 };
    let mut result = match seen.header("mcp-method") {
        "tools/list" => {
            json!({"tools": [{"name": format!("t{nth}"), "inputSchema": {"type": "object"}}]})
        }
        "prompts/list" => {
            json!({"prompts": [{"name": format!("p{nth}"), "arguments": [{"name": "day", "required": true}]}]})
        }
        "resources/list" => {
            json!({"resources": [{"uri": format!("note://{nth}"), "name": "n"}]})
        }
        "resources/templates/list" => {
            json!({"resourceTemplates": [{"uriTemplate": format!("note://{nth}/{{day}}"), "name": "n"}]})
        }
        other => panic!("{other}"),
    };
    result["resultType"] = json!("complete");
    if cursor.is_none() || again {
        result["nextCursor"] = json!("p2");
    }
    Reply::Result(result)
}

#[tokio::test]
async fn every_list_is_followed_to_its_end() {
    let server = Server::start(|_, seen| pages(seen, false)).await;
    let client = server.client().build().unwrap();
    let tools = client.list_tools().await.unwrap();
    assert_eq!(
        (tools[0].name.as_str(), tools[1].name.as_str()),
        ("t1", "t2")
    );
    let prompts = client.list_prompts().await.unwrap();
    assert_eq!(
        (prompts[0].name.as_str(), prompts[1].name.as_str()),
        ("p1", "p2")
    );
    assert_eq!(prompts[0].arguments[0].required, Some(true));
    let resources = client.list_resources().await.unwrap();
    assert_eq!(
        (resources[0].uri.as_str(), resources[1].uri.as_str()),
        ("note://1", "note://2")
    );
    let templates = client.list_resource_templates().await.unwrap();
    assert_eq!(templates[1].uri_template, "note://2/{day}");
    assert_eq!((templates.len(), server.count()), (2, 8));
    assert!(
        server
            .seen()
            .iter()
            .all(|seen| seen.headers.get("mcp-name").is_none())
    );
}

fn is_endless<T>(result: Result<T, RequestError>) -> bool {
    matches!(
        result,
        Err(RequestError::Protocol(ProtocolError::EndlessPages))
    )
}

#[tokio::test]
async fn a_list_must_end() {
    let server = Server::start(|_, seen| pages(seen, true)).await;
    let client = server.client().build().unwrap();
    assert!(is_endless(client.list_tools().await));
    assert_eq!(server.count(), 2);
    assert!(is_endless(client.list_prompts().await));
    assert!(is_endless(client.list_resources().await));
    assert!(is_endless(client.list_resource_templates().await));
    assert_eq!(server.count(), 8);
}

/// Lists `pages` pages of one tool each, the cursor of page n being `cursor(n)`.
fn tool_pages(pages: usize, cursor: fn(usize) -> String) -> Recorder {
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
    let server = tool_pages(100, |n| n.to_string());
    assert_eq!(listed(&server, |client| client).await.unwrap(), 100);
    let server = tool_pages(101, |n| n.to_string());
    let error = listed(&server, |client| client).await.unwrap_err();
    assert!(
        matches!(error, RequestError::Protocol(ProtocolError::EndlessPages)),
        "{error}"
    );
    assert_eq!(server.count(), 100);
    // Three cursors in a ring.
    let server = tool_pages(50, |n| (n % 3).to_string());
    let error = listed(&server, |client| client).await.unwrap_err();
    assert!(
        matches!(error, RequestError::Protocol(ProtocolError::EndlessPages)),
        "{error}"
    );
    assert_eq!(server.count(), 4);
}

/// A page of any list, of about `len` bytes.
fn empty_page(cursor: &str, len: usize) -> Reply {
    Reply::Result(
        json!({"resultType": "complete", "tools": [], "prompts": [], "resources": [], "resourceTemplates": [],
        "ttlMs": 0, "cacheScope": "private", "nextCursor": cursor, "x": "x".repeat(len)}),
    )
}

#[tokio::test]
async fn every_list_has_the_same_limits() {
    async fn all_of(client: &Client) -> [Result<usize, RequestError>; 4] {
        [
            client.list_tools().await.map(|all| all.len()),
            client.list_prompts().await.map(|all| all.len()),
            client.list_resources().await.map(|all| all.len()),
            client.list_resource_templates().await.map(|all| all.len()),
        ]
    }
    let build = |recorder: &Recorder| {
        let client = Client::builder("http://server.example/mcp").transport(recorder.clone());
        client.max_response_bytes(100_000).build().unwrap()
    };
    let endless = Recorder::new(|n, _| empty_page(&n.to_string(), 0));
    assert!(all_of(&build(&endless)).await.into_iter().all(is_endless));
    assert_eq!(endless.count(), 400);
    let ring = Recorder::new(|n, _| empty_page(&(n % 2).to_string(), 0));
    assert!(all_of(&build(&ring)).await.into_iter().all(is_endless));
    assert_eq!(ring.count(), 12);
    let large = Recorder::new(|n, _| empty_page(&n.to_string(), 30_000));
    for result in all_of(&build(&large)).await {
        assert!(
            matches!(result, Err(RequestError::TooLarge { limit: 100_000 })),
            "{result:?}"
        );
    }
    assert_eq!(large.count(), 16);
}

#[tokio::test]
async fn all_pages_share_one_budget_of_bytes() {
    let server = tool_pages(10, |n| n.to_string());
    let enough = |client: ClientBuilder| client.max_response_bytes(4_000);
    assert_eq!(listed(&server, enough).await.unwrap(), 10);
    let server = tool_pages(90, |n| n.to_string());
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
        let server = tool_pages(count, |n| n.to_string());
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
    let refused = |error: &RequestError| {
        matches!(
            error,
            RequestError::Protocol(ProtocolError::RoundNotAllowed)
        )
    };
    assert!(refused(&client.list_prompts().await.unwrap_err()));
    assert!(refused(&client.list_resources().await.unwrap_err()));
    assert!(refused(
        &client.list_resource_templates().await.unwrap_err()
    ));
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
