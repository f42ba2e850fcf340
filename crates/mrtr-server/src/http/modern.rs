//! The modern era over HTTP: one request, one answer, as JSON or as a stream of events.
//!
//! The answer is JSON, unless something is sent before the result: then it is a stream, whose body carries the request on. A body
//! that is dropped because its connection closed takes the request with it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::StatusCode;
use http::header::ACCEPT;
use http::request::Parts;
use mrtr_protocol::jsonrpc::write_error;
use mrtr_protocol::object::as_string;
use mrtr_protocol::{ErrorObject, Members, Message, REVISION, Request, RequestMeta, code, method};

use super::accept::takes_events;
use super::described::{Described, named_by};
use super::sse::{self, Source};
use super::{HttpReply, Refused, accepted, account, check_strictly, insufficient, json, params};
use crate::access::{self, Identity};
use crate::call::Requester;
use crate::hub::Subscriber;
use crate::listen::Listening;
use crate::methods::{self, not_found};
use crate::modern::{self, Declared};
use crate::outbox::{Link, Outbox, Pipe, in_one_line};
use crate::server::Inner;

/// What a body came to.
enum Came {
    /// A notification, which is not answered.
    Nothing,
    /// The response, and the status that it travels with.
    Message(StatusCode, Vec<u8>),
    /// A subscription that is open from here on.
    Subscription(Listening),
}

type Answered = Result<Came, Refused>;

/// A POST.
pub(super) async fn post(
    inner: &Arc<Inner>,
    head: Parts,
    identity: Identity,
    body: Vec<u8>,
) -> Result<HttpReply, Refused> {
    let keep_alive = inner.limits.keep_alive;
    if !inner.sends || !takes_events(&head.headers) {
        let came = answer(Arc::clone(inner), head, identity, body, None).await?;
        return Ok(reply(came, keep_alive));
    }
    let pipe = Arc::new(Pipe::default());
    let mut work: Work = Box::pin(answer(
        Arc::clone(inner),
        head,
        identity,
        body,
        Some(Arc::clone(&pipe)),
    ));
    let first = std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(answered) => {
            pipe.close();
            Poll::Ready(Some(answered))
        }
        Poll::Pending => pipe.poll_filled(cx).map(|()| None),
    });
    let events = match first.await {
        Some(answered) if pipe.is_empty() => return Ok(reply(answered?, keep_alive)),
        Some(answered) => Events {
            work: None,
            pipe,
            last: last(answered),
        },
        None => Events {
            work: Some(work),
            pipe,
            last: None,
        },
    };
    Ok(sse::answer(events, keep_alive))
}

/// The answer where nothing was sent before it.
fn reply(came: Came, keep_alive: Duration) -> HttpReply {
    match came {
        Came::Nothing => accepted(),
        Came::Message(status, message) => json(status, message),
        Came::Subscription(listening) => sse::answer(Subscribed(Some(listening)), keep_alive),
    }
}

/// `subscriptions/listen`: always a stream of events. Nothing of the request but its id is kept while it is open.
fn listen(inner: &Inner, head: &Parts, admitted: Admitted<'_>) -> Answered {
    let Admitted {
        request: Request { id, .. },
        params,
        requester,
    } = admitted;
    if !inner.announces {
        let error = not_found(method::SUBSCRIPTIONS_LISTEN);
        return Err(Refused::new(StatusCode::NOT_FOUND, Some(id), error));
    }
    if head.headers.contains_key(ACCEPT) && !takes_events(&head.headers) {
        let error = ErrorObject::new(
            code::INVALID_REQUEST,
            "A subscription is a stream of events: send `Accept: application/json, text/event-stream`.",
        );
        return Err(Refused::new(StatusCode::NOT_ACCEPTABLE, Some(id), error));
    }
    let subscriber = Subscriber {
        principal: requester.principal,
        account: requester.account,
    };
    Ok(
        match Listening::open(inner, &id, &params, subscriber, &requester.granted) {
            Ok(listening) => Came::Subscription(listening),
            Err(reply) => Came::Message(reply.status, reply.into_message(&id)),
        },
    )
}

/// An open subscription, until its response has been written.
struct Subscribed(Option<Listening>);

impl Source for Subscribed {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let Some(listening) = &mut self.0 else {
            return Poll::Ready(None);
        };
        let message = match ready!(listening.poll_notification(cx)) {
            Some(notification) => notification,
            None => {
                let response = listening.result().into_message(listening.id());
                self.0 = None;
                response
            }
        };
        Poll::Ready(Some(sse::event(&message)))
    }
}

type Work = Pin<Box<dyn Future<Output = Answered> + Send>>;

/// A request that goes on while its messages are read.
struct Events {
    work: Option<Work>,
    pipe: Arc<Pipe>,
    /// The response, once it is there.
    last: Option<Vec<u8>>,
}

impl Source for Events {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        if let Some(work) = &mut self.work
            && let Poll::Ready(answered) = work.as_mut().poll(cx)
        {
            self.pipe.close();
            self.last = last(answered);
            self.work = None;
        }
        match self.pipe.poll_next(cx) {
            Poll::Ready(message) => Poll::Ready(Some(sse::event(&message))),
            Poll::Pending if self.work.is_some() => Poll::Pending,
            Poll::Pending => Poll::Ready(self.last.take().map(|message| sse::event(&message))),
        }
    }
}

/// Once the stream has begun, the status is said: an error is the last event.
fn last(answered: Answered) -> Option<Vec<u8>> {
    let message = match answered {
        Ok(Came::Message(_, message)) => message,
        // Neither sends anything before it is there.
        Ok(Came::Nothing | Came::Subscription(_)) => return None,
        Err(refused) => write_error(refused.0.id.as_ref(), &refused.0.error),
    };
    Some(in_one_line(message))
}

/// One body to what it comes to. Owns everything, so that it can go on inside a stream.
async fn answer(
    inner: Arc<Inner>,
    head: Parts,
    identity: Identity,
    body: Vec<u8>,
    pipe: Option<Arc<Pipe>>,
) -> Answered {
    let request = match Message::parse(&body) {
        Ok(Message::Request(request)) => request,
        Ok(Message::Notification(_)) => {
            check_strictly(&inner, &body, None)?;
            // This revision defines no notification that a client sends over HTTP; others are not ours to judge.
            return Ok(Came::Nothing);
        }
        Err(error) => {
            let (id, error) = (error.id().cloned(), error.to_error_object());
            return Err(Refused::new(StatusCode::BAD_REQUEST, id, error));
        }
    };
    check_strictly(&inner, &body, Some(&request.id))?;
    let admitted = admit(&inner, &head, identity, request, pipe)?;
    if admitted.request.method == method::SUBSCRIPTIONS_LISTEN {
        return listen(&inner, &head, admitted);
    }
    let Admitted {
        request,
        params,
        requester,
    } = admitted;
    let Some(reply) = methods::dispatch(&inner, &request.method, &params, requester).await else {
        let error = not_found(&request.method);
        return Err(Refused::new(StatusCode::NOT_FOUND, Some(request.id), error));
    };
    Ok(Came::Message(reply.status, reply.into_message(&request.id)))
}

/// A request that has passed the boundary's checks.
struct Admitted<'a> {
    request: Request<'a>,
    params: Members<'a>,
    requester: Requester,
}

/// Everything that is checked before the method is looked at.
fn admit<'a>(
    inner: &Inner,
    head: &Parts,
    identity: Identity,
    request: Request<'a>,
    pipe: Option<Arc<Pipe>>,
) -> Result<Admitted<'a>, Refused> {
    let params = request
        .params
        .map(Members::parse)
        .transpose()
        .ok()
        .flatten()
        .unwrap_or_default();
    let Declared {
        kinds,
        progress,
        log,
    } = declared(head, &request, &params)?;
    let Identity { principal, granted } = identity;
    access::check(&inner.catalogue, &granted, &request.method, &params)
        .map_err(|access| insufficient(inner, Some(request.id.clone()), access))?;
    params::compare(
        &inner.catalogue,
        &granted,
        &head.headers,
        &request.method,
        &params,
    )
    .map_err(|mismatch| {
        let message = format!("Header mismatch: {mismatch}.");
        Refused::bad(&request.id, code::HEADER_MISMATCH, message)
    })?;
    let requester = Requester {
        account: account(head, &principal),
        principal,
        granted,
        declared: kinds,
        link: Link {
            outbox: pipe.map(|pipe| pipe as Outbox),
            progress,
            log,
            line: None,
        },
    };
    Ok(Admitted {
        request,
        params,
        requester,
    })
}

/// Header against body first, then what `_meta` must say.
fn declared(
    head: &Parts,
    request: &Request<'_>,
    params: &Members<'_>,
) -> Result<Declared, Refused> {
    let meta = RequestMeta::of(params);
    let version = meta
        .as_ref()
        .ok()
        .and_then(|meta| meta.protocol_version().ok());
    let target = named_by(&request.method)
        .and_then(|member| params.get(member))
        .and_then(as_string);
    let described = Described::read(&head.headers).and_then(|described| {
        described.compare(&request.method, version.as_deref(), target.as_deref())
    });
    described.map_err(|mismatch| {
        let served =
            format!("Header mismatch: {mismatch}. This server speaks revision {REVISION}.");
        Refused::bad(&request.id, code::HEADER_MISMATCH, served)
    })?;
    modern::declared(meta).map_err(|refusal| {
        let (status, error): (StatusCode, ErrorObject) = *refusal;
        Refused::new(status, Some(request.id.clone()), error)
    })
}
