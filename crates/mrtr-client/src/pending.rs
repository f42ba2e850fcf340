//! A call between two rounds: the loop by hand, now or hours later.

use std::fmt;

use mrtr_protocol::earlier::ElicitUrlEarlier;
use mrtr_protocol::mrtr::QuestionError;
use mrtr_protocol::{
    CreateMessageResult, ElicitAction, InputRequest, InputRequests, InputRequiredResult,
    JsonObject, Kind, RawObject, Root,
};
use serde::{Deserialize, Serialize};

use crate::answer::{CheckedForm, checked_url};
use crate::error::{AnswerError, QuestionProblem, RequestError};
use crate::handler::FormAnswer;
use crate::outgoing::Outgoing;
use crate::page::{CheckedPage, UrlAnswer};
use crate::roots;
use crate::sampling::CheckedSampling;
use crate::target::Target;

/// A call that has no result yet: of a tool, for a prompt, or for a resource.
///
/// It comes from [`Client::begin`](crate::Client::begin) and its like, and from errors that leave a call open. Look at
/// [`PendingCall::requests`], give each an answer of its kind with [`PendingCall::answer`] or one of its like, and hand it to [`Client::resume`](crate::Client::resume); or hand it to
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
    pub(crate) target: Target,
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
    /// The pages that were accepted in earlier rounds.
    accepted: Vec<AcceptedPage>,
    /// The questions are pages to be visited before the same call is sent again; no answer to them is sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) pages_first: bool,
}

/// The form that says which method it is; the one before knew only tools.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Format {
    #[serde(rename = "mrtr-pending-2")]
    Two,
}

/// How often the person accepted one URL.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AcceptedPage {
    /// The server's own text.
    url: String,
    times: u32,
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
    pub(crate) fn first(endpoint: &str, target: Target, arguments: Option<JsonObject>) -> Self {
        Self {
            format: Format::Two,
            endpoint: endpoint.to_owned(),
            target,
            arguments,
            round: 0,
            state_only: 0,
            requests: InputRequests::new(),
            answers: RawObject::new(),
            state: None,
            self_reported: None,
            accepted: Vec::new(),
            pages_first: false,
        }
    }

    /// The same call in its next round. Of the last round stays neither its state nor its answers; only which pages were accepted.
    pub(crate) fn next(mut self, round: InputRequiredResult) -> Self {
        self.count_accepted();
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
            pages_first: false,
            self_reported: meta
                .server_info()
                .map(|info| info.title.unwrap_or(info.name)),
            ..self
        }
    }

    /// The same call, to be sent again when these pages were visited; or as it was, when the server names none, or one twice.
    pub(crate) fn after_pages(self, pages: Vec<ElicitUrlEarlier>) -> Result<Self, Box<Self>> {
        let mut requests = InputRequests::new();
        for page in pages {
            let id = page.elicitation_id.clone();
            if requests
                .insert(id, InputRequest::url(&page.into_page()))
                .is_err()
            {
                return Err(Box::new(self));
            }
        }
        match InputRequiredResult::new(requests, None) {
            Ok(round) => Ok(Self {
                pages_first: true,
                ..self.next(round)
            }),
            Err(_) => Err(Box::new(self)),
        }
    }

    /// The page that was not accepted, if this call waits for pages.
    pub(crate) fn page_not_visited(&self) -> Option<&str> {
        let accepted: Vec<&str> = self.accepted_urls().map(|(key, _)| key).collect();
        let mut keys = self.requests.iter().map(|(key, _)| key);
        keys.find(|key| self.pages_first && !accepted.contains(key))
    }

    fn count_accepted(&mut self) {
        let accepted: Vec<String> = self.accepted_urls().map(|(_, url)| url).collect();
        for url in accepted {
            match self.accepted.iter_mut().find(|page| page.url == url) {
                Some(page) => page.times = page.times.saturating_add(1),
                None => self.accepted.push(AcceptedPage { url, times: 1 }),
            }
        }
    }

    /// Keys and URLs of this round's pages whose answer is an accept.
    fn accepted_urls(&self) -> impl Iterator<Item = (&str, String)> {
        self.requests.iter().filter_map(|(key, request)| {
            let page = request.as_url().ok()?;
            let answer = ElicitAction::parse(self.answers.get(key)?, Kind::Url).ok()?;
            matches!(answer, ElicitAction::Accept { .. }).then_some((key, page.url))
        })
    }

    /// How often, at most, a page that is accepted in this round was accepted before.
    pub(crate) fn accepted_again(&self) -> u32 {
        let repeats = self.accepted_urls().map(|(key, _)| self.repeated(key));
        repeats.max().unwrap_or(0)
    }

    /// How often the person accepted the page that this question asks to open, in earlier rounds of this call. Not 0: the server does not
    /// know yet that the page was used. Do not open it again unasked, and wait a little before resuming. 0 for every other question.
    #[must_use]
    pub fn repeated(&self, key: &str) -> u32 {
        let page = self.requests.get(key).and_then(|ask| ask.as_url().ok());
        page.and_then(|page| self.accepted.iter().find(|old| old.url == page.url))
            .map_or(0, |old| old.times)
    }

    /// The request of this round.
    pub(crate) fn outgoing(&self) -> Result<Outgoing<'_>, RequestError> {
        let mut outgoing = Outgoing::new(self.target.method());
        outgoing.target = Some(&self.target);
        let name = match &self.target {
            Target::Tool(_) | Target::Prompt(_) => "name",
            Target::Resource(_) => "uri",
        };
        let answers = (!self.answers.is_empty() && !self.pages_first).then_some(&self.answers);
        outgoing
            .with(name, self.target.name())?
            .with_raw("arguments", self.arguments.as_ref().map(JsonObject::as_raw))
            .with_round("inputResponses", answers)?
            .with_round("requestState", self.state.as_deref())
    }

    /// What the call is for.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
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

    /// Answers a page, after the person saw the whole URL: [`PageUrl::parse`](crate::PageUrl::parse) reads it from the question. An accept
    /// of a URL that must not be opened is refused.
    ///
    /// # Errors
    ///
    /// [`AnswerError`] when no such question is open, it is no page, or not one to be opened. The call stays as it was.
    pub fn answer_url(&mut self, key: &str, answer: UrlAnswer) -> Result<(), AnswerError> {
        let request = self.requests.get(key).ok_or(AnswerError::NoSuchQuestion)?;
        CheckedPage::read(request)?;
        self.answers.insert_raw(key, checked_url(answer)?);
        Ok(())
    }

    /// Answers a question for a model. Deprecated since 2026-07-28, as sampling is: a new server calls a model provider itself.
    ///
    /// # Errors
    ///
    /// [`AnswerError`] when no such question is open, it is of another kind, or the message is not one to it. The call stays as it was.
    pub fn answer_sampling(
        &mut self,
        key: &str,
        answer: &CreateMessageResult,
    ) -> Result<(), AnswerError> {
        let request = self.requests.get(key).ok_or(AnswerError::NoSuchQuestion)?;
        let raw = CheckedSampling::read(request)?.check(answer)?;
        self.answers.insert_raw(key, raw);
        Ok(())
    }

    /// Answers a question for folders. Deprecated since 2026-07-28, as roots are: a new server takes folders as parameters, resource URIs
    /// or configuration.
    ///
    /// # Errors
    ///
    /// [`AnswerError`] when no such question is open, or it is of another kind. The call stays as it was.
    pub fn answer_roots(&mut self, key: &str, roots: &[Root]) -> Result<(), AnswerError> {
        let request = self.requests.get(key).ok_or(AnswerError::NoSuchQuestion)?;
        if request.kind().map_err(QuestionProblem::from)? != Kind::Roots {
            return Err(QuestionProblem::from(QuestionError::Malformed).into());
        }
        self.answers.insert_raw(key, roots::checked(roots)?);
        Ok(())
    }
}

impl fmt::Debug for PendingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall")
            .field("target", &self.target)
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
