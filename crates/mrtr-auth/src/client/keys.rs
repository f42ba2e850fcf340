//! Keys that this client signs with: assertions of who it is (RFC 7523), and proofs that a token is its own (RFC 9449).

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{Jwk, ThumbprintHash};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use mrtr_state::Timestamp;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::error::AuthError;

/// How long an assertion is good for, in seconds. It is made for one request.
const ASSERTION_LIFETIME: u64 = 60;

/// How many origins a nonce is kept for.
const MAX_NONCES: usize = 8;

/// With what an assertion is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SigningAlgorithm {
    /// ECDSA on P-256.
    Es256,
    /// ECDSA on P-384.
    Es384,
    /// RSA, PKCS #1 version 1.5, SHA-256.
    Rs256,
    /// RSA, PSS, SHA-256.
    Ps256,
    /// Ed25519.
    EdDsa,
}

/// By its name in JSON Web Algorithms (RFC 7518).
impl FromStr for SigningAlgorithm {
    type Err = AuthError;

    fn from_str(name: &str) -> Result<Self, AuthError> {
        Ok(match name {
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            "RS256" => Self::Rs256,
            "PS256" => Self::Ps256,
            "EdDSA" => Self::EdDsa,
            _ => return Err(AuthError::Key),
        })
    }
}

/// The key of a client that authenticates with `private_key_jwt` (OpenID Connect Core, section 9; RFC 7523, section 2.2).
#[derive(Clone)]
pub struct PrivateKey {
    key: EncodingKey,
    algorithm: Algorithm,
    id: Option<String>,
}

impl PrivateKey {
    /// Reads a PKCS #8 key in PEM.
    ///
    /// # Errors
    ///
    /// [`AuthError::Key`] when it is none, or none for this algorithm.
    pub fn from_pem(pem: &[u8], algorithm: SigningAlgorithm) -> Result<Self, AuthError> {
        let (key, algorithm) = match algorithm {
            SigningAlgorithm::Es256 => (EncodingKey::from_ec_pem(pem), Algorithm::ES256),
            SigningAlgorithm::Es384 => (EncodingKey::from_ec_pem(pem), Algorithm::ES384),
            SigningAlgorithm::Rs256 => (EncodingKey::from_rsa_pem(pem), Algorithm::RS256),
            SigningAlgorithm::Ps256 => (EncodingKey::from_rsa_pem(pem), Algorithm::PS256),
            SigningAlgorithm::EdDsa => (EncodingKey::from_ed_pem(pem), Algorithm::EdDSA),
        };
        let key = Self {
            key: key.map_err(|_| AuthError::Key)?,
            algorithm,
            id: None,
        };
        // What does not sign is found out here and not in front of somebody.
        key.assertion("", "", Timestamp::from_millis(0))?;
        Ok(key)
    }

    /// The `kid` under which the authorization server knows it.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// An assertion that this is `client_id`, for `audience` alone, once, and soon.
    pub(super) fn assertion(
        &self,
        client_id: &str,
        audience: &str,
        now: Timestamp,
    ) -> Result<String, AuthError> {
        #[derive(Serialize)]
        struct Claims<'a> {
            iss: &'a str,
            sub: &'a str,
            aud: &'a str,
            jti: String,
            iat: u64,
            exp: u64,
        }
        let iat = now.as_millis() / 1000;
        let claims = Claims {
            iss: client_id,
            sub: client_id,
            aud: audience,
            jti: random()?,
            iat,
            exp: iat + ASSERTION_LIFETIME,
        };
        let mut header = Header::new(self.algorithm);
        header.kid.clone_from(&self.id);
        jsonwebtoken::encode(&header, &claims, &self.key).map_err(|_| AuthError::Key)
    }
}

/// Never prints the key.
impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey")
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

/// A key that tokens are bound to (RFC 9449): a token that is stolen alone is of no use. ES256.
pub struct DpopKey {
    key: EncodingKey,
    public: Jwk,
    thumbprint: String,
    nonces: Mutex<HashMap<String, String>>,
}

impl DpopKey {
    /// A new key. Tokens that are bound to it are of no use once it is gone, at the latest when the process ends.
    ///
    /// # Errors
    ///
    /// [`AuthError::Key`] when the operating system gives no randomness.
    pub fn generate() -> Result<Self, AuthError> {
        use aws_lc_rs::rand::SystemRandom;
        use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
        let document =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
                .map_err(|_| AuthError::Key)?;
        Self::from_pkcs8(document.as_ref())
    }

    /// A key that the host keeps: PKCS #8, DER, on P-256.
    ///
    /// # Errors
    ///
    /// [`AuthError::Key`] when it is none.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, AuthError> {
        let key = EncodingKey::from_ec_der(der);
        let mut public =
            Jwk::from_encoding_key(&key, Algorithm::ES256).map_err(|_| AuthError::Key)?;
        public.common.key_algorithm = None;
        let thumbprint = public
            .thumbprint(ThumbprintHash::SHA256)
            .map_err(|_| AuthError::Key)?;
        Ok(Self {
            key,
            public,
            thumbprint,
            nonces: Mutex::default(),
        })
    }

    pub(super) fn thumbprint(&self) -> &str {
        &self.thumbprint
    }

    /// A proof for one request (section 4.2), with the nonce that the place wants, if it said so.
    pub(super) fn proof(
        &self,
        method: &str,
        url: &Url,
        token: Option<&str>,
        now: Timestamp,
    ) -> Result<String, AuthError> {
        #[derive(Serialize)]
        struct Claims<'a> {
            jti: String,
            htm: &'a str,
            htu: &'a str,
            iat: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            ath: Option<String>,
            #[serde(skip_serializing_if = "Option::is_none")]
            nonce: Option<String>,
        }
        let mut place = url.clone();
        place.set_query(None);
        place.set_fragment(None);
        let claims = Claims {
            jti: random()?,
            htm: method,
            htu: place.as_str(),
            iat: now.as_millis() / 1000,
            ath: token.map(hash),
            nonce: self.nonces().get(&origin(url)).cloned(),
        };
        let mut header = Header::new(Algorithm::ES256);
        header.typ = Some("dpop+jwt".to_owned());
        header.jwk = Some(self.public.clone());
        jsonwebtoken::encode(&header, &claims, &self.key).map_err(|_| AuthError::Key)
    }

    /// The nonce that a place wants from now on. `true`: it is another one than before.
    pub(super) fn take_nonce(&self, url: &Url, nonce: &str) -> bool {
        let (mut nonces, origin) = (self.nonces(), origin(url));
        if nonces.get(&origin).is_some_and(|own| own == nonce) {
            return false;
        }
        if nonces.len() >= MAX_NONCES {
            nonces.clear();
        }
        nonces.insert(origin, nonce.to_owned());
        true
    }

    fn nonces(&self) -> std::sync::MutexGuard<'_, HashMap<String, String>> {
        self.nonces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Never prints the key.
impl fmt::Debug for DpopKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpopKey")
            .field("thumbprint", &self.thumbprint)
            .finish_non_exhaustive()
    }
}

/// SHA-256, in base64url: the challenge of a PKCE verifier, and the hash of a token in a proof.
pub(super) fn hash(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(text.as_bytes()))
}

/// 256 bits that nobody can guess, in base64url: 43 characters, as a PKCE verifier wants at least.
pub(super) fn random() -> Result<String, AuthError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|_| AuthError::Internal("the operating system gives no randomness"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_that_of_the_rfc() {
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(
            hash(verifier),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
        let (one, two) = (random().unwrap(), random().unwrap());
        assert!(one != two && one.len() == 43);
    }

    #[test]
    fn proofs_differ_and_name_their_request() {
        let key = DpopKey::generate().unwrap();
        let url: Url = "https://a.example/mcp?x=1".parse().unwrap();
        let now = Timestamp::from_millis(1_700_000_000_000);
        let part = |proof: &str, nth: usize| -> serde_json::Value {
            let part = proof.split('.').nth(nth).unwrap();
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
        };
        let proof = key.proof("POST", &url, Some("token"), now).unwrap();
        let other = key.proof("POST", &url, Some("token"), now).unwrap();
        let (header, claims) = (part(&proof, 0), part(&proof, 1));
        assert_eq!(
            (&header["typ"], &header["alg"]),
            (&"dpop+jwt".into(), &"ES256".into())
        );
        assert_eq!(header["jwk"]["kty"], "EC");
        assert!(header["jwk"].get("d").is_none());
        assert_eq!(claims["htu"], "https://a.example/mcp");
        assert_eq!(claims["htm"], "POST");
        assert_eq!(claims["iat"], 1_700_000_000);
        assert_eq!(claims["ath"], hash("token"));
        assert!(claims.get("nonce").is_none());
        assert_ne!(claims["jti"], part(&other, 1)["jti"]);
        assert!(key.take_nonce(&url, "n") && !key.take_nonce(&url, "n"));
        let proof = key.proof("GET", &url, None, now).unwrap();
        assert_eq!(part(&proof, 1)["nonce"], "n");
        let elsewhere = "https://b.example/mcp".parse().unwrap();
        let proof = key.proof("GET", &elsewhere, None, now).unwrap();
        assert!(part(&proof, 1).get("nonce").is_none());
        assert!(DpopKey::from_pkcs8(b"x").is_err());
        let printed = format!("{key:?}");
        assert!(!printed.contains("key:"), "{printed}");
    }
}
