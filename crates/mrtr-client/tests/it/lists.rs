//! Discovery and the list of tools.

use mrtr_client::{ProtocolError, RequestError};
use mrtr_protocol::CacheScope;
use serde_json::{Value, json};

use crate::script::{Reply, Server};

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
