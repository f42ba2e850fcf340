//! No word is no permission, and what has failed heals by itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mrtr_ledger::{Claimed, Ledger as _, LedgerError};
use mrtr_ledger_postgres::OpenError;
use mrtr_ledger_postgres::tokio_postgres::config::SslMode;

use crate::bench::{Place, paid, retry, round, settle, settled, until};
use crate::server::Server;

const SHORT: Duration = Duration::from_secs(1);

/// An administrator ends every connection. Nobody who asks afterwards notices.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_were_killed_are_replaced() {
    let Some(place) = Place::new() else { return };
    let ledger = Arc::new(place.open().await);
    let admin = place.client().await;
    let claim = paid(&ledger, 1).await;
    for number in 0..10 {
        assert!(
            place.kill_sessions(&admin).await > 0,
            "there was one to kill"
        );
        assert_eq!(ledger.claim(retry(&claim)).await.unwrap(), settled());
        paid(&ledger, 10 + number).await;
    }
}

/// The same in the middle of a claim, which had not been told anything. It is made again with its token.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_connection_is_killed_is_made_again() {
    let Some(place) = Place::new() else { return };
    let ledger = Arc::new(place.open().await);
    let mut admin = place.client().await;
    let claim = round(ledger.epoch().await.unwrap(), 1);
    let watcher = place.client().await;
    let held = admin.transaction().await.unwrap();
    held.batch_execute(&format!(
        "LOCK TABLE {}.rows IN EXCLUSIVE MODE",
        place.schema
    ))
    .await
    .unwrap();
    let asks = tokio::spawn({
        let (ledger, claim) = (Arc::clone(&ledger), claim.clone());
        async move { ledger.claim(claim).await }
    });
    place.waits(&watcher).await;
    assert_eq!(place.kill_sessions(&watcher).await, 1);
    held.rollback().await.unwrap();
    assert_eq!(asks.await.unwrap().unwrap(), Claimed::First);
    settle(&ledger, &claim).await;
    assert_eq!(ledger.claim(retry(&claim)).await.unwrap(), settled());
}

/// A server that is started again within the wait costs a delay, and one that is not costs the operation; the ledger
/// goes on either way, without being opened again.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_is_found() {
    let Some(server) = Server::start() else {
        return;
    };
    let place = Place::on(&server);
    let ledger = Arc::new(
        place
            .builder()
            .wait(Duration::from_secs(60))
            .open()
            .await
            .unwrap(),
    );
    let hasty = place.builder().wait(SHORT).open().await.unwrap();
    let claim = paid(&ledger, 1).await;

    server.order("crash");
    let asks = tokio::spawn({
        let (ledger, claim) = (Arc::clone(&ledger), claim.clone());
        async move { ledger.claim(retry(&claim)).await }
    });
    let start = Instant::now();
    for number in 0..3 {
        let refused = hasty
            .claim(round(claim.epoch, 10 + number))
            .await
            .unwrap_err();
        assert!(
            matches!(refused, LedgerError::Unavailable(_)),
            "{refused:?}"
        );
        assert!(hasty.epoch().await.is_err());
    }
    assert!(
        start.elapsed() < Duration::from_secs(45),
        "{:?}",
        start.elapsed()
    );
    assert!(matches!(
        place.builder().open().await,
        Err(OpenError::Postgres(_))
    ));

    server.order("start");
    assert_eq!(asks.await.unwrap().unwrap(), settled(), "it has waited");
    assert_eq!(
        hasty.claim(round(claim.epoch, 10)).await.unwrap(),
        Claimed::First
    );
    assert_eq!(
        hasty.claim(retry(&claim)).await.unwrap(),
        settled(),
        "a crash of the server loses nothing"
    );
    assert_eq!(
        hasty.epoch().await.unwrap(),
        claim.epoch,
        "it is the same server"
    );
}

/// Whoever finds every connection in use waits, and is told in time that there is no word.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_pool_is_no_permission() {
    let Some(place) = Place::new() else { return };
    let ledger = Arc::new(
        place
            .builder()
            .connections(2)
            .wait(SHORT)
            .open()
            .await
            .unwrap(),
    );
    let epoch = ledger.epoch().await.unwrap();
    // Both connections are there: making one waits for the same lock.
    let (one, two) = tokio::join!(
        ledger.claim(round(epoch, 100)),
        ledger.claim(round(epoch, 101))
    );
    assert_eq!(
        (one.unwrap(), two.unwrap()),
        (Claimed::First, Claimed::First)
    );
    let mut admin = place.client().await;
    let watcher = place.client().await;
    let held = admin.transaction().await.unwrap();
    held.batch_execute(&format!(
        "LOCK TABLE {}.rows IN ACCESS EXCLUSIVE MODE",
        place.schema
    ))
    .await
    .unwrap();
    let start = Instant::now();
    let asks: Vec<_> = (0..10)
        .map(|number| {
            let ledger = Arc::clone(&ledger);
            tokio::spawn(async move { ledger.claim(round(epoch, number)).await })
        })
        .collect();
    for ask in asks {
        let refused = ask.await.unwrap().unwrap_err();
        assert!(matches!(refused, LedgerError::Busy), "{refused:?}");
    }
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "{:?}",
        start.elapsed()
    );
    assert!(
        place.sessions(&watcher, "true").await <= 2,
        "two connections are two"
    );
    held.rollback().await.unwrap();
    for number in 0..10 {
        assert_eq!(
            ledger.claim(round(epoch, number)).await.unwrap(),
            Claimed::First,
            "nothing was claimed"
        );
    }
}

/// Callers go away in the middle. Their operations come to an end, no transaction stays open, and no connection is lost.
#[tokio::test(flavor = "multi_thread")]
async fn case_093_a_dropped_caller_leaves_no_open_transaction() {
    let Some(place) = Place::new() else { return };
    let ledger = Arc::new(place.builder().connections(1).open().await.unwrap());
    let epoch = ledger.epoch().await.unwrap();
    let claim = paid(&ledger, 1).await;
    let mut admin = place.client().await;
    let watcher = place.client().await;
    for number in 2..6 {
        let held = admin.transaction().await.unwrap();
        held.batch_execute(&format!(
            "LOCK TABLE {}.rows IN EXCLUSIVE MODE",
            place.schema
        ))
        .await
        .unwrap();
        // The second one is decided in a transaction of several statements.
        for claim in [round(epoch, number), retry(&claim)] {
            let asked = tokio::time::timeout(Duration::from_millis(50), ledger.claim(claim)).await;
            assert!(asked.is_err(), "it waits for the lock");
        }
        held.rollback().await.unwrap();
    }
    for number in 2..6 {
        let again = ledger.claim(round(epoch, number)).await.unwrap();
        assert!(
            matches!(again, Claimed::InProgress { .. }),
            "{again:?}: it was carried to its end"
        );
    }
    until("no transaction is open", async || {
        place.sessions(&watcher, "state <> 'idle'").await == 0
    })
    .await;
    paid(&ledger, 10).await;
}

/// Somebody holds what a claim needs for longer than the ledger waits.
#[tokio::test(flavor = "multi_thread")]
async fn case_078_locked_for_too_long_is_no_permission() {
    let Some(place) = Place::new() else { return };
    let ledger = place.builder().wait(SHORT).open().await.unwrap();
    let claim = round(ledger.epoch().await.unwrap(), 1);
    let mut admin = place.client().await;
    for table in ["ledger", "gate", "rows", "tally"] {
        let held = admin.transaction().await.unwrap();
        held.batch_execute(&format!(
            "LOCK TABLE {}.{table} IN ACCESS EXCLUSIVE MODE",
            place.schema
        ))
        .await
        .unwrap();
        let refused = ledger.claim(claim.clone()).await.unwrap_err();
        assert!(matches!(refused, LedgerError::Busy), "{table}: {refused:?}");
        held.rollback().await.unwrap();
        assert_eq!(ledger.rows().await.unwrap().rounds, 0, "{table}");
    }
    assert_eq!(ledger.claim(claim).await.unwrap(), Claimed::First);
}

/// A transaction that the server takes back for another's sake is begun again, as often as it takes.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_takes_back_is_tried_again() {
    let Some(place) = Place::new() else { return };
    let ledger = place.open().await;
    let admin = place.client().await;
    for (number, code) in (1..).zip(["40001", "40P01"]) {
        place
            .run(
                &admin,
                &format!(
                    "CREATE SEQUENCE {{s}}.tries_{number};
                     CREATE FUNCTION {{s}}.fail_{number}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                         IF nextval('{{s}}.tries_{number}') % 4 <> 0 THEN RAISE SQLSTATE '{code}'; END IF;
                         RETURN NEW;
                     END $$;
                     CREATE TRIGGER fail BEFORE INSERT OR UPDATE ON {{s}}.rows
                         FOR EACH ROW EXECUTE FUNCTION {{s}}.fail_{number}()"
                ),
            )
            .await;
        let claim = paid(&ledger, number).await;
        assert_eq!(
            place
                .ask(
                    &admin,
                    &format!("SELECT last_value FROM {{s}}.tries_{number}")
                )
                .await,
            "8"
        );
        assert_eq!(ledger.claim(retry(&claim)).await.unwrap(), settled());
        place.run(&admin, "DROP TRIGGER fail ON {s}.rows").await;
    }
}

/// What has no room, takes no writes or is not there has its own word, and none of them is `First`.
#[tokio::test(flavor = "multi_thread")]
async fn case_112_each_class_of_failure_has_its_word() {
    let Some(place) = Place::new() else { return };
    let ledger = place.builder().wait(SHORT).open().await.unwrap();
    let claim = round(ledger.epoch().await.unwrap(), 1);
    let admin = place.client().await;
    let fail = async |code: &str| {
        let function = format!(
            "CREATE OR REPLACE FUNCTION {{s}}.fail() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE SQLSTATE '{code}'; END $$;
             CREATE OR REPLACE TRIGGER fail BEFORE INSERT ON {{s}}.rows FOR EACH ROW EXECUTE FUNCTION {{s}}.fail()"
        );
        place.run(&admin, &function).await;
        ledger.claim(claim.clone()).await.unwrap_err()
    };
    assert!(matches!(fail("53100").await, LedgerError::StorageFull));
    assert!(matches!(fail("25006").await, LedgerError::ReadOnly));
    assert!(matches!(fail("XX001").await, LedgerError::Corrupt));
    assert!(matches!(fail("57014").await, LedgerError::Busy));
    assert!(matches!(fail("22000").await, LedgerError::Unavailable(_)));
    place.run(&admin, "DROP TRIGGER fail ON {s}.rows").await;
    assert_eq!(ledger.claim(claim.clone()).await.unwrap(), Claimed::First);

    let mut read_only = place.config.clone();
    read_only.options("-c default_transaction_read_only=on");
    let reader = mrtr_ledger_postgres::PostgresLedger::builder(read_only)
        .schema(&place.schema)
        .open()
        .await
        .unwrap();
    assert!(matches!(
        reader.claim(round(claim.epoch, 2)).await,
        Err(LedgerError::ReadOnly)
    ));

    place.run(&admin, "DROP SCHEMA {s} CASCADE").await;
    assert!(matches!(
        ledger.claim(round(claim.epoch, 3)).await,
        Err(LedgerError::Vanished)
    ));
    // A ledger that is made in the place of one that was lost is another ledger.
    assert_eq!(
        ledger.claim(round(claim.epoch, 3)).await.unwrap(),
        Claimed::StaleEpoch
    );
}

/// A commit that fails is no `First`, whatever the statement before it has said.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_fails_is_no_permission() {
    let Some(place) = Place::new() else { return };
    let ledger = place.builder().wait(SHORT).open().await.unwrap();
    let admin = place.client().await;
    let claim = paid(&ledger, 1).await;
    let owned = round(claim.epoch, 2);
    assert_eq!(ledger.claim(owned.clone()).await.unwrap(), Claimed::First);
    place
        .run(
            &admin,
            "CREATE FUNCTION {s}.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'at the commit'; END $$;
             CREATE CONSTRAINT TRIGGER fail AFTER INSERT OR UPDATE ON {s}.rows DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW EXECUTE FUNCTION {s}.fail()",
        )
        .await;
    assert!(ledger.claim(round(claim.epoch, 3)).await.is_err());
    // This one is decided in a transaction of several statements.
    assert!(ledger.claim(owned.clone()).await.is_err());
    let settlement = mrtr_ledger::Settlement::Outcome(b"paid".to_vec());
    assert!(
        ledger
            .settle(owned.key, owned.token, settlement)
            .await
            .is_err()
    );
    assert!(ledger.beat(owned.key, owned.token, SHORT).await.is_err());
    assert!(ledger.release(owned.key, owned.token).await.is_err());
    let rows = ledger.rows().await.unwrap();
    assert_eq!((rows.rounds, rows.settled_rounds), (2, 1));
    place.run(&admin, "DROP TRIGGER fail ON {s}.rows").await;
    settle(&ledger, &owned).await;
}

/// Where TLS is asked for, nothing is said without it.
#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_required() {
    let Some(place) = Place::new() else { return };
    place.open().await;
    let mut config = place.config.clone();
    config.ssl_mode(SslMode::Require);
    let refused = mrtr_ledger_postgres::PostgresLedger::builder(config)
        .open()
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("TLS") || format!("{refused:?}").contains("Tls"),
        "{refused:?}"
    );
}
