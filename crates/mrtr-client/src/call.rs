//! The loop of a multi round-trip request (*Multi Round-Trip Requests, Client Requirements*): `tools/call`, `prompts/get` and
//! `resources/read` alike.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use http::HeaderName;
use mrtr_protocol::earlier::EarlierRevision;
use mrtr_protocol::mrtr::RoundError;
use mrtr_protocol::object::read;
use mrtr_protocol::{
    CallToolResult, GetPromptResult, InputRequiredResult, JsonObject, KnownError,
    ReadResourceResult, ResultType, code,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::answer::{arguments, prompt_arguments};
use crate::client::Client;
use crate::era::Era;
use crate::error::{Abandoned, CallError, ProtocolError, RequestError};
use crate::exchange::Answered;
use crate::outgoing::Headers;
use crate::pending::PendingCall;
use crate::target::{Completed, Target};

/// How far a call has come.
#[derive(Debug)]
pub enum Progress {
    /// There is a result.
    Done(Completed),
    /// The server wants answers, or to be asked again.
    InputRequired(Box<PendingCall>),
}

/// The same with a result of whatever type.
enum Step<T> {
    Done(T),
    InputRequired(Box<PendingCall>),
}

impl From<Step<Completed>> for Progress {
    fn from(step: Step<Completed>) -> Self {
        match step {
            Step::Done(result) => Self::Done(result),
            Step::InputRequired(pending) => Self::InputRequired(pending),
        }
    }
}

/// How a complete result is read, by what the call was for.
type Read<T> = fn(&Target, &RawValue) -> Result<T, ProtocolError>;

/// A result of a type that the caller knows.
fn read_known<T: DeserializeOwned>(target: &Target, result: &RawValue) -> Result<T, ProtocolError> {
    read(result).map_err(|_| ProtocolError::Result {
        method: target.method(),
    })
}

impl Client {
    /// Calls a tool and carries the call through its rounds.
    ///
    /// Each round is a new request with a new id, the handlers' answers, and the exact state of the last round, if that had one. Questions
    /// of one round are asked at the same time. A round without questions is repeated after a short, growing pause, and so is one whose
    /// page was accepted before: from a second up to half a minute from the time it was asked.
    ///
    /// Dropping the future drops the handlers' prompts, or closes the stream of the request in flight; nothing more is sent.
    ///
    /// A result may say `isError`: that is the tool's own failure, for the model to read, and no error here.
    ///
    /// # Errors
    ///
    /// [`CallError`]. Where the call can go on, it holds the [`PendingCall`].
    pub async fn call_tool<A: Serialize>(
        &self,
        tool: &str,
        arguments: A,
    ) -> Result<CallToolResult, CallError> {
        let arguments = self::arguments(&arguments).map_err(CallError::Arguments)?;
        self.carry(Target::Tool(tool.to_owned()), arguments).await
    }

    /// Gets a prompt, and answers what the server asks on the way, as [`Client::call_tool`] does. The arguments are an object of strings.
    ///
    /// # Errors
    ///
    /// [`CallError`].
    pub async fn get_prompt<A: Serialize>(
        &self,
        prompt: &str,
        arguments: A,
    ) -> Result<GetPromptResult, CallError> {
        let arguments = prompt_arguments(&arguments).map_err(CallError::Arguments)?;
        self.carry(Target::Prompt(prompt.to_owned()), arguments)
            .await
    }

    /// Reads a resource, and answers what the server asks on the way, as [`Client::call_tool`] does. Nothing is cached here.
    ///
    /// # Errors
    ///
    /// [`CallError`].
    pub async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, CallError> {
        self.carry(Target::Resource(uri.to_owned()), None).await
    }

    async fn carry<T: DeserializeOwned>(
        &self,
        target: Target,
        arguments: Option<JsonObject>,
    ) -> Result<T, CallError> {
        let first = PendingCall::first(&self.inner.host.endpoint, target, arguments);
        match self.send(first, read_known).await? {
            Step::Done(result) => Ok(result),
            Step::InputRequired(pending) => self.run(*pending, 1, read_known).await,
        }
    }

    /// Calls a tool and stops at the first answer: the loop by hand.
    ///
    /// ```no_run
    /// # use mrtr_client::{CallError, Client, FormAnswer, Progress};
    /// # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut progress = client.begin("submit_expense", serde_json::json!({"amount": 250})).await?;
    /// while let Progress::InputRequired(mut pending) = progress {
    ///     // Store `serde_json::to_string(&pending)` where secrets are kept, and come back tomorrow.
    ///     let keys: Vec<String> = pending.unanswered().map(str::to_owned).collect();
    ///     for key in keys {
    ///         pending.answer(&key, &FormAnswer::Decline)?;
    ///     }
    ///     progress = client.resume(*pending).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`CallError`].
    pub async fn begin<A: Serialize>(
        &self,
        tool: &str,
        arguments: A,
    ) -> Result<Progress, CallError> {
        let arguments = self::arguments(&arguments).map_err(CallError::Arguments)?;
        let target = Target::Tool(tool.to_owned());
        let first = PendingCall::first(&self.inner.host.endpoint, target, arguments);
        Ok(self.send(first, Completed::read).await?.into())
    }

    /// Gets a prompt and stops at the first answer, as [`Client::begin`] does for a tool.
    ///
    /// # Errors
    ///
    /// [`CallError`].
    pub async fn begin_prompt<A: Serialize>(
        &self,
        prompt: &str,
        arguments: A,
    ) -> Result<Progress, CallError> {
        let arguments = prompt_arguments(&arguments).map_err(CallError::Arguments)?;
        let target = Target::Prompt(prompt.to_owned());
        let first = PendingCall::first(&self.inner.host.endpoint, target, arguments);
        Ok(self.send(first, Completed::read).await?.into())
    }

    /// Reads a resource and stops at the first answer, as [`Client::begin`] does for a tool.
    ///
    /// # Errors
    ///
    /// [`CallError`].
    pub async fn begin_resource(&self, uri: &str) -> Result<Progress, CallError> {
        let target = Target::Resource(uri.to_owned());
        let first = PendingCall::first(&self.inner.host.endpoint, target, None);
        Ok(self.send(first, Completed::read).await?.into())
    }

    /// Sends the round that a pending call is at: its answers and its state, under a new id.
    ///
    /// It is sent once. Resuming a call from [`CallError::OutcomeUnknown`] sends the same again; see [`PendingCall::repeat`] for what that
    /// may do.
    ///
    /// # Errors
    ///
    /// [`CallError::Unanswered`] and [`CallError::OtherServer`] before anything is sent, otherwise as [`Client::begin`].
    pub async fn resume(&self, pending: PendingCall) -> Result<Progress, CallError> {
        let step = self.resume_with(pending, Completed::read).await?;
        Ok(step.into())
    }

    async fn resume_with<T>(
        &self,
        pending: PendingCall,
        read: Read<T>,
    ) -> Result<Step<T>, CallError> {
        if pending.endpoint != self.inner.host.endpoint {
            return Err(CallError::OtherServer {
                pending: Box::new(pending),
            });
        }
        let open = pending.unanswered().next().map(str::to_owned);
        if let Some(key) = open {
            return Err(CallError::Unanswered {
                key,
                pending: Box::new(pending),
            });
        }
        if let Some(key) = pending.page_not_visited().map(str::to_owned) {
            return Err(CallError::Abandoned {
                why: Abandoned::PageDeclined { key },
                pending: Box::new(pending),
            });
        }
        self.send(pending, read).await
    }

    /// Carries a pending call to its end with the client's handlers: questions without an answer are asked, then it is resumed.
    ///
    /// The round limit counts from here, the round that the call is at included.
    ///
    /// # Errors
    ///
    /// As [`Client::call_tool`] and [`Client::resume`].
    pub async fn finish(&self, pending: PendingCall) -> Result<Completed, CallError> {
        let rounds = pending.round.min(1);
        self.run(pending, rounds, Completed::read).await
    }

    /// `rounds`: how many this run has seen, the one that `pending` is at included.
    async fn run<T>(
        &self,
        mut pending: PendingCall,
        mut rounds: u32,
        read: Read<T>,
    ) -> Result<T, CallError> {
        loop {
            // Before a prompt is shown: a person should not answer what will not be sent.
            if let Some(limit) = self.inner.host.limits.max_rounds
                && rounds > limit
            {
                return Err(CallError::Abandoned {
                    why: Abandoned::TooManyRounds { limit },
                    pending: Box::new(pending),
                });
            }
            let asked = pending.requests.len();
            if let Some(limit) = self.inner.host.limits.max_questions
                && asked > limit
            {
                return Err(CallError::Abandoned {
                    why: Abandoned::TooManyQuestions { asked, limit },
                    pending: Box::new(pending),
                });
            }
            if pending.state_only > 0 {
                tokio::time::sleep(pause(pending.state_only)).await;
            } else {
                let begun = Instant::now();
                let keys = pending.requests.iter().map(|(key, _)| key);
                let visit = pending
                    .pages_first
                    .then(|| self.inner.host.visits.expect(keys));
                pending = self.ask(pending).await?;
                // The person is in the browser, and the server cannot know more than it did. Whatever time they took counts.
                let repeats = pending.accepted_again();
                match visit {
                    Some(_) if pending.page_not_visited().is_some() => {}
                    // It may say so before the time is over.
                    Some(visit) => {
                        let pause = page_pause(repeats.saturating_add(1));
                        let _ = tokio::time::timeout_at(begun + pause, visit.all_done()).await;
                    }
                    None if repeats > 0 => {
                        tokio::time::sleep_until(begun + page_pause(repeats)).await;
                    }
                    None => {}
                }
            }
            match self.resume_with(pending, read).await? {
                Step::Done(result) => return Ok(result),
                Step::InputRequired(next) => pending = *next,
            }
            rounds = rounds.saturating_add(1);
        }
    }

    /// Sends one round and reads what came of it. The call is kept until that is read.
    async fn send<T>(&self, pending: PendingCall, read: Read<T>) -> Result<Step<T>, CallError> {
        let answered = match self.exchange_round(&pending).await {
            Ok(answered) => answered,
            Err(error) => return self.visit_first(error, pending),
        };
        match Answer::read(&pending.target, &answered, read) {
            Ok(Answer::Result(result)) => Ok(Step::Done(result)),
            Ok(Answer::Round(round)) => {
                let next = pending.next(round);
                tracing::debug!(
                    round = next.round,
                    questions = next.requests.len(),
                    "input required"
                );
                Ok(Step::InputRequired(Box::new(next)))
            }
            Err(error) => Err(failed(error.into(), pending)),
        }
    }

    /// A server of revision 2025-11-25 may want pages visited before it takes the call: a round of its own kind.
    fn visit_first<T>(
        &self,
        error: RequestError,
        pending: PendingCall,
    ) -> Result<Step<T>, CallError> {
        let pages = match &error {
            RequestError::Rpc(error)
                if self.era() == Some(Era::Earlier(EarlierRevision::V2025_11_25)) =>
            {
                match error.known() {
                    Some(KnownError::UrlElicitationRequired(data)) => data.elicitations,
                    _ => Vec::new(),
                }
            }
            _ => Vec::new(),
        };
        match pending.after_pages(pages) {
            Ok(next) => Ok(Step::InputRequired(Box::new(next))),
            Err(pending) => Err(failed(error, *pending)),
        }
    }

    /// Sends one round. When the server says that headers are missing, which it says before it does anything, the list of tools is asked
    /// for what they are, and the round is sent once more (*Streamable HTTP, Client Behavior*).
    async fn exchange_round(&self, pending: &PendingCall) -> Result<Answered, RequestError> {
        let mut outgoing = pending.outgoing()?;
        let Target::Tool(tool) = &pending.target else {
            return self.exchange(&outgoing).await;
        };
        outgoing.headers = self.headers(tool, pending)?;
        let error = match self.exchange(&outgoing).await {
            Err(RequestError::Rpc(error)) if error.error.code == code::HEADER_MISMATCH => error,
            other => return other,
        };
        // Without a new list the first error is the better one to tell.
        if self.look_up_headers(tool).await.is_err() {
            return Err(error.into());
        }
        let fresh = self.headers(tool, pending)?;
        if fresh == outgoing.headers {
            return Err(error.into());
        }
        outgoing.headers = fresh;
        self.exchange(&outgoing).await
    }

    /// The arguments that a tool wants in headers.
    fn headers(&self, tool: &str, pending: &PendingCall) -> Result<Headers, RequestError> {
        let Some(wanted) = self.param_headers(tool) else {
            return Ok(Vec::new());
        };
        let unwritable =
            |error: &dyn std::fmt::Display| RequestError::Unwritable(error.to_string());
        let values = wanted
            .values(pending.arguments.as_ref())
            .map_err(|error| unwritable(&error))?;
        values
            .into_iter()
            .map(|(name, value)| {
                let name = HeaderName::try_from(name).map_err(|error| unwritable(&error))?;
                Ok((name, value))
            })
            .collect()
    }
}

/// What a response says about the call.
enum Answer<T> {
    Result(T),
    Round(InputRequiredResult),
}

impl<T> Answer<T> {
    fn read(target: &Target, answered: &Answered, read: Read<T>) -> Result<Self, ProtocolError> {
        // The type first: a round with a member of a result in it is still a round.
        match answered.kind()? {
            ResultType::Complete => read(target, &answered.result).map(Self::Result),
            ResultType::InputRequired => {
                Ok(Self::Round(InputRequiredResult::parse(&answered.result)?))
            }
        }
    }
}

/// What a failed request means for the call.
fn failed(error: RequestError, pending: PendingCall) -> CallError {
    let pending = Box::new(pending);
    match error {
        RequestError::SessionLost => CallError::SessionLost { pending },
        RequestError::StateOfTheModernEra => CallError::OtherServer { pending },
        RequestError::NotSent(_)
        | RequestError::Handshake(_)
        | RequestError::NotInThisEra { .. } => CallError::NotSent {
            pending,
            source: error,
        },
        RequestError::Credentials(source) => CallError::NoCredentials { pending, source },
        RequestError::Rpc(source) if source.error.code == code::IN_PROGRESS => match source.known()
        {
            Some(KnownError::InProgress(data)) => CallError::InProgress {
                retry_after: Duration::from_millis(data.retry_after_ms),
                pending,
            },
            _ => CallError::Rpc { source, pending },
        },
        RequestError::Rpc(source) => CallError::Rpc { source, pending },
        // The server has answered, with a state to come back with that nobody can: neither this round nor the last can be resumed.
        RequestError::Protocol(error @ ProtocolError::Round(RoundError::StateNotAString)) => {
            CallError::Protocol(error)
        }
        RequestError::Unwritable(problem) => CallError::Arguments(problem),
        // A gateway says 502 or 504 about a request that it may have passed on.
        RequestError::Http { status } if !status.is_server_error() => {
            CallError::Http { status, pending }
        }
        RequestError::Http { .. }
        | RequestError::Interrupted(_)
        | RequestError::TimedOut { .. }
        | RequestError::NoResponse
        | RequestError::Protocol(_)
        | RequestError::TooLarge { .. } => CallError::OutcomeUnknown {
            pending,
            source: error,
        },
    }
}

/// The pause before the n-th state-only round in a row: from 50 ms, doubled up to 2 s.
fn pause(state_only: u32) -> Duration {
    growing(50, 2_000, state_only)
}

/// The time between asking the n-th time again for a page that was accepted, and telling the server so: from 1 s, doubled up to 30 s. With
/// ten rounds that gives a person between two and four minutes in the browser, if their handler does not wait for them.
fn page_pause(repeats: u32) -> Duration {
    growing(1_000, 30_000, repeats)
}

/// Doubled each time up to a bound, and up to half as much again by chance, so that the clients which a server sheds together do not come
/// back together.
fn growing(first_ms: u64, most_ms: u64, nth: u32) -> Duration {
    let base = first_ms
        .saturating_mul(1 << nth.saturating_sub(1).min(6))
        .min(most_ms);
    // A fresh `RandomState` is the standard library's own source of chance; nothing secret depends on it.
    let chance = RandomState::new().build_hasher().finish();
    Duration::from_millis(base + chance % (base / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound() {
        for (round, from, to) in [
            (1, 50, 75),
            (2, 100, 150),
            (3, 200, 300),
            (7, 2_000, 3_000),
            (100, 2_000, 3_000),
            (u32::MAX, 2_000, 3_000),
        ] {
            let pause = pause(round).as_millis();
            assert!((from..to).contains(&pause), "{round}: {pause}");
        }
        for (repeats, from, to) in [
            (1, 1_000, 1_500),
            (2, 2_000, 3_000),
            (5, 16_000, 24_000),
            (6, 30_000, 45_000),
            (u32::MAX, 30_000, 45_000),
        ] {
            let pause = page_pause(repeats).as_millis();
            assert!((from..to).contains(&pause), "{repeats}: {pause}");
        }
    }
}
