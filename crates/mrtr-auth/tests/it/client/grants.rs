//! Tokens that nobody is asked for, and how clients authenticate.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use mrtr_auth::client::{
    AuthError, ClientIdentity, DpopKey, EnterpriseManaged, OAuth, PrivateKey, Secret,
    SigningAlgorithm,
};
use serde_json::{Value, json};

use super::site::{Hit, Site, json as answer};
use super::world::{MCP, REGISTER, TOKEN, World, call, done, refusal, unauthorized};

/// A new key on P-256, in PEM.
fn key() -> String {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
    let random = aws_lc_rs::rand::SystemRandom::new();
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let text = STANDARD.encode(der.as_ref());
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect();
    format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        lines.join("\n")
    )
}

fn part(token: &str, nth: usize) -> Value {
    let part = token.split('.').nth(nth).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[tokio::test]
async fn a_client_authenticates_as_the_token_endpoint_wants() {
    let basic = format!("Basic {}", STANDARD.encode("a%3Ab:s%2F+%26"));
    for (methods, header, body) in [
        (
            json!(["client_secret_post", "client_secret_basic"]),
            Some(&*basic),
            None,
        ),
        (json!(null), Some(&*basic), None),
        (json!(["client_secret_post"]), None, Some("s/ &")),
        (json!(["none"]), None, None),
    ] {
        let world = World::start().await;
        let offered = methods.clone();
        world.authority.metadata(move |metadata| {
            metadata["token_endpoint_auth_methods_supported"] = offered.clone();
        });
        let oauth = OAuth::for_client(world.server())
            .registered_at(
                &world.authority.site.url,
                ClientIdentity::with_secret("a:b", "s/ &"),
            )
            .build()
            .unwrap();
        call(&world.client(&oauth)).await.unwrap();
        let hit = &world.authority.site.hits(TOKEN)[0];
        let form = hit.form();
        assert_eq!(form["grant_type"], "client_credentials");
        assert_eq!(form["resource"], world.server());
        assert_eq!(hit.header("authorization"), header, "{methods}");
        assert_eq!(
            form.get("client_secret").map(String::as_str),
            body,
            "{methods}"
        );
        assert_eq!(
            form.contains_key("client_id"),
            header.is_none(),
            "{methods}"
        );
        assert_eq!(world.authority.site.count(REGISTER), 0);
    }
    let world = World::start().await;
    world.authority.metadata(|metadata| {
        metadata["token_endpoint_auth_methods_supported"] = json!(["private_key_jwt"]);
    });
    let builder =
        OAuth::for_client(world.server()).registered(ClientIdentity::with_secret("a", "s"));
    let error = world.refused(builder).await;
    assert!(matches!(error, AuthError::NoAuthentication), "{error}");
    assert_eq!(world.authority.site.count(TOKEN), 0);
}

#[tokio::test]
async fn a_key_proves_who_the_client_is_for_one_issuer_and_a_minute() {
    let world = World::start().await;
    let pem = key();
    let key = PrivateKey::from_pem(pem.as_bytes(), SigningAlgorithm::Es256)
        .unwrap()
        .with_id("k1");
    assert!(!format!("{key:?}").contains("BEGIN"));
    let issuer = world.authority.site.url.clone();
    let oauth = OAuth::for_client(world.server())
        .registered_at(&issuer, ClientIdentity::with_key("me", key))
        .clock(world.clock.clone())
        .build()
        .unwrap();
    call(&world.client(&oauth)).await.unwrap();
    let form = world.authority.site.hits(TOKEN)[0].form();
    assert_eq!(
        form["client_assertion_type"],
        "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    );
    let assertion = &form["client_assertion"];
    let (header, claims) = (part(assertion, 0), part(assertion, 1));
    assert_eq!(
        (&header["alg"], &header["kid"]),
        (&json!("ES256"), &json!("k1"))
    );
    assert_eq!(
        (&claims["iss"], &claims["sub"]),
        (&json!("me"), &json!("me"))
    );
    assert_eq!(claims["aud"], json!(issuer));
    assert_eq!(
        claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(),
        60
    );
    for (pem, algorithm) in [
        ("x", SigningAlgorithm::Es256),
        (&*pem, SigningAlgorithm::Rs256),
        (&*pem, SigningAlgorithm::Es384),
    ] {
        let error = PrivateKey::from_pem(pem.as_bytes(), algorithm).unwrap_err();
        assert!(matches!(error, AuthError::Key), "{error}");
    }
}

#[tokio::test]
async fn a_workload_shows_its_platforms_word_and_tries_nothing_else() {
    let world = World::start().await;
    let builder = || {
        OAuth::for_workload(world.server(), Secret::new("platform-jwt"))
            .registered(ClientIdentity::public("workload"))
    };
    let oauth = builder().build().unwrap();
    call(&world.client(&oauth)).await.unwrap();
    let form = world.authority.site.hits(TOKEN)[0].form();
    assert_eq!(
        form["grant_type"],
        "urn:ietf:params:oauth:grant-type:jwt-bearer"
    );
    assert_eq!(
        (&*form["assertion"], &*form["client_id"]),
        ("platform-jwt", "workload")
    );
    world
        .authority
        .site
        .on(TOKEN, |_| answer(400, &json!({"error": "invalid_grant"})));
    let error = world.refused(builder()).await;
    assert!(matches!(error, AuthError::Token(_)), "{error}");
    assert!(!error.to_string().contains("platform-jwt"));
    assert_eq!(world.authority.site.count(TOKEN), 2);
}

#[tokio::test]
async fn an_organizations_word_becomes_a_token_for_one_server() {
    let world = World::start().await;
    let idp = Site::start().await;
    let exchanged = |kind: &'static str| {
        move |_: &Hit| {
            answer(
                200,
                &json!({"access_token": "jag", "issued_token_type": kind, "token_type": "N_A"}),
            )
        }
    };
    idp.on(TOKEN, exchanged("urn:ietf:params:oauth:token-type:id-jag"));
    let managed = || {
        let client = ClientIdentity::public("at-idp");
        let endpoint = format!("{}/token", idp.url);
        let managed = EnterpriseManaged::new(endpoint, client, Secret::new("id-token"));
        OAuth::enterprise_managed(world.server(), managed).registered_at(
            &world.authority.site.url,
            ClientIdentity::with_secret("at-as", "s"),
        )
    };
    let oauth = managed().build().unwrap();
    call(&world.client(&oauth)).await.unwrap();
    let form = idp.hits(TOKEN)[0].form();
    assert_eq!(form["audience"], world.authority.site.url);
    assert_eq!(form["resource"], world.server());
    assert_eq!(
        (&*form["subject_token"], &*form["client_id"]),
        ("id-token", "at-idp")
    );
    let form = world.authority.site.hits(TOKEN)[0].form();
    assert_eq!(form["assertion"], "jag");
    assert!(!world.authority.site.saw("id-token") && !world.mcp.saw("id-token"));
    // Another kind of token is not passed on.
    idp.on(
        TOKEN,
        exchanged("urn:ietf:params:oauth:token-type:access_token"),
    );
    let error = world.refused(managed()).await;
    assert!(matches!(error, AuthError::TokenType { .. }), "{error}");
    assert_eq!(world.authority.site.count(TOKEN), 1);
}

#[tokio::test]
async fn a_bound_token_has_a_proof_with_every_request() {
    let world = World::start().await;
    let issued = Arc::clone(&world.authority.issued);
    world.authority.site.on(TOKEN, move |hit| {
        let proof = part(hit.header("dpop").unwrap(), 1);
        if proof["nonce"] != "as-nonce" {
            let mut response = answer(400, &json!({"error": "use_dpop_nonce"}));
            response
                .headers_mut()
                .insert("dpop-nonce", "as-nonce".parse().unwrap());
            return response;
        }
        let mut tokens = issued.tokens("x");
        tokens["token_type"] = json!("DPoP");
        answer(200, &tokens)
    });
    world.mcp.on(MCP, |hit| {
        let proof = hit.header("dpop").map(|proof| part(proof, 1));
        match proof {
            Some(proof) if proof["nonce"] == "rs-nonce" => done(hit),
            _ => {
                let mut response = unauthorized(hit, 401, "");
                response
                    .headers_mut()
                    .insert("dpop-nonce", "rs-nonce".parse().unwrap());
                response
            }
        }
    });
    let oauth = world
        .oauth()
        .dpop(DpopKey::generate().unwrap())
        .build()
        .unwrap();
    let client = world.client(&oauth);
    call(&client).await.unwrap();
    call(&client).await.unwrap();
    assert_eq!(world.person.visits(), 1);
    let hits = world.mcp.hits(MCP);
    let proofs: Vec<Value> = hits
        .iter()
        .filter_map(|hit| hit.header("dpop"))
        .map(|proof| part(proof, 1))
        .collect();
    assert_eq!(proofs.len(), 3);
    for proof in &proofs {
        assert_eq!(
            (&proof["htm"], &proof["htu"]),
            (&json!("POST"), &json!(world.server()))
        );
        assert!(proof["ath"].is_string());
        assert_eq!(
            proofs
                .iter()
                .filter(|other| other["jti"] == proof["jti"])
                .count(),
            1
        );
    }
    assert!(
        hits[1..]
            .iter()
            .all(|hit| hit.header("authorization").unwrap().starts_with("DPoP "))
    );
    // A bearer token instead is not taken.
    let world = World::start().await;
    let oauth = world
        .oauth()
        .dpop(DpopKey::generate().unwrap())
        .build()
        .unwrap();
    let error = refusal(call(&world.client(&oauth)).await);
    assert!(
        matches!(error, AuthError::TokenType { expected: "DPoP" }),
        "{error}"
    );
}
