//! What is acknowledged is durable, or is not acknowledged.

use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::{Claimed, Ledger as _, LedgerError};
use mrtr_ledger_postgres::tokio_postgres::Client;
use mrtr_ledger_postgres::{OpenError, PostgresLedger};

use crate::bench::{Place, paid, retry, round, settle, settled, until};
use crate::server::Server;

const SHORT: Duration = Duration::from_secs(2);

/// A session starts with it off, as a role or a database may say. The ledger turns it on.
#[tokio::test(flavor = "multi_thread")]
async fn every_session_waits_for_the_disk() {
    let Some(place) = Place::new() else { return };
    let mut config = place.config.clone();
    config.options("-c synchronous_commit=off");
    let ledger = PostgresLedger::builder(config.clone())
        .schema(&place.schema)
        .open()
        .await
        .unwrap();
    paid(&ledger, 1).await;
    config.options("-c synchronous_commit=remote_apply");
    let ledger = PostgresLedger::builder(config)
        .schema(&place.schema)
        .open()
        .await
        .unwrap();
    paid(&ledger, 2).await;
}

/// Something turns it off in the very transaction: no word, and the same token is First once that is mended.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_does_not_wait_is_no_permission() {
    let Some(place) = Place::new() else { return };
    let ledger = place.builder().wait(SHORT).open().await.unwrap();
    let admin = place.client().await;
    let claim = round(ledger.epoch().await.unwrap(), 1);
    for setting in ["off", "local", "remote_write"] {
        let trigger = format!(
            "CREATE OR REPLACE FUNCTION {{s}}.loosen() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM set_config('synchronous_commit', '{setting}', true); RETURN NEW; END $$;
             CREATE OR REPLACE TRIGGER loosen BEFORE INSERT OR UPDATE ON {{s}}.rows
                 FOR EACH ROW EXECUTE FUNCTION {{s}}.loosen()"
        );
        place.run(&admin, &trigger).await;
        let refused = ledger.claim(claim.clone()).await.unwrap_err();
        let LedgerError::Unavailable(why) = refused else {
            panic!("{refused:?}")
        };
        assert!(why.to_string().contains(setting), "{why}");
        place.run(&admin, "DROP TRIGGER loosen ON {s}.rows").await;
        assert_eq!(ledger.claim(claim.clone()).await.unwrap(), Claimed::First);
    }
    place.run(&admin, "CREATE TRIGGER loosen BEFORE INSERT OR UPDATE ON {s}.rows FOR EACH ROW EXECUTE FUNCTION {s}.loosen()").await;
    let settlement = mrtr_ledger::Settlement::Outcome(b"paid".to_vec());
    assert!(
        ledger
            .settle(claim.key, claim.token, settlement)
            .await
            .is_err()
    );
}

/// A server that writes nothing through is refused, unless a test or a toy says by name that it does not matter.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_fsync_is_refused() {
    let Some(server) = Server::start() else {
        return;
    };
    let place = Place::on(&server);
    place.open().await;
    let admin = place.client().await;
    place.run(&admin, "ALTER SYSTEM SET fsync = off").await;
    place.run(&admin, "SELECT pg_reload_conf()").await;
    until("it is off", async || {
        place.ask(&admin, "SELECT current_setting('fsync')").await == "off"
    })
    .await;
    assert!(matches!(
        place.builder().open().await,
        Err(OpenError::NoFsync)
    ));
    let ledger = place.builder().accept_fsync_off().open().await.unwrap();
    paid(&ledger, 1).await;
}

/// The commit waits for a standby. Somebody cancels the wait, which PostgreSQL calls a warning and a success: it is
/// committed here and perhaps nowhere else. That is no word.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_standby_that_is_cancelled_is_no_permission() {
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
    let claim = round(ledger.epoch().await.unwrap(), 1);
    let admin = place.client().await;
    wait_for_nobody(&place, &admin).await;

    let asks = tokio::spawn({
        let (ledger, claim) = (Arc::clone(&ledger), claim.clone());
        async move { ledger.claim(claim).await }
    });
    for _ in 0..3 {
        until("the commit waits", async || {
            place.sessions(&admin, "wait_event = 'SyncRep'").await == 1
        })
        .await;
        assert!(!asks.is_finished());
        cancel_waits(&place, &admin).await;
    }
    assert!(!asks.is_finished(), "nobody was told First");
    place
        .run(&admin, "ALTER SYSTEM RESET synchronous_standby_names")
        .await;
    place.run(&admin, "SELECT pg_reload_conf()").await;
    assert_eq!(asks.await.unwrap().unwrap(), Claimed::First);
    settle(&ledger, &claim).await;
}

/// The same of what is told again: the settlement is there, but no standby has it, so neither its owner nor anybody else
/// may hear of it.
#[tokio::test(flavor = "multi_thread")]
async fn what_no_standby_has_is_not_told() {
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
    let claim = round(ledger.epoch().await.unwrap(), 1);
    assert_eq!(ledger.claim(claim.clone()).await.unwrap(), Claimed::First);
    let admin = place.client().await;
    wait_for_nobody(&place, &admin).await;

    let settles = tokio::spawn({
        let (ledger, claim) = (Arc::clone(&ledger), claim.clone());
        async move { settle(&ledger, &claim).await }
    });
    until("the commit waits", async || {
        place.sessions(&admin, "wait_event = 'SyncRep'").await == 1
    })
    .await;
    cancel_waits(&place, &admin).await;
    until("it is made again, and waits", async || {
        place
            .ask(&admin, "SELECT count(*) FROM {s}.rows WHERE status = 2")
            .await
            == "1"
            && place.sessions(&admin, "wait_event = 'SyncRep'").await == 1
    })
    .await;
    let claims = tokio::spawn({
        let (ledger, claim) = (Arc::clone(&ledger), retry(&claim));
        async move { ledger.claim(claim).await }
    });
    let looks = tokio::spawn({
        let (ledger, claim) = (Arc::clone(&ledger), claim.clone());
        async move {
            ledger
                .lookup(claim.kind, claim.key, claim.fingerprint)
                .await
        }
    });
    // Whichever of them gets the row first holds it while it waits, so they may wait for one another too.
    for _ in 0..4 {
        until("they wait", async || {
            place
                .sessions(&admin, "wait_event = 'SyncRep' OR wait_event_type = 'Lock'")
                .await
                == 3
        })
        .await;
        cancel_waits(&place, &admin).await;
        assert!(!settles.is_finished() && !claims.is_finished() && !looks.is_finished());
    }
    place
        .run(&admin, "ALTER SYSTEM RESET synchronous_standby_names")
        .await;
    place.run(&admin, "SELECT pg_reload_conf()").await;
    settles.await.unwrap();
    assert_eq!(claims.await.unwrap().unwrap(), settled());
    assert_eq!(
        looks.await.unwrap().unwrap(),
        mrtr_ledger::Found::Settled(b"paid".to_vec())
    );
}

/// Commits wait for a standby that is not there.
async fn wait_for_nobody(place: &Place, admin: &Client) {
    place
        .run(
            admin,
            "ALTER SYSTEM SET synchronous_standby_names = 'nobody'",
        )
        .await;
    place.run(admin, "SELECT pg_reload_conf()").await;
    let names = "SELECT current_setting('synchronous_standby_names')";
    until("it is set", async || {
        place.ask(admin, names).await == "nobody"
    })
    .await;
}

async fn cancel_waits(place: &Place, admin: &Client) {
    let cancel = format!(
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = '{}' AND wait_event = 'SyncRep'",
        place.schema
    );
    place.run(admin, &cancel).await;
}

/// A standby that was not waited for may lack what was acknowledged: whoever finds the ledger there refuses what is
/// open. A standby that has it all goes on, where that was said.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_rotates_the_epoch_unless_it_keeps_all() {
    let Some(server) = Server::start() else {
        return;
    };
    let (careful, certain) = (Place::on(&server), Place::on(&server));
    let before = paid(&careful.open().await, 1).await;
    let kept = paid(
        &certain.builder().failover_keeps_all().open().await.unwrap(),
        1,
    )
    .await;
    let standby = server.order("standby");
    assert!(matches!(
        Place::at(&standby).builder().open().await,
        Err(OpenError::Standby)
    ));
    let admin = careful.client().await;
    careful
        .run(&admin, "ALTER SYSTEM SET synchronous_standby_names = '*'")
        .await;
    careful.run(&admin, "SELECT pg_reload_conf()").await;
    until("the standby follows", async || {
        careful
            .ask(
                &admin,
                "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'",
            )
            .await
            == "1"
    })
    .await;
    let late = paid(
        &certain.builder().failover_keeps_all().open().await.unwrap(),
        2,
    )
    .await;

    server.order("promote");
    let moved = |place: &Place| {
        let builder = PostgresLedger::builder(standby.parse().unwrap()).schema(&place.schema);
        builder.wait(Duration::from_secs(10))
    };
    // Its own standby is not there yet, so it must not wait for one.
    let admin = Place::at(&standby).client().await;
    careful
        .run(&admin, "ALTER SYSTEM RESET synchronous_standby_names")
        .await;
    careful.run(&admin, "SELECT pg_reload_conf()").await;

    let ledger = moved(&certain).failover_keeps_all().open().await.unwrap();
    for claim in [&kept, &late] {
        assert_eq!(
            ledger.claim(retry(claim)).await.unwrap(),
            settled(),
            "the standby had it"
        );
    }
    // That others trust every failover says nothing to one that does not, in whichever order they come.
    let trusting = moved(&careful).failover_keeps_all().open().await.unwrap();
    assert_eq!(trusting.epoch().await.unwrap(), before.epoch);
    let ledger = moved(&careful).open().await.unwrap();
    assert_eq!(
        ledger.claim(retry(&before)).await.unwrap(),
        Claimed::StaleEpoch
    );
    let now = ledger.epoch().await.unwrap();
    assert_ne!(now, before.epoch);
    // Once, and not with each connection.
    assert_eq!(
        moved(&careful).open().await.unwrap().epoch().await.unwrap(),
        now
    );
    paid(&ledger, 3).await;
}
