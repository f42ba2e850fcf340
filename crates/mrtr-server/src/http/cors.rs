//! CORS: what a browser asks before a page of another origin may call, and what lets that page read the answer.
//!
//! Who may is the [`Gate`](super::gate::Gate)'s to say; nothing here is reached by anybody else. The browser's question comes without
//! the page's token, so it is answered before authentication. Credentials that a browser sends by itself are never allowed.
//!
//! The Fetch standard, "CORS protocol".

use axum::body::Body;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};

/// What a page may read of an answer's headers, beside what every page may.
const EXPOSED: HeaderValue = HeaderValue::from_static("mcp-session-id, www-authenticate");

/// How long a browser need not ask again, in seconds: browsers keep it for two hours at most, and an origin that is no longer
/// allowed is refused by its requests whatever the browser kept.
const KEPT: HeaderValue = HeaderValue::from_static("7200");

/// The origin of the page that a request comes from, once the gate has let it in.
pub(super) fn page(head: &Parts) -> Option<HeaderValue> {
    head.headers.get(ORIGIN).cloned()
}

/// Whether this is a browser's question on behalf of a page.
pub(super) fn is_question(head: &Parts) -> bool {
    head.method == Method::OPTIONS
        && head.headers.contains_key(ORIGIN)
        && head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Yes, for these methods and for whatever headers are asked for: a tool names headers of its own (`Mcp-Param-..`), and `*` would not
/// cover `Authorization`.
pub(super) fn yes(head: &Parts, methods: HeaderValue) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(ACCESS_CONTROL_MAX_AGE, KEPT);
    if let Some(asked) = head.headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
        headers.append(
            VARY,
            HeaderValue::from_static("access-control-request-headers"),
        );
    }
    response
}

/// Lets the page of this origin read the answer, and nobody who was kept it for another.
pub(super) fn share(response: &mut Response<Body>, page: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, page);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(VARY, HeaderValue::from_static("origin"));
}
