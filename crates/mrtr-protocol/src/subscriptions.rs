//! `subscriptions/listen`: a stream of notifications that a client asked for (*Subscriptions*).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::RequestId;
use crate::meta::{NotificationMeta, ResultMeta};
use crate::object::{self, Members};
use crate::tools::ParamsError;

/// Which notifications a subscription is for. What is not asked for here must not be sent.
///
/// Strict: `null` and any other type are errors, never "no". A filter that asks for nothing is a filter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionFilter {
    /// `notifications/tools/list_changed`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tools_list_changed: bool,
    /// `notifications/prompts/list_changed`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prompts_list_changed: bool,
    /// `notifications/resources/list_changed`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resources_list_changed: bool,
    /// `notifications/resources/updated`, of these URIs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_subscriptions: Vec<String>,
}

impl SubscriptionFilter {
    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Params of `subscriptions/listen`.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ListenParams<'a> {
    /// What the client wants to hear of.
    pub notifications: SubscriptionFilter,
    /// `_meta`. Read it with [`RequestMeta`](crate::RequestMeta).
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<&'a RawValue>,
}

impl<'a> ListenParams<'a> {
    /// Params that ask for these notifications.
    #[must_use]
    pub fn new(notifications: SubscriptionFilter) -> Self {
        Self {
            notifications,
            meta: None,
        }
    }

    /// Reads the params of a request. How many URIs a filter may hold is the server's to say.
    ///
    /// # Errors
    ///
    /// [`ParamsError`] when the filter is absent or of another shape.
    pub fn of(params: &Members<'a>) -> Result<Self, ParamsError> {
        let filter = params
            .get("notifications")
            .ok_or(ParamsError::Missing("notifications"))?;
        Ok(Self {
            notifications: object::read(filter)
                .map_err(|_| ParamsError::Malformed("notifications"))?,
            meta: params.get("_meta"),
        })
    }
}

/// Params of `notifications/subscriptions/acknowledged`: the first message of a subscription.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AcknowledgedParams {
    /// `_meta`, where the subscription is named.
    #[serde(
        rename = "_meta",
        default,
        skip_serializing_if = "NotificationMeta::is_empty"
    )]
    pub meta: NotificationMeta,
    /// What of the filter the server honours.
    #[serde(deserialize_with = "object::required")]
    pub notifications: SubscriptionFilter,
}

impl AcknowledgedParams {
    /// Acknowledges the subscription that the request of this id opened.
    #[must_use]
    pub fn new(id: &RequestId, honoured: SubscriptionFilter) -> Self {
        Self {
            meta: NotificationMeta::default().with_subscription_id(id),
            notifications: honoured,
        }
    }
}

/// Result of `subscriptions/listen`: the server has ended the subscription in good order. A connection that closes without it has broken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "resultType", rename = "complete")]
#[non_exhaustive]
pub struct ListenResult {
    /// `_meta`, where the subscription is named.
    #[serde(
        rename = "_meta",
        default,
        skip_serializing_if = "ResultMeta::is_empty"
    )]
    pub meta: ResultMeta,
}

impl ListenResult {
    /// Ends the subscription that the request of this id opened.
    #[must_use]
    pub fn new(id: &RequestId) -> Self {
        Self {
            meta: ResultMeta::default().with_subscription_id(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Object;

    fn filter(text: &str) -> Result<SubscriptionFilter, ParamsError> {
        let raw: Box<RawValue> =
            serde_json::from_str(&format!(r#"{{"notifications":{text}}}"#)).unwrap();
        ListenParams::of(&Members::parse(&raw).unwrap()).map(|params| params.notifications)
    }

    #[test]
    fn filters_are_read_strictly() {
        let all = r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["note://1"]}"#;
        let read = filter(all).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), all);
        assert!(!read.is_empty());
        for nothing in [
            "{}",
            r#"{"toolsListChanged":false,"resourceSubscriptions":[]}"#,
            r#"{"later":true}"#,
        ] {
            assert!(filter(nothing).unwrap().is_empty(), "{nothing}");
        }
        for bad in [
            "null",
            "[true]",
            "true",
            r#"{"toolsListChanged":null}"#,
            r#"{"toolsListChanged":1}"#,
            r#"{"toolsListChanged":"true"}"#,
            r#"{"toolsListChanged":true,"toolsListChanged":false}"#,
            r#"{"resourceSubscriptions":null}"#,
            r#"{"resourceSubscriptions":"note://1"}"#,
            r#"{"resourceSubscriptions":[1]}"#,
        ] {
            assert_eq!(
                filter(bad),
                Err(ParamsError::Malformed("notifications")),
                "{bad}"
            );
        }
        let raw: Box<RawValue> = serde_json::from_str("{}").unwrap();
        assert_eq!(
            ListenParams::of(&Members::parse(&raw).unwrap()).unwrap_err(),
            ParamsError::Missing("notifications")
        );
    }

    #[test]
    fn the_first_message_and_the_last_name_the_subscription() {
        for id in ["1", r#""1""#] {
            let id: RequestId = serde_json::from_str(id).unwrap();
            let first = AcknowledgedParams::new(&id, SubscriptionFilter::default());
            let text = serde_json::to_string(&first).unwrap();
            assert_eq!(
                text,
                format!(
                    r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"notifications":{{}}}}"#
                )
            );
            let Object(read) = serde_json::from_str::<Object<AcknowledgedParams>>(&text).unwrap();
            assert_eq!(read.meta.subscription_id(), Some(id.clone()));
            let text = serde_json::to_string(&ListenResult::new(&id)).unwrap();
            let Object(read) = serde_json::from_str::<Object<ListenResult>>(&text).unwrap();
            assert_eq!(read.meta.subscription_id(), Some(id));
        }
        let bad = r#"{"notifications":[]}"#;
        assert!(serde_json::from_str::<Object<AcknowledgedParams>>(bad).is_err());
    }
}
