//! `Mcp-Param-*`: arguments that a tool wants to see in headers too (*Streamable HTTP, Custom Headers from Tool Parameters*).
//!
//! A tool says so in its input schema. [`ParamHeaders::of`] reads that, for the client that must send the headers and for the server
//! that must compare them; an annotation that breaks a rule makes the tool invalid on both sides.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::headers::{self, HeaderValueError};
use crate::object::{JsonObject, Members, as_string};

mod integer;

use self::integer::Integer;

/// The annotation's keyword in a tool's input schema.
pub const KEYWORD: &str = "x-mcp-header";

/// What stands before the annotated name in the name of the header.
const PREFIX: &str = "Mcp-Param-";

/// The largest integer that every reader of a header agrees on: 2^53 - 1.
pub const SAFE_INTEGER: i64 = (1 << 53) - 1;

/// The longest name that is taken, in bytes; all headers of a request together seldom may have more than a few times that.
const LONGEST_NAME: usize = 1024;

/// Keywords that hold one schema, or a list of schemas.
const SUBSCHEMAS: [&str; 16] = [
    "items",
    "prefixItems",
    "contains",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "propertyNames",
    "contentSchema",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "additionalItems",
];

/// Keywords that hold schemas by name, `properties` aside.
const NAMED_SUBSCHEMAS: [&str; 5] = [
    "$defs",
    "definitions",
    "patternProperties",
    "dependentSchemas",
    "dependencies",
];

/// Which arguments of one tool go into which headers. Valid as a whole: names are tokens and distinct.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParamHeaders(Vec<ParamHeader>);

/// One argument that goes into a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamHeader {
    name: String,
    /// Names of properties, from the root.
    path: Vec<String>,
}

/// Why a tool's annotations are invalid, and the tool with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnnotationError {
    /// Not a string, empty, too long, or with characters that the name of a header may not have.
    #[error("the header name must be a non-empty token")]
    Name,
    /// Two arguments for one header, compared without case.
    #[error("the header name is used twice")]
    Twice,
    /// An argument that is a number, a list, an object, or of more than one type.
    #[error("only a string, integer or boolean can go into a header")]
    Type,
    /// The annotation stands where no `properties` alone lead to.
    #[error("the annotation is not on a property that is reachable through `properties` alone")]
    Place,
    /// The schema is no object.
    #[error("the input schema cannot be read")]
    Schema,
}

/// An argument that cannot be put into its header: a number that is no integer from -(2^53 - 1) to 2^53 - 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the number at {0:?} goes into a header and is no integer within 2^53 - 1")]
pub struct UnsafeInteger(pub String);

/// An argument that goes into a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParamValue<'a> {
    /// A string.
    Text(Cow<'a, str>),
    /// An integer, whatever its spelling: `42.0` is one.
    Integer(i64),
    /// A boolean.
    Flag(bool),
    /// A number that no header may carry.
    Unsafe,
    /// A list, an object, or a number with a fraction: nothing that could be annotated.
    Other,
}

impl ParamHeaders {
    /// Reads the annotations of an input schema, wherever in it they are.
    ///
    /// # Errors
    ///
    /// [`AnnotationError`]: one of them breaks a rule, and the tool is invalid.
    pub fn of(input_schema: &JsonObject) -> Result<Self, AnnotationError> {
        let schema: Value = input_schema.read().map_err(|_| AnnotationError::Schema)?;
        let mut found = Found::default();
        walk(&schema, Some(&mut Vec::new()), &mut found)?;
        Ok(Self(found.headers))
    }

    /// Whether no argument goes into a header.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The arguments that go into headers.
    pub fn iter(&self) -> impl Iterator<Item = &ParamHeader> {
        self.0.iter()
    }

    /// Names, in lower case, and values of the headers for these arguments. What is absent or `null` has none; what is of a type that
    /// goes into no header has none either, and the tool's schema refuses it.
    ///
    /// # Errors
    ///
    /// [`UnsafeInteger`].
    pub fn values(
        &self,
        arguments: Option<&JsonObject>,
    ) -> Result<Vec<(String, String)>, UnsafeInteger> {
        let Some(members) = arguments.and_then(|arguments| arguments.members().ok()) else {
            return Ok(Vec::new());
        };
        let mut values = Vec::new();
        for header in &self.0 {
            let text = match header.value(&members) {
                // An empty header is as good as any; encoded it would be longer and say the same.
                Some(ParamValue::Text(text)) if text.is_empty() => String::new(),
                Some(ParamValue::Text(text)) => headers::encode(&text).into_owned(),
                Some(ParamValue::Integer(integer)) => integer.to_string(),
                Some(ParamValue::Flag(flag)) => flag.to_string(),
                Some(ParamValue::Unsafe) => return Err(UnsafeInteger(header.path.join("/"))),
                Some(ParamValue::Other) | None => continue,
            };
            values.push((header.name.to_ascii_lowercase(), text));
        }
        Ok(values)
    }
}

impl ParamHeader {
    /// The header's name as the tool spells it. Names are compared without case.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The argument's place: names of properties, from the root.
    #[must_use]
    pub fn path(&self) -> &[String] {
        &self.path
    }

    /// The argument, as the body has it. `None` when it is absent or `null`: there is no header then.
    #[must_use]
    pub fn value<'a>(&self, arguments: &Members<'a>) -> Option<ParamValue<'a>> {
        let (first, rest) = self.path.split_first()?;
        let value = rest.iter().try_fold(arguments.get(first)?, |value, name| {
            Members::parse(value).ok()?.get(name)
        })?;
        ParamValue::read(value)
    }
}

impl<'a> ParamValue<'a> {
    fn read(raw: &'a RawValue) -> Option<Self> {
        Some(match raw.get() {
            "null" => return None,
            "true" => Self::Flag(true),
            "false" => Self::Flag(false),
            text if text.starts_with('"') => as_string(raw).map_or(Self::Other, Self::Text),
            text if text.starts_with(['{', '[']) => Self::Other,
            number => match Integer::read(number) {
                Some(Integer::Safe(integer)) => Self::Integer(integer),
                Some(Integer::Unsafe) => Self::Unsafe,
                None => Self::Other,
            },
        })
    }

    /// Whether a header says the same as the body. Its value comes without the white space that HTTP strips; integers are compared as
    /// numbers, `42.0` with `42`.
    ///
    /// # Errors
    ///
    /// [`HeaderValueError`] when the header cannot be decoded.
    pub fn is_said_by(&self, header: &str) -> Result<bool, HeaderValueError> {
        let header = headers::decode(header)?;
        Ok(match self {
            Self::Text(text) => *text == header,
            Self::Integer(integer) => Integer::read(&header) == Some(Integer::Safe(*integer)),
            Self::Flag(flag) => header == if *flag { "true" } else { "false" },
            Self::Unsafe | Self::Other => false,
        })
    }
}

#[derive(Default)]
struct Found {
    headers: Vec<ParamHeader>,
    /// In lower case.
    names: HashSet<String>,
}

/// `path`: the properties that lead here, or `None` where something else did.
fn walk(
    schema: &Value,
    mut path: Option<&mut Vec<String>>,
    found: &mut Found,
) -> Result<(), AnnotationError> {
    let Value::Object(schema) = schema else {
        return Ok(());
    };
    if let Some(annotation) = schema.get(KEYWORD) {
        let path = path
            .as_ref()
            .filter(|path| !path.is_empty())
            .ok_or(AnnotationError::Place)?;
        let header = annotated(schema, annotation, path.to_vec())?;
        if !found.names.insert(header.name.to_ascii_lowercase()) {
            return Err(AnnotationError::Twice);
        }
        found.headers.push(header);
    }
    if let Some(Value::Object(properties)) = schema.get("properties") {
        for (name, property) in properties {
            match &mut path {
                Some(path) => {
                    path.push(name.clone());
                    walk(property, Some(path), found)?;
                    path.pop();
                }
                None => walk(property, None, found)?,
            }
        }
    }
    let direct = SUBSCHEMAS
        .iter()
        .filter_map(|keyword| schema.get(*keyword))
        .flat_map(|value| match value {
            Value::Array(list) => list.iter().collect(),
            other => vec![other],
        });
    let named = NAMED_SUBSCHEMAS
        .iter()
        .filter_map(|keyword| schema.get(*keyword)?.as_object())
        .flat_map(Map::values);
    direct
        .chain(named)
        .try_for_each(|subschema| walk(subschema, None, found))
}

fn annotated(
    schema: &Map<String, Value>,
    annotation: &Value,
    path: Vec<String>,
) -> Result<ParamHeader, AnnotationError> {
    let name = annotation
        .as_str()
        .filter(|name| !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(is_tchar))
        .ok_or(AnnotationError::Name)?;
    match schema.get("type").and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => Ok(ParamHeader {
            name: format!("{PREFIX}{name}"),
            path,
        }),
        _ => Err(AnnotationError::Type),
    }
}

/// A character of a header's name (RFC 9110, section 5.6.2).
fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests;
