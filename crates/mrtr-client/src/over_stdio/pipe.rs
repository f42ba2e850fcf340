//! One connection of lines: whoever waits for a response, and the tasks that read and write (*stdio*).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use mrtr_protocol::jsonrpc::write_notification;
use mrtr_protocol::{CancelledParams, Incoming, Notification, RequestId, Response, method, strict};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot, watch};

use super::lines::{Line, Lines};
use crate::earlier::{Channel, Core};
use crate::error::{ProtocolError, RequestError};
use crate::host::Host;
use crate::listen::{Listening, subscription_of};
use crate::notices::{self, Origin};
use crate::over_http::outcome;
use crate::process::Running;
use crate::transport::TransportError;

/// What a request waits for.
type Answer = Result<Box<RawValue>, RequestError>;

/// A connection. When it is dropped it is closed, and a child behind it ended, in tasks of their own.
#[derive(Debug)]
pub(crate) struct Pipe {
    shared: Arc<Shared>,
    /// The last task is done: nothing is left.
    gone: watch::Receiver<bool>,
}

/// What the tasks share.
#[derive(Debug)]
pub(crate) struct Shared {
    host: Arc<Host>,
    lines: mpsc::Sender<Vec<u8>>,
    closing: watch::Sender<bool>,
    waiting: Mutex<Waiting>,
    /// The session, once `initialize` was answered: before that the server may ask nothing.
    session: Mutex<Option<Arc<Core>>>,
    /// The subscriptions that are open, by the id that their messages name.
    listening: Mutex<HashMap<RequestId, Arc<Listening>>>,
    /// Whether anything that makes sense was ever read.
    spoke: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    closed: bool,
    open: HashMap<RequestId, oneshot::Sender<Answer>>,
}

/// So many messages wait to be written. A request waits for room; its time runs meanwhile.
const QUEUE: usize = 64;

impl Pipe {
    /// Takes a connection into use. `running`: the child behind it.
    pub(crate) fn open(
        host: &Arc<Host>,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        running: Option<Running>,
    ) -> Self {
        let (lines, queue) = mpsc::channel(QUEUE);
        let (closing, _) = watch::channel(false);
        let shared = Arc::new(Shared {
            host: Arc::clone(host),
            lines,
            closing,
            waiting: Mutex::default(),
            session: Mutex::default(),
            listening: Mutex::default(),
            spoke: AtomicBool::new(false),
        });
        let (ended, gone) = watch::channel(false);
        tokio::spawn(keep(
            Arc::clone(&shared),
            reader,
            writer,
            queue,
            running,
            ended,
        ));
        Self { shared, gone }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Whether the other end ever said anything that makes sense.
    pub(crate) fn spoke(&self) -> bool {
        self.shared.spoke.load(Ordering::Relaxed)
    }

    /// Closes the connection, and waits until a child behind it has ended.
    pub(crate) async fn close(&self) {
        self.shared.closing.send_replace(true);
        let mut gone = self.gone.clone();
        // An error means that the task is no more.
        let _ = gone.wait_for(|gone| *gone).await;
    }

    /// Sends a request and waits for its answer. Dropping the future cancels it, unless it is not to be cancelled.
    pub(crate) async fn request(
        &self,
        id: &RequestId,
        body: Vec<u8>,
        cancel: bool,
    ) -> Result<Box<RawValue>, RequestError> {
        let answer = self.send(id, body).await?;
        let guard = Withdraw {
            shared: &self.shared,
            id,
            cancel,
            armed: true,
        };
        let answered = answer.await;
        guard.disarm();
        answered.unwrap_or_else(|_| Err(broken()))
    }

    /// Sends a request, and gives what its answer will arrive at.
    pub(crate) async fn send(
        &self,
        id: &RequestId,
        body: Vec<u8>,
    ) -> Result<oneshot::Receiver<Answer>, RequestError> {
        let (sender, receiver) = oneshot::channel();
        let guard = {
            let mut waiting = self.shared.waiting();
            if waiting.closed {
                return Err(closed());
            }
            waiting.open.insert(id.clone(), sender);
            Withdraw {
                shared: &self.shared,
                id,
                // Nothing was sent yet that could be cancelled.
                cancel: false,
                armed: true,
            }
        };
        self.shared.write(body).await?;
        guard.disarm();
        Ok(receiver)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.shared.closing.send_replace(true);
    }
}

/// Nothing was sent: there is nobody any more.
fn closed() -> RequestError {
    TransportError::not_sent("the server's process has ended, or its streams were closed").into()
}

/// The connection ended while a request was open.
pub(super) fn broken() -> RequestError {
    TransportError::interrupted("the server's process has ended, or its streams were closed").into()
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closed(&self) -> bool {
        self.waiting().closed
    }

    /// Nothing comes any more: whoever waits is told.
    fn close(&self) {
        let open = {
            let mut waiting = self.waiting();
            waiting.closed = true;
            std::mem::take(&mut waiting.open)
        };
        drop(open);
        if let Some(session) = self.session() {
            session.end(broken());
        }
        self.closing.send_replace(true);
    }

    fn listening(&self) -> MutexGuard<'_, HashMap<RequestId, Arc<Listening>>> {
        self.listening
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Messages that name this request are for this subscription.
    pub(super) fn listen(&self, id: &RequestId, listening: &Arc<Listening>) {
        self.listening().insert(id.clone(), Arc::clone(listening));
    }

    /// Nobody listens any more, and the server is told unless it has ended the subscription itself.
    pub(super) fn listen_no_more(self: &Arc<Self>, id: &RequestId) {
        self.listening().remove(id);
        let open = self.waiting().open.remove(id).is_some();
        if open {
            self.cancel(id);
        }
    }

    /// Takes a notification of the modern era.
    fn notified(&self, notification: &Notification<'_>) {
        let id = match notification.method.as_ref() {
            method::CANCELLED => {
                notices::params::<CancelledParams>(notification).map(|params| params.request_id)
            }
            _ => subscription_of(notification),
        };
        let listening = id.and_then(|id| self.listening().get(&id).cloned());
        match listening {
            Some(listening) => listening.take(notification),
            None => self.host.notices.take(notification, Origin::Channel),
        }
    }

    fn session(&self) -> Option<Arc<Core>> {
        self.session
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// From now on the server may ask.
    pub(crate) fn begin(&self, session: &Arc<Core>) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(session));
    }

    /// Queues a message. It is written whole or not at all, whoever stops waiting.
    pub(crate) async fn write(&self, body: Vec<u8>) -> Result<(), RequestError> {
        self.lines
            .send(in_one_line(body))
            .await
            .map_err(|_| closed())
    }

    /// Tells the server that nobody waits for this request any more.
    fn cancel(self: &Arc<Self>, id: &RequestId) {
        let mut params = CancelledParams::new(id.clone());
        params.reason = Some("nobody waits for the answer any more".to_owned());
        let Ok(body) = write_notification(method::CANCELLED, &params) else {
            return;
        };
        match self.lines.try_send(in_one_line(body)) {
            Err(mpsc::error::TrySendError::Full(body)) => {
                let Ok(runtime) = tokio::runtime::Handle::try_current() else {
                    return;
                };
                let lines = self.lines.clone();
                runtime.spawn(async move { lines.send(body).await });
            }
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
        }
    }

    fn answer(&self, id: &RequestId, answer: Answer) {
        match self.waiting().open.remove(id) {
            // Whoever waited may have gone in this moment.
            Some(sender) => drop(sender.send(answer)),
            None => tracing::debug!(%id, "an answer that nobody waits for is ignored"),
        }
    }
}

/// Takes a request off the list of those that wait.
struct Withdraw<'a> {
    shared: &'a Arc<Shared>,
    id: &'a RequestId,
    cancel: bool,
    armed: bool,
}

impl Withdraw<'_> {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let open = self.shared.waiting().open.remove(self.id).is_some();
        if open && self.cancel {
            self.shared.cancel(self.id);
        }
    }
}

/// Raw JSON of the host may hold line breaks between its tokens; within strings there are none.
fn in_one_line(mut body: Vec<u8>) -> Vec<u8> {
    for byte in &mut body {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    body.push(b'\n');
    body
}

/// Reads, writes, and sees to the end of it all.
async fn keep(
    shared: Arc<Shared>,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    queue: mpsc::Receiver<Vec<u8>>,
    running: Option<Running>,
    ended: watch::Sender<bool>,
) {
    /// What is still to be read when a child has ended is there already, unless what it started holds on to its streams.
    const REST: Duration = Duration::from_secs(1);
    let mut reading = tokio::spawn(read(Arc::clone(&shared), reader));
    let writing = tokio::spawn(write(Arc::clone(&shared), writer, queue));
    let mut closing = shared.closing.subscribe();
    match running {
        Some(mut running) => {
            let by_itself = tokio::select! {
                () = running.ended() => true,
                () = closed_by(&mut closing) => false,
            };
            if !by_itself {
                running.end().await;
            }
            let _ = tokio::time::timeout(REST, &mut reading).await;
        }
        None => {
            closed_by(&mut closing).await;
            // What is queued is written still.
            let _ = tokio::time::timeout(REST, writing).await;
            shared.close();
            reading.abort();
            ended.send_replace(true);
            return;
        }
    }
    shared.close();
    reading.abort();
    writing.abort();
    ended.send_replace(true);
}

/// Waits until the connection is to be closed.
async fn closed_by(closing: &mut watch::Receiver<bool>) {
    // An error means that there is nobody who could say so any more.
    let _ = closing.wait_for(|closing| *closing).await;
}

/// Writes until the connection is closed, then what is queued, and closes the stream.
async fn write(
    shared: Arc<Shared>,
    mut writer: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Vec<u8>>,
) {
    let mut closing = shared.closing.subscribe();
    loop {
        let next = tokio::select! {
            biased;
            next = queue.recv() => next,
            () = closed_by(&mut closing) => {
                queue.close();
                queue.recv().await
            }
        };
        let Some(line) = next else {
            break;
        };
        let written = async {
            writer.write_all(&line).await?;
            writer.flush().await
        };
        if let Err(error) = written.await {
            tracing::debug!(%error, "the server does not read any more");
            shared.close();
            break;
        }
    }
    let _ = writer.shutdown().await;
}

/// Reads to the end.
async fn read(shared: Arc<Shared>, reader: impl AsyncRead + Unpin) {
    let mut lines = Lines::new(reader, shared.host.limits.max_response_bytes);
    let mut closing = shared.closing.subscribe();
    let mut channel = None;
    let mut garbage = Garbage::default();
    let mut is_closing = false;
    loop {
        let line = tokio::select! {
            biased;
            () = closed_by(&mut closing), if !is_closing => {
                // Prompts are withdrawn. The rest is read, so that a server that says goodbye does not wait for a reader.
                is_closing = true;
                channel = None;
                continue;
            }
            line = lines.next() => line,
        };
        match line {
            Ok(Some(Line::Whole(line))) if line.trim_ascii().is_empty() => {}
            Ok(Some(Line::Whole(line))) => {
                let taken = take(&shared, &mut channel, &line, is_closing).await;
                match taken {
                    Ok(()) => shared.spoke.store(true, Ordering::Relaxed),
                    Err(error) => garbage.found(&error.to_string(), line.len()),
                }
            }
            Ok(Some(Line::TooLong(beginning))) => {
                let limit = shared.host.limits.max_response_bytes;
                match id_in(&beginning) {
                    Some(id) => shared.answer(&id, Err(RequestError::TooLarge { limit })),
                    None => garbage.found("it is too long", limit),
                }
            }
            Ok(None) => break,
            Err(error) => {
                tracing::debug!(%error, "the server's output cannot be read");
                break;
            }
        }
    }
    shared.close();
}

/// Says once that a server writes what is no message, and from then on for those who look for it only.
#[derive(Debug, Default)]
struct Garbage(u64);

impl Garbage {
    /// The line itself is nobody's business.
    fn found(&mut self, problem: &str, len: usize) {
        self.0 += 1;
        if self.0 == 1 {
            tracing::warn!(%problem, len, "the server wrote a line that is no message; such lines are skipped");
        } else {
            tracing::debug!(%problem, len, count = self.0, "the server wrote a line that is no message");
        }
    }
}

/// Takes one line. An error: it is no message.
async fn take(
    shared: &Arc<Shared>,
    channel: &mut Option<Channel>,
    line: &[u8],
    is_closing: bool,
) -> Result<(), ProtocolError> {
    let session = shared.session();
    let all = match &session {
        Some(session) => session.messages(line)?,
        None => vec![Incoming::parse(line)?],
    };
    strict::check(line)?;
    for incoming in all {
        let response = match (&session, incoming) {
            (_, Incoming::Response(response)) => Some(response),
            _ if is_closing => None,
            (Some(session), incoming) => {
                let channel = channel.get_or_insert_with(|| Channel::new(session, None));
                channel.take(incoming, Origin::Channel).await
            }
            (None, Incoming::Notification(notification)) => {
                shared.notified(&notification);
                None
            }
            // The specification forbids it on either side: no request on this channel, and no response from a client.
            (None, Incoming::Request(request)) => {
                tracing::warn!(method = %request.method, "the server sent a request; it is ignored");
                None
            }
        };
        if let Some(response) = response {
            answered(shared, response);
        }
    }
    Ok(())
}

fn answered(shared: &Shared, response: Response<'_>) {
    match response.id.clone() {
        // There are no statuses here; this one stands for "no matter".
        Some(id) => shared.answer(&id, outcome(&id, response, StatusCode::OK)),
        None => match response.outcome {
            Ok(_) => {}
            // The server could not read something. Which request that was, nobody knows.
            Err(error) => {
                tracing::warn!(code = error.code, message = %error.message, "the server could not read a message");
            }
        },
    }
}

/// The id of a response whose end was cut off, if it stands before the result or error.
fn id_in(beginning: &[u8]) -> Option<RequestId> {
    use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
    struct Id<'a>(&'a mut Option<RequestId>);
    impl<'de> Visitor<'de> for Id<'_> {
        type Value = ();

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a message")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            let mut id = None;
            while let Some(name) = map.next_key::<String>()? {
                match name.as_str() {
                    "id" => id = Some(map.next_value()?),
                    "result" | "error" => {
                        *self.0 = id.take();
                        return Ok(());
                    }
                    // A request of the server, whose ids are its own.
                    "method" => return Ok(()),
                    _ => drop(map.next_value::<IgnoredAny>()?),
                }
            }
            Ok(())
        }
    }
    let mut id = None;
    // It ends in an error, because the text does; what was read by then counts.
    let mut text = serde_json::Deserializer::from_slice(beginning);
    let _ = text.deserialize_map(Id(&mut id));
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_cut_response_is_found() {
        for (text, id) in [
            (
                r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"te"#,
                Some("7"),
            ),
            (
                r#"{"id":"a\"b","jsonrpc":"2.0","result":{"x":"#,
                Some(r#""a\"b""#),
            ),
            (r#"{"jsonrpc":"2.0","result":{"content":[{"te"#, None),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"#,
                None,
            ),
            (r#"{"jsonrpc":"2.0","id":7"#, None),
            (r#"{"jsonrpc":"2.0","id":1.5,"result":{"#, None),
            ("xxxxxxxxxx", None),
            (r#"[{"id":7,"#, None),
            ("", None),
        ] {
            let found = id_in(text.as_bytes());
            assert_eq!(found.map(|id| id.to_string()).as_deref(), id, "{text}");
        }
    }

    #[test]
    fn messages_are_one_line() {
        let pretty = b"{\n  \"a\":\r\n \"b\\n\"\n}".to_vec();
        assert_eq!(in_one_line(pretty), b"{   \"a\":   \"b\\n\" }\n");
    }
}
