//! Everything that can go wrong, by what the host can do about it.
//!
//! [`RequestError`] is about one request and its response. [`CallError`] is about a call of several rounds; where the call can go on,
//! it hands back the [`PendingCall`]. No error prints a state, a token, an argument or an answer.

use std::time::Duration;

use http::StatusCode;
use mrtr_protocol::form::FormSchemaError;
use mrtr_protocol::jsonrpc::EnvelopeError;
use mrtr_protocol::mrtr::{QuestionError, ResultTypeError, RoundError};
use mrtr_protocol::sampling::ConversationError;
use mrtr_protocol::strict::Violation;
use mrtr_protocol::{ErrorObject, Kind, KnownError};

use crate::credentials::CredentialsError;
use crate::era::Era;
use crate::handler::Refusal;
use crate::page::UrlProblem;
use crate::pending::{PendingCall, Repeat};
use crate::transport::TransportError;

/// Why one request has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// Nothing was sent. Repeating is safe.
    #[error("nothing was sent: {0}; check the address and the network, then repeat")]
    NotSent(#[source] TransportError),
    /// There are no credentials for the request: it was not sent, or the server refused it and did nothing with it. Repeating is safe.
    #[error("no credentials: {0}")]
    Credentials(#[from] CredentialsError),
    /// The request was on its way when the connection broke.
    #[error("{0}")]
    Interrupted(#[source] TransportError),
    /// No whole answer in time.
    #[error("no whole answer came within {after:?}; a slow tool needs a longer `request_timeout`")]
    TimedOut {
        /// The timeout.
        after: Duration,
    },
    /// The stream ended and the answer was not on it.
    #[error("the server's stream ended without an answer")]
    NoResponse,
    /// The answer, or one event of a stream, is larger than the limit.
    #[error(
        "the answer is larger than {limit} bytes; raise `max_response_bytes` if the server may send that much"
    )]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// A status without a JSON-RPC answer. Redirects are among them: they are never followed.
    #[error("HTTP status {status} without a JSON-RPC answer{}", advice(*status))]
    Http {
        /// The status.
        status: StatusCode,
    },
    /// The server answered with an error.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The server's answer is not one that the specification allows.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The request cannot be written.
    #[error("the request cannot be written: {0}")]
    Unwritable(String),
    /// No session could be opened, so nothing of the request itself was sent. The earlier era only.
    #[error("no session could be opened: {0}")]
    Handshake(#[source] Box<RequestError>),
    /// The server does not know the session any more, and did not look at the request. The next request opens another session. The earlier
    /// era only.
    #[error(
        "the server does not know the session any more and refused the request; the next one opens a new session"
    )]
    SessionLost,
    /// The request answers a round of the modern era, and the server speaks the earlier one (by now). Nothing was sent.
    #[error("the request answers a round of the modern era, and the server speaks the earlier one")]
    StateOfTheModernEra,
    /// The server speaks an era that has no such request. Nothing was sent.
    #[error("{method} does not exist in revision {era}, which the server speaks")]
    NotInThisEra {
        /// The method.
        method: &'static str,
        /// The era.
        era: Era,
    },
}

/// What to do about a status.
fn advice(status: StatusCode) -> &'static str {
    match status.as_u16() {
        300..=399 => {
            "; redirects are not followed, because the request holds a token and a state: configure the address it points to"
        }
        401 => "; the bearer token is missing, wrong or expired",
        403 => "; the server does not allow this caller, or this Origin or Host",
        404 | 405 => "; this is not an MCP endpoint: check the path",
        413 => "; the request is too large for the server",
        429 => "; too many requests: wait before the next",
        _ => "",
    }
}

/// A JSON-RPC error from the server. Its text names the HTTP status too, unless that is a success, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error(
    "the server answered with {}error {}: {}{}{}",
    http_prefix(*status),
    error.code,
    error.message,
    known_advice(error),
    http_advice(*status)
)]
pub struct RpcError {
    /// The HTTP status that it came with; 200 over stdio, where there are none.
    pub status: StatusCode,
    /// The error.
    pub error: ErrorObject,
}

impl RpcError {
    /// What the error says, where its meaning is defined.
    #[must_use]
    pub fn known(&self) -> Option<KnownError> {
        self.error.known()
    }
}

fn http_prefix(status: StatusCode) -> String {
    if status.is_success() {
        String::new()
    } else {
        format!("HTTP status {status} and ")
    }
}

/// Advice on a status that came with a JSON-RPC error. Who sends one is an MCP endpoint, whose 404 is about a method and not about the path.
fn http_advice(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => "",
        _ => advice(status),
    }
}

fn known_advice(error: &ErrorObject) -> String {
    match error.known() {
        Some(KnownError::MissingCapability(data)) => {
            let kinds: Vec<_> = data
                .required_capabilities
                .kinds()
                .iter()
                .map(Kind::as_str)
                .collect();
            format!(" (register a handler for: {})", kinds.join(", "))
        }
        Some(KnownError::UnsupportedVersion(data)) => {
            format!(" (the server speaks {})", data.supported.join(", "))
        }
        Some(KnownError::HeaderMismatch) => {
            " (something between client and server changed a header)".to_owned()
        }
        Some(KnownError::OutcomeUnknown) => {
            " (find out whether the effect happened before calling again)".to_owned()
        }
        Some(KnownError::LedgerUnavailable) => {
            " (nothing was done; resume the same call later)".to_owned()
        }
        _ => String::new(),
    }
}

/// An answer that breaks the specification.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// Not a JSON-RPC response.
    #[error("the server's answer is not a JSON-RPC response: {0}")]
    Envelope(#[from] EnvelopeError),
    /// JSON that two readers may read differently.
    #[error("the server's answer is ambiguous: {0}")]
    Strict(#[from] Violation),
    /// Neither JSON nor an event stream.
    #[error("the server's answer is neither application/json nor text/event-stream")]
    ContentType,
    /// The response is to another request.
    #[error("the server's answer carries the id of another request")]
    OtherId,
    /// A `resultType` that this revision does not define.
    #[error("the server's result cannot be told: {0}")]
    ResultType(#[from] ResultTypeError),
    /// A round that is none, a state that is no string among them. Nothing of it is ever sent back.
    #[error("the server's input_required result is malformed: {0}")]
    Round(#[from] RoundError),
    /// A round in answer to a method that may not have one.
    #[error("the server asked for input where the specification does not allow it")]
    RoundNotAllowed,
    /// A result that does not have the shape of its method's.
    #[error("the server's result does not have the shape of a `{method}` result")]
    Result {
        /// The method.
        method: &'static str,
    },
    /// A version that this side did not propose and does not speak. The earlier era only.
    #[error("the server speaks revision {offered:?}, which this client does not")]
    Revision {
        /// The version.
        offered: String,
    },
    /// A session id with other than visible ASCII characters, or more than 1024 of them. The earlier era only.
    #[error("the server's session id is none that a header can carry back")]
    SessionId,
    /// A subscription that begins with anything but its acknowledgement.
    #[error("the server did not acknowledge the subscription before anything else")]
    NotAcknowledged,
    /// A list whose pages repeat, or do not end.
    #[error("the server's list does not end")]
    EndlessPages,
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The arguments are no object, or one of a prompt's is no string. Nothing was sent.
    #[error(
        "the arguments cannot be sent: {0}; a tool takes an object, and a prompt an object of strings"
    )]
    Arguments(String),
    /// Nothing of this round was sent, or nothing but the opening of a session. Resuming is safe.
    #[error("nothing was sent: {source}; resume the call when the server can be reached")]
    NotSent {
        /// The call, with its answers.
        pending: Box<PendingCall>,
        /// Why.
        source: RequestError,
    },
    /// There are no credentials for this round: it was not sent, or the server refused it and did nothing with it. Resuming is safe.
    #[error("no credentials: {source}; resume the call when there are")]
    NoCredentials {
        /// The call, with its answers.
        pending: Box<PendingCall>,
        /// Why.
        source: CredentialsError,
    },
    /// The request was sent, or may have been, and its outcome is not known. Nothing was repeated.
    ///
    /// An answer that cannot be read or breaks the specification is among the causes, as [`RequestError::Protocol`]: what the call did is
    /// then the server's secret.
    #[error("whether the call took effect is not known: {source}. {}", pending.repeat())]
    OutcomeUnknown {
        /// The call as it was sent: resuming it sends the same again.
        pending: Box<PendingCall>,
        /// Why.
        source: RequestError,
    },
    /// The same retry is being worked on. Resume after the time that the server names; nothing happens twice.
    #[error("the server is still working on this call; resume it in {retry_after:?}")]
    InProgress {
        /// How long to wait.
        retry_after: Duration,
        /// The call as it was sent.
        pending: Box<PendingCall>,
    },
    /// The server answered with an error.
    #[error("{source}")]
    Rpc {
        /// The error.
        source: RpcError,
        /// The call as it was sent, for errors that pass: an expired token, a ledger that is away.
        pending: Box<PendingCall>,
    },
    /// A status below 500 without a JSON-RPC answer: the server refused the request as such.
    #[error("HTTP status {status} without a JSON-RPC answer{}", advice(*status))]
    Http {
        /// The status.
        status: StatusCode,
        /// The call as it was sent.
        pending: Box<PendingCall>,
    },
    /// The server wants another round with a state that is no string ([`RoundError::StateNotAString`]). Such a state is never sent back,
    /// and without it the round cannot be resumed.
    ///
    /// There is no call in this error: the request as it was sent is answered, and the state that it carried, if any, is used up. Begin
    /// anew, after finding out what happened.
    #[error("{0}; it is not sent back, and the call cannot go on")]
    Protocol(ProtocolError),
    /// This side stopped. Nothing was sent for the round that is open.
    #[error("the call was abandoned: {why}")]
    Abandoned {
        /// Why.
        why: Abandoned,
        /// The call with its open questions, for going on by hand.
        pending: Box<PendingCall>,
    },
    /// A handler accepted with content that does not fit the question. Nothing was sent.
    #[error("the answer to {key:?} was not sent: {problem}")]
    InvalidAnswer {
        /// The question's key.
        key: String,
        /// What is wrong.
        problem: AnswerError,
        /// The call with its open questions.
        pending: Box<PendingCall>,
    },
    /// A call was resumed by hand with a question open. Nothing was sent.
    #[error("the question {key:?} has no answer yet; answer it before resuming")]
    Unanswered {
        /// The question's key.
        key: String,
        /// The call.
        pending: Box<PendingCall>,
    },
    /// The server does not know the session any more, and did not look at the request. Resuming opens a new session, in which the call is a
    /// new one. The earlier era only.
    #[error(
        "the server does not know the session any more and refused the call; resume it to call again in a new session"
    )]
    SessionLost {
        /// The call as it was sent.
        pending: Box<PendingCall>,
    },
    /// A call was resumed at another server than it began at, or with a state at a server that speaks the earlier era now. Nothing was
    /// sent: the state is that server's.
    #[error("the call began at another server; resume it with a client for that one")]
    OtherServer {
        /// The call.
        pending: Box<PendingCall>,
    },
}

impl CallError {
    /// The call, where it can go on.
    #[must_use]
    pub fn pending(&self) -> Option<&PendingCall> {
        match self {
            Self::Arguments(_) | Self::Protocol(_) => None,
            Self::NotSent { pending, .. }
            | Self::NoCredentials { pending, .. }
            | Self::OutcomeUnknown { pending, .. }
            | Self::InProgress { pending, .. }
            | Self::Rpc { pending, .. }
            | Self::Http { pending, .. }
            | Self::Abandoned { pending, .. }
            | Self::InvalidAnswer { pending, .. }
            | Self::Unanswered { pending, .. }
            | Self::SessionLost { pending }
            | Self::OtherServer { pending } => Some(pending),
        }
    }

    /// The call, where it can go on.
    #[must_use]
    pub fn into_pending(self) -> Option<PendingCall> {
        match self {
            Self::Arguments(_) | Self::Protocol(_) => None,
            Self::NotSent { pending, .. }
            | Self::NoCredentials { pending, .. }
            | Self::OutcomeUnknown { pending, .. }
            | Self::InProgress { pending, .. }
            | Self::Rpc { pending, .. }
            | Self::Http { pending, .. }
            | Self::Abandoned { pending, .. }
            | Self::InvalidAnswer { pending, .. }
            | Self::Unanswered { pending, .. }
            | Self::SessionLost { pending }
            | Self::OtherServer { pending } => Some(*pending),
        }
    }

    /// Whether sending the same again may repeat effects; `None` where that is not the question.
    #[must_use]
    pub fn repeat(&self) -> Option<Repeat> {
        match self {
            Self::OutcomeUnknown { pending, .. } => Some(pending.repeat()),
            _ => None,
        }
    }
}

/// Why this side stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Abandoned {
    /// The server asked once more than the limit allows.
    #[error("too many rounds: the server still asks after {limit}")]
    TooManyRounds {
        /// The limit.
        limit: u32,
    },
    /// A round has more questions than the limit allows. None was asked.
    #[error(
        "too many questions: the server asks {asked} at once, and {limit} are allowed; raise `max_questions` if the server may ask so many"
    )]
    TooManyQuestions {
        /// How many there are.
        asked: usize,
        /// The limit.
        limit: usize,
    },
    /// The host would not answer.
    #[error("the host refused to answer {key:?}: {refusal}")]
    Refused {
        /// The question's key.
        key: String,
        /// Why.
        refusal: Refusal,
    },
    /// Nobody here handles questions of this kind. They were not declared either: the server may not have asked.
    #[error(
        "nobody handles the question {key:?} of kind {kind}, which this client did not declare"
    )]
    Unhandled {
        /// The question's key.
        key: String,
        /// Its kind.
        kind: Kind,
    },
    /// The server wants a page visited before it takes the call, and the person did not consent to it. The earlier era only.
    #[error("the page {key:?}, which the server wants visited first, was declined")]
    PageDeclined {
        /// The server's id for it.
        key: String,
    },
    /// The question cannot be put to anyone.
    #[error("the question {key:?} cannot be asked: {problem}")]
    Question {
        /// The question's key.
        key: String,
        /// Why.
        problem: QuestionProblem,
    },
}

/// Why a question cannot be put to anyone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionProblem {
    /// It is none that the specification allows.
    #[error(transparent)]
    Malformed(#[from] QuestionError),
    /// Its schema is not a flat form.
    #[error(transparent)]
    Form(#[from] FormSchemaError),
    /// Its URL is not one to be opened.
    #[error(transparent)]
    Url(#[from] UrlProblem),
    /// Its conversation is none that a model can go on with. Deprecated since 2026-07-28, as sampling is: a new server calls a model
    /// provider itself.
    #[error(transparent)]
    Conversation(#[from] ConversationError),
    /// Its schema cannot be used for checking: an unknown dialect, a reference, a pattern beyond the linear-time engine.
    #[error("its schema cannot be used to check an answer")]
    UnusableSchema,
}

/// Why an answer is not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// No question of this key is open.
    #[error("no question of this key is open")]
    NoSuchQuestion,
    /// The question cannot be answered so: it is of another kind, or none that can be put.
    #[error("the question cannot be answered so: {0}")]
    Question(#[from] QuestionProblem),
    /// A message that is not one to the question. Deprecated since 2026-07-28, as sampling is: a new server calls a model provider itself.
    #[error(transparent)]
    Message(#[from] mrtr_protocol::AnswerError),
    /// A message of another role than the assistant's. Deprecated since 2026-07-28, as sampling is: a new server calls a model provider
    /// itself.
    #[error("the answer to a sampling request is the assistant's message")]
    NotTheAssistant,
    /// The model wants a tool that the question does not offer, or any at all where it says `none`. Deprecated since 2026-07-28, as sampling
    /// is: a new server calls a model provider itself.
    #[error("the model wants the tool {name:?}, which the question does not offer")]
    ToolNotOffered {
        /// The tool.
        name: String,
    },
    /// The content of an accept is no object.
    #[error("the content of an accept must be an object")]
    NotAnObject,
    /// The content does not fit the question's schema.
    #[error("the content does not fit the schema: `{rule}` fails at {field:?}")]
    DoesNotFit {
        /// JSON pointer to the field; empty for the whole.
        field: String,
        /// The schema's keyword.
        rule: String,
    },
}
