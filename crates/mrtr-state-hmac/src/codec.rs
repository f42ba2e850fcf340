//! The codec.
//!
//! ```text
//! mrtr1.h.<kid>.<claims>.<tag>
//!
//! kid     8 bytes     fingerprint of the derived key, an index into the ring
//! claims  any length  the payload, as it is
//! tag     32 bytes    HMAC-SHA256 over "mrtr1", "h", kid, claims, each length-prefixed
//! ```
//!
//! Segments are base64url without padding in their canonical spelling. Lengths are eight bytes,
//! big-endian, and count the decoded bytes.

use std::fmt;
use std::sync::Arc;

use hmac::Mac;
use mrtr_state::{
    Key, KeyError, KeyRing, Kid, Opened, Purpose, Reason, SealError, Sealer, Slot, StateCodec, Tag,
    Variant, WireState, token,
};

use crate::derive::{Derivation, HmacSha256};

const VARIANT: Variant = Variant::Hmac;

/// Bytes of the tag: the whole of HMAC-SHA256, never a part of it.
const TAG_LEN: usize = 32;

/// Seals with HMAC-SHA256.
///
/// **Everything inside is readable** by whoever holds the token: decode the fourth segment and
/// there it is. What is guaranteed is that nobody without a key of the ring can make a token or
/// change one. For data that the holder must not see, take `mrtr-state-aead`.
///
/// ```
/// use mrtr_state::{KeyRing, Purpose, StateCodec, WireState, token};
/// use mrtr_state_hmac::HmacCodec;
///
/// let sealer = HmacCodec::new(KeyRing::generate()?)?.sealer(&Purpose::application("demo"));
/// let sealed = sealer.seal(b"seat 12A")?;
///
/// let segment = sealed.split('.').nth(3).unwrap();
/// assert_eq!(token::decode(segment).unwrap(), b"seat 12A"); // no key needed
///
/// assert_eq!(sealer.open(WireState::new(&sealed)).unwrap().payload, b"seat 12A");
/// let forged = sealed.replace(segment, &token::encode(b"seat 1A"));
/// assert!(sealer.open(WireState::new(&forged)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HmacCodec {
    ring: KeyRing,
}

impl HmacCodec {
    /// A codec with these keys: the first seals, all open.
    ///
    /// # Errors
    ///
    /// [`KeyError::Duplicate`] where two keys have one fingerprint for a built-in purpose. For
    /// different keys that is a chance of 1 in 2^64 a pair. (For an application's own purpose
    /// the same chance is not looked at: the later of the two keys would open nothing.)
    pub fn new(ring: KeyRing) -> Result<HmacCodec, KeyError> {
        for purpose in Purpose::BUILT_IN {
            distinct(
                HmacSealer::new(&ring, &purpose)
                    .ring
                    .iter()
                    .map(|keys| keys.kid),
            )?;
        }
        Ok(HmacCodec { ring })
    }
}

impl StateCodec for HmacCodec {
    fn sealer(&self, purpose: &Purpose) -> Arc<dyn Sealer> {
        Arc::new(HmacSealer::new(&self.ring, purpose))
    }

    fn keys_are_lasting(&self) -> bool {
        self.ring.is_lasting()
    }
}

/// The keys of one purpose, the one that seals first.
struct HmacSealer {
    kid: Kid,
    ring: Vec<Keys>,
}

/// What is derived from one configured key for one purpose.
struct Keys {
    kid: Kid,
    /// Has been fed what every tag covers beside the claims: version, variant, kid.
    seal: HmacSha256,
    principal: HmacSha256,
    request: HmacSha256,
}

impl Keys {
    fn new(key: &Key, purpose: &Purpose) -> Keys {
        let derivation = Derivation::new(key, VARIANT, purpose);
        let kid = Kid::of(&*derivation.key("seal"));
        let mut seal = derivation.mac("seal");
        seal.update(&token::associated_data(VARIANT, kid));
        Keys {
            kid,
            seal,
            principal: derivation.mac(Slot::Principal.usage()),
            request: derivation.mac(Slot::Request.usage()),
        }
    }

    /// The authenticator of a token with this payload, not yet finished.
    fn over(&self, payload: &[u8]) -> HmacSha256 {
        self.seal
            .clone()
            .chain_update(token::length_prefix(payload))
            .chain_update(payload)
    }
}

impl HmacSealer {
    fn new(ring: &KeyRing, purpose: &Purpose) -> HmacSealer {
        let ring: Vec<Keys> = ring.keys().map(|key| Keys::new(key, purpose)).collect();
        let kid = ring.first().expect("a ring has a first key").kid;
        HmacSealer { kid, ring }
    }

    fn keys(&self, kid: Kid) -> Option<&Keys> {
        self.ring.iter().find(|keys| keys.kid == kid)
    }
}

impl Sealer for HmacSealer {
    fn variant(&self) -> Variant {
        VARIANT
    }

    fn kid(&self) -> Kid {
        self.kid
    }

    fn seal(&self, payload: &[u8]) -> Result<String, SealError> {
        let keys = self.keys(self.kid).ok_or(SealError::Codec)?;
        let tag = keys.over(payload).finalize().into_bytes();
        let mut token = token::start(VARIANT, self.kid, payload.len() + TAG_LEN);
        token::push_segment(&mut token, payload);
        token::push_segment(&mut token, &tag);
        Ok(token)
    }

    fn open(&self, token: WireState<'_>) -> Result<Opened, Reason> {
        let (kid, [payload, tag]) = token::split(token, VARIANT)?;
        let payload = token::decode(payload).ok_or(Reason::Malformed)?;
        let tag = token::decode_array::<TAG_LEN>(tag).ok_or(Reason::Malformed)?;
        let keys = self.keys(kid).ok_or(Reason::BadSignature)?;
        match keys.over(&payload).verify_slice(&tag) {
            Ok(()) => Ok(Opened { payload, kid }),
            Err(_) => Err(Reason::BadSignature),
        }
    }

    fn tag(&self, kid: Kid, slot: Slot, message: &[u8]) -> Option<Tag> {
        let keys = self.keys(kid)?;
        let mac = match slot {
            Slot::Principal => &keys.principal,
            Slot::Request => &keys.request,
            // A slot that this version does not know has no key.
            _ => return None,
        };
        let whole: [u8; TAG_LEN] = mac
            .clone()
            .chain_update(message)
            .finalize()
            .into_bytes()
            .into();
        whole.first_chunk().copied().map(Tag::from_bytes)
    }
}

/// Refuses a ring in which a kid does not name one key.
fn distinct(kids: impl Iterator<Item = Kid>) -> Result<(), KeyError> {
    let mut kids: Vec<Kid> = kids.collect();
    kids.sort_unstable();
    match kids.windows(2).any(|pair| pair.first() == pair.last()) {
        true => Err(KeyError::Duplicate),
        false => Ok(()),
    }
}

impl fmt::Debug for HmacCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HmacCodec")
            .field("ring", &self.ring)
            .finish()
    }
}

impl fmt::Debug for HmacSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HmacSealer")
            .field("kid", &self.kid)
            .field("keys", &self.ring.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_kids_in_a_ring_are_refused() {
        let kid = |n| Kid::from_bytes([n; 8]);
        assert_eq!(distinct([kid(1), kid(2), kid(3)].into_iter()), Ok(()));
        assert_eq!(
            distinct([kid(1), kid(2), kid(1)].into_iter()),
            Err(KeyError::Duplicate)
        );
    }

    fn ring(firsts: &[u8]) -> KeyRing {
        let key = |first: u8| Key::from_bytes(&(first..first + 32).collect::<Vec<u8>>()).unwrap();
        let (first, more) = firsts.split_first().unwrap();
        more.iter().fold(KeyRing::new(key(*first)), |ring, first| {
            ring.and_opens(key(*first)).unwrap()
        })
    }

    /// Whoever tried one key of the ring after the other would find one that opens these.
    #[test]
    fn case_030_the_kid_alone_says_which_key_is_tried() {
        let bytes: Vec<u8> = (0..32).collect();
        let sealer = HmacSealer::new(&ring(&[0, 32, 64]), &Purpose::REQUEST_STATE);
        let signed = |kid: Kid, of: &[u8], payload: &[u8]| {
            let key = Key::from_bytes(of).unwrap();
            let mac = Derivation::new(&key, VARIANT, &Purpose::REQUEST_STATE).mac("seal");
            let tag = mac
                .chain_update(token::associated_data(VARIANT, kid))
                .chain_update(token::length_prefix(payload))
                .chain_update(payload)
                .finalize()
                .into_bytes();
            let mut token = token::start(VARIANT, kid, payload.len() + TAG_LEN);
            token::push_segment(&mut token, payload);
            token::push_segment(&mut token, &tag);
            token
        };
        let open = |token: &str| sealer.open(WireState::new(token)).map(|opened| opened.kid);
        let own = sealer.kid;
        assert_eq!(open(&signed(own, &bytes, b"{}")), Ok(own), "the good path");
        for keys in sealer.ring.iter().skip(1) {
            let token = signed(keys.kid, &bytes, b"{}");
            assert_eq!(open(&token), Err(Reason::BadSignature));
        }
        let unknown = signed(Kid::from_bytes([9; 8]), &bytes, b"{}");
        assert_eq!(open(&unknown), Err(Reason::BadSignature));
    }
}
