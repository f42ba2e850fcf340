//! The harness: a whole client, raw requests, and the record of both.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use mrtr_client::{CallError, FormAnswer, FormQuestion};
use mrtr_testkit::{Effects, Harness};
use serde_json::json;

use crate::bank::{self, Bank};

async fn yes(_: FormQuestion) -> Result<FormAnswer, mrtr_client::Refusal> {
    Ok(FormAnswer::Accept(json!({ "ok": true })))
}

#[tokio::test]
async fn case_267_a_client_is_carried_through_its_rounds_and_everything_is_recorded() {
    let bank = Bank::open();
    let client = bank.harness.client().on_form(yes).build().unwrap();
    let result = client
        .call_tool("charge_good", json!({ "amount": 30 }))
        .await
        .unwrap();
    assert_eq!(result.joined_text(), "charged 30");
    assert_eq!(bank.effects.all(), ["charge"]);

    let exchanges = bank.harness.exchanges();
    let [first, retry] = exchanges.as_slice() else {
        panic!("{exchanges:#?}");
    };
    let asked = first.reply().unwrap();
    assert_eq!(asked.asks(), ["confirm"]);
    assert_eq!(asked.message("confirm"), Some("Charge 30?"));
    assert_eq!(first.param("requestState"), None);
    assert_eq!(retry.param("requestState"), asked.state().map(Into::into));
    assert_eq!(
        retry.param("inputResponses"),
        Some(json!({ "confirm": { "action": "accept", "content": { "ok": true } } }))
    );
    assert_eq!(retry.header("mcp-name"), Some("charge_good"));
    assert_ne!(first.json()["id"], retry.json()["id"]);
    let done = retry.reply().unwrap();
    assert_eq!(
        (done.status(), done.text()),
        (StatusCode::OK, Some("charged 30"))
    );
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(done.body()).unwrap(),
        *done.json()
    );

    bank.harness.forget_exchanges();
    assert!(bank.harness.exchanges().is_empty());
    client.list_tools().await.unwrap();
    assert_eq!(bank.harness.exchanges().len(), 1);
}

#[tokio::test]
async fn callers_share_the_server_and_its_record() {
    let bank = Bank::open();
    let alice = bank
        .harness
        .raw("charge_good")
        .arguments(json!({ "amount": 1 }));
    let state = alice.send().await.expect_state().to_owned();
    let retry = alice.state(&state).accept("confirm", json!({ "ok": true }));
    let stolen = retry.clone().by("bob").send().await;
    assert_eq!(stolen.reason(), Some("different_principal"), "{stolen:?}");
    assert_eq!(retry.send().await.text(), Some("charged 1"));

    let bob = bank
        .harness
        .by("bob")
        .client()
        .on_form(yes)
        .build()
        .unwrap();
    bob.call_tool("charge_good", json!({ "amount": 2 }))
        .await
        .unwrap();
    assert_eq!(bank.harness.exchanges().len(), 5);
    let stranger = bank.harness.by("mallory").client().build().unwrap();
    let error = stranger.call_tool("plain", ()).await.unwrap_err();
    assert!(
        matches!(&error, CallError::Rpc { source, .. } if source.status == StatusCode::UNAUTHORIZED),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_raw_call_is_good_until_it_is_bent() {
    let bank = Bank::open();
    let good = bank.harness.raw("plain");
    assert_eq!(good.send().await.text(), Some("done"));

    let body = good.to_body();
    assert!(body.contains(r#""id":1"#), "{body}");
    for (bent, status, code) in [
        (good.clone().without_header("mcp-name"), 400, -32020),
        (
            good.clone().another_header("mcp-name", "plain"),
            400,
            -32020,
        ),
        (good.clone().header("mcp-name", "other"), 400, -32020),
        (
            good.clone()
                .meta("io.modelcontextprotocol/protocolVersion", "1999-01-01"),
            400,
            -32020,
        ),
        (good.clone().without_header("authorization"), 401, -32600),
        (good.clone().header("host", "evil.example"), 403, -32600),
        (
            good.clone().header("content-type", "text/plain"),
            415,
            -32600,
        ),
        (good.clone().tool("nobody"), 200, -32602),
        (good.clone().arguments(json!([])), 200, -32602),
        (
            good.clone().param("inputResponses", json!(null)),
            200,
            -32602,
        ),
        (good.clone().state("hello"), 200, -32602),
        (good.clone().body("{"), 400, -32700),
        (
            good.clone()
                .body(body.replace(r#""id":1"#, r#""id":1,"id":1"#)),
            400,
            -32600,
        ),
        (good.clone().id(json!(null)), 400, -32600),
    ] {
        let reply = bent.send().await;
        assert_eq!(
            (reply.status().as_u16(), reply.code()),
            (status, Some(code)),
            "{bent:?}: {reply:?}"
        );
    }
    let asking = bank.harness.raw("silent");
    assert_eq!(asking.send().await.asks(), ["confirm"]);
    let mute = asking.declaring(json!({})).send().await;
    assert_eq!(
        (mute.status(), mute.code()),
        (StatusCode::BAD_REQUEST, Some(-32021))
    );
    assert!(mute.asks().is_empty() && mute.state().is_none());
    assert_eq!(
        bank.effects.count("charge"),
        1,
        "nothing but the good one ran"
    );
    assert_eq!(good.send().await.text(), Some("done"));
}

#[tokio::test]
async fn answers_and_arguments_are_put_one_by_one() {
    let bank = Bank::open();
    let call = bank.harness.raw("two").without_param("arguments");
    let asked = call.send().await;
    assert_eq!(asked.asks(), ["b", "a"], "in the server's order");
    let both = call
        .clone()
        .state(asked.expect_state())
        .accept("a", json!({ "ok": true }))
        .decline("b");
    assert_eq!(both.send().await.text(), Some("false true"));
    let again = both.send().await;
    assert_eq!(again.text(), Some("false true"));
    assert!(again.is_replayed() && !asked.is_replayed());
    let other = both.cancel("b").send().await;
    assert_eq!(other.reason(), Some("already_used"), "{other:?}");

    let charge = bank.harness.raw("charge_good").argument("amount", 7);
    let asked = charge.send().await;
    assert_eq!(asked.message("confirm"), Some("Charge 7?"));
    let retry = charge
        .state(asked.expect_state())
        .accept("confirm", json!({ "ok": true }));
    let more = retry.clone().argument("amount", 70).send().await;
    assert_eq!(more.reason(), Some("different_request"), "{more:?}");
    assert_eq!(retry.send().await.text(), Some("charged 7"));
    let wrong = bank
        .harness
        .raw("charge_good")
        .argument("amount", "7")
        .send()
        .await;
    assert!(wrong.is_tool_error() && wrong.code().is_none(), "{wrong:?}");
}

#[tokio::test]
async fn a_dropped_request_stays_on_record_without_a_reply() {
    let bank = Bank::without_ledger();
    let call = bank.harness.raw("stuck");
    tokio::select! {
        biased;
        reply = call.send() => panic!("{reply:?}"),
        () = tokio::task::yield_now() => {}
    }
    assert_eq!(bank.effects.all(), ["begun"]);
    let exchanges = bank.harness.exchanges();
    assert_eq!(exchanges.len(), 1);
    assert!(exchanges[0].reply().is_none());
    assert_eq!(exchanges[0].body(), call.to_body().as_bytes());
}

/// Nobody without the header comes through.
async fn gate(request: Request, next: Next) -> Response {
    if request.headers().contains_key("x-key") {
        next.run(request).await
    } else {
        StatusCode::IM_A_TEAPOT.into_response()
    }
}

#[tokio::test]
async fn a_router_with_layers_is_called_like_a_server() {
    let server = bank::server(bank::hmac(), &Effects::new(), |server, _| {
        server.allow_host("bank.example")
    });
    let app: Router = server.router("/api/mcp").layer(from_fn(gate));
    let harness = Harness::new(app)
        .at("https://bank.example/api/mcp")
        .by("alice");
    let call = harness.raw("plain").header("x-key", "1");
    assert_eq!(call.send().await.text(), Some("done"));
    let barred = call.without_header("x-key").send().await;
    assert_eq!(barred.status(), StatusCode::IM_A_TEAPOT);
    let elsewhere = harness
        .at("https://bank.example/mcp")
        .raw("plain")
        .header("x-key", "1");
    assert_eq!(elsewhere.send().await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn nothing_that_is_printed_holds_a_state_or_a_token() {
    let bank = Bank::open();
    let call = bank.harness.raw("silent").by("bob");
    let asked = call.send().await;
    let state = asked.expect_state();
    let retry = call.clone().state(state);
    retry.send().await;
    let printed = format!(
        "{:?} {retry:?} {asked:?} {:?} {:?} {:?}",
        bank.harness,
        bank.harness.exchanges(),
        bank.harness.exchanges()[0].headers(),
        bank.harness.client(),
    );
    assert!(
        printed.contains("requestState") && printed.contains("confirm"),
        "{printed}"
    );
    for secret in [state, "bob", "alice"] {
        assert!(!printed.contains(secret), "{printed}");
    }
}
