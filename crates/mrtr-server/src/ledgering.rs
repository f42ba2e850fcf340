//! Talking to a ledger that may not answer.
//!
//! Fail closed: a claim without an answer is repeated with the same token, which is safe, and then given up. A settling
//! without an answer is never given up: the owner keeps trying in the background, because the effect has happened.

use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::{Claim, Claimed, Ledger, LedgerError, RowKey, Settled, Settlement, Token};
use tokio_util::task::TaskTracker;

/// How often a claim is made before the caller is told that the ledger is unavailable.
const CLAIM_ATTEMPTS: u32 = 3;
/// Pause before the first repetition; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// How often a settling is repeated in the background: with the pauses capped at 30 s, about two hours.
const SETTLE_ATTEMPTS: u32 = 250;
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Claims; repeats an unanswered claim with its own token, which answers `First` again if it was granted.
pub(crate) async fn claim(ledger: &dyn Ledger, claim: Claim) -> Result<Claimed, LedgerError> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..CLAIM_ATTEMPTS {
        match ledger.claim(claim.clone()).await {
            Ok(claimed) => return Ok(claimed),
            Err(error) => {
                tracing::warn!(%error, "no word from the ledger on a claim; repeating it")
            }
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    let last = ledger.claim(claim).await;
    if let Err(error) = &last {
        tracing::error!(%error, "no word from the ledger on a claim; nothing was run");
    }
    last
}

/// Settles; without an answer the error is returned and the settling goes on in the background.
pub(crate) async fn settle(
    ledger: &Arc<dyn Ledger>,
    tasks: &TaskTracker,
    key: RowKey,
    token: Token,
    settlement: Settlement,
) -> Result<Settled, LedgerError> {
    let first = ledger.settle(key, token, settlement.clone()).await;
    if let Err(error) = &first {
        tracing::error!(%error, "no word from the ledger on a settling; the outcome is kept here and tried again");
        let ledger = Arc::clone(ledger);
        tasks.spawn(async move { keep_settling(ledger, key, token, settlement).await });
    }
    first
}

async fn keep_settling(ledger: Arc<dyn Ledger>, key: RowKey, token: Token, settlement: Settlement) {
    let mut pause = FIRST_PAUSE;
    for _ in 0..SETTLE_ATTEMPTS {
        tokio::time::sleep(pause).await;
        match ledger.settle(key, token, settlement.clone()).await {
            Ok(Settled::Stored) => return,
            Ok(Settled::Refused) => {
                tracing::error!("a late settling was refused: its row has been withdrawn");
                return;
            }
            Err(error) => tracing::warn!(%error, "still no word from the ledger on a settling"),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    tracing::error!("a settling was never taken by the ledger; its outcome stays unknown");
}
