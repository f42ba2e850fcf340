//! The flow: what is done with a request before it is sent, and with a refusal.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use mrtr_client::credentials::{Credentials, CredentialsError, CredentialsFuture};
use mrtr_client::{Again, Authorization, Challenge, Sending};
use mrtr_state::Clock;
use tokio::sync::{Mutex, MutexGuard};
use url::Url;

use super::clients::Clients;
use super::code::{authorize, check_redirect_uri, require_pkce};
use super::discovery::{authorization_server, protected_resource};
use super::error::{AuthError, shown};
use super::fetch::Fetcher;
use super::grant::Grant;
use super::identity::Authentication;
use super::keys::DpopKey;
use super::store::{CredentialStore, Tokens};
use super::token::{At, Wanted, not_enough, scopes};
use crate::challenge::BearerChallenge;
use crate::metadata::{AuthorizationServerMetadata, ProtectedResourceMetadata};

/// How many sets of scopes are remembered as asked for.
const MAX_STEP_UPS: usize = 64;

/// How many of the authorization servers in a document are looked at.
const MAX_AUTHORIZATION_SERVERS: usize = 16;

/// Credentials for one MCP server, by the specification's authorization flow. Give it to
/// [`ClientBuilder::credentials`](mrtr_client::ClientBuilder::credentials).
///
/// Nothing happens before the server asks for a token. Then its metadata and that of its authorization server are looked up and checked, the
/// client becomes known there, and a token comes about: with a person's consent ([`OAuth::for_user`]), or in one of the ways that need none.
/// Tokens are refreshed before they expire; a login or refresh happens once however many requests wait for it, and goes on when they stop
/// waiting.
///
/// Clones share everything.
#[derive(Clone)]
pub struct OAuth {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) fetcher: Fetcher,
    pub(super) grant: Grant,
    pub(super) clients: Clients,
    pub(super) store: Arc<dyn CredentialStore>,
    pub(super) dpop: Option<DpopKey>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) offline_access: bool,
    pub(super) state: Mutex<State>,
}

/// What is known of the credentials. Whoever holds it is the one who changes them.
#[derive(Default)]
pub(super) struct State {
    is_loaded: bool,
    tokens: Option<Tokens>,
    obtained: Obtained,
    /// The server refuses these tokens though they are new. Another login would not help.
    is_refused: bool,
    /// The sets of scopes that were asked for after a challenge.
    step_ups: Vec<Vec<String>>,
}

/// Where the present tokens come from.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Obtained {
    #[default]
    Stored,
    Refreshed,
    Granted,
}

/// A refusal, as far as it matters here.
struct Refused {
    used: Option<Authorization>,
    status: StatusCode,
    challenge: BearerChallenge,
    dpop_nonce: Option<String>,
    nth: u32,
}

impl OAuth {
    /// Forgets the tokens, here and in the store. The next request begins anew, and another person may log in: by another client then, because
    /// results that were private to this one are kept in the old one.
    ///
    /// # Errors
    ///
    /// [`AuthError::Store`]. The tokens are forgotten here all the same.
    pub async fn sign_out(&self) -> Result<(), AuthError> {
        let mut state = self.inner.state.lock().await;
        *state = State {
            is_loaded: true,
            ..State::default()
        };
        let server = self.inner.server();
        let kept = self.inner.store.keep_tokens(server, None).await;
        kept.map_err(AuthError::Store)
    }
}

impl Credentials for OAuth {
    fn authorize<'a>(
        &'a self,
        sending: Sending<'a>,
    ) -> CredentialsFuture<'a, Option<Authorization>> {
        Box::pin(async move {
            let url = self.inner.own_url(&sending)?;
            let Some(tokens) = Inner::current(&self.inner).await.map_err(error)? else {
                return Ok(None);
            };
            let token = tokens.access_token.reveal();
            let Some(dpop) = &self.inner.dpop else {
                return Ok(Some(Authorization::bearer(token)?));
            };
            let now = self.inner.clock.now();
            let proof = dpop.proof(sending.method.as_str(), &url, Some(token), now);
            Ok(Some(Authorization::dpop(token, &proof.map_err(error)?)?))
        })
    }

    fn challenged<'a>(&'a self, challenge: Challenge<'a>) -> CredentialsFuture<'a, Again> {
        Box::pin(async move {
            self.inner.own_url(&challenge.sending)?;
            let nonce = challenge.headers.get("dpop-nonce");
            let refused = Refused {
                used: challenge.used.cloned(),
                status: challenge.status,
                challenge: BearerChallenge::find(challenge.www_authenticate()).unwrap_or_default(),
                dpop_nonce: nonce
                    .and_then(|nonce| nonce.to_str().ok())
                    .map(str::to_owned),
                nth: challenge.nth,
            };
            let inner = Arc::clone(&self.inner);
            // A login does not end because the request that it began with was given up, and a refresh token must not get lost on its way.
            let answer = tokio::spawn(async move { inner.answer(refused).await });
            match answer.await {
                Ok(answer) => answer.map_err(error),
                Err(_) => Err(error(AuthError::Internal(
                    "the login was ended from outside",
                ))),
            }
        })
    }
}

fn error(error: AuthError) -> CredentialsError {
    CredentialsError::new(error)
}

impl Inner {
    fn server(&self) -> &str {
        self.fetcher.server().as_str()
    }

    /// The request's URL, if it is the server's.
    fn own_url(&self, sending: &Sending<'_>) -> Result<Url, CredentialsError> {
        let url = Url::parse(&sending.uri.to_string()).ok();
        url.filter(|url| url.origin() == self.fetcher.server().origin())
            .ok_or_else(|| error(AuthError::OtherServer))
    }

    /// The state, with what the store has.
    async fn state(&self) -> Result<MutexGuard<'_, State>, AuthError> {
        let mut state = self.state.lock().await;
        if !state.is_loaded {
            let stored = self.store.tokens(self.server()).await;
            let own_key = self.dpop.as_ref().map(DpopKey::thumbprint);
            state.tokens = stored
                .map_err(AuthError::Store)?
                // Bound to another key, they are of no use.
                .filter(|tokens| tokens.bound_to.as_deref() == own_key);
            state.is_loaded = true;
        }
        Ok(state)
    }

    /// The tokens for a request that is about to be sent, refreshed if that is due.
    async fn current(self: &Arc<Self>) -> Result<Option<Tokens>, AuthError> {
        {
            let state = self.state().await?;
            let is_due = state
                .tokens
                .as_ref()
                .is_some_and(|tokens| self.is_due(tokens));
            if !is_due {
                return Ok(state.tokens.clone());
            }
        }
        let inner = Arc::clone(self);
        let refreshed = tokio::spawn(async move { inner.refreshed().await });
        refreshed.await.unwrap_or(Err(AuthError::Internal(
            "the refresh was ended from outside",
        )))
    }

    fn is_due(&self, tokens: &Tokens) -> bool {
        tokens.refresh_token.is_some() && tokens.is_about_to_expire(self.clock.now())
    }

    async fn refreshed(&self) -> Result<Option<Tokens>, AuthError> {
        let mut state = self.state().await?;
        // Somebody else may have done it by now.
        let due = state.tokens.clone().filter(|tokens| self.is_due(tokens));
        if let Some(tokens) = due {
            let metadata = authorization_server(&self.fetcher, &tokens.issuer).await?;
            match self.refresh(&mut state, &metadata, &tokens).await {
                Ok(()) => {}
                // The server will say what it wants.
                Err(error) if error.is_refused_grant() => {
                    tracing::debug!(%error, "the refresh token is not good any more");
                    let tokens = Tokens {
                        refresh_token: None,
                        ..tokens
                    };
                    self.keep(&mut state, tokens, Obtained::Stored).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(state.tokens.clone())
    }

    /// What becomes of a refused request.
    async fn answer(&self, refused: Refused) -> Result<Again, AuthError> {
        let mut state = self.state().await?;
        let current = state.tokens.as_ref().map(|tokens| &tokens.access_token);
        let is_current = match (&refused.used, current) {
            (Some(used), Some(token)) => used.is_of(token.reveal()),
            (used, current) => used.is_some() == current.is_some(),
        };
        if !is_current && current.is_some() {
            // It was sent with what is not the present token.
            return Ok(Again::Send);
        }
        if let (Some(dpop), Some(nonce)) = (&self.dpop, &refused.dpop_nonce)
            && refused.used.is_some()
            && dpop.take_nonce(self.fetcher.server(), nonce)
        {
            return Ok(Again::Send);
        }
        match refused.status {
            StatusCode::UNAUTHORIZED => self.renew(&mut state, &refused).await,
            _ if refused.challenge.error.as_deref() == Some("insufficient_scope") => {
                self.step_up(&mut state, &refused).await
            }
            // Another Origin, another person's thing: no token mends that.
            _ => Ok(Again::Stop),
        }
    }

    /// 401: there is no token, or it is not good any more.
    async fn renew(&self, state: &mut State, refused: &Refused) -> Result<Again, AuthError> {
        let resource = self.resource(refused).await?;
        let issuer = self.authorization_server_of(&resource, state)?;
        // What another authorization server issued is not shown to this one.
        let own = state
            .tokens
            .clone()
            .filter(|tokens| tokens.issuer == issuer && tokens.resource == resource.resource);
        let is_second = refused.nth > 1;
        if own.is_some() && (state.is_refused || (is_second && state.obtained == Obtained::Granted))
        {
            state.is_refused = true;
            return Ok(Again::Stop);
        }
        let metadata = authorization_server(&self.fetcher, &issuer).await?;
        if let Some(tokens) = &own
            && tokens.refresh_token.is_some()
            && !(is_second && state.obtained == Obtained::Refreshed)
        {
            match self.refresh(state, &metadata, tokens).await {
                Ok(()) => return Ok(Again::Send),
                Err(error) if error.is_refused_grant() => {
                    tracing::debug!(%error, "the refresh token is not good any more");
                }
                Err(error) => return Err(error),
            }
        }
        let before = own.map(|tokens| tokens.scopes).unwrap_or_default();
        let scopes = self.scopes(&resource, &refused.challenge, &metadata, &before)?;
        self.obtain(state, &resource, &metadata, scopes).await
    }

    /// 403 with `insufficient_scope`: the same and what is missing, asked for once (*Step-Up Authorization Flow*).
    async fn step_up(&self, state: &mut State, refused: &Refused) -> Result<Again, AuthError> {
        let challenged = scopes(refused.challenge.scopes())?;
        let Some(tokens) = state.tokens.clone().filter(|_| !challenged.is_empty()) else {
            return Ok(Again::Stop);
        };
        if state.step_ups.contains(&challenged) || state.step_ups.len() >= MAX_STEP_UPS {
            return Err(not_enough(&challenged));
        }
        state.step_ups.push(challenged);
        let resource = self.resource(refused).await?;
        let issuer = self.authorization_server_of(&resource, state)?;
        let metadata = authorization_server(&self.fetcher, &issuer).await?;
        let scopes = self.scopes(&resource, &refused.challenge, &metadata, &tokens.scopes)?;
        self.obtain(state, &resource, &metadata, scopes).await
    }

    async fn resource(&self, refused: &Refused) -> Result<ProtectedResourceMetadata, AuthError> {
        let place = refused.challenge.resource_metadata.as_deref();
        protected_resource(&self.fetcher, place).await
    }

    /// Of several authorization servers: one that this client was registered with beforehand, or else the one that its tokens are from, or else the
    /// first.
    fn authorization_server_of(
        &self,
        resource: &ProtectedResourceMetadata,
        state: &State,
    ) -> Result<String, AuthError> {
        let named = || {
            let all = resource.authorization_servers.iter();
            all.take(MAX_AUTHORIZATION_SERVERS)
        };
        let present = state.tokens.as_ref().map(|tokens| &tokens.issuer);
        named()
            .find(|issuer| self.clients.has_own_for(issuer))
            .or_else(|| named().find(|issuer| Some(*issuer) == present))
            .or_else(|| named().next())
            .cloned()
            .ok_or(AuthError::NoAuthorizationServer)
    }

    /// What is asked for: what was asked for before and the challenge says, or else what the resource's metadata says, or else nothing (*Scope
    /// Selection Strategy*).
    fn scopes(
        &self,
        resource: &ProtectedResourceMetadata,
        challenge: &BearerChallenge,
        metadata: &AuthorizationServerMetadata,
        before: &[String],
    ) -> Result<Vec<String>, AuthError> {
        let mut wanted: Vec<&str> = before.iter().map(String::as_str).collect();
        wanted.extend(challenge.scopes());
        if wanted.is_empty() {
            let supported = resource.scopes_supported.as_deref().unwrap_or_default();
            wanted.extend(supported.iter().map(String::as_str));
        }
        let offered = metadata.scopes_supported.as_deref().unwrap_or_default();
        if self.offline_access && offered.iter().any(|scope| scope == OFFLINE_ACCESS) {
            wanted.push(OFFLINE_ACCESS);
        }
        scopes(wanted)
    }

    /// Gets new tokens, and says that the request is to be sent with them.
    async fn obtain(
        &self,
        state: &mut State,
        resource: &ProtectedResourceMetadata,
        metadata: &AuthorizationServerMetadata,
        scopes: Vec<String>,
    ) -> Result<Again, AuthError> {
        let wanted = Wanted {
            resource: resource.resource.clone(),
            scopes,
        };
        let issuer = &metadata.issuer;
        tracing::debug!(issuer = shown(issuer), "a token is asked for");
        let form = self
            .grant
            .form(&self.fetcher, issuer, &wanted, &*self.clock);
        let tokens = match (form.await?, &self.grant) {
            (None, Grant::Code(agent)) => {
                require_pkce(metadata)?;
                let registered = self.clients.redirect_uri(metadata, &*self.store).await?;
                let begun = agent.begin(registered.as_deref()).await;
                let redirection = begun.map_err(AuthError::UserAgent)?;
                let redirect_uri = redirection.redirect_uri().to_owned();
                check_redirect_uri(&redirect_uri)?;
                let client = self.client(metadata, Some(&redirect_uri)).await?;
                let (id, dpop) = (&client.client_id, self.dpop.as_ref());
                let code = authorize(metadata, id, &wanted, dpop, redirection).await?;
                self.exchange(metadata, &client, code.into_grant(&wanted), wanted)
                    .await?
            }
            (form, _) => {
                let client = self.client(metadata, None).await?;
                self.exchange(metadata, &client, form.unwrap_or_default(), wanted)
                    .await?
            }
        };
        self.keep(state, tokens, Obtained::Granted).await;
        Ok(Again::Send)
    }

    async fn client(
        &self,
        metadata: &AuthorizationServerMetadata,
        redirect_uri: Option<&str>,
    ) -> Result<Authentication, AuthError> {
        let now = self.clock.now();
        self.clients
            .at(&self.fetcher, metadata, &*self.store, redirect_uri, now)
            .await
    }

    async fn exchange(
        &self,
        metadata: &AuthorizationServerMetadata,
        client: &Authentication,
        grant: Vec<(&'static str, String)>,
        wanted: Wanted,
    ) -> Result<Tokens, AuthError> {
        let at = At {
            fetcher: &self.fetcher,
            metadata,
            client,
            dpop: self.dpop.as_ref(),
            clock: &*self.clock,
        };
        let exchanged = at.exchange(grant, wanted).await;
        if let Err(AuthError::Token(refusal)) = &exchanged
            && refusal.error == "invalid_client"
        {
            self.clients.forget(metadata, &*self.store).await;
        }
        exchanged
    }

    async fn refresh(
        &self,
        state: &mut State,
        metadata: &AuthorizationServerMetadata,
        tokens: &Tokens,
    ) -> Result<(), AuthError> {
        let Some(refresh_token) = &tokens.refresh_token else {
            return Ok(());
        };
        let client = self
            .clients
            .of_tokens(tokens, metadata, &*self.store)
            .await?;
        let grant = vec![
            ("grant_type", "refresh_token".to_owned()),
            ("refresh_token", refresh_token.reveal().to_owned()),
            ("resource", tokens.resource.clone()),
        ];
        let wanted = Wanted {
            resource: tokens.resource.clone(),
            scopes: tokens.scopes.clone(),
        };
        let mut new = self.exchange(metadata, &client, grant, wanted).await?;
        if new.refresh_token.is_none() {
            new.refresh_token = Some(refresh_token.clone());
        }
        self.keep(state, new, Obtained::Refreshed).await;
        Ok(())
    }

    async fn keep(&self, state: &mut State, tokens: Tokens, obtained: Obtained) {
        state.obtained = obtained;
        state.is_refused = false;
        state.tokens = Some(tokens.clone());
        if let Err(error) = self.store.keep_tokens(self.server(), Some(tokens)).await {
            tracing::warn!(%error, "the tokens are not kept beyond this process");
        }
    }
}

const OFFLINE_ACCESS: &str = "offline_access";

/// Never prints a token.
impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth")
            .field("server", &self.inner.server())
            .field("grant", &self.inner.grant)
            .finish_non_exhaustive()
    }
}
