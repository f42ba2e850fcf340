//! `tools/call`: the loop of a multi round-trip request (*Multi Round-Trip Requests, Client Requirements*).

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use futures_util::future::try_join_all;
use http::HeaderName;
use mrtr_protocol::mrtr::RoundError;
use mrtr_protocol::object::read;
use mrtr_protocol::{
    CallToolParams, CallToolResult, InputRequest, InputRequiredResult, Kind, KnownError,
    ResultType, code, headers, method,
};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::answer::{CheckedForm, arguments};
use crate::client::Client;
use crate::error::{
    Abandoned, AnswerError, CallError, ProtocolError, QuestionProblem, RequestError,
};
use crate::exchange::Headers;
use crate::handler::{FormHandler, FormQuestion, ServerLabel};
use crate::pending::PendingCall;

/// How far a call has come.
#[derive(Debug)]
pub enum Progress {
    /// There is a result.
    Done(CallToolResult),
    /// The server wants answers, or to be asked again.
    InputRequired(Box<PendingCall>),
}

impl Client {
    /// Calls a tool and carries the call through its rounds.
    ///
    /// Each round is a new request with a new id, the handlers' answers, and the exact state of the last round, if that had one. Questions
    /// of one round are asked at the same time. A round without questions is repeated after a short, growing pause.
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
        match self.begin(tool, arguments).await? {
            Progress::Done(result) => Ok(result),
            Progress::InputRequired(pending) => self.run(*pending, 1).await,
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
        self.send(PendingCall::first(&self.inner.url, tool, arguments))
            .await
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
        if pending.endpoint != self.inner.url {
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
        self.send(pending).await
    }

    /// Carries a pending call to its end with the client's handlers: questions without an answer are asked, then it is resumed.
    ///
    /// The round limit counts from here, the round that the call is at included.
    ///
    /// # Errors
    ///
    /// As [`Client::call_tool`] and [`Client::resume`].
    pub async fn finish(&self, pending: PendingCall) -> Result<CallToolResult, CallError> {
        let rounds = pending.round.min(1);
        self.run(pending, rounds).await
    }

    /// `rounds`: how many this run has seen, the one that `pending` is at included.
    async fn run(
        &self,
        mut pending: PendingCall,
        mut rounds: u32,
    ) -> Result<CallToolResult, CallError> {
        loop {
            // Before a prompt is shown: a person should not answer what will not be sent.
            if let Some(limit) = self.inner.max_rounds
                && rounds > limit
            {
                return Err(CallError::Abandoned {
                    why: Abandoned::TooManyRounds { limit },
                    pending: Box::new(pending),
                });
            }
            let asked = pending.requests.len();
            if let Some(limit) = self.inner.max_questions
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
                pending = self.ask(pending).await?;
            }
            match self.resume(pending).await? {
                Progress::Done(result) => return Ok(result),
                Progress::InputRequired(next) => pending = *next,
            }
            rounds = rounds.saturating_add(1);
        }
    }

    /// Puts every open question to its handler, all at the same time. One that cannot be asked stops all of them before the first prompt.
    async fn ask(&self, mut pending: PendingCall) -> Result<PendingCall, CallError> {
        let label = ServerLabel {
            url: self.inner.url.clone(),
            label: self.inner.label.clone(),
            self_reported: pending.self_reported.clone(),
        };
        let open = pending
            .requests
            .iter()
            .filter(|(key, _)| pending.answers.get(key).is_none());
        let prepared: Result<Vec<_>, Abandoned> = open
            .map(|(key, request)| self.prepare(key, request))
            .collect();
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(why) => {
                return Err(CallError::Abandoned {
                    why,
                    pending: Box::new(pending),
                });
            }
        };
        let prompts = prepared
            .into_iter()
            .map(|prompt| prompt.put(&pending.tool, &label));
        match try_join_all(prompts).await {
            Ok(answers) => {
                for (key, answer) in answers {
                    pending.answers.insert_raw(key, answer);
                }
                Ok(pending)
            }
            Err(Stopped::Refused(why)) => Err(CallError::Abandoned {
                why,
                pending: Box::new(pending),
            }),
            Err(Stopped::Invalid { key, problem }) => Err(CallError::InvalidAnswer {
                key,
                problem,
                pending: Box::new(pending),
            }),
        }
    }

    fn prepare(&self, key: &str, request: &InputRequest) -> Result<Prompt<'_>, Abandoned> {
        let question = |problem: QuestionProblem| Abandoned::Question {
            key: key.to_owned(),
            problem,
        };
        let kind = request.kind().map_err(|error| question(error.into()))?;
        match (kind, &self.inner.handlers.form) {
            (Kind::Form, Some(handler)) => {
                let form = CheckedForm::read(request).map_err(question)?;
                Ok(Prompt {
                    key: key.to_owned(),
                    form,
                    handler: handler.as_ref(),
                })
            }
            _ => Err(Abandoned::Unhandled {
                key: key.to_owned(),
                kind,
            }),
        }
    }

    /// Sends one round and reads what came of it.
    async fn send(&self, pending: PendingCall) -> Result<Progress, CallError> {
        let result = match self.exchange_round(&pending).await {
            Ok(result) => result,
            Err(error) => return Err(failed(error, pending)),
        };
        match read_step(&result) {
            Ok(Step::Done(result)) => Ok(Progress::Done(result)),
            Ok(Step::Round(round)) => {
                let next = pending.next(round);
                tracing::debug!(
                    round = next.round,
                    questions = next.requests.len(),
                    "input required"
                );
                Ok(Progress::InputRequired(Box::new(next)))
            }
            Err(error) => Err(failed(error.into(), pending)),
        }
    }

    /// Sends one round. When the server says that headers are missing, which it says before it does anything, the list of tools is asked
    /// for what they are, and the round is sent once more (*Streamable HTTP, Client Behavior*).
    async fn exchange_round(&self, pending: &PendingCall) -> Result<Box<RawValue>, RequestError> {
        let headers = self.headers(pending)?;
        let error = match self.exchange_with(pending, headers.clone()).await {
            Err(RequestError::Rpc(error)) if error.error.code == code::HEADER_MISMATCH => error,
            other => return other,
        };
        // Without a new list the first error is the better one to tell.
        if self.look_up_headers(&pending.tool).await.is_err() {
            return Err(error.into());
        }
        let fresh = self.headers(pending)?;
        if fresh == headers {
            Err(error.into())
        } else {
            self.exchange_with(pending, fresh).await
        }
    }

    /// The name, and the arguments that the tool wants in headers.
    fn headers(&self, pending: &PendingCall) -> Result<Headers, RequestError> {
        let name = (
            HeaderName::from_static(headers::NAME),
            headers::encode(&pending.tool).into_owned(),
        );
        let mut all = vec![name];
        if let Some(wanted) = self.param_headers(&pending.tool) {
            let values = wanted.values(pending.arguments.as_ref());
            all.extend(values.map_err(|error| RequestError::Unwritable(error.to_string()))?);
        }
        Ok(all)
    }

    async fn exchange_with(
        &self,
        pending: &PendingCall,
        headers: Headers,
    ) -> Result<Box<RawValue>, RequestError> {
        let raw = |error: serde_json::Error| RequestError::Unwritable(error.to_string());
        let state = pending
            .state
            .as_ref()
            .map(to_raw_value)
            .transpose()
            .map_err(raw)?;
        let answers = (!pending.answers.is_empty())
            .then(|| to_raw_value(&pending.answers))
            .transpose()
            .map_err(raw)?;
        let params = CallToolParams {
            name: Cow::Borrowed(&pending.tool),
            arguments: pending
                .arguments
                .as_ref()
                .map(|arguments| arguments.as_raw()),
            input_responses: answers.as_deref(),
            request_state: state.as_deref(),
            meta: Some(&self.inner.meta),
        };
        self.exchange(method::TOOLS_CALL, headers, &params).await
    }
}

/// What a result says about the call.
enum Step {
    Done(CallToolResult),
    Round(InputRequiredResult),
}

fn read_step(result: &RawValue) -> Result<Step, ProtocolError> {
    // The type first: a round with a member of a result in it is still a round.
    match ResultType::of(result)? {
        ResultType::Complete => read(result)
            .map(Step::Done)
            .map_err(|_| ProtocolError::Result {
                method: method::TOOLS_CALL,
            }),
        ResultType::InputRequired => Ok(Step::Round(InputRequiredResult::parse(result)?)),
    }
}

/// What a failed request means for the call.
fn failed(error: RequestError, pending: PendingCall) -> CallError {
    let pending = Box::new(pending);
    match error {
        RequestError::NotSent(_) => CallError::NotSent {
            pending,
            source: error,
        },
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

/// A question that is ready to be asked.
struct Prompt<'a> {
    key: String,
    form: CheckedForm,
    handler: &'a dyn FormHandler,
}

/// Why a round's questions were not all answered.
enum Stopped {
    Refused(Abandoned),
    Invalid { key: String, problem: AnswerError },
}

impl Prompt<'_> {
    async fn put(
        self,
        tool: &str,
        server: &ServerLabel,
    ) -> Result<(String, Box<RawValue>), Stopped> {
        let question = FormQuestion {
            server: server.clone(),
            tool: tool.to_owned(),
            key: self.key.clone(),
            message: self.form.form.message.clone(),
            schema: self.form.schema.clone(),
            requested_schema: self.form.form.requested_schema.clone(),
        };
        match self.handler.answer(question).await {
            Ok(answer) => match self.form.check(&answer) {
                Ok(raw) => Ok((self.key, raw)),
                Err(problem) => Err(Stopped::Invalid {
                    key: self.key,
                    problem,
                }),
            },
            Err(refusal) => Err(Stopped::Refused(Abandoned::Refused {
                key: self.key,
                refusal,
            })),
        }
    }
}

/// The pause before the n-th state-only round in a row: from 50 ms, doubled up to 2 s, and up to half as much again by chance, so that the
/// clients which a server sheds together do not come back together.
fn pause(state_only: u32) -> Duration {
    let base = 50_u64
        .saturating_mul(1 << state_only.saturating_sub(1).min(6))
        .min(2_000);
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
    }
}
