//! The authorization server: what a code and a refresh token are good for, and where a browser is sent.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "in a test, what panics has failed"
)]

use std::time::Duration;

use authorized::issuer::{Client, Issuer};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mrtr_state::Timestamp;
use mrtr_testkit::ManualClock;
use reqwest::header::{CONTENT_TYPE, LOCATION};
use reqwest::redirect::Policy;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use url::Url;

const BACK: &str = "http://127.0.0.1:4000/callback";
const RESOURCE: &str = "https://mcp.example/mcp";
const VERIFIER: &str = "a-verifier-that-an-app-would-make-anew-each-time";

struct Login {
    issuer: Issuer,
    clock: ManualClock,
    http: reqwest::Client,
}

type Fields<'f> = Vec<(&'static str, &'f str)>;

/// The same with one of them another.
fn bent<'f>(fields: &Fields<'f>, name: &str, value: &'f str) -> Fields<'f> {
    let bent = |(known, old): &(&'static str, &'f str)| {
        (*known, if *known == name { value } else { *old })
    };
    fields.iter().map(bent).collect()
}

impl Login {
    async fn new() -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
        let issuer = Issuer::builder()
            .clock(clock.clone())
            .person("alice", "alice-password", ["read", "write"])
            // Registered on another port: an app listens where it can.
            .client(Client::public("app", "http://127.0.0.1/callback"))
            .client(Client::public("web", "https://web.example/callback"))
            .client(Client::confidential("keeper", "keeper-secret"));
        let http = reqwest::Client::builder().redirect(Policy::none());
        Self {
            issuer: issuer.start().await.unwrap(),
            clock,
            http: http.build().unwrap(),
        }
    }

    async fn post(&self, path: &str, fields: &[(&str, &str)]) -> reqwest::Response {
        let form = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields)
            .finish();
        let request = self
            .http
            .post(format!("{}{path}", self.issuer.url()))
            .body(form);
        request
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .send()
            .await
            .unwrap()
    }

    /// What the browser is told when alice logs in: a status, and where it goes.
    async fn authorize(&self, asked: &Fields<'_>, password: &str) -> (u16, Option<Url>) {
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(asked)
            .finish();
        let filled = [("name", "alice"), ("password", password), ("agree", "yes")];
        let answer = self.post(&format!("/authorize?{query}"), &filled).await;
        let location = answer
            .headers()
            .get(LOCATION)
            .map(|url| url.to_str().unwrap());
        (
            answer.status().as_u16(),
            location.map(|url| Url::parse(url).unwrap()),
        )
    }

    async fn code(&self) -> String {
        let (status, location) = self.authorize(&asked(&challenge()), "alice-password").await;
        let location = location.unwrap();
        assert_eq!(
            (status, query(&location, "iss").as_deref()),
            (303, Some(self.issuer.url()))
        );
        assert_eq!(query(&location, "state").as_deref(), Some("s"));
        query(&location, "code").unwrap()
    }

    async fn exchange(&self, fields: &[(&str, &str)]) -> (u16, Value) {
        let answer = self.post("/token", fields).await;
        let status = answer.status().as_u16();
        (
            status,
            serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap(),
        )
    }
}

fn challenge() -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER))
}

fn query(url: &Url, name: &str) -> Option<String> {
    let mut pairs = url.query_pairs();
    pairs
        .find(|(known, _)| known == name)
        .map(|(_, value)| value.into_owned())
}

fn asked(challenge: &str) -> Fields<'_> {
    vec![
        ("response_type", "code"),
        ("client_id", "app"),
        ("redirect_uri", BACK),
        ("state", "s"),
        ("code_challenge", challenge),
        ("code_challenge_method", "S256"),
        ("resource", RESOURCE),
        ("scope", "read write admin"),
    ]
}

fn exchanged(code: &str) -> Fields<'_> {
    vec![
        ("grant_type", "authorization_code"),
        ("client_id", "app"),
        ("code", code),
        ("redirect_uri", BACK),
        ("code_verifier", VERIFIER),
        ("resource", RESOURCE),
    ]
}

#[tokio::test]
async fn a_code_is_good_once_for_whoever_asked_for_it() {
    let login = Login::new().await;
    let code = login.code().await;
    let (status, said) = login.exchange(&exchanged(&code)).await;
    // What she may not grant is not granted.
    assert_eq!(
        (status, said["scope"].as_str()),
        (200, Some("read write")),
        "{said}"
    );
    let (status, said) = login.exchange(&exchanged(&code)).await;
    assert_eq!(
        (status, said["error"].as_str()),
        (400, Some("invalid_grant"))
    );
    for (name, value) in [
        (
            "code_verifier",
            "another-verifier-of-the-same-length-or-nearly-so",
        ),
        ("redirect_uri", "http://127.0.0.1:4001/callback"),
        ("client_id", "web"),
        ("resource", "https://other.example/mcp"),
    ] {
        let code = login.code().await;
        let (status, said) = login.exchange(&bent(&exchanged(&code), name, value)).await;
        assert_eq!(status, 400, "{name}: {said}");
    }
    let code = login.code().await;
    login.clock.advance(Duration::from_secs(60));
    assert_eq!(login.exchange(&exchanged(&code)).await.0, 400, "it is old");
}

#[tokio::test]
async fn a_refresh_token_is_good_once_and_brings_the_next() {
    let login = Login::new().await;
    let code = login.code().await;
    let (_, first) = login.exchange(&exchanged(&code)).await;
    let token = first["refresh_token"].as_str().unwrap();
    let refresh = |token| {
        vec![
            ("grant_type", "refresh_token"),
            ("client_id", "app"),
            ("refresh_token", token),
            ("resource", RESOURCE),
        ]
    };
    let (status, second) = login.exchange(&refresh(token)).await;
    assert_eq!(status, 200, "{second}");
    assert_eq!(login.exchange(&refresh(token)).await.0, 400);
    let token = second["refresh_token"].as_str().unwrap();
    assert_eq!(
        login
            .exchange(&bent(&refresh(token), "client_id", "web"))
            .await
            .0,
        400
    );
}

#[tokio::test]
async fn a_browser_is_sent_to_registered_places_alone() {
    let login = Login::new().await;
    let challenge = challenge();
    let good = asked(&challenge);
    assert_eq!(login.authorize(&good, "alice-password").await.0, 303);
    for (name, value) in [
        ("redirect_uri", "http://127.0.0.1:4000/elsewhere"),
        ("redirect_uri", "http://evil.example/callback"),
        ("redirect_uri", "https://127.0.0.1:4000/callback"),
        ("redirect_uri", ""),
        ("client_id", "nobody"),
        ("client_id", "web"),
    ] {
        let answer = login
            .authorize(&bent(&good, name, value), "alice-password")
            .await;
        assert_eq!(answer, (400, None), "{name} {value}");
    }
    // What is wrong with the rest is told to the app, and no code comes.
    for (name, value) in [
        ("response_type", "token"),
        ("code_challenge_method", "plain"),
        ("code_challenge", ""),
        ("resource", "mcp"),
    ] {
        let (_, location) = login
            .authorize(&bent(&good, name, value), "alice-password")
            .await;
        let location = location.unwrap();
        assert_eq!(
            query(&location, "error").as_deref(),
            Some("invalid_request"),
            "{name}"
        );
        assert_eq!(query(&location, "code"), None);
    }
    assert_eq!(login.authorize(&good, "wrong").await, (403, None));
}

#[tokio::test]
async fn strangers_are_told_nothing_of_tokens() {
    let login = Login::new().await;
    let token = login.issuer.token("alice", "app", RESOURCE, "read");
    let introspect = async |secret: &str| {
        let request = login.http.post(login.issuer.introspection_endpoint());
        let request = request
            .basic_auth("keeper", Some(secret))
            .body(format!("token={token}"));
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        (
            status,
            serde_json::from_slice::<Value>(&answer.bytes().await.unwrap()).unwrap(),
        )
    };
    let (status, said) = introspect("keeper-secret").await;
    assert_eq!(
        (status, said["sub"].as_str()),
        (200, Some("alice")),
        "{said}"
    );
    let (status, said) = introspect("wrong").await;
    assert_eq!((status, said.get("active")), (401, None));
    assert_eq!(
        login
            .post("/introspect", &[("token", &token)])
            .await
            .status(),
        401
    );
}
