//! No word from the ledger.

use mrtr_state::RandomError;

/// The ledger gave no answer. It never means "allowed": **no word, no effect**.
///
/// What was asked may or may not have happened. A claim or a settlement is repeated with the same token, which is safe;
/// a claim that stays without an answer is refused to the caller (retryably), and a settlement is tried again for as
/// long as the process lives.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// Another process held the storage for longer than this ledger waits.
    #[error(
        "the ledger is busy: its storage was locked for longer than the ledger waits; try again"
    )]
    Busy,
    /// The storage has no room. Free some; the ledger needs no restart.
    #[error("the ledger's storage is full; free some space and try again")]
    StorageFull,
    /// The storage does not take writes.
    #[error("the ledger's storage is read-only; make it writable and try again")]
    ReadOnly,
    /// The storage is damaged, or not a ledger.
    #[error(
        "the ledger's storage is damaged or is not a ledger; restore it, then rotate the epoch"
    )]
    Corrupt,
    /// The storage is not where it was, or another one took its place.
    #[error("the ledger's storage vanished or was replaced; put it back, or start with a new one")]
    Vanished,
    /// The ledger has shut down.
    #[error("the ledger has shut down")]
    Closed,
    /// The operating system's generator failed.
    #[error("no random bytes for the ledger")]
    Random(#[from] RandomError),
    /// Anything else; the source says what.
    #[error("the ledger is unavailable")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl LedgerError {
    /// Whether asking again cannot help: the ledger has shut down.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Closed)
    }
}
