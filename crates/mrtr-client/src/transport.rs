//! The wire: one HTTP POST for each message (*Streamable HTTP, Sending Messages*).
//!
//! [`Transport`] is what a client needs of HTTP. [`HttpTransport`] is the real one; a test puts a service in its place without a socket.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};

/// What a transport answers with.
pub type TransportFuture<'a> =
    Pin<Box<dyn Future<Output = Result<http::Response<ResponseBody>, TransportError>> + Send + 'a>>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Carries one request and brings its response.
///
/// # Contract
///
/// * Send the request **once**. Do not repeat it after a failure, whatever the reason: the request may be an order to pay.
/// * Follow no redirect; hand the 3xx back.
/// * Answer [`TransportError::NotSent`] only when not one byte of the request can have reached the server. When in doubt, it is
///   [`TransportError::Interrupted`].
/// * When the future or the body is dropped, close the stream: the server takes that as cancellation.
///
/// Limits and timeouts are the client's own; a transport need not have any.
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Sends a request with an absolute URI.
    fn send(&self, request: http::Request<Bytes>) -> TransportFuture<'_>;
}

/// Why there is no response, or no more of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// Nothing of the request was sent.
    #[error("the server could not be reached")]
    NotSent(#[source] BoxError),
    /// The connection broke when the request was, or may have been, on its way.
    #[error("the connection broke before the whole answer arrived")]
    Interrupted(#[source] BoxError),
}

impl TransportError {
    /// Wraps a cause for [`TransportError::NotSent`].
    pub fn not_sent(cause: impl Into<BoxError>) -> Self {
        Self::NotSent(cause.into())
    }

    /// Wraps a cause for [`TransportError::Interrupted`].
    pub fn interrupted(cause: impl Into<BoxError>) -> Self {
        Self::Interrupted(cause.into())
    }
}

/// The body of a response, in chunks as they arrive.
pub struct ResponseBody(Pin<Box<dyn Stream<Item = Result<Bytes, TransportError>> + Send>>);

impl ResponseBody {
    /// A body that is there already.
    #[must_use]
    pub fn from_bytes(bytes: Bytes) -> Self {
        Self(stream::once(async { Ok(bytes) }).boxed())
    }

    /// A body that arrives.
    pub fn from_stream(
        chunks: impl Stream<Item = Result<Bytes, TransportError>> + Send + 'static,
    ) -> Self {
        Self(chunks.boxed())
    }

    /// The next chunk; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`TransportError::Interrupted`] when the connection breaks.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, TransportError> {
        self.0.next().await.transpose()
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseBody")
    }
}

/// HTTP with reqwest: rustls, HTTP/1.1, no redirects, no repeats, no proxy from the environment.
#[derive(Debug, Clone)]
pub struct HttpTransport {
    client: reqwest::Client,
}

impl HttpTransport {
    /// How long a connection may take to come about.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

    /// A transport with [`HttpTransport::CONNECT_TIMEOUT`].
    ///
    /// # Errors
    ///
    /// When the TLS backend does not start.
    pub fn new() -> Result<Self, TransportError> {
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(Self::CONNECT_TIMEOUT)
            .referer(false)
            // What `HTTP_PROXY` names would read the token and the state.
            .no_proxy()
            .build()
            .map_err(TransportError::not_sent)?;
        Ok(Self { client })
    }

    /// A transport around a client of the host's own: certificates, a proxy, another connect timeout.
    ///
    /// The host then answers for the contract of [`Transport`]: no redirects and no retries.
    #[must_use]
    pub fn from_reqwest(client: reqwest::Client) -> Self {
        Self { client }
    }
}

impl Transport for HttpTransport {
    fn send(&self, request: http::Request<Bytes>) -> TransportFuture<'_> {
        Box::pin(async move {
            let request = reqwest::Request::try_from(request).map_err(TransportError::not_sent)?;
            let response = self.client.execute(request).await.map_err(|error| {
                // URLs may hold what a log should not.
                let error = error.without_url();
                if error.is_connect() || error.is_builder() {
                    TransportError::not_sent(error)
                } else {
                    TransportError::interrupted(error)
                }
            })?;
            let mut parts = http::Response::new(());
            *parts.status_mut() = response.status();
            *parts.headers_mut() = response.headers().clone();
            let chunks = stream::try_unfold(response, |mut response| async move {
                let chunk = response
                    .chunk()
                    .await
                    .map_err(|error| TransportError::interrupted(error.without_url()))?;
                Ok(chunk.map(|chunk| (chunk, response)))
            });
            Ok(parts.map(|()| ResponseBody::from_stream(chunks)))
        })
    }
}
