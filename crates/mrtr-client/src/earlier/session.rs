//! A session: how it is opened, what was agreed on, and how it ends (*2025-11-25, Lifecycle; Transports, Session Management*).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, header};
use mrtr_protocol::earlier::{EarlierRevision, InitializeParams, InitializeResult};
use mrtr_protocol::error::UnsupportedVersion;
use mrtr_protocol::jsonrpc::{write_notification, write_request};
use mrtr_protocol::object::read;
use mrtr_protocol::{
    CancelledParams, Implementation, JsonObject, Kind, KindSet, RequestId, code, headers, method,
};
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle};

use super::listen::Listeners;
use super::stream;
use crate::era::{Era, latest};
use crate::error::{ProtocolError, RequestError};
use crate::host::Host;
use crate::outgoing::Outgoing;
use crate::over_http::Endpoint;
use crate::over_stdio::pipe::Shared;
use crate::requests::set_level;
use crate::transport::{ResponseBody, TransportError};

/// How long a new session waits for the server to take what it is told at the beginning. No call is held up longer for that.
pub(crate) const TOLD_WITHIN: Duration = Duration::from_secs(10);

/// How long a session waits for the server's word on the stream for what it sends unasked.
const UNASKED_ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// A session that is open, or was.
///
/// It owns the task that reads what the server sends unasked; when the session is dropped, that ends.
#[derive(Debug)]
pub(crate) struct Session {
    core: Arc<Core>,
    unasked: Mutex<Option<AbortOnDrop>>,
}

/// What was agreed on, and what is open. It does not own the session's tasks, so they may hold it.
#[derive(Debug)]
pub(crate) struct Core {
    pub(super) host: Arc<Host>,
    pub(super) revision: EarlierRevision,
    pub(super) server: InitializeResult,
    /// The questions that may be put: declared, and known to the revision.
    pub(super) kinds: KindSet,
    pub(super) carrier: Carrier,
    over: AtomicBool,
    /// Who listens for changes.
    pub(super) listeners: Listeners,
    /// The server's requests that are being answered.
    pub(super) open: Mutex<HashMap<RequestId, AbortHandle>>,
}

/// What carries a session's messages.
#[derive(Debug)]
pub(crate) enum Carrier {
    Http(HttpCarrier),
    Pipe(Arc<Shared>),
}

/// Messages as POST requests, with the session's headers.
#[derive(Debug)]
pub(crate) struct HttpCarrier {
    endpoint: Arc<Endpoint>,
    id: Option<HeaderValue>,
    revision: EarlierRevision,
}

impl HttpCarrier {
    /// How long a server may take to accept a message that has no answer.
    const ACCEPTS_WITHIN: Duration = Duration::from_secs(30);

    fn with_headers(&self, mut request: http::request::Builder) -> http::request::Builder {
        request = request.header(headers::PROTOCOL_VERSION, self.revision.as_str());
        match &self.id {
            Some(id) => request.header(headers::SESSION_ID, id),
            None => request,
        }
    }

    /// Whether the server can lose the session.
    pub(super) fn has_id(&self) -> bool {
        self.id.is_some()
    }

    /// Sends a message of this side.
    pub(super) async fn post(
        &self,
        body: Vec<u8>,
    ) -> Result<http::Response<ResponseBody>, RequestError> {
        let request = self.with_headers(self.endpoint.post());
        self.endpoint.send(request, body).await
    }

    /// Asks for a stream of the server's messages: a new one, or the one that ended after this event.
    pub(super) async fn get(
        &self,
        last_event_id: Option<HeaderValue>,
    ) -> Result<http::Response<ResponseBody>, RequestError> {
        let mut request = self.with_headers(self.endpoint.request(Method::GET));
        request = request.header(header::ACCEPT, "text/event-stream");
        if let Some(id) = last_event_id {
            request = request.header(headers::LAST_EVENT_ID, id);
        }
        self.endpoint.send(request, Bytes::new()).await
    }

    async fn delete(&self) -> Result<http::Response<ResponseBody>, RequestError> {
        let request = self.with_headers(self.endpoint.request(Method::DELETE));
        self.endpoint.send(request, Bytes::new()).await
    }

    /// Sends a message that has no answer.
    async fn tell(&self, body: Vec<u8>) -> Result<(), RequestError> {
        let accepted = tokio::time::timeout(Self::ACCEPTS_WITHIN, self.post(body));
        let after = Self::ACCEPTS_WITHIN;
        let response = accepted
            .await
            .unwrap_or(Err(RequestError::TimedOut { after }))?;
        let status = response.status();
        if status.is_success() {
            Ok(())
        } else {
            Err(RequestError::Http { status })
        }
    }
}

impl Core {
    /// Sends a notification or a response.
    pub(super) async fn tell(&self, body: Vec<u8>) -> Result<(), RequestError> {
        match &self.carrier {
            Carrier::Http(carrier) => carrier.tell(body).await,
            Carrier::Pipe(pipe) => pipe.write(body).await,
        }
    }

    /// The server does not know the session any more, or the connection is gone.
    pub(crate) fn end(&self, why: RequestError) {
        self.over.store(true, Ordering::Relaxed);
        self.listeners.end(why);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(super) fn open(&self) -> MutexGuard<'_, HashMap<RequestId, AbortHandle>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the server may ask anything that has to do with elicitation, whatever the mode.
    pub(super) fn may_elicit(&self) -> bool {
        self.kinds.contains(Kind::Form) || self.kinds.contains(Kind::Url)
    }
}

impl Session {
    /// Opens a session over HTTP: `initialize`, and `notifications/initialized` once the versions agree.
    pub(crate) async fn over_http(
        host: &Arc<Host>,
        endpoint: &Arc<Endpoint>,
        propose: EarlierRevision,
    ) -> Result<Self, RequestError> {
        let mut opened = initialize(host, endpoint, propose).await;
        if let Err(RequestError::Rpc(error)) = &opened
            && error.error.code == code::INVALID_PARAMS
            && let Some(supported) = supported(error.error.data.as_deref())
            && supported != propose
        {
            opened = initialize(host, endpoint, supported).await;
        }
        let (result, id) = opened?;
        let server: InitializeResult = read(&result).map_err(|_| ProtocolError::Result {
            method: method::INITIALIZE,
        })?;
        let revision = server.revision();
        let carrier = HttpCarrier {
            endpoint: Arc::clone(endpoint),
            id,
            revision: revision.unwrap_or(propose),
        };
        let Some(revision) = revision else {
            let offered = server.protocol_version;
            if carrier.has_id() {
                drop(carrier.delete().await);
            }
            return Err(ProtocolError::Revision { offered }.into());
        };
        carrier.tell(initialized()?).await?;
        tracing::debug!(%revision, "a session is open");
        Ok(Self::new(host, revision, server, Carrier::Http(carrier)))
    }

    pub(crate) fn new(
        host: &Arc<Host>,
        revision: EarlierRevision,
        server: InitializeResult,
        carrier: Carrier,
    ) -> Self {
        let declared = host.handlers.kinds();
        let core = Core {
            host: Arc::clone(host),
            revision,
            server,
            kinds: revision
                .kinds()
                .iter()
                .filter(|kind| declared.contains(*kind))
                .collect(),
            carrier,
            over: AtomicBool::new(false),
            listeners: Listeners::default(),
            open: Mutex::default(),
        };
        Self {
            core: Arc::new(core),
            unasked: Mutex::default(),
        }
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn is_over(&self) -> bool {
        self.core.is_over()
    }

    pub(crate) fn revision(&self) -> EarlierRevision {
        self.core.revision
    }

    pub(crate) fn server(&self) -> &InitializeResult {
        &self.core.server
    }

    /// Opens the stream for what the server sends unasked, unless it is open. A server may not have one, and over stdio there is none.
    ///
    /// Some servers put a call's questions there, and lose them while nobody listens. So it waits for the server's word on the stream,
    /// but not for long: one that says nothing before it has something to send is no reason to hold a call up.
    pub(crate) async fn hear_the_unasked(&self) {
        if !matches!(self.core.carrier, Carrier::Http(_)) {
            return;
        }
        let (answered, answer) = oneshot::channel();
        {
            let mut task = self.unasked.lock().unwrap_or_else(PoisonError::into_inner);
            if task.as_ref().is_some_and(|task| !task.0.is_finished()) {
                return;
            }
            let reading = super::unasked::read(Arc::clone(&self.core), answered);
            *task = Some(AbortOnDrop(tokio::spawn(reading)));
        }
        // The other end is dropped as soon as there is an answer.
        drop(tokio::time::timeout(UNASKED_ANSWERS_WITHIN, answer).await);
    }

    /// The server's requests may come, on this connection.
    pub(crate) fn begin_on(&self, pipe: &Shared) {
        pipe.begin(&self.core);
    }

    pub(super) fn listeners(&self) -> &Listeners {
        &self.core.listeners
    }

    /// Whether a request can be one of a session.
    pub(crate) fn allows(&self, outgoing: &Outgoing<'_>) -> Result<(), RequestError> {
        if outgoing.is_modern_only() {
            return Err(RequestError::NotInThisEra {
                method: outgoing.method,
                era: Era::Earlier(self.core.revision),
            });
        }
        if outgoing.is_retry() {
            return Err(RequestError::StateOfTheModernEra);
        }
        Ok(())
    }

    /// What tells the server which log messages are wanted, if somebody listens and it has any.
    pub(crate) fn wanted_log_level(&self) -> Option<Outgoing<'static>> {
        let level = self.core.host.notices.log_level()?;
        self.core.server.capabilities.logging.as_ref()?;
        set_level(level).ok()
    }

    /// Whether the server may ask something outside of a call.
    pub(crate) fn may_be_asked(&self) -> bool {
        !self.core.kinds.is_empty()
    }

    /// Sends a notification.
    pub(crate) async fn tell(&self, body: Vec<u8>) -> Result<(), RequestError> {
        self.core.tell(body).await
    }

    /// Whether the server may ask for the host's folders.
    pub(crate) fn has_roots(&self) -> bool {
        self.core.kinds.contains(Kind::Roots)
    }

    /// Ends the session, and tells the server so if it can lose one.
    pub(crate) async fn close(&self) {
        let why = TransportError::interrupted("the client was closed");
        self.core.end(why.into());
        drop(
            self.unasked
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let Carrier::Http(carrier) = &self.core.carrier else {
            return;
        };
        if carrier.has_id() {
            match tokio::time::timeout(HttpCarrier::ACCEPTS_WITHIN, carrier.delete()).await {
                // 405: the server does not let clients end sessions.
                Ok(Ok(response)) => {
                    tracing::debug!(status = %response.status(), "the session was given up")
                }
                Ok(Err(error)) => {
                    tracing::debug!(%error, "the server was not told that the session is over")
                }
                Err(_) => tracing::debug!("the server took too long to end the session"),
            }
        }
    }
}

/// Sends `initialize`, without a session, and gives the result and the session's id.
async fn initialize(
    host: &Host,
    endpoint: &Endpoint,
    propose: EarlierRevision,
) -> Result<(Box<RawValue>, Option<HeaderValue>), RequestError> {
    let id = host.next_id();
    let body = initialize_request(host, &id, propose)?;
    let response = endpoint.send(endpoint.post(), body).await?;
    let (parts, body) = response.into_parts();
    let session = parts.headers.get(headers::SESSION_ID).map(session_id);
    let result = stream::only_response(host, &id, &parts, body).await?;
    Ok((result, session.transpose()?))
}

pub(crate) fn initialize_request(
    host: &Host,
    id: &RequestId,
    propose: EarlierRevision,
) -> Result<Vec<u8>, RequestError> {
    let kinds = host.handlers.kinds();
    let mut capabilities = kinds.to_capabilities();
    if let Some(roots) = &mut capabilities.roots {
        // `Client::roots_changed` tells.
        let _ = roots.others.insert("listChanged", &true);
    }
    // This era does not leave it to the client.
    let info = host.client_info.clone().unwrap_or_else(own_name);
    let params = InitializeParams::new(propose, capabilities, info);
    write_request(id, method::INITIALIZE, &params)
        .map_err(|error| RequestError::Unwritable(error.to_string()))
}

/// This crate, where the host does not say who is asking.
pub(crate) fn own_name() -> Implementation {
    Implementation::new("mrtr-client", env!("CARGO_PKG_VERSION"))
}

pub(crate) fn initialized() -> Result<Vec<u8>, RequestError> {
    notification(method::INITIALIZED, &JsonObject::empty())
}

pub(super) fn cancelled(id: &RequestId, reason: &str) -> Result<Vec<u8>, RequestError> {
    let mut params = CancelledParams::new(id.clone());
    params.reason = Some(reason.to_owned());
    notification(method::CANCELLED, &params)
}

pub(crate) fn notification<P: serde::Serialize>(
    method: &str,
    params: &P,
) -> Result<Vec<u8>, RequestError> {
    write_notification(method, params).map_err(|error| RequestError::Unwritable(error.to_string()))
}

/// The best version that a refusal of `initialize` names.
fn supported(data: Option<&RawValue>) -> Option<EarlierRevision> {
    let data: UnsupportedVersion = read(data?).ok()?;
    latest(&data.supported)
}

/// Visible ASCII, as the specification demands, and short enough for a header.
fn session_id(value: &HeaderValue) -> Result<HeaderValue, RequestError> {
    let text = value.as_bytes();
    let visible = text.iter().all(|byte| (0x21..=0x7e).contains(byte));
    if text.is_empty() || text.len() > 1024 || !visible {
        return Err(ProtocolError::SessionId.into());
    }
    let mut id = value.clone();
    // Whoever has it may act in the session.
    id.set_sensitive(true);
    Ok(id)
}

/// A task that ends with its owner.
#[derive(Debug)]
pub(crate) struct AbortOnDrop(pub(crate) JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
