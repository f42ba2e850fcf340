//! The HTTP boundary: every check that comes before a method is dispatched, and the order they come in.
//!
//! ```text
//! Host, Origin                      403     nothing of the request has been read
//! a browser's question (CORS)       204
//! method, media type                405 415
//! authentication                    401     nothing of the body has been read
//! size                              413
//! which era?                                what follows is the modern one; see `earlier` for the other
//! JSON, envelope, duplicates        -32700 -32600           400
//! header against body               -32020                  400
//! version in _meta, supported?      -32602 -32022           400
//! capabilities in _meta             -32602                  400
//! scopes for what it addresses      403     nothing of arguments, answers or state has been looked at
//! method known?                     -32601                  404
//! a tool's headers against arguments  -32020                400
//! ```
//!
//! Specification: `basic/transports/streamable-http`.

mod accept;
mod cors;
mod described;
pub(crate) mod earlier;
pub(crate) mod gate;
mod modern;
mod params;
mod serve;
mod sse;
mod streams;

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use mrtr_ledger::Account;
use mrtr_protocol::jsonrpc::write_error;
use mrtr_protocol::{ErrorObject, RequestId, code, headers, strict};
use mrtr_state::Principal;
use tower_service::Service;

use crate::access::Access;
use crate::auth::AuthError;
use crate::server::{Inner, Server};

type HttpReply = Response<Body>;

impl<B> Service<Request<B>> for Server
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = HttpReply;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<HttpReply, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            Ok(let_in(&inner, request)
                .await
                .unwrap_or_else(|refused| refused.into_response()))
        })
    }
}

/// A request that is refused before a method sees it. Boxed, because nearly all requests are not.
#[derive(Debug)]
struct Refused(Box<Refusal>);

#[derive(Debug)]
struct Refusal {
    status: StatusCode,
    id: Option<RequestId>,
    error: ErrorObject,
    header: Option<(http::HeaderName, HeaderValue)>,
}

impl Refused {
    fn new(status: StatusCode, id: Option<RequestId>, error: ErrorObject) -> Self {
        Self(Box::new(Refusal {
            status,
            id,
            error,
            header: None,
        }))
    }

    /// A refusal by HTTP itself; the body is a JSON-RPC error without an id.
    fn by_status(status: StatusCode, message: impl Into<String>) -> Self {
        Self::new(
            status,
            None,
            ErrorObject::new(code::INVALID_REQUEST, message),
        )
    }

    fn bad(id: &RequestId, code: i64, message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            Some(id.clone()),
            ErrorObject::new(code, message),
        )
    }

    fn with_header(mut self, name: http::HeaderName, value: HeaderValue) -> Self {
        self.0.header = Some((name, value));
        self
    }

    fn into_response(self) -> HttpReply {
        let Refusal {
            status,
            id,
            error,
            header,
        } = *self.0;
        let mut response = json(status, write_error(id.as_ref(), &error));
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// Whoever may not come in learns no more than that. A page that may can read every answer, refusals included.
async fn let_in<B>(inner: &Arc<Inner>, request: Request<B>) -> Result<HttpReply, Refused>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    inner
        .gate
        .check(&head)
        .map_err(|barred| Refused::by_status(StatusCode::FORBIDDEN, barred.to_string()))?;
    let page = cors::page(&head);
    let mut response = if cors::is_question(&head) {
        cors::yes(&head, earlier::methods(inner.earlier_era))
    } else {
        answer(inner, head, body)
            .await
            .unwrap_or_else(|refused| refused.into_response())
    };
    if let Some(page) = page {
        cors::share(&mut response, page);
    }
    Ok(response)
}

async fn answer<B>(inner: &Arc<Inner>, head: Parts, body: B) -> Result<HttpReply, Refused>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let for_session = [Method::GET, Method::DELETE].contains(&head.method)
        && inner.earlier_era
        && head.headers.contains_key(headers::SESSION_ID);
    if !for_session {
        check_head(inner, &head)?;
    }
    let identity = inner
        .authenticator
        .authenticate(&head)
        .await
        .map_err(unauthenticated)?;
    if for_session {
        return earlier::without_body(inner, &head, identity.principal());
    }
    let body = read(inner, &head, body).await?;
    if inner.earlier_era && earlier::is_earlier(&head, &body) {
        return earlier::post(inner, &head, identity, &body).await;
    }
    modern::post(inner, head, identity, body).await
}

fn unauthenticated(error: AuthError) -> Refused {
    let refused = |status| Refused::by_status(status, error.to_string());
    match &error {
        AuthError::Unauthenticated { challenge, .. } => {
            refused(StatusCode::UNAUTHORIZED).with_header(WWW_AUTHENTICATE, challenge.clone())
        }
        AuthError::InsufficientScope { challenge, .. } => {
            refused(StatusCode::FORBIDDEN).with_header(WWW_AUTHENTICATE, challenge.clone())
        }
        AuthError::Unavailable { .. } => refused(StatusCode::SERVICE_UNAVAILABLE),
    }
}

/// A request that lacks a scope: what it needs, in words and for the client to step up.
fn insufficient(inner: &Inner, id: Option<RequestId>, access: &Access) -> Refused {
    let needed = access.needed();
    tracing::info!("a request lacks a scope that it needs");
    let message = format!(
        "Insufficient scope: this request needs `{}`.",
        needed.join(" ")
    );
    let error = ErrorObject::new(code::INVALID_REQUEST, message);
    Refused::new(StatusCode::FORBIDDEN, id, error).with_header(
        WWW_AUTHENTICATE,
        inner.authenticator.insufficient_scope(&needed),
    )
}

/// Method and media type.
fn check_head(inner: &Inner, head: &Parts) -> Result<(), Refused> {
    if head.method != Method::POST {
        return Err(earlier::no_stream(inner.earlier_era));
    }
    let encoded = head
        .headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|coding| coding != "identity");
    if encoded {
        let message = "Send the message without `Content-Encoding`.";
        return Err(Refused::by_status(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            message,
        ));
    }
    if !is_json(&head.headers) {
        let message = "Send the message as `Content-Type: application/json`, in UTF-8.";
        return Err(Refused::by_status(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            message,
        ));
    }
    Ok(())
}

/// `application/json`, in UTF-8 if it says so. Nothing else is JSON here, however alike: a form or `text/plain` is what a
/// page on another site can send without asking.
fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (types.next(), types.next()) else {
        return false;
    };
    let Some(media) = value
        .to_str()
        .ok()
        .and_then(|value| value.parse::<mime::Mime>().ok())
    else {
        return false;
    };
    let utf8 = media
        .get_param(mime::CHARSET)
        .is_none_or(|charset| charset == mime::UTF_8);
    media.essence_str() == mime::APPLICATION_JSON.essence_str() && utf8
}

/// The whole body, bounded in size and time.
async fn read<B>(inner: &Inner, head: &Parts, body: B) -> Result<Vec<u8>, Refused>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let limit = inner.limits.body;
    let too_large = || {
        Refused::by_status(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("The body is larger than {limit} bytes, which is this server's limit."),
        )
    };
    // A body that announces itself as too large is not read at all.
    let announced = head
        .headers
        .get(http::header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    let gathered = gather(Limited::new(body, limit));
    match tokio::time::timeout(inner.limits.body_timeout, gathered).await {
        Ok(Ok(gathered)) => Ok(gathered),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Refused::by_status(
            StatusCode::BAD_REQUEST,
            "The body broke off.",
        )),
        Err(_) => Err(Refused::by_status(
            StatusCode::REQUEST_TIMEOUT,
            "The body took too long to arrive.",
        )),
    }
}

/// Frames into one buffer as they come: collected first and joined afterwards, they would be held twice.
async fn gather<B>(body: B) -> Result<Vec<u8>, B::Error>
where
    B: http_body::Body<Data = Bytes>,
{
    let mut body = pin!(body);
    let mut gathered = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            gathered.extend_from_slice(&data);
        }
    }
    Ok(gathered)
}

/// One pass for what serde_json lets through.
fn check_strictly(inner: &Inner, body: &[u8], id: Option<&RequestId>) -> Result<(), Refused> {
    strict::check_with(body, inner.limits.depth).map_err(|violation| {
        Refused::new(
            StatusCode::BAD_REQUEST,
            id.cloned(),
            violation.to_error_object(),
        )
    })
}

/// Anonymous callers share limits by address, everybody else by principal.
fn account(head: &Parts, principal: &Principal) -> Account {
    match principal {
        Principal::Anonymous => {
            let address = head.extensions.get::<ConnectInfo<SocketAddr>>();
            Account::anonymous_at(
                &address.map_or_else(String::new, |ConnectInfo(address)| address.ip().to_string()),
            )
        }
        known => Account::of(known),
    }
}

fn accepted() -> HttpReply {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

fn json(status: StatusCode, body: Vec<u8>) -> HttpReply {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // An answer can hold a sealed state, which is nobody's to keep but the client's.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
