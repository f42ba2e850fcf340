//! What is kept between logins, and where.

use std::collections::HashMap;
use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::BoxError;
use super::secret::Secret;

/// What a store answers with.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send + 'a>>;

/// Keeps tokens and registrations.
///
/// # Contract
///
/// * One store holds the credentials of one person. Whoever can read it can act as that person: keep it where the operating system keeps
///   secrets, or in a file that nobody else can read.
/// * Registrations are kept by issuer: what one authorization server gave out is never shown to another. Tokens are kept by MCP server, and say
///   whose they are.
/// * What was kept last is what is given back; `None` takes it away.
pub trait CredentialStore: fmt::Debug + Send + Sync + 'static {
    /// The tokens for the MCP server at this URL.
    fn tokens<'a>(&'a self, server: &'a str) -> StoreFuture<'a, Option<Tokens>>;

    /// Keeps the tokens for the MCP server at this URL.
    fn keep_tokens<'a>(&'a self, server: &'a str, tokens: Option<Tokens>) -> StoreFuture<'a, ()>;

    /// What the authorization server of this issuer registered this client as.
    fn registration<'a>(&'a self, issuer: &'a str) -> StoreFuture<'a, Option<RegisteredClient>>;

    /// Keeps what the authorization server of this issuer registered this client as.
    fn keep_registration<'a>(
        &'a self,
        issuer: &'a str,
        client: Option<RegisteredClient>,
    ) -> StoreFuture<'a, ()>;
}

impl<S: CredentialStore + ?Sized> CredentialStore for Arc<S> {
    fn tokens<'a>(&'a self, server: &'a str) -> StoreFuture<'a, Option<Tokens>> {
        (**self).tokens(server)
    }

    fn keep_tokens<'a>(&'a self, server: &'a str, tokens: Option<Tokens>) -> StoreFuture<'a, ()> {
        (**self).keep_tokens(server, tokens)
    }

    fn registration<'a>(&'a self, issuer: &'a str) -> StoreFuture<'a, Option<RegisteredClient>> {
        (**self).registration(issuer)
    }

    fn keep_registration<'a>(
        &'a self,
        issuer: &'a str,
        client: Option<RegisteredClient>,
    ) -> StoreFuture<'a, ()> {
        (**self).keep_registration(issuer, client)
    }
}

/// An access token, how to get the next one, and whose they are. They never print, but they do serialize, for a store that keeps them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tokens {
    /// The issuer identifier of the authorization server. Tokens are shown to it and to the resource, and to nobody else.
    pub issuer: String,
    /// The resource that they are for, as its metadata spells it.
    pub resource: String,
    /// The client that they were issued to.
    pub client_id: String,
    /// The access token.
    pub access_token: Secret,
    /// The refresh token, if there is one. It is good once, where the authorization server rotates them.
    pub refresh_token: Option<Secret>,
    /// When the access token expires, in milliseconds since 1970; `None` when the authorization server does not say.
    pub expires_at: Option<u64>,
    /// The scopes that were asked for, each once.
    pub scopes: Vec<String>,
    /// The thumbprint of the key that the tokens are bound to; `None` for a bearer token.
    pub bound_to: Option<String>,
}

/// What an authorization server registered a client as (RFC 7591, section 3.2.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RegisteredClient {
    /// The client's id at this authorization server, and at no other.
    pub client_id: String,
    /// Its secret, if it was given one.
    pub client_secret: Option<Secret>,
    /// When the secret expires, in seconds since 1970; `None` and 0 for never.
    pub client_secret_expires_at: Option<u64>,
    /// How it is to authenticate, if the authorization server says so.
    pub token_endpoint_auth_method: Option<String>,
    /// Where its users come back to.
    pub redirect_uri: String,
}

/// Forgets everything when the process ends.
#[derive(Default)]
pub struct MemoryStore {
    tokens: Mutex<HashMap<String, Tokens>>,
    clients: Mutex<HashMap<String, RegisteredClient>>,
}

impl MemoryStore {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep<T>(kept: &Mutex<HashMap<String, T>>, key: &str, value: Option<T>) {
    match value {
        Some(value) => lock(kept).insert(key.to_owned(), value),
        None => lock(kept).remove(key),
    };
}

impl CredentialStore for MemoryStore {
    fn tokens<'a>(&'a self, server: &'a str) -> StoreFuture<'a, Option<Tokens>> {
        Box::pin(ready(Ok(lock(&self.tokens).get(server).cloned())))
    }

    fn keep_tokens<'a>(&'a self, server: &'a str, tokens: Option<Tokens>) -> StoreFuture<'a, ()> {
        keep(&self.tokens, server, tokens);
        Box::pin(ready(Ok(())))
    }

    fn registration<'a>(&'a self, issuer: &'a str) -> StoreFuture<'a, Option<RegisteredClient>> {
        Box::pin(ready(Ok(lock(&self.clients).get(issuer).cloned())))
    }

    fn keep_registration<'a>(
        &'a self,
        issuer: &'a str,
        client: Option<RegisteredClient>,
    ) -> StoreFuture<'a, ()> {
        keep(&self.clients, issuer, client);
        Box::pin(ready(Ok(())))
    }
}

/// Never prints what it holds.
impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryStore")
    }
}
