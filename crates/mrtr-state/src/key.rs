//! Keys and the ring they hang on.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::random::{RandomError, random};

/// A secret of 32 bytes or more, from which codecs derive their keys.
///
/// Make one with `openssl rand -base64 32` and read it from a secret store. The bytes are wiped
/// when the key is dropped, and `Debug` does not show them. What the type cannot see is whether
/// the bytes are random: a passphrase of 32 letters passes, and is weak.
///
/// ```
/// use mrtr_state::Key;
///
/// assert!(Key::from_base64("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").is_ok());
/// assert!(Key::from_bytes(b"too short").is_err());
/// ```
#[derive(Clone)]
pub struct Key(Zeroizing<Vec<u8>>);

/// A key was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Fewer than 32 bytes.
    #[error("a key needs at least {} bytes, this one has {len}", Key::MIN_LEN)]
    TooShort {
        /// How many there were.
        len: usize,
    },
    /// Every byte is the same.
    #[error("every byte of the key is the same: draw 32 random bytes")]
    Uniform,
    /// The text of a hexadecimal number where its bytes were meant.
    #[error("the key's bytes are hexadecimal text: decode it with `Key::from_hex`")]
    HexText,
    /// Not hexadecimal.
    #[error("the key is not hexadecimal: pairs of the digits 0-9, a-f, A-F")]
    NotHex,
    /// Not base64.
    #[error("the key is not base64, nor base64url, with or without padding")]
    NotBase64,
    /// The ring holds the key already, or one that cannot be told from it.
    #[error("the same key is in the ring twice")]
    Duplicate,
}

impl Key {
    /// The least number of bytes: the output size of SHA-256, under which HMAC loses strength
    /// (RFC 2104, section 3).
    pub const MIN_LEN: usize = 32;

    /// A key from its bytes.
    ///
    /// # Errors
    ///
    /// [`KeyError`] for fewer than [`MIN_LEN`](Key::MIN_LEN) bytes, for bytes that are all the
    /// same, and for hexadecimal text, which holds half of what its length suggests.
    pub fn from_bytes(bytes: &[u8]) -> Result<Key, KeyError> {
        if bytes.len() < Key::MIN_LEN {
            return Err(KeyError::TooShort { len: bytes.len() });
        }
        if bytes.windows(2).all(|pair| pair.first() == pair.last()) {
            return Err(KeyError::Uniform);
        }
        // Random bytes are all hexadecimal digits with probability (22/256)^32.
        if bytes.iter().all(u8::is_ascii_hexdigit) {
            return Err(KeyError::HexText);
        }
        Ok(Key(Zeroizing::new(bytes.to_vec())))
    }

    /// A key from hexadecimal text: pairs of digits and nothing else.
    ///
    /// # Errors
    ///
    /// [`KeyError::NotHex`], and those of [`from_bytes`](Key::from_bytes).
    pub fn from_hex(text: &str) -> Result<Key, KeyError> {
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if !rest.is_empty() {
            return Err(KeyError::NotHex);
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(pairs.len()));
        for &[high, low] in pairs {
            let digit = |c: u8| {
                char::from(c)
                    .to_digit(16)
                    .and_then(|d| u8::try_from(d).ok())
            };
            match (digit(high), digit(low)) {
                (Some(high), Some(low)) => bytes.push(high << 4 | low),
                _ => return Err(KeyError::NotHex),
            }
        }
        Key::from_bytes(&bytes)
    }

    /// A key from base64 or base64url text, with or without padding.
    ///
    /// # Errors
    ///
    /// [`KeyError::NotBase64`], and those of [`from_bytes`](Key::from_bytes).
    pub fn from_base64(text: &str) -> Result<Key, KeyError> {
        [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD]
            .into_iter()
            .find_map(|engine| engine.decode(text).ok())
            .map(Zeroizing::new)
            .ok_or(KeyError::NotBase64)
            .and_then(|bytes| Key::from_bytes(&bytes))
    }

    /// Thirty-two random bytes.
    ///
    /// # Errors
    ///
    /// [`RandomError`] where the operating system gives none.
    pub fn generate() -> Result<Key, RandomError> {
        let bytes = Zeroizing::new(random::<32>()?);
        Ok(Key(Zeroizing::new(bytes.to_vec())))
    }

    /// The secret bytes, for codecs to derive keys from and for nothing else.
    #[must_use]
    pub fn secret_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The keys of a server: the first seals, all open.
///
/// A key is rotated in three phases, each rolled out to every server before the next begins:
///
/// 1. the new key is added: `KeyRing::new(old).and_opens(new)?`. All can open what it will seal;
/// 2. the new key is put first: `KeyRing::new(new).and_opens(old)?`. It seals from now on;
/// 3. the old key is taken away, once the longest flow and the retention of outcomes have
///    passed since phase two was complete.
///
/// ```
/// use mrtr_state::{Key, KeyRing};
///
/// let (old, new) = (Key::generate()?, Key::generate()?);
/// let ring = KeyRing::new(new).and_opens(old.clone())?;
/// assert_eq!(format!("{ring:?}"), "KeyRing(2 keys)");
/// assert!(ring.and_opens(old).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct KeyRing {
    seals: Key,
    also_opens: Vec<Key>,
    lasting: bool,
}

impl KeyRing {
    /// A ring of one configured key.
    #[must_use]
    pub const fn new(key: Key) -> KeyRing {
        KeyRing {
            seals: key,
            also_opens: Vec::new(),
            lasting: true,
        }
    }

    /// The ring with one more key that opens but does not seal.
    ///
    /// # Errors
    ///
    /// [`KeyError::Duplicate`] where the ring has that key already.
    pub fn and_opens(mut self, key: Key) -> Result<KeyRing, KeyError> {
        if self
            .keys()
            .any(|present| bool::from(present.0.ct_eq(&key.0)))
        {
            return Err(KeyError::Duplicate);
        }
        self.also_opens.push(key);
        Ok(self)
    }

    /// A ring of one fresh random key. What it sealed is lost when the process ends: no other
    /// server opens it, nor this one after a restart.
    ///
    /// # Errors
    ///
    /// [`RandomError`] where the operating system gives no random bytes.
    pub fn generate() -> Result<KeyRing, RandomError> {
        Ok(KeyRing {
            lasting: false,
            ..KeyRing::new(Key::generate()?)
        })
    }

    /// Whether the keys were configured, and so outlive the process.
    #[must_use]
    pub const fn is_lasting(&self) -> bool {
        self.lasting
    }

    /// The keys, the one that seals first.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.seals).chain(&self.also_opens)
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = 1 + self.also_opens.len();
        write!(f, "KeyRing({keys} key{})", if keys == 1 { "" } else { "s" })
    }
}

#[cfg(test)]
mod tests;
