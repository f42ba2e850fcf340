//! One connection of lines: whoever waits for a response, and the tasks that read and write (*stdio*).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mrtr_protocol::jsonrpc::write_notification;
use mrtr_protocol::{CancelledParams, Notification, RequestId, method};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot, watch};

use super::reading::read;
use crate::earlier::Core;
use crate::error::RequestError;
use crate::host::Host;
use crate::listen::{Listening, subscription_of};
use crate::notices::{self, Origin};
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
    pub(super) host: Arc<Host>,
    lines: mpsc::Sender<Vec<u8>>,
    pub(super) closing: watch::Sender<bool>,
    waiting: Mutex<Waiting>,
    /// The session, once `initialize` was answered: before that the server may ask nothing.
    session: Mutex<Option<Arc<Core>>>,
    /// The subscriptions that are open, by the id that their messages name.
    listening: Mutex<HashMap<RequestId, Arc<Listening>>>,
    /// Whether anything that makes sense was ever read.
    pub(super) spoke: AtomicBool,
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
    pub(super) fn close(&self) {
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
    pub(super) fn notified(&self, notification: &Notification<'_>) {
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

    pub(super) fn session(&self) -> Option<Arc<Core>> {
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

    pub(super) fn answer(&self, id: &RequestId, answer: Answer) {
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
pub(super) async fn closed_by(closing: &mut watch::Receiver<bool>) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line() {
        let pretty = b"{\n  \"a\":\r\n \"b\\n\"\n}".to_vec();
        assert_eq!(in_one_line(pretty), b"{   \"a\":   \"b\\n\" }\n");
    }
}
