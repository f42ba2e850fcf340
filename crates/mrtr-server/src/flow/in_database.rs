//! Steps whose effect is in the ledger's own database.
//!
//! ```text
//! perform ── Ran ──────▶ claim, effect and outcome are committed, or the failed effect is taken back and its error kept
//!   ├─ Not(Settled) ───▶ return the kept outcome; nothing ran
//!   ├─ Not(anything) ──▶ ends the call; nothing ran
//!   ├─ Panicked ───────▶ taken back, the step is free; the body panics
//!   └─ no word ────────▶ ask: `First` says that nothing happened, `Settled` has the outcome
//! ```
//!
//! There is no time at which the effect has happened and its outcome is not known, and so nothing to beat for and nothing that
//! is told as unknown after a crash.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::future::pending;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::resume_unwind;
use std::sync::Arc;

use mrtr_ledger::{Claim, Claimed, Conclusion, Ledger, Performed, Token, TransactionalLedger};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::cell::{FlowCell, Key, Namespace};
use super::durable::{Durable, LARGEST_STEP_OUTCOME, StepOutcome, StepRow};
use super::end::{End, Name};
use super::outcome::Outcomes;
use super::{DurableFlow, read_outcome, there_and_back};
use crate::error::ToolError;
use crate::{ledgering, metrics};

/// A [`DurableFlow`] that can also act inside its ledger's own database: `L` is the ledger that the builder was given. An
/// extractor; needs a codec, and that ledger.
///
/// ```
/// use mrtr_ledger_sqlite::SqliteLedger;
/// use mrtr_server::{FlowIn, ToolError};
///
/// async fn book(flow: FlowIn<SqliteLedger>) -> Result<String, ToolError> {
///     // ask first, and then:
///     let seat: i64 = flow
///         .once_in("book", |db| {
///             db.execute("INSERT INTO bookings DEFAULT VALUES", [])?;
///             Ok::<_, mrtr_ledger_sqlite::rusqlite::Error>(db.last_insert_rowid())
///         })
///         .await?;
///     Ok(format!("Seat {seat} is yours."))
/// }
/// ```
pub struct FlowIn<L> {
    flow: DurableFlow,
    ledger: PhantomData<fn() -> L>,
}

impl<L: TransactionalLedger> FlowIn<L> {
    pub(crate) fn new(cell: Arc<FlowCell>) -> Self {
        Self {
            flow: DurableFlow::new(cell),
            ledger: PhantomData,
        }
    }

    /// Runs an effect in the transaction of its step: what it writes, and that it happened, are there together or not at all.
    ///
    /// As [`once`](DurableFlow::once) it happens at most once in this flow and returns its outcome on every rerun. Beyond that, a
    /// crash at any moment leaves nothing in doubt: the step is settled with what was written, or free.
    ///
    /// `effect` gets the ledger's transaction (of a SQLite ledger the connection, inside one) and runs where the ledger
    /// runs it: it owns what it takes along, and what it may do there is in the ledger's documentation. It must be short, for it
    /// holds locks. An error takes back what it wrote and is kept as the step's outcome, unless it says that nothing was done
    /// ([`ToolError::not_done`]), which frees the step. A value that is larger than 64 KiB as JSON, or does not survive the
    /// way through JSON and back, takes the effect back and ends the call.
    ///
    /// **Not guaranteed:**
    /// * anything about what `effect` does elsewhere. A mail that it sends is sent, whatever becomes of the transaction, and is
    ///   sent again if it panics afterwards: that frees the step;
    /// * that the *call* ends well: its round is settled after the step, and a crash between the two is told as unknown unless
    ///   the handler may [run again](crate::Tool::run_again);
    /// * anything across flows, as for `once`;
    /// * an answer when a `timeout` or `select!` around it drops it half-way: the transaction goes on, and the call ends.
    ///
    /// # Errors
    ///
    /// The effect's own error, now or as it was kept. What the ledger cannot deliver ends the call instead.
    ///
    /// # Panics
    ///
    /// When the effect does, and when it is polled outside the handler that owns the flow.
    pub async fn once_in<T, E, F>(
        &self,
        step: impl Into<Cow<'static, str>>,
        effect: F,
    ) -> Result<T, ToolError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Into<ToolError> + Send + 'static,
        F: for<'t> FnOnce(&'t L::Tx<'t>) -> L::Work<'t, Result<T, E>> + Send + 'static,
    {
        let step: Key = step.into();
        let cell = &self.flow.cell;
        cell.in_own_polls("once_in", &step, self.acted_in(&step, effect))
            .await
    }

    async fn acted_in<T, E, F>(&self, step: &Key, effect: F) -> Result<T, ToolError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        E: Into<ToolError> + Send + 'static,
        F: for<'t> FnOnce(&'t L::Tx<'t>) -> L::Work<'t, Result<T, E>> + Send + 'static,
    {
        let cell = &self.flow.cell;
        let taken = cell.take_key(Namespace::Step, "once_in", step);
        let Some(durable) = cell.durable.as_ref().filter(|_| taken) else {
            return pending().await;
        };
        let busy = cell.busy();
        let row = durable.row(step);
        let read = |outcome| read_outcome("once_in", step, outcome);
        let acted = match durable.claim_of(&row).await {
            Err(before) => before.and_then(read),
            Ok(claim) => {
                let mut under_way = UnderWay {
                    cell,
                    row: &row,
                    over: false,
                };
                let fate = perform::<L, T, E, F>(durable, &row, claim, effect).await;
                under_way.over = true;
                match fate {
                    Fate::Came(outcome) => Ok(outcome),
                    Fate::Not(claimed) => durable.before(&row, claimed).await.and_then(read),
                    Fate::Ended(end) => Err(end),
                    Fate::Panicked(payload) => resume_unwind(payload),
                }
            }
        };
        drop(busy);
        match acted {
            Ok(outcome) => outcome,
            Err(end) => {
                cell.end(end);
                pending().await
            }
        }
    }
}

/// What became of a performance.
enum Fate<T> {
    /// It is committed: with the effect, or with the error that took the effect back.
    Came(Result<T, ToolError>),
    /// The effect did not run here, and this is what the ledger says of the step.
    Not(Claimed),
    /// Nothing was committed.
    Ended(End),
    Panicked(Box<dyn Any + Send>),
}

/// Performs the step in a task of its own: whoever stops waiting does not stop it.
async fn perform<L, T, E, F>(durable: &Durable, row: &StepRow, claim: Claim, effect: F) -> Fate<T>
where
    L: TransactionalLedger,
    T: Serialize + DeserializeOwned + Send + 'static,
    E: Into<ToolError> + Send + 'static,
    F: for<'t> FnOnce(&'t L::Tx<'t>) -> L::Work<'t, Result<T, E>> + Send + 'static,
{
    let step = row.step.as_str();
    tracing::info!(step, "a step is performed in the ledger's database");
    let ledger = Arc::clone(&durable.ledger);
    let (outcomes, kept_row) = (durable.outcomes.clone(), row.clone());
    let performed = durable.tasks.spawn(async move {
        let Some(database) = ledger.as_any().downcast_ref::<L>() else {
            // The builder has seen to it. A wrapper that answers `as_any` now in this way and now in that is not a ledger.
            return Fate::Ended(End::LedgerUnavailable);
        };
        let anew = claim.clone();
        let conclude = move |outcome: Result<T, E>| conclude(outcome, &outcomes, &kept_row);
        let start = Instant::now();
        let performed = database.perform(claim, effect, conclude).await;
        metrics::performed(&performed, start.elapsed());
        match performed {
            Ok(Performed::Ran(fate)) => fate,
            Ok(Performed::Not(claimed)) => Fate::Not(claimed),
            Ok(Performed::Panicked(payload)) => Fate::Panicked(payload),
            Err(error) => {
                tracing::warn!(%error, "no word from the ledger on a step that was performed; asking what came of it");
                match asked(database, anew).await {
                    // It was not committed and never will be.
                    Some(Claimed::First) => Fate::Ended(End::LedgerUnavailable),
                    Some(claimed) => Fate::Not(claimed),
                    None => Fate::Ended(End::StepUnheard),
                }
            }
        }
    });
    let fate = performed.await.unwrap_or(Fate::Ended(End::StepUnheard));
    match &fate {
        Fate::Came(outcome) => {
            durable.note(&Claimed::First);
            if !outcome.as_ref().is_err_and(ToolError::says_not_done) {
                durable.steps.take(step);
            }
        }
        Fate::Not(claimed) => durable.note(claimed),
        Fate::Ended(_) | Fate::Panicked(_) => {}
    }
    fate
}

/// Asks what came of a performance without a word. The answer waits for a commit that is in flight.
async fn asked<L: TransactionalLedger>(database: &L, claim: Claim) -> Option<Claimed> {
    let mut claim = claim;
    claim.token = Token::generate().ok()?;
    ledgering::insist("ask", || database.ask(claim.clone()))
        .await
        .ok()
}

/// What is committed for an outcome, and what it is to the handler.
fn conclude<T, E>(
    outcome: Result<T, E>,
    outcomes: &Outcomes,
    row: &StepRow,
) -> (Conclusion, Fate<T>)
where
    T: Serialize + DeserializeOwned,
    E: Into<ToolError>,
{
    let (kept, came) = match outcome {
        Ok(value) => match there_and_back(&value) {
            Ok((raw, same)) => (StepOutcome::Ok(raw), Ok(same)),
            Err(error) => {
                let name = Name {
                    what: "once_in",
                    key: row.step.clone(),
                };
                let end = End::Value { name, error };
                return (Conclusion::Release, Fate::Ended(end));
            }
        },
        Err(error) => {
            let error: ToolError = error.into();
            if error.says_not_done() {
                return (Conclusion::Release, Fate::Came(Err(error)));
            }
            let error = error.logged(&row.step);
            (StepOutcome::Err(error.public().to_owned()), Err(error))
        }
    };
    let text = serde_json::to_vec(&kept).unwrap_or_default();
    if text.is_empty() || text.len() > LARGEST_STEP_OUTCOME {
        let end = End::StepTooLarge {
            step: row.step.clone(),
            bytes: text.len(),
        };
        return (Conclusion::Release, Fate::Ended(end));
    }
    let Some(sealed) = outcomes.seal(&row.key, &row.fingerprint, &text) else {
        return (Conclusion::Release, Fate::Ended(End::LedgerUnavailable));
    };
    let conclusion = match &came {
        Ok(_) => Conclusion::Commit(sealed),
        Err(_) => Conclusion::RollBack(sealed),
    };
    (conclusion, Fate::Came(came))
}

/// A step that is being performed. Who drops the waiting for it cannot say any more what the call came to.
struct UnderWay<'f> {
    cell: &'f FlowCell,
    row: &'f StepRow,
    over: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.over && !std::thread::panicking() {
            let step = self.row.step.as_str();
            tracing::error!(
                step,
                "the waiting for a step was dropped (a timeout or select! around `once_in`); the transaction goes on, and the call ends"
            );
            self.cell.end(End::StepUnheard);
        }
    }
}

impl<L> Deref for FlowIn<L> {
    type Target = DurableFlow;

    fn deref(&self) -> &DurableFlow {
        &self.flow
    }
}

impl<L> fmt::Debug for FlowIn<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowIn").finish_non_exhaustive()
    }
}

/// Whether this is the ledger whose database `FlowIn<L>` acts in.
pub(crate) fn is<L: TransactionalLedger>(ledger: &dyn Ledger) -> bool {
    ledger.as_any().is::<L>()
}
