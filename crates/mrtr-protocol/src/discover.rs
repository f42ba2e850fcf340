//! `server/discover`: who the server is and what it speaks (*Discovery*).

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::meta::ResultMeta;
use crate::object::{self, JsonObject, RawObject};
use crate::word::words;

/// Result of `server/discover`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "resultType", rename = "complete", rename_all = "camelCase")]
pub struct DiscoverResult {
    /// Versions to choose from.
    pub supported_versions: Vec<String>,
    /// What the server offers.
    #[serde(deserialize_with = "object::required")]
    pub capabilities: ServerCapabilities,
    /// Guidance for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// How long this may be cached, in milliseconds. Absent or negative reads as 0.
    #[serde(default, deserialize_with = "ttl_ms")]
    pub ttl_ms: u64,
    /// By whom it may be cached. Absent reads as private.
    #[serde(default)]
    pub cache_scope: CacheScope,
    /// `_meta`, where the server names itself.
    #[serde(
        rename = "_meta",
        default,
        skip_serializing_if = "ResultMeta::is_empty"
    )]
    pub meta: ResultMeta,
}

/// `ttlMs`: a client is to take a negative one for 0 (*Caching, Time-to-Live Field*). So is any other number that is no count of
/// milliseconds; what is no number is an error.
pub(crate) fn ttl_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    let text = raw.get();
    if !text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Err(de::Error::custom("`ttlMs` must be a number"));
    }
    Ok(text.parse().unwrap_or(0))
}

/// Who may cache a result (*Caching*).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CacheScope {
    /// This caller alone.
    #[default]
    Private,
    /// Anyone.
    Public,
}

words!(CacheScope {
    Private = "private",
    Public = "public",
});

/// What a server offers. Members that are not objects are errors.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerCapabilities {
    /// Tools.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::optional"
    )]
    pub tools: Option<ListChanged>,
    /// Prompts.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::optional"
    )]
    pub prompts: Option<ListChanged>,
    /// Resources.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::optional"
    )]
    pub resources: Option<ResourcesCapability>,
    /// Completion of arguments.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::present"
    )]
    pub completions: Option<JsonObject>,
    /// Log messages. Deprecated since 2026-07-28.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::present"
    )]
    pub logging: Option<JsonObject>,
    /// Extensions by identifier, with their settings.
    #[serde(default, skip_serializing_if = "RawObject::is_empty")]
    pub extensions: RawObject,
    /// What is not standard.
    #[serde(default, skip_serializing_if = "RawObject::is_empty")]
    pub experimental: RawObject,
}

impl ServerCapabilities {
    /// A server that offers tools, whose list does not change while it runs.
    #[must_use]
    pub fn with_tools() -> Self {
        Self {
            tools: Some(ListChanged::default()),
            ..Self::default()
        }
    }
}

/// A capability whose list may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListChanged {
    /// Whether changes are announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
}

/// The `resources` capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourcesCapability {
    /// Whether single resources can be subscribed to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscribe: Option<bool>,
    /// Whether changes of the list are announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_changed: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;

    #[test]
    fn capabilities_are_objects() {
        let read = |capabilities: &str| {
            let text =
                format!(r#"{{"supportedVersions":["2026-07-28"],"capabilities":{capabilities}}}"#);
            serde_json::from_str::<Object<DiscoverResult>>(&text)
        };
        assert!(read(r#"{"tools":{},"extensions":{"a/b":{}}}"#).is_ok());
        for bad in [
            "[]",
            "null",
            r#"{"tools":[true]}"#,
            r#"{"tools":null}"#,
            r#"{"completions":[]}"#,
            r#"{"extensions":[]}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_to_live_that_is_no_count_is_none() {
        let read = |ttl: &str| {
            let text = format!(
                r#"{{"supportedVersions":["2026-07-28"],"capabilities":{{}},"ttlMs":{ttl}}}"#
            );
            serde_json::from_str::<Object<DiscoverResult>>(&text)
                .map(|Object(result)| result.ttl_ms)
        };
        for (ttl, expected) in [
            ("0", 0),
            ("60000", 60_000),
            ("18446744073709551615", u64::MAX),
            ("-1", 0),
            ("-0", 0),
            ("1.5", 0),
            ("1e3", 0),
            ("99999999999999999999999", 0),
        ] {
            assert_eq!(read(ttl).unwrap(), expected, "{ttl}");
        }
        for bad in ["null", "\"60000\"", "true", "[]", "{}"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
