//! The runtime: polls a body until it is done, asks, or is over.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::cell::{AfterPoll, FlowCell, Open};
use super::end::End;

/// A handler's body.
pub(crate) type Body<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// How a run finished.
pub(crate) enum Finish<T> {
    /// The body completed.
    Done(T),
    /// The body waits for answers to these questions. In the modern era it has been dropped; in the earlier one it waits, and
    /// the run is to be polled on.
    Asks(Vec<Open>),
    /// The framework could not deliver what the body needs; it has been dropped.
    Ended(End),
    /// The body panicked, or a guard that it held did when it was dropped.
    Panicked,
}

/// One run of one body. The future resolves as soon as nothing but answers can take the body further, or, where the body
/// waits for them, as soon as there are questions to put.
pub(crate) struct Run<T> {
    cell: Arc<FlowCell>,
    body: Option<Body<T>>,
}

impl<T> Run<T> {
    pub(crate) fn new(cell: Arc<FlowCell>, body: Body<T>) -> Self {
        Self {
            cell,
            body: Some(body),
        }
    }

    /// Drops the body inside a poll of its own, so that a guard's `Drop` sees the flow it belongs to.
    fn drop_body(&mut self, cx: &Context<'_>) -> Result<(), ()> {
        let _entered = self.cell.enter(cx.waker());
        let body = self.body.take();
        catch_unwind(AssertUnwindSafe(|| drop(body))).map_err(drop)
    }
}

impl<T> Future for Run<T> {
    type Output = Finish<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Finish<T>> {
        let Self { cell, body } = &mut *self;
        let Some(running) = body.as_mut() else {
            return Poll::Pending;
        };
        let polled = {
            let _entered = cell.enter(cx.waker());
            catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx)))
        };
        let finish = match polled {
            // A misuse that made a task panic may well have made the body panic too; the misuse is the reason.
            Err(_panic) => cell.ended().map_or(Finish::Panicked, Finish::Ended),
            Ok(Poll::Ready(value)) => match cell.ended() {
                Some(end) => Finish::Ended(end),
                None => Finish::Done(value),
            },
            // The open questions are taken before the body goes: dropping it withdraws them.
            Ok(Poll::Pending) => match cell.after_poll() {
                AfterPoll::Waiting => return Poll::Pending,
                AfterPoll::Asks(open) if cell.line.is_some() => {
                    return Poll::Ready(Finish::Asks(open));
                }
                AfterPoll::Asks(open) => Finish::Asks(open),
                AfterPoll::Ended(end) => Finish::Ended(end),
            },
        };
        match self.drop_body(cx) {
            Ok(()) => Poll::Ready(finish),
            Err(()) => Poll::Ready(Finish::Panicked),
        }
    }
}
