//! Putting a server's questions to the host's handlers: those of a round, and those that a server of the earlier era sends as requests.

use std::sync::Arc;

use futures_util::future::try_join_all;
use mrtr_protocol::{InputRequest, Kind};
use serde_json::value::RawValue;

use crate::answer::{CheckedForm, checked_url};
use crate::client::Client;
use crate::error::{Abandoned, AnswerError, CallError, QuestionProblem};
use crate::handler::{FormHandler, FormQuestion, Refusal, ServerLabel};
use crate::host::Host;
use crate::page::{CheckedPage, UrlHandler, UrlQuestion};
use crate::pending::PendingCall;
use crate::roots::{self, RootsHandler, RootsQuestion};
use crate::sampling::{CheckedSampling, SamplingHandler, SamplingQuestion};
use crate::target::Target;

impl Client {
    /// Puts every open question to its handler, all at the same time. One that cannot be asked stops all of them before the first prompt.
    pub(crate) async fn ask(&self, mut pending: PendingCall) -> Result<PendingCall, CallError> {
        let host = &self.inner.host;
        let label = host.server_label(pending.self_reported.clone());
        let open = pending
            .requests
            .iter()
            .filter(|(key, _)| pending.answers.get(key).is_none());
        let prepared: Result<Vec<_>, Abandoned> = open
            .map(|(key, request)| host.prepare(key, request, pending.repeated(key)))
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
            .map(|prompt| prompt.put(Some(&pending.target), &label));
        match try_join_all(prompts).await {
            Ok(answers) => {
                for (key, answer) in answers {
                    pending.answers.insert_raw(key, answer);
                }
                Ok(pending)
            }
            Err((key, NoAnswer::Refusal(refusal))) => Err(CallError::Abandoned {
                why: Abandoned::Refused { key, refusal },
                pending: Box::new(pending),
            }),
            Err((key, NoAnswer::Invalid(problem))) => Err(CallError::InvalidAnswer {
                key,
                problem,
                pending: Box::new(pending),
            }),
        }
    }
}

impl Host {
    /// Reads a question in full and finds its handler; nothing is shown to anyone yet.
    pub(crate) fn prepare(
        &self,
        key: &str,
        request: &InputRequest,
        repeated: u32,
    ) -> Result<Prompt, Abandoned> {
        let question = |problem: QuestionProblem| Abandoned::Question {
            key: key.to_owned(),
            problem,
        };
        let kind = request.kind().map_err(|error| question(error.into()))?;
        let handlers = &self.handlers;
        let unhandled = || Abandoned::Unhandled {
            key: key.to_owned(),
            kind,
        };
        if !handlers.kinds().contains(kind) {
            return Err(unhandled());
        }
        let question = match kind {
            Kind::Form => Prepared::Form {
                form: Box::new(CheckedForm::read(request).map_err(question)?),
                handler: handlers.form.clone().ok_or_else(unhandled)?,
            },
            Kind::Url => Prepared::Url {
                page: CheckedPage::read(request).map_err(question)?,
                repeated,
                handler: handlers.url.clone().ok_or_else(unhandled)?,
            },
            Kind::Sampling | Kind::SamplingWithTools => Prepared::Sampling {
                question: Box::new(CheckedSampling::read(request).map_err(question)?),
                handler: handlers.sampling.clone().ok_or_else(unhandled)?,
            },
            Kind::Roots => Prepared::Roots {
                handler: handlers.roots.clone().ok_or_else(unhandled)?,
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
pub(crate) struct Prompt {
    key: String,
    question: Prepared,
}

enum Prepared {
    Form {
        form: Box<CheckedForm>,
        handler: Arc<dyn FormHandler>,
    },
    Url {
        page: CheckedPage,
        repeated: u32,
        handler: Arc<dyn UrlHandler>,
    },
    Sampling {
        question: Box<CheckedSampling>,
        handler: Arc<dyn SamplingHandler>,
    },
    Roots {
        handler: Arc<dyn RootsHandler>,
    },
}

/// Why a question has no answer.
pub(crate) enum NoAnswer {
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

impl Prompt {
    /// Puts the question, and gives its key back with the handler's answer, checked, as it goes onto the wire.
    pub(crate) async fn put(
        self,
        target: Option<&Target>,
        server: &ServerLabel,
    ) -> Result<(String, Box<RawValue>), (String, NoAnswer)> {
        let Self { key, question } = self;
        match question.put(&key, target, server).await {
            Ok(raw) => Ok((key, raw)),
            Err(why) => Err((key, why)),
        }
    }
}

impl Prepared {
    async fn put(
        self,
        key: &str,
        target: Option<&Target>,
        server: &ServerLabel,
    ) -> Result<Box<RawValue>, NoAnswer> {
        let (server, target, key) = (server.clone(), target.cloned(), key.to_owned());
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
