//! A client of the earlier era in this process: sessions, streams of events, answers by POST.

use axum::body::Body;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use mrtr_server::Server;
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::bank::Reply;

/// A session, as its client sees it.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) server: Server,
    pub(crate) id: String,
    pub(crate) token: &'static str,
    pub(crate) version: &'static str,
}

/// A response whose body is still to be read.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Body,
    text: String,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) retry: Option<String>,
    pub(crate) data: Value,
}

/// What a client of the earlier era can be asked.
pub(crate) fn everything() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {} })
}

pub(crate) fn initialize(version: &str, capabilities: Value) -> Value {
    json!({
        "jsonrpc": "2.0", "id": "init", "method": "initialize",
        "params": {
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": { "name": "tests", "version": "1" },
        },
    })
}

impl Session {
    /// Opens a session of 2025-11-25 for user-a.
    pub(crate) async fn open(server: &Server, capabilities: Value) -> Self {
        Self::of(server, "user-a", "2025-11-25", capabilities).await
    }

    pub(crate) async fn of(
        server: &Server,
        token: &'static str,
        version: &'static str,
        capabilities: Value,
    ) -> Self {
        let mut session = Self {
            server: server.clone(),
            id: String::new(),
            token,
            version,
        };
        let mut opened = session.post(&initialize(version, capabilities)).await;
        assert_eq!(opened.status, StatusCode::OK);
        session.id = opened.headers["mcp-session-id"]
            .to_str()
            .unwrap()
            .to_owned();
        let body = opened.json().await;
        assert_eq!(body["result"]["protocolVersion"], version, "{body}");
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(
            session.post(&initialized).await.status,
            StatusCode::ACCEPTED
        );
        session
    }

    fn request(&self, method: Method) -> http::request::Builder {
        let request = Request::builder()
            .method(method)
            .uri("/mcp")
            .header("host", "localhost")
            .header("accept", "application/json, text/event-stream")
            .header("authorization", format!("Bearer {}", self.token));
        match self.id.as_str() {
            "" => request,
            id => request
                .header("mcp-session-id", id)
                .header("mcp-protocol-version", self.version),
        }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let (head, body) = self
            .server
            .clone()
            .call(request)
            .await
            .unwrap()
            .into_parts();
        Answer {
            status: head.status,
            headers: head.headers,
            body,
            text: String::new(),
        }
    }

    pub(crate) async fn post(&self, message: &Value) -> Answer {
        let request = self
            .request(Method::POST)
            .header("content-type", "application/json");
        self.send(request.body(message.to_string().into()).unwrap())
            .await
    }

    /// The same by a client that names streams of events first.
    pub(crate) async fn post_for_events(&self, message: &Value) -> Answer {
        let request = self
            .request(Method::POST)
            .header("content-type", "application/json");
        let mut request = request.body(Body::from(message.to_string())).unwrap();
        request.headers_mut().insert(
            "accept",
            "text/event-stream, application/json".parse().unwrap(),
        );
        self.send(request).await
    }

    pub(crate) async fn get(&self, last_event: Option<&str>) -> Answer {
        let mut request = self.request(Method::GET);
        if let Some(id) = last_event {
            request = request.header("last-event-id", id);
        }
        self.send(request.body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn delete(&self) -> Answer {
        let request = self.request(Method::DELETE);
        self.send(request.body(Body::empty()).unwrap()).await
    }

    /// Sends a request with these params.
    pub(crate) async fn ask(&self, id: impl Into<Value>, method: &str, params: Value) -> Answer {
        let id: Value = id.into();
        self.post(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await
    }

    /// The same under an id that nobody looks at, answered as JSON.
    pub(crate) async fn reply(&self, method: &str, params: Value) -> Reply {
        let mut answer = self.ask("r", method, params).await;
        Reply {
            status: answer.status,
            headers: answer.headers.clone(),
            body: answer.json().await,
        }
    }

    pub(crate) async fn call(&self, id: impl Into<Value>, tool: &str, arguments: Value) -> Answer {
        let params = json!({ "name": tool, "arguments": arguments });
        self.ask(id, "tools/call", params).await
    }

    /// Answers a question of the server's.
    pub(crate) async fn answer(&self, question: &Value, result: Value) -> Answer {
        self.post(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": result }))
            .await
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) -> Answer {
        self.post(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            .await
    }
}

impl Answer {
    pub(crate) fn is_stream(&self) -> bool {
        self.headers
            .get("content-type")
            .is_some_and(|kind| kind == "text/event-stream")
    }

    /// The whole body as JSON.
    pub(crate) async fn json(&mut self) -> Value {
        assert!(!self.is_stream());
        let bytes = std::mem::take(&mut self.body).collect().await.unwrap();
        serde_json::from_slice(&bytes.to_bytes()).unwrap()
    }

    /// The next event, comments left out; `None` at the end of the stream.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        assert!(self.is_stream(), "{} {:?}", self.status, self.headers);
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let event = read(event);
                self.text = rest.to_owned();
                return Some(event);
            }
            let frame = self.body.frame().await?.unwrap().into_data().unwrap();
            let text = std::str::from_utf8(&frame).unwrap();
            if !text.starts_with(':') {
                self.text.push_str(text);
            }
        }
    }

    /// The next message.
    pub(crate) async fn message(&mut self) -> Value {
        loop {
            let event = self.event().await.expect("a message before the end");
            if event.data != Value::Null {
                return event.data;
            }
        }
    }
}

fn read(event: &str) -> Event {
    let field = |name: &str| {
        let line = event.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_start_matches([':', ' ']).to_owned())
    };
    let data = field("data").filter(|data| !data.is_empty());
    Event {
        id: field("id"),
        retry: field("retry"),
        data: data.map_or(Value::Null, |data| serde_json::from_str(&data).unwrap()),
    }
}

/// The text of a tool's result.
pub(crate) fn text(message: &Value) -> &str {
    message["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text in {message}"))
}
