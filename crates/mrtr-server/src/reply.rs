//! Where everything that can become of a request becomes JSON-RPC: the one place that knows codes, words and statuses.
//!
//! Texts have two readers. Errors of a *request* are for the client's author and say what to send instead; results with
//! `isError` are for the *model* and say what to do next. Neither ever carries a state, a key, an argument or a cause.
//!
//! A third thing decides what may be advised: whether starting again could repeat an effect. That is [`Standing`].

mod stored;

use std::time::Duration;

use http::StatusCode;
use mrtr_protocol::jsonrpc::{write_error, write_result};
use mrtr_protocol::{
    CallToolResult, ErrorObject, Implementation, Kind, KindSet, RawObject, RequestId, code,
    earlier, meta,
};
use mrtr_state::{Consequence, Reason};
use serde::Serialize;
use serde_json::Map;
use serde_json::value::{RawValue, to_raw_value};

pub(crate) use self::stored::Repeated;
use crate::error::ToolError;
use crate::flow::end::End;
use crate::flow::journal::MalformedAnswer;
use crate::metrics;
use crate::registered::{Content, Registered, Surface};

/// A request's answer before it is put into its envelope: `result` or `error`, and the HTTP status it travels with.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) outcome: Result<Box<RawValue>, ErrorObject>,
    kind: Answer,
    /// Whether its words are the handler's, and not the framework's in their place.
    authored: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// A final result, or an error.
    Final,
    /// That there is no such resource.
    NoResource,
    /// A final result that says that the call failed.
    Failed,
    /// A result that asks for more input.
    Asking,
    /// An error that ends this run and not the call: the same retry runs again.
    CutOff,
}

/// Where a call stands when it ends without its body's result.
#[derive(Debug, Clone)]
pub(crate) enum Standing {
    /// Nothing of it is recorded: no ledger, or nothing has run.
    Unrecorded,
    /// A first call that records its steps. There is no state that could be sent again.
    Opening {
        /// Steps that took effect or may have.
        taken: Vec<String>,
    },
    /// A retry whose round is claimed: its state is spent.
    Round {
        /// Steps that took effect or may have, in this run or before.
        taken: Vec<String>,
        /// The same retry may take the round over, once this run has given it up.
        run_again: bool,
    },
}

impl Standing {
    /// What to add to an error, so that nobody repeats an effect unawares.
    fn note(&self) -> String {
        match self {
            Self::Unrecorded => String::new(),
            Self::Opening { taken } if taken.is_empty() => String::new(),
            Self::Opening { taken } => format!(
                " Steps that were taken: {}. Check them before the request is sent again: that would take them again.",
                taken.join(", ")
            ),
            Self::Round { taken, .. } if taken.is_empty() => {
                " The requestState is spent. Check what the tool has done before the request is started again without it."
                    .into()
            }
            Self::Round { taken, .. } => format!(
                " The requestState is spent. Steps that were taken: {}. Check them before the request is started again without it.",
                taken.join(", ")
            ),
        }
    }

    /// Whether the same request may be repeated without a second thought.
    pub(crate) fn may_repeat(&self) -> bool {
        match self {
            Self::Unrecorded => true,
            Self::Opening { taken } => taken.is_empty(),
            Self::Round { .. } => false,
        }
    }

    /// Whether the request carried a state, which can be told to be good or not.
    fn has_state(&self) -> bool {
        matches!(self, Self::Round { .. })
    }

    /// Whether the same retry may be repeated, because this run gives its round up and the next one goes on where it was cut off.
    fn runs_again(&self) -> bool {
        matches!(
            self,
            Self::Round {
                run_again: true,
                ..
            }
        )
    }
}

impl Reply {
    fn of(kind: Answer, result: &impl Serialize) -> Self {
        match to_raw_value(result) {
            Ok(raw) => Self {
                status: StatusCode::OK,
                outcome: Ok(raw),
                kind,
                authored: false,
            },
            Err(error) => {
                tracing::error!(%error, "a result does not serialize");
                Self::internal("The result could not be written as JSON.")
            }
        }
    }

    pub(crate) fn result(result: &impl Serialize) -> Self {
        Self::of(Answer::Final, result)
    }

    /// What a handler came to.
    pub(crate) fn content(content: Content, info: &Implementation) -> Self {
        Self {
            authored: true,
            ..Self::unmarked(content, info)
        }
    }

    fn unmarked(content: Content, info: &Implementation) -> Self {
        match content {
            Content::Tool(mut result) => {
                result.meta = result.meta.with_server_info(info);
                let kind = if result.is_error {
                    Answer::Failed
                } else {
                    Answer::Final
                };
                Self::of(kind, &result)
            }
            Content::Prompt(mut result) => {
                result.meta = result.meta.with_server_info(info);
                Self::result(&result)
            }
            Content::Resource(mut result) => {
                result.meta = result.meta.with_server_info(info);
                Self::result(&result)
            }
        }
    }

    /// Nothing of this name or URI.
    pub(crate) fn nothing_there(surface: Surface, target: &str) -> Self {
        match surface {
            Surface::Resource => Self {
                kind: Answer::NoResource,
                ..Self::error(StatusCode::OK, ErrorObject::resource_not_found(target))
            },
            surface => Self::invalid_params(format!("Unknown {surface}: {target}")),
        }
    }

    /// Arguments that fail the schema: a tool's are the model's to mend, a prompt's the client's.
    pub(crate) fn invalid_arguments(surface: Surface, text: String) -> Self {
        match surface {
            Surface::Tool => Self::failed(surface, text),
            Surface::Prompt | Surface::Resource => Self::invalid_params(text),
        }
    }

    pub(crate) fn asking(result: &impl Serialize) -> Self {
        Self::of(Answer::Asking, result)
    }

    pub(crate) fn error(status: StatusCode, error: ErrorObject) -> Self {
        Self {
            status,
            outcome: Err(error),
            kind: Answer::Final,
            authored: false,
        }
    }

    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self::error(
            StatusCode::OK,
            ErrorObject::new(code::INVALID_PARAMS, message),
        )
    }

    pub(crate) fn invalid_request(message: impl Into<String>) -> Self {
        Self::error(
            StatusCode::OK,
            ErrorObject::new(code::INVALID_REQUEST, message),
        )
    }

    /// The reply as the response to the request of this id.
    pub(crate) fn into_message(self, id: &RequestId) -> Vec<u8> {
        match self.outcome {
            Ok(result) => write_result(id, result.get()),
            Err(error) => write_error(Some(id), &error),
        }
    }

    /// A result that is written already.
    pub(crate) fn raw(result: Box<RawValue>) -> Self {
        Self {
            status: StatusCode::OK,
            outcome: Ok(result),
            kind: Answer::Final,
            authored: false,
        }
    }

    /// An empty result, as the earlier era has it for `ping` and the like.
    pub(crate) fn nothing() -> Self {
        Self::result(&Map::new())
    }

    /// The reply as the earlier era writes it: without what that era does not know, and with its codes.
    pub(crate) fn in_earlier_era(mut self) -> Self {
        self.outcome = match self.outcome {
            Ok(result) => match earlier_result(&result) {
                Some(result) => Ok(result),
                None => {
                    tracing::error!("a result is not one that the earlier era can have");
                    return Self::internal("The result could not be written for this revision.");
                }
            },
            Err(mut error) => {
                if self.kind == Answer::NoResource {
                    error.code = code::RESOURCE_NOT_FOUND_EARLIER;
                }
                Err(error)
            }
        };
        self
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::error(
            StatusCode::OK,
            ErrorObject::new(code::INTERNAL_ERROR, message),
        )
    }

    /// That the request failed, and what helps: a result for the model where there is one for that, an error elsewhere.
    pub(crate) fn failed(surface: Surface, text: impl Into<String>) -> Self {
        match surface {
            Surface::Tool => Self::of(Answer::Failed, &CallToolResult::error(text)),
            Surface::Prompt | Surface::Resource => Self::internal(text),
        }
    }

    /// A result that is not what the tool promises: a fault of ours. Whatever it did is done.
    pub(crate) fn unfit(standing: &Standing) -> Self {
        Self::internal(format!(
            "The tool has run, and its result is not what its output schema promises; it was not sent.{}",
            standing.note()
        ))
    }

    pub(crate) fn handler_error(handler: &Registered, error: ToolError) -> Self {
        let error = error.logged(&handler.name);
        let reply = match error.said() {
            Some(text) => Self::failed(handler.surface, text),
            None => Self::failed(handler.surface, format!("The {} failed.", handler.surface)),
        };
        Self {
            authored: true,
            ..reply
        }
    }

    /// A requestState that does not hold.
    pub(crate) fn rejected(reason: Reason, consequence: Consequence, opaque: bool) -> Self {
        tracing::info!(reason = reason.as_str(), "rejected a requestState");
        metrics::rejected(reason.as_str());
        if opaque {
            return Self::invalid_params(
                "Invalid requestState. Check what the request has done before it is started again without it.",
            );
        }
        let message = format!(
            "Invalid requestState: {}. {}",
            reason.in_words(),
            reason.advice(consequence)
        );
        Self::error(
            StatusCode::OK,
            ErrorObject::state_rejection(message, reason.as_str()),
        )
    }

    /// The rejection, and which steps were taken before it; an opaque one stays as it is.
    fn noting(mut self, note: &str) -> Self {
        if let Err(error) = &mut self.outcome
            && error.data.is_some()
        {
            error.message.push_str(note);
        }
        self
    }

    pub(crate) fn malformed_answer(malformed: &MalformedAnswer) -> Self {
        let MalformedAnswer { key, why } = malformed;
        Self::invalid_params(format!(
            "Malformed inputResponses: the answer to {key:?} does not have the shape of what was asked: {why}. Nothing was spent; send the same requestState with a well-formed answer."
        ))
    }

    pub(crate) fn in_progress(retry_after: Duration) -> Self {
        let millis = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX);
        let message = format!(
            "This retry is already in progress. Repeat it in {millis} ms to get its result."
        );
        Self::error(StatusCode::OK, ErrorObject::in_progress(message, millis))
    }

    pub(crate) fn unknown(what: &str) -> Self {
        Self::unknown_after(&format!(
            "{what}. It may have taken effect, and it will not be run again. Check before starting the request again."
        ))
    }

    /// The same, with what helps in the words of the caller.
    fn unknown_after(what: &str) -> Self {
        let message = format!("The outcome is unknown: {what}");
        Self::error(
            StatusCode::OK,
            ErrorObject::new(code::OUTCOME_UNKNOWN, message),
        )
    }

    pub(crate) fn unavailable(what: &str) -> Self {
        let message = format!("{what} Repeat the same request later.");
        Self::error(
            StatusCode::OK,
            ErrorObject::new(code::LEDGER_UNAVAILABLE, message),
        )
    }

    pub(crate) fn undeclared(kind: Kind, standing: &Standing) -> Self {
        let message = format!(
            "This request needs a client that declares {}.{}",
            capability_in_words(kind),
            standing.note()
        );
        Self::missing(kind, message)
    }

    /// The same where -32021 does not exist (specification, revision 2025-11-25).
    fn undeclared_in_earlier(handler: &Registered, kind: Kind, standing: &Standing) -> Self {
        let why = format!(
            "This request needs a client that declares {}.{}",
            capability_in_words(kind),
            standing.note()
        );
        Self::invalid_arguments(handler.surface, why)
    }

    fn missing(kind: Kind, message: String) -> Self {
        let required = KindSet::from(kind).to_capabilities();
        Self::error(
            StatusCode::BAD_REQUEST,
            ErrorObject::missing_capability(message, required),
        )
    }

    pub(crate) fn panicked(standing: &Standing) -> Self {
        if standing.runs_again() {
            let message = "The tool failed unexpectedly; the server's log has more. The same retry may be sent again: it goes on where this run was cut off, and no step is taken twice.";
            return Self {
                kind: Answer::CutOff,
                ..Self::internal(message)
            };
        }
        Self::internal(format!(
            "The tool failed unexpectedly; the server's log has more.{}",
            standing.note()
        ))
    }

    /// A handler that must stop asking, and why.
    pub(crate) fn stopped(handler: &Registered, why: &str, standing: &Standing) -> Self {
        let text = format!("The {} stopped: {why}.{}", handler.surface, standing.note());
        Self::failed(handler.surface, text)
    }

    pub(crate) fn asked_too_often(handler: &Registered, rounds: u32, standing: &Standing) -> Self {
        tracing::warn!(rounds, "a tool asked too often");
        let why = format!(
            "it has asked in {rounds} rounds, which is as many as this server permits, and wanted to ask again"
        );
        Self::stopped(handler, &why, standing)
    }

    pub(crate) fn open_too_long(handler: &Registered, standing: &Standing) -> Self {
        let why = "the call has been open for too long to ask again";
        Self::stopped(handler, why, standing)
    }

    /// A question that cannot be put.
    pub(crate) fn unaskable(handler: &Registered, why: &str, standing: &Standing) -> Self {
        let Registered { surface, name, .. } = handler;
        Self::internal(format!(
            "The {surface} {name:?} cannot ask: {why}.{}",
            standing.note()
        ))
    }

    /// What the framework could not deliver.
    pub(crate) fn ended(
        handler: &Registered,
        end: &End,
        standing: &Standing,
        opaque: bool,
        earlier: bool,
    ) -> Self {
        let note = standing.note();
        let who = format!("The {} {:?}", handler.surface, handler.name);
        let fault = |what: String| {
            tracing::error!("{who} {what}");
            Self::internal(format!("{who} {what}.{note}"))
        };
        match end {
            End::Undeclared(kind) if earlier => {
                Self::undeclared_in_earlier(handler, *kind, standing)
            }
            End::Undeclared(kind) => Self::undeclared(*kind, standing),
            End::AskedTooOften { rounds } => Self::asked_too_often(handler, *rounds, standing),
            End::OpenTooLong => Self::open_too_long(handler, standing),
            End::NotPut => Self::stopped(
                handler,
                "its question could not be sent to the client",
                standing,
            ),
            End::WindingUp => Self::stopped(
                handler,
                "the server is shutting down, and nobody can answer its question any more",
                standing,
            ),
            End::Unanswered => {
                Self::stopped(handler, "nobody answered its question in time", standing)
            }
            End::ClientFailed { key, code } => {
                tracing::warn!(key, code, "the client answered a question with an error");
                let why =
                    format!("the client could not answer the question {key:?} (error {code})");
                Self::stopped(handler, &why, standing)
            }
            End::BadAnswer { key, why } => {
                tracing::warn!(key, %why, "the client's answer cannot be read");
                let why =
                    format!("the client's answer to the question {key:?} cannot be read: {why}");
                Self::stopped(handler, &why, standing)
            }
            End::UsedTwice(name) => fault(format!(
                "used {name} twice in one run; number the keys of a loop"
            )),
            End::Nested(name) => fault(format!(
                "used {name} inside a `memo` or `once`; ask, keep and act one after another"
            )),
            End::OutsideItsBody(name) => fault(format!(
                "used {name} outside its own body; a `Flow` must not move to another task"
            )),
            End::Unaskable { key, error } => {
                tracing::error!(key, %error, "a question cannot be put");
                Self::unaskable(handler, "the server's log has the reason", standing)
            }
            End::NoVisits => Self::internal(format!(
                "{who} cannot ask: the record of visits did not answer.{note}"
            )),
            End::Value { name, error } => {
                // Its text may hold the value.
                tracing::error!(%name, kind = ?error.classify(), line = error.line(), column = error.column(), "a kept value does not fit its type");
                Self::internal(format!(
                    "{who} keeps a value in {name} that does not fit its type.{note}"
                ))
            }
            End::MemoTooLarge { name, bytes } => fault(format!(
                "keeps {bytes} bytes in {name}, which is more than is kept for a run after a crash"
            )),
            End::MemoUnknown { memo } => Self::unknown(&format!(
                "what an earlier run of this retry kept as memo {memo:?} cannot be read"
            )),
            End::StepLost { step, why } => {
                tracing::error!(step, why, "a step's outcome cannot be kept");
                Self::internal(format!(
                    "Step {step:?} took effect, but its outcome could not be kept.{note}"
                ))
            }
            End::StepInProgress { retry_after }
                if standing.may_repeat() || standing.runs_again() =>
            {
                Self::in_progress(*retry_after)
            }
            End::StepInProgress { .. } => {
                Self::unknown("another run of the same flow was inside the next step")
            }
            End::StepUnknown { step } => {
                Self::unknown(&format!("nobody knows what came of step {step:?}"))
            }
            End::StepTooLarge { step, bytes } => fault(format!(
                "comes to {bytes} bytes in step {step:?}, which is more than is kept, so that its effect was taken back"
            )),
            End::StepUnheard if standing.runs_again() => Self::unavailable(
                "The replay ledger has not said what came of a step; the same retry will be told.",
            ),
            End::StepUnheard => Self::unknown("the replay ledger has not said what came of a step"),
            // Nothing has taken the round's place yet: the same retry does.
            End::RoundWithdrawn if standing.runs_again() => Self::unavailable(
                "This run took too long and was given up, and the retry runs again.",
            ),
            End::RoundWithdrawn => Self::unknown("this run took too long and was given up"),
            End::LedgerUnavailable if standing.may_repeat() || standing.runs_again() => {
                Self::unavailable(
                    "The replay ledger did not answer or has no room, so the next step was not taken.",
                )
            }
            End::LedgerUnavailable => Self::unknown_after(&format!(
                "the replay ledger did not answer or has no room, so the next step was not taken, and the call will not be run again.{note}"
            )),
            End::NotKept if standing.may_repeat() => Self::unavailable(
                "The replay ledger did not answer or has no room for what the call must remember, so nothing could be asked.",
            ),
            End::NotKept => Self::unknown(&format!(
                "the replay ledger did not answer or has no room for what the call must remember, so nothing could be asked.{note} What was done before that question"
            )),
            End::StaleEpoch if standing.may_repeat() => {
                Self::unavailable("The replay ledger was reset just now; no step was taken.")
            }
            End::FlowExpired if !standing.has_state() => {
                Self::stopped(handler, "its time was over before the next step", standing)
            }
            End::StaleEpoch if !standing.has_state() => Self::stopped(
                handler,
                "the replay ledger was reset before the next step",
                standing,
            ),
            End::FlowExpired => {
                Self::rejected(Reason::Expired, Consequence::WithLedger, opaque).noting(&note)
            }
            End::StaleEpoch => {
                Self::rejected(Reason::StaleEpoch, Consequence::WithLedger, opaque).noting(&note)
            }
            End::Cancelled => Self::failed(
                handler.surface,
                format!(
                    "The call was cancelled when its connection closed; no further step was taken.{note}"
                ),
            ),
        }
    }

    /// Names the server in a result that does not yet (specification, `basic/index`, "Per-response protocol fields").
    pub(crate) fn naming(mut self, info: &Implementation) -> Self {
        if let (Ok(result), Answer::Failed) = (&self.outcome, self.kind)
            && let Some(named) = with_meta(result, |meta| match meta.get(meta::SERVER_INFO) {
                Some(_) => Ok(()),
                None => meta.insert(meta::SERVER_INFO, info),
            })
        {
            self.outcome = Ok(named);
        }
        self
    }
}

/// The result without what the earlier era does not know.
fn earlier_result(result: &RawValue) -> Option<Box<RawValue>> {
    let text = earlier::result(result.get()).ok()?;
    RawValue::from_string(text.into_owned()).ok()
}

/// A result with its `_meta` changed and everything else as it was.
fn with_meta(
    result: &RawValue,
    change: impl FnOnce(&mut RawObject) -> Result<(), serde_json::Error>,
) -> Option<Box<RawValue>> {
    let mut members: RawObject = serde_json::from_str(result.get()).ok()?;
    let mut meta: RawObject = members.get_as("_meta").unwrap_or_default();
    change(&mut meta).ok()?;
    members.insert("_meta", &meta).ok()?;
    to_raw_value(&members).ok()
}

fn capability_in_words(kind: Kind) -> &'static str {
    match kind {
        Kind::Form => "elicitation by form",
        Kind::Url => "elicitation by URL",
        Kind::Sampling => "sampling",
        Kind::SamplingWithTools => "sampling with tools",
        Kind::Roots => "roots",
        _ => "another capability",
    }
}
