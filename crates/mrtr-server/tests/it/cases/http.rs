//! Cases 182 to 213: what HTTP and the envelope say beside the state.

use std::convert::Infallible;
use std::time::Duration;

use ::http::{Method, Request, StatusCode};
use axum::body::{Body, Bytes};
use futures_util::stream;
use mrtr_server::{Server, prompt, resource};
use serde_json::{Value, json};

use super::{Refusal, refused, works};
use crate::bank::{Bank, Call, Reply, accept};
use crate::session::{Session, everything, text};

const MISMATCH: Refusal = Refusal::http(StatusCode::BAD_REQUEST, -32020);
const INVALID: Refusal = Refusal::http(StatusCode::BAD_REQUEST, -32600);

async fn post(bank: &Bank, body: impl Into<Body>) -> Reply {
    bank.send_raw(Call::first().with_body(body)).await
}

#[tokio::test]
async fn case_182_a_name_header_and_no_name_in_the_body() {
    refused("no name", &MISMATCH, |state| {
        Call::retry(state).without_param("name")
    })
    .await;
    for name in [json!(null), json!(7), json!(["transfer"])] {
        refused(&name.to_string(), &MISMATCH, |state| {
            Call::retry(state).param("name", name.clone())
        })
        .await;
    }
    let bank = Bank::with(|builder| {
        builder
            .prompt(prompt("brief", async || "Brief me."))
            .resource(resource("note://today", async || "a note"))
    });
    let prompt = Call::prompt("brief", json!({}));
    let read = Call::resource("note://today");
    for (good, member) in [(prompt, "name"), (read, "uri")] {
        assert_eq!(bank.send(&good).await.status, StatusCode::OK);
        MISMATCH.check(member, &bank.send(&good.without_param(member)).await);
    }
    for method in ["tools/list", "prompts/list", "server/discover"] {
        let call = Call::nameless(method).header("mcp-name", "x");
        let reply = bank.send(&call).await;
        assert_eq!(reply.status, StatusCode::OK, "{method}: {reply:?}");
    }
}

#[tokio::test]
async fn case_183_no_version_header_with_the_earlier_era_switched_off() {
    for bank in [Bank::new(), Bank::with(|builder| builder.modern_only())] {
        let state = bank.open().await;
        let call = Call::retry(&state).without_header("mcp-protocol-version");
        let reply = bank.send(&call).await;
        MISMATCH.check("absent", &reply);
        assert_eq!(reply.body["id"], 2);
        assert_eq!(bank.rows().await, (0, 0));
        works("with the header", &bank, &state).await;
    }
}

/// A header that could be an encoded one is one.
#[tokio::test]
async fn case_186_a_name_that_looks_encoded() {
    let name = "=?base64?literal?=";
    let bank = Bank::new();
    let reply = bank.send(&Call::of(name, json!({}))).await;
    MISMATCH.check("as it is", &reply);
    let encoded =
        Call::of(name, json!({})).header("mcp-name", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=");
    let reply = bank.send(&encoded).await;
    Refusal::params().check("encoded it is a name, which nobody has", &reply);
    let state = bank.open().await;
    works("beside it", &bank, &state).await;
}

fn question(origin: &str) -> Request<Body> {
    Request::options("/mcp")
        .header("host", "localhost:8080")
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header(
            "access-control-request-headers",
            "authorization,content-type,mcp-protocol-version,mcp-method,mcp-name,mcp-param-region",
        )
        .body(Body::empty())
        .unwrap()
}

#[tokio::test]
async fn case_199_a_browser_asks_before_its_page_calls() {
    const PAGE: &str = "http://localhost:3000";
    for modern_only in [false, true] {
        // Nobody is let in without a token, and the browser's question has none.
        let bank = Bank::with(|builder| match modern_only {
            true => builder.allow_origin(PAGE).modern_only(),
            false => builder.allow_origin(PAGE),
        });
        let reply = bank.send_raw(question(PAGE)).await;
        assert_eq!(
            (reply.status, &reply.body),
            (StatusCode::NO_CONTENT, &Value::Null)
        );
        assert_eq!(reply.headers["access-control-allow-origin"], PAGE);
        let asked = &question(PAGE).headers()["access-control-request-headers"].clone();
        assert_eq!(&reply.headers["access-control-allow-headers"], asked);
        let methods = if modern_only {
            "POST"
        } else {
            "POST, GET, DELETE"
        };
        assert_eq!(reply.headers["access-control-allow-methods"], methods);
        assert!(
            !reply
                .headers
                .contains_key("access-control-allow-credentials")
        );
        let mut vary = reply.headers.get_all("vary").iter();
        assert!(vary.any(|value| value == "origin"), "{reply:?}");
        // Its page may read answers and refusals.
        let call = Call::first().header("origin", PAGE);
        let stranger = call.clone().by("nobody");
        for (call, status) in [(call, 200), (stranger, 401)] {
            let reply = bank.send(&call).await;
            assert_eq!(reply.status, status);
            assert_eq!(reply.headers["access-control-allow-origin"], PAGE);
            assert_eq!(reply.headers["vary"], "origin");
        }
        // Others are told nothing, and a request that is no browser's has none of it.
        for origin in ["http://localhost:3001", "http://evil.example", "null", "*"] {
            let reply = bank.send_raw(question(origin)).await;
            assert_eq!(reply.status, StatusCode::FORBIDDEN, "{origin}");
            assert!(
                !reply
                    .headers
                    .keys()
                    .any(|name| name.as_str().starts_with("access-control"))
            );
        }
        let reply = bank.send(&Call::first()).await;
        assert!(!reply.headers.contains_key("access-control-allow-origin"));
        works("a call from elsewhere", &bank, reply.state()).await;
    }
}

#[tokio::test]
async fn case_200_which_origins_may_call_is_the_operators_to_say() {
    let bank = Bank::with(|builder| {
        builder
            .allow_origin("https://named.example")
            .allow_origins(|origin| {
                let host = origin.strip_prefix("https://");
                host.is_some_and(|host| host.ends_with(".app.example"))
            })
    });
    for (origin, status) in [
        ("https://a.app.example", 200),
        ("https://B.App.Example", 200),
        ("https://named.example", 200),
        ("http://a.app.example", 403),
        ("https://app.example.evil", 403),
        ("null", 403),
    ] {
        let call = Call::first().header("origin", origin);
        let reply = bank.send(&call).await;
        assert_eq!(reply.status, status, "{origin}: {reply:?}");
    }
}

/// A first call of so many bytes.
fn of_size(size: usize) -> String {
    let call = |memo: &str| Call::first().argument("memo", memo).body.to_string();
    call(&"x".repeat(size - call("").len()))
}

#[tokio::test]
async fn case_201_a_body_is_as_large_as_the_limit_and_no_larger() {
    let bank = Bank::new();
    let limit = 4 << 20;
    let too_large = Refusal::http(StatusCode::PAYLOAD_TOO_LARGE, -32600);
    // As a whole, whose length is known, and in pieces, whose length is not.
    let whole = |size: usize| Body::from(of_size(size));
    let pieces = |size: usize| {
        let body = Bytes::from(of_size(size));
        let pieces: Vec<_> = (0..size)
            .step_by(64 << 10)
            .map(|at| Ok::<_, Infallible>(body.slice(at..size.min(at + (64 << 10)))))
            .collect();
        Body::from_stream(stream::iter(pieces))
    };
    for body in [whole(limit), pieces(limit)] {
        assert_eq!(post(&bank, body).await.asks(), ["confirm"]);
    }
    for body in [whole(limit + 1), pieces(limit + 1)] {
        too_large.check("one byte more", &post(&bank, body).await);
    }
    // One that says so is not read at all.
    let endless = stream::pending::<Result<Bytes, Infallible>>();
    let call = Call::first().header("content-length", &(limit + 1).to_string());
    let reply = bank
        .send_raw(call.with_body(Body::from_stream(endless)))
        .await;
    too_large.check("by its own word", &reply);
    let zipped = Call::first().header("content-encoding", "gzip");
    let reply = bank
        .send_raw(zipped.with_body(vec![0x1f, 0x8b, 8, 0]))
        .await;
    Refusal::http(StatusCode::UNSUPPORTED_MEDIA_TYPE, -32600).check("gzip", &reply);
}

#[tokio::test(start_paused = true)]
async fn case_201_a_body_that_drips_is_given_up() {
    let bank = Bank::new();
    let drips = |pause: u64| {
        let bytes = Call::first().body.to_string().into_bytes();
        Body::from_stream(stream::unfold(
            bytes.into_iter(),
            move |mut bytes| async move {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                let byte = bytes.next()?;
                Some((Ok::<_, Infallible>(vec![byte]), bytes))
            },
        ))
    };
    assert_eq!(post(&bank, drips(10)).await.asks(), ["confirm"]);
    let begun = tokio::time::Instant::now();
    let reply = post(&bank, drips(1_000)).await;
    Refusal::http(StatusCode::REQUEST_TIMEOUT, -32600).check("a byte a second", &reply);
    assert!(begun.elapsed() <= Duration::from_secs(31));
}

#[tokio::test]
async fn case_203_a_response_is_no_request() {
    let bank = Bank::new();
    // While somebody in the earlier era is asked under an id that it may name.
    let session = Session::open(&bank.server, everything()).await;
    let arguments = json!({ "to": "acct-7", "amount": 100 });
    let mut call = session.call(1, "transfer", arguments).await;
    let question = call.message().await;
    let yes = accept(json!({ "ok": true }));
    for id in [json!(1), question["id"].clone(), json!("x")] {
        for said in [
            json!({ "jsonrpc": "2.0", "id": id, "result": yes }),
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": 1, "message": "x" } }),
        ] {
            INVALID.check(&said.to_string(), &post(&bank, said.to_string()).await);
        }
    }
    assert_eq!(bank.effects.count(), 0);
    // In the session it is an answer.
    let taken = session.answer(&question, yes).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED);
    assert_eq!(text(&call.message().await), "done 1");
}

#[tokio::test]
async fn case_204_a_notification_has_no_id_and_null_is_one() {
    let bank = Bank::new();
    let note =
        |method: &str| json!({ "jsonrpc": "2.0", "method": method, "params": { "requestId": 1 } });
    for method in ["notifications/cancelled", "notifications/unheard-of"] {
        let reply = post(&bank, note(method).to_string()).await;
        assert_eq!(
            (reply.status, reply.body),
            (StatusCode::ACCEPTED, Value::Null)
        );
        let mut with_null = note(method);
        with_null["id"] = Value::Null;
        let reply = post(&bank, with_null.to_string()).await;
        INVALID.check(method, &reply);
        assert!(reply.body.get("id").is_none(), "{reply:?}");
    }
    let state = bank.open().await;
    works("after all of them", &bank, &state).await;
}

#[tokio::test]
async fn case_205_other_methods_of_http() {
    for modern_only in [false, true] {
        let bank = Bank::with(|builder| match modern_only {
            true => builder.modern_only(),
            false => builder,
        });
        let allowed = if modern_only {
            "POST"
        } else {
            "POST, GET, DELETE"
        };
        for method in [
            Method::GET,
            Method::DELETE,
            Method::HEAD,
            Method::PUT,
            Method::PATCH,
            Method::OPTIONS,
        ] {
            // Whatever the body says.
            let state = bank.open().await;
            let mut request = Call::retry(&state).with_body(Call::retry(&state).body.to_string());
            *request.method_mut() = method.clone();
            let reply = bank.send_raw(request).await;
            assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
            assert_eq!(reply.headers["allow"], allowed, "{method}");
            works(method.as_str(), &bank, &state).await;
        }
    }
}

#[tokio::test]
async fn case_206_headers_of_the_earlier_era_mean_nothing() {
    let bank = Bank::new();
    let session = Session::open(&bank.server, everything()).await;
    for id in ["abc", "", &session.id] {
        let state = bank.open().await;
        let call = Call::retry(&state)
            .header("mcp-session-id", id)
            .header("last-event-id", "5");
        let reply = bank.send(&call).await;
        assert!(reply.text().starts_with("done"), "{id:?}: {reply:?}");
        assert!(!reply.headers.contains_key("mcp-session-id"), "{id:?}");
    }
    assert_eq!(bank.effects.count(), 3);
}

#[tokio::test]
async fn case_208_what_cannot_be_read_has_no_id() {
    let bank = Bank::new();
    let good = Call::first().body.to_string();
    let bad: [Vec<u8>; 9] = [
        b"".into(),
        b" ".into(),
        b"{".into(),
        b"nonsense".into(),
        good.as_bytes()[..good.len() - 1].into(),
        format!("{good}x").into(),
        format!("\u{feff}{good}").into(),
        good.replace("100", "NaN").into(),
        [good.replace("acct-7", "\u{1}").as_bytes(), b"\xff"].concat(),
    ];
    for body in bad {
        let shown = String::from_utf8_lossy(&body).into_owned();
        let reply = post(&bank, body).await;
        Refusal::http(StatusCode::BAD_REQUEST, -32700).check(&shown, &reply);
        assert!(
            reply.body.get("id").is_none(),
            "absent, never null: {shown}"
        );
        assert_eq!(reply.headers["content-type"], "application/json");
    }
    assert_eq!(post(&bank, good).await.asks(), ["confirm"]);
}

#[tokio::test]
async fn case_212_no_answer_is_kept_on_the_way() {
    let bank = Bank::new();
    let first = bank.send(&Call::first()).await;
    let state = first.state().to_owned();
    let done = bank.send(&Call::retry(&state)).await;
    let refused = bank.send(&Call::retry("nonsense")).await;
    let listed = bank.send(&Call::nameless("tools/list")).await;
    for reply in [first, done, refused, listed] {
        assert_eq!(reply.headers["cache-control"], "no-store", "{reply:?}");
    }
}

#[tokio::test]
async fn case_213_a_token_that_has_expired_costs_nothing() {
    let expired = Refusal::http(StatusCode::UNAUTHORIZED, -32600);
    for token in ["expired", ""] {
        refused(token, &expired, |state| Call::retry(state).by(token)).await;
    }
    let bank = Bank::new();
    let state = bank.open().await;
    let reply = bank.send(&Call::retry(&state).by("expired")).await;
    let challenge = reply.headers["www-authenticate"].to_str().unwrap();
    assert!(challenge.starts_with("Bearer"), "{challenge}");
    works("after a new login", &bank, &state).await;
    // Nobody at all, where somebody is asked for.
    let server = Server::builder("known", "1")
        .authenticator(mrtr_server::StaticTokens::new())
        .build()
        .unwrap();
    let bank = Bank {
        server,
        ..Bank::new()
    };
    let reply = bank
        .send(&Call::nameless("tools/list").without_header("authorization"))
        .await;
    expired.check("nobody", &reply);
    assert!(reply.headers.contains_key("www-authenticate"));
}

/// 400 might lead a client that knows both eras to the other one.
#[tokio::test]
async fn case_195_a_rejected_state_is_no_bad_request() {
    let bank = Bank::new();
    let state = bank.open().await;
    for bad in [
        Call::retry("nonsense"),
        Call::retry(&state[..state.len() - 1]),
        Call::retry(&state).by("user-b"),
        Call::retry(&state).argument("amount", 1),
    ] {
        let reply = bank.send(&bad).await;
        assert_eq!((reply.status, reply.code()), (StatusCode::OK, Some(-32602)));
        assert!(reply.reason().is_some(), "{reply:?}");
    }
    works("after all of them", &bank, &state).await;
    let again = Call::retry(&state).answer("confirm", json!({ "action": "decline" }));
    let reply = bank.send(&again).await;
    Refusal::state("already_used").check("used", &reply);
    bank.advance(Duration::from_secs(601));
    let expired = Call::retry(&state).by("user-b");
    assert_eq!(bank.send(&expired).await.status, StatusCode::OK);
}
