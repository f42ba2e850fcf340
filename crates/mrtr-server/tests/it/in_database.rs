//! Steps whose effect is in the ledger's own database: claim, effect and outcome are one transaction.

use std::any::Any;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mrtr_ledger::{
    Claim, Claimed, Conclusion, Fingerprint, Found, Kept, Kind, Ledger, LedgerError, LedgerFuture,
    MemoryLedger, Note, Performed, Purged, RowKey, Rows, Settled, Settlement, Token,
    TransactionalLedger,
};
use mrtr_ledger_sqlite::SqliteLedger;
use mrtr_ledger_sqlite::rusqlite::{self, Connection};
use mrtr_server::{BuildError, FlowIn, Server, State, Tool, ToolError, tool};
use mrtr_state::Epoch;
use serde_json::json;

use crate::bank::{Bank, codec};
use crate::durable::{Counter, Door, confirm, first, retry};
use crate::log::Log;
use crate::session::{Session, everything, text};

/// A ledger whose answers to a performance can be lost, before it happened or after.
#[derive(Debug)]
struct Line {
    ledger: SqliteLedger,
    loses: Mutex<Vec<Loses>>,
    asked: AtomicUsize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Loses {
    Nothing,
    Request,
    Answer,
}

impl Line {
    fn next(&self) -> Loses {
        self.loses.lock().unwrap().pop().unwrap_or(Loses::Nothing)
    }
}

impl TransactionalLedger for Line {
    type Tx<'t> = Connection;
    type Work<'t, O: Send + 'static> = O;

    fn done<'t, O: Send + 'static>(outcome: O) -> Self::Work<'t, O> {
        outcome
    }

    fn perform<O, R, F, C>(
        &self,
        claim: Claim,
        effect: F,
        conclude: C,
    ) -> LedgerFuture<'_, Performed<R>>
    where
        O: Send + 'static,
        R: Send + 'static,
        F: for<'t> FnOnce(&'t Connection) -> O + Send + 'static,
        C: FnOnce(O) -> (Conclusion, R) + Send + 'static,
    {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let loses = self.next();
            if loses == Loses::Request {
                return Err(LedgerError::Busy);
            }
            let performed = self.ledger.perform(claim, effect, conclude).await;
            match loses {
                Loses::Answer => Err(LedgerError::Busy),
                _ => performed,
            }
        })
    }
}

impl Ledger for Line {
    fn claim(&self, claim: Claim) -> LedgerFuture<'_, Claimed> {
        self.ledger.claim(claim)
    }
    fn settle(
        &self,
        key: RowKey,
        token: Token,
        settlement: Settlement,
    ) -> LedgerFuture<'_, Settled> {
        self.ledger.settle(key, token, settlement)
    }
    fn beat(&self, key: RowKey, token: Token, lease: Duration) -> LedgerFuture<'_, bool> {
        self.ledger.beat(key, token, lease)
    }
    fn release(&self, key: RowKey, token: Token) -> LedgerFuture<'_, bool> {
        self.ledger.release(key, token)
    }
    fn keep(&self, note: Note) -> LedgerFuture<'_, Kept> {
        self.ledger.keep(note)
    }
    fn lookup(&self, kind: Kind, key: RowKey, fingerprint: Fingerprint) -> LedgerFuture<'_, Found> {
        self.ledger.lookup(kind, key, fingerprint)
    }
    fn purge(&self) -> LedgerFuture<'_, Purged> {
        self.ledger.purge()
    }
    fn epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.ledger.epoch()
    }
    fn rotate_epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.ledger.rotate_epoch()
    }
    fn rows(&self) -> LedgerFuture<'_, Rows> {
        self.ledger.rows()
    }
    fn survives_restart(&self) -> bool {
        self.ledger.survives_restart()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A book of entries in the ledger's file, and servers that write to it.
struct Office {
    line: Arc<Line>,
    file: PathBuf,
    runs: Counter,
    _folder: tempfile::TempDir,
}

impl Office {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ledger.sqlite");
        // Servers of these tests go by a clock that is set by hand, and so does the ledger.
        let clock = Arc::new(Bank::new().clock);
        let ledger = SqliteLedger::builder(&file).clock(clock).open().unwrap();
        let book =
            "CREATE TABLE book (entry INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL) STRICT";
        let made = ledger.transact(move |db| db.execute_batch(book)).await;
        made.unwrap().unwrap();
        Self {
            line: Arc::new(Line {
                ledger,
                loses: Mutex::default(),
                asked: AtomicUsize::new(0),
            }),
            file,
            runs: Counter::default(),
            _folder: folder,
        }
    }

    fn server(&self, tool: Tool) -> Bank {
        let ledger: Arc<dyn Ledger> = Arc::clone(&self.line) as _;
        Bank::with(|builder| builder.ledger(ledger).tool(tool).state(self.runs.clone()))
    }

    /// Of the next performances.
    fn loses(&self, mut loses: Vec<Loses>) {
        loses.reverse();
        *self.line.loses.lock().unwrap() = loses;
    }

    fn book(&self) -> Vec<String> {
        let db = Connection::open(&self.file).unwrap();
        let mut select = db.prepare("SELECT name FROM book ORDER BY entry").unwrap();
        let rows = select.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// Steps in the ledger, and those of them that are settled.
    async fn steps(&self) -> (u64, u64) {
        let rows = self.line.rows().await.unwrap();
        (rows.steps, rows.settled_steps)
    }
}

fn enter(db: &Connection, name: &str) -> rusqlite::Result<i64> {
    db.execute("INSERT INTO book (name) VALUES (?1)", [name])?;
    Ok(db.last_insert_rowid())
}

/// Asks, books, asks once more and says where.
async fn books(flow: FlowIn<Line>, State(runs): State<Counter>) -> Result<String, ToolError> {
    let _ = flow.ask("q", confirm()).await;
    let entry = flow
        .once_in("book", move |db| {
            runs.up();
            enter(db, "ana")
        })
        .await?;
    let _ = flow.ask("again", confirm()).await;
    Ok(format!("entry {entry}"))
}

#[tokio::test]
async fn effect_and_outcome_are_committed_together_and_returned_ever_after() {
    let office = Office::new().await;
    let bank = office.server(tool("t", books));
    let asked = bank.send(&first()).await;
    assert_eq!(asked.asks(), ["q"], "{asked:?}");
    assert_eq!(office.steps().await, (0, 0));
    let second = bank.send(&retry(&asked, "q")).await;
    assert_eq!(second.asks(), ["again"], "{second:?}");
    assert_eq!(office.book(), ["ana"]);
    assert_eq!(office.steps().await, (1, 1));
    // The body runs again from the top, at another server, and the effect does not.
    let other = office.server(tool("t", books));
    let done = other.send(&retry(&second, "again")).await;
    assert_eq!(done.text(), "entry 1", "{done:?}");
    let again = bank.send(&retry(&second, "again")).await;
    assert_eq!((again.text(), again.is_replayed()), ("entry 1", true));
    assert_eq!((office.book().len(), office.runs.get()), (1, 1));
}

#[tokio::test]
async fn an_error_takes_the_effect_back_and_is_kept() {
    async fn fails(flow: FlowIn<Line>, State(runs): State<Counter>) -> Result<String, ToolError> {
        let _ = flow.ask("q", confirm()).await;
        let entered = flow
            .once_in("book", move |db| {
                runs.up();
                enter(db, "ana").map_err(ToolError::from)?;
                enter(db, "ben").map_err(ToolError::from)?;
                Err::<i64, _>(ToolError::text("The book is closed."))
            })
            .await;
        let _ = flow.ask("again", confirm()).await;
        entered.map(|entry| entry.to_string())
    }
    let office = Office::new().await;
    let bank = office.server(tool("t", fails));
    let asked = bank.send(&first()).await;
    let second = bank.send(&retry(&asked, "q")).await;
    assert_eq!(second.asks(), ["again"], "{second:?}");
    assert_eq!(office.steps().await, (1, 1));
    let done = bank.send(&retry(&second, "again")).await;
    assert_eq!(done.text(), "The book is closed.");
    assert_eq!((office.book().len(), office.runs.get()), (0, 1));
}

#[tokio::test]
async fn what_says_that_nothing_was_done_frees_the_step() {
    async fn waits(flow: FlowIn<Line>, State(runs): State<Counter>) -> Result<String, ToolError> {
        let _ = flow.ask("q", confirm()).await;
        let entered = flow
            .once_in("book", move |db| {
                let entry = enter(db, "ana").map_err(ToolError::from)?;
                match runs.up() {
                    1 => Err(ToolError::text("Not yet.").not_done()),
                    _ => Ok(entry),
                }
            })
            .await;
        let _ = flow.ask("again", confirm()).await;
        entered.map(|entry| format!("entry {entry}"))
    }
    let office = Office::new().await;
    let bank = office.server(tool("t", waits));
    let asked = bank.send(&first()).await;
    let second = bank.send(&retry(&asked, "q")).await;
    assert_eq!(office.book().len(), 0, "{second:?}");
    let done = bank.send(&retry(&second, "again")).await;
    assert_eq!(done.text(), "entry 1", "{done:?}");
    assert_eq!((office.book().len(), office.runs.get()), (1, 2));
}

#[tokio::test]
async fn a_panic_takes_the_effect_back_and_frees_the_step() {
    async fn panics(flow: FlowIn<Line>, State(runs): State<Counter>) -> Result<String, ToolError> {
        let _ = flow.ask("q", confirm()).await;
        let entry = flow
            .once_in("book", move |db| {
                let entry = enter(db, "ana");
                assert!(runs.up() > 1, "the first time");
                entry
            })
            .await?;
        Ok(format!("entry {entry}"))
    }
    let office = Office::new().await;
    let bank = office.server(tool("t", panics).run_again());
    let asked = bank.send(&first()).await;
    let failed = bank.send(&retry(&asked, "q")).await;
    assert!(failed.code().is_some(), "{failed:?}");
    assert_eq!((office.book().len(), office.runs.get()), (0, 1));
    assert_eq!(office.steps().await.1, 0, "nothing is settled");
    // Another flow, and the ledger, are as well as they were.
    let asked = bank.send(&first()).await;
    let done = bank.send(&retry(&asked, "q")).await;
    assert_eq!(done.text(), "entry 1", "{done:?}");
}

#[tokio::test]
async fn what_cannot_be_kept_takes_the_effect_back() {
    async fn large(flow: FlowIn<Line>) -> Result<String, ToolError> {
        let _ = flow.ask("q", confirm()).await;
        flow.once_in("book", |db| enter(db, "ana").map(|_| "x".repeat(70_000)))
            .await
    }
    async fn unfit(flow: FlowIn<Line>) -> Result<String, ToolError> {
        let _ = flow.ask("q", confirm()).await;
        let number = flow
            .once_in("book", |db| enter(db, "ana").map(|_| f64::NAN))
            .await?;
        Ok(number.to_string())
    }
    let office = Office::new().await;
    for tool in [tool("t", large), tool("t", unfit)] {
        let bank = office.server(tool);
        let asked = bank.send(&first()).await;
        let failed = bank.send(&retry(&asked, "q")).await;
        assert_eq!(failed.code(), Some(-32603), "{failed:?}");
        assert!(office.book().is_empty());
        assert_eq!(office.steps().await.1, 0);
    }
}

/// The answer was lost, the transaction was not.
#[tokio::test(start_paused = true)]
async fn a_commit_without_a_word_is_asked_for() {
    for loses in [
        vec![Loses::Answer],
        vec![Loses::Answer, Loses::Request, Loses::Answer],
    ] {
        let office = Office::new().await;
        let bank = office.server(tool("t", books));
        let asked = bank.send(&first()).await;
        let performances = loses.len() + 1;
        office.loses(loses);
        let second = bank.send(&retry(&asked, "q")).await;
        assert_eq!(second.asks(), ["again"], "{second:?}");
        assert_eq!((office.book().len(), office.runs.get()), (1, 1));
        assert_eq!(
            office.line.asked.load(Ordering::SeqCst),
            performances,
            "it is asked until there is an answer"
        );
        let done = bank.send(&retry(&second, "again")).await;
        assert_eq!(done.text(), "entry 1", "{done:?}");
        assert_eq!(office.runs.get(), 1);
    }
}

/// What was not committed is not told as done, and leaves no step in doubt behind.
#[tokio::test(start_paused = true)]
async fn what_was_not_committed_can_be_done_by_the_same_retry() {
    let office = Office::new().await;
    let bank = office.server(tool("t", books).run_again());
    let asked = bank.send(&first()).await;
    office.loses(vec![Loses::Request]);
    let failed = bank.send(&retry(&asked, "q")).await;
    assert_eq!(failed.code(), Some(1003), "{failed:?}");
    assert!(office.book().is_empty());
    let second = bank.send(&retry(&asked, "q")).await;
    assert_eq!(second.asks(), ["again"], "{second:?}");
    assert_eq!((office.book().len(), office.runs.get()), (1, 1));
}

/// Nobody knows, for as long as the ledger says nothing; when it speaks again the same retry is told.
#[tokio::test(start_paused = true)]
async fn a_ledger_that_stays_silent_is_no_word_on_the_step() {
    let silence = || {
        let mut loses = vec![Loses::Answer];
        loses.extend([Loses::Request; 3]);
        loses
    };
    let office = Office::new().await;
    let bank = office.server(tool("t", books).run_again());
    let asked = bank.send(&first()).await;
    office.loses(silence());
    let failed = bank.send(&retry(&asked, "q")).await;
    assert_eq!(failed.code(), Some(1003), "{failed:?}");
    assert_eq!(office.book().len(), 1);
    let second = bank.send(&retry(&asked, "q")).await;
    assert_eq!(second.asks(), ["again"], "{second:?}");
    assert_eq!((office.book().len(), office.runs.get()), (1, 1));

    let office = Office::new().await;
    let bank = office.server(tool("t", books));
    let asked = bank.send(&first()).await;
    office.loses(silence());
    let failed = bank.send(&retry(&asked, "q")).await;
    assert_eq!(failed.code(), Some(1002), "{failed:?}");
}

/// The body cannot say what came of a step for which it did not wait, so it does not get to say it.
#[tokio::test]
async fn who_stops_waiting_does_not_stop_the_step_and_has_no_say() {
    async fn hasty(flow: FlowIn<Line>, State(runs): State<Counter>) -> Result<String, ToolError> {
        let _ = flow.ask("q", confirm()).await;
        let hasty = runs.up() == 1;
        let step = flow.once_in("book", |db| enter(db, "ana"));
        if hasty {
            return match tokio::time::timeout(Duration::ZERO, step).await {
                Ok(entry) => Ok(format!("entry {}", entry?)),
                Err(_) => Ok("Nothing was booked.".to_owned()),
            };
        }
        Ok(format!("entry {}", step.await?))
    }
    let office = Office::new().await;
    let bank = office.server(tool("t", hasty).run_again());
    let asked = bank.send(&first()).await;
    let ended = bank.send(&retry(&asked, "q")).await;
    assert_eq!(ended.code(), Some(1003), "{ended:?}");
    let done = bank.send(&retry(&asked, "q")).await;
    assert_eq!(done.text(), "entry 1", "{done:?}");
    assert_eq!(office.book(), ["ana"]);
}

/// As for `once`: no step begins after its client has gone, and one that was taken in an earlier round is there.
#[tokio::test]
async fn whose_client_has_gone_still_has_the_steps_of_earlier_rounds() {
    async fn held(
        flow: FlowIn<Line>,
        State(runs): State<Counter>,
        State(door): State<Door>,
    ) -> Result<String, ToolError> {
        let _ = flow.ask("q", confirm()).await;
        let again = flow.ask("again", confirm());
        let is_first = runs.get() == 0;
        let book = move |db: &Connection| {
            runs.up();
            enter(db, "ana")
        };
        if is_first {
            flow.once_in("book", book).await?;
            let _ = again.await;
            return Ok("not reached in this run".to_owned());
        }
        let _ = again.await;
        door.reached.notify_one();
        door.open.notified().await;
        let entry = flow.once_in("book", book).await?;
        flow.once_in("more", |db| enter(db, "ben")).await?;
        Ok(format!("entry {entry}"))
    }
    let (office, door) = (Office::new().await, Door::default());
    let ledger: Arc<dyn Ledger> = Arc::clone(&office.line) as _;
    let bank = Bank::with(|builder| {
        let builder = builder.ledger(ledger).state(office.runs.clone());
        builder.state(door.clone()).tool(tool("t", held))
    });
    let asked = bank.send(&first()).await;
    let second = bank.send(&retry(&asked, "q")).await;
    assert_eq!((second.asks(), office.runs.get()), (vec!["again"], 1));
    let (gone, call) = (bank.clone(), retry(&second, "again"));
    let connection = tokio::spawn(async move { gone.send(&call).await });
    door.reached.notified().await;
    connection.abort();
    assert!(connection.await.unwrap_err().is_cancelled());
    door.open.notify_one();
    bank.server.settled().await;
    let told = bank.send(&retry(&second, "again")).await;
    assert!(
        told.is_replayed() && told.text().contains("Steps that were taken: book."),
        "{told:?}"
    );
    assert_eq!(
        (office.book(), office.runs.get()),
        (vec!["ana".to_owned()], 1)
    );
}

/// A performance is counted as the claim that it is.
#[tokio::test]
async fn a_performance_is_counted() {
    let (log, _listening) = Log::listen();
    let office = Office::new().await;
    let bank = office.server(tool("t", books));
    let asked = bank.send(&first()).await;
    let second = bank.send(&retry(&asked, "q")).await;
    bank.send(&retry(&second, "again")).await;
    let text = log.text();
    for number in [
        "kind=\"step\" answer=\"first\"",
        "kind=\"step\" answer=\"settled\"",
        "operation=\"perform\"",
    ] {
        assert!(text.contains(number), "{number}: {text}");
    }
}

#[tokio::test]
async fn a_step_has_one_name_however_it_is_taken() {
    async fn twice(flow: FlowIn<Line>) -> Result<String, ToolError> {
        let _ = flow.ask("q", confirm()).await;
        flow.once_in("book", |db| enter(db, "ana")).await?;
        flow.once("book", async || Ok::<_, ToolError>(2)).await?;
        Ok("done".to_owned())
    }
    let office = Office::new().await;
    let bank = office.server(tool("t", twice));
    let asked = bank.send(&first()).await;
    let failed = bank.send(&retry(&asked, "q")).await;
    assert_eq!(failed.code(), Some(-32603), "{failed:?}");
}

#[tokio::test]
async fn in_the_earlier_era_it_is_the_same_transaction() {
    async fn at_once(flow: FlowIn<Line>) -> Result<String, ToolError> {
        let entry = flow.once_in("book", |db| enter(db, "ana")).await?;
        Ok(format!("entry {entry}"))
    }
    let office = Office::new().await;
    let bank = office.server(tool("t", at_once));
    let session = Session::open(&bank.server, everything()).await;
    let mut answer = session.call(1, "t", json!({})).await;
    assert_eq!(text(&answer.json().await), "entry 1");
    assert_eq!(office.book(), ["ana"]);
    assert_eq!(office.steps().await, (1, 1));
}

/// The effect would be in a database that the server's ledger knows nothing of.
#[tokio::test]
async fn another_ledger_than_the_handler_acts_in_is_refused_at_build() {
    let clock = Bank::new().clock;
    let built = |ledger: Arc<dyn Ledger>| {
        Server::builder("s", "1")
            .allow_anonymous()
            .audience("https://s.example")
            .codec(codec())
            .ledger(ledger)
            .state(Counter::default())
            .dangerous()
            .allow_forgetful_ledger()
            .tool(tool("t", books))
            .build()
    };
    let memory = MemoryLedger::new(Arc::new(clock)).unwrap();
    let refused = built(Arc::new(memory));
    let Err(error @ BuildError::OtherLedger { .. }) = refused else {
        panic!("{refused:?}")
    };
    let said = error.to_string();
    assert!(said.starts_with("tool `t` takes a `FlowIn<"), "{said}");
    assert!(said.contains("was given a `MemoryLedger`"), "{said}");
    let office = Office::new().await;
    built(Arc::clone(&office.line) as _).unwrap();
    // Behind one more pointer it is the same ledger.
    built(Arc::new(Arc::clone(&office.line)) as _).unwrap();
}
