//! Journals that are too large to be carried: kept in the ledger, under a key that only the sealed state holds.
//!
//! ```text
//! sealed state    nonce, exp, principal, request, ..    data: {"kept": SHA-256 of the journal}
//!                    │                                                     │
//! note            RowKey::journal(nonce, exp) ─────── the journal, sealed with AEAD or plain with HMAC
//! ```
//!
//! A note is written before its state leaves, and read after everything that the state says of itself holds. The digest ties
//! the two together whatever the codec is: what stands in the ledger is believed only if it is what was written.

use mrtr_ledger::{Fingerprint, Found, Kept, Kind, Note, RowKey};
use mrtr_protocol::Object;
use mrtr_state::{Nonce, Principal, Reason, RequestDigest, Timestamp, to_raw_value};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::encoding::Base64;
use crate::flow::durable::Durable;
use crate::flow::end::End;
use crate::flow::journal::Journal;
use crate::flow::outcome::Outcomes;
use crate::ledgering;
use crate::server::Inner;

/// What a state carries in a journal's place. A journal has members of other names, so neither is taken for the other.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct InItsPlace {
    kept: Base64<32>,
}

/// What stands in the state of a journal that is kept elsewhere.
pub(super) fn in_place_of(journal: &RawValue) -> Option<Box<RawValue>> {
    let kept = digest(journal.get().as_bytes());
    to_raw_value(&InItsPlace { kept }).ok()
}

fn digest(journal: &[u8]) -> Base64<32> {
    Base64(Sha256::digest(journal).into())
}

/// Which state a journal belongs to.
pub(super) struct Place<'a> {
    pub(super) nonce: Nonce,
    pub(super) exp: Timestamp,
    pub(super) principal: &'a Principal,
    pub(super) request: &'a RequestDigest,
}

impl Place<'_> {
    fn row(&self, audience: &str) -> (RowKey, Fingerprint) {
        (
            RowKey::journal(audience, &self.nonce, self.exp),
            Fingerprint::journal(&self.nonce, self.principal, self.request),
        )
    }
}

/// Writes a journal down, durably. `admitted`: something of this call has taken effect, so that it is not refused for want of room.
pub(super) async fn keep(
    durable: &Durable,
    journals: &Outcomes,
    place: &Place<'_>,
    journal: &RawValue,
    admitted: bool,
) -> Result<(), End> {
    let (key, fingerprint) = place.row(&durable.audience);
    let Some(value) = journals.seal(&key, &fingerprint, journal.get().as_bytes()) else {
        tracing::error!("a journal cannot be sealed for the ledger");
        return Err(End::NotKept);
    };
    let (epoch, account) = (durable.epoch, durable.account);
    let mut note = Note::new(key, epoch, fingerprint, account, value);
    note.checks_limits = !admitted;
    // A round has been admitted as a whole.
    if let Some(round) = durable.round {
        note = note.under(round);
    }
    match ledgering::keep(&durable.ledger, note.clone()).await {
        Ok(Kept::Stored) => Ok(()),
        // It was written without a word, and is found there by the repetition.
        Ok(Kept::Before(value)) if value == note.value => Ok(()),
        Ok(Kept::StaleOwner) => Err(End::RoundWithdrawn),
        Ok(Kept::StaleEpoch) => Err(End::StaleEpoch),
        Ok(Kept::Expired) => {
            tracing::error!(
                "by the ledger's clock a state has expired before it was put; set the clocks"
            );
            Err(End::FlowExpired)
        }
        Ok(Kept::Full) | Err(_) => Err(End::NotKept),
        Ok(kept) => {
            tracing::error!(?kept, "a journal's row is taken by something else");
            Err(End::NotKept)
        }
    }
}

/// Why a state's journal cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    /// It is not what it must be.
    Reason(Reason),
    /// The ledger gave no word.
    NoWord,
}

/// The journal of a state that holds in every other way, out of the state itself or out of the ledger.
pub(super) async fn read(
    inner: &Inner,
    place: &Place<'_>,
    data: &RawValue,
) -> Result<Journal, Unread> {
    let malformed = Unread::Reason(Reason::Malformed);
    let Ok(Object(InItsPlace { kept })) = serde_json::from_str(data.get()) else {
        return Journal::read(data).ok_or(malformed);
    };
    // Whoever sealed it had a ledger; this server has another configuration.
    let durability = inner.durability.as_ref().ok_or(malformed)?;
    let (key, fingerprint) = place.row(&durability.audience);
    let found = ledgering::look_up(&durability.ledger, Kind::Note, key, fingerprint).await;
    let not_kept = |why: &str| {
        tracing::error!(why, "a state's journal cannot be had");
        Unread::Reason(Reason::NotKept)
    };
    let stored = match found {
        Ok(Found::Settled(stored)) => stored,
        Ok(Found::Absent) => {
            return Err(not_kept(
                "it is not in the ledger: rows were lost, or the ledger's clock is ahead and it was purged",
            ));
        }
        Ok(_) => return Err(not_kept("its row belongs to something else")),
        Err(_) => return Err(Unread::NoWord),
    };
    let journal = durability
        .journals
        .open(&key, &fingerprint, stored)
        .map_err(|_| not_kept("it does not open; its key may have left the ring"))?;
    if digest(&journal) != kept {
        return Err(not_kept("it was changed in the ledger"));
    }
    let journal = serde_json::from_slice::<Box<RawValue>>(&journal);
    journal
        .ok()
        .and_then(|journal| Journal::read(&journal))
        .ok_or(malformed)
}
