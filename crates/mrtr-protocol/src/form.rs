//! The schemas that a form may ask with: flat objects of primitives (*Elicitation, Requested Schema*).

use std::collections::HashSet;

use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use crate::object::{JsonObject, Members, as_string};
use crate::strict;

/// A form, understood field by field: enough to draw it.
///
/// It checks no content itself. [`FormSchema::rules`] is what a validator checks content with; the text that the server sent, which
/// [`ElicitForm`](crate::ElicitForm) keeps, is not for that.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FormSchema {
    /// The fields, in the schema's order.
    pub fields: Vec<FormField>,
    rules: Value,
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
    /// More bytes than [`FormSchema::MAX_LEN`].
    #[error("the form's schema is larger than {} bytes", FormSchema::MAX_LEN)]
    TooLarge,
    /// More fields than [`FormSchema::MAX_FIELDS`].
    #[error("the form has more than {} fields", FormSchema::MAX_FIELDS)]
    TooManyFields,
    /// A dialect that is not known to read a flat form as Draft 2020-12 does.
    #[error("the form's `$schema` is not a dialect that is understood here")]
    Dialect,
    /// A member that is no keyword of a form's schema and no plain annotation either.
    #[error("the form's schema has a member that no form's schema has")]
    UnknownKeyword,
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
    /// A member that is no keyword of such a field and no plain annotation either.
    #[error("it has a member that no form's schema has")]
    UnknownKeyword,
    /// More options than [`FormSchema::MAX_OPTIONS`].
    #[error("it has more than {} options", FormSchema::MAX_OPTIONS)]
    TooManyOptions,
    /// Options that are no list of strings, or of `const` and `title`.
    #[error("its options must be strings, or objects with `const` and `title`")]
    Options,
    /// A bound or text of the wrong type.
    #[error("`{0}` has the wrong type")]
    Mistyped(&'static str),
}

/// Keywords of any draft that hold or point to other schemas. Refused by name where a form has no place for them, whatever their value.
const APPLICATORS: [&str; 28] = [
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "$defs",
    "definitions",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "dependencies",
    "dependentSchemas",
    "dependentRequired",
    "unevaluatedProperties",
    "items",
    "additionalItems",
    "prefixItems",
    "contains",
    "unevaluatedItems",
    "contentSchema",
    "extends",
    "disallow",
];

const ROOT: [&str; 11] = [
    "$schema",
    "$id",
    "$comment",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "minProperties",
    "maxProperties",
    "default",
    "examples",
];

/// What any field may have beyond the keywords of its kind. What it may say about itself in plain values is not named here.
const ANY_FIELD: [&str; 4] = ["$comment", "type", "default", "examples"];

/// Dialects in which every keyword that is taken here means what it means in Draft 2020-12.
const DIALECTS: [&str; 4] = [
    "json-schema.org/draft/2020-12/schema",
    "json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft-07/schema",
    "json-schema.org/draft-06/schema",
];

/// The formats that a form may ask for (*Elicitation, Requested Schema*). Another is shown, and checks nothing.
const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

/// A member that a schema of this kind does not have.
enum Foreign {
    Applicator(&'static str),
    Unknown,
}

/// An allowlist: passes `known` members, and plain values under names that mean nothing here. Those are annotations, and ignored.
fn admit(schema: &Members<'_>, known: &[&[&str]]) -> Result<(), Foreign> {
    for (name, value) in schema.iter() {
        if known.iter().any(|names| names.contains(&name)) {
            continue;
        }
        if let Some(keyword) = APPLICATORS.into_iter().find(|keyword| *keyword == name) {
            return Err(Foreign::Applicator(keyword));
        }
        if name.starts_with('$') || value.get().starts_with(['{', '[']) {
            return Err(Foreign::Unknown);
        }
    }
    Ok(())
}

impl From<Foreign> for FormSchemaError {
    fn from(foreign: Foreign) -> Self {
        match foreign {
            Foreign::Applicator(keyword) => Self::Keyword(keyword),
            Foreign::Unknown => Self::UnknownKeyword,
        }
    }
}

impl From<Foreign> for FieldProblem {
    fn from(foreign: Foreign) -> Self {
        match foreign {
            Foreign::Applicator(keyword) => Self::Keyword(keyword),
            Foreign::Unknown => Self::UnknownKeyword,
        }
    }
}

impl FormSchema {
    /// The most bytes that a schema may have. A form that a person fills in needs a few thousand.
    pub const MAX_LEN: usize = 256 * 1024;
    /// The most fields that a form may have.
    pub const MAX_FIELDS: usize = 256;
    /// The most options that one field may have: room for every country, time zone or currency.
    pub const MAX_OPTIONS: usize = 1_024;

    /// Reads a requested schema.
    ///
    /// Only what is known to be flat is taken. Refused: anything nested, references, compositions, unknown members whose value is an
    /// object or an array, names that start with `$`, more than the limits of this type. Tolerated and kept as rules: keywords that only
    /// narrow a primitive (`pattern`, `multipleOf`, `const`). Tolerated and ignored: annotations, plain values under unknown names, and
    /// `$schema` where it names a draft in which a flat form means the same. The older `enumNames` are titles.
    ///
    /// # Errors
    ///
    /// [`FormSchemaError`].
    pub fn parse(schema: &JsonObject) -> Result<Self, FormSchemaError> {
        if schema.as_str().len() > Self::MAX_LEN {
            return Err(FormSchemaError::TooLarge);
        }
        let root = schema.members().map_err(|_| FormSchemaError::Root)?;
        admit(&root, &[&ROOT])?;
        if let Some(dialect) = root.get("$schema") {
            let dialect = as_string(dialect).ok_or(FormSchemaError::Dialect)?;
            let dialect = dialect.strip_suffix('#').unwrap_or(&dialect);
            let address = dialect
                .strip_prefix("https://")
                .or(dialect.strip_prefix("http://"));
            if !address.is_some_and(|address| DIALECTS.contains(&address)) {
                return Err(FormSchemaError::Dialect);
            }
        }
        if root.get("type").and_then(as_string).as_deref() != Some("object") {
            return Err(FormSchemaError::Root);
        }
        let properties = Members::parse(root.get("properties").ok_or(FormSchemaError::Root)?)
            .map_err(|_| FormSchemaError::Root)?;
        if properties.len() > Self::MAX_FIELDS {
            return Err(FormSchemaError::TooManyFields);
        }
        let required: HashSet<String> = match root.get("required") {
            Some(list) => serde_json::from_str(list.get()).map_err(|_| FormSchemaError::Root)?,
            None => HashSet::new(),
        };
        // Nobody could be asked for a field that is not there.
        if required.iter().any(|name| properties.get(name).is_none()) {
            return Err(FormSchemaError::Root);
        }
        let mut rules = Map::new();
        rules.insert("type".into(), "object".into());
        match root.get("additionalProperties").map(RawValue::get) {
            None | Some("true") => {}
            Some("false") => {
                rules.insert("additionalProperties".into(), false.into());
            }
            Some(_) => return Err(FormSchemaError::Keyword("additionalProperties")),
        }
        for bound in ["minProperties", "maxProperties"] {
            if let Some(raw) = root.get(bound) {
                let count: u64 =
                    serde_json::from_str(raw.get()).map_err(|_| FormSchemaError::Root)?;
                rules.insert(bound.into(), count.into());
            }
        }
        let mut fields = Vec::new();
        let mut field_rules = Map::new();
        for (name, raw) in properties.iter() {
            let mut rules = Map::new();
            let field =
                field(name, required.contains(name), raw, &mut rules).map_err(|problem| {
                    FormSchemaError::Field {
                        name: name.to_owned(),
                        problem,
                    }
                })?;
            fields.push(field);
            field_rules.insert(name.to_owned(), Value::Object(rules));
        }
        let required = fields.iter().filter(|field| field.required);
        rules.insert(
            "required".into(),
            required.map(|field| field.name.clone()).collect(),
        );
        rules.insert("properties".into(), Value::Object(field_rules));
        Ok(Self {
            fields,
            rules: Value::Object(rules),
        })
    }

    /// A schema in Draft 2020-12 to check content with, written anew from what was understood: types, options, bounds, the four formats,
    /// `pattern`, `required`.
    ///
    /// Guaranteed: two levels, no reference, no `$schema`, nothing that was not understood; a validator may compile it whoever sent the
    /// form. Not guaranteed: that a `pattern` is harmless to a backtracking engine, or is one at all.
    #[must_use]
    pub fn rules(&self) -> &Value {
        &self.rules
    }
}

fn field(
    name: &str,
    required: bool,
    raw: &RawValue,
    rules: &mut Map<String, Value>,
) -> Result<FormField, FieldProblem> {
    let schema = Members::parse(raw).map_err(|_| FieldProblem::NotAnObject)?;
    let input = input(&schema, rules)?;
    Ok(FormField {
        name: name.to_owned(),
        required,
        title: text(&schema, "title")?,
        description: text(&schema, "description")?,
        default: schema.get("default").map(ToOwned::to_owned),
        input,
    })
}

fn input(schema: &Members<'_>, rules: &mut Map<String, Value>) -> Result<FieldInput, FieldProblem> {
    let kind = schema.get("type").and_then(as_string);
    match kind.as_deref() {
        Some("string") => {
            admit(schema, &[&ANY_FIELD, &["enum", "enumNames", "oneOf"]])?;
            rules.insert("type".into(), "string".into());
            bounds::<u64>(schema, &["minLength", "maxLength"], rules)?;
            if let Some(pattern) = text(schema, "pattern")? {
                rules.insert("pattern".into(), pattern.into());
            }
            let format = text(schema, "format")?;
            if let Some(format) = &format
                && FORMATS.contains(&format.as_str())
            {
                rules.insert("format".into(), format.as_str().into());
            }
            plain_rules(schema, &["const"], rules)?;
            let options = match (schema.get("enum"), schema.get("oneOf")) {
                (None, None) => {
                    return Ok(FieldInput::Text {
                        format,
                        min_length: number(schema, "minLength")?,
                        max_length: number(schema, "maxLength")?,
                    });
                }
                (Some(list), None) => plain_options(list, schema.get("enumNames"))?,
                (None, Some(list)) => titled_options(list)?,
                (Some(_), Some(_)) => return Err(FieldProblem::Options),
            };
            rules.insert("enum".into(), values(&options));
            Ok(FieldInput::Choice { options })
        }
        Some(kind @ ("number" | "integer")) => {
            admit(schema, &[&ANY_FIELD, &["enum"]])?;
            rules.insert("type".into(), kind.into());
            let limits = [
                "minimum",
                "maximum",
                "exclusiveMinimum",
                "exclusiveMaximum",
                "multipleOf",
            ];
            bounds::<Number>(schema, &limits, rules)?;
            plain_rules(schema, &["const", "enum"], rules)?;
            Ok(FieldInput::Number {
                integer: kind == "integer",
                minimum: number(schema, "minimum")?,
                maximum: number(schema, "maximum")?,
            })
        }
        Some("boolean") => {
            admit(schema, &[&ANY_FIELD, &["enum"]])?;
            rules.insert("type".into(), "boolean".into());
            plain_rules(schema, &["const", "enum"], rules)?;
            Ok(FieldInput::Boolean)
        }
        Some("array") => {
            admit(schema, &[&ANY_FIELD, &["items"]])?;
            rules.insert("type".into(), "array".into());
            bounds::<u64>(schema, &["minItems", "maxItems"], rules)?;
            bounds::<bool>(schema, &["uniqueItems"], rules)?;
            let items = Members::parse(schema.get("items").ok_or(FieldProblem::Options)?)
                .map_err(|_| FieldProblem::Options)?;
            admit(
                &items,
                &[&ANY_FIELD, &["enum", "enumNames", "anyOf", "oneOf"]],
            )?;
            let of_strings = items
                .get("type")
                .is_none_or(|kind| as_string(kind).as_deref() == Some("string"));
            let options = match (items.get("enum"), items.get("anyOf"), items.get("oneOf")) {
                _ if !of_strings => return Err(FieldProblem::Options),
                (Some(list), None, None) => plain_options(list, items.get("enumNames"))?,
                (None, Some(list), None) | (None, None, Some(list)) => titled_options(list)?,
                _ => return Err(FieldProblem::Options),
            };
            let mut item = Map::new();
            item.insert("type".into(), "string".into());
            item.insert("enum".into(), values(&options));
            rules.insert("items".into(), Value::Object(item));
            Ok(FieldInput::Choices {
                options,
                min_items: number(schema, "minItems")?,
                max_items: number(schema, "maxItems")?,
            })
        }
        _ => {
            admit(schema, &[&ANY_FIELD])?;
            Err(FieldProblem::Type)
        }
    }
}

fn values(options: &[ChoiceOption]) -> Value {
    options.iter().map(|option| option.value.as_str()).collect()
}

/// Keeps the bounds that are there, each of the type that it must have.
fn bounds<T: for<'de> serde::Deserialize<'de> + Into<Value>>(
    schema: &Members<'_>,
    names: &[&'static str],
    rules: &mut Map<String, Value>,
) -> Result<(), FieldProblem> {
    for name in names {
        if let Some(bound) = number::<T>(schema, name)? {
            let bound: Value = bound.into();
            if *name == "multipleOf" && !bound.as_f64().is_some_and(|step| step > 0.0) {
                return Err(FieldProblem::Mistyped(name));
            }
            rules.insert((*name).to_owned(), bound);
        }
    }
    Ok(())
}

/// Keeps `const` and `enum` of plain values.
fn plain_rules(
    schema: &Members<'_>,
    names: &[&'static str],
    rules: &mut Map<String, Value>,
) -> Result<(), FieldProblem> {
    let plain = |value: &Value| !value.is_object() && !value.is_array();
    for name in names {
        let Some(value) = number::<Value>(schema, name)? else {
            continue;
        };
        match &value {
            Value::Array(list) if *name == "enum" => {
                if list.len() > FormSchema::MAX_OPTIONS {
                    return Err(FieldProblem::TooManyOptions);
                }
                if !list.iter().all(plain) {
                    return Err(FieldProblem::Options);
                }
            }
            value if *name == "const" && plain(value) => {}
            _ => return Err(FieldProblem::Mistyped(name)),
        }
        rules.insert((*name).to_owned(), value);
    }
    Ok(())
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
        // A number beyond the range of `f64` is none in every build, `arbitrary_precision` or not.
        Some(raw) if strict::check(raw.get().as_bytes()).is_err() => {
            Err(FieldProblem::Mistyped(name))
        }
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
    if values.len() > FormSchema::MAX_OPTIONS {
        return Err(FieldProblem::TooManyOptions);
    }
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
    if options.len() > FormSchema::MAX_OPTIONS {
        return Err(FieldProblem::TooManyOptions);
    }
    let option = |option: &JsonObject| {
        let members = option.members().map_err(|_| FieldProblem::Options)?;
        admit(&members, &[&["$comment"]])?;
        let value = members.get("const").and_then(as_string);
        Ok(ChoiceOption {
            value: value.ok_or(FieldProblem::Options)?.into_owned(),
            title: members.get("title").and_then(as_string).map(Into::into),
        })
    };
    options.iter().map(option).collect()
}

#[cfg(test)]
mod tests;
