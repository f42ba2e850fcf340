//! The authorization server over HTTP.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, StatusCode};
use mrtr_auth::AuthorizationServerMetadata;
use serde_json::{Value, json};
use url::Url;

use super::book::{self, Grant};
use super::{Client, Shared};

type Issuer = State<Arc<Shared>>;

pub(super) fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/.well-known/oauth-authorization-server", get(metadata))
        .route("/.well-known/openid-configuration", get(metadata))
        .route("/jwks", get(jwks))
        .route("/authorize", get(login).post(consent))
        .route("/token", post(token))
        .route("/introspect", post(introspect))
        .route("/register", post(register))
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), outage))
        .with_state(shared)
}

async fn outage(State(shared): Issuer, request: Request, next: Next) -> Response {
    match shared.dark.load(Ordering::SeqCst) {
        true => answer(StatusCode::SERVICE_UNAVAILABLE, &Value::Null),
        false => next.run(request).await,
    }
}

async fn metadata(State(shared): Issuer) -> Response {
    let at = |path: &str| Some(format!("{}{path}", shared.url));
    let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    let mut metadata = AuthorizationServerMetadata::new(&shared.url);
    metadata.authorization_endpoint = at("/authorize");
    metadata.token_endpoint = at("/token");
    metadata.jwks_uri = at("/jwks");
    metadata.introspection_endpoint = at("/introspect");
    metadata.registration_endpoint = at("/register");
    metadata.response_types_supported = words(&["code"]);
    metadata.grant_types_supported = words(&["authorization_code", "refresh_token"]);
    metadata.token_endpoint_auth_methods_supported = words(&["none", "client_secret_basic"]);
    metadata.code_challenge_methods_supported = words(&["S256"]);
    metadata.authorization_response_iss_parameter_supported = Some(true);
    answer(
        StatusCode::OK,
        &serde_json::to_value(metadata).unwrap_or_default(),
    )
}

async fn jwks(State(shared): Issuer) -> Response {
    shared.key_requests.fetch_add(1, Ordering::SeqCst);
    answer(
        StatusCode::OK,
        &json!({ "keys": shared.keys().published() }),
    )
}

/// The page on which somebody logs in and agrees.
async fn login(State(shared): Issuer, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    match asked(&shared, &query) {
        Ok(asked) => page(StatusCode::OK, &asked, &query, ""),
        Err(response) => *response,
    }
}

/// What was filled in there.
async fn consent(State(shared): Issuer, RawQuery(query): RawQuery, body: Bytes) -> Response {
    let query = query.unwrap_or_default();
    let asked = match asked(&shared, &query) {
        Ok(asked) => asked,
        Err(response) => return *response,
    };
    let form = form(&body);
    if form.get("agree").map(String::as_str) != Some("yes") {
        return asked.back(&shared.url, "error", "access_denied");
    }
    let text = |name| form.get(name).map_or("", String::as_str);
    let request = book::Request {
        client: asked.client.clone(),
        redirect_uri: asked.redirect_uri.to_string(),
        challenge: asked.challenge.clone(),
        resource: asked.resource.clone(),
        scope: asked.scope.clone(),
    };
    let code = shared
        .book()
        .grant(request, text("name"), text("password"), shared.now());
    match code {
        Some(code) => asked.back(&shared.url, "code", &code),
        None => page(
            StatusCode::FORBIDDEN,
            &asked,
            &query,
            "That is not the password.",
        ),
    }
}

/// An authorization request whose client and redirect URI are known.
struct Asked {
    client: String,
    redirect_uri: Url,
    state: Option<String>,
    challenge: String,
    resource: String,
    scope: String,
}

impl Asked {
    /// Sends the browser back, with who says so (RFC 9207).
    fn back(&self, issuer: &str, name: &str, value: &str) -> Response {
        let mut url = self.redirect_uri.clone();
        url.query_pairs_mut()
            .append_pair(name, value)
            .append_pair("iss", issuer);
        if let Some(state) = &self.state {
            url.query_pairs_mut().append_pair("state", state);
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SEE_OTHER;
        if let Ok(url) = url.as_str().parse() {
            response.headers_mut().insert(LOCATION, url);
        }
        response
    }
}

/// Until client and redirect URI are known, nobody is sent anywhere (OAuth 2.1 section 7.12.2).
fn asked(shared: &Shared, query: &str) -> Result<Asked, Box<Response>> {
    let form = form(query.as_bytes());
    let text = |name: &str| form.get(name).cloned().unwrap_or_default();
    let redirect_uri = text("redirect_uri");
    let known = shared.book().redirects(&text("client_id"), &redirect_uri);
    let (true, Ok(redirect_uri)) = (known, Url::parse(&redirect_uri)) else {
        return Err(Box::new(refused("unknown client or redirect URI")));
    };
    let asked = Asked {
        client: text("client_id"),
        redirect_uri,
        state: form.get("state").cloned(),
        challenge: text("code_challenge"),
        resource: text("resource"),
        scope: text("scope"),
    };
    let good = text("response_type") == "code"
        && text("code_challenge_method") == "S256"
        && asked.challenge.len() == 43
        && Url::parse(&asked.resource).is_ok();
    match good {
        true => Ok(asked),
        false => Err(Box::new(asked.back(
            &shared.url,
            "error",
            "invalid_request",
        ))),
    }
}

async fn token(State(shared): Issuer, headers: HeaderMap, body: Bytes) -> Response {
    let form = form(&body);
    let text = |name: &str| form.get(name).map_or("", String::as_str);
    let (id, secret) = match basic(&headers) {
        Some((id, secret)) => (id, Some(secret)),
        None => (
            text("client_id").to_owned(),
            form.get("client_secret").cloned(),
        ),
    };
    let now = shared.now();
    let mut book = shared.book();
    if !book.is_client(&id, secret.as_deref()) {
        return answer(
            StatusCode::UNAUTHORIZED,
            &json!({ "error": "invalid_client" }),
        );
    }
    let grant = match text("grant_type") {
        "authorization_code" => book.redeem(
            text("code"),
            &id,
            text("redirect_uri"),
            text("code_verifier"),
            now,
        ),
        "refresh_token" => book.refresh(text("refresh_token"), &id, now),
        _ => {
            return answer(
                StatusCode::BAD_REQUEST,
                &json!({ "error": "unsupported_grant_type" }),
            );
        }
    };
    let Some(grant) = grant else {
        return answer(
            StatusCode::BAD_REQUEST,
            &json!({ "error": "invalid_grant" }),
        );
    };
    if text("resource") != grant.resource {
        return answer(
            StatusCode::BAD_REQUEST,
            &json!({ "error": "invalid_target" }),
        );
    }
    let refresh = book.refreshable(&grant, now);
    drop(book);
    issued(&shared, &grant, &refresh)
}

fn issued(shared: &Shared, grant: &Grant, refresh: &str) -> Response {
    let Grant {
        client,
        subject,
        resource,
        scope,
        ..
    } = grant;
    let now = shared.now();
    let claims = json!({
        "iss": shared.url, "sub": subject, "client_id": client, "aud": resource, "scope": scope,
        "iat": now, "exp": now + book::ACCESS, "jti": book::random(),
    });
    let token = shared.keys().sign("at+jwt", &claims);
    shared.book().remember(&token, claims);
    let said = json!({
        "access_token": token, "token_type": "Bearer", "expires_in": book::ACCESS, "scope": scope,
        "refresh_token": refresh,
    });
    answer(StatusCode::OK, &said)
}

async fn introspect(State(shared): Issuer, headers: HeaderMap, body: Bytes) -> Response {
    let book = shared.book();
    let known = basic(&headers).is_some_and(|(id, secret)| book.is_client(&id, Some(&secret)));
    if !known {
        return answer(
            StatusCode::UNAUTHORIZED,
            &json!({ "error": "invalid_client" }),
        );
    }
    let form = form(&body);
    let token = form.get("token").map_or("", String::as_str);
    answer(StatusCode::OK, &book.introspect(token, shared.now()))
}

/// A public client (RFC 7591). Anybody may register: its redirect URIs are shown to whoever logs in.
async fn register(State(shared): Issuer, body: Bytes) -> Response {
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let uris = asked.get("redirect_uris").and_then(Value::as_array);
    let uris: Vec<String> = uris
        .into_iter()
        .flatten()
        .filter_map(|uri| uri.as_str().map(str::to_owned))
        .collect();
    let secure =
        |uri: &String| Url::parse(uri).is_ok_and(|uri| mrtr_auth::metadata::is_secure(&uri));
    if uris.is_empty() || !uris.iter().all(secure) {
        return answer(
            StatusCode::BAD_REQUEST,
            &json!({ "error": "invalid_redirect_uri" }),
        );
    }
    let id = format!("client-{}", book::random());
    shared.book().add_client(Client {
        id: id.clone(),
        secret: None,
        redirect_uris: uris.clone(),
    });
    let said = json!({
        "client_id": id, "redirect_uris": uris, "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"],
    });
    answer(StatusCode::CREATED, &said)
}

/// `client_secret_basic` (RFC 6749 section 2.3.1).
fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let pair = STANDARD.decode(value.strip_prefix("Basic ")?).ok()?;
    let pair = String::from_utf8(pair).ok()?;
    let (id, secret) = pair.split_once(':')?;
    let decoded = |text: &str| {
        form_urlencoded::parse(text.as_bytes())
            .next()
            .map(|(text, _)| text.into_owned())
    };
    Some((decoded(id)?, decoded(secret).unwrap_or_default()))
}

/// A parameter that is doubled is none (OAuth 2.1 section 3.1).
fn form(body: &[u8]) -> HashMap<String, String> {
    let mut form = HashMap::new();
    let mut doubled = Vec::new();
    for (name, value) in form_urlencoded::parse(body) {
        if form.insert(name.to_string(), value.into_owned()).is_some() {
            doubled.push(name.into_owned());
        }
    }
    for name in doubled {
        form.remove(&name);
    }
    form
}

fn page(status: StatusCode, asked: &Asked, query: &str, fault: &str) -> Response {
    let html = format!(
        "<!doctype html><title>Log in</title><h1>Log in</h1><p>{fault}</p>\
         <p>The app {} at {} asks for: {}.</p>\
         <form method=post action=\"/authorize?{}\"><label>Name <input name=name></label>\
         <label>Password <input name=password type=password></label>\
         <button name=agree value=yes>Agree</button><button name=agree value=no>Refuse</button></form>",
        escaped(&asked.client),
        escaped(asked.redirect_uri.host_str().unwrap_or_default()),
        escaped(&asked.scope),
        escaped(query),
    );
    let mut response = with_status(status, html.into());
    response.headers_mut().insert(
        CONTENT_TYPE,
        http::HeaderValue::from_static("text/html; charset=utf-8"),
    );
    // A page that takes passwords is not framed, and runs no script.
    response.headers_mut().insert(
        CONTENT_SECURITY_POLICY,
        http::HeaderValue::from_static(
            "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
        ),
    );
    response
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn refused(why: &str) -> Response {
    answer(
        StatusCode::BAD_REQUEST,
        &json!({ "error": "invalid_request", "error_description": why }),
    )
}

fn answer(status: StatusCode, body: &Value) -> Response {
    let mut response = with_status(status, body.to_string().into());
    response.headers_mut().insert(
        CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    response
}

fn with_status(status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
    response
}
