//! Prompts: the list, a request for one, its result (*Prompts*).

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::content::{ContentBlock, Role};
use crate::discover::CacheScope;
use crate::icon::{self, Icon};
use crate::meta::ResultMeta;
use crate::object::{self, Members, RawObject, as_string};
use crate::tools::ParamsError;

/// What a prompt is and takes.
///
/// Everything in it is the server's word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Prompt {
    /// Unique on its server, case-sensitive.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it provides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it takes. Every argument is a string.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "object::list"
    )]
    pub arguments: Vec<PromptArgument>,
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

impl Prompt {
    /// A prompt with a name; the rest are public fields.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            arguments: Vec::new(),
            icons: Vec::new(),
            meta: RawObject::new(),
        }
    }
}

/// An argument that a prompt takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it must be given. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
}

impl PromptArgument {
    /// An argument with a name; the rest are public fields.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            required: None,
        }
    }
}

/// Result of `prompts/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "resultType", rename = "complete", rename_all = "camelCase")]
pub struct ListPromptsResult {
    /// The prompts of this page.
    #[serde(deserialize_with = "object::list")]
    pub prompts: Vec<Prompt>,
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

/// Params of `prompts/get`, borrowed and mostly raw.
///
/// `arguments`, when there, is an object whose values are all strings. `inputResponses` and `requestState` are whatever was sent, `null`
/// and numbers included, so that they reach the code that must refuse them.
///
/// Debug prints neither arguments nor answers nor state.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GetPromptParams<'a> {
    /// The prompt.
    pub name: Cow<'a, str>,
    /// Its arguments: an object of strings.
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

impl<'a> GetPromptParams<'a> {
    /// Reads the params of a request.
    ///
    /// # Errors
    ///
    /// [`ParamsError`] when the name is absent or no string, or the arguments are no object of strings.
    pub fn of(params: &Members<'a>) -> Result<Self, ParamsError> {
        let name = params.get("name").ok_or(ParamsError::Missing("name"))?;
        let arguments = params.get("arguments");
        if let Some(raw) = arguments {
            let members = Members::parse(raw).map_err(|_| ParamsError::ArgumentsNotAnObject)?;
            if members.iter().any(|(_, value)| as_string(value).is_none()) {
                return Err(ParamsError::ArgumentNotAString);
            }
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

impl fmt::Debug for GetPromptParams<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetPromptParams")
            .field("name", &self.name)
            .field("arguments", &self.arguments.is_some())
            .field("input_responses", &self.input_responses.is_some())
            .field("request_state", &self.request_state.is_some())
            .finish_non_exhaustive()
    }
}

/// Result of `prompts/get` that completes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "resultType", rename = "complete")]
#[non_exhaustive]
pub struct GetPromptResult {
    /// What the prompt is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The messages, for the model.
    #[serde(deserialize_with = "object::list")]
    pub messages: Vec<PromptMessage>,
    /// `_meta`.
    #[serde(
        rename = "_meta",
        default,
        skip_serializing_if = "ResultMeta::is_empty"
    )]
    pub meta: ResultMeta,
}

impl GetPromptResult {
    /// A result with messages.
    #[must_use]
    pub fn new(messages: Vec<PromptMessage>) -> Self {
        Self {
            description: None,
            messages,
            meta: ResultMeta::default(),
        }
    }

    /// The texts of all messages, joined by newlines.
    #[must_use]
    pub fn joined_text(&self) -> String {
        self.messages
            .iter()
            .filter_map(|message| message.content.as_text())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// One message of a prompt: who speaks, and one piece of content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptMessage {
    /// Who speaks.
    pub role: Role,
    /// What.
    pub content: ContentBlock,
}

impl PromptMessage {
    /// A text that the person says.
    pub fn user(text: impl Into<String>) -> Self {
        Self {
            role: Role::User,
            content: ContentBlock::text(text),
        }
    }

    /// A text that the model says.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self {
            role: Role::Assistant,
            content: ContentBlock::text(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;

    fn params(text: &str) -> Result<(String, Option<String>), ParamsError> {
        let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
        GetPromptParams::of(&Members::parse(&raw).unwrap()).map(|params| {
            (
                params.name.into_owned(),
                params.arguments.map(|raw| raw.get().to_owned()),
            )
        })
    }

    #[test]
    fn arguments_are_strings() {
        assert_eq!(
            params(r#"{"name":"p","arguments":{"a":"1","b":""}}"#),
            Ok(("p".to_owned(), Some(r#"{"a":"1","b":""}"#.to_owned())))
        );
        assert_eq!(params(r#"{"name":"p"}"#), Ok(("p".to_owned(), None)));
        for (bad, error) in [
            (r#"{"arguments":{}}"#, ParamsError::Missing("name")),
            (r#"{"name":1}"#, ParamsError::Mistyped("name")),
            (
                r#"{"name":"p","arguments":null}"#,
                ParamsError::ArgumentsNotAnObject,
            ),
            (
                r#"{"name":"p","arguments":["a"]}"#,
                ParamsError::ArgumentsNotAnObject,
            ),
            (
                r#"{"name":"p","arguments":{"a":"1","a":"2"}}"#,
                ParamsError::ArgumentsNotAnObject,
            ),
            (
                r#"{"name":"p","arguments":{"a":1}}"#,
                ParamsError::ArgumentNotAString,
            ),
            (
                r#"{"name":"p","arguments":{"a":null}}"#,
                ParamsError::ArgumentNotAString,
            ),
            (
                r#"{"name":"p","arguments":{"a":["x"]}}"#,
                ParamsError::ArgumentNotAString,
            ),
        ] {
            assert_eq!(params(bad), Err(error), "{bad}");
        }
    }

    #[test]
    fn params_let_nothing_slip() {
        let text = r#"{"name":"p","arguments":{"a":"secret"},"inputResponses":null,"requestState":7,"_meta":{}}"#;
        let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
        let params = GetPromptParams::of(&Members::parse(&raw).unwrap()).unwrap();
        assert_eq!(serde_json::to_string(&params).unwrap(), text);
        assert!(!format!("{params:?}").contains("secret"));
    }

    #[test]
    fn results_are_objects_all_the_way_down() {
        let good =
            r#"{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"_meta":{}}"#;
        let read = |text: &str| serde_json::from_str::<Object<GetPromptResult>>(text);
        assert_eq!(read(good).unwrap().0.joined_text(), "hi");
        for (from, to) in [
            (r#""user""#, r#""User""#),
            (r#""user""#, r#""system""#),
            (
                r#"{"type":"text","text":"hi"}"#,
                r#"[{"type":"text","text":"hi"}]"#,
            ),
            (
                r#"{"role":"user","content":{"type":"text","text":"hi"}}"#,
                r#"["user",{"type":"text","text":"hi"}]"#,
            ),
            (r#""_meta":{}"#, r#""_meta":[]"#),
        ] {
            assert!(good.contains(from), "{from}");
            assert!(read(&good.replace(from, to)).is_err(), "{to}");
        }
        let list = r#"{"prompts":[{"name":"p","arguments":[{"name":"a","required":true}]}]}"#;
        assert!(serde_json::from_str::<Object<ListPromptsResult>>(list).is_ok());
        for (from, to) in [
            (r#"{"name":"a","required":true}"#, r#"["a",null,null,true]"#),
            (r#"[{"name":"p""#, r#"["p",{"name":"p""#),
        ] {
            assert!(list.contains(from), "{from}");
            assert!(
                serde_json::from_str::<Object<ListPromptsResult>>(&list.replace(from, to)).is_err(),
                "{to}"
            );
        }
    }
}
