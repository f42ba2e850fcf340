//! Everything that can go wrong, by what the host can do about it. No error holds a token, a secret, a code or a state.

use std::fmt;

use http::StatusCode;
use serde::Deserialize;

use super::BoxError;

/// How long a text of a server's own may be in an error, in bytes.
const LONGEST_TEXT: usize = 200;

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// A URL that may not be used: neither https nor http on this machine, or with a user name, a fragment or no host.
    #[error("{what} is not at a URL that may be used: it must be https, or http on this machine")]
    Insecure {
        /// What is there.
        what: What,
    },
    /// A document points to an address of this machine or of a private network, and the MCP server is at a public one.
    #[error(
        "{what} is at an address of a private network, to which a server elsewhere may not send this client; allow it with `private_addresses` if it may"
    )]
    PrivateAddress {
        /// What is there.
        what: What,
    },
    /// No answer.
    #[error("{what} cannot be reached")]
    Unreachable {
        /// What was asked for.
        what: What,
        /// Why, without the URL.
        #[source]
        source: reqwest::Error,
    },
    /// An answer larger than any that is right.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// What was asked for.
        what: What,
        /// The limit, in bytes.
        limit: usize,
    },
    /// A status that is not a success. Redirects are among them: none is followed.
    #[error("{what}: HTTP status {status}")]
    Status {
        /// What was asked for.
        what: What,
        /// The status.
        status: StatusCode,
    },
    /// An answer that is not the JSON that it should be.
    #[error("{what} is not the JSON that it should be")]
    Malformed {
        /// What was asked for.
        what: What,
    },
    /// The MCP server describes another resource than the one that it is (RFC 9728, section 3.3).
    #[error("the server's metadata is of the resource {found:?}, which is not this server")]
    ResourceMismatch {
        /// What it names, shortened.
        found: String,
    },
    /// The MCP server names no authorization server.
    #[error("the server's metadata names no authorization server")]
    NoAuthorizationServer,
    /// The authorization server's metadata is in none of the places.
    #[error(
        "the authorization server {issuer:?} publishes no metadata in any of the well-known places"
    )]
    NoServerMetadata {
        /// Its issuer identifier, shortened.
        issuer: String,
    },
    /// The metadata is of another issuer than the one it was looked up for (RFC 8414, section 3.3). None of it was used.
    #[error("the metadata of the authorization server {expected:?} says that it is of {found:?}")]
    IssuerMismatch {
        /// Whose was asked for, shortened.
        expected: String,
        /// Whose it says it is, shortened.
        found: String,
    },
    /// The authorization server does not offer PKCE with S256, so nobody is sent there.
    #[error("the authorization server {issuer:?} does not offer PKCE with S256")]
    NoPkce {
        /// Its issuer identifier, shortened.
        issuer: String,
    },
    /// The authorization server's metadata lacks an endpoint that the flow needs.
    #[error("the authorization server's metadata has no {0}")]
    NoEndpoint(What),
    /// The client is not known to the authorization server, and there is no way to become so.
    #[error(
        "there is no client for the authorization server {issuer:?}: it takes neither a client id metadata document nor a registration that this client could offer, and no client was registered with it beforehand"
    )]
    NoClient {
        /// Its issuer identifier, shortened.
        issuer: String,
    },
    /// The authorization server takes none of the ways in which this client can prove who it is.
    #[error("the authorization server takes none of this client's ways to authenticate")]
    NoAuthentication,
    /// The registration was refused.
    #[error("the authorization server refused to register the client: {0}")]
    Registration(Refusal),
    /// The authorization server refused in the redirect: the person said no, or something in the request was not to its liking.
    #[error("the authorization server refused: {0}")]
    Denied(Refusal),
    /// The token endpoint refused.
    #[error("the token endpoint refused: {0}")]
    Token(Refusal),
    /// The redirect is not an answer to this authorization. Nothing in it was used.
    #[error("the redirect is not an answer to this authorization: {0}")]
    Response(#[from] ResponseProblem),
    /// A token of a type that was not asked for.
    #[error("the authorization server issued a token of another type than {expected}")]
    TokenType {
        /// What was asked for.
        expected: &'static str,
    },
    /// The scopes that the server wants were asked for already, and what came of it was not enough.
    #[error("the server wants the scopes {scope:?}, which were asked for and not enough")]
    ScopesNotEnough {
        /// What it wants, shortened.
        scope: String,
    },
    /// The scopes in a challenge or in metadata are none that a request can carry, or too many.
    #[error("the server's scopes are none that can be asked for")]
    Scopes,
    /// The request goes to another server than the one that the credentials are for. No token was given.
    #[error("the request goes to another server than the one that these credentials are for")]
    OtherServer,
    /// The person could not be sent to the authorization server, or did not come back.
    #[error("the authorization did not come to an end: {0}")]
    UserAgent(#[source] BoxError),
    /// What stands for the client or its user cannot be had from where the host keeps it.
    #[error("the assertion for the authorization server is not to be had: {0}")]
    Assertion(#[source] BoxError),
    /// The store of credentials failed.
    #[error("the store of credentials failed: {0}")]
    Store(#[source] BoxError),
    /// A key that cannot be read, or does not sign.
    #[error("the key cannot be used")]
    Key,
    /// The HTTP client does not start, the operating system gives no randomness, or a task was ended from outside.
    #[error("{0}")]
    Internal(&'static str),
}

impl AuthError {
    pub(super) fn insecure(what: What) -> Self {
        Self::Insecure { what }
    }

    /// Whether asking in the next well-known place may help.
    pub(super) fn is_absence(&self) -> bool {
        match self {
            Self::Status { status, .. } => status.is_client_error() || status.is_redirection(),
            Self::Malformed { .. } => true,
            _ => false,
        }
    }

    /// Whether the authorization server does not take a refresh token any more.
    pub(super) fn is_refused_grant(&self) -> bool {
        matches!(self, Self::Token(_))
    }
}

/// What a URL or an answer is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// The MCP server.
    Server,
    /// The MCP server's protected resource metadata.
    ResourceMetadata,
    /// The authorization server, as its issuer identifier has it.
    AuthorizationServer,
    /// Its metadata.
    ServerMetadata,
    /// Its authorization endpoint.
    AuthorizationEndpoint,
    /// Its token endpoint.
    TokenEndpoint,
    /// Its registration endpoint.
    RegistrationEndpoint,
    /// The token endpoint of the organization's identity provider.
    IdentityProvider,
    /// This client's metadata document.
    ClientMetadata,
    /// Where the person comes back to.
    RedirectUri,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server => "the MCP server",
            Self::ResourceMetadata => "the server's protected resource metadata",
            Self::AuthorizationServer => "the authorization server",
            Self::ServerMetadata => "the authorization server's metadata",
            Self::AuthorizationEndpoint => "the authorization endpoint",
            Self::TokenEndpoint => "the token endpoint",
            Self::RegistrationEndpoint => "the registration endpoint",
            Self::IdentityProvider => "the identity provider's token endpoint",
            Self::ClientMetadata => "the client id metadata document",
            Self::RedirectUri => "the redirect URI",
        })
    }
}

/// Why a redirect is not the answer to an authorization request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResponseProblem {
    /// Not a URL, or a parameter twice.
    #[error("it cannot be read")]
    Unreadable,
    /// `state` is missing or another one.
    #[error("its state is not the one that was sent")]
    State,
    /// `iss` is missing where it was promised, or names another issuer (RFC 9207, section 2.4).
    #[error("it does not come from the authorization server that was asked")]
    Issuer,
    /// Neither a code nor an error.
    #[error("it has neither a code nor an error")]
    NoCode,
}

/// What an authorization server says when it refuses (RFC 6749, sections 4.1.2.1 and 5.2). The texts are its own, reduced to printable ASCII
/// and shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code, such as `access_denied` or `invalid_grant`.
    pub error: String,
    /// In words, for a developer.
    pub description: Option<String>,
}

impl Refusal {
    pub(super) fn new(error: &str, description: Option<&str>) -> Self {
        Self {
            error: shown(error),
            description: description.map(shown),
        }
    }

    /// Reads the body of a refusal; `None` when it is not one.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Body {
            error: String,
            error_description: Option<String>,
        }
        let body: Body = serde_json::from_slice(body).ok()?;
        Some(Self::new(&body.error, body.error_description.as_deref()))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.description {
            Some(description) => write!(f, "{} ({description})", self.error),
            None => f.write_str(&self.error),
        }
    }
}

/// A text from outside for an error: printable ASCII, and not long.
pub(super) fn shown(text: &str) -> String {
    let printable = |letter: &char| (' '..='~').contains(letter);
    text.chars().filter(printable).take(LONGEST_TEXT).collect()
}
