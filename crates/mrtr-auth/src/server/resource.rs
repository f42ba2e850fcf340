//! What an MCP server says of itself: its metadata, its challenges, and what its scopes imply.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    CACHE_CONTROL, CONTENT_TYPE,
};
use http::{HeaderValue, Response};
use mrtr_server::{AuthError, Identity, Principal};
use url::Url;

use super::ConfigError;
use crate::challenge::BearerChallenge;
use crate::metadata::{PROTECTED_RESOURCE, ProtectedResourceMetadata, inserted, is_secure};

/// An MCP server as OAuth knows it: the resource that tokens are issued for, who issues them, and which scopes there are.
///
/// Cheap to clone. Give it to an authenticator, and merge its [`routes`](Self::routes) into the application, so that clients
/// find their way from a 401 to a token.
///
/// ```
/// use mrtr_auth::server::ProtectedResource;
///
/// let resource = ProtectedResource::builder("https://mcp.example/mcp", "https://as.example")
///     .scopes_supported(["files:read"])
///     .implies("files:write", ["files:read"])
///     .build()?;
/// assert_eq!(
///     resource.metadata_url(),
///     "https://mcp.example/.well-known/oauth-protected-resource/mcp",
/// );
/// # Ok::<(), mrtr_auth::server::ConfigError>(())
/// ```
///
/// Specification: `basic/authorization/authorization-server-discovery`; RFC 9728.
#[derive(Debug, Clone)]
pub struct ProtectedResource(Arc<Described>);

#[derive(Debug)]
struct Described {
    metadata: ProtectedResourceMetadata,
    url: Url,
    required: Vec<String>,
    implied: BTreeMap<String, Vec<String>>,
}

/// Builds a [`ProtectedResource`].
#[derive(Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct ProtectedResourceBuilder {
    metadata: ProtectedResourceMetadata,
    required: Vec<String>,
    implied: BTreeMap<String, Vec<String>>,
}

impl ProtectedResourceBuilder {
    /// Another authorization server whose tokens are taken. Clients choose one.
    pub fn authorization_server(mut self, issuer: impl Into<String>) -> Self {
        self.metadata.authorization_servers.push(issuer.into());
        self
    }

    /// The scopes that basic use needs, as the metadata lists them. Those of single tools are asked for when they are called.
    pub fn scopes_supported<S: Into<String>>(
        mut self,
        scopes: impl IntoIterator<Item = S>,
    ) -> Self {
        let supported = self.metadata.scopes_supported.get_or_insert_default();
        supported.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// A scope without which no request is let in at all. Each is named in the challenge of a 401.
    pub fn require_scope(mut self, scope: impl Into<String>) -> Self {
        self.required.push(scope.into());
        self
    }

    /// A token that was granted `broad` was granted `narrow` too, and what those imply.
    ///
    /// Specification: `basic/authorization`, "Step-Up Authorization Flow" ("Servers MUST account for scope hierarchies").
    pub fn implies<S: Into<String>>(
        mut self,
        broad: impl Into<String>,
        narrow: impl IntoIterator<Item = S>,
    ) -> Self {
        let implied = self.implied.entry(broad.into()).or_default();
        implied.extend(narrow.into_iter().map(Into::into));
        self
    }

    /// The resource's name, for people.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.metadata.resource_name = Some(name.into());
        self
    }

    /// A page for developers.
    pub fn documentation(mut self, url: impl Into<String>) -> Self {
        self.metadata.resource_documentation = Some(url.into());
        self
    }

    /// Checks what was given.
    ///
    /// # Errors
    ///
    /// [`ConfigError`]: a resource or an issuer that is no secure URL, or what is no scope.
    pub fn build(self) -> Result<ProtectedResource, ConfigError> {
        let resource = secure_url("the resource", &self.metadata.resource)?;
        for issuer in &self.metadata.authorization_servers {
            secure_url("an authorization server", issuer)?;
        }
        let supported = self.metadata.scopes_supported.iter().flatten();
        let implied = self.implied.iter();
        let implied = implied.flat_map(|(broad, narrow)| std::iter::once(broad).chain(narrow));
        for scope in supported.clone().chain(&self.required).chain(implied) {
            check_scope(scope)?;
        }
        if supported
            .chain(&self.required)
            .any(|scope| scope == "offline_access")
        {
            return Err(ConfigError::OfflineAccess);
        }
        Ok(ProtectedResource(Arc::new(Described {
            url: inserted(&resource, PROTECTED_RESOURCE),
            metadata: self.metadata,
            required: self.required,
            implied: self.implied,
        })))
    }
}

impl ProtectedResource {
    /// The server whose canonical URI is `resource`, which tokens name as their audience byte for byte, and the issuer
    /// identifier of the authorization server whose tokens it takes.
    pub fn builder(
        resource: impl Into<String>,
        authorization_server: impl Into<String>,
    ) -> ProtectedResourceBuilder {
        ProtectedResourceBuilder {
            metadata: ProtectedResourceMetadata::new(resource, authorization_server),
            required: Vec::new(),
            implied: BTreeMap::new(),
        }
    }

    /// The document that is published.
    #[must_use]
    pub fn metadata(&self) -> &ProtectedResourceMetadata {
        &self.0.metadata
    }

    /// Where it is published: the well-known path before the resource's own.
    #[must_use]
    pub fn metadata_url(&self) -> &str {
        self.0.url.as_str()
    }

    /// The route that publishes it, to anybody and to pages of any origin: it holds nothing that is not public.
    pub fn routes(&self) -> Router {
        let body = serde_json::to_vec(&self.0.metadata).unwrap_or_default();
        let answer = move || {
            let body = body.clone();
            async move { document(body) }
        };
        let route = get(answer).options(async || document(Vec::new()));
        Router::new().route(self.0.url.path(), route)
    }

    pub(super) fn resource(&self) -> &str {
        &self.0.metadata.resource
    }

    pub(super) fn sends_to(&self, issuer: &str) -> bool {
        let mut servers = self.0.metadata.authorization_servers.iter();
        servers.any(|server| server == issuer)
    }

    /// The identity of somebody whose token holds, if it grants what every request needs.
    pub(super) fn admit<'s>(
        &'s self,
        principal: Principal,
        scopes: impl IntoIterator<Item = &'s str>,
    ) -> Result<Identity, AuthError> {
        let granted = self.with_implied(scopes);
        let required = &self.0.required;
        if !required
            .iter()
            .all(|scope| granted.contains(scope.as_str()))
        {
            let needed: Vec<&str> = required.iter().map(String::as_str).collect();
            return Err(AuthError::insufficient_scope(
                "the token does not grant what every request here needs",
                self.insufficient(&needed),
            ));
        }
        Ok(Identity::from(principal).with_scopes(granted))
    }

    fn with_implied<'s>(&'s self, scopes: impl IntoIterator<Item = &'s str>) -> BTreeSet<&'s str> {
        let mut granted = BTreeSet::new();
        let mut open: Vec<&str> = scopes.into_iter().collect();
        while let Some(scope) = open.pop() {
            if granted.insert(scope) {
                let implied = self.0.implied.get(scope);
                open.extend(implied.into_iter().flatten().map(String::as_str));
            }
        }
        granted
    }

    /// No token: where to get one, and no error (RFC 6750 section 3.1).
    pub(super) fn unauthenticated(&self) -> AuthError {
        let why = "send a bearer token in `Authorization`";
        AuthError::unauthenticated(why, header(self.challenge()))
    }

    /// A token that does not hold, and why: words of ours alone.
    pub(super) fn invalid(&self, why: &'static str) -> AuthError {
        tracing::info!(why, "a bearer token is refused");
        let challenge = self
            .challenge()
            .error("invalid_token")
            .error_description(why);
        AuthError::unauthenticated(why, header(challenge))
    }

    pub(super) fn insufficient(&self, scopes: &[&str]) -> HeaderValue {
        let challenge = BearerChallenge::new()
            .error("insufficient_scope")
            .scope(scopes.join(" "))
            .resource_metadata(self.metadata_url());
        header(challenge)
    }

    fn challenge(&self) -> BearerChallenge {
        let challenge = BearerChallenge::new().resource_metadata(self.metadata_url());
        let scopes = match (&self.0.required, &self.0.metadata.scopes_supported) {
            (required, _) if !required.is_empty() => required.join(" "),
            (_, Some(supported)) if !supported.is_empty() => supported.join(" "),
            _ => return challenge,
        };
        challenge.scope(scopes)
    }
}

/// What is in a challenge was checked when the resource was built.
fn header(challenge: BearerChallenge) -> HeaderValue {
    challenge
        .to_header()
        .unwrap_or(HeaderValue::from_static("Bearer"))
}

fn document(body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    for (name, value) in [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "public, max-age=300"),
        (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (ACCESS_CONTROL_ALLOW_METHODS, "GET"),
        (ACCESS_CONTROL_ALLOW_HEADERS, "*"),
    ] {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

pub(super) fn secure_url(what: &'static str, given: &str) -> Result<Url, ConfigError> {
    let refused = || ConfigError::Url {
        what,
        url: given.to_owned(),
    };
    let url = Url::parse(given).map_err(|_| refused())?;
    let plain = url.username().is_empty() && url.password().is_none();
    match given.is_ascii() && plain && url.fragment().is_none() && is_secure(&url) {
        true => Ok(url),
        false => Err(refused()),
    }
}

fn check_scope(scope: &str) -> Result<(), ConfigError> {
    let is_token = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    match !scope.is_empty() && scope.bytes().all(is_token) {
        true => Ok(()),
        false => Err(ConfigError::Scope(scope.escape_debug().to_string())),
    }
}
