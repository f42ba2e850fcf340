//! With a ledger: what happens once, what is repeated, and what is told when nobody knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mrtr_ledger::{Ledger, MemoryLedger};
use mrtr_server::{BuildError, DurableFlow, Flow, Form, Server, State, ToolError, tool};
use mrtr_state::{Key, KeyRing};
use mrtr_state_aead::AeadCodec;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Notify;

use crate::bank::{Bank, Call, Reply, accept, codec};
use crate::tap::{Mode, Tap, tapped};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Confirm {
    #[allow(dead_code, reason = "the answer's existence is what matters here")]
    ok: bool,
}

pub(crate) fn confirm() -> Form<Confirm> {
    Form::new("Sure?")
}

pub(crate) fn first() -> Call {
    Call::of("t", json!({}))
}

pub(crate) fn retry(last: &Reply, key: &str) -> Call {
    first()
        .id(2)
        .state(last.state())
        .answer(key, accept(json!({ "ok": true })))
}

#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<AtomicUsize>);

impl Counter {
    pub(crate) fn up(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn get(&self) -> usize {
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
async fn a_lifetime_that_was_lowered_ends_states_without_losing_what_came_of_them() {
    let long = Bank::new();
    let (used, unused) = (long.open().await, long.open().await);
    assert_eq!(long.send(&Call::retry(&used)).await.text(), "done 1");
    let ledger = long.ledger.clone().unwrap();
    let short = Bank::with(|builder| {
        builder
            .ledger(ledger)
            .clock(long.clock.clone())
            .limits(|limits| limits.lifetime = Duration::from_secs(60))
    });
    let again = short.send(&Call::retry(&used)).await;
    assert_eq!((again.text(), again.is_replayed()), ("done 1", true));
    assert_eq!(
        short.send(&Call::retry(&unused)).await.reason(),
        Some("expired")
    );
    assert_eq!(short.effects.count(), 0);
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
}

#[tokio::test]
async fn an_epoch_that_another_server_has_seen_first_is_asked_for() {
    let bank = Bank::new();
    let ledger = bank.ledger.clone().unwrap();
    let other = Bank::with(|builder| {
        builder
            .ledger(Arc::clone(&ledger))
            .clock(bank.clock.clone())
            .state(bank.effects.clone())
    });
    drop(bank.open().await); // this server has just looked
    ledger.rotate_epoch().await.unwrap();
    let state = other.open().await;
    crate::cases::works("opened elsewhere, after the rotation", &bank, &state).await;
}

#[tokio::test]
async fn no_word_on_a_claim_runs_nothing_and_spends_nothing() {
    let (bank, ledger) = tapped(|builder| builder);
    let state = bank.open().await;
    ledger.claims.set(Mode::Silent);
    let reply = bank.send(&Call::retry(&state)).await;
    assert_eq!(
        (reply.code(), bank.effects.count()),
        (Some(1003), 0),
        "{reply:?}"
    );
    ledger.claims.set(Mode::Speaks);
    bank.server.settled().await;
    crate::cases::works("when it speaks again", &bank, &state).await;
}

#[tokio::test]
async fn a_claim_whose_word_was_lost_is_given_back() {
    let (bank, ledger) = tapped(|builder| builder);
    let state = bank.open().await;
    ledger.claims.set(Mode::LosesItsWord);
    ledger.releases.set(Mode::Silent);
    let reply = bank.send(&Call::retry(&state)).await;
    assert_eq!(
        (reply.code(), bank.effects.count()),
        (Some(1003), 0),
        "{reply:?}"
    );
    let rows = ledger.inner.rows().await.unwrap();
    assert_eq!(rows.rounds, 1, "the claim was recorded");
    ledger.claims.set(Mode::Speaks);
    ledger.releases.set(Mode::Speaks);
    bank.server.settled().await;
    crate::cases::works("given back", &bank, &state).await;
}

#[tokio::test]
async fn no_word_on_a_settling_is_unknown_and_is_settled_later() {
    let (bank, ledger) = tapped(|builder| builder);
    let state = bank.open().await;
    ledger.settlings.set(Mode::Silent);
    let reply = bank.send(&Call::retry(&state)).await;
    assert_eq!(
        (reply.code(), bank.effects.count()),
        (Some(1002), 1),
        "{reply:?}"
    );
    ledger.settlings.set(Mode::Speaks);
    bank.server.settled().await;
    let again = bank.send(&Call::retry(&state)).await;
    assert_eq!(
        again.code(),
        Some(1002),
        "what was told is not taken back: {again:?}"
    );
    assert_eq!(bank.effects.count(), 1, "nothing runs again");
    let rows = ledger.inner.rows().await.unwrap();
    assert_eq!(
        (rows.settled_steps, rows.settled_rounds),
        (1, 0),
        "the step's outcome is there"
    );
}

#[tokio::test]
async fn a_ledger_that_has_shut_down_does_not_hold_a_shutdown_up() {
    let (bank, ledger) = tapped(|builder| builder);
    let state = bank.open().await;
    ledger.settlings.set(Mode::Closed);
    assert_eq!(bank.send(&Call::retry(&state)).await.code(), Some(1002));
    tokio::time::timeout(Duration::from_secs(5), bank.server.settled())
        .await
        .expect("nothing is tried again");
}

#[tokio::test]
async fn no_word_on_a_step_of_a_claimed_round_is_no_invitation_to_repeat() {
    let counter = Counter::default();
    let (bank, ledger) =
        tapped(|builder| builder.state(counter.clone()).tool(tool("t", two_steps)));
    let asked = bank.send(&first()).await;
    let call = retry(&asked, "q");
    ledger.claims.after(2, Mode::Silent);
    let reply = bank.send(&call).await;
    assert_eq!((reply.code(), counter.get()), (Some(1002), 1), "{reply:?}");
    let message = reply.body["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("Steps that were taken: first."),
        "{message}"
    );
    ledger.claims.set(Mode::Speaks);
    assert_eq!(
        bank.send(&call).await.code(),
        Some(1002),
        "and the same afterwards"
    );
    assert_eq!(counter.get(), 1);
}

async fn two_steps(
    flow: DurableFlow,
    State(counter): State<Counter>,
) -> Result<&'static str, ToolError> {
    let _ = flow.ask("q", confirm()).await;
    flow.once("first", async || Ok::<_, ToolError>(counter.up()))
        .await?;
    flow.once("second", async || Ok::<_, ToolError>(counter.up()))
        .await?;
    Ok("done")
}

#[tokio::test]
async fn errors_after_a_step_name_it_and_do_not_advise_to_start_again_unawares() {
    async fn charge_then(flow: &DurableFlow, counter: &Counter) -> Result<(), ToolError> {
        flow.once("charge", async || Ok::<_, ToolError>(counter.up()))
            .await
            .map(drop)
    }
    let counter = Counter::default();
    let bank = Bank::with(|builder| {
        builder.state(counter.clone()).tool(tool(
            "t",
            async |flow: DurableFlow, State(counter): State<Counter>| {
                charge_then(&flow, &counter).await?;
                let _ = flow.ask("q", confirm()).await;
                if counter.get() > 0 {
                    panic!("after the answer");
                }
                Ok::<_, ToolError>("never reached")
            },
        ))
    });
    // On a first call that cannot be asked, and in a claimed round that panics.
    let undeclared = bank.send(&first().declaring(json!({}))).await;
    assert_eq!(undeclared.code(), Some(-32021));
    let asked = bank.send(&first()).await;
    let panicked = bank.send(&retry(&asked, "q")).await;
    assert_eq!(panicked.code(), Some(-32603));
    for reply in [&undeclared, &panicked] {
        let message = reply.body["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("Steps that were taken: charge. Check them before"),
            "{message}"
        );
    }
    assert!(
        panicked.body["error"]["message"]
            .as_str()
            .unwrap()
            .contains("The requestState is spent.")
    );
}

#[tokio::test]
async fn signs_of_life_are_given_and_do_not_hold_the_body_up() {
    let (bank, ledger) = tapped(|builder| {
        builder
            .limits(|limits| limits.lease = Duration::from_millis(60))
            .tool(tool("t", async |flow: DurableFlow| {
                let _ = flow.ask("q", confirm()).await;
                for _ in 0..10 {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                "done"
            }))
    });
    let asked = bank.send(&first()).await;
    let begun = std::time::Instant::now();
    assert_eq!(bank.send(&retry(&asked, "q")).await.text(), "done");
    assert!(
        ledger.beats.load(Ordering::SeqCst) >= 2,
        "signs of life while it ran"
    );
    // Signs that take far longer than the body.
    ledger.beat_takes.store(60_000, Ordering::SeqCst);
    let asked = bank.send(&first()).await;
    let reply = tokio::time::timeout(Duration::from_secs(30), bank.send(&retry(&asked, "q"))).await;
    assert_eq!(
        reply.expect("the body does not wait for them").text(),
        "done"
    );
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn what_a_step_returns_is_what_is_kept_or_the_call_ends() {
    async fn step<T: serde::Serialize + serde::de::DeserializeOwned>(
        flow: &DurableFlow,
        value: T,
    ) -> Result<T, ToolError> {
        let value = flow
            .once("step", async || Ok::<_, ToolError>(value))
            .await?;
        let _ = flow.ask("q", confirm()).await;
        Ok(value)
    }
    // Just within the limit: kept, and the same in the next round.
    let fits = Bank::with(|builder| {
        builder.tool(tool("t", async |flow: DurableFlow| {
            step(&flow, "x".repeat(65_527))
                .await
                .map(|text| text.len().to_string())
        }))
    });
    let asked = fits.send(&first()).await;
    assert_eq!(fits.send(&retry(&asked, "q")).await.text(), "65527");
    // Above it, and around it, where the value alone would still fit.
    for length in [65_528_usize, 65_530, 65_534, 70_000] {
        let bank = Bank::with(|builder| {
            builder.state(length).tool(tool(
                "t",
                async |flow: DurableFlow, State(length): State<usize>| {
                    step(&flow, "x".repeat(length))
                        .await
                        .map(|text| text.len().to_string())
                },
            ))
        });
        let reply = bank.send(&first()).await;
        assert_eq!(reply.code(), Some(-32603), "{length}");
        let message = reply.body["error"]["message"].as_str().unwrap();
        assert!(
            message.contains("took effect") && message.contains("Steps that were taken: step."),
            "{message}"
        );
        let rows = bank.ledger.as_ref().unwrap().rows().await.unwrap();
        assert_eq!(rows.settled_steps, 1, "that it is lost is kept");
    }
    let bank = Bank::with(|builder| {
        builder.tool(tool("t", async |flow: DurableFlow| {
            step(&flow, f64::NAN).await.map(|number| number.to_string())
        }))
    });
    assert_eq!(
        bank.send(&first()).await.code(),
        Some(-32603),
        "NaN does not survive JSON"
    );
    let bank = Bank::with(|builder| {
        builder.tool(tool(
            "t",
            async |flow: DurableFlow| -> Result<String, ToolError> {
                flow.once("step", async || {
                    Err::<String, _>(ToolError::text("x".repeat(70_000)))
                })
                .await
            },
        ))
    });
    assert_eq!(
        bank.send(&first()).await.code(),
        Some(-32603),
        "an error is an outcome like any other"
    );
}

#[tokio::test]
async fn a_timeout_while_a_step_is_being_claimed_gives_it_back() {
    let counter = Counter::default();
    let (bank, ledger) = tapped(|builder| {
        builder.state(counter.clone()).tool(tool(
            "t",
            async |flow: DurableFlow, State(counter): State<Counter>| {
                let step = flow.once("step", async || Ok::<_, ToolError>(counter.up()));
                let first = tokio::time::timeout(Duration::from_millis(20), step).await;
                if first.is_err() {
                    let _ = flow.ask("q", confirm()).await;
                }
                if first.is_ok() { "done" } else { "timed out" }
            },
        ))
    });
    ledger.claim_takes.store(100, Ordering::SeqCst);
    let asked = bank.send(&first()).await;
    assert_eq!((asked.asks(), counter.get()), (vec!["q"], 0));
    bank.server.settled().await;
    ledger.claim_takes.store(0, Ordering::SeqCst);
    assert_eq!(
        bank.send(&retry(&asked, "q")).await.text(),
        "done",
        "the step was free again"
    );
    assert_eq!(counter.get(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_number_of_tasks_may_wait_for_settling() {
    let bank = Bank::new();
    let waits = (0..2).map(|_| {
        let server = bank.server.clone();
        tokio::spawn(async move {
            for _ in 0..20_000 {
                server.settled().await;
            }
        })
    });
    for wait in waits.collect::<Vec<_>>() {
        tokio::time::timeout(Duration::from_secs(60), wait)
            .await
            .expect("no wait is for ever")
            .unwrap();
    }
}

#[tokio::test]
async fn a_replay_is_the_stored_result_to_the_byte() {
    const NUMBER: &str = "123456789012345678901234567890.000";
    let bank = Bank::with(|builder| {
        builder.tool(tool("t", async |flow: Flow| {
            let _ = flow.ask("q", confirm()).await;
            mrtr_server::Json(
                serde_json::value::RawValue::from_string(format!("{{\"exact\": {NUMBER}}}"))
                    .unwrap(),
            )
        }))
    });
    let asked = bank.send(&first()).await;
    let result = async || {
        let response = bank.send_for_text(&retry(&asked, "q")).await;
        response[response.find("structuredContent").unwrap()..].to_owned()
    };
    let (once, again) = (result().await, result().await);
    assert!(once.contains(NUMBER) && again.contains(NUMBER), "{again}");
    assert!(again.contains("mrtr/replayed") && !once.contains("mrtr/replayed"));
}

#[tokio::test]
async fn a_failure_that_is_too_large_is_repeated_as_a_failure() {
    let bank = Bank::with(|builder| {
        builder.tool(tool("t", async |flow: Flow| -> Result<String, ToolError> {
            let _ = flow.ask("q", confirm()).await;
            Err(ToolError::text("x".repeat(100_000)))
        }))
    });
    let asked = bank.send(&first()).await;
    for _ in 0..2 {
        let failed = bank.send(&retry(&asked, "q")).await;
        assert_eq!(failed.body["result"]["isError"], true);
        let server = &failed.body["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(server["name"], "bank", "{failed:?}");
    }
}

#[tokio::test]
async fn failed_results_name_the_server_too() {
    let bank = Bank::new();
    for reply in [
        bank.send(&Call::of("transfer", json!({}))).await,
        bank.send(&Call::of("plain", json!({}))).await,
    ] {
        assert_eq!(
            reply.body["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "bank",
            "{reply:?}"
        );
    }
}

/// Opens when it is told to.
#[derive(Clone, Default)]
pub(crate) struct Door {
    pub(crate) reached: Arc<Notify>,
    pub(crate) open: Arc<Notify>,
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
async fn case_110_with_aead_the_ledger_keeps_no_readable_outcome() {
    let clock = Bank::new().clock;
    let ring = || KeyRing::new(Key::from_bytes(&(0..32).collect::<Vec<u8>>()).unwrap());
    let ledger = Tap::new(clock.clone());
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
    assert!(matches!(&no_codec, BuildError::NoCodec { handler } if handler == "tool `asks`"));
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
    assert!(matches!(&no_ledger, BuildError::NoLedger { handler } if handler == "tool `acts`"));
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

    let nothing_to_record = builder().ledger(memory()).build().unwrap_err();
    assert!(matches!(nothing_to_record, BuildError::LedgerWithoutCodec));
    for lifetime in [Duration::ZERO, Duration::from_nanos(1)] {
        let short = builder()
            .codec(codec())
            .tool(tool("asks", asks).lifetime(lifetime))
            .build()
            .unwrap_err();
        assert!(
            matches!(&short, BuildError::Handler { handler, .. } if handler == "tool `asks`"),
            "{short}"
        );
        let short = builder()
            .limits(|limits| limits.lifetime = lifetime)
            .build()
            .unwrap_err();
        assert!(
            matches!(short, BuildError::ZeroLimit("lifetime")),
            "{short}"
        );
    }
    let no_state = builder().tool(tool("shares", shares)).build().unwrap_err();
    assert!(matches!(&no_state, BuildError::NoState { handler, .. } if handler == "tool `shares`"));
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
    assert!(matches!(twice, BuildError::Duplicate(what) if what == "tool `x`"));
    let named = builder()
        .tool(tool("not a name", async || "1"))
        .build()
        .unwrap_err();
    assert!(matches!(named, BuildError::Name(_)));
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

#[tokio::test]
async fn two_first_steps_at_once_need_room_like_one() {
    let both = async |flow: DurableFlow, State(counter): State<Counter>| {
        let (a, b) = tokio::join!(
            flow.once("a", async || Ok::<_, ToolError>(counter.up())),
            flow.once("b", async || Ok::<_, ToolError>(counter.up())),
        );
        Ok::<_, ToolError>(format!("{}", a? + b?))
    };
    // With room for one, what was admitted goes on; with none, nothing happens.
    for (room, effects) in [(0, 0), (1, 2)] {
        let (base, counter) = (Bank::new(), Counter::default());
        let limits = mrtr_ledger::Limits {
            rows_per_account: room,
            ..Default::default()
        };
        let clock = Arc::new(base.clock.clone());
        let ledger: Arc<dyn Ledger> =
            Arc::new(MemoryLedger::new(clock).unwrap().with_limits(limits));
        let bank = Bank::with(|builder| {
            builder
                .clock(base.clock.clone())
                .ledger(Arc::clone(&ledger))
                .state(counter.clone())
                .tool(tool("t", both))
                .tool(tool(
                    "in_turn",
                    async |flow: DurableFlow, State(counter): State<Counter>| {
                        for step in ["a", "b"] {
                            flow.once(step, async || Ok::<_, ToolError>(counter.up()))
                                .await?;
                        }
                        Ok::<_, ToolError>("done")
                    },
                ))
        });
        let in_turn = bank.send(&Call::of("in_turn", json!({}))).await;
        assert_eq!(counter.get(), effects, "{in_turn:?}");
        if room == 0 {
            let reply = bank.send(&first()).await;
            assert_eq!((reply.code(), counter.get()), (Some(1003), 0), "{reply:?}");
            assert_eq!(ledger.rows().await.unwrap().steps, 0);
        }
    }
}

#[tokio::test]
async fn a_claim_that_was_granted_and_is_not_looked_at_is_given_back() {
    let counter = Counter::default();
    let bank = Bank::with(|builder| {
        builder
            .state(counter.clone())
            .tool(tool(
                "t",
                async |flow: DurableFlow, State(counter): State<Counter>| {
                    let _ = flow.ask("q", confirm()).await;
                    {
                        let mut once = std::pin::pin!(
                            flow.once("pay", async || Ok::<_, ToolError>(counter.up()))
                        );
                        // Polled so that it claims, and dropped with its answer there: the loser of a `select!`.
                        std::future::poll_fn(|cx| {
                            assert!(Future::poll(once.as_mut(), cx).is_pending());
                            std::task::Poll::Ready(())
                        })
                        .await;
                        for _ in 0..20 {
                            tokio::task::yield_now().await;
                        }
                    }
                    let _ = flow.ask("r", confirm()).await;
                    "not reached in this run"
                },
            ))
            .tool(tool("other", async || "done"))
    });
    let one = bank.send(&first()).await;
    let two = bank.send(&retry(&one, "q")).await;
    assert_eq!((two.asks(), counter.get()), (vec!["r"], 0), "{two:?}");
    bank.server.settled().await;
    let rows = bank.ledger.as_ref().unwrap().rows().await.unwrap();
    assert_eq!(rows.steps, 1, "it was claimed");
    // The step is free: another process of the same flow takes it.
    let next = Bank::with(|builder| {
        builder
            .clock(bank.clock.clone())
            .ledger(bank.ledger.clone().unwrap())
            .state(counter.clone())
            .tool(tool(
                "t",
                async |flow: DurableFlow, State(counter): State<Counter>| {
                    let _ = flow.ask("q", confirm()).await;
                    let _ = flow.ask("r", confirm()).await;
                    let paid = flow
                        .once("pay", async || Ok::<_, ToolError>(counter.up()))
                        .await?;
                    Ok::<_, ToolError>(format!("paid {paid}"))
                },
            ))
    });
    assert_eq!(next.send(&retry(&two, "r")).await.text(), "paid 1");
}

#[tokio::test]
async fn a_body_that_asks_after_its_client_has_gone_settles_its_question() {
    let door = Door::default();
    let bank = Bank::with(|builder| {
        builder
            .state(door.clone())
            .tool(tool("t", async |flow: Flow, State(door): State<Door>| {
                let _ = flow.ask("q", confirm()).await;
                door.reached.notify_one();
                door.open.notified().await;
                let _ = flow.ask("r", confirm()).await;
                "done"
            }))
    });
    let asked = bank.send(&first()).await;
    let (gone, call) = (bank.clone(), retry(&asked, "q"));
    let connection = tokio::spawn(async move { gone.send(&call).await });
    door.reached.notified().await;
    connection.abort();
    assert!(connection.await.unwrap_err().is_cancelled());
    door.open.notify_one();
    bank.server.settled().await;
    let again = bank.send(&retry(&asked, "q")).await;
    assert!(again.is_replayed(), "{again:?}");
    assert_eq!(again.asks(), ["r"]);
    door.open.notify_one(); // for the next run
    assert_eq!(bank.send(&retry(&again, "r")).await.text(), "done");
}

#[tokio::test]
async fn a_client_that_goes_before_anything_has_run_spends_nothing() {
    let counter = Counter::default();
    let (bank, ledger) = tapped(|builder| {
        builder.state(counter.clone()).tool(tool(
            "t",
            async |flow: DurableFlow, State(counter): State<Counter>| {
                let _ = flow.ask("q", confirm()).await;
                let n = flow
                    .once("step", async || Ok::<_, ToolError>(counter.up()))
                    .await?;
                Ok::<_, ToolError>(format!("done {n}"))
            },
        ))
    });
    let asked = bank.send(&first()).await;
    ledger.claim_takes.store(50, Ordering::SeqCst);
    let (gone, call) = (bank.clone(), retry(&asked, "q"));
    let connection = tokio::spawn(async move { gone.send(&call).await });
    while ledger.claims_begun.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    connection.abort();
    assert!(connection.await.unwrap_err().is_cancelled());
    bank.server.settled().await;
    assert_eq!(counter.get(), 0);
    let done = bank.send(&retry(&asked, "q")).await;
    assert_eq!(
        (done.text(), done.is_replayed()),
        ("done 1", false),
        "{done:?}"
    );
}

/// A handler that asks by hand runs again, in the earlier era, within one call.
#[tokio::test]
async fn steps_of_earlier_turns_are_named_when_a_later_one_fails() {
    use mrtr_server::{InputRequired, Resumed, Turn};
    let bank = Bank::with(|builder| {
        builder.tool(tool("t", async |flow: DurableFlow, resumed: Resumed| {
            let Some(_) = resumed.answer("q", &confirm()) else {
                flow.once("first", async || Ok::<_, ToolError>(())).await?;
                return Ok(Turn::InputRequired(
                    InputRequired::new().ask("q", confirm()),
                ));
            };
            assert!(
                resumed.answer("none", &confirm()).is_some(),
                "in the second turn"
            );
            Ok::<Turn<&'static str>, ToolError>(Turn::Complete("never"))
        }))
    });
    let session = crate::session::Session::open(&bank.server, crate::session::everything()).await;
    let mut call = session.call(1, "t", json!({})).await;
    let question = call.message().await;
    session
        .answer(&question, accept(json!({ "ok": true })))
        .await;
    let failed = call.message().await;
    let message = failed["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("Steps that were taken: first."),
        "{message}"
    );
}

/// An attempt was granted without a word, and the next one comes too late: nothing has run, and nothing is left in the way.
#[tokio::test]
async fn what_was_granted_without_a_word_is_given_back_when_the_repetition_is_refused() {
    // Of a round.
    let (bank, ledger) = tapped(|builder| builder);
    let state = bank.open().await;
    ledger.claims.set(Mode::LosesItsWord);
    ledger.claims.after(1, Mode::Speaks);
    ledger.claim_takes.store(30, Ordering::SeqCst);
    let (sent, call) = (bank.clone(), Call::retry(&state));
    let begun = ledger.claims_begun.load(Ordering::SeqCst);
    let retried = tokio::spawn(async move { sent.send(&call).await });
    while ledger.claims_begun.load(Ordering::SeqCst) < begun + 2 {
        tokio::task::yield_now().await;
    }
    bank.advance(Duration::from_secs(600));
    let reply = retried.await.unwrap();
    assert_eq!(reply.reason(), Some("expired"), "{reply:?}");
    assert_eq!(
        ledger.inner.rows().await.unwrap().rounds,
        1,
        "it was granted"
    );

    // Of a step, whose flow ends in between.
    let counter = Counter::default();
    let (bank, ledger) = tapped(|builder| {
        builder.state(counter.clone()).tool(tool(
            "t",
            async |flow: DurableFlow, State(counter): State<Counter>| {
                flow.once("step", async || Ok::<_, ToolError>(counter.up()))
                    .await
                    .map(|n| n.to_string())
            },
        ))
    });
    ledger.claims.set(Mode::LosesItsWord);
    ledger.claims.after(1, Mode::Speaks);
    let sent = bank.clone();
    let called = tokio::spawn(async move { sent.send(&first()).await });
    while ledger.claims_begun.load(Ordering::SeqCst) < 1 {
        tokio::task::yield_now().await;
    }
    bank.advance(Duration::from_secs(3600));
    let reply = called.await.unwrap();
    assert_eq!(
        reply.body["result"]["isError"], true,
        "no state was sent that could be bad: {reply:?}"
    );
    assert!(
        reply
            .text()
            .contains("its time was over before the next step"),
        "{reply:?}"
    );
    assert_eq!(
        (counter.get(), ledger.inner.rows().await.unwrap().steps),
        (0, 1)
    );
}

#[tokio::test]
async fn who_is_cancelled_learns_of_steps_of_earlier_rounds_too() {
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
                    let _ = flow.ask("p", confirm()).await;
                    let cut_off = flow.ask("q", confirm());
                    if counter.get() == 0 {
                        flow.once("first", async || Ok::<_, ToolError>(counter.up()))
                            .await?;
                        let _ = cut_off.await;
                        return Ok("not reached in this run");
                    }
                    let _ = cut_off.await;
                    door.reached.notify_one();
                    door.open.notified().await;
                    flow.once("first", async || Ok::<_, ToolError>(counter.up()))
                        .await?;
                    flow.once("second", async || Ok::<_, ToolError>(counter.up()))
                        .await?;
                    Ok::<_, ToolError>("done")
                },
            ))
    });
    let one = bank.send(&first()).await;
    let two = bank.send(&retry(&one, "p")).await;
    assert_eq!((two.asks(), counter.get()), (vec!["q"], 1), "{two:?}");
    let (gone, call) = (bank.clone(), retry(&two, "q"));
    let connection = tokio::spawn(async move { gone.send(&call).await });
    door.reached.notified().await;
    connection.abort();
    assert!(connection.await.unwrap_err().is_cancelled());
    door.open.notify_one();
    bank.server.settled().await;
    let again = bank.send(&retry(&two, "q")).await;
    assert!(
        again.is_replayed() && again.text().contains("Steps that were taken: first."),
        "{again:?}"
    );
    assert_eq!(counter.get(), 1);
}
