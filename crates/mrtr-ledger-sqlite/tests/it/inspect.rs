//! Numbers for operators, and faults that were planted.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::time::Duration;

use mrtr_ledger::{Account, Claimed, Kept, Ledger as _, MIN_RETENTION, Note, Settlement};
use mrtr_ledger_sqlite::{Finding, SqliteLedger, Verified};
use mrtr_state::Timestamp;
use rusqlite::Connection;

use crate::bench::{FAR, LEASE, Place, START, paid, round};
use crate::effects::step;

/// Rounds, steps and notes in every status, of two accounts, some of them expired.
async fn varied(ledger: &SqliteLedger, place: &Place) {
    let epoch = ledger.epoch().await.unwrap();
    for number in 0..3 {
        paid(ledger, number).await;
    }
    let soon = Timestamp::from_millis(START + 1_000);
    for number in 10..14 {
        let mut claim = round(epoch, number);
        claim.key.expiry = soon;
        claim.account = Account::from_bytes([3; 32]);
        claim.lease = match number {
            13 => LEASE * 100,
            _ => LEASE,
        };
        assert_eq!(ledger.claim(claim.clone()).await.unwrap(), Claimed::First);
        match number {
            10 => assert!(ledger.release(claim.key, claim.token).await.unwrap()),
            11 => {
                _ = ledger
                    .settle(claim.key, claim.token, Settlement::Abandoned)
                    .await
                    .unwrap();
            }
            _ => {}
        }
    }
    assert_eq!(ledger.claim(step(epoch, 1)).await.unwrap(), Claimed::First);
    let one = step(epoch, 2);
    let note = Note::new(one.key, epoch, one.fingerprint, one.account, vec![7; 100]);
    assert_eq!(ledger.keep(note).await.unwrap(), Kept::Stored);
    place.clock.advance(Duration::from_secs(60));
}

#[tokio::test]
async fn stats_are_what_is_there() {
    let place = Place::new();
    let ledger = place.builder().retention(MIN_RETENTION).open().unwrap();
    varied(&ledger, &place).await;
    let stats = ledger.stats().await.unwrap();
    let rounds = stats.rounds;
    assert_eq!((rounds.rows, rounds.unexpired), (7, 3));
    assert_eq!((rounds.running, rounds.lapsed, rounds.released), (1, 1, 1));
    assert_eq!((rounds.settled, rounds.abandoned, rounds.bytes), (3, 1, 12));
    assert_eq!(rounds.removable, 0, "not before the retention is over");
    assert_eq!(
        rounds.oldest_expiry,
        Some(Timestamp::from_millis(START + 1_000))
    );
    assert_eq!((rounds.newest_expiry, rounds.mark), (Some(FAR), None));
    assert_eq!((stats.steps.rows, stats.steps.lapsed), (1, 1));
    assert_eq!(
        (stats.notes.rows, stats.notes.settled, stats.notes.bytes),
        (1, 1, 100)
    );
    assert_eq!(stats.accounts, 1, "the other one has only expired rows");
    assert!(stats.file_bytes > 0 && stats.log_bytes > 0, "{stats:?}");
    let epoch = ledger.epoch().await.unwrap().to_text();
    assert!(epoch.starts_with(&stats.epoch) && stats.epoch.len() == 8);

    place.clock.advance(Duration::from_secs(2));
    let stats = ledger.stats().await.unwrap();
    assert_eq!(stats.rounds.removable, 3, "all but the one under a lease");
    assert_eq!(ledger.purge().await.unwrap().rounds, 3);
    let stats = ledger.stats().await.unwrap();
    assert_eq!((stats.rounds.rows, stats.rounds.removable), (4, 0));
    assert_eq!(
        stats.rounds.mark,
        Some(Timestamp::from_millis(START + 1_000))
    );
}

/// A ledger that has only been used finds nothing in itself, whatever was done with it.
#[tokio::test]
async fn a_sound_file_is_found_sound() {
    let place = Place::new();
    let ledger = place.builder().retention(MIN_RETENTION).open().unwrap();
    assert!(ledger.verify().await.unwrap().is_sound());
    varied(&ledger, &place).await;
    let verified = ledger.verify().await.unwrap();
    assert_eq!((&verified.findings[..], verified.rows), (&[][..], 9));
    place.clock.advance(Duration::from_secs(2));
    ledger.purge().await.unwrap();
    ledger.rotate_epoch().await.unwrap();
    ledger
        .transact(|db| {
            db.execute_batch("CREATE TABLE mine (x); CREATE INDEX mine_by_x ON mine (x)")
        })
        .await
        .unwrap()
        .unwrap();
    let verified = ledger.verify().await.unwrap();
    assert_eq!((&verified.findings[..], verified.rows), (&[][..], 6));
}

/// A portion ends among notes that expire in the same millisecond: those that stay for the next one are no finding.
#[tokio::test]
async fn notes_at_the_mark_are_in_order() {
    let place = Place::new();
    let ledger = place.builder().retention(MIN_RETENTION).open().unwrap();
    let epoch = ledger.epoch().await.unwrap();
    for number in 0..20 {
        let mut one = step(epoch, number);
        one.key.expiry = Timestamp::from_millis(START + 1_000);
        let note = Note::new(one.key, epoch, one.fingerprint, one.account, vec![7; 10]);
        assert_eq!(ledger.keep(note).await.unwrap(), Kept::Stored);
    }
    place.clock.advance(Duration::from_secs(62));
    // Eight claims pay for sixteen notes.
    for number in 0..8 {
        assert_eq!(
            ledger.claim(round(epoch, number)).await.unwrap(),
            Claimed::First
        );
    }
    let left = ledger.rows().await.unwrap().notes;
    assert!((1..20).contains(&left), "{left} notes are left");
    assert_eq!(ledger.verify().await.unwrap().findings, []);
}

/// What `verify` finds after this was done to the file.
async fn after(sql: &str) -> Vec<Finding> {
    let place = Place::new();
    let ledger = place.builder().retention(MIN_RETENTION).open().unwrap();
    varied(&ledger, &place).await;
    place.clock.advance(Duration::from_secs(2));
    ledger.purge().await.unwrap();
    assert_eq!(ledger.verify().await.unwrap().findings, []);
    let other = Connection::open(place.file()).unwrap();
    other.execute_batch(sql).unwrap();
    let findings = ledger.verify().await.unwrap().findings;
    for finding in &findings {
        assert!(finding.to_string().len() > 30, "it says what to do");
    }
    findings
}

#[tokio::test]
async fn changed_tables_are_found() {
    for (sql, name, what) in [
        ("DROP INDEX tally_by_bucket", "tally_by_bucket", "missing"),
        ("DROP TABLE notes", "notes", "missing"),
        (
            "ALTER TABLE steps ADD COLUMN extra TEXT",
            "steps",
            "not as this version",
        ),
        ("CREATE INDEX extra ON rounds (token)", "extra", "was added"),
        (
            "CREATE TRIGGER extra AFTER INSERT ON rounds BEGIN DELETE FROM steps; END",
            "extra",
            "was added",
        ),
        ("PRAGMA user_version = 9", "user_version", "does not say"),
    ] {
        let findings = after(sql).await;
        let [
            Finding::Form {
                name: found,
                what: text,
                ..
            },
        ] = &findings[..]
        else {
            panic!("{sql}: {findings:?}")
        };
        assert_eq!(found, name);
        assert!(text.contains(what), "{text}");
    }
}

#[tokio::test]
async fn wrong_counts_are_found() {
    for (sql, expected) in [
        // One account's rows were counted twice.
        (
            "UPDATE tally SET rows = rows + 1 WHERE account <> x'' AND bucket > 30000000",
            1,
        ),
        // An account and all were not counted at all.
        ("DELETE FROM tally WHERE bucket > 30000000", 2),
        // Bytes that nobody counted.
        (
            "UPDATE rounds SET outcome = zeroblob(1000) WHERE status = 2 AND hash = (SELECT min(hash) FROM rounds)",
            2,
        ),
        // A row that is gone before its time.
        ("DELETE FROM steps", 2),
        // Expired and below the mark: more may be counted than is there, and never less.
        (
            "UPDATE tally SET rows = 0 WHERE bucket < 30000000 AND account <> x''",
            1,
        ),
    ] {
        let findings = after(sql).await;
        assert_eq!(findings.len(), expected, "{sql}: {findings:?}");
        let count = |finding: &Finding| matches!(finding, Finding::Count { .. });
        assert!(findings.iter().all(count), "{sql}: {findings:?}");
    }
}

#[tokio::test]
async fn wrong_marks_are_found() {
    let findings = after("UPDATE ledger SET steps_mark = 1700000600000").await;
    assert!(
        matches!(findings[..], [Finding::MarkAhead { table: "steps", .. }]),
        "{findings:?}"
    );
    let findings = after("DELETE FROM ledger").await;
    assert!(matches!(findings[..], [Finding::Heads(0)]), "{findings:?}");
    let findings = after(
        "UPDATE ledger SET notes_mark = 1700000000500;
         INSERT INTO notes VALUES (1700000000400, zeroblob(32), zeroblob(32), zeroblob(32), x'00')",
    )
    .await;
    assert!(
        matches!(
            findings[..],
            [Finding::BelowTheMark(1), Finding::Count { .. }]
        ),
        "{findings:?}"
    );
}

#[tokio::test]
async fn a_foreign_key_is_found() {
    let findings = after(
        "CREATE TABLE mine (expiry INTEGER, hash BLOB, FOREIGN KEY (expiry, hash) REFERENCES rounds (expiry, hash))",
    )
    .await;
    assert_eq!(findings, [Finding::Reference]);
}

/// Damaged pages are told by `verify`, and are no reason for it to give up.
#[tokio::test]
async fn damage_is_found() {
    let place = Place::new();
    let ledger = place.open();
    for number in 0..300 {
        paid(&ledger, number).await;
    }
    drop(ledger);
    let [file, log, _] = place.files();
    while log.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let pages = fs::metadata(&file).unwrap().len() / 4_096;
    for page in 2..pages {
        let bytes = fs::read(&file).unwrap();
        let mut handle = fs::File::options().write(true).open(&file).unwrap();
        // Where the page says what it is.
        handle.seek(SeekFrom::Start(page * 4_096)).unwrap();
        handle.write_all(&[0xa5; 8]).unwrap();
        drop(handle);
        let verified: Verified = match place.builder().open() {
            Ok(ledger) => ledger.verify().await.unwrap(),
            Err(_) => {
                fs::write(&file, bytes).unwrap();
                continue;
            }
        };
        assert!(!verified.is_sound(), "page {page}: {verified:?}");
        while log.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        fs::write(&file, bytes).unwrap();
    }
    assert!(place.open().verify().await.unwrap().is_sound());
}
