//! With a ledger: what happens once, what is repeated, and what is told when nobody knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mrtr_ledger::{
    Claim, Claimed, Fingerprint, Found, Kind, Ledger, LedgerError, LedgerFuture, MemoryLedger,
    Purged, RowKey, Rows, Settled, Settlement, Token,
};
use mrtr_server::{BuildError, DurableFlow, Flow, Form, Server, State, ToolError, tool};
use mrtr_state::{Epoch, Key, KeyRing};
use mrtr_state_aead::AeadCodec;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Notify;

use crate::bank::{Bank, Call, Reply, accept, codec};

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    #[allow(dead_code, reason = "the answer's existence is what matters here")]
    ok: bool,
}

fn confirm() -> Form<Confirm> {
    Form::new("Sure?")
}

fn first() -> Call {
    Call::of("t", json!({}))
}

fn retry(last: &Reply, key: &str) -> Call {
    first()
        .id(2)
        .state(last.state())
        .answer(key, accept(json!({ "ok": true })))
}

#[derive(Clone, Default)]
struct Counter(Arc<AtomicUsize>);

impl Counter {
    fn up(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the bank said no, with a secret path")]
struct BankSaidNo;

#[tokio::test]
async fn a_failed_step_is_an_outcome_and_is_kept() {
    let counter = Counter::default();
    let bank = Bank::with(|builder| {
        builder.state(counter.clone()).tool(tool(
            "t",
            async |flow: DurableFlow, State(counter): State<Counter>| {
                let failed = flow
                    .once("pay", async || {
                        counter.up();
                        Err::<(), _>(BankSaidNo)
                    })
                    .await;
                let _ = flow.ask("q", confirm()).await;
                failed.map(|()| "paid")
            },
        ))
    });
    let asked = bank.send(&first()).await;
    let done = bank.send(&retry(&asked, "q")).await;
    assert_eq!((done.text(), counter.get()), ("The tool failed.", 1));
}

#[tokio::test]
async fn a_step_that_was_not_done_is_free_again() {
    let counter = Counter::default();
    let bank = Bank::with(|builder| {
        builder.state(counter.clone()).tool(tool(
            "t",
            async |flow: DurableFlow, State(counter): State<Counter>| {
                let paid = flow
                    .once("pay", async || match counter.up() {
                        1 => Err(ToolError::text("The bank is closed.").not_done()),
                        n => Ok(n),
                    })
                    .await;
                if paid.is_err() {
                    let _ = flow.ask("q", confirm()).await;
                }
                paid.map(|n| format!("paid at attempt {n}"))
            },
        ))
    });
    let asked = bank.send(&first()).await;
    assert_eq!(asked.asks(), ["q"]);
    assert_eq!(
        bank.send(&retry(&asked, "q")).await.text(),
        "paid at attempt 2"
    );
}

#[tokio::test]
async fn a_result_that_is_too_large_is_not_repeated_and_says_so() {
    let bank = Bank::with(|builder| {
        builder.tool(tool("t", async |flow: Flow| {
            let _ = flow.ask("q", confirm()).await;
            "x".repeat(100_000)
        }))
    });
    let asked = bank.send(&first()).await;
    let done = bank.send(&retry(&asked, "q")).await;
    assert_eq!(done.text().len(), 100_000);
    let again = bank.send(&retry(&asked, "q")).await;
    assert!(
        again.is_replayed() && again.text().contains("too large to repeat"),
        "{again:?}"
    );
}

#[tokio::test]
async fn a_stored_question_is_checked_against_this_requests_client() {
    let bank = Bank::new();
    let one = bank.send(&Call::of("steps", json!({}))).await;
    let two = || {
        Call::of("steps", json!({}))
            .id(2)
            .state(one.state())
            .answer("a", accept(json!({ "ok": true })))
    };
    assert_eq!(bank.send(&two()).await.asks(), ["b"]);
    let again = bank.send(&two()).await;
    assert!(again.is_replayed());
    assert_eq!(again.asks(), ["b"]);
    let bare = bank.send(&two().declaring(json!({}))).await;
    assert_eq!(bare.code(), Some(-32021), "{bare:?}");
}

#[tokio::test]
async fn a_late_repeat_gets_the_stored_result_and_a_late_retry_does_not_run() {
    let bank = Bank::new();
    let (used, unused) = (bank.open().await, bank.open().await);
    assert_eq!(bank.send(&Call::retry(&used)).await.text(), "done 1");
    bank.advance(Duration::from_secs(600 + 599));
    let late = bank.send(&Call::retry(&used)).await;
    assert_eq!((late.text(), late.is_replayed()), ("done 1", true));
    let other_answer = Call::retry(&used).answer("confirm", json!({ "action": "decline" }));
    assert_eq!(
        bank.send(&other_answer).await.reason(),
        Some("already_used")
    );
    assert_eq!(
        bank.send(&Call::retry(&used).by("user-b")).await.reason(),
        Some("expired")
    );
    assert_eq!(
        bank.send(&Call::retry(&unused)).await.reason(),
        Some("expired")
    );
    bank.advance(Duration::from_secs(1));
    assert_eq!(
        bank.send(&Call::retry(&used)).await.reason(),
        Some("expired")
    );
    assert_eq!(bank.effects.count(), 1);
}

#[tokio::test]
async fn states_from_before_a_rotation_are_stale() {
    let bank = Bank::new();
    let state = bank.open().await;
    bank.ledger.as_ref().unwrap().rotate_epoch().await.unwrap();
    let reply = bank.send(&Call::retry(&state)).await;
    assert_eq!(reply.reason(), Some("stale_epoch"), "{reply:?}");
    let fresh = bank.open().await;
    crate::cases::works("opened after the rotation", &bank, &fresh).await;
    // The rotation of another server's, which this one has not seen yet.
    let state = bank.open().await;
    assert_eq!(bank.effects.count(), 1);
    crate::cases::works("the epoch is the ledger's", &bank, &state).await;
}

/// A ledger that gives no word when it is told to.
#[derive(Debug)]
struct Mute {
    inner: MemoryLedger,
    claims: AtomicBool,
    settlings: AtomicBool,
}

impl Mute {
    fn new(bank_clock: mrtr_testkit::ManualClock) -> Arc<Self> {
        let inner = MemoryLedger::new(Arc::new(bank_clock)).unwrap();
        Arc::new(Self {
            inner,
            claims: AtomicBool::new(false),
            settlings: AtomicBool::new(false),
        })
    }
}

impl Ledger for Mute {
    fn claim(&self, claim: Claim) -> LedgerFuture<'_, Claimed> {
        if self.claims.load(Ordering::SeqCst) {
            return Box::pin(async { Err(LedgerError::Closed) });
        }
        self.inner.claim(claim)
    }
    fn settle(
        &self,
        key: RowKey,
        token: Token,
        settlement: Settlement,
    ) -> LedgerFuture<'_, Settled> {
        if self.settlings.load(Ordering::SeqCst) {
            return Box::pin(async { Err(LedgerError::Closed) });
        }
        self.inner.settle(key, token, settlement)
    }
    fn beat(&self, key: RowKey, token: Token, lease: Duration) -> LedgerFuture<'_, bool> {
        self.inner.beat(key, token, lease)
    }
    fn release(&self, key: RowKey, token: Token) -> LedgerFuture<'_, bool> {
        self.inner.release(key, token)
    }
    fn lookup(&self, kind: Kind, key: RowKey, fingerprint: Fingerprint) -> LedgerFuture<'_, Found> {
        self.inner.lookup(kind, key, fingerprint)
    }
    fn purge(&self) -> LedgerFuture<'_, Purged> {
        self.inner.purge()
    }
    fn epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.inner.epoch()
    }
    fn rotate_epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.inner.rotate_epoch()
    }
    fn rows(&self) -> LedgerFuture<'_, Rows> {
        self.inner.rows()
    }
    fn survives_restart(&self) -> bool {
        false
    }
}

/// A bank on a ledger that can fall silent.
fn mute_bank() -> (Bank, Arc<Mute>) {
    let mut ledger = None;
    let clock = Bank::new().clock;
    let bank = Bank::with(|builder| {
        let mute = Mute::new(clock.clone());
        ledger = Some(Arc::clone(&mute));
        builder.clock(clock).ledger(mute)
    });
    (bank, ledger.unwrap())
}

#[tokio::test]
async fn no_word_on_a_claim_runs_nothing_and_spends_nothing() {
    let (bank, ledger) = mute_bank();
    let state = bank.open().await;
    ledger.claims.store(true, Ordering::SeqCst);
    let reply = bank.send(&Call::retry(&state)).await;
    assert_eq!(
        (reply.code(), bank.effects.count()),
        (Some(1003), 0),
        "{reply:?}"
    );
    ledger.claims.store(false, Ordering::SeqCst);
    crate::cases::works("when it speaks again", &bank, &state).await;
}

#[tokio::test]
async fn no_word_on_a_settling_is_unknown_and_is_settled_later() {
    let (bank, ledger) = mute_bank();
    let state = bank.open().await;
    ledger.settlings.store(true, Ordering::SeqCst);
    let reply = bank.send(&Call::retry(&state)).await;
    assert_eq!(
        (reply.code(), bank.effects.count()),
        (Some(1002), 1),
        "{reply:?}"
    );
    ledger.settlings.store(false, Ordering::SeqCst);
    bank.server.settled().await;
    let again = bank.send(&Call::retry(&state)).await;
    assert!(
        again.code().is_some(),
        "what the round told is not taken back: {again:?}"
    );
    assert_eq!(bank.effects.count(), 1, "nothing runs again");
}

/// Opens when it is told to.
#[derive(Clone, Default)]
struct Door {
    reached: Arc<Notify>,
    open: Arc<Notify>,
}

#[tokio::test]
async fn a_step_in_flight_is_carried_to_its_settling_when_the_connection_goes() {
    let (door, counter) = (Door::default(), Counter::default());
    let bank = Bank::with(|builder| {
        builder
            .state(door.clone())
            .state(counter.clone())
            .tool(tool(
                "t",
                async |flow: DurableFlow,
                       State(door): State<Door>,
                       State(counter): State<Counter>| {
                    let _ = flow.ask("q", confirm()).await;
                    let first = flow
                        .once("first", async || {
                            door.reached.notify_one();
                            door.open.notified().await;
                            Ok::<_, ToolError>(counter.up())
                        })
                        .await?;
                    let second = flow
                        .once("second", async || Ok::<_, ToolError>(counter.up()))
                        .await?;
                    Ok::<_, ToolError>(format!("{first} {second}"))
                },
            ))
    });
    let asked = bank.send(&first()).await;
    let call = retry(&asked, "q");
    let (gone, call_again) = (bank.clone(), call.clone());
    let connection = tokio::spawn(async move { gone.send(&call).await });
    door.reached.notified().await;
    connection.abort();
    assert!(connection.await.unwrap_err().is_cancelled());
    door.open.notify_one();
    bank.server.settled().await;
    assert_eq!(
        counter.get(),
        1,
        "the step in flight was carried on, and no other was begun"
    );
    let again = bank.send(&call_again).await;
    assert!(
        again.is_replayed() && again.text().contains("first") && !again.text().contains("second"),
        "{again:?}"
    );
    assert_eq!(counter.get(), 1);
}

#[tokio::test]
async fn a_step_dropped_half_way_is_never_run_again() {
    let counter = Counter::default();
    let bank = Bank::with(|builder| {
        builder.state(counter.clone()).tool(tool(
            "t",
            async |flow: DurableFlow, State(counter): State<Counter>| {
                let _ = flow.ask("q", confirm()).await;
                let step = flow.once("slow", async || {
                    counter.up();
                    std::future::pending::<Result<(), ToolError>>().await
                });
                let _ = tokio::time::timeout(Duration::from_millis(5), step).await;
                let _ = flow.ask("r", confirm()).await;
                "not reached in this run"
            },
        ))
    });
    let one = bank.send(&first()).await;
    let two = bank.send(&retry(&one, "q")).await;
    assert_eq!(two.asks(), ["r"], "{two:?}");
    bank.server.settled().await;
    let reply = bank.send(&retry(&two, "r")).await;
    assert_eq!((reply.code(), counter.get()), (Some(1002), 1), "{reply:?}");
}

#[tokio::test]
async fn with_aead_the_ledger_keeps_no_readable_outcome() {
    let clock = Bank::new().clock;
    let ring = || KeyRing::new(Key::from_bytes(&(0..32).collect::<Vec<u8>>()).unwrap());
    let ledger = Arc::new(Spy {
        inner: MemoryLedger::new(Arc::new(clock.clone())).unwrap(),
        seen: Default::default(),
    });
    let bank = |sealed: bool| {
        Bank::with(|builder| {
            let builder = builder.clock(clock.clone()).ledger(Arc::clone(&ledger));
            let builder = if sealed {
                builder.codec(AeadCodec::new(ring()).unwrap())
            } else {
                builder.codec(codec())
            };
            builder.tool(tool("t", async |flow: Flow| {
                let _ = flow.ask("q", confirm()).await;
                "the secret is 4711"
            }))
        })
    };
    for (sealed, readable) in [(false, true), (true, false)] {
        let bank = bank(sealed);
        ledger.seen.lock().unwrap().clear();
        let asked = bank.send(&first()).await;
        assert_eq!(
            bank.send(&retry(&asked, "q")).await.text(),
            "the secret is 4711"
        );
        let seen = ledger.seen.lock().unwrap().clone();
        assert!(!seen.is_empty());
        assert_eq!(
            String::from_utf8_lossy(&seen).contains("4711"),
            readable,
            "sealed: {sealed}"
        );
        let again = bank.send(&retry(&asked, "q")).await;
        assert_eq!(
            (again.text(), again.is_replayed()),
            ("the secret is 4711", true)
        );
    }
}

/// Notes every outcome that is settled.
#[derive(Debug)]
struct Spy {
    inner: MemoryLedger,
    seen: std::sync::Mutex<Vec<u8>>,
}

impl Ledger for Spy {
    fn claim(&self, claim: Claim) -> LedgerFuture<'_, Claimed> {
        self.inner.claim(claim)
    }
    fn settle(
        &self,
        key: RowKey,
        token: Token,
        settlement: Settlement,
    ) -> LedgerFuture<'_, Settled> {
        if let Settlement::Outcome(bytes) = &settlement {
            self.seen.lock().unwrap().extend_from_slice(bytes);
        }
        self.inner.settle(key, token, settlement)
    }
    fn beat(&self, key: RowKey, token: Token, lease: Duration) -> LedgerFuture<'_, bool> {
        self.inner.beat(key, token, lease)
    }
    fn release(&self, key: RowKey, token: Token) -> LedgerFuture<'_, bool> {
        self.inner.release(key, token)
    }
    fn lookup(&self, kind: Kind, key: RowKey, fingerprint: Fingerprint) -> LedgerFuture<'_, Found> {
        self.inner.lookup(kind, key, fingerprint)
    }
    fn purge(&self) -> LedgerFuture<'_, Purged> {
        self.inner.purge()
    }
    fn epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.inner.epoch()
    }
    fn rotate_epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.inner.rotate_epoch()
    }
    fn rows(&self) -> LedgerFuture<'_, Rows> {
        self.inner.rows()
    }
    fn survives_restart(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn without_a_ledger_a_state_can_be_used_again() {
    let bank = Bank::without_ledger();
    let state = bank.open().await;
    for times in 1..=2 {
        assert_eq!(bank.send(&Call::retry(&state)).await.text(), "done");
        assert_eq!(bank.effects.count(), times);
    }
}

#[test]
fn a_server_that_lacks_something_does_not_start_and_says_what() {
    async fn asks(flow: Flow) -> &'static str {
        let _ = flow.ask("q", confirm()).await;
        "done"
    }
    async fn acts(_: DurableFlow) -> &'static str {
        "done"
    }
    async fn shares(_: State<Counter>) -> &'static str {
        "done"
    }
    let builder = || Server::builder("s", "1").audience("a").allow_anonymous();
    let clock = Bank::new().clock;
    let memory = || MemoryLedger::new(Arc::new(clock.clone())).unwrap();

    let no_codec = builder().tool(tool("asks", asks)).build().unwrap_err();
    assert!(matches!(&no_codec, BuildError::NoCodec { tool } if tool == "asks"));
    assert!(no_codec.to_string().contains(".codec("));
    builder()
        .codec(codec())
        .tool(tool("asks", asks))
        .build()
        .unwrap();

    let no_ledger = builder()
        .codec(codec())
        .tool(tool("acts", acts))
        .build()
        .unwrap_err();
    assert!(matches!(&no_ledger, BuildError::NoLedger { tool } if tool == "acts"));
    assert!(no_ledger.to_string().contains(".ledger("));

    let forgetful = builder()
        .codec(codec())
        .ledger(memory())
        .tool(tool("acts", acts))
        .build()
        .unwrap_err();
    assert!(matches!(forgetful, BuildError::ForgetfulLedger));
    assert!(forgetful.to_string().contains("keys") && forgetful.to_string().contains(".ledger("));
    builder()
        .codec(codec())
        .ledger(memory())
        .tool(tool("acts", acts))
        .dangerous()
        .allow_forgetful_ledger()
        .build()
        .unwrap();

    let no_state = builder().tool(tool("shares", shares)).build().unwrap_err();
    assert!(matches!(&no_state, BuildError::NoState { tool, .. } if tool == "shares"));
    let nobody = Server::builder("s", "1").build().unwrap_err();
    assert!(matches!(nobody, BuildError::NoAuthenticator));
    let no_audience = Server::builder("s", "1")
        .allow_anonymous()
        .codec(codec())
        .build()
        .unwrap_err();
    assert!(matches!(no_audience, BuildError::NoAudience));
    let twice = builder()
        .tool(tool("x", async || "1"))
        .tool(tool("x", async || "2"))
        .build()
        .unwrap_err();
    assert!(matches!(twice, BuildError::DuplicateTool(name) if name == "x"));
    let named = builder()
        .tool(tool("not a name", async || "1"))
        .build()
        .unwrap_err();
    assert!(matches!(named, BuildError::ToolName(_)));
}

#[tokio::test]
async fn what_the_ledger_calls_expired_is_looked_up() {
    let bank_clock = Bank::new().clock;
    let ledger_clock = mrtr_testkit::ManualClock::at(mrtr_state::Clock::now(&bank_clock));
    let ledger = Arc::new(MemoryLedger::new(Arc::new(ledger_clock.clone())).unwrap());
    let bank = Bank::with(|builder| builder.clock(bank_clock).ledger(Arc::clone(&ledger)));
    let (used, unused) = (bank.open().await, bank.open().await);
    assert_eq!(bank.send(&Call::retry(&used)).await.text(), "done 1");
    // The ledger's clock runs ahead of the server's.
    ledger_clock.advance(Duration::from_secs(601));
    let again = bank.send(&Call::retry(&used)).await;
    assert_eq!((again.text(), again.is_replayed()), ("done 1", true));
    assert_eq!(
        bank.send(&Call::retry(&unused)).await.reason(),
        Some("expired")
    );
    assert_eq!(bank.effects.count(), 1);
}

#[tokio::test]
async fn opaque_rejections_are_the_same_to_the_byte() {
    let bank = Bank::with(mrtr_server::ServerBuilder::opaque_rejections);
    let state = bank.open().await;
    let used = bank.open().await;
    assert_eq!(bank.send(&Call::retry(&used)).await.text(), "done 1");
    let mut replies = vec![
        bank.send(&Call::retry("hello")).await,
        bank.send(&Call::retry(&"A".repeat(40_000))).await,
        bank.send(&Call::retry(&format!("{}AAAA", &state[..state.len() - 4])))
            .await,
        bank.send(&Call::retry(&state).by("user-b")).await,
        bank.send(&Call::retry(&state).argument("amount", 1)).await,
        bank.send(&Call::retry(&used).answer("confirm", json!({ "action": "decline" })))
            .await,
    ];
    bank.advance(Duration::from_secs(600));
    replies.push(bank.send(&Call::retry(&state)).await);
    bank.ledger.as_ref().unwrap().rotate_epoch().await.unwrap();
    replies.push(bank.send(&Call::retry(&state)).await);
    for reply in &replies {
        assert_eq!(reply.code(), Some(-32602), "{reply:?}");
        assert_eq!(reply.body, replies[0].body);
    }
}

#[tokio::test]
async fn bodies_of_one_principal_are_limited_and_the_others_run() {
    let door = Door::default();
    let bank = Bank::with(|builder| {
        builder
            .limits(|limits| limits.running_per_principal = 1)
            .state(door.clone())
            .tool(tool("t", async |State(door): State<Door>| {
                door.reached.notify_one();
                door.open.notified().await;
                "done"
            }))
    });
    let busy = bank.clone();
    let slow = tokio::spawn(async move { busy.send(&first()).await });
    door.reached.notified().await;
    assert_eq!(
        bank.send(&Call::of("plain", json!({}))).await.code(),
        Some(1003)
    );
    assert_eq!(
        bank.send(&Call::of("plain", json!({})).by("user-b"))
            .await
            .text(),
        "done"
    );
    door.open.notify_one();
    assert_eq!(slow.await.unwrap().text(), "done");
    assert_eq!(
        bank.send(&Call::of("plain", json!({}))).await.text(),
        "done",
        "the place is free again"
    );
}
