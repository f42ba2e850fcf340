//! The earlier era's way to ask: a request of the server's own, sent on the call's stream while the call stays open.
//!
//! Questions that wait are keyed by their session and the id under which they were put, so that an answer counts in the
//! session that was asked and nowhere else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mrtr_protocol::earlier::{self, EarlierRevision};
use mrtr_protocol::jsonrpc::{write_notification, write_request};
use mrtr_protocol::notification::CancelledParams;
use mrtr_protocol::{ErrorObject, InputRequest, RequestId, method};
use serde::Serialize;
use serde_json::Map;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::access::{Access, Granted};
use crate::flow::cell::{FlowCell, Key};
use crate::outbox::{Outbox, in_one_line};

/// Under which id a question was put.
pub(crate) type QuestionId = i64;

/// Questions of one session that may wait at a time. A client's person does not answer more.
const MOST: usize = 256;

/// Where the questions of one call are put.
pub(crate) struct Line {
    revision: EarlierRevision,
    outbox: Outbox,
    questions: Arc<Questions>,
    /// The call is cancelled: what is answered from here on comes too late.
    cancelled: CancellationToken,
    /// The session takes no more answers, because the server is shutting down.
    winding_up: CancellationToken,
    /// What an answer needs, as the call does.
    access: Option<Arc<Access>>,
}

impl Line {
    pub(crate) fn new(
        revision: EarlierRevision,
        outbox: Outbox,
        questions: Arc<Questions>,
        cancelled: CancellationToken,
        winding_up: CancellationToken,
        access: Option<Arc<Access>>,
    ) -> Self {
        Self {
            revision,
            outbox,
            questions,
            cancelled,
            winding_up,
            access,
        }
    }

    /// Resolves when nobody will be able to answer any more.
    pub(crate) async fn winds_up(&self) {
        self.winding_up.cancelled().await;
    }

    /// Sends a question; its answer goes to `cell`. `None`: it cannot be sent.
    pub(crate) fn put(
        &self,
        cell: &Arc<FlowCell>,
        key: &Key,
        request: &InputRequest,
    ) -> Option<QuestionId> {
        let id = self.questions.expect(Waiting {
            cell: Arc::downgrade(cell),
            key: key.clone(),
            cancelled: self.cancelled.clone(),
            access: self.access.clone(),
        })?;
        let request = earlier::question(self.revision, request);
        let sent = write(id, &request).is_some_and(|message| self.outbox.send(message));
        if !sent {
            self.questions.forget(id);
        }
        sent.then_some(id)
    }

    /// Nobody waits for the answer any more, and the client need not ask on.
    pub(crate) fn withdraw(&self, id: QuestionId) {
        if !self.questions.forget(id) {
            return;
        }
        let cancelled = CancelledParams::new(RequestId::from(id));
        self.notify(method::CANCELLED, &cancelled);
    }

    /// Sends a notification on the call's stream.
    pub(crate) fn notify(&self, method: &str, params: &impl Serialize) {
        if let Ok(message) = write_notification(method, params) {
            self.outbox.send(in_one_line(message));
        }
    }
}

/// The question as a request of the server's own.
fn write(id: QuestionId, request: &InputRequest) -> Option<Vec<u8>> {
    let id = RequestId::from(id);
    let written = match &request.params {
        Some(params) => write_request(&id, &request.method, params),
        None => write_request(&id, &request.method, &Map::new()),
    };
    written.ok().map(in_one_line)
}

/// The questions of one session that wait for their answers.
#[derive(Default)]
pub(crate) struct Questions(Mutex<Open>);

#[derive(Default)]
struct Open {
    last: QuestionId,
    waiting: HashMap<RequestId, Waiting>,
}

struct Waiting {
    cell: Weak<FlowCell>,
    key: Key,
    cancelled: CancellationToken,
    access: Option<Arc<Access>>,
}

/// What became of a response.
#[derive(Debug)]
pub(crate) enum Answered {
    Taken,
    /// No question of this id waits in this session.
    Unknown,
    /// Whoever sent it was not granted what the call needs. The question waits on.
    Insufficient(Arc<Access>),
}

impl Questions {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn expect(&self, question: Waiting) -> Option<QuestionId> {
        let mut open = self.open();
        if open.waiting.len() >= MOST {
            tracing::warn!(
                most = MOST,
                "a session has as many open questions as it may"
            );
            return None;
        }
        open.last += 1;
        let id = open.last;
        open.waiting.insert(id.into(), question);
        Some(id)
    }

    fn forget(&self, id: QuestionId) -> bool {
        self.open().waiting.remove(&id.into()).is_some()
    }

    /// Takes a response of the client's.
    pub(crate) fn answer(
        &self,
        id: &RequestId,
        outcome: Result<&RawValue, ErrorObject>,
        granted: &Granted,
    ) -> Answered {
        let mut open = self.open();
        let access = open
            .waiting
            .get(id)
            .and_then(|waiting| waiting.access.as_ref());
        if let Some(access) = access.filter(|access| !access.permits(granted)) {
            return Answered::Insufficient(Arc::clone(access));
        }
        let Some(question) = open.waiting.remove(id) else {
            return Answered::Unknown;
        };
        drop(open);
        let Waiting {
            cell,
            key,
            cancelled,
            access: _,
        } = question;
        // The call may not have noticed yet, and must not act on this any more.
        if cancelled.is_cancelled() {
            return Answered::Unknown;
        }
        if let Some(cell) = cell.upgrade() {
            cell.answered(&key, outcome);
        }
        Answered::Taken
    }
}
