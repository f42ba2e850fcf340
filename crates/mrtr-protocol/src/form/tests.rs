use super::*;

fn parse(field: &str) -> Result<FormField, FormSchemaError> {
    let schema = format!(
        r#"{{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{{"f":{field}}},"required":["f"]}}"#
    );
    FormSchema::parse(&JsonObject::parse(&schema).unwrap())
        .map(|form| form.fields.into_iter().next().unwrap())
}

#[test]
fn case_160_reads_every_permitted_primitive() {
    let option = |value: &str, title: Option<&str>| ChoiceOption {
        value: value.to_owned(),
        title: title.map(Into::into),
    };
    let titled = vec![option("r", Some("Red")), option("g", Some("Green"))];
    let plain = vec![option("r", None), option("g", None)];
    for (schema, input) in [
        (
            r#"{"type":"string","title":"T","minLength":3,"maxLength":50,"format":"email","default":"a@b.c"}"#,
            FieldInput::Text {
                format: Some("email".to_owned()),
                min_length: Some(3),
                max_length: Some(50),
            },
        ),
        (
            r#"{"type":"number","minimum":0,"maximum":1.5}"#,
            FieldInput::Number {
                integer: false,
                minimum: Some(0.0),
                maximum: Some(1.5),
            },
        ),
        (
            r#"{"type":"integer"}"#,
            FieldInput::Number {
                integer: true,
                minimum: None,
                maximum: None,
            },
        ),
        (r#"{"type":"boolean","default":false}"#, FieldInput::Boolean),
        (
            r#"{"type":"string","enum":["r","g"]}"#,
            FieldInput::Choice {
                options: plain.clone(),
            },
        ),
        (
            r#"{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]}"#,
            FieldInput::Choice {
                options: titled.clone(),
            },
        ),
        (
            r#"{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}]}"#,
            FieldInput::Choice {
                options: titled.clone(),
            },
        ),
        (
            r#"{"type":"array","items":{"type":"string","enum":["r","g"]},"minItems":1,"maxItems":2}"#,
            FieldInput::Choices {
                options: plain,
                min_items: Some(1),
                max_items: Some(2),
            },
        ),
        (
            r#"{"type":"array","items":{"anyOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}]}}"#,
            FieldInput::Choices {
                options: titled,
                min_items: None,
                max_items: None,
            },
        ),
    ] {
        let field = parse(schema).unwrap();
        assert!(field.required);
        assert_eq!(field.input, input, "{schema}");
    }
}

#[test]
fn case_162_refuses_what_is_not_flat() {
    assert!(parse(r#"{"type":"string"}"#).is_ok());
    for (schema, problem) in [
        ("true", FieldProblem::NotAnObject),
        (
            r#"{"type":"object","properties":{}}"#,
            FieldProblem::Keyword("properties"),
        ),
        (r#"{"type":"object"}"#, FieldProblem::Type),
        (r#"{"type":["string","null"]}"#, FieldProblem::Type),
        ("{}", FieldProblem::Type),
        (r##"{"$ref":"#/$defs/x"}"##, FieldProblem::Keyword("$ref")),
        (
            r#"{"anyOf":[{"type":"string"}]}"#,
            FieldProblem::Keyword("anyOf"),
        ),
        (
            r#"{"type":"array","items":{"type":"object"}}"#,
            FieldProblem::Options,
        ),
        (r#"{"type":"array"}"#, FieldProblem::Options),
        (r#"{"type":"string","enum":[1]}"#, FieldProblem::Options),
        (
            r#"{"type":"string","oneOf":[{"const":1}]}"#,
            FieldProblem::Options,
        ),
        (
            r#"{"type":"string","minLength":"3"}"#,
            FieldProblem::Mistyped("minLength"),
        ),
    ] {
        assert_eq!(
            parse(schema).unwrap_err(),
            FormSchemaError::Field {
                name: "f".to_owned(),
                problem
            },
            "{schema}"
        );
    }
    let root = |text: &str| {
        FormSchema::parse(&JsonObject::parse(text).unwrap()).map(|form| form.fields.len())
    };
    assert_eq!(
        root(r#"{"type":"object","properties":{},"additionalProperties":false}"#),
        Ok(0)
    );
    assert_eq!(root(r#"{"type":"object"}"#), Err(FormSchemaError::Root));
    assert_eq!(root(r#"{"properties":{}}"#), Err(FormSchemaError::Root));
    assert_eq!(
        root(r#"{"type":"object","properties":{},"oneOf":[]}"#),
        Err(FormSchemaError::Keyword("oneOf"))
    );
    assert_eq!(
        root(r#"{"type":"object","properties":{},"$ref":"https://a.example/s"}"#),
        Err(FormSchemaError::Keyword("$ref"))
    );
    assert_eq!(
        root(r#"{"type":"object","properties":{},"required":"f"}"#),
        Err(FormSchemaError::Root)
    );
}

#[test]
fn case_162_nothing_that_holds_or_points_to_a_schema_gets_in() {
    let kinds = [
        r#""type":"string""#,
        r#""type":"string","enum":["a"]"#,
        r#""type":"number""#,
        r#""type":"boolean""#,
        r#""type":"array","items":{"type":"string","enum":["a"]}"#,
    ];
    let foreign = [
        r##""$ref":"#/x""##,
        r##""$dynamicRef":"#x""##,
        r##""$recursiveRef":"#""##,
        r#""$defs":{}"#,
        r#""definitions":{}"#,
        r#""$anchor":"x""#,
        r#""allOf":[]"#,
        r#""not":true"#,
        r#""if":true"#,
        r#""dependencies":{}"#,
        r#""dependentSchemas":{}"#,
        r#""contentSchema":{}"#,
        r#""unevaluatedProperties":false"#,
        r#""vendor":{"type":"string"}"#,
        r#""vendor":[{}]"#,
    ];
    for kind in kinds {
        let harmless = r#""vendor":"x","readOnly":true,"examples":["a"],"$comment":"c""#;
        assert!(parse(&format!("{{{kind},{harmless}}}")).is_ok(), "{kind}");
        for member in foreign {
            assert!(
                parse(&format!("{{{kind},{member}}}")).is_err(),
                "{kind} {member}"
            );
        }
    }
    for (good, bad) in [
        (
            r#"{"type":"number"}"#,
            r##"{"type":"number","oneOf":[{"$ref":"#/x"}]}"##,
        ),
        (
            r#"{"type":"string","oneOf":[{"const":"a","title":"A"}]}"#,
            r##"{"type":"string","oneOf":[{"const":"a","title":"A","$ref":"#/x"}]}"##,
        ),
        (
            r#"{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}}"#,
            r##"{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}],"$ref":"#/x"}}"##,
        ),
        (
            r#"{"type":"array","items":{"type":"string","enum":["a"]}}"#,
            r#"{"type":"array","items":{"type":"string","enum":["a"],"allOf":[{}]}}"#,
        ),
    ] {
        assert!(parse(good).is_ok(), "{good}");
        assert!(parse(bad).is_err(), "{bad}");
    }
    let root = |more: &str| {
        let text = format!(r#"{{"type":"object","properties":{{}}{more}}}"#);
        FormSchema::parse(&JsonObject::parse(&text).unwrap()).map(drop)
    };
    let draft = r#","$schema":"http://json-schema.org/draft-07/schema#""#;
    assert_eq!(root(draft), Ok(()));
    assert_eq!(root(r#","title":"T","vendor":1"#), Ok(()));
    assert_eq!(
        root(&format!(r#"{draft},"dependencies":{{"a":{{}}}}"#)),
        Err(FormSchemaError::Keyword("dependencies"))
    );
    assert_eq!(
        root(r#","vendor":{"a":{}}"#),
        Err(FormSchemaError::UnknownKeyword)
    );
    assert_eq!(
        root(r#","$schema":"https://a.example/dialect""#),
        Err(FormSchemaError::Dialect)
    );
    assert_eq!(root(r#","required":["a"]"#), Err(FormSchemaError::Root));
}

#[test]
fn the_rules_are_written_anew() {
    let text = r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","title":"T","additionalProperties":false,
        "required":["n","n"],"properties":{
        "$ref":{"type":"string","pattern":"^a$","format":"uri","minLength":1,"title":"T","x":1},
        "n":{"type":"integer","minimum":-9007199254740993,"multipleOf":2,"enum":[2,4]},
        "b":{"type":"boolean","const":true,"format":"x"},
        "c":{"type":"string","oneOf":[{"const":"r","title":"Red"}]},
        "m":{"type":"array","uniqueItems":true,"maxItems":2,"items":{"anyOf":[{"const":"r","title":"Red"}]}}}}"#;
    let form = FormSchema::parse(&JsonObject::parse(text).unwrap()).unwrap();
    assert_eq!(
        *form.rules(),
        serde_json::json!({"type": "object", "additionalProperties": false, "required": ["n"], "properties": {
            "$ref": {"type": "string", "pattern": "^a$", "format": "uri", "minLength": 1},
            "n": {"type": "integer", "minimum": -9_007_199_254_740_993_i64, "multipleOf": 2, "enum": [2, 4]},
            "b": {"type": "boolean", "const": true},
            "c": {"type": "string", "enum": ["r"]},
            "m": {"type": "array", "uniqueItems": true, "maxItems": 2, "items": {"type": "string", "enum": ["r"]}}}})
    );
    assert!(parse(r#"{"type":"number","multipleOf":0.5}"#).is_ok());
    for bad in ["0", "-1", "true"] {
        assert_eq!(
            parse(&format!(r#"{{"type":"number","multipleOf":{bad}}}"#)).unwrap_err(),
            FormSchemaError::Field {
                name: "f".to_owned(),
                problem: FieldProblem::Mistyped("multipleOf")
            }
        );
    }
}

#[test]
fn a_form_has_limits() {
    let fields = |count: usize, each: &str| {
        let fields: Vec<_> = (0..count).map(|n| format!(r#""f{n}":{each}"#)).collect();
        let text = format!(
            r#"{{"type":"object","properties":{{{}}}}}"#,
            fields.join(",")
        );
        FormSchema::parse(&JsonObject::parse(&text).unwrap()).map(|form| form.fields.len())
    };
    let boolean = r#"{"type":"boolean"}"#;
    assert_eq!(fields(FormSchema::MAX_FIELDS, boolean), Ok(256));
    assert_eq!(
        fields(FormSchema::MAX_FIELDS + 1, boolean),
        Err(FormSchemaError::TooManyFields)
    );
    let described = |len: usize| {
        format!(
            r#"{{"type":"boolean","description":"{}"}}"#,
            "x".repeat(len)
        )
    };
    assert_eq!(fields(1, &described(200 * 1024)), Ok(1));
    assert_eq!(
        fields(1, &described(FormSchema::MAX_LEN)),
        Err(FormSchemaError::TooLarge)
    );
    let options = |count: usize, each: &str| vec![each; count].join(",");
    let (plain, titled) = (r#""a""#, r#"{"const":"a","title":"A"}"#);
    for (head, each, tail) in [
        (r#"{"type":"string","enum":["#, plain, "]}"),
        (r#"{"type":"string","oneOf":["#, titled, "]}"),
        (r#"{"type":"array","items":{"enum":["#, plain, "]}}"),
        (r#"{"type":"array","items":{"anyOf":["#, titled, "]}}"),
        (r#"{"type":"number","enum":["#, "1", "]}"),
    ] {
        let list = |count| parse(&format!("{head}{}{tail}", options(count, each)));
        assert!(list(FormSchema::MAX_OPTIONS).is_ok(), "{head}");
        assert_eq!(
            list(FormSchema::MAX_OPTIONS + 1).unwrap_err(),
            FormSchemaError::Field {
                name: "f".to_owned(),
                problem: FieldProblem::TooManyOptions
            },
            "{head}"
        );
    }
}
