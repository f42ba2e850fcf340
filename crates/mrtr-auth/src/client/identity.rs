//! Who this client is to an authorization server (`basic/authorization/client-registration`), and how it proves that.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};
use mrtr_state::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::form_urlencoded::byte_serialize;

use super::error::{AuthError, Refusal, What};
use super::fetch::{Fetcher, Post, usable};
use super::keys::PrivateKey;
use super::secret::Secret;
use super::store::RegisteredClient;
use crate::metadata::AuthorizationServerMetadata;

/// A client as an authorization server knows it: an id, and what proves that it is this client.
#[derive(Debug, Clone)]
pub struct ClientIdentity {
    pub(super) id: String,
    pub(super) proof: Proof,
}

#[derive(Debug, Clone)]
pub(super) enum Proof {
    /// A public client.
    Nothing,
    Secret(Secret),
    Key(PrivateKey),
}

impl ClientIdentity {
    /// A client without a secret: anything that runs on its user's machine.
    pub fn public(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            proof: Proof::Nothing,
        }
    }

    /// A client with a secret (`client_secret_basic`, or `client_secret_post` where that is all there is).
    pub fn with_secret(id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        Self {
            id: id.into(),
            proof: Proof::Secret(secret.into()),
        }
    }

    /// A client with a key (`private_key_jwt`).
    pub fn with_key(id: impl Into<String>, key: PrivateKey) -> Self {
        Self {
            id: id.into(),
            proof: Proof::Key(key),
        }
    }
}

/// Where a client runs, which decides about its redirect URIs (OpenID Connect Dynamic Client Registration, section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApplicationType {
    /// On its user's machine.
    Native,
    /// On a server.
    Web,
}

/// What a client says of itself when it registers dynamically (RFC 7591). Deprecated by the specification in favour of client id metadata
/// documents, and needed where authorization servers do not take those.
#[derive(Debug, Clone)]
pub struct Registration {
    client_name: String,
    application_type: ApplicationType,
    client_uri: Option<String>,
}

impl Registration {
    /// A client of this name, which authorization servers show to people.
    pub fn new(client_name: impl Into<String>, application_type: ApplicationType) -> Self {
        Self {
            client_name: client_name.into(),
            application_type,
            client_uri: None,
        }
    }

    /// A page about the client.
    #[must_use]
    pub fn client_uri(mut self, uri: impl Into<String>) -> Self {
        self.client_uri = Some(uri.into());
        self
    }

    /// The client id metadata document to be published at `url`, which is the client's id then. An authorization server sends people back to
    /// these redirect URIs alone.
    #[must_use]
    pub fn to_document(&self, url: &str, redirect_uris: &[&str]) -> serde_json::Value {
        let mut document = json!({
            "client_id": url,
            "client_name": self.client_name,
            "application_type": self.application_type,
            "redirect_uris": redirect_uris,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": NONE,
        });
        self.put_uri(&mut document);
        document
    }

    fn put_uri(&self, metadata: &mut serde_json::Value) {
        if let (Some(uri), Some(metadata)) = (&self.client_uri, metadata.as_object_mut()) {
            let _ = metadata.insert("client_uri".to_owned(), json!(uri));
        }
    }

    /// Registers with this authorization server.
    pub(super) async fn register(
        &self,
        fetcher: &Fetcher,
        metadata: &AuthorizationServerMetadata,
        redirect_uri: &str,
    ) -> Result<RegisteredClient, AuthError> {
        let what = What::RegistrationEndpoint;
        let endpoint = metadata.registration_endpoint.as_deref();
        let url = usable(what, endpoint.ok_or(AuthError::NoEndpoint(what))?)?;
        // A public client where that may be: what is on a person's machine keeps no secret.
        let methods = methods(metadata);
        let method = [NONE, BASIC, POST]
            .into_iter()
            .find(|method| methods.contains(method))
            .ok_or(AuthError::NoAuthentication)?;
        let mut body = json!({
            "client_name": self.client_name,
            "application_type": self.application_type,
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
        });
        self.put_uri(&mut body);
        let post = Post::Json(&body);
        let answer = fetcher.post(what, &url, post, HeaderMap::new()).await?;
        if !answer.status.is_success()
            && let Some(refusal) = Refusal::parse(&answer.body)
        {
            return Err(AuthError::Registration(refusal));
        }
        #[derive(Deserialize)]
        struct Registered {
            client_id: String,
            client_secret: Option<Secret>,
            client_secret_expires_at: Option<u64>,
            token_endpoint_auth_method: Option<String>,
        }
        let registered: Registered = answer.json()?;
        Ok(RegisteredClient {
            client_id: registered.client_id,
            client_secret: registered.client_secret,
            client_secret_expires_at: registered.client_secret_expires_at,
            token_endpoint_auth_method: registered.token_endpoint_auth_method,
            redirect_uri: redirect_uri.to_owned(),
        })
    }
}

impl RegisteredClient {
    /// Whether it can be used for a login that comes back to `redirect_uri`.
    pub(super) fn is_good_for(&self, redirect_uri: &str, now: Timestamp) -> bool {
        let seconds = now.as_millis() / 1000;
        let expires = self.client_secret_expires_at.filter(|at| *at != 0);
        self.redirect_uri == redirect_uri && expires.is_none_or(|at| seconds < at)
    }
}

const NONE: &str = "none";
const BASIC: &str = "client_secret_basic";
const POST: &str = "client_secret_post";
const KEY: &str = "private_key_jwt";

/// The methods that the token endpoint takes (RFC 8414, section 2).
fn methods(metadata: &AuthorizationServerMetadata) -> Vec<&str> {
    match &metadata.token_endpoint_auth_methods_supported {
        Some(methods) => methods.iter().map(String::as_str).collect(),
        None => vec![BASIC],
    }
}

/// How this client authenticates at one token endpoint.
#[derive(Debug, Clone)]
pub(super) struct Authentication {
    pub(super) client_id: String,
    method: Method,
}

#[derive(Debug, Clone)]
enum Method {
    None,
    Basic(Secret),
    Post(Secret),
    Key(PrivateKey),
}

impl Authentication {
    /// The best way that both sides have.
    pub(super) fn of(
        identity: &ClientIdentity,
        metadata: &AuthorizationServerMetadata,
    ) -> Result<Self, AuthError> {
        let methods = methods(metadata);
        let takes = |method: &str| methods.contains(&method);
        let method = match &identity.proof {
            // Whether public clients are taken is not always said, and the answer is told soon enough.
            Proof::Nothing => Method::None,
            Proof::Key(key) if takes(KEY) => Method::Key(key.clone()),
            Proof::Secret(secret) if takes(BASIC) => Method::Basic(secret.clone()),
            Proof::Secret(secret) if takes(POST) => Method::Post(secret.clone()),
            Proof::Secret(_) if takes(NONE) => Method::None,
            Proof::Secret(_) | Proof::Key(_) => return Err(AuthError::NoAuthentication),
        };
        Ok(Self {
            client_id: identity.id.clone(),
            method,
        })
    }

    /// The way that the registration says, or else the best one.
    pub(super) fn of_registered(
        client: &RegisteredClient,
        metadata: &AuthorizationServerMetadata,
    ) -> Result<Self, AuthError> {
        let method = match (
            client.token_endpoint_auth_method.as_deref(),
            &client.client_secret,
        ) {
            (Some(NONE), _) => Method::None,
            (Some(BASIC), Some(secret)) => Method::Basic(secret.clone()),
            (Some(POST), Some(secret)) => Method::Post(secret.clone()),
            (Some(_), _) => return Err(AuthError::NoAuthentication),
            (None, secret) => {
                let id = client.client_id.clone();
                let identity = match secret {
                    Some(secret) => ClientIdentity::with_secret(id, secret.clone()),
                    None => ClientIdentity::public(id),
                };
                return Self::of(&identity, metadata);
            }
        };
        Ok(Self {
            client_id: client.client_id.clone(),
            method,
        })
    }

    /// Puts it into a token request.
    pub(super) fn put_into(
        &self,
        form: &mut Vec<(&'static str, String)>,
        headers: &mut HeaderMap,
        issuer: &str,
        now: Timestamp,
    ) -> Result<(), AuthError> {
        match &self.method {
            Method::None => form.push(("client_id", self.client_id.clone())),
            Method::Post(secret) => {
                form.push(("client_id", self.client_id.clone()));
                form.push(("client_secret", secret.reveal().to_owned()));
            }
            Method::Basic(secret) => {
                // Both are form-encoded first (RFC 6749, section 2.3.1).
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", encoded(&self.client_id), encoded(secret.reveal()));
                let value = format!("Basic {}", STANDARD.encode(pair));
                let mut value = HeaderValue::try_from(value).map_err(|_| AuthError::Key)?;
                value.set_sensitive(true);
                headers.insert(header::AUTHORIZATION, value);
            }
            Method::Key(key) => {
                let assertion = key.assertion(&self.client_id, issuer, now)?;
                form.push(("client_assertion_type", ASSERTION_TYPE.to_owned()));
                form.push(("client_assertion", assertion));
            }
        }
        Ok(())
    }
}

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
