use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

fn wire<T: JsonSchema + 'static>() -> Value {
    FormSchema::of::<T>().unwrap().wire.read().unwrap()
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only the schema is looked at")]
struct Everything {
    /// Tick to go on.
    confirm: bool,
    /// How many?
    #[schemars(range(min = 1, max = 9))]
    number: u32,
    ratio: Option<f64>,
    #[schemars(email)]
    mail: String,
    #[schemars(length(min = 2, max = 5))]
    code: Option<String>,
    size: Size,
    dish: Option<Dish>,
    extras: Vec<Size>,
}

#[derive(Deserialize, JsonSchema, Debug, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Size {
    Small,
    Large,
}

/// What to eat.
#[derive(Deserialize, JsonSchema, Debug, PartialEq)]
enum Dish {
    /// Soup of the day
    Soup,
    Salad,
}

#[test]
fn every_permitted_shape_is_reduced_and_keeps_its_order() {
    let schema = wire::<Everything>();
    let fields: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    assert_eq!(
        fields,
        [
            "confirm", "number", "ratio", "mail", "code", "size", "dish", "extras"
        ]
    );
    let property = |name: &str| schema["properties"][name].clone();
    assert_eq!(
        property("confirm"),
        json!({ "type": "boolean", "description": "Tick to go on." })
    );
    assert_eq!(
        property("number"),
        json!({ "type": "integer", "minimum": 1, "maximum": 9, "description": "How many?" })
    );
    assert_eq!(property("ratio"), json!({ "type": "number" }));
    assert_eq!(
        property("mail"),
        json!({ "type": "string", "format": "email" })
    );
    assert_eq!(
        property("code"),
        json!({ "type": "string", "minLength": 2, "maxLength": 5 })
    );
    assert_eq!(
        property("size"),
        json!({ "type": "string", "enum": ["small", "large"] })
    );
    assert_eq!(
        property("dish"),
        json!({
            "type": "string",
            // schemars puts variants without a comment first.
            "oneOf": [{ "const": "Salad", "title": "Salad" }, { "const": "Soup", "title": "Soup of the day" }],
            "description": "What to eat."
        })
    );
    assert_eq!(
        property("extras"),
        json!({ "type": "array", "items": { "type": "string", "enum": ["small", "large"] } })
    );
    assert_eq!(
        schema["required"],
        json!(["confirm", "number", "mail", "size", "extras"])
    );
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only the schema is looked at")]
struct Nested {
    fine: bool,
    inner: Inner,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only the schema is looked at")]
struct Inner {
    x: bool,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only the schema is looked at")]
struct Patterned {
    #[schemars(regex(pattern = "^a+$"))]
    word: String,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code, reason = "only the schema is looked at")]
struct Listed {
    words: Vec<String>,
}

#[test]
fn case_162_what_cannot_be_reduced_names_its_field() {
    let field = |error: FormError| match error {
        FormError::Field { field, .. } => field,
        other => panic!("{other}"),
    };
    assert_eq!(field(FormSchema::of::<Nested>().unwrap_err()), "inner");
    assert_eq!(field(FormSchema::of::<Patterned>().unwrap_err()), "word");
    assert_eq!(field(FormSchema::of::<Listed>().unwrap_err()), "words");
    assert!(matches!(
        FormSchema::of::<Size>().unwrap_err(),
        FormError::NotAnObject(_)
    ));
}

#[test]
fn case_173_secrets_are_not_asked_for_by_form() {
    for name in [
        "password",
        "userPassword",
        "api_key",
        "apiKey",
        "API-KEY",
        "access_token",
        "card_number",
        "client_secret",
        "accessToken",
        "accesstoken",
        "cardnumber",
        "cvv",
        "pwd",
        "sms_otp",
    ] {
        assert!(asks_for_a_secret(name), "{name}");
    }
    for name in [
        "ok",
        "monkey",
        "tokens_left",
        "cardinal_number",
        "keyboard",
        "secretary",
        "email",
        "passenger",
        "optional",
        "postal_code",
        "discard_numbers",
    ] {
        assert!(!asks_for_a_secret(name), "{name}");
    }
    assert!(FormSchema::of::<Word<false>>().is_ok());
    assert_eq!(
        FormSchema::of::<Word<true>>().unwrap_err(),
        FormError::Secret("word".to_owned())
    );
}

/// One field, which may say that it is a password.
#[derive(Deserialize)]
#[allow(dead_code, reason = "only the schema is looked at")]
struct Word<const HIDDEN: bool> {
    word: String,
}

impl<const HIDDEN: bool> JsonSchema for Word<HIDDEN> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Word{HIDDEN}").into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let format = if HIDDEN { "password" } else { "email" };
        schemars::json_schema!({
            "type": "object",
            "properties": { "word": { "type": "string", "format": format } },
            "required": ["word"],
        })
    }
}

#[derive(Deserialize, JsonSchema, Debug, PartialEq)]
struct Strict {
    #[schemars(range(min = 0, max = 120))]
    age: u8,
    size: Size,
}

#[test]
fn answers_are_read_by_the_published_schema() {
    let form = FormSchema::of::<Strict>().unwrap();
    let read = |text: &str| form.read::<Strict>(&RawValue::from_string(text.to_owned()).unwrap());
    assert_eq!(
        read(r#"{"age":5,"size":"small"}"#),
        Some(Strict {
            age: 5,
            size: Size::Small
        })
    );
    assert_eq!(
        read(r#"{"age":5,"size":"small","zz":1}"#),
        Some(Strict {
            age: 5,
            size: Size::Small
        })
    );
    for bad in [
        r#"{"age":"5","size":"small"}"#,
        r#"{"age":121,"size":"small"}"#,
        r#"{"age":-1,"size":"small"}"#,
        r#"{"age":1.5,"size":"small"}"#,
        r#"{"size":"small"}"#,
        r#"{"age":5,"size":"B"}"#,
        r#"{"age":5,"size":{"small":null}}"#,
        r#"{"age":true,"size":"small"}"#,
        r#"[5,"small"]"#,
        "null",
    ] {
        assert_eq!(read(bad), None, "{bad}");
    }
}
