//! The routes of pages: who may see one, and who may complete a visit.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Request};
use axum::routing::any;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use mrtr_state::Principal;

use super::{Pages, Visit, same_person};

/// What a [`Page`] returns.
pub type PageFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Largest submission, in bytes: 64 KiB.
const LARGEST: usize = 64 << 10;

/// What came of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submission {
    /// It was taken; the visit is done. The HTML to show.
    Done(String),
    /// It was not; the visit stays open. The HTML to show instead.
    Again(String),
}

/// What a page shows, and what it takes.
///
/// The routes see to it that [`show`](Self::show) and [`submit`](Self::submit) are called for the visit's own principal
/// alone.
///
/// Implementers: derive the visitor from a login of your own (a session cookie that is `HttpOnly`, `Secure` and
/// `SameSite=Lax`), never from the URL. Escape what you put into HTML. Keep what is submitted away from the MCP client.
pub trait Page: Send + Sync + 'static {
    /// Who is visiting, as their browser's login says.
    fn visitor<'a>(&'a self, head: &'a Parts) -> PageFuture<'a, Option<Principal>>;

    /// What somebody gets who is not logged in; `back` is the path to return to afterwards.
    fn login(&self, back: &str) -> Response<Body>;

    /// The page, as HTML.
    fn show<'a>(&'a self, visit: &'a Visit) -> PageFuture<'a, String>;

    /// Takes what was submitted: the body of a form, as the browser sent it.
    fn submit<'a>(&'a self, visit: &'a Visit, body: Bytes) -> PageFuture<'a, Submission>;
}

impl Pages {
    /// Routes for this page, to be merged into the application that the pages' address leads to. `GET` shows it, `POST`
    /// submits it.
    ///
    /// Guaranteed: a visitor who is not logged in gets the login; one who is somebody else than the principal whose call
    /// asked gets 403, and nothing is stored; a submission from a page of another origin gets 403. A visit is recorded as
    /// done after the page has taken a submission, and by nothing else.
    ///
    /// # Panics
    ///
    /// When the pages' address has a path that axum cannot route.
    pub fn routes(&self, page: impl Page) -> Router {
        let (pages, page) = (self.clone(), Arc::new(page));
        let handler = move |Path(handle): Path<String>, request: Request| {
            let (pages, page) = (pages.clone(), Arc::clone(&page));
            async move { visit(&pages, page.as_ref(), &handle, request).await }
        };
        Router::new().route(&format!("{}/{{handle}}", self.path()), any(handler))
    }
}

async fn visit(pages: &Pages, page: &impl Page, handle: &str, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let submits = head.method == Method::POST;
    if !submits && head.method != Method::GET {
        return text(
            StatusCode::METHOD_NOT_ALLOWED,
            "This page is opened and submitted, and nothing else.",
        );
    }
    let Some(visitor) = page.visitor(&head).await else {
        return guarded(page.login(head.uri.path()));
    };
    let visit = match pages.visits.find(handle).await {
        Ok(Some(visit)) => visit,
        Ok(None) => {
            return text(
                StatusCode::NOT_FOUND,
                "This link is unknown, or its time is over. Ask for a new one.",
            );
        }
        Err(error) => return unavailable(&error),
    };
    if !same_person(&visit.principal, &visitor) {
        tracing::warn!("somebody else than the one who was asked opened a page; nothing is stored");
        return text(
            StatusCode::FORBIDDEN,
            "This link was made for somebody else. If you did not ask for it yourself, close it.",
        );
    }
    if !submits {
        return html(page.show(&visit).await);
    }
    if !is_own_form(&head) {
        return text(
            StatusCode::FORBIDDEN,
            "This form was not sent from its own page.",
        );
    }
    let Ok(body) = to_bytes(body, LARGEST).await else {
        return text(
            StatusCode::PAYLOAD_TOO_LARGE,
            "That is more than this page takes.",
        );
    };
    match page.submit(&visit, body).await {
        Submission::Again(again) => html(again),
        Submission::Done(done) => match pages.visits.complete(handle).await {
            Ok(true) => html(done),
            Ok(false) => text(
                StatusCode::NOT_FOUND,
                "The time of this link was over when it was submitted.",
            ),
            Err(error) => unavailable(&error),
        },
    }
}

/// Whether a form was submitted by a page of this very origin. The handle is no secret from whoever shows the link, so it
/// does not prove that.
fn is_own_form(head: &Parts) -> bool {
    let same_site = head
        .headers
        .get("sec-fetch-site")
        .is_none_or(|site| site == "same-origin");
    let own = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    let same_origin = match head.headers.get(ORIGIN).map(HeaderValue::to_str) {
        None => true,
        Some(Ok(origin)) => origin
            .strip_prefix("https://")
            .or(origin.strip_prefix("http://"))
            .is_some_and(|authority| own.is_some_and(|own| own.eq_ignore_ascii_case(authority))),
        Some(Err(_)) => false,
    };
    same_site && same_origin
}

fn unavailable(error: &super::VisitError) -> Response<Body> {
    tracing::error!(%error, "a page cannot be served");
    text(
        StatusCode::SERVICE_UNAVAILABLE,
        "This page cannot be served right now. Try again in a moment.",
    )
}

fn html(page: String) -> Response<Body> {
    guarded(answer(StatusCode::OK, "text/html; charset=utf-8", page))
}

fn text(status: StatusCode, text: &'static str) -> Response<Body> {
    guarded(answer(status, "text/plain; charset=utf-8", text.into()))
}

fn answer(status: StatusCode, media: &'static str, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// A page takes secrets: it is not framed, not cached, runs no script, and its address goes to no other site.
fn guarded(mut response: Response<Body>) -> Response<Body> {
    const GUARDS: [(http::HeaderName, &str); 4] = [
        (CACHE_CONTROL, "no-store"),
        // `no-referrer` would make a browser send its own form with `Origin: null`.
        (REFERRER_POLICY, "same-origin"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        ),
    ];
    for (name, value) in GUARDS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}
