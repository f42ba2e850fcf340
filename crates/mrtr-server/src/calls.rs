//! Requests that are being answered, by id, so that a client can cancel one.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use mrtr_protocol::RequestId;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::reply::Reply;

/// Requests of one client that are being answered at a time. Bodies have a limit of their own; this one bounds what is kept of
/// requests that wait.
const MOST: usize = 4_096;

/// The requests of one client.
#[derive(Default)]
pub(crate) struct Calls {
    open: Mutex<HashMap<RequestId, CancellationToken>>,
    all: CancellationToken,
    /// Told when the last one is over.
    none: Notify,
    ending: CancellationToken,
}

/// Why a request has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoPlace {
    #[error("Another request of this id is being answered.")]
    SameId,
    #[error("Too many requests are being answered; repeat this one later.")]
    TooMany,
}

/// A request's place among those that are being answered, given back when it is dropped.
pub(crate) struct Place {
    calls: Arc<Calls>,
    id: RequestId,
    cancelled: CancellationToken,
    turn: Turn,
}

/// When something may be said of a request: from its first message to before its answer, unless it is cancelled.
#[derive(Clone)]
pub(crate) struct Turn {
    cancelled: CancellationToken,
    over: Arc<Mutex<bool>>,
}

impl Turn {
    /// Says something, while it may be said; no answer leaves meanwhile.
    pub(crate) fn say(&self, say: impl FnOnce() -> bool) -> bool {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        !*over && !self.cancelled.is_cancelled() && say()
    }

    fn end(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

impl Calls {
    fn open(&self) -> MutexGuard<'_, HashMap<RequestId, CancellationToken>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a request of this id.
    pub(crate) fn place(self: &Arc<Self>, id: &RequestId) -> Result<Place, NoPlace> {
        self.place_under(id, self.all.child_token())
    }

    /// A place for a request that ends by itself when the client is [let go of](Self::close), and has something to say then.
    pub(crate) fn lasting_place(self: &Arc<Self>, id: &RequestId) -> Result<Place, NoPlace> {
        self.place_under(id, CancellationToken::new())
    }

    fn place_under(
        self: &Arc<Self>,
        id: &RequestId,
        cancelled: CancellationToken,
    ) -> Result<Place, NoPlace> {
        let mut open = self.open();
        if open.contains_key(id) {
            return Err(NoPlace::SameId);
        }
        if open.len() >= MOST {
            return Err(NoPlace::TooMany);
        }
        open.insert(id.clone(), cancelled.clone());
        Ok(Place {
            calls: Arc::clone(self),
            id: id.clone(),
            turn: Turn {
                cancelled: cancelled.clone(),
                over: Arc::default(),
            },
            cancelled,
        })
    }

    /// Cancels one, if it is being answered.
    pub(crate) fn cancel(&self, id: &RequestId) {
        if let Some(call) = self.open().get(id) {
            tracing::debug!(%id, "a request is cancelled by its client");
            call.cancel();
        }
    }

    /// Tells those that last to end; the others go on.
    pub(crate) fn end_lasting(&self) {
        self.ending.cancel();
    }

    /// Cancels all of them, and all that come; those that last are told to end.
    pub(crate) fn close(&self) {
        self.end_lasting();
        self.all.cancel();
    }

    /// Resolves when none is being answered.
    pub(crate) async fn ended(&self) {
        loop {
            let none = self.none.notified();
            if !self.is_busy() {
                return;
            }
            none.await;
        }
    }

    /// Tells when the client is let go of.
    pub(crate) fn ending(&self) -> CancellationToken {
        self.ending.clone()
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.open().is_empty()
    }
}

impl Place {
    /// For whoever sends something about the request.
    pub(crate) fn turn(&self) -> Turn {
        self.turn.clone()
    }

    /// Tells whether the request is cancelled.
    pub(crate) fn cancelled(&self) -> CancellationToken {
        self.cancelled.clone()
    }

    /// Runs the request until it is answered. `None`: it was cancelled, and is gone. Whatever panics on the way, whoever waits for
    /// the answer is told.
    pub(crate) async fn run(&self, answer: impl Future<Output = Reply>) -> Option<Reply> {
        let mut work = pin!(async move {
            tokio::select! {
                // What is cancelled goes no step further.
                biased;
                () = self.cancelled.cancelled() => None,
                answer = answer => Some(answer),
            }
        });
        poll_fn(|cx| {
            catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))).unwrap_or_else(|_panic| {
                tracing::error!(
                    "a request's answer panicked, or what it held did when it was dropped"
                );
                let cancelled = self.cancelled.is_cancelled();
                Poll::Ready(
                    (!cancelled).then(|| Reply::internal("The request could not be answered.")),
                )
            })
        })
        .await
    }
}

/// Nothing more is said of the request: drop this before its answer is sent.
impl Drop for Place {
    fn drop(&mut self) {
        self.turn.end();
        let mut open = self.calls.open();
        open.remove(&self.id);
        if open.is_empty() {
            self.calls.none.notify_waiters();
        }
    }
}
