//! The boundary: envelopes, ids, codes and statuses.

use http::StatusCode;
use serde_json::json;

use crate::bank::{Bank, Call, Reply};

async fn post(bank: &Bank, body: &str) -> Reply {
    bank.send_raw(Call::first().with_body(body.to_owned()))
        .await
}

#[tokio::test]
async fn case_253_ids_keep_their_type_and_digits() {
    let with_id = |id: &str| {
        let body = Call::first().body.to_string();
        body.replace("\"id\":1", &format!("\"id\":{id}"))
    };
    let long = json!("x".repeat(1 << 20)).to_string();
    for id in [
        "1",
        "-7",
        "0",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "123456789012345678901234567890",
        "\"1\"",
        "\"\"",
        "\"\\u00e9\"",
        &long,
    ] {
        let bank = Bank::new();
        let request = Call::first().with_body(with_id(id));
        let text = bank.send_raw_for_text(request).await;
        let echoed: serde_json::Value = serde_json::from_str(&text).unwrap();
        let sent: serde_json::Value = serde_json::from_str(id).unwrap();
        assert!(
            sent.is_string() && echoed["id"] == sent || text.contains(&format!("\"id\":{id},")),
            "{text}"
        );
        assert!(echoed["result"]["requestState"].is_string(), "{text}");
    }
    let bank = Bank::new();
    for id in ["1.0", "1e2", "1.5", "null", "true", "[]", "[1]", "{}"] {
        let reply = post(&bank, &with_id(id)).await;
        assert_eq!(
            (reply.status, reply.code(), reply.body.get("id")),
            (StatusCode::BAD_REQUEST, Some(-32600), None),
            "{id}: {reply:?}"
        );
    }
    // Without one it is a notification, which is not answered and does nothing.
    let state = bank.open().await;
    let silent = Call::retry(&state)
        .body
        .to_string()
        .replace("\"id\":2,", "");
    let reply = bank.send_raw(Call::first().with_body(silent)).await;
    assert_eq!(
        (reply.status, reply.body),
        (StatusCode::ACCEPTED, json!(null))
    );
    assert_eq!((bank.effects.count(), bank.rows().await), (0, (0, 0)));
}

#[tokio::test]
async fn broken_envelopes() {
    let bank = Bank::new();
    let good = Call::first().body.to_string();
    assert_eq!(post(&bank, &good).await.asks(), ["confirm"]);
    for (body, code) in [
        ("", -32700),
        ("{", -32700),
        ("nonsense", -32700),
        ("[]", -32600),
        ("null", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32600),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[]}"#,
            -32600,
        ),
        (r#"["2.0",1,"tools/call",{}]"#, -32600),
    ] {
        let reply = post(&bank, body).await;
        assert_eq!(
            (reply.status, reply.code()),
            (StatusCode::BAD_REQUEST, Some(code)),
            "{body}: {reply:?}"
        );
    }
    let unreadable = post(&bank, "{").await;
    assert!(
        unreadable.body.get("id").is_none(),
        "no id, never null: {unreadable:?}"
    );
}

#[tokio::test]
async fn duplicate_members_are_refused_wherever_they_are() {
    let bank = Bank::new();
    let good = Call::first().body.to_string();
    for (from, to) in [
        (r#""to":"acct-7""#, r#""to":"acct-7","to":"acct-8""#),
        (r#""to":"acct-7""#, r#""to":"acct-7","\u0074o":"acct-8""#),
        (r#""name":"transfer""#, r#""name":"transfer","name":"two""#),
        (r#""id":1"#, r#""id":1,"id":1"#),
        (
            r#""to":"acct-7""#,
            r#""to":"acct-7","$serde_json::private::RawValue":"{}""#,
        ),
    ] {
        assert!(good.contains(from), "{from}");
        let reply = post(&bank, &good.replace(from, to)).await;
        assert_eq!(
            (reply.status, reply.code()),
            (StatusCode::BAD_REQUEST, Some(-32600)),
            "{to}: {reply:?}"
        );
    }
    let deep = good.replace(
        r#""acct-7""#,
        &format!("{}1{}", "[".repeat(200), "]".repeat(200)),
    );
    let reply = post(&bank, &deep).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{reply:?}");
}

#[tokio::test]
async fn arguments_that_fail_the_schema_are_the_models_to_mend() {
    let bank = Bank::new();
    for arguments in [
        json!({}),
        json!({ "to": 7, "amount": 1 }),
        json!({ "to": "a", "amount": "1" }),
    ] {
        let reply = bank.send(&Call::of("transfer", arguments.clone())).await;
        assert_eq!(reply.status, StatusCode::OK);
        assert_eq!(
            reply.body["result"]["isError"], true,
            "{arguments}: {reply:?}"
        );
    }
    let secret = json!({ "to": "an account of mine", "amount": "a number of mine" });
    let reply = bank.send(&Call::of("transfer", secret)).await;
    assert!(
        reply.text().contains("/amount") && !reply.text().contains("of mine"),
        "{reply:?}"
    );
    let surplus = bank.send(&Call::of("plain", json!({ "x": 1 }))).await;
    assert_eq!(
        surplus.body["result"]["isError"], true,
        "a tool without arguments takes none"
    );
    assert_eq!(bank.effects.count(), 0);
    let absent = bank
        .send(&Call::of("plain", json!({})).without_param("arguments"))
        .await;
    assert_eq!(absent.text(), "done");
    let list = bank.send(&Call::of("plain", json!([]))).await;
    assert_eq!((list.status, list.code()), (StatusCode::OK, Some(-32602)));
    let unknown = bank.send(&Call::of("nobody", json!({}))).await;
    assert_eq!(
        (unknown.status, unknown.code()),
        (StatusCode::OK, Some(-32602))
    );
}

#[tokio::test]
async fn strangers_are_told_to_authenticate() {
    let bank = Bank::new();
    let reply = bank.send(&Call::first().by("nobody")).await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
    assert_eq!(
        reply.headers["www-authenticate"],
        "Bearer error=\"invalid_token\""
    );
    assert!(
        !reply.body.to_string().contains("nobody"),
        "a token is not repeated"
    );
}

#[tokio::test]
async fn discovery_and_the_list_say_what_the_schema_requires() {
    let bank = Bank::new();
    let ask = |method: &str| {
        let mut call = Call::first()
            .header("mcp-method", method)
            .without_header("mcp-name");
        call.body["method"] = method.into();
        call
    };
    let discovered = bank.send(&ask("server/discover")).await;
    let result = &discovered.body["result"];
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(result["capabilities"], json!({ "tools": {} }));
    assert!(result["ttlMs"].is_u64() && result["cacheScope"].is_string());
    assert_eq!(
        result["_meta"]["io.modelcontextprotocol/serverInfo"]["version"],
        "1.0.0"
    );
    let listed = bank.send(&ask("tools/list")).await;
    let tools = listed.body["result"]["tools"].as_array().unwrap();
    assert_eq!(tools[0]["name"], "transfer");
    assert_eq!(tools[0]["inputSchema"]["type"], "object");
    assert_eq!(tools[0]["inputSchema"]["required"], json!(["to", "amount"]));
    let plain = tools.iter().find(|tool| tool["name"] == "plain").unwrap();
    assert_eq!(
        plain["inputSchema"],
        json!({ "type": "object", "additionalProperties": false })
    );
    assert_eq!(
        bank.send(&ask("tools/list").param("cursor", "x"))
            .await
            .code(),
        Some(-32602)
    );
}
