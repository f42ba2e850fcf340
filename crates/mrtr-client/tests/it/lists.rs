//! Discovery and the list of tools.

use mrtr_client::{ProtocolError, RequestError};
use mrtr_protocol::CacheScope;
use serde_json::{Value, json};

use crate::script::{Reply, Seen, Server};

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
