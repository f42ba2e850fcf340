//! Effects that happen again in every round are found, and only they.

use mrtr_testkit::rounds::play;
use mrtr_testkit::{RawCall, Rounds, RoundsError, Script, check_rounds};
use serde_json::json;

use crate::bank::Bank;

fn yes() -> Script {
    Script::new().accept("confirm", json!({ "ok": true }))
}

fn no() -> Script {
    Script::new().decline("confirm")
}

fn charge(bank: &Bank, tool: &str) -> RawCall {
    bank.harness.raw(tool).arguments(json!({ "amount": 9 }))
}

async fn checked(tool: &str, script: Script) -> Result<Rounds, RoundsError> {
    let bank = Bank::open();
    let call = match tool {
        "charge_twice" | "mail_between" => bank.harness.raw(tool),
        tool => charge(&bank, tool),
    };
    check_rounds(&call, script, &bank.effects).await
}

#[tokio::test]
async fn an_effect_after_the_question_passes() {
    let rounds = checked("charge_good", yes()).await.unwrap();
    rounds.assert_each_effect_once();
    rounds.assert_no_effect_before_ask();
    assert_eq!(rounds.effects()["charge"], [2]);
    assert_eq!((rounds.len(), rounds.text()), (2, Some("charged 9")));
    checked("charge_good", no())
        .await
        .unwrap()
        .assert_no_effect();
    checked("charge_good", Script::new().cancel("confirm"))
        .await
        .unwrap()
        .assert_no_effect();
}

#[tokio::test]
async fn an_effect_before_the_question_is_found() {
    for script in [yes(), no()] {
        let error = checked("charge_bad", script).await.unwrap_err();
        let RoundsError::Repeated(rounds) = &error else {
            panic!("{error}");
        };
        let repeated = rounds.repeated();
        assert_eq!(
            (repeated[0].effect(), repeated[0].rounds()),
            ("charge", &[1, 2][..])
        );
        let message = error.to_string();
        for part in [
            "`charge` happened 2 times, in rounds 1 and 2",
            "Ask first and act last",
            "flow.once(",
            "round 1: charge; then it asked confirm",
            "round 2: charge; then it ended: \"charged 9, agreed: ",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}

#[tokio::test]
async fn once_makes_the_bad_order_pass() {
    for script in [yes(), no()] {
        let rounds = checked("charge_once", script).await.unwrap();
        rounds.assert_each_effect_once();
        assert_eq!(rounds.effects()["charge"], [1]);
    }
}

#[tokio::test]
#[should_panic(expected = "charge happened before a question")]
async fn but_it_is_not_ask_first() {
    let rounds = checked("charge_once", yes()).await.unwrap();
    rounds.assert_no_effect_before_ask();
}

#[tokio::test]
async fn an_effect_between_two_questions_is_found_and_the_one_at_the_end_is_not() {
    let script = Script::new()
        .accept("a", json!({ "ok": true }))
        .decline("b");
    let error = checked("mail_between", script).await.unwrap_err();
    let repeated = error.rounds().repeated();
    assert!(matches!(error, RoundsError::Repeated(_)), "{error}");
    assert_eq!(repeated.len(), 1, "{error}");
    assert_eq!(
        (repeated[0].effect(), repeated[0].rounds()),
        ("mail", &[2, 3][..])
    );
}

#[tokio::test]
async fn twice_in_one_round_is_told_apart() {
    let error = checked("charge_twice", yes()).await.unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("`charge` happened 2 times in round 2"),
        "{message}"
    );
    assert!(
        message.contains("a name of its own") && !message.contains("once("),
        "{message}"
    );
}

#[tokio::test]
async fn what_cannot_be_checked_does_not_pass() {
    let bank = Bank::open();
    let error = check_rounds(&bank.harness.raw("plain"), yes(), &bank.effects)
        .await
        .unwrap_err();
    assert!(matches!(error, RoundsError::NeverAsked(_)), "{error}");
    assert_eq!(
        play(&bank.harness.raw("plain"), yes(), &bank.effects)
            .await
            .unwrap()
            .len(),
        1
    );

    let error = checked("charge_good", Script::new()).await.unwrap_err();
    assert!(
        matches!(&error, RoundsError::Unanswered { key, .. } if key == "confirm"),
        "{error}"
    );

    let call = charge(&bank, "charge_good").by("mallory");
    let error = check_rounds(&call, yes(), &bank.effects).await.unwrap_err();
    assert!(matches!(error, RoundsError::Refused(_)), "{error}");

    let ever = (0..200).fold(Script::new(), |script, n| script.decline(format!("q{n}")));
    let error = check_rounds(&bank.harness.raw("endless"), ever, &bank.effects)
        .await
        .unwrap_err();
    assert!(matches!(error, RoundsError::Endless(_)), "{error}");
}

#[tokio::test]
#[should_panic(expected = "no effect happened")]
async fn effects_that_nobody_reports_are_missed() {
    let bank = Bank::open();
    let rounds = check_rounds(&bank.harness.raw("silent"), yes(), &bank.effects)
        .await
        .unwrap();
    rounds.assert_no_effect();
    rounds.assert_each_effect_once();
}

#[tokio::test]
#[should_panic(expected = "charge happened, and nothing should have")]
async fn an_effect_that_was_declined_is_told() {
    checked("charge_once", no())
        .await
        .unwrap()
        .assert_no_effect();
}

#[tokio::test]
async fn a_script_answers_in_turn_and_earlier_effects_do_not_count() {
    let bank = Bank::open();
    bank.effects.happened("charge");
    let call = charge(&bank, "charge_good");
    let script = Script::new()
        .accept("confirm", json!({ "ok": "yes" }))
        .accept("confirm", json!({ "ok": true }));
    let rounds = check_rounds(&call, script, &bank.effects).await.unwrap();
    assert_eq!((rounds.len(), rounds.text()), (3, Some("charged 9")));
    rounds.assert_each_effect_once();
    assert_eq!(bank.effects.count("charge"), 2);
    // A check begins anew, however many came before it.
    for _ in 0..2 {
        let rounds = check_rounds(&call, yes(), &bank.effects).await.unwrap();
        assert_eq!(rounds.effects()["charge"], [2]);
    }
}

#[tokio::test]
async fn the_last_answer_of_a_script_stands() {
    let never_good = Script::new()
        .accept("confirm", json!({ "ok": 1 }))
        .accept("confirm", json!({ "ok": "yes" }));
    let error = checked("charge_good", never_good).await.unwrap_err();
    assert!(matches!(error, RoundsError::Endless(_)), "{error}");
}
