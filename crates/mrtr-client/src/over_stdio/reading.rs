//! What comes in on a pipe: to whom each message goes, and what becomes of lines that are none.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::StatusCode;
use mrtr_protocol::{Incoming, RequestId, Response, strict};
use tokio::io::AsyncRead;

use super::lines::{Line, Lines};
use super::pipe::{Shared, closed_by};
use crate::earlier::Channel;
use crate::error::{ProtocolError, RequestError};
use crate::notices::Origin;
use crate::over_http::outcome;

/// Reads to the end.
pub(super) async fn read(shared: Arc<Shared>, reader: impl AsyncRead + Unpin) {
    let mut lines = Lines::new(reader, shared.host.limits.max_response_bytes);
    let mut closing = shared.closing.subscribe();
    let mut channel = None;
    let mut garbage = Garbage::default();
    let mut is_closing = false;
    loop {
        let line = tokio::select! {
            biased;
            () = closed_by(&mut closing), if !is_closing => {
                // Prompts are withdrawn. The rest is read, so that a server that says goodbye does not wait for a reader.
                is_closing = true;
                channel = None;
                continue;
            }
            line = lines.next() => line,
        };
        match line {
            Ok(Some(Line::Whole(line))) if line.trim_ascii().is_empty() => {}
            Ok(Some(Line::Whole(line))) => {
                let taken = take(&shared, &mut channel, &line, is_closing).await;
                match taken {
                    Ok(()) => shared.spoke.store(true, Ordering::Relaxed),
                    Err(error) => garbage.found(&error.to_string(), line.len()),
                }
            }
            Ok(Some(Line::TooLong(beginning))) => {
                let limit = shared.host.limits.max_response_bytes;
                match id_in(&beginning) {
                    Some(id) => shared.answer(&id, Err(RequestError::TooLarge { limit })),
                    None => garbage.found("it is too long", limit),
                }
            }
            Ok(None) => break,
            Err(error) => {
                tracing::debug!(%error, "the server's output cannot be read");
                break;
            }
        }
    }
    shared.close();
}

/// Says once that a server writes what is no message, and from then on for those who look for it only.
#[derive(Debug, Default)]
struct Garbage(u64);

impl Garbage {
    /// The line itself is nobody's business.
    fn found(&mut self, problem: &str, len: usize) {
        self.0 += 1;
        if self.0 == 1 {
            tracing::warn!(%problem, len, "the server wrote a line that is no message; such lines are skipped");
        } else {
            tracing::debug!(%problem, len, count = self.0, "the server wrote a line that is no message");
        }
    }
}

/// Takes one line. An error: it is no message.
async fn take(
    shared: &Arc<Shared>,
    channel: &mut Option<Channel>,
    line: &[u8],
    is_closing: bool,
) -> Result<(), ProtocolError> {
    let session = shared.session();
    let all = match &session {
        Some(session) => session.messages(line)?,
        None => vec![Incoming::parse(line)?],
    };
    strict::check(line)?;
    for incoming in all {
        let response = match (&session, incoming) {
            (_, Incoming::Response(response)) => Some(response),
            _ if is_closing => None,
            (Some(session), incoming) => {
                let channel = channel.get_or_insert_with(|| Channel::new(session, None));
                channel.take(incoming, Origin::Channel).await
            }
            (None, Incoming::Notification(notification)) => {
                shared.notified(&notification);
                None
            }
            // The specification forbids it on either side: no request on this channel, and no response from a client.
            (None, Incoming::Request(request)) => {
                tracing::warn!(method = %request.method, "the server sent a request; it is ignored");
                None
            }
        };
        if let Some(response) = response {
            answered(shared, response);
        }
    }
    Ok(())
}

fn answered(shared: &Shared, response: Response<'_>) {
    match response.id.clone() {
        // There are no statuses here; this one stands for "no matter".
        Some(id) => shared.answer(&id, outcome(&id, response, StatusCode::OK)),
        None => match response.outcome {
            Ok(_) => {}
            // The server could not read something. Which request that was, nobody knows.
            Err(error) => {
                tracing::warn!(code = error.code, message = %error.message, "the server could not read a message");
            }
        },
    }
}

/// The id of a response whose end was cut off, if it stands before the result or error.
fn id_in(beginning: &[u8]) -> Option<RequestId> {
    use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
    struct Id<'a>(&'a mut Option<RequestId>);
    impl<'de> Visitor<'de> for Id<'_> {
        type Value = ();

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a message")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            let mut id = None;
            while let Some(name) = map.next_key::<String>()? {
                match name.as_str() {
                    "id" => id = Some(map.next_value()?),
                    "result" | "error" => {
                        *self.0 = id.take();
                        return Ok(());
                    }
                    // A request of the server, whose ids are its own.
                    "method" => return Ok(()),
                    _ => drop(map.next_value::<IgnoredAny>()?),
                }
            }
            Ok(())
        }
    }
    let mut id = None;
    // It ends in an error, because the text does; what was read by then counts.
    let mut text = serde_json::Deserializer::from_slice(beginning);
    let _ = text.deserialize_map(Id(&mut id));
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_cut_response_is_found() {
        for (text, id) in [
            (
                r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"te"#,
                Some("7"),
            ),
            (
                r#"{"id":"a\"b","jsonrpc":"2.0","result":{"x":"#,
                Some(r#""a\"b""#),
            ),
            (r#"{"jsonrpc":"2.0","result":{"content":[{"te"#, None),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"#,
                None,
            ),
            (r#"{"jsonrpc":"2.0","id":7"#, None),
            (r#"{"jsonrpc":"2.0","id":1.5,"result":{"#, None),
            ("xxxxxxxxxx", None),
            (r#"[{"id":7,"#, None),
            ("", None),
        ] {
            let found = id_in(text.as_bytes());
            assert_eq!(found.map(|id| id.to_string()).as_deref(), id, "{text}");
        }
    }
}
