//! Tokens that are JSON Web Tokens: what is refused, and whose state is whose.

use std::time::Duration;

use authorized::issuer::Issuer;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use jsonwebtoken::{EncodingKey, Header, encode};
use mrtr_auth::server::{
    Algorithm, ConfigError, JwtAuthenticator, ProtectedResource, TrustedIssuer,
};
use mrtr_testkit::ManualClock;
use serde_json::{Value, json};

use super::desk::{Desk, RESOURCE, SCOPE, clock, issuer, jwt, resource, trusted};

/// A desk, its issuer, and the clock of both.
async fn opened() -> (Desk, Issuer, ManualClock) {
    let clock = clock();
    let issuer = issuer(&clock).await;
    let desk = Desk::new(jwt(&issuer, &clock).build().unwrap(), &clock);
    let good = issuer.mint(&claims(&issuer));
    assert_eq!(
        desk.open(&good).await.status,
        StatusCode::OK,
        "the good path"
    );
    (desk, issuer, clock)
}

fn claims(issuer: &Issuer) -> Value {
    issuer.claims("alice", "app-1", RESOURCE, SCOPE)
}

/// The good claims, with one of them another, or none.
fn bent(issuer: &Issuer, name: &str, value: Option<Value>) -> String {
    let mut claims = claims(issuer);
    let members = claims.as_object_mut().unwrap();
    match value {
        Some(value) => members.insert(name.to_owned(), value),
        None => members.remove(name),
    };
    issuer.mint(&claims)
}

fn now(issuer: &Issuer) -> u64 {
    claims(issuer)["iat"].as_u64().unwrap()
}

#[tokio::test]
async fn a_wrong_issuer_is_refused() {
    let (desk, issuer, _) = opened().await;
    for wrong in [
        json!("https://evil.example"),
        json!(format!("{}/", issuer.url())),
        json!(""),
    ] {
        let token = bent(&issuer, "iss", Some(wrong));
        desk.open(&token)
            .await
            .assert_refused(&token, "the token is of another issuer");
    }
    for wrong in [None, Some(json!([issuer.url()])), Some(json!(7))] {
        let token = bent(&issuer, "iss", wrong);
        desk.open(&token)
            .await
            .assert_refused(&token, "the token names no issuer");
    }
}

#[tokio::test]
async fn a_wrong_audience_is_refused() {
    let (desk, issuer, _) = opened().await;
    let listed = bent(
        &issuer,
        "aud",
        Some(json!(["https://other.example", RESOURCE])),
    );
    assert_eq!(desk.open(&listed).await.status, StatusCode::OK);
    for wrong in [
        Some(json!("https://other.example/mcp")),
        Some(json!(format!("{RESOURCE}/"))),
        Some(json!("https://MCP.example/mcp")),
        Some(json!("https://mcp.example")),
        Some(json!([])),
        None,
    ] {
        let token = bent(&issuer, "aud", wrong);
        desk.open(&token)
            .await
            .assert_refused(&token, "the token is for another resource");
    }
}

const UNREADABLE: &str = "the token's signature does not hold, or its claims cannot be read";

#[tokio::test]
async fn a_signature_that_does_not_hold_is_refused() {
    let (desk, issuer, clock) = opened().await;
    let token = issuer.mint(&claims(&issuer));
    let (message, signature) = token.rsplit_once('.').unwrap();
    // Another token's signature, a bent one, and none.
    let other = issuer.mint(&json!({ "iss": issuer.url() }));
    let other = other.rsplit_once('.').unwrap().1;
    let mut bytes = URL_SAFE_NO_PAD.decode(signature).unwrap();
    bytes[7] ^= 1;
    for wrong in [other, &URL_SAFE_NO_PAD.encode(bytes), ""] {
        let token = format!("{message}.{wrong}");
        desk.open(&token).await.assert_refused(&token, UNREADABLE);
    }
    // The claims of somebody else under a signature that held.
    let (header, _) = message.split_once('.').unwrap();
    let mallory = issuer.claims("mallory", "app-1", RESOURCE, "admin");
    let token = format!(
        "{header}.{}.{signature}",
        URL_SAFE_NO_PAD.encode(mallory.to_string())
    );
    desk.open(&token).await.assert_refused(&token, UNREADABLE);
    // The key of another issuer, under this one's name and key id.
    let stranger = super::desk::issuer(&clock).await;
    let forged = stranger.mint(&claims(&issuer));
    let (_, rest) = forged.split_once('.').unwrap();
    let token = format!("{header}.{rest}");
    desk.open(&token).await.assert_refused(&token, UNREADABLE);
}

const NOT_TAKEN: &str = "the token is no JWT, or signed in a way that is not taken";

#[tokio::test]
async fn the_algorithm_is_the_keys_and_never_the_tokens() {
    let (desk, issuer, _) = opened().await;
    let key = issuer.public_key();
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = claims(&issuer);
    for none in ["none", "None", "nOnE", ""] {
        let header = json!({ "alg": none, "typ": "at+jwt", "kid": key["kid"] });
        for signature in ["", "AAAA"] {
            let token = format!("{}.{}.{signature}", encoded(&header), encoded(&claims));
            desk.open(&token).await.assert_refused(&token, NOT_TAKEN);
        }
    }
    // HMAC with what is published: the key as JSON, its parts, and the point.
    let part = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap()).unwrap();
    let point = [&[4], part("x").as_slice(), part("y").as_slice()].concat();
    for secret in [key.to_string().into_bytes(), part("x"), point] {
        let mut header = Header::new(jsonwebtoken::Algorithm::HS256);
        header.kid = key["kid"].as_str().map(str::to_owned);
        let secret = EncodingKey::from_secret(&secret).unwrap();
        let token = encode(&header, &claims, &secret).unwrap();
        desk.open(&token).await.assert_refused(&token, NOT_TAKEN);
    }
    // An algorithm that is allowed for nobody here, and one that is no key's.
    for alg in ["RS256", "ES384", "EdDSA"] {
        let header = json!({ "alg": alg, "kid": key["kid"] });
        let token = format!("{}.{}.AAAA", encoded(&header), encoded(&claims));
        desk.open(&token).await.assert_refused(&token, NOT_TAKEN);
    }
}

#[tokio::test]
async fn an_algorithm_that_the_issuer_may_use_and_the_key_may_not_finds_no_key() {
    let clock = clock();
    let issuer = issuer(&clock).await;
    let trusted = TrustedIssuer::new(issuer.url(), issuer.jwks_uri());
    let all = JwtAuthenticator::builder(&resource(&issuer))
        .issuer(trusted)
        .clock(clock.clone());
    let desk = Desk::new(all.build().unwrap(), &clock);
    let good = issuer.mint(&claims(&issuer));
    assert_eq!(desk.open(&good).await.status, StatusCode::OK);
    let header = json!({ "alg": "RS256", "kid": issuer.public_key()["kid"] });
    let (_, rest) = good.split_once('.').unwrap();
    let token = format!("{}.{rest}", URL_SAFE_NO_PAD.encode(header.to_string()));
    let reply = desk.open(&token).await;
    reply.assert_refused(&token, "the token is signed with an unknown key");
}

#[tokio::test]
async fn times_are_kept_with_the_skew_that_was_said() {
    let (desk, issuer, clock) = opened().await;
    let now = now(&issuer);
    for (name, good, bad, why) in [
        ("exp", now - 29, now - 30, "the token has expired"),
        ("nbf", now + 30, now + 31, "the token is not valid yet"),
    ] {
        let token = bent(&issuer, name, Some(json!(good)));
        assert_eq!(desk.open(&token).await.status, StatusCode::OK, "{name}");
        let token = bent(&issuer, name, Some(json!(bad)));
        desk.open(&token).await.assert_refused(&token, why);
    }
    for (exp, why) in [
        (None, "the token has no expiry"),
        (Some(json!(-1)), "the token's `exp` is no time"),
        (Some(json!(1e300)), "the token's `exp` is no time"),
        (Some(json!("soon")), UNREADABLE),
    ] {
        let token = bent(&issuer, "exp", exp);
        desk.open(&token).await.assert_refused(&token, why);
    }
    // A good one grows old.
    let token = issuer.mint(&claims(&issuer));
    clock.advance(Duration::from_secs(329));
    assert_eq!(desk.open(&token).await.status, StatusCode::OK);
    clock.advance(Duration::from_secs(1));
    desk.open(&token)
        .await
        .assert_refused(&token, "the token has expired");
}

#[tokio::test]
async fn a_state_is_one_persons_in_one_app_at_one_issuer() {
    let clock = clock();
    let (one, two) = (issuer(&clock).await, issuer(&clock).await);
    let resource = ProtectedResource::builder(RESOURCE, one.url()).authorization_server(two.url());
    let both = JwtAuthenticator::builder(&resource.build().unwrap())
        .issuer(trusted(&one))
        .issuer(trusted(&two))
        .clock(clock.clone());
    let desk = Desk::new(both.build().unwrap(), &clock);
    let token = |issuer: &Issuer, subject, client| {
        issuer.mint(&issuer.claims(subject, client, RESOURCE, SCOPE))
    };

    let state = desk.state(&token(&one, "alice", "app-1")).await;
    for (whose, other) in [
        ("another person", token(&one, "bob", "app-1")),
        (
            "another app of the same person",
            token(&one, "alice", "app-2"),
        ),
        (
            "the same subject at another issuer",
            token(&two, "alice", "app-1"),
        ),
    ] {
        assert_eq!(
            desk.open(&other).await.status,
            StatusCode::OK,
            "{whose} may call"
        );
        let reply = desk.retry(&other, &state).await;
        assert_eq!(
            reply.body["error"]["data"]["reason"], "different_principal",
            "{whose}: {reply:?}"
        );
    }
    assert_eq!(desk.paid(), 0);
    // A refreshed token of the same person in the same app goes on.
    clock.advance(Duration::from_secs(60));
    let refreshed = token(&one, "alice", "app-1");
    assert_eq!(desk.retry(&refreshed, &state).await.text(), "paid 1");
}

#[tokio::test]
async fn who_it_is_must_be_said_whole() {
    let (desk, issuer, clock) = opened().await;
    for wrong in [None, Some(json!(""))] {
        let token = bent(&issuer, "sub", wrong.clone());
        desk.open(&token)
            .await
            .assert_refused(&token, "the token names no subject");
        let token = bent(&issuer, "client_id", wrong);
        desk.open(&token)
            .await
            .assert_refused(&token, "the token names no client");
    }
    let mut claims = claims(&issuer);
    claims.as_object_mut().unwrap().remove("client_id");
    claims["azp"] = json!("app-1");
    assert_eq!(
        desk.open(&issuer.mint(&claims)).await.status,
        StatusCode::OK
    );
    let lenient = jwt(&issuer, &clock)
        .allow_unnamed_clients()
        .build()
        .unwrap();
    let token = bent(&issuer, "client_id", None);
    assert_eq!(
        Desk::new(lenient, &clock).open(&token).await.status,
        StatusCode::OK
    );
}

#[tokio::test]
async fn a_token_that_may_be_another_kind_is_refused_where_that_was_asked() {
    let clock = clock();
    let issuer = issuer(&clock).await;
    let strict = jwt(&issuer, &clock)
        .require_access_token_type()
        .build()
        .unwrap();
    let desk = Desk::new(strict, &clock);
    let token = issuer.mint(&claims(&issuer));
    assert_eq!(desk.open(&token).await.status, StatusCode::OK);
    for kind in ["JWT", "logout+jwt", ""] {
        let token = issuer.mint_as(kind, &claims(&issuer));
        desk.open(&token)
            .await
            .assert_refused(&token, "the token does not say that it is an access token");
    }
}

#[tokio::test]
async fn a_token_counts_in_the_header_alone() {
    let (desk, issuer, _) = opened().await;
    let token = issuer.mint(&claims(&issuer));
    let ask = async |authorization: Option<&str>, uri: &str| {
        desk.send(authorization, uri, json!({})).await
    };
    let in_query = format!("/mcp?access_token={token}");
    assert_eq!(
        ask(Some(&format!("bearer {token}")), &in_query)
            .await
            .status,
        StatusCode::OK
    );
    for (authorization, uri) in [
        (None, "/mcp"),
        (None, in_query.as_str()),
        (Some("Basic YTpi"), in_query.as_str()),
        (Some(token.as_str()), "/mcp"),
    ] {
        let reply = ask(authorization, uri).await;
        assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
        let challenge = reply.challenge();
        // Whoever brings no token is told where to get one, and of no error.
        assert_eq!(
            (challenge.error.as_deref(), challenge.scope.as_deref()),
            (None, Some(SCOPE))
        );
    }
    for wrong in ["", "a b", "\u{e9}", &"a".repeat(16 * 1024 + 1)] {
        let reply = ask(Some(&format!("Bearer {wrong}")), "/mcp").await;
        assert_eq!(reply.status, StatusCode::UNAUTHORIZED, "{wrong}");
    }
}

#[tokio::test]
async fn scopes_are_the_tokens_and_what_they_imply() {
    let (desk, issuer, _) = opened().await;
    for (name, value) in [
        ("scope", json!("other pay")),
        ("scope", json!(["other", "pay"])),
        ("scope", json!("admin")),
        ("scp", json!(["pay"])),
        ("scp", json!("x pay")),
    ] {
        let mut claims = claims(&issuer);
        claims.as_object_mut().unwrap().remove("scope");
        claims[name] = value;
        assert_eq!(
            desk.open(&issuer.mint(&claims)).await.status,
            StatusCode::OK,
            "{claims}"
        );
    }
    for value in [
        None,
        Some(json!("")),
        Some(json!("payments")),
        Some(json!("PAY")),
    ] {
        let token = bent(&issuer, "scope", value);
        let reply = desk.open(&token).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN);
        let challenge = reply.challenge();
        assert_eq!(challenge.error.as_deref(), Some("insufficient_scope"));
        assert_eq!(challenge.scope.as_deref(), Some(SCOPE));
        assert!(challenge.resource_metadata.is_some());
    }
}

#[tokio::test]
async fn a_scope_that_the_next_token_lacks_stops_the_flow() {
    let (desk, issuer, _) = opened().await;
    let state = desk.state(&issuer.mint(&claims(&issuer))).await;
    let reply = desk.retry(&bent(&issuer, "scope", None), &state).await;
    assert_eq!((reply.status, desk.paid()), (StatusCode::FORBIDDEN, 0));
    let again = desk.retry(&issuer.mint(&claims(&issuer)), &state).await;
    assert_eq!(again.text(), "paid 1", "nothing was spent");
}

#[tokio::test]
async fn what_every_request_needs_is_told_before_anything_else() {
    let clock = clock();
    let issuer = issuer(&clock).await;
    let resource = ProtectedResource::builder(RESOURCE, issuer.url())
        .require_scope("mcp")
        .build()
        .unwrap();
    let authenticator = JwtAuthenticator::builder(&resource)
        .issuer(trusted(&issuer))
        .clock(clock.clone());
    let desk = Desk::new(authenticator.build().unwrap(), &clock);
    let both = bent(&issuer, "scope", Some(json!("mcp pay")));
    assert_eq!(desk.open(&both).await.status, StatusCode::OK);
    let reply = desk.open(&issuer.mint(&claims(&issuer))).await;
    assert_eq!(reply.status, StatusCode::FORBIDDEN);
    assert_eq!(reply.challenge().scope.as_deref(), Some("mcp"));
}

#[tokio::test]
async fn debug_names_no_token_and_no_key() {
    let clock = clock();
    let issuer = issuer(&clock).await;
    let authenticator = jwt(&issuer, &clock).build().unwrap();
    let shown = format!("{authenticator:?}");
    assert!(shown.contains(RESOURCE), "{shown}");
    let desk = Desk::new(authenticator.clone(), &clock);
    let token = issuer.mint(&claims(&issuer));
    assert_eq!(desk.open(&token).await.status, StatusCode::OK);
    let shown = format!("{authenticator:?}");
    assert!(!shown.contains(&token) && !shown.contains(issuer.public_key()["x"].as_str().unwrap()));
}

#[test]
fn what_could_not_be_safe_is_refused_at_build() {
    let resource = || {
        ProtectedResource::builder(RESOURCE, "https://as.example")
            .build()
            .unwrap()
    };
    let built = |issuer: TrustedIssuer| {
        JwtAuthenticator::builder(&resource())
            .issuer(issuer)
            .build()
    };
    let good = || TrustedIssuer::new("https://as.example", "https://as.example/jwks");
    assert!(built(good()).is_ok());
    assert!(matches!(
        JwtAuthenticator::builder(&resource()).build(),
        Err(ConfigError::NoIssuer)
    ));
    assert!(matches!(
        built(good().algorithms([])),
        Err(ConfigError::NoAlgorithm(_))
    ));
    assert!(built(good().algorithms([Algorithm::EdDsa])).is_ok());
    let elsewhere = TrustedIssuer::new("https://other.example", "https://as.example/jwks");
    assert!(matches!(
        built(elsewhere),
        Err(ConfigError::UnknownIssuer(_))
    ));
    for url in [
        "http://as.example/jwks",
        "file:///jwks",
        "https://u:p@as.example/jwks",
        "jwks",
    ] {
        let error = built(TrustedIssuer::new("https://as.example", url)).unwrap_err();
        assert!(matches!(error, ConfigError::Url { .. }), "{url}: {error}");
    }
}
