//! Effects in the ledger's own database.

use std::any::Any;
use std::fmt;

use crate::{Claim, Claimed, Ledger, LedgerFuture};

/// A ledger whose database can also hold the effect of a step, so that claim, effect and outcome are one transaction.
///
/// There is then no moment in which the effect has happened and its outcome is not known: a crash leaves all three or
/// none of them.
///
/// # For implementers
/// In one transaction: the claim is decided by the same rules as any other; if it is `First` a savepoint is set, the
/// effect runs, and its [`Conclusion`] is carried out; then all is committed, durably, before anything is answered.
/// Nothing that the effect does through its handle may end that transaction unnoticed. A future that is dropped may or
/// may not have taken effect; a transaction is never left open behind it.
pub trait TransactionalLedger: Ledger {
    /// What an effect writes with.
    type Tx<'t>;

    /// What an effect's closure returns: its outcome, where a database is used without waiting, or a boxed future of it.
    type Work<'t, O: Send + 'static>;

    /// The work of an effect that has nothing to do.
    fn done<'t, O: Send + 'static>(outcome: O) -> Self::Work<'t, O>;

    /// Claims a step, runs its effect and settles it in one transaction.
    ///
    /// `effect` runs if and only if the claim is `First`; `conclude` turns its outcome into what is to be committed and
    /// what is to be returned. Both run at most once. A step that comes out [`Performed::Ran`] with
    /// [`Conclusion::Commit`] or [`Conclusion::RollBack`] is settled like any other.
    ///
    /// # Errors
    /// No word: the transaction may have been committed, or may still be, or never will. [Ask](Self::ask) which.
    fn perform<O, R, F, C>(
        &self,
        claim: Claim,
        effect: F,
        conclude: C,
    ) -> LedgerFuture<'_, Performed<R>>
    where
        O: Send + 'static,
        R: Send + 'static,
        F: for<'t> FnOnce(&'t Self::Tx<'t>) -> Self::Work<'t, O> + Send + 'static,
        C: FnOnce(O) -> (Conclusion, R) + Send + 'static;

    /// Asks what came of a performance that got no word, by performing nothing under a **fresh** token, and waits for what is
    /// in flight: `First` says that it was not committed and never will be, `Settled` has the outcome. The step is left
    /// as it was. (A claim would ask the same, but a crash before its release would leave a step that nobody owns.)
    ///
    /// # Errors
    /// No word. Nothing is known.
    fn ask(&self, claim: Claim) -> LedgerFuture<'_, Claimed> {
        Box::pin(async move {
            let nothing = |()| (Conclusion::Release, ());
            let asked = self.perform(claim, |_| Self::done(()), nothing).await?;
            Ok(match asked {
                Performed::Not(claimed) => claimed,
                Performed::Ran(()) | Performed::Panicked(_) => Claimed::First,
            })
        })
    }
}

/// How a step that was performed in a transaction ends.
#[derive(Clone, PartialEq, Eq)]
pub enum Conclusion {
    /// What the effect wrote and this outcome are kept.
    Commit(Vec<u8>),
    /// What the effect wrote is taken back, and this outcome is kept: the step has failed, and does not run again.
    RollBack(Vec<u8>),
    /// What the effect wrote is taken back and nothing is kept: the step may run again.
    Release,
}

/// What came of a [`TransactionalLedger::perform`].
pub enum Performed<R> {
    /// The effect ran and its conclusion is durable.
    Ran(R),
    /// The claim was not `First`, and the effect did not run.
    Not(Claimed),
    /// The effect panicked, with this. What it wrote is taken back and the step is free.
    Panicked(Box<dyn Any + Send>),
}

// By hand: outcomes are what a tool answered.

impl fmt::Debug for Conclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commit(outcome) => write!(f, "Commit({} bytes)", outcome.len()),
            Self::RollBack(outcome) => write!(f, "RollBack({} bytes)", outcome.len()),
            Self::Release => f.write_str("Release"),
        }
    }
}

impl<R> fmt::Debug for Performed<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ran(_) => f.write_str("Ran(..)"),
            Self::Not(claimed) => write!(f, "Not({claimed:?})"),
            Self::Panicked(_) => f.write_str("Panicked(..)"),
        }
    }
}
