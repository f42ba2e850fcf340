//! One state many times, with a ledger and without.

use mrtr_ledger::MemoryLedger;
use mrtr_state::SystemClock;
use mrtr_testkit::guards::AlwaysFirst;
use mrtr_testkit::{Presented, RawCall, replay};
use serde_json::json;

use crate::bank::{Bank, hmac};

async fn retry(bank: &Bank) -> RawCall {
    let call = bank
        .harness
        .raw("charge_good")
        .arguments(json!({ "amount": 5 }));
    let asked = call.send().await;
    call.state(asked.expect_state())
        .accept("confirm", json!({ "ok": true }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_267_with_a_ledger_it_runs_once() {
    let bank = Bank::open();
    let replayed = replay(&retry(&bank).await, 16).await;
    replayed.assert_ran_once();
    assert_eq!(bank.effects.count("charge"), 1);
    assert_eq!(
        (replayed.ran(), replayed.refused(), replayed.failed()),
        (1, 0, 0)
    );
    assert_eq!(replayed.stored() + replayed.in_progress(), 31);
    assert_eq!(
        (replayed.at_once().len(), replayed.in_turn().len()),
        (16, 16)
    );
    for reply in replayed.in_turn() {
        assert_eq!(Presented::of(reply), Presented::Stored, "{reply:?}");
        assert_eq!(reply.text(), Some("charged 5"));
    }
    let ids: std::collections::HashSet<String> = replayed
        .replies()
        .map(|reply| reply.json()["id"].to_string())
        .collect();
    assert_eq!(ids.len(), 32, "each has an id of its own");
}

#[tokio::test]
async fn those_that_come_while_it_runs_are_told_so() {
    let bank = Bank::open();
    let call = bank.harness.raw("charge_slowly");
    let asked = call.send().await;
    let retry = call
        .state(asked.expect_state())
        .accept("confirm", json!({ "ok": true }));
    let replayed = replay(&retry, 8).await;
    replayed.assert_ran_once();
    assert_eq!(
        (replayed.in_progress(), replayed.stored()),
        (7, 8),
        "{replayed}"
    );
    assert_eq!(bank.effects.count("charge"), 1);
    let busy = replayed.at_once().iter().find(|one| one.is_in_progress());
    assert!(busy.unwrap().retry_after().is_some());
}

#[tokio::test]
async fn without_a_ledger_every_one_runs() {
    let bank = Bank::without_ledger();
    let replayed = replay(&retry(&bank).await, 3).await;
    assert_eq!((replayed.ran(), bank.effects.count("charge")), (6, 6));
    assert_eq!(
        replayed.to_string(),
        "of 3 at once and 3 in turn: 6 ran, 0 stored, 0 in progress, 0 refused, 0 failed"
    );
}

#[tokio::test]
#[should_panic(expected = "give the server a ledger")]
async fn running_twice_fails_the_assertion() {
    let bank = Bank::with(hmac(), |server, _| {
        let ledger = MemoryLedger::new(std::sync::Arc::new(SystemClock)).unwrap();
        server.ledger(AlwaysFirst::new(ledger))
    });
    replay(&retry(&bank).await, 2).await.assert_ran_once();
}

#[tokio::test]
#[should_panic(expected = "the body did not run")]
async fn case_214_not_running_at_all_fails_the_assertion() {
    let bank = Bank::open();
    let retry = retry(&bank).await.argument("amount", 50);
    let replayed = replay(&retry, 2).await;
    assert_eq!((replayed.refused(), bank.effects.count("charge")), (4, 0));
    replayed.assert_ran_once();
}

#[tokio::test]
async fn other_errors_are_told_from_refusals() {
    let bank = Bank::open();
    let call = retry(&bank).await;
    let strangers = replay(&call.clone().by("mallory"), 1).await;
    assert_eq!((strangers.failed(), strangers.refused()), (2, 0));
    let malformed = replay(&call.clone().answer("confirm", json!({})), 1).await;
    assert_eq!((malformed.failed(), malformed.refused()), (2, 0));
    replay(&call, 1).await.assert_ran_once();
    let other_answer = replay(&call.decline("confirm"), 1).await;
    assert_eq!(
        (other_answer.refused(), bank.effects.count("charge")),
        (2, 1)
    );
}
