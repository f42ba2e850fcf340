//! Who answers the questions: the host's handlers. Here are forms, and what all kinds share.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use mrtr_protocol::{FormSchema, JsonObject, Kind, KindSet};
use serde_json::Value;

use crate::page::UrlHandler;
use crate::roots::RootsHandler;
use crate::sampling::SamplingHandler;
use crate::target::Target;

/// What a handler answers with: an answer of its kind, or a refusal.
pub type HandlerFuture<'a, A = FormAnswer> =
    Pin<Box<dyn Future<Output = Result<A, Refusal>> + Send + 'a>>;

/// Puts forms to a person.
///
/// Any `async` closure over a [`FormQuestion`] is a handler. Registering one declares `elicitation.form` with every request.
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
    fn answer(&self, question: FormQuestion) -> HandlerFuture<'_, FormAnswer>;
}

impl<F, Fut> FormHandler for F
where
    F: Fn(FormQuestion) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<FormAnswer, Refusal>> + Send + 'static,
{
    fn answer(&self, question: FormQuestion) -> HandlerFuture<'_, FormAnswer> {
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
    /// Why, for whoever made the call.
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
    /// The call that waits for the answer. `None` when nothing says which one: a server of the earlier era may ask outside of a call's
    /// stream, and over stdio there is one stream for all.
    pub target: Option<Target>,
    /// The question's key in its round; in the earlier era the id of the server's request.
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
        plain(&self.message)
    }
}

/// Text without control characters but line breaks, and without characters that change its direction.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .filter(|&c| c == '\n' || !(c.is_control() || is_bidi(c)))
        .collect()
}

/// Marks, embeddings, overrides and isolates of bidirectional text.
pub(crate) fn is_bidi(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Who is asking, as far as this side knows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLabel {
    /// The endpoint that the host configured: a URL, or `stdio:` and the host's name for the server.
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

/// The handlers of a client.
#[derive(Clone, Default)]
pub(crate) struct Handlers {
    pub(crate) form: Option<Arc<dyn FormHandler>>,
    pub(crate) url: Option<Arc<dyn UrlHandler>>,
    pub(crate) sampling: Option<Arc<dyn SamplingHandler>>,
    /// Whether the sampling handler knows tools.
    pub(crate) sampling_tools: bool,
    pub(crate) roots: Option<Arc<dyn RootsHandler>>,
}

impl Handlers {
    /// The kinds that somebody handles: what the client declares.
    pub(crate) fn kinds(&self) -> KindSet {
        let handled = |kind: &Kind| match kind {
            Kind::Form => self.form.is_some(),
            Kind::Url => self.url.is_some(),
            Kind::Sampling => self.sampling.is_some(),
            Kind::SamplingWithTools => self.sampling.is_some() && self.sampling_tools,
            Kind::Roots => self.roots.is_some(),
            _ => false,
        };
        Kind::ALL.into_iter().filter(handled).collect()
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
    fn case_178_plain_messages_hold_no_controls() {
        let schema = JsonObject::parse(r#"{"type":"object","properties":{}}"#).unwrap();
        let question = FormQuestion {
            server: ServerLabel {
                url: "https://a.example/mcp".to_owned(),
                label: None,
                self_reported: Some("Your bank".to_owned()),
            },
            target: Some(Target::Tool("t".to_owned())),
            key: "k".to_owned(),
            message: "Pay\u{1b}[2J \u{202e}001\u{202c}?\nReally?\u{7}".to_owned(),
            schema: FormSchema::parse(&schema).unwrap(),
            requested_schema: schema,
        };
        assert_eq!(question.plain_message(), "Pay[2J 001?\nReally?");
        assert_eq!(question.server.to_string(), "https://a.example/mcp");
    }
}
