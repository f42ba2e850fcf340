//! Arguments in headers.

use axum::http::StatusCode;
use mrtr_client::CallError;
use serde_json::{Value, json};

use crate::script::{Reply, Seen, Server, asks, done, yes};

fn tool(name: &str, property: Value) -> Value {
    json!({"name": name, "inputSchema": {"type": "object", "properties": {"region": property}}})
}

/// Lists `sql`, which wants `region` in a header under the name `header`, and refuses calls without it.
fn sql_server(header: &'static str) -> impl Fn(usize, &Seen) -> Reply {
    move |_, seen| {
        if seen.body["method"] == "tools/list" {
            let tools = [
                tool("sql", json!({"type": "string", "x-mcp-header": header})),
                tool("bad", json!({"type": "number", "x-mcp-header": "N"})),
                tool("plain", json!({"type": "string"})),
            ];
            return Reply::Result(
                json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"}),
            );
        }
        let sent = seen
            .headers
            .get(format!("mcp-param-{header}"))
            .map(|value| value.to_str().unwrap());
        if seen.params()["name"] == "sql" && sent != seen.params()["arguments"]["region"].as_str() {
            return Reply::Error(
                StatusCode::BAD_REQUEST,
                json!({"code": -32020, "message": "Header mismatch"}),
            );
        }
        if seen.params()["name"] == "sql" && seen.param("inputResponses").is_none() {
            asks("k", "S")
        } else {
            done("x")
        }
    }
}

#[tokio::test]
async fn listed_tools_get_their_headers_in_every_round() {
    let server = Server::start(sql_server("Region")).await;
    let client = server.client().on_form(yes).build().unwrap();
    let tools = client.list_tools().await.unwrap();
    assert_eq!(
        tools
            .iter()
            .map(|tool| tool.name.as_str())
            .collect::<Vec<_>>(),
        ["sql", "plain"],
        "the invalid one is left out"
    );

    client
        .call_tool("sql", json!({"region": "us-west1"}))
        .await
        .unwrap();
    let [_, first, second] = &server.seen()[..] else {
        panic!()
    };
    for seen in [first, second] {
        assert_eq!(seen.header("mcp-param-region"), "us-west1");
    }
    client
        .call_tool("plain", json!({"region": "us-west1"}))
        .await
        .unwrap();
    assert!(
        server.seen()[3]
            .headers
            .keys()
            .all(|name| !name.as_str().starts_with("mcp-param-"))
    );
    client
        .call_tool("sql", json!({"region": null}))
        .await
        .unwrap();
    assert!(server.seen()[4].headers.get("mcp-param-region").is_none());
}

#[tokio::test]
async fn case_189_a_tool_that_no_header_could_carry_is_left_out_alone() {
    let header = |name: &str| json!({"type": "string", "x-mcp-header": name});
    let listed = |name: &str, schema: Value| json!({"name": name, "inputSchema": schema});
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let tools = json!([
        listed("good", object(json!({"a": header("Region")}))),
        listed("empty", object(json!({"a": header("")}))),
        listed("space", object(json!({"a": header("a b")}))),
        listed("break", object(json!({"a": header("X\r\nY")}))),
        listed(
            "twice",
            object(json!({"a": header("Region"), "b": header("region")}))
        ),
        listed(
            "number",
            object(json!({"a": {"type": "number", "x-mcp-header": "N"}}))
        ),
        listed(
            "items",
            object(json!({"a": {"type": "array", "items": header("N")}}))
        ),
        listed("one of", object(json!({"a": {"oneOf": [header("N")]}}))),
        listed(
            "reference",
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d"}}, "$defs": {"d": header("N")}})
        ),
        listed(
            "root",
            json!({"type": "object", "x-mcp-header": "N", "properties": {}})
        ),
        listed("also good", object(json!({"a": {"type": "string"}}))),
    ]);
    let server = Server::start(move |_, _| {
        Reply::Result(
            json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"}),
        )
    })
    .await;
    let tools = server.client().build().unwrap().list_tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["good", "also good"]);
}

#[tokio::test]
async fn a_mismatch_asks_for_the_list_and_sends_once_more() {
    let server = Server::start(sql_server("Region")).await;
    let client = server.client().on_form(yes).build().unwrap();
    client
        .call_tool("sql", json!({"region": "us-west1"}))
        .await
        .unwrap();
    let methods: Vec<_> = server
        .seen()
        .iter()
        .map(|seen| seen.body["method"].clone())
        .collect();
    assert_eq!(
        methods,
        ["tools/call", "tools/list", "tools/call", "tools/call"]
    );

    // A list that changes nothing is no reason to send again.
    let stubborn = Server::start(|n, seen| {
        if seen.body["method"] == "tools/list" {
            return sql_server("Region")(n, seen);
        }
        Reply::Error(
            StatusCode::BAD_REQUEST,
            json!({"code": -32020, "message": "Header mismatch"}),
        )
    })
    .await;
    let client = stubborn.client().build().unwrap();
    let error = client.call_tool("plain", json!({})).await.unwrap_err();
    assert!(
        matches!(&error, CallError::Rpc { source, .. } if source.error.code == -32020),
        "{error}"
    );
    assert_eq!(stubborn.count(), 2);
    client.list_tools().await.unwrap();
    let error = client
        .call_tool("sql", json!({"region": "a"}))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, CallError::Rpc { source, .. } if source.error.code == -32020),
        "{error}"
    );
    assert_eq!(stubborn.count(), 5);
}

#[tokio::test]
async fn the_list_after_a_mismatch_stops_at_the_tool() {
    // The first page of an endless list names the tool.
    let server = Server::start(|n, seen| match sql_server("Region")(n, seen) {
        Reply::Result(mut page) if seen.body["method"] == "tools/list" => {
            page["nextCursor"] = json!(n.to_string());
            Reply::Result(page)
        }
        other => other,
    })
    .await;
    let client = server.client().on_form(yes).build().unwrap();
    client
        .call_tool("sql", json!({"region": "us-west1"}))
        .await
        .unwrap();
    let methods: Vec<_> = server
        .seen()
        .iter()
        .map(|seen| seen.body["method"].clone())
        .collect();
    assert_eq!(
        methods,
        ["tools/call", "tools/list", "tools/call", "tools/call"]
    );
}
