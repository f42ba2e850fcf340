//! The server process: this test binary again, which serves on a port of its own and takes orders on standard input.
//!
//! | order | what it does | what is answered |
//! |---|---|---|
//! | `pass SECONDS` | sets the clock forward | `passed` |
//! | `rows` | counts the ledger's rows | rounds, settled rounds, steps, settled steps, notes |
//! | `go` | lets the effect of `slow` end | nothing |
//!
//! By itself it says `listening ADDRESS`, and `inside` when the effect of `slow` has happened and waits for `go`.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::Ledger;
use mrtr_ledger_postgres::PostgresLedger;
use mrtr_ledger_postgres::tokio_postgres::{self, NoTls};
use mrtr_ledger_sqlite::SqliteLedger;
use mrtr_ledger_sqlite::rusqlite;
use mrtr_server::{Answer, Args, DurableFlow, FlowIn, Form, ServerBuilder, State, ToolError, tool};
use mrtr_state::Timestamp;
use mrtr_testkit::ManualClock;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::points::{AFTER_EFFECT, BEFORE_EFFECT, Fatal, Fate};
use crate::bank::{Bank, T0};

/// The file of the effects' own record.
pub(crate) const EFFECTS: &str = "MRTR_CRASH_EFFECTS";
/// The ledger's file, or its schema in PostgreSQL.
pub(crate) const LEDGER: &str = "MRTR_CRASH_LEDGER";
/// How to connect to PostgreSQL. None: the ledger is a file.
pub(crate) const POSTGRES: &str = "MRTR_CRASH_POSTGRES";
/// The point at which the process dies. None: it does not.
pub(crate) const POINT: &str = "MRTR_CRASH_POINT";
/// How many seconds after [`T0`] its clock stands when it starts.
pub(crate) const SECONDS: &str = "MRTR_CRASH_SECONDS";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the other tests run it, as a process of its own"]
async fn child() {
    let seconds: u64 = std::env::var(SECONDS)
        .expect("run by another test")
        .parse()
        .unwrap();
    let clock = ManualClock::at(Timestamp::from_millis(T0 + seconds * 1000));
    let fate = Fate(std::env::var(POINT).ok());
    let place = std::env::var(LEDGER).unwrap();
    match std::env::var(POSTGRES) {
        Ok(connection) => {
            let ledger = PostgresLedger::builder(connection.parse().unwrap())
                .schema(&place)
                .test_clock(Arc::new(clock.clone()));
            let ledger = ledger.open().await.unwrap();
            let table = PostgresTable::create(&connection, &place).await;
            serve(ledger, clock, fate, |builder| {
                builder
                    .state(table)
                    .tool(tool("pay_in", pay_in_postgres))
                    .tool(tool("pay_in_again", pay_in_postgres).run_again())
            })
            .await;
        }
        Err(_) => {
            let ledger = SqliteLedger::builder(place).clock(Arc::new(clock.clone()));
            let ledger = ledger.open().unwrap();
            let create = "CREATE TABLE IF NOT EXISTS payments (payer TEXT NOT NULL) STRICT";
            ledger
                .transact(|db| db.execute_batch(create))
                .await
                .unwrap()
                .unwrap();
            serve(ledger, clock, fate, |builder| {
                builder
                    .tool(tool("pay_in", pay_in_sqlite))
                    .tool(tool("pay_in_again", pay_in_sqlite).run_again())
            })
            .await;
        }
    }
}

async fn serve<L: Ledger>(
    ledger: L,
    clock: ManualClock,
    fate: Fate,
    with: impl FnOnce(ServerBuilder) -> ServerBuilder,
) {
    let effects = PathBuf::from(std::env::var_os(EFFECTS).unwrap());
    let ledger = Arc::new(Fatal::new(ledger, fate.clone()));
    let gate = Gate::default();
    let bank = Bank::with(|builder| {
        with(tools(builder))
            .clock(clock.clone())
            .ledger(Arc::clone(&ledger))
            .state(Book(effects.into()))
            .state(gate.clone())
            .state(fate)
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    say(&format!("listening {}", listener.local_addr().unwrap()));
    let runtime = Handle::current();
    std::thread::spawn(move || {
        for order in io::stdin().lines() {
            let order = order.unwrap();
            match order.split_once(' ').unwrap_or((&order, "")) {
                ("pass", seconds) => {
                    clock.advance(Duration::from_secs(seconds.parse().unwrap()));
                    say("passed");
                }
                ("rows", _) => {
                    let rows = runtime.block_on(ledger.rows()).unwrap();
                    say(&format!(
                        "{} {} {} {} {}",
                        rows.rounds,
                        rows.settled_rounds,
                        rows.steps,
                        rows.settled_steps,
                        rows.notes
                    ));
                }
                ("go", _) => gate.0.notify_one(),
                (other, _) => panic!("{other} is no order"),
            }
        }
        // Whoever started it has gone.
        std::process::exit(1);
    });
    bank.server
        .serve(listener, std::future::pending())
        .await
        .unwrap();
}

#[expect(clippy::print_stdout, reason = "it answers there")]
fn say(answer: &str) {
    println!("child: {answer}");
}

fn tools(builder: ServerBuilder) -> ServerBuilder {
    builder
        .tool(tool("pay", pay))
        .tool(tool("pay_again", pay_again).run_again())
        .tool(tool("stages", stages))
        .tool(tool("fail", fail))
        .tool(tool("slow", slow))
}

/// The effects' own record, which knows nothing of ledgers: a line for each that is on the disk before the effect is over.
#[derive(Clone, Debug)]
struct Book(Arc<Path>);

impl Book {
    /// Pays. What comes back names this payment among all of them: the process that made it.
    fn pay(&self) -> io::Result<String> {
        let process = std::process::id().to_string();
        self.write(&process)?;
        Ok(process)
    }

    /// Sends a mail, which comes back as a payment does.
    fn mail(&self) -> io::Result<String> {
        let process = std::process::id().to_string();
        self.write(&format!("mail {process}"))?;
        Ok(process)
    }

    fn write(&self, line: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.0)?;
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_all()
    }
}

#[derive(Clone, Debug, Default)]
struct Gate(Arc<Notify>);

#[derive(Deserialize, JsonSchema)]
#[expect(
    dead_code,
    reason = "the arguments matter to the digest, not to the body"
)]
struct Payment {
    to: String,
    amount: f64,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

async fn confirmed(flow: &DurableFlow) -> bool {
    ticked(flow, "confirm").await
}

async fn ticked(flow: &DurableFlow, question: &'static str) -> bool {
    let answer = flow.ask(question, Form::<Confirm>::new("Really?")).await;
    matches!(answer, Answer::Accept(Confirm { ok: true }))
}

async fn pay(
    _: Args<Payment>,
    flow: DurableFlow,
    State(book): State<Book>,
    State(fate): State<Fate>,
) -> Result<String, ToolError> {
    if !confirmed(&flow).await {
        return Ok("not paid".into());
    }
    let payment = flow
        .once("pay", async || {
            fate.at(BEFORE_EFFECT);
            let payment = book.pay()?;
            fate.at(AFTER_EFFECT);
            Ok::<_, ToolError>(payment)
        })
        .await?;
    Ok(format!("paid by {payment}"))
}

/// Two steps, which rely on a memo that no other process would compute so.
async fn pay_again(
    _: Args<Payment>,
    flow: DurableFlow,
    State(book): State<Book>,
    State(fate): State<Fate>,
) -> Result<String, ToolError> {
    if !confirmed(&flow).await {
        return Ok("not paid".into());
    }
    let clerk = flow.memo("clerk", async || std::process::id()).await;
    let payment = flow
        .once("pay", async || {
            fate.at(BEFORE_EFFECT);
            let payment = book.pay()?;
            fate.at(AFTER_EFFECT);
            Ok::<_, ToolError>(payment)
        })
        .await?;
    let mail = flow
        .once("mail", async || Ok::<_, ToolError>(book.mail()?))
        .await?;
    Ok(format!("paid by {payment} for {clerk}, mail by {mail}"))
}

/// Pays in the ledger's own file.
async fn pay_in_sqlite(
    _: Args<Payment>,
    flow: FlowIn<Fatal<SqliteLedger>>,
    State(fate): State<Fate>,
) -> Result<String, ToolError> {
    if !confirmed(&flow).await {
        return Ok("not paid".into());
    }
    let payment = flow
        .once_in("pay", move |db| {
            fate.at(BEFORE_EFFECT);
            let process = std::process::id().to_string();
            db.execute("INSERT INTO payments VALUES (?1)", [&process])?;
            fate.at(AFTER_EFFECT);
            Ok::<_, rusqlite::Error>(process)
        })
        .await?;
    Ok(format!("paid by {payment}"))
}

/// The table of payments in PostgreSQL: the ledger's place has one of its own.
#[derive(Clone, Debug)]
struct PostgresTable(String);

impl PostgresTable {
    async fn create(connection: &str, place: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(connection, NoTls).await.unwrap();
        tokio::spawn(connection);
        let table = payments_table(place);
        // Two at once would both find none: `IF NOT EXISTS` takes no lock of its own.
        let create = format!(
            "BEGIN; SELECT pg_advisory_xact_lock(88); \
             CREATE TABLE IF NOT EXISTS {table} (number SERIAL, payer TEXT NOT NULL); COMMIT"
        );
        client.batch_execute(&create).await.unwrap();
        Self(table)
    }
}

/// The name of that table.
pub(crate) fn payments_table(place: &str) -> String {
    format!("payments_{place}")
}

/// Pays in the ledger's own database.
async fn pay_in_postgres(
    _: Args<Payment>,
    flow: FlowIn<Fatal<PostgresLedger>>,
    State(fate): State<Fate>,
    State(PostgresTable(table)): State<PostgresTable>,
) -> Result<String, ToolError> {
    if !confirmed(&flow).await {
        return Ok("not paid".into());
    }
    let payment = flow
        .once_in("pay", move |db| {
            Box::pin(async move {
                fate.at(BEFORE_EFFECT);
                let process = std::process::id().to_string();
                let insert = format!("INSERT INTO {table} (payer) VALUES ($1)");
                db.execute(&insert, &[&process]).await?;
                fate.at(AFTER_EFFECT);
                Ok::<_, tokio_postgres::Error>(process)
            })
        })
        .await?;
    Ok(format!("paid by {payment}"))
}

/// Pays, asks again, and sends a mail.
async fn stages(
    _: Args<Payment>,
    flow: DurableFlow,
    State(book): State<Book>,
) -> Result<String, ToolError> {
    confirmed(&flow).await;
    let payment = flow
        .once("pay", async || Ok::<_, ToolError>(book.pay()?))
        .await?;
    if !ticked(&flow, "mail").await {
        return Ok(format!("paid by {payment}"));
    }
    let mail = flow
        .once("mail", async || Ok::<_, ToolError>(book.mail()?))
        .await?;
    Ok(format!("paid by {payment}, mail by {mail}"))
}

/// The money leaves, and the effect fails.
async fn fail(
    _: Args<Payment>,
    flow: DurableFlow,
    State(book): State<Book>,
) -> Result<String, ToolError> {
    confirmed(&flow).await;
    flow.once("pay", async || {
        let payment = book.pay()?;
        Err::<(), _>(ToolError::text(format!("{payment} was refused")))
    })
    .await?;
    Ok("not reached".into())
}

/// Two steps, of which the first ends when it is told to.
async fn slow(
    _: Args<Payment>,
    flow: DurableFlow,
    State(book): State<Book>,
    State(gate): State<Gate>,
) -> Result<String, ToolError> {
    confirmed(&flow).await;
    let first = flow
        .once("first", async || {
            let payment = book.pay()?;
            say("inside");
            gate.0.notified().await;
            Ok::<_, ToolError>(payment)
        })
        .await?;
    let second = flow
        .once("second", async || Ok::<_, ToolError>(book.pay()?))
        .await?;
    Ok(format!("paid by {first} and {second}"))
}
