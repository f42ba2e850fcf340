//! Talking to a ledger that may not answer.
//!
//! Fail closed: a claim without an answer is repeated with the same token, which is safe, and then given up; nothing runs.
//! What has to be written down is written by tasks that go on while the process lives: a settling, because the effect has
//! happened, and a release, because the same retry could not claim again otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mrtr_ledger::{
    Claim, Claimed, Fingerprint, Found, Kept, Kind, Ledger, LedgerError, LedgerFuture, Note,
    RowKey, Settled, Settlement, Token,
};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::metrics;

/// How often a ledger is asked before the caller is told that it is unavailable.
const ATTEMPTS: u32 = 3;
/// Pause before the first repetition; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Pauses that grow.
struct Pauses(Duration);

impl Pauses {
    fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    async fn pause(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
    }
}

/// Claims; repeats an unanswered claim with its own token, which answers `First` again if it was granted. One that was granted without
/// a word and is refused when it is repeated (the time is over by now, say) is given back first: nothing has run.
pub(crate) async fn claim(
    ledger: &Arc<dyn Ledger>,
    tasks: &TaskTracker,
    claim: Claim,
) -> Result<Claimed, LedgerError> {
    let attempts = AtomicU32::new(0);
    let claimed = insist("claim", || {
        attempts.fetch_add(1, Ordering::Relaxed);
        ledger.claim(claim.clone())
    })
    .await;
    metrics::claimed(claim.kind, &claimed);
    let claimed = claimed?;
    if claimed != Claimed::First && attempts.into_inner() > 1 {
        drop(release(ledger, tasks, claim.key, claim.token).await);
    }
    Ok(claimed)
}

/// Writes a note; one that was written without a word is found there by the repetition.
pub(crate) async fn keep(ledger: &Arc<dyn Ledger>, note: Note) -> Result<Kept, LedgerError> {
    let kept = insist("keep", || ledger.keep(note.clone())).await;
    metrics::kept(&kept);
    kept
}

/// Looks a row up.
pub(crate) async fn look_up(
    ledger: &Arc<dyn Ledger>,
    kind: Kind,
    key: RowKey,
    fingerprint: Fingerprint,
) -> Result<Found, LedgerError> {
    insist("look_up", || ledger.lookup(kind, key, fingerprint)).await
}

/// Asks until there is an answer, and gives up after a few times.
pub(crate) async fn insist<'l, T>(
    what: &'static str,
    operation: impl Fn() -> LedgerFuture<'l, T>,
) -> Result<T, LedgerError> {
    let mut pauses = Pauses::new();
    let mut attempt = 1;
    loop {
        let start = Instant::now();
        let answer = operation().await;
        metrics::took(what, start.elapsed());
        match answer {
            Ok(answer) => return Ok(answer),
            Err(error) if error.is_final() || attempt == ATTEMPTS => {
                tracing::error!(%error, operation = what, "no word from the ledger; nothing is run");
                return Err(error);
            }
            Err(error) => {
                tracing::warn!(%error, operation = what, "no word from the ledger; asking again");
            }
        }
        attempt += 1;
        pauses.pause().await;
    }
}

/// Settles; without an answer the error is returned and the settling goes on in the background.
pub(crate) async fn settle(
    ledger: &Arc<dyn Ledger>,
    tasks: &TaskTracker,
    key: RowKey,
    token: Token,
    settlement: Settlement,
) -> Result<Settled, LedgerError> {
    let start = Instant::now();
    let first = ledger.settle(key, token, settlement.clone()).await;
    metrics::took("settle", start.elapsed());
    metrics::settled(&first);
    match &first {
        Ok(_) => {}
        Err(error) if error.is_final() => {
            tracing::error!(%error, "a settling was not taken; its outcome stays unknown");
        }
        Err(error) => {
            tracing::error!(%error, "no word from the ledger on a settling; it is tried again until it is taken");
            let ledger = Arc::clone(ledger);
            tasks.spawn(async move { keep_settling(&ledger, key, token, settlement).await });
        }
    }
    first
}

async fn keep_settling(
    ledger: &Arc<dyn Ledger>,
    key: RowKey,
    token: Token,
    settlement: Settlement,
) {
    let mut pauses = Pauses::new();
    loop {
        pauses.pause().await;
        let settled = ledger.settle(key, token, settlement.clone()).await;
        metrics::settled(&settled);
        match settled {
            Ok(Settled::Stored) => return,
            Ok(Settled::Refused) => {
                tracing::error!("a late settling was refused: its row has been withdrawn");
                return;
            }
            Err(error) if error.is_final() => {
                tracing::error!(%error, "a settling was never taken; its outcome stays unknown");
                return;
            }
            Err(error) => tracing::warn!(%error, "still no word from the ledger on a settling"),
        }
    }
}

/// Gives back a row of which nothing has run; without an answer the error is returned and the releasing goes on in the
/// background.
pub(crate) async fn release(
    ledger: &Arc<dyn Ledger>,
    tasks: &TaskTracker,
    key: RowKey,
    token: Token,
) -> Result<(), LedgerError> {
    let first = ledger.release(key, token).await.map(drop);
    if first.is_err() {
        let ledger = Arc::clone(ledger);
        tasks.spawn(async move { keep_releasing(&ledger, key, token).await });
    }
    first
}

/// Gives back a row of which nothing has run, until the ledger has taken it. To a row that was never claimed, or is not
/// this token's any more, nothing happens.
pub(crate) async fn keep_releasing(ledger: &Arc<dyn Ledger>, key: RowKey, token: Token) {
    let mut pauses = Pauses::new();
    loop {
        match ledger.release(key, token).await {
            Ok(_) => return,
            Err(error) if error.is_final() => return,
            Err(error) => {
                tracing::warn!(%error, "no word from the ledger on a release; repeating it")
            }
        }
        pauses.pause().await;
    }
}
