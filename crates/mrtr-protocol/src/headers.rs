//! Request headers of Streamable HTTP and the encoding of their values (*Streamable HTTP, Request Metadata*).

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::method;

/// `MCP-Protocol-Version`: equals `_meta`'s version.
pub const PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// `Mcp-Method`: equals the body's `method`.
pub const METHOD: &str = "mcp-method";
/// `Mcp-Name`: equals `params.name` (or `params.uri`), encoded with [`encode`]. [`name_source`] says which.
pub const NAME: &str = "mcp-name";
/// `Mcp-Param-`: the beginning of each header that mirrors an argument (*Custom Headers from Tool Parameters*).
pub const PARAM_PREFIX: &str = "mcp-param-";
/// `Mcp-Session-Id`: the earlier era's session. The modern era has none.
pub const SESSION_ID: &str = "mcp-session-id";
/// `Last-Event-ID`: where the earlier era's stream is to be resumed.
pub const LAST_EVENT_ID: &str = "last-event-id";

/// The member of the params that `Mcp-Name` mirrors; `None` for a method that has no such header (*Standard Request Headers*).
///
/// ```
/// use mrtr_protocol::{headers::name_source, method};
/// assert_eq!(name_source(method::TOOLS_CALL), Some("name"));
/// assert_eq!(name_source(method::RESOURCES_READ), Some("uri"));
/// assert_eq!(name_source(method::TOOLS_LIST), None);
/// ```
#[must_use]
pub fn name_source(method: &str) -> Option<&'static str> {
    match method {
        method::TOOLS_CALL | method::PROMPTS_GET => Some("name"),
        method::RESOURCES_READ => Some("uri"),
        _ => None,
    }
}

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// Why a header value cannot be decoded: -32020 with HTTP 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderValueError {
    /// Something outside visible ASCII, space and tab.
    #[error("the header value holds characters that must be sent as =?base64?..?=")]
    InvalidCharacter,
    /// The sentinel is there, and between its ends is no canonical base64 of UTF-8 text.
    #[error("the header value has the base64 sentinel but no canonical base64 of UTF-8 text in it")]
    InvalidBase64,
}

/// Encodes a value for `Mcp-Name` (*Value Encoding*): plain where that is safe, otherwise `=?base64?..?=`.
///
/// The empty string, and a value that looks like the sentinel itself, are encoded too.
///
/// ```
/// use mrtr_protocol::headers::{decode, encode};
/// assert_eq!(encode("get_weather"), "get_weather");
/// assert_eq!(encode("Hello, 世界"), "=?base64?SGVsbG8sIOS4lueVjA==?=");
/// assert_eq!(decode("=?base64?SGVsbG8sIOS4lueVjA==?=").unwrap(), "Hello, 世界");
/// ```
#[must_use]
pub fn encode(value: &str) -> Cow<'_, str> {
    let plain = value.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    let padded = value.is_empty() || value.starts_with(' ') || value.ends_with(' ');
    if plain && !padded && !looks_encoded(value) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("{PREFIX}{}{SUFFIX}", STANDARD.encode(value)))
}

/// Decodes a value that arrived, without the white space that HTTP strips around it.
///
/// Strict: one spelling of base64 for each text. A plain value stands for itself.
///
/// # Errors
///
/// [`HeaderValueError`].
pub fn decode(value: &str) -> Result<Cow<'_, str>, HeaderValueError> {
    if !value
        .bytes()
        .all(|byte| byte == b'\t' || (0x20..=0x7e).contains(&byte))
    {
        return Err(HeaderValueError::InvalidCharacter);
    }
    if !looks_encoded(value) {
        return Ok(Cow::Borrowed(value));
    }
    let inner = value
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_suffix(SUFFIX))
        .ok_or(HeaderValueError::InvalidBase64)?;
    let bytes = STANDARD
        .decode(inner)
        .map_err(|_| HeaderValueError::InvalidBase64)?;
    String::from_utf8(bytes)
        .map(Cow::Owned)
        .map_err(|_| HeaderValueError::InvalidBase64)
}

/// The two ends may overlap (`=?base64?=`): such a value matches the pattern and decodes to nothing.
fn looks_encoded(value: &str) -> bool {
    value.starts_with(PREFIX) && value.ends_with(SUFFIX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_specification_s_own_examples() {
        for (value, header) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ] {
            assert_eq!(encode(value), header);
            assert_eq!(decode(header).unwrap(), value);
        }
    }

    #[test]
    fn refuses_other_spellings() {
        assert_eq!(decode("=?base64?YQ==?=").unwrap(), "a");
        for bad in [
            "=?base64?YQ?=",
            "=?base64?YR==?=",
            "=?base64?YQ= =?=",
            "=?base64?_w==?=",
            "=?base64?/w==?=",
            "=?base64?=",
            "=?base64?literal?=",
        ] {
            assert_eq!(decode(bad), Err(HeaderValueError::InvalidBase64), "{bad}");
        }
        for bad in ["é", "a\u{7f}", "a\nb"] {
            assert_eq!(
                decode(bad),
                Err(HeaderValueError::InvalidCharacter),
                "{bad}"
            );
        }
        // The markers are case-sensitive; another case is a plain value.
        assert_eq!(decode("=?BASE64?YQ==?=").unwrap(), "=?BASE64?YQ==?=");
    }

    proptest! {
        #[test]
        fn every_text_survives(value in any::<String>()) {
            let header = encode(&value);
            prop_assert!(header.bytes().all(|byte| (0x20..=0x7e).contains(&byte)));
            prop_assert_eq!(header.trim(), header.as_ref());
            prop_assert!(!header.is_empty());
            prop_assert_eq!(decode(&header).unwrap(), value.as_str());
        }

        #[test]
        fn what_decodes_from_the_sentinel_has_one_spelling(inner in "[A-Za-z0-9+/=]{0,12}") {
            let header = format!("=?base64?{inner}?=");
            if let Ok(value) = decode(&header) {
                prop_assert_eq!(STANDARD.encode(value.as_bytes()), inner);
            }
        }

        #[test]
        fn case_186_encoding_is_injective_near_the_sentinel(a in "[=?base64Y]{0,14}", b in "[=?base64Y]{0,14}") {
            prop_assert_eq!(encode(&a) == encode(&b), a == b);
        }
    }
}
