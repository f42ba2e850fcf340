//! A session of the earlier era, by hand: what a client of 2025-11-25 sends, and what comes on its streams.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::Fault;
use crate::wire::form;

/// How long a server may take to say something.
const PATIENCE: Duration = Duration::from_secs(20);

/// An open session of alice's.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    http: reqwest::Client,
    url: String,
    id: String,
}

/// A call whose result has not come.
#[derive(Debug)]
pub(crate) struct Call {
    response: Response,
    buffer: Vec<u8>,
}

impl Session {
    /// Opens a session of a client that can be asked by form.
    pub(crate) async fn open(url: &str) -> Result<Self, Fault> {
        let mut session = Self {
            // A connection for each message, so that none is left where nothing is being said.
            http: reqwest::Client::builder()
                .pool_max_idle_per_host(0)
                .build()?,
            url: url.to_owned(),
            id: String::new(),
        };
        let opening = json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": form(),
                "clientInfo": { "name": "demo", "version": "1" },
            },
        });
        let response = session.post(&opening).await?;
        session.id = response
            .headers()
            .get("mcp-session-id")
            .and_then(|id| id.to_str().ok())
            .ok_or_else(|| Fault(format!("no session was opened: HTTP {}", response.status())))?
            .to_owned();
        let opened = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        match session.post(&opened).await?.status() {
            StatusCode::ACCEPTED => Ok(session),
            status => Err(Fault(format!("the session was not opened: HTTP {status}"))),
        }
    }

    /// The same session, as one would go on with it at another server.
    pub(crate) fn at(&self, url: &str) -> Self {
        Self {
            url: url.to_owned(),
            ..self.clone()
        }
    }

    async fn post(&self, message: &Value) -> Result<Response, Fault> {
        let mut request = self
            .http
            .post(&self.url)
            .bearer_auth("alice-token")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if !self.id.is_empty() {
            request = request
                .header("mcp-session-id", &self.id)
                .header("mcp-protocol-version", "2025-11-25");
        }
        Ok(timeout(PATIENCE, request.body(message.to_string()).send()).await??)
    }

    /// Calls a tool. What the server says of it comes from the call.
    pub(crate) async fn call(&self, tool: &str, arguments: &Value) -> Result<Call, Fault> {
        let response = self
            .post(&json!({
                "jsonrpc": "2.0", "id": 7, "method": "tools/call",
                "params": { "name": tool, "arguments": arguments },
            }))
            .await?;
        Ok(Call {
            response,
            buffer: Vec::new(),
        })
    }

    /// Answers a question; what the server says of the answer itself.
    pub(crate) async fn answer(
        &self,
        question: &Value,
        answer: &Value,
    ) -> Result<StatusCode, Fault> {
        let response = json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer });
        Ok(self.post(&response).await?.status())
    }
}

impl Call {
    /// The question that the server puts, as it came.
    pub(crate) async fn question(&mut self) -> Result<Value, Fault> {
        let message = self.next().await?;
        match message["method"].as_str() {
            Some("elicitation/create") => Ok(message),
            _ => Err(Fault(format!("no question came, but {message}"))),
        }
    }

    /// The text of the result.
    pub(crate) async fn text(&mut self) -> Result<String, Fault> {
        let message = self.next().await?;
        message["result"]["content"][0]["text"]
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| Fault(format!("no text came, but {message}")))
    }

    /// The next message; a fault where the stream ends or breaks before one.
    pub(crate) async fn next(&mut self) -> Result<Value, Fault> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = self.buffer.drain(..end + 2).collect();
                // Every message is one line of data; a comment or the priming event has none.
                let event = String::from_utf8_lossy(&event);
                let data = event.lines().find_map(|line| line.strip_prefix("data:"));
                match data.map(str::trim) {
                    None | Some("") => continue,
                    Some(data) => return Ok(serde_json::from_str(data)?),
                }
            }
            match timeout(PATIENCE, self.response.chunk()).await?? {
                Some(chunk) => self.take(&chunk)?,
                // A result without anything before it may come as plain JSON.
                None if !self.buffer.is_empty() => {
                    let message = serde_json::from_slice(&self.buffer)?;
                    self.buffer.clear();
                    return Ok(message);
                }
                None => return Err(Fault("the stream ended".into())),
            }
        }
    }

    fn take(&mut self, chunk: &Bytes) -> Result<(), Fault> {
        self.buffer.extend_from_slice(chunk);
        match self.buffer.len() {
            ..=1_000_000 => Ok(()),
            _ => Err(Fault("a message without end".into())),
        }
    }
}
