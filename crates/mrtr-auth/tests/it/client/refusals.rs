//! What the client does not go along with. Each test sees the good path with the same world first, in `flow`.

use axum::response::IntoResponse as _;
use mrtr_auth::client::{AuthError, ResponseProblem, What};
use serde_json::json;

use super::site::{Site, json as answer, redirect, status};
use super::world::{
    AS_METADATA, AUTHORIZE, Authority, MCP, PRM, Person, REGISTER, TOKEN, World, call, client,
    refusal,
};

/// The redirect of somebody whom an attacker meddles with.
async fn meddled(change: impl Fn(String) -> String + Send + Sync + 'static) -> (World, AuthError) {
    let world = World {
        person: Person::who(change),
        ..World::start().await
    };
    let error = world.refused(world.oauth()).await;
    assert_eq!(world.person.visits(), 1);
    (world, error)
}

#[tokio::test]
async fn a_code_is_not_redeemed_when_state_or_issuer_is_wrong() {
    let replaced = |name: &'static str, value: &'static str| {
        move |redirect: String| {
            let mut url = url::Url::parse(&redirect).unwrap();
            let pairs: Vec<_> = url.query_pairs().into_owned().collect();
            let mut query = url.query_pairs_mut();
            query.clear();
            for (key, old) in pairs {
                let new = if key == name { value.to_owned() } else { old };
                query.append_pair(&key, &new);
            }
            drop(query);
            url.to_string()
        }
    };
    for (name, value, expected) in [
        ("state", "another", ResponseProblem::State),
        ("iss", "https://evil.example", ResponseProblem::Issuer),
        ("code", "", ResponseProblem::NoCode),
    ] {
        let (world, error) = meddled(replaced(name, value)).await;
        assert!(
            matches!(&error, AuthError::Response(problem) if *problem == expected),
            "{name}: {error}"
        );
        assert_eq!(world.authority.site.count(TOKEN), 0, "{name}");
    }
    // The issuer was promised, and is not there.
    let (world, error) =
        meddled(|redirect| redirect.split("&iss=").next().unwrap().to_owned()).await;
    assert!(
        matches!(error, AuthError::Response(ResponseProblem::Issuer)),
        "{error}"
    );
    assert_eq!(world.authority.site.count(TOKEN), 0);
    // The error of a stranger is not shown.
    let (_, error) = meddled(|redirect| {
        let state = redirect
            .split("&state=")
            .nth(1)
            .unwrap()
            .split('&')
            .next()
            .unwrap();
        format!("http://127.0.0.1:9/callback?error=call_555&state={state}&iss=https://evil.example")
    })
    .await;
    assert!(!error.to_string().contains("call_555"), "{error}");
}

#[tokio::test]
async fn metadata_of_another_resource_or_issuer_is_not_used() {
    let world = World::start().await;
    let issuer = world.authority.site.url.clone();
    world.mcp.on(PRM, move |_| {
        answer(
            200,
            &json!({"resource": "https://evil.example/mcp", "authorization_servers": [issuer]}),
        )
    });
    let error = world.refused(world.oauth()).await;
    assert!(
        matches!(error, AuthError::ResourceMismatch { .. }),
        "{error}"
    );
    assert!(world.authority.site.all().is_empty());

    world.trusts(&world.authority);
    world
        .authority
        .metadata(|metadata| metadata["issuer"] = json!("https://honest.example"));
    let error = world.refused(world.oauth()).await;
    assert!(matches!(error, AuthError::IssuerMismatch { .. }), "{error}");
    assert_eq!(world.authority.site.all(), [AS_METADATA]);

    world
        .mcp
        .on(PRM, |hit| answer(200, &json!({"resource": hit.base()})));
    let error = world.refused(world.oauth()).await;
    assert!(matches!(error, AuthError::NoAuthorizationServer), "{error}");
}

#[tokio::test]
async fn nobody_is_sent_to_an_authorization_server_without_pkce() {
    for methods in [json!(null), json!([]), json!(["plain"])] {
        let world = World::start().await;
        let offered = methods.clone();
        world.authority.metadata(move |metadata| {
            metadata["code_challenge_methods_supported"] = offered.clone();
        });
        let error = world.refused(world.oauth()).await;
        assert!(
            matches!(error, AuthError::NoPkce { .. }),
            "{methods}: {error}"
        );
        assert_eq!(world.person.visits(), 0);
        assert_eq!(world.authority.site.all(), [AS_METADATA]);
    }
}

#[tokio::test]
async fn nothing_goes_over_plain_http_beyond_this_machine() {
    let world = World::start().await;
    world.names("http://as.example");
    let error = world.refused(world.oauth()).await;
    assert!(
        matches!(
            error,
            AuthError::Insecure {
                what: What::AuthorizationServer
            }
        ),
        "{error}"
    );

    world.trusts(&world.authority);
    for (endpoint, what) in [
        ("registration_endpoint", What::RegistrationEndpoint),
        ("authorization_endpoint", What::AuthorizationEndpoint),
        ("token_endpoint", What::TokenEndpoint),
    ] {
        for url in [
            "http://as.example/x",
            "javascript:alert(1)",
            "file:///etc/passwd",
        ] {
            world
                .authority
                .metadata(move |metadata| metadata[endpoint] = json!(url));
            let error = world.refused(world.oauth()).await;
            assert!(
                matches!(&error, AuthError::Insecure { what: found } if *found == what),
                "{endpoint} {url}: {error}"
            );
        }
    }
    world.mcp.on(MCP, |_| {
        let mut response = status(401);
        let value = r#"Bearer resource_metadata="http://mcp.example/x""#
            .parse()
            .unwrap();
        response.headers_mut().insert("www-authenticate", value);
        response
    });
    let error = world.refused(world.oauth()).await;
    assert!(
        matches!(
            error,
            AuthError::Insecure {
                what: What::ResourceMetadata
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_token_goes_to_no_other_server() {
    let world = World::start().await;
    let oauth = world.oauth().build().unwrap();
    call(&world.client(&oauth)).await.unwrap();
    let other = Site::start().await;
    let error = refusal(call(&client(&format!("{}/mcp", other.url), &oauth)).await);
    assert!(matches!(error, AuthError::OtherServer), "{error}");
    assert!(other.all().is_empty());
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Site::start().await;
    let to = format!("{}/x", elsewhere.url);
    let world = World::start().await;
    for what in [AS_METADATA, REGISTER, TOKEN] {
        let fresh = World {
            authority: Authority::start().await,
            mcp: Site::start().await,
            person: world.person.clone(),
            clock: world.clock.clone(),
        };
        fresh.trusts(&fresh.authority);
        let to = to.clone();
        fresh.authority.site.on(what, move |_| redirect(&to));
        let error = fresh.refused(fresh.oauth()).await;
        let is_right = match what {
            AS_METADATA => matches!(error, AuthError::NoServerMetadata { .. }),
            _ => matches!(&error, AuthError::Status { status, .. } if status.as_u16() == 307),
        };
        assert!(is_right, "{what}: {error}");
    }
    assert!(elsewhere.all().is_empty());
}

#[tokio::test]
async fn answers_have_bounds_and_must_be_what_they_should_be() {
    let world = World::start().await;
    world
        .authority
        .site
        .on(AS_METADATA, |_| vec![b' '; 1_000_000].into_response());
    let error = world.refused(world.oauth()).await;
    assert!(matches!(error, AuthError::TooLarge { .. }), "{error}");
    world.authority.metadata(|_| {});
    for (token, expected) in [
        (
            json!({"access_token": "a", "token_type": "MAC"}),
            "another type",
        ),
        (
            json!({"access_token": "", "token_type": "Bearer"}),
            "not the JSON",
        ),
        (
            json!({"access_token": "a\nb", "token_type": "Bearer"}),
            "not the JSON",
        ),
        (json!({"token_type": "Bearer"}), "not the JSON"),
    ] {
        world.authority.site.on(TOKEN, move |_| answer(200, &token));
        let error = world.refused(world.oauth()).await.to_string();
        assert!(error.contains(expected), "{error}");
    }
    // What it says when it refuses is told, and its secrets are not.
    world.authority.site.on(TOKEN, |_| {
        answer(
            400,
            &json!({"error": "invalid_grant", "error_description": "No\u{7}."}),
        )
    });
    let error = world.refused(world.oauth()).await.to_string();
    assert_eq!(error, "the token endpoint refused: invalid_grant (No.)");
    world.authority.site.on(REGISTER, |_| {
        answer(400, &json!({"error": "invalid_redirect_uri"}))
    });
    let error = world.refused(world.oauth()).await;
    assert!(matches!(error, AuthError::Registration(_)), "{error}");
    assert!(error.to_string().contains("invalid_redirect_uri"));
}

#[tokio::test]
async fn a_new_token_that_is_refused_is_no_reason_to_ask_again_and_again() {
    let world = World::start().await;
    world
        .mcp
        .on(MCP, |hit| super::world::unauthorized(hit, 401, ""));
    let oauth = world.oauth().build().unwrap();
    let client = world.client(&oauth);
    for _ in 0..3 {
        let error = call(&client).await.unwrap_err();
        assert!(error.to_string().contains("401"), "{error}");
    }
    assert_eq!(world.person.visits(), 1);
    // Another authorization server is.
    let second = Authority::start().await;
    world.trusts(&second);
    call(&client).await.unwrap();
    assert_eq!(
        (world.person.visits(), second.site.count(AUTHORIZE)),
        (2, 1)
    );
}

#[tokio::test]
async fn a_refusal_for_another_reason_is_the_servers_answer() {
    let world = World::start().await;
    world
        .mcp
        .on(MCP, |hit| super::world::unauthorized(hit, 403, ""));
    let oauth = world.oauth().build().unwrap();
    let error = call(&world.client(&oauth)).await.unwrap_err();
    assert!(error.to_string().contains("403"), "{error}");
    assert_eq!(
        (world.mcp.all(), world.person.visits()),
        (vec![MCP.to_owned()], 0)
    );
}
