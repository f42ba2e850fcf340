//! Cases 183 to 198: what HTTP carries beside the body.

use axum::body::Body;
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use super::{Refusal, refused, works};
use crate::bank::{Bank, Call};

const MISMATCH: Refusal = Refusal::http(StatusCode::BAD_REQUEST, -32020);
const BAD_META: Refusal = Refusal::http(StatusCode::BAD_REQUEST, -32602);

#[tokio::test]
async fn case_183_no_version_header() {
    refused("absent", &MISMATCH, |state| {
        Call::retry(state).without_header("mcp-protocol-version")
    })
    .await;
    let reply = Bank::new()
        .send(&Call::first().without_header("mcp-protocol-version"))
        .await;
    assert_eq!(reply.body["id"], 1);
}

#[tokio::test]
async fn case_184_no_method_or_name_header() {
    for header in ["mcp-method", "mcp-name"] {
        refused(&format!("{header} absent"), &MISMATCH, |state| {
            Call::retry(state).without_header(header)
        })
        .await;
        refused(&format!("{header} empty"), &MISMATCH, |state| {
            Call::retry(state).header(header, "")
        })
        .await;
        refused(&format!("{header} different"), &MISMATCH, |state| {
            Call::retry(state).header(header, "other")
        })
        .await;
        refused(&format!("{header} twice"), &MISMATCH, |state| {
            let mut call = Call::retry(state);
            let again = call
                .headers
                .iter()
                .find(|(name, _)| name == header)
                .unwrap()
                .clone();
            call.headers.push(again);
            call
        })
        .await;
    }
    let bank = Bank::new();
    let reply = bank
        .send(&Call::first().header("mcp-name", " transfer\t"))
        .await;
    works(
        "white space around a header is HTTP's",
        &bank,
        reply.state(),
    )
    .await;
    let encoded = bank
        .send(&Call::first().header("mcp-name", "=?base64?dHJhbnNmZXI=?="))
        .await;
    works("an encoded name is decoded", &bank, encoded.state()).await;
    MISMATCH.check(
        "badly encoded",
        &bank
            .send(&Call::first().header("mcp-name", "=?base64?dHJhbnNmZXI?="))
            .await,
    );
}

#[tokio::test]
async fn case_193_meta_is_required() {
    let key = |name: &str| format!("io.modelcontextprotocol/{name}");
    refused("no _meta", &BAD_META, |state| {
        Call::retry(state).without_param("_meta")
    })
    .await;
    refused("_meta is null", &BAD_META, |state| {
        Call::retry(state).param("_meta", Value::Null)
    })
    .await;
    refused("no capabilities", &BAD_META, |state| {
        let mut call = Call::retry(state);
        call.body["params"]["_meta"]
            .as_object_mut()
            .unwrap()
            .remove(&key("clientCapabilities"))
            .unwrap();
        call
    })
    .await;
    refused("no version", &BAD_META, |state| {
        let mut call = Call::retry(state);
        call.body["params"]["_meta"]
            .as_object_mut()
            .unwrap()
            .remove(&key("protocolVersion"))
            .unwrap();
        call
    })
    .await;
    refused("capabilities are a list", &BAD_META, |state| {
        Call::retry(state).declaring(json!([]))
    })
    .await;
    refused("the version is a number", &BAD_META, |state| {
        Call::retry(state).meta(&key("protocolVersion"), 20_260_728)
    })
    .await;
    refused("the versions differ", &MISMATCH, |state| {
        Call::retry(state).meta(&key("protocolVersion"), "2025-11-25")
    })
    .await;
    refused(
        "a version that is not spoken",
        &Refusal::http(StatusCode::BAD_REQUEST, -32022),
        |state| {
            Call::retry(state)
                .meta(&key("protocolVersion"), "1900-01-01")
                .header("mcp-protocol-version", "1900-01-01")
        },
    )
    .await;
}

#[tokio::test]
async fn case_194_unknown_methods() {
    let unknown = Refusal::http(StatusCode::NOT_FOUND, -32601);
    let call_method = |state: &str, method: &str| {
        let mut call = Call::retry(state).header("mcp-method", method);
        call.body["method"] = method.into();
        call
    };
    refused("foo/bar", &unknown, |state| call_method(state, "foo/bar")).await;
    refused("initialize, with modern metadata", &unknown, |state| {
        call_method(state, "initialize")
    })
    .await;
    let bank = Bank::new();
    let state = bank.open().await;
    let mut notification = call_method(&state, "foo/bar");
    notification.body.as_object_mut().unwrap().remove("id");
    let reply = bank.send(&notification).await;
    assert_eq!(
        (reply.status, &reply.body),
        (StatusCode::ACCEPTED, &Value::Null)
    );
    works("after an unknown notification", &bank, &state).await;
}

#[tokio::test]
async fn case_197_media_types() {
    for media in [
        "application/json; charset=utf-8",
        "application/json;charset=\"UTF-8\"",
        "Application/JSON",
    ] {
        let bank = Bank::new();
        let reply = bank
            .send(&Call::first().header("content-type", media))
            .await;
        works(media, &bank, reply.state()).await;
    }
    let unsupported = Refusal::http(StatusCode::UNSUPPORTED_MEDIA_TYPE, -32600);
    for media in [
        "application/json; charset=utf-16",
        "application/vnd.x+json",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
    ] {
        refused(media, &unsupported, |state| {
            Call::retry(state).header("content-type", media)
        })
        .await;
    }
    refused("gzip, it says", &unsupported, |state| {
        Call::retry(state).header("content-encoding", "gzip")
    })
    .await;
    refused("absent", &unsupported, |state| {
        Call::retry(state).without_header("content-type")
    })
    .await;
}

#[tokio::test]
async fn case_198_foreign_origins_and_hosts() {
    let forbidden = Refusal::http(StatusCode::FORBIDDEN, -32600);
    for origin in [
        "http://evil.example",
        "null",
        "file://",
        "http://localhost.evil.example",
        "http://127.0.0.1:3000",
        "http://[::1]:3000",
        "http://localhost:3000/",
        "http://127.1",
        "",
    ] {
        refused(origin, &forbidden, |state| {
            Call::retry(state).header("origin", origin)
        })
        .await;
    }
    refused("a foreign Host", &forbidden, |state| {
        Call::retry(state).header("host", "evil.example")
    })
    .await;
    refused("no Host", &forbidden, |state| {
        Call::retry(state).without_header("host")
    })
    .await;
    let bank = Bank::new();
    let own = Call::first()
        .header("host", "localhost:3000")
        .header("origin", "http://LOCALHOST:3000");
    let reply = bank.send(&own).await;
    works("the server's own origin", &bank, reply.state()).await;
    let bank = Bank::with(|builder| builder.allow_origin("https://app.example"));
    let reply = bank
        .send(&Call::first().header("origin", "https://app.example"))
        .await;
    works("an origin that was named", &bank, reply.state()).await;
    // Barred before anything else is looked at, whatever the method; in HTTP/2 the host is in the target.
    for method in [Method::OPTIONS, Method::GET, Method::DELETE, Method::POST] {
        let request = Request::builder()
            .method(&method)
            .uri("http://evil.example/mcp")
            .body(Body::empty())
            .unwrap();
        forbidden.check(method.as_str(), &bank.send_raw(request).await);
    }
    // GET and DELETE are for sessions, and a server for the modern era alone has none.
    let modern = Bank::with(|builder| builder.modern_only());
    for method in [Method::OPTIONS, Method::GET, Method::DELETE] {
        let request = || {
            Request::builder()
                .method(&method)
                .uri("http://localhost/mcp")
                .body(Body::empty())
                .unwrap()
        };
        for (bank, allowed) in [(&bank, "POST, GET, DELETE"), (&modern, "POST")] {
            let reply = bank.send_raw(request()).await;
            assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
            assert_eq!(reply.headers["allow"], allowed);
        }
    }
}
