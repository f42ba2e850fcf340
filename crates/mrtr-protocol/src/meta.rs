//! `_meta` of requests and results (*Overview, `_meta`*).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::capabilities::ClientCapabilities;
use crate::icon::{self, Icon};
use crate::id::RequestId;
use crate::notification::{LogLevel, ProgressToken};
use crate::object::{self, Members, RawObject, as_string};

/// Key of the protocol version in a request's `_meta`. Required.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Key of the client's name and version in a request's `_meta`.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// Key of the client's capabilities in a request's `_meta`. Required.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Key of the server's name and version in a result's `_meta`.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Key of the token in a request's `_meta` that asks for `notifications/progress`. Both eras.
pub const PROGRESS_TOKEN: &str = "progressToken";
/// Key of the least severe log message that a request wants. Deprecated since 2026-07-28: log to stderr or OpenTelemetry.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Key in a notification's `_meta` of the `subscriptions/listen` request on whose stream it was sent, and in that request's result.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// Key of the W3C trace context's parent.
pub const TRACEPARENT: &str = "traceparent";
/// Key of the W3C trace context's vendor state.
pub const TRACESTATE: &str = "tracestate";
/// Key of W3C baggage.
pub const BAGGAGE: &str = "baggage";
/// This project's own key in a result's `_meta`: `true` where a ledger gave the stored result of an earlier run, and nothing ran.
pub const REPLAYED: &str = "mrtr/replayed";

/// A request's `_meta`: read member by member, because the order in which a server complains is fixed.
///
/// A version that is absent or mistyped is told first, then a version that is not supported, then capabilities. So this type does not
/// validate on construction; each accessor reads one member and says what is wrong with it. The specification forbids relying on
/// `clientInfo`: show it, log it, decide nothing by it.
///
/// ```
/// # use serde_json::value::RawValue;
/// use mrtr_protocol::{Members, MetaError, RequestMeta};
/// let params: &RawValue = serde_json::from_str(r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#)?;
/// let meta = RequestMeta::of(&Members::parse(params)?)?;
/// assert_eq!(meta.protocol_version()?, "2026-07-28");
/// assert_eq!(meta.client_capabilities(), Err(MetaError::CapabilitiesAbsent));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct RequestMeta<'a> {
    members: Members<'a>,
}

impl<'a> RequestMeta<'a> {
    /// Reads `_meta` of a request's params.
    ///
    /// # Errors
    ///
    /// [`MetaError::Absent`] and [`MetaError::NotAnObject`].
    pub fn of(params: &Members<'a>) -> Result<Self, MetaError> {
        let raw = params.get("_meta").ok_or(MetaError::Absent)?;
        Ok(Self {
            members: Members::parse(raw).map_err(|_| MetaError::NotAnObject)?,
        })
    }

    /// Reads `_meta` of a request of the earlier era, where it is optional.
    ///
    /// # Errors
    ///
    /// [`MetaError::NotAnObject`].
    pub fn optional(params: &Members<'a>) -> Result<Self, MetaError> {
        match Self::of(params) {
            Err(MetaError::Absent) => Ok(Self::default()),
            other => other,
        }
    }

    /// The version that the request declares; whether it is supported is the caller's to say.
    ///
    /// # Errors
    ///
    /// [`MetaError::VersionAbsent`] and [`MetaError::VersionMistyped`].
    pub fn protocol_version(&self) -> Result<Cow<'a, str>, MetaError> {
        let raw = self
            .members
            .get(PROTOCOL_VERSION)
            .ok_or(MetaError::VersionAbsent)?;
        as_string(raw).ok_or(MetaError::VersionMistyped)
    }

    /// The capabilities that the client declares for this request.
    ///
    /// # Errors
    ///
    /// [`MetaError::CapabilitiesAbsent`] and [`MetaError::CapabilitiesMistyped`].
    pub fn client_capabilities(&self) -> Result<ClientCapabilities, MetaError> {
        let raw = self
            .members
            .get(CLIENT_CAPABILITIES)
            .ok_or(MetaError::CapabilitiesAbsent)?;
        serde_json::from_str(raw.get()).map_err(|_| MetaError::CapabilitiesMistyped)
    }

    /// The client's name for itself.
    ///
    /// # Errors
    ///
    /// [`MetaError::ClientInfoMistyped`].
    pub fn client_info(&self) -> Result<Option<Implementation>, MetaError> {
        let Some(raw) = self.members.get(CLIENT_INFO) else {
            return Ok(None);
        };
        object::read(raw)
            .map(Some)
            .map_err(|_| MetaError::ClientInfoMistyped)
    }

    /// The token to report progress under, if the client wants reports (*Progress*).
    ///
    /// # Errors
    ///
    /// [`MetaError::ProgressTokenMistyped`].
    pub fn progress_token(&self) -> Result<Option<ProgressToken>, MetaError> {
        let Some(raw) = self.members.get(PROGRESS_TOKEN) else {
            return Ok(None);
        };
        ProgressToken::from_raw(raw)
            .map(Some)
            .ok_or(MetaError::ProgressTokenMistyped)
    }

    /// The least severe log message that this request wants; `None`: it wants none (*Logging*). Deprecated since 2026-07-28: log to
    /// stderr or OpenTelemetry.
    ///
    /// # Errors
    ///
    /// [`MetaError::UnknownLogLevel`].
    pub fn log_level(&self) -> Result<Option<LogLevel>, MetaError> {
        let Some(raw) = self.members.get(LOG_LEVEL) else {
            return Ok(None);
        };
        as_string(raw)
            .and_then(|word| LogLevel::from_word(&word))
            .map(Some)
            .ok_or(MetaError::UnknownLogLevel)
    }

    /// Any other member: a trace context, an application's own.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.members.get(name)
    }
}

/// What is wrong with a request's `_meta`: -32602 with HTTP 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetaError {
    /// No `_meta`, or no params at all.
    #[error(
        "`_meta` is missing; every request carries `{PROTOCOL_VERSION}` and `{CLIENT_CAPABILITIES}` in it"
    )]
    Absent,
    /// `_meta` is `null`, an array, or has a name twice.
    #[error("`_meta` must be an object")]
    NotAnObject,
    /// No version.
    #[error("`{PROTOCOL_VERSION}` is missing in `_meta`")]
    VersionAbsent,
    /// The version is no string.
    #[error("`{PROTOCOL_VERSION}` in `_meta` must be a string")]
    VersionMistyped,
    /// No capabilities.
    #[error(
        "`{CLIENT_CAPABILITIES}` is missing in `_meta`; a client without capabilities sends {{}}"
    )]
    CapabilitiesAbsent,
    /// The capabilities, or a known one among them, are no object.
    #[error("`{CLIENT_CAPABILITIES}` in `_meta` and each capability in it must be objects")]
    CapabilitiesMistyped,
    /// `clientInfo` is there and no implementation.
    #[error("`{CLIENT_INFO}` in `_meta` must be an object with a name and a version")]
    ClientInfoMistyped,
    /// `progressToken` is there and can be none.
    #[error("`{PROGRESS_TOKEN}` in `_meta` must be a string or an integer")]
    ProgressTokenMistyped,
    /// `logLevel` is there and none of RFC 5424.
    #[error(
        "`{LOG_LEVEL}` in `_meta` must be one of debug, info, notice, warning, error, critical, alert, emergency"
    )]
    UnknownLogLevel,
}

/// The per-request protocol fields, for a client to write.
#[derive(Debug, Clone, Serialize)]
pub struct ClientMeta<'a> {
    /// [`REVISION`](crate::REVISION).
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    pub protocol_version: &'a str,
    /// Who is asking.
    #[serde(
        rename = "io.modelcontextprotocol/clientInfo",
        skip_serializing_if = "Option::is_none"
    )]
    pub client_info: Option<&'a Implementation>,
    /// What it can do.
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    pub client_capabilities: &'a ClientCapabilities,
    /// Asks for progress, under this token.
    #[serde(rename = "progressToken", skip_serializing_if = "Option::is_none")]
    pub progress_token: Option<&'a ProgressToken>,
    /// Asks for log messages of this severity and above. Deprecated since 2026-07-28: read the server's stderr or OpenTelemetry.
    #[serde(
        rename = "io.modelcontextprotocol/logLevel",
        skip_serializing_if = "Option::is_none"
    )]
    pub log_level: Option<LogLevel>,
}

impl<'a> ClientMeta<'a> {
    /// The two required fields; the rest are public.
    #[must_use]
    pub fn new(protocol_version: &'a str, client_capabilities: &'a ClientCapabilities) -> Self {
        Self {
            protocol_version,
            client_info: None,
            client_capabilities,
            progress_token: None,
            log_level: None,
        }
    }
}

/// `_meta` of a result.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResultMeta(pub RawObject);

impl ResultMeta {
    /// Says which server answers (*Overview, Per-response protocol fields*).
    #[must_use]
    pub fn with_server_info(mut self, info: &Implementation) -> Self {
        // Strings and raw JSON always serialize.
        let _ = self.0.insert(SERVER_INFO, info);
        self
    }

    /// The server's name for itself, if it gave one. Show it; do not rely on it.
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        object::read(self.0.get(SERVER_INFO)?).ok()
    }

    /// Says which subscription this result ends (*Subscriptions, Graceful Closure*).
    #[must_use]
    pub fn with_subscription_id(mut self, id: &RequestId) -> Self {
        // An id always serializes.
        let _ = self.0.insert(SUBSCRIPTION_ID, id);
        self
    }

    /// The subscription that this result ends.
    #[must_use]
    pub fn subscription_id(&self) -> Option<RequestId> {
        RequestId::from_raw(self.0.get(SUBSCRIPTION_ID)?)
    }

    /// For `skip_serializing_if`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// `_meta` of a notification.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NotificationMeta(pub RawObject);

impl NotificationMeta {
    /// Says on which subscription the notification is sent (*Subscriptions, Receiving Notifications*).
    #[must_use]
    pub fn with_subscription_id(mut self, id: &RequestId) -> Self {
        // An id always serializes.
        let _ = self.0.insert(SUBSCRIPTION_ID, id);
        self
    }

    /// The subscription that it was sent on. `None`: on none, or the value can be no id.
    #[must_use]
    pub fn subscription_id(&self) -> Option<RequestId> {
        RequestId::from_raw(self.0.get(SUBSCRIPTION_ID)?)
    }

    /// For `skip_serializing_if`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Name and version of a client or server: self-reported, for display and logs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Implementation {
    /// The programmatic name.
    pub name: String,
    /// The version.
    pub version: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where to read more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub website_url: Option<String>,
    /// Pictures.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "icon::list"
    )]
    pub icons: Vec<Icon>,
}

impl Implementation {
    /// A name and a version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            title: None,
            description: None,
            website_url: None,
            icons: Vec::new(),
        }
    }
}

/// Whether a name is one that a key of `_meta` may have: labels with dots between and a slash behind, if it has a prefix, and
/// then a name (*Overview, `_meta`).
#[must_use]
pub fn is_key(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let ends = |text: &str, first: fn(&char) -> bool| {
        text.starts_with(|c| first(&c)) && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    let inside = |text: &str, more: &str| {
        text.chars()
            .all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    let label = |label: &str| ends(label, char::is_ascii_alphabetic) && inside(label, "-");
    prefix.is_none_or(|prefix| prefix.split('.').all(label))
        && (name.is_empty() || ends(name, char::is_ascii_alphanumeric) && inside(name, "-_."))
}

/// Whether a key is the specification's to give a meaning to: one whose prefix has `modelcontextprotocol` or `mcp` as its second
/// label, and the four that have no prefix.
///
/// ```
/// use mrtr_protocol::meta::is_reserved;
/// assert!(is_reserved("io.modelcontextprotocol/logLevel") && is_reserved("com.mcp.tools/x") && is_reserved("traceparent"));
/// assert!(!is_reserved("com.example.mcp/x") && !is_reserved("colour"));
/// ```
#[must_use]
pub fn is_reserved(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, _)) => prefix
            .split('.')
            .nth(1)
            .is_some_and(|label| ["modelcontextprotocol", "mcp"].contains(&label)),
        None => [PROGRESS_TOKEN, TRACEPARENT, TRACESTATE, BAGGAGE].contains(&key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_meta<T>(meta: &str, check: impl FnOnce(Result<RequestMeta<'_>, MetaError>) -> T) -> T {
        let params: Box<RawValue> = serde_json::from_str(&format!("{{{meta}}}")).unwrap();
        check(RequestMeta::of(&Members::parse(&params).unwrap()))
    }

    const GOOD: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},
        "io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"traceparent":"00-0"}"#;

    #[test]
    fn reads_each_member() {
        with_meta(GOOD, |meta| {
            let meta = meta.unwrap();
            assert_eq!(meta.protocol_version().unwrap(), "2026-07-28");
            assert!(meta.client_capabilities().unwrap().kinds().is_empty());
            assert_eq!(meta.client_info().unwrap().unwrap().name, "c");
            assert_eq!(meta.get("traceparent").unwrap().get(), r#""00-0""#);
        });
    }

    #[test]
    fn each_mistake_has_its_own_error() {
        let of = |meta: &str| with_meta(meta, |meta| meta.err());
        assert_eq!(of(""), Some(MetaError::Absent));
        for bad in ["null", "[]", "1"] {
            assert_eq!(
                of(&format!(r#""_meta":{bad}"#)),
                Some(MetaError::NotAnObject)
            );
        }
        for (from, to, version, capabilities, info) in [
            (
                "protocolVersion",
                "x",
                Err(MetaError::VersionAbsent),
                Ok(()),
                Ok(()),
            ),
            (
                r#""2026-07-28""#,
                "20260728",
                Err(MetaError::VersionMistyped),
                Ok(()),
                Ok(()),
            ),
            (
                r#""2026-07-28""#,
                "null",
                Err(MetaError::VersionMistyped),
                Ok(()),
                Ok(()),
            ),
            (
                "clientCapabilities",
                "x",
                Ok(()),
                Err(MetaError::CapabilitiesAbsent),
                Ok(()),
            ),
            (
                "clientCapabilities\":{}",
                "clientCapabilities\":[]",
                Ok(()),
                Err(MetaError::CapabilitiesMistyped),
                Ok(()),
            ),
            (
                "clientCapabilities\":{}",
                "clientCapabilities\":null",
                Ok(()),
                Err(MetaError::CapabilitiesMistyped),
                Ok(()),
            ),
            (
                r#"{"name":"c","version":"1"}"#,
                r#"["c","1"]"#,
                Ok(()),
                Ok(()),
                Err(MetaError::ClientInfoMistyped),
            ),
            (
                r#"{"name":"c","version":"1"}"#,
                "null",
                Ok(()),
                Ok(()),
                Err(MetaError::ClientInfoMistyped),
            ),
        ] {
            assert!(GOOD.contains(from), "{from}");
            with_meta(&GOOD.replacen(from, to, 1), |meta| {
                let meta = meta.unwrap();
                assert_eq!(meta.protocol_version().map(|_| ()), version, "{to}");
                assert_eq!(meta.client_capabilities().map(|_| ()), capabilities, "{to}");
                assert_eq!(meta.client_info().map(|_| ()), info, "{to}");
            });
        }
    }

    #[test]
    fn tokens_and_levels_are_read_or_refused() {
        let read = |member: &str| {
            with_meta(&format!(r#""_meta":{{{member}}}"#), |meta| {
                let meta = meta.unwrap();
                (meta.progress_token(), meta.log_level())
            })
        };
        assert_eq!(read(""), (Ok(None), Ok(None)));
        for token in ["7", r#""7""#, "9223372036854775808"] {
            let (read, _) = read(&format!(r#""progressToken":{token}"#));
            assert_eq!(
                serde_json::to_string(&read.unwrap().unwrap()).unwrap(),
                token
            );
        }
        for bad in ["null", "1.5", "true", "[]", "{}"] {
            let (token, _) = read(&format!(r#""progressToken":{bad}"#));
            assert_eq!(token, Err(MetaError::ProgressTokenMistyped), "{bad}");
        }
        let level = |word: &str| read(&format!(r#""io.modelcontextprotocol/logLevel":{word}"#)).1;
        assert_eq!(level(r#""warning""#), Ok(Some(LogLevel::Warning)));
        for bad in [r#""Warning""#, r#""warn""#, "4", "null", r#"["warning"]"#] {
            assert_eq!(level(bad), Err(MetaError::UnknownLogLevel), "{bad}");
        }
    }

    #[test]
    fn the_earlier_era_needs_no_meta() {
        let read = |params: &str| {
            let raw: Box<RawValue> = serde_json::from_str(params).unwrap();
            RequestMeta::optional(&Members::parse(&raw).unwrap())
                .map(|meta| meta.progress_token().unwrap().is_some())
        };
        assert_eq!(read("{}"), Ok(false));
        assert_eq!(read(r#"{"_meta":{"progressToken":1}}"#), Ok(true));
        assert_eq!(read(r#"{"_meta":null}"#), Err(MetaError::NotAnObject));
    }

    #[test]
    fn a_client_writes_what_a_server_reads() {
        let (capabilities, token) = (ClientCapabilities::default(), ProgressToken::from(7));
        let mut meta = ClientMeta::new(crate::REVISION, &capabilities);
        let text =
            |meta: &ClientMeta<'_>| format!(r#""_meta":{}"#, serde_json::to_string(meta).unwrap());
        with_meta(&text(&meta), |read| {
            let read = read.unwrap();
            assert_eq!(read.protocol_version().unwrap(), crate::REVISION);
            assert_eq!(read.progress_token(), Ok(None));
            assert_eq!(read.log_level(), Ok(None));
        });
        meta.progress_token = Some(&token);
        meta.log_level = Some(LogLevel::Error);
        with_meta(&text(&meta), |read| {
            let read = read.unwrap();
            assert_eq!(read.progress_token(), Ok(Some(token.clone())));
            assert_eq!(read.log_level(), Ok(Some(LogLevel::Error)));
        });
    }

    #[test]
    fn subscription_ids_keep_their_type() {
        for id in ["1", r#""1""#] {
            let id: RequestId = serde_json::from_str(id).unwrap();
            let notification = NotificationMeta::default().with_subscription_id(&id);
            assert_eq!(notification.subscription_id(), Some(id.clone()));
            let result = ResultMeta::default().with_subscription_id(&id);
            assert_eq!(result.subscription_id(), Some(id));
        }
        assert_eq!(NotificationMeta::default().subscription_id(), None);
    }

    #[test]
    fn keys_are_named_as_the_specification_says() {
        for bad in [
            "/x", "a..b/x", "1a/x", "a-/x", "a/-x", "a/x_", "a b/x", "a/x/y",
        ] {
            assert!(!is_key(bad), "{bad}");
        }
        let reserved = [
            PROTOCOL_VERSION,
            CLIENT_INFO,
            CLIENT_CAPABILITIES,
            SERVER_INFO,
            LOG_LEVEL,
            SUBSCRIPTION_ID,
        ];
        for key in reserved {
            assert!(
                is_key(key) && key.starts_with("io.modelcontextprotocol/"),
                "{key}"
            );
        }
        for key in [PROGRESS_TOKEN, TRACEPARENT, TRACESTATE, BAGGAGE] {
            assert!(is_key(key) && !key.contains('/'), "{key}");
        }
        // This project's own is in nobody else's name: what is reserved has `modelcontextprotocol` or `mcp` as its second label.
        assert!(is_key(REPLAYED) && !is_reserved(REPLAYED));
        assert!(reserved.into_iter().all(is_reserved));
    }

    #[test]
    fn results_name_their_server() {
        let meta = ResultMeta::default().with_server_info(&Implementation::new("s", "1"));
        assert_eq!(
            serde_json::to_string(&meta).unwrap(),
            r#"{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}"#
        );
        assert_eq!(meta.server_info().unwrap().name, "s");
    }
}
