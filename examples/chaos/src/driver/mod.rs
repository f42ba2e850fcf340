//! A run: servers on one ledger, clients that make trouble, faults that make more, and a history of all of it.
//!
//! | module | what is in it |
//! |---|---|
//! | [`fleet`] | the servers' processes |
//! | [`client`] | what clients do |
//! | [`wire`] | requests, and what comes back |
//! | [`faults`] | the plan, carried out |
//! | [`store`] | the ledger, from behind |

pub(crate) mod client;
pub(crate) mod faults;
pub(crate) mod fleet;
pub(crate) mod store;
pub(crate) mod wire;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::driver::client::World;
use crate::driver::faults::Target;
use crate::driver::fleet::Fleet;
use crate::driver::store::Store;
use crate::driver::wire::Wire;
use crate::history::{History, What};
use crate::place::Place;
use crate::plan::{Plan, Tempers};
use crate::server::sabotage::Sabotage;

/// Servers of a fleet.
pub(crate) const SERVERS: usize = 4;

/// Clients that go on errands.
const CLIENTS: u64 = 20;

/// Clients that send again what was answered before.
const REPEATERS: u64 = 3;

/// How long what was left open has to come to its end, once nothing goes wrong any more. A lease lapses many times over
/// in it, unless a clock that was ahead has written it.
pub(crate) const CALM: Duration = Duration::from_secs(12);

/// Why a run could not be made. That says nothing about the servers' promises.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self(text)
    }
}

/// What the servers of a run share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Sqlite,
    /// A database, by how to connect to it.
    Postgres(String),
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            On::Sqlite => "SQLite",
            On::Postgres(_) => "PostgreSQL",
        })
    }
}

/// What a run is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) length: Duration,
    pub(crate) tempers: Tempers,
    pub(crate) calm: Duration,
    /// Of so many pauses of a body one is longer than a lease, and only signs of life keep its claim.
    pub(crate) long_one_in: u32,
    pub(crate) sabotage: Option<Sabotage>,
}

/// Makes a run, and returns everything that was seen in it. Processes and files are gone by then, also after a failure and
/// after an interruption.
pub(crate) async fn run(run: Run, on: &On) -> Result<History, Failure> {
    let folder = tempfile::Builder::new().prefix("mrtr-chaos-").tempdir()?;
    let place = match on {
        On::Sqlite => Place::file_in(folder.path()),
        On::Postgres(connection) => Place::schema_at(connection),
    };
    let mut flags = place.to_flags();
    flags.extend(run.sabotage.map(|how| format!("--sabotage={how}")));
    let fleet = Fleet::new(folder.path(), SERVERS, flags);
    let target = Target {
        fleet: Arc::new(fleet),
        store: Arc::new(Store::create(&place).await?),
        seen: Arc::default(),
    };
    let outcome = tokio::select! {
        outcome = play(run, &target) => outcome,
        interrupted = interrupted() => Err(interrupted),
    };
    let history = match outcome {
        Ok(()) => gather(&target, &place, folder.path()).await,
        Err(failure) => Err(failure),
    };
    // Whoever still runs would go on writing into the folder.
    target.fleet.kill_all().await;
    target.store.clear().await?;
    folder.close()?;
    let mut history = history?;
    history.has_database_clock = matches!(on, On::Postgres(_));
    Ok(history)
}

/// The run itself. Everything that it has started but servers ends with it.
async fn play(run: Run, target: &Target) -> Result<(), Failure> {
    let Target { fleet, seen, .. } = target;
    fleet.start_all(seen).await?;
    let world = World::new(
        Arc::clone(fleet),
        Wire::new()?,
        Arc::clone(seen),
        run.long_one_in,
    );
    let world = Arc::new(world);
    let mut rng = Rng::with_seed(run.seed);
    let plan = Plan::draw(run.seed, run.length, SERVERS, run.tempers);

    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(client::live(Arc::clone(&world), client, rng.fork()));
    }
    for _ in 0..REPEATERS {
        clients.spawn(client::repeat(Arc::clone(&world), rng.fork()));
    }
    faults::carry_out(plan, run.length, target.clone()).await?;
    world.close();
    while let Some(ended) = clients.join_next().await {
        ended?;
    }

    // Nothing goes wrong from here on.
    let mut finishing = JoinSet::new();
    for attempt in world.unfinished() {
        seen.unfinished(attempt.flow());
        let (world, rng) = (Arc::clone(&world), rng.fork());
        finishing.spawn(async move { client::finish(&world, attempt, run.calm, rng).await });
    }
    while let Some(ended) = finishing.join_next().await {
        ended?;
    }
    world.quiet().await;
    fleet.stop_all(seen).await
}

/// What clients, faults and servers wrote down.
async fn gather(target: &Target, place: &Place, folder: &Path) -> Result<History, Failure> {
    let mut history = target.seen.take();
    history.rows_left = target.store.rows().await?;
    history.effects = target.store.booked(place).await?;
    let started = history
        .incidents
        .iter()
        .filter_map(|incident| match incident.what {
            What::Started(process) => Some(process),
            _ => None,
        });
    for process in started.collect::<Vec<_>>() {
        history.read(folder, process)?;
    }
    Ok(history)
}

/// Somebody wants this to end.
async fn interrupted() -> Failure {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut terminated) => _ = terminated.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
    Failure::new("interrupted; servers and files are cleared away")
}
