//! Requests as a client sends them, without a client's good manners: each on a connection of its own, which can be cut.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::catalogue::Said;
use crate::driver::Failure;
use crate::driver::fleet::Up;
use crate::history::{Call, Errand, Got, Recorder, Reply, Sent};
use crate::server::bearer;
use crate::trace;

/// How long a response may take. Every wait of a server is shorter.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// The response is waited for and taken in.
    Heed,
    /// The response arrives and is lost on the client's side.
    Lose,
    /// The connection is cut this long after the request was begun.
    Cut(Duration),
}

/// What requests go out through.
#[derive(Clone, Debug)]
pub(crate) struct Wire(reqwest::Client);

impl Wire {
    pub(crate) fn new() -> Result<Self, Failure> {
        let http = reqwest::Client::builder()
            // A connection that is kept may be closed by the server at any moment, through nobody's fault.
            .pool_max_idle_per_host(0)
            .build()?;
        Ok(Self(http))
    }

    /// Makes a call, and writes down what came of it. Returns what the client knows of that.
    pub(crate) async fn call(
        &self,
        up: &Up,
        errand: &Errand,
        sent: Sent,
        manner: Manner,
        seen: &Recorder,
    ) -> Option<Got> {
        let flow = errand.arguments.flow;
        let from = trace::now();
        let exchange = self.exchange(up, errand, sent, seen);
        let got = match manner {
            Manner::Cut(after) => timeout(after, exchange).await.unwrap_or(Got::Cut),
            _ => timeout(PATIENCE, exchange).await.unwrap_or(Got::Silence),
        };
        let heeded = manner == Manner::Heed;
        seen.call(Call {
            flow,
            sent,
            to: up.process,
            from,
            till: trace::now(),
            got: got.clone(),
            heeded,
        });
        heeded.then_some(got)
    }

    async fn exchange(&self, up: &Up, errand: &Errand, sent: Sent, seen: &Recorder) -> Got {
        let request = self
            .0
            .post(&up.url)
            .bearer_auth(bearer(errand.arguments.flow, up.process))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", errand.tool.name())
            .body(body(errand, sent, seen).to_string());
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return broken(&error),
        };
        let status = response.status();
        if status == StatusCode::UNAUTHORIZED {
            return Got::Broken("another server listens there now".to_owned());
        }
        match response.bytes().await {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(body) if status.is_success() => read(&body, seen),
                _ => Got::Odd(format!(
                    "HTTP {status}: {}",
                    String::from_utf8_lossy(&bytes)
                )),
            },
            Err(error) => broken(&error),
        }
    }
}

fn body(errand: &Errand, sent: Sent, seen: &Recorder) -> Value {
    let mut params = json!({
        "name": errand.tool.name(),
        "arguments": errand.arguments,
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} } },
        },
    });
    if let (Sent::Retry(state, reply), Some(params)) = (sent, params.as_object_mut()) {
        let answer = match reply {
            Reply::Pick(pick) => json!({ "action": "accept", "content": { "pick": pick } }),
            Reply::Decline => json!({ "action": "decline" }),
            Reply::Cancel => json!({ "action": "cancel" }),
        };
        let state = seen.state_of(state);
        params.insert("inputResponses".into(), json!({ state.key: answer }));
        params.insert("requestState".into(), state.text.into());
    }
    // A new id each time: nothing goes by it.
    json!({ "jsonrpc": "2.0", "id": fastrand::u32(..), "method": "tools/call", "params": params })
}

/// What a response says.
fn read(body: &Value, seen: &Recorder) -> Got {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    if let Some(error) = body.get("error") {
        return Got::Refused {
            code: error.get("code").and_then(Value::as_i64).unwrap_or(0),
            reason: text(error.pointer("/data/reason")),
            message: text(error.get("message")).unwrap_or_default(),
        };
    }
    let result = body.get("result");
    let replayed = result.and_then(|result| result.pointer("/_meta/mrtr~1replayed"))
        == Some(&Value::Bool(true));
    let question = || {
        let state = result?.get("requestState")?.as_str()?;
        let (key, asked) = result?.get("inputRequests")?.as_object()?.iter().next()?;
        let said = Said::from_text(asked.pointer("/params/message")?.as_str()?)?;
        Some(Got::Asked {
            state: seen.state(state, key),
            said,
            replayed,
        })
    };
    let done = || {
        let content = result?.pointer("/content/0/text")?.as_str()?;
        Some(Got::Done {
            text: content.to_owned(),
            is_error: result?.get("isError") == Some(&Value::Bool(true)),
            replayed,
        })
    };
    question()
        .or_else(done)
        .unwrap_or_else(|| Got::Odd(body.to_string()))
}

fn broken(error: &reqwest::Error) -> Got {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    Got::Broken(text)
}
