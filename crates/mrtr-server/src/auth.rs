//! Who is calling.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use http::request::Parts;
use mrtr_state::Principal;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::access::Identity;

/// The future of [`Authenticator::authenticate`].
pub type AuthFuture<'a> = Pin<Box<dyn Future<Output = Result<Identity, AuthError>> + Send + 'a>>;

/// Finds the principal of an HTTP request, and the scopes that it was granted. Runs on every request, retries and replays
/// included; what it finds holds for that request alone.
///
/// Implementers: never derive the principal from anything that the caller sets at will (`_meta`, `clientInfo`, a plain
/// header). Do not put tokens into errors or logs.
pub trait Authenticator: fmt::Debug + Send + Sync + 'static {
    /// Who is behind this request's head. A bare principal, `principal.into()`, is granted no scopes.
    fn authenticate<'a>(&'a self, head: &'a Parts) -> AuthFuture<'a>;

    /// The value of `WWW-Authenticate` for a request that was authenticated and lacks a scope: what it needs is `scopes`, all
    /// of them. An authenticator that has protected resource metadata adds where it is.
    ///
    /// Specification: `basic/authorization`, "Runtime Insufficient Scope Errors".
    fn insufficient_scope(&self, scopes: &[&str]) -> HeaderValue {
        let challenge = format!(
            "Bearer error=\"insufficient_scope\", scope=\"{}\"",
            scopes.join(" ")
        );
        HeaderValue::try_from(challenge).unwrap_or(HeaderValue::from_static(
            "Bearer error=\"insufficient_scope\"",
        ))
    }
}

/// Why nobody was found.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AuthError {
    /// No credentials, or none that hold: HTTP 401.
    #[error("not authenticated: {why}")]
    Unauthenticated {
        /// For the caller; must hold no token.
        why: Cow<'static, str>,
        /// The value of `WWW-Authenticate`.
        challenge: HeaderValue,
    },
    /// Credentials that hold, and grant too little for anything here: HTTP 403.
    #[error("insufficient scope: {why}")]
    InsufficientScope {
        /// For the caller; must hold no token.
        why: Cow<'static, str>,
        /// The value of `WWW-Authenticate`, with the scopes that are needed.
        challenge: HeaderValue,
    },
    /// Whoever could tell does not answer: HTTP 503. Nobody is let in meanwhile.
    #[error("who is calling cannot be told right now: {why}")]
    Unavailable {
        /// For the caller; must hold no token.
        why: Cow<'static, str>,
    },
}

impl AuthError {
    /// No credentials, or none that hold; `challenge` is the value of `WWW-Authenticate`.
    pub fn unauthenticated(why: impl Into<Cow<'static, str>>, challenge: HeaderValue) -> Self {
        Self::Unauthenticated {
            why: why.into(),
            challenge,
        }
    }

    /// Whoever could tell does not answer; nobody is let in meanwhile.
    pub fn unavailable(why: impl Into<Cow<'static, str>>) -> Self {
        Self::Unavailable { why: why.into() }
    }

    /// Credentials that hold, and grant too little; `challenge` is the value of `WWW-Authenticate`.
    pub fn insufficient_scope(why: impl Into<Cow<'static, str>>, challenge: HeaderValue) -> Self {
        Self::InsufficientScope {
            why: why.into(),
            challenge,
        }
    }

    fn missing() -> Self {
        Self::unauthenticated(
            "send a bearer token in `Authorization`",
            HeaderValue::from_static("Bearer"),
        )
    }

    fn unknown() -> Self {
        let challenge = HeaderValue::from_static("Bearer error=\"invalid_token\"");
        Self::unauthenticated("the bearer token is not known here", challenge)
    }
}

/// A fixed table of bearer tokens, for examples and tests.
///
/// Only the tokens' hashes are kept. **Not guaranteed:** expiry, scopes, revocation; take a real authorization server for
/// anything that matters.
#[derive(Default, Clone)]
pub struct StaticTokens {
    identities: HashMap<[u8; 32], Identity>,
    anonymous: bool,
}

impl StaticTokens {
    /// An empty table: nobody is let in.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whoever presents `token` is `identity`: a [`Principal`], or an [`Identity`] where scopes matter.
    #[must_use]
    pub fn token(mut self, token: &str, identity: impl Into<Identity>) -> Self {
        self.identities
            .insert(Sha256::digest(token).into(), identity.into());
        self
    }

    /// Lets callers without an `Authorization` header in as [`Principal::Anonymous`]. A wrong token is still refused.
    #[must_use]
    pub fn or_anonymous(mut self) -> Self {
        self.anonymous = true;
        self
    }

    fn identity(&self, head: &Parts) -> Result<Identity, AuthError> {
        let mut headers = head.headers.get_all(AUTHORIZATION).iter();
        let (first, second) = (headers.next(), headers.next());
        match (first, second) {
            (None, _) if self.anonymous => Ok(Principal::Anonymous.into()),
            (None, _) => Err(AuthError::missing()),
            (Some(value), None) => {
                let token = value.as_bytes();
                let (scheme, token) = token.split_at_checked(7).ok_or_else(AuthError::missing)?;
                if !scheme.eq_ignore_ascii_case(b"bearer ") {
                    return Err(AuthError::missing());
                }
                // The table is keyed by hash, so a look-up's time says nothing about a token.
                let hash: [u8; 32] = Sha256::digest(token).into();
                self.identities
                    .get(&hash)
                    .cloned()
                    .ok_or_else(AuthError::unknown)
            }
            (Some(_), Some(_)) => Err(AuthError::unknown()),
        }
    }
}

impl Authenticator for StaticTokens {
    fn authenticate<'a>(&'a self, head: &'a Parts) -> AuthFuture<'a> {
        Box::pin(ready(self.identity(head)))
    }
}

impl fmt::Debug for StaticTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticTokens")
            .field("tokens", &self.identities.len())
            .field("anonymous", &self.anonymous)
            .finish()
    }
}

/// Everybody is [`Principal::Anonymous`]; what [`allow_anonymous`](crate::ServerBuilder::allow_anonymous) installs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anonymous;

impl Authenticator for Anonymous {
    fn authenticate<'a>(&'a self, _: &'a Parts) -> AuthFuture<'a> {
        Box::pin(ready(Ok(Principal::Anonymous.into())))
    }
}
