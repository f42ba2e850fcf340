//! Error codes and their typed data (*Overview, Error Codes*).

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::capabilities::ClientCapabilities;
use crate::earlier::{ElicitUrlEarlier, UrlElicitationRequired};
use crate::object::{self, Object};

/// Every code that this project puts on the wire.
///
/// The codes of revision 2026-07-28 leave out the legacy range -32000..=-32019, and define nothing in -32020..=-32099 that the
/// specification does not. The two that end with "the earlier era only" are never sent to a modern client.
pub mod code {
    /// The body is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The body is JSON but not a JSON-RPC request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method is not known here.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// Params of the wrong shape, an unknown tool, malformed answers, a rejected request state.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The server failed; the text says nothing about why.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// Headers and body disagree, or a required header is missing (HTTP 400).
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The request needs a capability that the client did not declare (HTTP 400).
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// The protocol version is not supported (HTTP 400).
    pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
    /// A resource that does not exist: the earlier era only. The modern era says [`INVALID_PARAMS`].
    pub const RESOURCE_NOT_FOUND_EARLIER: i64 = -32002;
    /// The person must visit pages first, listed in `data.elicitations`: revision 2025-11-25, the earlier era only.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// This project's own: the same retry is being worked on; `data.retryAfterMs` says when to repeat it.
    pub const IN_PROGRESS: i64 = 1001;
    /// This project's own: whether the effect happened is not known, and the server will not run it again.
    pub const OUTCOME_UNKNOWN: i64 = 1002;
    /// This project's own: the replay ledger gave no word, so nothing was done.
    pub const LEDGER_UNAVAILABLE: i64 = 1003;
}

/// The `error` member of a response.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorObject {
    /// One of [`code`], or whatever a server made up.
    pub code: i64,
    /// A short sentence.
    pub message: String,
    /// More, in the sender's own shape. [`ErrorObject::known`] reads the shapes that are defined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

impl ErrorObject {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// The same error with data.
    ///
    /// # Errors
    ///
    /// When the data does not serialize.
    pub fn with_data<T: Serialize + ?Sized>(mut self, data: &T) -> Result<Self, serde_json::Error> {
        self.data = Some(to_raw_value(data)?);
        Ok(self)
    }

    /// The types of this module serialize always, so their data is never lost here.
    fn with_own_data<T: Serialize>(mut self, data: &T) -> Self {
        self.data = to_raw_value(data).ok();
        self
    }

    /// -32021: the request needs what the client did not declare.
    pub fn missing_capability(message: impl Into<String>, required: ClientCapabilities) -> Self {
        Self::new(code::MISSING_CLIENT_CAPABILITY, message).with_own_data(&MissingCapability {
            required_capabilities: required,
        })
    }

    /// -32022: the version is not served here.
    pub fn unsupported_version(
        requested: impl Into<String>,
        supported: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let data = UnsupportedVersion {
            supported: supported.into_iter().map(Into::into).collect(),
            requested: requested.into(),
        };
        Self::new(
            code::UNSUPPORTED_PROTOCOL_VERSION,
            "Unsupported protocol version",
        )
        .with_own_data(&data)
    }

    /// -32602 with `data.reason`: a request state that was not accepted.
    pub fn state_rejection(message: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message).with_own_data(&StateRejection {
            reason: reason.into(),
        })
    }

    /// -32602 with `data.uri`: a resource that does not exist, or that this caller may not know of (*Resources, Error Handling*).
    pub fn resource_not_found(uri: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, "Resource not found")
            .with_own_data(&ResourceNotFound { uri: uri.into() })
    }

    /// -32002 with `data.uri`: the earlier era's word for [`ErrorObject::resource_not_found`].
    pub fn resource_not_found_earlier(uri: impl Into<String>) -> Self {
        Self {
            code: code::RESOURCE_NOT_FOUND_EARLIER,
            ..Self::resource_not_found(uri)
        }
    }

    /// -32042 with `data.elicitations`: the person must visit these pages first. Revision 2025-11-25 alone.
    pub fn url_elicitation_required(
        message: impl Into<String>,
        elicitations: Vec<ElicitUrlEarlier>,
    ) -> Self {
        Self::new(code::URL_ELICITATION_REQUIRED, message)
            .with_own_data(&UrlElicitationRequired { elicitations })
    }

    /// 1001 with `data.retryAfterMs`.
    pub fn in_progress(message: impl Into<String>, retry_after_ms: u64) -> Self {
        Self::new(code::IN_PROGRESS, message).with_own_data(&InProgress { retry_after_ms })
    }

    /// What the code and data say, where the shape is defined. `None`: another code, or data that does not fit the code.
    #[must_use]
    pub fn known(&self) -> Option<KnownError> {
        fn data<T: for<'de> Deserialize<'de>>(error: &ErrorObject) -> Option<T> {
            serde_json::from_str::<Object<T>>(error.data.as_ref()?.get())
                .ok()
                .map(|object| object.0)
        }
        match self.code {
            code::MISSING_CLIENT_CAPABILITY => data(self).map(KnownError::MissingCapability),
            code::UNSUPPORTED_PROTOCOL_VERSION => data(self).map(KnownError::UnsupportedVersion),
            code::INVALID_PARAMS => data(self)
                .map(KnownError::StateRejected)
                .or_else(|| data(self).map(KnownError::ResourceNotFound)),
            code::RESOURCE_NOT_FOUND_EARLIER => data(self).map(KnownError::ResourceNotFound),
            code::URL_ELICITATION_REQUIRED => data(self).map(KnownError::UrlElicitationRequired),
            code::IN_PROGRESS => data(self).map(KnownError::InProgress),
            code::HEADER_MISMATCH => Some(KnownError::HeaderMismatch),
            code::OUTCOME_UNKNOWN => Some(KnownError::OutcomeUnknown),
            code::LEDGER_UNAVAILABLE => Some(KnownError::LedgerUnavailable),
            _ => None,
        }
    }
}

/// An error whose meaning is defined, by the specification or by this project.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum KnownError {
    /// -32020.
    HeaderMismatch,
    /// -32021.
    MissingCapability(MissingCapability),
    /// -32022.
    UnsupportedVersion(UnsupportedVersion),
    /// -32602 with a reason: only servers of this project say why a state was rejected.
    StateRejected(StateRejection),
    /// -32602 with a URI; -32002 from servers of earlier revisions.
    ResourceNotFound(ResourceNotFound),
    /// -32042, from servers of revision 2025-11-25.
    UrlElicitationRequired(UrlElicitationRequired),
    /// 1001.
    InProgress(InProgress),
    /// 1002.
    OutcomeUnknown,
    /// 1003.
    LedgerUnavailable,
}

/// Data of -32021.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingCapability {
    /// What the client would have to declare.
    #[serde(deserialize_with = "object::required")]
    pub required_capabilities: ClientCapabilities,
}

/// Data of -32022.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsupportedVersion {
    /// Versions that the server speaks.
    pub supported: Vec<String>,
    /// The version that the request named.
    pub requested: String,
}

/// Data of a resource that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceNotFound {
    /// The resource.
    pub uri: String,
}

/// Data of a rejected request state: this project's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRejection {
    /// A short word such as `expired`. New ones may come.
    pub reason: String,
}

/// Data of 1001: this project's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InProgress {
    /// When to repeat the same retry, in milliseconds from now.
    pub retry_after_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{Kind, KindSet};

    #[test]
    fn case_260_no_modern_code_in_a_forbidden_range() {
        use code::*;
        let all = [
            PARSE_ERROR,
            INVALID_REQUEST,
            METHOD_NOT_FOUND,
            INVALID_PARAMS,
            INTERNAL_ERROR,
            HEADER_MISMATCH,
            MISSING_CLIENT_CAPABILITY,
            UNSUPPORTED_PROTOCOL_VERSION,
            IN_PROGRESS,
            OUTCOME_UNKNOWN,
            LEDGER_UNAVAILABLE,
        ];
        for code in all {
            let legacy = (-32019..=-32000).contains(&code);
            let undefined = (-32099..=-32020).contains(&code) && !(-32022..=-32020).contains(&code);
            assert!(!legacy && !undefined, "{code}");
        }
    }

    #[test]
    fn typed_data_goes_both_ways() {
        let missing = ErrorObject::missing_capability(
            "needs forms",
            KindSet::from(Kind::Form).to_capabilities(),
        );
        assert_eq!(
            missing.data.as_ref().unwrap().get(),
            r#"{"requiredCapabilities":{"elicitation":{"form":{}}}}"#
        );
        let Some(KnownError::MissingCapability(data)) = missing.known() else {
            panic!("{missing:?}")
        };
        assert!(data.required_capabilities.kinds().contains(Kind::Form));

        let version = ErrorObject::unsupported_version("1900-01-01", ["2026-07-28"]);
        assert!(
            matches!(version.known(), Some(KnownError::UnsupportedVersion(data)) if data.requested == "1900-01-01")
        );
        let state = ErrorObject::state_rejection("Invalid requestState: expired.", "expired");
        assert!(
            matches!(state.known(), Some(KnownError::StateRejected(data)) if data.reason == "expired")
        );
        let gone = ErrorObject::resource_not_found("note://1");
        assert_eq!(gone.code, code::INVALID_PARAMS);
        let not_found = KnownError::ResourceNotFound(ResourceNotFound {
            uri: "note://1".to_owned(),
        });
        assert_eq!(gone.known().as_ref(), Some(&not_found));
        let legacy = ErrorObject::resource_not_found_earlier("note://1");
        assert_eq!(legacy.code, -32002);
        assert_eq!(legacy.known(), Some(not_found));
        let busy = ErrorObject::in_progress("in progress", 250);
        assert_eq!(busy.data.as_ref().unwrap().get(), r#"{"retryAfterMs":250}"#);
        assert_eq!(
            busy.known(),
            Some(KnownError::InProgress(InProgress {
                retry_after_ms: 250
            }))
        );
    }

    #[test]
    fn case_260_codes_of_the_legacy_range_mean_nothing() {
        let data = r#"{"uri":"note://1","reason":"x","retryAfterMs":1,"supported":[],"requested":"x","requiredCapabilities":{}}"#;
        for code in -32099..=-32000 {
            let error: ErrorObject =
                serde_json::from_str(&format!(r#"{{"code":{code},"message":"x","data":{data}}}"#))
                    .unwrap();
            let known = [-32002, -32020, -32021, -32022].contains(&code);
            assert_eq!(error.known().is_some(), known, "{code}");
        }
    }

    #[test]
    fn data_of_another_shape_is_not_known() {
        let array: ErrorObject =
            serde_json::from_str(r#"{"code":1001,"message":"x","data":[250]}"#).unwrap();
        assert_eq!(array.known(), None);
        assert_eq!(
            ErrorObject::new(code::INVALID_PARAMS, "Unknown tool").known(),
            None
        );
    }
}
