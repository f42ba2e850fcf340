//! A question that is being asked.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::Flow;
use super::cell::{Key, Known, Namespace};
use super::end::End;
use crate::question::{Answer, Question};

/// A question on its way to an [`Answer`]; made by [`Flow::ask`].
///
/// The question is open only while this future lives: the loser of a `select!` takes its question back.
#[must_use = "a question is asked when its future is awaited"]
pub struct Ask<'f, Q: Question> {
    flow: &'f Flow,
    key: Key,
    question: Q,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Over,
}

impl<'f, Q: Question> Ask<'f, Q> {
    pub(super) fn new(flow: &'f Flow, key: Key, question: Q) -> Self {
        Self {
            flow,
            key,
            question,
            state: State::New,
        }
    }

    /// Answers at once from the journal, or opens the question.
    fn begin(&mut self, waker: &Waker) -> Poll<Answer<Q::Output>> {
        self.state = State::Over;
        match self
            .flow
            .cell
            .take_key(Namespace::Question, "ask", &self.key)
        {
            true => self.look(waker),
            false => Poll::Pending,
        }
    }

    /// Looks for the answer, and opens the question (again) where there is none that fits.
    fn look(&mut self, waker: &Waker) -> Poll<Answer<Q::Output>> {
        let cell = &self.flow.cell;
        self.state = State::Over;
        let rendered = match self.question.render() {
            Ok(rendered) => rendered,
            Err(error) => {
                cell.end(End::Unaskable {
                    key: self.key.to_string(),
                    error,
                });
                return Poll::Pending;
            }
        };
        match cell.known(&self.key, &rendered) {
            Known::Declined => return Poll::Ready(Answer::Decline),
            Known::Cancelled => return Poll::Ready(Answer::Cancel),
            Known::Accepted(content) => match self.question.read(&content) {
                Some(content) => return Poll::Ready(Answer::Accept(content)),
                None => cell.forget(&self.key),
            },
            Known::Nothing => {}
        }
        if cell.declares(rendered.kind()) {
            self.state = State::Open;
            cell.open(self.key.clone(), rendered, waker.clone());
        } else {
            cell.end(End::Undeclared(rendered.kind()));
        }
        Poll::Pending
    }
}

/// No field is pinned: the future holds no other future.
impl<Q: Question> Unpin for Ask<'_, Q> {}

impl<Q: Question> Future for Ask<'_, Q> {
    type Output = Answer<Q::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.flow.cell.require_own_poll("ask", &self.key);
        match self.state {
            State::New => self.begin(cx.waker()),
            // In the modern era only the next round can bring an answer; in the earlier one the line does.
            State::Open if self.flow.cell.has_arrived(&self.key, cx.waker()) => {
                self.look(cx.waker())
            }
            State::Open | State::Over => Poll::Pending,
        }
    }
}

impl<Q: Question> Drop for Ask<'_, Q> {
    fn drop(&mut self) {
        if self.state == State::Open {
            self.flow.cell.withdraw(&self.key);
        }
    }
}

impl<Q: Question> fmt::Debug for Ask<'_, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("key", &self.key)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
