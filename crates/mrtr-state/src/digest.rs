//! Digests: what a state is bound to.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::canonical::{DigestError, walk_json};
use crate::token::length_prefix;

/// A digest of the originating request: SHA-256 over its method, its target, and whatever else
/// of it a handler can see.
///
/// Two requests that a handler can tell apart never share one; two spellings of one request
/// (whitespace, order of members, escapes) do. See [`walk_json`] for the rules.
///
/// The digest is not keyed: of a request with few possibilities it tells which one it is. It
/// goes into a state as a keyed tag, and `Debug` does not print it.
///
/// ```
/// use mrtr_state::RequestDigest;
///
/// let digest = |arguments| {
///     let builder = RequestDigest::builder("tools/call", "transfer").json("arguments", arguments)?;
///     Ok::<_, mrtr_state::DigestError>(builder.absent("header x-tenant").finish())
/// };
/// let quoted = digest(r#"{"to":"acct-7","amount":100}"#)?;
/// assert_eq!(quoted, digest(r#"{ "amount": 100, "to": "acct\u002d7" }"#)?);
/// assert_ne!(quoted, digest(r#"{"to":"acct-7","amount":1000}"#)?);
/// # Ok::<(), mrtr_state::DigestError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestDigest([u8; 32]);

impl RequestDigest {
    /// Starts a digest with a method and a target: a tool's or prompt's name, a resource's URI.
    pub fn builder(method: &str, target: &str) -> DigestBuilder {
        let mut hasher = labelled(b"mrtr request digest 1");
        put(&mut hasher, method.as_bytes());
        put(&mut hasher, target.as_bytes());
        DigestBuilder { hasher }
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// A [`RequestDigest`] in the making. Parts count in their order.
#[must_use = "a digest needs `finish`"]
pub struct DigestBuilder {
    hasher: Sha256,
}

impl DigestBuilder {
    /// Adds a part that is JSON, by what it means and not by how it is spelt.
    ///
    /// # Errors
    ///
    /// [`DigestError`] where it is not JSON, repeats a member's name or nests too deep.
    pub fn json(mut self, label: &str, text: &str) -> Result<Self, DigestError> {
        self.part(b"j", label);
        walk_json(text, &mut |piece| self.hasher.update(piece))?;
        Ok(self)
    }

    /// Adds a part that might have been there and was not: other than `null`, and other than an
    /// empty value.
    pub fn absent(mut self, label: &str) -> Self {
        self.part(b"a", label);
        self
    }

    /// Adds a part byte by byte.
    pub fn bytes(mut self, label: &str, bytes: &[u8]) -> Self {
        self.part(b"b", label);
        put(&mut self.hasher, bytes);
        self
    }

    /// The digest.
    #[must_use]
    pub fn finish(self) -> RequestDigest {
        RequestDigest(self.hasher.finalize().into())
    }

    fn part(&mut self, tag: &[u8], label: &str) {
        self.hasher.update(tag);
        put(&mut self.hasher, label.as_bytes());
    }
}

/// A digest of one JSON text under a label: of a question that was put, or of answers.
///
/// The same rules as for [`RequestDigest`]. Different labels, unrelated digests.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct JsonDigest([u8; 32]);

impl JsonDigest {
    /// The digest of `text` under `label`.
    ///
    /// # Errors
    ///
    /// [`DigestError`] where it is not JSON, repeats a member's name or nests too deep.
    pub fn of(label: &str, text: &str) -> Result<JsonDigest, DigestError> {
        let mut hasher = labelled(b"mrtr json digest 1");
        put(&mut hasher, label.as_bytes());
        walk_json(text, &mut |piece| hasher.update(piece))?;
        Ok(JsonDigest(hasher.finalize().into()))
    }

    /// The digest with these bytes, as [`as_bytes`](JsonDigest::as_bytes) gave them.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> JsonDigest {
        JsonDigest(bytes)
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for RequestDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestDigest(..)")
    }
}

impl fmt::Debug for JsonDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JsonDigest(..)")
    }
}

impl fmt::Debug for DigestBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestBuilder(..)")
    }
}

fn labelled(label: &[u8]) -> Sha256 {
    let mut hasher = Sha256::new();
    put(&mut hasher, label);
    hasher
}

fn put(hasher: &mut Sha256, part: &[u8]) {
    hasher.update(length_prefix(part));
    hasher.update(part);
}
