//! Roots: the folders and files that a client offers (*Roots*). Deprecated since 2026-07-28.
//!
//! **Deprecated since 2026-07-28**, and kept for clients and servers that have it. A new server takes folders as parameters of its tools, as
//! resource URIs, or from its configuration.
//!
//! Roots guide; they protect nothing. A client may name whatever it likes, and nothing keeps a server inside.

use std::fmt;

use serde::de::{self, Deserializer};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::object::{self, RawObject};

/// A folder or file that a client offers. Deprecated since 2026-07-28: a new server takes folders as parameters, resource URIs or
/// configuration.
///
/// Guaranteed: the URI begins with `file://`, and has no control characters and no `.` or `..` segments, however they are encoded.
/// Not guaranteed: that it exists, that the person consented to it, that a symbolic link does not lead elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Root {
    uri: String,
    /// A name for people.
    pub name: Option<String>,
    /// `_meta`.
    pub meta: RawObject,
}

/// Why a URI is not a root's. Deprecated since 2026-07-28, as [`Root`] is: take folders as parameters, resource URIs or configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    /// Another scheme, or none.
    #[error("a root's URI begins with `file://`")]
    NotAFile,
    /// `.` or `..` as a segment, plain or percent-encoded.
    #[error("a root's URI has no `.` or `..` segments")]
    DotSegment,
    /// A control character, plain or percent-encoded.
    #[error("a root's URI has no control characters")]
    ControlCharacter,
}

impl Root {
    /// A root at a `file://` URI. Deprecated since 2026-07-28: take folders as parameters, resource URIs or configuration.
    ///
    /// ```
    /// use mrtr_protocol::roots::{Root, RootError};
    /// assert_eq!(Root::new("file:///home/ada/notes")?.uri(), "file:///home/ada/notes");
    /// assert_eq!(Root::new("file:///home/ada/%2E%2E/bob"), Err(RootError::DotSegment));
    /// # Ok::<(), RootError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RootError`].
    pub fn new(uri: impl Into<String>) -> Result<Self, RootError> {
        let uri = uri.into();
        let path = uri.strip_prefix("file://").ok_or(RootError::NotAFile)?;
        let decoded = percent_decoded(path);
        if decoded.iter().any(u8::is_ascii_control) || path.chars().any(char::is_control) {
            return Err(RootError::ControlCharacter);
        }
        // A backslash separates too, for whoever reads the path on Windows; a query or fragment may be read as a part of the path.
        if decoded
            .split(|byte| matches!(byte, b'/' | b'\\' | b'?' | b'#'))
            .any(|segment| matches!(segment, b"." | b".."))
        {
            return Err(RootError::DotSegment);
        }
        Ok(Self {
            uri,
            name: None,
            meta: RawObject::new(),
        })
    }

    /// The same root with a name for people. Deprecated since 2026-07-28: take folders as parameters, resource URIs or configuration.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Where it is, as it was written. Deprecated since 2026-07-28: take folders as parameters, resource URIs or configuration.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }
}

/// Decodes `%XX` once; what is no escape stays.
fn percent_decoded(text: &str) -> Vec<u8> {
    let hex = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        let escaped = match (first, tail) {
            (b'%', [high, low, after @ ..]) => hex(*high)
                .zip(hex(*low))
                .map(|(high, low)| (high * 16 + low, after)),
            _ => None,
        };
        match escaped {
            Some((byte, after)) => {
                out.push(byte);
                rest = after;
            }
            None => out.push(first),
        }
    }
    out
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.uri)
    }
}

impl Serialize for Root {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("uri", &self.uri)?;
        if let Some(name) = &self.name {
            map.serialize_entry("name", name)?;
        }
        if !self.meta.is_empty() {
            map.serialize_entry("_meta", &self.meta)?;
        }
        map.end()
    }
}

/// Strict: an object, with a URI that [`Root::new`] takes.
impl<'de> Deserialize<'de> for Root {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            uri: String,
            #[serde(default, deserialize_with = "object::present")]
            name: Option<String>,
            #[serde(rename = "_meta", default)]
            meta: RawObject,
        }
        let Wire { uri, name, meta } = object::required(deserializer)?;
        let root = Self::new(uri).map_err(de::Error::custom)?;
        Ok(Self { name, meta, ..root })
    }
}

/// The answer to `roots/list`. Deprecated since 2026-07-28: take folders as parameters, resource URIs or configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ListRootsResult {
    /// The roots; there may be none.
    pub roots: Vec<Root>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_without_detours_are_roots() {
        for good in [
            "file:///",
            "file:///home/ada/notes",
            "file:///C:/Users/ada",
            "file://host/share",
            "file:///home/ada/.config/..hidden/a..b/...",
            "file:///with%20space/%C3%BC/ü",
            "file:///100%",
            "file:///%zz/%2",
        ] {
            assert_eq!(Root::new(good).unwrap().uri(), good);
        }
        for (bad, error) in [
            ("", RootError::NotAFile),
            ("/home/ada", RootError::NotAFile),
            ("file:/home/ada", RootError::NotAFile),
            ("FILE:///home/ada", RootError::NotAFile),
            ("https://a.example/", RootError::NotAFile),
            (" file:///home", RootError::NotAFile),
            ("file:///home/../etc", RootError::DotSegment),
            ("file:///home/ada/..", RootError::DotSegment),
            ("file:///./etc", RootError::DotSegment),
            ("file:///home/%2e%2E/etc", RootError::DotSegment),
            ("file:///home/.%2e/etc", RootError::DotSegment),
            ("file:///home%2f..%2fetc", RootError::DotSegment),
            ("file:///home\\..\\etc", RootError::DotSegment),
            ("file:///home%5c..%5cetc", RootError::DotSegment),
            ("file:///home/..?x", RootError::DotSegment),
            ("file:///home\0", RootError::ControlCharacter),
            ("file:///home%00", RootError::ControlCharacter),
            ("file:///home%0A", RootError::ControlCharacter),
            ("file:///home\u{85}", RootError::ControlCharacter),
        ] {
            assert_eq!(Root::new(bad), Err(error), "{bad:?}");
        }
    }

    #[test]
    fn roots_are_objects() {
        let good = r#"{"uri":"file:///a","name":"A","_meta":{"x/y":1}}"#;
        let root: Root = serde_json::from_str(good).unwrap();
        assert_eq!(serde_json::to_string(&root).unwrap(), good);
        assert_eq!(
            serde_json::to_string(&Root::new("file:///a").unwrap().named("A")).unwrap(),
            r#"{"uri":"file:///a","name":"A"}"#
        );
        for bad in [
            r#"["file:///a"]"#,
            r#""file:///a""#,
            r#"{"name":"A"}"#,
            r#"{"uri":"file:///a","name":null}"#,
            r#"{"uri":"file:///a","name":1}"#,
            r#"{"uri":"file:///a","_meta":[]}"#,
            r#"{"uri":"file:///a/../b"}"#,
            r#"{"uri":"https://a.example"}"#,
        ] {
            assert!(serde_json::from_str::<Root>(bad).is_err(), "{bad}");
        }
    }
}
