//! How a token comes about, where nobody is sent anywhere: a client or workload on its own behalf, and an organization on its people's.

use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use http::HeaderMap;
use mrtr_state::Clock;
use serde::Deserialize;

use super::BoxError;
use super::agent::UserAgent;
use super::error::{AuthError, What};
use super::fetch::{Fetcher, Post, usable};
use super::identity::{Authentication, ClientIdentity};
use super::secret::Secret;
use super::token::{Wanted, refusal};
use crate::metadata::AuthorizationServerMetadata;

/// What an assertion source answers with.
pub type AssertionFuture<'a> = Pin<Box<dyn Future<Output = Result<Secret, BoxError>> + Send + 'a>>;

/// Gives a JWT that somebody else issued: the platform that a workload runs on, or the identity provider that a person logged in at. It is asked
/// each time, because such tokens are short-lived.
pub trait AssertionSource: fmt::Debug + Send + Sync + 'static {
    /// The token to show to whom `request` says.
    fn assertion<'a>(&'a self, request: AssertionRequest<'a>) -> AssertionFuture<'a>;
}

/// What an assertion is for.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct AssertionRequest<'a> {
    /// The issuer identifier of the MCP server's authorization server.
    pub issuer: &'a str,
    /// The MCP server, as its metadata spells it.
    pub resource: &'a str,
}

/// The same token each time, for a process that does not outlive it.
impl AssertionSource for Secret {
    fn assertion<'a>(&'a self, _: AssertionRequest<'a>) -> AssertionFuture<'a> {
        Box::pin(ready(Ok(self.clone())))
    }
}

/// An organization decides at its identity provider which applications its people may use (the extension *enterprise-managed authorization*): the
/// person's ID token becomes an identity assertion grant (ID-JAG) there, and that a token at the MCP server's authorization server. Nobody is
/// asked for consent.
#[derive(Debug, Clone)]
pub struct EnterpriseManaged {
    token_endpoint: String,
    client: ClientIdentity,
    id_token: Arc<dyn AssertionSource>,
}

impl EnterpriseManaged {
    /// `token_endpoint` and `client` are those of the identity provider; `id_token` gives the ID token of the person who is logged in there.
    pub fn new(
        token_endpoint: impl Into<String>,
        client: ClientIdentity,
        id_token: impl AssertionSource,
    ) -> Self {
        Self {
            token_endpoint: token_endpoint.into(),
            client,
            id_token: Arc::new(id_token),
        }
    }

    /// Exchanges the ID token for an assertion grant to one authorization server, about one resource (RFC 8693).
    async fn assertion_grant(
        &self,
        fetcher: &Fetcher,
        issuer: &str,
        wanted: &Wanted,
        clock: &dyn Clock,
    ) -> Result<Secret, AuthError> {
        let what = What::IdentityProvider;
        let url = usable(what, &self.token_endpoint)?;
        let request = AssertionRequest {
            issuer,
            resource: &wanted.resource,
        };
        let id_token = self.id_token.assertion(request).await;
        let id_token = id_token.map_err(AuthError::Assertion)?;
        let mut form = vec![
            ("grant_type", TOKEN_EXCHANGE.to_owned()),
            ("requested_token_type", ID_JAG.to_owned()),
            ("audience", issuer.to_owned()),
            ("subject_token", id_token.reveal().to_owned()),
            ("subject_token_type", ID_TOKEN.to_owned()),
        ];
        form.extend(wanted.pairs());
        let mut headers = HeaderMap::new();
        let idp = AuthorizationServerMetadata::new(self.token_endpoint.clone());
        Authentication::of(&self.client, &idp)?.put_into(
            &mut form,
            &mut headers,
            &idp.issuer,
            clock.now(),
        )?;
        let answer = fetcher
            .post_configured(what, &url, Post::Form(&form), headers)
            .await?;
        if let Some(refusal) = refusal(&answer) {
            return Err(AuthError::Token(refusal));
        }
        #[derive(Deserialize)]
        struct Exchanged {
            access_token: Secret,
            issued_token_type: String,
        }
        let exchanged: Exchanged = answer.json()?;
        match exchanged.issued_token_type == ID_JAG {
            true => Ok(exchanged.access_token),
            false => Err(AuthError::TokenType { expected: ID_JAG }),
        }
    }
}

/// How tokens come about.
#[derive(Debug, Clone)]
pub(super) enum Grant {
    /// A person agrees.
    Code(Arc<dyn UserAgent>),
    /// The client is its own principal.
    ClientCredentials,
    /// A workload shows what its platform says of it.
    Assertion(Arc<dyn AssertionSource>),
    /// An organization has agreed for its people.
    Enterprise(EnterpriseManaged),
}

impl Grant {
    /// What goes to the token endpoint; `None` for the authorization code, which somebody must bring.
    pub(super) async fn form(
        &self,
        fetcher: &Fetcher,
        issuer: &str,
        wanted: &Wanted,
        clock: &dyn Clock,
    ) -> Result<Option<Vec<(&'static str, String)>>, AuthError> {
        let mut form = match self {
            Self::Code(_) => return Ok(None),
            Self::ClientCredentials => vec![("grant_type", "client_credentials".to_owned())],
            Self::Assertion(source) => {
                let request = AssertionRequest {
                    issuer,
                    resource: &wanted.resource,
                };
                let assertion = source.assertion(request).await;
                bearer(assertion.map_err(AuthError::Assertion)?)
            }
            Self::Enterprise(managed) => {
                let assertion = managed.assertion_grant(fetcher, issuer, wanted, clock);
                bearer(assertion.await?)
            }
        };
        form.extend(wanted.pairs());
        Ok(Some(form))
    }
}

/// RFC 7523, section 2.1.
fn bearer(assertion: Secret) -> Vec<(&'static str, String)> {
    vec![
        ("grant_type", JWT_BEARER.to_owned()),
        ("assertion", assertion.reveal().to_owned()),
    ]
}

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
