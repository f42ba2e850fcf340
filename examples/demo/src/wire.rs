//! What crosses the wire: raw requests for the attacker, and a record of the client's exchanges.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use mrtr_client::{HttpTransport, ResponseBody, Transport, TransportFuture};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::Fault;

/// The capabilities of a client that can be asked by form.
pub(crate) fn form() -> Value {
    json!({ "elicitation": { "form": {} } })
}

/// Sends requests as they are built here, without a client in between.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    http: reqwest::Client,
    url: String,
    token: String,
    capabilities: Value,
}

/// What a request is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'a> {
    Tool(&'a str, &'a Value),
    Prompt(&'a str, &'a Value),
}

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

impl Wire {
    pub(crate) fn new(url: &str) -> Self {
        let http = reqwest::Client::new();
        Self {
            http,
            url: url.into(),
            token: "alice-token".into(),
            capabilities: form(),
        }
    }

    pub(crate) fn by(&self, token: &str) -> Self {
        Self {
            token: token.into(),
            ..self.clone()
        }
    }

    pub(crate) fn declaring(&self, capabilities: Value) -> Self {
        Self {
            capabilities,
            ..self.clone()
        }
    }

    /// A first call.
    pub(crate) async fn call(&self, tool: &str, arguments: &Value) -> Result<Answer, Fault> {
        self.send(tool, arguments, &json!({})).await
    }

    /// A retry: these answers, this state.
    pub(crate) async fn retry(
        &self,
        tool: &str,
        arguments: &Value,
        answers: &Value,
        state: &str,
    ) -> Result<Answer, Fault> {
        self.send(
            tool,
            arguments,
            &json!({ "inputResponses": answers, "requestState": state }),
        )
        .await
    }

    /// A call with these further params.
    pub(crate) async fn send(
        &self,
        tool: &str,
        arguments: &Value,
        more: &Value,
    ) -> Result<Answer, Fault> {
        self.request(Target::Tool(tool, arguments), more).await
    }

    /// A request for a tool or a prompt, with these further params.
    pub(crate) async fn request(&self, target: Target<'_>, more: &Value) -> Result<Answer, Fault> {
        let (method, name, _) = target.parts();
        let response = self
            .http
            .post(&self.url)
            .bearer_auth(&self.token)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method)
            .header("mcp-name", name)
            .body(self.body_for(target, more).to_string())
            .send()
            .await?;
        let status = response.status();
        let bytes = response.bytes().await?;
        Ok(Answer {
            status,
            body: serde_json::from_slice(&bytes)?,
        })
    }

    pub(crate) fn body(&self, tool: &str, arguments: &Value, more: &Value) -> Value {
        self.body_for(Target::Tool(tool, arguments), more)
    }

    fn body_for(&self, target: Target<'_>, more: &Value) -> Value {
        let (method, name, arguments) = target.parts();
        let mut params = json!({
            "name": name,
            "arguments": arguments,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            },
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            params[name] = value.clone();
        }
        json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params })
    }
}

impl<'a> Target<'a> {
    /// The method, the name and the arguments.
    fn parts(self) -> (&'static str, &'a str, &'a Value) {
        match self {
            Target::Tool(name, arguments) => ("tools/call", name, arguments),
            Target::Prompt(name, arguments) => ("prompts/get", name, arguments),
        }
    }
}

impl Answer {
    /// The state of a question, or what came instead of one.
    pub(crate) fn state(&self) -> Result<&str, Fault> {
        let state = self.body["result"]["requestState"].as_str();
        state.ok_or_else(|| Fault(format!("no state came, but {}", self.in_words())))
    }

    pub(crate) fn asks(&self) -> bool {
        self.body["result"]["resultType"] == "input_required"
    }

    /// The message of the question under this key.
    pub(crate) fn question(&self, key: &str) -> &str {
        self.body["result"]["inputRequests"][key]["params"]["message"]
            .as_str()
            .unwrap_or_default()
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.body["result"]["_meta"]["mrtr/replayed"] == true
    }

    pub(crate) fn code(&self) -> Option<i64> {
        self.body["error"]["code"].as_i64()
    }

    /// `-32021 requiring CAPABILITIES, nothing asked`: what a client is told that did not declare what is needed.
    pub(crate) fn undeclared_in_words(&self) -> String {
        let code = self
            .code()
            .map_or("no error".into(), |code| code.to_string());
        let required = &self.body["error"]["data"]["requiredCapabilities"];
        let asked = if self.body.to_string().contains("inputRequests") {
            "asked"
        } else {
            "nothing asked"
        };
        match self.status.as_u16() {
            400 => format!("{code} requiring {required}, {asked}"),
            status => format!("HTTP {status}, {code} requiring {required}, {asked}"),
        }
    }

    pub(crate) fn text(&self) -> &str {
        self.body["result"]["content"][0]["text"]
            .as_str()
            .unwrap_or_default()
    }

    /// The outcome in the words of the tables: why a state was refused, or what was answered.
    pub(crate) fn in_words(&self) -> String {
        if let Some(message) = self.body["error"]["message"].as_str() {
            let refused = message
                .strip_prefix("Invalid requestState: ")
                .and_then(|words| words.split(". ").next());
            return refused.unwrap_or(message).to_owned();
        }
        if self.asks() {
            return "asked".into();
        }
        if self.body["result"]["isError"] == true {
            return format!("the tool failed: {}", self.text());
        }
        "accepted".into()
    }
}

/// One request of a client and its answer.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    pub(crate) request: Value,
    pub(crate) answer: Value,
    /// Everything that was sent: URL, headers, body.
    pub(crate) sent: String,
    /// Everything that was received: headers, body.
    pub(crate) received: String,
}

/// A transport that notes what passes it.
#[derive(Debug, Clone)]
pub(crate) struct Recording {
    inner: HttpTransport,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

impl Recording {
    pub(crate) fn new() -> Result<Self, Fault> {
        let inner = HttpTransport::new().map_err(|error| Fault(error.to_string()))?;
        Ok(Self {
            inner,
            exchanges: Arc::default(),
        })
    }

    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        self.exchanges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// `2 requests with different ids`, as they crossed the wire.
    pub(crate) fn requests_in_words(&self) -> String {
        let exchanges = self.exchanges();
        let mut ids: Vec<String> = exchanges
            .iter()
            .map(|exchange| exchange.request["id"].to_string())
            .collect();
        ids.sort();
        ids.dedup();
        match (exchanges.len(), ids.len()) {
            (1, 1) => "1 request".into(),
            (requests, different) if requests == different => {
                format!("{requests} requests with different ids")
            }
            (requests, different) => format!("{requests} requests with {different} ids"),
        }
    }
}

impl Transport for Recording {
    fn send(&self, request: http::Request<Bytes>) -> TransportFuture<'_> {
        let body = serde_json::from_slice(request.body()).unwrap_or(Value::Null);
        let sent = format!(
            "{}\n{}\n{}",
            request.uri(),
            in_lines(request.headers()),
            String::from_utf8_lossy(request.body())
        );
        Box::pin(async move {
            let (head, mut chunks) = self.inner.send(request).await?.into_parts();
            let mut bytes = Vec::new();
            while let Some(chunk) = chunks.chunk().await? {
                bytes.extend_from_slice(&chunk);
            }
            let answer = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            let exchange = Exchange {
                request: body,
                answer,
                sent,
                received: format!(
                    "{}\n{}",
                    in_lines(&head.headers),
                    String::from_utf8_lossy(&bytes)
                ),
            };
            self.exchanges
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(exchange);
            Ok(http::Response::from_parts(
                head,
                ResponseBody::from_bytes(bytes.into()),
            ))
        })
    }
}

fn in_lines(headers: &http::HeaderMap) -> String {
    let lines = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())));
    lines.collect::<Vec<_>>().join("\n")
}
