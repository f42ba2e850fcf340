//! Tools: the list, a call, its result (*Tools*).

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::content::ContentBlock;
use crate::discover::CacheScope;
use crate::error::{ErrorObject, code};
use crate::icon::{self, Icon};
use crate::meta::ResultMeta;
use crate::object::{self, JsonObject, Members, RawObject, as_string, is_object};

/// What a tool is and takes.
///
/// Everything in it is the server's word. Clients must consider annotations untrusted unless they trust the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Tool {
    /// Unique on its server, case-sensitive.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments, with `type: "object"` at the root.
    pub input_schema: JsonObject,
    /// JSON Schema of `structuredContent`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::present"
    )]
    pub output_schema: Option<JsonObject>,
    /// Hints about its behaviour.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::optional"
    )]
    pub annotations: Option<ToolAnnotations>,
    /// Pictures.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "icon::list"
    )]
    pub icons: Vec<Icon>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing_if = "RawObject::is_empty")]
    pub meta: RawObject,
}

impl Tool {
    /// A tool with a name and an input schema; the rest are public fields.
    pub fn new(name: impl Into<String>, input_schema: JsonObject) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            input_schema,
            output_schema: None,
            annotations: None,
            icons: Vec::new(),
            meta: RawObject::new(),
        }
    }
}

/// Hints about a tool's behaviour: untrusted, and `None` means the specification's default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnnotations {
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether it changes nothing. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// Whether it may destroy something. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Whether calling it twice is the same as once. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// Whether it reaches beyond a closed world. Default: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

/// Result of `tools/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "resultType", rename = "complete", rename_all = "camelCase")]
pub struct ListToolsResult {
    /// The tools of this page.
    #[serde(deserialize_with = "object::list")]
    pub tools: Vec<Tool>,
    /// Where the next page begins; `None` on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// How long the list may be cached, in milliseconds. Absent or negative reads as 0.
    #[serde(default, deserialize_with = "crate::discover::ttl_ms")]
    pub ttl_ms: u64,
    /// By whom it may be cached. Absent reads as private.
    #[serde(default)]
    pub cache_scope: CacheScope,
    /// `_meta`.
    #[serde(
        rename = "_meta",
        default,
        skip_serializing_if = "ResultMeta::is_empty"
    )]
    pub meta: ResultMeta,
}

/// Params of `tools/call`, borrowed and mostly raw.
///
/// `arguments`, when there, is an object. `inputResponses` and `requestState` are whatever was sent, `null` and numbers included, so that
/// they reach the code that must refuse them: a member that a typed reader skips is a check that does not run.
///
/// Debug prints neither arguments nor answers nor state.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallToolParams<'a> {
    /// The tool.
    pub name: Cow<'a, str>,
    /// Its arguments: an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<&'a RawValue>,
    /// Answers to the questions of the round before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_responses: Option<&'a RawValue>,
    /// The state of the round before: attacker-controlled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_state: Option<&'a RawValue>,
    /// `_meta`. Read it with [`RequestMeta`](crate::RequestMeta).
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<&'a RawValue>,
}

impl<'a> CallToolParams<'a> {
    /// Reads the params of a request.
    ///
    /// # Errors
    ///
    /// [`ParamsError`] when the name is absent or no string, or the arguments are no object.
    pub fn of(params: &Members<'a>) -> Result<Self, ParamsError> {
        let name = params.get("name").ok_or(ParamsError::Missing("name"))?;
        let arguments = params.get("arguments");
        if arguments.is_some_and(|raw| !is_object(raw)) {
            return Err(ParamsError::ArgumentsNotAnObject);
        }
        Ok(Self {
            name: as_string(name).ok_or(ParamsError::Mistyped("name"))?,
            arguments,
            input_responses: params.get("inputResponses"),
            request_state: params.get("requestState"),
            meta: params.get("_meta"),
        })
    }
}

impl fmt::Debug for CallToolParams<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallToolParams")
            .field("name", &self.name)
            .field("arguments", &self.arguments.is_some())
            .field("input_responses", &self.input_responses.is_some())
            .field("request_state", &self.request_state.is_some())
            .finish_non_exhaustive()
    }
}

/// Params that do not fit their method: -32602.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParamsError {
    /// A required member is not there.
    #[error("`{0}` is missing in the params")]
    Missing(&'static str),
    /// A member of the wrong type.
    #[error("`{0}` in the params must be a string")]
    Mistyped(&'static str),
    /// A member that is of the right type perhaps, but not of the shape or among the words that the specification gives it.
    #[error("`{0}` in the params does not have the shape that the specification gives it")]
    Malformed(&'static str),
    /// `arguments` that are `null`, an array, or another value.
    #[error("`arguments` must be an object")]
    ArgumentsNotAnObject,
    /// An argument of a prompt that is no string.
    #[error("each argument of a prompt must be a string")]
    ArgumentNotAString,
}

impl ParamsError {
    /// The error to answer with.
    #[must_use]
    pub fn to_error_object(&self) -> ErrorObject {
        ErrorObject::new(code::INVALID_PARAMS, format!("Invalid params: {self}."))
    }
}

/// Result of `tools/call` that completes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "resultType", rename = "complete", rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallToolResult {
    /// Content for the model and the person.
    pub content: Vec<ContentBlock>,
    /// A value that fits the tool's output schema. `null` is a value.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::present"
    )]
    pub structured_content: Option<Box<RawValue>>,
    /// Whether the tool failed in a way that the model should see.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// `_meta`.
    #[serde(
        rename = "_meta",
        default,
        skip_serializing_if = "ResultMeta::is_empty"
    )]
    pub meta: ResultMeta,
}

impl CallToolResult {
    /// A result with content.
    #[must_use]
    pub fn new(content: Vec<ContentBlock>) -> Self {
        Self {
            content,
            structured_content: None,
            is_error: false,
            meta: ResultMeta::default(),
        }
    }

    /// A result with one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(vec![ContentBlock::text(text)])
    }

    /// A failure that the model should read (*Tools, Error Handling*).
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            is_error: true,
            ..Self::text(text)
        }
    }

    /// A structured result, with its JSON as text beside it for clients that read only text.
    ///
    /// # Errors
    ///
    /// When the value does not serialize.
    pub fn structured<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        let raw = to_raw_value(value)?;
        Ok(Self {
            structured_content: Some(raw.clone()),
            ..Self::text(raw.get())
        })
    }

    /// The text blocks, joined by newlines.
    #[must_use]
    pub fn joined_text(&self) -> String {
        self.content
            .iter()
            .filter_map(ContentBlock::as_text)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// The structured content, read as `T`. `None` when there is none or it is of another shape.
    #[must_use]
    pub fn structured_as<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.structured_content.as_ref()?.get()).ok()
    }
}

impl From<String> for CallToolResult {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for CallToolResult {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_params_let_nothing_slip() {
        let raw: Box<RawValue> = serde_json::from_str(r#"{"name":"t","arguments":{"a":1},"inputResponses":null,"requestState":7,"requeststate":"S"}"#).unwrap();
        let params = CallToolParams::of(&Members::parse(&raw).unwrap()).unwrap();
        assert_eq!(params.input_responses.unwrap().get(), "null");
        assert_eq!(params.request_state.unwrap().get(), "7");
        assert!(!format!("{params:?}").contains('7'));
        for (bad, error) in [
            ("{}", ParamsError::Missing("name")),
            (r#"{"name":null}"#, ParamsError::Mistyped("name")),
            (
                r#"{"name":"t","arguments":null}"#,
                ParamsError::ArgumentsNotAnObject,
            ),
            (
                r#"{"name":"t","arguments":[]}"#,
                ParamsError::ArgumentsNotAnObject,
            ),
        ] {
            let raw: Box<RawValue> = serde_json::from_str(bad).unwrap();
            assert_eq!(
                CallToolParams::of(&Members::parse(&raw).unwrap()).unwrap_err(),
                error,
                "{bad}"
            );
        }
    }

    #[test]
    fn call_params_write_what_they_read() {
        let text = r#"{"name":"t","arguments":{"a": 1.00},"inputResponses":{},"requestState":"S","_meta":{}}"#;
        let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
        let params = CallToolParams::of(&Members::parse(&raw).unwrap()).unwrap();
        assert_eq!(serde_json::to_string(&params).unwrap(), text);
        let bare = CallToolParams {
            arguments: None,
            input_responses: None,
            request_state: None,
            meta: None,
            ..params
        };
        assert_eq!(serde_json::to_string(&bare).unwrap(), r#"{"name":"t"}"#);
    }

    #[test]
    fn results_say_their_type() {
        let result = CallToolResult::text("hi");
        assert_eq!(
            serde_json::to_string(&result).unwrap(),
            r#"{"resultType":"complete","content":[{"type":"text","text":"hi"}]}"#
        );
        let failed: CallToolResult =
            serde_json::from_str(r#"{"content":[],"isError":true,"structuredContent":null}"#)
                .unwrap();
        assert!(failed.is_error);
        assert_eq!(failed.structured_content.unwrap().get(), "null");
        let list = ListToolsResult {
            tools: vec![],
            next_cursor: None,
            ttl_ms: 5,
            cache_scope: CacheScope::Public,
            meta: ResultMeta::default(),
        };
        assert_eq!(
            serde_json::to_string(&list).unwrap(),
            r#"{"resultType":"complete","tools":[],"ttlMs":5,"cacheScope":"public"}"#
        );
    }

    #[test]
    fn results_are_objects_all_the_way_down() {
        let good = r#"{"tools":[{"name":"t","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}"#;
        assert!(serde_json::from_str::<object::Object<ListToolsResult>>(good).is_ok());
        for (from, to) in [
            (r#"{"readOnlyHint":true}"#, "[null,true]"),
            (r#"{"readOnlyHint":true}"#, "null"),
            (r#"{"type":"object"}"#, "[]"),
            (r#"{"type":"object"}"#, "null"),
            (r#"{"name":"t""#, r#"{"name":"t","_meta":[]"#),
            (r#"{"name":"t""#, r#"{"name":"t","outputSchema":null"#),
        ] {
            assert!(good.contains(from));
            assert!(
                serde_json::from_str::<object::Object<ListToolsResult>>(&good.replace(from, to))
                    .is_err(),
                "{to}"
            );
        }
        assert!(
            serde_json::from_str::<object::Object<ListToolsResult>>(
                r#"{"tools":[["t",null,null,{}]]}"#
            )
            .is_err()
        );
        assert!(
            serde_json::from_str::<object::Object<CallToolResult>>(r#"{"content":[["text","x"]]}"#)
                .is_err()
        );
        assert!(
            serde_json::from_str::<object::Object<CallToolResult>>(r#"{"content":null}"#).is_err()
        );
    }
}
