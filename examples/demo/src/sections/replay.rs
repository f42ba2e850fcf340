//! Replay: a sealed state is used twice, by fault or on purpose.

use std::time::Duration;

use futures_util::future::join_all;
use mrtr_testkit::guards::Guard;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::{KEYS, confirmed};
use crate::Fault;
use crate::board::{Case, Governed};
use crate::people::count;
use crate::servers::{Server, Stage, rows};
use crate::wire::Wire;

const SECTION: &str = "replay";
const TOOL: &str = "redeem_voucher";

fn voucher() -> Value {
    json!({ "code": "MAY-2026" })
}

/// `redeemed once`, from the shop's own record.
fn redeemed(server: &Server) -> Result<String, Fault> {
    Ok(match server.record()?.len() {
        0 => "nothing redeemed".into(),
        1 => "redeemed once".into(),
        2 => "redeemed twice".into(),
        times => format!("redeemed {times} times"),
    })
}

async fn asked(wire: &Wire) -> Result<String, Fault> {
    Ok(wire.call(TOOL, &voucher()).await?.state()?.to_owned())
}

/// Waits until the ledger file holds a settled round, or until one would long be there.
async fn until_settled(ledger: &std::path::Path) -> Result<bool, Fault> {
    for _ in 0..100 {
        if rows(ledger).await?.settled_rounds > 0 {
            return Ok(true);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(false)
}

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            SECTION,
            "voucher, no ledger, state used twice",
            "redeemed twice",
            Governed::Not("shows what a state is good for that nobody records"),
            |stage| async move {
                let server = stage
                    .start(&stage.plan("voucher")?.flag("--ledger", "none"))
                    .await?;
                let wire = server.wire();
                let state = asked(&wire).await?;
                for _ in 0..2 {
                    wire.retry(TOOL, &voucher(), &confirmed(), &state).await?;
                }
                redeemed(&server)
            },
        ),
        Case::new(
            SECTION,
            "voucher, ledger, used twice with the same answer",
            "redeemed once; the stored result again, flagged",
            Governed::By(Guard::Ledger),
            |stage| async move {
                let server = stage.start(&stage.plan("voucher")?).await?;
                let wire = server.wire();
                let state = asked(&wire).await?;
                let first = wire.retry(TOOL, &voucher(), &confirmed(), &state).await?;
                let again = wire.retry(TOOL, &voucher(), &confirmed(), &state).await?;
                let same =
                    first.text() == again.text() && !first.is_replayed() && again.is_replayed();
                let second = if same {
                    "the stored result again, flagged".into()
                } else {
                    again.in_words()
                };
                Ok(format!("{}; {second}", redeemed(&server)?))
            },
        ),
        Case::new(
            SECTION,
            "ledger, decline first, then accept with the same state",
            "already used, nothing redeemed",
            Governed::By(Guard::Ledger),
            |stage| async move {
                let server = stage.start(&stage.plan("voucher")?).await?;
                let wire = server.wire();
                let state = asked(&wire).await?;
                let decline = json!({ "confirm": { "action": "decline" } });
                wire.retry(TOOL, &voucher(), &decline, &state).await?;
                let then = wire.retry(TOOL, &voucher(), &confirmed(), &state).await?;
                Ok(format!("{}, {}", then.in_words(), redeemed(&server)?))
            },
        ),
        Case::new(
            SECTION,
            "32 retries at once",
            "redeemed once; each got the stored result or in progress",
            Governed::By(Guard::Ledger),
            |stage| async move {
                let server = stage.start(&stage.plan("voucher")?).await?;
                let wire = server.wire();
                let state = asked(&wire).await?;
                let (voucher, answers) = (voucher(), confirmed());
                let retries = (0..32).map(|_| wire.retry(TOOL, &voucher, &answers, &state));
                let answers = join_all(retries)
                    .await
                    .into_iter()
                    .collect::<Result<Vec<_>, Fault>>()?;
                let others: Vec<String> = answers
                    .iter()
                    .filter(|answer| answer.in_words() != "accepted" && answer.code() != Some(1001))
                    .map(|answer| answer.in_words())
                    .collect();
                let got = match others.first() {
                    None => "each got the stored result or in progress".into(),
                    Some(other) => format!("{} got something else: {other}", others.len()),
                };
                Ok(format!("{}; {got}", redeemed(&server)?))
            },
        ),
        Case::new(
            SECTION,
            "SIGKILL after the round settled, response unread, restart, same retry",
            "redeemed once; the stored result",
            Governed::By(Guard::Ledger),
            killed_after_settling,
        ),
        Case::new(
            SECTION,
            "round 1 at one server, which is killed; round 2 at another",
            "completed, 1 entry",
            Governed::Not("an honest flow; what carries it is the shared key ring and ledger"),
            two_servers,
        ),
        Case::new(
            SECTION,
            "bad answer, a good one on the new state, another on the old",
            "asked again; 1 entry; already used",
            Governed::By(Guard::Ledger),
            |stage| async move {
                let server = stage.start(&stage.plan("voucher")?).await?;
                let wire = server.wire();
                let old = asked(&wire).await?;
                let bad = json!({ "confirm": { "action": "accept", "content": { "ok": "yes" } } });
                let again = wire.retry(TOOL, &voucher(), &bad, &old).await?;
                let asked_again = if again.asks() {
                    "asked again".into()
                } else {
                    again.in_words()
                };
                wire.retry(TOOL, &voucher(), &confirmed(), again.state()?)
                    .await?;
                let late = wire.retry(TOOL, &voucher(), &confirmed(), &old).await?;
                let entries = count(server.record()?.len(), "entry", "entries");
                Ok(format!("{asked_again}; {entries}; {}", late.in_words()))
            },
        ),
    ]
}

/// The retry is sent by hand, over a connection whose response nobody reads.
async fn killed_after_settling(stage: Stage) -> Result<String, Fault> {
    let plan = stage.plan("voucher")?;
    let ledger = plan.path("ledger.sqlite");
    let plan = plan.flag("--keys", KEYS).flag("--ledger", &ledger);
    let mut server = stage.start(&plan).await?;
    let wire = server.wire();
    let state = asked(&wire).await?;
    let params = json!({ "inputResponses": confirmed(), "requestState": state });
    let body = wire.body(TOOL, &voucher(), &params).to_string();
    let address = server
        .url
        .trim_start_matches("http://")
        .trim_end_matches("/mcp")
        .to_owned();
    let mut connection = TcpStream::connect(&address).await?;
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer alice-token\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n\
         Mcp-Name: {TOOL}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes()).await?;
    connection.write_all(body.as_bytes()).await?;
    let settled = until_settled(&ledger).await?;
    server.kill().await?;
    drop(connection);

    let server = server.start_again().await?;
    let again = server
        .wire()
        .retry(TOOL, &voucher(), &confirmed(), &state)
        .await?;
    let result = match (settled, again.is_replayed()) {
        (true, true) => "the stored result".into(),
        (true, false) => again.in_words(),
        (false, _) => format!("no round was settled; {}", again.in_words()),
    };
    Ok(format!("{}; {result}", redeemed(&server)?))
}

/// Two processes with one key ring, one ledger and one audience.
async fn two_servers(stage: Stage) -> Result<String, Fault> {
    let plan = stage.plan("expenses")?;
    let ledger = plan.path("ledger.sqlite");
    let plan = plan.flag("--keys", KEYS).flag("--ledger", &ledger);
    let (mut first, second) = (stage.start(&plan).await?, stage.start(&plan).await?);
    let expense = json!({ "amount": 250, "memo": "train" });
    let asked = first.wire().call("submit_expense", &expense).await?;
    first.kill().await?;
    let done = second
        .wire()
        .retry("submit_expense", &expense, &confirmed(), asked.state()?)
        .await?;
    let completed = if done.in_words() == "accepted" {
        "completed".into()
    } else {
        done.in_words()
    };
    Ok(format!(
        "{completed}, {}",
        count(second.record()?.len(), "entry", "entries")
    ))
}
