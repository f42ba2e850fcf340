//! The earlier era's part: `resources/subscribe`, and what a session is told on its own stream.

use super::*;

pub(super) fn initialize() -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        },
    })
}

pub(super) fn initialized() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
}

pub(super) fn subscribe(method: &str, uri: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": uri, "method": method, "params": { "uri": uri } })
}

/// A client with a session over HTTP.
struct Client {
    server: Server,
    session: String,
}

fn head(method: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("authorization", "Bearer user-a")
}

impl Client {
    async fn of(server: &Server) -> Self {
        let request = head("POST")
            .body(Body::from(initialize().to_string()))
            .unwrap();
        let response = server.clone().call(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let session = response.headers()["mcp-session-id"].to_str().unwrap();
        let client = Self {
            server: server.clone(),
            session: session.to_owned(),
        };
        let (status, _) = client.post(&initialized()).await;
        assert_eq!(status, StatusCode::ACCEPTED);
        client
    }

    fn head(&self, method: &str) -> http::request::Builder {
        head(method)
            .header("mcp-session-id", &self.session)
            .header("mcp-protocol-version", "2025-11-25")
    }

    async fn post(&self, message: &Value) -> (StatusCode, Value) {
        let request = self
            .head("POST")
            .body(Body::from(message.to_string()))
            .unwrap();
        let response = self.server.clone().call(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn stream(&self, last: Option<&str>) -> Events {
        let mut request = self.head("GET");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        Events::answering(&self.server, request.body(Body::empty()).unwrap()).await
    }
}

fn methods(events: &mut Events) -> Vec<String> {
    let mut methods = Vec::new();
    while let Seen::Message(message) = events.now() {
        assert!(message["params"].get("_meta").is_none(), "{message}");
        methods.push(message["method"].as_str().unwrap().to_owned());
    }
    methods
}

#[tokio::test]
async fn a_session_is_told_of_lists_and_of_what_it_subscribed_to() {
    let server = announcing(|_| {});
    let client = Client::of(&server).await;
    let mut events = client.stream(None).await;
    assert_eq!(methods(&mut events), Vec::<String>::new());
    server.changes().tools();
    server.changes().resource("note://1");
    assert_eq!(methods(&mut events), ["notifications/tools/list_changed"]);

    let (status, body) = client
        .post(&subscribe("resources/subscribe", "note://1"))
        .await;
    assert_eq!((status, &body["result"]), (StatusCode::OK, &json!({})));
    server.changes().resource("note://1");
    server.changes().resource("note://2");
    let updated = events.message();
    assert_eq!(updated["method"], "notifications/resources/updated");
    assert_eq!(updated["params"], json!({ "uri": "note://1" }));
    assert_eq!(events.now(), Seen::Nothing);

    let (_, body) = client
        .post(&subscribe("resources/unsubscribe", "note://1"))
        .await;
    assert_eq!(body["result"], json!({}));
    server.changes().resource("note://1");
    assert_eq!(events.now(), Seen::Nothing);
}

#[tokio::test]
async fn what_happens_while_nobody_reads_is_told_once() {
    let server = announcing(|_| {});
    let client = Client::of(&server).await;
    for _ in 0..10_000 {
        server.changes().tools();
    }
    let mut events = client.stream(None).await;
    assert_eq!(methods(&mut events), ["notifications/tools/list_changed"]);
    drop(events);
    server.changes().prompts();
    let mut events = client.stream(None).await;
    assert_eq!(
        methods(&mut events),
        [
            // A stream without `Last-Event-ID` begins with what the store still has.
            "notifications/tools/list_changed",
            "notifications/prompts/list_changed",
        ]
    );
}

#[tokio::test]
async fn a_stream_goes_on_where_it_was_left() {
    let server = announcing(|_| {});
    let client = Client::of(&server).await;
    let mut events = client.stream(None).await;
    server.changes().tools();
    let frame = events.body.frame().await.unwrap().unwrap();
    let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
    let id = text
        .lines()
        .find_map(|line| line.strip_prefix("id: "))
        .unwrap();
    drop(events);
    server.changes().prompts();
    let mut events = client.stream(Some(id)).await;
    assert_eq!(methods(&mut events), ["notifications/prompts/list_changed"]);
    server.changes().resources();
    assert_eq!(
        methods(&mut events),
        ["notifications/resources/list_changed"]
    );
}

#[tokio::test]
async fn only_what_is_served_can_be_subscribed_to_and_only_so_much_of_it() {
    let server = announcing(|limits| limits.subscribed_resources = 2);
    let client = Client::of(&server).await;
    let ask = async |uri: &str| client.post(&subscribe("resources/subscribe", uri)).await.1;
    assert_eq!(ask("shop://prices").await["result"], json!({}));
    let unknown = ask("shop://secrets").await;
    assert_eq!(unknown["error"]["code"], -32002);
    assert_eq!(unknown["error"]["data"]["uri"], "shop://secrets");
    let (_, malformed) = client
        .post(&json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {} }))
        .await;
    assert_eq!(malformed["error"]["code"], -32602);
    assert_eq!(ask("note://1").await["result"], json!({}));
    assert_eq!(
        ask("note://1").await["result"],
        json!({}),
        "again is no more"
    );
    assert_eq!(ask("note://2").await["error"]["code"], 1003);
    let (_, body) = client
        .post(&subscribe("resources/unsubscribe", "note://1"))
        .await;
    assert_eq!(body["result"], json!({}));
    assert_eq!(ask("note://2").await["result"], json!({}));
}

#[tokio::test]
async fn a_session_s_marks_go_with_it() {
    let server = announcing(|limits| limits.subscriptions = 1);
    let client = Client::of(&server).await;
    let (_, body) = client
        .post(&subscribe("resources/subscribe", "note://1"))
        .await;
    assert_eq!(body["result"], json!({}));
    assert_eq!(server.open_subscriptions(), 0, "a session's is not counted");
    let mut events = client.stream(None).await;
    let request = client.head("DELETE").body(Body::empty()).unwrap();
    let response = server.clone().call(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    assert_eq!(events.now(), Seen::End);
    server.changes().tools();
    assert_eq!(events.now(), Seen::End);
}

#[tokio::test]
async fn a_server_that_announces_nothing_has_no_subscriptions() {
    let (silent, telling) = (shop().build().unwrap(), announcing(|_| {}));
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        let ask = subscribe(method, "note://1");
        let (_, body) = Client::of(&telling).await.post(&ask).await;
        assert_eq!(body["result"], json!({}), "{method}");
        let (_, body) = Client::of(&silent).await.post(&ask).await;
        assert_eq!(body["error"]["code"], -32601, "{method}");
    }
    // The modern era's method is not one of a session.
    let ask = json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": { "notifications": {} } });
    let (_, body) = Client::of(&telling).await.post(&ask).await;
    assert_eq!(body["error"]["code"], -32601);
}
