//! One request and its response (*Streamable HTTP, Sending and Receiving Messages*).

use bytes::{Bytes, BytesMut};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use mrtr_protocol::jsonrpc::write_request;
use mrtr_protocol::{ErrorObject, Incoming, REVISION, RequestId, Response, headers, strict};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::client::Client;
use crate::error::{ProtocolError, RequestError, RpcError};
use crate::sse::SseReader;
use crate::transport::{ResponseBody, TransportError};

/// Headers beyond those that every request has.
pub(crate) type Headers = Vec<(HeaderName, String)>;

impl From<TransportError> for RequestError {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::NotSent(_) => Self::NotSent(error),
            TransportError::Interrupted(_) => Self::Interrupted(error),
        }
    }
}

impl Client {
    /// Sends one request under a new id and reads its response. Dropping the future closes the stream, which cancels the request.
    pub(crate) async fn exchange<P: Serialize>(
        &self,
        method: &str,
        more: Headers,
        params: &P,
    ) -> Result<Box<RawValue>, RequestError> {
        self.exchange_counted(method, more, params, None).await
    }

    /// The same with a count of bytes that several requests share: all of their bodies together have the limit of one.
    pub(crate) async fn exchange_counted<P: Serialize>(
        &self,
        method: &str,
        more: Headers,
        params: &P,
        taken: Option<&mut usize>,
    ) -> Result<Box<RawValue>, RequestError> {
        let id = self.next_id();
        let body = write_request(&id, method, params)
            .map_err(|error| RequestError::Unwritable(error.to_string()))?;
        let request = self
            .http_request(method, more, body.into())
            .map_err(|error| RequestError::Unwritable(error.to_string()))?;
        tracing::debug!(method, %id, "request");
        let answer = async {
            let response = self.inner.transport.send(request).await?;
            self.read(&id, response, taken).await
        };
        match self.inner.request_timeout {
            Some(after) => tokio::time::timeout(after, answer)
                .await
                .unwrap_or(Err(RequestError::TimedOut { after })),
            None => answer.await,
        }
    }

    fn http_request(
        &self,
        method: &str,
        more: Headers,
        body: Bytes,
    ) -> Result<http::Request<Bytes>, http::Error> {
        let inner = &self.inner;
        let mut request = http::Request::builder()
            .method(Method::POST)
            .uri(inner.uri.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream")
            .header(headers::PROTOCOL_VERSION, REVISION)
            .header(headers::METHOD, method);
        if let Some(authority) = inner.uri.authority() {
            request = request.header(header::HOST, authority.as_str());
        }
        for (name, value) in more {
            request = request.header(name, value);
        }
        if let Some(token) = &inner.authorization {
            request = request.header(header::AUTHORIZATION, token);
        }
        request.body(body)
    }

    async fn read(
        &self,
        id: &RequestId,
        response: http::Response<ResponseBody>,
        taken: Option<&mut usize>,
    ) -> Result<Box<RawValue>, RequestError> {
        let (parts, mut body) = response.into_parts();
        match (
            essence(parts.headers.get(header::CONTENT_TYPE)).as_deref(),
            parts.status,
        ) {
            (Some("application/json"), status) => {
                let bytes = self.read_whole(&mut body, taken).await?;
                let response = match Response::parse(&bytes) {
                    Ok(response) => response,
                    // A proxy's own JSON, for instance.
                    Err(_) if !status.is_success() => return Err(RequestError::Http { status }),
                    Err(error) => return Err(ProtocolError::from(error).into()),
                };
                strict::check(&bytes).map_err(ProtocolError::from)?;
                outcome(id, response, status)
            }
            (Some("text/event-stream"), status) if status.is_success() => {
                self.read_stream(id, body, status, taken).await
            }
            (_, status) if status.is_success() => Err(ProtocolError::ContentType.into()),
            (_, status) => Err(RequestError::Http { status }),
        }
    }

    /// Adds to the count, up to the limit.
    fn take(&self, taken: &mut usize, chunk: &Bytes) -> Result<(), RequestError> {
        let limit = self.inner.max_response_bytes;
        *taken = taken.saturating_add(chunk.len());
        if *taken > limit {
            return Err(RequestError::TooLarge { limit });
        }
        Ok(())
    }

    async fn read_whole(
        &self,
        body: &mut ResponseBody,
        taken: Option<&mut usize>,
    ) -> Result<Bytes, RequestError> {
        let mut own = 0;
        let taken = taken.unwrap_or(&mut own);
        let mut whole = BytesMut::new();
        while let Some(chunk) = body.chunk().await? {
            self.take(taken, &chunk)?;
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// Reads events until the response to `id`; what comes after it is not waited for.
    async fn read_stream(
        &self,
        id: &RequestId,
        mut body: ResponseBody,
        status: StatusCode,
        mut taken: Option<&mut usize>,
    ) -> Result<Box<RawValue>, RequestError> {
        let limit = self.inner.max_response_bytes;
        let mut reader = SseReader::new(limit);
        while let Some(chunk) = body.chunk().await? {
            // Without a shared count the limit is one event's: a long call may report progress for hours.
            if let Some(taken) = taken.as_deref_mut() {
                self.take(taken, &chunk)?;
            }
            reader
                .push(&chunk)
                .map_err(|_| RequestError::TooLarge { limit })?;
            while let Some(data) = reader.next() {
                if data.is_empty() {
                    continue;
                }
                match Incoming::parse(&data).map_err(ProtocolError::from)? {
                    Incoming::Response(response)
                        if response.id.as_ref().is_none_or(|own| own == id) =>
                    {
                        strict::check(&data).map_err(ProtocolError::from)?;
                        return outcome(id, response, status);
                    }
                    Incoming::Response(response) => {
                        tracing::debug!(own = %id, other = ?response.id, "a response to another request is ignored")
                    }
                    Incoming::Notification(notification) => {
                        tracing::trace!(method = %notification.method, "a notification is ignored")
                    }
                    // The specification forbids it on either side: no request on this stream, and no response from a client.
                    Incoming::Request(request) => {
                        tracing::warn!(method = %request.method, "the server put a request on a response stream; it is ignored")
                    }
                }
            }
        }
        Err(RequestError::NoResponse)
    }
}

/// What the response says to the request of this id.
fn outcome(
    id: &RequestId,
    response: Response<'_>,
    status: StatusCode,
) -> Result<Box<RawValue>, RequestError> {
    // An error without an id answers the only request of this exchange: the server could not read it.
    if response.id.is_some_and(|own| own != *id) {
        return Err(ProtocolError::OtherId.into());
    }
    match response.outcome {
        Ok(result) if status.is_success() => Ok(result.to_owned()),
        Ok(_) => Err(RequestError::Http { status }),
        Err(error) => Err(rpc(status, error)),
    }
}

fn rpc(status: StatusCode, error: ErrorObject) -> RequestError {
    RequestError::Rpc(RpcError { status, error })
}

/// The media type without parameters, in lower case.
fn essence(value: Option<&HeaderValue>) -> Option<String> {
    let value = value?.to_str().ok()?;
    let essence = value.split(';').next().unwrap_or_default().trim();
    Some(essence.to_ascii_lowercase())
}
