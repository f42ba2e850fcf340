//! What a client takes for an answer.

use http::HeaderMap;
use http::header::ACCEPT;

/// The media ranges that the client names, in its order, without parameters.
fn ranges(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|accept| accept.to_str().ok())
        .flat_map(|accept| accept.split(','))
        .map(|range| range.split(';').next().unwrap_or_default().trim())
}

/// Whether the client takes a stream of events.
pub(super) fn takes_events(headers: &HeaderMap) -> bool {
    ranges(headers).any(|range| {
        ["text/event-stream", "text/*", "*/*"]
            .iter()
            .any(|taken| range.eq_ignore_ascii_case(taken))
    })
}

/// Whether the client names streams of events before JSON.
pub(super) fn prefers_events(headers: &HeaderMap) -> bool {
    let first = ranges(headers).find_map(|range| {
        ["text/event-stream", "application/json"]
            .iter()
            .position(|known| range.eq_ignore_ascii_case(known))
    });
    first == Some(0)
}
