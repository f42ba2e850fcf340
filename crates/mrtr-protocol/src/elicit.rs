//! Elicitation: a question for a person, and what came of it (*Elicitation*).
//!
//! Forms only. URL mode has its [`Kind`], so that capabilities and kinds can be told apart; its types come with URL mode.

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::kind::Kind;
use crate::object::{self, JsonObject, Members, as_string, is_object};

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

/// Why an answer is not one to the question that was put: -32602.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// Not an object, or a member twice.
    #[error("the answer must be an object")]
    NotAnObject,
    /// `action` absent, or not exactly one of the three words.
    #[error("the answer's `action` must be \"accept\", \"decline\" or \"cancel\"")]
    Action,
    /// Members of an answer to another kind of question.
    #[error("the answer is one to another kind of question")]
    OtherKind,
    /// An accepted form without an object as content.
    #[error("an accepted form needs `content`, an object")]
    Content,
    /// A kind whose answers this crate cannot read yet.
    #[error("answers of this kind are not read here")]
    UnsupportedKind,
}

/// Members that mark the answer to a sampling or roots request.
const FOREIGN: [&str; 4] = ["role", "model", "stopReason", "roots"];

impl<'a> ElicitAction<'a> {
    /// Reads an answer as one to `kind`, the kind that was *asked*. Nothing is guessed from its shape.
    ///
    /// Unknown members are ignored, as the specification asks, but those that belong to an answer of another kind are not: an answer that
    /// two readers could take for different things is no answer.
    ///
    /// # Errors
    ///
    /// [`AnswerError`].
    pub fn parse(raw: &'a RawValue, kind: Kind) -> Result<Self, AnswerError> {
        if !matches!(kind, Kind::Form | Kind::Url) {
            return Err(AnswerError::UnsupportedKind);
        }
        let members = Members::parse(raw).map_err(|_| AnswerError::NotAnObject)?;
        if FOREIGN.iter().any(|name| members.get(name).is_some()) {
            return Err(AnswerError::OtherKind);
        }
        match members.get("action").and_then(as_string).as_deref() {
            Some("accept") if kind == Kind::Form => match members.get("content") {
                Some(content) if is_object(content) => Ok(Self::Accept {
                    content: Some(content),
                }),
                _ => Err(AnswerError::Content),
            },
            Some("accept") => Ok(Self::Accept { content: None }),
            Some("decline") => Ok(Self::Decline),
            Some("cancel") => Ok(Self::Cancel),
            _ => Err(AnswerError::Action),
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
        assert_eq!(
            parse(r#"{"action":"accept","content":{"ok":true}}"#, Kind::Url),
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
    fn refuses_everything_else() {
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
            parse(r#"{"roots":[]}"#, Kind::Roots),
            Err(AnswerError::UnsupportedKind)
        );
    }

    #[test]
    fn forms_say_their_mode() {
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
}
