//! The schema of a form: a Rust struct, reduced to what an elicitation may carry.
//!
//! A form's `requestedSchema` is a flat object of primitives (specification, `client/elicitation`, "Requested Schema"):
//! no `$ref`, no `["string", "null"]`, no `format: uint32`, nothing nested. What schemars derives is reduced to that here,
//! field by field, in the order of the struct; what cannot be reduced is refused with the field's name.

use std::any::TypeId;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, RwLock};

use jsonschema::Validator;
use mrtr_protocol::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::{schema, value};

/// Why a struct cannot be put to a person as a form.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FormError {
    /// The type is not a struct with named fields.
    #[error("`{0}` is not a struct with named fields; a form is a flat object")]
    NotAnObject(String),
    /// A field has a shape that a form may not have.
    #[error(
        "field `{field}` cannot be put in a form: {why}. Permitted are strings, numbers, booleans, unit enums and lists of unit enums"
    )]
    Field {
        /// The field as it is named on the wire.
        field: String,
        /// What stands in the way.
        why: String,
    },
    /// A schema written by hand is not one that a form may have.
    #[error("a form may not have this schema: {0}")]
    NotPermitted(String),
    /// A field asks for a secret, which the specification forbids in a form.
    #[error(
        "field `{0}` asks for a secret; the specification forbids secrets in a form (`client/elicitation`), because the client sees what is typed"
    )]
    Secret(String),
    /// The reduced schema does not compile. This is a fault of ours; please report it.
    #[error("the reduced schema does not compile: {0}")]
    Uncompilable(String),
}

/// A reduced, compiled form.
#[derive(Debug)]
pub(crate) struct FormSchema {
    /// `requestedSchema`, ready for the wire.
    pub(crate) wire: JsonObject,
    validator: Validator,
    fields: HashSet<String>,
}

impl FormSchema {
    /// The schema of `T`, reduced once a process.
    pub(crate) fn of<T: JsonSchema + 'static>() -> Result<Arc<FormSchema>, FormError> {
        static FORMS: LazyLock<RwLock<HashMap<TypeId, Arc<FormSchema>>>> =
            LazyLock::new(RwLock::default);
        let id = TypeId::of::<T>();
        if let Some(form) = FORMS.read().unwrap_or_else(|e| e.into_inner()).get(&id) {
            return Ok(Arc::clone(form));
        }
        let form = Arc::new(Self::reduce(derived::<T>())?);
        FORMS
            .write()
            .unwrap_or_else(|e| e.into_inner())
            .insert(id, Arc::clone(&form));
        Ok(form)
    }

    /// Reads accepted content: validated against the published schema, unknown fields dropped, then typed.
    /// `None` when it does not fit: the question is put again.
    pub(crate) fn read<T: DeserializeOwned>(&self, content: &RawValue) -> Option<T> {
        let mut value = value::read(content.get()).ok()?;
        if !self.validator.is_valid(&value) {
            return None;
        }
        value
            .as_object_mut()?
            .retain(|name, _| self.fields.contains(name));
        serde_json::from_value(value).ok()
    }

    fn reduce(schema: Value) -> Result<FormSchema, FormError> {
        let name = schema
            .get("title")
            .and_then(Value::as_str)
            .unwrap_or("this type")
            .to_owned();
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            // A struct without fields has no `properties`: a plain "yes or no" by accept and decline.
            return match schema.get("type").and_then(Value::as_str) {
                Some("object") => Self::compile(Map::new(), Vec::new()),
                _ => Err(FormError::NotAnObject(name)),
            };
        };
        let required: Vec<Value> = schema
            .get("required")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let mut reduced = Map::new();
        for (field, property) in properties {
            if asks_for_a_secret(field) || hides_what_is_typed(property) {
                return Err(FormError::Secret(field.clone()));
            }
            let property = primitive(property).map_err(|why| FormError::Field {
                field: field.clone(),
                why,
            })?;
            reduced.insert(field.clone(), Value::Object(property));
        }
        Self::compile(reduced, required)
    }

    fn compile(
        properties: Map<String, Value>,
        required: Vec<Value>,
    ) -> Result<FormSchema, FormError> {
        let fields = properties.keys().cloned().collect();
        let mut object = Map::new();
        object.insert("type".into(), "object".into());
        object.insert("properties".into(), Value::Object(properties));
        if !required.is_empty() {
            object.insert("required".into(), Value::Array(required));
        }
        let object = Value::Object(object);
        let validator = schema::compile(&object).map_err(FormError::Uncompilable)?;
        let wire = JsonObject::from_serialize(&object)
            .map_err(|error| FormError::Uncompilable(error.to_string()))?;
        Ok(FormSchema {
            wire,
            validator,
            fields,
        })
    }
}

/// Checks a schema that was written by hand against the same rules.
pub(crate) fn check_published(schema: &JsonObject) -> Result<(), FormError> {
    mrtr_protocol::FormSchema::parse(schema)
        .map_err(|error| FormError::NotPermitted(error.to_string()))?;
    let schema =
        value::read(schema.as_str()).map_err(|error| FormError::Uncompilable(error.to_string()))?;
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Some((field, _)) = properties
        .into_iter()
        .flatten()
        .find(|(field, property)| asks_for_a_secret(field) || hides_what_is_typed(property))
    {
        return Err(FormError::Secret(field.clone()));
    }
    // A schema that no answer can be checked against would be put again and again.
    match schema::compile(&schema) {
        Ok(_) => Ok(()),
        Err(error) => Err(FormError::NotPermitted(error)),
    }
}

/// Reads accepted content by a schema that was written by hand, without the fields that it does not have.
pub(crate) fn read_by_hand(requested: &JsonObject, content: &RawValue) -> Option<Box<RawValue>> {
    let schema = value::read(requested.as_str()).ok()?;
    let mut value = value::read(content.get()).ok()?;
    if !schema::compile(&schema).ok()?.is_valid(&value) {
        return None;
    }
    let fields = schema.get("properties").and_then(Value::as_object);
    value
        .as_object_mut()?
        .retain(|name, _| fields.is_some_and(|fields| fields.contains_key(name)));
    serde_json::value::to_raw_value(&value).ok()
}

/// What schemars says of `T`, with every reference inlined.
fn derived<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .into_generator();
    generator.into_root_schema_for::<T>().to_value()
}

/// Keywords that carry over as they are.
const CARRIED: [&str; 3] = ["title", "description", "default"];

/// Reduces one property to a primitive of the specification.
fn primitive(property: &Value) -> Result<Map<String, Value>, String> {
    let Some(object) = property.as_object() else {
        return Err("its schema permits anything".into());
    };
    if let Some(inner) = without_null(object)? {
        return primitive(&Value::Object(inner));
    }
    let mut reduced = if let Some(choices) = choices(object)? {
        choices
    } else {
        match object.get("type").and_then(Value::as_str) {
            Some("boolean") => kept(object, "boolean", &[])?,
            Some(kind @ ("integer" | "number")) => kept(object, kind, &["minimum", "maximum"])?,
            Some("string") => text(object)?,
            Some("array") => list(object)?,
            Some("object") => return Err("it is nested, and forms are flat".into()),
            _ => return Err("it has no single primitive type".into()),
        }
    };
    for keyword in CARRIED {
        if let Some(value) = object.get(keyword).filter(|value| !value.is_null()) {
            reduced.entry(keyword).or_insert_with(|| value.clone());
        }
    }
    Ok(reduced)
}

/// Keywords that never reach the wire: they describe the Rust type, and its deserialization still enforces them.
const DROPPED: [&str; 3] = ["format", "uniqueItems", "type"];

/// A primitive of `kind` with the `allowed` keywords; any other constraint would be lost silently and is refused.
fn kept(
    object: &Map<String, Value>,
    kind: &str,
    allowed: &[&str],
) -> Result<Map<String, Value>, String> {
    let mut reduced = Map::new();
    reduced.insert("type".into(), kind.into());
    for (keyword, value) in object {
        if allowed.contains(&keyword.as_str()) {
            reduced.insert(keyword.clone(), value.clone());
        } else if !CARRIED.contains(&keyword.as_str()) && !DROPPED.contains(&keyword.as_str()) {
            return Err(format!("`{keyword}` is not permitted on a {kind}"));
        }
    }
    Ok(reduced)
}

fn text(object: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let mut reduced = kept(object, "string", &["minLength", "maxLength"])?;
    if let Some(format @ ("email" | "uri" | "date" | "date-time")) =
        object.get("format").and_then(Value::as_str)
    {
        reduced.insert("format".into(), format.into());
    }
    Ok(reduced)
}

fn list(object: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let items = object.get("items").and_then(Value::as_object);
    let Some(mut choices) = items.map(choices).transpose()?.flatten() else {
        return Err("a list may only hold unit enums".into());
    };
    // In a list, titled choices stand under `anyOf`; a single choice has them under `oneOf`.
    if let Some(titled) = choices.remove("oneOf") {
        choices.clear();
        choices.insert("anyOf".into(), titled);
    }
    let without_items: Map<String, Value> = object
        .iter()
        .filter(|(keyword, _)| *keyword != "items")
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    let mut reduced = kept(&without_items, "array", &["minItems", "maxItems"])?;
    reduced.insert("items".into(), Value::Object(choices));
    Ok(reduced)
}

/// The inner schema of an `Option`; `None` when the schema is not one.
fn without_null(object: &Map<String, Value>) -> Result<Option<Map<String, Value>>, String> {
    let mut inner = object.clone();
    if let Some(types) = object.get("type").and_then(Value::as_array) {
        let mut types = types.iter().filter(|kind| *kind != "null");
        return match (types.next(), types.next()) {
            (Some(kind), None) => {
                inner.insert("type".into(), kind.clone());
                if let Some(values) = inner.get_mut("enum").and_then(Value::as_array_mut) {
                    values.retain(|value| !value.is_null());
                }
                Ok(Some(inner))
            }
            _ => Err("it has more than one type".into()),
        };
    }
    if let Some(branches) = object.get("anyOf").and_then(Value::as_array) {
        let mut branches = branches
            .iter()
            .filter(|b| b.get("type").and_then(Value::as_str) != Some("null"));
        return match (branches.next().and_then(Value::as_object), branches.next()) {
            (Some(branch), None) => {
                inner.remove("anyOf");
                // The field's own title and description win over those of its type.
                let mut branch = branch.clone();
                branch.extend(inner);
                Ok(Some(branch))
            }
            _ => Err("it has more than one shape".into()),
        };
    }
    Ok(None)
}

/// A unit enum as the specification spells it: `enum`, or `oneOf` with titles where the variants are documented.
fn choices(object: &Map<String, Value>) -> Result<Option<Map<String, Value>>, String> {
    let mut values: Vec<(String, Option<String>)> = Vec::new();
    let mut add = |value: &Value, title: Option<&Value>| match value.as_str() {
        Some(text) => {
            values.push((
                text.to_owned(),
                title.and_then(Value::as_str).map(str::to_owned),
            ));
            Ok(())
        }
        None => Err("its choices are not all strings".to_owned()),
    };
    if let Some(list) = object.get("enum").and_then(Value::as_array) {
        list.iter().try_for_each(|value| add(value, None))?;
    } else if let Some(value) = object.get("const") {
        add(value, None)?;
    } else if let Some(branches) = object.get("oneOf").and_then(Value::as_array) {
        for branch in branches {
            match (
                branch.get("const"),
                branch.get("enum").and_then(Value::as_array),
            ) {
                (Some(value), _) => add(value, branch.get("title").or(branch.get("description")))?,
                (None, Some(list)) => list.iter().try_for_each(|value| add(value, None))?,
                (None, None) => return Err("its variants carry data".into()),
            }
        }
    } else {
        return Ok(None);
    }
    let mut reduced = Map::new();
    reduced.insert("type".into(), "string".into());
    if values.iter().any(|(_, title)| title.is_some()) {
        let titled = values.into_iter().map(|(value, title)| {
            let title = title.unwrap_or_else(|| value.clone());
            serde_json::json!({ "const": value, "title": title })
        });
        reduced.insert("oneOf".into(), titled.collect());
    } else {
        reduced.insert(
            "enum".into(),
            values.into_iter().map(|(value, _)| value).collect(),
        );
    }
    Ok(Some(reduced))
}

/// Whether a field says that what is typed is not to be seen, as a password is.
fn hides_what_is_typed(property: &Value) -> bool {
    let format = property.get("format").and_then(Value::as_str);
    format.is_some_and(|format| format.eq_ignore_ascii_case("password"))
        || property.get("writeOnly").and_then(Value::as_bool) == Some(true)
}

/// Names that ask for what grants access or authorizes a transaction.
///
/// A name is a hint, not a proof: a field called `answer` can still ask for a password. The check is here so that nobody
/// does it by accident.
pub(crate) fn asks_for_a_secret(field: &str) -> bool {
    const WORDS: [&str; 12] = [
        "password",
        "passwd",
        "pwd",
        "otp",
        "passphrase",
        "passcode",
        "secret",
        "apikey",
        "credential",
        "credentials",
        "cvv",
        "cvc",
    ];
    const PAIRS: [(&str, &str); 11] = [
        ("api", "key"),
        ("private", "key"),
        ("secret", "key"),
        ("access", "token"),
        ("refresh", "token"),
        ("auth", "token"),
        ("bearer", "token"),
        ("api", "token"),
        ("session", "token"),
        ("security", "code"),
        ("card", "number"),
    ];
    let words = words(field);
    let run_together = |word: &str| PAIRS.iter().any(|(a, b)| word.strip_prefix(a) == Some(b));
    words
        .iter()
        .any(|word| WORDS.contains(&word.as_str()) || run_together(word))
        || words
            .windows(2)
            .any(|pair| matches!(pair, [a, b] if PAIRS.contains(&(a.as_str(), b.as_str()))))
}

/// Splits `api_key`, `api-key` and `apiKey` into `["api", "key"]`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && after_lower) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
        after_lower = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests;
