//! Opaque tokens: their issuer is asked what they are (RFC 7662).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use mrtr_server::{AuthError, AuthFuture, Authenticator, Identity};
use mrtr_state::{Clock, SystemClock, Timestamp};
use reqwest::Client;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use url::{Url, form_urlencoded};

use super::claims::{Claims, Expected};
use super::resource::secure_url;
use super::{ConfigError, ProtectedResource, bearer, fetch};

/// How long an answer may be used again, unless it is said otherwise.
const KEPT: Duration = Duration::from_secs(5);

/// Answers that are kept.
const MOST: usize = 10_000;

/// Questions that run at a time: strangers can send any number of tokens that nobody knows.
const AT_A_TIME: usize = 64;

/// Who is calling, from what the issuer says of a token: an [`Authenticator`] for `mrtr-server`.
///
/// Guaranteed: whoever is let in showed a token that the issuer called active within the time for which answers are kept (5
/// seconds unless said otherwise), and that is for this resource. While the issuer does not answer, every request is refused
/// with HTTP 503. Tokens are kept as hashes, and only those that are active.
///
/// ```
/// use mrtr_auth::server::{IntrospectionAuthenticator, ProtectedResource};
///
/// let resource = ProtectedResource::builder("https://mcp.example/mcp", "https://as.example").build()?;
/// let authenticator = IntrospectionAuthenticator::builder(&resource, "https://as.example", "https://as.example/introspect")
///     .client("mcp-server", "a secret that is configured")
///     .build()?;
/// # let _ = authenticator;
/// # Ok::<(), mrtr_auth::server::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct IntrospectionAuthenticator(Arc<Asked>);

struct Asked {
    resource: ProtectedResource,
    issuer: String,
    endpoint: Url,
    authorization: Option<HeaderValue>,
    client: Client,
    clock: Arc<dyn Clock>,
    kept_for: Duration,
    needs_client: bool,
    places: Semaphore,
    kept: Mutex<HashMap<[u8; 32], Known>>,
}

/// A token that was active when the issuer was asked.
#[derive(Clone)]
struct Known {
    identity: Identity,
    until: Timestamp,
}

/// Builds an [`IntrospectionAuthenticator`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct IntrospectionBuilder {
    resource: ProtectedResource,
    issuer: String,
    endpoint: String,
    authorization: Option<HeaderValue>,
    clock: Arc<dyn Clock>,
    kept_for: Duration,
    needs_client: bool,
}

impl IntrospectionBuilder {
    /// How this server authenticates at the issuer: `client_secret_basic` (RFC 6749 section 2.3.1). Issuers must not answer
    /// strangers.
    pub fn client(mut self, id: &str, secret: &str) -> Self {
        let encoded =
            |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let pair = STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)));
        // Base64 is always a header's value.
        self.authorization = HeaderValue::try_from(format!("Basic {pair}")).ok();
        if let Some(authorization) = &mut self.authorization {
            authorization.set_sensitive(true);
        }
        self
    }

    /// How long an answer may be used again: so much later than the issuer a revocation is seen here. Zero asks for every
    /// request.
    pub fn keep_answers(mut self, time: Duration) -> Self {
        self.kept_for = time;
        self
    }

    /// The clock; the system's by default.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Takes tokens of which the issuer names no client. All apps of a person are then one principal.
    pub fn allow_unnamed_clients(mut self) -> Self {
        self.needs_client = false;
        self
    }

    /// Checks what was given. Nobody is asked yet.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] says what does not fit.
    pub fn build(self) -> Result<IntrospectionAuthenticator, ConfigError> {
        if !self.resource.sends_to(&self.issuer) {
            return Err(ConfigError::UnknownIssuer(self.issuer));
        }
        Ok(IntrospectionAuthenticator(Arc::new(Asked {
            endpoint: secure_url("an introspection endpoint", &self.endpoint)?,
            client: fetch::client()?,
            resource: self.resource,
            issuer: self.issuer,
            authorization: self.authorization,
            clock: self.clock,
            kept_for: self.kept_for,
            needs_client: self.needs_client,
            places: Semaphore::new(AT_A_TIME),
            kept: Mutex::default(),
        })))
    }
}

impl fmt::Debug for IntrospectionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntrospectionBuilder")
            .field("issuer", &self.issuer)
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

/// RFC 7662 section 2.2.
#[derive(Deserialize)]
struct Introspected {
    active: bool,
    #[serde(flatten)]
    rest: serde_json::Value,
}

impl IntrospectionAuthenticator {
    /// For the tokens that `issuer` issues for this resource, about which it is asked at `endpoint`: `https:`, or `http:` on
    /// this machine.
    pub fn builder(
        resource: &ProtectedResource,
        issuer: impl Into<String>,
        endpoint: impl Into<String>,
    ) -> IntrospectionBuilder {
        IntrospectionBuilder {
            resource: resource.clone(),
            issuer: issuer.into(),
            endpoint: endpoint.into(),
            authorization: None,
            clock: Arc::new(SystemClock),
            kept_for: KEPT,
            needs_client: true,
        }
    }

    async fn identify(&self, head: &Parts) -> Result<Identity, AuthError> {
        let token = bearer::token(head, &self.0.resource)?;
        let hash: [u8; 32] = Sha256::digest(token).into();
        if let Some(identity) = self.0.known(&hash) {
            return Ok(identity);
        }
        let asked = self.0.clock.now();
        let (claims, expiry) = self.0.ask(token).await?;
        let invalid = |why| self.0.resource.invalid(why);
        let principal = claims.principal(&self.0.issuer, self.0.needs_client);
        let identity = self
            .0
            .resource
            .admit(principal.map_err(invalid)?, claims.scopes())?;
        let until = asked.saturating_add(self.0.kept_for);
        self.0.keep(
            hash,
            Known {
                identity: identity.clone(),
                until: expiry.map_or(until, |expiry| expiry.min(until)),
            },
        );
        Ok(identity)
    }
}

impl Asked {
    fn known(&self, hash: &[u8; 32]) -> Option<Identity> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept
            .get(hash)
            .filter(|known| self.clock.now() < known.until);
        known.map(|known| known.identity.clone())
    }

    fn keep(&self, hash: [u8; 32], known: Known) {
        let now = self.clock.now();
        if known.until <= now {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST {
            kept.retain(|_, known| now < known.until);
        }
        if kept.len() < MOST {
            kept.insert(hash, known);
        }
    }

    /// What the issuer says of an active token that is for this resource, and when it expires.
    async fn ask(&self, token: &str) -> Result<(Claims, Option<Timestamp>), AuthError> {
        let unavailable =
            || AuthError::unavailable("the issuer does not say whether the token holds");
        let _place = self.places.try_acquire().map_err(|_| unavailable())?;
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("token", token)
            .append_pair("token_type_hint", "access_token")
            .finish();
        let mut request = self
            .client
            .post(self.endpoint.clone())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let body = fetch::send(request).await.map_err(|error| {
            tracing::error!(%error, endpoint = %self.endpoint, "no word on a token from its issuer");
            unavailable()
        })?;
        let said: Introspected = serde_json::from_slice(&body).map_err(|_| {
            tracing::error!(endpoint = %self.endpoint, "an issuer's word on a token cannot be read");
            unavailable()
        })?;
        let invalid = |why| self.resource.invalid(why);
        if !said.active {
            return Err(invalid("the token is not active"));
        }
        let claims: Claims = serde_json::from_value(said.rest).map_err(|_| unavailable())?;
        if claims
            .iss
            .as_ref()
            .is_some_and(|issuer| *issuer != self.issuer)
        {
            return Err(invalid("the token is of another issuer"));
        }
        let expected = Expected {
            resource: self.resource.resource(),
            now: self.clock.now(),
            skew: Duration::ZERO,
            needs_expiry: false,
        };
        claims.check(&expected).map_err(invalid)?;
        let expiry = claims.expiry().map_err(invalid)?;
        Ok((claims, expiry))
    }
}

impl Authenticator for IntrospectionAuthenticator {
    fn authenticate<'a>(&'a self, head: &'a Parts) -> AuthFuture<'a> {
        Box::pin(self.identify(head))
    }

    fn insufficient_scope(&self, scopes: &[&str]) -> HeaderValue {
        self.0.resource.insufficient(scopes)
    }
}

impl fmt::Debug for IntrospectionAuthenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntrospectionAuthenticator")
            .field("resource", &self.0.resource.resource())
            .field("issuer", &self.0.issuer)
            .field("endpoint", &self.0.endpoint.as_str())
            .finish_non_exhaustive()
    }
}
