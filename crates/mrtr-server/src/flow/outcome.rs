//! How outcomes, and journals that are too large to be carried, are kept in the ledger.
//!
//! With the AEAD codec they are sealed under a purpose of each's own and bound to the row and fingerprint that they belong
//! to, so that a row copied over another does not open. With HMAC they are plain: the ledger is then as private as the
//! answers that the state carries.

use std::sync::Arc;

use mrtr_ledger::{Fingerprint, RowKey};
use mrtr_state::{Purpose, Sealer, StateCodec, Variant, WireState};

/// Seals and opens outcomes, or journals.
#[derive(Debug, Clone)]
pub(crate) struct Outcomes {
    sealer: Option<Arc<dyn Sealer>>,
}

/// A stored outcome that does not open: what happened is unknown.
#[derive(Debug)]
pub(crate) struct Unreadable;

impl Outcomes {
    pub(crate) fn new(codec: &dyn StateCodec, purpose: &Purpose) -> Self {
        let sealer = codec.sealer(purpose);
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

#[cfg(test)]
mod tests {
    use mrtr_state::{KeyRing, Nonce, Timestamp};
    use mrtr_state_aead::AeadCodec;
    use mrtr_state_hmac::HmacCodec;

    use super::*;

    fn row(nonce: u8, expiry: u64) -> RowKey {
        RowKey::round(
            "a",
            &Nonce::from_bytes([nonce; 16]),
            Timestamp::from_millis(expiry),
        )
    }

    #[test]
    fn a_sealed_outcome_opens_at_its_own_row_alone() {
        let codec = AeadCodec::new(KeyRing::generate().unwrap()).unwrap();
        let outcomes = Outcomes::new(&codec, &Purpose::STORED_OUTCOME);
        let (key, fingerprint) = (row(1, 5), Fingerprint::from_bytes([1; 32]));
        let stored = outcomes
            .seal(&key, &fingerprint, b"done: 4711")
            .expect("it seals");
        assert!(!String::from_utf8_lossy(&stored).contains("4711"));
        let open =
            |key: &RowKey, fingerprint| outcomes.open(key, &fingerprint, stored.clone()).ok();
        assert_eq!(open(&key, fingerprint).as_deref(), Some(&b"done: 4711"[..]));
        assert_eq!(open(&row(2, 5), fingerprint), None, "another round's row");
        assert_eq!(open(&row(1, 6), fingerprint), None, "another expiry");
        assert_eq!(
            open(&key, Fingerprint::from_bytes([2; 32])),
            None,
            "another retry"
        );
        let state = codec
            .sealer(&Purpose::REQUEST_STATE)
            .seal(b"done: 4711")
            .unwrap();
        assert!(
            outcomes
                .open(&key, &fingerprint, state.into_bytes())
                .is_err(),
            "a state"
        );
    }

    #[test]
    fn with_hmac_outcomes_are_plain() {
        let codec = HmacCodec::new(KeyRing::generate().unwrap()).unwrap();
        let (key, fingerprint) = (row(1, 5), Fingerprint::from_bytes([1; 32]));
        let stored =
            Outcomes::new(&codec, &Purpose::STORED_OUTCOME).seal(&key, &fingerprint, b"done");
        assert_eq!(stored.as_deref(), Some(&b"done"[..]));
    }
}
