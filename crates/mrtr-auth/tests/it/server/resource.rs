//! Protected resource metadata, as clients find it.

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use mrtr_auth::ProtectedResourceMetadata;
use mrtr_auth::server::{ConfigError, ProtectedResource};
use serde_json::json;
use tower_service::Service as _;

#[tokio::test]
async fn metadata_is_served_at_the_well_known_path_before_the_resources_own() {
    let resource =
        ProtectedResource::builder("https://mcp.example/public/mcp", "https://as.example/t1")
            .authorization_server("https://other.example")
            .scopes_supported(["files:read"])
            .name("Files")
            .build()
            .unwrap();
    let path = "/.well-known/oauth-protected-resource/public/mcp";
    assert_eq!(
        resource.metadata_url(),
        format!("https://mcp.example{path}")
    );
    let get = async |path: &str| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        resource.routes().call(request).await.unwrap()
    };
    let response = get(path).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(response.headers()["access-control-allow-origin"], "*");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        body,
        json!({
            "resource": "https://mcp.example/public/mcp",
            "authorization_servers": ["https://as.example/t1", "https://other.example"],
            "scopes_supported": ["files:read"],
            "bearer_methods_supported": ["header"],
            "resource_name": "Files",
        })
    );
    let read: ProtectedResourceMetadata = serde_json::from_value(body).unwrap();
    assert_eq!(&read, resource.metadata());
    assert_eq!(
        get("/.well-known/oauth-protected-resource/other")
            .await
            .status(),
        StatusCode::NOT_FOUND
    );
}

#[test]
fn what_is_no_resource_no_issuer_or_no_scope_is_refused() {
    let built = |resource: &str, issuer: &str| ProtectedResource::builder(resource, issuer).build();
    assert!(built("https://mcp.example", "https://as.example").is_ok());
    assert!(built("http://127.0.0.1:3000/mcp", "http://localhost:3001").is_ok());
    for bad in [
        "mcp.example",
        "https://mcp.example#f",
        "http://mcp.example",
        "https://m\u{e9}.example",
        "",
    ] {
        for error in [
            built(bad, "https://as.example"),
            built("https://mcp.example", bad),
        ] {
            assert!(matches!(error, Err(ConfigError::Url { .. })), "{bad}");
        }
    }
    let with = || ProtectedResource::builder("https://mcp.example", "https://as.example");
    for bad in ["", "a b", "a\"", "\u{e9}"] {
        for builder in [
            with().scopes_supported([bad]),
            with().require_scope(bad),
            with().implies(bad, ["x"]),
            with().implies("x", [bad]),
        ] {
            assert!(
                matches!(builder.build(), Err(ConfigError::Scope(_))),
                "{bad:?}"
            );
        }
    }
    // Refresh tokens are nothing that a resource needs (specification, `basic/authorization`, "Refresh Tokens").
    for builder in [
        with().scopes_supported(["offline_access"]),
        with().require_scope("offline_access"),
    ] {
        assert!(matches!(builder.build(), Err(ConfigError::OfflineAccess)));
    }
}
