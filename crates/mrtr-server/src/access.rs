//! Who is calling and what they were granted, and what a tool, prompt or resource asks for.
//!
//! Scopes are checked in two places. The boundary looks up what a request addresses before anything else of it, and answers
//! HTTP 403 with the scopes that are missing. Whatever comes past it finds, by look-up, only what the caller may use: the
//! rest is not there.
//!
//! Specification: `basic/authorization`, "Scope Challenge Handling".

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use mrtr_protocol::object::as_string;
use mrtr_protocol::{CompleteParams, Members, method};
use mrtr_state::Principal;

use crate::catalogue::Catalogue;

/// What an [`Authenticator`](crate::Authenticator) found: who is calling, and the scopes that this request's credentials were
/// granted.
///
/// State and sessions are bound to the principal; scopes are no part of that and may change from one request to the next. A
/// bare [`Principal`] is an identity without scopes.
///
/// `Debug` names neither the user nor the scopes.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    pub(crate) principal: Principal,
    pub(crate) granted: Granted,
}

impl Identity {
    /// Adds scopes, each as the authorization server spells it. Where a broader scope implies narrower ones, add those too:
    /// they are compared one by one, byte for byte.
    #[must_use]
    pub fn with_scopes<S: Into<Box<str>>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        if let Granted::These(these) = &mut self.granted {
            Arc::make_mut(these).extend(scopes.into_iter().map(Into::into));
        }
        self
    }

    /// Grants every scope that there is: for callers who come without tokens, such as the process's own user.
    #[must_use]
    pub fn with_every_scope(mut self) -> Self {
        self.granted = Granted::All;
        self
    }

    /// Who is calling.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Whether this scope was granted.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.granted.has(scope)
    }
}

impl From<Principal> for Identity {
    fn from(principal: Principal) -> Self {
        Self {
            principal,
            granted: Granted::default(),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}

/// The scopes of one request's credentials.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Granted {
    These(Arc<BTreeSet<Box<str>>>),
    All,
}

impl Granted {
    fn has(&self, scope: &str) -> bool {
        match self {
            Self::These(these) => these.contains(scope),
            Self::All => true,
        }
    }
}

impl Default for Granted {
    fn default() -> Self {
        Self::These(Arc::default())
    }
}

impl fmt::Debug for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Granted(..)")
    }
}

/// What a caller who was not granted its scopes sees of a tool, prompt or resource. None of them lets anybody use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WithoutScope {
    /// It is in no list. A request for it is answered with HTTP 403 and the scopes that it needs, so that a client which
    /// knows it can ask its person for more.
    #[default]
    Unlisted,
    /// It is listed, so that clients find it and step up; a request for it is answered with 403 as above.
    Listed,
    /// It is in no list, and a request for it is answered as if there were none of that name: whoever lacks the scopes cannot
    /// tell that it exists. Nor can their client ask for more.
    Unknown,
}

/// The scopes that a handler asks for, all of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    pub(crate) scopes: Vec<Box<str>>,
    pub(crate) otherwise: WithoutScope,
}

impl Access {
    /// Why a scope is none that a token could carry (RFC 6749 section 3.3).
    pub(crate) fn fault(&self) -> Option<String> {
        let is_token = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
        let unfit = self
            .scopes
            .iter()
            .find(|scope| scope.is_empty() || !scope.bytes().all(is_token))?;
        Some(format!(
            "`{}` is no scope: it is printable ASCII without spaces, quotes and backslashes",
            unfit.escape_debug()
        ))
    }

    pub(crate) fn permits(&self, granted: &Granted) -> bool {
        self.scopes.iter().all(|scope| granted.has(scope))
    }

    /// Whether it is in this caller's lists.
    pub(crate) fn is_listed(&self, granted: &Granted) -> bool {
        self.otherwise == WithoutScope::Listed || self.permits(granted)
    }

    /// Whether what a list holds depends on who asks.
    pub(crate) fn divides(&self) -> bool {
        !self.scopes.is_empty() && self.otherwise != WithoutScope::Listed
    }

    /// The scopes, as a challenge names them: all of them, so that nobody has to ask twice.
    pub(crate) fn needed(&self) -> Vec<&str> {
        self.scopes.iter().map(AsRef::as_ref).collect()
    }
}

/// What a request addresses, if that is there: the same whoever asks.
pub(crate) fn addressed<'c>(
    catalogue: &'c Catalogue,
    name: &str,
    params: &Members<'_>,
) -> Option<&'c Arc<Access>> {
    let member = |name| params.get(name).and_then(as_string);
    match name {
        method::TOOLS_CALL => catalogue.tool(&member("name")?, &Granted::All),
        method::PROMPTS_GET => catalogue.prompt(&member("name")?, &Granted::All),
        method::RESOURCES_READ | method::RESOURCES_SUBSCRIBE => catalogue
            .resource(&member("uri")?, &Granted::All)
            .map(|found| found.handler),
        method::COMPLETION_COMPLETE => {
            let asked = CompleteParams::of(params).ok()?;
            catalogue.completed(&asked.reference)
        }
        _ => None,
    }
    .map(|handler| &handler.access)
}

/// Checks that the caller may make this request of what it addresses. An `Err` is to be told; what is to be kept from the
/// caller passes here, and is not found afterwards.
pub(crate) fn check<'c>(
    catalogue: &'c Catalogue,
    granted: &Granted,
    name: &str,
    params: &Members<'_>,
) -> Result<(), &'c Access> {
    match addressed(catalogue, name, params) {
        Some(access) if access.otherwise != WithoutScope::Unknown && !access.permits(granted) => {
            Err(access)
        }
        _ => Ok(()),
    }
}
