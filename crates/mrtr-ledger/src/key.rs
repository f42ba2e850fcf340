//! What a row is named by, who owns it, and what it is compared with.

use std::fmt;

use mrtr_state::{FlowId, Nonce, Principal, RandomError, RequestDigest, Timestamp};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The kinds of row. They never share one, and each has a purge mark of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// One sealed state: it is good for one answer.
    Round,
    /// One effect of a flow: it happens at most once, in whichever round it is reached.
    Step,
    /// A value that is written once and belongs to no run: a memo of a call that may [run again](crate::Claim::run_again), or
    /// a journal that is too large to be carried.
    Note,
}

/// Names a row: when it expires, and a hash.
///
/// The expiry comes first because ledgers keep rows in this order: inserts append, and what has expired is one range.
/// Both parts must be the same bytes each time the same round or step is claimed, so they come from the sealed state
/// and never from a clock.
///
/// The hash is not a secret (a round's cannot be turned back into its nonce), but it names a flow, so `Debug` prints
/// its first bytes only.
///
/// ```
/// use mrtr_ledger::RowKey;
/// use mrtr_state::{FlowId, Timestamp};
///
/// let flow = FlowId::from_bytes([7; 16]);
/// let ends = Timestamp::from_millis(3_600_000);
/// let charge = RowKey::step("https://pay.example/mcp", &flow, "charge", ends);
/// assert_eq!(charge, RowKey::step("https://pay.example/mcp", &flow, "charge", ends));
/// assert_ne!(charge, RowKey::step("https://pay.example/mcp", &flow, "refund", ends));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// From this moment on nothing may take the row: `now < expiry` is the rule.
    pub expiry: Timestamp,
    /// SHA-256 over a label, the audience and length-prefixed parts.
    pub hash: [u8; 32],
}

impl RowKey {
    /// The row of a sealed state: its nonce, and the expiry that was sealed with it.
    #[must_use]
    pub fn round(audience: &str, nonce: &Nonce, exp: Timestamp) -> Self {
        let hash = hash(
            b"mrtr ledger round v1",
            &[audience.as_bytes(), nonce.as_bytes()],
        );
        Self { expiry: exp, hash }
    }

    /// The row of a step: the flow, the step's name, and the sealed end of the flow, which is the same in every round.
    #[must_use]
    pub fn step(audience: &str, flow: &FlowId, step: &str, flow_exp: Timestamp) -> Self {
        let parts = [
            audience.as_bytes(),
            flow.as_bytes().as_slice(),
            step.as_bytes(),
        ];
        Self {
            expiry: flow_exp,
            hash: hash(b"mrtr ledger step v1", &parts),
        }
    }

    /// The row of a memo, which a flow has once, like a step. Memos and steps of one name do not share a row.
    #[must_use]
    pub fn memo(audience: &str, flow: &FlowId, memo: &str, flow_exp: Timestamp) -> Self {
        let parts = [
            audience.as_bytes(),
            flow.as_bytes().as_slice(),
            memo.as_bytes(),
        ];
        Self {
            expiry: flow_exp,
            hash: hash(b"mrtr ledger memo v1", &parts),
        }
    }

    /// The row of a journal that is too large to be carried: one for each sealed state, like a round.
    #[must_use]
    pub fn journal(audience: &str, nonce: &Nonce, exp: Timestamp) -> Self {
        let hash = hash(
            b"mrtr ledger journal v1",
            &[audience.as_bytes(), nonce.as_bytes()],
        );
        Self { expiry: exp, hash }
    }
}

impl fmt::Debug for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.hash;
        write!(
            f,
            "RowKey({} {a:02x}{b:02x}{c:02x}{d:02x}..)",
            self.expiry.as_millis()
        )
    }
}

/// Says who owns a row. The caller draws it before it claims, so that a claim whose answer was lost can be made again.
///
/// Whoever holds the token may settle the row, so it never prints and compares in constant time.
#[derive(Clone, Copy)]
pub struct Token([u8; 16]);

impl Token {
    /// Draws a token from the operating system's generator. One for each run of a body or step, never reused.
    ///
    /// # Errors
    /// The generator failed. Nothing may be claimed then.
    pub fn generate() -> Result<Self, RandomError> {
        Ok(Self(mrtr_state::random()?))
    }

    /// For ledgers that read it back from storage.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// For ledgers that store it.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Token {}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// A row and the token under which it was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The row.
    pub key: RowKey,
    /// The token that claimed it.
    pub token: Token,
}

/// What a retry must match to be the same retry. Compared before anything else is told.
///
/// It is keyed with something that only the sealed state holds (a round's nonce, a flow's secret), so a stolen ledger
/// file does not let anyone confirm a guess at the arguments or answers.
#[derive(Clone, Copy)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// A round's: principal, request, and the answers to the questions that were open (a digest of the same walk as the
    /// request's), keyed with the nonce. The same state with another answer is another fingerprint.
    #[must_use]
    pub fn round(
        nonce: &Nonce,
        principal: &Principal,
        request: &RequestDigest,
        answers: &[u8; 32],
    ) -> Self {
        let principal = principal.canonical_bytes();
        let parts = [
            nonce.as_bytes().as_slice(),
            &principal,
            request.as_bytes(),
            answers,
        ];
        Self(hash(b"mrtr ledger round fingerprint v1", &parts))
    }

    /// A step's: principal, request and step, keyed with the flow's secret. Answers are not part of it: a step is the
    /// same step in every round and every fork of its flow.
    #[must_use]
    pub fn step(secret: &[u8], principal: &Principal, request: &RequestDigest, step: &str) -> Self {
        let principal = principal.canonical_bytes();
        let parts = [secret, &principal, request.as_bytes(), step.as_bytes()];
        Self(hash(b"mrtr ledger step fingerprint v1", &parts))
    }

    /// A memo's: as a step's.
    #[must_use]
    pub fn memo(secret: &[u8], principal: &Principal, request: &RequestDigest, memo: &str) -> Self {
        let principal = principal.canonical_bytes();
        let parts = [secret, &principal, request.as_bytes(), memo.as_bytes()];
        Self(hash(b"mrtr ledger memo fingerprint v1", &parts))
    }

    /// A journal's: principal and request, keyed with the nonce. There are no answers yet when it is written.
    #[must_use]
    pub fn journal(nonce: &Nonce, principal: &Principal, request: &RequestDigest) -> Self {
        let principal = principal.canonical_bytes();
        let parts = [nonce.as_bytes().as_slice(), &principal, request.as_bytes()];
        Self(hash(b"mrtr ledger journal fingerprint v1", &parts))
    }

    /// For ledgers that read it back from storage.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// For ledgers that store it.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for Fingerprint {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Fingerprint {}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(..)")
    }
}

/// Whose rows and bytes a claim counts towards: a hash of the principal, or of the address of an anonymous caller.
///
/// It is a plain hash. Someone who holds the ledger's file can test whether a principal that they can name is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Account([u8; 32]);

impl Account {
    /// The account of a principal. All anonymous callers share one; prefer [`Account::anonymous_at`] for them.
    #[must_use]
    pub fn of(principal: &Principal) -> Self {
        Self(hash(
            b"mrtr ledger account v1",
            &[&principal.canonical_bytes()],
        ))
    }

    /// The account of anonymous callers at one network address, as the server writes addresses.
    #[must_use]
    pub fn anonymous_at(address: &str) -> Self {
        Self(hash(
            b"mrtr ledger anonymous account v1",
            &[address.as_bytes()],
        ))
    }

    /// For ledgers that read it back from storage.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// For ledgers that store it.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Label and parts are length-prefixed, so that no two lists of parts are the same bytes.
fn hash(label: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in std::iter::once(&label).chain(parts) {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests;
