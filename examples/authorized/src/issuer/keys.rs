//! The keys that tokens are signed with: ES256, made at start.

use std::fmt;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

/// The newest last.
pub(super) struct Keys(Vec<SigningKey>);

struct SigningKey {
    kid: String,
    key: EncodingKey,
    /// The point, as it is published.
    x: String,
    y: String,
}

impl Keys {
    pub(super) fn generate() -> Option<Self> {
        Some(Self(vec![SigningKey::generate()?]))
    }

    pub(super) fn rotate(&mut self) {
        self.0.extend(SigningKey::generate());
    }

    pub(super) fn withdraw_old(&mut self) {
        let last = self.0.len().saturating_sub(1);
        self.0.drain(..last);
    }

    pub(super) fn sign(&self, kind: &str, claims: &Value) -> String {
        let Some(newest) = self.0.last() else {
            return String::new();
        };
        let mut header = Header::new(Algorithm::ES256);
        header.typ = Some(kind.to_owned());
        header.kid = Some(newest.kid.clone());
        encode(&header, claims, &newest.key).unwrap_or_default()
    }

    /// As JWKs.
    pub(super) fn published(&self) -> Vec<Value> {
        let public = |key: &SigningKey| {
            json!({
                "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256",
                "kid": key.kid, "x": key.x, "y": key.y,
            })
        };
        self.0.iter().map(public).collect()
    }
}

impl SigningKey {
    fn generate() -> Option<Self> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).ok()?;
        let point = pair.public_key().as_ref().to_vec();
        let (x, y) = point.strip_prefix(&[4])?.split_at_checked(32)?;
        let private = pair.to_pkcs8v1().ok()?;
        Some(Self {
            kid: super::book::random(),
            key: EncodingKey::from_ec_der(private.as_ref()),
            x: URL_SAFE_NO_PAD.encode(x),
            y: URL_SAFE_NO_PAD.encode(y),
        })
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("count", &self.0.len())
            .finish()
    }
}
