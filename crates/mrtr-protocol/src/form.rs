//! The schemas that a form may ask with: flat objects of primitives (*Elicitation, Requested Schema*).

use serde_json::value::RawValue;

use crate::object::{JsonObject, Members, as_string};

/// A form, understood field by field: enough to draw it.
///
/// Validation of content is not its business: that needs the whole schema text, which [`ElicitForm`](crate::ElicitForm) keeps.
#[derive(Debug, Clone)]
pub struct FormSchema {
    /// The fields, in the schema's order.
    pub fields: Vec<FormField>,
}

/// One field of a form.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FormField {
    /// The property's name.
    pub name: String,
    /// Whether an accept must have it.
    pub required: bool,
    /// A name for people.
    pub title: Option<String>,
    /// What to enter.
    pub description: Option<String>,
    /// What to show before the person enters something. A proposal, never an answer.
    pub default: Option<Box<RawValue>>,
    /// What it takes.
    pub input: FieldInput,
}

/// What a field takes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FieldInput {
    /// A line of text.
    Text {
        /// `email`, `uri`, `date` or `date-time`; a server may send another.
        format: Option<String>,
        /// In characters.
        min_length: Option<u64>,
        /// In characters.
        max_length: Option<u64>,
    },
    /// A number.
    Number {
        /// Whether only whole numbers are taken.
        integer: bool,
        /// The smallest.
        minimum: Option<f64>,
        /// The largest.
        maximum: Option<f64>,
    },
    /// A box to tick.
    Boolean,
    /// One of several.
    Choice {
        /// The options.
        options: Vec<ChoiceOption>,
    },
    /// Any of several.
    Choices {
        /// The options.
        options: Vec<ChoiceOption>,
        /// How many at least.
        min_items: Option<u64>,
        /// How many at most.
        max_items: Option<u64>,
    },
}

/// One option of a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChoiceOption {
    /// What is sent.
    pub value: String,
    /// What is shown; the value itself where there is none.
    pub title: Option<String>,
}

/// Why a schema is not one for a form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormSchemaError {
    /// Not `type: "object"` with an object of `properties`, a broken `required`, or a name twice.
    #[error(
        "a form's schema is an object with `type: \"object\"`, `properties` and a list `required`"
    )]
    Root,
    /// A keyword that makes the form more than flat.
    #[error("a form's schema may not use `{0}`: forms are flat")]
    Keyword(&'static str),
    /// A field that is no permitted primitive.
    #[error("the form's field {name:?} is no permitted primitive: {problem}")]
    Field {
        /// Its name.
        name: String,
        /// What is wrong.
        problem: FieldProblem,
    },
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldProblem {
    /// Not an object, or a name twice.
    #[error("its schema is not an object")]
    NotAnObject,
    /// `type` is not one of the five, or is a list.
    #[error(
        "`type` must be \"string\", \"number\", \"integer\", \"boolean\" or, for a choice of several, \"array\""
    )]
    Type,
    /// A keyword that makes the field more than a primitive.
    #[error("`{0}` is not permitted")]
    Keyword(&'static str),
    /// Options that are no list of strings, or of `const` and `title`.
    #[error("its options must be strings, or objects with `const` and `title`")]
    Options,
    /// A bound or text of the wrong type.
    #[error("`{0}` has the wrong type")]
    Mistyped(&'static str),
}

const ROOT_FORBIDDEN: [&str; 16] = [
    "$ref",
    "$dynamicRef",
    "$defs",
    "definitions",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "patternProperties",
    "propertyNames",
    "dependentSchemas",
    "dependentRequired",
    "unevaluatedProperties",
];

const FIELD_FORBIDDEN: [&str; 15] = [
    "$ref",
    "$dynamicRef",
    "$defs",
    "allOf",
    "anyOf",
    "not",
    "if",
    "then",
    "else",
    "properties",
    "patternProperties",
    "additionalProperties",
    "prefixItems",
    "contains",
    "unevaluatedItems",
];

impl FormSchema {
    /// Reads a requested schema.
    ///
    /// Refused: anything nested, references, compositions. Tolerated: keywords that only narrow a primitive (`pattern`, `multipleOf`),
    /// annotations, `$schema`, and the older `enumNames`.
    ///
    /// # Errors
    ///
    /// [`FormSchemaError`].
    pub fn parse(schema: &JsonObject) -> Result<Self, FormSchemaError> {
        let root = schema.members().map_err(|_| FormSchemaError::Root)?;
        if let Some(keyword) = ROOT_FORBIDDEN
            .into_iter()
            .find(|name| root.get(name).is_some())
        {
            return Err(FormSchemaError::Keyword(keyword));
        }
        if root
            .get("additionalProperties")
            .is_some_and(|value| !matches!(value.get(), "true" | "false"))
        {
            return Err(FormSchemaError::Keyword("additionalProperties"));
        }
        if root.get("type").and_then(as_string).as_deref() != Some("object") {
            return Err(FormSchemaError::Root);
        }
        let properties = Members::parse(root.get("properties").ok_or(FormSchemaError::Root)?)
            .map_err(|_| FormSchemaError::Root)?;
        let required: Vec<String> = match root.get("required") {
            Some(list) => serde_json::from_str(list.get()).map_err(|_| FormSchemaError::Root)?,
            None => Vec::new(),
        };
        let fields = properties.iter().map(|(name, raw)| {
            let required = required.iter().any(|own| own == name);
            field(name, required, raw).map_err(|problem| FormSchemaError::Field {
                name: name.to_owned(),
                problem,
            })
        });
        Ok(Self {
            fields: fields.collect::<Result<_, _>>()?,
        })
    }
}

fn field(name: &str, required: bool, raw: &RawValue) -> Result<FormField, FieldProblem> {
    let schema = Members::parse(raw).map_err(|_| FieldProblem::NotAnObject)?;
    if let Some(keyword) = FIELD_FORBIDDEN
        .into_iter()
        .find(|name| schema.get(name).is_some())
    {
        return Err(FieldProblem::Keyword(keyword));
    }
    Ok(FormField {
        name: name.to_owned(),
        required,
        title: text(&schema, "title")?,
        description: text(&schema, "description")?,
        default: schema.get("default").map(ToOwned::to_owned),
        input: input(&schema)?,
    })
}

fn input(schema: &Members<'_>) -> Result<FieldInput, FieldProblem> {
    match schema.get("type").and_then(as_string).as_deref() {
        Some("string") => match (schema.get("enum"), schema.get("oneOf")) {
            (None, None) => Ok(FieldInput::Text {
                format: text(schema, "format")?,
                min_length: number(schema, "minLength")?,
                max_length: number(schema, "maxLength")?,
            }),
            (Some(list), None) => Ok(FieldInput::Choice {
                options: plain_options(list, schema.get("enumNames"))?,
            }),
            (None, Some(list)) => Ok(FieldInput::Choice {
                options: titled_options(list)?,
            }),
            (Some(_), Some(_)) => Err(FieldProblem::Options),
        },
        Some(kind @ ("number" | "integer")) => Ok(FieldInput::Number {
            integer: kind == "integer",
            minimum: number(schema, "minimum")?,
            maximum: number(schema, "maximum")?,
        }),
        Some("boolean") => Ok(FieldInput::Boolean),
        Some("array") => {
            let items = Members::parse(schema.get("items").ok_or(FieldProblem::Options)?)
                .map_err(|_| FieldProblem::Options)?;
            let options = match (items.get("enum"), items.get("anyOf").or(items.get("oneOf"))) {
                (Some(list), None) => plain_options(list, None)?,
                (None, Some(list)) => titled_options(list)?,
                _ => return Err(FieldProblem::Options),
            };
            Ok(FieldInput::Choices {
                options,
                min_items: number(schema, "minItems")?,
                max_items: number(schema, "maxItems")?,
            })
        }
        _ => Err(FieldProblem::Type),
    }
}

fn text(schema: &Members<'_>, name: &'static str) -> Result<Option<String>, FieldProblem> {
    match schema.get(name) {
        None => Ok(None),
        Some(raw) => as_string(raw)
            .map(|text| Some(text.into_owned()))
            .ok_or(FieldProblem::Mistyped(name)),
    }
}

fn number<T: for<'de> serde::Deserialize<'de>>(
    schema: &Members<'_>,
    name: &'static str,
) -> Result<Option<T>, FieldProblem> {
    match schema.get(name) {
        None => Ok(None),
        Some(raw) => serde_json::from_str(raw.get())
            .map(Some)
            .map_err(|_| FieldProblem::Mistyped(name)),
    }
}

fn plain_options(
    list: &RawValue,
    names: Option<&RawValue>,
) -> Result<Vec<ChoiceOption>, FieldProblem> {
    let values: Vec<String> =
        serde_json::from_str(list.get()).map_err(|_| FieldProblem::Options)?;
    let mut titles: std::vec::IntoIter<String> = match names {
        Some(names) => serde_json::from_str::<Vec<String>>(names.get())
            .map_err(|_| FieldProblem::Mistyped("enumNames"))?
            .into_iter(),
        None => Vec::new().into_iter(),
    };
    Ok(values
        .into_iter()
        .map(|value| ChoiceOption {
            value,
            title: titles.next(),
        })
        .collect())
}

fn titled_options(list: &RawValue) -> Result<Vec<ChoiceOption>, FieldProblem> {
    let options: Vec<JsonObject> =
        serde_json::from_str(list.get()).map_err(|_| FieldProblem::Options)?;
    let option = |option: &JsonObject| {
        let members = option.members().ok()?;
        let value = members.get("const").and_then(as_string)?.into_owned();
        Some(ChoiceOption {
            value,
            title: members.get("title").and_then(as_string).map(Into::into),
        })
    };
    options
        .iter()
        .map(option)
        .collect::<Option<_>>()
        .ok_or(FieldProblem::Options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(field: &str) -> Result<FormField, FormSchemaError> {
        let schema = format!(
            r#"{{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{{"f":{field}}},"required":["f"]}}"#
        );
        FormSchema::parse(&JsonObject::parse(&schema).unwrap())
            .map(|form| form.fields.into_iter().next().unwrap())
    }

    #[test]
    fn reads_every_permitted_primitive() {
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
    fn refuses_what_is_not_flat() {
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
}
