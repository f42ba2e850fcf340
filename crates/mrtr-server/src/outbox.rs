//! Messages that leave before a request's result: notifications, and in the earlier era the server's own requests.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mrtr_protocol::notification::{LogLevel, ProgressToken};

use crate::line::Line;

/// Takes the messages of one request, in order. It never waits: whoever sends does so from inside a handler.
pub(crate) trait Outlet: Send + Sync {
    /// Takes one message, in one line. False when there is no room for it or nobody will ever read it.
    fn send(&self, message: Vec<u8>) -> bool;

    /// Lets go of the connection; the client is to come back for the rest after `retry`. Nothing where that cannot be.
    fn hang_up(&self, retry: Duration) {
        let _ = retry;
    }
}

/// An outlet that is shared by whoever may send for a request.
pub(crate) type Outbox = Arc<dyn Outlet>;

/// How a request is connected to its client while it runs.
#[derive(Clone, Default)]
pub(crate) struct Link {
    /// Absent where nothing can be sent before the result.
    pub(crate) outbox: Option<Outbox>,
    /// What the client wants progress to be reported under.
    pub(crate) progress: Option<ProgressToken>,
    /// The least severe message that the client wants to be sent.
    pub(crate) log: LogGate,
    /// In the earlier era: how a question is put while the call stays open.
    pub(crate) line: Option<Arc<Line>>,
}

impl Link {
    /// Whether this is a request of the earlier era.
    pub(crate) fn is_earlier(&self) -> bool {
        self.line.is_some()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("outbox", &self.outbox.is_some())
            .field("earlier", &self.is_earlier())
            .finish_non_exhaustive()
    }
}

/// The least severe log message that is sent to the client.
#[derive(Debug, Clone, Default)]
pub(crate) enum LogGate {
    /// None at all: the request did not ask for any.
    #[default]
    Shut,
    /// This one, as the request says.
    From(LogLevel),
    /// What the session was told last (`logging/setLevel`).
    Session(Arc<Mutex<LogLevel>>),
}

impl LogGate {
    pub(crate) fn lets(&self, level: LogLevel) -> bool {
        match self {
            Self::Shut => false,
            Self::From(least) => level >= *least,
            Self::Session(least) => level >= *least.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// Messages of one modern request that wait to be written.
///
/// Bounded, because a client may read as slowly as it likes: what finds no room is dropped, since nothing that is sent before
/// a modern result must arrive.
#[derive(Default)]
pub(crate) struct Pipe(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
    reader: Option<Waker>,
    /// The result is there: nothing comes after it.
    closed: bool,
}

/// Most messages, and most bytes of them, that wait for a slow reader of one request.
const MESSAGES: usize = 1_024;
const BYTES: usize = 1 << 20;

impl Pipe {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next message, if one waits; the reader is woken by the next otherwise.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<Vec<u8>> {
        let mut waiting = self.waiting();
        match waiting.messages.pop_front() {
            Some(message) => {
                waiting.bytes -= message.len();
                Poll::Ready(message)
            }
            None => {
                waiting.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Takes no more: the request has its result, whoever may still hold the other end.
    pub(crate) fn close(&self) {
        self.waiting().closed = true;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting().messages.is_empty()
    }

    /// Resolves when a message waits.
    pub(crate) fn poll_filled(&self, cx: &Context<'_>) -> Poll<()> {
        let mut waiting = self.waiting();
        if waiting.messages.is_empty() {
            waiting.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

impl Outlet for Pipe {
    fn send(&self, message: Vec<u8>) -> bool {
        let mut waiting = self.waiting();
        if waiting.closed
            || waiting.messages.len() >= MESSAGES
            || waiting.bytes + message.len() > BYTES
        {
            return false;
        }
        waiting.bytes += message.len();
        waiting.messages.push_back(message);
        if let Some(reader) = waiting.reader.take() {
            reader.wake();
        }
        true
    }
}

/// A message in one line: newlines in JSON stand between tokens only, where a space does as well.
pub(crate) fn in_one_line(mut message: Vec<u8>) -> Vec<u8> {
    for byte in &mut message {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waker() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    #[test]
    fn a_pipe_gives_what_it_took_and_is_bounded() {
        let pipe = Pipe::default();
        assert!(pipe.poll_next(&waker()).is_pending());
        assert!(pipe.send(b"a".to_vec()) && pipe.send(b"b".to_vec()));
        assert!(pipe.poll_filled(&waker()).is_ready());
        assert_eq!(pipe.poll_next(&waker()), Poll::Ready(b"a".to_vec()));
        assert_eq!(pipe.poll_next(&waker()), Poll::Ready(b"b".to_vec()));
        assert!(pipe.is_empty());
        assert_eq!(
            (0..2_000).filter(|_| pipe.send(vec![b'x'])).count(),
            MESSAGES
        );
        let pipe = Pipe::default();
        let large = || vec![b'x'; BYTES / 2];
        assert!(pipe.send(large()) && pipe.send(large()) && !pipe.send(vec![b'x']));
        assert!(pipe.poll_next(&waker()).is_ready());
        assert!(pipe.send(vec![b'x']));
    }

    #[test]
    fn a_level_lets_the_more_severe_ones_through() {
        assert!(!LogGate::Shut.lets(LogLevel::Emergency));
        let gate = LogGate::From(LogLevel::Warning);
        assert!(gate.lets(LogLevel::Warning) && gate.lets(LogLevel::Error));
        assert!(!gate.lets(LogLevel::Notice));
        let level = Arc::new(Mutex::new(LogLevel::Error));
        let gate = LogGate::Session(Arc::clone(&level));
        assert!(!gate.lets(LogLevel::Info));
        *level.lock().unwrap() = LogLevel::Debug;
        assert!(gate.lets(LogLevel::Info));
    }
}
