//! Large states: what is too large to be carried is in the ledger, and the state holds a key to it.

use std::path::Path;

use mrtr_testkit::guards::Guard;
use serde_json::{Value, json};

use super::{KEYS, confirmed};
use crate::Fault;
use crate::board::{Case, Governed};
use crate::people::count;
use crate::servers::{Plan, Stage, rows};

const SECTION: &str = "large";
const TOOL: &str = "reveal";

/// The threshold of the rows, in bytes of journal.
const ABOVE: &str = "2048";

/// Something of this many bytes that the flow remembers.
fn kept(bytes: usize) -> Value {
    json!({ "secret": "4711 ".repeat(bytes / 5) })
}

/// A server that shares keys and ledger with every other one of this plan.
fn plan(stage: &Stage) -> Result<Plan, Fault> {
    let plan = stage.plan("voucher")?;
    let ledger = plan.path("ledger.sqlite");
    Ok(plan.flag("--keys", KEYS).flag("--ledger", ledger))
}

/// How long a token is, to the next of a few round numbers: clocks and keys may change a byte or two.
fn length(token: &str) -> String {
    let kib = [1, 2, 4, 8, 16]
        .into_iter()
        .find(|kib| token.len() <= kib << 10);
    kib.map_or_else(
        || "more than 16 KiB".into(),
        |kib| format!("{kib} KiB at most"),
    )
}

/// Asked by one process, which is then killed, and answered to another: how long the token was, what the ledger held, what came.
async fn across(stage: Stage, above: Option<&str>, bytes: usize) -> Result<String, Fault> {
    let mut plan = plan(&stage)?;
    if let Some(above) = above {
        plan = plan.flag("--store-above", above);
    }
    let (mut first, second) = (stage.start(&plan).await?, stage.start(&plan).await?);
    let asked = first.wire().call(TOOL, &kept(bytes)).await?;
    let state = asked.state()?;
    let held = rows(&plan.path("ledger.sqlite")).await?.notes;
    first.kill().await?;
    let done = second
        .wire()
        .retry(TOOL, &kept(bytes), &confirmed(), state)
        .await?;
    let whole = done.text().len() > bytes;
    let came = match (done.in_words().as_str(), whole) {
        ("accepted", true) => "all of it came at another process".to_owned(),
        ("accepted", false) => "not all of it came".to_owned(),
        (words, _) => words.to_owned(),
    };
    let journals = count(
        usize::try_from(held)?,
        "journal in the ledger",
        "journals in the ledger",
    );
    Ok(format!("{}; {journals}; {came}", length(state)))
}

/// Whether the secret can be read in the ledger's files.
async fn in_the_file(stage: Stage, codec: &'static str) -> Result<String, Fault> {
    let plan = plan(&stage)?
        .flag("--codec", codec)
        .flag("--store-above", ABOVE);
    let server = stage.start(&plan).await?;
    server.wire().call(TOOL, &kept(10_000)).await?.state()?;
    if rows(&plan.path("ledger.sqlite")).await?.notes != 1 {
        return Err(Fault("the journal is not in the ledger".into()));
    }
    let found = ["ledger.sqlite", "ledger.sqlite-wal"]
        .into_iter()
        .map(|name| read(&plan.path(name)))
        .collect::<Result<Vec<_>, Fault>>()?
        .iter()
        .any(|text| text.contains("4711 4711"));
    Ok(if found { "found in plain" } else { "not found" }.into())
}

fn read(path: &Path) -> Result<String, Fault> {
    match path.exists() {
        true => Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned()),
        false => Ok(String::new()),
    }
}

/// Somebody else's state, and the ledger's answer to a key that it holds.
async fn stolen(stage: Stage) -> Result<String, Fault> {
    let plan = plan(&stage)?.flag("--store-above", ABOVE);
    let server = stage.start(&plan).await?;
    let wire = server.wire();
    let asked = wire.call(TOOL, &kept(10_000)).await?;
    let stolen = wire
        .by("bob-token")
        .retry(TOOL, &kept(10_000), &confirmed(), asked.state()?)
        .await?;
    let own = wire
        .retry(TOOL, &kept(10_000), &confirmed(), asked.state()?)
        .await?;
    Ok(format!("{}, then {}", stolen.in_words(), own.in_words()))
}

pub(crate) fn cases() -> Vec<Case> {
    let sizes = Governed::Not("shows where the journal is; nothing is attacked");
    let look = |name: &str, codec: &'static str, expected: &str, governed: Governed| {
        let case = format!("a stored journal, looked for in the ledger's files: {name}");
        Case::new(SECTION, case, expected, governed, move |stage| {
            in_the_file(stage, codec)
        })
    };
    vec![
        Case::new(
            SECTION,
            "10,000 bytes to remember, no threshold",
            "16 KiB at most; 0 journals in the ledger; all of it came at another process",
            sizes,
            |stage| across(stage, None, 10_000),
        ),
        Case::new(
            SECTION,
            "the same, stored above 2,048 bytes",
            "1 KiB at most; 1 journal in the ledger; all of it came at another process",
            sizes,
            |stage| across(stage, Some(ABOVE), 10_000),
        ),
        Case::new(
            SECTION,
            "1,000 bytes to remember, stored above 2,048 bytes",
            "2 KiB at most; 0 journals in the ledger; all of it came at another process",
            sizes,
            |stage| across(stage, Some(ABOVE), 1_000),
        ),
        Case::new(
            SECTION,
            "100,000 bytes, more than a state can hold, stored above 2,048 bytes",
            "1 KiB at most; 1 journal in the ledger; all of it came at another process",
            sizes,
            |stage| across(stage, Some(ABOVE), 100_000),
        ),
        Case::new(
            SECTION,
            "the key to a stored journal, used by another user, then by its own",
            "issued to a different principal, then accepted",
            Governed::By(Guard::Principal),
            stolen,
        ),
        look(
            "HMAC",
            "hmac",
            "found in plain",
            Governed::Not("the HMAC variant is readable, and says so first"),
        ),
        look("AEAD", "aead", "not found", Governed::By(Guard::Sealing)),
    ]
}
