//! The stream for what belongs to no request of this side: a GET that stays open (*2025-11-25, Transports, Listening for Messages from
//! the Server*). Over stdio there is one channel for everything, and no such stream.

use std::sync::Arc;

use http::StatusCode;
use tokio::sync::oneshot;

use super::serve::Channel;
use super::session::{Carrier, Core};
use super::stream::events;
use super::tries::Tries;
use crate::error::RequestError;
use crate::notices::Origin;
use crate::sse::SseReader;
use crate::transport::ResponseBody;

/// Reads until the server has no such stream (405), does not know the session, or was asked too often in vain. Whoever listens is told then.
/// `answered` is dropped once the server has said whether there is a stream.
pub(super) async fn read(core: Arc<Core>, answered: oneshot::Sender<()>) {
    let why = read_to_the_end(&core, answered).await;
    tracing::debug!(%why, "the server has no stream for what it sends unasked");
    core.listeners.end(why);
}

async fn read_to_the_end(core: &Arc<Core>, answered: oneshot::Sender<()>) -> RequestError {
    let Carrier::Http(carrier) = &core.carrier else {
        return RequestError::NoResponse;
    };
    let mut channel = Channel::new(core, None);
    let limit = core.host.limits.max_response_bytes;
    let mut reader = SseReader::new(limit);
    let mut tries = Tries::new();
    let mut answered = Some(answered);
    loop {
        let last = reader
            .last_event_id()
            .and_then(|id| http::HeaderValue::from_bytes(id).ok());
        let response = carrier.get(last).await;
        answered.take();
        let failed = match response {
            Ok(response) => match events(response) {
                Ok(body) => {
                    tries.connected();
                    reader.reconnect();
                    if read_events(&mut channel, core, &mut reader, &mut tries, body)
                        .await
                        .is_err()
                    {
                        return RequestError::TooLarge { limit };
                    }
                    RequestError::NoResponse
                }
                Err(status) if status.is_server_error() => RequestError::Http { status },
                Err(status) => {
                    if status == StatusCode::NOT_FOUND && carrier.has_id() {
                        core.end(RequestError::SessionLost);
                    }
                    return RequestError::Http { status };
                }
            },
            Err(error) => error,
        };
        match tries.pause(reader.retry()) {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return failed,
        }
    }
}

async fn read_events(
    channel: &mut Channel,
    core: &Core,
    reader: &mut SseReader,
    tries: &mut Tries,
    mut body: ResponseBody,
) -> Result<(), crate::sse::TooLarge> {
    while let Ok(Some(chunk)) = body.chunk().await {
        reader.push(&chunk)?;
        while let Some(data) = reader.next() {
            tries.event();
            if data.is_empty() {
                continue;
            }
            match core.messages(&data) {
                Ok(all) => {
                    for incoming in all {
                        // A response belongs on the stream of its request.
                        drop(channel.take(incoming, Origin::Channel).await);
                    }
                }
                Err(error) => tracing::debug!(%error, "an event of the server's stream is ignored"),
            }
        }
    }
    Ok(())
}
