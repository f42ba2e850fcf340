//! Which client this is at which authorization server, in the specification's order: registered beforehand, client id metadata document, dynamic
//! registration. What one authorization server gave out is bound to its issuer and never shown to another.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use mrtr_state::Timestamp;

use super::error::{AuthError, shown};
use super::fetch::Fetcher;
use super::identity::{Authentication, ClientIdentity, Registration};
use super::store::{CredentialStore, RegisteredClient, Tokens};
use crate::metadata::AuthorizationServerMetadata;

/// The clients that this one can be.
#[derive(Debug, Default)]
pub(super) struct Clients {
    /// By issuer.
    pub(super) registered: HashMap<String, ClientIdentity>,
    /// For whichever authorization server comes first.
    pub(super) unbound: Option<ClientIdentity>,
    bound_to: Mutex<Option<String>>,
    /// Whose id is the URL of a document.
    pub(super) document: Option<ClientIdentity>,
    pub(super) registration: Option<Registration>,
}

impl Clients {
    /// Whether the host has a client at this very authorization server.
    pub(super) fn has_own_for(&self, issuer: &str) -> bool {
        self.registered.contains_key(issuer)
    }

    /// What needs no registration.
    fn known(&self, metadata: &AuthorizationServerMetadata) -> Option<&ClientIdentity> {
        let issuer = &metadata.issuer;
        let document = || {
            let is_taken = metadata.client_id_metadata_document_supported == Some(true);
            self.document.as_ref().filter(|_| is_taken)
        };
        self.registered
            .get(issuer)
            .or_else(|| self.unbound.as_ref().filter(|_| self.is_bound_to(issuer)))
            .or_else(document)
    }

    /// Binds the client without an issuer to the first one that it is used at.
    fn is_bound_to(&self, issuer: &str) -> bool {
        let mut bound_to = self.bound_to.lock().unwrap_or_else(PoisonError::into_inner);
        bound_to.get_or_insert_with(|| issuer.to_owned()) == issuer
    }

    /// The redirect URI that the client is registered with already, where it matters.
    pub(super) async fn redirect_uri(
        &self,
        metadata: &AuthorizationServerMetadata,
        store: &dyn CredentialStore,
    ) -> Result<Option<String>, AuthError> {
        if self.known(metadata).is_some() {
            return Ok(None);
        }
        let kept = stored(metadata, store).await?;
        Ok(kept.map(|client| client.redirect_uri))
    }

    /// Who this client is at an authorization server, for somebody who comes back to `redirect_uri`. It registers if it must.
    pub(super) async fn at(
        &self,
        fetcher: &Fetcher,
        metadata: &AuthorizationServerMetadata,
        store: &dyn CredentialStore,
        redirect_uri: Option<&str>,
        now: Timestamp,
    ) -> Result<Authentication, AuthError> {
        if let Some(identity) = self.known(metadata) {
            return Authentication::of(identity, metadata);
        }
        let (Some(registration), Some(redirect_uri), Some(_)) = (
            &self.registration,
            redirect_uri,
            &metadata.registration_endpoint,
        ) else {
            return Err(no_client(metadata));
        };
        if let Some(client) = stored(metadata, store).await?
            && client.is_good_for(redirect_uri, now)
        {
            return Authentication::of_registered(&client, metadata);
        }
        let client = registration
            .register(fetcher, metadata, redirect_uri)
            .await?;
        let authentication = Authentication::of_registered(&client, metadata)?;
        let kept = store
            .keep_registration(&metadata.issuer, Some(client))
            .await;
        if let Err(error) = kept {
            tracing::warn!(%error, "the registration is not kept");
        }
        Ok(authentication)
    }

    /// The client that these tokens were issued to.
    pub(super) async fn of_tokens(
        &self,
        tokens: &Tokens,
        metadata: &AuthorizationServerMetadata,
        store: &dyn CredentialStore,
    ) -> Result<Authentication, AuthError> {
        if let Some(identity) = self.known(metadata)
            && identity.id == tokens.client_id
        {
            return Authentication::of(identity, metadata);
        }
        match stored(metadata, store).await? {
            Some(client) if client.client_id == tokens.client_id => {
                Authentication::of_registered(&client, metadata)
            }
            _ => Err(no_client(metadata)),
        }
    }

    /// The authorization server does not know the client any more: the next login registers another.
    pub(super) async fn forget(
        &self,
        metadata: &AuthorizationServerMetadata,
        store: &dyn CredentialStore,
    ) {
        if let Err(error) = store.keep_registration(&metadata.issuer, None).await {
            tracing::warn!(%error, "a registration that is not good any more is kept");
        }
    }
}

async fn stored(
    metadata: &AuthorizationServerMetadata,
    store: &dyn CredentialStore,
) -> Result<Option<RegisteredClient>, AuthError> {
    let client = store.registration(&metadata.issuer).await;
    client.map_err(AuthError::Store)
}

fn no_client(metadata: &AuthorizationServerMetadata) -> AuthError {
    AuthError::NoClient {
        issuer: shown(&metadata.issuer),
    }
}
