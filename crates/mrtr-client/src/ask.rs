//! Putting a round's questions to the host's handlers.

use futures_util::future::try_join_all;
use mrtr_protocol::{InputRequest, Kind};
use serde_json::value::RawValue;

use crate::answer::{CheckedForm, checked_url};
use crate::client::Client;
use crate::error::{Abandoned, AnswerError, CallError, QuestionProblem};
use crate::handler::{FormHandler, FormQuestion, Refusal, ServerLabel};
use crate::page::{CheckedPage, UrlHandler, UrlQuestion};
use crate::pending::PendingCall;
use crate::roots::{self, RootsHandler, RootsQuestion};
use crate::sampling::{CheckedSampling, SamplingHandler, SamplingQuestion};
use crate::target::Target;

impl Client {
    /// Puts every open question to its handler, all at the same time. One that cannot be asked stops all of them before the first prompt.
    pub(crate) async fn ask(&self, mut pending: PendingCall) -> Result<PendingCall, CallError> {
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
            .map(|(key, request)| {
                let repeated = pending.repeated(key);
                self.prepare(key, request, repeated)
            })
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
            .map(|prompt| prompt.put(&pending.target, &label));
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

    /// Reads a question in full and finds its handler; nothing is shown to anyone yet.
    fn prepare(
        &self,
        key: &str,
        request: &InputRequest,
        repeated: u32,
    ) -> Result<Prompt<'_>, Abandoned> {
        let question = |problem: QuestionProblem| Abandoned::Question {
            key: key.to_owned(),
            problem,
        };
        let kind = request.kind().map_err(|error| question(error.into()))?;
        let handlers = &self.inner.handlers;
        let unhandled = || Abandoned::Unhandled {
            key: key.to_owned(),
            kind,
        };
        if !handlers.kinds().contains(kind) {
            return Err(unhandled());
        }
        let question = match kind {
            Kind::Form => Prepared::Form {
                form: CheckedForm::read(request).map_err(question)?,
                handler: handlers.form.as_deref().ok_or_else(unhandled)?,
            },
            Kind::Url => Prepared::Url {
                page: CheckedPage::read(request).map_err(question)?,
                repeated,
                handler: handlers.url.as_deref().ok_or_else(unhandled)?,
            },
            Kind::Sampling | Kind::SamplingWithTools => Prepared::Sampling {
                question: Box::new(CheckedSampling::read(request).map_err(question)?),
                handler: handlers.sampling.as_deref().ok_or_else(unhandled)?,
            },
            Kind::Roots => Prepared::Roots {
                handler: handlers.roots.as_deref().ok_or_else(unhandled)?,
            },
            _ => return Err(unhandled()),
        };
        Ok(Prompt {
            key: key.to_owned(),
            question,
        })
    }
}

/// A question that is ready to be asked.
struct Prompt<'a> {
    key: String,
    question: Prepared<'a>,
}

enum Prepared<'a> {
    Form {
        form: CheckedForm,
        handler: &'a dyn FormHandler,
    },
    Url {
        page: CheckedPage,
        repeated: u32,
        handler: &'a dyn UrlHandler,
    },
    Sampling {
        question: Box<CheckedSampling>,
        handler: &'a dyn SamplingHandler,
    },
    Roots {
        handler: &'a dyn RootsHandler,
    },
}

/// Why a round's questions were not all answered.
enum Stopped {
    Refused(Abandoned),
    Invalid { key: String, problem: AnswerError },
}

/// Why one was not.
enum NoAnswer {
    Refusal(Refusal),
    Invalid(AnswerError),
}

impl From<Refusal> for NoAnswer {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

impl From<AnswerError> for NoAnswer {
    fn from(problem: AnswerError) -> Self {
        Self::Invalid(problem)
    }
}

impl Prompt<'_> {
    async fn put(
        self,
        target: &Target,
        server: &ServerLabel,
    ) -> Result<(String, Box<RawValue>), Stopped> {
        let Self { key, question } = self;
        match question.put(&key, target, server).await {
            Ok(raw) => Ok((key, raw)),
            Err(NoAnswer::Refusal(refusal)) => {
                Err(Stopped::Refused(Abandoned::Refused { key, refusal }))
            }
            Err(NoAnswer::Invalid(problem)) => Err(Stopped::Invalid { key, problem }),
        }
    }
}

impl Prepared<'_> {
    /// The handler's answer, checked, as it goes onto the wire.
    async fn put(
        self,
        key: &str,
        target: &Target,
        server: &ServerLabel,
    ) -> Result<Box<RawValue>, NoAnswer> {
        let (server, target, key) = (server.clone(), target.clone(), key.to_owned());
        Ok(match self {
            Self::Form { form, handler } => {
                let question = FormQuestion {
                    server,
                    target,
                    key,
                    message: form.form.message.clone(),
                    schema: form.schema.clone(),
                    requested_schema: form.form.requested_schema.clone(),
                };
                form.check(&handler.answer(question).await?)?
            }
            Self::Url {
                page,
                repeated,
                handler,
            } => {
                let question = UrlQuestion {
                    server,
                    target,
                    key,
                    message: page.message,
                    url: page.url,
                    repeated,
                };
                checked_url(handler.answer(question).await?)?
            }
            Self::Sampling { question, handler } => {
                let asked = SamplingQuestion {
                    server,
                    target,
                    key,
                    params: question.params.clone(),
                };
                question.check(&handler.answer(asked).await?)?
            }
            Self::Roots { handler } => {
                let question = RootsQuestion {
                    server,
                    target,
                    key,
                };
                roots::checked(&handler.answer(question).await?)?
            }
        })
    }
}
