//! Calls of one request: what is sent, what a result is.

use mrtr_client::{
    CallError, Client, ClientBuilder, ProtocolError, Refusal, RequestError, RootsQuestion,
    SamplingQuestion, UrlAnswer, UrlQuestion,
};
use mrtr_protocol::{ContentBlock, Implementation};
use serde_json::{Value, json};

use crate::script::{Reply, Server, done, yes};

#[tokio::test]
async fn a_plain_call_sends_headers_and_meta() {
    let server = Server::start(|_, _| done("sunny")).await;
    let client = server
        .client()
        .bearer("user-a")
        .client_info(Implementation::new("host", "7"))
        .build()
        .unwrap();
    let result = client
        .call_tool("get_weather", json!({"city": "Bern"}))
        .await
        .unwrap();
    assert_eq!(result.joined_text(), "sunny");

    let [seen] = &server.seen()[..] else { panic!() };
    assert_eq!(seen.header("content-type"), "application/json");
    assert_eq!(seen.header("accept"), "application/json, text/event-stream");
    assert_eq!(seen.header("mcp-protocol-version"), "2026-07-28");
    assert_eq!(seen.header("mcp-method"), "tools/call");
    assert_eq!(seen.header("mcp-name"), "get_weather");
    assert_eq!(seen.header("authorization"), "Bearer user-a");
    assert_eq!(
        seen.body,
        json!({"jsonrpc": "2.0", "id": seen.id(), "method": "tools/call", "params": {"name": "get_weather", "arguments": {"city": "Bern"},
            "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "7"},
                "io.modelcontextprotocol/clientCapabilities": {}}}})
    );
}

#[tokio::test]
async fn capabilities_follow_the_handlers() {
    type Handlers = fn(ClientBuilder) -> ClientBuilder;
    let cases: [(Handlers, Value); 7] = [
        (|client| client, json!({})),
        (
            |client| client.on_form(yes),
            json!({"elicitation": {"form": {}}}),
        ),
        // Beside `url`, forms have to be spelt out: an empty `elicitation` would declare them.
        (
            |client| client.on_url(async |_: UrlQuestion| Ok(UrlAnswer::Cancel)),
            json!({"elicitation": {"url": {}}}),
        ),
        (
            |client| client.on_sampling(async |_: SamplingQuestion| Err(Refusal::new("no model"))),
            json!({"sampling": {}}),
        ),
        (
            |client| {
                client
                    .on_sampling(async |_: SamplingQuestion| Err(Refusal::new("no model")))
                    .with_sampling_tools()
            },
            json!({"sampling": {"tools": {}}}),
        ),
        // Nobody could answer.
        (|client| client.with_sampling_tools(), json!({})),
        (
            |client| {
                client
                    .on_form(yes)
                    .on_url(async |_: UrlQuestion| Ok(UrlAnswer::Cancel))
                    .on_roots(async |_: RootsQuestion| Ok(vec![]))
            },
            json!({"elicitation": {"form": {}, "url": {}}, "roots": {}}),
        ),
    ];
    let server = Server::start(|_, _| done("x")).await;
    for (handlers, expected) in cases {
        let client = handlers(server.client()).client_info(None).build().unwrap();
        client.call_tool("t", ()).await.unwrap();
        let seen = server.seen().pop().unwrap();
        let meta = seen.param("_meta").unwrap();
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], expected);
        assert!(meta.get("io.modelcontextprotocol/clientInfo").is_none());
        assert!(seen.param("arguments").is_none());
    }
}

#[tokio::test]
async fn case_186_names_outside_ascii_are_encoded_in_the_header() {
    let server = Server::start(|_, _| done("x")).await;
    let client = server.client().build().unwrap();
    for (name, header) in [
        ("größe", "=?base64?Z3LDtsOfZQ==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="),
    ] {
        client.call_tool(name, ()).await.unwrap();
        let seen = server.seen().pop().unwrap();
        assert_eq!(seen.header("mcp-name"), header);
        assert_eq!(seen.param("name").unwrap(), name);
        assert!(seen.headers.get("x-evil").is_none());
    }
}

#[tokio::test]
async fn case_140_the_type_of_a_result_decides() {
    let server = Server::start(|_, seen| {
        let mut result = json!({"content": [{"type": "hologram", "n": 1}], "isError": true});
        match &seen.params()["arguments"]["type"] {
            Value::String(text) if text == "absent" => {}
            other => result["resultType"] = other.clone(),
        }
        Reply::Result(result)
    })
    .await;
    let client = server.client().build().unwrap();
    for good in ["complete", "absent"] {
        let result = client.call_tool("t", json!({"type": good})).await.unwrap();
        assert!(result.is_error);
        assert!(matches!(&result.content[..], [ContentBlock::Other(_)]));
    }
    for bad in [
        json!("Input_Required"),
        json!("task"),
        json!(1),
        json!(null),
        json!(""),
    ] {
        let error = client
            .call_tool("t", json!({"type": bad}))
            .await
            .unwrap_err();
        assert!(
            matches!(
                error,
                CallError::OutcomeUnknown {
                    source: RequestError::Protocol(ProtocolError::ResultType(_)),
                    ..
                }
            ),
            "{bad}: {error}"
        );
    }
}

#[tokio::test]
async fn arguments_must_be_an_object() {
    let server = Server::start(|_, _| done("x")).await;
    let client = server.client().build().unwrap();
    client.call_tool("t", json!({})).await.unwrap();
    for bad in [json!([1]), json!("x"), json!(7)] {
        assert!(matches!(
            client.call_tool("t", &bad).await,
            Err(CallError::Arguments(_))
        ));
    }
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn tokens_stay_out_of_debug_and_errors() {
    let builder = Client::builder("http://127.0.0.1:1/mcp").bearer("secret-4711");
    assert!(!format!("{builder:?}").contains("4711"));
    let client = builder.build().unwrap();
    let error = client.call_tool("t", ()).await.unwrap_err();
    assert!(!format!("{client:?} {error:?} {error}").contains("4711"));
    let bad = Client::builder("http://127.0.0.1:1/mcp")
        .bearer("secret-4711\n")
        .build()
        .unwrap_err();
    assert!(!format!("{bad:?} {bad}").contains("4711"));
    for url in [
        "",
        "/mcp",
        "ftp://a.example/",
        "https://",
        "https://user:pw@a.example/mcp",
    ] {
        assert!(Client::builder(url).build().is_err(), "{url}");
    }
}
