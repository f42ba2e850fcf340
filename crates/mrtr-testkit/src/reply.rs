//! What a server said.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use mrtr_protocol::{ErrorObject, KnownError, Members, code};
use serde_json::Value;

use crate::redacted::Redacted;

/// What the server said, read without guessing: what is not there is `None`.
///
/// Debug prints status and body, the latter without its state.
#[derive(Clone)]
pub struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    json: Value,
    error: Option<ErrorObject>,
    text: Option<String>,
    asks: Vec<String>,
}

impl Reply {
    pub(crate) fn new(status: StatusCode, headers: HeaderMap, body: Bytes) -> Reply {
        let json: Value = serde_json::from_slice(&body).unwrap_or_default();
        let error = json
            .get("error")
            .and_then(|error| serde_json::from_value(error.clone()).ok());
        let blocks = json.pointer("/result/content").and_then(Value::as_array);
        let text = blocks.map(|blocks| {
            let texts = blocks
                .iter()
                .filter_map(|block| block.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        });
        Reply {
            status,
            headers,
            json,
            error,
            text,
            asks: asks(&body).unwrap_or_default(),
            body,
        }
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The body, byte for byte.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The body as JSON; `null` when it is none, as an event stream.
    #[must_use]
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The `result` member.
    #[must_use]
    pub fn result(&self) -> Option<&Value> {
        self.json.get("result")
    }

    /// The `error` member.
    #[must_use]
    pub fn error(&self) -> Option<&ErrorObject> {
        self.error.as_ref()
    }

    /// The error's code.
    #[must_use]
    pub fn code(&self) -> Option<i64> {
        self.error.as_ref().map(|error| error.code)
    }

    /// Why a state was rejected: `data.reason`, such as `bad_signature`.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.json.pointer("/error/data/reason")?.as_str()
    }

    /// How long a retry that is in progress should wait before it is repeated.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.error.as_ref()?.known()? {
            KnownError::InProgress(data) => Some(Duration::from_millis(data.retry_after_ms)),
            _ => None,
        }
    }

    /// The keys of the questions that are put, in the server's order; none for anything but `input_required`.
    #[must_use]
    pub fn asks(&self) -> Vec<&str> {
        let asks = self.asks.iter().filter(|_| self.is_input_required());
        asks.map(String::as_str).collect()
    }

    /// The question under this key: a request without an id.
    #[must_use]
    pub fn question(&self, key: &str) -> Option<&Value> {
        self.result()?.get("inputRequests")?.get(key)
    }

    /// What the person reads of the question under this key.
    #[must_use]
    pub fn message(&self, key: &str) -> Option<&str> {
        self.question(key)?.pointer("/params/message")?.as_str()
    }

    /// The state to come back with.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        self.result()?.get("requestState")?.as_str()
    }

    /// The state of a call that must have asked.
    ///
    /// # Panics
    ///
    /// When there is none; the message says what there is instead.
    #[must_use]
    #[track_caller]
    pub fn expect_state(&self) -> &str {
        self.state()
            .unwrap_or_else(|| panic!("the server sent no state: {self:?}"))
    }

    /// What the model reads: the text blocks of a final result, a line break between them.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Whether the tool says that it failed.
    #[must_use]
    pub fn is_tool_error(&self) -> bool {
        self.json.pointer("/result/isError") == Some(&Value::Bool(true))
    }

    /// Whether the call is not over: `resultType` is `input_required`.
    #[must_use]
    pub fn is_input_required(&self) -> bool {
        let kind = self.json.pointer("/result/resultType");
        kind.is_some_and(|kind| kind == "input_required")
    }

    /// Whether this is the stored result of an earlier run.
    #[must_use]
    pub fn is_replayed(&self) -> bool {
        let flag = self
            .result()
            .and_then(|result| result.get("_meta")?.get("mrtr/replayed"));
        flag == Some(&Value::Bool(true))
    }

    /// Whether the same retry is being worked on.
    #[must_use]
    pub fn is_in_progress(&self) -> bool {
        self.code() == Some(code::IN_PROGRESS)
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.status, Redacted(&self.body))
    }
}

/// The keys of `inputRequests`, in the order of the text, which a `Value` need not keep.
fn asks(body: &[u8]) -> Option<Vec<String>> {
    let body: Members<'_> = serde_json::from_slice(body).ok()?;
    let result = Members::parse(body.get("result")?).ok()?;
    let requests = Members::parse(result.get("inputRequests")?).ok()?;
    Some(requests.iter().map(|(key, _)| key.to_owned()).collect())
}
