//! Effects: what happens to a charge before a question, after it, and inside `once`; what is repeated of one, and what a crash leaves of two.

use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use mrtr_testkit::guards::Guard;
use serde_json::json;

use super::{KEYS, confirmed};
use crate::Fault;
use crate::board::{Case, Governed};
use crate::people::{Desk, Person, count};
use crate::servers::{Stage, rows};

const SECTION: &str = "effects";

pub(crate) fn cases() -> Vec<Case> {
    let charges = |tool: &'static str,
                   person: fn() -> Person,
                   how: &str,
                   expected: u32,
                   governed: Governed| {
        Case::new(
            SECTION,
            format!("{tool}: {how}"),
            expected.to_string(),
            governed,
            move |stage| async move {
                let server = stage.start(&stage.plan("charges")?).await?;
                let desk = Desk::new(&server.url, person())?;
                desk.call(tool, json!({ "amount": 30 })).await?;
                Ok(server.record()?.len().to_string())
            },
        )
    };
    let unguarded = Governed::Not("shows what an unguarded effect before a question does");
    let in_order = Governed::Not("the handler asks first and acts last; no guard is needed");
    let once = Governed::By(Guard::Ledger);
    let mut cases = vec![
        charges(
            "charge_bad",
            Person::says_yes,
            "charges, then asks; confirmed",
            2,
            unguarded,
        ),
        charges(
            "charge_bad",
            Person::declines,
            "charges, then asks; declined",
            2,
            unguarded,
        ),
        charges(
            "charge_good",
            Person::says_yes,
            "asks, then charges; confirmed",
            1,
            in_order,
        ),
        charges(
            "charge_good",
            Person::declines,
            "asks, then charges; declined",
            0,
            in_order,
        ),
        charges(
            "charge_once",
            Person::says_yes,
            "charges inside once, then asks; confirmed",
            1,
            once,
        ),
        charges(
            "charge_once",
            Person::declines,
            "charges inside once, then asks; declined",
            1,
            once,
        ),
    ];
    cases.extend(REPEATED.map(|(tool, second)| {
        let expected = format!("charged once; {second}");
        let play = move |stage| repeated(stage, tool);
        Case::new(
            SECTION,
            format!("{tool}: the same retry twice"),
            expected,
            once,
            play,
        )
    }));
    cases.extend(CRASHES.map(|(tool, expected)| {
        let case = format!("{tool}: SIGKILL between its two effects, restart, the same retry");
        let play = move |stage| killed_between(stage, tool);
        Case::new(SECTION, case, expected, once, play)
    }));
    cases
}

/// What the same retry gets when it is sent again, by what its tool chose, and whether the ledger's file holds what the first got.
const REPEATED: [(&str, &str); 3] = [
    (
        "charge_good",
        "the stored result; the result is in the ledger's file",
    ),
    (
        "charge_for_a_receipt",
        "a receipt; nothing of the result is in the ledger's file",
    ),
    (
        "charge_or_reject",
        "already used; nothing of the result is in the ledger's file",
    ),
];

/// What a crash in the middle comes to: by default nobody knows, and nothing runs again; a tool that may run again goes on.
const CRASHES: [(&str, &str); 2] = [
    ("charge_and_receipt", "1 charge, 0 receipts; unknown"),
    (
        "charge_and_receipt_again",
        "1 charge, 1 receipt with its number; accepted",
    ),
];

/// How long the server that is killed counts as alive: the retry waits for that.
const LEASE: Duration = Duration::from_millis(1500);

async fn killed_between(stage: Stage, tool: &'static str) -> Result<String, Fault> {
    let plan = stage.plan("charges")?;
    let ledger = plan.path("ledger.sqlite");
    let plan = plan
        .flag("--keys", KEYS)
        .flag("--ledger", &ledger)
        .flag("--lease", LEASE.as_millis().to_string());
    let mut server = stage.start(&plan).await?;
    let wire = server.wire();
    let charge = json!({ "amount": 30, "millis": 3000 });
    let state = wire.call(tool, &charge).await?.state()?.to_owned();
    let lost = {
        let (wire, charge, state) = (wire.clone(), charge.clone(), state.clone());
        tokio::spawn(async move { wire.retry(tool, &charge, &confirmed(), &state).await })
    };
    let before = Instant::now();
    while rows(&ledger).await?.settled_steps == 0 && before.elapsed() < LEASE {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.kill().await?;
    drop(lost.await);

    let server = server.start_again().await?;
    let restarted = Instant::now();
    let told = loop {
        let told = server
            .wire()
            .retry(tool, &charge, &confirmed(), &state)
            .await?;
        match told.code() {
            // Where no time passes the lease never lapses.
            Some(1001) if restarted.elapsed() > LEASE * 4 => break "in progress for ever".into(),
            Some(1001) => tokio::time::sleep(Duration::from_millis(200)).await,
            Some(1002) => break "unknown".into(),
            _ => break told.in_words(),
        }
    };
    let record = server.record()?;
    let of = |kind: &str| record.iter().filter(|entry| entry.kind == kind).count();
    let (charges, receipts) = (of("charge"), of("receipt"));
    let values = record.first().zip(record.get(1));
    let same = match values.is_some_and(|(a, b)| a.value["number"] == b.value["number"]) {
        true => " with its number",
        false => "",
    };
    let (charges, receipts) = (
        count(charges, "charge", "charges"),
        count(receipts, "receipt", "receipts"),
    );
    Ok(format!("{charges}, {receipts}{same}; {told}"))
}

async fn repeated(stage: Stage, tool: &'static str) -> Result<String, Fault> {
    let plan = stage.plan("charges")?;
    let ledger = plan.path("ledger.sqlite");
    let server = stage.start(&plan.flag("--ledger", &ledger)).await?;
    let (wire, charge) = (server.wire(), json!({ "amount": 30 }));
    let asked = wire.call(tool, &charge).await?;
    let state = asked.state()?;
    let first = wire.retry(tool, &charge, &confirmed(), state).await?;
    let again = wire.retry(tool, &charge, &confirmed(), state).await?;
    let second = match again.is_replayed() {
        true if again.text() == first.text() => "the stored result".into(),
        true if again.text().starts_with("Already done") => "a receipt".into(),
        _ => again.in_words(),
    };
    let kept = match holds(&ledger, first.text())? {
        true => "the result is in the ledger's file",
        false => "nothing of the result is in the ledger's file",
    };
    let charged = match server.record()?.len() {
        1 => "charged once".into(),
        times => format!("charged {times} times"),
    };
    Ok(format!("{charged}; {second}; {kept}"))
}

/// Whether a text stands in a ledger's file, or in the log beside it, as it is.
fn holds(ledger: &Path, text: &str) -> Result<bool, Fault> {
    let mut log = ledger.as_os_str().to_owned();
    log.push("-wal");
    let mut found = false;
    for file in [ledger, Path::new(&log)] {
        let bytes = match std::fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        found |= bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes());
    }
    Ok(found)
}
