//! Tokens that expire.

use std::sync::Arc;

use mrtr_auth::client::{AuthError, CredentialStore as _, MemoryStore};
use serde_json::json;

use super::site::{Hit, json as answer, status};
use super::world::{AUTHORIZE, Authority, MCP, TOKEN, World, call, refusal};

fn grants(world: &World) -> Vec<String> {
    let hits = world.authority.site.hits(TOKEN);
    hits.iter()
        .map(|hit: &Hit| hit.form()["grant_type"].clone())
        .collect()
}

/// The server forgets every token.
fn revoked(authority: &Authority) {
    authority.issued.access.lock().unwrap().clear();
}

#[tokio::test]
async fn a_token_is_refreshed_before_it_expires_and_once() {
    let world = World::start().await;
    let store = Arc::new(MemoryStore::new());
    let oauth = world.oauth().store(Arc::clone(&store)).build().unwrap();
    let client = world.client(&oauth);
    call(&client).await.unwrap();
    world.clock.advance(3_500);
    call(&client).await.unwrap();
    assert_eq!(grants(&world), ["authorization_code"]);
    world.clock.advance(90);
    let before = world.mcp.count(MCP);
    for result in futures_util::future::join_all((0..5).map(|_| call(&client))).await {
        result.unwrap();
    }
    assert_eq!(grants(&world), ["authorization_code", "refresh_token"]);
    assert_eq!(
        (world.person.visits(), world.mcp.count(MCP)),
        (1, before + 5)
    );
    let form = world.authority.site.hits(TOKEN)[1].form();
    assert_eq!(form["resource"], world.server());
    // The next one is the one that came with it.
    let rotated = world.authority.issued.refresh.lock().unwrap()[0].clone();
    let kept = store.tokens(&world.server()).await.unwrap().unwrap();
    assert_eq!(kept.refresh_token.unwrap().reveal(), rotated);
}

#[tokio::test]
async fn a_refused_token_is_refreshed_and_a_refresh_token_may_stay_the_same() {
    let world = World::start().await;
    let issued = Arc::clone(&world.authority.issued);
    let oauth = world.oauth().build().unwrap();
    let client = world.client(&oauth);
    call(&client).await.unwrap();
    world.authority.site.on(TOKEN, move |_| {
        let mut tokens = issued.tokens("x");
        tokens.as_object_mut().unwrap().remove("refresh_token");
        answer(200, &tokens)
    });
    let first = world.authority.issued.refresh.lock().unwrap()[0].clone();
    for _ in 0..2 {
        revoked(&world.authority);
        call(&client).await.unwrap();
    }
    assert_eq!(world.person.visits(), 1);
    let hits = world.authority.site.hits(TOKEN);
    assert!(
        hits[1..]
            .iter()
            .all(|hit| hit.form()["refresh_token"] == first)
    );
}

#[tokio::test]
async fn a_stale_refresh_token_leads_to_a_login_and_is_not_shown_twice() {
    // Found out before the request, and after.
    for expires in [true, false] {
        let world = World::start().await;
        let oauth = world.oauth().build().unwrap();
        let client = world.client(&oauth);
        call(&client).await.unwrap();
        world.authority.issued.refresh.lock().unwrap().clear();
        revoked(&world.authority);
        if expires {
            world.clock.advance(4_000);
        }
        call(&client).await.unwrap();
        assert_eq!(
            grants(&world),
            ["authorization_code", "refresh_token", "authorization_code"]
        );
        assert_eq!(world.person.visits(), 2);
    }
}

#[tokio::test]
async fn a_server_that_is_away_costs_no_refresh_token() {
    let world = World::start().await;
    let oauth = world.oauth().build().unwrap();
    let client = world.client(&oauth);
    call(&client).await.unwrap();
    world.clock.advance(4_000);
    world.authority.site.on(TOKEN, |_| status(503));
    let before = world.mcp.count(MCP);
    let error = refusal(call(&client).await);
    assert!(matches!(error, AuthError::Status { .. }), "{error}");
    assert_eq!((world.mcp.count(MCP), world.person.visits()), (before, 1));
    let issued = Arc::clone(&world.authority.issued);
    world.authority.site.on(TOKEN, move |hit| {
        assert!(
            issued
                .refresh
                .lock()
                .unwrap()
                .contains(&hit.form()["refresh_token"])
        );
        answer(200, &issued.tokens("x"))
    });
    call(&client).await.unwrap();
    assert_eq!(world.person.visits(), 1);
}

#[tokio::test]
async fn a_refresh_token_is_shown_to_nobody_but_its_issuer() {
    let world = World::start().await;
    let oauth = world.oauth().build().unwrap();
    let client = world.client(&oauth);
    call(&client).await.unwrap();
    let second = Authority::start().await;
    world.trusts(&second);
    call(&client).await.unwrap();
    let token = &second.site.hits(TOKEN)[0];
    assert_eq!(token.form()["grant_type"], "authorization_code");
    let first = super::world::port(&world.authority.site.url);
    assert!(!second.site.saw(&format!("refresh-{first}")));
    assert_eq!(second.site.count(AUTHORIZE), 1);
}

#[tokio::test]
async fn a_registration_that_is_gone_is_made_anew() {
    let world = World::start().await;
    let oauth = world.oauth().build().unwrap();
    let client = world.client(&oauth);
    call(&client).await.unwrap();
    revoked(&world.authority);
    world
        .authority
        .site
        .on(TOKEN, |_| answer(401, &json!({"error": "invalid_client"})));
    let error = refusal(call(&client).await);
    assert!(matches!(error, AuthError::Token(_)), "{error}");
    assert_eq!(world.authority.site.count(super::world::REGISTER), 2);
}
