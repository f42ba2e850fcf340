//! What an algorithm crate implements.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::purpose::{Purpose, Variant};
use crate::random::RandomError;
use crate::reason::Reason;
use crate::token::length_prefix;

/// An algorithm with its key ring.
///
/// # Contract for implementers
///
/// * [`sealer`](StateCodec::sealer) derives unrelated keys for different purposes.
/// * Keys are wiped when dropped, and never shown by `Debug`.
/// * The implementation passes [`codec_suite!`](crate::codec_suite).
pub trait StateCodec: fmt::Debug + Send + Sync + 'static {
    /// The keys for one purpose. Derivation costs some hashing: call it once and keep the
    /// result.
    fn sealer(&self, purpose: &Purpose) -> Arc<dyn Sealer>;

    /// Whether the keys were configured and so outlive the process (`true`), or were drawn at
    /// its start (`false`).
    fn keys_are_lasting(&self) -> bool;
}

impl<C: StateCodec + ?Sized> StateCodec for Arc<C> {
    fn sealer(&self, purpose: &Purpose) -> Arc<dyn Sealer> {
        (**self).sealer(purpose)
    }

    fn keys_are_lasting(&self) -> bool {
        (**self).keys_are_lasting()
    }
}

/// One purpose's keys of a [`StateCodec`]: seals with the ring's first, opens with all.
///
/// # Contract for implementers
///
/// * [`open`](Sealer::open) looks up the kid, makes exactly one attempt to authenticate the
///   whole token and interprets nothing of the payload before that holds. It never panics,
///   whatever the token.
/// * One payload, one spelling: no other string opens to what [`seal`](Sealer::seal) returned.
/// * Comparisons of secret-dependent bytes take constant time.
/// * [`tag`](Sealer::tag) uses a key of its own for each slot.
pub trait Sealer: fmt::Debug + Send + Sync + 'static {
    /// The variant of this sealer's tokens, and the only one it opens.
    fn variant(&self) -> Variant;

    /// The key that seals.
    fn kid(&self) -> Kid;

    /// Seals `payload`, whatever it holds and however long it is.
    ///
    /// # Errors
    ///
    /// [`SealError`] where the operating system gives no randomness or the algorithm refuses
    /// the payload.
    fn seal(&self, payload: &[u8]) -> Result<String, SealError>;

    /// Opens a token.
    ///
    /// # Errors
    ///
    /// [`Reason::Malformed`] where the string has not this variant's shape,
    /// [`Reason::BadSignature`] where its key is unknown or the seal does not hold.
    fn open(&self, token: WireState<'_>) -> Result<Opened, Reason>;

    /// A keyed tag of `message` under the sub-key of `kid` for `slot`; `None` where `kid` is
    /// not in the ring. Whoever lacks the key can neither compute it nor test a guess with it.
    fn tag(&self, kid: Kid, slot: Slot, message: &[u8]) -> Option<Tag>;
}

/// What a keyed tag is about. Each slot has a sub-key of its own, so that a tag of one is never
/// taken for a tag of another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Slot {
    /// The principal.
    Principal,
    /// The originating request.
    Request,
}

impl Slot {
    /// All slots.
    pub const ALL: [Slot; 2] = [Slot::Principal, Slot::Request];

    /// The name of the sub-key's use, for [`token::derivation_label`](crate::token::derivation_label).
    #[must_use]
    pub const fn usage(self) -> &'static str {
        match self {
            Slot::Principal => "tag principal",
            Slot::Request => "tag request",
        }
    }
}

/// A payload whose seal held, and the key under which it did.
pub struct Opened {
    /// What was sealed.
    pub payload: Vec<u8>,
    /// The key that opened it.
    pub kid: Kid,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("payload_len", &self.payload.len())
            .field("kid", &self.kid)
            .finish()
    }
}

/// An untrusted string from the wire that claims to be a token. `Debug` prints its length only.
#[derive(Clone, Copy)]
pub struct WireState<'a>(&'a str);

impl<'a> WireState<'a> {
    /// Marks a string as untrusted.
    #[must_use]
    pub const fn new(text: &'a str) -> Self {
        WireState(text)
    }

    /// The string as it came.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}

impl fmt::Debug for WireState<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WireState({} bytes)", self.0.len())
    }
}

/// A fingerprint of a derived key: an index into a fixed ring, and nothing else.
///
/// It says which key a token names, never that the token is genuine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kid([u8; 8]);

impl Kid {
    /// The fingerprint of `derived_key`: the first eight bytes of SHA-256 over a label and the
    /// key, each length-prefixed. For a key of full entropy it tells nothing about the key.
    #[must_use]
    pub fn of(derived_key: &[u8]) -> Kid {
        let label = b"mrtr kid 1";
        let hash: [u8; 32] = Sha256::new()
            .chain_update(length_prefix(label))
            .chain_update(label)
            .chain_update(length_prefix(derived_key))
            .chain_update(derived_key)
            .finalize()
            .into();
        let [a, b, c, d, e, f, g, h, ..] = hash;
        Kid([a, b, c, d, e, f, g, h])
    }

    /// The kid with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 8]) -> Kid {
        Kid(bytes)
    }

    /// The eight bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

impl fmt::Debug for Kid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kid({})", crate::token::encode(&self.0))
    }
}

/// A keyed tag of 128 bits. Compares in constant time; `Debug` prints nothing of it.
#[derive(Clone, Copy)]
pub struct Tag([u8; 16]);

impl Tag {
    /// The tag with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Tag {
        Tag(bytes)
    }

    /// The sixteen bytes. Compare tags with `==` on [`Tag`], not on these.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl PartialEq for Tag {
    fn eq(&self, other: &Tag) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Tag {}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tag(..)")
    }
}

/// A state cannot be sealed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The operating system gave no randomness.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// The token would be longer than the limit, and nobody could redeem it.
    #[error(
        "the sealed state would be {len} bytes long and the limit is {limit}: keep less in the state, or raise the limit"
    )]
    TooLarge {
        /// Bytes of the token, were it sealed.
        len: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// It would have expired before it exists, or would outlive its flow.
    #[error("the lifetime is empty: a state must expire after it is issued and not after its flow")]
    Lifetime,
    /// The algorithm refuses the payload.
    #[error("the codec cannot seal this payload")]
    Codec,
}
