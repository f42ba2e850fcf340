//! When the file does not answer, nothing may run; when it does again, everything goes on.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mrtr_ledger::{Claimed, Ledger as _, LedgerError, Settled, Settlement};
use rusqlite::Connection;

use crate::bench::{Place, paid, retry, round, settled};

/// Locked for longer than the ledger waits: no word, nothing taken, and all is well once the lock is gone.
#[tokio::test]
async fn case_078_a_locked_file_gives_no_word() {
    let place = Place::new();
    let ledger = place
        .builder()
        .wait(Duration::from_millis(100))
        .open()
        .unwrap();
    let owner = round(ledger.epoch().await.unwrap(), 1);
    assert_eq!(ledger.claim(owner.clone()).await.unwrap(), Claimed::First);
    let claim = round(owner.epoch, 2);

    let other = Connection::open(place.file()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    for _ in 0..3 {
        assert!(matches!(
            ledger.claim(claim.clone()).await,
            Err(LedgerError::Busy)
        ));
        let settlement = Settlement::Outcome(b"paid".to_vec());
        assert!(matches!(
            ledger.settle(owner.key, owner.token, settlement).await,
            Err(LedgerError::Busy)
        ));
        assert!(matches!(ledger.purge().await, Err(LedgerError::Busy)));
        assert!(matches!(
            ledger.rotate_epoch().await,
            Err(LedgerError::Busy)
        ));
    }
    other.execute_batch("ROLLBACK").unwrap();

    assert_eq!(
        ledger.claim(retry(&claim)).await.unwrap(),
        Claimed::First,
        "nobody had taken it"
    );
    let settlement = Settlement::Outcome(b"paid".to_vec());
    assert_eq!(
        ledger
            .settle(owner.key, owner.token, settlement)
            .await
            .unwrap(),
        Settled::Stored
    );
}

/// A lock that goes in time is waited for, and the tasks of the caller's thread go on meanwhile.
#[tokio::test(flavor = "current_thread")]
async fn case_111_a_locked_file_does_not_block_the_async_thread() {
    static TURNS: AtomicU64 = AtomicU64::new(0);
    static DONE: AtomicBool = AtomicBool::new(false);
    let place = Place::new();
    let ledger = place
        .builder()
        .wait(Duration::from_secs(60))
        .open()
        .unwrap();
    let claim = round(ledger.epoch().await.unwrap(), 1);

    let other = Connection::open(place.file()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let ticks = tokio::spawn(async move {
        // The lock goes only after this task has had many turns on the one thread, so if the claim held that thread
        // the test would not end.
        for _ in 0..50 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            TURNS.fetch_add(1, Ordering::SeqCst);
        }
        assert!(!DONE.load(Ordering::SeqCst));
        other.execute_batch("ROLLBACK").unwrap();
    });
    assert_eq!(ledger.claim(claim).await.unwrap(), Claimed::First);
    DONE.store(true, Ordering::SeqCst);
    assert_eq!(TURNS.load(Ordering::SeqCst), 50);
    ticks.await.unwrap();
}

/// The file is moved away: no word. It comes back: everything is there.
#[tokio::test]
async fn a_file_that_vanishes_gives_no_word_until_it_is_back() {
    let place = Place::new();
    let ledger = place.open();
    let claim = paid(&ledger, 1).await;
    let away = place.named("away.sqlite");
    fs::rename(place.file(), &away).unwrap();
    for number in 0..3 {
        assert!(matches!(
            ledger.claim(round(claim.epoch, 10 + number)).await,
            Err(LedgerError::Vanished)
        ));
        assert!(matches!(
            ledger.claim(retry(&claim)).await,
            Err(LedgerError::Vanished)
        ));
        assert!(matches!(ledger.epoch().await, Err(LedgerError::Vanished)));
        assert!(matches!(ledger.purge().await, Err(LedgerError::Vanished)));
        assert!(!place.file().exists(), "no empty ledger takes its place");
    }
    fs::rename(&away, place.file()).unwrap();
    assert_eq!(ledger.claim(retry(&claim)).await.unwrap(), settled());
    assert_eq!(
        ledger.claim(round(claim.epoch, 10)).await.unwrap(),
        Claimed::First
    );
}

/// Deleted, and made anew by another process: it is another ledger, and says so.
#[tokio::test]
async fn a_new_file_in_its_place_is_another_ledger() {
    let place = Place::new();
    let ledger = place.open();
    let claim = paid(&ledger, 1).await;
    for file in place.files() {
        _ = fs::remove_file(file);
    }
    let other = place.open();
    assert_eq!(
        ledger.claim(retry(&claim)).await.unwrap(),
        Claimed::StaleEpoch
    );
    let now = ledger.epoch().await.unwrap();
    assert_eq!(now, other.epoch().await.unwrap());
    assert_eq!(ledger.claim(round(now, 1)).await.unwrap(), Claimed::First);
    assert!(
        matches!(
            other.claim(round(now, 1)).await.unwrap(),
            Claimed::InProgress { .. }
        ),
        "they share it"
    );
}

/// An older copy takes the file's place while servers run. What it has forgotten cannot be claimed again: the epoch is
/// rotated at once.
#[tokio::test]
async fn a_copy_in_its_place_rotates_the_epoch() {
    let place = Place::new();
    let ledger = place.open();
    let before = paid(&ledger, 1).await;
    let [file, log, index] = place.files();
    let copies = [place.named("copy"), place.named("copy-wal")];
    fs::copy(&file, &copies[0]).unwrap();
    fs::copy(&log, &copies[1]).unwrap();
    let forgotten = paid(&ledger, 2).await;

    fs::remove_file(index).unwrap();
    fs::rename(&copies[1], log).unwrap();
    fs::rename(&copies[0], file).unwrap();
    assert_eq!(
        ledger.claim(retry(&forgotten)).await.unwrap(),
        Claimed::StaleEpoch
    );
    assert_eq!(
        ledger.claim(retry(&before)).await.unwrap(),
        Claimed::StaleEpoch
    );
    let now = ledger.epoch().await.unwrap();
    assert_ne!(now, before.epoch);
    let known = ledger
        .lookup(before.kind, before.key, before.fingerprint)
        .await
        .unwrap();
    assert_eq!(
        known,
        mrtr_ledger::Found::Settled(b"paid".to_vec()),
        "it is the copy"
    );
    assert_eq!(ledger.claim(round(now, 3)).await.unwrap(), Claimed::First);
}

/// The same if only the file itself is replaced, and the log beside it stays.
#[tokio::test]
async fn a_copy_beside_the_same_log_rotates_the_epoch() {
    let place = Place::new();
    let ledger = place.open();
    let claim = paid(&ledger, 1).await;
    fs::copy(place.file(), place.named("copy")).unwrap();
    fs::rename(place.named("copy"), place.file()).unwrap();
    assert_eq!(
        ledger.claim(retry(&claim)).await.unwrap(),
        Claimed::StaleEpoch
    );
    let now = ledger.epoch().await.unwrap();
    assert_ne!(now, claim.epoch);
    assert_eq!(ledger.claim(round(now, 2)).await.unwrap(), Claimed::First);
    // What is written from now on is in the file that others see.
    assert!(matches!(
        place.open().claim(round(now, 2)).await.unwrap(),
        Claimed::InProgress { .. }
    ));
}

/// Somebody "cleans up" the log of a running ledger. Nothing that it may have held is claimed again.
#[tokio::test]
async fn a_log_that_vanishes_rotates_the_epoch() {
    let place = Place::new();
    // A second process of sorts: with it the log cannot be saved on closing, so its rows are lost for good.
    let (ledger, other) = (place.open(), place.open());
    let claim = paid(&ledger, 1).await;
    assert_eq!(other.claim(retry(&claim)).await.unwrap(), settled());
    let [_, log, index] = place.files();
    fs::remove_file(log).unwrap();
    fs::remove_file(index).unwrap();
    for ledger in [&ledger, &other] {
        match ledger.claim(retry(&claim)).await {
            Ok(claimed) => assert!(
                claimed == settled() || claimed == Claimed::StaleEpoch,
                "{claimed:?}"
            ),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    drop(other);
    // It heals, and what was lost stays lost to claims.
    let now = loop {
        if let Ok(now) = ledger.epoch().await {
            break now;
        }
    };
    assert_ne!(now, claim.epoch);
    assert_eq!(
        ledger.claim(retry(&claim)).await.unwrap(),
        Claimed::StaleEpoch
    );
    assert_eq!(ledger.claim(round(now, 2)).await.unwrap(), Claimed::First);
}

/// Damaged pages are errors, and never an empty ledger that says `First`.
#[tokio::test]
async fn damaged_pages_give_no_word() {
    let place = Place::new();
    let ledger = place.open();
    let mut claims = Vec::new();
    for number in 0..300 {
        claims.push(paid(&ledger, number).await);
    }
    drop(ledger);
    let [file, log, _] = place.files();
    while log.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(
        place.open().claim(retry(&claims[0])).await.unwrap(),
        settled()
    );
    while log.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    // All but the first page, which says what the file is.
    let mut bytes = Vec::new();
    let mut file = fs::File::options()
        .read(true)
        .write(true)
        .open(file)
        .unwrap();
    file.read_to_end(&mut bytes).unwrap();
    file.seek(SeekFrom::Start(4_096)).unwrap();
    file.write_all(&vec![0xff; bytes.len() - 4_096]).unwrap();
    drop(file);

    match place.builder().open() {
        Err(error) => assert!(error.to_string().contains("damaged"), "{error}"),
        Ok(ledger) => {
            for claim in &claims {
                assert!(matches!(
                    ledger.claim(retry(claim)).await,
                    Err(LedgerError::Corrupt)
                ));
            }
            assert!(matches!(
                ledger.claim(round(claims[0].epoch, 1_000)).await,
                Err(LedgerError::Corrupt)
            ));
        }
    }
}
