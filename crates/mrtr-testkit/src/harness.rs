//! Server and client in one process, without a socket.

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyDataStream, BodyExt as _, Full};
use mrtr_client::{
    Client, ClientBuilder, ResponseBody, Transport, TransportError, TransportFuture,
};
use serde_json::Value;
use tower_service::Service;

use crate::raw::RawCall;
use crate::redacted::Redacted;
use crate::reply::Reply;

/// A server, and whatever a test wants to call it with: a whole client, or requests that no client would send.
///
/// Every request goes through the server's own boundary (headers, authentication, limits, JSON) and every byte of it and of
/// its answer is [recorded](Harness::exchanges). Clones, and what [`by`](Harness::by) gives, share server and record.
///
/// ```
/// # use mrtr_server::{Server, tool};
/// # use mrtr_testkit::Harness;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Server::builder("clock", "1.0.0").allow_anonymous().tool(tool("tick", async || "tock")).build()?;
/// let harness = Harness::new(server);
///
/// let client = harness.client().build()?;
/// assert_eq!(client.call_tool("tick", ()).await?.joined_text(), "tock");
///
/// let reply = harness.raw("tick").without_header("mcp-method").send().await;
/// assert_eq!((reply.status().as_u16(), reply.code()), (400, Some(-32020)));
/// # Ok(())
/// # }
/// ```
///
/// **What it does not show:** anything of sockets and HTTP framing, and what a proxy in between does. Dropping the future of
/// a request is what a closed connection is to the server.
#[derive(Clone)]
pub struct Harness {
    service: Arc<dyn Dispatch>,
    record: Arc<Record>,
    url: String,
    token: Option<String>,
}

impl Harness {
    /// Where the server is thought to be, until [`at`](Harness::at) says otherwise. Nothing listens there.
    pub const URL: &'static str = "http://localhost/mcp";

    /// A harness around a [`Server`](mrtr_server::Server), or around anything else that is called like one: an
    /// `axum::Router` that serves it at `/mcp` behind layers of its own.
    pub fn new<S, B>(service: S) -> Harness
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Harness {
            service: Arc::new(InProcess(service)),
            record: Arc::default(),
            url: Self::URL.to_owned(),
            token: None,
        }
    }

    /// The same server under another URL, for one that serves a `Host` or a path of its own.
    #[must_use]
    pub fn at(&self, url: impl Into<String>) -> Harness {
        Harness {
            url: url.into(),
            ..self.clone()
        }
    }

    /// The same server for the caller with this bearer token.
    #[must_use]
    pub fn by(&self, token: impl Into<String>) -> Harness {
        Harness {
            token: Some(token.into()),
            ..self.clone()
        }
    }

    /// A client of the server, as its caller. Add handlers, and build it.
    pub fn client(&self) -> ClientBuilder {
        let builder = Client::builder(&self.url).transport(Loopback(self.clone()));
        match &self.token {
            Some(token) => builder.bearer(token),
            None => builder,
        }
    }

    /// A `tools/call` written by hand, as its caller: good as it is, and to be bent.
    pub fn raw(&self, tool: impl Into<String>) -> RawCall {
        RawCall::new(self.clone(), tool.into())
    }

    /// Everything that was sent so far, by whomever, in the order in which it was sent.
    #[must_use]
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.record.all().clone()
    }

    /// Begins the record anew.
    pub fn forget_exchanges(&self) {
        self.record.all().clear();
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Sends one request and records it, and its answer as that arrives.
    pub(crate) async fn exchange(&self, request: Request<Bytes>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let exchange = Exchange {
            headers: head.headers.clone(),
            body: body.clone(),
            answer: Arc::default(),
        };
        let answer = Arc::clone(&exchange.answer);
        self.record.all().push(exchange);
        let request = Request::from_parts(head, Full::new(body));
        let (head, body) = self.service.call(request).await.into_parts();
        *lock(&answer) = Some(Answer {
            status: head.status,
            headers: head.headers.clone(),
            body: Vec::new(),
        });
        let body = body.map_frame(move |frame| {
            if let (Some(data), Some(answer)) = (frame.data_ref(), lock(&answer).as_mut()) {
                answer.body.extend_from_slice(data);
            }
            frame
        });
        Response::from_parts(head, body.boxed_unsync())
    }
}

/// Never prints the token.
impl fmt::Debug for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness")
            .field("url", &self.url)
            .field("authorized", &self.token.is_some())
            .field("exchanges", &self.record.all().len())
            .finish_non_exhaustive()
    }
}

/// One request as it was sent, and what came back.
///
/// Debug prints no state and no token.
#[derive(Clone)]
pub struct Exchange {
    headers: HeaderMap,
    body: Bytes,
    answer: Arc<Mutex<Option<Answer>>>,
}

#[derive(Clone)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Exchange {
    /// The request's headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// One header of the request, if it is there and text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .get(name)
            .map(HeaderValue::to_str)
            .and_then(Result::ok)
    }

    /// The request's body, byte for byte.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The request's body as JSON; `null` when it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// A member of the request's params, `null` and absent apart: `requestState`, `inputResponses`.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<Value> {
        self.json().get("params")?.get(name).cloned()
    }

    /// What the server answered, as far as it was read; `None` before it has, and for good when the caller went away.
    #[must_use]
    pub fn reply(&self) -> Option<Reply> {
        let answer = lock(&self.answer).clone()?;
        Some(Reply::new(
            answer.status,
            answer.headers,
            answer.body.into(),
        ))
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("request", &Redacted(&self.body))
            .field("reply", &self.reply())
            .finish_non_exhaustive()
    }
}

/// All exchanges of a harness and its clones.
#[derive(Default)]
struct Record(Mutex<Vec<Exchange>>);

impl Record {
    fn all(&self) -> MutexGuard<'_, Vec<Exchange>> {
        lock(&self.0)
    }
}

/// A test that has panicked elsewhere may still look at what is there.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An answer's body while it arrives.
type Body = UnsyncBoxBody<Bytes, TransportError>;

type Dispatched<'a> = Pin<Box<dyn Future<Output = Response<Body>> + Send + 'a>>;

/// The service behind a harness, whatever its type.
trait Dispatch: Send + Sync {
    fn call(&self, request: Request<Full<Bytes>>) -> Dispatched<'_>;
}

struct InProcess<S>(S);

impl<S, B> Dispatch for InProcess<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + Sync,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn call(&self, request: Request<Full<Bytes>>) -> Dispatched<'_> {
        let mut service = self.0.clone();
        Box::pin(async move {
            let answered = match poll_fn(|cx| service.poll_ready(cx)).await {
                Ok(()) => service.call(request).await,
                Err(never) => match never {},
            };
            match answered {
                Ok(response) => {
                    response.map(|body| body.map_err(TransportError::interrupted).boxed_unsync())
                }
                Err(never) => match never {},
            }
        })
    }
}

/// The client's wire.
#[derive(Debug)]
struct Loopback(Harness);

impl Transport for Loopback {
    fn send(&self, request: Request<Bytes>) -> TransportFuture<'_> {
        Box::pin(async move {
            let response = self.0.exchange(request).await;
            Ok(response.map(|body| ResponseBody::from_stream(BodyDataStream::new(body))))
        })
    }
}
