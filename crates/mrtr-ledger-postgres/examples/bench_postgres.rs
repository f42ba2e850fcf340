//! What a claim costs on PostgreSQL, as ratios of one run: `cargo xtask bench postgres`.
//!
//! | measure | against |
//! |---|---|
//! | one caller's latency | one plain `INSERT` of the same row, prepared, committed, on a connection |
//! | claims a second, 64 callers | the same inserts through as many connections |
//! | .. with other numbers of connections | with eight |
//! | one caller's latency with many live rows | with few |
//! | claims' 99th percentile during a purge | without one |
//!
//! Both sides take turns, so that what else the machine does meets both; each ratio is the median of the turns' ratios,
//! with the smallest and the largest beside it. The server is the one that `MRTR_TEST_POSTGRES` names; the tables are
//! made in schemas of their own and dropped.

#![allow(
    clippy::print_stdout,
    reason = "a program that prints what it measured"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use mrtr_ledger::{Account, Claim, Claimed, Fingerprint, Ledger as _, Limits, RowKey, Token};
use mrtr_ledger_postgres::PostgresLedger;
use mrtr_ledger_postgres::tokio_postgres::{Client, Config, NoTls, Statement};
use mrtr_state::{Clock as _, Epoch, SystemClock, Timestamp};
use tokio::sync::Mutex;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const CALLERS: usize = 64;
const CONNECTIONS: usize = 8;
const TURNS: usize = 5;
const LEASE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Outcome<()> {
    let connection = std::env::var("MRTR_TEST_POSTGRES").map_err(
        |_| "MRTR_TEST_POSTGRES names no server; `cargo xtask bench postgres` starts one",
    )?;
    let mut args = std::env::args().skip(1);
    let millis = args.next().map_or(Ok(1_000), |text| text.parse())?;
    let many: u32 = args.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let bench = Bench {
        config: connection.parse()?,
        turn: Duration::from_millis(millis),
    };
    bench.one_and_many().await?;
    bench.connections().await?;
    bench.rows(many).await?;
    bench.purge(many.min(300_000)).await?;
    Ok(())
}

struct Bench {
    config: Config,
    /// How long each side is measured at a time.
    turn: Duration,
}

impl Bench {
    async fn client(&self) -> Outcome<Client> {
        let (client, connection) = self.config.connect(NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    async fn ledger(&self, schema: &str, connections: usize) -> Outcome<Arc<PostgresLedger>> {
        let ledger = PostgresLedger::builder(self.config.clone())
            .schema(schema)
            .connections(connections)
            .limits(Limits {
                rows_per_account: 1 << 40,
                rows: 1 << 40,
                ..Limits::default()
            })
            .open()
            .await?;
        Ok(Arc::new(ledger))
    }

    async fn fresh(&self, schema: &str) -> Outcome<Client> {
        let client = self.client().await?;
        client
            .batch_execute(&format!(
                "DROP SCHEMA IF EXISTS {schema} CASCADE; CHECKPOINT"
            ))
            .await?;
        Ok(client)
    }

    async fn one_and_many(&self) -> Outcome<()> {
        self.fresh("bench").await?;
        self.fresh("bench_plain").await?;
        let ledger = self.ledger("bench", CONNECTIONS).await?;
        let epoch = ledger.epoch().await?;
        let plain = Arc::new(Plain::open(self, CONNECTIONS).await?);
        for (callers, accounts) in [(1, 1), (CALLERS, CALLERS), (CALLERS, 1)] {
            let (mut latency, mut rate) = (Ratios::default(), Ratios::default());
            for _ in 0..TURNS {
                let claims = load(callers, self.turn, |caller| {
                    let (ledger, account) = (Arc::clone(&ledger), caller % accounts);
                    async move { claim(&ledger, epoch, account).await }
                });
                let claims = claims.await?;
                let inserts = load(callers, self.turn, |_| {
                    let plain = Arc::clone(&plain);
                    async move { plain.insert().await }
                });
                let inserts = inserts.await?;
                latency.add(claims.median(), inserts.median());
                rate.add(claims.per_second(), inserts.per_second());
            }
            println!("{callers} callers, {accounts} accounts, {CONNECTIONS} connections");
            println!("  latency, against a plain insert     {latency}");
            println!("  a second, against plain inserts     {rate}");
        }
        Ok(())
    }

    async fn connections(&self) -> Outcome<()> {
        let of = async |connections| -> Outcome<_> {
            let ledger = self.ledger("bench", connections).await?;
            let epoch = ledger.epoch().await?;
            Ok(move |caller: usize| {
                let ledger = Arc::clone(&ledger);
                async move { claim(&ledger, epoch, caller).await }
            })
        };
        let usual = of(CONNECTIONS).await?;
        for connections in [1, 2, 4, 16, 32, 64] {
            let other = of(connections).await?;
            let mut ratios = Ratios::default();
            for _ in 0..3 {
                let (a, b) = (
                    load(CALLERS, self.turn, &other).await?,
                    load(CALLERS, self.turn, &usual).await?,
                );
                ratios.add(a.per_second(), b.per_second());
            }
            println!(
                "{connections} connections, {CALLERS} callers\n  a second, against {CONNECTIONS} connections    {ratios}"
            );
        }
        Ok(())
    }

    async fn rows(&self, many: u32) -> Outcome<()> {
        let mut sides = Vec::new();
        for (schema, rows) in [("bench_many", many), ("bench_few", 10_000)] {
            let client = self.fresh(schema).await?;
            let ledger = self.ledger(schema, 1).await?;
            fill(&client, schema, rows, in_an_hour()).await?;
            sides.push((ledger.epoch().await?, ledger));
        }
        let [many_rows, few_rows] = &sides[..] else {
            return Ok(());
        };
        let mut ratios = Ratios::default();
        for _ in 0..TURNS {
            let mut medians = Vec::new();
            for (epoch, ledger) in [many_rows, few_rows] {
                let claims = load(1, self.turn, |caller| {
                    let (ledger, epoch) = (Arc::clone(ledger), *epoch);
                    async move { claim(&ledger, epoch, caller).await }
                });
                medians.push(claims.await?.median());
            }
            if let [many, few] = medians[..] {
                ratios.add(many, few);
            }
        }
        println!("{many} live rows, 1 caller\n  latency, against 10,000 live rows    {ratios}");
        Ok(())
    }

    async fn purge(&self, rows: u32) -> Outcome<()> {
        let client = self.fresh("bench").await?;
        let ledger = self.ledger("bench", CONNECTIONS).await?;
        let epoch = ledger.epoch().await?;
        let claiming = |turn| {
            let ledger = Arc::clone(&ledger);
            load(16, turn, move |caller| {
                let ledger = Arc::clone(&ledger);
                async move { claim(&ledger, epoch, caller).await }
            })
        };
        let without = claiming(self.turn * 3).await?;
        // Not before: a ledger purges by itself while claims go on.
        fill(&client, "bench", rows, Timestamp::from_millis(1_000_000)).await?;
        let purge = tokio::spawn({
            let ledger = Arc::clone(&ledger);
            async move {
                let start = Instant::now();
                let purged = ledger.purge().await;
                purged.map(|_| start.elapsed())
            }
        });
        let with = claiming(self.turn * 3).await?;
        let took = purge.await??;
        println!(
            "a purge of {rows} rows in {:.1} s, 16 callers\n  99th percentile, against none       {:.2}",
            took.as_secs_f64(),
            with.percentile(99) / without.percentile(99),
        );
        Ok(())
    }
}

/// Inserts of the same row into a table of the same form, by as many connections, each for one caller at a time.
struct Plain {
    clients: Vec<Mutex<(Client, Statement)>>,
    turn: tokio::sync::Semaphore,
}

impl Plain {
    async fn open(bench: &Bench, connections: usize) -> Outcome<Self> {
        let client = bench.client().await?;
        client
            .batch_execute(
                "CREATE SCHEMA bench_plain;
                 CREATE TABLE bench_plain.rows (LIKE bench.rows INCLUDING ALL) WITH (fillfactor = 50)",
            )
            .await?;
        let mut clients = Vec::new();
        for _ in 0..connections {
            let client = bench.client().await?;
            let insert =
                "INSERT INTO bench_plain.rows VALUES (0, $1, $2, $3, $3, $4, 0, false, 0, NULL)
                          ON CONFLICT (kind, expiry, hash) DO NOTHING";
            let insert = client.prepare(insert).await?;
            clients.push(Mutex::new((client, insert)));
        }
        Ok(Self {
            clients,
            turn: tokio::sync::Semaphore::new(connections),
        })
    }

    async fn insert(&self) -> Outcome<()> {
        let (hash, token) = (hash()?, Token::generate()?);
        let _turn = self.turn.acquire().await?;
        // Whoever has a turn finds one that is free.
        let free = self
            .clients
            .iter()
            .find_map(|client| client.try_lock().ok());
        let client = free.ok_or("no connection is free")?;
        let expiry = i64::try_from(in_an_hour().as_millis())?;
        let inserted = client
            .0
            .execute(
                &client.1,
                &[
                    &expiry,
                    &&hash[..],
                    &&[1_u8; 32][..],
                    &token.as_bytes().as_slice(),
                ],
            )
            .await?;
        if inserted == 1 {
            Ok(())
        } else {
            Err("it was there already".into())
        }
    }
}

async fn claim(ledger: &PostgresLedger, epoch: Epoch, account: usize) -> Outcome<()> {
    let key = RowKey {
        expiry: in_an_hour(),
        hash: hash()?,
    };
    let account = Account::anonymous_at(&account.to_string());
    let claim = Claim::round(
        key,
        epoch,
        Fingerprint::from_bytes([1; 32]),
        account,
        Token::generate()?,
        LEASE,
    );
    match ledger.claim(claim).await? {
        Claimed::First => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

fn hash() -> Outcome<[u8; 32]> {
    let mut hash = [0; 32];
    hash[..16].copy_from_slice(Token::generate()?.as_bytes());
    Ok(hash)
}

fn in_an_hour() -> Timestamp {
    SystemClock.now().saturating_add(Duration::from_secs(3_600))
}

/// Settled rounds of many accounts, counted as the ledger would have.
async fn fill(client: &Client, schema: &str, rows: u32, expiry: Timestamp) -> Outcome<()> {
    let expiry = i64::try_from(expiry.as_millis())?;
    client
        .batch_execute(&format!(
            "INSERT INTO {schema}.rows SELECT 0, {expiry} + number, sha256(number::text::bytea), sha256(''),
                 sha256((number % 1000)::text::bytea), '\\x00000000000000000000000000000000', 2, false, 0, ''
             FROM generate_series(1, {rows}) AS number;
             INSERT INTO {schema}.tally SELECT account, expiry / 60000, 0, count(*), 0 FROM {schema}.rows GROUP BY 1, 2;
             INSERT INTO {schema}.tally SELECT '', expiry / 60000, 0, count(*), 0 FROM {schema}.rows GROUP BY 2;
             ANALYZE {schema}.rows; ANALYZE {schema}.tally; CHECKPOINT"
        ))
        .await?;
    Ok(())
}

/// As many callers as asked for, each with one operation at a time, for this long.
async fn load<F, W>(callers: usize, turn: Duration, operation: F) -> Outcome<Load>
where
    F: Fn(usize) -> W,
    W: Future<Output = Outcome<()>> + Send + 'static,
{
    let start = Instant::now();
    let operation = &operation;
    let calls = (0..callers).map(|caller| async move {
        let mut latencies = Vec::new();
        while start.elapsed() < turn {
            let begun = Instant::now();
            operation(caller).await?;
            latencies.push(begun.elapsed());
        }
        Outcome::Ok(latencies)
    });
    let mut latencies = Vec::new();
    for each in futures_util::future::try_join_all(calls).await? {
        latencies.extend(each);
    }
    latencies.sort_unstable();
    Ok(Load {
        latencies,
        took: start.elapsed(),
    })
}

struct Load {
    latencies: Vec<Duration>,
    took: Duration,
}

impl Load {
    fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
    }

    fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// In seconds.
    fn percentile(&self, part: usize) -> f64 {
        let at = self.latencies.len() * part / 100;
        self.latencies
            .get(at)
            .map_or(f64::NAN, Duration::as_secs_f64)
    }
}

#[derive(Default)]
struct Ratios(Vec<(f64, f64, f64)>);

impl Ratios {
    fn add(&mut self, ours: f64, theirs: f64) {
        self.0.push((ours / theirs, ours, theirs));
        self.0.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
}

impl std::fmt::Display for Ratios {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Some(least), Some(most)) = (self.0.first(), self.0.last()) else {
            return Ok(());
        };
        let Some((ratio, ours, theirs)) = self.0.get(self.0.len() / 2) else {
            return Ok(());
        };
        write!(
            f,
            "{ratio:.2} ({:.2} to {:.2}; {ours:.4} and {theirs:.4})",
            least.0, most.0
        )
    }
}
