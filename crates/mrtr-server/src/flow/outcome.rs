//! How outcomes are kept in the ledger.
//!
//! With the AEAD codec they are sealed under a purpose of their own and bound to the row and fingerprint that they belong
//! to, so that a row copied over another does not open. With HMAC they are plain: the ledger is then as private as the
//! answers that the state carries.

use std::sync::Arc;

use mrtr_ledger::{Fingerprint, RowKey};
use mrtr_state::{Purpose, Sealer, StateCodec, Variant, WireState};

/// Seals and opens outcomes.
#[derive(Debug, Clone)]
pub(crate) struct Outcomes {
    sealer: Option<Arc<dyn Sealer>>,
}

/// A stored outcome that does not open: what happened is unknown.
#[derive(Debug)]
pub(crate) struct Unreadable;

impl Outcomes {
    pub(crate) fn new(codec: &dyn StateCodec) -> Self {
        let sealer = codec.sealer(&Purpose::STORED_OUTCOME);
        Self {
            sealer: (sealer.variant() == Variant::Aead).then_some(sealer),
        }
    }

    pub(crate) fn seal(
        &self,
        key: &RowKey,
        fingerprint: &Fingerprint,
        outcome: &[u8],
    ) -> Option<Vec<u8>> {
        let Some(sealer) = &self.sealer else {
            return Some(outcome.to_vec());
        };
        let mut bound = place(key, fingerprint);
        bound.extend_from_slice(outcome);
        sealer.seal(&bound).ok().map(String::into_bytes)
    }

    pub(crate) fn open(
        &self,
        key: &RowKey,
        fingerprint: &Fingerprint,
        stored: Vec<u8>,
    ) -> Result<Vec<u8>, Unreadable> {
        let Some(sealer) = &self.sealer else {
            return Ok(stored);
        };
        let token = std::str::from_utf8(&stored).map_err(|_| Unreadable)?;
        let opened = sealer.open(WireState::new(token)).map_err(|_| Unreadable)?;
        opened
            .payload
            .strip_prefix(place(key, fingerprint).as_slice())
            .map(<[u8]>::to_vec)
            .ok_or(Unreadable)
    }
}

/// Where an outcome belongs; every part has a fixed length.
fn place(key: &RowKey, fingerprint: &Fingerprint) -> Vec<u8> {
    let mut place = Vec::with_capacity(72);
    place.extend_from_slice(&key.expiry.as_millis().to_be_bytes());
    place.extend_from_slice(&key.hash);
    place.extend_from_slice(fingerprint.as_bytes());
    place
}
