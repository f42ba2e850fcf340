//! Claims as servers make them, and callers that make them one after the other.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mrtr_ledger::{Account, Claim, Claimed, Fingerprint, Ledger as _, Limits, RowKey, Token};
use mrtr_ledger_sqlite::SqliteLedger;
use mrtr_state::{Clock as _, Epoch, SystemClock};
use tokio::runtime::Runtime;

use crate::Outcome;

pub(crate) const CALLERS: u64 = 64;

/// How long a state lives here.
pub(crate) const LIFETIME: Duration = Duration::from_secs(600);

/// Room for every row of a run; limits are checked all the same.
pub(crate) const ROOM: Limits = Limits {
    rows_per_account: 100_000_000,
    bytes_per_account: 1 << 40,
    rows: 1_000_000_000,
    bytes: 1 << 40,
};

pub(crate) fn open(path: &Path) -> Outcome<Arc<SqliteLedger>> {
    Ok(Arc::new(SqliteLedger::builder(path).limits(ROOM).open()?))
}

/// Draws claims of fresh states that were sealed now: hashes are random, expiries grow.
pub(crate) struct Draw {
    epoch: Epoch,
    account: Account,
    random: u64,
}

impl Draw {
    pub(crate) fn new(epoch: Epoch, caller: u64) -> Self {
        Self {
            epoch,
            account: Account::anonymous_at(&format!("caller {caller}")),
            random: caller.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                ^ u64::from(std::process::id())
                ^ now(),
        }
    }

    pub(crate) fn claim(&mut self) -> Outcome<Claim> {
        let mut hash = [0; 32];
        for part in hash.chunks_exact_mut(8) {
            part.copy_from_slice(&self.next().to_le_bytes());
        }
        let expiry = SystemClock.now().saturating_add(LIFETIME);
        Ok(Claim::round(
            RowKey { expiry, hash },
            self.epoch,
            Fingerprint::from_bytes(hash),
            self.account,
            Token::generate()?,
            Duration::from_secs(30),
        ))
    }

    // xorshift64*: what it draws must differ, and need not be secret.
    fn next(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

fn now() -> u64 {
    SystemClock.now().as_millis()
}

/// So many milliseconds from now.
pub(crate) fn in_millis(millis: i64) -> i64 {
    i64::try_from(now())
        .unwrap_or(i64::MAX)
        .saturating_add(millis)
}

/// When callers stop.
#[derive(Clone)]
pub(crate) enum Until {
    /// After so long.
    Elapsed(Duration),
    /// After so many claims of each.
    Claims(usize),
    /// When somebody says so.
    Told(Arc<AtomicBool>),
}

/// What callers measured.
pub(crate) struct Took {
    /// Of all claims, sorted.
    pub(crate) latencies: Vec<Duration>,
    pub(crate) elapsed: Duration,
}

impl Took {
    #[allow(clippy::cast_precision_loss, reason = "counts of claims")]
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }
}

/// Starts callers, each of which claims fresh rounds one after the other. Every claim must be `First`.
pub(crate) fn run(
    runtime: &Runtime,
    ledger: &Arc<SqliteLedger>,
    callers: u64,
    until: &Until,
) -> Outcome<Took> {
    runtime.block_on(async {
        let epoch = ledger.epoch().await?;
        let start = Instant::now();
        let tasks: Vec<_> = (0..callers)
            .map(|caller| {
                let (ledger, until) = (Arc::clone(ledger), until.clone());
                tokio::spawn(call(ledger, Draw::new(epoch, caller), start, until))
            })
            .collect();
        let mut latencies = Vec::new();
        for task in tasks {
            latencies.extend(task.await??);
        }
        let elapsed = start.elapsed();
        latencies.sort_unstable();
        Ok(Took { latencies, elapsed })
    })
}

async fn call(
    ledger: Arc<SqliteLedger>,
    mut draw: Draw,
    start: Instant,
    until: Until,
) -> Outcome<Vec<Duration>> {
    let mut took = Vec::new();
    loop {
        let over = match &until {
            Until::Elapsed(time) => start.elapsed() >= *time,
            Until::Claims(most) => took.len() >= *most,
            Until::Told(told) => told.load(Ordering::Relaxed),
        };
        if over {
            return Ok(took);
        }
        let claim = draw.claim()?;
        let began = Instant::now();
        let claimed = ledger.claim(claim).await?;
        took.push(began.elapsed());
        if claimed != Claimed::First {
            return Err(format!("a fresh round was told {claimed:?}").into());
        }
    }
}
