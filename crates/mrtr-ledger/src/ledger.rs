//! The contract.

use std::any::Any;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mrtr_state::Epoch;

use crate::{
    Claim, Claimed, Fingerprint, Found, Kept, Kind, LedgerError, Note, Purged, RowKey, Rows,
    Settled, Settlement, Token,
};

/// What every operation of a [`Ledger`] returns. Boxed, so that a server can hold any ledger as `Arc<dyn Ledger>`.
pub type LedgerFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, LedgerError>> + Send + 'a>>;

/// Decides, for each round and step, who runs it, and keeps what came of it.
#[doc = include_str!("docs/contract.md")]
pub trait Ledger: Debug + Send + Sync + 'static {
    /// Asks to be the one that runs a round or step. Decided in one atomic step, durable before it is answered.
    ///
    /// # Errors
    /// No word. The claim may have been recorded: repeat it with the same token.
    fn claim(&self, claim: Claim) -> LedgerFuture<'_, Claimed>;

    /// Ends a run. Durable before it is answered; until then no response may leave.
    ///
    /// A row that is settled stays so: the first settlement stands, and the same one repeated is `Stored` again.
    ///
    /// # Errors
    /// No word. Repeat it.
    fn settle(
        &self,
        key: RowKey,
        token: Token,
        settlement: Settlement,
    ) -> LedgerFuture<'_, Settled>;

    /// Renews the owner's lease: it lasts until `lease` from now, or as long as it did if that is later.
    /// False: the token does not own the row unsettled any more, and its run must start no other step.
    ///
    /// # Errors
    /// No word. The lease may lapse.
    fn beat(&self, key: RowKey, token: Token, lease: Duration) -> LedgerFuture<'_, bool>;

    /// Gives a row back of which **nothing has run**: a round whose body has not started, a step that says that nothing
    /// was done. Only a claim with the same fingerprint may take it then. False: the token does not own the row.
    ///
    /// # Errors
    /// No word. Repeat it; otherwise the row stays owned and, its lease lapsed, is told as unknown.
    fn release(&self, key: RowKey, token: Token) -> LedgerFuture<'_, bool>;

    /// Writes a note, or says what stands there already. Decided in one atomic step, durable before it is answered.
    ///
    /// # Errors
    /// No word. It may have been written: repeat it.
    fn keep(&self, note: Note) -> LedgerFuture<'_, Kept>;

    /// Says what is known of a row without claiming it: of a note its value, as `Settled`; otherwise for late repeats of an expired state, and for an owner whose
    /// settlement was refused. Like a claim it compares the fingerprint first, and withdraws a lapsed round's token.
    ///
    /// # Errors
    /// No word.
    fn lookup(&self, kind: Kind, key: RowKey, fingerprint: Fingerprint) -> LedgerFuture<'_, Found>;

    /// Removes rows whose expiry plus retention has passed by the ledger's own clock and on which no lease runs, in
    /// bounded batches between which claims go on. Before a row goes, its kind's mark is at or above its expiry.
    ///
    /// # Errors
    /// No word. Some batches may have been removed.
    fn purge(&self) -> LedgerFuture<'_, Purged>;

    /// The epoch that flows opened now must carry.
    ///
    /// # Errors
    /// No word. No flow that uses the ledger may be opened.
    fn epoch(&self) -> LedgerFuture<'_, Epoch>;

    /// Draws a new epoch, and forgets the marks. Every flow that is open becomes `StaleEpoch`. To be done after a restore from
    /// a backup or a failover that may have lost rows, before any server connects; and when a clock that ran ahead has had
    /// rows removed that had not expired, so that their kind's mark now refuses whatever expires sooner.
    ///
    /// # Errors
    /// No word. The epoch may or may not have changed; rotate again.
    fn rotate_epoch(&self) -> LedgerFuture<'_, Epoch>;

    /// Counts rows, for operators and tests. It may take long on a large ledger.
    ///
    /// # Errors
    /// No word.
    fn rows(&self) -> LedgerFuture<'_, Rows>;

    /// Whether what was acknowledged is still there after the process, or the machine, has stopped.
    ///
    /// A server with configured keys refuses a ledger that forgets: its states outlive the ledger's memory of them.
    fn survives_restart(&self) -> bool;

    /// The ledger itself, for whoever knows its type: a [`TransactionalLedger`](crate::TransactionalLedger) is found again
    /// so behind a `dyn Ledger`. A ledger returns `self`; one that wraps another and changes nothing of what a claim
    /// means may return the other's.
    fn as_any(&self) -> &dyn Any;
}

impl<L: Ledger + ?Sized> Ledger for Arc<L> {
    fn claim(&self, claim: Claim) -> LedgerFuture<'_, Claimed> {
        (**self).claim(claim)
    }

    fn settle(
        &self,
        key: RowKey,
        token: Token,
        settlement: Settlement,
    ) -> LedgerFuture<'_, Settled> {
        (**self).settle(key, token, settlement)
    }

    fn beat(&self, key: RowKey, token: Token, lease: Duration) -> LedgerFuture<'_, bool> {
        (**self).beat(key, token, lease)
    }

    fn release(&self, key: RowKey, token: Token) -> LedgerFuture<'_, bool> {
        (**self).release(key, token)
    }

    fn keep(&self, note: Note) -> LedgerFuture<'_, Kept> {
        (**self).keep(note)
    }

    fn lookup(&self, kind: Kind, key: RowKey, fingerprint: Fingerprint) -> LedgerFuture<'_, Found> {
        (**self).lookup(kind, key, fingerprint)
    }

    fn purge(&self) -> LedgerFuture<'_, Purged> {
        (**self).purge()
    }

    fn epoch(&self) -> LedgerFuture<'_, Epoch> {
        (**self).epoch()
    }

    fn rotate_epoch(&self) -> LedgerFuture<'_, Epoch> {
        (**self).rotate_epoch()
    }

    fn rows(&self) -> LedgerFuture<'_, Rows> {
        (**self).rows()
    }

    fn survives_restart(&self) -> bool {
        (**self).survives_restart()
    }

    fn as_any(&self) -> &dyn Any {
        (**self).as_any()
    }
}
