//! Who answers the questions: the host's handlers.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use mrtr_protocol::{FormSchema, JsonObject, Kind, KindSet};
use serde_json::Value;

/// What a handler answers with.
pub type HandlerFuture<'a> = Pin<Box<dyn Future<Output = Result<FormAnswer, Refusal>> + Send + 'a>>;

/// Puts forms to a person.
///
/// Any `async` closure over a [`FormQuestion`] is a handler. Registering one declares `elicitation.form` with every request; without one
/// nothing is declared.
///
/// # Contract
///
/// * Show which server is asking, let the person see and change what is sent, and offer to decline and to dismiss (*Elicitation, User
///   Interaction Model*).
/// * Answer [`FormAnswer::Accept`] only when the person did. A policy that says no is a [`Refusal`], so that nobody takes it for the
///   person's word.
/// * Questions of one round are asked at the same time. When one of them ends the call, the futures of the others are dropped: close their
///   prompts in `Drop`.
pub trait FormHandler: Send + Sync + 'static {
    /// Answers one question. It may take as long as a person takes; no timeout of the client runs meanwhile.
    fn answer(&self, question: FormQuestion) -> HandlerFuture<'_>;
}

impl<F, Fut> FormHandler for F
where
    F: Fn(FormQuestion) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<FormAnswer, Refusal>> + Send + 'static,
{
    fn answer(&self, question: FormQuestion) -> HandlerFuture<'_> {
        Box::pin(self(question))
    }
}

/// What the person did with a form.
#[derive(Debug, Clone, PartialEq)]
pub enum FormAnswer {
    /// Submitted, with this content: an object that fits the question's schema. `{}` for a form without fields.
    Accept(Value),
    /// Said no.
    Decline,
    /// Dismissed without a choice.
    Cancel,
}

/// The host will not answer, for reasons of its own. The call is abandoned and nothing is sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// Why, for whoever called the tool.
    pub reason: String,
}

impl Refusal {
    /// Refuses with a reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }
}

/// One form to be put to a person.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FormQuestion {
    /// Who is asking. Show it.
    pub server: ServerLabel,
    /// The tool whose call waits for the answer.
    pub tool: String,
    /// The question's key in its round.
    pub key: String,
    /// The message as the server wrote it. Untrusted: it may hold markup or control characters.
    pub message: String,
    /// The fields.
    pub schema: FormSchema,
    /// The schema's own text, which the content of an accept must fit.
    pub requested_schema: JsonObject,
}

impl FormQuestion {
    /// The message without control characters and without characters that change the direction of text, for a terminal or a plain label.
    /// Line breaks stay.
    #[must_use]
    pub fn plain_message(&self) -> String {
        self.message
            .chars()
            .filter(|&c| c == '\n' || !(c.is_control() || is_bidi(c)))
            .collect()
    }
}

/// Marks, embeddings, overrides and isolates of bidirectional text.
fn is_bidi(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Who is asking, as far as this side knows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLabel {
    /// The endpoint that the host configured.
    pub url: String,
    /// The host's own name for it, from [`ClientBuilder::label`](crate::ClientBuilder::label).
    pub label: Option<String>,
    /// What the server calls itself. Not verified by anyone: show it beside the others at most.
    pub self_reported: Option<String>,
}

/// The host's name and the URL; never the server's own name alone.
impl fmt::Display for ServerLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.label {
            Some(label) => write!(f, "{label} ({})", self.url),
            None => f.write_str(&self.url),
        }
    }
}

/// The handlers of a client; kinds that come later have their places here.
#[derive(Clone, Default)]
pub(crate) struct Handlers {
    pub(crate) form: Option<Arc<dyn FormHandler>>,
}

impl Handlers {
    /// The kinds that somebody handles: what the client declares.
    pub(crate) fn kinds(&self) -> KindSet {
        self.form.iter().map(|_| Kind::Form).collect()
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kinds().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_messages_hold_no_controls() {
        let schema = JsonObject::parse(r#"{"type":"object","properties":{}}"#).unwrap();
        let question = FormQuestion {
            server: ServerLabel {
                url: "https://a.example/mcp".to_owned(),
                label: None,
                self_reported: Some("Your bank".to_owned()),
            },
            tool: "t".to_owned(),
            key: "k".to_owned(),
            message: "Pay\u{1b}[2J \u{202e}001\u{202c}?\nReally?\u{7}".to_owned(),
            schema: FormSchema::parse(&schema).unwrap(),
            requested_schema: schema,
        };
        assert_eq!(question.plain_message(), "Pay[2J 001?\nReally?");
        assert_eq!(question.server.to_string(), "https://a.example/mcp");
    }
}
