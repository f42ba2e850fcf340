//! An issuer's published keys: fetched when they are needed, kept for a while, and asked for again within bounds.
//!
//! ```text
//! age      0 ........ FRESH ................ KEPT ......
//!          used         used, and fetched    not used: nobody is let in
//!                       again beside it      until a fetch succeeds
//! ```
//!
//! A key id that is not known is a reason to fetch too, because keys are rotated; but one fetch in an interval is all that
//! strangers can cause, and while one runs, everybody who needs it waits for the same.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse,
};
use mrtr_state::{Clock, Timestamp};
use reqwest::Client;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Mutex, OwnedMutexGuard};
use url::Url;

use super::fetch::{self, FetchError};
use super::jwt::Algorithm;

/// For so long keys are used without a look at whether there are others: 10 minutes.
const FRESH: Duration = Duration::from_secs(600);

/// For so long they are used while their issuer cannot be reached: an hour.
const KEPT: Duration = Duration::from_secs(3_600);

/// Between two fetches, successful or not: 30 seconds.
pub(super) const INTERVAL: Duration = Duration::from_secs(30);

/// Keys of one issuer that are looked at.
const MOST: usize = 100;

/// One key, and what it may verify.
pub(super) struct VerifyingKey {
    kid: Option<String>,
    algorithms: Vec<Algorithm>,
    pub(super) key: DecodingKey,
}

/// Why no key can be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoKey {
    /// The issuer has none of that id for that algorithm.
    Unknown,
    /// Whether it has cannot be told.
    Unavailable,
}

/// The keys of one issuer. Cheap to clone; clones share what was fetched.
#[derive(Clone)]
pub(super) struct Jwks(Arc<Shared>);

struct Shared {
    url: Url,
    client: Client,
    clock: Arc<dyn Clock>,
    kept: RwLock<Option<Kept>>,
    flight: Arc<Mutex<Flight>>,
}

#[derive(Clone)]
struct Kept {
    keys: Arc<[Arc<VerifyingKey>]>,
    fetched: Timestamp,
}

/// The last fetch. Whoever holds it is the one that fetches.
#[derive(Default)]
struct Flight {
    began: Option<Timestamp>,
    failed: bool,
}

impl Jwks {
    pub(super) fn new(url: Url, client: Client, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Shared {
            url,
            client,
            clock,
            kept: RwLock::default(),
            flight: Arc::default(),
        }))
    }

    /// The keys that a token of this key id and algorithm may be signed with: mostly one.
    pub(super) async fn find(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Vec<Arc<VerifyingKey>>, NoKey> {
        if let Some((kept, age)) = self.kept() {
            let found = kept.fitting(kid, algorithm);
            if !found.is_empty() {
                if age >= FRESH {
                    self.refresh_beside();
                }
                return Ok(found);
            }
        }
        let refreshed = self.refresh().await;
        let Some((kept, _)) = self.kept() else {
            return Err(NoKey::Unavailable);
        };
        let found = kept.fitting(kid, algorithm);
        match (found.is_empty(), refreshed) {
            (false, _) => Ok(found),
            (true, true) => Err(NoKey::Unknown),
            // It may be one that came since: nobody can say.
            (true, false) => Err(NoKey::Unavailable),
        }
    }

    /// What is kept, if it may still be used, and its age.
    fn kept(&self) -> Option<(Kept, Duration)> {
        let kept = self
            .0
            .kept
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()?;
        let age = self.0.clock.now().saturating_since(kept.fetched);
        (age < KEPT).then_some((kept, age))
    }

    /// Fetches, unless that was done a moment ago. False: the last attempt failed.
    async fn refresh(&self) -> bool {
        let flight = Arc::clone(&self.0.flight).lock_owned().await;
        match self.may_fetch(&flight) {
            false => !flight.failed,
            // In a task of its own: a caller who goes away must not take it along.
            true => tokio::spawn(self.clone().fetch(flight))
                .await
                .unwrap_or(false),
        }
    }

    /// The same without waiting for it.
    fn refresh_beside(&self) {
        if let Ok(flight) = Arc::clone(&self.0.flight).try_lock_owned()
            && self.may_fetch(&flight)
        {
            tokio::spawn(self.clone().fetch(flight));
        }
    }

    fn may_fetch(&self, flight: &Flight) -> bool {
        let since = |began| self.0.clock.now().saturating_since(began);
        flight.began.is_none_or(|began| since(began) >= INTERVAL)
    }

    async fn fetch(self, mut flight: OwnedMutexGuard<Flight>) -> bool {
        let began = self.0.clock.now();
        flight.began = Some(began);
        let body = fetch::send(self.0.client.get(self.0.url.clone())).await;
        let keys = body.and_then(|body| read(&body).ok_or(FetchError::Unreadable));
        flight.failed = keys.is_err();
        match keys {
            Ok(keys) => {
                tracing::debug!(keys = keys.len(), "fetched an issuer's keys");
                let kept = Kept {
                    keys,
                    fetched: began,
                };
                *self.0.kept.write().unwrap_or_else(PoisonError::into_inner) = Some(kept);
            }
            Err(error) => tracing::error!(%error, url = %self.0.url, "no word of an issuer's keys"),
        }
        !flight.failed
    }
}

impl Kept {
    /// Without a key id only a key that is the only one for its algorithm is meant.
    fn fitting(&self, kid: Option<&str>, algorithm: Algorithm) -> Vec<Arc<VerifyingKey>> {
        let fits = |key: &&Arc<VerifyingKey>| {
            key.algorithms.contains(&algorithm) && (kid.is_none() || key.kid.as_deref() == kid)
        };
        let found: Vec<_> = self.keys.iter().filter(fits).cloned().collect();
        match kid {
            None if found.len() > 1 => Vec::new(),
            _ => found,
        }
    }
}

impl fmt::Debug for Jwks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jwks")
            .field("url", &self.0.url.as_str())
            .finish_non_exhaustive()
    }
}

/// A JWK Set (RFC 7517 section 5). A key that cannot be used here is passed over, and spoils no other.
fn read(body: &[u8]) -> Option<Arc<[Arc<VerifyingKey>]>> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Value>,
    }
    let set: Set = serde_json::from_slice(body).ok()?;
    let keys = set.keys.into_iter().take(MOST);
    Some(keys.filter_map(usable).map(Arc::new).collect())
}

/// A public key for signatures, with the algorithms that it may verify: the one that it names, or those of its type.
fn usable(key: Value) -> Option<VerifyingKey> {
    let jwk: Jwk = serde_json::from_value(key).ok()?;
    let common = &jwk.common;
    let for_signatures = matches!(common.public_key_use, None | Some(PublicKeyUse::Signature));
    let verifies = |operations: &Vec<KeyOperations>| operations.contains(&KeyOperations::Verify);
    if !for_signatures || !common.key_operations.as_ref().is_none_or(verifies) {
        return None;
    }
    let mut algorithms = of_type(&jwk.algorithm).to_vec();
    if let Some(named) = common.key_algorithm {
        algorithms.retain(|algorithm| KeyAlgorithm::from(algorithm.of_library()) == named);
    }
    let key = (!algorithms.is_empty()).then(|| DecodingKey::from_jwk(&jwk).ok())??;
    Some(VerifyingKey {
        kid: common.key_id.clone(),
        algorithms,
        key,
    })
}

/// None for symmetric keys: what verifies is published, and would sign as well.
fn of_type(parameters: &AlgorithmParameters) -> &'static [Algorithm] {
    match parameters {
        AlgorithmParameters::RSA(_) => &[
            Algorithm::Rs256,
            Algorithm::Rs384,
            Algorithm::Rs512,
            Algorithm::Ps256,
            Algorithm::Ps384,
            Algorithm::Ps512,
        ],
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => &[Algorithm::Es256],
            EllipticCurve::P384 => &[Algorithm::Es384],
            _ => &[],
        },
        AlgorithmParameters::OctetKeyPair(key) => match key.curve {
            EllipticCurve::Ed25519 => &[Algorithm::EdDsa],
            _ => &[],
        },
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ec() -> Value {
        // The key of RFC 7517, appendix A.1.
        json!({
            "kty": "EC", "crv": "P-256", "kid": "1",
            "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
            "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
        })
    }

    fn with(name: &str, value: Value) -> Value {
        let mut key = ec();
        key[name] = value;
        key
    }

    fn algorithms(key: Value) -> Option<Vec<Algorithm>> {
        usable(key).map(|key| key.algorithms)
    }

    #[test]
    fn a_key_verifies_what_its_type_and_its_own_words_permit() {
        for key in [
            ec(),
            with("use", json!("sig")),
            with("alg", json!("ES256")),
            with("key_ops", json!(["verify"])),
        ] {
            assert_eq!(
                algorithms(key.clone()),
                Some(vec![Algorithm::Es256]),
                "{key}"
            );
        }
        for key in [
            with("use", json!("enc")),
            with("key_ops", json!(["sign"])),
            with("alg", json!("ES384")),
            with("alg", json!("HS256")),
            with("alg", json!("RS256")),
            with("alg", json!("none")),
            with("crv", json!("P-521")),
            with("x", json!(7)),
            json!({ "kty": "oct", "k": "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T", "kid": "1" }),
            json!({ "kty": "new", "kid": "1" }),
            json!(7),
        ] {
            assert_eq!(algorithms(key.clone()), None, "{key}");
        }
        let rsa = json!({ "kty": "RSA", "n": "AQAB", "e": "AQAB", "alg": "PS256" });
        assert_eq!(algorithms(rsa), Some(vec![Algorithm::Ps256]));
    }

    #[test]
    fn one_bad_key_spoils_no_other() {
        let body = json!({ "keys": [7, { "kty": "EC" }, ec()] }).to_string();
        assert_eq!(read(body.as_bytes()).unwrap().len(), 1);
        for body in ["", "[]", "{}", r#"{"keys":7}"#] {
            assert!(read(body.as_bytes()).is_none(), "{body}");
        }
    }
}
