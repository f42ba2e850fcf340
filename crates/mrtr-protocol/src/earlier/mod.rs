//! What only the earlier era has: revisions 2025-11-25, 2025-06-18 and 2025-03-26, with `initialize` and sessions.
//!
//! Tools, prompts, resources, content, questions, answers and notifications are the same types in both eras. Here is the rest: the
//! handshake, the requests that the modern era replaced, and [`result()`] and [`question()`], which put what is modern as the earlier era has
//! it.
//!
//! | here | specification page (2025-11-25) |
//! |---|---|
//! | [`EarlierRevision`], [`InitializeParams`], [`InitializeResult`] | Lifecycle |
//! | [`SubscribeParams`] | Resources, Subscriptions |
//! | [`SetLevelParams`] | Logging |
//! | [`ElicitUrlEarlier`], [`ElicitationCompleteParams`], [`UrlElicitationRequired`] | Elicitation, URL mode |
//!
//! Tasks, which were an experiment of 2025-11-25, are not here.

use std::borrow::Cow;

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::capabilities::ClientCapabilities;
use crate::discover::ServerCapabilities;
use crate::elicit::ElicitUrl;
use crate::kind::{Kind, KindSet};
use crate::meta::{Implementation, NotificationMeta};
use crate::notification::LogLevel;
use crate::object::{self, Members, RawObject, as_string};
use crate::tools::ParamsError;
use crate::word::words;

mod question;
mod result;

pub use question::question;
pub use result::{EarlierResultError, result};

/// A revision of the earlier era. Later ones are greater.
///
/// ```
/// use mrtr_protocol::earlier::EarlierRevision;
/// assert_eq!(EarlierRevision::negotiate("2025-06-18"), EarlierRevision::V2025_06_18);
/// assert_eq!(EarlierRevision::negotiate("2024-01-01"), EarlierRevision::LATEST);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EarlierRevision {
    /// 2025-03-26: no elicitation; messages may come in batches.
    V2025_03_26,
    /// 2025-06-18: elicitation by form, structured results.
    V2025_06_18,
    /// 2025-11-25: elicitation by URL, sampling with tools, icons.
    V2025_11_25,
}

words!(EarlierRevision {
    V2025_03_26 = "2025-03-26",
    V2025_06_18 = "2025-06-18",
    V2025_11_25 = "2025-11-25",
});

impl EarlierRevision {
    /// All of them, the earliest first.
    pub const ALL: [Self; 3] = [Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25];
    /// The last one before 2026-07-28.
    pub const LATEST: Self = Self::V2025_11_25;

    /// What a server that speaks all of these answers to an `initialize` which names `requested`: the same where it is one of these,
    /// otherwise the latest (*Lifecycle, Version Negotiation*).
    #[must_use]
    pub fn negotiate(requested: &str) -> Self {
        Self::from_word(requested).unwrap_or(Self::LATEST)
    }

    /// Whether a body may be an array of messages: 2025-03-26 alone.
    #[must_use]
    pub fn has_batches(self) -> bool {
        self == Self::V2025_03_26
    }

    /// The kinds of question that exist in this revision, whatever a client declares.
    #[must_use]
    pub fn kinds(self) -> KindSet {
        let kinds = KindSet::new().with(Kind::Sampling).with(Kind::Roots);
        match self {
            Self::V2025_03_26 => kinds,
            Self::V2025_06_18 => kinds.with(Kind::Form),
            Self::V2025_11_25 => kinds
                .with(Kind::Form)
                .with(Kind::Url)
                .with(Kind::SamplingWithTools),
        }
    }
}

/// Params of `initialize`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeParams {
    /// The version that the client would like, in its own words: perhaps none that exists. [`EarlierRevision::negotiate`] answers it.
    pub protocol_version: String,
    /// What the client can do, for the whole session.
    pub capabilities: ClientCapabilities,
    /// The client's name for itself. Show it; do not rely on it.
    pub client_info: Implementation,
}

impl InitializeParams {
    /// Params of a client that speaks up to `revision`.
    #[must_use]
    pub fn new(
        revision: EarlierRevision,
        capabilities: ClientCapabilities,
        client_info: Implementation,
    ) -> Self {
        Self {
            protocol_version: revision.as_str().to_owned(),
            capabilities,
            client_info,
        }
    }

    /// Reads the params of a request.
    ///
    /// # Errors
    ///
    /// [`ParamsError`] when one of the three is absent or of another shape.
    pub fn of(params: &Members<'_>) -> Result<Self, ParamsError> {
        let member = |name| params.get(name).ok_or(ParamsError::Missing(name));
        let version = as_string(member("protocolVersion")?)
            .ok_or(ParamsError::Mistyped("protocolVersion"))?;
        let capabilities = serde_json::from_str(member("capabilities")?.get())
            .map_err(|_| ParamsError::Malformed("capabilities"))?;
        let client_info = object::read(member("clientInfo")?)
            .map_err(|_| ParamsError::Malformed("clientInfo"))?;
        Ok(Self {
            protocol_version: version.into_owned(),
            capabilities,
            client_info,
        })
    }

    /// The kinds of question that may be put in a session of `revision`: those that the client declared and the revision has.
    #[must_use]
    pub fn kinds(&self, revision: EarlierRevision) -> KindSet {
        let declared = self.capabilities.kinds();
        revision
            .kinds()
            .iter()
            .filter(|kind| declared.contains(*kind))
            .fold(KindSet::new(), KindSet::with)
    }
}

/// Result of `initialize`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeResult {
    /// The version of the session. A client that does not speak it disconnects; [`InitializeResult::revision`] tells.
    pub protocol_version: String,
    /// What the server offers, for the whole session.
    #[serde(deserialize_with = "object::required")]
    pub capabilities: ServerCapabilities,
    /// The server's name for itself. Show it; do not rely on it.
    #[serde(deserialize_with = "object::required")]
    pub server_info: Implementation,
    /// Guidance for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing_if = "RawObject::is_empty")]
    pub meta: RawObject,
}

impl InitializeResult {
    /// A session's revision, what is offered in it, and by whom.
    ///
    /// `extensions` are left out of the capabilities: this era has none.
    #[must_use]
    pub fn new(
        revision: EarlierRevision,
        mut capabilities: ServerCapabilities,
        server_info: Implementation,
    ) -> Self {
        capabilities.extensions = RawObject::new();
        Self {
            protocol_version: revision.as_str().to_owned(),
            capabilities,
            server_info,
            instructions: None,
            meta: RawObject::new(),
        }
    }

    /// The revision that the server chose; `None` when it is none of this era's.
    #[must_use]
    pub fn revision(&self) -> Option<EarlierRevision> {
        EarlierRevision::from_word(&self.protocol_version)
    }
}

/// Params of `logging/setLevel`. Deprecated since 2026-07-28: log to stderr or OpenTelemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SetLevelParams {
    /// The least severe message that the session wants.
    pub level: LogLevel,
}

impl SetLevelParams {
    /// Wants this level and above. Deprecated since 2026-07-28: log to stderr or OpenTelemetry.
    #[must_use]
    pub fn new(level: LogLevel) -> Self {
        Self { level }
    }

    /// Reads the params of a request.
    ///
    /// # Errors
    ///
    /// [`ParamsError`] when the level is absent, no string, or none of RFC 5424.
    pub fn of(params: &Members<'_>) -> Result<Self, ParamsError> {
        let raw = params.get("level").ok_or(ParamsError::Missing("level"))?;
        let word = as_string(raw).ok_or(ParamsError::Mistyped("level"))?;
        let level = LogLevel::from_word(&word).ok_or(ParamsError::Malformed("level"))?;
        Ok(Self { level })
    }
}

/// Params of `resources/subscribe` and of `resources/unsubscribe`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SubscribeParams<'a> {
    /// The resource. Whatever a client wrote: servers validate it.
    pub uri: Cow<'a, str>,
}

impl<'a> SubscribeParams<'a> {
    /// Names a resource.
    pub fn new(uri: impl Into<Cow<'a, str>>) -> Self {
        Self { uri: uri.into() }
    }

    /// Reads the params of a request.
    ///
    /// # Errors
    ///
    /// [`ParamsError`] when the URI is absent or no string.
    pub fn of(params: &Members<'a>) -> Result<Self, ParamsError> {
        let raw = params.get("uri").ok_or(ParamsError::Missing("uri"))?;
        let uri = as_string(raw).ok_or(ParamsError::Mistyped("uri"))?;
        Ok(Self { uri })
    }
}

/// Params of `elicitation/create` in URL mode, as revision 2025-11-25 has them: with an id, so that
/// `notifications/elicitation/complete` can name the page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "mode", rename = "url", rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitUrlEarlier {
    /// Unique on its server; opaque to the client.
    pub elicitation_id: String,
    /// The whole URL.
    pub url: String,
    /// Why the person is asked to open it.
    pub message: String,
}

impl ElicitUrlEarlier {
    /// The modern question under an id.
    pub fn new(page: ElicitUrl, elicitation_id: impl Into<String>) -> Self {
        Self {
            elicitation_id: elicitation_id.into(),
            url: page.url,
            message: page.message,
        }
    }

    /// The modern question, without the id.
    #[must_use]
    pub fn into_page(self) -> ElicitUrl {
        ElicitUrl::new(self.message, self.url)
    }
}

/// As strict as [`ElicitUrl`], and the id must be there.
impl<'de> Deserialize<'de> for ElicitUrlEarlier {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Id {
            elicitation_id: String,
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let page: ElicitUrl = serde_json::from_str(raw.get()).map_err(de::Error::custom)?;
        let Id { elicitation_id } = object::read(&raw).map_err(de::Error::custom)?;
        Ok(Self::new(page, elicitation_id))
    }
}

/// Params of `notifications/elicitation/complete`: the person is done with a page. Revision 2025-11-25 alone.
///
/// It goes to the client that was asked and to no other. A client ignores an id that it does not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ElicitationCompleteParams {
    /// The id of the question.
    pub elicitation_id: String,
    /// `_meta`.
    #[serde(
        rename = "_meta",
        default,
        skip_serializing_if = "NotificationMeta::is_empty"
    )]
    pub meta: NotificationMeta,
}

impl ElicitationCompleteParams {
    /// Names the question.
    pub fn new(elicitation_id: impl Into<String>) -> Self {
        Self {
            elicitation_id: elicitation_id.into(),
            meta: NotificationMeta::default(),
        }
    }
}

/// Data of -32042: the pages that must be visited before the call is sent again. Revision 2025-11-25 alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlElicitationRequired {
    /// The pages. A server names one at least.
    pub elicitations: Vec<ElicitUrlEarlier>,
}

#[cfg(test)]
mod tests;
