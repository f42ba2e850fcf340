//! Streams of the earlier era: a request's messages, kept until the client has had them.
//!
//! A client whose connection broke comes back with the id of the last event that it saw, and gets the rest (revision 2025-11-25,
//! `basic/transports`, "Resumability and Redelivery"). So messages go into a store and not to a connection; whoever reads is one
//! reader of it at a time. Stores are bounded: what is oldest goes first, and a response goes last.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::future::poll_fn;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::sse::Source;
use crate::listen::in_session;
use crate::outbox::Outlet;
use crate::session::Session;

/// Most bytes that one stream keeps, beside its responses.
const STREAM_BYTES: usize = 1 << 20;

/// Most bytes that are kept of what belongs to no request. Whoever begins anew is told all of that again, which does no harm: each
/// says "look again", and one that was lost with its connection would be missed.
const STANDALONE_BYTES: usize = 16 << 10;

/// Streams that are kept after their last message, for clients that did not see it, and most bytes of all of them.
const ENDED: usize = 16;
const ENDED_BYTES: usize = 256 << 10;

/// The stream of what belongs to no request.
const STANDALONE: u64 = 0;

/// The streams of one session.
#[derive(Default)]
pub(super) struct Streams(Mutex<Table>);

#[derive(Default)]
struct Table {
    last: u64,
    streams: BTreeMap<u64, Arc<Stream>>,
    /// Those that have had their last message, in the order in which they had it.
    ended: VecDeque<u64>,
    /// The session is over: no stream stays open.
    over: bool,
}

/// The id of an event: the stream that it belongs to, and its place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventId {
    stream: u64,
    place: u64,
}

impl FromStr for EventId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (stream, place) = text.split_once('-').ok_or(())?;
        Ok(Self {
            stream: stream.parse().map_err(drop)?,
            place: place.parse().map_err(drop)?,
        })
    }
}

impl EventId {
    /// Whether it was an event of the stream of what belongs to no request.
    pub(super) fn is_standalone(self) -> bool {
        self.stream == STANDALONE
    }
}

impl Streams {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream for `responses` responses.
    pub(super) fn open(&self, responses: usize) -> Arc<Stream> {
        let mut table = self.table();
        table.last += 1;
        let id = table.last;
        let stream = Arc::new(Stream::new(id, Some(responses)));
        table.streams.insert(id, Arc::clone(&stream));
        stream
    }

    /// Takes note of a stream that may have had its last message, and lets go of those that ended longest ago until what is left is
    /// within bounds. The last one stays: a call that took long is the one whose client is the likeliest to come back.
    pub(super) fn trim(&self, stream: &Stream) {
        let over = stream.log().expected == Some(0);
        let mut table = self.table();
        let Table { streams, ended, .. } = &mut *table;
        if over && streams.contains_key(&stream.id) && !ended.contains(&stream.id) {
            ended.push_back(stream.id);
        }
        let bytes_of = |stream: &Arc<Stream>| stream.log().bytes;
        let mut bytes: usize = ended
            .iter()
            .filter_map(|id| streams.get(id).map(bytes_of))
            .sum();
        while ended.len() > 1 && (ended.len() > ENDED || bytes > ENDED_BYTES) {
            let oldest = ended.pop_front().and_then(|id| streams.remove(&id));
            bytes -= oldest.as_ref().map_or(0, bytes_of);
        }
    }

    /// The stream of what belongs to no request, which is always there.
    pub(super) fn standalone(&self) -> Arc<Stream> {
        let mut table = self.table();
        // Whoever comes while the session ends sees the end.
        let expected = table.over.then_some(0);
        Arc::clone(
            table
                .streams
                .entry(STANDALONE)
                .or_insert_with(|| Arc::new(Stream::new(STANDALONE, expected))),
        )
    }

    /// The stream of this event.
    pub(super) fn of(&self, event: EventId) -> Option<Arc<Stream>> {
        self.table().streams.get(&event.stream).cloned()
    }

    /// Lets go of a stream whose messages were all sent by other means.
    pub(super) fn forget(&self, stream: &Stream) {
        let mut table = self.table();
        table.streams.remove(&stream.id);
        table.ended.retain(|id| *id != stream.id);
    }

    /// Ends the stream of what belongs to no request; those of requests end with them.
    pub(super) fn end_standalone(&self) {
        let standalone = self.standalone();
        let mut log = standalone.log();
        log.expected = Some(0);
        log.wake();
    }

    /// Ends all streams: their readers see the end.
    pub(super) fn end(&self) {
        let mut table = self.table();
        table.over = true;
        for stream in table.streams.values() {
            let mut log = stream.log();
            if log.expected != Some(0) {
                log.expected = Some(0);
                // A response is missing: what there is of the answer is no JSON.
                log.only_responses = false;
            }
            log.wake();
        }
    }

    /// Whether anybody reads one of them.
    pub(super) fn are_read(&self) -> bool {
        self.table()
            .streams
            .values()
            .any(|stream| stream.log().is_read)
    }
}

/// One stream.
pub(super) struct Stream {
    id: u64,
    log: Mutex<Log>,
}

struct Log {
    events: VecDeque<Event>,
    bytes: usize,
    next: u64,
    /// Responses that are still to come; none for a stream that has no end of its own.
    expected: Option<usize>,
    /// Nothing but responses so far: the answer may still be plain JSON.
    only_responses: bool,
    /// Let go of the connection, once what is there has been sent.
    hang_up: Option<Duration>,
    /// Counts readers: only the last one reads.
    reader: u64,
    is_read: bool,
    waker: Option<Waker>,
}

struct Event {
    place: u64,
    message: Vec<u8>,
    is_response: bool,
}

impl Log {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn push(&mut self, message: Vec<u8>, is_response: bool) {
        let most = match self.expected {
            None => STANDALONE_BYTES,
            Some(_) => STREAM_BYTES,
        };
        while self.bytes + message.len() > most {
            let Some(oldest) = self.events.iter().position(|event| !event.is_response) else {
                break;
            };
            if let Some(event) = self.events.remove(oldest) {
                self.bytes -= event.message.len();
                tracing::debug!("a stream is full; its oldest message is let go of");
            }
        }
        self.bytes += message.len();
        self.events.push_back(Event {
            place: self.next,
            message,
            is_response,
        });
        self.next += 1;
        self.wake();
    }
}

/// How a request is answered over HTTP.
pub(super) enum Form {
    /// Its responses and nothing else: as JSON.
    Json(Vec<Vec<u8>>),
    /// As a stream of events.
    Events,
}

impl Stream {
    fn new(id: u64, expected: Option<usize>) -> Self {
        Self {
            id,
            log: Mutex::new(Log {
                events: VecDeque::new(),
                bytes: 0,
                next: 1,
                expected,
                only_responses: true,
                hang_up: None,
                reader: 0,
                is_read: false,
                waker: None,
            }),
        }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of the responses, or word that it will not come.
    pub(super) fn respond(&self, response: Option<Vec<u8>>) {
        let mut log = self.log();
        if log.expected == Some(0) {
            return;
        }
        log.expected = log.expected.map(|expected| expected - 1);
        match response {
            Some(response) => log.push(response, true),
            None => {
                log.only_responses = false;
                log.wake();
            }
        }
    }

    /// Waits for what comes first: all responses, or something else.
    pub(super) async fn form(&self) -> Form {
        poll_fn(|cx| {
            let mut log = self.log();
            // Somebody who guessed an event's id reads it already.
            if !log.only_responses || log.reader > 0 {
                return Poll::Ready(Form::Events);
            }
            if log.expected == Some(0) {
                let responses = log.events.drain(..).map(|event| event.message).collect();
                return Poll::Ready(Form::Json(responses));
            }
            log.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// A reader from after `seen`, in place of any reader before it. `primes`: the client is told first how to come back.
    pub(super) fn read(self: &Arc<Self>, seen: Option<EventId>, primes: bool) -> Reader {
        let mut log = self.log();
        log.reader += 1;
        log.is_read = true;

        // A reader before this one ends.
        log.wake();
        Reader {
            generation: log.reader,
            next: seen.map_or(1, |seen| seen.place.saturating_add(1)),
            primes: primes && seen.is_none(),
            can_return: seen.is_some(),
            changes: None,
            stream: Arc::clone(self),
        }
    }
}

impl Outlet for Stream {
    fn send(&self, message: Vec<u8>) -> bool {
        let mut log = self.log();
        if log.expected == Some(0) || message.len() > STREAM_BYTES {
            return false;
        }
        log.only_responses = false;
        log.push(message, false);
        true
    }

    fn hang_up(&self, retry: Duration) {
        let mut log = self.log();
        if log.expected != Some(0) {
            log.only_responses = false;
            log.hang_up = Some(retry);
            log.wake();
        }
    }
}

/// Reads one stream, as events.
pub(super) struct Reader {
    stream: Arc<Stream>,
    generation: u64,
    next: u64,
    primes: bool,
    /// The client knows an event's id, with which it can come back.
    can_return: bool,
    /// Whose changes are told on this stream.
    changes: Option<Arc<Session>>,
}

impl Reader {
    /// The same; if `told`, it is told what the session has subscribed to, too. Changes become events when they are read, not
    /// before: while nobody reads, they are marks.
    pub(super) fn with_changes(mut self, told: bool, session: &Arc<Session>) -> Self {
        self.changes = told.then(|| Arc::clone(session));
        self
    }
}

impl Source for Reader {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let id = self.stream.id;
        let mut log = self.stream.log();
        if log.reader != self.generation {
            return Poll::Ready(None);
        }
        if std::mem::take(&mut self.primes) {
            self.can_return = true;
            let place = self.next - 1;
            return Poll::Ready(Some(format!("id: {id}-{place}\ndata: \n\n").into_bytes()));
        }
        let mut next = log.events.partition_point(|event| event.place < self.next);
        if next == log.events.len()
            && log.expected != Some(0)
            && let Some(session) = &self.changes
            && let Poll::Ready(change) = session.poll_change(cx)
        {
            log.push(in_session(&change), false);
            next = log.events.len() - 1;
        }
        if let Some(event) = log.events.get(next) {
            self.next = event.place + 1;
            self.can_return = true;
            let mut text = Vec::with_capacity(event.message.len() + 64);
            text.extend_from_slice(
                format!("id: {id}-{}\nevent: message\ndata: ", event.place).as_bytes(),
            );
            text.extend_from_slice(&event.message);
            text.extend_from_slice(b"\n\n");
            return Poll::Ready(Some(text));
        }
        if log.expected == Some(0) {
            return Poll::Ready(None);
        }
        if self.can_return
            && let Some(retry) = log.hang_up.take()
        {
            // The next poll finds another reader, or the end.
            log.reader += 1;
            log.is_read = false;
            let mut text = String::new();
            let _ = write!(text, "retry: {}\n\n", retry.as_millis());
            return Poll::Ready(Some(text.into_bytes()));
        }
        log.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut log = self.stream.log();
        if log.reader == self.generation {
            log.is_read = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_while_the_session_ends_sees_the_end() {
        let streams = Streams::default();
        streams.end();
        let mut reader = streams.standalone().read(None, false);
        let polled = reader.poll_event(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Ready(None));
    }

    fn events(reader: &mut Reader) -> usize {
        let mut cx = Context::from_waker(Waker::noop());
        std::iter::from_fn(|| match reader.poll_event(&mut cx) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        })
        .count()
    }

    #[test]
    fn a_stream_that_nobody_reads_keeps_so_much_and_its_response() {
        let streams = Streams::default();
        let stream = streams.open(1);
        for _ in 0..20 {
            assert!(stream.send(vec![b'x'; STREAM_BYTES / 10]));
        }
        assert!(stream.log().bytes <= STREAM_BYTES);
        assert!(!stream.send(vec![b'x'; STREAM_BYTES + 1]));
        stream.respond(Some(b"the response".to_vec()));
        assert!(!stream.send(b"after it".to_vec()));
        assert_eq!(stream.log().events.len(), 10);
        let mut reader = stream.read(None, false);
        let mut cx = Context::from_waker(Waker::noop());
        let mut last = Vec::new();
        while let Poll::Ready(Some(event)) = reader.poll_event(&mut cx) {
            last = event;
        }
        assert!(String::from_utf8(last).unwrap().contains("the response"));
    }

    #[test]
    fn what_belongs_to_no_request_is_kept_within_bounds_and_told_from_where_it_was_left() {
        let streams = Streams::default();
        for _ in 0..3 {
            assert!(streams.standalone().send(b"{}".to_vec()));
        }
        assert_eq!(events(&mut streams.standalone().read(None, false)), 3);
        let seen = "0-1".parse().unwrap();
        assert_eq!(events(&mut streams.standalone().read(Some(seen), false)), 2);
        for _ in 0..100 {
            streams.standalone().send(vec![b'x'; STANDALONE_BYTES / 10]);
        }
        assert!(streams.standalone().log().bytes <= STANDALONE_BYTES);
    }
}
