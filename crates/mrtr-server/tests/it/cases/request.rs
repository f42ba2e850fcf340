//! Cases 55 to 68: what is the same request, what is another, and what is none.

use http::StatusCode;
use serde_json::{Value, json};

use super::{Refusal, refused, works};
use crate::bank::{Bank, Call, Reply};

const DIFFERENT_REQUEST: Refusal = Refusal::state("different_request");
const NO_JSON: Refusal = Refusal::http(StatusCode::BAD_REQUEST, -32700);

/// Changes a call.
type Bend = fn(Call) -> Call;

#[tokio::test]
async fn case_055_metadata_is_no_part_of_the_request() {
    let bends: [(&str, Bend); 12] = [
        ("an id that is a string", |call| call.id("two")),
        ("the id of the first call", |call| call.id(1)),
        ("progress", |call| call.meta("progressToken", "p-2")),
        ("a trace", |call| {
            call.meta(
                "traceparent",
                "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
            )
        }),
        ("a trace's state", |call| {
            call.meta("tracestate", "a=b").meta("baggage", "c=d")
        }),
        ("another client", |call| {
            let info = json!({ "name": "other", "version": "2" });
            call.meta("io.modelcontextprotocol/clientInfo", info)
        }),
        ("a log level", |call| {
            call.meta("io.modelcontextprotocol/logLevel", "debug")
        }),
        ("more capabilities", |call| {
            call.declaring(json!({ "elicitation": { "form": {} }, "sampling": {}, "roots": {} }))
        }),
        ("a key of its own", |call| {
            call.meta("com.example/x", json!({ "y": [1] }))
        }),
        ("another browser", |call| {
            call.header("user-agent", "other/2")
        }),
        ("another language", |call| {
            call.header("accept-language", "de")
        }),
        ("an answer more", |call| {
            call.answer("z", json!({ "action": "cancel" }))
        }),
    ];
    for (name, bend) in bends {
        let bank = Bank::new();
        let state = bank.open().await;
        let reply = bank.send(&bend(Call::retry(&state))).await;
        let text = reply.body.to_string();
        assert!(
            text.contains("done 1") && bank.effects.count() == 1,
            "{name}: {text}"
        );
    }
    let bank = Bank::new();
    let state = bank.open().await;
    let all = bends
        .into_iter()
        .fold(Call::retry(&state), |call, (_, bend)| bend(call));
    assert!(bank.send(&all).await.body.to_string().contains("done 1"));
}

/// The call with its amount spelt like this.
async fn send(bank: &Bank, call: &Call, amount: &str) -> Reply {
    let text = call.clone().argument("amount", "@").body.to_string();
    let text = text.replace("\"@\"", amount);
    bank.send_raw(call.with_body(text)).await
}

/// Sees which spellings of an amount are one request: those of one group, in every order.
async fn groups(groups: &[&[&str]]) {
    for (one, first) in spelt(groups) {
        let bank = Bank::new();
        let state = send(&bank, &Call::first(), first).await.state().to_owned();
        for (other, second) in spelt(groups).filter(|(other, _)| *other != one) {
            let name = format!("{first}, and then {second} of group {other}");
            let reply = send(&bank, &Call::retry(&state), second).await;
            DIFFERENT_REQUEST.check(&name, &reply);
        }
        assert_eq!((bank.effects.count(), bank.rows().await), (0, (0, 0)));
        for (_, second) in spelt(groups).filter(|(other, _)| *other == one) {
            let reply = send(&bank, &Call::retry(&state), second).await;
            assert_eq!(reply.text(), "done 1", "{first}, and then {second}");
        }
        assert_eq!(bank.effects.count(), 1);
    }
}

fn spelt<'a>(groups: &'a [&'a [&'a str]]) -> impl Iterator<Item = (usize, &'a str)> {
    let groups = groups.iter().enumerate();
    groups.flat_map(|(at, group)| group.iter().map(move |spelling| (at, *spelling)))
}

/// A handler can tell an integer from a number with a point, and not how either is spelt.
#[tokio::test]
async fn case_061_one_and_one_point_nought() {
    groups(&[
        &["1"],
        &["1.0", "1e0", "1.00", "10e-1", "1E+0", "0.1e1"],
        &["10"],
        &["10.0", "1e1"],
        &["1.1"],
    ])
    .await;
}

/// Nor can it tell integers apart that a float cannot, or decimals; the digest does, and refuses rather than accepts.
#[tokio::test]
async fn case_061_digits_beyond_a_float() {
    groups(&[
        &["9007199254740992"],
        &["9007199254740993"],
        &["9007199254740993.0"],
        &["18446744073709551616"],
        &["0.1"],
        &["0.10000000000000000555"],
    ])
    .await;
}

#[tokio::test]
async fn case_062_negative_zero() {
    groups(&[
        &["0"],
        &["-0"],
        &["0.0", "0e0", "0e9"],
        &["-0.0", "-0e0", "-0.00"],
    ])
    .await;
}

#[tokio::test]
async fn case_063_numbers_that_are_none() {
    for none in [
        "1e400",
        "-1e400",
        "NaN",
        "Infinity",
        "-Infinity",
        "nan",
        "inf",
        "1e",
        "01",
        "+1",
        ".5",
        "0x1",
        "1_000",
    ] {
        let bank = Bank::new();
        let state = send(&bank, &Call::first(), "100").await.state().to_owned();
        for call in [Call::first(), Call::retry(&state)] {
            NO_JSON.check(none, &send(&bank, &call, none).await);
        }
        assert_eq!((bank.effects.count(), bank.rows().await), (0, (0, 0)));
        works(none, &bank, &state).await;
    }
    // A float has no room for these. What a handler sees as nothing is still not the same request as nothing.
    groups(&[
        &["1e-400", "10e-401"],
        &["-1e-400"],
        &["2e-400"],
        &["0.0"],
        &["0"],
    ])
    .await;
}

#[tokio::test]
async fn case_068_half_a_character() {
    let halves = [
        "\\ud800",
        "\\udc00",
        "\\ud800x",
        "\\ud800\\ud800",
        "\\udfff\\ud800",
        "\\uDBFF\\n",
    ];
    for half in halves {
        let bank = Bank::new();
        let state = bank.open().await;
        let mut bodies = Vec::new();
        for call in [Call::first(), Call::retry(&state)] {
            bodies.push(call.clone().argument("to", "@"));
            bodies.push(call.clone().argument("@", 1));
            bodies.push(call.clone().argument("memo", json!({ "x": ["@"] })));
            bodies.push(call.clone().meta("com.example/x", "@"));
            bodies.push(call.clone().param("requestState", "@"));
            bodies.push(call.clone().answer("@", json!({ "action": "cancel" })));
            bodies.push(call.clone().param("@", Value::Null));
        }
        for call in bodies {
            let text = call.body.to_string().replace('@', half);
            let reply = bank.send_raw(call.with_body(text.clone())).await;
            NO_JSON.check(&text, &reply);
        }
        // Whose answer it would be is looked at first.
        let call = Call::retry(&state).id("@");
        let text = call.body.to_string().replace('@', half);
        let no_id = Refusal::http(StatusCode::BAD_REQUEST, -32600);
        no_id.check(&text, &bank.send_raw(call.with_body(text.clone())).await);
        assert_eq!((bank.effects.count(), bank.rows().await), (0, (0, 0)));
        works(half, &bank, &state).await;
    }
    // A whole one is a character.
    let bank = Bank::new();
    let call = Call::first().argument("to", "@");
    let text = call.body.to_string().replace('@', "\\ud83d\\ude00");
    let state = bank.send_raw(call.with_body(text)).await.state().to_owned();
    let retry = Call::retry(&state).argument("to", "\u{1f600}");
    assert_eq!(bank.send(&retry).await.text(), "done 1");
    refused("and another than half of it", &DIFFERENT_REQUEST, |state| {
        Call::retry(state).argument("to", "\u{1f600}")
    })
    .await;
}
