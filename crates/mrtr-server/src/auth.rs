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

/// The future of [`Authenticator::authenticate`].
pub type AuthFuture<'a> = Pin<Box<dyn Future<Output = Result<Principal, AuthError>> + Send + 'a>>;

/// Finds the principal of an HTTP request. Runs on every request, retries and replays included.
///
/// Implementers: never derive the principal from anything that the caller sets at will (`_meta`, `clientInfo`, a plain
/// header). Do not put tokens into errors or logs.
pub trait Authenticator: fmt::Debug + Send + Sync + 'static {
    /// The principal behind this request's head.
    fn authenticate<'a>(&'a self, head: &'a Parts) -> AuthFuture<'a>;
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
    principals: HashMap<[u8; 32], Principal>,
    anonymous: bool,
}

impl StaticTokens {
    /// An empty table: nobody is let in.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whoever presents `token` is `principal`.
    #[must_use]
    pub fn token(mut self, token: &str, principal: Principal) -> Self {
        self.principals
            .insert(Sha256::digest(token).into(), principal);
        self
    }

    /// Lets callers without an `Authorization` header in as [`Principal::Anonymous`]. A wrong token is still refused.
    #[must_use]
    pub fn or_anonymous(mut self) -> Self {
        self.anonymous = true;
        self
    }

    fn principal(&self, head: &Parts) -> Result<Principal, AuthError> {
        let mut headers = head.headers.get_all(AUTHORIZATION).iter();
        let (first, second) = (headers.next(), headers.next());
        match (first, second) {
            (None, _) if self.anonymous => Ok(Principal::Anonymous),
            (None, _) => Err(AuthError::missing()),
            (Some(value), None) => {
                let token = value.as_bytes();
                let (scheme, token) = token.split_at_checked(7).ok_or_else(AuthError::missing)?;
                if !scheme.eq_ignore_ascii_case(b"bearer ") {
                    return Err(AuthError::missing());
                }
                // The table is keyed by hash, so a look-up's time says nothing about a token.
                let hash: [u8; 32] = Sha256::digest(token).into();
                self.principals
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
        Box::pin(ready(self.principal(head)))
    }
}

impl fmt::Debug for StaticTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticTokens")
            .field("tokens", &self.principals.len())
            .field("anonymous", &self.anonymous)
            .finish()
    }
}

/// Everybody is [`Principal::Anonymous`]; what [`allow_anonymous`](crate::ServerBuilder::allow_anonymous) installs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anonymous;

impl Authenticator for Anonymous {
    fn authenticate<'a>(&'a self, _: &'a Parts) -> AuthFuture<'a> {
        Box::pin(ready(Ok(Principal::Anonymous)))
    }
}
