//! The whole flow, and what it asks for where.

use axum::response::IntoResponse as _;
use mrtr_auth::client::{
    ApplicationType, AuthError, ClientIdentity, CredentialStore as _, MemoryStore, OAuth,
    Registration,
};
use serde_json::json;
use std::sync::Arc;

use super::site::{json as answer, status};
use super::world::{
    AS_METADATA, AUTHORIZE, Authority, MCP, PRM, Person, REDIRECT_URI, REGISTER, TOKEN, World, call,
};

#[tokio::test]
async fn a_person_agrees_once_however_many_requests_wait() {
    let world = World::start().await;
    let oauth = world.oauth().build().unwrap();
    let client = world.client(&oauth);
    let calls = (0..5).map(|_| call(&client));
    for result in futures_util::future::join_all(calls).await {
        assert_eq!(result.unwrap().joined_text(), "done");
    }
    let site = &world.authority.site;
    assert_eq!(world.person.visits(), 1);
    assert_eq!(
        (
            site.count(AUTHORIZE),
            site.count(TOKEN),
            site.count(REGISTER)
        ),
        (1, 1, 1)
    );
    // No request goes out without the token from now on.
    let before = world.mcp.count(MCP);
    call(&client).await.unwrap();
    assert_eq!(world.mcp.count(MCP), before + 1);

    let request = &site.hits(AUTHORIZE)[0].query;
    let form = site.hits(TOKEN)[0].form();
    assert_eq!(request["resource"], world.server());
    assert_eq!(form["resource"], request["resource"]);
    assert_eq!(request["redirect_uri"], REDIRECT_URI);
    assert_eq!(request["code_challenge_method"], "S256");
    assert_eq!(request["response_type"], "code");
    assert!(!request.contains_key("scope"));
    let registered = site.hits(REGISTER)[0].json();
    assert_eq!(registered["application_type"], "native");
    assert_eq!(registered["redirect_uris"], json!([REDIRECT_URI]));
    assert_eq!(registered["token_endpoint_auth_method"], "none");
    // Tokens are in a header and nowhere else.
    assert!(world.mcp.hits(MCP).iter().all(|hit| hit.query.is_empty()));
    assert!(!site.saw("access-"));
}

#[tokio::test]
async fn the_resource_is_sent_as_its_metadata_spells_it() {
    for spelt in ["/mcp/", "", "/"] {
        let world = World::start().await;
        let issuer = world.authority.site.url.clone();
        world.mcp.on(PRM, move |hit| {
            let resource = format!("{}{spelt}", hit.base());
            answer(
                200,
                &json!({"resource": resource, "authorization_servers": [issuer]}),
            )
        });
        let oauth = world.oauth().build().unwrap();
        call(&world.client(&oauth)).await.unwrap();
        let resource = format!("{}{spelt}", world.mcp.url);
        let site = &world.authority.site;
        assert_eq!(site.hits(AUTHORIZE)[0].query["resource"], resource);
        assert_eq!(site.hits(TOKEN)[0].form()["resource"], resource);
    }
}

#[tokio::test]
async fn metadata_is_looked_for_in_every_place_and_in_order() {
    let world = World::start().await;
    let site = &world.authority.site;
    // The challenge says nothing, the path has nothing.
    let issued = Arc::clone(&world.authority.issued);
    world
        .mcp
        .on(MCP, move |hit| match hit.header("authorization") {
            Some(value)
                if issued
                    .access
                    .lock()
                    .unwrap()
                    .iter()
                    .any(|own| value.ends_with(own)) =>
            {
                super::world::done(hit)
            }
            _ => status(401),
        });
    world.mcp.on(PRM, |_| "<html>".into_response());
    let issuer = format!("{}/tenant", site.url);
    let named = issuer.clone();
    world
        .mcp
        .on("GET /.well-known/oauth-protected-resource", move |hit| {
            answer(
                200,
                &json!({"resource": hit.base(), "authorization_servers": [named]}),
            )
        });
    site.on("GET /tenant/.well-known/openid-configuration", move |hit| {
        let base = hit.base();
        answer(
            200,
            &json!({
                "issuer": issuer,
                "authorization_endpoint": format!("{base}/authorize"),
                "token_endpoint": format!("{base}/token"),
                "registration_endpoint": format!("{base}/register"),
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            }),
        )
    });
    site.on(AUTHORIZE, {
        let issuer = format!("{}/tenant", site.url);
        move |hit| super::world::agreed(hit, "code", &issuer)
    });
    site.on(TOKEN, {
        let issued = Arc::clone(&world.authority.issued);
        move |_| answer(200, &issued.tokens("x"))
    });
    let oauth = world.oauth().build().unwrap();
    call(&world.client(&oauth)).await.unwrap();
    assert_eq!(
        world.mcp.all(),
        [MCP, PRM, "GET /.well-known/oauth-protected-resource", MCP]
    );
    assert_eq!(
        site.all()[..3],
        [
            "GET /.well-known/oauth-authorization-server/tenant",
            "GET /.well-known/openid-configuration/tenant",
            "GET /tenant/.well-known/openid-configuration",
        ]
    );
}

#[tokio::test]
async fn a_client_is_known_in_the_order_of_the_specification() {
    let world = World::start().await;
    let site = &world.authority.site;
    let document = "https://app.example/client.json";
    world.authority.metadata(|metadata| {
        metadata["client_id_metadata_document_supported"] = json!(true);
    });
    let both = || world.oauth().client_id_document(document);
    let oauth = both().build().unwrap();
    call(&world.client(&oauth)).await.unwrap();
    assert_eq!(site.hits(AUTHORIZE)[0].query["client_id"], document);
    assert_eq!(site.hits(TOKEN)[0].form()["client_id"], document);
    assert_eq!(site.count(REGISTER), 0);
    // Registered beforehand comes first.
    let own = both().registered_at(&site.url, ClientIdentity::public("own"));
    call(&world.client(&own.build().unwrap())).await.unwrap();
    assert_eq!(site.hits(AUTHORIZE)[1].query["client_id"], "own");
    // Registration comes last.
    world.authority.metadata(|_| {});
    call(&world.client(&both().build().unwrap())).await.unwrap();
    assert!(site.hits(AUTHORIZE)[2].query["client_id"].starts_with("client-"));
    // And there may be no way at all.
    world.authority.metadata(|metadata| {
        metadata
            .as_object_mut()
            .unwrap()
            .remove("registration_endpoint");
    });
    let error = world.refused(both()).await;
    assert!(matches!(error, AuthError::NoClient { .. }), "{error}");
    for bad in ["http://app.example/client.json", "https://app.example", "x"] {
        let error = world.oauth().client_id_document(bad).build().unwrap_err();
        assert!(
            matches!(error, AuthError::Insecure { .. }),
            "{bad}: {error}"
        );
    }
    let registration = Registration::new("App", ApplicationType::Native);
    let written = registration.to_document(document, &[REDIRECT_URI]);
    assert_eq!(written["client_id"], document);
    assert_eq!(written["client_name"], "App");
    assert_eq!(written["redirect_uris"], json!([REDIRECT_URI]));
}

#[tokio::test]
async fn what_is_kept_is_used_by_the_next_process() {
    let world = World::start().await;
    let store = Arc::new(MemoryStore::new());
    let oauth = world.oauth().store(Arc::clone(&store)).build().unwrap();
    call(&world.client(&oauth)).await.unwrap();
    let next = world.oauth().store(Arc::clone(&store)).build().unwrap();
    call(&world.client(&next)).await.unwrap();
    assert_eq!((world.person.visits(), world.mcp.count(MCP)), (1, 3));
    // Whoever signs out logs in anew, with the registration that there is.
    next.sign_out().await.unwrap();
    assert_eq!(store.tokens(&world.server()).await.unwrap(), None);
    call(&world.client(&next)).await.unwrap();
    assert_eq!(world.person.visits(), 2);
    assert_eq!(world.authority.site.count(REGISTER), 1);
}

#[tokio::test]
async fn another_authorization_server_gets_nothing_of_the_first_ones() {
    let world = World::start().await;
    let oauth = world.oauth().build().unwrap();
    let client = world.client(&oauth);
    call(&client).await.unwrap();
    let second = Authority::start().await;
    world.trusts(&second);
    call(&client).await.unwrap();
    assert_eq!(world.person.visits(), 2);
    assert_eq!(
        (second.site.count(REGISTER), second.site.count(AUTHORIZE)),
        (1, 1)
    );
    let first = super::world::port(&world.authority.site.url);
    for kind in ["client", "access", "refresh", "code"] {
        assert!(!second.site.saw(&format!("{kind}-{first}")), "{kind}");
    }
    // A client that was registered with the first one is nobody at the second.
    let own = ClientIdentity::with_secret("own", "own-secret");
    let bound = world
        .oauth_without_registration()
        .registered_at(&world.authority.site.url, own.clone());
    let before = second.site.all().len();
    let error = world.refused(bound).await;
    assert!(matches!(error, AuthError::NoClient { .. }), "{error}");
    assert!(!second.site.saw("own-secret"));
    assert_eq!(second.site.all()[before..], [AS_METADATA]);
    // One without an issuer is bound to the first authorization server that it meets.
    world.trusts(&world.authority);
    let oauth = world
        .oauth_without_registration()
        .registered(own)
        .build()
        .unwrap();
    let client = world.client(&oauth);
    call(&client).await.unwrap();
    world.trusts(&second);
    let error = super::world::refusal(call(&client).await);
    assert!(matches!(error, AuthError::NoClient { .. }), "{error}");
    assert!(!second.site.saw("own-secret"));
}

#[tokio::test]
async fn a_login_goes_on_when_the_request_is_given_up() {
    let world = World::start().await;
    let oauth = world.oauth().build().unwrap();
    let client = world.client(&oauth);
    let busy = world.person.busy.clone().lock_owned().await;
    let given_up = tokio::spawn({
        let client = client.clone();
        async move { call(&client).await }
    });
    while world.person.visits() == 0 {
        tokio::task::yield_now().await;
    }
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    drop(busy);
    call(&client).await.unwrap();
    assert_eq!(world.person.visits(), 1);
}

#[tokio::test]
async fn nothing_that_is_secret_is_printed() {
    let world = World::start().await;
    let store = Arc::new(MemoryStore::new());
    let builder = world.oauth().store(Arc::clone(&store)).registered_at(
        "https://as.example",
        ClientIdentity::with_secret("id", "own-secret"),
    );
    let printed = format!("{builder:?}");
    let oauth = builder.build().unwrap();
    let client = world.client(&oauth);
    call(&client).await.unwrap();
    let tokens = store.tokens(&world.server()).await.unwrap().unwrap();
    let printed = format!("{printed} {oauth:?} {client:?} {store:?} {tokens:?}");
    for secret in ["own-secret", "access-", "refresh-", "code-"] {
        assert!(!printed.contains(secret), "{secret}: {printed}");
    }
    assert!(tokens.access_token.reveal().starts_with("access-"));
    let back = serde_json::to_string(&tokens).unwrap();
    assert_eq!(tokens, serde_json::from_str(&back).unwrap());
}

#[tokio::test]
async fn only_a_server_that_is_secure_is_one() {
    for server in [
        "http://mcp.example/mcp",
        "https://u:p@mcp.example/mcp",
        "ftp://mcp.example",
        "x",
    ] {
        let error = OAuth::for_user(server, Person::agreeable())
            .build()
            .unwrap_err();
        assert!(
            matches!(error, AuthError::Insecure { .. }),
            "{server}: {error}"
        );
    }
}
