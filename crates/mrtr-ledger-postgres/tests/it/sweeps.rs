//! Purges, marks and the claims that meet them.

use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::{Account, Claimed, Fingerprint, Ledger as _};
use mrtr_state::Clock as _;

use crate::bench::{
    FAR, LEASE, Place, START, expiring, paid, retry, round, settle, settled, step, token, until,
};

/// The claim's statement has begun, and with it its snapshot, when a mark is raised and its row removed. What it reads
/// under the lock counts, and not the snapshot.
#[tokio::test(flavor = "multi_thread")]
async fn a_mark_that_is_raised_under_a_claim_is_seen() {
    let Some(place) = Place::new() else { return };
    let ledger = Arc::new(place.open().await);
    let claim = round(ledger.epoch().await.unwrap(), 1);
    let mut admin = place.client().await;
    let watcher = place.client().await;
    let change = admin.transaction().await.unwrap();
    let raise = format!(
        "UPDATE {}.ledger SET rounds_mark = {}",
        place.schema,
        FAR.as_millis()
    );
    change.batch_execute(&raise).await.unwrap();
    let asks = tokio::spawn({
        let (ledger, claim) = (Arc::clone(&ledger), claim.clone());
        async move { ledger.claim(claim).await }
    });
    place.waits(&watcher).await;
    change.commit().await.unwrap();
    assert_eq!(asks.await.unwrap().unwrap(), Claimed::Expired);
    assert_eq!(
        ledger.claim(step(claim.epoch, 1)).await.unwrap(),
        Claimed::First,
        "a step has another mark"
    );
}

/// The same of the epoch, and of the round in which a step is reached.
#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_or_round_that_changes_under_a_claim_is_seen() {
    let Some(place) = Place::new() else { return };
    let ledger = Arc::new(place.open().await);
    let epoch = ledger.epoch().await.unwrap();
    let owner = round(epoch, 1);
    assert_eq!(ledger.claim(owner.clone()).await.unwrap(), Claimed::First);
    let owned = mrtr_ledger::Owner {
        key: owner.key,
        token: owner.token,
    };
    let mut admin = place.client().await;
    let watcher = place.client().await;
    for (change, told) in [
        (
            "UPDATE {s}.rows SET status = 3, lease = 0",
            Claimed::StaleOwner,
        ),
        (
            "UPDATE {s}.ledger SET epoch = decode(repeat('ff', 16), 'hex')",
            Claimed::StaleEpoch,
        ),
    ] {
        let changing = admin.transaction().await.unwrap();
        changing
            .batch_execute(&change.replace("{s}", &place.schema))
            .await
            .unwrap();
        let asks = tokio::spawn({
            let (ledger, claim) = (Arc::clone(&ledger), step(epoch, 2).under(owned));
            async move { ledger.claim(claim).await }
        });
        place.waits(&watcher).await;
        changing.commit().await.unwrap();
        assert_eq!(asks.await.unwrap().unwrap(), told);
    }
    assert_eq!(ledger.rows().await.unwrap().steps, 0);
}

/// A claim that waits long for its row holds off whoever would raise a mark. Other claims do not wait with them.
#[tokio::test(flavor = "multi_thread")]
async fn a_purge_that_must_wait_stops_nobody() {
    let Some(place) = Place::new() else { return };
    let ledger = Arc::new(place.open_by_hand().await);
    let epoch = ledger.epoch().await.unwrap();
    let old = expiring(round(epoch, 1), START + 1_000);
    assert_eq!(ledger.claim(old.clone()).await.unwrap(), Claimed::First);
    settle(&ledger, &old).await;
    place.clock.advance(Duration::from_secs(3_600));

    // Somebody is about to put the very row that is claimed, and takes his time.
    let mut admin = place.client().await;
    let watcher = place.client().await;
    let putting = admin.transaction().await.unwrap();
    let slow = round(epoch, 2);
    let put = format!(
        "INSERT INTO {}.rows SELECT kind, {}, $1, fingerprint, account, token, status, again, lease, outcome FROM {0}.rows",
        place.schema,
        slow.key.expiry.as_millis()
    );
    putting
        .execute(&put, &[&slow.key.hash.as_slice()])
        .await
        .unwrap();
    let waits = tokio::spawn({
        let (ledger, slow) = (Arc::clone(&ledger), slow.clone());
        async move { ledger.claim(slow).await }
    });
    place.waits(&watcher).await;
    let purges = tokio::spawn({
        let ledger = Arc::clone(&ledger);
        async move { ledger.purge().await }
    });
    let gate = format!(
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '{}.gate'::regclass",
        place.schema
    );
    until("the purge waits", async || {
        place.ask(&watcher, &gate).await == "1"
    })
    .await;
    for number in 10..40 {
        let claimed =
            tokio::time::timeout(Duration::from_secs(2), ledger.claim(round(epoch, number))).await;
        assert_eq!(
            claimed
                .expect("nobody waits for a purge that waits")
                .unwrap(),
            Claimed::First
        );
    }
    assert!(!purges.is_finished());
    putting.rollback().await.unwrap();
    assert_eq!(waits.await.unwrap().unwrap(), Claimed::First);
    assert_eq!(purges.await.unwrap().unwrap().rounds, 1);
}

/// The clock is years ahead when a purge begins, is put right, and the epoch is rotated, as an operator does then, all
/// between two batches. What is claimed afterwards may expire before the mark that the purge had raised, and stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_purge_does_not_outlive_a_rotation() {
    let Some(place) = Place::new() else { return };
    let ledger = Arc::new(place.open_by_hand().await);
    let admin = place.client().await;
    let watcher = place.client().await;
    let soon = START + 3_600_000;
    fill(&place, &admin, 5_000, soon).await;
    place
        .run(
            &admin,
            "CREATE SEQUENCE {s}.batches;
             CREATE FUNCTION {s}.pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF nextval('{s}.batches') = 2 THEN PERFORM pg_advisory_xact_lock(hashtext('{s}')); END IF;
                 RETURN NULL;
             END $$;
             CREATE TRIGGER pause BEFORE DELETE ON {s}.rows FOR EACH STATEMENT EXECUTE FUNCTION {s}.pause();
             SELECT pg_advisory_lock(hashtext('{s}'))",
        )
        .await;
    place.clock.advance(Duration::from_secs(10 * 365 * 86_400));
    let purges = tokio::spawn({
        let ledger = Arc::clone(&ledger);
        async move { ledger.purge().await }
    });
    place.waits(&watcher).await;
    place.clock.set(mrtr_state::Timestamp::from_millis(START));
    let epoch = ledger.rotate_epoch().await.unwrap();
    let claim = expiring(round(epoch, 1), soon - 50);
    assert_eq!(ledger.claim(claim.clone()).await.unwrap(), Claimed::First);
    settle(&ledger, &claim).await;
    place.run(&admin, "SELECT pg_advisory_unlock_all()").await;
    assert_eq!(purges.await.unwrap().unwrap().rounds, 2_000, "two batches");
    assert_eq!(ledger.claim(retry(&claim)).await.unwrap(), settled());
}

/// Somebody holds the ledger's row for longer than the gate's queue is joined, as an effect whose commit waits for a
/// standby does. A rotation tries again.
#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_waits_for_a_slow_commit() {
    let Some(place) = Place::new() else { return };
    let ledger = Arc::new(place.open().await);
    let before = ledger.epoch().await.unwrap();
    let mut admin = place.client().await;
    let watcher = place.client().await;
    let held = admin.transaction().await.unwrap();
    held.batch_execute(&format!("SELECT 1 FROM {}.ledger FOR SHARE", place.schema))
        .await
        .unwrap();
    let rotates = tokio::spawn({
        let ledger = Arc::clone(&ledger);
        async move { ledger.rotate_epoch().await }
    });
    // Twice, so that it has been refused once.
    place.waits(&watcher).await;
    until("it pauses", async || {
        place.sessions(&watcher, "wait_event_type = 'Lock'").await == 0
    })
    .await;
    place.waits(&watcher).await;
    held.rollback().await.unwrap();
    assert_ne!(rotates.await.unwrap().unwrap(), before);
}

/// Two servers purge at once, and every row goes once.
#[tokio::test(flavor = "multi_thread")]
async fn purges_at_the_same_time_do_not_count_twice() {
    let Some(place) = Place::new() else { return };
    let ledgers = [place.open_by_hand().await, place.open_by_hand().await].map(Arc::new);
    let admin = place.client().await;
    fill(&place, &admin, 7_500, START + 1_000).await;
    fill(&place, &admin, 10, FAR.as_millis()).await;
    place.clock.advance(Duration::from_secs(3_600));
    let purges =
        ledgers.map(|ledger| tokio::spawn(async move { ledger.purge().await.unwrap().rounds }));
    let mut gone = 0;
    for purge in purges {
        gone += purge.await.unwrap();
    }
    // What both wanted at the same moment may be left for another time, but is not counted by both.
    let left: u64 = place
        .ask(&admin, "SELECT count(*) FROM {s}.rows")
        .await
        .parse()
        .unwrap();
    assert_eq!(gone + left, 7_510);
    place.open_by_hand().await.purge().await.unwrap();
    assert_eq!(
        place.ask(&admin, "SELECT count(*) FROM {s}.rows").await,
        "10"
    );
}

/// Nobody calls `purge`, and the tables stay bounded all the same.
#[tokio::test(flavor = "multi_thread")]
async fn case_101_a_ledger_that_nobody_purges_stays_bounded() {
    let Some(place) = Place::new() else { return };
    let ledger = Arc::new(place.open_by_hand().await);
    let epoch = ledger.epoch().await.unwrap();
    let admin = place.client().await;
    for batch in 0..5 {
        let claims: Vec<_> = (0..1_000)
            .map(|number| {
                let claim = expiring(
                    round(epoch, batch * 1_000 + number),
                    place.clock.now().as_millis() + 1_000,
                );
                let ledger = Arc::clone(&ledger);
                tokio::spawn(async move { ledger.claim(claim).await.unwrap() })
            })
            .collect();
        for claim in claims {
            assert_eq!(claim.await.unwrap(), Claimed::First);
        }
        if batch > 0 {
            until("what is old has gone", async || {
                place.ask(&admin, "SELECT count(*) FROM {s}.rows").await == "1000"
            })
            .await;
            until("and what was counted of it", async || {
                let old = (place.clock.now().as_millis() - 1_800_000) / 60_000;
                place
                    .ask(
                        &admin,
                        &format!("SELECT count(*) FROM {{s}}.tally WHERE bucket < {old}"),
                    )
                    .await
                    == "0"
            })
            .await;
        }
        // Past expiry, lease and retention.
        place.clock.advance(Duration::from_secs(3_600));
    }
}

/// Whatever is asked of a ledger with many rows, an index leads to what it is about.
#[tokio::test(flavor = "multi_thread")]
async fn case_100_no_operation_reads_all_rows() {
    let Some(place) = Place::new() else { return };
    let ledger = place.open_by_hand().await;
    let admin = place.client().await;
    fill(&place, &admin, 20_000, FAR.as_millis()).await;
    fill(&place, &admin, 3_000, START + 1_000).await;
    place.run(&admin, "ANALYZE {s}.rows").await;
    place.clock.advance(Duration::from_secs(3_600));

    let claim = paid(&ledger, 1).await;
    let owned = round(claim.epoch, 2);
    for _ in 0..2 {
        assert_eq!(ledger.claim(owned.clone()).await.unwrap(), Claimed::First);
    }
    let under = mrtr_ledger::Owner {
        key: owned.key,
        token: owned.token,
    };
    assert_eq!(
        ledger
            .claim(step(claim.epoch, 3).under(under))
            .await
            .unwrap(),
        Claimed::First
    );
    assert!(ledger.beat(owned.key, owned.token, LEASE).await.unwrap());
    ledger
        .lookup(claim.kind, claim.key, claim.fingerprint)
        .await
        .unwrap();
    assert!(ledger.release(owned.key, owned.token).await.unwrap());
    assert_eq!(ledger.purge().await.unwrap().rounds, 3_000);

    // The server counts scans, and has heard of all of them when the connections are gone.
    drop(ledger);
    until("the connections are gone", async || {
        place.sessions(&admin, "true").await == 0
    })
    .await;
    let scans = |what: &str| {
        format!(
            "SELECT {what} FROM pg_stat_user_tables WHERE schemaname = '{{s}}' AND relname = 'rows'"
        )
    };
    until("the server has counted", async || {
        place
            .ask(&admin, &scans("idx_scan"))
            .await
            .parse::<u64>()
            .unwrap()
            > 10
    })
    .await;
    // One was the filling's own, and one may have been the analysis.
    let whole: u64 = place.ask(&admin, &scans("seq_scan")).await.parse().unwrap();
    assert!(whole <= 1, "{whole} scans of the whole table");
}

/// Settled rounds, without the ledger's help.
async fn fill(
    place: &Place,
    admin: &mrtr_ledger_postgres::tokio_postgres::Client,
    rows: u32,
    expiry: u64,
) {
    let (print, account) = (
        Fingerprint::from_bytes([1; 32]),
        Account::from_bytes([2; 32]),
    );
    let fill = format!(
        "INSERT INTO {}.rows SELECT 0, {expiry} - number % 100, sha256(('{expiry}' || number)::bytea), $1, $2, $3, 2, false, 0, ''
         FROM generate_series(1, {rows}) AS number",
        place.schema
    );
    let token = token();
    let parameters: [&(dyn mrtr_ledger_postgres::tokio_postgres::types::ToSql + Sync); 3] = [
        &print.as_bytes().as_slice(),
        &account.as_bytes().as_slice(),
        &token.as_bytes().as_slice(),
    ];
    admin.execute(&fill, &parameters).await.unwrap();
}
