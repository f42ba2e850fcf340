//! What a token says, whoever says so: the members that JSON Web Tokens and introspection have in common.

use std::time::Duration;

use mrtr_server::Principal;
use mrtr_state::Timestamp;
use serde::Deserialize;
use serde_json::Number;

/// One text or several.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn iter(&self) -> impl Iterator<Item = &str> {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
        .iter()
        .map(String::as_str)
    }
}

/// RFC 7519 section 4.1, RFC 9068 section 2.2, RFC 7662 section 2.2. A member that is doubled or mistyped makes the whole
/// unreadable.
#[derive(Deserialize)]
pub(super) struct Claims {
    pub(super) iss: Option<String>,
    sub: Option<String>,
    aud: Option<OneOrMany>,
    exp: Option<Number>,
    nbf: Option<Number>,
    client_id: Option<String>,
    /// OpenID Connect's name for the client.
    azp: Option<String>,
    /// Texts with spaces between, or a list; `scp` is what some servers call it.
    scope: Option<OneOrMany>,
    scp: Option<OneOrMany>,
}

/// What the claims are held against.
pub(super) struct Expected<'e> {
    pub(super) resource: &'e str,
    pub(super) now: Timestamp,
    pub(super) skew: Duration,
    pub(super) needs_expiry: bool,
}

impl Claims {
    /// Audience and times: the reason of a refusal, in words that hold nothing of the token.
    pub(super) fn check(&self, expected: &Expected<'_>) -> Result<(), &'static str> {
        let is_meant = |aud: &OneOrMany| aud.iter().any(|aud| aud == expected.resource);
        if !self.aud.as_ref().is_some_and(is_meant) {
            return Err("the token is for another resource");
        }
        let late = |exp: Timestamp| exp.saturating_add(expected.skew) <= expected.now;
        match self.expiry()? {
            Some(exp) if late(exp) => return Err("the token has expired"),
            None if expected.needs_expiry => return Err("the token has no expiry"),
            _ => {}
        }
        let from = self
            .nbf
            .as_ref()
            .map(|nbf| time(nbf).ok_or("the token's `nbf` is no time"));
        match from.transpose()? {
            Some(from) if from > expected.now.saturating_add(expected.skew) => {
                Err("the token is not valid yet")
            }
            _ => Ok(()),
        }
    }

    pub(super) fn expiry(&self) -> Result<Option<Timestamp>, &'static str> {
        let expiry = self.exp.as_ref();
        expiry
            .map(|exp| time(exp).ok_or("the token's `exp` is no time"))
            .transpose()
    }

    /// (issuer, subject, client).
    pub(super) fn principal(
        &self,
        issuer: &str,
        needs_client: bool,
    ) -> Result<Principal, &'static str> {
        let subject = self.sub.as_deref().filter(|subject| !subject.is_empty());
        let subject = subject.ok_or("the token names no subject")?;
        let principal = Principal::user(issuer, subject);
        match self.client_id.as_deref().or(self.azp.as_deref()) {
            Some(client) if !client.is_empty() => Ok(principal.with_client(client)),
            _ if needs_client => Err("the token names no client"),
            _ => Ok(principal),
        }
    }

    pub(super) fn scopes(&self) -> impl Iterator<Item = &str> {
        let said = self.scope.iter().chain(&self.scp);
        said.flat_map(OneOrMany::iter)
            .flat_map(|scopes| scopes.split(' '))
            .filter(|scope| !scope.is_empty())
    }
}

/// Seconds since the Unix epoch, which may have a fraction.
fn time(number: &Number) -> Option<Timestamp> {
    let since = match number.as_u64() {
        Some(seconds) => Duration::from_secs(seconds),
        None => Duration::try_from_secs_f64(number.as_f64()?).ok()?,
    };
    u64::try_from(since.as_millis())
        .ok()
        .map(Timestamp::from_millis)
}
