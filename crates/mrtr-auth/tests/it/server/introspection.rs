//! Tokens about which the issuer is asked.

use std::time::Duration;

use authorized::issuer::Issuer;
use http::StatusCode;
use mrtr_auth::server::{IntrospectionAuthenticator, IntrospectionBuilder};
use mrtr_testkit::ManualClock;

use super::desk::{Desk, RESOURCE, SCOPE, clock, issuer, resource};

fn asking(issuer: &Issuer, clock: &ManualClock) -> IntrospectionBuilder {
    let endpoint = issuer.introspection_endpoint();
    IntrospectionAuthenticator::builder(&resource(issuer), issuer.url(), endpoint)
        .client("mcp-server", "a secret: with & signs")
        .clock(clock.clone())
}

async fn opened() -> (Desk, Issuer, ManualClock, String) {
    let clock = clock();
    let issuer = issuer(&clock).await;
    let desk = Desk::new(asking(&issuer, &clock).build().unwrap(), &clock);
    let token = issuer.token("alice", "app-1", RESOURCE, SCOPE);
    assert_eq!(
        desk.open(&token).await.status,
        StatusCode::OK,
        "the good path"
    );
    (desk, issuer, clock, token)
}

#[tokio::test]
async fn a_scope_or_a_token_that_is_taken_back_between_rounds_stops_the_flow() {
    let (desk, issuer, clock, token) = opened().await;
    let state = desk.state(&token).await;
    issuer.narrow(&token, "other");
    clock.advance(Duration::from_secs(5));
    let reply = desk.retry(&token, &state).await;
    assert_eq!((reply.status, desk.paid()), (StatusCode::FORBIDDEN, 0));
    assert_eq!(reply.challenge().scope.as_deref(), Some(SCOPE));

    let other = issuer.token("alice", "app-1", RESOURCE, SCOPE);
    assert_eq!(desk.open(&other).await.status, StatusCode::OK);
    issuer.revoke(&other);
    clock.advance(Duration::from_secs(5));
    desk.retry(&other, &state)
        .await
        .assert_refused(&other, "the token is not active");
    // Another token of the same person in the same app goes on.
    let third = issuer.token("alice", "app-1", RESOURCE, SCOPE);
    assert_eq!(desk.retry(&third, &state).await.text(), "paid 1");
}

#[tokio::test]
async fn an_answer_is_used_again_for_as_long_as_was_said() {
    let (desk, issuer, clock, token) = opened().await;
    issuer.revoke(&token);
    clock.advance(Duration::from_millis(4_999));
    assert_eq!(desk.open(&token).await.status, StatusCode::OK);
    clock.advance(Duration::from_millis(1));
    desk.open(&token)
        .await
        .assert_refused(&token, "the token is not active");

    let never = asking(&issuer, &clock)
        .keep_answers(Duration::ZERO)
        .build()
        .unwrap();
    let desk = Desk::new(never, &clock);
    let token = issuer.token("alice", "app-1", RESOURCE, SCOPE);
    assert_eq!(desk.open(&token).await.status, StatusCode::OK);
    issuer.revoke(&token);
    desk.open(&token)
        .await
        .assert_refused(&token, "the token is not active");
    // No answer outlives its token.
    let long = asking(&issuer, &clock)
        .keep_answers(Duration::from_secs(86_400))
        .build()
        .unwrap();
    let desk = Desk::new(long, &clock);
    let token = issuer.token("alice", "app-1", RESOURCE, SCOPE);
    assert_eq!(desk.open(&token).await.status, StatusCode::OK);
    clock.advance(Duration::from_secs(301));
    desk.open(&token)
        .await
        .assert_refused(&token, "the token is not active");
}

#[tokio::test]
async fn a_token_for_another_resource_or_of_another_person_is_none() {
    let (desk, issuer, _, token) = opened().await;
    let state = desk.state(&token).await;
    let elsewhere = issuer.token("alice", "app-1", "https://other.example/mcp", SCOPE);
    desk.open(&elsewhere)
        .await
        .assert_refused(&elsewhere, "the token is for another resource");
    let unknown = "nobody-issued-this";
    desk.open(unknown)
        .await
        .assert_refused(unknown, "the token is not active");
    for other in [("bob", "app-1"), ("alice", "app-2")] {
        let token = issuer.token(other.0, other.1, RESOURCE, SCOPE);
        let reply = desk.retry(&token, &state).await;
        assert_eq!(
            reply.body["error"]["data"]["reason"], "different_principal",
            "{reply:?}"
        );
    }
}

#[tokio::test]
async fn nobody_is_let_in_while_the_issuer_does_not_answer() {
    let (desk, issuer, clock, token) = opened().await;
    issuer.outage(true);
    assert_eq!(
        desk.open(&token).await.status,
        StatusCode::OK,
        "the answer is a moment old"
    );
    clock.advance(Duration::from_secs(5));
    let reply = desk.open(&token).await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(!format!("{reply:?}").contains(&token));
    issuer.outage(false);
    assert_eq!(desk.open(&token).await.status, StatusCode::OK);
    // An issuer that does not know this server says nothing either.
    let wrong = asking(&issuer, &clock)
        .client("mcp-server", "wrong")
        .build()
        .unwrap();
    assert_eq!(
        Desk::new(wrong, &clock).open(&token).await.status,
        StatusCode::SERVICE_UNAVAILABLE
    );
}

#[tokio::test]
async fn debug_names_no_secret() {
    let clock = clock();
    let issuer = issuer(&clock).await;
    let builder = asking(&issuer, &clock);
    let shown = format!("{builder:?} {:?}", asking(&issuer, &clock).build().unwrap());
    assert!(
        !shown.contains("secret") && !shown.contains("Basic"),
        "{shown}"
    );
}
