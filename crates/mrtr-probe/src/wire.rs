//! Requests that can be spoilt in every way, and what a reply says.

use mrtr_protocol::{REVISION, code, headers, meta, method};
use serde_json::{Map, Value, json};

use crate::http::{Broken, Endpoint, Response};
use crate::redact::Redact;

/// A request, header by header, before it goes out.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    verb: &'static str,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// Whether it may come to nothing, or to an internal error, and that is no finding of its own.
    may_fail: bool,
}

/// The params of a request and what is declared with it.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) params: Map<String, Value>,
    pub(crate) capabilities: Value,
    pub(crate) bearer: Option<String>,
}

/// Everything that a client can be asked.
pub(crate) fn all_capabilities() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {} })
}

impl Call {
    pub(crate) fn new(method: &str, params: Value, bearer: Option<&str>) -> Self {
        let params = match params {
            Value::Object(params) => params,
            _ => Map::new(),
        };
        Self {
            method: method.to_owned(),
            params,
            capabilities: all_capabilities(),
            bearer: bearer.map(str::to_owned),
        }
    }

    pub(crate) fn with(mut self, name: &str, value: Value) -> Self {
        self.params.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.params.remove(name);
        self
    }

    pub(crate) fn declaring(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }

    pub(crate) fn by(mut self, bearer: Option<&str>) -> Self {
        self.bearer = bearer.map(str::to_owned);
        self
    }

    /// The params with the modern era's `_meta`.
    pub(crate) fn modern_params(&self) -> Map<String, Value> {
        let mut params = self.params.clone();
        let entries = params
            .entry("_meta")
            .or_insert_with(|| Value::Object(Map::new()));
        if let Some(entries) = entries.as_object_mut() {
            entries.insert(meta::PROTOCOL_VERSION.to_owned(), REVISION.into());
            entries.insert(
                meta::CLIENT_CAPABILITIES.to_owned(),
                self.capabilities.clone(),
            );
        }
        params
    }

    /// The request as the specification has it.
    pub(crate) fn message(&self) -> Message {
        let body = self.body();
        let mut message = Message::post(body.to_string().into_bytes())
            .header(headers::PROTOCOL_VERSION, REVISION)
            .header(headers::METHOD, &self.method);
        if let Some(name) = headers::name_source(&self.method)
            .and_then(|source| self.params.get(source))
            .and_then(Value::as_str)
        {
            message = message.header(headers::NAME, &headers::encode(name));
        }
        self.signed(message)
    }

    pub(crate) fn body(&self) -> Value {
        json!({ "jsonrpc": "2.0", "id": ID, "method": self.method, "params": self.modern_params() })
    }

    /// The same call as a client of the earlier era sends it.
    pub(crate) fn earlier(&self, session: Option<&str>) -> Message {
        let body =
            json!({ "jsonrpc": "2.0", "id": ID, "method": self.method, "params": self.params });
        let mut message = Message::post(body.to_string().into_bytes())
            .header(headers::PROTOCOL_VERSION, "2025-11-25");
        if let Some(session) = session {
            message = message.header(headers::SESSION_ID, session);
        }
        self.signed(message)
    }

    fn signed(&self, message: Message) -> Message {
        match &self.bearer {
            Some(bearer) => message.header("authorization", &format!("Bearer {bearer}")),
            None => message,
        }
    }
}

/// Every request has a connection of its own, so one id serves all.
const ID: u64 = 7;

impl Message {
    fn post(body: Vec<u8>) -> Self {
        let message = Self {
            verb: "POST",
            headers: Vec::new(),
            body,
            may_fail: false,
        };
        message
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
    }

    /// Sets a header: it is there once.
    pub(crate) fn header(self, name: &str, value: &str) -> Self {
        self.without(name).and_header(name, value)
    }

    /// Adds a line, whatever is there.
    pub(crate) fn and_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Puts a line before all others.
    pub(crate) fn header_first(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(0, (name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers
            .retain(|(header, _)| !header.eq_ignore_ascii_case(name));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn may_fail(mut self) -> Self {
        self.may_fail = true;
        self
    }

    /// Whether a reply to it shows that something broke.
    pub(crate) fn shows_a_fault(&self, reply: &Reply) -> bool {
        let broke = reply.came.is_err() || reply.is_internal();
        broke && !self.may_fail
    }

    fn has(&self, name: &str) -> bool {
        self.headers
            .iter()
            .any(|(header, _)| header.eq_ignore_ascii_case(name))
    }

    /// The bytes that go out. `Host`, `Content-Length` and `Connection` are added where the message has none of its own.
    pub(crate) fn bytes(&self, to: &Endpoint) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.verb, to.path);
        if !self.has("host") {
            head.push_str(&format!("host: {}\r\n", to.authority));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.has("content-length") && !self.has("transfer-encoding") {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("connection: close\r\n\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// What was sent, for people: what is unusual in the headers, and the body.
    pub(crate) fn shown(&self, redact: &Redact) -> String {
        let usual = ["content-type", "accept", "authorization"];
        let mut text = self.verb.to_owned();
        for (name, value) in &self.headers {
            let twice = self.headers.iter().filter(|(other, _)| other == name);
            if !usual.contains(&name.as_str()) || twice.count() > 1 {
                text.push_str(&format!(" {name}: {value};"));
            }
        }
        if !self.has("content-type") {
            text.push_str(" no content-type;");
        }
        if !self.has("authorization") {
            text.push_str(" no authorization;");
        }
        text.push(' ');
        text.push_str(&String::from_utf8_lossy(
            self.body
                .get(..self.body.len().min(4096))
                .unwrap_or_default(),
        ));
        redact.text(&text)
    }
}

/// A reply, read as far as it can be.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) came: Result<Response, Broken>,
    /// The JSON-RPC message in it.
    pub(crate) message: Option<Value>,
}

/// What a reply says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Said<'a> {
    /// A final result that is no failure.
    Complete(&'a Value),
    /// A question, in either era.
    Asked,
    /// A result that says that the tool failed.
    Failed(&'a Value),
    /// A JSON-RPC error.
    Refused(i64),
    /// An HTTP status and nothing of JSON-RPC.
    Status(u16),
    /// Nothing.
    Broken(&'a Broken),
}

impl Reply {
    pub(crate) fn of(came: Result<Response, Broken>) -> Self {
        let message = came.as_ref().ok().and_then(|response| {
            if response.is_stream() {
                event(&response.body)
            } else {
                serde_json::from_slice(&response.body).ok()
            }
        });
        Self { came, message }
    }

    pub(crate) fn status(&self) -> Option<u16> {
        self.came.as_ref().ok().map(|response| response.status)
    }

    pub(crate) fn result(&self) -> Option<&Value> {
        self.message.as_ref()?.get("result")
    }

    pub(crate) fn said(&self) -> Said<'_> {
        let response = match &self.came {
            Ok(response) => response,
            Err(broken) => return Said::Broken(broken),
        };
        let Some(message) = &self.message else {
            return Said::Status(response.status);
        };
        if let Some(code) = message.pointer("/error/code").and_then(Value::as_i64) {
            return Said::Refused(code);
        }
        if message.get("method").is_some() && message.get("id").is_some() {
            return Said::Asked;
        }
        match message.get("result") {
            Some(result) if result.get("resultType") == Some(&json!("input_required")) => {
                Said::Asked
            }
            Some(result) if result.get("isError") == Some(&json!(true)) => Said::Failed(result),
            Some(result) => Said::Complete(result),
            None => Said::Status(response.status),
        }
    }

    /// Whether something broke inside the server, rather than that it refused.
    pub(crate) fn is_internal(&self) -> bool {
        self.status()
            .is_some_and(|status| status >= 500 && status != 503)
            || self.said() == Said::Refused(code::INTERNAL_ERROR)
    }

    /// Whether the request was served: a result, an answer to a question or a question.
    pub(crate) fn is_served(&self) -> bool {
        matches!(
            self.said(),
            Said::Complete(_) | Said::Asked | Said::Failed(_)
        )
    }

    /// Whether a result is one that was stored: it came again, and nothing ran.
    pub(crate) fn is_replayed(&self) -> bool {
        self.result()
            .and_then(|result| result.get("_meta")?.get(meta::REPLAYED))
            == Some(&json!(true))
    }

    /// In a few words, the same for replies of one sort.
    pub(crate) fn sort(&self) -> String {
        match self.said() {
            Said::Complete(_) if self.is_replayed() => "gave the stored result".to_owned(),
            Said::Complete(_) => "gave a result".to_owned(),
            Said::Asked => "asked".to_owned(),
            Said::Failed(_) => "said that the tool failed".to_owned(),
            Said::Refused(code) => format!("refused with {code}"),
            Said::Status(status) => format!("refused with HTTP {status}"),
            Said::Broken(broken) => broken.to_string(),
        }
    }

    /// What came back, for people.
    pub(crate) fn shown(&self, redact: &Redact) -> String {
        let response = match &self.came {
            Ok(response) => response,
            Err(broken) => return broken.to_string(),
        };
        let body = match &self.message {
            Some(message) => message.to_string(),
            None => String::from_utf8_lossy(&response.body).into_owned(),
        };
        redact.text(&format!("HTTP {} {body}", response.status))
    }
}

/// The first message of a stream that is a response or a request: what comes before it is notifications.
fn event(body: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(body).replace("\r\n", "\n");
    text.split("\n\n").find_map(|event| {
        let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
        let data: Vec<&str> = lines
            .map(|line| line.strip_prefix(' ').unwrap_or(line))
            .collect();
        let message: Value = serde_json::from_str(&data.join("\n")).ok()?;
        message.get("id").is_some().then_some(message)
    })
}

/// Whether a stream holds what was waited for.
pub(crate) fn has_event(body: &[u8]) -> bool {
    event(body).is_some()
}

/// An object with one member set.
pub(crate) fn with_member(object: &Value, name: &str, value: impl Into<Value>) -> Value {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value.into());
    }
    object
}

/// `tools/call` of a tool.
pub(crate) fn tool_call(tool: &str, arguments: &Value, bearer: Option<&str>) -> Call {
    let params = json!({ "name": tool, "arguments": arguments });
    Call::new(method::TOOLS_CALL, params, bearer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(content_type: &str, body: &str) -> Reply {
        Reply::of(Ok(Response {
            status: 200,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            body: body.as_bytes().to_vec(),
        }))
    }

    #[test]
    fn replies_are_told_apart() {
        let json = |body| reply("application/json", body);
        assert!(matches!(
            json(r#"{"id":7,"result":{"content":[]}}"#).said(),
            Said::Complete(_)
        ));
        assert_eq!(
            json(r#"{"id":7,"result":{"resultType":"input_required"}}"#).said(),
            Said::Asked
        );
        assert!(matches!(
            json(r#"{"id":7,"result":{"isError":true}}"#).said(),
            Said::Failed(_)
        ));
        assert_eq!(
            json(r#"{"error":{"code":-32602}}"#).said(),
            Said::Refused(-32602)
        );
        assert_eq!(json("not JSON").said(), Said::Status(200));
        assert_eq!(
            Reply::of(Err(Broken::Late)).said(),
            Said::Broken(&Broken::Late)
        );
        assert!(json(r#"{"result":{"_meta":{"mrtr/replayed":true}}}"#).is_replayed());
        assert!(!json(r#"{"result":{"_meta":{"mrtr/replayed":"true"}}}"#).is_replayed());
    }

    #[test]
    fn the_response_of_a_stream_is_found_behind_notifications() {
        let notice = "data: {\"method\":\"notifications/progress\"}\r\n\r\n";
        assert!(!has_event(notice.as_bytes()));
        let stream = format!(
            ": hello\n\n{notice}event: message\ndata: {{\"id\":7,\ndata: \"result\":{{}}}}\n\n"
        );
        assert!(matches!(
            reply("text/event-stream", &stream).said(),
            Said::Complete(_)
        ));
        let asks = "data: {\"id\":1,\"method\":\"elicitation/create\"}\n\n";
        assert_eq!(reply("text/event-stream", asks).said(), Said::Asked);
    }

    #[test]
    fn lines_can_be_repeated_and_no_credentials_are_shown() {
        let call = tool_call("pay", &json!({}), Some("secret-a"));
        let message = call.message().and_header(headers::NAME, "other");
        let shown = message.shown(&Redact::new(["secret-a"]));
        assert!(shown.contains("mcp-name: pay; mcp-name: other;"), "{shown}");
        let twice = message.and_header("authorization", "Bearer secret-a");
        let shown = twice.shown(&Redact::new(["secret-a"]));
        assert!(
            shown.contains("authorization") && !shown.contains("secret-a"),
            "{shown}"
        );
    }
}
