//! Where a server can be made to die, and what makes it.

use std::any::Any;
use std::collections::HashMap;
use std::process::abort;
use std::sync::Mutex;
use std::time::Duration;

use mrtr_ledger::{
    Claim, Claimed, Conclusion, Fingerprint, Found, Kept, Kind, Ledger, LedgerFuture, Note,
    Performed, Purged, RowKey, Rows, Settled, Settlement, Token, TransactionalLedger,
};
use mrtr_state::Epoch;

pub(crate) const BEFORE_ROUND_CLAIM: &str = "before the round's claim";
pub(crate) const AFTER_ROUND_CLAIM: &str = "after the round's claim";
pub(crate) const BEFORE_MEMO: &str = "before the memo";
pub(crate) const AFTER_MEMO: &str = "after the memo";
pub(crate) const BEFORE_STEP_CLAIM: &str = "before the step's claim";
pub(crate) const AFTER_STEP_CLAIM: &str = "after the step's claim";
pub(crate) const BEFORE_EFFECT: &str = "before the effect";
pub(crate) const AFTER_EFFECT: &str = "after the effect";
pub(crate) const BEFORE_TRANSACTION: &str = "before the step's transaction";
pub(crate) const BEFORE_COMMIT: &str = "before the step's commit";
pub(crate) const AFTER_TRANSACTION: &str = "after the step's transaction";
pub(crate) const BEFORE_STEP_SETTLING: &str = "before the step's settling";
pub(crate) const AFTER_STEP_SETTLING: &str = "after the step's settling";
pub(crate) const BEFORE_ROUND_SETTLING: &str = "before the round's settling";
/// What is left to do then is to answer.
pub(crate) const AFTER_ROUND_SETTLING: &str = "after the round's settling";

/// The point at which this process dies, if it is to die. By `abort`: no destructor runs, nothing is flushed.
#[derive(Clone, Debug)]
pub(crate) struct Fate(pub(crate) Option<String>);

impl Fate {
    pub(crate) fn at(&self, point: &str) {
        if self.0.as_deref() == Some(point) {
            abort();
        }
    }

    /// Dies before an operation, or when it has its answer and nobody else has.
    async fn around<T>(
        &self,
        what: &str,
        operation: LedgerFuture<'_, T>,
    ) -> Result<T, mrtr_ledger::LedgerError> {
        self.at(&format!("before {what}"));
        let answer = operation.await;
        self.at(&format!("after {what}"));
        answer
    }
}

/// A ledger whose process dies when it comes to a point. It changes nothing else.
#[derive(Debug)]
pub(crate) struct Fatal<L> {
    inner: L,
    fate: Fate,
    /// What was claimed here: a settling does not say of which kind its row is.
    claimed: Mutex<HashMap<RowKey, Kind>>,
}

impl<L> Fatal<L> {
    pub(crate) fn new(inner: L, fate: Fate) -> Self {
        Self {
            inner,
            fate,
            claimed: Mutex::default(),
        }
    }
}

impl<L: Ledger> Ledger for Fatal<L> {
    fn claim(&self, claim: Claim) -> LedgerFuture<'_, Claimed> {
        self.claimed.lock().unwrap().insert(claim.key, claim.kind);
        let what = match claim.kind {
            Kind::Round => "the round's claim",
            Kind::Step => "the step's claim",
            Kind::Note => panic!("notes are not claimed"),
        };
        Box::pin(self.fate.around(what, self.inner.claim(claim)))
    }

    fn settle(
        &self,
        key: RowKey,
        token: Token,
        settlement: Settlement,
    ) -> LedgerFuture<'_, Settled> {
        let what = match self.claimed.lock().unwrap()[&key] {
            Kind::Round => "the round's settling",
            _ => "the step's settling",
        };
        Box::pin(
            self.fate
                .around(what, self.inner.settle(key, token, settlement)),
        )
    }

    fn beat(&self, key: RowKey, token: Token, lease: Duration) -> LedgerFuture<'_, bool> {
        self.inner.beat(key, token, lease)
    }

    fn release(&self, key: RowKey, token: Token) -> LedgerFuture<'_, bool> {
        self.inner.release(key, token)
    }

    fn keep(&self, note: Note) -> LedgerFuture<'_, Kept> {
        Box::pin(self.fate.around("the memo", self.inner.keep(note)))
    }

    fn lookup(&self, kind: Kind, key: RowKey, fingerprint: Fingerprint) -> LedgerFuture<'_, Found> {
        self.inner.lookup(kind, key, fingerprint)
    }

    fn purge(&self) -> LedgerFuture<'_, Purged> {
        self.inner.purge()
    }

    fn epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.inner.epoch()
    }

    fn rotate_epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.inner.rotate_epoch()
    }

    fn rows(&self) -> LedgerFuture<'_, Rows> {
        self.inner.rows()
    }

    fn survives_restart(&self) -> bool {
        self.inner.survives_restart()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<L: TransactionalLedger> TransactionalLedger for Fatal<L> {
    type Tx<'t> = L::Tx<'t>;
    type Work<'t, O: Send + 'static> = L::Work<'t, O>;

    fn done<'t, O: Send + 'static>(outcome: O) -> Self::Work<'t, O> {
        L::done(outcome)
    }

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
        C: FnOnce(O) -> (Conclusion, R) + Send + 'static,
    {
        let fate = self.fate.clone();
        let conclude = move |outcome| {
            let conclusion = conclude(outcome);
            fate.at(BEFORE_COMMIT);
            conclusion
        };
        let performed = self.inner.perform(claim, effect, conclude);
        Box::pin(self.fate.around("the step's transaction", performed))
    }
}
