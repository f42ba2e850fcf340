//! The journal: what a flow remembers between rounds.
//!
//! It travels through the client inside the sealed state, so its size is paid in both directions on every round:
//!
//! ```text
//! s  the flow's secret: keys the fingerprints of its steps
//! q  the open questions: [key, kind, digest of what was put]
//! a  the answers so far, each with the digest of the question that it answers
//! m  the memos
//! u  the handles of pages, by key
//! d  the state of a handler that asks by hand
//! ```
//!
//! With the HMAC codec all of it is readable by whoever carries it.

use std::collections::BTreeMap;

use mrtr_protocol::{AnswerError, ElicitAction, InputAnswer, InputResponses, Kind, Object};
use mrtr_state::{JsonDigest, RandomError, random};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::encoding::Base64;

/// Keys the fingerprints of a flow's steps.
pub(crate) type Secret = Base64<16>;

/// The digest of a question that was put, or that an answer belongs to.
pub(crate) type QuestionDigest = Base64<32>;

/// What a flow remembers. Always read with [`Journal::read`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Journal {
    #[serde(rename = "s")]
    pub(crate) secret: Secret,
    #[serde(rename = "q", default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) open: Vec<OpenQuestion>,
    #[serde(rename = "a", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) answers: BTreeMap<String, Given>,
    #[serde(rename = "m", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) memos: BTreeMap<String, Box<RawValue>>,
    #[serde(rename = "u", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) handles: BTreeMap<String, String>,
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<Box<RawValue>>,
    /// Answers that came without a state, to a handler that takes them. What they answer is known when the body asks.
    #[serde(skip)]
    unasked: BTreeMap<String, Box<RawValue>>,
}

/// A question that was put and waits for its answer: key, kind and digest.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OpenQuestion(
    pub(crate) String,
    #[serde(with = "kind_name")] pub(crate) Kind,
    pub(crate) QuestionDigest,
);

/// An answer that arrived, tied to the question that was put.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Given {
    #[serde(rename = "d")]
    pub(crate) question: QuestionDigest,
    #[serde(rename = "r")]
    pub(crate) action: Action,
}

/// What was answered. The content of a decline or a cancel is not kept, so that nobody can reach it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Action {
    #[serde(rename = "accept")]
    Accept(Box<RawValue>),
    #[serde(rename = "decline")]
    Decline,
    #[serde(rename = "cancel")]
    Cancel,
}

/// An answer whose shape is not that of the kind that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MalformedAnswer {
    pub(crate) key: String,
    pub(crate) why: AnswerError,
}

impl Journal {
    /// The journal of a flow that opens now.
    pub(crate) fn open() -> Result<Self, RandomError> {
        Ok(Self {
            secret: Base64(random()?),
            open: Vec::new(),
            answers: BTreeMap::new(),
            memos: BTreeMap::new(),
            handles: BTreeMap::new(),
            state: None,
            unasked: BTreeMap::new(),
        })
    }

    /// Reads the journal out of a verified state. `None`: sealed by us, but not a journal.
    pub(crate) fn read(data: &RawValue) -> Option<Self> {
        let Object(journal) = serde_json::from_str(data.get()).ok()?;
        Some(journal)
    }

    /// Checks the shape of every answer to an open question, by the kind that was asked, and enters them.
    ///
    /// Nothing is spent yet when this fails. Answers to keys that are not open, and answers that would overwrite an
    /// earlier one, are ignored.
    pub(crate) fn receive(
        &mut self,
        responses: &InputResponses<'_>,
    ) -> Result<(), MalformedAnswer> {
        for OpenQuestion(key, kind, digest) in std::mem::take(&mut self.open) {
            let Some(response) = responses.get(&key) else {
                continue;
            };
            let action = read_as(kind, response).map_err(|why| MalformedAnswer {
                key: key.clone(),
                why,
            })?;
            self.answers.entry(key).or_insert(Given {
                question: digest,
                action,
            });
        }
        Ok(())
    }

    /// Keeps answers to questions that no state says were put, for [`enter_unasked`](Self::enter_unasked).
    pub(crate) fn take_unasked(&mut self, responses: &InputResponses<'_>) {
        self.unasked = responses
            .iter()
            .map(|(key, response)| (key.to_owned(), response.to_owned()))
            .collect();
    }

    /// Enters the answer that came for `key` without a state, as one to what is asked now. One whose shape is not that of
    /// `kind` is dropped, so that the question is put.
    pub(crate) fn enter_unasked(&mut self, key: &str, kind: Kind, question: QuestionDigest) {
        let Some(response) = self.unasked.remove(key) else {
            return;
        };
        match read_as(kind, &response) {
            Ok(action) => {
                self.answers
                    .entry(key.to_owned())
                    .or_insert(Given { question, action });
            }
            Err(why) => {
                tracing::info!(%why, "an answer without a state does not have the shape of what is asked")
            }
        }
    }

    /// Whether the person declined exactly this question, under whatever key.
    pub(crate) fn was_declined(&self, digest: &JsonDigest) -> bool {
        self.answers.values().any(|given| {
            matches!(given.action, Action::Decline) && given.question.0 == *digest.as_bytes()
        })
    }
}

/// Reads an answer as the kind that was asked; never guesses.
pub(crate) fn read_as(kind: Kind, response: &RawValue) -> Result<Action, AnswerError> {
    Ok(match InputAnswer::parse(response, kind)? {
        InputAnswer::Elicit(ElicitAction::Accept { content }) => {
            // Consent to open a page carries nothing.
            Action::Accept(content.unwrap_or(RawValue::NULL).to_owned())
        }
        InputAnswer::Elicit(ElicitAction::Decline) => Action::Decline,
        InputAnswer::Elicit(ElicitAction::Cancel) => Action::Cancel,
        // A model's message or a list of folders is what was asked for; there is no declining it.
        _ => Action::Accept(response.to_owned()),
    })
}

/// A kind by its short, stable name.
mod kind_name {
    use mrtr_protocol::Kind;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(kind.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Kind, D::Error> {
        let name = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Kind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == name)
            .ok_or_else(|| de::Error::custom("an unknown kind"))
    }
}

#[cfg(test)]
mod tests;
