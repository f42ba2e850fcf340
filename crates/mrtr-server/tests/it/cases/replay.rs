//! Cases 73 to 95: a state that is used more than once.

use std::path::Path;
use std::sync::Arc;

use mrtr_ledger_sqlite::SqliteLedger;
use serde_json::json;
use tokio::sync::Barrier;

use super::{Refusal, works};
use crate::bank::{Bank, Call, accept};

const ALREADY_USED: Refusal = Refusal::state("already_used");

#[tokio::test]
async fn case_073_nothing_is_burnt_before_everything_holds() {
    let bank = Bank::new();
    let state = bank.open().await;
    let last = state.chars().last().unwrap();
    let other = if last == 'A' { 'E' } else { 'A' };
    let forged = format!("{}{other}", &state[..state.len() - 1]);
    for _ in 0..100 {
        Refusal::state("bad_signature").check("forged", &bank.send(&Call::retry(&forged)).await);
    }
    Refusal::state("different_principal").check(
        "by user-b",
        &bank.send(&Call::retry(&state).by("user-b")).await,
    );
    let bent = Call::retry(&state).argument("amount", 1);
    Refusal::state("different_request").check("other arguments", &bank.send(&bent).await);
    assert_eq!(bank.rows().await, (0, 0));
    works("after 102 refusals", &bank, &state).await;
}

#[tokio::test]
async fn case_074_a_plain_replay_gets_the_stored_result() {
    let bank = Bank::new();
    let state = bank.open().await;
    let first = bank.send(&Call::retry(&state)).await;
    assert_eq!((first.text(), first.is_replayed()), ("done 1", false));
    for id in [json!(3), json!(4), json!("5")] {
        let again = bank.send(&Call::retry(&state).id(id.clone())).await;
        assert_eq!(
            (again.text(), again.is_replayed()),
            ("done 1", true),
            "{again:?}"
        );
        assert_eq!(again.body["id"], id);
    }
    assert_eq!((bank.effects.count(), bank.rows().await), (1, (1, 1)));
}

#[tokio::test]
async fn case_074_a_replay_at_another_replica_gets_the_stored_result() {
    let directory = tempfile::tempdir().unwrap();
    let [here, there] = replicas(&directory.path().join("ledger.sqlite"));
    let state = here.open().await;
    let first = here.send(&Call::retry(&state)).await;
    assert_eq!((first.text(), first.is_replayed()), ("done 1", false));
    for replica in [&there, &here, &there] {
        let again = replica.send(&Call::retry(&state)).await;
        assert_eq!(
            (again.text(), again.is_replayed()),
            ("done 1", true),
            "{again:?}"
        );
    }
    assert_eq!(here.effects.count(), 1);
}

/// Servers that share a ledger's file, by a connection each, and the effects, the clock and the keys.
fn replicas<const N: usize>(path: &Path) -> [Bank; N] {
    let shared = Bank::new();
    std::array::from_fn(|_| {
        let ledger = SqliteLedger::builder(path)
            .clock(Arc::new(shared.clock.clone()))
            .open()
            .unwrap();
        let mut bank = Bank::with(|builder| {
            builder
                .ledger(ledger)
                .state(shared.effects.clone())
                .clock(shared.clock.clone())
        });
        bank.effects = shared.effects.clone();
        bank
    })
}

/// 64 retries at a barrier; how many got a final result, and whether anything else than that or "in progress" came.
async fn race(banks: &[Bank], state: &str, call: fn(&str) -> Call) {
    let barrier = Arc::new(Barrier::new(64));
    let tasks: Vec<_> = (0..64)
        .map(|n| {
            let (bank, barrier, call) = (
                banks[n % banks.len()].clone(),
                Arc::clone(&barrier),
                call(state).id(n),
            );
            tokio::spawn(async move {
                barrier.wait().await;
                bank.send(&call).await
            })
        })
        .collect();
    let mut fresh = 0;
    for task in tasks {
        let reply = task.await.unwrap();
        match reply.code() {
            None => fresh += usize::from(!reply.is_replayed()),
            Some(1001) => assert!(
                reply.body["error"]["data"]["retryAfterMs"].is_u64(),
                "{reply:?}"
            ),
            Some(_) => panic!("{reply:?}"),
        }
    }
    assert_eq!(fresh, 1, "one run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_075_sixty_four_at_once() {
    let bank = Bank::with(|builder| builder.limits(|limits| limits.running_per_principal = 64));
    for round in 1..=200 {
        let state = bank.open().await;
        race(std::slice::from_ref(&bank), &state, Call::retry).await;
        assert_eq!(bank.effects.count(), round);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_075_the_claimed_round_alone_keeps_it_single() {
    let bank = Bank::new();
    for round in 1..=50 {
        let state = bank
            .send(&Call::first().named("transfer_plainly"))
            .await
            .state()
            .to_owned();
        race(std::slice::from_ref(&bank), &state, |state| {
            Call::retry(state).named("transfer_plainly")
        })
        .await;
        assert_eq!(bank.effects.count(), round);
    }
}

/// Four servers with a connection each; servers that are processes of their own race in `crash::races`.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn case_076_four_servers_on_one_file() {
    let directory = tempfile::tempdir().unwrap();
    let banks: [Bank; 4] = replicas(&directory.path().join("ledger.sqlite"));
    for round in 1..=50 {
        let state = banks[0].open().await;
        race(&banks, &state, Call::retry).await;
        assert_eq!(banks[0].effects.count(), round);
    }
}

#[tokio::test]
async fn case_094_a_bad_answer_is_asked_again_and_a_malformed_one_spends_nothing() {
    let bank = Bank::new();
    let state = bank.open().await;
    let bad = Call::retry(&state).answer("confirm", accept(json!({ "ok": "yes" })));
    let again = bank.send(&bad).await;
    assert_eq!(again.asks(), ["confirm"], "{again:?}");
    let new = again.state().to_owned();
    assert_ne!(new, state);
    assert_eq!(bank.effects.count(), 0);
    works("a good answer on the new state", &bank, &new).await;
    ALREADY_USED.check(
        "another answer on the old state",
        &bank.send(&Call::retry(&state)).await,
    );
    assert_eq!((bank.effects.count(), bank.rows().await), (1, (2, 1)));
}

#[tokio::test]
async fn case_095_a_no_cannot_become_a_yes() {
    for (action, text) in [("decline", "declined"), ("cancel", "cancelled")] {
        let bank = Bank::new();
        let state = bank.open().await;
        let no = bank
            .send(&Call::retry(&state).answer("confirm", json!({ "action": action })))
            .await;
        assert_eq!(no.text(), text);
        ALREADY_USED.check(action, &bank.send(&Call::retry(&state)).await);
        assert_eq!((bank.effects.count(), bank.rows().await), (0, (1, 0)));
        let fresh = bank.open().await;
        works("a fresh flow", &bank, &fresh).await;
    }
}
