//! The demonstration login: two people whose passwords stand here, and sessions in memory.
//!
//! **For demonstration only.** A real server sends the browser to an identity provider, and takes the name from there. What a
//! real one has in common with this: the session is a random number in a cookie that scripts cannot read and other sites'
//! forms do not carry; it is a new one at every login; the login itself is taken from its own form alone, or else somebody
//! could be logged in as another, and give that one their secrets.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, RawQuery, State};
use axum::routing::get;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, LOCATION, ORIGIN,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use mrtr_server::Principal;
use mrtr_state::{Clock, RandomError, Timestamp};

use crate::NAME;
use crate::html::{self, Text};

/// Who can log in, with what password.
const PEOPLE: [(&str, &str); 2] = [("alice", "alice-password"), ("bob", "bob-password")];
const ISSUER: &str = "https://login.example";

const COOKIE_NAME: &str = "link_account_session";
/// How long somebody stays logged in.
const SESSION: Duration = Duration::from_secs(60 * 60);
/// Sessions at a time.
const MOST_SESSIONS: usize = 1000;
/// Largest submission of the login form, in bytes.
const LARGEST: usize = 4096;

/// The login, and who is logged in. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Login {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    host: String,
    /// Whether browsers come by https, and the cookie must not go by anything else.
    secure: bool,
    sessions: Mutex<HashMap<String, Session>>,
}

struct Session {
    subject: &'static str,
    expires: Timestamp,
}

/// Never prints a session's number.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

impl Login {
    pub(crate) fn new(clock: impl Clock, host: &str, secure: bool) -> Login {
        Login {
            inner: Arc::new(Inner {
                clock: Arc::new(clock),
                host: host.to_owned(),
                secure,
                sessions: Mutex::default(),
            }),
        }
    }

    /// `GET /login` shows the form, `POST /login` logs in.
    pub(crate) fn routes(&self) -> Router {
        Router::new()
            .route("/login", get(show).post(submit))
            .layer(DefaultBodyLimit::max(LARGEST))
            .with_state(self.clone())
    }

    /// Sends somebody to the login, and back to this path afterwards.
    pub(crate) fn first(back: &str) -> Response<Body> {
        see_other(&Login::path(back))
    }

    /// Where the login is, with the way back.
    pub(crate) fn path(back: &str) -> String {
        let mut query = form_urlencoded::Serializer::new(String::from("/login?"));
        query.append_pair("back", back);
        query.finish()
    }

    /// Who is logged in, as the cookie says.
    pub(crate) fn visitor(&self, headers: &HeaderMap) -> Option<Principal> {
        let subject = self.subject(headers)?;
        Some(Principal::user(ISSUER, subject))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    fn subject(&self, headers: &HeaderMap) -> Option<&'static str> {
        let id = session_id(headers)?;
        let now = self.now();
        let sessions = self.inner.sessions.lock();
        let sessions = sessions.unwrap_or_else(PoisonError::into_inner);
        let session = sessions.get(id).filter(|session| now < session.expires)?;
        Some(session.subject)
    }

    /// Begins a session; the cookie's whole text. Nothing where there is no room.
    fn begin(&self, subject: &'static str) -> Result<Option<String>, RandomError> {
        let id = format!("{:032x}", u128::from_be_bytes(mrtr_state::random()?));
        let secure = if self.inner.secure { "; Secure" } else { "" };
        let cookie = format!("{COOKIE_NAME}={id}; Path=/; HttpOnly; SameSite=Lax{secure}");
        let now = self.now();
        let sessions = self.inner.sessions.lock();
        let mut sessions = sessions.unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= MOST_SESSIONS {
            sessions.retain(|_, session| now < session.expires);
        }
        if sessions.len() >= MOST_SESSIONS {
            return Ok(None);
        }
        let expires = now.saturating_add(SESSION);
        sessions.insert(id, Session { subject, expires });
        Ok(Some(cookie))
    }

    fn form(&self, back: &str, note: &'static str) -> String {
        let body = format!(
            include_str!("html/login.html"),
            name = Text(NAME),
            note = note,
            back = Text(back),
        );
        html::page("Log in", &self.inner.host, &body)
    }

    fn logged_in(&self, subject: &str) -> String {
        let body = format!(
            include_str!("html/logged_in.html"),
            subject = Text(subject),
            login = Text(&Login::path("")),
        );
        html::page("You are logged in", &self.inner.host, &body)
    }
}

async fn show(
    State(login): State<Login>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response<Body> {
    let back = query.and_then(|query| field(query.as_bytes(), "back"));
    match (back, login.subject(&headers)) {
        // Somebody who has just logged in, with nowhere to go back to.
        (None, Some(subject)) => answer(StatusCode::OK, login.logged_in(subject)),
        (back, _) => answer(StatusCode::OK, login.form(&back.unwrap_or_default(), "")),
    }
}

async fn submit(State(login): State<Login>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    if !is_from_own_page(&headers) {
        return answer(
            StatusCode::FORBIDDEN,
            login.form("", "<p class=\"bad\" role=\"alert\">That was not sent from this page. Nobody was logged in.</p>\n"),
        );
    }
    let back = field(&body, "back").unwrap_or_default();
    let user = field(&body, "user").unwrap_or_default();
    let password = field(&body, "password").unwrap_or_default();
    let Some(subject) = checked(&user, &password) else {
        return answer(
            StatusCode::FORBIDDEN,
            login.form(
                &back,
                "<p class=\"bad\" role=\"alert\">Name and password do not fit. Try again.</p>\n",
            ),
        );
    };
    let cookie = match login.begin(subject) {
        Ok(Some(cookie)) => HeaderValue::try_from(cookie).ok(),
        Ok(None) => None,
        Err(error) => {
            tracing::error!(%error, "nobody can be logged in");
            None
        }
    };
    let Some(cookie) = cookie else {
        let note = "<p class=\"bad\" role=\"alert\">Nobody can be logged in right now. Try again later.</p>\n";
        return answer(StatusCode::SERVICE_UNAVAILABLE, login.form(&back, note));
    };
    let mut response = see_other(if is_own_path(&back) { &back } else { "/login" });
    response.headers_mut().insert(SET_COOKIE, cookie);
    response
}

/// Whose name and password these are. Such passwords need no comparison in constant time: anybody can read them.
fn checked(user: &str, password: &str) -> Option<&'static str> {
    PEOPLE
        .into_iter()
        .find(|&known| known == (user, password))
        .map(|(subject, _)| subject)
}

/// The session in the cookies. Two of the name are none: another page of this host may have set one of them.
fn session_id(headers: &HeaderMap) -> Option<&str> {
    let mut found = headers
        .get_all(COOKIE)
        .into_iter()
        .filter_map(|cookies| cookies.to_str().ok())
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='))
        .filter(|(name, _)| *name == COOKIE_NAME)
        .map(|(_, value)| value);
    match (found.next(), found.next()) {
        (Some(id), None) => Some(id),
        _ => None,
    }
}

/// Whether a way back leads to this server: nothing that a browser reads as another host.
fn is_own_path(back: &str) -> bool {
    back.strip_prefix('/').is_some_and(|rest| {
        !rest.starts_with('/')
            && rest
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"/-_".contains(&byte))
    })
}

/// Whether a form was sent by a page of this origin. What says neither is no browser: a browser says one at least.
fn is_from_own_page(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    match (
        text(HeaderName::from_static("sec-fetch-site")),
        text(ORIGIN),
        text(HOST),
    ) {
        (Some(site), _, _) => site == "same-origin",
        (None, Some(origin), Some(host)) => origin
            .split_once("://")
            .is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host)),
        (None, Some(_), None) => false,
        (None, None, _) => true,
    }
}

fn field(form: &[u8], name: &str) -> Option<String> {
    form_urlencoded::parse(form)
        .find(|(field, _)| field == name)
        .map(|(_, value)| value.into_owned())
}

fn see_other(path: &str) -> Response<Body> {
    let mut response = answer(StatusCode::SEE_OTHER, String::new());
    if let Ok(path) = HeaderValue::try_from(path) {
        response.headers_mut().insert(LOCATION, path);
    }
    response
}

/// With the guards that the page itself has.
fn answer(status: StatusCode, page: String) -> Response<Body> {
    const HEADERS: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        // Its own forms say where they come from; no other host learns the link.
        (REFERRER_POLICY, "same-origin"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        ),
    ];
    let mut response = Response::new(Body::from(page));
    *response.status_mut() = status;
    for (name, value) in HEADERS {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

#[cfg(test)]
mod tests;
