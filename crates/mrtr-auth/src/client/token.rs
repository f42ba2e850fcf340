//! Requests to a token endpoint (OAuth 2.1, section 3.2) and what comes of them.

use http::{HeaderMap, HeaderValue};
use mrtr_state::{Clock, Timestamp};
use serde::Deserialize;
use std::time::Duration;

use super::error::{AuthError, Refusal, What, shown};
use super::fetch::{Answer, Fetcher, Post, usable};
use super::identity::Authentication;
use super::keys::DpopKey;
use super::secret::Secret;
use super::store::Tokens;
use crate::metadata::AuthorizationServerMetadata;

/// One authorization server, and who this client is to it.
#[derive(Debug, Clone)]
pub(super) struct At<'a> {
    pub(super) fetcher: &'a Fetcher,
    pub(super) metadata: &'a AuthorizationServerMetadata,
    pub(super) client: &'a Authentication,
    pub(super) dpop: Option<&'a DpopKey>,
    pub(super) clock: &'a dyn Clock,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// As the metadata spells it.
    pub(super) resource: String,
    pub(super) scopes: Vec<String>,
}

impl Wanted {
    /// `resource`, and `scope` unless there is none.
    pub(super) fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = vec![("resource", self.resource.clone())];
        if !self.scopes.is_empty() {
            pairs.push(("scope", self.scopes.join(" ")));
        }
        pairs
    }
}

#[derive(Deserialize)]
struct Issued {
    access_token: Secret,
    token_type: String,
    expires_in: Option<Seconds>,
    refresh_token: Option<Secret>,
}

/// Some authorization servers write the number as a string.
#[derive(Deserialize)]
#[serde(untagged)]
enum Seconds {
    Number(u64),
    Text(String),
}

impl At<'_> {
    /// Sends a grant, and gives the tokens that come of it.
    pub(super) async fn exchange(
        &self,
        grant: Vec<(&'static str, String)>,
        wanted: Wanted,
    ) -> Result<Tokens, AuthError> {
        let issued = self.issued(grant).await?;
        let expected = if self.dpop.is_some() {
            "DPoP"
        } else {
            "Bearer"
        };
        if !issued.token_type.eq_ignore_ascii_case(expected) {
            return Err(AuthError::TokenType { expected });
        }
        // A token that no header can carry is none.
        let what = What::TokenEndpoint;
        let token = issued.access_token.reveal();
        if token.is_empty() || HeaderValue::from_str(token).is_err() {
            return Err(AuthError::Malformed { what });
        }
        let expires_at = issued.expires_in.and_then(|seconds| {
            let seconds = match seconds {
                Seconds::Number(seconds) => seconds,
                Seconds::Text(text) => text.parse().ok()?,
            };
            let now = self.clock.now();
            Some(now.saturating_add(Duration::from_secs(seconds)).as_millis())
        });
        Ok(Tokens {
            issuer: self.metadata.issuer.clone(),
            resource: wanted.resource,
            client_id: self.client.client_id.clone(),
            access_token: issued.access_token,
            refresh_token: issued.refresh_token,
            expires_at,
            scopes: wanted.scopes,
            bound_to: self.dpop.map(|key| key.thumbprint().to_owned()),
        })
    }

    async fn issued(&self, grant: Vec<(&'static str, String)>) -> Result<Issued, AuthError> {
        let mut answer = self.send(grant.clone()).await?;
        if let Some(dpop) = self.dpop
            && let Some(nonce) = answer.dpop_nonce.as_deref()
            && dpop.take_nonce(&self.endpoint()?, nonce)
            && refusal(&answer).is_some_and(|refusal| refusal.error == "use_dpop_nonce")
        {
            // The server did nothing with it but tell the nonce (RFC 9449, section 8).
            answer = self.send(grant).await?;
        }
        match refusal(&answer) {
            Some(refusal) => Err(AuthError::Token(refusal)),
            None => answer.json(),
        }
    }

    async fn send(&self, mut form: Vec<(&'static str, String)>) -> Result<Answer, AuthError> {
        let (url, mut headers) = (self.endpoint()?, HeaderMap::new());
        let now = self.clock.now();
        self.client
            .put_into(&mut form, &mut headers, &self.metadata.issuer, now)?;
        if let Some(dpop) = self.dpop {
            let proof = dpop.proof("POST", &url, None, now)?;
            let proof = HeaderValue::try_from(proof).map_err(|_| AuthError::Key)?;
            headers.insert("dpop", proof);
        }
        let post = Post::Form(&form);
        self.fetcher
            .post(What::TokenEndpoint, &url, post, headers)
            .await
    }

    fn endpoint(&self) -> Result<url::Url, AuthError> {
        let what = What::TokenEndpoint;
        let endpoint = self.metadata.token_endpoint.as_deref();
        usable(what, endpoint.ok_or(AuthError::NoEndpoint(what))?)
    }
}

/// A refusal in the words of OAuth.
pub(super) fn refusal(answer: &Answer) -> Option<Refusal> {
    match answer.status.is_client_error() {
        true => Refusal::parse(&answer.body),
        false => None,
    }
}

impl Tokens {
    /// Whether the access token is over, or so soon that it would be on its way.
    pub(super) fn is_about_to_expire(&self, now: Timestamp) -> bool {
        let soon = now.saturating_add(Duration::from_secs(30)).as_millis();
        self.expires_at.is_some_and(|at| at <= soon)
    }
}

/// How many scopes are asked for at once, and how long each may be in bytes.
const MAX_SCOPES: usize = 100;
const LONGEST_SCOPE: usize = 200;

/// Scopes, each once and in their order. They are a server's word, and become part of a URL that a person is sent to.
pub(super) fn scopes<'a>(
    named: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<String>, AuthError> {
    let mut scopes = Vec::<String>::new();
    for scope in named {
        // RFC 6749, section 3.3.
        let is_token = |byte: u8| {
            byte == 0x21 || (0x23..=0x5b).contains(&byte) || (0x5d..=0x7e).contains(&byte)
        };
        let is_scope =
            !scope.is_empty() && scope.len() <= LONGEST_SCOPE && scope.bytes().all(is_token);
        if !is_scope {
            return Err(AuthError::Scopes);
        }
        if !scopes.iter().any(|own| own == scope) {
            scopes.push(scope.to_owned());
        }
        if scopes.len() > MAX_SCOPES {
            return Err(AuthError::Scopes);
        }
    }
    Ok(scopes)
}

/// The error for scopes that were asked for in vain.
pub(super) fn not_enough(scopes: &[String]) -> AuthError {
    AuthError::ScopesNotEnough {
        scope: shown(&scopes.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_each_once_and_none_is_made_up() {
        assert_eq!(scopes(["a", "b:c", "a"]).unwrap(), ["a", "b:c"]);
        assert!(scopes([]).unwrap().is_empty());
        for bad in ["", "a b", "a\"", "a\\", "é", "a\n"] {
            assert!(scopes(["ok", bad]).is_err(), "{bad:?}");
        }
        let many: Vec<String> = (0..=MAX_SCOPES).map(|nth| nth.to_string()).collect();
        assert!(scopes(many.iter().map(String::as_str)).is_err());
    }
}
