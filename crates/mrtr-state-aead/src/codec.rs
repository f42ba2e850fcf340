//! The codec.
//!
//! ```text
//! mrtr1.x.<kid>.<nonce ciphertext tag>
//!
//! kid         8 bytes     fingerprint of the derived key, an index into the ring
//! nonce       24 bytes    random
//! ciphertext  any length  XChaCha20 of the payload, as long as that
//! tag         16 bytes    Poly1305; associated data: "mrtr1", "x", kid, each length-prefixed
//! ```
//!
//! Segments are base64url without padding in their canonical spelling. Lengths are eight bytes,
//! big-endian, and count the decoded bytes.

use std::fmt;
use std::sync::Arc;

use chacha20poly1305::{AeadInOut, KeyInit, XChaCha20Poly1305, XNonce};
use hmac::Mac;
use mrtr_state::{
    Key, KeyError, KeyRing, Kid, Opened, Purpose, Reason, SealError, Sealer, Slot, StateCodec, Tag,
    Variant, WireState, random, token,
};
use zeroize::ZeroizeOnDrop;

use crate::derive::{Derivation, HmacSha256};

const VARIANT: Variant = Variant::Aead;
const NONCE_LEN: usize = 24;
const TAG_LEN: usize = 16;

const _: () = {
    const fn wiped_when_dropped<T: ZeroizeOnDrop>() {}
    wiped_when_dropped::<XChaCha20Poly1305>();
};

/// Seals with XChaCha20-Poly1305: whoever lacks the key can neither read a token, nor make one,
/// nor change one.
///
/// Not hidden: a token's length (and so, about, its payload's), which key sealed it, and whether
/// two tokens are the same one. Nonces are random; 24 bytes make a repetition out of reach for
/// any number of tokens that a key can seal.
///
/// ```
/// use mrtr_state::{KeyRing, Purpose, StateCodec, WireState};
/// use mrtr_state_aead::AeadCodec;
///
/// let sealer = AeadCodec::new(KeyRing::generate()?)?.sealer(&Purpose::application("demo"));
/// let sealed = sealer.seal(b"seat 12A")?;
/// assert_eq!(sealer.open(WireState::new(&sealed)).unwrap().payload, b"seat 12A");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AeadCodec {
    ring: KeyRing,
}

impl AeadCodec {
    /// A codec with these keys: the first seals, all open.
    ///
    /// # Errors
    ///
    /// [`KeyError::Duplicate`] where two keys have one fingerprint for a built-in purpose. For
    /// different keys that is a chance of 1 in 2^64 a pair. (For an application's own purpose
    /// the same chance is not looked at: the later of the two keys would open nothing.)
    pub fn new(ring: KeyRing) -> Result<AeadCodec, KeyError> {
        for purpose in Purpose::BUILT_IN {
            distinct(
                AeadSealer::new(&ring, &purpose)
                    .ring
                    .iter()
                    .map(|keys| keys.kid),
            )?;
        }
        Ok(AeadCodec { ring })
    }
}

impl StateCodec for AeadCodec {
    fn sealer(&self, purpose: &Purpose) -> Arc<dyn Sealer> {
        Arc::new(AeadSealer::new(&self.ring, purpose))
    }

    fn keys_are_lasting(&self) -> bool {
        self.ring.is_lasting()
    }
}

/// The keys of one purpose, the one that seals first.
struct AeadSealer {
    kid: Kid,
    ring: Vec<Keys>,
}

/// What is derived from one configured key for one purpose.
struct Keys {
    kid: Kid,
    seal: XChaCha20Poly1305,
    /// Version, variant and kid.
    associated_data: Vec<u8>,
    principal: HmacSha256,
    request: HmacSha256,
}

impl Keys {
    fn new(key: &Key, purpose: &Purpose) -> Keys {
        let derivation = Derivation::new(key, VARIANT, purpose);
        let seal = derivation.key("seal");
        let kid = Kid::of(&*seal);
        Keys {
            kid,
            seal: XChaCha20Poly1305::new_from_slice(&*seal).expect("the key has 32 bytes"),
            associated_data: token::associated_data(VARIANT, kid),
            principal: derivation.mac(Slot::Principal.usage()),
            request: derivation.mac(Slot::Request.usage()),
        }
    }
}

impl AeadSealer {
    fn new(ring: &KeyRing, purpose: &Purpose) -> AeadSealer {
        let ring: Vec<Keys> = ring.keys().map(|key| Keys::new(key, purpose)).collect();
        let kid = ring.first().expect("a ring has a first key").kid;
        AeadSealer { kid, ring }
    }

    fn keys(&self, kid: Kid) -> Option<&Keys> {
        self.ring.iter().find(|keys| keys.kid == kid)
    }

    /// Seals under a nonce that the caller vouches for: a nonce used twice gives both payloads
    /// away. Apart from [`Sealer::seal`] so that golden vectors can fix it.
    fn seal_with(&self, nonce: [u8; NONCE_LEN], payload: &[u8]) -> Result<String, SealError> {
        let keys = self.keys(self.kid).ok_or(SealError::Codec)?;
        let mut sealed = Vec::with_capacity(NONCE_LEN + payload.len() + TAG_LEN);
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(payload);
        let (_, text) = sealed.split_at_mut(NONCE_LEN);
        let tag = keys
            .seal
            .encrypt_inout_detached(&XNonce::from(nonce), &keys.associated_data, text.into())
            .map_err(|_| SealError::Codec)?;
        sealed.extend_from_slice(&tag);

        let mut token = token::start(VARIANT, self.kid, sealed.len());
        token::push_segment(&mut token, &sealed);
        Ok(token)
    }
}

impl Sealer for AeadSealer {
    fn variant(&self) -> Variant {
        VARIANT
    }

    fn kid(&self) -> Kid {
        self.kid
    }

    fn seal(&self, payload: &[u8]) -> Result<String, SealError> {
        self.seal_with(random()?, payload)
    }

    fn open(&self, token: WireState<'_>) -> Result<Opened, Reason> {
        let (kid, [sealed]) = token::split(token, VARIANT)?;
        let mut sealed = token::decode(sealed).ok_or(Reason::Malformed)?;
        let (nonce, rest) = sealed
            .split_first_chunk_mut::<NONCE_LEN>()
            .ok_or(Reason::Malformed)?;
        let (text, tag) = rest
            .split_last_chunk_mut::<TAG_LEN>()
            .ok_or(Reason::Malformed)?;
        let keys = self.keys(kid).ok_or(Reason::BadSignature)?;
        keys.seal
            .decrypt_inout_detached(
                &XNonce::from(*nonce),
                &keys.associated_data,
                text.into(),
                &(*tag).into(),
            )
            .map_err(|_| Reason::BadSignature)?;

        sealed.truncate(sealed.len() - TAG_LEN);
        sealed.drain(..NONCE_LEN);
        Ok(Opened {
            payload: sealed,
            kid,
        })
    }

    fn tag(&self, kid: Kid, slot: Slot, message: &[u8]) -> Option<Tag> {
        let keys = self.keys(kid)?;
        let mac = match slot {
            Slot::Principal => &keys.principal,
            Slot::Request => &keys.request,
            // A slot that this version does not know has no key.
            _ => return None,
        };
        let whole: [u8; 32] = mac
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

impl fmt::Debug for AeadCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AeadCodec")
            .field("ring", &self.ring)
            .finish()
    }
}

impl fmt::Debug for AeadSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AeadSealer")
            .field("kid", &self.kid)
            .field("keys", &self.ring.len())
            .finish()
    }
}

#[cfg(test)]
mod tests;
