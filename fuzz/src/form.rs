//! Forms: what a client sends fits, and the server takes what its client sends.

use std::sync::{Arc, LazyLock, Mutex};

use bytes::Bytes;
use mrtr_client::era::EraChoice;
use mrtr_client::{Client, FormAnswer, FormQuestion, ResponseBody, Transport, TransportFuture};
use mrtr_protocol::{ElicitForm, FormSchema, JsonObject, strict};
use mrtr_server::{Question as _, Rendered};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::{self, Json};
use crate::runtime;

/// A form's schema, and in the lines behind the first the content of an answer.
pub fn run(data: &[u8]) {
    LazyLock::force(&GOOD);
    check(data);
}

/// A good answer is sent.
static GOOD: LazyLock<()> = LazyLock::new(|| {
    let schema = r#"{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}"#;
    let schema = JsonObject::parse(schema).expect("an object");
    let sent = answered(&schema, serde_json::json!({ "ok": true }));
    assert_eq!(sent.as_deref(), Some(r#"{"ok":true}"#), "the good path");
});

fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (schema, content) = text.split_once('\n').unwrap_or((text, "{}"));
    // As at a boundary: nothing gets further that the strict pass refuses.
    if strict::check(schema.as_bytes()).is_err() || strict::check(content.as_bytes()).is_err() {
        return;
    }
    let Ok(schema) = JsonObject::parse(schema) else {
        return;
    };
    let read = FormSchema::parse(&schema);
    let rendered = Rendered::form(&ElicitForm::new("m", schema.clone()));
    if rendered.is_ok() {
        assert!(
            read.is_ok(),
            "a server puts a form that a client would not take"
        );
    }
    if let Ok(form) = &read {
        assert!(form.fields.len() <= FormSchema::MAX_FIELDS);
        // What a validator gets is a form again, and the same one.
        let rules = JsonObject::from_serialize(form.rules()).expect("an object");
        let again = FormSchema::parse(&rules).expect("the rules of a form are a form");
        assert_eq!(again.fields.len(), form.fields.len());
        assert_eq!(again.rules(), form.rules());
    }
    let (Ok(raw), Ok(value)) = (
        serde_json::from_str::<&RawValue>(content),
        serde_json::from_str::<Value>(content),
    ) else {
        return;
    };
    let sent = answered(&schema, value);
    if let Some(sent) = &sent {
        assert!(read.is_ok(), "an answer to what is no form");
        let schema = json::read(schema.as_str()).expect("JSON");
        fits(&schema, &json::read(sent).expect("a client sends JSON"));
    }
    if let Ok(rendered) = rendered {
        let taken = rendered.read(raw);
        assert_eq!(
            sent.is_some(),
            taken.is_some(),
            "client and server differ about an answer"
        );
        if let Some(taken) = taken {
            let fields = read.expect("a form").fields.len();
            let taken: serde_json::Map<String, Value> =
                serde_json::from_str(taken.get()).expect("an object");
            assert!(taken.len() <= fields);
        }
    }
}

/// The content that the client sends when its host accepts with this value; `None`: it sends none.
fn answered(schema: &JsonObject, value: Value) -> Option<String> {
    let sent: Arc<Mutex<Option<String>>> = Arc::default();
    let wire = Wire {
        schema: schema.as_str().to_owned(),
        sent: Arc::clone(&sent),
    };
    let client = Client::builder("http://localhost/mcp")
        .transport(wire)
        .era(EraChoice::Modern)
        .without_cache()
        .on_form(Host(value))
        .build()
        .expect("a client");
    drop(runtime().block_on(client.call_tool("t", ())));
    let mut sent = sent.lock().expect("not poisoned");
    sent.take()
}

/// A host that accepts every form with the same value.
struct Host(Value);

impl mrtr_client::FormHandler for Host {
    fn answer(&self, _: FormQuestion) -> mrtr_client::handler::HandlerFuture<'_, FormAnswer> {
        let answer = FormAnswer::Accept(self.0.clone());
        Box::pin(async { Ok(answer) })
    }
}

/// A server that asks once.
#[derive(Debug)]
struct Wire {
    schema: String,
    sent: Arc<Mutex<Option<String>>>,
}

impl Transport for Wire {
    fn send(&self, request: http::Request<Bytes>) -> TransportFuture<'_> {
        let text = std::str::from_utf8(request.body()).expect("a client sends text");
        let message = json::read(text).expect("a client sends JSON");
        let style = json::Style::default();
        let id = message
            .get("id")
            .map_or("1".to_owned(), |id| id.write(style));
        let params = message.get("params");
        let answer = params.and_then(|params| params.get("inputResponses")?.get("f"));
        let result = match answer {
            None if params.is_some_and(|params| params.get("name").is_some()) => format!(
                r#"{{"resultType":"input_required","requestState":"s","inputRequests":{{"f":{{"method":"elicitation/create","params":{{"mode":"form","message":"m","requestedSchema":{}}}}}}}}}"#,
                self.schema
            ),
            None => r#"{"resultType":"complete","tools":[]}"#.to_owned(),
            Some(answer) => {
                let content = answer.get("content").map(|content| content.write(style));
                *self.sent.lock().expect("not poisoned") = content;
                r#"{"resultType":"complete","content":[]}"#.to_owned()
            }
        };
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        let response = http::Response::builder()
            .header("content-type", "application/json")
            .body(ResponseBody::from_bytes(body.into()))
            .expect("a response");
        Box::pin(async { Ok(response) })
    }
}

/// What a second reader can say of content without a validator: what is required is there, and each field is of its type.
fn fits(schema: &Json, content: &Json) {
    let Json::Object(content) = content else {
        panic!("content that is no object");
    };
    if let Some(Json::Array(required)) = schema.get("required") {
        for name in required.iter().filter_map(Json::text) {
            assert!(
                content.iter().any(|(own, _)| own == name),
                "{name} is missing"
            );
        }
    }
    for (name, value) in content {
        let field = schema
            .get("properties")
            .and_then(|properties| properties.get(name));
        let kind = field
            .and_then(|field| field.get("type"))
            .and_then(Json::text);
        let fits = match kind {
            Some("string") => value.text().is_some(),
            Some("boolean") => matches!(value, Json::Bool(_)),
            Some("number") => matches!(value, Json::Number(_)),
            Some("integer") => {
                matches!(value, Json::Number(text) if text.parse().is_ok_and(|n: f64| n.fract() == 0.0))
            }
            Some("array") => {
                matches!(value, Json::Array(items) if items.iter().all(|item| item.text().is_some()))
            }
            _ => true,
        };
        assert!(fits, "{name} is no {kind:?}");
    }
}
