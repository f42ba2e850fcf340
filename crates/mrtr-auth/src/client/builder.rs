//! Collecting what [`OAuth`] needs.

use std::fmt;
use std::sync::Arc;

use mrtr_state::{Clock, SystemClock};
use url::Url;

use super::agent::UserAgent;
use super::clients::Clients;
use super::error::{AuthError, What};
use super::fetch::{Fetcher, usable};
use super::grant::{AssertionSource, EnterpriseManaged, Grant};
use super::identity::{ClientIdentity, Registration};
use super::keys::{DpopKey, PrivateKey};
use super::oauth::{Inner, OAuth};
use super::store::{CredentialStore, MemoryStore};

/// Collects what [`OAuth`] needs: at least one way of being known to authorization servers.
#[must_use]
pub struct OAuthBuilder {
    server: String,
    grant: Grant,
    clients: Clients,
    store: Arc<dyn CredentialStore>,
    dpop: Option<DpopKey>,
    clock: Arc<dyn Clock>,
    offline_access: bool,
    private_addresses: bool,
    http: Option<reqwest::Client>,
}

impl OAuth {
    /// For a person, who is sent to the authorization server's page and agrees there. `server` is the URL of the MCP endpoint, as the
    /// [`Client`](mrtr_client::Client) has it.
    pub fn for_user(server: impl Into<String>, agent: impl UserAgent) -> OAuthBuilder {
        OAuthBuilder::new(server.into(), Grant::Code(Arc::new(agent)))
    }

    /// For the client itself, which is its own principal (grant `client_credentials`).
    pub fn for_client(server: impl Into<String>) -> OAuthBuilder {
        OAuthBuilder::new(server.into(), Grant::ClientCredentials)
    }

    /// For a workload whose platform issues it a JWT (grant `jwt-bearer`, RFC 7523).
    pub fn for_workload(
        server: impl Into<String>,
        assertions: impl AssertionSource,
    ) -> OAuthBuilder {
        OAuthBuilder::new(server.into(), Grant::Assertion(Arc::new(assertions)))
    }

    /// For a person whose organization has agreed for them.
    pub fn enterprise_managed(
        server: impl Into<String>,
        managed: EnterpriseManaged,
    ) -> OAuthBuilder {
        OAuthBuilder::new(server.into(), Grant::Enterprise(managed))
    }
}

impl OAuthBuilder {
    fn new(server: String, grant: Grant) -> Self {
        Self {
            server,
            grant,
            clients: Clients::default(),
            store: Arc::new(MemoryStore::new()),
            dpop: None,
            clock: Arc::new(SystemClock),
            offline_access: false,
            private_addresses: false,
            http: None,
        }
    }

    /// A client that was registered beforehand with the authorization server of this issuer. It comes before any other way, and is shown to no
    /// other authorization server.
    pub fn registered_at(mut self, issuer: impl Into<String>, client: ClientIdentity) -> Self {
        let _ = self.clients.registered.insert(issuer.into(), client);
        self
    }

    /// A client that was registered beforehand, where the issuer is not known yet: it is shown to the first authorization server that the MCP server
    /// names, and to no other in this process. Prefer [`registered_at`](Self::registered_at): a secret is only as safe as the MCP server's word
    /// then.
    pub fn registered(mut self, client: ClientIdentity) -> Self {
        self.clients.unbound = Some(client);
        self
    }

    /// A client whose id is the URL of its metadata document, at authorization servers that take those. The document is the host's to publish;
    /// [`Registration::to_document`] writes it.
    pub fn client_id_document(mut self, url: impl Into<String>) -> Self {
        self.clients.document = Some(ClientIdentity::public(url));
        self
    }

    /// The same with a key, whose public half the document names.
    pub fn client_id_document_with_key(mut self, url: impl Into<String>, key: PrivateKey) -> Self {
        self.clients.document = Some(ClientIdentity::with_key(url, key));
        self
    }

    /// Registers dynamically, where nothing else is taken.
    pub fn registration(mut self, registration: Registration) -> Self {
        self.clients.registration = Some(registration);
        self
    }

    /// Where tokens and registrations are kept; [`MemoryStore`] by default, which forgets.
    pub fn store(mut self, store: impl CredentialStore) -> Self {
        self.store = Arc::new(store);
        self
    }

    /// Binds tokens to this key (RFC 9449). An authorization server that issues other tokens is refused.
    pub fn dpop(mut self, key: DpopKey) -> Self {
        self.dpop = Some(key);
        self
    }

    /// Asks for the scope `offline_access` where the authorization server has it, and so for a refresh token that outlives the person's session
    /// there. A refresh token that comes without it is used in any case.
    pub fn offline_access(mut self) -> Self {
        self.offline_access = true;
        self
    }

    /// Lets an MCP server at a public address name an authorization server on this machine or in a private network. Without it such a server cannot
    /// make this client send requests there.
    pub fn private_addresses(mut self) -> Self {
        self.private_addresses = true;
        self
    }

    /// Another HTTP client for metadata and tokens: certificates, a proxy. The host then answers for what the own one does: no redirects, no
    /// repeats, time-outs, and no requests into networks where the MCP server has no business.
    pub fn http_client(mut self, client: reqwest::Client) -> Self {
        self.http = Some(client);
        self
    }

    /// Another clock, for tests.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Checks what was collected. Nothing is sent.
    ///
    /// # Errors
    ///
    /// [`AuthError::Insecure`] for an MCP server or a client id metadata document whose URL may not be used, and when the HTTP client does not start.
    pub fn build(self) -> Result<OAuth, AuthError> {
        let server = Url::parse(&self.server).map_err(|_| AuthError::insecure(What::Server))?;
        if let Some(document) = &self.clients.document {
            let url = usable(What::ClientMetadata, &document.id)?;
            // It must be https and have a path (*Client ID Metadata Documents*).
            if url.scheme() != "https" || url.path() == "/" {
                return Err(AuthError::insecure(What::ClientMetadata));
            }
        }
        let inner = Inner {
            fetcher: Fetcher::new(server, self.private_addresses, self.http)?,
            grant: self.grant,
            clients: self.clients,
            store: self.store,
            dpop: self.dpop,
            clock: self.clock,
            offline_access: self.offline_access,
            state: tokio::sync::Mutex::default(),
        };
        Ok(OAuth {
            inner: Arc::new(inner),
        })
    }
}

/// Never prints a secret.
impl fmt::Debug for OAuthBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthBuilder")
            .field("server", &self.server)
            .field("grant", &self.grant)
            .finish_non_exhaustive()
    }
}
