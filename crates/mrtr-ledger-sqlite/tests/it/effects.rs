//! Effects in the ledger's own file, and what they may not do there.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::suite::Setup;
use mrtr_ledger::suite::effects::{End, Workshop};
use mrtr_ledger::{
    Account, Claim, Claimed, Conclusion, Fingerprint, Found, Kind, Ledger, LedgerError,
    LedgerFuture, Performed, RowKey, Token, TransactionalLedger as _,
};
use mrtr_ledger_sqlite::SqliteLedger;
use mrtr_ledger_sqlite::rusqlite::{self, Connection};

use crate::bench::{FAR, LEASE, Place, retry, round};

struct Shop {
    ledger: Arc<SqliteLedger>,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Workshop for Shop {
    fn ledger(&self) -> Arc<dyn Ledger> {
        self.ledger.clone()
    }

    fn perform(&self, claim: Claim, number: u32, end: End) -> LedgerFuture<'_, Performed<u32>> {
        let effect = move |db: &Connection| {
            db.execute("INSERT INTO numbers VALUES (?1)", [number])
                .unwrap();
            match end {
                End::Conclude(conclusion) => conclusion,
                End::Panic => std::panic::panic_any(number),
            }
        };
        self.ledger
            .perform(claim, effect, move |conclusion| (conclusion, number))
    }

    fn ask(&self, claim: Claim) -> LedgerFuture<'_, Claimed> {
        self.ledger.ask(claim)
    }

    fn numbers(&self) -> LedgerFuture<'_, Vec<u32>> {
        Box::pin(async { Ok(numbers(&Connection::open(&self.file).unwrap())) })
    }
}

pub(crate) fn insert(db: &Connection, number: u64) {
    let number = i64::try_from(number).unwrap();
    db.execute("INSERT INTO numbers VALUES (?1)", [number])
        .unwrap();
}

pub(crate) fn numbers(db: &Connection) -> Vec<u32> {
    let mut select = db
        .prepare("SELECT number FROM numbers ORDER BY number")
        .unwrap();
    let rows = select.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

pub(crate) async fn table(ledger: &SqliteLedger) {
    ledger
        .transact(|db| db.execute_batch("CREATE TABLE numbers (number INTEGER NOT NULL) STRICT"))
        .await
        .unwrap()
        .unwrap();
}

mrtr_ledger::effects_suite!(async |setup: Setup| {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.sqlite");
    let ledger = SqliteLedger::builder(&file)
        .clock(setup.clock)
        .limits(setup.limits)
        .retention(setup.retention)
        .open()
        .unwrap();
    table(&ledger).await;
    Shop {
        ledger: Arc::new(ledger),
        file,
        _folder: folder,
    }
});

pub(crate) fn step(epoch: mrtr_state::Epoch, number: u32) -> Claim {
    let mut hash = [9; 32];
    hash[..4].copy_from_slice(&number.to_be_bytes());
    Claim::step(
        RowKey { expiry: FAR, hash },
        epoch,
        Fingerprint::from_bytes([1; 32]),
        Account::from_bytes([2; 32]),
        Token::generate().unwrap(),
        LEASE,
    )
}

/// Performs a step with this effect, which is settled as `sent` whatever it returns.
pub(crate) async fn perform<O: Send + 'static>(
    ledger: &SqliteLedger,
    claim: Claim,
    effect: impl for<'t> FnOnce(&'t Connection) -> O + Send + 'static,
) -> Result<Performed<O>, LedgerError> {
    ledger
        .perform(claim, effect, |value| {
            (Conclusion::Commit(b"sent".to_vec()), value)
        })
        .await
}

/// Each of these would end the transaction, loosen its durability, or touch the ledger's tables. SQLite refuses it, and the
/// effect may go on and be committed: what it could do was its own.
#[tokio::test]
async fn what_an_effect_may_not_do_is_refused() {
    const REFUSED: [&str; 28] = [
        "COMMIT",
        "ROLLBACK",
        "BEGIN",
        "END",
        "SAVEPOINT mrtr_effect",
        "RELEASE mrtr_effect",
        "RELEASE mrtr_operation",
        "ROLLBACK TO mrtr_operation",
        "ATTACH ':memory:' AS other",
        "DETACH main",
        "PRAGMA synchronous = OFF",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA user_version = 7",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "PRAGMA writable_schema = ON",
        "DELETE FROM steps",
        "UPDATE rounds SET status = 1",
        "INSERT INTO tally VALUES (x'', 0, 0, 0)",
        "UPDATE main.ledger SET epoch = zeroblob(16)",
        "DELETE FROM Notes",
        "DROP TABLE steps",
        "ALTER TABLE steps RENAME TO stairs",
        "CREATE INDEX extra ON rounds (token)",
        "CREATE TRIGGER extra AFTER INSERT ON rounds BEGIN SELECT 1; END",
        "CREATE TEMP TABLE rounds (x)",
        "CREATE TEMP VIEW steps AS SELECT 1",
        "CREATE TABLE mrtr_anything (x)",
        "DROP INDEX tally_by_bucket",
    ];
    let place = Place::new();
    let ledger = place.open();
    table(&ledger).await;
    let epoch = ledger.epoch().await.unwrap();
    for (number, sql) in (0..).zip(REFUSED) {
        let claim = step(epoch, number);
        let performed = perform(&ledger, claim.clone(), move |db| {
            db.execute("INSERT INTO numbers VALUES (?1)", [number])
                .unwrap();
            db.execute_batch(sql)
        })
        .await
        .unwrap();
        let Performed::Ran(Err(error)) = performed else {
            panic!("{sql}: {performed:?}")
        };
        assert_eq!(
            error.sqlite_error_code(),
            Some(rusqlite::ErrorCode::AuthorizationForStatementDenied),
            "{sql}: {error}"
        );
        let told = ledger.claim(retry_step(&claim)).await.unwrap();
        assert_eq!(told, Claimed::Settled(b"sent".to_vec()), "{sql}");
    }
    let db = Connection::open(place.file()).unwrap();
    assert_eq!(numbers(&db).len(), REFUSED.len());
    assert_eq!(
        ledger.rows().await.unwrap().settled_steps,
        REFUSED.len() as u64
    );
}

fn retry_step(claim: &Claim) -> Claim {
    let mut retry = claim.clone();
    retry.token = Token::generate().unwrap();
    retry
}

/// What is the author's own: tables, indices, triggers, views, savepoints, and reading whatever is there.
#[tokio::test]
async fn what_an_effect_may_do() {
    let place = Place::new();
    let ledger = place.open();
    let claim = step(ledger.epoch().await.unwrap(), 1);
    let performed = perform(&ledger, claim, |db| {
        db.execute_batch(
            "CREATE TABLE accounts (name TEXT PRIMARY KEY, cents INTEGER NOT NULL CHECK (cents >= 0)) STRICT;
             CREATE TABLE entries (account TEXT NOT NULL REFERENCES accounts (name), cents INTEGER NOT NULL) STRICT;
             CREATE INDEX entries_by_account ON entries (account);
             CREATE VIEW totals AS SELECT account, sum(cents) AS cents FROM entries GROUP BY account;
             CREATE TRIGGER booked AFTER INSERT ON entries BEGIN
                UPDATE accounts SET cents = cents + NEW.cents WHERE name = NEW.account;
             END;
             INSERT INTO accounts VALUES ('ada', 100);
             SAVEPOINT mine;
             INSERT INTO entries VALUES ('ada', 1);
             ROLLBACK TO mine;
             RELEASE mine;
             INSERT INTO entries VALUES ('ada', -30);
             ALTER TABLE entries ADD COLUMN note TEXT;
             CREATE TEMP TABLE scratch (x);
             DROP TABLE scratch;",
        )?;
        db.query_row("PRAGMA table_info(entries)", [], |_| Ok(()))?;
        db.query_row("SELECT count(*) FROM steps", [], |row| row.get::<_, i64>(0))
    })
    .await
    .unwrap();
    let Performed::Ran(read) = performed else {
        panic!("{performed:?}")
    };
    assert_eq!(read, Ok(1), "the claim's own row is there already");
    let db = Connection::open(place.file()).unwrap();
    let read = |sql| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(read("SELECT cents FROM accounts"), 70);
    assert_eq!(read("SELECT cents FROM totals"), -30);
}

/// SQLite itself ends a transaction where a statement says so. The effect has no word then and is not there, and neither
/// is its claim; what was in the same batch is done all the same.
#[tokio::test]
async fn an_effect_that_loses_the_transaction_is_not_there() {
    let place = Place::new();
    let ledger = Arc::new(place.open());
    ledger
        .transact(|db| {
            db.execute_batch(
                "CREATE TABLE once (number INTEGER PRIMARY KEY ON CONFLICT ROLLBACK) STRICT;
                 INSERT INTO once VALUES (1);",
            )
        })
        .await
        .unwrap()
        .unwrap();
    let epoch = ledger.epoch().await.unwrap();
    for turn in 0..20 {
        let steps = [0, 1].map(|which| step(epoch, turn * 10 + which));
        let rounds = [0, 1].map(|which| round(epoch, u64::from(turn) * 10 + which));
        // Polled together and in this order, so that they reach the ledger's thread one after the other.
        let (first, good, bad, second) = tokio::join!(
            ledger.claim(rounds[0].clone()),
            perform(&ledger, steps[0].clone(), |db| db.execute(
                "INSERT INTO once SELECT max(number) + 1 FROM once",
                []
            )),
            perform(&ledger, steps[1].clone(), |db| {
                db.execute("INSERT INTO once VALUES (1)", []).is_err()
            }),
            ledger.claim(rounds[1].clone()),
        );
        assert_eq!(first.unwrap(), Claimed::First);
        assert_eq!(second.unwrap(), Claimed::First);
        let Err(LedgerError::Unavailable(source)) = bad else {
            panic!("{bad:?}")
        };
        assert!(source.to_string().contains("ended"), "{source}");
        assert_eq!(
            ledger.claim(retry_step(&steps[1])).await.unwrap(),
            Claimed::First
        );
        match good {
            Ok(Performed::Ran(Ok(1))) => assert_eq!(
                ledger.claim(retry_step(&steps[0])).await.unwrap(),
                Claimed::Settled(b"sent".to_vec())
            ),
            // It had run in the transaction that was lost.
            Err(LedgerError::Unavailable(_)) => {
                assert_eq!(
                    ledger.claim(retry_step(&steps[0])).await.unwrap(),
                    Claimed::First
                );
            }
            other => panic!("{other:?}"),
        }
        let settled = ledger.rows().await.unwrap().settled_steps;
        let db = Connection::open(place.file()).unwrap();
        let there: i64 = db
            .query_row("SELECT count(*) - 1 FROM once", [], |row| row.get(0))
            .unwrap();
        assert_eq!(
            there.unsigned_abs(),
            settled,
            "effects and outcomes are the same ones"
        );
    }
}

/// What SQLite finds wrong only when it commits is not there either, and neither is its outcome.
#[tokio::test]
async fn an_effect_that_cannot_be_committed_is_not_there() {
    let place = Place::new();
    let ledger = Arc::new(place.open());
    ledger
        .transact(|db| {
            db.execute_batch(
                "CREATE TABLE parent (id INTEGER PRIMARY KEY) STRICT;
                 CREATE TABLE child (parent INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED) STRICT;",
            )
        })
        .await
        .unwrap()
        .unwrap();
    let epoch = ledger.epoch().await.unwrap();
    let (claim, bystander) = (step(epoch, 1), round(epoch, 1));
    let (performed, claimed) = tokio::join!(
        perform(&ledger, claim.clone(), |db| db
            .execute("INSERT INTO child VALUES (7)", [])),
        ledger.claim(bystander.clone()),
    );
    let Err(LedgerError::Unavailable(source)) = performed else {
        panic!("{performed:?}")
    };
    assert!(source.to_string().contains("FOREIGN KEY"), "{source}");
    assert_eq!(claimed.unwrap(), Claimed::First);
    assert_eq!(
        ledger.claim(retry_step(&claim)).await.unwrap(),
        Claimed::First
    );
    let db = Connection::open(place.file()).unwrap();
    let children: i64 = db
        .query_row("SELECT count(*) FROM child", [], |row| row.get(0))
        .unwrap();
    assert_eq!(children, 0);
}

/// A foreign key to the ledger's rows would hold them in place when they are to be purged.
#[tokio::test]
async fn a_foreign_key_to_the_ledgers_rows_is_refused() {
    let place = Place::new();
    let ledger = place.open();
    let refused = ledger
        .transact(|db| {
            db.execute_batch(
                "CREATE TABLE mine (expiry INTEGER, hash BLOB,
                    FOREIGN KEY (expiry, hash) REFERENCES rounds (expiry, hash)) STRICT",
            )
        })
        .await;
    let Err(LedgerError::Unavailable(source)) = refused else {
        panic!("{refused:?}")
    };
    assert!(source.to_string().contains("foreign key"), "{source}");
    table(&ledger).await;
    assert_eq!(
        ledger
            .claim(round(ledger.epoch().await.unwrap(), 1))
            .await
            .unwrap(),
        Claimed::First
    );
}

/// Set-up: kept if it says so, and only then.
#[tokio::test]
async fn a_set_up_is_kept_or_not() {
    let place = Place::new();
    let ledger = Arc::new(place.open());
    table(&ledger).await;
    let refused = ledger
        .transact(|db| {
            db.execute("INSERT INTO numbers VALUES (1)", []).unwrap();
            Err::<(), _>("no")
        })
        .await;
    assert_eq!(refused.unwrap(), Err("no"));
    let kept = ledger
        .transact(|db| db.execute("INSERT INTO numbers VALUES (2)", []))
        .await;
    assert_eq!(kept.unwrap().unwrap(), 1);
    let panics = tokio::spawn({
        let ledger = Arc::clone(&ledger);
        async move {
            let work = |db: &Connection| -> Result<(), ()> {
                db.execute("INSERT INTO numbers VALUES (3)", []).unwrap();
                panic!("on purpose")
            };
            ledger.transact(work).await
        }
    });
    assert!(panics.await.unwrap_err().is_panic());
    let refused = ledger
        .transact(|db| db.execute("DELETE FROM steps", []))
        .await
        .unwrap();
    assert!(refused.is_err());
    let db = Connection::open(place.file()).unwrap();
    assert_eq!(numbers(&db), [2]);
}

/// Locked by another process: no word, the effect has not run, and the step is free when the lock is gone.
#[tokio::test]
async fn a_locked_file_has_no_effect() {
    let place = Place::new();
    let ledger = place
        .builder()
        .wait(Duration::from_millis(50))
        .open()
        .unwrap();
    table(&ledger).await;
    let claim = step(ledger.epoch().await.unwrap(), 1);
    let insert = |db: &Connection| db.execute("INSERT INTO numbers VALUES (1)", []).unwrap();
    let other = Connection::open(place.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let busy = perform(&ledger, claim.clone(), insert).await;
    assert!(matches!(busy, Err(LedgerError::Busy)), "{busy:?}");
    other.execute_batch("ROLLBACK").unwrap();
    assert!(numbers(&other).is_empty());
    let performed = perform(&ledger, retry_step(&claim), insert).await.unwrap();
    assert!(matches!(performed, Performed::Ran(1)), "{performed:?}");
    assert_eq!(numbers(&other), [1]);
}

/// A caller that has gone: the effect may or may not happen, and with its outcome or not at all.
#[tokio::test]
async fn a_caller_that_has_gone_leaves_both_or_neither() {
    let place = Place::new();
    let ledger = place.open();
    table(&ledger).await;
    let epoch = ledger.epoch().await.unwrap();
    for number in 0..50 {
        let claim = step(epoch, number);
        let call = perform(&ledger, claim.clone(), move |db| {
            db.execute("INSERT INTO numbers VALUES (?1)", [number])
                .unwrap()
        });
        _ = tokio::time::timeout(Duration::ZERO, call).await;
        // Behind it in the queue, so that it has come to its end.
        let found = ledger
            .lookup(Kind::Step, claim.key, claim.fingerprint)
            .await
            .unwrap();
        let db = Connection::open(place.file()).unwrap();
        let is_there = numbers(&db).contains(&number);
        match found {
            Found::Settled(_) => assert!(is_there, "{number}"),
            other => assert!(other == Found::Absent && !is_there, "{number}: {other:?}"),
        }
    }
    let one = round(epoch, 1);
    assert_eq!(ledger.claim(one.clone()).await.unwrap(), Claimed::First);
    assert!(matches!(
        ledger.claim(retry(&one)).await.unwrap(),
        Claimed::InProgress { .. }
    ));
}

/// The same step, by another run.
fn anew(claim: &Claim) -> Claim {
    let mut claim = claim.clone();
    claim.token = Token::generate().unwrap();
    claim
}

/// SQLite ends a transaction by itself too. What an effect that did not look writes afterwards is not kept: its claim is
/// gone, and the next run would write it again.
#[tokio::test]
async fn nothing_is_kept_after_the_transaction_is_lost() {
    let place = Place::new();
    let ledger = place.open();
    table(&ledger).await;
    let unique = "CREATE TABLE orders (number INTEGER PRIMARY KEY ON CONFLICT ROLLBACK) STRICT;
                  INSERT INTO orders VALUES (1)";
    let made = ledger.transact(move |db| db.execute_batch(unique)).await;
    made.unwrap().unwrap();
    let claim = step(ledger.epoch().await.unwrap(), 1);
    for _ in 0..2 {
        let again = anew(&claim);
        let effect = |db: &Connection| {
            _ = db.execute("INSERT INTO orders VALUES (1)", []);
            _ = db.execute("INSERT INTO numbers VALUES (7)", []);
            db.execute("INSERT INTO numbers VALUES (8)", []).is_ok()
        };
        assert!(perform(&ledger, again, effect).await.is_err());
        let fresh = anew(&claim);
        assert_eq!(ledger.claim(fresh.clone()).await.unwrap(), Claimed::First);
        assert!(ledger.release(fresh.key, fresh.token).await.unwrap());
        let file = Connection::open(place.file()).unwrap();
        assert_eq!(numbers(&file), [0; 0], "kept without its claim");
    }
    let good = |db: &Connection| insert(db, 9);
    assert!(matches!(
        perform(&ledger, claim, good).await,
        Ok(Performed::Ran(()))
    ));
    let file = Connection::open(place.file()).unwrap();
    assert_eq!(numbers(&file), [9]);
}

/// A statement that is in the cache already is not asked about again; what it commits is rolled back all the same.
#[tokio::test]
async fn a_cached_commit_commits_nothing() {
    let place = Place::new();
    let ledger = place.open();
    table(&ledger).await;
    _ = crate::bench::paid(&ledger, 3).await;
    let claim = step(ledger.epoch().await.unwrap(), 1);
    let effect = |db: &Connection| {
        insert(db, 7);
        db.prepare_cached("COMMIT")
            .and_then(|mut commit| commit.execute([]))
            .is_ok()
    };
    assert!(perform(&ledger, claim.clone(), effect).await.is_err());
    let fresh = anew(&claim);
    assert_eq!(ledger.claim(fresh).await.unwrap(), Claimed::First);
    let file = Connection::open(place.file()).unwrap();
    assert_eq!(numbers(&file), [0; 0]);
}

/// A temporary table under the name of one of the ledger's would hide it, from this process alone.
#[tokio::test]
async fn no_temporary_table_takes_the_place_of_the_ledgers() {
    let place = Place::new();
    let ledger = place.open();
    table(&ledger).await;
    let epoch = ledger.epoch().await.unwrap();
    let effect = |db: &Connection| {
        db.execute_batch("CREATE TEMP TABLE mine (x)").unwrap();
        let hides = db.execute_batch("ALTER TABLE mine RENAME TO rounds");
        let alters = db.execute_batch("ALTER TABLE numbers ADD COLUMN note TEXT");
        (hides.is_err(), alters.is_ok())
    };
    let came = perform(&ledger, step(epoch, 1), effect).await;
    assert!(matches!(came, Ok(Performed::Ran((true, true)))), "{came:?}");
    let claim = round(epoch, 1);
    assert_eq!(ledger.claim(claim.clone()).await.unwrap(), Claimed::First);
    let other = place.open();
    let told = other.claim(retry(&claim)).await.unwrap();
    assert!(matches!(told, Claimed::InProgress { .. }), "{told:?}");
}
