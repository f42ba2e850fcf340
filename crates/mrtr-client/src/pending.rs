//! A call between two rounds: the loop by hand, now or hours later.

use std::fmt;

use mrtr_protocol::{InputRequests, InputRequiredResult, JsonObject, RawObject};
use serde::{Deserialize, Serialize};

use crate::answer::CheckedForm;
use crate::error::AnswerError;
use crate::handler::FormAnswer;

/// A tool call that has no result yet.
///
/// It comes from [`Client::begin`](crate::Client::begin) and from errors that leave a call open. Look at [`PendingCall::requests`], give
/// each an answer with [`PendingCall::answer`], and hand it to [`Client::resume`](crate::Client::resume); or hand it to
/// [`Client::finish`](crate::Client::finish), which asks the client's handlers.
///
/// It serializes, so that it can be stored and resumed by another process. **What is stored is a secret**: it holds the state, which to
/// some servers is all that a caller needs, the arguments, and the answers. Debug prints none of them.
///
/// Not guaranteed: that the server still takes the state. States expire; servers say how long they keep them.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PendingCall {
    /// Version of this form.
    format: Format,
    pub(crate) endpoint: String,
    pub(crate) tool: String,
    pub(crate) arguments: Option<JsonObject>,
    /// How many rounds the server has asked for so far.
    pub(crate) round: u32,
    /// How many rounds in a row had a state and no questions.
    pub(crate) state_only: u32,
    pub(crate) requests: InputRequests,
    pub(crate) answers: RawObject,
    /// The exact string of the last round; none when that round had none.
    pub(crate) state: Option<String>,
    /// What the server called itself in the last round.
    pub(crate) self_reported: Option<String>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum Format {
    #[serde(rename = "mrtr-pending-1")]
    One,
}

/// What sending the same request again may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Repeat {
    /// It carries a state: a server with a replay ledger does nothing twice and answers with the stored result. A server without one may.
    SafeWithLedger,
    /// It carries no state, so the server cannot tell it from a new call: its effects may be repeated.
    MayRepeatEffects,
}

impl fmt::Display for Repeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SafeWithLedger => "Resuming it is safe against a server with a replay ledger, which gives the stored result again",
            Self::MayRepeatEffects => "Resuming it may repeat its effects: find out what happened first",
        })
    }
}

impl PendingCall {
    pub(crate) fn first(endpoint: &str, tool: &str, arguments: Option<JsonObject>) -> Self {
        Self {
            format: Format::One,
            endpoint: endpoint.to_owned(),
            tool: tool.to_owned(),
            arguments,
            round: 0,
            state_only: 0,
            requests: InputRequests::new(),
            answers: RawObject::new(),
            state: None,
            self_reported: None,
        }
    }

    /// The same call in its next round. Nothing of the last round stays: neither its state nor its answers.
    pub(crate) fn next(self, round: InputRequiredResult) -> Self {
        let (requests, state, meta) = round.into_parts();
        Self {
            round: self.round.saturating_add(1),
            state_only: if requests.is_empty() {
                self.state_only.saturating_add(1)
            } else {
                0
            },
            requests,
            answers: RawObject::new(),
            state,
            self_reported: meta
                .server_info()
                .map(|info| info.title.unwrap_or(info.name)),
            ..self
        }
    }

    /// The tool that was called.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// How many rounds the server has asked for so far; 0 for a call whose first request has no answer.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.round
    }

    /// The questions of this round, in the server's order. Empty in a round that only carries a state: wait a little, then resume.
    #[must_use]
    pub fn requests(&self) -> &InputRequests {
        &self.requests
    }

    /// The keys that have no answer yet.
    pub fn unanswered(&self) -> impl Iterator<Item = &str> {
        self.requests
            .iter()
            .map(|(key, _)| key)
            .filter(|key| self.answers.get(key).is_none())
    }

    /// Whether the server sent a state to come back with.
    #[must_use]
    pub fn has_state(&self) -> bool {
        self.state.is_some()
    }

    /// What sending this request again may do.
    #[must_use]
    pub fn repeat(&self) -> Repeat {
        if self.has_state() {
            Repeat::SafeWithLedger
        } else {
            Repeat::MayRepeatEffects
        }
    }

    /// Answers a form. A second answer to the same key replaces the first, until the call is resumed.
    ///
    /// # Errors
    ///
    /// [`AnswerError`] when no such question is open, it is no form, or the content does not fit its schema. The call stays as it was.
    pub fn answer(&mut self, key: &str, answer: &FormAnswer) -> Result<(), AnswerError> {
        let request = self.requests.get(key).ok_or(AnswerError::NoSuchQuestion)?;
        let raw = CheckedForm::read(request)?.check(answer)?;
        self.answers.insert_raw(key, raw);
        Ok(())
    }
}

impl fmt::Debug for PendingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall")
            .field("tool", &self.tool)
            .field("round", &self.round)
            .field(
                "questions",
                &self.requests.iter().map(|(key, _)| key).collect::<Vec<_>>(),
            )
            .field("unanswered", &self.unanswered().count())
            .field("state_len", &self.state.as_ref().map(String::len))
            .finish_non_exhaustive()
    }
}
