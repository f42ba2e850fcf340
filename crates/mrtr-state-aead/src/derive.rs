//! From a configured key to the keys of one purpose.
//!
//! ```text
//! prk     = HKDF-SHA256-Extract(salt: "mrtr1", key)
//! a key   = HKDF-SHA256-Expand(prk, label, 32 bytes)
//! label   = version, variant, purpose's namespace, purpose's name, use      each length-prefixed
//! use     = "seal" | "tag principal" | "tag request"
//! kid     = fingerprint of the "seal" key
//! ```

use hkdf::HkdfExtract;
use hmac::{Hmac, KeyInit};
use mrtr_state::{Key, Purpose, Variant, token};
use sha2::Sha256;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

pub(crate) type HmacSha256 = Hmac<Sha256>;

// A keyed HMAC is a secret: its two inner states are as good as the key. Both are states of
// SHA-256, which are wiped when dropped only where `sha2` is built so.
const _: () = {
    const fn wiped_when_dropped<T: ZeroizeOnDrop>() {}
    wiped_when_dropped::<Sha256>();
};

/// Derives the keys of one purpose from one configured key.
pub(crate) struct Derivation<'a> {
    prk: hkdf::Hkdf<Sha256>,
    variant: Variant,
    purpose: &'a Purpose,
}

impl<'a> Derivation<'a> {
    pub(crate) fn new(key: &Key, variant: Variant, purpose: &'a Purpose) -> Self {
        let mut extract = HkdfExtract::<Sha256>::new(Some(token::VERSION.as_bytes()));
        extract.input_ikm(key.secret_bytes());
        let (mut bytes, prk) = extract.finalize();
        bytes.as_mut_slice().zeroize();
        Derivation {
            prk,
            variant,
            purpose,
        }
    }

    /// The key for one use.
    pub(crate) fn key(&self, usage: &str) -> Zeroizing<[u8; 32]> {
        let label = token::derivation_label(self.variant, self.purpose, usage);
        let mut key = Zeroizing::new([0; 32]);
        self.prk
            .expand(&label, &mut *key)
            .expect("HKDF-SHA256 gives up to 8160 bytes");
        key
    }

    /// The key for one use, ready to authenticate with.
    pub(crate) fn mac(&self, usage: &str) -> HmacSha256 {
        HmacSha256::new_from_slice(&*self.key(usage)).expect("HMAC takes keys of any length")
    }
}
