//! Elicitation: a question for a person, by form or by URL, and what came of it (*Elicitation*).

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::answer::{ELICIT_FOREIGN, own_members};
use crate::kind::Kind;
use crate::object::{self, JsonObject, as_string, is_object};

pub use crate::answer::AnswerError;

/// Params of `elicitation/create` in form mode. Serializes with `mode: "form"`; reads without a mode too.
///
/// The schema is kept as text. [`FormSchema::parse`](crate::FormSchema::parse) tells whether it is one that the specification permits.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "mode", rename = "form", rename_all = "camelCase")]
pub struct ElicitForm {
    /// Why the person is asked.
    pub message: String,
    /// What the content of an accept must be.
    pub requested_schema: JsonObject,
}

impl ElicitForm {
    /// A message and a schema.
    pub fn new(message: impl Into<String>, requested_schema: JsonObject) -> Self {
        Self {
            message: message.into(),
            requested_schema,
        }
    }
}

/// Strict: another mode than `form`, or a `url`, is an error.
impl<'de> Deserialize<'de> for ElicitForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire {
            #[serde(default, deserialize_with = "object::present")]
            mode: Option<String>,
            #[serde(default, deserialize_with = "object::present")]
            url: Option<de::IgnoredAny>,
            message: String,
            requested_schema: JsonObject,
        }
        let wire: Wire = object::required(deserializer)?;
        if wire.mode.is_some_and(|mode| mode != "form") || wire.url.is_some() {
            return Err(de::Error::custom("not a form"));
        }
        Ok(Self {
            message: wire.message,
            requested_schema: wire.requested_schema,
        })
    }
}

/// Params of `elicitation/create` in URL mode: a page that the person is asked to open. Serializes with `mode: "url"`.
///
/// The URL is kept as text. What makes it safe is the other side's to see to: a server puts neither state nor personal data nor a login in
/// it, and a client opens nothing but http and https, and only with the person's consent to the whole of it (*Elicitation, Safe URL
/// Handling*).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "mode", rename = "url")]
pub struct ElicitUrl {
    /// Why the person is asked to open it.
    pub message: String,
    /// The whole URL.
    pub url: String,
}

impl ElicitUrl {
    /// A message and a URL.
    pub fn new(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            url: url.into(),
        }
    }
}

/// Strict: another mode than `url`, none at all, or a `requestedSchema`, is an error.
impl<'de> Deserialize<'de> for ElicitUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire {
            mode: String,
            #[serde(default, deserialize_with = "object::present")]
            requested_schema: Option<de::IgnoredAny>,
            message: String,
            url: String,
        }
        let wire: Wire = object::required(deserializer)?;
        if wire.mode != "url" || wire.requested_schema.is_some() {
            return Err(de::Error::custom("not a URL question"));
        }
        Ok(Self {
            message: wire.message,
            url: wire.url,
        })
    }
}

/// What the person did (*Elicitation, Response Actions*).
///
/// Content exists only on an accept. What a client put beside `decline` or `cancel` is dropped unread.
#[derive(Debug, Clone, Copy)]
pub enum ElicitAction<'a> {
    /// Submitted. For a form the content is an object; whether it fits the schema is not checked here. For a URL there is none: it is
    /// consent to open the page, and no more.
    Accept {
        /// The form's content.
        content: Option<&'a RawValue>,
    },
    /// Said no.
    Decline,
    /// Dismissed without a choice.
    Cancel,
}

impl<'a> ElicitAction<'a> {
    /// Reads an answer as one to a form or a URL, whichever was *asked*. [`InputAnswer::parse`](crate::InputAnswer::parse) reads one to any
    /// kind.
    ///
    /// # Errors
    ///
    /// [`AnswerError`]; [`AnswerError::OtherKind`] for a kind that is no elicitation.
    pub fn parse(raw: &'a RawValue, kind: Kind) -> Result<Self, AnswerError> {
        let members = own_members(raw, &ELICIT_FOREIGN)?;
        let content = members.get("content");
        match (members.get("action").and_then(as_string).as_deref(), kind) {
            (Some("accept"), Kind::Form) => match content {
                Some(content) if is_object(content) => Ok(Self::Accept {
                    content: Some(content),
                }),
                _ => Err(AnswerError::Content),
            },
            (Some("accept"), Kind::Url) => match content {
                None => Ok(Self::Accept { content: None }),
                Some(_) => Err(AnswerError::UnexpectedContent),
            },
            (Some("decline"), Kind::Form | Kind::Url) => Ok(Self::Decline),
            (Some("cancel"), Kind::Form | Kind::Url) => Ok(Self::Cancel),
            (_, Kind::Form | Kind::Url) => Err(AnswerError::Action),
            _ => Err(AnswerError::OtherKind),
        }
    }
}

/// Writes what [`ElicitAction::parse`] reads.
impl Serialize for ElicitAction<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Wire<'a> {
            action: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            content: Option<&'a RawValue>,
        }
        let (action, content) = match *self {
            Self::Accept { content } => ("accept", content),
            Self::Decline => ("decline", None),
            Self::Cancel => ("cancel", None),
        };
        Wire { action, content }.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, kind: Kind) -> Result<(&'static str, Option<String>), AnswerError> {
        let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
        ElicitAction::parse(&raw, kind).map(|action| match action {
            ElicitAction::Accept { content } => {
                ("accept", content.map(|content| content.get().to_owned()))
            }
            ElicitAction::Decline => ("decline", None),
            ElicitAction::Cancel => ("cancel", None),
        })
    }

    #[test]
    fn reads_the_three_actions() {
        assert_eq!(
            parse(r#"{"action":"accept","content":{"ok":true}}"#, Kind::Form),
            Ok(("accept", Some(r#"{"ok":true}"#.to_owned())))
        );
        assert_eq!(
            parse(r#"{"action":"accept","content":{}}"#, Kind::Form),
            Ok(("accept", Some("{}".to_owned())))
        );
        assert_eq!(
            parse(r#"{"action":"accept"}"#, Kind::Url),
            Ok(("accept", None))
        );
        for (action, content) in [
            ("decline", ""),
            ("decline", r#","content":{"ok":true}"#),
            ("cancel", r#","content":{"ok":7}"#),
            ("cancel", r#","content":[1]"#),
        ] {
            assert_eq!(
                parse(&format!(r#"{{"action":"{action}"{content}}}"#), Kind::Form),
                Ok((action, None))
            );
        }
        assert!(parse(r#"{"action":"cancel","_meta":{},"later":1}"#, Kind::Form).is_ok());
    }

    #[test]
    fn case_177_every_other_action_is_refused() {
        for (text, error) in [
            ("{}", AnswerError::Action),
            (
                r#"{"action":"ACCEPT","content":{"ok":true}}"#,
                AnswerError::Action,
            ),
            (
                r#"{"action":"Accept","content":{"ok":true}}"#,
                AnswerError::Action,
            ),
            (r#"{"action":"reject"}"#, AnswerError::Action),
            (r#"{"action":"declined"}"#, AnswerError::Action),
            (
                r#"{"action":true,"content":{"ok":true}}"#,
                AnswerError::Action,
            ),
            (
                r#"{"Action":"accept","content":{"ok":true}}"#,
                AnswerError::Action,
            ),
            (
                r#"{"role":"assistant","content":{"type":"text","text":"yes"},"model":"m"}"#,
                AnswerError::OtherKind,
            ),
            (r#"{"roots":[]}"#, AnswerError::OtherKind),
            (
                r#"{"action":"accept","role":"assistant","content":{"ok":true}}"#,
                AnswerError::OtherKind,
            ),
            (r#"{"action":"accept"}"#, AnswerError::Content),
            (
                r#"{"action":"accept","content":null}"#,
                AnswerError::Content,
            ),
            (r#"{"action":"accept","content":[]}"#, AnswerError::Content),
            (
                r#"{"action":"accept","content":"yes"}"#,
                AnswerError::Content,
            ),
            (
                r#"{"action":"accept","action":"decline","content":{}}"#,
                AnswerError::NotAnObject,
            ),
            (r#"["accept",{"ok":true}]"#, AnswerError::NotAnObject),
            ("null", AnswerError::NotAnObject),
        ] {
            assert_eq!(parse(text, Kind::Form), Err(error), "{text}");
        }
        assert_eq!(
            parse(r#"{"action":"decline"}"#, Kind::Roots),
            Err(AnswerError::OtherKind)
        );
    }

    #[test]
    fn case_167_forms_say_their_mode() {
        let form = ElicitForm::new(
            "Sure?",
            JsonObject::parse(r#"{"type":"object","properties":{}}"#).unwrap(),
        );
        let text = serde_json::to_string(&form).unwrap();
        assert_eq!(
            text,
            r#"{"mode":"form","message":"Sure?","requestedSchema":{"type":"object","properties":{}}}"#
        );
        assert_eq!(serde_json::from_str::<ElicitForm>(&text).unwrap(), form);
        assert_eq!(
            serde_json::from_str::<ElicitForm>(&text.replace(r#""mode":"form","#, "")).unwrap(),
            form
        );
        for (from, to) in [
            ("\"form\"", "\"FORM\""),
            ("\"form\"", "\"url\""),
            ("\"form\"", "null"),
            (r#""form""#, r#""form","url":"https://a.example""#),
            ("requestedSchema", "schema"),
        ] {
            assert!(
                serde_json::from_str::<ElicitForm>(&text.replace(from, to)).is_err(),
                "{to}"
            );
        }
        assert!(serde_json::from_str::<ElicitForm>(r#"["form","Sure?",{}]"#).is_err());
    }

    #[test]
    fn case_167_urls_say_their_mode() {
        let page = ElicitUrl::new("Log in", "https://a.example/go");
        let text = serde_json::to_string(&page).unwrap();
        assert_eq!(
            text,
            r#"{"mode":"url","message":"Log in","url":"https://a.example/go"}"#
        );
        assert_eq!(serde_json::from_str::<ElicitUrl>(&text).unwrap(), page);
        for (from, to) in [
            (r#""mode":"url","#, ""),
            (r#""mode":"url""#, r#""mode":"form""#),
            (r#""mode":"url""#, r#""mode":"URL""#),
            (r#""mode":"url""#, r#""mode":null"#),
            (r#""mode":"url""#, r#""mode":"url","requestedSchema":{}"#),
            (r#""https://a.example/go""#, "null"),
            (r#""message":"Log in","#, ""),
        ] {
            assert!(text.contains(from), "{from}");
            assert!(
                serde_json::from_str::<ElicitUrl>(&text.replace(from, to)).is_err(),
                "{to}"
            );
        }
        assert!(
            serde_json::from_str::<ElicitUrl>(r#"["url","Log in","https://a.example"]"#).is_err()
        );
    }
}
