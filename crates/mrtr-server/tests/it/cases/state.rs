//! Cases 1 to 70: a requestState that came back, or something that looks like one.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use mrtr_state::{Key, KeyRing};
use serde_json::{Value, json};

use super::{Refusal, asked_again, refused, works};
use crate::bank::{Bank, Call, accept};

const MALFORMED: Refusal = Refusal::state("malformed");
const BAD_SIGNATURE: Refusal = Refusal::state("bad_signature");
const TOO_LARGE: Refusal = Refusal::state("too_large");
const DIFFERENT_REQUEST: Refusal = Refusal::state("different_request");
const DIFFERENT_PRINCIPAL: Refusal = Refusal::state("different_principal");
const EXPIRED: Refusal = Refusal::state("expired");

#[tokio::test]
async fn case_001_a_state_that_is_no_string() {
    let inputs = [
        json!(1),
        json!(0),
        json!(true),
        json!(false),
        json!([]),
        json!(["S"]),
        json!({}),
        json!({ "p": "user-a" }),
        json!(1.5),
        Value::Null,
    ];
    for input in inputs {
        let name = format!("requestState: {input}");
        refused(&name, &MALFORMED, |state| {
            Call::retry(state).param("requestState", input)
        })
        .await;
    }
}

#[tokio::test]
async fn case_002_answers_on_a_first_call_are_no_consent() {
    let bank = Bank::new();
    let first = Call::first().answer("confirm", accept(json!({ "ok": true })));
    asked_again("answers on a first call", &bank, &first).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_004_every_position_changed() {
    let bank = Bank::new();
    let state = bank.open().await;
    let halves = [0, 1].map(|parity| {
        let (bank, state) = (bank.clone(), state.clone());
        tokio::spawn(async move {
            let mut tried = 0;
            for at in (parity..state.len()).step_by(2) {
                for forged in changed_at(&state, at) {
                    let reply = bank.send(&Call::retry(&forged)).await;
                    assert_eq!(
                        (reply.status, reply.code()),
                        (StatusCode::OK, Some(-32602)),
                        "{forged}: {reply:?}"
                    );
                    assert!(
                        matches!(reply.reason(), Some("malformed" | "bad_signature")),
                        "{forged}: {reply:?}"
                    );
                    tried += 1;
                }
            }
            tried
        })
    });
    let mut tried = 0;
    for half in halves {
        tried += half.await.unwrap();
    }
    assert!(tried > 95 * state.len(), "{tried} tries");
    assert_eq!(bank.effects.count(), 0);
    assert_eq!(bank.rows().await, (0, 0));
    works("after every change", &bank, &state).await;
}

/// The state with its character at `at` replaced by every other printable one, removed, doubled, swapped with the next.
fn changed_at(state: &str, at: usize) -> Vec<String> {
    let (before, rest) = state.split_at(at);
    let (this, after) = rest.split_at(1);
    let mut changed: Vec<String> = (' '..='~')
        .map(|other| format!("{before}{other}{after}"))
        .collect();
    changed.push(format!("{before}{after}"));
    changed.push(format!("{before}{this}{this}{after}"));
    if let Some(next) = after.get(..1) {
        changed.push(format!("{before}{next}{this}{}", &after[1..]));
    }
    changed.retain(|changed| changed != state);
    changed
}

#[tokio::test]
async fn case_006_other_spellings_of_the_same_bytes() {
    for suffix in ["=", "==", "\n", " ", "\t", "\r\n", "%3D"] {
        let name = format!("{suffix:?} appended");
        let bank = Bank::new();
        let state = bank.open().await;
        let reply = bank.send(&Call::retry(&format!("{state}{suffix}"))).await;
        assert!(
            matches!(reply.reason(), Some("malformed" | "bad_signature")),
            "{name}: {reply:?}"
        );
        works(&name, &bank, &state).await;
    }
    // The last character of a 32-byte tag carries two unused bits: three other characters decode to the same bytes.
    let bank = Bank::new();
    let state = bank.open().await;
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let last = alphabet
        .iter()
        .position(|c| *c == *state.as_bytes().last().unwrap())
        .unwrap();
    assert_eq!(
        last % 4,
        0,
        "the canonical spelling leaves the unused bits zero"
    );
    for bits in 1..4 {
        let alias = format!(
            "{}{}",
            &state[..state.len() - 1],
            char::from(alphabet[last + bits])
        );
        MALFORMED.check("unused bits set", &bank.send(&Call::retry(&alias)).await);
    }
    for (from, to) in [('-', '+'), ('_', '/')] {
        let alias = state.replace(from, &to.to_string());
        if alias != state {
            MALFORMED.check("the other alphabet", &bank.send(&Call::retry(&alias)).await);
        }
    }
    assert_eq!(bank.rows().await, (0, 0));
    works("aliases", &bank, &state).await;
}

#[tokio::test]
async fn case_007_a_principal_that_the_client_claims() {
    refused(
        "by user-b, claiming to be user-a",
        &DIFFERENT_PRINCIPAL,
        |state| {
            Call::retry(state)
                .by("user-b")
                .header("x-user", "user-a")
                .meta("principal", "user-a")
                .meta(
                    "io.modelcontextprotocol/clientInfo",
                    json!({ "name": "user-a", "version": "1" }),
                )
        },
    )
    .await;
}

#[tokio::test]
async fn case_009_anonymous_and_known_are_different_principals() {
    refused(
        "minted for user-a, presented without a token",
        &DIFFERENT_PRINCIPAL,
        |state| Call::retry(state).without_header("authorization"),
    )
    .await;
    let bank = Bank::new();
    let anonymous = bank
        .send(&Call::first().without_header("authorization"))
        .await;
    let state = anonymous.state();
    DIFFERENT_PRINCIPAL.check(
        "minted anonymously, presented by user-a",
        &bank.send(&Call::retry(state)).await,
    );
    let honest = bank
        .send(&Call::retry(state).without_header("authorization"))
        .await;
    assert_eq!(honest.text(), "done 1");
}

#[tokio::test]
async fn case_013_the_last_millisecond() {
    for (millis, good) in [(599_999, true), (600_000, false), (600_001, false)] {
        let bank = Bank::new();
        let state = bank.open().await;
        bank.advance(Duration::from_millis(millis));
        if good {
            works("just before", &bank, &state).await;
        } else {
            EXPIRED.check("at or after", &bank.send(&Call::retry(&state)).await);
            assert_eq!((bank.effects.count(), bank.rows().await), (0, (0, 0)));
            let fresh = bank.open().await;
            works("a fresh flow", &bank, &fresh).await;
        }
    }
}

#[tokio::test]
async fn case_019_tags_of_other_lengths() {
    for length in [0, 1, 16, 31, 33, 64] {
        let name = format!("a tag of {length} bytes");
        let bank = Bank::new();
        let state = bank.open().await;
        let (body, tag) = state.rsplit_once('.').unwrap();
        let mut tag = URL_SAFE_NO_PAD.decode(tag).unwrap();
        tag.resize(length, 0);
        let reply = bank
            .send(&Call::retry(&format!(
                "{body}.{}",
                URL_SAFE_NO_PAD.encode(tag)
            )))
            .await;
        assert!(
            matches!(reply.reason(), Some("malformed" | "bad_signature")),
            "{name}: {reply:?}"
        );
        assert_eq!(bank.rows().await, (0, 0));
        works(&name, &bank, &state).await;
    }
}

#[tokio::test]
async fn case_020_nothing_is_parsed_before_the_tag_holds() {
    let with_claims = |state: &str, claims: &[u8]| {
        let mut parts: Vec<&str> = state.split('.').collect();
        let claims = URL_SAFE_NO_PAD.encode(claims);
        parts[3] = &claims;
        Call::retry(&parts.join("."))
    };
    refused("20,000 brackets", &BAD_SIGNATURE, |state| {
        with_claims(state, &[b'['; 20_000])
    })
    .await;
    refused("no UTF-8", &BAD_SIGNATURE, |state| {
        with_claims(state, &[0xff, 0xfe, 0x80])
    })
    .await;
    refused("100,000 brackets", &TOO_LARGE, |state| {
        with_claims(state, &[b'['; 100_000])
    })
    .await;
    let too_large = Refusal::http(StatusCode::PAYLOAD_TOO_LARGE, -32600);
    refused("8 MiB", &too_large, |_| Call::retry(&"A".repeat(8 << 20))).await;
}

#[tokio::test]
async fn case_022_states_that_are_too_large() {
    refused("64 KiB + 1", &TOO_LARGE, |_| {
        Call::retry(&"A".repeat((64 << 10) + 1))
    })
    .await;
    refused("1 MiB", &TOO_LARGE, |_| Call::retry(&"A".repeat(1 << 20))).await;
    let too_large = Refusal::http(StatusCode::PAYLOAD_TOO_LARGE, -32600);
    refused("64 MiB", &too_large, |_| Call::retry(&"A".repeat(64 << 20))).await;
}

#[tokio::test]
async fn case_022_a_state_is_as_large_as_what_it_says_however_it_is_spelt() {
    let limit = Bank::new().open().await.len();
    let bank = Bank::with(|builder| builder.limits(|limits| limits.state = limit));
    let state = bank.open().await;
    for (state, reason) in [(format!("{state}A"), Some("too_large")), (state, None)] {
        let spelt: String = state.bytes().map(|byte| format!("\\u{byte:04x}")).collect();
        let call = Call::retry("@");
        let body = call.body.to_string().replace('@', &spelt);
        let reply = bank.send_raw(call.with_body(body)).await;
        assert_eq!(reply.reason(), reason, "{reply:?}");
    }
    assert_eq!(bank.effects.count(), 1);
}

#[tokio::test]
async fn case_022_no_state_is_sealed_that_could_not_be_opened() {
    let bank = Bank::with(|builder| builder.limits(|limits| limits.state = 256));
    let reply = bank.send(&Call::first()).await;
    assert_eq!(reply.code(), Some(-32603), "{reply:?}");
    assert_eq!(bank.effects.count(), 0);
    let roomy = Bank::new();
    let state = roomy.open().await;
    works("with the usual limit", &roomy, &state).await;
}

#[tokio::test]
async fn case_024_requests_that_may_not_carry_answers() {
    let bank = Bank::new();
    let state = bank.open().await;
    let mut list = Call::retry(&state)
        .header("mcp-method", "tools/list")
        .without_header("mcp-name");
    list.body["method"] = "tools/list".into();
    let reply = bank.send(&list).await;
    assert!(
        reply.body["result"]["tools"].is_array(),
        "ignored, never acted upon: {reply:?}"
    );
    assert_eq!((bank.effects.count(), bank.rows().await), (0, (0, 0)));
    works("after a list that carried them", &bank, &state).await;
    for input in [json!([]), json!("x"), json!({ "confirm": 7 }), Value::Null] {
        let name = format!("inputResponses: {input}");
        refused(&name, &Refusal::params(), |state| {
            Call::retry(state).param("inputResponses", input)
        })
        .await;
    }
}

#[test]
fn case_025_weak_keys() {
    let good: Vec<u8> = (0..32).collect();
    Key::from_bytes(&good).expect("a good key");
    for length in [0, 1, 16, 31] {
        Key::from_bytes(&good[..length]).expect_err("too short");
    }
    Key::from_bytes(&[0; 32]).expect_err("all zero");
    let hex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    Key::from_bytes(hex.as_bytes()).expect_err("the text of a hexadecimal key");
    Key::from_hex(hex).expect("the same, decoded");
    Key::from_hex(&hex[..62]).expect_err("31 bytes");
    Key::from_hex(&format!("{}zz", &hex[..62])).expect_err("no hexadecimal");
    let ring = KeyRing::new(Key::from_bytes(&good).unwrap());
    ring.and_opens(Key::from_bytes(&good).unwrap())
        .expect_err("the same key twice");
}

#[tokio::test]
async fn case_053_changed_arguments_name_or_method() {
    refused("another amount", &DIFFERENT_REQUEST, |state| {
        Call::retry(state).argument("amount", 10_000)
    })
    .await;
    refused("another account", &DIFFERENT_REQUEST, |state| {
        Call::retry(state).argument("to", "acct-8")
    })
    .await;
    refused("one more argument", &DIFFERENT_REQUEST, |state| {
        Call::retry(state).argument("memo", "x")
    })
    .await;
    refused("no arguments", &DIFFERENT_REQUEST, |state| {
        Call::retry(state).without_param("arguments")
    })
    .await;
    refused("another tool", &DIFFERENT_REQUEST, |state| {
        Call::retry(state).named("two")
    })
    .await;
    refused("a tool that never asks", &DIFFERENT_REQUEST, |state| {
        Call::retry(state).named("plain")
    })
    .await;
    let not_found = Refusal::http(StatusCode::NOT_FOUND, -32601);
    refused("another method", &not_found, |state| {
        let mut call = Call::retry(state).header("mcp-method", "prompts/get");
        call.body["method"] = "prompts/get".into();
        call
    })
    .await;
}

#[tokio::test]
async fn case_057_the_order_of_arguments_is_nothing() {
    let bank = Bank::new();
    let state = bank.open().await;
    let text = Call::retry(&state).body.to_string();
    let (sorted, swapped) = (
        r#"{"amount":100,"to":"acct-7"}"#,
        r#"{"to":"acct-7", "amount":100}"#,
    );
    let other = if text.contains(sorted) {
        text.replace(sorted, swapped)
    } else {
        text.replace(r#"{"to":"acct-7","amount":100}"#, sorted)
    };
    assert_ne!(text, other, "the order differs on the wire");
    let reply = bank.send_raw(Call::retry(&state).with_body(other)).await;
    assert_eq!(reply.text(), "done 1");
    assert_eq!(bank.effects.count(), 1);
}

#[tokio::test]
async fn case_066_no_unicode_normalisation() {
    for (name, first, second) in [
        ("composed and decomposed", "caf\u{e9}", "cafe\u{301}"),
        ("another hyphen", "acct-7", "acct\u{2011}7"),
    ] {
        let bank = Bank::new();
        let state = bank
            .send(&Call::first().argument("to", first))
            .await
            .state()
            .to_owned();
        let bent = bank.send(&Call::retry(&state).argument("to", second)).await;
        DIFFERENT_REQUEST.check(name, &bent);
        assert_eq!((bank.effects.count(), bank.rows().await), (0, (0, 0)));
        let honest = bank.send(&Call::retry(&state).argument("to", first)).await;
        assert_eq!(honest.text(), "done 1", "{name}");
    }
}

#[tokio::test]
async fn case_070_member_names_have_one_case() {
    for (from, to) in [
        ("requestState", "RequestState"),
        ("requestState", "requeststate"),
        ("requestState", "reque\u{17f}tState"),
        ("inputResponses", "inputReſponses"),
    ] {
        let bank = Bank::new();
        let state = bank.open().await;
        let mut call = Call::retry(&state);
        let value = call.body["params"]
            .as_object_mut()
            .unwrap()
            .remove(from)
            .unwrap();
        call.body["params"][to] = value;
        // Without the state it is a first call; without the answers it is a retry that answers nothing.
        let reply = bank.send(&call).await;
        assert_eq!(reply.asks(), ["confirm"], "{to}: {reply:?}");
        assert_eq!(bank.effects.count(), 0, "{to}");
        works(to, &bank, reply.state()).await;
    }
    for (from, to) in [("method", "Method"), ("jsonrpc", "JSONRPC")] {
        let invalid = Refusal::http(StatusCode::BAD_REQUEST, -32600);
        refused(to, &invalid, |state| {
            let mut call = Call::retry(state);
            let value = call.body.as_object_mut().unwrap().remove(from).unwrap();
            call.body[to] = value;
            call
        })
        .await;
    }
    // Without `params` there is no name that `Mcp-Name` could agree with.
    refused(
        "PARAMS",
        &Refusal::http(StatusCode::BAD_REQUEST, -32020),
        |state| {
            let mut call = Call::retry(state);
            let value = call.body.as_object_mut().unwrap().remove("params").unwrap();
            call.body["PARAMS"] = value;
            call
        },
    )
    .await;
}
