//! What an operator is told.

use std::time::Duration;

use mrtr_ledger::{Claimed, Ledger as _, Note, Settlement};
use mrtr_ledger_postgres::Verified;

use crate::bench::{Place, START, expiring, paid, round, settle, step};

/// One row of each status and kind, in numbers.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_say_what_is_there() {
    let Some(place) = Place::new() else { return };
    let ledger = place.open_by_hand().await;
    let epoch = ledger.epoch().await.unwrap();
    assert_eq!(ledger.stats().await.unwrap().rounds, Default::default());

    let settled = paid(&ledger, 1).await;
    let [lapsed, released, abandoned] = [2, 3, 4].map(|number| round(epoch, number));
    for claim in [&lapsed, &released, &abandoned] {
        assert_eq!(ledger.claim(claim.clone()).await.unwrap(), Claimed::First);
    }
    assert!(ledger.release(released.key, released.token).await.unwrap());
    _ = ledger
        .settle(abandoned.key, abandoned.token, Settlement::Abandoned)
        .await
        .unwrap();
    place.clock.advance(Duration::from_secs(60));
    assert_eq!(ledger.claim(step(epoch, 5)).await.unwrap(), Claimed::First);
    let mut key = settled.key;
    key.expiry = mrtr_state::Timestamp::from_millis(START + 61_000);
    let note = Note::new(key, epoch, settled.fingerprint, settled.account, vec![7; 9]);
    ledger.keep(note).await.unwrap();

    let stats = ledger.stats().await.unwrap();
    let rounds = stats.rounds;
    assert_eq!((rounds.rows, rounds.unexpired, rounds.removable), (4, 4, 0));
    assert_eq!((rounds.running, rounds.lapsed, rounds.released), (0, 1, 1));
    assert_eq!((rounds.settled, rounds.abandoned, rounds.bytes), (1, 1, 4));
    assert_eq!((stats.steps.rows, stats.steps.running), (1, 1));
    assert_eq!(
        (stats.notes.rows, stats.notes.settled, stats.notes.bytes),
        (1, 1, 9)
    );
    assert_eq!((stats.accounts, rounds.mark), (1, None));
    assert_eq!(rounds.newest_expiry, Some(settled.key.expiry));
    assert!(epoch.to_text().starts_with(&stats.epoch) && stats.epoch.len() == 8);
    assert!(stats.table_bytes > 0 && stats.home.is_some());

    place.clock.advance(Duration::from_secs(3_600));
    assert_eq!(ledger.stats().await.unwrap().notes.removable, 1);
    ledger.purge().await.unwrap();
    let stats = ledger.stats().await.unwrap();
    assert_eq!((stats.notes.rows, stats.notes.mark), (0, Some(key.expiry)));
}

/// A ledger finds nothing wrong with its own work, whatever that was.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_was_used_is_sound() {
    let Some(place) = Place::new() else { return };
    let ledger = place.open_by_hand().await;
    assert_eq!(ledger.verify().await.unwrap(), Verified::default());
    for number in 0..50 {
        paid(&ledger, number).await;
    }
    let verified = ledger.verify().await.unwrap();
    assert!(verified.is_sound() && verified.rows == 50, "{verified:?}");
    // Some go, and what was counted of them may stay.
    for number in 100..150 {
        let old = expiring(round(ledger.epoch().await.unwrap(), number), START + 1_000);
        assert_eq!(ledger.claim(old.clone()).await.unwrap(), Claimed::First);
        settle(&ledger, &old).await;
    }
    place.clock.advance(Duration::from_secs(3_600));
    assert_eq!(ledger.purge().await.unwrap().rounds, 50);
    let verified = ledger.verify().await.unwrap();
    assert!(verified.is_sound() && verified.rows == 50, "{verified:?}");
}

/// What somebody else did is found, and told in words.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_ledger_would_not_have_done_is_found() {
    let Some(place) = Place::new() else { return };
    let ledger = place.open_by_hand().await;
    paid(&ledger, 1).await;
    let admin = place.client().await;
    for (change, undo, words) in [
        ("UPDATE {s}.tally SET rows = rows - 1", "UPDATE {s}.tally SET rows = rows + 1", "0 rows and 4 bytes were counted"),
        ("DELETE FROM {s}.tally WHERE account <> ''", "", "0 rows and 0 bytes were counted and 1 rows"),
        ("UPDATE {s}.ledger SET steps_mark = 99999999999999", "UPDATE {s}.ledger SET steps_mark = NULL", "the mark of steps"),
        ("ALTER TABLE {s}.rows ADD COLUMN extra text", "ALTER TABLE {s}.rows DROP COLUMN extra", "does not have the columns"),
        ("ALTER TABLE {s}.rows DROP CONSTRAINT rows_pkey", "ALTER TABLE {s}.rows ADD PRIMARY KEY (kind, expiry, hash)", "lacks an index"),
        ("DROP INDEX {s}.tally_by_bucket", "CREATE INDEX tally_by_bucket ON {s}.tally (bucket)", "lacks an index"),
        ("CREATE RULE extra AS ON DELETE TO {s}.rows DO INSTEAD NOTHING", "DROP RULE extra ON {s}.rows", "has a rule"),
        ("ALTER TABLE {s}.rows ENABLE ROW LEVEL SECURITY", "ALTER TABLE {s}.rows DISABLE ROW LEVEL SECURITY", "hides rows"),
        (
            "CREATE TABLE {s}.other (kind smallint, expiry bigint, hash bytea, FOREIGN KEY (kind, expiry, hash) REFERENCES {s}.rows)",
            "DROP TABLE {s}.other",
            "is referred to by another table",
        ),
        (
            "CREATE FUNCTION {s}.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
             CREATE TRIGGER extra BEFORE INSERT ON {s}.rows FOR EACH ROW EXECUTE FUNCTION {s}.nothing()",
            "DROP TRIGGER extra ON {s}.rows",
            "has a trigger",
        ),
        ("DROP TABLE {s}.gate", "CREATE TABLE {s}.gate (nothing boolean)", "`gate` is missing"),
        ("DELETE FROM {s}.ledger", "", "has no row"),
    ] {
        let before = ledger.verify().await.unwrap().findings;
        place.run(&admin, change).await;
        let found = ledger.verify().await.unwrap().findings;
        let new: Vec<String> =
            found.iter().filter(|finding| !before.contains(finding)).map(ToString::to_string).collect();
        assert!(new.iter().any(|finding| finding.contains(words)), "{change}: {new:?}");
        place.run(&admin, undo).await;
    }
}

/// What is counted, as the fields that a metrics layer makes instruments of.
#[tokio::test]
async fn operations_failures_and_purges_are_counted() {
    let Some(place) = Place::new() else { return };
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    // All tasks of this test are on this thread.
    let _guard = tracing::subscriber::set_default(subscriber);
    // With a second subscriber each is asked anew; a record's place may have been met by a thread that had none.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let ledger = place.open_by_hand().await;
    let epoch = ledger.epoch().await.unwrap();
    for number in 0..3 {
        let claim = expiring(round(epoch, number), START + 1_000);
        assert_eq!(ledger.claim(claim).await.unwrap(), Claimed::First);
    }
    place.clock.advance(Duration::from_secs(3_600));
    assert_eq!(ledger.purge().await.unwrap().rounds, 3);
    let admin = place.client().await;
    place.run(&admin, "DROP SCHEMA {s} CASCADE").await;
    ledger.claim(round(epoch, 1)).await.unwrap_err();

    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for counted in [
        "mrtr::metrics: ",
        "monotonic_counter.mrtr.ledger.postgres.connected=1",
        "histogram.mrtr.ledger.postgres.wait.duration=",
        "histogram.mrtr.ledger.postgres.operation.duration=",
        "monotonic_counter.mrtr.ledger.purged=3 kind=\"round\"",
        "monotonic_counter.mrtr.ledger.postgres.failed=1 fault=\"vanished\"",
    ] {
        assert!(text.contains(counted), "{counted}: {text}");
    }
}

#[derive(Clone, Default)]
struct Log(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl tracing_subscriber::fmt::MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
