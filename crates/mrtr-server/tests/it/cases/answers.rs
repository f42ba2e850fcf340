//! Cases 115 to 157: what may be asked, and what counts as an answer.

use http::StatusCode;
use serde_json::{Value, json};

use super::{Refusal, asked_again, refused, works};
use crate::bank::{Bank, Call, accept};

#[tokio::test]
async fn case_115_a_kind_that_was_not_declared_is_not_asked() {
    for capabilities in [
        json!({}),
        json!({ "elicitation": { "url": {} } }),
        json!({ "sampling": {} }),
    ] {
        let bank = Bank::new();
        let reply = bank
            .send(&Call::first().declaring(capabilities.clone()))
            .await;
        Refusal::http(StatusCode::BAD_REQUEST, -32021).check(&capabilities.to_string(), &reply);
        assert_eq!(
            reply.body["error"]["data"]["requiredCapabilities"],
            json!({ "elicitation": { "form": {} } }),
            "{capabilities}"
        );
        assert_eq!((bank.effects.count(), bank.rows().await), (0, (0, 0)));
        let state = bank.open().await;
        works("declared", &bank, &state).await;
    }
    let bank = Bank::new();
    asked_again(
        "`elicitation: {}` is form",
        &bank,
        &Call::first().declaring(json!({ "elicitation": {} })),
    )
    .await;
    let null = Call::first().declaring(json!({ "elicitation": null }));
    let invalid = Refusal::http(StatusCode::BAD_REQUEST, -32602);
    invalid.check("`elicitation: null`", &Bank::new().send(&null).await);
}

#[tokio::test]
async fn case_117_a_missing_answer_is_asked_for_alone() {
    let bank = Bank::new();
    let first = bank.send(&Call::of("two", json!({}))).await;
    assert_eq!(first.asks(), ["a", "b"]);
    let retry = |state: &str| Call::of("two", json!({})).id(2).state(state);
    let yes = || accept(json!({ "ok": true }));
    let second = bank.send(&retry(first.state()).answer("a", yes())).await;
    assert_eq!(second.asks(), ["b"], "{second:?}");
    assert_eq!(bank.effects.count(), 0);
    let done = bank.send(&retry(second.state()).answer("b", yes())).await;
    assert_eq!(
        (done.text(), bank.effects.count()),
        ("true true", 1),
        "the first answer was kept"
    );
}

#[tokio::test]
async fn case_118_answers_that_nobody_asked_for() {
    let bank = Bank::new();
    let state = bank.open().await;
    let reply = bank
        .send(&Call::retry(&state).answer("zzz", accept(json!({ "x": 1 }))))
        .await;
    assert_eq!((reply.text(), bank.effects.count()), ("done 1", 1));
    // An answer to a key that is not open is not kept for when it is.
    let bank = Bank::new();
    let first = bank.send(&Call::of("steps", json!({}))).await;
    assert_eq!(first.asks(), ["a"]);
    let yes = || accept(json!({ "ok": true }));
    let early = Call::of("steps", json!({}))
        .id(2)
        .state(first.state())
        .answer("a", yes())
        .answer("b", yes());
    let second = bank.send(&early).await;
    assert_eq!(second.asks(), ["b"], "{second:?}");
    assert_eq!(bank.effects.count(), 0);
    let done = bank
        .send(
            &Call::of("steps", json!({}))
                .id(3)
                .state(second.state())
                .answer("b", yes()),
        )
        .await;
    assert_eq!((done.text(), bank.effects.count()), ("done", 1));
}

#[tokio::test]
async fn case_120_answers_of_another_kind() {
    for answer in [
        json!({ "role": "assistant", "content": { "type": "text", "text": "yes" }, "model": "m" }),
        json!({ "roots": [] }),
        json!({}),
        json!({ "action": "ACCEPT" }),
        json!({ "action": "accept", "role": "assistant", "content": { "ok": true } }),
        json!({ "action": "accept" }),
        json!({ "action": ["accept"], "content": { "ok": true } }),
        json!({ "action": "accept", "content": [true] }),
    ] {
        let name = answer.to_string();
        refused(&name, &Refusal::params(), |state| {
            Call::retry(state).answer("confirm", answer)
        })
        .await;
    }
}

#[tokio::test]
async fn case_121_a_declined_question_is_not_put_again() {
    let bank = Bank::new();
    let state = bank.open().await;
    let no = bank
        .send(&Call::retry(&state).answer("confirm", json!({ "action": "decline" })))
        .await;
    assert_eq!(no.text(), "declined");
    assert!(no.asks().is_empty());
    assert_eq!(bank.effects.count(), 0);
}

#[tokio::test]
async fn case_122_an_effect_before_a_question_happens_every_round() {
    let yes = || accept(json!({ "ok": true }));
    for (tool, effects) in [("eager", 2), ("eager_once", 1)] {
        let bank = Bank::new();
        let first = bank.send(&Call::of(tool, json!({}))).await;
        assert_eq!(first.asks(), ["confirm"], "{first:?}");
        let done = bank
            .send(
                &Call::of(tool, json!({}))
                    .id(2)
                    .state(first.state())
                    .answer("confirm", yes()),
            )
            .await;
        assert_eq!(done.text(), "done");
        assert_eq!(bank.effects.count(), effects, "{tool}");
    }
}

#[tokio::test]
async fn case_155_content_beside_a_no_is_no_yes() {
    for (action, text) in [("decline", "declined"), ("cancel", "cancelled")] {
        let bank = Bank::new();
        let state = bank.open().await;
        let answer = json!({ "action": action, "content": { "ok": true } });
        let no = bank
            .send(&Call::retry(&state).answer("confirm", answer))
            .await;
        assert_eq!((no.text(), bank.effects.count()), (text, 0));
        let fresh = bank.open().await;
        works("a yes is a yes", &bank, &fresh).await;
    }
}

#[tokio::test]
async fn case_157_accepted_content_is_validated() {
    let good = || json!({ "age": 5, "mail": "a@b.example", "c": "R", "tags": ["R", "R"] });
    let with = |name: &str, value: Value| {
        let mut content = good();
        content[name] = value;
        content
    };
    let mut without_age = good();
    without_age.as_object_mut().unwrap().remove("age");
    let bad = [
        with("age", json!("5")),
        with("age", json!(121)),
        with("age", json!(-1)),
        with("age", json!(1.5)),
        without_age,
        with("mail", json!("x")),
        with("c", json!("B")),
        with("tags", json!([])),
        with("tags", json!(["R", "G", "R"])),
        with("tags", json!([1])),
        with("age", json!({ "years": 5 })),
    ];
    for content in bad {
        let bank = Bank::new();
        let state = bank
            .send(&Call::of("survey", json!({})))
            .await
            .state()
            .to_owned();
        let retry = |state: &str, content| {
            Call::of("survey", json!({}))
                .id(2)
                .state(state)
                .answer("confirm", accept(content))
        };
        let again = bank.send(&retry(&state, content.clone())).await;
        assert_eq!(again.asks(), ["confirm"], "{content}: {again:?}");
        assert_eq!(bank.effects.count(), 0, "{content}");
        let done = bank.send(&retry(again.state(), good())).await;
        assert_eq!(
            (done.text(), bank.effects.count()),
            ("done", 1),
            "{content}"
        );
    }
    let bank = Bank::new();
    let state = bank
        .send(&Call::of("survey", json!({})))
        .await
        .state()
        .to_owned();
    let extra = Call::of("survey", json!({}))
        .id(2)
        .state(&state)
        .answer("confirm", accept(with("zz", json!(1))));
    assert_eq!(
        bank.send(&extra).await.text(),
        "done",
        "an extra field is dropped"
    );
}
