//! Annotations and values.

use serde_json::json;

use super::*;

fn of(schema: Value) -> Result<ParamHeaders, AnnotationError> {
    ParamHeaders::of(&JsonObject::from_serialize(&schema).unwrap())
}

fn with(property: Value) -> Value {
    json!({"type": "object", "properties": {"p": property}})
}

#[test]
fn case_189_invalid_annotations_are_found_wherever_they_are() {
    assert!(
        !of(with(json!({"type": "string", "x-mcp-header": "Region"})))
            .unwrap()
            .is_empty()
    );
    assert!(
        !of(with(
            json!({"type": "object", "properties": {"q": {"type": "integer", "x-mcp-header": "Q"}}})
        ))
        .unwrap()
        .is_empty()
    );
    // A property of that name is no annotation, and neither is data.
    assert!(of(json!({"type": "object", "properties": {"x-mcp-header": {"type": "string"}}, "default": {"x-mcp-header": "A"}})).unwrap().is_empty());
    for (schema, error) in [
        (
            with(json!({"type": "string", "x-mcp-header": ""})),
            AnnotationError::Name,
        ),
        (
            with(json!({"type": "string", "x-mcp-header": "a b"})),
            AnnotationError::Name,
        ),
        (
            with(json!({"type": "string", "x-mcp-header": "X\r\nY"})),
            AnnotationError::Name,
        ),
        (
            with(json!({"type": "string", "x-mcp-header": "é"})),
            AnnotationError::Name,
        ),
        (
            with(json!({"type": "string", "x-mcp-header": 7})),
            AnnotationError::Name,
        ),
        (
            with(json!({"type": "number", "x-mcp-header": "N"})),
            AnnotationError::Type,
        ),
        (
            with(json!({"type": ["string", "null"], "x-mcp-header": "N"})),
            AnnotationError::Type,
        ),
        (with(json!({"x-mcp-header": "N"})), AnnotationError::Type),
        (
            with(json!({"type": "array", "items": {"type": "string", "x-mcp-header": "N"}})),
            AnnotationError::Place,
        ),
        (
            with(json!({"oneOf": [{"type": "string", "x-mcp-header": "N"}]})),
            AnnotationError::Place,
        ),
        (
            with(
                json!({"allOf": [{"properties": {"q": {"type": "string", "x-mcp-header": "N"}}}]}),
            ),
            AnnotationError::Place,
        ),
        (
            json!({"type": "object", "$defs": {"d": {"type": "string", "x-mcp-header": "N"}}}),
            AnnotationError::Place,
        ),
        (
            json!({"type": "object", "x-mcp-header": "N"}),
            AnnotationError::Place,
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "Region"}, "b": {"type": "string", "x-mcp-header": "region"}}}),
            AnnotationError::Twice,
        ),
    ] {
        assert_eq!(of(schema.clone()), Err(error), "{schema}");
    }
}

#[test]
fn values_are_spelt_as_the_specification_says() {
    let property = |kind: &str, name: &str| json!({"type": kind, "x-mcp-header": name});
    let headers = of(json!({"type": "object", "properties": {"s": property("string", "S"), "n": property("integer", "N"), "b": property("boolean", "B"),
        "o": {"type": "object", "properties": {"q": property("string", "Q")}}}}))
    .unwrap();
    let values = |arguments: Value| {
        let arguments = JsonObject::from_serialize(&arguments).unwrap();
        headers.values(Some(&arguments)).map(|values| {
            values
                .into_iter()
                .map(|(name, value)| format!("{name}: {value}"))
                .collect::<std::collections::BTreeSet<_>>()
        })
    };
    let set = |lines: &[&str]| Ok(lines.iter().map(|line| (*line).to_owned()).collect());
    assert_eq!(
        values(json!({"s": "Hello, 世界", "n": -7, "b": true, "o": {"q": "us-west1"}})),
        set(&[
            "mcp-param-s: =?base64?SGVsbG8sIOS4lueVjA==?=",
            "mcp-param-n: -7",
            "mcp-param-b: true",
            "mcp-param-q: us-west1"
        ])
    );
    assert_eq!(values(json!({"s": null, "o": {}})), set(&[]));
    assert_eq!(
        values(json!({"n": 9_007_199_254_740_991_i64})),
        set(&["mcp-param-n: 9007199254740991"])
    );
    assert_eq!(values(json!({"s": ""})), set(&["mcp-param-s: "]));
    assert_eq!(values(json!({"n": 42.0})), set(&["mcp-param-n: 42"]));
    for unsafe_integer in [json!(9_007_199_254_740_993_i64), json!(1e300)] {
        assert_eq!(
            values(json!({ "n": unsafe_integer })),
            Err(UnsafeInteger("n".to_owned()))
        );
    }
    // Of no type that goes into a header: the tool's schema refuses them.
    assert_eq!(
        values(json!({"n": 1.5, "s": ["a"], "b": {}, "o": 7})),
        set(&[])
    );
    assert_eq!(headers.values(None), Ok(vec![]));
}

#[test]
fn a_header_says_what_the_body_says_or_it_does_not() {
    let said = |value: &str, header: &str| {
        let raw: Box<RawValue> = serde_json::from_str(value).unwrap();
        ParamValue::read(&raw).unwrap().is_said_by(header)
    };
    for (value, header) in [
        (r#""us-west1""#, "us-west1"),
        (r#""\u0061""#, "a"),
        (r#""""#, ""),
        (r#""""#, "=?base64??="),
        (r#"" padded ""#, "=?base64?IHBhZGRlZCA=?="),
        (r#""42""#, "42"),
        ("42", "42"),
        ("42", "42.0"),
        ("4.2e1", "42"),
        ("42", "=?base64?NDI=?="),
        ("-0", "0"),
        ("true", "true"),
        ("false", "false"),
    ] {
        assert_eq!(said(value, header), Ok(true), "{value} {header}");
    }
    for (value, header) in [
        (r#""us-west1""#, "US-WEST1"),
        (r#"" padded ""#, "padded"),
        (r#""42""#, "42.0"),
        ("42", "43"),
        ("42", "042"),
        ("42", ""),
        ("42", "forty-two"),
        ("true", "TRUE"),
        ("true", "1"),
        ("false", ""),
        ("9007199254740993", "9007199254740993"),
        ("1.5", "1.5"),
        ("[1]", "[1]"),
    ] {
        assert_eq!(said(value, header), Ok(false), "{value} {header}");
    }
    for header in [
        "=?base64?SGVsbG8?=",
        "=?base64?SGVs!!!bG8=?=",
        "caf\u{e9}",
        "a\u{1}b",
    ] {
        assert!(said(r#""Hello""#, header).is_err(), "{header}");
    }
    let null: Box<RawValue> = serde_json::from_str("null").unwrap();
    assert_eq!(ParamValue::read(&null), None);
}
