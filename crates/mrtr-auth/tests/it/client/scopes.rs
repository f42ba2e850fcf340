//! Which scopes are asked for (*Scope Selection Strategy*; *Step-Up Authorization Flow*).

use std::sync::Arc;

use mrtr_auth::client::AuthError;
use serde_json::json;

use super::site::json as answer;
use super::world::{AUTHORIZE, MCP, PRM, World, call, done, refusal, unauthorized};

/// The scopes of each authorization request.
fn asked(world: &World) -> Vec<Option<String>> {
    let hits = world.authority.site.hits(AUTHORIZE);
    hits.iter()
        .map(|hit| hit.query.get("scope").cloned())
        .collect()
}

/// Requests need what the nth authorization request asks for, with this challenge before it.
fn challenges(world: &World, challenges: &'static [(u16, &'static str)]) {
    let issued = Arc::clone(&world.authority.issued);
    world.mcp.on(MCP, move |hit| {
        let token = hit.header("authorization").unwrap_or_default();
        let accepted = issued.access.lock().unwrap();
        let nth = accepted
            .iter()
            .position(|own| token.ends_with(own))
            .map_or(0, |nth| nth + 1);
        match challenges.get(nth) {
            Some((status, more)) => unauthorized(hit, *status, more),
            None => done(hit),
        }
    });
}

fn supports(world: &World, scopes: &'static [&'static str]) {
    let issuer = world.authority.site.url.clone();
    world.mcp.on(PRM, move |hit| {
        let resource = format!("{}/mcp", hit.base());
        answer(200, &json!({"resource": resource, "authorization_servers": [issuer], "scopes_supported": scopes}))
    });
}

#[tokio::test]
async fn the_challenge_counts_and_then_the_metadata_and_then_nothing() {
    for (challenge, supported, expected) in [
        (
            r#", scope="a b""#,
            Some(&["x"] as &'static [&'static str]),
            Some("a b"),
        ),
        ("", Some(&["x", "y"]), Some("x y")),
        ("", Some(&[]), None),
        ("", None, None),
    ] {
        let world = World::start().await;
        let challenge: &'static [(u16, &'static str)] = Box::leak(Box::new([(401, challenge)]));
        challenges(&world, challenge);
        if let Some(supported) = supported {
            supports(&world, supported);
        }
        let oauth = world.oauth().build().unwrap();
        call(&world.client(&oauth)).await.unwrap();
        assert_eq!(asked(&world), [expected.map(str::to_owned)]);
    }
}

#[tokio::test]
async fn stepping_up_keeps_what_there_was() {
    let world = World::start().await;
    challenges(
        &world,
        &[
            (401, r#", scope="read""#),
            (403, r#", error="insufficient_scope", scope="write read""#),
        ],
    );
    supports(&world, &["decoy"]);
    let oauth = world.oauth().build().unwrap();
    let client = world.client(&oauth);
    call(&client).await.unwrap();
    assert_eq!(
        asked(&world),
        [Some("read".to_owned()), Some("read write".to_owned())]
    );
    call(&client).await.unwrap();
    assert_eq!(world.person.visits(), 2);
}

#[tokio::test]
async fn scopes_that_were_asked_for_in_vain_are_not_asked_for_again() {
    let world = World::start().await;
    world.mcp.on(MCP, |hit| match hit.header("authorization") {
        None => unauthorized(hit, 401, ""),
        Some(_) => unauthorized(hit, 403, r#", error="insufficient_scope", scope="admin""#),
    });
    let oauth = world.oauth().build().unwrap();
    let client = world.client(&oauth);
    for _ in 0..3 {
        let error = refusal(call(&client).await);
        assert!(
            matches!(&error, AuthError::ScopesNotEnough { scope } if scope == "admin"),
            "{error}"
        );
    }
    assert_eq!(asked(&world), [None, Some("admin".to_owned())]);
}

#[tokio::test]
async fn a_server_cannot_lead_on_for_ever_with_new_scopes() {
    let world = World::start().await;
    let nth = std::sync::atomic::AtomicUsize::new(0);
    world.mcp.on(MCP, move |hit| {
        let nth = nth.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match hit.header("authorization") {
            None => unauthorized(hit, 401, ""),
            Some(_) => unauthorized(
                hit,
                403,
                &format!(r#", error="insufficient_scope", scope="s{nth}""#),
            ),
        }
    });
    let oauth = world.oauth().build().unwrap();
    let error = call(&world.client(&oauth)).await.unwrap_err();
    assert!(error.to_string().contains("403"), "{error}");
    assert_eq!(
        world.person.visits(),
        mrtr_client::credentials::MAX_CHALLENGES as usize
    );
}

#[tokio::test]
async fn scopes_that_are_none_are_not_asked_for() {
    let world = World::start().await;
    supports(&world, &["a b"]);
    let error = world.refused(world.oauth()).await;
    assert!(matches!(error, AuthError::Scopes), "{error}");
    assert_eq!(world.person.visits(), 0);
}

#[tokio::test]
async fn offline_access_is_asked_for_where_it_is_offered_and_wanted() {
    for (offered, wanted, expected) in [
        (true, true, Some("offline_access")),
        (true, false, None),
        (false, true, None),
    ] {
        let world = World::start().await;
        if offered {
            world
                .authority
                .metadata(|metadata| metadata["scopes_supported"] = json!(["offline_access"]));
        }
        let builder = world.oauth();
        let builder = if wanted {
            builder.offline_access()
        } else {
            builder
        };
        call(&world.client(&builder.build().unwrap()))
            .await
            .unwrap();
        assert_eq!(asked(&world), [expected.map(str::to_owned)]);
    }
}
