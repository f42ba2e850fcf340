//! The ledger that remembers nothing.

use std::any::Any;
use std::future::ready;
use std::time::Duration;

use mrtr_ledger::{
    Claim, Claimed, Fingerprint, Found, Kept, Kind, Ledger, LedgerFuture, Note, Purged, RowKey,
    Rows, Settled, Settlement, Token,
};
use mrtr_state::Epoch;

/// Takes the guard [`Ledger`](super::Guard::Ledger) off: everybody who claims is the **first**, and nothing is kept.
///
/// Settlements, beats and releases are acknowledged, and a lookup finds no run. Notes, the epoch, the counts, purging and
/// whether it lasts are the inner ledger's, so that a server takes it in that one's place. A step inside the ledger's own database
/// (`once_in`) is claimed there by the inner ledger, which knows nothing of its round: it is refused.
#[derive(Clone, Debug)]
pub struct AlwaysFirst<L>(L);

impl<L: Ledger> AlwaysFirst<L> {
    /// The ledger without the guard.
    #[must_use]
    pub const fn new(ledger: L) -> Self {
        AlwaysFirst(ledger)
    }
}

impl<L: Ledger> Ledger for AlwaysFirst<L> {
    fn claim(&self, _: Claim) -> LedgerFuture<'_, Claimed> {
        Box::pin(ready(Ok(Claimed::First)))
    }

    fn settle(&self, _: RowKey, _: Token, _: Settlement) -> LedgerFuture<'_, Settled> {
        Box::pin(ready(Ok(Settled::Stored)))
    }

    fn beat(&self, _: RowKey, _: Token, _: Duration) -> LedgerFuture<'_, bool> {
        Box::pin(ready(Ok(true)))
    }

    fn release(&self, _: RowKey, _: Token) -> LedgerFuture<'_, bool> {
        Box::pin(ready(Ok(true)))
    }

    fn keep(&self, note: Note) -> LedgerFuture<'_, Kept> {
        self.0.keep(note)
    }

    fn lookup(&self, kind: Kind, key: RowKey, fingerprint: Fingerprint) -> LedgerFuture<'_, Found> {
        match kind {
            Kind::Round | Kind::Step => Box::pin(ready(Ok(Found::Absent))),
            Kind::Note => self.0.lookup(kind, key, fingerprint),
        }
    }

    fn purge(&self) -> LedgerFuture<'_, Purged> {
        self.0.purge()
    }

    fn epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.0.epoch()
    }

    fn rotate_epoch(&self) -> LedgerFuture<'_, Epoch> {
        self.0.rotate_epoch()
    }

    fn rows(&self) -> LedgerFuture<'_, Rows> {
        self.0.rows()
    }

    fn survives_restart(&self) -> bool {
        self.0.survives_restart()
    }

    // A handler that acts in the inner ledger's database finds it, and the server starts.
    fn as_any(&self) -> &dyn Any {
        self.0.as_any()
    }
}
