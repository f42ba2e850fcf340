//! Whose tables they are, and of which version.

use mrtr_ledger::{Claimed, Ledger as _};
use mrtr_ledger_postgres::{OpenError, PostgresLedger};

use crate::bench::{Place, paid, retry, settled};

/// Tables of a later version are left as they are.
#[tokio::test]
async fn case_106_a_newer_schema_is_refused() {
    let Some(place) = Place::new() else { return };
    let ledger = place.open().await;
    let claim = paid(&ledger, 1).await;
    let admin = place.client().await;
    place
        .run(&admin, "UPDATE {s}.ledger SET version = version + 1")
        .await;
    let refused = place.builder().open().await.unwrap_err();
    assert!(
        matches!(refused, OpenError::Version { found: 2, known: 1 }),
        "{refused:?}"
    );
    assert_eq!(
        place.ask(&admin, "SELECT version FROM {s}.ledger").await,
        "2"
    );
    place
        .run(&admin, "UPDATE {s}.ledger SET version = version - 1")
        .await;
    assert_eq!(
        place.open().await.claim(retry(&claim)).await.unwrap(),
        settled()
    );
}

/// So are another program's.
#[tokio::test]
async fn another_programs_table_is_refused() {
    let Some(place) = Place::new() else { return };
    let admin = place.client().await;
    place
        .run(
            &admin,
            "CREATE SCHEMA {s}; CREATE TABLE {s}.ledger (page integer)",
        )
        .await;
    assert!(matches!(
        place.builder().open().await,
        Err(OpenError::Foreign)
    ));
    place
        .run(&admin, "ALTER TABLE {s}.ledger ADD COLUMN version integer")
        .await;
    assert!(matches!(
        place.builder().open().await,
        Err(OpenError::Foreign)
    ));
    assert_eq!(
        place
            .ask(
                &admin,
                "SELECT count(*) FROM pg_tables WHERE schemaname = '{s}'"
            )
            .await,
        "1"
    );
}

/// A role that owns its schema and may do nothing else is enough. One that may not make a schema is told so.
#[tokio::test]
async fn a_role_needs_no_more_than_its_schema() {
    let Some(place) = Place::new() else { return };
    let admin = place.client().await;
    place.run(&admin, "CREATE ROLE {s} LOGIN").await;
    let mut config = place.config.clone();
    config.user(&place.schema);
    let refused = PostgresLedger::builder(config.clone())
        .schema(&place.schema)
        .open()
        .await
        .unwrap_err();
    assert!(matches!(refused, OpenError::Permission(_)), "{refused:?}");

    place
        .run(&admin, "CREATE SCHEMA {s} AUTHORIZATION {s}")
        .await;
    let ledger = PostgresLedger::builder(config)
        .schema(&place.schema)
        .open()
        .await
        .unwrap();
    let claim = paid(&ledger, 1).await;
    ledger.purge().await.unwrap();
    assert_eq!(ledger.rows().await.unwrap().rounds, 1);
    let before = place.ask(&admin, "SELECT home FROM {s}.ledger").await;
    assert!(
        before.contains('/'),
        "it may ask which server it is on: {before}"
    );
    assert_ne!(ledger.rotate_epoch().await.unwrap(), claim.epoch);
    assert_eq!(ledger.claim(claim).await.unwrap(), Claimed::StaleEpoch);
}

/// A name that would need quotes is refused before anything is said to the server.
#[tokio::test]
async fn a_schema_has_a_plain_name() {
    let config = "host=/nowhere user=nobody".parse().unwrap();
    let refused = PostgresLedger::builder(config)
        .schema("a\"; DROP")
        .open()
        .await;
    assert!(matches!(refused, Err(OpenError::SchemaName { .. })));
}
