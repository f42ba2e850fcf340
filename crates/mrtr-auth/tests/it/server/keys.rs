//! The issuer's keys: rotation, how often they are fetched, and what happens when they cannot be.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use authorized::issuer::Issuer;
use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use http::StatusCode;
use mrtr_auth::server::{JwtAuthenticator, TrustedIssuer};
use tokio::net::TcpListener;

use super::desk::{Desk, RESOURCE, SCOPE, clock, issuer, jwt, resource};

fn token(issuer: &Issuer) -> String {
    issuer.mint(&issuer.claims("alice", "app-1", RESOURCE, SCOPE))
}

#[tokio::test]
async fn keys_are_fetched_once_and_used_again() {
    let clock = clock();
    let issuer = issuer(&clock).await;
    let desk = Desk::new(jwt(&issuer, &clock).build().unwrap(), &clock);
    assert_eq!(
        issuer.key_requests(),
        0,
        "nothing is fetched before it is needed"
    );
    for _ in 0..3 {
        assert_eq!(desk.open(&token(&issuer)).await.status, StatusCode::OK);
    }
    assert_eq!(issuer.key_requests(), 1);
}

#[tokio::test]
async fn a_rotated_key_is_found_and_a_withdrawn_one_is_not_taken() {
    let clock = clock();
    let issuer = issuer(&clock).await;
    let desk = Desk::new(jwt(&issuer, &clock).build().unwrap(), &clock);
    let old = token(&issuer);
    let state = desk.state(&old).await;
    issuer.rotate();
    clock.advance(Duration::from_secs(30));
    let new = token(&issuer);
    assert_eq!(desk.open(&new).await.status, StatusCode::OK);
    assert_eq!(
        desk.open(&old).await.status,
        StatusCode::OK,
        "the old one is published still"
    );
    assert_eq!(issuer.key_requests(), 2);

    issuer.rotate();
    issuer.withdraw_old_keys();
    clock.advance(Duration::from_secs(30));
    assert_eq!(desk.open(&token(&issuer)).await.status, StatusCode::OK);
    desk.open(&old)
        .await
        .assert_refused(&old, "the token is signed with an unknown key");
    // The flow that began under the first key ends under the third.
    assert_eq!(desk.retry(&token(&issuer), &state).await.text(), "paid 1");
}

#[tokio::test]
async fn an_unknown_key_id_is_refused_and_causes_one_fetch_in_an_interval() {
    let clock = clock();
    let (one, stranger) = (issuer(&clock).await, issuer(&clock).await);
    let desk = Desk::new(jwt(&one, &clock).build().unwrap(), &clock);
    assert_eq!(desk.open(&token(&one)).await.status, StatusCode::OK);
    // A stranger's key id under this issuer's name.
    let forged = || stranger.mint(&one.claims("alice", "app-1", RESOURCE, SCOPE));
    let refused = async || {
        let token = forged();
        let why = "the token is signed with an unknown key";
        desk.open(&token).await.assert_refused(&token, why);
    };
    clock.advance(Duration::from_millis(29_999));
    for _ in 0..5 {
        refused().await;
    }
    assert_eq!(one.key_requests(), 1);
    clock.advance(Duration::from_millis(1));
    for _ in 0..5 {
        refused().await;
    }
    assert_eq!(one.key_requests(), 2);
    assert_eq!(desk.open(&token(&one)).await.status, StatusCode::OK);
}

#[tokio::test]
async fn callers_who_need_the_keys_at_once_share_one_fetch() {
    let clock = clock();
    let issuer = issuer(&clock).await;
    let desk = Desk::new(jwt(&issuer, &clock).build().unwrap(), &clock);
    let token = token(&issuer);
    let (a, b, c) = tokio::join!(desk.open(&token), desk.open(&token), desk.open(&token));
    for reply in [a, b, c] {
        assert_eq!(reply.status, StatusCode::OK);
    }
    assert_eq!(issuer.key_requests(), 1);
}

#[tokio::test]
async fn nobody_is_let_in_while_the_keys_cannot_be_fetched() {
    let clock = clock();
    let issuer = issuer(&clock).await;
    let desk = Desk::new(jwt(&issuer, &clock).build().unwrap(), &clock);
    issuer.outage(true);
    let reply = desk.open(&token(&issuer)).await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE, "{reply:?}");
    // A moment later there is still no word, and no second question.
    issuer.outage(false);
    assert_eq!(
        desk.open(&token(&issuer)).await.status,
        StatusCode::SERVICE_UNAVAILABLE
    );
    clock.advance(Duration::from_secs(30));
    assert_eq!(desk.open(&token(&issuer)).await.status, StatusCode::OK);
}

#[tokio::test]
async fn keys_outlast_an_outage_of_an_hour_and_no_longer() {
    let clock = clock();
    let issuer = issuer(&clock).await;
    let desk = Desk::new(jwt(&issuer, &clock).build().unwrap(), &clock);
    assert_eq!(desk.open(&token(&issuer)).await.status, StatusCode::OK);
    issuer.outage(true);
    clock.advance(Duration::from_millis(3_599_999));
    assert_eq!(desk.open(&token(&issuer)).await.status, StatusCode::OK);
    clock.advance(Duration::from_millis(1));
    assert_eq!(
        desk.open(&token(&issuer)).await.status,
        StatusCode::SERVICE_UNAVAILABLE
    );
    // A rotated key during an outage may be a good one: nobody can say.
    issuer.outage(false);
    clock.advance(Duration::from_secs(30));
    assert_eq!(desk.open(&token(&issuer)).await.status, StatusCode::OK);
    issuer.rotate();
    issuer.outage(true);
    clock.advance(Duration::from_secs(30));
    assert_eq!(
        desk.open(&token(&issuer)).await.status,
        StatusCode::SERVICE_UNAVAILABLE
    );
}

/// A server on loopback that answers `/jwks` as it likes. It ends with the test's runtime.
async fn publisher(routes: Router) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}/jwks", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    url
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_a_flood_is_not_read() {
    let clock = clock();
    let issuer = issuer(&clock).await;
    let good = issuer.jwks_uri();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let redirect = get(async move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Redirect::temporary(&good)
    });
    let flood = get(async || format!("{{\"keys\":[],\"pad\":\"{}\"}}", "x".repeat(300 << 10)));
    let nonsense = get(async || "<html>");
    for route in [redirect, flood, nonsense] {
        let url = publisher(Router::new().route("/jwks", route)).await;
        let authenticator = JwtAuthenticator::builder(&resource(&issuer))
            .issuer(TrustedIssuer::new(issuer.url(), url))
            .clock(clock.clone());
        let desk = Desk::new(authenticator.build().unwrap(), &clock);
        let reply = desk.open(&token(&issuer)).await;
        assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    }
    assert_eq!(
        (asked.load(Ordering::SeqCst), issuer.key_requests()),
        (1, 0)
    );
}
