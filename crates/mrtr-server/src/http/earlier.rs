//! The earlier era over HTTP: sessions, their streams, and the messages that are posted to them.
//!
//! Specification: revision 2025-11-25, `basic/transports`, "Streamable HTTP".

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::ALLOW;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use mrtr_protocol::earlier::EarlierRevision;
use mrtr_protocol::jsonrpc::{is_batch, parse_batch, write_batch, write_error, write_result};
use mrtr_protocol::{
    EnvelopeError, ErrorObject, Incoming, Members, REVISION, Request, code, headers, method,
};
use mrtr_state::{Principal, Timestamp, random};
use serde_json::value::RawValue;

use super::accept::{prefers_events, takes_events};
use super::streams::{EventId, Form, Streams};
use super::{HttpReply, Refused, accepted, account, check_strictly, insufficient, json, sse};
use crate::access::{self, Granted, Identity};
use crate::calls::Place;
use crate::line::Answered;
use crate::outbox::{Outbox, in_one_line};
use crate::server::Inner;
use crate::session::Session;

/// Messages in one batch. Only revision 2025-03-26 has batches.
const BATCH: usize = 64;

/// The sessions that are open over HTTP.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Arc<Open>>>);

/// A session, its streams, and when it was last used.
struct Open {
    session: Arc<Session>,
    streams: Streams,
    used: Mutex<Timestamp>,
}

impl Open {
    fn touch(&self, now: Timestamp) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Whether nobody has used it for as long as a session may be idle.
    fn is_idle(&self, inner: &Inner, now: Timestamp) -> bool {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_since(used) >= inner.limits.session_idle
            && !self.session.calls.is_busy()
            && !self.streams.are_read()
    }

    fn close(&self) {
        self.session.calls.close();
        self.streams.end();
    }
}

impl Sessions {
    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<Open>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a session under a new id. `None`: there are as many as there may be.
    fn add(&self, inner: &Inner, id: String, open: Arc<Open>) -> Option<()> {
        let now = inner.clock.now();
        let mut table = self.table();
        table.retain(|_, open| {
            let idle = open.is_idle(inner, now);
            if idle {
                open.close();
            }
            !idle
        });
        let account = open.session.account();
        let own = table
            .values()
            .filter(|open| open.session.account() == account)
            .count();
        if table.len() >= inner.limits.sessions || own >= inner.limits.sessions_per_principal {
            return None;
        }
        table.insert(id, open);
        Some(())
    }

    /// The session of this id, if it is this principal's and not over.
    fn find(&self, inner: &Inner, id: &str, principal: &Principal) -> Option<Arc<Open>> {
        let now = inner.clock.now();
        let mut table = self.table();
        let open = table.get(id)?;
        if !open.session.belongs_to(principal) {
            return None;
        }
        if open.is_idle(inner, now) {
            open.close();
            table.remove(id);
            return None;
        }
        open.touch(now);
        Some(Arc::clone(open))
    }

    fn remove(&self, id: &str) {
        if let Some(open) = self.table().remove(id) {
            open.close();
        }
    }

    fn all(&self) -> Vec<Arc<Open>> {
        self.table().values().cloned().collect()
    }

    /// Ends what waits for a person in any of them, and the streams that no call needs. What works goes on.
    pub(crate) fn wind_up(&self) {
        for open in self.all() {
            open.session.wind_up();
            open.streams.end_standalone();
        }
    }

    /// Resolves when no call runs in the sessions that are open now.
    pub(crate) async fn ended(&self) {
        for open in self.all() {
            open.session.calls.ended().await;
        }
    }

    /// Ends all of them.
    pub(crate) fn close(&self) {
        for (_, open) in self.table().drain() {
            open.close();
        }
    }

    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.table().len()
    }
}

/// Whether a POST is one of the earlier era: by its version, or by how it opens where there is none.
pub(super) fn is_earlier(head: &Parts, body: &[u8]) -> bool {
    let version = head.headers.get(headers::PROTOCOL_VERSION);
    match version.map(|version| version.to_str().unwrap_or_default().trim()) {
        Some(REVISION) => false,
        Some(version) => EarlierRevision::from_word(version).is_some() && !is_modern(body),
        None => {
            let of_a_session = head.headers.contains_key(headers::SESSION_ID);
            (of_a_session || is_batch(body) || opens(body)) && !is_modern(body)
        }
    }
}

fn opens(body: &[u8]) -> bool {
    matches!(Incoming::parse(body), Ok(Incoming::Request(request)) if request.method == method::INITIALIZE)
}

/// Whether the body says in `_meta` that it is of the modern era.
fn is_modern(body: &[u8]) -> bool {
    let Ok(Incoming::Request(Request {
        params: Some(params),
        ..
    })) = Incoming::parse(body)
    else {
        return false;
    };
    crate::modern::is_modern(params)
}

/// A GET or a DELETE: a session's standalone stream, the rest of a stream, or the session's end.
pub(super) fn without_body(
    inner: &Inner,
    head: &Parts,
    principal: &Principal,
) -> Result<HttpReply, Refused> {
    let (id, open) = session(inner, head, principal)?;
    if head.method == Method::DELETE {
        inner.sessions.remove(id);
        let mut response = accepted();
        *response.status_mut() = StatusCode::NO_CONTENT;
        return Ok(response);
    }
    if !takes_events(&head.headers) {
        return Err(Refused::by_status(
            StatusCode::NOT_ACCEPTABLE,
            "A GET opens a stream of events: send `Accept: text/event-stream`.",
        ));
    }
    let mut seen = head.headers.get_all("last-event-id").iter();
    let reader = match (seen.next(), seen.next()) {
        (_, Some(_)) => {
            return Err(Refused::by_status(
                StatusCode::BAD_REQUEST,
                "Send one `Last-Event-ID`, or none.",
            ));
        }
        (None, None) => open
            .streams
            .standalone()
            .read(None, false)
            .with_changes(true, &open.session),
        (Some(seen), None) => {
            let seen: Option<EventId> =
                seen.to_str().ok().and_then(|seen| seen.trim().parse().ok());
            let stream = seen.and_then(|seen| open.streams.of(seen));
            let stream = stream.ok_or_else(|| {
                Refused::by_status(
                    StatusCode::BAD_REQUEST,
                    "No stream of this session has an event of that `Last-Event-ID`, or not any more.",
                )
            })?;
            // What belongs to no request goes on where it was left.
            stream
                .read(seen, false)
                .with_changes(seen.is_some_and(EventId::is_standalone), &open.session)
        }
    };
    Ok(sse::answer(reader, inner.limits.keep_alive))
}

/// A POST: one message, or a batch of them where the session's revision has batches.
pub(super) async fn post(
    inner: &Arc<Inner>,
    head: &Parts,
    identity: Identity,
    body: &[u8],
) -> Result<HttpReply, Refused> {
    let Identity { principal, granted } = identity;
    check_strictly(inner, body, None)?;
    let bad = |error: ErrorObject, id| Refused::new(StatusCode::BAD_REQUEST, id, error);
    if is_batch(body) {
        let (_, open) = session(inner, head, &principal)?;
        if !open.session.revision.has_batches() {
            return Err(Refused::by_status(
                StatusCode::BAD_REQUEST,
                "Batches are not supported in this session's revision; send each message by itself.",
            ));
        }
        let messages = parse_batch(body, BATCH)
            .map_err(|error| bad(error.to_error_object(), error.id().cloned()))?;
        return receive(inner, head, &open, granted, messages, true).await;
    }
    match Incoming::parse(body) {
        Ok(Incoming::Request(request)) if request.method == method::INITIALIZE => {
            if head.headers.contains_key(headers::SESSION_ID) {
                let error = ErrorObject::new(
                    code::INVALID_REQUEST,
                    "This session is initialized. Send `initialize` without `Mcp-Session-Id` to open another one.",
                );
                return Err(bad(error, Some(request.id)));
            }
            open(inner, head, principal, &request)
        }
        message => {
            let (_, open) = session(inner, head, &principal)?;
            receive(inner, head, &open, granted, vec![message], false).await
        }
    }
}

/// Opens a session.
fn open(
    inner: &Inner,
    head: &Parts,
    principal: Principal,
    request: &Request<'_>,
) -> Result<HttpReply, Refused> {
    let account = account(head, &principal);
    let opened = Session::open(inner, principal, account, Arc::default(), request.params);
    let (session, result) =
        opened.map_err(|error| Refused::new(StatusCode::OK, Some(request.id.clone()), error))?;
    let id = random::<32>().map(|id| URL_SAFE_NO_PAD.encode(id));
    let id = id.map_err(|error| {
        tracing::error!(%error, "no session is opened");
        Refused::by_status(
            StatusCode::SERVICE_UNAVAILABLE,
            "The server has no randomness to open a session with.",
        )
    })?;
    let open = Open {
        session: Arc::new(session),
        streams: Streams::default(),
        used: Mutex::new(inner.clock.now()),
    };
    let header = HeaderValue::from_str(&id).ok();
    inner
        .sessions
        .add(inner, id, Arc::new(open))
        .ok_or_else(|| {
            tracing::warn!("there are as many sessions as there may be; none is opened");
            Refused::by_status(
                StatusCode::SERVICE_UNAVAILABLE,
                "Too many sessions are open. End those that are not needed with DELETE, or try again later.",
            )
        })?;
    let mut response = json(StatusCode::OK, write_result(&request.id, result.get()));
    if let Some(header) = header {
        response.headers_mut().insert(headers::SESSION_ID, header);
    }
    Ok(response)
}

/// Takes messages that were posted together. Requests run in tasks of their own, because their connection may go.
async fn receive(
    inner: &Arc<Inner>,
    head: &Parts,
    open: &Arc<Open>,
    granted: Granted,
    messages: Vec<Result<Incoming<'_>, EnvelopeError>>,
    batched: bool,
) -> Result<HttpReply, Refused> {
    let mut running = Vec::new();
    let mut refused = Vec::new();
    let (mut unknown, mut lacking) = (false, None);
    for message in messages {
        let fault = match message {
            Ok(Incoming::Request(request)) => match admit(inner, open, &granted, &request) {
                Ok(place) => {
                    running.push((request, place));
                    continue;
                }
                Err(refused) => refused,
            },
            Ok(Incoming::Notification(notification)) => {
                open.session.notified(&notification);
                continue;
            }
            Ok(Incoming::Response(response)) => {
                match open.session.answered(response, &granted) {
                    Answered::Taken => {}
                    Answered::Unknown => unknown = true,
                    // It has no id of its own that an error could name.
                    Answered::Insufficient(access) => lacking = Some(access),
                }
                continue;
            }
            Err(error) => {
                let (id, error) = (error.id().cloned(), error.to_error_object());
                Refused::new(StatusCode::BAD_REQUEST, id, error)
            }
        };
        if !batched {
            return Err(fault);
        }
        // One bad message spoils no other of its batch.
        refused.push(write_error(fault.0.id.as_ref(), &fault.0.error));
    }
    if running.is_empty() && refused.is_empty() {
        return if let Some(access) = lacking {
            Err(insufficient(inner, None, &access))
        } else if unknown {
            Err(Refused::by_status(
                StatusCode::BAD_REQUEST,
                "No question of that id waits for an answer in this session.",
            ))
        } else {
            Ok(accepted())
        };
    }
    let stream = open.streams.open(running.len() + refused.len());
    for error in refused {
        stream.respond(Some(error));
    }
    for (request, place) in running {
        let (inner, open, stream) = (Arc::clone(inner), Arc::clone(open), Arc::clone(&stream));
        let (id, name) = (request.id.clone(), request.method.into_owned());
        let granted = granted.clone();
        let params = request.params.map(RawValue::to_owned);
        tokio::spawn(async move {
            let outbox: Outbox = Arc::clone(&stream) as Outbox;
            let cancelled = place.cancelled();
            let answer =
                open.session
                    .answer(&inner, outbox, cancelled, granted, &name, params.as_deref());
            let reply = place.run(answer).await;
            drop(place);
            let reply = reply.map(|reply| in_one_line(reply.into_message(&id)));
            open.touch(inner.clock.now());
            stream.respond(reply);
            open.streams.trim(&stream);
        });
    }
    // A stream can be come back to when its connection breaks, so whoever names streams first gets one.
    let form = match prefers_events(&head.headers) {
        true => Form::Events,
        false => stream.form().await,
    };
    match form {
        Form::Json(responses) => {
            open.streams.forget(&stream);
            Ok(json(StatusCode::OK, in_json(responses, batched)))
        }
        Form::Events => {
            let primes = open.session.revision >= EarlierRevision::V2025_11_25;
            Ok(sse::answer(
                stream.read(None, primes),
                inner.limits.keep_alive,
            ))
        }
    }
}

/// A place for this request to run in, if its caller may make it.
fn admit(
    inner: &Inner,
    open: &Open,
    granted: &Granted,
    request: &Request<'_>,
) -> Result<Place, Refused> {
    // What cannot be read addresses nothing, and is told so where it is answered.
    let params = request
        .params
        .and_then(|params| Members::parse(params).ok());
    access::check(
        &inner.catalogue,
        granted,
        &request.method,
        &params.unwrap_or_default(),
    )
    .map_err(|access| insufficient(inner, Some(request.id.clone()), access))?;
    let place = open.session.calls.place(&request.id);
    place.map_err(|none| Refused::bad(&request.id, code::INVALID_REQUEST, none.to_string()))
}

fn in_json(responses: Vec<Vec<u8>>, batched: bool) -> Vec<u8> {
    if batched {
        return write_batch(responses.iter().map(Vec::as_slice)).unwrap_or_default();
    }
    responses.into_iter().next().unwrap_or_default()
}

/// The session that the request names, which must be the caller's own.
fn session<'h>(
    inner: &Inner,
    head: &'h Parts,
    principal: &Principal,
) -> Result<(&'h str, Arc<Open>), Refused> {
    let mut ids = head.headers.get_all(headers::SESSION_ID).iter();
    let (Some(id), None) = (ids.next(), ids.next()) else {
        return Err(Refused::by_status(
            StatusCode::BAD_REQUEST,
            "Send the `Mcp-Session-Id` that `initialize` was answered with, once.",
        ));
    };
    let gone = || {
        Refused::by_status(
            StatusCode::NOT_FOUND,
            "No such session, or not any more. Open one with `initialize`.",
        )
    };
    check_version(&head.headers)?;
    let id = id.to_str().map_err(|_| gone())?;
    let open = inner.sessions.find(inner, id, principal).ok_or_else(gone)?;
    Ok((id, open))
}

/// The revision that a session's request names, if it names one, is of this era and one (revision 2025-11-25, `basic/transports`,
/// "Protocol Version Header").
fn check_version(sent: &HeaderMap) -> Result<(), Refused> {
    let mut versions = sent.get_all(headers::PROTOCOL_VERSION).iter();
    let good = match (versions.next(), versions.next()) {
        (None, _) => true,
        (Some(version), None) => version
            .to_str()
            .is_ok_and(|version| EarlierRevision::from_word(version.trim()).is_some()),
        (Some(_), Some(_)) => false,
    };
    good.then_some(()).ok_or_else(|| {
        Refused::by_status(
            StatusCode::BAD_REQUEST,
            "Send the `MCP-Protocol-Version` that `initialize` agreed on, once, or none.",
        )
    })
}

/// The methods of HTTP that are served at all.
pub(super) fn methods(earlier: bool) -> HeaderValue {
    HeaderValue::from_static(if earlier { "POST, GET, DELETE" } else { "POST" })
}

/// What a GET without a session is told: there is no stream to open.
pub(super) fn no_stream(earlier: bool) -> Refused {
    let message = if earlier {
        "Send each message as an HTTP POST to this endpoint. GET and DELETE are for sessions: send the `Mcp-Session-Id` that `initialize` was answered with."
    } else {
        "Send each message as an HTTP POST to this endpoint; this revision has no GET stream and no session."
    };
    Refused::by_status(StatusCode::METHOD_NOT_ALLOWED, message).with_header(ALLOW, methods(earlier))
}
