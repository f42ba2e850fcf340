//! Answers as a stream of events (*WHATWG HTML, Server-sent events*).

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use http_body::Frame;
use tokio::time::{Instant, Sleep, sleep};

use super::HttpReply;

/// Where a stream's events come from.
pub(super) trait Source: Send + Unpin + 'static {
    /// The next event as it is written, or the end of the stream.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>>;
}

/// The event that carries this message. The message has no newline in it.
pub(super) fn event(message: &[u8]) -> Vec<u8> {
    let mut event = Vec::with_capacity(message.len() + 32);
    event.extend_from_slice(b"event: message\ndata: ");
    event.extend_from_slice(message);
    event.extend_from_slice(b"\n\n");
    event
}

/// An answer that is written while its source has something to write, with a comment now and then so that nobody in
/// between takes the silence for the end (specification, `basic/transports/streamable-http`, "Receiving Messages").
pub(super) fn answer(source: impl Source, keep_alive: Duration) -> HttpReply {
    let body = Stream {
        source,
        keep_alive,
        silence: Box::pin(sleep(keep_alive)),
        over: false,
    };
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct Stream<S> {
    source: S,
    keep_alive: Duration,
    silence: Pin<Box<Sleep>>,
    over: bool,
}

impl<S: Source> http_body::Body for Stream<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if this.over {
            return Poll::Ready(None);
        }
        let event = match this.source.poll_event(cx) {
            Poll::Ready(None) => {
                this.over = true;
                return Poll::Ready(None);
            }
            Poll::Ready(Some(event)) => event,
            Poll::Pending => {
                std::task::ready!(this.silence.as_mut().poll(cx));
                b":\r\n\r\n".to_vec()
            }
        };
        this.silence
            .as_mut()
            .reset(Instant::now() + this.keep_alive);
        Poll::Ready(Some(Ok(Frame::data(event.into()))))
    }
}
