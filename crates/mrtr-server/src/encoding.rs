//! A small wrapper that serde does not have.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};

/// `N` bytes, on the wire as base64url without padding; only the canonical spelling is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Base64<const N: usize>(pub(crate) [u8; N]);

impl<const N: usize> Default for Base64<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

/// Not printed: a flow's secret is one of these.
impl<const N: usize> fmt::Debug for Base64<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{N} bytes")
    }
}

impl<const N: usize> Serialize for Base64<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl<'de, const N: usize> Deserialize<'de> for Base64<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let bytes = URL_SAFE_NO_PAD
            .decode(text.as_ref())
            .map_err(de::Error::custom)?;
        let bytes = bytes
            .try_into()
            .map_err(|_| de::Error::custom(format_args!("not {N} bytes")))?;
        Ok(Self(bytes))
    }
}
