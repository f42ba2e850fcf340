//! What becomes of an entry whose transaction fails, and of one whose process dies inside it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use mrtr_ledger::{Ledger as _, Rows};
use mrtr_server::{Principal, Server, StaticTokens};
use mrtr_state::{Clock, Key, KeyRing, SystemClock};
use mrtr_state_hmac::HmacCodec;
use mrtr_testkit::{Harness, ManualClock, RawCall};
use serde_json::json;

use super::*;

/// Where the child finds its ledger; its presence makes a test run a child.
const LEDGER: &str = "EXPENSES_TEST_LEDGER";
const STATE: &str = "EXPENSES_TEST_STATE";

async fn served(
    path: &Path,
    clock: impl Clock + Clone,
    tool: Tool,
) -> (Harness, Arc<SqliteLedger>) {
    let ledger = SqliteLedger::builder(path).clock(Arc::new(clock.clone()));
    let ledger = Arc::new(ledger.open().unwrap());
    book::open(&ledger).await.unwrap();
    let key = Key::from_bytes(&(0..32).collect::<Vec<u8>>()).unwrap();
    let alice = Principal::user("https://login.example", "alice");
    let server = Server::builder("expenses", "1")
        .audience("https://expenses.example/mcp")
        .codec(HmacCodec::new(KeyRing::new(key)).unwrap())
        .ledger(Arc::clone(&ledger))
        .authenticator(StaticTokens::new().token("alice", alice))
        .clock(clock)
        .tool(tool)
        .build()
        .unwrap();
    (Harness::new(server).by("alice"), ledger)
}

fn call(harness: &Harness, memo: &str) -> RawCall {
    harness
        .raw("submit_expense")
        .arguments(json!({ "amount": 250, "memo": memo }))
}

fn retry(harness: &Harness, memo: &str, state: &str) -> RawCall {
    call(harness, memo)
        .state(state)
        .accept("confirm", json!({ "ok": true }))
}

async fn counted(ledger: &SqliteLedger) -> (i64, Rows) {
    let entries = ledger
        .transact(|db| db.query_row("SELECT count(*) FROM book", [], |row| row.get(0)))
        .await
        .unwrap()
        .unwrap();
    (entries, ledger.rows().await.unwrap())
}

#[tokio::test]
async fn what_sqlite_refuses_is_a_failure_that_is_kept_and_no_entry() {
    let dir = tempfile::tempdir().unwrap();
    let (harness, ledger) = served(
        &dir.path().join("ledger.sqlite"),
        SystemClock,
        submit_expense_tool(),
    )
    .await;
    let good = call(&harness, "train").send().await;
    let done = retry(&harness, "train", good.expect_state()).send().await;
    assert_eq!(done.text(), Some("Submitted as entry 1."));

    let asked = call(&harness, "").send().await;
    for times in 0..2 {
        let failed = retry(&harness, "", asked.expect_state()).send().await;
        assert!(failed.is_tool_error(), "{failed:?}");
        assert_eq!(
            (failed.text(), failed.is_replayed()),
            (Some("The tool failed."), times > 0)
        );
    }
    let (entries, rows) = counted(&ledger).await;
    assert_eq!(entries, 1, "the failed one left nothing");
    assert_eq!(rows.settled_steps, 2, "and that it failed is kept");
}

#[tokio::test]
async fn a_process_that_dies_inside_the_transaction_leaves_neither_entry_nor_step() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger.sqlite");
    let clock = ManualClock::at(SystemClock.now());
    let (harness, ledger) = served(&path, clock.clone(), submit_expense_tool()).await;
    let asked = call(&harness, "train").send().await;
    let state = asked.expect_state();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::child_that_dies", "--ignored"])
        .env(LEDGER, &path)
        .env(STATE, state)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(!child.success());
    assert!(
        path.with_extension("written").exists(),
        "it died behind its INSERT"
    );
    let (entries, rows) = counted(&ledger).await;
    assert_eq!((entries, rows.steps, rows.rounds), (0, 0, 1));

    // The same retry takes the lost round over once its lease has lapsed, and nothing is in doubt.
    let early = retry(&harness, "train", state).send().await;
    assert!(early.is_in_progress(), "{early:?}");
    clock.advance(Duration::from_secs(60));
    let done = retry(&harness, "train", state).send().await;
    assert_eq!(done.text(), Some("Submitted as entry 1."), "{done:?}");
    let (entries, rows) = counted(&ledger).await;
    assert_eq!((entries, rows.settled_steps), (1, 1));
}

/// The same body, but for an effect that dies behind its `INSERT`.
async fn dies(Args(e): Args<Expense>, flow: FlowIn<SqliteLedger>) -> Result<ToolResult, ToolError> {
    let question = Form::<Confirm>::new(format!("Submit {} for {}?", e.amount, e.memo));
    let _ = flow.ask("confirm", question).await;
    let entry = flow
        .once_in("submit", move |db| {
            let entry = book::append(db, &e)?;
            let written = std::env::var_os(LEDGER).map(std::path::PathBuf::from);
            std::fs::write(written.unwrap_or_default().with_extension("written"), "").ok();
            if entry > 0 {
                std::process::abort();
            }
            Ok::<_, mrtr_ledger_sqlite::rusqlite::Error>(entry)
        })
        .await?;
    Ok(format!("Submitted as entry {entry}.").into())
}

#[tokio::test]
#[ignore = "a child process of `a_process_that_dies_inside_the_transaction_leaves_neither_entry_nor_step`"]
async fn child_that_dies() {
    let (Some(path), Ok(state)) = (std::env::var_os(LEDGER), std::env::var(STATE)) else {
        return;
    };
    let tool = tool("submit_expense", dies).run_again();
    let (harness, _ledger) = served(Path::new(&path), SystemClock, tool).await;
    retry(&harness, "train", &state).send().await;
}
