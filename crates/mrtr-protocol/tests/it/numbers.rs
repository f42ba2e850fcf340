//! Case 59: numbers are read alike, whatever a stranger's dependency makes of serde_json. The package `matrix` compares four builds;
//! this says what each of them must read.

use mrtr_protocol::elicit::ElicitForm;
use mrtr_protocol::form::FieldInput;
use mrtr_protocol::notification::ProgressParams;
use mrtr_protocol::{
    Annotations, ContentBlock, CreateMessageParams, FormSchema, JsonObject, Message, strict,
};

/// What is read of a type that holds the number in place of `@`.
type Read = fn(&str) -> Option<f64>;

/// Every type with a number that may have a point.
const READERS: &[(&str, &str, Read)] = &[
    ("progress", r#"{"progressToken":1,"progress":@}"#, |text| {
        serde_json::from_str::<ProgressParams>(text)
            .ok()
            .map(|params| params.progress)
    }),
    (
        "a total",
        r#"{"progressToken":1,"progress":0,"total":@}"#,
        |text| serde_json::from_str::<ProgressParams>(text).ok()?.total,
    ),
    ("annotations", r#"{"priority":@}"#, |text| {
        serde_json::from_str::<Annotations>(text).ok()?.priority
    }),
    (
        "annotations of a content block",
        r#"{"type":"text","text":"","annotations":{"priority":@}}"#,
        |text| match serde_json::from_str::<ContentBlock>(text).ok()? {
            ContentBlock::Text(text) => text.annotations?.priority,
            _ => None,
        },
    ),
    (
        "a temperature",
        r#"{"messages":[],"maxTokens":1,"temperature":@}"#,
        |text| {
            serde_json::from_str::<CreateMessageParams>(text)
                .ok()?
                .temperature
        },
    ),
    (
        "a model's cost",
        r#"{"messages":[],"maxTokens":1,"modelPreferences":{"costPriority":@}}"#,
        |text| {
            let params = serde_json::from_str::<CreateMessageParams>(text).ok()?;
            params.model_preferences?.cost_priority
        },
    ),
    (
        "a bound of a form",
        r#"{"type":"object","properties":{"f":{"type":"number","minimum":@}}}"#,
        |text| minimum(&JsonObject::parse(text).ok()?),
    ),
    (
        "the same in a question",
        r#"{"message":"","requestedSchema":{"type":"object","properties":{"f":{"type":"number","minimum":@}}}}"#,
        |text| {
            minimum(
                &serde_json::from_str::<ElicitForm>(text)
                    .ok()?
                    .requested_schema,
            )
        },
    ),
];

fn minimum(schema: &JsonObject) -> Option<f64> {
    let field = FormSchema::parse(schema).ok()?.fields.into_iter().next()?;
    match field.input {
        FieldInput::Number { minimum, .. } => minimum,
        _ => None,
    }
}

#[test]
fn case_059_numbers_are_read_alike_in_every_build() {
    let numbers: &[(&str, Option<f64>)] = &[
        ("1", Some(1.0)),
        ("0", Some(0.0)),
        ("0.5", Some(0.5)),
        ("5e-1", Some(0.5)),
        ("1.0", Some(1.0)),
        ("1.00", Some(1.0)),
        ("1e0", Some(1.0)),
        ("10E-1", Some(1.0)),
        ("0.10000000000000000555", Some(0.1)),
        ("-0", Some(0.0)),
        ("-0.0", Some(0.0)),
        ("1e-400", Some(0.0)),
        ("1e400", None),
        ("-1e400", None),
        ("1e99999999999999999999", None),
        ("NaN", None),
        ("\"1\"", None),
        (r#"{"$serde_json::private::Number":"1"}"#, None),
        ("[1]", None),
        ("true", None),
    ];
    for (what, template, read) in READERS {
        for (number, expected) in numbers {
            let text = template.replace('@', number);
            // As every body is read: syntax, then the strict pass, then the type.
            let syntax = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
            let sound = syntax && strict::check(text.as_bytes()).is_ok();
            let found = sound.then(|| read(&text)).flatten();
            assert_eq!(found, *expected, "{what}: {number}");
        }
    }
}

/// An id is a string or an integer, digit by digit.
#[test]
fn case_059_ids_are_read_alike_in_every_build() {
    for (id, good) in [
        ("1", true),
        ("0", true),
        ("-1", true),
        ("9007199254740993", true),
        ("\"1\"", true),
        ("1.0", false),
        ("1e2", false),
        ("1.5", false),
        ("1e400", false),
        ("null", false),
        (r#"{"$serde_json::private::Number":"1"}"#, false),
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        match Message::parse(body.as_bytes()) {
            Ok(Message::Request(request)) => {
                assert!(good, "{id}");
                assert_eq!(serde_json::to_string(&request.id).unwrap(), id);
            }
            other => assert!(!good && other.is_err(), "{id}: {other:?}"),
        }
    }
}
