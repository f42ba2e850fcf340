//! Effects in the ledger's own database, and what becomes of them when something ends too early.

use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::suite::Setup;
use mrtr_ledger::suite::effects::{End, Workshop};
use mrtr_ledger::{
    Claim, Claimed, Conclusion, Found, Ledger, LedgerError, LedgerFuture, Performed,
    TransactionalLedger as _,
};
use mrtr_ledger_postgres::PostgresLedger;
use tokio::sync::oneshot;

use crate::bench::{Place, paid, retry, round, settle, step, until};

struct Shop {
    ledger: Arc<PostgresLedger>,
    place: Place,
}

impl Workshop for Shop {
    fn ledger(&self) -> Arc<dyn Ledger> {
        self.ledger.clone()
    }

    fn perform(&self, claim: Claim, number: u32, end: End) -> LedgerFuture<'_, Performed<u32>> {
        let insert = insert(&self.place, number);
        self.ledger.perform(
            claim,
            move |db| {
                Box::pin(async move {
                    db.batch_execute(&insert).await.unwrap();
                    match end {
                        End::Conclude(conclusion) => conclusion,
                        End::Panic => std::panic::panic_any(number),
                    }
                })
            },
            move |conclusion| (conclusion, number),
        )
    }

    fn ask(&self, claim: Claim) -> LedgerFuture<'_, Claimed> {
        self.ledger.ask(claim)
    }

    fn numbers(&self) -> LedgerFuture<'_, Vec<u32>> {
        Box::pin(async { Ok(numbers(&self.place).await) })
    }
}

fn insert(place: &Place, number: u32) -> String {
    format!("INSERT INTO {}.numbers VALUES ({number})", place.schema)
}

async fn numbers(place: &Place) -> Vec<u32> {
    let client = place.client().await;
    let select = format!(
        "SELECT number FROM {}.numbers ORDER BY number",
        place.schema
    );
    let rows = client.query(&select, &[]).await.unwrap();
    rows.iter()
        .map(|row| u32::try_from(row.get::<_, i32>(0)).unwrap())
        .collect()
}

async fn table(place: &Place) {
    let client = place.client().await;
    place
        .run(
            &client,
            "CREATE TABLE {s}.numbers (number integer NOT NULL)",
        )
        .await;
}

async fn make(setup: Setup) -> Shop {
    let place = Place::new().expect("asked before");
    let ledger = place
        .builder()
        .test_clock(setup.clock)
        .limits(setup.limits)
        .retention(setup.retention)
        .open()
        .await
        .unwrap();
    table(&place).await;
    Shop {
        ledger: Arc::new(ledger),
        place,
    }
}

macro_rules! cases {
    ($make:expr; $($case:ident,)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                if crate::server::shared().is_some() {
                    let bench = mrtr_ledger::suite::effects::Effects::new($make, crate::suite::spawn);
                    mrtr_ledger::suite::effects::$case(&bench).await;
                }
            }
        )+
    };
}

mrtr_ledger::__effects_suite_cases!([cases] make);

async fn open() -> Option<(Arc<PostgresLedger>, Arc<Place>)> {
    let place = Place::new()?;
    let ledger = place.open_by_hand().await;
    table(&place).await;
    Some((Arc::new(ledger), Arc::new(place)))
}

/// Performs a step that runs these statements, in one go, and is settled as sent whatever comes of them.
async fn perform(
    ledger: &PostgresLedger,
    claim: Claim,
    sql: String,
) -> Result<Performed<bool>, LedgerError> {
    ledger
        .perform(
            claim,
            move |db| Box::pin(async move { db.batch_execute(&sql).await.is_ok() }),
            |went_well| (Conclusion::Commit(b"sent".to_vec()), went_well),
        )
        .await
}

/// Performs a step whose effect says that it has begun, and ends when it is told to.
struct Slow {
    begun: oneshot::Receiver<()>,
    end: oneshot::Sender<()>,
    performed: tokio::task::JoinHandle<Result<Performed<()>, LedgerError>>,
}

fn slow(ledger: &Arc<PostgresLedger>, place: &Place, claim: Claim, number: u32) -> Slow {
    let (begin, begun) = oneshot::channel();
    let (end, ended) = oneshot::channel();
    let (ledger, insert) = (Arc::clone(ledger), insert(place, number));
    let performed = tokio::spawn(async move {
        let performed = ledger.perform(
            claim,
            move |db| {
                Box::pin(async move {
                    db.batch_execute(&insert).await.unwrap();
                    begin.send(()).unwrap();
                    ended.await.unwrap();
                })
            },
            |()| (Conclusion::Commit(b"sent".to_vec()), ()),
        );
        performed.await
    });
    Slow {
        begun,
        end,
        performed,
    }
}

/// An effect that ends the transaction that it is in has no word, however well it hides it; and where it took back all,
/// the step is free.
#[tokio::test(flavor = "multi_thread")]
async fn an_effect_cannot_end_its_transaction_unnoticed() {
    let Some((ledger, place)) = open().await else {
        return;
    };
    let epoch = ledger.epoch().await.unwrap();
    for (number, (sql, then)) in (0..).zip([
        ("ROLLBACK", Claimed::First),
        ("ROLLBACK; BEGIN", Claimed::First),
        ("ROLLBACK; BEGIN; SAVEPOINT mrtr_effect", Claimed::First),
        (
            "ROLLBACK; BEGIN READ WRITE; SAVEPOINT mrtr_effect",
            Claimed::First,
        ),
        (
            "ROLLBACK TO mrtr_effect; RELEASE mrtr_effect",
            Claimed::First,
        ),
        ("SET LOCAL synchronous_commit = off", Claimed::First),
        ("SET synchronous_commit = off", Claimed::First),
        // A statement that fails, and is passed over.
        ("SELECT 1 / 0", Claimed::First),
    ]) {
        let claim = step(epoch, number);
        perform(&ledger, claim.clone(), sql.to_owned())
            .await
            .expect_err(sql);
        assert_eq!(ledger.claim(retry(&claim)).await.unwrap(), then, "{sql}");
    }
    // What is committed cannot be taken back: the step is claimed, and its outcome will be unknown.
    for (number, sql) in (100..).zip([
        "COMMIT",
        "COMMIT; BEGIN; SAVEPOINT mrtr_effect",
        "COMMIT; BEGIN READ WRITE; SAVEPOINT mrtr_effect",
    ]) {
        let claim = step(epoch, number);
        perform(&ledger, claim.clone(), sql.to_owned())
            .await
            .expect_err(sql);
        let again = ledger.claim(retry(&claim)).await.unwrap();
        assert!(
            matches!(again, Claimed::InProgress { .. }),
            "{sql}: {again:?}"
        );
    }
    assert_eq!(ledger.rows().await.unwrap().settled_steps, 0);
    let good = perform(&ledger, step(epoch, 200), insert(&place, 1))
        .await
        .unwrap();
    assert!(matches!(good, Performed::Ran(true)), "{good:?}");
    assert_eq!(numbers(&place).await, [1]);
}

/// It has taken back its claim, and goes on as if nothing had happened. What it does then is refused, and does not
/// happen twice.
#[tokio::test(flavor = "multi_thread")]
async fn what_follows_a_rolled_back_claim_is_refused() {
    let Some((ledger, place)) = open().await else {
        return;
    };
    let claim = step(ledger.epoch().await.unwrap(), 1);
    let insert = insert(&place, 1);
    let performed = ledger.perform(
        claim.clone(),
        move |db| {
            Box::pin(async move {
                _ = db.batch_execute("ROLLBACK").await;
                _ = db.batch_execute(&insert).await;
            })
        },
        |()| (Conclusion::Commit(b"sent".to_vec()), ()),
    );
    performed.await.expect_err("it has ended its transaction");
    assert_eq!(ledger.claim(retry(&claim)).await.unwrap(), Claimed::First);
    assert!(numbers(&place).await.is_empty());
    // And the connection, or its successor, writes again.
    paid(&ledger, 1).await;
}

/// What was prepared on its connection is gone. The next operations do not notice.
#[tokio::test(flavor = "multi_thread")]
async fn an_effect_that_forgets_what_was_prepared_costs_a_connection() {
    let Some((ledger, _place)) = open().await else {
        return;
    };
    let epoch = ledger.epoch().await.unwrap();
    let performed = perform(&ledger, step(epoch, 1), "DEALLOCATE ALL".to_owned()).await;
    performed.expect_err("its conclusion was prepared too");
    for number in 0..10 {
        paid(&ledger, number).await;
    }
}

/// Effects that take long leave a connection for those that do not, and for signs of life.
#[tokio::test(flavor = "multi_thread")]
async fn slow_effects_starve_nobody() {
    let Some(place) = Place::new() else { return };
    let builder = place.builder().connections(2).wait(Duration::from_secs(30));
    let ledger = Arc::new(builder.open().await.unwrap());
    table(&place).await;
    let epoch = ledger.epoch().await.unwrap();
    let owner = round(epoch, 1);
    assert_eq!(ledger.claim(owner.clone()).await.unwrap(), Claimed::First);
    let first = slow(&ledger, &place, step(epoch, 1), 1);
    first.begun.await.unwrap();
    // It would have the other connection, if it might.
    let mut second = slow(&ledger, &place, step(epoch, 2), 2);
    let beat = ledger.beat(owner.key, owner.token, Duration::from_secs(60));
    assert!(
        tokio::time::timeout(Duration::from_secs(10), beat)
            .await
            .unwrap()
            .unwrap()
    );
    settle(&ledger, &owner).await;
    assert!(second.begun.try_recv().is_err());
    first.end.send(()).unwrap();
    assert!(matches!(
        first.performed.await.unwrap().unwrap(),
        Performed::Ran(())
    ));
    second.begun.await.unwrap();
    second.end.send(()).unwrap();
    assert!(matches!(
        second.performed.await.unwrap().unwrap(),
        Performed::Ran(())
    ));
    assert_eq!(numbers(&place).await, [1, 2]);
}

/// What an effect leaves on its connection is gone before the next one has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_clean_after_an_effect() {
    let Some(place) = Place::new() else { return };
    let ledger = place.builder().connections(1).open().await.unwrap();
    let epoch = ledger.epoch().await.unwrap();
    let leave = "SET statement_timeout = '77s'; SET search_path = pg_catalog; SELECT pg_advisory_lock(42); \
                 CREATE TEMP TABLE rows (x integer); LISTEN anything; SET default_transaction_isolation = serializable";
    let performed = perform(&ledger, step(epoch, 1), leave.to_owned())
        .await
        .unwrap();
    assert!(matches!(performed, Performed::Ran(true)), "{performed:?}");
    let ask = "DO $$ BEGIN
        ASSERT current_setting('statement_timeout') = '5s' AND current_setting('search_path') LIKE '%public%';
        ASSERT current_setting('transaction_isolation') = 'read committed' AND to_regclass('pg_temp.rows') IS NULL;
        ASSERT current_setting('synchronous_commit') = 'on';
    END $$";
    let performed = perform(&ledger, step(epoch, 2), ask.to_owned())
        .await
        .unwrap();
    assert!(matches!(performed, Performed::Ran(true)), "{performed:?}");
    let admin = place.client().await;
    assert_eq!(
        place
            .ask(
                &admin,
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 42"
            )
            .await,
        "0"
    );
}

/// The caller goes away while the effect runs. It is carried to its end.
#[tokio::test(flavor = "multi_thread")]
async fn an_effect_is_carried_to_its_end_without_its_caller() {
    let Some((ledger, place)) = open().await else {
        return;
    };
    let claim = step(ledger.epoch().await.unwrap(), 1);
    let Slow {
        begun,
        end,
        performed,
    } = slow(&ledger, &place, claim.clone(), 1);
    begun.await.unwrap();
    performed.abort();
    assert!(performed.await.unwrap_err().is_cancelled());
    end.send(()).unwrap();
    until("its outcome is there", async || {
        ledger
            .lookup(claim.kind, claim.key, claim.fingerprint)
            .await
            .unwrap()
            == Found::Settled(b"sent".to_vec())
    })
    .await;
    assert_eq!(numbers(&place).await, [1]);
}

/// Whoever claims the step meanwhile waits, and is told what came of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_waits_for_the_transaction_in_flight() {
    let Some((ledger, place)) = open().await else {
        return;
    };
    let epoch = ledger.epoch().await.unwrap();
    let watcher = place.client().await;
    let claim = step(epoch, 1);
    let Slow {
        begun,
        end,
        performed,
    } = slow(&ledger, &place, claim.clone(), 1);
    begun.await.unwrap();
    let asks = tokio::spawn({
        let (ledger, claim) = (Arc::clone(&ledger), retry(&claim));
        async move { ledger.claim(claim).await }
    });
    place.waits(&watcher).await;
    assert!(!asks.is_finished());
    end.send(()).unwrap();
    assert_eq!(
        asks.await.unwrap().unwrap(),
        Claimed::Settled(b"sent".to_vec())
    );
    assert!(matches!(
        performed.await.unwrap().unwrap(),
        Performed::Ran(())
    ));
}

/// A long effect keeps nobody from anything. What changes meanwhile is seen before it is committed.
#[tokio::test(flavor = "multi_thread")]
async fn what_changes_under_an_effect_takes_it_back() {
    let Some((ledger, place)) = open().await else {
        return;
    };
    let epoch = ledger.epoch().await.unwrap();
    let owner = round(epoch, 1);
    assert_eq!(ledger.claim(owner.clone()).await.unwrap(), Claimed::First);
    let owned = mrtr_ledger::Owner {
        key: owner.key,
        token: owner.token,
    };

    // Somebody is told that the round's outcome is unknown.
    let Slow {
        begun,
        end,
        performed,
    } = slow(&ledger, &place, step(epoch, 1).under(owned), 1);
    begun.await.unwrap();
    place.clock.advance(Duration::from_secs(60));
    assert_eq!(
        ledger
            .lookup(owner.kind, owner.key, owner.fingerprint)
            .await
            .unwrap(),
        Found::Abandoned
    );
    end.send(()).unwrap();
    let not = performed.await.unwrap().unwrap();
    assert!(
        matches!(not, Performed::Not(Claimed::StaleOwner)),
        "{not:?}"
    );

    // The epoch is rotated.
    let Slow {
        begun,
        end,
        performed,
    } = slow(&ledger, &place, step(epoch, 2), 2);
    begun.await.unwrap();
    assert_ne!(ledger.rotate_epoch().await.unwrap(), epoch);
    end.send(()).unwrap();
    let not = performed.await.unwrap().unwrap();
    assert!(
        matches!(not, Performed::Not(Claimed::StaleEpoch)),
        "{not:?}"
    );

    // A mark is raised above it.
    let epoch = ledger.epoch().await.unwrap();
    let claim = step(epoch, 3);
    let Slow {
        begun,
        end,
        performed,
    } = slow(&ledger, &place, claim.clone(), 3);
    begun.await.unwrap();
    let admin = place.client().await;
    place
        .run(
            &admin,
            &format!(
                "UPDATE {{s}}.ledger SET steps_mark = {}",
                claim.key.expiry.as_millis()
            ),
        )
        .await;
    end.send(()).unwrap();
    let not = performed.await.unwrap().unwrap();
    assert!(matches!(not, Performed::Not(Claimed::Expired)), "{not:?}");
    assert!(numbers(&place).await.is_empty());
    assert_eq!(ledger.rows().await.unwrap().steps, 0);
}

/// The connection ends while the effect runs: no word, no effect, and a free step.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_takes_its_effect_with_it() {
    let Some((ledger, place)) = open().await else {
        return;
    };
    let claim = step(ledger.epoch().await.unwrap(), 1);
    let admin = place.client().await;
    let Slow {
        begun,
        end,
        performed,
    } = slow(&ledger, &place, claim.clone(), 1);
    begun.await.unwrap();
    assert!(place.kill_sessions(&admin).await > 0);
    end.send(()).unwrap();
    performed
        .await
        .unwrap()
        .expect_err("its connection was killed");
    assert_eq!(ledger.claim(retry(&claim)).await.unwrap(), Claimed::First);
    assert!(numbers(&place).await.is_empty());
}
