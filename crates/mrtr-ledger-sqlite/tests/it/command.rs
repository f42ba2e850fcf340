//! `examples/ledger.rs`, from its arguments to its exit code.

use mrtr_ledger::{Claimed, Ledger as _};
use serde_json::Value;

use crate::bench::{Place, paid, retry, round};

#[path = "../../examples/ledger.rs"]
#[allow(dead_code, reason = "its `main` is the example's")]
mod example;

/// The exit code, and what was written or what went wrong.
async fn ledger(place: &Place, line: &str, answer: Option<&str>) -> (u8, String) {
    let file = place.file().display().to_string();
    let args: Vec<String> = line
        .split_whitespace()
        .map(|word| word.replace("FILE", &file))
        .collect();
    let mut out = Vec::new();
    let ask = |_: &str| answer.map(str::to_owned);
    match example::run(&args, ask, &mut out).await {
        Ok(code) => (code, String::from_utf8(out).unwrap()),
        Err(failure) => (failure.code, failure.what),
    }
}

async fn json(place: &Place, line: &str) -> Value {
    let (_, text) = ledger(place, line, None).await;
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test]
async fn a_command_line_that_is_not_understood_says_so() {
    let place = Place::new();
    for line in [
        "",
        "stats",
        "stats FILE FILE",
        "burn FILE",
        "purge FILE --fast",
        "purge FILE --retention 59",
        "purge FILE --retention soon",
        "purge FILE --retention",
    ] {
        let (code, what) = ledger(&place, line, None).await;
        assert_eq!(code, 2, "{line}: {what}");
        assert!(what.contains("--help"), "{line}: {what}");
    }
    let (code, help) = ledger(&place, "stats --help", None).await;
    assert_eq!(code, 0);
    assert!(help.contains("rotate-epoch"), "{help}");
    assert!(!place.file().exists(), "no ledger was made");
}

/// A file that is not there is not made, and what is no ledger is left alone.
#[tokio::test]
async fn what_is_no_ledger_is_refused() {
    let place = Place::new();
    for command in ["stats", "verify", "purge", "rotate-epoch --yes"] {
        let (code, what) = ledger(&place, &format!("{command} FILE"), None).await;
        assert_eq!(code, 1, "{what}");
        assert!(!place.file().exists());
    }
    std::fs::write(place.file(), "").unwrap();
    let (code, what) = ledger(&place, "stats FILE", None).await;
    assert_eq!(code, 1);
    assert!(what.contains("empty"), "{what}");
    assert_eq!(std::fs::read(place.file()).unwrap(), b"");
}

#[tokio::test]
async fn stats_and_purge_answer_in_text_and_json() {
    let place = Place::new();
    let claim = paid(&place.open(), 1).await;
    let (code, text) = ledger(&place, "stats FILE", None).await;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("settled") && text.contains("in "), "{text}");
    let stats = json(&place, "stats --json FILE").await;
    assert_eq!(stats["rounds"]["settled"], 1);
    assert_eq!(
        stats["rounds"]["newest_expiry"],
        claim.key.expiry.as_millis()
    );
    assert_eq!(stats["steps"]["rows"], 0);
    assert_eq!(stats["accounts"], 1);

    let (code, text) = ledger(&place, "purge FILE --retention 60", None).await;
    assert_eq!(
        (code, text.trim()),
        (0, "removed 0 rounds, 0 steps and 0 notes")
    );
    assert_eq!(json(&place, "purge FILE --json").await["rounds"], 0);
}

#[tokio::test]
async fn verify_has_an_exit_code() {
    let place = Place::new();
    paid(&place.open(), 1).await;
    let (code, text) = ledger(&place, "verify FILE", None).await;
    assert_eq!(
        (code, text.trim()),
        (0, "nothing was found; 1 rows were looked at")
    );
    assert_eq!(json(&place, "verify FILE --json").await["sound"], true);
    let other = rusqlite::Connection::open(place.file()).unwrap();
    other.execute_batch("UPDATE tally SET rows = 7").unwrap();
    let (code, text) = ledger(&place, "verify FILE", None).await;
    assert_eq!(code, 1);
    assert!(
        text.contains("7 rows") && text.contains("2 findings"),
        "{text}"
    );
    let verified = json(&place, "verify FILE --json").await;
    assert_eq!(verified["sound"], false);
    assert_eq!(verified["findings"].as_array().unwrap().len(), 2);
}

/// Looking at a file of an older version leaves it as it is, unless somebody says otherwise.
#[tokio::test]
async fn an_older_file_is_left_alone() {
    let place = crate::golden::place("version-1.sqlite");
    let before = std::fs::read(place.file()).unwrap();
    for command in ["stats", "verify", "purge"] {
        let (code, what) = ledger(&place, &format!("{command} FILE"), None).await;
        assert_eq!(code, 1, "{what}");
        assert!(
            what.contains("version 1") && what.contains("--yes"),
            "{what}"
        );
        assert_eq!(std::fs::read(place.file()).unwrap(), before);
    }
    let stats = json(&place, "stats FILE --json --yes").await;
    assert_eq!(stats["rounds"]["rows"], 4);
}

/// It ends flows, so somebody has to say so.
#[tokio::test]
async fn rotate_epoch_wants_a_yes() {
    let place = Place::new();
    let server = place.open();
    let claim = paid(&server, 1).await;
    for answer in [None, Some("no\n"), Some("\n")] {
        let (code, what) = ledger(&place, "rotate-epoch FILE", answer).await;
        assert_eq!(code, 2, "{what}");
        assert_eq!(server.epoch().await.unwrap(), claim.epoch);
    }
    let (code, text) = ledger(&place, "rotate-epoch FILE", Some("rotate\n")).await;
    assert_eq!(code, 0, "{text}");
    let second = server.epoch().await.unwrap();
    assert_ne!(second, claim.epoch);
    assert!(text.contains(&second.to_text()[..8]), "{text}");
    let answer = json(&place, "rotate-epoch FILE --yes --json").await;
    let third = server.epoch().await.unwrap();
    assert_eq!(answer["before"], second.to_text()[..8]);
    assert_eq!(answer["after"], third.to_text()[..8]);
    // A server that runs meanwhile refuses what was open at once.
    assert_eq!(
        server.claim(retry(&claim)).await.unwrap(),
        Claimed::StaleEpoch
    );
    assert_eq!(server.claim(round(third, 2)).await.unwrap(), Claimed::First);
}

/// A file that is no database is told, with an exit code.
#[cfg(unix)]
#[tokio::test]
async fn a_failure_is_told() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    std::fs::write(place.file(), b"no ledger, and long enough. ".repeat(100)).unwrap();
    std::fs::set_permissions(place.file(), std::fs::Permissions::from_mode(0o600)).unwrap();
    for command in ["stats", "verify", "purge", "rotate-epoch --yes"] {
        let (code, what) = ledger(&place, &format!("{command} FILE"), None).await;
        assert_eq!(code, 1, "{command}");
        assert!(what.contains("damaged"), "{what}");
    }
}
