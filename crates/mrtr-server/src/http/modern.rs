//! The modern era over HTTP: one request, one answer, as JSON or as a stream of events.
//!
//! The answer is JSON, unless something is sent before the result: then it is a stream, whose body carries the request on. A body
//! that is dropped because its connection closed takes the request with it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::StatusCode;
use http::request::Parts;
use mrtr_protocol::jsonrpc::write_error;
use mrtr_protocol::object::as_string;
use mrtr_protocol::{ErrorObject, Members, Message, REVISION, Request, RequestMeta, code};
use mrtr_state::Principal;

use super::described::{Described, named_by};
use super::earlier::takes_events;
use super::sse::{self, Source};
use super::{HttpReply, Refused, accepted, account, check_strictly, json, params};
use crate::call::Requester;
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
    if let Ok(Message::Notification(_)) = Message::parse(&body) {
        check_strictly(inner, &body, None)?;
        // This revision defines no notification that a client sends over HTTP; others are not ours to judge.
        return Ok(accepted());
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
        Poll::Ready(answered) => Poll::Ready(Some(answered)),
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
    let request = match Message::parse(&body) {
        Ok(Message::Request(request)) => request,
        Ok(Message::Notification(_)) => {
            return Err(Refused::by_status(StatusCode::BAD_REQUEST, "No request."));
        }
        Err(error) => {
            let (id, error) = (error.id().cloned(), error.to_error_object());
            return Err(Refused::new(StatusCode::BAD_REQUEST, id, error));
        }
    };
    check_strictly(&inner, &body, Some(&request.id))?;
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
    } = declared(&head, &request, &params)?;
    params::compare(&inner.catalogue, &head.headers, &request.method, &params).map_err(
        |mismatch| {
            let message = format!("Header mismatch: {mismatch}.");
            Refused::bad(&request.id, code::HEADER_MISMATCH, message)
        },
    )?;
    let requester = Requester {
        account: account(&head, &principal),
        principal,
        declared: kinds,
        link: Link {
            outbox: pipe.map(|pipe| pipe as Outbox),
            progress,
            log,
            line: None,
        },
    };
    let Some(reply) = modern::dispatch(&inner, &request.method, &params, requester).await else {
        let error = not_found(&request.method);
        return Err(Refused::new(StatusCode::NOT_FOUND, Some(request.id), error));
    };
    Ok((reply.status, reply.into_message(&request.id)))
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
