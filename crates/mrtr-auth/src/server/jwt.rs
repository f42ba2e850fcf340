//! Tokens that are JSON Web Tokens (RFC 7519, RFC 9068), checked against their issuer's published keys.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::request::Parts;
use jsonwebtoken::crypto::{CryptoProvider, aws_lc};
use jsonwebtoken::{Validation, decode, decode_header};
use mrtr_server::{AuthError, AuthFuture, Authenticator, Identity};
use mrtr_state::{Clock, SystemClock};
use serde::Deserialize;

use super::claims::{Claims, Expected};
use super::jwks::{Jwks, NoKey};
use super::resource::secure_url;
use super::{ConfigError, ProtectedResource, bearer, fetch};

/// By how much the issuer's clock may differ from this server's, unless it is said otherwise.
const SKEW: Duration = Duration::from_secs(30);

/// How a token may be signed: with a private key that its issuer alone has. There is no name here for `none` or for HMAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
}

impl Algorithm {
    const ALL: [Self; 9] = [
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
    ];

    pub(super) fn of_library(self) -> jsonwebtoken::Algorithm {
        match self {
            Self::Es256 => jsonwebtoken::Algorithm::ES256,
            Self::Es384 => jsonwebtoken::Algorithm::ES384,
            Self::EdDsa => jsonwebtoken::Algorithm::EdDSA,
            Self::Rs256 => jsonwebtoken::Algorithm::RS256,
            Self::Rs384 => jsonwebtoken::Algorithm::RS384,
            Self::Rs512 => jsonwebtoken::Algorithm::RS512,
            Self::Ps256 => jsonwebtoken::Algorithm::PS256,
            Self::Ps384 => jsonwebtoken::Algorithm::PS384,
            Self::Ps512 => jsonwebtoken::Algorithm::PS512,
        }
    }
}

/// An issuer whose tokens are taken, and where its keys are published.
#[derive(Debug, Clone)]
pub struct TrustedIssuer {
    issuer: String,
    jwks_uri: String,
    algorithms: Vec<Algorithm>,
}

impl TrustedIssuer {
    /// The issuer that tokens name as `iss`, byte for byte, and the URL of its JWK Set: `https:`, or `http:` on this machine.
    pub fn new(issuer: impl Into<String>, jwks_uri: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            jwks_uri: jwks_uri.into(),
            algorithms: Algorithm::ALL.to_vec(),
        }
    }

    /// Takes tokens that are signed with these alone. Which of them a key may verify, the key says: the token never chooses.
    #[must_use]
    pub fn algorithms(mut self, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        self.algorithms = algorithms.into_iter().collect();
        self
    }
}

/// Who is calling, from a JSON Web Token: an [`Authenticator`] for `mrtr-server`.
///
/// Guaranteed: whoever is let in showed a token that a trusted issuer signed with a key that it publishes, for this resource
/// and no other, within its time. The signature holds before a claim counts. Keys are fetched when they are needed, once in 30
/// seconds at most, and used for an hour at most while their issuer does not answer; after that every request is refused with
/// HTTP 503 until it does. A key that is withdrawn is taken for 10 minutes at most, and for an hour while the issuer does not answer.
///
/// **Not guaranteed:** that a token is refused the moment it is revoked: nobody is asked until it expires. Where that matters, take
/// [`IntrospectionAuthenticator`](super::IntrospectionAuthenticator). Nor that whoever shows a token is whom it was issued to.
///
/// ```
/// use mrtr_auth::server::{Algorithm, JwtAuthenticator, ProtectedResource, TrustedIssuer};
///
/// let resource = ProtectedResource::builder("https://mcp.example/mcp", "https://as.example").build()?;
/// let issuer = TrustedIssuer::new("https://as.example", "https://as.example/jwks").algorithms([Algorithm::Es256]);
/// let authenticator = JwtAuthenticator::builder(&resource).issuer(issuer).build()?;
/// # let _ = authenticator;
/// # Ok::<(), mrtr_auth::server::ConfigError>(())
/// ```
///
/// Specification: `basic/authorization`, "Token Handling"; `basic/authorization/security-considerations`, "Token Audience
/// Binding and Validation".
#[derive(Clone)]
pub struct JwtAuthenticator {
    resource: ProtectedResource,
    issuers: Arc<[(TrustedIssuer, Jwks)]>,
    clock: Arc<dyn Clock>,
    skew: Duration,
    needs_type: bool,
    needs_client: bool,
}

/// Builds a [`JwtAuthenticator`].
#[derive(Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct JwtBuilder {
    resource: ProtectedResource,
    issuers: Vec<TrustedIssuer>,
    clock: Arc<dyn Clock>,
    skew: Duration,
    needs_type: bool,
    needs_client: bool,
}

impl JwtBuilder {
    /// Takes tokens of this issuer, which is one of the resource's authorization servers.
    pub fn issuer(mut self, issuer: TrustedIssuer) -> Self {
        self.issuers.push(issuer);
        self
    }

    /// The clock; the system's by default.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// By how much clocks may differ; 30 seconds by default. A token is taken for so much longer.
    pub fn skew(mut self, skew: Duration) -> Self {
        self.skew = skew;
        self
    }

    /// Takes tokens alone that say that they are access tokens: `typ` is `at+jwt` (RFC 9068). Many issuers do not say so.
    pub fn require_access_token_type(mut self) -> Self {
        self.needs_type = true;
        self
    }

    /// Takes tokens that name no client (`client_id` or `azp`). All apps of a person are then one principal: a state that one
    /// of them was given may be presented by another.
    pub fn allow_unnamed_clients(mut self) -> Self {
        self.needs_client = false;
        self
    }

    /// Checks what was given. Nothing is fetched yet.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] says what is missing or does not fit.
    pub fn build(self) -> Result<JwtAuthenticator, ConfigError> {
        if self.issuers.is_empty() {
            return Err(ConfigError::NoIssuer);
        }
        if CryptoProvider::try_get_default().is_none() {
            // Whoever was first is as good.
            let _ = aws_lc::DEFAULT_PROVIDER.install_default();
        }
        let client = fetch::client()?;
        let trusted = |issuer: TrustedIssuer| {
            if !self.resource.sends_to(&issuer.issuer) {
                return Err(ConfigError::UnknownIssuer(issuer.issuer));
            }
            if issuer.algorithms.is_empty() {
                return Err(ConfigError::NoAlgorithm(issuer.issuer));
            }
            let url = secure_url("a JWK Set", &issuer.jwks_uri)?;
            let keys = Jwks::new(url, client.clone(), Arc::clone(&self.clock));
            Ok((issuer, keys))
        };
        let issuers: Result<Vec<_>, _> = self.issuers.into_iter().map(trusted).collect();
        Ok(JwtAuthenticator {
            issuers: issuers?.into(),
            resource: self.resource,
            clock: self.clock,
            skew: self.skew,
            needs_type: self.needs_type,
            needs_client: self.needs_client,
        })
    }
}

impl JwtAuthenticator {
    /// For the tokens of this resource.
    pub fn builder(resource: &ProtectedResource) -> JwtBuilder {
        JwtBuilder {
            resource: resource.clone(),
            issuers: Vec::new(),
            clock: Arc::new(SystemClock),
            skew: SKEW,
            needs_type: false,
            needs_client: true,
        }
    }

    async fn identify(&self, head: &Parts) -> Result<Identity, AuthError> {
        let token = bearer::token(head, &self.resource)?;
        let invalid = |why| self.resource.invalid(why);
        let header = decode_header(token)
            .map_err(|_| invalid("the token is no JWT, or signed in a way that is not taken"))?;
        if self.needs_type && !header.typ.as_deref().is_some_and(is_access_token) {
            return Err(invalid("the token does not say that it is an access token"));
        }
        // Nobody's word so far: it chooses whose keys the token is held against, and nothing else.
        let issuer = claimed_issuer(token).ok_or_else(|| invalid("the token names no issuer"))?;
        let trusted = self
            .issuers
            .iter()
            .find(|(known, _)| known.issuer == issuer);
        let (trusted, keys) = trusted.ok_or_else(|| invalid("the token is of another issuer"))?;
        let mut allowed = trusted.algorithms.iter();
        let algorithm = allowed
            .find(|algorithm| algorithm.of_library() == header.alg)
            .ok_or_else(|| invalid("the token is no JWT, or signed in a way that is not taken"))?;
        let keys = match keys.find(header.kid.as_deref(), *algorithm).await {
            Ok(keys) => keys,
            Err(NoKey::Unknown) => return Err(invalid("the token is signed with an unknown key")),
            Err(NoKey::Unavailable) => {
                return Err(AuthError::unavailable(
                    "the issuer's keys cannot be fetched",
                ));
            }
        };
        let claims = keys
            .iter()
            .find_map(|key| decode::<Claims>(token, &key.key, &signature_alone(*algorithm)).ok())
            .ok_or_else(|| {
                invalid("the token's signature does not hold, or its claims cannot be read")
            })?
            .claims;
        self.admit(&trusted.issuer, &claims)
    }

    /// What is signed, held against what is expected.
    fn admit(&self, issuer: &str, claims: &Claims) -> Result<Identity, AuthError> {
        let invalid = |why| self.resource.invalid(why);
        if claims.iss.as_deref() != Some(issuer) {
            return Err(invalid("the token is of another issuer"));
        }
        let expected = Expected {
            resource: self.resource.resource(),
            now: self.clock.now(),
            skew: self.skew,
            needs_expiry: true,
        };
        claims.check(&expected).map_err(invalid)?;
        let principal = claims
            .principal(issuer, self.needs_client)
            .map_err(invalid)?;
        self.resource.admit(principal, claims.scopes())
    }
}

impl Authenticator for JwtAuthenticator {
    fn authenticate<'a>(&'a self, head: &'a Parts) -> AuthFuture<'a> {
        Box::pin(self.identify(head))
    }

    fn insufficient_scope(&self, scopes: &[&str]) -> HeaderValue {
        self.resource.insufficient(scopes)
    }
}

impl fmt::Debug for JwtAuthenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtAuthenticator")
            .field("resource", &self.resource.resource())
            .field("issuers", &self.issuers)
            .finish_non_exhaustive()
    }
}

/// The library checks the signature under this algorithm; claims are checked here, against this server's clock.
fn signature_alone(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm.of_library());
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation
}

/// `iss` as the token has it, before anything about it is known.
fn claimed_issuer(token: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Claimed {
        iss: String,
    }
    let claimed = jsonwebtoken::dangerous::insecure_decode_claims::<Claimed>(token);
    claimed.ok().map(|claimed| claimed.iss)
}

/// RFC 9068 section 2.1, in the spellings of RFC 7515 section 4.1.9.
fn is_access_token(named: &str) -> bool {
    let named = named.to_ascii_lowercase();
    ["at+jwt", "application/at+jwt"].contains(&named.as_str())
}
