//! The flow: what is asked, when it is asked again, and what ends a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use mrtr_server::{
    Answer, DurableFlow, Flow, Form, Kind, ServerBuilder, State, Tool, ToolError, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bank::{Bank, Call, Reply, accept};

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

fn confirm(message: impl Into<String>) -> Form<Confirm> {
    Form::new(message)
}

fn yes() -> Value {
    accept(json!({ "ok": true }))
}

/// A bank with one more tool, called `t`.
fn with_tool(tool: Tool) -> Bank {
    Bank::with(|builder| builder.tool(tool))
}

/// A bank with one more tool and shared state.
fn with_tool_and<T: Clone + Send + Sync + 'static>(tool: Tool, state: T) -> Bank {
    Bank::with(|builder: ServerBuilder| builder.tool(tool).state(state))
}

async fn first(bank: &Bank) -> Reply {
    bank.send(&Call::of("t", json!({}))).await
}

async fn retry(bank: &Bank, last: &Reply, answers: &[(&str, Value)]) -> Reply {
    let call = Call::of("t", json!({}))
        .id(2)
        .state(last.state())
        .param("inputResponses", json!({}));
    bank.send(
        &answers
            .iter()
            .fold(call, |call, (key, answer)| call.answer(key, answer.clone())),
    )
    .await
}

#[derive(Clone, Default)]
struct Price(Arc<AtomicU64>);

impl Price {
    fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn set(&self, price: u64) {
        self.0.store(price, Ordering::SeqCst);
    }
}

async fn buy(flow: Flow, State(price): State<Price>) -> String {
    let price = price.get();
    match flow
        .ask("confirm", confirm(format!("Buy for {price}?")))
        .await
    {
        Answer::Accept(Confirm { ok: true }) => format!("bought for {price}"),
        _ => "not bought".into(),
    }
}

#[tokio::test]
async fn a_changed_question_is_put_again() {
    let price = Price::default();
    price.set(190);
    let bank = with_tool_and(tool("t", buy), price.clone());
    let asked = first(&bank).await;
    price.set(210);
    let again = retry(&bank, &asked, &[("confirm", yes())]).await;
    assert_eq!(again.asks(), ["confirm"], "{again:?}");
    let message = &again.body["result"]["inputRequests"]["confirm"]["params"]["message"];
    assert_eq!(message, "Buy for 210?");
    let done = retry(&bank, &again, &[("confirm", yes())]).await;
    assert_eq!(done.text(), "bought for 210");
}

#[tokio::test]
async fn without_its_guard_an_answer_counts_for_a_changed_question() {
    let price = Price::default();
    price.set(190);
    let bank = Bank::with(|builder| {
        builder
            .tool(tool("t", buy))
            .state(price.clone())
            .dangerous()
            .ignore_question_digest()
    });
    let asked = first(&bank).await;
    price.set(210);
    assert_eq!(
        retry(&bank, &asked, &[("confirm", yes())]).await.text(),
        "bought for 210"
    );
}

async fn buy_two(flow: Flow, State(price): State<Price>) -> String {
    let price = price.get();
    let _ = flow
        .ask("first", confirm(format!("Seat for {price}?")))
        .await;
    let _ = flow.ask("second", confirm("Really?")).await;
    format!("bought for {price}")
}

#[tokio::test]
async fn an_earlier_rounds_answer_is_tied_to_its_question_too() {
    let price = Price::default();
    price.set(190);
    let bank = with_tool_and(tool("t", buy_two), price.clone());
    let one = first(&bank).await;
    let two = retry(&bank, &one, &[("first", yes())]).await;
    assert_eq!(two.asks(), ["second"]);
    price.set(210);
    let again = retry(&bank, &two, &[("second", yes())]).await;
    assert_eq!(again.asks(), ["first"], "{again:?}");
}

async fn pinned(flow: Flow, State(price): State<Price>) -> String {
    let price = flow.memo("price", async || price.get()).await;
    let _ = flow
        .ask("confirm", confirm(format!("Buy for {price}?")))
        .await;
    format!("bought for {price}")
}

#[tokio::test]
async fn a_memo_keeps_what_was_shown() {
    let price = Price::default();
    price.set(190);
    let bank = with_tool_and(tool("t", pinned), price.clone());
    let asked = first(&bank).await;
    price.set(210);
    assert_eq!(
        retry(&bank, &asked, &[("confirm", yes())]).await.text(),
        "bought for 190"
    );
}

async fn insistent(flow: Flow) -> &'static str {
    match flow.ask("confirm", confirm("Sure?")).await {
        Answer::Accept(_) => "yes",
        _ => match flow.ask("again", confirm("Sure?")).await {
            Answer::Accept(_) => "yes, at last",
            Answer::Decline => "declined",
            Answer::Cancel => "dismissed",
        },
    }
}

#[tokio::test]
async fn a_declined_question_is_not_put_under_another_key_and_a_dismissed_one_is() {
    let bank = with_tool(tool("t", insistent));
    let asked = first(&bank).await;
    let declined = retry(
        &bank,
        &asked,
        &[("confirm", json!({ "action": "decline" }))],
    )
    .await;
    assert_eq!(declined.text(), "declined");
    let asked = first(&bank).await;
    let dismissed = retry(&bank, &asked, &[("confirm", json!({ "action": "cancel" }))]).await;
    assert_eq!(dismissed.asks(), ["again"]);
    assert_eq!(
        retry(&bank, &dismissed, &[("again", yes())]).await.text(),
        "yes, at last"
    );
}

#[tokio::test]
async fn what_is_asked_in_one_poll_is_one_round() {
    let bank = with_tool(tool("t", async |flow: Flow| {
        let questions =
            (0..40).map(|n| flow.ask(format!("q{n}"), confirm(format!("Question {n}?"))));
        let answers = futures_util::future::join_all(questions).await;
        format!(
            "{} accepted",
            answers.into_iter().filter_map(Answer::accepted).count()
        )
    }));
    let asked = first(&bank).await;
    assert_eq!(asked.asks().len(), 40);
    let answers: Vec<(String, Value)> = (0..40).map(|n| (format!("q{n}"), yes())).collect();
    let answers: Vec<(&str, Value)> = answers
        .iter()
        .map(|(key, answer)| (key.as_str(), answer.clone()))
        .collect();
    assert_eq!(retry(&bank, &asked, &answers).await.text(), "40 accepted");
}

#[tokio::test]
async fn a_branch_that_waits_before_it_asks_comes_in_a_later_round() {
    let bank = with_tool(tool("t", async |flow: Flow| {
        let later = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            flow.ask("later", confirm("Later?")).await
        };
        let _ = tokio::join!(flow.ask("now", confirm("Now?")), later);
        "done"
    }));
    let one = first(&bank).await;
    assert_eq!(one.asks(), ["now"]);
    let two = retry(&bank, &one, &[("now", yes())]).await;
    assert_eq!(two.asks(), ["later"]);
    assert_eq!(retry(&bank, &two, &[("later", yes())]).await.text(), "done");
}

#[tokio::test]
async fn the_loser_of_a_select_takes_its_question_back() {
    let bank = with_tool(tool("t", async |flow: Flow| {
        {
            let ask = flow.ask("lost", confirm("Lost?"));
            tokio::select! {
                biased;
                _ = ask => {}
                () = async {} => {}
            }
        }
        let _ = flow.ask("kept", confirm("Kept?")).await;
        "done"
    }));
    let one = first(&bank).await;
    assert_eq!(one.asks(), ["kept"]);
    assert_eq!(retry(&bank, &one, &[("kept", yes())]).await.text(), "done");
}

#[tokio::test]
async fn a_question_suspends_at_once_whatever_clock_is_around_it() {
    let bank = with_tool(tool("t", async |flow: Flow| {
        let answer =
            tokio::time::timeout(Duration::from_secs(3600), flow.ask("q", confirm("?"))).await;
        if answer.is_ok() {
            "answered"
        } else {
            "timed out"
        }
    }));
    let one = first(&bank).await;
    assert_eq!(retry(&bank, &one, &[("q", yes())]).await.text(), "answered");
}

#[tokio::test]
async fn a_memo_that_runs_is_not_cut_off_by_a_question() {
    let computed = Arc::new(AtomicUsize::new(0));
    let bank = with_tool_and(
        tool(
            "t",
            async |flow: Flow, State(computed): State<Arc<AtomicUsize>>| {
                let slow = flow.memo("slow", async || {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    computed.fetch_add(1, Ordering::SeqCst)
                });
                let (_, value) = tokio::join!(flow.ask("q", confirm("?")), slow);
                format!("value {value}")
            },
        ),
        Arc::clone(&computed),
    );
    let one = first(&bank).await;
    assert_eq!(one.asks(), ["q"]);
    assert_eq!(retry(&bank, &one, &[("q", yes())]).await.text(), "value 0");
    assert_eq!(
        computed.load(Ordering::SeqCst),
        1,
        "kept from the first round"
    );
}

/// The internal error that a misuse ends with; it names what was misused.
fn assert_ends(reply: &Reply, names: &str) {
    assert_eq!(reply.code(), Some(-32603), "{reply:?}");
    let message = reply.body["error"]["message"].as_str().unwrap();
    assert!(message.contains(names), "{message:?} names {names:?}");
}

#[tokio::test]
async fn case_125_a_key_is_used_once_in_a_run() {
    for (handler, name) in [
        (
            tool("t", async |flow: Flow| {
                let _ = tokio::join!(flow.ask("k", confirm("A?")), flow.ask("k", confirm("B?")));
                "done"
            }),
            r#"ask("k")"#,
        ),
        (
            tool("t", async |flow: Flow| {
                let one = flow.memo("m", async || 1).await;
                format!("{}", one + flow.memo("m", async || 2).await)
            }),
            r#"memo("m")"#,
        ),
    ] {
        assert_ends(&first(&with_tool(handler)).await, name);
    }
    // Questions and memos have a namespace each.
    let bank = with_tool(tool("t", async |flow: Flow| {
        let _ = flow.memo("k", async || 1).await;
        let _ = flow.ask("k", confirm("A?")).await;
        "done"
    }));
    assert_eq!(first(&bank).await.asks(), ["k"]);
}

#[tokio::test]
async fn a_memo_of_another_type_ends_the_call() {
    let second_round = Arc::new(AtomicBool::new(false));
    let bank = with_tool_and(
        tool(
            "t",
            async |flow: Flow, State(second): State<Arc<AtomicBool>>| {
                if second.load(Ordering::SeqCst) {
                    flow.memo("m", async || true).await;
                } else {
                    flow.memo("m", async || "text".to_owned()).await;
                }
                let _ = flow.ask("q", confirm("?")).await;
                "done"
            },
        ),
        Arc::clone(&second_round),
    );
    let one = first(&bank).await;
    assert_eq!(one.asks(), ["q"]);
    second_round.store(true, Ordering::SeqCst);
    assert_ends(&retry(&bank, &one, &[("q", yes())]).await, r#"memo("m")"#);
}

#[tokio::test]
async fn a_flow_that_moves_to_another_task_ends_the_call_and_leaks_none() {
    let ended = Arc::new(AtomicBool::new(false));
    let bank = with_tool_and(
        tool(
            "t",
            async |flow: Flow, State(ended): State<Arc<AtomicBool>>| {
                let task =
                    tokio::spawn(
                        async move { flow.ask("q", confirm("?")).await.accepted().is_some() },
                    );
                let outcome = task.await;
                ended.store(outcome.is_err(), Ordering::SeqCst);
                "done"
            },
        ),
        Arc::clone(&ended),
    );
    let reply = tokio::time::timeout(Duration::from_secs(30), first(&bank))
        .await
        .expect("it ends");
    assert_ends(&reply, r#"ask("q")"#);
    assert!(ended.load(Ordering::SeqCst), "the other task ended too");
}

#[tokio::test]
async fn a_body_that_trips_over_its_lost_task_is_told_about_the_task() {
    let bank = with_tool(tool("t", async |flow: Flow| {
        tokio::spawn(async move { flow.ask("q", confirm("?")).await.accepted().is_some() })
            .await
            .unwrap();
        "done"
    }));
    assert_ends(&first(&bank).await, r#"ask("q")"#);
}

#[tokio::test]
async fn a_question_that_moves_to_another_task_half_way_ends_there() {
    let ended = Arc::new(AtomicBool::new(false));
    let bank = with_tool_and(
        tool(
            "t",
            async |flow: Flow, State(ended): State<Arc<AtomicBool>>| {
                let mut asking =
                    Box::pin(async move { flow.ask("q", confirm("?")).await.accepted().is_some() });
                assert!(futures_util::poll!(&mut asking).is_pending());
                let outcome = tokio::spawn(asking).await;
                ended.store(outcome.is_err(), Ordering::SeqCst);
                "done"
            },
        ),
        Arc::clone(&ended),
    );
    let reply = tokio::time::timeout(Duration::from_secs(30), first(&bank))
        .await
        .expect("it ends");
    // In the poll in which it was asked the question still counts; what matters is that no task is left behind.
    assert!(
        reply.code() == Some(-32603) || reply.asks() == ["q"],
        "{reply:?}"
    );
}

#[tokio::test]
async fn nothing_can_be_asked_kept_or_done_once_inside_a_memo_or_a_once() {
    async fn inner(which: &str, flow: &DurableFlow) {
        match which {
            "ask" => drop(flow.ask("inner", confirm("?")).await.accepted()),
            "memo" => flow.memo("inner", async || ()).await,
            _ => drop(flow.once("inner", async || Ok::<_, ToolError>(())).await),
        }
    }
    for outer in ["memo", "once"] {
        for which in ["ask", "memo", "once"] {
            let bank = with_tool_and(
                tool(
                    "t",
                    async |flow: DurableFlow, State(pair): State<(&'static str, &'static str)>| {
                        let (outer, which) = pair;
                        if outer == "memo" {
                            flow.memo("outer", async || inner(which, &flow).await).await;
                        } else {
                            let work = async || {
                                inner(which, &flow).await;
                                Ok::<_, ToolError>(())
                            };
                            drop(flow.once("outer", work).await);
                        }
                        "done"
                    },
                ),
                (outer, which),
            );
            let reply = tokio::time::timeout(Duration::from_secs(30), first(&bank));
            let reply = reply
                .await
                .unwrap_or_else(|_| panic!("{which} in {outer} hangs"));
            assert_ends(&reply, &format!(r#"{which}("inner")"#));
            tokio::time::timeout(Duration::from_secs(30), bank.server.settled())
                .await
                .expect("nothing is left");
        }
    }
}

#[tokio::test]
async fn a_panic_is_an_internal_error_and_the_server_goes_on() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }
    for handler in [
        tool("t", async |_: Flow| -> &'static str {
            panic!("in the body")
        }),
        tool("t", async |flow: Flow| {
            let _bomb = Bomb;
            let _ = flow.ask("q", confirm("?")).await;
            "done"
        }),
    ] {
        let bank = with_tool(handler);
        let reply = first(&bank).await;
        assert_eq!(reply.code(), Some(-32603), "{reply:?}");
        assert!(
            !reply.body.to_string().contains("in the body"),
            "the panic's text stays in the log"
        );
        let state = bank.open().await;
        crate::cases::works("the next call", &bank, &state).await;
    }
}

#[tokio::test]
async fn rounds_are_limited() {
    let bank = with_tool(tool("t", async |flow: Flow| {
        for round in 0.. {
            let _ = flow
                .ask(format!("q{round}"), confirm(format!("{round}?")))
                .await;
        }
        "never"
    }));
    let mut reply = first(&bank).await;
    for round in 1..=15 {
        let key = format!("q{}", round - 1);
        reply = retry(&bank, &reply, &[(&key, yes())]).await;
        assert_eq!(reply.asks(), [format!("q{round}")]);
    }
    let end = retry(&bank, &reply, &[("q15", yes())]).await;
    assert_eq!(end.body["result"]["isError"], true, "{end:?}");
    assert!(end.text().contains("16 rounds"), "{end:?}");
}

#[tokio::test]
async fn no_state_outlives_its_flow() {
    let bank = with_tool(
        tool("t", async |flow: Flow| {
            let _ = flow.ask("a", confirm("A?")).await;
            let _ = flow.ask("b", confirm("B?")).await;
            let _ = flow.ask("c", confirm("C?")).await;
            "done"
        })
        .lifetime(Duration::from_secs(3600))
        .flow_lifetime(Duration::from_secs(3600)),
    );
    let one = first(&bank).await;
    bank.advance(Duration::from_secs(3599));
    let two = retry(&bank, &one, &[("a", yes())]).await;
    assert_eq!(two.asks(), ["b"]);
    bank.advance(Duration::from_secs(1));
    assert_eq!(
        retry(&bank, &two, &[("b", yes())]).await.reason(),
        Some("expired")
    );
}

#[tokio::test]
async fn a_handler_can_look_before_it_asks() {
    let bank = with_tool(tool("t", async |flow: Flow| {
        if !flow.can_ask(Kind::Form) {
            return "another way";
        }
        let _ = flow.ask("q", confirm("?")).await;
        "done"
    }));
    assert_eq!(
        bank.send(&Call::of("t", json!({})).declaring(json!({})))
            .await
            .text(),
        "another way"
    );
    assert_eq!(first(&bank).await.asks(), ["q"]);
}

#[tokio::test]
async fn causes_stay_in_the_log() {
    let bank = with_tool(tool("t", async || -> Result<String, ToolError> {
        Ok(std::fs::read_to_string("/nonexistent/secret-path")?)
    }));
    let reply = first(&bank).await;
    assert_eq!(reply.body["result"]["isError"], true);
    assert_eq!(reply.text(), "The tool failed.");
    let bank = with_tool(tool("t", async || -> Result<String, ToolError> {
        Err(ToolError::text("Try a smaller one."))
    }));
    assert_eq!(first(&bank).await.text(), "Try a smaller one.");
}
