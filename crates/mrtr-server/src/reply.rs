//! Where everything that can become of a request becomes JSON-RPC: the one place that knows codes, words and statuses.
//!
//! Texts have two readers. Errors of a *request* are for the client's author and say what to send instead; results with
//! `isError` are for the *model* and say what to do next. Neither ever carries a state, a key, an argument or a cause.

use std::time::Duration;

use http::StatusCode;
use mrtr_protocol::{CallToolResult, ErrorObject, InputRequests, Kind, KindSet, code};
use mrtr_state::{Consequence, Reason};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::error::ToolError;
use crate::flow::end::End;
use crate::flow::journal::MalformedAnswer;

/// A request's answer before it is put into its envelope: `result` or `error`, and the HTTP status it travels with.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) outcome: Result<Box<RawValue>, ErrorObject>,
    /// A result that asks for more input, as opposed to a final one.
    pub(crate) asks: bool,
}

/// Whether the call had claimed its state when it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spent {
    Yes,
    No,
}

impl Spent {
    /// Appended where a caller might otherwise send the same state again.
    fn note(self) -> &'static str {
        match self {
            Spent::Yes => " The requestState is spent: start the request again without it.",
            Spent::No => "",
        }
    }
}

impl Reply {
    pub(crate) fn result(result: &impl Serialize) -> Self {
        match to_raw_value(result) {
            Ok(raw) => Self {
                status: StatusCode::OK,
                outcome: Ok(raw),
                asks: false,
            },
            Err(error) => {
                tracing::error!(%error, "a result does not serialize");
                Self::internal("The result could not be written as JSON.")
            }
        }
    }

    pub(crate) fn asking(result: &impl Serialize) -> Self {
        Self {
            asks: true,
            ..Self::result(result)
        }
    }

    pub(crate) fn error(status: StatusCode, error: ErrorObject) -> Self {
        Self {
            status,
            outcome: Err(error),
            asks: false,
        }
    }

    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self::error(
            StatusCode::OK,
            ErrorObject::new(code::INVALID_PARAMS, message),
        )
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::error(
            StatusCode::OK,
            ErrorObject::new(code::INTERNAL_ERROR, message),
        )
    }

    /// A result that tells the model that the call failed, and what helps.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::result(&CallToolResult::error(text))
    }

    pub(crate) fn tool_error(tool: &str, error: &ToolError) -> Self {
        error.log(tool);
        Self::failed(error.public())
    }

    /// A requestState that does not hold.
    pub(crate) fn rejected(reason: Reason, consequence: Consequence, opaque: bool) -> Self {
        tracing::info!(reason = reason.as_str(), "rejected a requestState");
        if opaque {
            return Self::invalid_params(
                "Invalid requestState. Start the request again without it.",
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
        let message = format!(
            "The outcome is unknown: {what}. It may have taken effect, and it will not be run again. Check before starting the request again."
        );
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

    pub(crate) fn undeclared(kind: Kind, spent: Spent) -> Self {
        let message = format!(
            "This request needs a client that declares {}.{}",
            capability_in_words(kind),
            spent.note()
        );
        let required = KindSet::from(kind).to_capabilities();
        Self::error(
            StatusCode::BAD_REQUEST,
            ErrorObject::missing_capability(message, required),
        )
    }

    pub(crate) fn panicked(spent: Spent) -> Self {
        Self::internal(format!(
            "The tool failed unexpectedly; the server's log has more.{}",
            spent.note()
        ))
    }

    /// What the framework could not deliver.
    pub(crate) fn ended(tool: &str, end: &End, spent: Spent, opaque: bool) -> Self {
        let fault = |what: String| {
            tracing::error!(tool, "{what}");
            Self::internal(format!("{what}.{}", spent.note()))
        };
        match end {
            End::Undeclared(kind) => Self::undeclared(*kind, spent),
            End::UsedTwice(name) => fault(format!(
                "Tool {tool:?} used {name} twice in one run; number the keys of a loop"
            )),
            End::OutsideItsBody(name) => fault(format!(
                "Tool {tool:?} used {name} outside its own body; a `Flow` must not move to another task"
            )),
            End::Unaskable { key, error } => {
                tracing::error!(tool, key, %error, "a question cannot be put");
                Self::internal(format!(
                    "Tool {tool:?} has a question that cannot be put.{}",
                    spent.note()
                ))
            }
            End::Value { name, error } => {
                tracing::error!(tool, %name, %error, "a kept value does not fit its type");
                Self::internal(format!(
                    "Tool {tool:?} keeps a value in {name} that does not fit its type.{}",
                    spent.note()
                ))
            }
            End::StepInProgress { retry_after } => Self::in_progress(*retry_after),
            End::StepUnknown { step } => {
                Self::unknown(&format!("nobody knows what came of step {step:?}"))
            }
            End::StepLost { step, why } => {
                tracing::error!(tool, step, why, "a step's value cannot be kept");
                Self::internal(format!(
                    "Step {step:?} of tool {tool:?} took effect, but its value could not be kept. Do not start the request again before checking."
                ))
            }
            End::RoundWithdrawn => Self::unknown("this run took too long and was given up"),
            End::FlowExpired => Self::rejected(Reason::Expired, Consequence::WithLedger, opaque),
            End::StaleEpoch => Self::rejected(Reason::StaleEpoch, Consequence::WithLedger, opaque),
            End::LedgerUnavailable => Self::unavailable(
                "The replay ledger did not answer or has no room, so the next step was not taken.",
            ),
            End::Cancelled { steps_done } if steps_done.is_empty() => Self::failed(
                "The call was cancelled when its connection closed. None of its steps was taken.",
            ),
            End::Cancelled { steps_done } => Self::failed(format!(
                "The call was cancelled when its connection closed. Steps that were taken: {}. Nothing after them was.",
                steps_done.join(", ")
            )),
        }
    }

    /// 1001 to 1003 say that nothing is known yet; they are never kept.
    fn is_final(&self) -> bool {
        !matches!(&self.outcome, Err(error)
            if [code::IN_PROGRESS, code::OUTCOME_UNKNOWN, code::LEDGER_UNAVAILABLE].contains(&error.code))
    }

    /// What the ledger keeps of this reply; `None` when it must not be kept.
    pub(crate) fn to_stored(&self, largest: usize) -> Option<Vec<u8>> {
        if !self.is_final() {
            return None;
        }
        let stored = match &self.outcome {
            Ok(result) if !self.asks && result.get().len() > largest => {
                let text = "This call was completed, and its result is too large to repeat. Do not start it again for the result alone.";
                Stored {
                    result: to_raw_value(&CallToolResult::text(text)).ok(),
                    error: None,
                    status: None,
                }
            }
            Ok(result) => Stored {
                result: Some(result.clone()),
                error: None,
                status: None,
            },
            Err(error) => Stored {
                result: None,
                error: Some(error.clone()),
                status: Some(self.status.as_u16()),
            },
        };
        serde_json::to_vec(&stored).ok()
    }

    /// The reply that was kept, flagged as replayed. `None` when it cannot be read.
    ///
    /// A kept question is checked against what *this* request's client declared.
    pub(crate) fn from_stored(stored: &[u8], declared: KindSet) -> Option<Self> {
        let stored: Stored = serde_json::from_slice(stored).ok()?;
        if let Some(error) = stored.error {
            let status = stored
                .status
                .and_then(|status| StatusCode::from_u16(status).ok())?;
            return Some(Self::error(status, error));
        }
        let mut result: serde_json::Value = serde_json::from_str(stored.result?.get()).ok()?;
        let asks = result
            .get("resultType")
            .is_some_and(|kind| kind == "input_required");
        if asks {
            let requests = result
                .get("inputRequests")
                .cloned()
                .unwrap_or_else(|| json!({}));
            let requests: InputRequests = serde_json::from_value(requests).ok()?;
            let missing = requests.kinds().ok()?.minus(declared);
            if let Some(kind) = missing.iter().next() {
                return Some(Self::undeclared(kind, Spent::Yes));
            }
        }
        let meta = result
            .as_object_mut()?
            .entry("_meta")
            .or_insert_with(|| json!({}));
        meta.as_object_mut()?
            .insert("mrtr/replayed".into(), true.into());
        let reply = Self::result(&result);
        Some(Self { asks, ..reply })
    }
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

/// The `result` or `error` member of a response, never its id or envelope.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject>,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
}
