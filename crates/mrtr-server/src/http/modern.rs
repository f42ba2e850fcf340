//! The modern era over HTTP: one request, one answer, as JSON or as a stream of events.
//!
//! The answer is JSON, unless something is sent before the result: then it is a stream, whose body carries the request on. A body
//! that is dropped because its connection closed takes the request with it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::StatusCode;
use http::header::ACCEPT;
use http::request::Parts;
use mrtr_protocol::jsonrpc::write_error;
use mrtr_protocol::object::as_string;
use mrtr_protocol::{ErrorObject, Members, Message, REVISION, Request, RequestMeta, code, method};
use mrtr_state::Principal;

use super::described::{Described, named_by};
use super::earlier::takes_events;
use super::sse::{self, Source};
use super::{HttpReply, Refused, accepted, account, check_strictly, json, params};
use crate::call::Requester;
use crate::hub::Subscriber;
use crate::listen::Listening;
use crate::modern::{self, Declared, not_found};
use crate::outbox::{Link, Outbox, Pipe, in_one_line};
use crate::server::Inner;

/// What a request came to: the status that it travels with, and the message.
type Answered = Result<(StatusCode, Vec<u8>), Refused>;

/// A POST.
pub(super) async fn post(
    inner: &Arc<Inner>,
    head: Parts,
    principal: Principal,
    body: Vec<u8>,
) -> Result<HttpReply, Refused> {
    match Message::parse(&body) {
        Ok(Message::Notification(_)) => {
            check_strictly(inner, &body, None)?;
            // This revision defines no notification that a client sends over HTTP; others are not ours to judge.
            return Ok(accepted());
        }
        Ok(Message::Request(request)) if request.method == method::SUBSCRIPTIONS_LISTEN => {
            return listen(inner, &head, principal, &body);
        }
        _ => {}
    }
    if !inner.sends || !takes_events(&head.headers) {
        let (status, message) = answer(Arc::clone(inner), head, principal, body, None).await?;
        return Ok(json(status, message));
    }
    let pipe = Arc::new(Pipe::default());
    let mut work: Work = Box::pin(answer(
        Arc::clone(inner),
        head,
        principal,
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
    let answered = first.await;
    match answered {
        Some(answered) if pipe.is_empty() => {
            let (status, message) = answered?;
            Ok(json(status, message))
        }
        Some(answered) => {
            let events = Events {
                work: None,
                pipe,
                last: Some(last(answered)),
            };
            Ok(sse::answer(events, inner.limits.keep_alive))
        }
        None => {
            let events = Events {
                work: Some(work),
                pipe,
                last: None,
            };
            Ok(sse::answer(events, inner.limits.keep_alive))
        }
    }
}

/// `subscriptions/listen`: always a stream of events. Nothing of the request but its id is kept while it is open.
fn listen(
    inner: &Arc<Inner>,
    head: &Parts,
    principal: Principal,
    body: &[u8],
) -> Result<HttpReply, Refused> {
    let Admitted {
        request,
        params,
        requester,
    } = admit(inner, head, principal, body, None)?;
    let id = request.id;
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
    Ok(match Listening::open(inner, &id, &params, subscriber) {
        Ok(listening) => sse::answer(Subscribed(Some(listening)), inner.limits.keep_alive),
        Err(reply) => json(reply.status, reply.into_message(&id)),
    })
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
            self.last = Some(last(answered));
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
fn last(answered: Answered) -> Vec<u8> {
    let message = match answered {
        Ok((_, message)) => message,
        Err(refused) => write_error(refused.0.id.as_ref(), &refused.0.error),
    };
    in_one_line(message)
}

/// One request to its response. Owns everything, so that it can go on inside a stream.
async fn answer(
    inner: Arc<Inner>,
    head: Parts,
    principal: Principal,
    body: Vec<u8>,
    pipe: Option<Arc<Pipe>>,
) -> Answered {
    let Admitted {
        request,
        params,
        requester,
    } = admit(&inner, &head, principal, &body, pipe)?;
    let Some(reply) = modern::dispatch(&inner, &request.method, &params, requester).await else {
        let error = not_found(&request.method);
        return Err(Refused::new(StatusCode::NOT_FOUND, Some(request.id), error));
    };
    Ok((reply.status, reply.into_message(&request.id)))
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
    principal: Principal,
    body: &'a [u8],
    pipe: Option<Arc<Pipe>>,
) -> Result<Admitted<'a>, Refused> {
    let request = match Message::parse(body) {
        Ok(Message::Request(request)) => request,
        Ok(Message::Notification(_)) => {
            return Err(Refused::by_status(StatusCode::BAD_REQUEST, "No request."));
        }
        Err(error) => {
            let (id, error) = (error.id().cloned(), error.to_error_object());
            return Err(Refused::new(StatusCode::BAD_REQUEST, id, error));
        }
    };
    check_strictly(inner, body, Some(&request.id))?;
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
    params::compare(&inner.catalogue, &head.headers, &request.method, &params).map_err(
        |mismatch| {
            let message = format!("Header mismatch: {mismatch}.");
            Refused::bad(&request.id, code::HEADER_MISMATCH, message)
        },
    )?;
    let requester = Requester {
        account: account(head, &principal),
        principal,
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
