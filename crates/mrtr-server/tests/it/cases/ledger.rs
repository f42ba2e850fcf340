//! Cases 78 to 112: a ledger that is locked, full, purged, another one or silent, and clocks that are wrong.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::{Ledger as _, Limits, MIN_RETENTION, MemoryLedger};
use mrtr_ledger_sqlite::SqliteLedger;
use mrtr_ledger_sqlite::rusqlite::Connection;
use mrtr_state::{Clock as _, Timestamp};
use mrtr_testkit::ManualClock;
use serde_json::json;

use super::{Refusal, works};
use crate::bank::{Bank, Call, Effects, Reply, T0, accept};
use crate::tap::{Broken, Mode, tapped};

const YEARS: Duration = Duration::from_secs(10 * 365 * 86_400);

/// A bank on a ledger's file, which goes by the bank's clock.
fn on_file(path: &Path, wait: Duration, clock: &ManualClock, effects: &Effects) -> Bank {
    let ledger = SqliteLedger::builder(path)
        .clock(Arc::new(clock.clone()))
        .retention(MIN_RETENTION)
        .wait(wait)
        .open()
        .unwrap();
    on_ledger(Arc::new(ledger), clock, effects)
}

fn on_ledger(ledger: Arc<dyn mrtr_ledger::Ledger>, clock: &ManualClock, effects: &Effects) -> Bank {
    let bank = Bank::with(|builder| {
        builder
            .ledger(Arc::clone(&ledger))
            .clock(clock.clone())
            .state(effects.clone())
    });
    Bank {
        effects: effects.clone(),
        clock: clock.clone(),
        ledger: Some(ledger),
        ..bank
    }
}

fn clock() -> ManualClock {
    ManualClock::at(Timestamp::from_millis(T0))
}

/// What is said when the ledger cannot be asked: that nothing was done, and that the same may be tried again.
fn is_retryable(reply: &Reply) -> bool {
    let message = reply.body["error"]["message"].as_str();
    reply.status == 200
        && reply.code() == Some(1003)
        && message.is_some_and(|message| message.ends_with("Repeat the same request later."))
}

fn plainly(state: &str) -> Call {
    Call::retry(state).named("transfer_plainly")
}

async fn open_plainly(bank: &Bank, token: &str) -> String {
    let first = Call::first().named("transfer_plainly").by(token);
    bank.send(&first).await.state().to_owned()
}

#[tokio::test]
async fn case_078_a_locked_file_is_no_permission() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.sqlite");
    let bank = on_file(
        &file,
        Duration::from_millis(50),
        &clock(),
        &Effects::default(),
    );
    let state = bank.open().await;
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let reply = bank.send(&Call::retry(&state)).await;
    assert!(is_retryable(&reply), "{reply:?}");
    assert_eq!(bank.effects.count(), 0);
    other.execute_batch("ROLLBACK").unwrap();
    bank.server.settled().await;
    works("the lock is gone", &bank, &state).await;
}

/// Whoever fills the ledger is refused, retryably, and pushes nobody's row out; in the end the ledger is full for all, and forgets nothing.
#[tokio::test]
async fn case_080_a_flood_makes_nothing_answerable_again() {
    let limits = Limits {
        rows_per_account: 900,
        rows: 1_000,
        ..Limits::NONE
    };
    let clock = clock();
    let ledger = MemoryLedger::new(Arc::new(clock.clone()))
        .unwrap()
        .with_limits(limits);
    let bank = on_ledger(Arc::new(ledger), &clock, &Effects::default());
    let used = bank.open().await;
    works("before the flood", &bank, &used).await;

    let mut taken = 0;
    for _ in 0..2_000 {
        let state = open_plainly(&bank, "user-b").await;
        let reply = bank.send(&plainly(&state).by("user-b")).await;
        match reply.code() {
            None => taken += 1,
            Some(_) => assert!(is_retryable(&reply), "{reply:?}"),
        }
    }
    assert_eq!((taken, bank.effects.count()), (900, 901));
    let again = bank.send(&Call::retry(&used)).await;
    assert!(again.is_replayed(), "{again:?}");

    // The others have the rest; then nobody has any.
    while bank.rows().await.0 < 999 {
        let state = open_plainly(&bank, "user-a").await;
        assert_eq!(bank.send(&plainly(&state)).await.text(), "done");
    }
    let effects = bank.effects.count();
    let state = bank.open().await;
    assert!(is_retryable(&bank.send(&Call::retry(&state)).await));
    let no = Call::retry(&used).answer("confirm", json!({ "action": "decline" }));
    Refusal::state("already_used").check("another answer", &bank.send(&no).await);
    assert_eq!(bank.effects.count(), effects);
    // Rows that have expired make room.
    bank.advance(Duration::from_secs(700));
    let state = bank.open().await;
    works("when there is room", &bank, &state).await;
}

/// Purged at every moment around expiry and skew, and replayed at a replica whose clock is behind by the skew.
#[tokio::test]
async fn case_082_a_purge_opens_nothing_to_a_clock_that_is_behind() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.sqlite");
    let (now, behind, effects) = (clock(), clock(), Effects::default());
    let wait = Duration::from_secs(60);
    let (here, there) = (
        on_file(&file, wait, &now, &effects),
        on_file(&file, wait, &behind, &effects),
    );
    let state = here.open().await;
    now.advance(Duration::from_secs(1));
    works("at the first server", &here, &state).await;

    let expiry = T0 + 600_000;
    for (moment, rows) in [
        (expiry - 1, 1),
        (expiry, 1),
        (expiry + 59_999, 1),
        (expiry + 60_000, 1),
        (expiry + 60_001, 0),
    ] {
        now.set(Timestamp::from_millis(moment));
        behind.set(Timestamp::from_millis(moment - 60_000));
        here.ledger.as_ref().unwrap().purge().await.unwrap();
        assert_eq!(here.rows().await.0, rows, "at {moment}");
        let reply = there.send(&Call::retry(&state)).await;
        match rows {
            1 => assert!(reply.is_replayed(), "at {moment}: {reply:?}"),
            _ => assert_eq!(reply.reason(), Some("expired"), "at {moment}: {reply:?}"),
        }
        assert_eq!(effects.count(), 1, "at {moment}");
    }
}

#[tokio::test]
async fn case_084_a_clock_that_jumped_ahead_locks_nobody_out() {
    let bank = Bank::new();
    let ledger = bank.ledger.clone().unwrap();
    let start = bank.clock.now();
    let used = bank.open().await;
    works("before", &bank, &used).await;

    // One request, and a purge, ten years ahead.
    bank.advance(YEARS);
    let ahead = bank.open().await;
    works("ahead", &bank, &ahead).await;
    ledger.purge().await.unwrap();
    bank.clock.set(start.saturating_add(Duration::from_secs(1)));
    let fresh = bank.open().await;
    works("put right: the mark is what was removed", &bank, &fresh).await;
    let reply = bank.send(&Call::retry(&used)).await;
    assert_eq!(reply.reason(), Some("expired"), "{reply:?}");
    let reply = bank.send(&Call::retry(&ahead)).await;
    assert_eq!(reply.reason(), Some("not_yet_valid"), "{reply:?}");

    // Where what was claimed ahead was removed too, nothing below is believed, until an operator says so.
    bank.advance(YEARS * 2);
    ledger.purge().await.unwrap();
    bank.clock.set(start.saturating_add(Duration::from_secs(2)));
    let shut = bank.open().await;
    let reply = bank.send(&Call::retry(&shut)).await;
    assert_eq!(reply.reason(), Some("expired"), "{reply:?}");
    ledger.rotate_epoch().await.unwrap();
    bank.advance(Duration::from_secs(60));
    let fresh = bank.open().await;
    works("after a rotation", &bank, &fresh).await;
}

/// From the epoch's first millisecond to the last that there is, forwards and back, with states and rows of every other moment.
#[tokio::test]
async fn case_085_time_may_go_backwards_to_its_beginning() {
    let moments = [T0, 0, 1, T0 - 61_000, u64::MAX, u64::MAX - 1, T0];
    let bank = Bank::new();
    let mut states = vec![bank.open().await];
    for moment in moments {
        bank.clock.set(Timestamp::from_millis(moment));
        let first = bank.send(&Call::first()).await;
        if !first.asks().is_empty() {
            states.push(first.state().to_owned());
        }
        for state in &states {
            let before = bank.effects.count();
            let reply = bank.send(&Call::retry(state)).await;
            let done = reply.code().is_none() && !reply.is_replayed();
            assert_eq!(bank.effects.count() - before, usize::from(done));
            assert!(
                matches!(reply.code(), None | Some(-32602 | -32603)),
                "at {moment}: {reply:?}"
            );
        }
        bank.ledger.as_ref().unwrap().purge().await.unwrap();
    }
    assert!(bank.effects.count() <= states.len(), "once each at most");
}

/// Two servers with the same keys and a ledger each: the second one does not take the first one's state.
#[tokio::test]
async fn case_108_a_state_of_another_ledger() {
    let (clock, effects) = (clock(), Effects::default());
    let ledger = || Arc::new(MemoryLedger::new(Arc::new(clock.clone())).unwrap());
    let [here, there] = [ledger(), ledger()].map(|ledger| on_ledger(ledger, &clock, &effects));
    let state = here.open().await;
    works("at its own server", &here, &state).await;
    let reply = there.send(&Call::retry(&state)).await;
    Refusal::state("stale_epoch").check("at the other", &reply);
    let unused = here.open().await;
    let reply = there.send(&Call::retry(&unused)).await;
    Refusal::state("stale_epoch").check("unused, at the other", &reply);
    assert_eq!((effects.count(), there.rows().await), (1, (0, 0)));
    works("unused, at its own server", &here, &unused).await;
}

/// Neither arguments nor answers are in the ledger's files, whatever came of the call.
#[tokio::test]
async fn case_110_the_ledger_has_no_argument_and_no_answer() {
    const SECRET: &str = "SECRET-4711";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.sqlite");
    let wait = Duration::from_secs(60);
    let bank = on_file(&file, wait, &clock(), &Effects::default());
    let survey = || Call::of("survey", json!({}));
    let content = json!({ "age": 5, "mail": "SECRET-4711@a.example" });
    let accepted = accept(content.clone());
    let declined = json!({ "action": "decline", "content": content });
    let invalid = accept(json!({ "age": SECRET }));
    for answer in [accepted, declined, invalid] {
        let state = bank.send(&survey()).await.state().to_owned();
        let retry = survey().id(2).state(&state).answer("confirm", answer);
        assert_eq!(bank.send(&retry).await.code(), None);
    }
    let transfer = |call: Call| call.argument("memo", SECRET);
    let state = bank.send(&transfer(Call::first())).await.state().to_owned();
    let done = bank.send(&transfer(Call::retry(&state))).await;
    assert_eq!((done.text(), bank.rows().await), ("done 2", (4, 1)));
    let files: Vec<u8> = fs::read_dir(folder.path())
        .unwrap()
        .flat_map(|file| fs::read(file.unwrap().path()).unwrap())
        .collect();
    let holds = |text: &str| {
        files
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    };
    assert!(holds("done 2"), "outcomes are there");
    assert!(!holds(SECRET));
}

/// While the ledger waits for a lock, the one thread serves the others: the lock goes only after they were answered.
#[tokio::test(flavor = "current_thread")]
async fn case_111_others_are_answered_while_the_ledger_waits() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.sqlite");
    let wait = Duration::from_secs(60);
    let bank = on_file(&file, wait, &clock(), &Effects::default());
    let state = bank.open().await;
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let (waiting, retry) = (bank.clone(), Call::retry(&state));
    let waiting = tokio::spawn(async move { waiting.send(&retry).await });
    for _ in 0..20 {
        tokio::task::yield_now().await;
        let discovered = bank.send(&Call::nameless("server/discover")).await;
        assert_eq!(discovered.code(), None, "{discovered:?}");
    }
    assert!(!waiting.is_finished());
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(waiting.await.unwrap().text(), "done 1");
}

/// Whatever is the matter with a ledger, a claim without word is 1003 and a settling without word is 1002; nothing else is said.
#[tokio::test]
async fn case_112_each_failure_of_a_ledger_has_one_of_two_codes() {
    for broken in Broken::ALL {
        let (bank, ledger) = tapped(|builder| builder);
        let state = bank.open().await;
        ledger.claims.set(Mode::Fails(broken));
        let reply = bank.send(&Call::retry(&state)).await;
        assert!(is_retryable(&reply), "{broken:?}: {reply:?}");
        assert_eq!(bank.effects.count(), 0, "{broken:?}");
        ledger.claims.set(Mode::Speaks);
        bank.server.settled().await;
        if broken != Broken::Closed {
            works(&format!("{broken:?} is over"), &bank, &state).await;
        }

        let (bank, ledger) = tapped(|builder| builder);
        let state = bank.open().await;
        ledger.settlings.set(Mode::Fails(broken));
        let reply = bank.send(&Call::retry(&state)).await;
        assert_eq!(
            (reply.status.as_u16(), reply.code(), bank.effects.count()),
            (200, Some(1002), 1),
            "{broken:?}: {reply:?}"
        );
        ledger.settlings.set(Mode::Speaks);
        bank.server.settled().await;
    }
}
