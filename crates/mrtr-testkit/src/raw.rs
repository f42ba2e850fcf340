//! Requests that no client would send.

use std::fmt;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use http_body_util::BodyExt as _;
use mrtr_protocol::{REVISION, headers, method};
use serde_json::{Map, Value, json};

use crate::harness::Harness;
use crate::redacted::Redacted;
use crate::reply::Reply;

/// A `tools/call` written by hand; made by [`Harness::raw`].
///
/// As it comes it is a good first call of a client that can be asked forms. Each method changes one thing and nothing else,
/// so that a test says what is wrong with a request and the rest stays right.
///
/// Debug prints no state and no token.
#[derive(Clone)]
#[must_use = "nothing is sent until `send` is called"]
pub struct RawCall {
    harness: Harness,
    headers: HeaderMap,
    json: Value,
    /// In place of `json`.
    bytes: Option<Bytes>,
}

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

impl RawCall {
    pub(crate) fn new(harness: Harness, tool: String) -> RawCall {
        let json = json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": method::TOOLS_CALL,
            "params": {
                "name": tool,
                "_meta": {
                    VERSION_KEY: REVISION,
                    CAPABILITIES_KEY: { "elicitation": { "form": {} } },
                },
            },
        });
        let uri: Option<Uri> = harness.url().parse().ok();
        let host = uri
            .as_ref()
            .and_then(Uri::authority)
            .map(ToString::to_string);
        let token = harness.token().map(ToOwned::to_owned);
        let call = RawCall {
            harness,
            headers: HeaderMap::new(),
            json,
            bytes: None,
        };
        let call = call
            .header(HOST.as_str(), host.unwrap_or_default())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header(headers::PROTOCOL_VERSION, REVISION)
            .header(headers::METHOD, method::TOOLS_CALL)
            .header(headers::NAME, headers::encode(&tool).as_bytes());
        match token {
            Some(token) => call.by(token),
            None => call,
        }
    }

    /// The arguments.
    pub fn arguments(self, arguments: impl Into<Value>) -> RawCall {
        self.param("arguments", arguments)
    }

    /// One argument, the others as they are.
    pub fn argument(mut self, name: &str, value: impl Into<Value>) -> RawCall {
        *member(member(self.params(), "arguments"), name) = value.into();
        self
    }

    /// The state to come back with.
    pub fn state(self, state: impl Into<String>) -> RawCall {
        self.param("requestState", state.into())
    }

    /// An answer in whatever shape.
    pub fn answer(mut self, key: &str, answer: impl Into<Value>) -> RawCall {
        *member(member(self.params(), "inputResponses"), key) = answer.into();
        self
    }

    /// Accepts a form with this content.
    pub fn accept(self, key: &str, content: impl Into<Value>) -> RawCall {
        self.answer(
            key,
            json!({ "action": "accept", "content": content.into() }),
        )
    }

    /// Declines.
    pub fn decline(self, key: &str) -> RawCall {
        self.answer(key, json!({ "action": "decline" }))
    }

    /// Dismisses.
    pub fn cancel(self, key: &str) -> RawCall {
        self.answer(key, json!({ "action": "cancel" }))
    }

    /// Another tool's name, in body and header.
    pub fn tool(self, tool: &str) -> RawCall {
        self.param("name", tool)
            .header(headers::NAME, headers::encode(tool).as_bytes())
    }

    /// The request's id.
    pub fn id(mut self, id: impl Into<Value>) -> RawCall {
        *member(&mut self.json, "id") = id.into();
        self
    }

    /// A member of `params`.
    pub fn param(mut self, name: &str, value: impl Into<Value>) -> RawCall {
        *member(self.params(), name) = value.into();
        self
    }

    /// Takes a member of `params` away.
    pub fn without_param(mut self, name: &str) -> RawCall {
        if let Some(params) = self.params().as_object_mut() {
            params.remove(name);
        }
        self
    }

    /// A member of `_meta`.
    pub fn meta(mut self, name: &str, value: impl Into<Value>) -> RawCall {
        *member(member(self.params(), "_meta"), name) = value.into();
        self
    }

    /// The capabilities that the client declares; `json!({})` for one that cannot be asked.
    pub fn declaring(self, capabilities: impl Into<Value>) -> RawCall {
        self.meta(CAPABILITIES_KEY, capabilities)
    }

    /// The caller with this bearer token.
    pub fn by(self, token: impl AsRef<str>) -> RawCall {
        self.header(AUTHORIZATION.as_str(), format!("Bearer {}", token.as_ref()))
    }

    /// Sets a header, in place of all of that name.
    ///
    /// # Panics
    ///
    /// When no header has that name, or can carry that value.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> RawCall {
        let (name, value) = header(name, value.as_ref());
        self.headers.insert(name, value);
        self
    }

    /// Adds a header to those of that name.
    ///
    /// # Panics
    ///
    /// As [`header`](Self::header).
    pub fn another_header(mut self, name: &str, value: impl AsRef<[u8]>) -> RawCall {
        let (name, value) = header(name, value.as_ref());
        self.headers.append(name, value);
        self
    }

    /// Takes all headers of that name away.
    pub fn without_header(mut self, name: &str) -> RawCall {
        self.headers.remove(name);
        self
    }

    /// These bytes as the body, whatever the other methods say. [`to_body`](Self::to_body) gives what it would be.
    pub fn body(mut self, bytes: impl Into<Bytes>) -> RawCall {
        self.bytes = Some(bytes.into());
        self
    }

    /// The body as it will be sent, to be edited as text.
    #[must_use]
    pub fn to_body(&self) -> String {
        match &self.bytes {
            Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            None => self.json.to_string(),
        }
    }

    /// Sends it. It can be sent again: to a server that is the same request once more.
    ///
    /// # Panics
    ///
    /// When the harness's URL is none, or the answer breaks off.
    pub async fn send(&self) -> Reply {
        let body = match &self.bytes {
            Some(bytes) => bytes.clone(),
            None => self.json.to_string().into(),
        };
        let mut request = Request::new(body);
        *request.method_mut() = http::Method::POST;
        *request.headers_mut() = self.headers.clone();
        *request.uri_mut() = match self.harness.url().parse() {
            Ok(uri) => uri,
            Err(error) => panic!("{:?} is no URL: {error}", self.harness.url()),
        };
        let (head, body) = self.harness.exchange(request).await.into_parts();
        match body.collect().await {
            Ok(body) => Reply::new(head.status, head.headers, body.to_bytes()),
            Err(error) => panic!("the server's answer broke off: {error}"),
        }
    }

    fn params(&mut self) -> &mut Value {
        member(&mut self.json, "params")
    }
}

impl fmt::Debug for RawCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawCall")
            .field("body", &Redacted(self.to_body().as_bytes()))
            .finish_non_exhaustive()
    }
}

/// A member, `null` when it is new, in what is made an object if it is none.
fn member<'v>(value: &'v mut Value, name: &str) -> &'v mut Value {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(members) => members.entry(name).or_insert(Value::Null),
        other => other,
    }
}

fn header(name: &str, value: &[u8]) -> (HeaderName, HeaderValue) {
    match (name.parse(), HeaderValue::from_bytes(value)) {
        (Ok(name), Ok(mut value)) => {
            value.set_sensitive(name == AUTHORIZATION);
            (name, value)
        }
        // The value may be a token.
        _ => panic!("no request can have this value in a header {name:?}"),
    }
}
