//! Params of notifications: progress, cancellation, updates of resources, log messages.
//!
//! Write one with [`write_notification`](crate::jsonrpc::write_notification), read one with [`object::read`].

use std::fmt;

use serde::de::{self, Deserializer};
use serde::ser::{self, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::id::RequestId;
use crate::meta::NotificationMeta;
use crate::object;
use crate::word::words;

/// The token under which a request's progress is reported: a string or an integer, chosen by whoever sent the request.
///
/// It keeps type and digits, as a [`RequestId`] does.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProgressToken(RequestId);

impl ProgressToken {
    /// Reads a token from its JSON text. `None`: the value cannot be a token.
    #[must_use]
    pub fn from_raw(raw: &RawValue) -> Option<Self> {
        RequestId::from_raw(raw).map(Self)
    }

    /// The string, when the token is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        self.0.as_str()
    }
}

/// A token that is the request's own id is unique where ids are.
impl From<RequestId> for ProgressToken {
    fn from(id: RequestId) -> Self {
        Self(id)
    }
}

impl From<i64> for ProgressToken {
    fn from(token: i64) -> Self {
        Self(token.into())
    }
}

impl From<&str> for ProgressToken {
    fn from(token: &str) -> Self {
        Self(token.into())
    }
}

impl From<String> for ProgressToken {
    fn from(token: String) -> Self {
        Self(token.into())
    }
}

/// As JSON spells it: a string with its quotes.
impl fmt::Display for ProgressToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Params of `notifications/progress` (*Progress*).
///
/// A whole number is written without a fraction. What is no number on the wire (infinity, NaN) does not serialize. Not guaranteed: that
/// the progress is larger than the one before, as it must be; that is for the sender to keep and for the receiver to doubt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProgressParams {
    /// The token of the request.
    pub progress_token: ProgressToken,
    /// How far it is, in whatever unit.
    #[serde(serialize_with = "number")]
    pub progress: f64,
    /// How far it will be, in the same unit, if that is known.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "optional_number"
    )]
    pub total: Option<f64>,
    /// For a person to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// `_meta`.
    #[serde(
        rename = "_meta",
        default,
        skip_serializing_if = "NotificationMeta::is_empty"
    )]
    pub meta: NotificationMeta,
}

impl ProgressParams {
    /// A token and how far its request is; the rest are public fields.
    pub fn new(progress_token: impl Into<ProgressToken>, progress: f64) -> Self {
        Self {
            progress_token: progress_token.into(),
            progress,
            total: None,
            message: None,
            meta: NotificationMeta::default(),
        }
    }
}

/// Up to here each whole `f64` is one integer: 2^53.
const WHOLE: f64 = 9_007_199_254_740_992.0;

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if !value.is_finite() {
        return Err(ser::Error::custom("progress is a finite number"));
    }
    if value.fract() == 0.0 && value.abs() <= WHOLE {
        #[allow(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
        return serializer.serialize_i64(*value as i64);
    }
    serializer.serialize_f64(*value)
}

#[allow(clippy::ref_option, reason = "the signature that serde asks for")]
fn optional_number<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => number(value, serializer),
        None => serializer.serialize_none(),
    }
}

/// Params of `notifications/cancelled` (*Cancellation*).
///
/// Either side sends it in the earlier era. In the modern one a client does, on stdio, and a server does only to end a subscription.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CancelledParams {
    /// The request that need not be answered any more.
    pub request_id: RequestId,
    /// For a log or a person; whatever the other side wrote.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::present"
    )]
    pub reason: Option<String>,
    /// `_meta`.
    #[serde(
        rename = "_meta",
        default,
        skip_serializing_if = "NotificationMeta::is_empty"
    )]
    pub meta: NotificationMeta,
}

impl CancelledParams {
    /// Cancels a request; the rest are public fields.
    pub fn new(request_id: impl Into<RequestId>) -> Self {
        Self {
            request_id: request_id.into(),
            reason: None,
            meta: NotificationMeta::default(),
        }
    }
}

/// Params of `notifications/resources/updated` (*Resources*).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResourceUpdatedParams {
    /// The resource. It may lie below the one that was subscribed to.
    pub uri: String,
    /// `_meta`: in the modern era, the subscription.
    #[serde(
        rename = "_meta",
        default,
        skip_serializing_if = "NotificationMeta::is_empty"
    )]
    pub meta: NotificationMeta,
}

impl ResourceUpdatedParams {
    /// What changed.
    pub fn new(uri: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            meta: NotificationMeta::default(),
        }
    }
}

/// Params of the notifications that say no more than their name: `list_changed` of tools, prompts and resources.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListChangedParams {
    /// `_meta`: in the modern era, the subscription.
    #[serde(
        rename = "_meta",
        default,
        skip_serializing_if = "NotificationMeta::is_empty"
    )]
    pub meta: NotificationMeta,
}

impl ListChangedParams {
    /// Params that say on which subscription the notification is sent.
    #[must_use]
    pub fn on_subscription(id: &RequestId) -> Self {
        Self {
            meta: NotificationMeta::default().with_subscription_id(id),
        }
    }
}

/// How severe a log message is, in the words of RFC 5424 and in its order: `Debug` is the least. Deprecated since 2026-07-28: log to
/// stderr or OpenTelemetry.
///
/// ```
/// use mrtr_protocol::LogLevel;
/// assert!(LogLevel::Error >= LogLevel::Warning);
/// assert_eq!(LogLevel::from_word("notice"), Some(LogLevel::Notice));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// For whoever looks for a fault.
    Debug,
    /// For information.
    Info,
    /// Normal but significant.
    Notice,
    /// Something may go wrong.
    Warning,
    /// An operation failed.
    Error,
    /// A part of the system failed.
    Critical,
    /// Somebody must act at once.
    Alert,
    /// The system cannot be used.
    Emergency,
}

words!(LogLevel {
    Debug = "debug",
    Info = "info",
    Notice = "notice",
    Warning = "warning",
    Error = "error",
    Critical = "critical",
    Alert = "alert",
    Emergency = "emergency",
});

/// Params of `notifications/message` (*Logging*). Deprecated since 2026-07-28: log to stderr or OpenTelemetry.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LogParams {
    /// How severe it is.
    pub level: LogLevel,
    /// Who says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logger: Option<String>,
    /// What it says: any JSON, `null` included.
    #[serde(deserialize_with = "any_json")]
    pub data: Box<RawValue>,
    /// `_meta`.
    #[serde(
        rename = "_meta",
        default,
        skip_serializing_if = "NotificationMeta::is_empty"
    )]
    pub meta: NotificationMeta,
}

impl LogParams {
    /// A message; the rest are public fields. Deprecated since 2026-07-28: log to stderr or OpenTelemetry.
    ///
    /// # Errors
    ///
    /// When the data does not serialize.
    pub fn new<T: Serialize + ?Sized>(
        level: LogLevel,
        data: &T,
    ) -> Result<Self, serde_json::Error> {
        Ok(Self {
            level,
            logger: None,
            data: to_raw_value(data)?,
            meta: NotificationMeta::default(),
        })
    }
}

/// A required member of any type: without this, serde takes an absent one for `null` wherever it can.
fn any_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<RawValue>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;

    fn read<T: de::DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
        serde_json::from_str::<Object<T>>(text).map(|object| object.0)
    }

    #[test]
    fn whole_numbers_have_no_fraction_and_infinities_do_not_serialize() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (50.0, "50"),
            (0.25, "0.25"),
            (9_007_199_254_740_992.0, "9007199254740992"),
            (1e300, "1e+300"),
        ] {
            let params = ProgressParams::new("t", value);
            assert_eq!(
                serde_json::to_string(&params).unwrap(),
                format!(r#"{{"progressToken":"t","progress":{text}}}"#)
            );
        }
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(serde_json::to_string(&ProgressParams::new("t", bad)).is_err());
            let mut params = ProgressParams::new("t", 1.0);
            params.total = Some(bad);
            assert!(serde_json::to_string(&params).is_err());
        }
    }

    #[test]
    fn progress_is_read_as_the_specification_has_it() {
        let good = r#"{"progressToken":7,"progress":50,"total":100.5,"message":"m"}"#;
        let params: ProgressParams = read(good).unwrap();
        assert_eq!(params.progress_token, ProgressToken::from(7));
        assert_ne!(params.progress_token, ProgressToken::from("7"));
        assert_eq!((params.progress, params.total), (50.0, Some(100.5)));
        assert_eq!(serde_json::to_string(&params).unwrap(), good);
        for (from, to) in [
            (r#""progressToken":7,"#, ""),
            (r#""progressToken":7"#, r#""progressToken":7.5"#),
            (r#""progressToken":7"#, r#""progressToken":null"#),
            (r#""progress":50"#, r#""progress":"50""#),
            (r#""progress":50,"#, ""),
            (r#""m""#, "1"),
        ] {
            assert!(good.contains(from), "{from}");
            assert!(
                read::<ProgressParams>(&good.replace(from, to)).is_err(),
                "{to}"
            );
        }
        assert!(read::<ProgressParams>(r#"[7,50,null,null,{}]"#).is_err());
        // Only displayed, so `null` is absent.
        let absent = read::<ProgressParams>(r#"{"progressToken":7,"progress":1,"message":null}"#);
        assert_eq!(absent.unwrap(), ProgressParams::new(7, 1.0));
    }

    #[test]
    fn a_cancellation_names_one_request() {
        let good = r#"{"requestId":"1","reason":"r"}"#;
        let params: CancelledParams = read(good).unwrap();
        assert_eq!(params.request_id, RequestId::from("1"));
        assert_ne!(params.request_id, RequestId::from(1));
        assert_eq!(serde_json::to_string(&params).unwrap(), good);
        for bad in [
            "{}",
            r#"{"requestId":null}"#,
            r#"{"requestId":1.5}"#,
            r#"{"requestId":["1"]}"#,
            r#"{"requestId":"1","reason":null}"#,
            r#"{"requestId":"1","reason":1}"#,
            r#"{"requestId":"1","_meta":[]}"#,
            r#"["1"]"#,
        ] {
            assert!(read::<CancelledParams>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn levels_have_the_order_of_rfc_5424() {
        let words = [
            "debug",
            "info",
            "notice",
            "warning",
            "error",
            "critical",
            "alert",
            "emergency",
        ];
        let levels = words.map(|word| LogLevel::from_word(word).unwrap());
        assert!(levels.is_sorted());
        assert_eq!(levels.map(LogLevel::as_str), words);
    }

    #[test]
    fn log_data_is_any_json_and_must_be_there() {
        for data in ["null", "1.00", r#""x""#, r#"{"a": [1]}"#] {
            let text = format!(r#"{{"level":"error","logger":"l","data":{data}}}"#);
            let params: LogParams = read(&text).unwrap();
            assert_eq!(serde_json::to_string(&params).unwrap(), text);
        }
        for bad in [
            r#"{"level":"error"}"#,
            r#"{"level":"Error","data":1}"#,
            r#"{"level":3,"data":1}"#,
            r#"{"data":1}"#,
            r#"["error",null,1]"#,
        ] {
            assert!(read::<LogParams>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn changes_say_their_subscription() {
        let id = RequestId::from("listen-1");
        assert_eq!(
            serde_json::to_string(&ListChangedParams::on_subscription(&id)).unwrap(),
            r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":"listen-1"}}"#
        );
        let mut updated = ResourceUpdatedParams::new("note://1");
        updated.meta = updated.meta.with_subscription_id(&id);
        let text = serde_json::to_string(&updated).unwrap();
        assert_eq!(read::<ResourceUpdatedParams>(&text).unwrap(), updated);
        assert!(read::<ResourceUpdatedParams>(r#"{"uri":null}"#).is_err());
        assert!(read::<ListChangedParams>(r#"{"_meta":[]}"#).is_err());
    }
}
