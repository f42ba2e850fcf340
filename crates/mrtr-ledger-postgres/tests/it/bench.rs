//! What the tests share: a schema of their own on a server, and claims on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mrtr_ledger::suite::TestClock;
use mrtr_ledger::{
    Account, Claim, Claimed, Fingerprint, Ledger as _, RowKey, Settled, Settlement, Token,
};
use mrtr_ledger_postgres::tokio_postgres::{Client, Config, NoTls};
use mrtr_ledger_postgres::{Builder, PostgresLedger};
use mrtr_state::{Epoch, Timestamp};

use crate::server::{self, Server};

pub(crate) const START: u64 = 1_700_000_000_000;
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// Beyond every clock of these tests, the server's included.
pub(crate) const FAR: Timestamp = Timestamp::from_millis(32_503_680_000_000);

/// A schema that no other test has.
pub(crate) struct Place {
    pub(crate) config: Config,
    pub(crate) connection: String,
    pub(crate) schema: String,
    pub(crate) clock: Arc<TestClock>,
}

impl Place {
    /// On the server that tests share. `None`: there is none.
    pub(crate) fn new() -> Option<Self> {
        Some(Self::at(server::shared()?))
    }

    pub(crate) fn on(server: &Server) -> Self {
        Self::at(&server.connection)
    }

    pub(crate) fn at(connection: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let schema = format!("test_{}_{number}", std::process::id());
        let mut config: Config = connection.parse().unwrap();
        // So that the server's view of its connections can be asked for this test's.
        config.application_name(&schema);
        Self {
            config,
            connection: connection.to_owned(),
            schema,
            clock: Arc::new(TestClock::at(START)),
        }
    }

    /// By the server's clock.
    pub(crate) fn builder(&self) -> Builder {
        PostgresLedger::builder(self.config.clone()).schema(&self.schema)
    }

    /// By the server's clock.
    pub(crate) async fn open(&self) -> PostgresLedger {
        self.builder().open().await.unwrap()
    }

    /// By the test's clock.
    pub(crate) async fn open_by_hand(&self) -> PostgresLedger {
        self.builder()
            .test_clock(self.clock.clone())
            .open()
            .await
            .unwrap()
    }

    /// A connection that knows nothing of ledgers.
    pub(crate) async fn client(&self) -> Client {
        let mut config = self.config.clone();
        config.application_name("stranger");
        let (client, connection) = config.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    /// How many of the ledger's connections are as the condition says.
    pub(crate) async fn sessions(&self, client: &Client, condition: &str) -> i64 {
        let count = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}' AND {condition}",
            self.schema
        );
        client.query_one(&count, &[]).await.unwrap().get(0)
    }

    /// Ends them all, as an administrator would. How many there were.
    pub(crate) async fn kill_sessions(&self, client: &Client) -> i64 {
        let kill = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM
                (SELECT pid FROM pg_stat_activity WHERE application_name = '{}' OFFSET 0) AS sessions",
            self.schema
        );
        client.query_one(&kill, &[]).await.unwrap().get(0)
    }

    /// One of the ledger's operations waits for a lock.
    pub(crate) async fn waits(&self, client: &Client) {
        until("an operation waits for a lock", async || {
            self.sessions(client, "wait_event_type = 'Lock'").await > 0
        })
        .await;
    }

    /// One value, as text.
    pub(crate) async fn ask(&self, client: &Client, sql: &str) -> String {
        let sql = format!("SELECT ({})::text", sql.replace("{s}", &self.schema));
        client
            .query_one(&sql, &[])
            .await
            .unwrap()
            .try_get::<_, Option<String>>(0)
            .unwrap()
            .unwrap_or_default()
    }

    pub(crate) async fn run(&self, client: &Client, sql: &str) {
        client
            .batch_execute(&sql.replace("{s}", &self.schema))
            .await
            .unwrap();
    }
}

pub(crate) fn round(epoch: Epoch, number: u64) -> Claim {
    let mut hash = [7; 32];
    hash[..8].copy_from_slice(&number.to_be_bytes());
    let key = RowKey { expiry: FAR, hash };
    let fingerprint = Fingerprint::from_bytes([1; 32]);
    Claim::round(
        key,
        epoch,
        fingerprint,
        Account::from_bytes([2; 32]),
        token(),
        LEASE,
    )
}

pub(crate) fn step(epoch: Epoch, number: u64) -> Claim {
    let Claim {
        key,
        fingerprint,
        account,
        ..
    } = round(epoch, number);
    Claim::step(key, epoch, fingerprint, account, token(), LEASE)
}

/// The same round with another end.
pub(crate) fn expiring(claim: Claim, expiry: u64) -> Claim {
    let Claim {
        key,
        epoch,
        fingerprint,
        account,
        token,
        ..
    } = claim;
    let key = RowKey {
        expiry: Timestamp::from_millis(expiry),
        ..key
    };
    Claim::round(key, epoch, fingerprint, account, token, LEASE)
}

/// The same request, by another run.
pub(crate) fn retry(claim: &Claim) -> Claim {
    let mut again = claim.clone();
    again.token = token();
    again
}

pub(crate) fn token() -> Token {
    Token::generate().unwrap()
}

/// Claims a round of the present epoch and settles it.
pub(crate) async fn paid(ledger: &PostgresLedger, number: u64) -> Claim {
    let claim = round(ledger.epoch().await.unwrap(), number);
    assert_eq!(ledger.claim(claim.clone()).await.unwrap(), Claimed::First);
    settle(ledger, &claim).await;
    claim
}

pub(crate) async fn settle(ledger: &PostgresLedger, claim: &Claim) {
    let settlement = Settlement::Outcome(b"paid".to_vec());
    let settled = ledger
        .settle(claim.key, claim.token, settlement)
        .await
        .unwrap();
    assert_eq!(settled, Settled::Stored);
}

pub(crate) fn settled() -> Claimed {
    Claimed::Settled(b"paid".to_vec())
}

/// Waits for something that happens elsewhere, and gives up loudly.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    for _ in 0..1_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not come to pass in ten seconds that {what}");
}
