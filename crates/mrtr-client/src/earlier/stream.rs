//! Responses of the earlier era over HTTP: JSON or a stream, which is resumed where it broke (*2025-11-25, Transports*).

use std::sync::Arc;

use http::{HeaderValue, StatusCode};
use mrtr_protocol::jsonrpc::{is_batch, parse_batch};
use mrtr_protocol::{EnvelopeError, Incoming, RequestId, Response, code, strict};
use serde_json::value::RawValue;

use super::serve::Channel;
use super::session::{Carrier, Core, HttpCarrier, Session, cancelled};
use super::tries::Tries;
use crate::client::Client;
use crate::error::{ProtocolError, RequestError};
use crate::exchange::{Answered, Tally};
use crate::host::Host;
use crate::notices::Origin;
use crate::outgoing::{Meta, Outgoing};
use crate::over_http::{HttpLink, essence, outcome, read_whole};
use crate::sse::SseReader;
use crate::transport::ResponseBody;

/// More messages than this are not taken from one batch of revision 2025-03-26.
const BATCH: usize = 1_000;

impl Client {
    /// Sends a request in the session. A session that the server does not know any more is opened anew for the next request; this one is
    /// sent again by itself only if it can have no effect.
    pub(crate) async fn in_session(
        &self,
        link: &HttpLink,
        outgoing: &Outgoing<'_>,
        tally: Option<&Tally>,
    ) -> Result<Answered, RequestError> {
        let session = self.session(link).await?;
        session.allows(outgoing)?;
        let lost = match self.call_in(&session, outgoing, tally).await {
            Err(lost @ RequestError::SessionLost) => lost,
            other => return other.map(Answered::earlier),
        };
        if outgoing.may_act() {
            return Err(lost);
        }
        let session = self.session(link).await?;
        let result = self.call_in(&session, outgoing, tally).await?;
        Ok(Answered::earlier(result))
    }

    pub(crate) async fn call_in(
        &self,
        session: &Session,
        outgoing: &Outgoing<'_>,
        tally: Option<&Tally>,
    ) -> Result<Box<RawValue>, RequestError> {
        let core = session.core();
        let id = self.inner.host.next_id();
        let ticket = self.ticket(&id, outgoing);
        let meta = Meta {
            progress: ticket.token(),
            more: Some(&self.options.meta),
            ..Meta::default()
        };
        let body = outgoing.earlier(&id, &meta)?;
        tracing::debug!(method = outgoing.method, %id, "request in a session");
        let own = self.tally();
        let answer = async {
            let mut cancel = CancelOnDrop::new(core, &id);
            let mut call = Call {
                core,
                id: &id,
                channel: Channel::new(core, outgoing.target),
                tally,
                own: &own,
            };
            let answered = call.run(body).await;
            cancel.armed = false;
            answered
        };
        ticket.wait_for(answer).await
    }
}

/// Tells the server that nobody waits any more: when the call is dropped, or its time is over. A broken connection is no cancellation.
struct CancelOnDrop {
    core: Arc<Core>,
    id: RequestId,
    armed: bool,
}

impl CancelOnDrop {
    fn new(core: &Arc<Core>, id: &RequestId) -> Self {
        Self {
            core: Arc::clone(core),
            id: id.clone(),
            armed: true,
        }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let Ok(body) = cancelled(&self.id, "nobody waits for the answer any more") else {
            return;
        };
        let core = Arc::clone(&self.core);
        runtime.spawn(async move {
            if let Err(error) = core.tell(body).await {
                tracing::debug!(%error, "the server was not told of a cancellation");
            }
        });
    }
}

/// One request and the messages that come for it.
struct Call<'a> {
    core: &'a Arc<Core>,
    id: &'a RequestId,
    channel: Channel,
    tally: Option<&'a Tally>,
    own: &'a Tally,
}

impl Call<'_> {
    async fn run(&mut self, body: Vec<u8>) -> Result<Box<RawValue>, RequestError> {
        let Carrier::Http(carrier) = &self.core.carrier else {
            return Err(RequestError::NoResponse);
        };
        let (parts, mut body) = carrier.post(body).await?.into_parts();
        let status = parts.status;
        match essence(&parts).as_deref() {
            Some("text/event-stream") if status.is_success() => {
                self.follow(carrier, status, body).await
            }
            Some("application/json") => {
                let bytes = read_whole(&mut body, self.tally.unwrap_or(self.own)).await?;
                self.whole(carrier, status, &bytes).await
            }
            _ if self.is_lost(carrier, status) => Err(RequestError::SessionLost),
            _ if status.is_success() => Err(ProtocolError::ContentType.into()),
            _ => Err(RequestError::Http { status }),
        }
    }

    /// Whether the status says that the server does not know the session (any more).
    fn is_lost(&self, carrier: &HttpCarrier, status: StatusCode) -> bool {
        let lost = status == StatusCode::NOT_FOUND && carrier.has_id();
        if lost {
            self.core.end(RequestError::SessionLost);
        }
        lost
    }

    async fn whole(
        &mut self,
        carrier: &HttpCarrier,
        status: StatusCode,
        bytes: &[u8],
    ) -> Result<Box<RawValue>, RequestError> {
        if !status.is_success() {
            return Err(match Response::parse(bytes) {
                // A method that the server does not have, and not a session.
                Ok(Response {
                    outcome: Err(error),
                    ..
                }) if error.code == code::METHOD_NOT_FOUND || !self.is_lost(carrier, status) => {
                    crate::over_http::rpc(status, error)
                }
                _ if self.is_lost(carrier, status) => RequestError::SessionLost,
                _ => RequestError::Http { status },
            });
        }
        if self.core.revision.has_batches() && is_batch(bytes) {
            let answered = self.message(bytes, status).await?;
            return answered.unwrap_or(Err(RequestError::NoResponse));
        }
        let response = Response::parse(bytes).map_err(ProtocolError::from)?;
        strict::check(bytes).map_err(ProtocolError::from)?;
        outcome(self.id, response, status)
    }

    /// Takes one event or body. `Some`: it is the response.
    async fn message(
        &mut self,
        data: &[u8],
        status: StatusCode,
    ) -> Result<Option<Result<Box<RawValue>, RequestError>>, ProtocolError> {
        let mut answered = None;
        for incoming in self.core.messages(data)? {
            match self.channel.take(incoming, Origin::Response(self.id)).await {
                Some(response) if response.id.as_ref().is_none_or(|own| own == self.id) => {
                    strict::check(data)?;
                    answered = Some(outcome(self.id, response, status));
                }
                Some(response) => {
                    tracing::debug!(own = %self.id, other = ?response.id, "a response to another request is ignored");
                }
                None => {}
            }
        }
        Ok(answered)
    }

    /// Reads events until the response, on as many connections as that takes.
    async fn follow(
        &mut self,
        carrier: &HttpCarrier,
        status: StatusCode,
        mut body: ResponseBody,
    ) -> Result<Box<RawValue>, RequestError> {
        let limit = self.core.host.limits.max_response_bytes;
        let mut reader = SseReader::new(limit);
        let mut tries = Tries::new();
        // Of an answer that nobody can read, the reason is a better one than that there was none.
        let mut problem = None;
        loop {
            tries.connected();
            let ended = loop {
                let chunk = match body.chunk().await {
                    Ok(Some(chunk)) => chunk,
                    Ok(None) => break RequestError::NoResponse,
                    Err(error) => break error.into(),
                };
                if let Some(tally) = self.tally {
                    tally.take(chunk.len())?;
                }
                let before = reader.last_event_id().map(<[u8]>::to_vec);
                reader
                    .push(&chunk)
                    .map_err(|_| RequestError::TooLarge { limit })?;
                if reader.last_event_id() != before.as_deref() {
                    tries.event();
                }
                while let Some(data) = reader.next() {
                    tries.event();
                    if data.is_empty() {
                        continue;
                    }
                    match self.message(&data, status).await {
                        Ok(Some(answered)) => return answered,
                        Ok(None) => {}
                        Err(error) => {
                            tracing::warn!(%error, "an event of the server's stream is ignored");
                            problem = Some(error);
                        }
                    }
                }
            };
            match resume(self.core, carrier, &mut reader, &mut tries).await {
                Some(next) => body = next,
                None => return Err(problem.map_or(ended, RequestError::from)),
            }
        }
    }
}

impl Core {
    /// The messages of one event, body or line: one, or in revision 2025-03-26 several. In a batch those that cannot be read are left out.
    pub(crate) fn messages<'d>(&self, data: &'d [u8]) -> Result<Vec<Incoming<'d>>, EnvelopeError> {
        if !(self.revision.has_batches() && is_batch(data)) {
            return Ok(vec![Incoming::parse(data)?]);
        }
        Ok(parse_batch(data, BATCH)?.into_iter().flatten().collect())
    }
}

/// Asks for the rest of a stream that has ids, after the pause that the server named. `None`: there is no more of it to be had.
pub(super) async fn resume(
    core: &Core,
    carrier: &HttpCarrier,
    reader: &mut SseReader,
    tries: &mut Tries,
) -> Option<ResponseBody> {
    let id = HeaderValue::from_bytes(reader.last_event_id()?).ok()?;
    loop {
        tokio::time::sleep(tries.pause(reader.retry())?).await;
        match carrier.get(Some(id.clone())).await {
            Ok(response) => match events(response) {
                Ok(body) => {
                    reader.reconnect();
                    return Some(body);
                }
                Err(status) if status.is_server_error() => {}
                Err(status) => {
                    if status == StatusCode::NOT_FOUND && carrier.has_id() {
                        core.end(RequestError::SessionLost);
                    }
                    tracing::debug!(%status, "the stream cannot be resumed");
                    return None;
                }
            },
            Err(error) => tracing::debug!(%error, "the stream was not resumed"),
        }
    }
}

/// The body of a response that is a stream of events, otherwise its status.
pub(super) fn events(response: http::Response<ResponseBody>) -> Result<ResponseBody, StatusCode> {
    let (parts, body) = response.into_parts();
    match essence(&parts).as_deref() {
        Some("text/event-stream") if parts.status.is_success() => Ok(body),
        _ => Err(parts.status),
    }
}

/// The response to a request that is sent before there is a session, when the server may not ask anything yet.
pub(super) async fn only_response(
    host: &Host,
    id: &RequestId,
    parts: &http::response::Parts,
    mut body: ResponseBody,
) -> Result<Box<RawValue>, RequestError> {
    let limit = host.limits.max_response_bytes;
    let status = parts.status;
    match essence(parts).as_deref() {
        Some("application/json") => {
            let bytes = read_whole(&mut body, &Tally::new(limit)).await?;
            match Response::parse(&bytes) {
                Ok(response) => {
                    strict::check(&bytes).map_err(ProtocolError::from)?;
                    outcome(id, response, status)
                }
                Err(_) if !status.is_success() => Err(RequestError::Http { status }),
                Err(error) => Err(ProtocolError::from(error).into()),
            }
        }
        Some("text/event-stream") if status.is_success() => {
            let mut reader = SseReader::new(limit);
            // Nothing but the response is expected, so all of it has the limit of one.
            let tally = Tally::new(limit);
            while let Some(chunk) = body.chunk().await? {
                tally.take(chunk.len())?;
                reader
                    .push(&chunk)
                    .map_err(|_| RequestError::TooLarge { limit })?;
                while let Some(data) = reader.next() {
                    if let Ok(Incoming::Response(response)) = Incoming::parse(&data)
                        && response.id.as_ref().is_none_or(|own| own == id)
                    {
                        strict::check(&data).map_err(ProtocolError::from)?;
                        return outcome(id, response, status);
                    }
                }
            }
            Err(RequestError::NoResponse)
        }
        _ if status.is_success() => Err(ProtocolError::ContentType.into()),
        _ => Err(RequestError::Http { status }),
    }
}
