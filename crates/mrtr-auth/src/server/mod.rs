//! An MCP server as a protected resource: who is calling, told from bearer tokens.
//!
//! | What | Where |
//! |---|---|
//! | what this server is to authorization servers and clients: metadata, challenges, scopes | [`ProtectedResource`] |
//! | tokens that are JSON Web Tokens, checked against the issuer's published keys | [`JwtAuthenticator`] |
//! | opaque tokens, about which their issuer is asked (RFC 7662) | [`IntrospectionAuthenticator`] |
//!
//! A token is taken from the `Authorization` header and from nowhere else. Its principal is (issuer, subject, client): a
//! refreshed token goes on with the flows of the one before; the same subject at another issuer, or in another app, is
//! somebody else.
//!
//! Specification: `basic/authorization`, "Token Handling".

mod bearer;
mod claims;
mod fetch;
mod introspection;
mod jwks;
mod jwt;
mod resource;

use thiserror::Error;

pub use introspection::{IntrospectionAuthenticator, IntrospectionBuilder};
pub use jwt::{Algorithm, JwtAuthenticator, JwtBuilder, TrustedIssuer};
pub use resource::{ProtectedResource, ProtectedResourceBuilder};

/// Why an authenticator or a resource cannot be used as it is described.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Not a URL that this can be.
    #[error(
        "{what} must be an `https:` URL, or `http:` on this machine, without a fragment: `{url}` is not"
    )]
    Url {
        /// What it is for.
        what: &'static str,
        /// As it was given.
        url: String,
    },
    /// Not a scope that a token could carry (RFC 6749 section 3.3).
    #[error("`{0}` is no scope: it is printable ASCII without spaces, quotes and backslashes")]
    Scope(String),
    /// `offline_access` is asked of an authorization server, and no resource needs it.
    #[error("`offline_access` is nothing that a resource needs: leave it out")]
    OfflineAccess,
    /// Tokens of an issuer to which clients are not sent.
    #[error("`{0}` is not among the authorization servers of the resource: name it there too")]
    UnknownIssuer(String),
    /// Nobody's tokens would be taken.
    #[error("no issuer is trusted: give the builder one with `.issuer(..)`")]
    NoIssuer,
    /// No algorithm is allowed, so that no token could hold.
    #[error("no algorithm is allowed for tokens of `{0}`")]
    NoAlgorithm(String),
    /// The HTTP client cannot be made.
    #[error("no HTTP client: {0}")]
    Http(String),
}
