//! A small authorization server. **Never for production.**
//!
//! It has what MCP asks of one, so that clients and servers can be tried against it: metadata (RFC 8414), the authorization
//! code flow with PKCE and `iss` (RFC 9207), resource indicators (RFC 8707), refresh tokens that are rotated, introspection
//! (RFC 7662), dynamic registration of public clients (RFC 7591), and signed access tokens (RFC 9068) with keys that can be
//! rotated. What a test needs beside that has a method: [`Issuer::outage`], [`Issuer::mint`] and the like.

mod book;
mod keys;
mod routes;

use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mrtr_state::{Clock, SystemClock};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use self::book::Book;
use self::keys::Keys;

/// A client that is registered beforehand.
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) id: String,
    pub(crate) secret: Option<String>,
    pub(crate) redirect_uris: Vec<String>,
}

impl Client {
    /// A public client: it authenticates with nothing, and proves itself by PKCE.
    ///
    /// A redirect URI on loopback is good with any port (RFC 8252 section 7.3); every other is compared whole.
    pub fn public(id: impl Into<String>, redirect_uri: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            secret: None,
            redirect_uris: vec![redirect_uri.into()],
        }
    }

    /// A client with a secret: for introspection, or to authenticate at the token endpoint.
    pub fn confidential(id: impl Into<String>, secret: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            secret: Some(secret.into()),
            redirect_uris: Vec::new(),
        }
    }
}

/// Describes an [`Issuer`].
#[derive(Debug)]
#[must_use = "nothing is served until `start` is called"]
pub struct IssuerBuilder {
    book: Book,
    clock: Arc<dyn Clock>,
}

impl IssuerBuilder {
    /// Somebody who can log in, and the scopes that they may grant.
    pub fn person<'s>(
        mut self,
        name: &str,
        password: &str,
        scopes: impl IntoIterator<Item = &'s str>,
    ) -> Self {
        self.book.add_person(name, password, scopes);
        self
    }

    /// A client that is registered beforehand.
    pub fn client(mut self, client: Client) -> Self {
        self.book.add_client(client);
        self
    }

    /// The clock; the system's by default.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Serves it on a free port of loopback until the [`Issuer`] is dropped.
    ///
    /// # Errors
    ///
    /// When there is no port to listen on, or no randomness to make a key of.
    pub async fn start(self) -> io::Result<Issuer> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            url,
            clock: self.clock,
            book: Mutex::new(self.book),
            keys: Mutex::new(Keys::generate().ok_or_else(|| io::Error::other("no key"))?),
            dark: AtomicBool::new(false),
            key_requests: AtomicUsize::new(0),
        });
        let (end, ended) = oneshot::channel::<()>();
        let routes = routes::routes(Arc::clone(&shared));
        let serving = axum::serve(listener, routes).with_graceful_shutdown(async {
            let _ = ended.await;
        });
        tokio::spawn(async move { serving.await });
        Ok(Issuer { shared, _end: end })
    }
}

/// An authorization server that runs. **Never for production.**
#[derive(Debug)]
pub struct Issuer {
    shared: Arc<Shared>,
    /// Dropped, it ends the server.
    _end: oneshot::Sender<()>,
}

#[derive(Debug)]
struct Shared {
    url: String,
    clock: Arc<dyn Clock>,
    book: Mutex<Book>,
    keys: Mutex<Keys>,
    dark: AtomicBool,
    key_requests: AtomicUsize,
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In seconds since the Unix epoch.
    fn now(&self) -> u64 {
        self.clock.now().as_millis() / 1_000
    }
}

impl Issuer {
    /// An issuer without people and clients.
    pub fn builder() -> IssuerBuilder {
        IssuerBuilder {
            book: Book::default(),
            clock: Arc::new(SystemClock),
        }
    }

    /// The issuer identifier.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// Where the keys are published.
    #[must_use]
    pub fn jwks_uri(&self) -> String {
        format!("{}/jwks", self.shared.url)
    }

    /// Where tokens are introspected.
    #[must_use]
    pub fn introspection_endpoint(&self) -> String {
        format!("{}/introspect", self.shared.url)
    }

    /// The claims of a good access token that is issued now, to be bent by a test.
    #[must_use]
    pub fn claims(&self, subject: &str, client: &str, resource: &str, scope: &str) -> Value {
        let now = self.shared.now();
        json!({
            "iss": self.shared.url, "sub": subject, "client_id": client, "aud": resource, "scope": scope,
            "iat": now, "exp": now + book::ACCESS, "jti": book::random(),
        })
    }

    /// Signs these claims with the current key, whatever they say.
    #[must_use]
    pub fn mint(&self, claims: &Value) -> String {
        self.shared.keys().sign("at+jwt", claims)
    }

    /// The same as a token of another kind: `typ` in its header.
    #[must_use]
    pub fn mint_as(&self, kind: &str, claims: &Value) -> String {
        self.shared.keys().sign(kind, claims)
    }

    /// Issues an access token without a login, as the token endpoint would after one; it can be introspected.
    #[must_use]
    pub fn token(&self, subject: &str, client: &str, resource: &str, scope: &str) -> String {
        let claims = self.claims(subject, client, resource, scope);
        let token = self.mint(&claims);
        self.shared.book().remember(&token, claims);
        token
    }

    /// Takes back what a token grants but for this scope. A signed token keeps saying what it said; introspection tells.
    pub fn narrow(&self, token: &str, scope: &str) {
        self.shared.book().narrow(token, scope);
    }

    /// Takes a token back. Introspection tells.
    pub fn revoke(&self, token: &str) {
        self.shared.book().revoke(token);
    }

    /// Signs with a new key from here on. The old ones stay published.
    pub fn rotate(&self) {
        self.shared.keys().rotate();
    }

    /// Publishes the current key alone.
    pub fn withdraw_old_keys(&self) {
        self.shared.keys().withdraw_old();
    }

    /// The current key as it is published (a JWK), and its id.
    #[must_use]
    pub fn public_key(&self) -> Value {
        self.shared.keys().published().pop().unwrap_or_default()
    }

    /// Whether every request is answered with 503.
    pub fn outage(&self, dark: bool) {
        self.shared.dark.store(dark, Ordering::SeqCst);
    }

    /// How often somebody asked for the keys.
    #[must_use]
    pub fn key_requests(&self) -> usize {
        self.shared.key_requests.load(Ordering::SeqCst)
    }
}
