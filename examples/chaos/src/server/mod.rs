//! One server of the fleet: a process that is told by its driver where its ledger is, and that takes orders on standard
//! input: `clock MILLIS` sets its clock that far from the host's, `stop` ends it in good order, and the end of the input
//! ends it at once.
//!
//! | module | what is in it |
//! |---|---|
//! | [`tools`] | the tools |
//! | [`record`], [`shelf`] | the effects' own record, and a table for those in the ledger's database |
//! | [`clock`] | the clock that can be set |
//! | [`tap`] | what the ledger is asked and answers, written down |
//! | [`sabotage`], [`marks`] | ledgers that break a promise |

pub(crate) mod clock;
pub(crate) mod marks;
pub(crate) mod record;
pub(crate) mod sabotage;
pub(crate) mod shelf;
pub(crate) mod tap;
pub(crate) mod tools;

use std::future::ready;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::request::Parts;
use mrtr_ledger::{Account, Ledger, Limits};
use mrtr_ledger_postgres::PostgresLedger;
use mrtr_ledger_postgres::tokio_postgres::Config;
use mrtr_ledger_sqlite::SqliteLedger;
use mrtr_server::{AuthError, AuthFuture, Authenticator, Principal, Server, StoredCodec};
use mrtr_state::{Clock, Key, KeyRing};
use mrtr_state_aead::AeadCodec;
use stage::arguments::{Arguments, UsageError};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::driver::Failure;
use crate::place::Place;
use crate::server::clock::OffsetClock;
use crate::server::marks::Marks;
use crate::server::record::Book;
use crate::server::sabotage::{HurriedClock, Sabotage, Sabotaged};
use crate::server::shelf::Shelf;
use crate::server::tap::{Tapped, Trace};
use crate::terms::{FLOW_LIFETIME, LEASE, LIFETIME, RETENTION, SHUTDOWN, SKEW, WAIT};
use crate::trace::{Lines, Process};

/// How often a server purges.
const PURGE_EVERY: Duration = Duration::from_millis(250);

/// The largest journal that a state carries. Larger ones stay in the ledger.
const CARRIED: usize = 2_048;

/// The key that all servers of all runs are configured with. What it protects lasts as long as a run.
const KEY: &str = "6368616f73206368616f73206368616f73206368616f73206368616f7320212e";

/// The issuer of everybody who calls.
const ISSUER: &str = "https://login.example";

/// What a server is told on its command line.
#[derive(Debug)]
pub(crate) struct Options {
    process: Process,
    folder: PathBuf,
    place: Place,
    sabotage: Option<Sabotage>,
}

impl Options {
    pub(crate) fn take(mut arguments: Arguments) -> Result<Self, UsageError> {
        let process = arguments.value("--process")?;
        let options = Self {
            process: process.ok_or(UsageError::NoValue("--process"))?,
            folder: arguments
                .value("--folder")?
                .ok_or(UsageError::NoValue("--folder"))?,
            place: Place::take(&mut arguments)?,
            sabotage: arguments.value("--sabotage")?,
        };
        arguments.finish()?;
        Ok(options)
    }
}

/// Where a run keeps what a process writes.
pub(crate) fn effects_file(folder: &Path, process: Process) -> PathBuf {
    folder.join(format!("effects-{process}.jsonl"))
}

/// See [`effects_file`].
pub(crate) fn ledger_file(folder: &Path, process: Process) -> PathBuf {
    folder.join(format!("ledger-{process}.jsonl"))
}

/// Whether a server on a database goes by the database's clock, as servers do, or by its own, which jumps: half of them
/// each, so that both are met with, and that they disagree.
pub(crate) fn goes_by_the_database(process: Process) -> bool {
    process.slot.is_multiple_of(2)
}

/// Serves until told to stop.
pub(crate) async fn run(options: Options) -> Result<(), Failure> {
    let clock = OffsetClock::default();
    let own: Arc<dyn Clock> = Arc::new(clock.clone());
    let hurried = (options.sabotage == Some(Sabotage::PurgeByNow))
        .then(|| -> Arc<dyn Clock> { Arc::new(HurriedClock(clock.clone())) });
    let marks = Marks(options.place.clone());
    match &options.place {
        Place::Sqlite(file) => {
            let open = |clock| {
                SqliteLedger::builder(file)
                    .clock(clock)
                    .limits(Limits::NONE)
                    .retention(RETENTION)
                    .wait(WAIT)
                    .open()
            };
            let hurried = hurried.map(open).transpose()?;
            let inner = open(own)?;
            let ledger = Sabotaged::new(inner, options.sabotage, hurried, marks, clock.clone());
            serve(&options, clock, ledger).await
        }
        Place::Postgres { connection, schema } => {
            let open = async |clock: Option<Arc<dyn Clock>>| {
                let mut config: Config = connection.parse()?;
                // By which its sessions are told from the driver's.
                config.application_name(schema);
                let ledger = PostgresLedger::builder(config)
                    .schema(schema)
                    .limits(Limits::NONE)
                    .retention(RETENTION)
                    .wait(WAIT);
                match clock {
                    Some(clock) => ledger.test_clock(clock),
                    None => ledger,
                }
                .open()
                .await
                .map_err(Failure::from)
            };
            let own = (!goes_by_the_database(options.process)).then_some(own);
            let hurried = match hurried {
                Some(clock) => Some(open(Some(clock)).await?),
                None => None,
            };
            let inner = open(own).await?;
            let ledger = Sabotaged::new(inner, options.sabotage, hurried, marks, clock.clone());
            serve(&options, clock, ledger).await
        }
    }
}

async fn serve<L: Shelf>(options: &Options, clock: OffsetClock, ledger: L) -> Result<(), Failure> {
    let Options {
        process, folder, ..
    } = options;
    let lines = Lines::append_to(&ledger_file(folder, *process))?;
    let trace = Arc::new(Trace::new(lines));
    let lines = Lines::append_to(&effects_file(folder, *process))?;
    let book = Book::new(lines, Arc::clone(&trace), *process, &options.place.table());
    let ledger = Arc::new(Tapped::new(ledger, trace));

    let purging = Arc::clone(&ledger);
    tokio::spawn(async move {
        loop {
            // Without a word the next one tries again; what came of it is in the trace.
            _ = purging.purge().await;
            tokio::time::sleep(PURGE_EVERY).await;
        }
    });

    let builder = Server::builder("chaos", env!("CARGO_PKG_VERSION"))
        .audience("http://localhost/chaos")
        .authenticator(Named(*process))
        .codec(StoredCodec::above(
            CARRIED,
            AeadCodec::new(KeyRing::new(Key::from_hex(KEY)?))?,
        ))
        .clock(clock.clone())
        .ledger(ledger)
        .limits(|limits| {
            limits.lifetime = LIFETIME;
            limits.flow_lifetime = FLOW_LIFETIME;
            limits.lease = LEASE;
            limits.retention = RETENTION;
            limits.skew = SKEW;
            limits.shutdown = SHUTDOWN;
        });
    let server = tools::all::<Tapped<L>>(builder, book).build()?;

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    say(&format!(
        "listening on http://{}/mcp",
        listener.local_addr()?
    ))?;
    let (stop, stopped) = oneshot::channel::<()>();
    std::thread::spawn(move || obey(&clock, stop));
    server
        .serve(listener, async {
            _ = stopped.await;
        })
        .await?;
    Ok(())
}

/// Takes orders, on a thread of its own: a read of standard input cannot be cancelled, and would keep the runtime from
/// ending. The end of the input is the end of the driver, and nobody is left to serve.
fn obey(clock: &OffsetClock, stop: oneshot::Sender<()>) {
    let mut stop = Some(stop);
    for order in std::io::stdin().lines() {
        let Ok(order) = order else { break };
        if order == "stop" {
            stop.take().map(|stop| stop.send(()));
        } else if let Some(Ok(offset)) = order.strip_prefix("clock ").map(str::parse) {
            clock.set(offset);
            if say("clock is set").is_err() {
                break;
            }
        }
    }
    std::process::exit(1);
}

fn say(line: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// Whoever says a name has it. Each flow is somebody's own, so that its rows are told by their account.
///
/// A name says for which process it is meant, too: the address of one that was killed may be another one's by now.
#[derive(Debug)]
struct Named(Process);

impl Named {
    fn principal(&self, head: &Parts) -> Option<Principal> {
        let token = head.headers.get(AUTHORIZATION)?.to_str().ok()?;
        let (name, process) = token.strip_prefix("Bearer ")?.split_once('@')?;
        (process.parse() == Ok(self.0)).then(|| Principal::user(ISSUER, name))
    }
}

impl Authenticator for Named {
    fn authenticate<'a>(&'a self, head: &'a Parts) -> AuthFuture<'a> {
        let refused = || {
            let challenge = http::HeaderValue::from_static("Bearer");
            AuthError::unauthenticated("say who you are, and whom you mean", challenge)
        };
        Box::pin(ready(
            self.principal(head).map(Into::into).ok_or_else(refused),
        ))
    }
}

/// Who calls a process in a flow, as a bearer token.
pub(crate) fn bearer(flow: u64, to: Process) -> String {
    format!("{}@{to}", name(flow))
}

/// Who calls in a flow.
fn name(flow: u64) -> String {
    format!("flow-{flow}")
}

/// The account of a flow's rows, as the trace has it.
pub(crate) fn account(flow: u64) -> u64 {
    tap::account(&Account::of(&Principal::user(ISSUER, name(flow))))
}
