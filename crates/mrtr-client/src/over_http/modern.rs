//! A request of the modern era over HTTP: one POST and its response, which may be a stream (*Streamable HTTP, Sending and Receiving
//! Messages*).

use http::{HeaderName, StatusCode};
use mrtr_protocol::{Incoming, REVISION, RequestId, Response, headers, strict};
use serde_json::value::RawValue;

use super::{HttpLink, essence, outcome, read_whole};
use crate::client::Client;
use crate::error::{ProtocolError, RequestError};
use crate::exchange::Tally;
use crate::notices::Origin;
use crate::outgoing::{Meta, Outgoing};
use crate::sse::SseReader;
use crate::transport::ResponseBody;

impl Client {
    /// Sends a request under a new id and reads its response. Dropping the future closes the stream, which cancels the request.
    pub(super) async fn modern_over_http(
        &self,
        link: &HttpLink,
        outgoing: &Outgoing<'_>,
        tally: Option<&Tally>,
    ) -> Result<Box<RawValue>, RequestError> {
        let id = self.inner.host.next_id();
        let ticket = self.ticket(&id, outgoing);
        let meta = Meta {
            fields: Some(&self.inner.host.meta),
            progress: ticket.token(),
            log_level: self.inner.host.notices.log_level(),
            more: Some(&self.options.meta),
        };
        let body = outgoing.modern(&id, &meta)?;
        let mut request = link
            .endpoint
            .post()
            .header(headers::PROTOCOL_VERSION, REVISION)
            .header(headers::METHOD, outgoing.method);
        if let Some(target) = outgoing.target {
            let name = headers::encode(target.name()).into_owned();
            request = request.header(HeaderName::from_static(headers::NAME), name);
        }
        for (name, value) in &outgoing.headers {
            request = request.header(name, value);
        }
        tracing::debug!(method = outgoing.method, %id, "request");
        let answer = async {
            let response = link.endpoint.send(request, body).await?;
            self.read(&id, response, tally).await
        };
        ticket.wait_for(answer).await
    }

    pub(super) async fn read(
        &self,
        id: &RequestId,
        response: http::Response<ResponseBody>,
        tally: Option<&Tally>,
    ) -> Result<Box<RawValue>, RequestError> {
        let (parts, mut body) = response.into_parts();
        match (essence(&parts).as_deref(), parts.status) {
            (Some("application/json"), status) => {
                let own = self.tally();
                let bytes = read_whole(&mut body, tally.unwrap_or(&own)).await?;
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
                self.read_stream(id, body, status, tally).await
            }
            (_, status) if status.is_success() => Err(ProtocolError::ContentType.into()),
            (_, status) => Err(RequestError::Http { status }),
        }
    }

    /// Reads events until the response to `id`; what comes after it is not waited for.
    async fn read_stream(
        &self,
        id: &RequestId,
        mut body: ResponseBody,
        status: StatusCode,
        tally: Option<&Tally>,
    ) -> Result<Box<RawValue>, RequestError> {
        let limit = self.inner.host.limits.max_response_bytes;
        let mut reader = SseReader::new(limit);
        while let Some(chunk) = body.chunk().await? {
            // Without a shared count the limit is one event's: a long call may report progress for hours.
            if let Some(tally) = tally {
                tally.take(chunk.len())?;
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
                        tracing::debug!(own = %id, other = ?response.id, "a response to another request is ignored");
                    }
                    Incoming::Notification(notification) => self
                        .inner
                        .host
                        .notices
                        .take(&notification, Origin::Response(id)),
                    // The specification forbids it on either side: no request on this stream, and no response from a client.
                    Incoming::Request(request) => {
                        tracing::warn!(method = %request.method, "the server put a request on a response stream; it is ignored");
                    }
                }
            }
        }
        Err(RequestError::NoResponse)
    }
}
