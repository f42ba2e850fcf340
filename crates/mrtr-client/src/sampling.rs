//! A question for the host's model (*Sampling*). Deprecated since 2026-07-28: a new server calls a model provider itself.
//!
//! Hosts that have it go on to serve servers that need it.

use mrtr_protocol::sampling::ToolChoiceMode;
use mrtr_protocol::{
    CreateMessageParams, CreateMessageResult, InputAnswer, InputRequest, Kind, Role,
};
use serde_json::value::{RawValue, to_raw_value};

use crate::error::{AnswerError, QuestionProblem};
use crate::handler::{HandlerFuture, Refusal, ServerLabel};
use crate::target::Target;

/// Puts questions to a model. Deprecated since 2026-07-28: a new server calls a model provider itself.
///
/// Any `async` closure over a [`SamplingQuestion`] is a handler. Registering one declares `sampling` with every request; `sampling.tools`
/// only with [`ClientBuilder::with_sampling_tools`](crate::ClientBuilder::with_sampling_tools).
///
/// # Contract
///
/// * Let a person see, change and refuse what is asked, and see what the model said before it is sent (*Sampling, User Interaction Model*).
/// * Never generate more than `max_tokens`. Everything else is the server's wish, a system prompt and context included.
/// * A person or policy that says no is a [`Refusal`]: there is no answer that says so, and the call is abandoned.
/// * Count what servers ask: it is your model that they use.
pub trait SamplingHandler: Send + Sync + 'static {
    /// Answers one question. No timeout of the client runs meanwhile. Deprecated since 2026-07-28: a new server calls a model provider
    /// itself.
    fn answer(&self, question: SamplingQuestion) -> HandlerFuture<'_, CreateMessageResult>;
}

impl<F, Fut> SamplingHandler for F
where
    F: Fn(SamplingQuestion) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<CreateMessageResult, Refusal>> + Send + 'static,
{
    fn answer(&self, question: SamplingQuestion) -> HandlerFuture<'_, CreateMessageResult> {
        Box::pin(self(question))
    }
}

/// One question for a model. Deprecated since 2026-07-28: a new server calls a model provider itself.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SamplingQuestion {
    /// Who is asking. Show it.
    pub server: ServerLabel,
    /// The call that waits for the answer. `None` when nothing says which one: a server of the earlier era may ask outside of a call's
    /// stream, and over stdio there is one stream for all.
    pub target: Option<Target>,
    /// The question's key in its round; in the earlier era the id of the server's request.
    pub key: String,
    /// What is asked. Untrusted: it goes to a model that may have more to say than this server should hear.
    pub params: CreateMessageParams,
}

/// A sampling question, read and checked.
#[derive(Debug)]
pub(crate) struct CheckedSampling {
    pub(crate) params: CreateMessageParams,
    kind: Kind,
}

impl CheckedSampling {
    pub(crate) fn read(request: &InputRequest) -> Result<Self, QuestionProblem> {
        let params = request.as_sampling()?;
        params.check()?;
        Ok(Self {
            params,
            kind: request.kind()?,
        })
    }

    /// The answer as it goes onto the wire, if it is one to this question.
    pub(crate) fn check(&self, answer: &CreateMessageResult) -> Result<Box<RawValue>, AnswerError> {
        if answer.role != Role::Assistant {
            return Err(AnswerError::NotTheAssistant);
        }
        let raw = to_raw_value(answer).map_err(|_| AnswerError::NotAnObject)?;
        // The strictest reader there is; what it refuses, a server of this project would refuse too.
        InputAnswer::parse(&raw, self.kind)?;
        let choice = self.params.tool_choice.unwrap_or_default().mode;
        for tool_use in answer.tool_uses() {
            let offered = self.params.tools.iter().flatten();
            let known = offered.clone().any(|tool| tool.name == tool_use.name);
            if !known || choice == Some(ToolChoiceMode::None) {
                return Err(AnswerError::ToolNotOffered {
                    name: tool_use.name.clone(),
                });
            }
        }
        Ok(raw)
    }
}
