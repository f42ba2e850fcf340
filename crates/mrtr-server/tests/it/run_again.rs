//! A tool that may run again after a crash: the same retry takes over a round that was lost, and goes on where it was cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mrtr_ledger::Ledger;
use mrtr_server::{
    BuildError, DurableFlow, Flow, Repeat, Server, ServerBuilder, State, Tool, ToolError, prompt,
    resource, tool,
};
use mrtr_state::{Clock as _, Key, KeyRing};
use mrtr_state_aead::AeadCodec;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::bank::{Bank, Call, Reply, accept, codec};
use crate::durable::{Counter, Door, confirm, first, retry};
use crate::session::{Session, everything};
use crate::tap::{Mode, Tap};

/// Longer than a lease.
const TOO_LONG: Duration = Duration::from_secs(31);

/// What happened, in all processes together.
#[derive(Clone, Default)]
struct World {
    prices: Counter,
    /// Runs that went on with a price.
    shown: Counter,
    payments: Counter,
    mails: Counter,
}

impl World {
    fn happened(&self) -> [usize; 3] {
        [self.prices.get(), self.payments.get(), self.mails.get()]
    }
}

/// Where a process stops and waits: an open door lets it pass.
#[derive(Clone, Default)]
struct Stops {
    in_the_memo: Option<Door>,
    before_the_memo: Option<Door>,
    in_the_step: Option<Door>,
    between_the_steps: Option<Door>,
}

async fn stop(door: &Option<Door>) {
    if let Some(door) = door {
        door.reached.notify_one();
        door.open.notified().await;
    }
}

async fn order(
    flow: DurableFlow,
    State(world): State<World>,
    State(stops): State<Stops>,
) -> Result<String, ToolError> {
    let _ = flow.ask("q", confirm()).await;
    stop(&stops.before_the_memo).await;
    let price = flow
        .memo("price", async || {
            stop(&stops.in_the_memo).await;
            world.prices.up() * 100
        })
        .await;
    world.shown.up();
    let paid = flow
        .once("pay", async || {
            world.payments.up();
            stop(&stops.in_the_step).await;
            Ok::<_, ToolError>(price)
        })
        .await?;
    stop(&stops.between_the_steps).await;
    flow.once("mail", async || Ok::<_, ToolError>(world.mails.up()))
        .await?;
    Ok(format!("shown {price}, paid {paid}"))
}

/// Processes that share a ledger, a clock and the world.
struct Street {
    ledger: Arc<Tap>,
    world: World,
    bank: Bank,
}

impl Street {
    fn new() -> Self {
        let bank = Bank::new();
        Self {
            ledger: Tap::new(bank.clock.clone()),
            world: World::default(),
            bank,
        }
    }

    fn process(&self, tool: Tool, stops: Stops) -> Bank {
        self.with(|builder| builder.tool(tool).state(stops))
    }

    fn with(&self, change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Bank {
        Bank::with(|builder| {
            let ledger: Arc<dyn Ledger> = Arc::clone(&self.ledger) as _;
            change(
                builder
                    .clock(self.bank.clock.clone())
                    .ledger(ledger)
                    .state(self.world.clone()),
            )
        })
    }

    async fn notes(&self) -> u64 {
        self.ledger.inner.rows().await.unwrap().notes
    }
}

fn runs_again() -> Tool {
    tool("t", order).run_again()
}

/// Sends a call that stops at a door, and waits until it has come there.
async fn stopped(bank: &Bank, call: Call, door: &Door) -> JoinHandle<Reply> {
    let bank = bank.clone();
    let sent = tokio::spawn(async move { bank.send(&call).await });
    door.reached.notified().await;
    sent
}

#[tokio::test]
async fn a_lost_round_runs_again_and_goes_on_where_it_was_cut_off() {
    let (street, door) = (Street::new(), Door::default());
    let stops = Stops {
        between_the_steps: Some(door.clone()),
        ..Stops::default()
    };
    let (lost, next) = (
        street.process(runs_again(), stops),
        street.process(runs_again(), Stops::default()),
    );
    let asked = lost.send(&first()).await;
    let stalled = stopped(&lost, retry(&asked, "q"), &door).await;
    assert_eq!(street.world.happened(), [1, 1, 0]);
    let early = next.send(&retry(&asked, "q")).await;
    assert_eq!(early.code(), Some(1001), "its lease runs: {early:?}");

    street.bank.advance(TOO_LONG);
    let done = next.send(&retry(&asked, "q")).await;
    assert_eq!(done.text(), "shown 100, paid 100", "{done:?}");
    assert!(!done.is_replayed());
    assert_eq!(street.world.happened(), [1, 1, 1], "nothing happened twice");

    // The lost owner wakes up: it takes no step, and answers what became of the round.
    door.open.notify_one();
    let late = stalled.await.unwrap();
    assert_eq!(
        (late.text(), late.is_replayed()),
        ("shown 100, paid 100", true)
    );
    assert_eq!(street.world.happened(), [1, 1, 1]);
    let again = next.send(&retry(&asked, "q")).await;
    assert_eq!(
        (again.text(), again.is_replayed()),
        ("shown 100, paid 100", true)
    );
}

#[tokio::test]
async fn without_the_choice_a_lost_round_is_unknown_and_stays_so() {
    let (street, door) = (Street::new(), Door::default());
    let stops = Stops {
        between_the_steps: Some(door.clone()),
        ..Stops::default()
    };
    let lost = street.process(tool("t", order), stops);
    let asked = lost.send(&first()).await;
    let stalled = stopped(&lost, retry(&asked, "q"), &door).await;
    assert_eq!(
        street.notes().await,
        0,
        "and nothing of its memos is in the ledger"
    );
    street.bank.advance(TOO_LONG);
    let next = street.process(tool("t", order), Stops::default());
    for _ in 0..2 {
        assert_eq!(next.send(&retry(&asked, "q")).await.code(), Some(1002));
    }
    door.open.notify_one();
    assert_eq!(stalled.await.unwrap().code(), Some(1002));
    assert_eq!(street.world.happened(), [1, 1, 0]);
    // A tool that learns to run again takes over what was given up before.
    let learned = street.process(runs_again(), Stops::default());
    let done = learned.send(&retry(&asked, "q")).await;
    assert_eq!(
        done.text(),
        "shown 200, paid 100",
        "whose memos were not kept, as its author ought to know"
    );
}

#[tokio::test]
async fn a_step_in_doubt_stays_unknown_until_it_is_settled_and_then_the_call_goes_on() {
    let (street, door) = (Street::new(), Door::default());
    let stops = Stops {
        in_the_step: Some(door.clone()),
        ..Stops::default()
    };
    let lost = street.process(runs_again(), stops);
    let asked = lost.send(&first()).await;
    let stalled = stopped(&lost, retry(&asked, "q"), &door).await;
    street.bank.advance(TOO_LONG);
    let next = street.process(runs_again(), Stops::default());
    for _ in 0..2 {
        let unknown = next.send(&retry(&asked, "q")).await;
        assert_eq!(unknown.code(), Some(1002), "{unknown:?}");
        assert!(
            unknown.body.to_string().contains("step \\\"pay\\\""),
            "{unknown:?}"
        );
    }
    assert_eq!(street.world.happened(), [1, 1, 0]);

    // A step is never taken over, so that its owner may settle it late.
    door.open.notify_one();
    let late = stalled.await.unwrap();
    assert_eq!(
        late.code(),
        Some(1003),
        "its round was taken over and given up: {late:?}"
    );
    let done = next.send(&retry(&asked, "q")).await;
    assert_eq!(done.text(), "shown 100, paid 100", "{done:?}");
    assert_eq!(street.world.happened(), [1, 1, 1]);
}

/// To be told that the call was cancelled before a step is to be told that the step was not taken, and nobody knows that.
#[tokio::test]
async fn who_is_cancelled_before_a_step_in_doubt_keeps_no_word_on_it() {
    let (street, inside, before) = (Street::new(), Door::default(), Door::default());
    let stops = Stops {
        in_the_step: Some(inside.clone()),
        ..Stops::default()
    };
    let lost = street.process(runs_again(), stops);
    let asked = lost.send(&first()).await;
    let stalled = stopped(&lost, retry(&asked, "q"), &inside).await;
    street.bank.advance(TOO_LONG);

    let stops = Stops {
        before_the_memo: Some(before.clone()),
        ..Stops::default()
    };
    let next = street.process(runs_again(), stops);
    let connection = stopped(&next, retry(&asked, "q"), &before).await;
    connection.abort();
    assert!(connection.await.unwrap_err().is_cancelled());
    before.open.notify_one();
    next.server.settled().await;

    let third = street.process(runs_again(), Stops::default());
    let unknown = third.send(&retry(&asked, "q")).await;
    assert_eq!(unknown.code(), Some(1002), "{unknown:?}");
    inside.open.notify_one();
    stalled.await.unwrap();
    let done = third.send(&retry(&asked, "q")).await;
    assert_eq!(done.text(), "shown 100, paid 100", "{done:?}");
    assert_eq!(street.world.happened(), [1, 1, 1]);
}

#[tokio::test]
async fn a_step_that_somebody_is_inside_is_waited_for() {
    let (street, start, door) = (Street::new(), Door::default(), Door::default());
    let stops = Stops {
        before_the_memo: Some(start.clone()),
        in_the_step: Some(door.clone()),
        ..Stops::default()
    };
    let slow = street.process(runs_again(), stops);
    let asked = slow.send(&first()).await;
    let stalled = stopped(&slow, retry(&asked, "q"), &start).await;
    // Its step is claimed long after its round, and so its lease runs longer.
    street.bank.advance(Duration::from_secs(20));
    start.open.notify_one();
    door.reached.notified().await;
    street.bank.advance(Duration::from_secs(11));
    let next = street.process(runs_again(), Stops::default());
    let waits = next.send(&retry(&asked, "q")).await;
    assert_eq!(waits.code(), Some(1001), "{waits:?}");
    assert!(waits.body["error"]["data"]["retryAfterMs"].is_u64());
    door.open.notify_one();
    stalled.await.unwrap();
    assert_eq!(
        next.send(&retry(&asked, "q")).await.text(),
        "shown 100, paid 100"
    );
    assert_eq!(street.world.happened(), [1, 1, 1]);
}

#[tokio::test]
async fn a_withdrawn_run_keeps_no_memo() {
    let (street, memo, before) = (Street::new(), Door::default(), Door::default());
    let lost = street.process(
        runs_again(),
        Stops {
            in_the_memo: Some(memo.clone()),
            ..Stops::default()
        },
    );
    let next = street.process(
        runs_again(),
        Stops {
            before_the_memo: Some(before.clone()),
            ..Stops::default()
        },
    );
    let asked = lost.send(&first()).await;
    let stalled = stopped(&lost, retry(&asked, "q"), &memo).await;
    street.bank.advance(TOO_LONG);
    let taken_over = stopped(&next, retry(&asked, "q"), &before).await;
    memo.open.notify_one();
    let late = stalled.await.unwrap();
    assert_eq!(late.code(), Some(1001), "another run is at it: {late:?}");
    assert_eq!(
        (street.notes().await, street.world.happened()),
        (0, [1, 0, 0])
    );
    assert_eq!(street.world.shown.get(), 0, "what is not kept is not used");
    before.open.notify_one();
    assert_eq!(taken_over.await.unwrap().text(), "shown 200, paid 200");
    assert_eq!(street.notes().await, 1);
}

/// Somebody whose clock is ahead is told that the round is lost and does not run it: the run that was withdrawn so gives it up,
/// and its caller is asked to repeat. *Unknown* would be said of a round that the same retry can still take over.
#[tokio::test]
async fn a_run_that_was_withdrawn_by_a_look_up_leaves_the_round_to_the_next_one() {
    let (street, door) = (Street::new(), Door::default());
    let stops = Stops {
        before_the_memo: Some(door.clone()),
        ..Stops::default()
    };
    let bank = street.process(runs_again(), stops);
    let asked = bank.send(&first()).await;
    let running = stopped(&bank, retry(&asked, "q"), &door).await;

    street.bank.clock.advance(TOO_LONG);
    let ahead = Bank::new().clock;
    ahead.set(street.bank.clock.now());
    ahead.advance(Duration::from_secs(700));
    let other = street.with(|builder| {
        let builder = builder.tool(runs_again()).state(Stops::default());
        builder.clock(ahead)
    });
    let late = other.send(&retry(&asked, "q")).await;
    assert_eq!(late.code(), Some(1002), "by its clock it is over: {late:?}");

    door.open.notify_one();
    let withdrawn = running.await.unwrap();
    assert_eq!(withdrawn.code(), Some(1003), "{withdrawn:?}");
    assert_eq!(street.world.happened(), [1, 0, 0], "the memo was not kept");

    door.open.notify_one();
    let done = bank.send(&retry(&asked, "q")).await;
    assert_eq!(done.text(), "shown 200, paid 200");
    assert_eq!(street.world.happened(), [2, 1, 1]);
}

#[tokio::test]
async fn memos_are_kept_before_they_are_used_and_only_where_a_run_may_come_again() {
    let (street, door) = (Street::new(), Door::default());
    let stops = Stops {
        in_the_step: Some(door.clone()),
        ..Stops::default()
    };
    let bank = street.process(runs_again(), stops);
    let asked = bank.send(&first()).await;
    let running = stopped(&bank, retry(&asked, "q"), &door).await;
    assert_eq!(street.notes().await, 1, "while its value is being used");
    door.open.notify_one();
    running.await.unwrap();

    // On a first call nothing could run again, and the earlier era has no retries.
    let street = Street::new();
    let bank = street.with(|builder| {
        let body = async |flow: Flow| {
            let price = flow.memo("price", async || 7).await;
            let _ = flow.ask("q", confirm()).await;
            format!("price {price}")
        };
        builder.tool(tool("t", body).run_again())
    });
    let asked = bank.send(&first()).await;
    assert_eq!(street.notes().await, 0);
    let done = bank.send(&retry(&asked, "q")).await;
    assert_eq!(
        (done.text(), street.notes().await),
        ("price 7", 0),
        "the state has it"
    );
    let session = Session::open(&bank.server, everything()).await;
    let mut call = session.call(1, "t", json!({})).await;
    let question = call.message().await;
    session
        .answer(&question, accept(json!({ "ok": true })))
        .await;
    assert_eq!(crate::session::text(&call.message().await), "price 7");
    assert_eq!(street.notes().await, 0);
}

#[tokio::test]
async fn with_aead_the_ledger_keeps_no_readable_memo() {
    for (sealed, readable) in [(false, true), (true, false)] {
        let street = Street::new();
        let bank = street.with(|builder| {
            let key = Key::from_bytes(&(0..32).collect::<Vec<u8>>()).unwrap();
            let builder = match sealed {
                true => builder.codec(AeadCodec::new(KeyRing::new(key)).unwrap()),
                false => builder.codec(codec()),
            };
            let body = async |flow: Flow| {
                let _ = flow.ask("q", confirm()).await;
                flow.memo("secret", async || "SECRET-4711".to_owned()).await;
                "done"
            };
            builder.tool(tool("t", body).run_again())
        });
        let asked = bank.send(&first()).await;
        assert_eq!(bank.send(&retry(&asked, "q")).await.text(), "done");
        assert_eq!(street.notes().await, 1);
        let seen = street.ledger.seen.lock().unwrap().clone();
        let seen = String::from_utf8_lossy(&seen).into_owned();
        assert_eq!(seen.contains("SECRET-4711"), readable, "sealed: {sealed}");
    }
}

/// Panics behind its step, as long as it is told to.
fn panics(fault: &Arc<AtomicBool>) -> Tool {
    let fault = Arc::clone(fault);
    tool("t", move |flow: DurableFlow, State(world): State<World>| {
        let fault = Arc::clone(&fault);
        async move {
            let _ = flow.ask("q", confirm()).await;
            let paid = flow
                .once("pay", async || Ok::<_, ToolError>(world.payments.up()))
                .await?;
            assert!(!fault.load(Ordering::SeqCst), "a fault of the tool's");
            Ok::<_, ToolError>(format!("paid {paid}"))
        }
    })
}

#[tokio::test]
async fn a_panic_leaves_the_round_to_the_next_run() {
    let (street, fault) = (Street::new(), Arc::new(AtomicBool::new(true)));
    let bank = street.process(panics(&fault).run_again(), Stops::default());
    let asked = bank.send(&first()).await;
    for _ in 0..2 {
        let panicked = bank.send(&retry(&asked, "q")).await;
        assert_eq!(panicked.code(), Some(-32603), "{panicked:?}");
        let message = panicked.body["error"]["message"].as_str().unwrap();
        assert!(message.contains("may be sent again"), "{message}");
        assert!(!message.contains("spent"), "{message}");
    }
    fault.store(false, Ordering::SeqCst);
    assert_eq!(bank.send(&retry(&asked, "q")).await.text(), "paid 1");
    assert_eq!(street.world.payments.get(), 1);

    // Where it may not run again, the panic is what the call came to.
    let (street, fault) = (Street::new(), Arc::new(AtomicBool::new(true)));
    let bank = street.process(panics(&fault), Stops::default());
    let asked = bank.send(&first()).await;
    let panicked = bank.send(&retry(&asked, "q")).await;
    assert!(
        panicked
            .body
            .to_string()
            .contains("The requestState is spent."),
        "{panicked:?}"
    );
    fault.store(false, Ordering::SeqCst);
    assert_eq!(
        bank.send(&retry(&asked, "q")).await.body["error"],
        panicked.body["error"]
    );
}

/// The ledger itself panics, beside the body: the task is gone, and nobody waits for its lease.
#[tokio::test(start_paused = true)]
async fn a_lost_task_leaves_its_round_at_once() {
    for (again, expected) in [(false, Err(Some(1002))), (true, Ok("paid 1"))] {
        let street = Street::new();
        let gate = Door::default();
        let body = {
            let gate = gate.clone();
            move |flow: DurableFlow, State(world): State<World>| {
                let gate = gate.clone();
                async move {
                    let _ = flow.ask("q", confirm()).await;
                    let paid = flow
                        .once("pay", async || Ok::<_, ToolError>(world.payments.up()))
                        .await?;
                    stop(&Some(gate)).await;
                    Ok::<_, ToolError>(format!("paid {paid}"))
                }
            }
        };
        let tool = tool("t", body);
        let tool = if again { tool.run_again() } else { tool };
        let bank = street.process(tool, Stops::default());
        let asked = bank.send(&first()).await;
        street.ledger.beats_panic.store(true, Ordering::SeqCst);
        let lost = bank.send(&retry(&asked, "q")).await;
        let code = if again { 1003 } else { 1002 };
        assert_eq!(lost.code(), Some(code), "{lost:?}");
        street.ledger.beats_panic.store(false, Ordering::SeqCst);
        bank.server.settled().await;
        gate.open.notify_one();
        // The clock has not moved: it is not the lease that lets the next run in.
        let next = bank.send(&retry(&asked, "q")).await;
        match expected {
            Ok(text) => assert_eq!(next.text(), text),
            Err(code) => assert_eq!(next.code(), code, "{next:?}"),
        }
        assert_eq!(street.world.payments.get(), 1);
    }
}

#[tokio::test]
async fn a_run_that_finds_no_room_leaves_the_round_to_the_next_one() {
    let (street, door) = (Street::new(), Door::default());
    let stops = Stops {
        between_the_steps: Some(door.clone()),
        ..Stops::default()
    };
    let lost = street.process(runs_again(), stops);
    let asked = lost.send(&first()).await;
    let stalled = stopped(&lost, retry(&asked, "q"), &door).await;
    street.bank.advance(TOO_LONG);

    let busy = Door::default();
    let next = street.with(|builder| {
        builder
            .limits(|limits| limits.running_per_principal = 1)
            .state(Stops::default())
            .state(busy.clone())
            .tool(runs_again())
            .tool(tool("busy", async |State(busy): State<Door>| {
                stop(&Some(busy)).await;
                "done"
            }))
    });
    let in_the_way = stopped(&next, Call::of("busy", json!({})), &busy).await;
    for _ in 0..2 {
        let refused = next.send(&retry(&asked, "q")).await;
        assert_eq!(refused.code(), Some(1003), "{refused:?}");
    }
    busy.open.notify_one();
    in_the_way.await.unwrap();
    assert_eq!(
        next.send(&retry(&asked, "q")).await.text(),
        "shown 100, paid 100"
    );
    assert_eq!(street.world.happened(), [1, 1, 1]);
    door.open.notify_one();
    assert!(stalled.await.unwrap().is_replayed());
}

#[tokio::test]
async fn no_word_in_the_middle_is_an_invitation_to_repeat_and_nothing_is_lost() {
    type Silence = fn(&Tap);
    let silences: [(&str, Silence, [usize; 3]); 5] = [
        (
            "on a memo's look-up",
            |tap| tap.lookups.set(Mode::Silent),
            [0, 0, 0],
        ),
        ("on a memo", |tap| tap.notes.set(Mode::Silent), [1, 0, 0]),
        (
            "on a memo that was written",
            |tap| tap.notes.set(Mode::LosesItsWord),
            [1, 0, 0],
        ),
        (
            "on the second step's claim",
            |tap| tap.claims.after(2, Mode::Silent),
            [1, 1, 0],
        ),
        (
            "on the round's settling",
            |tap| tap.settlings.after(2, Mode::Silent),
            [1, 1, 1],
        ),
    ];
    for (name, silence, happened) in silences {
        let street = Street::new();
        let bank = street.process(runs_again(), Stops::default());
        let asked = bank.send(&first()).await;
        silence(&street.ledger);
        let told = bank.send(&retry(&asked, "q")).await;
        assert_eq!(told.code(), Some(1003), "{name}: {told:?}");
        assert_eq!(street.world.happened(), happened, "{name}");
        for switch in [
            &street.ledger.lookups,
            &street.ledger.notes,
            &street.ledger.claims,
            &street.ledger.settlings,
        ] {
            switch.set(Mode::Speaks);
        }
        bank.server.settled().await;
        let done = bank.send(&retry(&asked, "q")).await;
        let [prices, payments, mails] = street.world.happened();
        assert_eq!((payments, mails), (1, 1), "{name}");
        // Computed again where it was not known to be kept, and used in the end as it was kept.
        let kept = if name == "on a memo" { 2 } else { 1 };
        assert_eq!(prices, kept, "{name}");
        let shown = 100 * kept;
        assert_eq!(
            done.text(),
            format!("shown {shown}, paid {shown}"),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_memo_that_cannot_be_read_or_kept_ends_the_call_and_is_not_computed_anew() {
    let (street, door) = (Street::new(), Door::default());
    let stops = Stops {
        between_the_steps: Some(door.clone()),
        ..Stops::default()
    };
    let lost = street.process(runs_again(), stops);
    let asked = lost.send(&first()).await;
    drop(stopped(&lost, retry(&asked, "q"), &door).await);
    street.bank.advance(TOO_LONG);
    street.ledger.garbles.store(true, Ordering::SeqCst);
    let next = street.process(runs_again(), Stops::default());
    let unknown = next.send(&retry(&asked, "q")).await;
    assert_eq!(unknown.code(), Some(1002), "{unknown:?}");
    assert!(
        unknown.body.to_string().contains("memo \\\"price\\\""),
        "{unknown:?}"
    );
    assert_eq!(street.world.happened(), [1, 1, 0]);
    street.ledger.garbles.store(false, Ordering::SeqCst);
    assert_eq!(
        next.send(&retry(&asked, "q")).await.text(),
        "shown 100, paid 100"
    );

    for (length, fits) in [(65_534_usize, true), (65_535, false)] {
        let street = Street::new();
        let bank = street.with(|builder| {
            let body = async |flow: Flow, State(length): State<usize>| {
                let _ = flow.ask("q", confirm()).await;
                let text = flow.memo("text", async || "x".repeat(length)).await;
                text.len().to_string()
            };
            builder.state(length).tool(tool("t", body).run_again())
        });
        let asked = bank.send(&first()).await;
        let reply = bank.send(&retry(&asked, "q")).await;
        match fits {
            true => assert_eq!(reply.text(), length.to_string()),
            false => {
                assert_eq!(reply.code(), Some(-32603), "{reply:?}");
                assert!(reply.body.to_string().contains("keeps 65537 bytes in memo"));
            }
        }
    }
}

#[tokio::test]
async fn a_round_that_asks_again_is_taken_over_as_well() {
    let (street, door) = (Street::new(), Door::default());
    let body = async |flow: Flow, State(stops): State<Stops>| {
        let _ = flow.ask("a", confirm()).await;
        let number = flow.memo("number", async || 4).await;
        stop(&stops.between_the_steps).await;
        let _ = flow.ask("b", confirm()).await;
        format!("number {number}")
    };
    let stops = Stops {
        between_the_steps: Some(door.clone()),
        ..Stops::default()
    };
    let lost = street.process(tool("t", body).run_again(), stops);
    let next = street.process(tool("t", body).run_again(), Stops::default());
    let one = lost.send(&first()).await;
    drop(stopped(&lost, retry(&one, "a"), &door).await);
    street.bank.advance(TOO_LONG);
    let two = next.send(&retry(&one, "a")).await;
    assert_eq!(two.asks(), ["b"], "{two:?}");
    assert_eq!(next.send(&retry(&two, "b")).await.text(), "number 4");
}

#[test]
fn the_choice_is_refused_where_it_could_not_matter() {
    let without_ledger = || {
        Server::builder("s", "1")
            .audience("a")
            .allow_anonymous()
            .codec(codec())
    };
    let asks = async |flow: Flow| {
        let _ = flow.ask("q", confirm()).await;
        "done"
    };
    let refused = |builder: ServerBuilder, part: &str| {
        let error = builder.build().unwrap_err();
        assert!(matches!(error, BuildError::Handler { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    let plain = tool("t", async || "done").run_again();
    refused(without_ledger().tool(plain), "tool `t`: it takes no `Flow`");
    refused(
        without_ledger().tool(tool("t", asks).run_again()),
        "or leave out `run_again`",
    );
    let street = Street::new();
    street.with(|builder| {
        builder
            .tool(tool("t", asks).run_again().repeat(Repeat::Receipt))
            .prompt(prompt("p", asks).run_again())
            .resource(resource("note://a", asks).run_again())
    });
}
