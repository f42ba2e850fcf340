//! The documents in which a protected resource and an authorization server describe themselves.
//!
//! They come from outside and promise nothing by themselves: who reads one compares its `resource` or `issuer` with what was
//! asked for (RFC 9728 section 3.3, RFC 8414 section 3.3) before anything else in it counts. Members that are not known here
//! are ignored, as both RFCs ask.
//!
//! Specification: `basic/authorization/authorization-server-discovery`.

use serde::{Deserialize, Serialize};
use url::Url;

/// Where protected resource metadata is found (RFC 9728 section 3).
pub const PROTECTED_RESOURCE: &str = "/.well-known/oauth-protected-resource";

/// Where authorization server metadata is found (RFC 8414 section 3).
pub const AUTHORIZATION_SERVER: &str = "/.well-known/oauth-authorization-server";

/// Where OpenID Connect has the same.
pub const OPENID_CONFIGURATION: &str = "/.well-known/openid-configuration";

/// What an MCP server says of itself as a protected resource (RFC 9728 section 2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProtectedResourceMetadata {
    /// The resource identifier: what tokens name as their audience, byte for byte.
    pub resource: String,
    /// Issuer identifiers of the authorization servers whose tokens are taken. MCP requires one at least.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authorization_servers: Vec<String>,
    /// Scopes that basic use needs. More may be asked for by a challenge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes_supported: Option<Vec<String>>,
    /// How a token may be sent; `header` is the one way that MCP permits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_methods_supported: Option<Vec<String>>,
    /// The resource's name, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// A page for developers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_documentation: Option<String>,
}

impl ProtectedResourceMetadata {
    /// The metadata of `resource`, whose tokens `authorization_server` issues, sent in the `Authorization` header.
    pub fn new(resource: impl Into<String>, authorization_server: impl Into<String>) -> Self {
        Self {
            resource: resource.into(),
            authorization_servers: vec![authorization_server.into()],
            scopes_supported: None,
            bearer_methods_supported: Some(vec!["header".to_owned()]),
            resource_name: None,
            resource_documentation: None,
        }
    }
}

/// What an authorization server says of itself: RFC 8414 section 2, or OpenID Connect Discovery 1.0 section 3. Both spell
/// the members alike that are read here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuthorizationServerMetadata {
    /// The issuer identifier, to be compared byte for byte with the one that was looked up.
    pub issuer: String,
    /// Where a person is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization_endpoint: Option<String>,
    /// Where codes and refresh tokens become access tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_endpoint: Option<String>,
    /// The keys that tokens are signed with (RFC 7517).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
    /// Dynamic client registration (RFC 7591).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_endpoint: Option<String>,
    /// Token introspection (RFC 7662).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub introspection_endpoint: Option<String>,
    /// Token revocation (RFC 7009).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation_endpoint: Option<String>,
    /// Scopes that may be asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes_supported: Option<Vec<String>>,
    /// `code`, and whatever else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_types_supported: Option<Vec<String>>,
    /// Absent means `authorization_code` and `implicit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_types_supported: Option<Vec<String>>,
    /// How clients authenticate at the token endpoint; absent means `client_secret_basic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// Algorithms for `private_key_jwt` and `client_secret_jwt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_endpoint_auth_signing_alg_values_supported: Option<Vec<String>>,
    /// PKCE. Absent means that there is none, and an MCP client does not go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_challenge_methods_supported: Option<Vec<String>>,
    /// Whether authorization responses carry `iss` (RFC 9207). Absent means no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization_response_iss_parameter_supported: Option<bool>,
    /// Whether a URL may be a client's id (client id metadata documents). Absent means no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id_metadata_document_supported: Option<bool>,
    /// Algorithms of DPoP proofs (RFC 9449). Absent means that DPoP is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
}

impl AuthorizationServerMetadata {
    /// The metadata of this issuer, and nothing else said.
    pub fn new(issuer: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            authorization_endpoint: None,
            token_endpoint: None,
            jwks_uri: None,
            registration_endpoint: None,
            introspection_endpoint: None,
            revocation_endpoint: None,
            scopes_supported: None,
            response_types_supported: None,
            grant_types_supported: None,
            token_endpoint_auth_methods_supported: None,
            token_endpoint_auth_signing_alg_values_supported: None,
            code_challenge_methods_supported: None,
            authorization_response_iss_parameter_supported: None,
            client_id_metadata_document_supported: None,
            dpop_signing_alg_values_supported: None,
        }
    }
}

/// The URL with a well-known path put between its host and its own path, as RFC 9728 section 3.1 and RFC 8414 section 3.1
/// have it: `https://mcp.example/mcp` to `https://mcp.example/.well-known/oauth-protected-resource/mcp`. A slash at the end
/// of a path that is nothing else is dropped, a query is kept, a fragment is not.
///
/// ```
/// use mrtr_auth::metadata::{PROTECTED_RESOURCE, inserted};
///
/// let resource = "https://mcp.example/public/mcp".parse()?;
/// assert_eq!(
///     inserted(&resource, PROTECTED_RESOURCE).as_str(),
///     "https://mcp.example/.well-known/oauth-protected-resource/public/mcp",
/// );
/// # Ok::<(), url::ParseError>(())
/// ```
#[must_use]
pub fn inserted(url: &Url, well_known: &str) -> Url {
    let path = url.path();
    let path = if path == "/" { "" } else { path };
    let mut found = url.clone();
    found.set_path(&format!("{well_known}{path}"));
    found.set_fragment(None);
    found
}

/// Whether what is fetched from here cannot be read or changed on its way: HTTPS, or HTTP that stays on this machine.
#[must_use]
pub fn is_secure(url: &Url) -> bool {
    match url.scheme() {
        "https" => url.has_host(),
        "http" => match url.host() {
            Some(url::Host::Domain(name)) => name == "localhost",
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn well_known_paths_stand_before_the_own_path() {
        for (url, expected) in [
            ("https://a.example", "https://a.example/.well-known/x"),
            ("https://a.example/", "https://a.example/.well-known/x"),
            (
                "https://a.example/mcp",
                "https://a.example/.well-known/x/mcp",
            ),
            (
                "https://a.example:8443/t/mcp#f",
                "https://a.example:8443/.well-known/x/t/mcp",
            ),
            (
                "https://a.example/mcp?q=1",
                "https://a.example/.well-known/x/mcp?q=1",
            ),
        ] {
            let found = inserted(&url.parse().unwrap(), "/.well-known/x");
            assert_eq!(found.as_str(), expected, "{url}");
        }
    }

    #[test]
    fn secure_is_https_or_this_machine() {
        for (url, expected) in [
            ("https://a.example/jwks", true),
            ("http://localhost:1/jwks", true),
            ("http://127.0.0.1:1/jwks", true),
            ("http://127.9.9.9/jwks", true),
            ("http://[::1]:1/jwks", true),
            ("http://a.example/jwks", false),
            ("http://localhost.evil.example/jwks", false),
            ("http://10.0.0.1/jwks", false),
            ("file:///etc/passwd", false),
            ("data:,x", false),
        ] {
            assert_eq!(is_secure(&url.parse().unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn documents_are_written_without_what_is_not_said() {
        let metadata =
            ProtectedResourceMetadata::new("https://mcp.example/mcp", "https://as.example");
        assert_eq!(
            serde_json::to_value(&metadata).unwrap(),
            json!({
                "resource": "https://mcp.example/mcp",
                "authorization_servers": ["https://as.example"],
                "bearer_methods_supported": ["header"],
            })
        );
        let metadata: AuthorizationServerMetadata =
            serde_json::from_value(json!({ "issuer": "https://as.example", "unknown": 1 }))
                .unwrap();
        assert_eq!(
            metadata,
            AuthorizationServerMetadata::new("https://as.example")
        );
    }
}
