//! A subscription of the modern era over HTTP: the response stream of its request (*Subscriptions*).

use std::sync::Arc;

use http::StatusCode;
use mrtr_protocol::{Incoming, REVISION, SubscriptionFilter, headers, strict};

use super::{HttpLink, essence, outcome};
use crate::client::Client;
use crate::earlier::AbortOnDrop;
use crate::error::{ProtocolError, RequestError};
use crate::listen::{End, Listening, Subscription, listen_request};
use crate::outgoing::Meta;
use crate::sse::SseReader;
use crate::transport::ResponseBody;

impl Client {
    pub(crate) async fn listen_over_http(
        &self,
        link: &HttpLink,
        filter: SubscriptionFilter,
    ) -> Result<Subscription, RequestError> {
        let host = &self.inner.host;
        let id = host.next_id();
        let outgoing = listen_request(&filter)?;
        let meta = Meta {
            fields: Some(&host.meta),
            more: Some(&self.options.meta),
            ..Meta::default()
        };
        let body = outgoing.modern(&id, &meta)?;
        let request = link
            .endpoint
            .post()
            .header(headers::PROTOCOL_VERSION, REVISION)
            .header(headers::METHOD, outgoing.method);
        let (listening, acknowledgement) = Listening::new(host, id.clone(), filter);
        let opening = async {
            let response = link.endpoint.send(request, body).await?;
            let (parts, body) = response.into_parts();
            let is_stream = essence(&parts).as_deref() == Some("text/event-stream");
            if !(is_stream && parts.status.is_success()) {
                // An error, or something that no server answers this with.
                let response = http::Response::from_parts(parts, body);
                self.read(&id, response, None).await?;
                return Err(ProtocolError::NotAcknowledged.into());
            }
            let limit = host.limits.max_response_bytes;
            let reading = tokio::spawn(read(Arc::clone(&listening), id, body, limit));
            let reading = AbortOnDrop(reading);
            let honoured = acknowledgement
                .await
                .unwrap_or(Err(RequestError::NoResponse))?;
            Ok((reading, honoured))
        };
        let (reading, honoured) = self
            .patience()
            .wait_for(opening)
            .await
            .unwrap_or_else(|after| Err(RequestError::TimedOut { after }))?;
        // Closing the stream is the end of it for the server too.
        let end = End::by(move || drop(reading));
        let inbox = Arc::clone(listening.inbox());
        Ok(Subscription::new(inbox, honoured, end, self.clone()))
    }
}

/// Reads to the end, one way or the other.
async fn read(
    listening: Arc<Listening>,
    id: mrtr_protocol::RequestId,
    mut body: ResponseBody,
    limit: usize,
) {
    let mut reader = SseReader::new(limit);
    while !listening.is_over() {
        let chunk = match body.chunk().await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return listening.broke(RequestError::NoResponse),
            Err(error) => return listening.broke(error.into()),
        };
        if reader.push(&chunk).is_err() {
            return listening.broke(RequestError::TooLarge { limit });
        }
        while let Some(data) = reader.next() {
            if data.is_empty() {
                continue;
            }
            let checked = Incoming::parse(&data)
                .map_err(ProtocolError::from)
                .and_then(|incoming| {
                    strict::check(&data)?;
                    Ok(incoming)
                });
            match checked {
                Ok(Incoming::Notification(notification)) => listening.take(&notification),
                Ok(Incoming::Response(response)) => {
                    return listening.answered(outcome(&id, response, StatusCode::OK));
                }
                Ok(Incoming::Request(request)) => {
                    tracing::warn!(method = %request.method, "the server put a request on a response stream; it is ignored");
                }
                Err(error) => return listening.broke(error.into()),
            }
        }
    }
}
