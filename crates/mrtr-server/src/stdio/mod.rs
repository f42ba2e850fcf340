//! One client over lines: standard input and output, or anything else that carries bytes both ways.
//!
//! Both eras are served on one connection. A message of the modern era says so in `_meta`; the earlier one opens with `initialize`.
//!
//! Specification: `basic/transports/stdio`; revision 2025-11-25, `basic/transports`, "stdio".

#[cfg(feature = "stdio")]
mod standard;

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::StatusCode;
use mrtr_ledger::Account;
use mrtr_protocol::jsonrpc::{is_batch, parse_batch, write_batch, write_error};
use mrtr_protocol::notification::CancelledParams;
use mrtr_protocol::object::read;
use mrtr_protocol::{
    ErrorObject, Incoming, Members, Notification, Request, RequestId, RequestMeta, code, method,
    strict,
};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::access::Identity;
use crate::call::Requester;
use crate::calls::{Calls, Place, Turn};
use crate::hub::Subscriber;
use crate::line::Answered;
use crate::listen::{Listening, in_session};
use crate::methods::{self, not_found};
use crate::modern::{self, Declared};
use crate::outbox::{Link, Outbox, Outlet, in_one_line};
use crate::reply::Reply;
use crate::server::{Inner, Server};
use crate::session::{Session, no_sessions};

/// Messages that wait to be written. Notifications beyond it are dropped; responses wait.
const WAITING: usize = 1_024;

/// How long calls may go on when the client has closed its end.
const GRACE: Duration = Duration::from_secs(2);

/// Messages in one batch. Only revision 2025-03-26 has batches.
const BATCH: usize = 64;

impl Server {
    /// Serves one client over these until `reader` ends or `shutdown` resolves, then lets calls settle for
    /// [`Limits::shutdown`](crate::Limits::shutdown) at most. Calls that still run when `reader` ends have 2 seconds, and are cancelled then.
    ///
    /// Each message is one line of at most [`Limits::body`](crate::Limits::body) bytes; longer ones are refused and skipped. Whose calls
    /// these are is said by `identity`, a [`Principal`](mrtr_state::Principal) or an [`Identity`] with scopes: nothing that is read can change it,
    /// and the builder's authenticator is not asked. What it was not granted is not found.
    ///
    /// **Not guaranteed:** that this connection's end waits for its own calls alone: what other clients of the same server have recorded
    /// and not settled is waited for too, for as long. Nor that nobody else writes to the same place; `serve_stdio` sees to that for standard
    /// output.
    ///
    /// # Errors
    ///
    /// When reading fails.
    ///
    /// Specification: `basic/transports/stdio`.
    pub async fn serve_lines(
        &self,
        mut reader: impl AsyncRead + Unpin + Send,
        writer: impl AsyncWrite + Unpin + Send + 'static,
        identity: impl Into<Identity>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        let (out, messages) = mpsc::channel(WAITING);
        let mut written = tokio::spawn(write_lines(writer, messages));
        let writing = written.abort_handle();
        let connection = Connection::new(&self.inner, identity.into(), out);
        let mut lines = Lines::new(self.inner.limits.body);
        let mut shutdown = pin!(shutdown);
        let mut chunk = vec![0; 16 << 10];
        let mut ended = false;
        let read = loop {
            let read = tokio::select! {
                biased;
                () = &mut shutdown => break Ok(()),
                read = reader.read(&mut chunk) => read,
            };
            match read {
                Ok(n) => {
                    ended = n == 0;
                    // The end of the input ends its last line too.
                    let chunk = match ended {
                        true => &b"\n"[..],
                        false => chunk.get(..n).unwrap_or_default(),
                    };
                    let taken = async {
                        for line in lines.push(chunk) {
                            connection.has_room().await;
                            connection.take(line).await;
                        }
                    };
                    tokio::select! {
                        biased;
                        () = &mut shutdown => break Ok(()),
                        () = taken => {}
                    }
                    if ended {
                        break Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        // What came before the end is answered; nobody can answer a question any more.
        connection.close(ended).await;
        let written = tokio::time::timeout(self.inner.limits.shutdown, &mut written);
        if written.await.is_err() {
            writing.abort();
            tracing::warn!("the client does not read; what waits for it is dropped");
        }
        read
    }

    /// Serves one client over the process's standard input and output, in its user's name, until standard input ends or `shutdown`
    /// resolves.
    ///
    /// From here on what anything in this process prints to standard output goes to standard error, so that nothing but messages is on
    /// it, and what is read from standard input is nothing, so that no child takes the client's messages. Log to standard error.
    ///
    /// **Not guaranteed:** that everybody who starts the process is who they say; the process's user is the principal. On systems other
    /// than Unix standard output is not guarded: there a handler must not print.
    ///
    /// # Errors
    ///
    /// When standard input or output cannot be had.
    ///
    /// Specification: `basic/transports/stdio`.
    #[cfg(feature = "stdio")]
    pub async fn serve_stdio(&self, shutdown: impl Future<Output = ()> + Send) -> io::Result<()> {
        let (reader, writer) = standard::take()?;
        self.serve_lines(
            reader,
            writer,
            Identity::from(standard::user()).with_every_scope(),
            shutdown,
        )
        .await
    }
}

/// A line, or word that one was too long.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Whole(Vec<u8>),
    TooLong,
}

/// Lines out of chunks, wherever those are cut.
struct Lines {
    limit: usize,
    line: Vec<u8>,
    /// The line is too long already; what is left of it is skipped.
    skips: bool,
}

impl Lines {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            skips: false,
        }
    }

    /// The lines that this chunk completes; empty ones are nobody's message.
    fn push(&mut self, chunk: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut parts = chunk.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            let ends = parts.peek().is_some();
            if !self.skips {
                self.line.extend_from_slice(part);
                // A line's end may be two bytes.
                self.skips = self.line.len() > self.limit.saturating_add(1);
            }
            if self.skips {
                self.line = Vec::new();
            }
            if !ends {
                break;
            }
            let mut line = std::mem::take(&mut self.line);
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            if std::mem::take(&mut self.skips) || line.len() > self.limit {
                lines.push(Line::TooLong);
            } else if !line.trim_ascii().is_empty() {
                lines.push(Line::Whole(line));
            }
        }
        lines
    }
}

/// Writes each message as a line, until nobody sends any more or nobody reads.
async fn write_lines(mut writer: impl AsyncWrite + Unpin, mut messages: mpsc::Receiver<Vec<u8>>) {
    while let Some(mut message) = messages.recv().await {
        message.push(b'\n');
        let written = async {
            writer.write_all(&message).await?;
            writer.flush().await
        };
        if let Err(error) = written.await {
            tracing::debug!(%error, "the client does not read any more");
            return;
        }
    }
    let _ = writer.shutdown().await;
}

/// One client.
struct Connection {
    inner: Arc<Inner>,
    identity: Identity,
    account: Account,
    out: mpsc::Sender<Vec<u8>>,
    calls: Arc<Calls>,
    /// The earlier era's session, once there is one.
    session: OnceLock<Arc<Session>>,
    tells_changes: OnceLock<()>,
}

/// Takes the messages of one request.
struct ToClient {
    out: mpsc::Sender<Vec<u8>>,
    /// Nothing is said of a request that was answered or cancelled.
    turn: Turn,
}

impl Outlet for ToClient {
    fn send(&self, message: Vec<u8>) -> bool {
        self.turn.say(|| self.out.try_send(message).is_ok())
    }
}

impl Connection {
    fn new(inner: &Arc<Inner>, identity: Identity, out: mpsc::Sender<Vec<u8>>) -> Self {
        Self {
            inner: Arc::clone(inner),
            account: Account::of(&identity.principal),
            identity,
            out,
            calls: Arc::default(),
            session: OnceLock::new(),
            tells_changes: OnceLock::new(),
        }
    }

    /// Waits until the client has read enough for one more answer. The answers that wait for room are as many as the requests that
    /// came: whoever does not read is not read from either.
    async fn has_room(&self) {
        // Room is given in the order in which it was asked for, so that whatever waits goes first.
        drop(self.out.reserve().await);
    }

    async fn say(&self, message: Vec<u8>) {
        // An error here is a client that has gone, which the reader will see.
        let _ = self.out.send(in_one_line(message)).await;
    }

    async fn refuse(&self, id: Option<&RequestId>, error: ErrorObject) {
        self.say(write_error(id, &error)).await;
    }

    /// Takes one line.
    async fn take(&self, line: Line) {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong => {
                let limit = self.inner.limits.body;
                let text = format!(
                    "Invalid request: a line has at most {limit} bytes on this server; a longer one was skipped."
                );
                return self
                    .refuse(None, ErrorObject::new(code::INVALID_REQUEST, text))
                    .await;
            }
        };
        if is_batch(&line) && self.takes_batches() {
            return self.take_batch(&line).await;
        }
        let message = match Incoming::parse(&line) {
            Ok(message) => message,
            Err(error) => return self.refuse(error.id(), error.to_error_object()).await,
        };
        if let Err(violation) = strict::check_with(&line, self.inner.limits.depth) {
            let id = match &message {
                Incoming::Request(request) => Some(&request.id),
                _ => None,
            };
            return self.refuse(id, violation.to_error_object()).await;
        }
        match message {
            Incoming::Request(request) => self.answer(request).await,
            Incoming::Notification(notification) => self.notified(&notification),
            Incoming::Response(response) => {
                let known = self.session.get().is_some_and(|session| {
                    matches!(
                        session.answered(response, &self.identity.granted),
                        Answered::Taken
                    )
                });
                if !known {
                    tracing::debug!("a response to no question is ignored");
                }
            }
        }
    }

    fn takes_batches(&self) -> bool {
        self.session
            .get()
            .is_some_and(|session| session.revision.has_batches())
    }

    fn notified(&self, notification: &Notification<'_>) {
        match &*notification.method {
            method::CANCELLED => {}
            method::INITIALIZED => return self.tell_changes(),
            _ => return,
        }
        match notification.params.map(read::<CancelledParams>) {
            Some(Ok(cancelled)) => self.calls.cancel(&cancelled.request_id),
            _ => tracing::debug!("a cancellation that cannot be read is ignored"),
        }
    }

    /// Answers one request in a task of its own.
    async fn answer(&self, request: Request<'_>) {
        let Some((id, place)) = self.place(&request).await else {
            return;
        };
        let answer = self.run(&request, &place);
        let out = self.out.clone();
        tokio::spawn(async move {
            let reply = place.run(answer).await;
            drop(place);
            if let Some(reply) = reply {
                let _ = out.send(in_one_line(reply.into_message(&id))).await;
            }
        });
    }

    async fn place(&self, request: &Request<'_>) -> Option<(RequestId, Place)> {
        // A subscription has something to say when it ends.
        let lasts = request.method == method::SUBSCRIPTIONS_LISTEN
            && request.params.is_some_and(modern::is_modern);
        let place = if lasts {
            self.calls.lasting_place(&request.id)
        } else {
            self.calls.place(&request.id)
        };
        match place {
            Ok(place) => Some((request.id.clone(), place)),
            Err(no_place) => {
                let error = ErrorObject::new(code::INVALID_REQUEST, no_place.to_string());
                self.refuse(Some(&request.id), error).await;
                None
            }
        }
    }

    /// Several messages that came together: their responses go together too.
    async fn take_batch(&self, line: &[u8]) {
        let messages = match parse_batch(line, BATCH) {
            Ok(messages) => messages,
            Err(error) => return self.refuse(error.id(), error.to_error_object()).await,
        };
        if let Err(violation) = strict::check_with(line, self.inner.limits.depth) {
            return self.refuse(None, violation.to_error_object()).await;
        }
        let mut running = Vec::new();
        for message in messages {
            match message {
                Ok(Incoming::Request(request)) => {
                    if let Some((id, place)) = self.place(&request).await {
                        let answer = self.run(&request, &place);
                        running.push(tokio::spawn(async move {
                            let reply = place.run(answer).await;
                            Some(in_one_line(reply?.into_message(&id)))
                        }));
                    }
                }
                Ok(Incoming::Notification(notification)) => self.notified(&notification),
                Ok(Incoming::Response(response)) => {
                    if let Some(session) = self.session.get() {
                        session.answered(response, &self.identity.granted);
                    }
                }
                Err(error) => self.refuse(error.id(), error.to_error_object()).await,
            }
        }
        if running.is_empty() {
            return;
        }
        let out = self.out.clone();
        tokio::spawn(async move {
            let mut responses = Vec::new();
            for answer in running {
                responses.extend(answer.await.ok().flatten());
            }
            if let Some(batch) = write_batch(responses.iter().map(Vec::as_slice)) {
                let _ = out.send(batch).await;
            }
        });
    }

    /// What this request comes to. Owns everything.
    fn run(
        &self,
        request: &Request<'_>,
        place: &Place,
    ) -> impl Future<Output = Reply> + Send + use<> {
        let inner = Arc::clone(&self.inner);
        let (name, params) = (
            request.method.clone().into_owned(),
            request.params.map(RawValue::to_owned),
        );
        let (id, out, ending) = (request.id.clone(), self.out.clone(), self.calls.ending());
        let outbox: Outbox = Arc::new(ToClient {
            out: self.out.clone(),
            turn: place.turn(),
        });
        let opens = name == method::INITIALIZE && inner.earlier_era;
        let modern = params.as_deref().is_some_and(modern::is_modern);
        let opened = (opens && !modern).then(|| self.open(params.as_deref()));
        let cancelled = place.cancelled();
        let session = (!modern).then(|| self.session.get().cloned()).flatten();
        let requester = Requester {
            principal: self.identity.principal.clone(),
            granted: self.identity.granted.clone(),
            account: self.account,
            declared: Default::default(),
            link: Link {
                outbox: Some(Arc::clone(&outbox)),
                ..Link::default()
            },
        };
        async move {
            match (opened, session) {
                (Some(opened), _) => opened,
                (None, Some(session)) => {
                    session
                        .answer(
                            &inner,
                            outbox,
                            cancelled,
                            requester.granted,
                            &name,
                            params.as_deref(),
                        )
                        .await
                }
                // The earlier era may be pinged before it is opened.
                (None, None) if name == method::PING && !modern && inner.earlier_era => {
                    Reply::nothing().in_earlier_era()
                }
                // Whoever does not know of another era gets to know the version.
                (None, None) if name == method::INITIALIZE && !modern => {
                    Reply::error(StatusCode::BAD_REQUEST, no_sessions(params.as_deref()))
                }
                (None, None) if name == method::SUBSCRIPTIONS_LISTEN && inner.announces => {
                    let opened = subscribe(&inner, requester, &id, params.as_deref());
                    // Nothing of the request but its id is kept while the subscription is open.
                    drop((params, outbox));
                    match opened {
                        Ok(listening) => listen(listening, out, ending).await,
                        Err(reply) => reply,
                    }
                }
                (None, None) => answer_modern(&inner, requester, &name, params.as_deref()).await,
            }
        }
    }

    /// Opens the session of this connection.
    fn open(&self, params: Option<&RawValue>) -> Reply {
        let opened = Session::open(
            &self.inner,
            self.identity.principal.clone(),
            self.account,
            Arc::clone(&self.calls),
            params,
        );
        match opened {
            Ok((session, result)) => match self.session.set(Arc::new(session)) {
                Ok(()) => Reply::raw(result),
                Err(_) => Reply::invalid_request("This connection is initialized already."),
            },
            Err(error) => Reply::error(StatusCode::OK, error),
        }
    }

    /// The session's client is ready to hear of changes.
    fn tell_changes(&self) {
        let Some(session) = self.session.get().cloned() else {
            return;
        };
        if self.tells_changes.set(()).is_err() {
            return;
        }
        let (out, ending) = (self.out.clone(), self.calls.ending());
        tokio::spawn(async move {
            let told = async {
                loop {
                    let change = poll_fn(|cx| session.poll_change(cx)).await;
                    // One at a time, when there is room: until then changes are marks.
                    if out.send(in_session(&change)).await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                () = told => {}
                () = ending.cancelled() => {}
            }
        });
    }

    /// Lets what runs end, cancels what does not, and waits for what must be settled.
    async fn close(self, ended: bool) {
        self.calls.end_lasting();
        if ended
            && tokio::time::timeout(GRACE, self.calls.ended())
                .await
                .is_err()
        {
            tracing::debug!("calls still run; nobody waits for them any more");
        }
        self.calls.close();
        let limit = self.inner.limits.shutdown;
        if tokio::time::timeout(limit, self.inner.tasks.wait())
            .await
            .is_err()
        {
            tracing::error!(patience = ?limit, "calls did not end in time; what is not settled is unknown");
        }
    }
}

/// However the connection ends, what came over it ends with it.
impl Drop for Connection {
    fn drop(&mut self) {
        self.calls.close();
    }
}

/// Members were found to be distinct.
fn members(params: Option<&RawValue>) -> Members<'_> {
    params
        .and_then(|params| Members::parse(params).ok())
        .unwrap_or_default()
}

fn declared(params: &Members<'_>) -> Result<Declared, Reply> {
    modern::declared(RequestMeta::of(params)).map_err(|refusal| {
        let (status, error) = *refusal;
        Reply::error(status, error)
    })
}

/// Opens the subscription that a request asks for.
fn subscribe(
    inner: &Inner,
    requester: Requester,
    id: &RequestId,
    params: Option<&RawValue>,
) -> Result<Listening, Reply> {
    let params = members(params);
    declared(&params)?;
    let subscriber = Subscriber {
        principal: requester.principal,
        account: requester.account,
    };
    Listening::open(inner, id, &params, subscriber, &requester.granted)
}

/// Tells a subscriber what changes until the server ends the subscription or lets go of the client. A message is made when there is
/// room for it.
async fn listen(
    mut listening: Listening,
    out: mpsc::Sender<Vec<u8>>,
    ending: CancellationToken,
) -> Reply {
    loop {
        let message = tokio::select! {
            biased;
            message = listening.notification() => message,
            () = ending.cancelled(), if !listening.has_ended() => {
                listening.end();
                continue;
            }
        };
        let Some(message) = message else {
            return listening.result();
        };
        if out.send(message).await.is_err() {
            // Nobody reads any more; the response goes nowhere either.
            return listening.result();
        }
    }
}

async fn answer_modern(
    inner: &Arc<Inner>,
    mut requester: Requester,
    name: &str,
    params: Option<&RawValue>,
) -> Reply {
    let params = members(params);
    let Declared {
        kinds,
        progress,
        log,
    } = match declared(&params) {
        Ok(declared) => declared,
        Err(reply) => return reply,
    };
    requester.declared = kinds;
    requester.link.progress = progress;
    requester.link.log = log;
    let reply = methods::dispatch(inner, name, &params, requester).await;
    reply.unwrap_or_else(|| Reply::error(StatusCode::NOT_FOUND, not_found(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(limit: usize, chunks: &[&[u8]]) -> Vec<Line> {
        let mut lines = Lines::new(limit);
        chunks.iter().flat_map(|chunk| lines.push(chunk)).collect()
    }

    #[test]
    fn case_242_lines_are_whole_wherever_chunks_are_cut() {
        let text = b"{\"a\":1}\r\n\n  \n{\"b\":\"\xc3\xa9\"}\n{\"c\"";
        let whole =
            [&b"{\"a\":1}"[..], b"{\"b\":\"\xc3\xa9\"}"].map(|line| Line::Whole(line.into()));
        for cut in 0..=text.len() {
            let (a, b) = text.split_at(cut);
            assert_eq!(lines(100, &[a, b]), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(lines(100, &bytes), whole);
    }

    #[test]
    fn case_250_a_line_that_is_too_long_is_skipped_and_not_held() {
        assert_eq!(lines(3, &[b"abc\nabcd\nx\n"]).len(), 3);
        assert_eq!(lines(3, &[b"abc\r\n"]), [Line::Whole(b"abc".into())]);
        assert_eq!(lines(3, &[b"abcd\r\n"]), [Line::TooLong]);
        let mut long = Lines::new(10);
        for _ in 0..1_000 {
            assert!(long.push(&[b'x'; 100]).is_empty());
            assert!(long.line.capacity() < 500);
        }
        assert_eq!(
            long.push(b"\nok\n"),
            [Line::TooLong, Line::Whole(b"ok".into())]
        );
    }
}
