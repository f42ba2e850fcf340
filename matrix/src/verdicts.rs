//! Envelope, strict pass, digests, and every wire type that holds a number.

use mrtr_protocol::object::read;
use mrtr_protocol::{
    Annotations, CallToolParams, CallToolResult, ClientCapabilities, CompleteResult,
    CreateMessageParams, CreateMessageResult, DiscoverResult, ElicitForm, FormSchema, Incoming,
    InputAnswer, InputRequiredResult, InputResponses, JsonObject, Kind, ListToolsResult, LogParams,
    Members, Message, ParamHeaders, ProgressParams, ReadResourceResult, RequestMeta, Response,
    ResultType, earlier, strict,
};
use mrtr_state::{JsonDigest, RawValue, RequestDigest, to_raw_value, walk_json};
use serde_json::from_str;

use crate::{corpus, hex, line};

/// Reads a text whole, and says whether it was taken.
type Reader = fn(&RawValue) -> bool;

/// A wire type: its name, a good message with `?` where a value of the corpus goes, and how it is read.
type Row = (&'static str, &'static str, Reader);

const ROWS: &[Row] = &[
    ("progress", r#"{"progressToken":"t","progress":?}"#, |raw| {
        read::<ProgressParams>(raw).is_ok()
    }),
    (
        "progress, total",
        r#"{"progressToken":"t","progress":1,"total":?}"#,
        |raw| read::<ProgressParams>(raw).is_ok(),
    ),
    (
        "progress token",
        r#"{"progressToken":?,"progress":1}"#,
        |raw| read::<ProgressParams>(raw).is_ok(),
    ),
    ("log data", r#"{"level":"info","data":?}"#, |raw| {
        read::<LogParams>(raw).is_ok()
    }),
    ("priority", r#"{"priority":?}"#, |raw| {
        read::<Annotations>(raw).is_ok()
    }),
    (
        "sampling, maxTokens",
        r#"{"messages":[],"maxTokens":?}"#,
        |raw| read::<CreateMessageParams>(raw).is_ok(),
    ),
    (
        "sampling, temperature",
        r#"{"messages":[],"maxTokens":9,"temperature":?}"#,
        |raw| read::<CreateMessageParams>(raw).is_ok(),
    ),
    (
        "sampling, priority",
        r#"{"messages":[],"maxTokens":9,"modelPreferences":{"speedPriority":?}}"#,
        |raw| read::<CreateMessageParams>(raw).is_ok(),
    ),
    (
        "sampling, tool use",
        r#"{"messages":[{"role":"assistant","content":{"type":"tool_use","id":"1","name":"n","input":{"v":?}}}],"maxTokens":9}"#,
        |raw| read::<CreateMessageParams>(raw).is_ok(),
    ),
    (
        "sampling, metadata",
        r#"{"messages":[],"maxTokens":9,"metadata":{"v":?}}"#,
        |raw| read::<CreateMessageParams>(raw).is_ok(),
    ),
    (
        "sampled",
        r#"{"role":"assistant","model":"m","content":{"type":"text","text":"x","annotations":{"priority":?}}}"#,
        |raw| read::<CreateMessageResult>(raw).is_ok(),
    ),
    (
        "tool result",
        r#"{"content":[],"structuredContent":?}"#,
        |raw| read::<CallToolResult>(raw).is_ok(),
    ),
    (
        "tool result, annotated",
        r#"{"content":[{"type":"text","text":"x","annotations":{"priority":?}}]}"#,
        |raw| read::<CallToolResult>(raw).is_ok(),
    ),
    (
        "tool result, link",
        r#"{"content":[{"type":"resource_link","uri":"a:b","name":"n","size":?}]}"#,
        |raw| read::<CallToolResult>(raw).is_ok(),
    ),
    ("tools, ttl", r#"{"tools":[],"ttlMs":?}"#, |raw| {
        read::<ListToolsResult>(raw).is_ok()
    }),
    (
        "tools, schema",
        r#"{"tools":[{"name":"n","inputSchema":{"type":"object","properties":{"a":{"maximum":?}}}}]}"#,
        |raw| read::<ListToolsResult>(raw).is_ok(),
    ),
    ("resource", r#"{"contents":[],"ttlMs":?}"#, |raw| {
        read::<ReadResourceResult>(raw).is_ok()
    }),
    (
        "resource, meta",
        r#"{"contents":[{"uri":"a:b","text":"t","_meta":{"v":?}}]}"#,
        |raw| read::<ReadResourceResult>(raw).is_ok(),
    ),
    (
        "completion, total",
        r#"{"completion":{"values":[],"total":?}}"#,
        |raw| read::<CompleteResult>(raw).is_ok(),
    ),
    (
        "discovery",
        r#"{"supportedVersions":["2026-07-28"],"capabilities":{"experimental":{"v":?}},"serverInfo":{"name":"n","version":"1"},"ttlMs":?}"#,
        |raw| read::<DiscoverResult>(raw).is_ok(),
    ),
    (
        "capabilities",
        r#"{"elicitation":{"form":{}},"experimental":{"v":?}}"#,
        |raw| read::<ClientCapabilities>(raw).is_ok(),
    ),
    ("capability", r#"{"elicitation":{"form":?}}"#, |raw| {
        read::<ClientCapabilities>(raw).is_ok()
    }),
    ("arguments", r#"{"name":"t","arguments":{"v":?}}"#, |raw| {
        Members::parse(raw).is_ok_and(|members| CallToolParams::of(&members).is_ok())
    }),
    ("arguments, whole", r#"{"name":"t","arguments":?}"#, |raw| {
        Members::parse(raw).is_ok_and(|members| CallToolParams::of(&members).is_ok())
    }),
    (
        "meta",
        r#"{"_meta":{"progressToken":?,"io.modelcontextprotocol/logLevel":?}}"#,
        |raw| {
            Members::parse(raw).is_ok_and(|members| {
                RequestMeta::of(&members).is_ok_and(|meta| meta.progress_token().is_ok())
            })
        },
    ),
    (
        "answers",
        r#"{"a":{"action":"accept","content":{"v":?}}}"#,
        |raw| InputResponses::parse(raw).is_ok(),
    ),
    (
        "answer",
        r#"{"action":"accept","content":{"v":?}}"#,
        |raw| InputAnswer::parse(raw, Kind::Form).is_ok(),
    ),
    (
        "answer, content",
        r#"{"action":"accept","content":?}"#,
        |raw| InputAnswer::parse(raw, Kind::Form).is_ok(),
    ),
    (
        "answer, sampling",
        r#"{"role":"assistant","model":"m","content":{"type":"text","text":"x","_meta":{"v":?}}}"#,
        |raw| InputAnswer::parse(raw, Kind::Sampling).is_ok(),
    ),
    (
        "round",
        r#"{"resultType":"input_required","requestState":"s","inputRequests":{"a":{"method":"elicitation/create","params":?}}}"#,
        |raw| ResultType::of(raw).is_ok() && InputRequiredResult::parse(raw).is_ok(),
    ),
    (
        "form",
        r#"{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"number","maximum":?}}}}"#,
        |raw| {
            read::<ElicitForm>(raw)
                .is_ok_and(|form| FormSchema::parse(&form.requested_schema).is_ok())
        },
    ),
    (
        "earlier result",
        r#"{"content":[],"structuredContent":{"v":?}}"#,
        |raw| earlier::result(raw.get()).is_ok(),
    ),
];

/// Fields of a form, `?` where a value of the corpus goes.
const FIELDS: &[&str] = &[
    r#"{"type":"number","minimum":?}"#,
    r#"{"type":"number","multipleOf":?}"#,
    r#"{"type":"number","default":?}"#,
    r#"{"type":"integer","maximum":?}"#,
    r#"{"type":"integer","exclusiveMinimum":?}"#,
    r#"{"type":"integer","default":?}"#,
    r#"{"type":"integer","const":?}"#,
    r#"{"type":"string","minLength":?}"#,
    r#"{"type":"string","maxLength":?}"#,
    r#"{"type":"array","items":{"type":"string","enum":["a","b"]},"maxItems":?}"#,
];

pub(crate) fn all() -> Vec<String> {
    let mut lines = Vec::new();
    for text in corpus::all() {
        messages(&text, &mut lines);
        digests(&text, &mut lines);
        types(&text, &mut lines);
        forms(&text, &mut lines);
        headers(&text, &mut lines);
    }
    data(&mut lines);
    lines
}

/// As a body, as params, as an id, and as an outcome.
fn messages(text: &str, lines: &mut Vec<String>) {
    let bodies = [
        ("body", text.to_owned()),
        (
            "params",
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"v":{text}}}}}"#),
        ),
        (
            "params, whole",
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{text}}}"#),
        ),
        (
            "id",
            format!(r#"{{"jsonrpc":"2.0","id":{text},"method":"m"}}"#),
        ),
        (
            "version",
            format!(r#"{{"jsonrpc":{text},"id":1,"method":"m"}}"#),
        ),
        (
            "other member",
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","other":{text}}}"#),
        ),
        (
            "result",
            format!(r#"{{"jsonrpc":"2.0","id":{text},"result":{{"v":{text}}}}}"#),
        ),
        (
            "error",
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32602,"message":"m","data":{text}}}}}"#
            ),
        ),
        (
            "error code",
            format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{text},"message":"m"}}}}"#),
        ),
    ];
    for (section, body) in bodies {
        let said =
            |read: Result<String, String>| read.unwrap_or_else(|error| format!("refused: {error}"));
        let request = Message::parse(body.as_bytes()).map_err(|error| error.to_string());
        let request = said(request.map(|message| match message {
            Message::Request(request) => format!("request {}", request.id),
            Message::Notification(_) => "notification".to_owned(),
        }));
        let response = Response::parse(body.as_bytes()).map_err(|error| error.to_string());
        let response =
            said(response.map(|response| {
                format!("response {:?} {:?}", response.id, response.outcome.is_ok())
            }));
        let strict = strict::check(body.as_bytes()).map_err(|error| error.to_string());
        let strict = said(strict.map(|()| "strict".to_owned()));
        let any = Incoming::parse(body.as_bytes()).is_ok();
        lines.push(line(
            section,
            &body,
            &format!("{request}; {response}; {any}; {strict}"),
        ));
    }
}

fn digests(text: &str, lines: &mut Vec<String>) {
    let request = RequestDigest::builder("tools/call", "t").json("arguments", text);
    let request = request.map_or_else(
        |error| error.to_string(),
        |digest| hex(digest.finish().as_bytes()),
    );
    lines.push(line("request digest", text, &request));
    let question = JsonDigest::of("question", text);
    let question = question.map_or_else(|error| error.to_string(), |digest| hex(digest.as_bytes()));
    lines.push(line("question digest", text, &question));
    let mut bytes = 0;
    let walked = walk_json(text, &mut |piece| bytes += piece.len());
    lines.push(line(
        "canonical bytes",
        text,
        &format!("{walked:?}, {bytes}"),
    ));
}

fn types(text: &str, lines: &mut Vec<String>) {
    for (name, pattern, taken) in ROWS {
        let message = pattern.replace('?', text);
        // As at a boundary: JSON first, then the strict pass, then the type.
        let verdict = match from_str::<&RawValue>(&message) {
            Err(_) => "not JSON",
            Ok(_) if strict::check(message.as_bytes()).is_err() => "not strict",
            Ok(raw) if taken(raw) => "accepted",
            Ok(_) => "refused",
        };
        lines.push(line(name, text, verdict));
    }
}

fn forms(text: &str, lines: &mut Vec<String>) {
    for pattern in FIELDS {
        let field = pattern.replace('?', text);
        let schema = format!(r#"{{"type":"object","properties":{{"f":{field}}}}}"#);
        let verdict = match JsonObject::parse(&schema).map(|schema| FormSchema::parse(&schema)) {
            Err(error) => error.to_string(),
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(_)) => "a form".to_owned(),
        };
        lines.push(line("form field", &field, &verdict));
    }
}

fn headers(text: &str, lines: &mut Vec<String>) {
    for kind in ["string", "integer", "boolean"] {
        let schema = format!(
            r#"{{"type":"object","properties":{{"v":{{"type":"{kind}","x-mcp-header":"V"}}}}}}"#
        );
        let headers = JsonObject::parse(&schema).map(|schema| ParamHeaders::of(&schema));
        let arguments = JsonObject::parse(&format!(r#"{{"v":{text}}}"#));
        let verdict = match (headers, arguments) {
            (Ok(Ok(headers)), Ok(arguments)) => format!("{:?}", headers.values(Some(&arguments))),
            (Ok(Ok(_)), Err(error)) => error.to_string(),
            (headers, _) => format!("{headers:?}"),
        };
        lines.push(line(kind, text, &verdict));
    }
}

/// What an author's data becomes in a state.
fn data(lines: &mut Vec<String>) {
    for number in [
        0.0,
        -0.0,
        1.0,
        0.1,
        1e22,
        1e300,
        f64::MAX,
        f64::MIN_POSITIVE,
        5e-324,
        f64::NAN,
        f64::INFINITY,
    ] {
        let raw = to_raw_value(&[number]);
        let raw = raw.map_or_else(|error| error.to_string(), |raw| raw.get().to_owned());
        lines.push(line("data", &format!("{number:e}"), &raw));
    }
    for number in [u64::MAX, u64::from(u32::MAX), 0] {
        let raw = to_raw_value(&number);
        let raw = raw.map_or_else(|error| error.to_string(), |raw| raw.get().to_owned());
        lines.push(line("data", &number.to_string(), &raw));
    }
}
