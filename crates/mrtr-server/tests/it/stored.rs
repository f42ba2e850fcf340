//! Journals that are too large to be carried: in the ledger, and only a key to them in the state.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mrtr_ledger::{Ledger, Limits, MemoryLedger};
use mrtr_server::{
    Args, BuildError, DurableFlow, Flow, InputRequired, Resumed, Server, ServerBuilder, State,
    StoredCodec, ToolError, Turn, tool,
};
use mrtr_state::{Key, KeyRing, Timestamp};
use mrtr_state_aead::AeadCodec;
use mrtr_testkit::ManualClock;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bank::{Bank, Call, Effects, Reply, T0, accept, codec};
use crate::durable::{Door, confirm};
use crate::session::{Session, everything, text};
use crate::tap::{Mode, Tap};

/// What the flow remembers, and what nobody should read.
const SECRET: &str = "the-vault-opens-with-4711";

#[derive(Deserialize, JsonSchema)]
struct Order {
    /// How often the secret is remembered.
    times: usize,
}

/// Remembers, asks twice, acts once.
async fn order(
    Args(order): Args<Order>,
    flow: DurableFlow,
    State(effects): State<Effects>,
) -> Result<String, ToolError> {
    let text = flow.memo("text", async || SECRET.repeat(order.times)).await;
    let _ = flow.ask("q", confirm()).await;
    let _ = flow.ask("r", confirm()).await;
    let entry = flow
        .once("act", async || Ok::<_, ToolError>(effects.happen()))
        .await?;
    Ok(format!("{} bytes, entry {entry}", text.len()))
}

/// Acts before it asks.
async fn act_first(
    flow: DurableFlow,
    State(effects): State<Effects>,
) -> Result<&'static str, ToolError> {
    flow.once("act", async || Ok::<_, ToolError>(effects.happen()))
        .await?;
    let text = flow.memo("text", async || SECRET.repeat(100)).await;
    let _ = flow.ask("q", confirm()).await;
    Ok(if text.is_empty() { "forgot" } else { "knew" })
}

/// Remembers by hand.
async fn by_hand(resumed: Resumed) -> Result<Turn<String>, ToolError> {
    Ok(match resumed.state::<String>()? {
        Some(text) => Turn::Complete(format!("{} bytes", text.len())),
        None => InputRequired::new()
            .ask("q", confirm())
            .state(&SECRET.repeat(100))
            .into(),
    })
}

fn tools(builder: ServerBuilder) -> ServerBuilder {
    builder
        .tool(tool("order", order))
        .tool(tool("act_first", act_first))
        .tool(tool("by_hand", by_hand))
}

/// A bank on this ledger that stores journals of more than so many bytes.
fn storing(above: usize, ledger: &Arc<impl Ledger>, clock: &ManualClock) -> Bank {
    bank_with(|builder| {
        builder
            .codec(StoredCodec::above(above, codec()))
            .clock(clock.clone())
            .ledger(Arc::clone(ledger))
    })
}

fn bank_with(change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Bank {
    Bank::with(|builder| change(tools(builder)))
}

fn clock() -> ManualClock {
    ManualClock::at(Timestamp::from_millis(T0))
}

fn memory(clock: &ManualClock) -> Arc<MemoryLedger> {
    Arc::new(MemoryLedger::new(Arc::new(clock.clone())).unwrap())
}

/// A bank that stores journals of more than 512 bytes, and its ledger, which can be made to misbehave.
fn tapped() -> (Bank, Arc<Tap>) {
    let clock = clock();
    let tap = Tap::new(clock.clone());
    let mut bank = storing(512, &tap, &clock);
    bank.clock = clock;
    (bank, tap)
}

async fn notes(ledger: &impl Ledger) -> u64 {
    ledger.rows().await.unwrap().notes
}

/// The first call, whose journal is of more than 2,500 bytes.
fn large() -> Call {
    Call::of("order", json!({ "times": 100 }))
}

fn small() -> Call {
    Call::of("order", json!({ "times": 1 }))
}

fn yes(call: Call, asked: &Reply, key: &str) -> Call {
    call.id(2)
        .state(asked.state())
        .answer(key, accept(json!({ "ok": true })))
}

/// What an HMAC state carries, in place of a journal or as one.
fn carried(state: &str) -> Value {
    let claims = state.split('.').nth(3).expect("claims");
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    claims["data"].clone()
}

#[tokio::test]
async fn a_journal_is_stored_above_the_threshold_and_carried_at_it_and_below() {
    let clock = clock();
    let ledger = memory(&clock);
    let asked = storing(10_000, &ledger, &clock).send(&large()).await;
    let size = carried(asked.state()).to_string().len();
    assert!(size > 2_500, "{size}");
    assert_eq!(notes(&ledger).await, 0);

    for (above, stored) in [(size + 1, false), (size, false), (size - 1, true)] {
        let ledger = memory(&clock);
        let bank = storing(above, &ledger, &clock);
        let asked = bank.send(&large()).await;
        assert_eq!(notes(&ledger).await, u64::from(stored), "above {above}");
        assert_eq!(asked.state().len() < 800, stored, "{}", asked.state().len());
        assert_eq!(carried(asked.state())["kept"].is_string(), stored);
        let again = bank.send(&yes(large(), &asked, "q")).await;
        assert_eq!(again.asks(), ["r"], "{again:?}");
        let done = bank.send(&yes(large(), &again, "r")).await;
        assert_eq!(done.text(), "2500 bytes, entry 1");
        // Each round writes its journal anew, and the second one holds an answer more: it is above each of these.
        assert_eq!(notes(&ledger).await, 1 + u64::from(stored));
    }
    let bank = storing(512, &ledger, &clock);
    assert_eq!(bank.send(&small()).await.asks(), ["q"]);
    assert_eq!(notes(&ledger).await, 0);
}

#[tokio::test]
async fn any_instance_with_keys_and_ledger_goes_on_with_it_whatever_it_would_store_itself() {
    let clock = clock();
    let ledger = memory(&clock);
    let one = storing(512, &ledger, &clock);
    let other = storing(4096, &ledger, &clock);
    let carrying = bank_with(|builder| builder.clock(clock.clone()).ledger(Arc::clone(&ledger)));
    let asked = one.send(&large()).await;
    let again = other.send(&yes(large(), &asked, "q")).await;
    assert_eq!((again.asks(), notes(&ledger).await), (vec!["r"], 1));
    let asked = one.send(&large()).await;
    let again = one.send(&yes(large(), &asked, "q")).await;
    let done = carrying.send(&yes(large(), &again, "r")).await;
    assert_eq!(done.text(), "2500 bytes, entry 1");
}

#[tokio::test]
async fn a_handler_that_asks_by_hand_keeps_its_state_there_too() {
    let (bank, tap) = tapped();
    let call = || Call::of("by_hand", json!({}));
    let asked = bank.send(&call()).await;
    assert_eq!(notes(&tap).await, 1);
    let done = bank.send(&yes(call(), &asked, "q")).await;
    assert_eq!(done.text(), "2500 bytes");
}

#[tokio::test]
async fn the_same_retry_gets_the_stored_question_and_its_key_still_opens() {
    let (bank, tap) = tapped();
    let asked = bank.send(&large()).await;
    let first = bank.send(&yes(large(), &asked, "q")).await;
    let again = bank.send(&yes(large(), &asked, "q")).await;
    assert!(again.is_replayed() && !first.is_replayed());
    assert_eq!((again.state(), notes(&tap).await), (first.state(), 2));

    let done = bank.send(&yes(large(), &again, "r")).await;
    let replayed = bank.send(&yes(large(), &again, "r")).await;
    assert_eq!(done.text(), "2500 bytes, entry 1");
    assert_eq!(
        (replayed.text(), replayed.is_replayed()),
        (done.text(), true)
    );
    // Another answer to a state that was answered is refused, as ever.
    let other = yes(large(), &again, "r").answer("r", json!({ "action": "decline" }));
    assert_eq!(bank.send(&other).await.reason(), Some("already_used"));
    assert_eq!(bank.effects.count(), 1);
}

/// The ledger is not even asked: it would not have answered.
#[tokio::test(start_paused = true)]
async fn nothing_is_looked_up_before_everything_else_holds() {
    let (bank, tap) = tapped();
    let asked = bank.send(&large()).await;
    let good = || yes(large(), &asked, "q");
    let mut bent = asked.state().to_owned();
    let last = bent.pop().unwrap();
    bent.push(if last == 'A' { 'Q' } else { 'A' });
    tap.lookups.set(Mode::Silent);
    assert_eq!(bank.send(&good()).await.code(), Some(1003));
    let refused = [
        (good().by("user-b"), "different_principal"),
        (good().argument("times", 101), "different_request"),
        (good().state(&bent), "bad_signature"),
    ];
    for (call, reason) in refused {
        assert_eq!(bank.send(&call).await.reason(), Some(reason));
    }
    // Nothing was spent by any of it.
    tap.lookups.set(Mode::Speaks);
    assert_eq!(bank.send(&good()).await.asks(), ["r"]);
}

#[tokio::test(start_paused = true)]
async fn no_word_on_a_look_up_spends_nothing() {
    let (bank, tap) = tapped();
    let asked = bank.send(&large()).await;
    tap.lookups.set(Mode::Silent);
    let silent = bank.send(&yes(large(), &asked, "q")).await;
    assert_eq!(silent.code(), Some(1003), "{silent:?}");
    assert!(silent.body.to_string().contains("not spent"));
    assert_eq!(tap.rows().await.unwrap().rounds, 0);
    tap.lookups.set(Mode::Speaks);
    // Malformed answers are found after the look-up, and spend nothing either.
    let malformed = yes(large(), &asked, "q").answer("q", json!({ "action": "perhaps" }));
    assert_eq!(bank.send(&malformed).await.code(), Some(-32602));
    assert_eq!(bank.send(&yes(large(), &asked, "q")).await.asks(), ["r"]);
}

#[tokio::test(start_paused = true)]
async fn a_first_call_whose_journal_cannot_be_kept_may_be_repeated() {
    let (bank, tap) = tapped();
    tap.notes.set(Mode::Silent);
    let silent = bank.send(&large()).await;
    assert_eq!(silent.code(), Some(1003), "{silent:?}");
    assert!(silent.body.to_string().contains("nothing could be asked"));
    // What is small needs no word.
    assert_eq!(bank.send(&small()).await.asks(), ["q"]);
    // A word that was lost: the repetition finds what was written.
    tap.notes.set(Mode::LosesItsWord);
    tap.notes.after(1, Mode::Speaks);
    let asked = bank.send(&large()).await;
    assert_eq!((asked.asks(), notes(&tap).await), (vec!["q"], 1));
    assert_eq!(bank.send(&yes(large(), &asked, "q")).await.asks(), ["r"]);
}

#[tokio::test(start_paused = true)]
async fn a_claimed_round_whose_journal_cannot_be_kept_is_unknown() {
    let (bank, tap) = tapped();
    let asked = bank.send(&large()).await;
    tap.notes.set(Mode::Silent);
    for _ in 0..2 {
        let silent = bank.send(&yes(large(), &asked, "q")).await;
        assert_eq!(silent.code(), Some(1002), "{silent:?}");
        tap.notes.set(Mode::Speaks);
    }
    // A first call that has acted cannot be repeated as if it had not.
    tap.notes.set(Mode::Silent);
    let acted = bank.send(&Call::of("act_first", json!({}))).await;
    assert_eq!((acted.code(), bank.effects.count()), (Some(1002), 1));
    assert!(acted.body.to_string().contains("act"), "{acted:?}");
}

/// Its lease has lapsed and somebody was told so: what it would remember is nobody's.
#[tokio::test]
async fn a_withdrawn_round_keeps_no_journal() {
    let (clock, door) = (clock(), Door::default());
    let tap = Tap::new(clock.clone());
    let bank = Bank::with(|builder| {
        builder
            .codec(StoredCodec::above(512, codec()))
            .clock(clock.clone())
            .ledger(Arc::clone(&tap))
            .state(door.clone())
            .tool(tool(
                "stalls",
                async |flow: Flow, State(door): State<Door>| {
                    let text = flow.memo("text", async || SECRET.repeat(100)).await;
                    let _ = flow.ask("q", confirm()).await;
                    door.reached.notify_one();
                    door.open.notified().await;
                    let _ = flow.ask("r", confirm()).await;
                    text
                },
            ))
    });
    let call = || Call::of("stalls", json!({}));
    let asked = bank.send(&call()).await;
    let stalled = tokio::spawn({
        let (bank, retry) = (bank.clone(), yes(call(), &asked, "q"));
        async move { bank.send(&retry).await }
    });
    door.reached.notified().await;
    clock.advance(Duration::from_secs(31));
    let told = bank.send(&yes(call(), &asked, "q")).await;
    assert_eq!(told.code(), Some(1002), "{told:?}");
    door.open.notify_one();
    assert_eq!(stalled.await.unwrap().code(), Some(1002));
    assert_eq!(notes(&tap).await, 1, "of the first call");
}

#[tokio::test]
async fn a_full_ledger_refuses_a_first_journal_and_no_later_one() {
    let clock = clock();
    let limits = |rows_per_account| Limits {
        rows_per_account,
        ..Limits::NONE
    };
    let full = |rows| {
        let ledger = MemoryLedger::new(Arc::new(clock.clone())).unwrap();
        Arc::new(ledger.with_limits(limits(rows)))
    };
    let ledger = full(1);
    let bank = storing(512, &ledger, &clock);
    assert_eq!(bank.send(&large()).await.asks(), ["q"]);
    let refused = bank.send(&large()).await;
    assert_eq!(refused.code(), Some(1003), "{refused:?}");
    assert!(refused.body.to_string().contains("no room"));
    assert_eq!(bank.send(&small()).await.asks(), ["q"], "it needs none");
    assert_eq!(bank.send(&large().by("user-b")).await.asks(), ["q"]);
    assert_eq!(notes(&ledger).await, 2);

    // The round was admitted, and so was the step before the question: neither is turned away half-way.
    let bank = storing(512, &full(2), &clock);
    let asked = bank.send(&large()).await;
    assert_eq!(bank.send(&yes(large(), &asked, "q")).await.asks(), ["r"]);
    let bank = storing(512, &full(1), &clock);
    let acted = bank.send(&Call::of("act_first", json!({}))).await;
    assert_eq!((acted.asks(), bank.effects.count()), (vec!["q"], 1));
}

#[tokio::test]
async fn a_stored_journal_expires_with_its_state_and_is_purged_after_the_retention() {
    let (bank, tap) = tapped();
    let answered = bank.send(&large()).await;
    let unanswered = bank.send(&large()).await;
    let next = bank.send(&yes(large(), &answered, "q")).await;
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    bank.advance(minutes(10));
    let late = bank.send(&yes(large(), &answered, "q")).await;
    assert!(late.is_replayed() && late.state() == next.state());
    let expired = bank.send(&yes(large(), &unanswered, "q")).await;
    assert_eq!(expired.reason(), Some("expired"));

    tap.purge().await.unwrap();
    assert_eq!(
        notes(&tap).await,
        3,
        "they stay for as long as late repeats are answered"
    );
    bank.advance(minutes(10) + Duration::from_millis(1));
    assert_eq!(tap.purge().await.unwrap().notes, 3);
    for asked in [&answered, &unanswered] {
        let gone = bank.send(&yes(large(), asked, "q")).await;
        assert_eq!(gone.reason(), Some("expired"));
    }
}

/// By the ledger's clock the journal's time, retention included, was over long ago.
#[tokio::test]
async fn a_journal_that_is_not_there_is_told_with_care() {
    let (clock, ahead) = (clock(), clock());
    let ledger = memory(&ahead);
    let bank = storing(512, &ledger, &clock);
    let asked = bank.send(&large()).await;
    ahead.advance(Duration::from_secs(3600));
    ledger.purge().await.unwrap();
    let gone = bank.send(&yes(large(), &asked, "q")).await;
    assert_eq!(gone.reason(), Some("not_kept"), "{gone:?}");
    assert!(gone.body.to_string().contains("Check before"), "{gone:?}");
    // A late repeat is told the same as that of any state which nobody knows.
    clock.advance(Duration::from_secs(601));
    let late = bank.send(&yes(large(), &asked, "q")).await;
    assert_eq!(late.reason(), Some("expired"));
}

/// With HMAC the ledger's bytes are nobody's secret and nobody's proof: the state's digest is.
#[tokio::test]
async fn a_journal_that_was_changed_in_the_ledger_is_refused() {
    for aead in [false, true] {
        let clock = clock();
        let tap = Tap::new(clock.clone());
        let bank = bank_with(|builder| {
            let builder = match aead {
                true => builder.codec(StoredCodec::above(512, AeadCodec::new(ring(1)).unwrap())),
                false => builder.codec(StoredCodec::above(512, codec())),
            };
            builder.clock(clock).ledger(Arc::clone(&tap))
        });
        let asked = bank.send(&large()).await;
        let own = std::mem::take(&mut *tap.seen.lock().unwrap());
        let text = String::from_utf8(own).unwrap();
        let changed = match aead {
            false => text.replace("4711", "0815"),
            true => text.replacen('A', "B", 1),
        };
        assert_ne!(changed, text);
        *tap.instead.lock().unwrap() = Some(changed.into_bytes());
        let refused = bank.send(&yes(large(), &asked, "q")).await;
        assert_eq!(refused.reason(), Some("not_kept"), "{refused:?}");
        *tap.instead.lock().unwrap() = None;
        assert_eq!(bank.send(&yes(large(), &asked, "q")).await.asks(), ["r"]);
    }
}

/// Another state's journal is whole, and is not this one's: the same person's, for the same request, with other memos.
#[tokio::test]
async fn a_journal_of_another_state_is_none_of_this_one() {
    let (bank, tap) = tapped();
    let other = bank.send(&large()).await;
    let others = std::mem::take(&mut *tap.seen.lock().unwrap());
    let asked = bank.send(&large()).await;
    *tap.instead.lock().unwrap() = Some(others);
    let refused = bank.send(&yes(large(), &asked, "q")).await;
    assert_eq!(refused.reason(), Some("not_kept"), "{refused:?}");
    assert_eq!(bank.send(&yes(large(), &other, "q")).await.asks(), ["r"]);
}

fn ring(byte: u8) -> KeyRing {
    let key: Vec<u8> = (byte..byte + 32).collect();
    KeyRing::new(Key::from_bytes(&key).unwrap())
}

#[tokio::test]
async fn with_aead_nothing_of_a_journal_is_readable_in_the_ledger_and_with_hmac_all_of_it() {
    for aead in [false, true] {
        let clock = clock();
        let tap = Tap::new(clock.clone());
        let bank = bank_with(|builder| {
            let builder = match aead {
                true => builder.codec(StoredCodec::above(512, AeadCodec::new(ring(1)).unwrap())),
                false => builder.codec(StoredCodec::above(512, codec())),
            };
            builder.clock(clock).ledger(Arc::clone(&tap))
        });
        let asked = bank.send(&large()).await;
        assert_eq!(bank.send(&yes(large(), &asked, "q")).await.asks(), ["r"]);
        let seen = tap.seen.lock().unwrap().clone();
        assert!(seen.len() > 5_000, "both journals went there");
        let plain = [SECRET, "4711", "accept", "\"q\""];
        for text in plain {
            let readable = String::from_utf8_lossy(&seen).contains(text);
            assert_eq!(readable, !aead, "{text}");
        }
        let decoded = String::from_utf8_lossy(&seen)
            .split('.')
            .map(|part| URL_SAFE_NO_PAD.decode(part).unwrap_or_default())
            .any(|bytes| String::from_utf8_lossy(&bytes).contains("4711"));
        assert!(!decoded);
    }
}

#[tokio::test]
async fn keys_are_rotated_without_dropping_a_flow() {
    let clock = clock();
    let ledger = memory(&clock);
    let bank = |ring: KeyRing| {
        bank_with(|builder| {
            builder
                .codec(StoredCodec::above(512, AeadCodec::new(ring).unwrap()))
                .clock(clock.clone())
                .ledger(Arc::clone(&ledger))
        })
    };
    let key = |byte: u8| Key::from_bytes(&(byte..byte + 32).collect::<Vec<_>>()).unwrap();
    let old = bank(ring(1));
    let new = bank(ring(100).and_opens(key(1)).unwrap());
    let only_new = bank(ring(100));
    let asked = old.send(&large()).await;
    let lost = only_new.send(&yes(large(), &asked, "q")).await;
    assert_eq!(lost.reason(), Some("bad_signature"));
    let again = new.send(&yes(large(), &asked, "q")).await;
    assert_eq!(again.asks(), ["r"], "{again:?}");
    let done = only_new.send(&yes(large(), &again, "r")).await;
    assert_eq!(done.text(), "2500 bytes, entry 1");
}

#[tokio::test]
async fn another_ledger_or_epoch_refuses_the_state_before_it_is_looked_for() {
    let (bank, tap) = tapped();
    let asked = bank.send(&large()).await;
    tap.rotate_epoch().await.unwrap();
    let stale = bank.send(&yes(large(), &asked, "q")).await;
    assert_eq!(stale.reason(), Some("stale_epoch"));
}

#[tokio::test]
async fn a_journal_above_the_upper_limit_ends_the_call() {
    let clock = clock();
    let ledger = memory(&clock);
    let bank = bank_with(|builder| {
        builder
            .codec(StoredCodec::above(512, codec()).up_to(40_000))
            .clock(clock.clone())
            .ledger(Arc::clone(&ledger))
    });
    let call = |times: usize| Call::of("order", json!({ "times": times }));
    // More than could be carried at all.
    let asked = bank.send(&call(1500)).await;
    assert!(asked.state().len() < 800);
    let again = bank.send(&yes(call(1500), &asked, "q")).await;
    let done = bank.send(&yes(call(1500), &again, "r")).await;
    assert_eq!(done.text(), "37500 bytes, entry 1");
    let kept = notes(&ledger).await;
    let refused = bank.send(&call(1600)).await;
    assert_eq!(
        (refused.code(), notes(&ledger).await),
        (Some(-32603), kept),
        "{refused:?}"
    );
    assert!(refused.body.to_string().contains("more than this server"));
}

#[tokio::test]
async fn the_earlier_era_has_no_states_and_stores_nothing() {
    let (bank, tap) = tapped();
    let session = Session::open(&bank.server, everything()).await;
    let mut call = session.call(1, "order", json!({ "times": 100 })).await;
    for _ in 0..2 {
        let question = call.message().await;
        session
            .answer(&question, accept(json!({ "ok": true })))
            .await;
    }
    assert_eq!(text(&call.message().await), "2500 bytes, entry 1");
    assert_eq!(notes(&tap).await, 0);
}

#[test]
fn a_stored_codec_needs_a_ledger_and_sizes_that_can_be_kept() {
    let build = |codec: StoredCodec, ledger: bool| {
        let builder = Server::builder("s", "1")
            .audience("a")
            .allow_anonymous()
            .codec(codec)
            .tool(tool("t", async |flow: Flow| {
                let _ = flow.ask("q", confirm()).await;
                "done"
            }));
        let builder = match ledger {
            true => builder
                .ledger(memory(&clock()))
                .dangerous()
                .allow_forgetful_ledger(),
            false => builder,
        };
        builder.build().map(drop)
    };
    let stored = |above| StoredCodec::above(above, codec());
    build(stored(16 * 1024), true).unwrap();
    build(stored(0), true).unwrap();
    let without = build(stored(2048), false).unwrap_err();
    assert!(matches!(without, BuildError::StoredCodecWithoutLedger));
    assert!(without.to_string().contains(".ledger("), "{without}");
    for codec in [stored(16 * 1024 + 1), stored(2048).up_to(2048)] {
        let error = build(codec, true).unwrap_err();
        assert!(matches!(error, BuildError::StoredCodecSizes(_)), "{error}");
        assert!(error.to_string().contains("bytes"), "{error}");
    }
}
