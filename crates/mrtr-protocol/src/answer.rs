//! Answers, each read as one to the kind of question that was put.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::elicit::ElicitAction;
use crate::kind::Kind;
use crate::object::{self, Members};
use crate::roots::ListRootsResult;
use crate::sampling::{CreateMessageResult, SamplingBlock};

/// An answer, read as one to the kind that was asked.
///
/// ```
/// # use serde_json::value::RawValue;
/// use mrtr_protocol::{AnswerError, ElicitAction, InputAnswer, Kind};
/// let yes: &RawValue = serde_json::from_str(r#"{"action":"accept","content":{"ok":true}}"#)?;
/// assert!(matches!(InputAnswer::parse(yes, Kind::Form)?, InputAnswer::Elicit(ElicitAction::Accept { .. })));
/// assert_eq!(InputAnswer::parse(yes, Kind::Roots).unwrap_err(), AnswerError::OtherKind);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum InputAnswer<'a> {
    /// To a form or a URL.
    Elicit(ElicitAction<'a>),
    /// To `sampling/createMessage`. Deprecated since 2026-07-28: a new server calls a model provider itself.
    Sampling(Box<CreateMessageResult>),
    /// To `roots/list`. Deprecated since 2026-07-28: a new server takes folders as parameters, resource URIs or configuration.
    Roots(ListRootsResult),
}

impl<'a> InputAnswer<'a> {
    /// Reads an answer as one to `kind`, the kind that was *asked*. Nothing is guessed from its shape.
    ///
    /// Unknown members are ignored, as the specification asks, but those that belong to an answer of another kind are not: an answer that
    /// two readers could take for different things is no answer.
    ///
    /// Not guaranteed: that the content of a form fits its schema, or that a tool which the model wants is one of the question's.
    ///
    /// # Errors
    ///
    /// [`AnswerError`].
    pub fn parse(raw: &'a RawValue, kind: Kind) -> Result<Self, AnswerError> {
        match kind {
            Kind::Form | Kind::Url => ElicitAction::parse(raw, kind).map(Self::Elicit),
            Kind::Sampling | Kind::SamplingWithTools => {
                own_members(raw, &SAMPLING_FOREIGN)?;
                let result: CreateMessageResult =
                    object::read(raw).map_err(|_| AnswerError::Message)?;
                let fits = |block: &SamplingBlock| match block {
                    SamplingBlock::ToolUse(_) => kind == Kind::SamplingWithTools,
                    SamplingBlock::ToolResult(_) => false,
                    _ => true,
                };
                if !result.content.blocks().iter().all(fits) {
                    return Err(AnswerError::ToolContent);
                }
                Ok(Self::Sampling(Box::new(result)))
            }
            Kind::Roots => {
                own_members(raw, &ROOTS_FOREIGN)?;
                object::read(raw)
                    .map(Self::Roots)
                    .map_err(|_| AnswerError::Roots)
            }
        }
    }
}

/// Writes what [`InputAnswer::parse`] reads.
impl Serialize for InputAnswer<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Elicit(action) => action.serialize(serializer),
            Self::Sampling(result) => result.serialize(serializer),
            Self::Roots(result) => result.serialize(serializer),
        }
    }
}

/// Members that mark an answer of another kind than elicitation.
pub(crate) const ELICIT_FOREIGN: [&str; 4] = ["role", "model", "stopReason", "roots"];
const SAMPLING_FOREIGN: [&str; 2] = ["action", "roots"];
const ROOTS_FOREIGN: [&str; 5] = ["action", "content", "role", "model", "stopReason"];

/// The answer's members, none of which may be foreign to its kind.
pub(crate) fn own_members<'a>(
    raw: &'a RawValue,
    foreign: &[&str],
) -> Result<Members<'a>, AnswerError> {
    let members = Members::parse(raw).map_err(|_| AnswerError::NotAnObject)?;
    if foreign.iter().any(|name| members.get(name).is_some()) {
        return Err(AnswerError::OtherKind);
    }
    Ok(members)
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
    /// Content beside the accept of a URL, as if it were a form.
    #[error("an accepted URL has no `content`: what the person types goes to the page")]
    UnexpectedContent,
    /// No message of a model. Deprecated since 2026-07-28, as sampling is: a new server calls a model provider itself.
    #[error(
        "the answer to a sampling request needs `role`, `content` and `model`, as the specification has them"
    )]
    Message,
    /// A use of a tool where the question offers none, or a result of a tool. Deprecated since 2026-07-28, as sampling is: a new server
    /// calls a model provider itself.
    #[error("the message uses tools that the question does not offer, or brings the result of one")]
    ToolContent,
    /// No list of roots. Deprecated since 2026-07-28, as roots are: take folders as parameters, resource URIs or configuration.
    #[error("the answer to a roots request needs `roots`, a list of objects with a `file://` URI")]
    Roots,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, kind: Kind) -> Result<String, AnswerError> {
        let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
        InputAnswer::parse(&raw, kind).map(|answer| serde_json::to_string(&answer).unwrap())
    }

    const FORM: &str = r#"{"action":"accept","content":{"ok":true}}"#;
    const URL: &str = r#"{"action":"accept"}"#;
    const SAID: &str = r#"{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m"}"#;
    const USES: &str = r#"{"role":"assistant","content":[{"type":"tool_use","id":"u","name":"t","input":{}}],"model":"m","stopReason":"toolUse"}"#;
    const ROOTS: &str = r#"{"roots":[{"uri":"file:///a","name":"A"}]}"#;

    #[test]
    fn each_answer_is_one_to_its_own_kind_alone() {
        use Kind::*;
        for (text, kinds) in [
            (FORM, vec![Form]),
            (URL, vec![Url]),
            (r#"{"action":"decline"}"#, vec![Form, Url]),
            (r#"{"action":"cancel"}"#, vec![Form, Url]),
            (SAID, vec![Sampling, SamplingWithTools]),
            (USES, vec![SamplingWithTools]),
            (ROOTS, vec![Roots]),
            (r#"{"roots":[]}"#, vec![Roots]),
        ] {
            for kind in Kind::ALL {
                let read = parse(text, kind);
                if kinds.contains(&kind) {
                    assert_eq!(read.as_deref(), Ok(text), "{kind}");
                } else {
                    assert!(read.is_err(), "{text} as {kind}: {read:?}");
                }
            }
        }
    }

    #[test]
    fn an_answer_with_two_meanings_has_none() {
        for (good, kind) in [
            (FORM, Kind::Form),
            (URL, Kind::Url),
            (SAID, Kind::Sampling),
            (USES, Kind::SamplingWithTools),
            (ROOTS, Kind::Roots),
        ] {
            assert!(parse(good, kind).is_ok());
            // What the specification does not know is no contradiction.
            let more = |member: &str| good.replacen('{', &format!("{{{member},"), 1);
            assert!(parse(&more(r#""later":1,"_meta":{}"#), kind).is_ok());
            for member in [
                r#""action":"accept""#,
                r#""action":null"#,
                r#""role":"assistant""#,
                r#""model":"m""#,
                r#""roots":[]"#,
                r#""stopReason":"endTurn""#,
                r#""content":{"ok":true}"#,
            ] {
                let (name, _) = member.split_once(':').unwrap();
                // Its own member twice is no object; another kind's is a contradiction.
                let own = match kind {
                    Kind::Sampling => name == r#""stopReason""#,
                    _ => false,
                };
                if !own {
                    assert!(parse(&more(member), kind).is_err(), "{member} in {good}");
                }
            }
        }
    }

    #[test]
    fn messages_are_whole() {
        for (from, to, error) in [
            (r#""role":"assistant","#, "", AnswerError::Message),
            (r#","model":"m""#, "", AnswerError::Message),
            (r#""assistant""#, r#""model""#, AnswerError::Message),
            (r#""assistant""#, "null", AnswerError::Message),
            (
                r#"{"type":"text","text":"hi"}"#,
                r#""hi""#,
                AnswerError::Message,
            ),
            (
                r#"{"type":"text","text":"hi"}"#,
                r#"{"type":"hologram"}"#,
                AnswerError::Message,
            ),
            (r#""model":"m""#, r#""model":1"#, AnswerError::Message),
            (
                r#""model":"m""#,
                r#""model":"m","stopReason":null"#,
                AnswerError::Message,
            ),
            (
                r#"{"type":"text","text":"hi"}"#,
                r#"{"type":"tool_result","toolUseId":"u","content":[]}"#,
                AnswerError::ToolContent,
            ),
        ] {
            assert!(SAID.contains(from), "{from}");
            let bad = SAID.replacen(from, to, 1);
            assert_eq!(parse(&bad, Kind::SamplingWithTools), Err(error), "{bad}");
        }
        assert_eq!(parse(USES, Kind::Sampling), Err(AnswerError::ToolContent));
        assert_eq!(
            parse("[\"assistant\"]", Kind::Sampling),
            Err(AnswerError::NotAnObject)
        );
    }

    #[test]
    fn roots_are_files() {
        for bad in [
            "{}",
            r#"{"roots":null}"#,
            r#"{"roots":{}}"#,
            r#"{"roots":["file:///a"]}"#,
            r#"{"roots":[["file:///a"]]}"#,
            r#"{"roots":[{"name":"A"}]}"#,
            r#"{"roots":[{"uri":"https://a.example"}]}"#,
            r#"{"roots":[{"uri":"file:///a/../b"}]}"#,
            r#"{"roots":[{"uri":"file:///a"},null]}"#,
        ] {
            assert_eq!(parse(bad, Kind::Roots), Err(AnswerError::Roots), "{bad}");
        }
        assert_eq!(parse("[]", Kind::Roots), Err(AnswerError::NotAnObject));
    }

    #[test]
    fn case_146_an_accepted_url_has_no_content() {
        for content in [r#"{"ok":true}"#, "{}", "null"] {
            let text = format!(r#"{{"action":"accept","content":{content}}}"#);
            assert_eq!(
                parse(&text, Kind::Url),
                Err(AnswerError::UnexpectedContent),
                "{text}"
            );
        }
        // What is beside a decline is dropped, as it is for a form.
        assert_eq!(
            parse(r#"{"action":"decline","content":{"ok":true}}"#, Kind::Url).as_deref(),
            Ok(r#"{"action":"decline"}"#)
        );
    }
}
