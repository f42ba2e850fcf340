//! `Mcp-Param-*`: arguments that a tool wants to see in headers too (*Streamable HTTP, Custom Headers from Tool Parameters*).

use http::HeaderName;
use mrtr_protocol::{JsonObject, headers};
use serde_json::{Map, Value};

/// The annotation's keyword in a tool's input schema.
const KEYWORD: &str = "x-mcp-header";

/// The largest integer that every reader of a header agrees on: 2^53 - 1.
const SAFE_INTEGER: i64 = (1 << 53) - 1;

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
const NAMED_SUBSCHEMAS: [&str; 4] = [
    "$defs",
    "definitions",
    "patternProperties",
    "dependentSchemas",
];

/// Which arguments of one tool go into which header.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ParamHeaders(Vec<ParamHeader>);

#[derive(Debug, Clone, PartialEq)]
struct ParamHeader {
    name: HeaderName,
    /// Names of properties, from the root.
    path: Vec<String>,
}

/// Why a tool's annotations are invalid, and the tool with them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AnnotationError {
    #[error("the header name must be a non-empty token")]
    Name,
    #[error("the header name is used twice")]
    Twice,
    #[error("only a string, integer or boolean can go into a header")]
    Type,
    #[error("the annotation is not on a property that is reachable through `properties` alone")]
    Place,
    #[error("the input schema cannot be read")]
    Schema,
}

/// An argument that cannot be put into its header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the integer at {0:?} goes into a header and is beyond 2^53 - 1")]
pub(crate) struct UnsafeInteger(String);

impl ParamHeaders {
    /// Reads the annotations of an input schema.
    pub(crate) fn of(input_schema: &JsonObject) -> Result<Self, AnnotationError> {
        let schema: Value = input_schema.read().map_err(|_| AnnotationError::Schema)?;
        let mut found = Vec::new();
        walk(&schema, Some(&mut Vec::new()), &mut found)?;
        Ok(Self(found))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The headers for these arguments. What is absent or `null` has none; what is of another type has none either, and the server says so.
    pub(crate) fn values(
        &self,
        arguments: Option<&JsonObject>,
    ) -> Result<Vec<(HeaderName, String)>, UnsafeInteger> {
        let Some(arguments) = arguments.and_then(|arguments| arguments.read::<Value>().ok()) else {
            return Ok(Vec::new());
        };
        let mut values = Vec::new();
        for ParamHeader { name, path } in &self.0 {
            let value = path
                .iter()
                .try_fold(&arguments, |value, name| value.get(name));
            let text = match value {
                Some(Value::String(text)) => headers::encode(text).into_owned(),
                Some(Value::Bool(flag)) => flag.to_string(),
                Some(Value::Number(number)) => match number.as_i64() {
                    Some(integer) if integer.abs() <= SAFE_INTEGER => integer.to_string(),
                    _ => return Err(UnsafeInteger(path.join("/"))),
                },
                _ => continue,
            };
            values.push((name.clone(), text));
        }
        Ok(values)
    }
}

/// `path`: the properties that lead here, or `None` where something else did.
fn walk(
    schema: &Value,
    mut path: Option<&mut Vec<String>>,
    found: &mut Vec<ParamHeader>,
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
        if found.iter().any(|other| other.name == header.name) {
            return Err(AnnotationError::Twice);
        }
        found.push(header);
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
        .filter(|name| !name.is_empty())
        .ok_or(AnnotationError::Name)?;
    // Header names are compared without case, which `HeaderName` does by keeping them in lower case.
    let name =
        HeaderName::try_from(format!("mcp-param-{name}")).map_err(|_| AnnotationError::Name)?;
    match schema.get("type").and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => Ok(ParamHeader { name, path }),
        _ => Err(AnnotationError::Type),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(schema: Value) -> Result<ParamHeaders, AnnotationError> {
        ParamHeaders::of(&JsonObject::from_serialize(&schema).unwrap())
    }

    fn with(property: Value) -> Value {
        json!({"type": "object", "properties": {"p": property}})
    }

    #[test]
    fn invalid_annotations_are_found_wherever_they_are() {
        assert!(
            !of(with(json!({"type": "string", "x-mcp-header": "Region"})))
                .unwrap()
                .is_empty()
        );
        assert!(!of(with(json!({"type": "object", "properties": {"q": {"type": "integer", "x-mcp-header": "Q"}}}))).unwrap().is_empty());
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
        assert_eq!(
            values(json!({"n": 9_007_199_254_740_993_i64})),
            Err(UnsafeInteger("n".to_owned()))
        );
        assert_eq!(headers.values(None), Ok(vec![]));
    }
}
