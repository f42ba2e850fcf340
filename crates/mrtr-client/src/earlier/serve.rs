//! What a server of the earlier era sends: notifications, and requests to the very handlers that answer the rounds of a modern one.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use mrtr_protocol::earlier::ElicitationCompleteParams;
use mrtr_protocol::jsonrpc::{write_error, write_result};
use mrtr_protocol::{
    CancelledParams, ElicitAction, ErrorObject, Incoming, InputRequest, JsonObject, Kind,
    Notification, Request, RequestId, Response, code, method,
};
use serde_json::value::RawValue;
use tokio::task::JoinSet;

use super::session::Core;
use crate::ask::{NoAnswer, Prompt};
use crate::error::{Abandoned, RequestError};
use crate::listen::Change;
use crate::notices::{self, Origin};
use crate::target::Target;

/// A host or person that will not answer, as the specification's page on sampling spells it.
const REFUSED: i64 = -1;

/// One stream of a server's messages, and the questions that came on it. When it is dropped, their prompts are withdrawn.
#[derive(Debug)]
pub(crate) struct Channel {
    core: Arc<Core>,
    /// The call that the stream belongs to.
    target: Option<Target>,
    prompts: JoinSet<()>,
    replies: JoinSet<()>,
    /// How many questions came on it; on a channel for everything, since the last request of this side.
    asked: usize,
    /// How many requests this side had begun by then.
    requests: u64,
    /// How often each page was accepted.
    pages: Arc<Mutex<HashMap<String, u32>>>,
}

impl Channel {
    /// So many short answers may be on their way at once. A server that sends more waits until it takes them.
    const MOST_REPLIES: usize = 16;
    /// What is allowed at once where the host sets no limit: somebody must look at each.
    const MOST_PROMPTS: usize = 256;
    /// Pages beyond so many are not counted.
    const MOST_PAGES: usize = 64;

    pub(crate) fn new(core: &Arc<Core>, target: Option<&Target>) -> Self {
        Self {
            core: Arc::clone(core),
            target: target.cloned(),
            prompts: JoinSet::new(),
            replies: JoinSet::new(),
            asked: 0,
            requests: 0,
            pages: Arc::default(),
        }
    }

    /// Takes a message; gives it back if it is a response.
    pub(crate) async fn take<'m>(
        &mut self,
        incoming: Incoming<'m>,
        origin: Origin<'_>,
    ) -> Option<Response<'m>> {
        match incoming {
            Incoming::Response(response) => return Some(response),
            Incoming::Notification(notification) => self.notified(&notification, origin),
            Incoming::Request(request) => self.requested(&request).await,
        }
        None
    }

    fn notified(&self, notification: &Notification<'_>, origin: Origin<'_>) {
        match notification.method.as_ref() {
            method::CANCELLED => {
                let params = notices::params::<CancelledParams>(notification);
                let id = params.map(|params| params.request_id);
                if let Some(prompt) = id.and_then(|id| self.core.open().remove(&id)) {
                    prompt.abort();
                }
            }
            method::ELICITATION_COMPLETE => {
                if let Some(params) = notices::params::<ElicitationCompleteParams>(notification) {
                    self.core.host.visits.done(&params.elicitation_id);
                }
            }
            _ => match Change::of(notification) {
                Some(change) => self.core.listeners.changed(&change),
                None => self.core.host.notices.take(notification, origin),
            },
        }
    }

    async fn requested(&mut self, request: &Request<'_>) {
        while self.prompts.try_join_next().is_some() {}
        while self.replies.try_join_next().is_some() {}
        if self.core.open().contains_key(&request.id) {
            // Perhaps a stream that was resumed; nobody is asked twice.
            tracing::debug!(id = %request.id, "a request with an id that is open is ignored");
            return;
        }
        match request.method.as_ref() {
            method::PING => self.reply(write_result(&request.id, "{}")).await,
            method::ELICITATION_CREATE | method::SAMPLING_CREATE_MESSAGE | method::ROOTS_LIST => {
                match self.prompt(request) {
                    Ok((prompt, page)) => self.put(request.id.clone(), prompt, page),
                    Err(error) => {
                        tracing::warn!(method = %request.method, %error.message, "a question of the server was not put to anyone");
                        self.reply(write_error(Some(&request.id), &error)).await;
                    }
                }
            }
            other => {
                tracing::debug!(method = %other, "the server sent a request that no client serves");
                let error = ErrorObject::new(code::METHOD_NOT_FOUND, "Method not found");
                self.reply(write_error(Some(&request.id), &error)).await;
            }
        }
    }

    /// Reads the question and finds its handler, and its URL if it is a page.
    fn prompt(&mut self, request: &Request<'_>) -> Result<(Prompt, Option<String>), ErrorObject> {
        let invalid = |text: String| ErrorObject::new(code::INVALID_PARAMS, text);
        let params = request.params.map(|raw| JsonObject::new(raw.to_owned()));
        let question = InputRequest {
            method: request.method.clone().into_owned(),
            params: params
                .transpose()
                .map_err(|error| invalid(error.to_string()))?,
        };
        let kind = question.kind();
        if !self.declared(&request.method) {
            return Err(ErrorObject::new(
                code::METHOD_NOT_FOUND,
                format!("{} was not declared", request.method),
            ));
        }
        let kind = kind.map_err(|error| invalid(error.to_string()))?;
        if !self.core.kinds.contains(kind) {
            return Err(invalid(format!(
                "questions of kind {kind} were not declared"
            )));
        }
        let begun = self.core.host.requests();
        if self.target.is_none() && begun != self.requests {
            (self.asked, self.requests) = (0, begun);
        }
        let limits = &self.core.host.limits;
        let at_once = limits.max_questions.unwrap_or(Self::MOST_PROMPTS);
        let in_all = limits.questions_of_a_call().unwrap_or(usize::MAX);
        if self.prompts.len() >= at_once || self.asked >= in_all {
            return Err(ErrorObject::new(
                code::INTERNAL_ERROR,
                "the client was asked too many questions",
            ));
        }
        let page = match kind {
            Kind::Url => question.as_url().ok().map(|page| page.url),
            _ => None,
        };
        let repeated = page
            .as_ref()
            .and_then(|url| self.pages().get(url).copied())
            .unwrap_or(0);
        let prompt = self
            .core
            .host
            .prepare(&request.id.to_string(), &question, repeated)
            .map_err(|why| match why {
                Abandoned::Question { problem, .. } => invalid(problem.to_string()),
                other => invalid(other.to_string()),
            })?;
        self.asked += 1;
        Ok((prompt, page))
    }

    /// Whether the capability behind a method was declared at all.
    fn declared(&self, method: &str) -> bool {
        match method {
            method::ELICITATION_CREATE => self.core.may_elicit(),
            method::SAMPLING_CREATE_MESSAGE => self.core.kinds.contains(Kind::Sampling),
            method::ROOTS_LIST => self.core.kinds.contains(Kind::Roots),
            _ => false,
        }
    }

    fn pages(&self) -> std::sync::MutexGuard<'_, HashMap<String, u32>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks in a task of its own, and sends the answer.
    fn put(&mut self, id: RequestId, prompt: Prompt, page: Option<String>) {
        let (core, pages) = (Arc::clone(&self.core), Arc::clone(&self.pages));
        let (target, own) = (self.target.clone(), id.clone());
        // The task ends no earlier than it is entered here: both hold the lock.
        let mut open = self.core.open();
        let task = self.prompts.spawn(async move {
            let _open = Open {
                core: &core,
                id: &own,
            };
            let answer = answer(&core, prompt, target.as_ref()).await;
            let body = match &answer {
                Ok(answer) => write_result(&own, answer.get()),
                Err(error) => write_error(Some(&own), error),
            };
            if let (Ok(answer), Some(url)) = (&answer, page)
                && let Ok(ElicitAction::Accept { .. }) = ElicitAction::parse(answer, Kind::Url)
            {
                let mut pages = pages.lock().unwrap_or_else(PoisonError::into_inner);
                if pages.len() < Self::MOST_PAGES || pages.contains_key(&url) {
                    *pages.entry(url).or_default() += 1;
                }
            }
            send(&core, &body).await;
        });
        open.insert(id, task);
    }

    async fn reply(&mut self, body: Vec<u8>) {
        if self.replies.len() >= Self::MOST_REPLIES {
            self.replies.join_next().await;
        }
        let core = Arc::clone(&self.core);
        self.replies.spawn(async move { send(&core, &body).await });
    }
}

/// Takes the request off the list of open ones, whatever ends it.
struct Open<'a> {
    core: &'a Core,
    id: &'a RequestId,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.core.open().remove(self.id);
    }
}

/// The handler's answer, checked. The time that it takes is nobody's time-out.
async fn answer(
    core: &Core,
    prompt: Prompt,
    target: Option<&Target>,
) -> Result<Box<RawValue>, ErrorObject> {
    let info = &core.server.server_info;
    let name = info.title.as_ref().unwrap_or(&info.name);
    let label = core.host.server_label(Some(name.clone()));
    let thought = core.host.thinking.begin();
    let put = AssertUnwindSafe(prompt.put(target, &label)).catch_unwind();
    let answered = put.await;
    drop(thought);
    match answered {
        Ok(Ok((_, raw))) => Ok(raw),
        // Why is for the host's own log: the server is not told what the host thinks of it.
        Ok(Err((key, NoAnswer::Refusal(refusal)))) => {
            tracing::info!(%key, %refusal, "the host refused to answer");
            Err(ErrorObject::new(REFUSED, "The host refused to answer"))
        }
        Ok(Err((key, NoAnswer::Invalid(problem)))) => {
            tracing::warn!(%key, %problem, "the answer does not fit the question and was not sent");
            Err(ErrorObject::new(
                code::INTERNAL_ERROR,
                "There is no valid answer",
            ))
        }
        Err(_) => {
            tracing::error!("a handler panicked");
            Err(ErrorObject::new(code::INTERNAL_ERROR, "There is no answer"))
        }
    }
}

/// Sends a response. A second copy does no harm: the server ignores what it does not wait for.
async fn send(core: &Core, body: &[u8]) {
    const TRIES: u32 = 3;
    for nth in 1..=TRIES {
        match core.tell(body.to_vec()).await {
            Ok(()) => return,
            Err(RequestError::Http { status }) if !status.is_server_error() => {
                tracing::warn!(%status, "the server did not take an answer");
                return;
            }
            Err(error) if nth < TRIES && !core.is_over() => {
                tracing::debug!(%error, "an answer is sent again");
                tokio::time::sleep(std::time::Duration::from_millis(250) * nth).await;
            }
            Err(error) => tracing::warn!(%error, "an answer could not be sent"),
        }
    }
}
