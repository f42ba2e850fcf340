//! What a repeated retry gets of a call that has ended: the result, a receipt, or nothing.

use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::{Ledger, MemoryLedger};
use mrtr_server::{
    BuildError, DurableFlow, Flow, Json, Repeat, Server, ServerBuilder, State, Tool, ToolError,
    prompt, resource, tool,
};
use serde_json::json;

use crate::bank::{Bank, Call, Reply, accept, codec};
use crate::durable::{Counter, Door, confirm, first, retry};
use crate::tap::tapped;

/// Asks, and then gives something that is to be seen once.
fn draws_a_password() -> Tool {
    tool("t", async |flow: Flow| {
        let _ = flow.ask("p", confirm()).await;
        let _ = flow.ask("q", confirm()).await;
        "your password is SECRET-4711"
    })
}

fn two_rounds(last: &Reply) -> Call {
    retry(last, "q")
}

#[tokio::test]
async fn a_result_is_repeated_unless_the_tool_says_otherwise() {
    let (bank, ledger) = tapped(|builder| builder.tool(draws_a_password()));
    let one = bank.send(&first()).await;
    let two = bank.send(&retry(&one, "p")).await;
    assert_eq!(
        bank.send(&two_rounds(&two)).await.text(),
        "your password is SECRET-4711"
    );
    let again = bank.send(&two_rounds(&two)).await;
    assert_eq!(
        (again.text(), again.is_replayed()),
        ("your password is SECRET-4711", true)
    );
    let kept = String::from_utf8_lossy(&ledger.seen.lock().unwrap()).into_owned();
    assert!(
        kept.contains("SECRET-4711"),
        "so that its absence below means something"
    );
}

#[tokio::test]
async fn case_110_a_receipt_says_that_it_is_done_and_the_ledger_has_nothing_of_the_result() {
    let (bank, ledger) = tapped(|builder| builder.tool(draws_a_password().repeat(Repeat::Receipt)));
    let one = bank.send(&first()).await;
    let two = bank.send(&retry(&one, "p")).await;
    let question_again = bank.send(&retry(&one, "p")).await;
    assert!(
        question_again.is_replayed(),
        "questions are repeated as ever"
    );
    assert_eq!(question_again.state(), two.state());

    assert_eq!(
        bank.send(&two_rounds(&two)).await.text(),
        "your password is SECRET-4711"
    );
    for _ in 0..2 {
        let receipt = bank.send(&two_rounds(&two)).await;
        let result = &receipt.body["result"];
        assert!(
            receipt.is_replayed() && receipt.text().starts_with("Already done"),
            "{receipt:?}"
        );
        assert_ne!(result["isError"], true);
        assert_eq!(result["resultType"], "complete");
        assert_eq!(
            result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"],
            "bank"
        );
        assert!(!receipt.body.to_string().contains("4711"), "{receipt:?}");
    }
    let other_answer = two_rounds(&two).answer("q", json!({ "action": "decline" }));
    assert_eq!(
        bank.send(&other_answer).await.reason(),
        Some("already_used")
    );
    let kept = String::from_utf8_lossy(&ledger.seen.lock().unwrap()).into_owned();
    assert!(!kept.contains("4711"), "{kept}");
    assert_eq!(ledger.inner.rows().await.unwrap().settled_rounds, 2);
}

#[tokio::test]
async fn a_rejection_says_that_the_state_was_used_and_the_ledger_has_nothing_of_the_result() {
    let (bank, ledger) = tapped(|builder| builder.tool(draws_a_password().repeat(Repeat::Reject)));
    let one = bank.send(&first()).await;
    let two = bank.send(&retry(&one, "p")).await;
    assert!(
        bank.send(&retry(&one, "p")).await.is_replayed(),
        "questions are repeated as ever"
    );
    assert_eq!(
        bank.send(&two_rounds(&two)).await.text(),
        "your password is SECRET-4711"
    );
    let again = bank.send(&two_rounds(&two)).await;
    assert_eq!(
        (again.code(), again.reason()),
        (Some(-32602), Some("already_used")),
        "{again:?}"
    );
    let kept = String::from_utf8_lossy(&ledger.seen.lock().unwrap()).into_owned();
    assert!(!kept.contains("4711"), "{kept}");
}

#[tokio::test]
async fn a_receipt_of_a_failure_says_that_it_failed() {
    let fails = || {
        tool("t", async |flow: Flow| -> Result<String, ToolError> {
            let _ = flow.ask("q", confirm()).await;
            Err(ToolError::text("The account SECRET-4711 is closed."))
        })
    };
    let (bank, ledger) = tapped(|builder| builder.tool(fails().repeat(Repeat::Receipt)));
    let asked = bank.send(&first()).await;
    let failed = bank.send(&retry(&asked, "q")).await;
    assert_eq!(failed.text(), "The account SECRET-4711 is closed.");
    let again = bank.send(&retry(&asked, "q")).await;
    assert!(
        again.is_replayed() && again.text().contains("it failed"),
        "{again:?}"
    );
    assert_eq!(again.body["result"]["isError"], true);
    let kept = String::from_utf8_lossy(&ledger.seen.lock().unwrap()).into_owned();
    assert!(!kept.contains("4711"), "{kept}");
}

#[tokio::test]
async fn a_late_repeat_gets_no_more_than_an_early_one() {
    for (repeat, expected) in [
        (Repeat::Receipt, None),
        (Repeat::Reject, Some("already_used")),
    ] {
        let bank = Bank::with(|builder| builder.tool(draws_a_password().repeat(repeat)));
        let one = bank.send(&first()).await;
        let two = bank.send(&retry(&one, "p")).await;
        assert_eq!(
            bank.send(&two_rounds(&two)).await.text(),
            "your password is SECRET-4711"
        );
        bank.advance(Duration::from_secs(600 + 599));
        let late = bank.send(&two_rounds(&two)).await;
        assert_eq!(
            (late.reason(), late.is_replayed()),
            (expected, expected.is_none()),
            "{late:?}"
        );
        assert!(!late.body.to_string().contains("4711"));
    }
}

#[tokio::test]
async fn what_the_framework_says_in_the_handlers_place_is_repeated_as_ever() {
    for repeat in [Repeat::Receipt, Repeat::Reject] {
        let (door, counter) = (Door::default(), Counter::default());
        let bank = Bank::with(|builder| {
            builder.state(door.clone()).state(counter.clone()).tool(
                tool(
                    "t",
                    async |flow: DurableFlow,
                           State(door): State<Door>,
                           State(counter): State<Counter>| {
                        let _ = flow.ask("q", confirm()).await;
                        flow.once("first", async || {
                            door.reached.notify_one();
                            door.open.notified().await;
                            Ok::<_, ToolError>(counter.up())
                        })
                        .await?;
                        flow.once("second", async || Ok::<_, ToolError>(counter.up()))
                            .await?;
                        Ok::<_, ToolError>("never reached")
                    },
                )
                .repeat(repeat),
            )
        });
        let asked = bank.send(&first()).await;
        let (gone, call) = (bank.clone(), retry(&asked, "q"));
        let connection = tokio::spawn(async move { gone.send(&call).await });
        door.reached.notified().await;
        connection.abort();
        drop(connection.await);
        door.open.notify_one();
        bank.server.settled().await;
        let again = bank.send(&retry(&asked, "q")).await;
        assert!(
            again.is_replayed() && again.text().contains("Steps that were taken: first."),
            "{repeat:?}: who was cancelled must learn what was done: {again:?}"
        );
    }
}

#[tokio::test]
async fn what_a_tool_chooses_now_holds_for_what_was_kept_before() {
    let clock = Bank::new().clock;
    let ledger: Arc<dyn Ledger> = Arc::new(MemoryLedger::new(Arc::new(clock.clone())).unwrap());
    let bank = |repeat| {
        Bank::with(|builder| {
            builder
                .clock(clock.clone())
                .ledger(Arc::clone(&ledger))
                .tool(draws_a_password().repeat(repeat))
        })
    };
    let result = bank(Repeat::Result);
    let one = result.send(&first()).await;
    let two = result.send(&retry(&one, "p")).await;
    result.send(&two_rounds(&two)).await;
    let receipt = bank(Repeat::Receipt).send(&two_rounds(&two)).await;
    assert!(receipt.text().starts_with("Already done") && receipt.is_replayed());
    let reject = bank(Repeat::Reject).send(&two_rounds(&two)).await;
    assert_eq!(reject.reason(), Some("already_used"));
    // And what was never kept does not come back.
    let one = result.send(&first()).await;
    let two = result.send(&retry(&one, "p")).await;
    bank(Repeat::Reject).send(&two_rounds(&two)).await;
    let again = result.send(&two_rounds(&two)).await;
    assert!(
        again.text().starts_with("Already done") && again.is_replayed(),
        "{again:?}"
    );
}

#[tokio::test]
async fn steps_are_kept_all_the_same() {
    let counter = Counter::default();
    let bank = Bank::with(|builder| {
        builder.state(counter.clone()).tool(
            tool(
                "t",
                async |flow: DurableFlow, State(counter): State<Counter>| {
                    let n = flow
                        .once("step", async || Ok::<_, ToolError>(counter.up()))
                        .await?;
                    let _ = flow.ask("q", confirm()).await;
                    Ok::<_, ToolError>(format!("step {n}"))
                },
            )
            .repeat(Repeat::Receipt),
        )
    });
    let asked = bank.send(&first()).await;
    assert_eq!(bank.send(&retry(&asked, "q")).await.text(), "step 1");
    assert!(
        bank.send(&retry(&asked, "q"))
            .await
            .text()
            .starts_with("Already done")
    );
    assert_eq!(counter.get(), 1);
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Sum {
    text: String,
}

async fn structured(flow: Flow) -> Json<Sum> {
    let _ = flow.ask("q", confirm()).await;
    Json(Sum {
        text: "x".repeat(70_000),
    })
}

/// A client holds every result that is no error against the schema that was published.
#[tokio::test]
async fn what_is_too_large_to_repeat_is_no_result_where_results_have_a_form() {
    let bank = Bank::with(|builder| {
        builder
            .tool(tool("t", structured))
            .prompt(prompt("p", async |flow: Flow| {
                let _ = flow.ask("q", confirm()).await;
                "x".repeat(70_000)
            }))
    });
    let asked = bank.send(&first()).await;
    let done = bank.send(&retry(&asked, "q")).await;
    assert!(done.body["result"]["structuredContent"].is_object());
    let again = bank.send(&retry(&asked, "q")).await;
    assert!(again.text().contains("too large to repeat"), "{again:?}");
    assert_eq!(again.body["result"]["isError"], true);

    let call = || Call::prompt("p", json!({})).without_param("arguments");
    let asked = bank.send(&call()).await;
    let answered = || {
        call()
            .id(2)
            .state(asked.state())
            .answer("q", accept(json!({ "ok": true })))
    };
    assert!(bank.send(&answered()).await.body["result"]["messages"].is_array());
    let again = bank.send(&answered()).await;
    assert_eq!(again.code(), Some(-32603), "{again:?}");
    assert!(again.body.to_string().contains("too large to repeat"));
}

#[tokio::test]
async fn prompts_and_resources_may_reject_and_give_no_receipt() {
    let bank = Bank::with(|builder| {
        builder.resource(
            resource("note://secret", async |flow: Flow| {
                let _ = flow.ask("q", confirm()).await;
                "SECRET-4711"
            })
            .repeat(Repeat::Reject),
        )
    });
    let call = || Call::resource("note://secret");
    let asked = bank.send(&call()).await;
    let answered = || {
        call()
            .id(2)
            .state(asked.state())
            .answer("q", accept(json!({ "ok": true })))
    };
    let read = bank.send(&answered()).await;
    assert_eq!(
        read.body["result"]["contents"][0]["text"], "SECRET-4711",
        "{read:?}"
    );
    assert_eq!(bank.send(&answered()).await.reason(), Some("already_used"));
}

#[test]
fn a_choice_that_could_not_matter_is_refused() {
    let builder = || -> ServerBuilder {
        let clock = Bank::new().clock;
        Server::builder("s", "1")
            .audience("a")
            .allow_anonymous()
            .codec(codec())
            .ledger(MemoryLedger::new(Arc::new(clock)).unwrap())
            .dangerous()
            .allow_forgetful_ledger()
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
    for repeat in [Repeat::Receipt, Repeat::Reject] {
        builder()
            .tool(tool("t", asks).repeat(repeat))
            .build()
            .unwrap();
        let plain = tool("t", async || "done").repeat(repeat);
        refused(builder().tool(plain), "tool `t`: it takes no `Flow`");
        let without = Server::builder("s", "1")
            .audience("a")
            .allow_anonymous()
            .codec(codec());
        refused(without.tool(tool("t", asks).repeat(repeat)), ".ledger(..)");
    }
    refused(
        builder().prompt(prompt("p", asks).repeat(Repeat::Receipt)),
        "prompt `p`: there is nothing in its results",
    );
    refused(
        builder().resource(resource("note://a", asks).repeat(Repeat::Receipt)),
        "use `Repeat::Reject`",
    );
    refused(
        builder().tool(tool("t", structured).repeat(Repeat::Receipt)),
        "without_output_schema",
    );
    builder()
        .tool(tool("t", structured).repeat(Repeat::Reject))
        .build()
        .unwrap();
    let bare = tool("t", structured)
        .without_output_schema()
        .repeat(Repeat::Receipt);
    builder().tool(bare).build().unwrap();
    // The default may be written out anywhere.
    let plain = tool("t", async || "done").repeat(Repeat::Result);
    Server::builder("s", "1")
        .allow_anonymous()
        .tool(plain)
        .build()
        .unwrap();
}
