//! The claims inside a token, written and read.
//!
//! One compact JSON object, members in this order, `epoch` only where there is one:
//!
//! ```text
//! {"v":1,"iat":<ms>,"exp":<ms>,"aud":"..","sub":"<tag>","dig":"<tag>","nonce":"..","flow":"..",
//!  "flow_exp":<ms>,"round":<n>,"epoch":"..","data":<JSON>}
//! ```
//!
//! Sixteen bytes are 22 characters of base64url. Moments are milliseconds since the Unix epoch.

use std::borrow::Cow;
use std::fmt::{self, Write};

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use serde_json::value::RawValue;

use crate::codec::Tag;
use crate::ids::{Epoch, FlowId, Nonce};
use crate::time::Timestamp;
use crate::token;

/// The version of the claims. Another one is not read.
pub(crate) const VERSION: u32 = 1;

/// The claims. Unknown, duplicate, missing and mistyped ones are refused on reading.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claims<'a> {
    pub(crate) v: u32,
    pub(crate) iat: Timestamp,
    pub(crate) exp: Timestamp,
    #[serde(borrow)]
    pub(crate) aud: Cow<'a, str>,
    #[serde(deserialize_with = "tag")]
    pub(crate) sub: Tag,
    #[serde(deserialize_with = "tag")]
    pub(crate) dig: Tag,
    #[serde(deserialize_with = "nonce")]
    pub(crate) nonce: Nonce,
    #[serde(deserialize_with = "flow")]
    pub(crate) flow: FlowId,
    pub(crate) flow_exp: Timestamp,
    pub(crate) round: u32,
    #[serde(default, deserialize_with = "epoch")]
    pub(crate) epoch: Option<Epoch>,
    #[serde(borrow)]
    pub(crate) data: &'a RawValue,
}

impl<'a> Claims<'a> {
    /// Reads an authenticated payload; `None` where it is not exactly what [`Claims::to_json`]
    /// writes, whitespace and the order of members aside.
    pub(crate) fn from_json(payload: &'a [u8]) -> Option<Claims<'a>> {
        // A derived implementation would read an array as well, position by position.
        if payload.first() != Some(&b'{') {
            return None;
        }
        serde_json::from_slice(payload).ok()
    }

    /// The compact JSON text.
    pub(crate) fn to_json(&self) -> String {
        let data = self.data.get();
        let mut out = String::with_capacity(320 + self.aud.len() + data.len());
        // Writing to a string does not fail.
        let _ = write!(
            out,
            r#"{{"v":{},"iat":{},"exp":{},"aud":"#,
            self.v,
            self.iat.as_millis(),
            self.exp.as_millis()
        );
        put_string(&mut out, &self.aud);
        put_bytes(&mut out, "sub", self.sub.as_bytes());
        put_bytes(&mut out, "dig", self.dig.as_bytes());
        put_bytes(&mut out, "nonce", self.nonce.as_bytes());
        put_bytes(&mut out, "flow", self.flow.as_bytes());
        let _ = write!(
            out,
            r#","flow_exp":{},"round":{}"#,
            self.flow_exp.as_millis(),
            self.round
        );
        if let Some(epoch) = &self.epoch {
            put_bytes(&mut out, "epoch", epoch.as_bytes());
        }
        out.push_str(r#","data":"#);
        out.push_str(data);
        out.push('}');
        out
    }
}

/// Appends a JSON string.
fn put_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\0'..='\x1f' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

fn put_bytes(out: &mut String, name: &str, bytes: &[u8; 16]) {
    out.push_str(",\"");
    out.push_str(name);
    out.push_str("\":\"");
    token::encode_into(bytes, out);
    out.push('"');
}

fn tag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Tag, D::Error> {
    sixteen_bytes(deserializer).map(Tag::from_bytes)
}

fn nonce<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nonce, D::Error> {
    sixteen_bytes(deserializer).map(Nonce::from_bytes)
}

fn flow<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FlowId, D::Error> {
    sixteen_bytes(deserializer).map(FlowId::from_bytes)
}

/// An epoch that is there is a string: `null` is not another way to have none.
fn epoch<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Epoch>, D::Error> {
    sixteen_bytes(deserializer).map(|bytes| Some(Epoch::from_bytes(bytes)))
}

fn sixteen_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 16], D::Error> {
    struct SixteenBytes;

    impl Visitor<'_> for SixteenBytes {
        type Value = [u8; 16];

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("16 bytes in base64url without padding")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<[u8; 16], E> {
            token::decode_array(text)
                .ok_or_else(|| E::invalid_value(de::Unexpected::Str("other text"), &self))
        }
    }

    deserializer.deserialize_str(SixteenBytes)
}
