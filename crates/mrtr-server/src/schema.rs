//! JSON Schema: one way to compile a schema, and one way to say what is wrong with a value.
//!
//! Everything is offline: a `$ref` to the network is never followed (specification, `basic/index`, "`$ref` resolution"),
//! and patterns run on the linear-time regex engine, so that no schema and no value can make validation explode.

use jsonschema::{Draft, PatternOptions, Validator};
use mrtr_protocol::param_headers::KEYWORD;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// At most this many faults are named in one message; a model that reads them mends the first few anyway.
const FAULTS_NAMED: usize = 5;
/// And so many characters of each.
const LONGEST_FAULT: usize = 200;

/// The one dialect that is read here (specification, `basic/index`, "Schema Dialect").
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Compiles `schema` as JSON Schema 2020-12, with formats checked. A schema that says it is of another dialect is refused,
/// and so is one that is none.
pub(crate) fn compile(schema: &Value) -> Result<Validator, String> {
    if let Some(dialect) = schema.get("$schema")
        && dialect
            .as_str()
            .map(|dialect| dialect.trim_end_matches('#'))
            != Some(DIALECT)
    {
        return Err(format!(
            "the dialect {dialect} is not supported; {DIALECT} is"
        ));
    }
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .should_validate_formats(true)
        .with_pattern_options(PatternOptions::regex())
        .offline()
        .build(schema)
        .map_err(|error| error.to_string())
}

/// What schemars says of a type that is written.
pub(crate) fn of_output<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12()
        .for_serialize()
        .with(|settings| settings.meta_schema = None)
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

/// Whether a schema permits less than everything: it is an object, and holds more than words about itself.
pub(crate) fn says_something(schema: &Value) -> bool {
    const WORDS: [&str; 5] = ["title", "description", "$schema", "default", "examples"];
    schema.as_object().is_some_and(|schema| {
        schema
            .keys()
            .any(|keyword| !WORDS.contains(&keyword.as_str()))
    })
}

/// What is wrong with `value`, as one readable sentence part; `None` when nothing is. It names places and rules, and never
/// the values themselves: they may be long, and they are nobody's business but the caller's.
pub(crate) fn fault(validator: &Validator, value: &Value) -> Option<String> {
    if validator.is_valid(value) {
        return None;
    }
    let faults: Vec<String> = validator
        .iter_errors(value)
        .take(FAULTS_NAMED)
        .map(|error| {
            let what: String = error
                .masked_with("it")
                .to_string()
                .chars()
                .take(LONGEST_FAULT)
                .collect();
            match error.instance_path().as_str() {
                "" => what,
                path => format!("at {path}: {what}"),
            }
        })
        .collect();
    Some(faults.join("; "))
}

/// Takes `null` out of the types of annotated properties: `Option<String>` is derived as `["string", "null"]`, and only a
/// plain primitive may be mirrored in a header. For what is published: a `null` that comes all the same is as good as none.
pub(crate) fn take_null_from_annotated(schema: &mut Value) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else {
        return;
    };
    for property in properties.values_mut() {
        if property.get(KEYWORD).is_some()
            && let Some(Value::Array(kinds)) = property.get_mut("type")
        {
            kinds.retain(|kind| kind != "null");
            if let [kind] = kinds.as_slice() {
                property["type"] = kind.clone();
            }
        }
        take_null_from_annotated(property);
    }
}
