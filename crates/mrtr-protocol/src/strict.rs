//! One strict pass over a body that serde_json has accepted.
//!
//! serde_json checks the syntax of what it skips and no more. This pass finds the rest, anywhere in the body, in one walk without
//! recursion:
//!
//! * a **duplicate member name**, compared after unescaping: two readers may each take another one (*RFC 8259, section 4*);
//! * **nesting** beyond a bound, before any recursive reader sees it;
//! * a name that begins **`$serde_json::private::`**: with `raw_value` or `arbitrary_precision` on, serde_json takes an object with such
//!   a name for something else, and what it holds would escape this very check;
//! * a **lone surrogate** in a string, which no Rust string can hold;
//! * a **number beyond the range of `f64`**: without `arbitrary_precision` serde_json refuses it, with it it does not, and what a body
//!   means must not depend on the build.

use std::borrow::Cow;

use crate::error::{ErrorObject, code};
use crate::object::has_duplicate;

/// How deep arrays and objects may be nested, unless [`check_with`] is told otherwise. It is serde_json's own bound.
pub const DEFAULT_DEPTH: usize = 128;

/// serde_json's in-band markers.
const RESERVED: &str = "$serde_json::private::";

/// What the strict pass found, and at which byte of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A member name occurs twice in the object that ends at this byte.
    #[error("a member name occurs twice in the object that ends at byte {at}")]
    DuplicateName {
        /// Byte offset.
        at: usize,
    },
    /// Nested deeper than the bound.
    #[error("nested deeper than the limit at byte {at}")]
    TooDeep {
        /// Byte offset.
        at: usize,
    },
    /// A name that serde_json reserves for itself.
    #[error("a reserved member name at byte {at}")]
    ReservedName {
        /// Byte offset.
        at: usize,
    },
    /// A string that is not Unicode text.
    #[error("a lone surrogate in the string at byte {at}")]
    LoneSurrogate {
        /// Byte offset.
        at: usize,
    },
    /// A number that no `f64` can approximate.
    #[error("a number out of range at byte {at}")]
    NumberOutOfRange {
        /// Byte offset.
        at: usize,
    },
    /// The text is not the JSON that the caller promised.
    #[error("not JSON at byte {at}")]
    NotJson {
        /// Byte offset.
        at: usize,
    },
}

impl Violation {
    /// -32600 for names; -32700 for what a reader of JSON may refuse to parse at all.
    #[must_use]
    pub fn code(&self) -> i64 {
        match self {
            Self::DuplicateName { .. } | Self::ReservedName { .. } => code::INVALID_REQUEST,
            _ => code::PARSE_ERROR,
        }
    }

    /// The error to answer with.
    #[must_use]
    pub fn to_error_object(&self) -> ErrorObject {
        let what = if self.code() == code::PARSE_ERROR {
            "Parse error"
        } else {
            "Invalid request"
        };
        ErrorObject::new(self.code(), format!("{what}: {self}."))
    }
}

/// Checks a body with the default depth of [`DEFAULT_DEPTH`].
///
/// ```
/// use mrtr_protocol::strict;
/// assert!(strict::check(br#"{"a":{"x":1},"b":{"x":1}}"#).is_ok());
/// assert!(strict::check(br#"{"a":1,"\u0061":2}"#).is_err());
/// ```
///
/// # Errors
///
/// The first [`Violation`]. [`Violation::NotJson`] only for a body that serde_json would refuse too; the pass does not find every
/// syntax error, so run it *after* serde_json.
pub fn check(body: &[u8]) -> Result<(), Violation> {
    check_with(body, DEFAULT_DEPTH)
}

/// Checks a body with a depth of the caller's.
///
/// # Errors
///
/// As [`check`].
pub fn check_with(body: &[u8], depth: usize) -> Result<(), Violation> {
    let text = std::str::from_utf8(body).map_err(|error| Violation::NotJson {
        at: error.valid_up_to(),
    })?;
    Walk {
        text,
        bytes: text.as_bytes(),
        at: 0,
        depth,
        open: Vec::new(),
        names: Vec::new(),
    }
    .run()
}

struct Walk<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    /// For each open container: where its names begin, or `None` for an array.
    open: Vec<Option<usize>>,
    /// The names of every open object, innermost last.
    names: Vec<Cow<'a, str>>,
}

/// Whether every escaped surrogate of a string is half of a pair. The string is not decoded: it may be as large as the body.
fn surrogates_pair_up(mut rest: &str) -> bool {
    while let Some((_, escape)) = rest.split_once('\\') {
        rest = match code_unit(escape) {
            None => escape.get(1..).unwrap_or_default(),
            Some((0xdc00..=0xdfff, _)) => return false,
            Some((0xd800..=0xdbff, after)) => match after.strip_prefix('\\').and_then(code_unit) {
                Some((0xdc00..=0xdfff, after)) => after,
                _ => return false,
            },
            Some((_, after)) => after,
        };
    }
    true
}

/// The UTF-16 code unit that `uXXXX` stands for, and what follows it.
fn code_unit(escape: &str) -> Option<(u16, &str)> {
    let (digits, after) = escape.strip_prefix('u')?.split_at_checked(4)?;
    Some((u16::from_str_radix(digits, 16).ok()?, after))
}

impl<'a> Walk<'a> {
    fn run(mut self) -> Result<(), Violation> {
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'{' => self.enter(Some(self.names.len()))?,
                b'[' => self.enter(None)?,
                b'}' | b']' => self.leave()?,
                b'"' => self.string()?,
                b'-' | b'0'..=b'9' => self.number()?,
                // White space, commas, colons, and the letters of `true`, `false` and `null`.
                _ => self.at += 1,
            }
        }
        if self.open.is_empty() {
            Ok(())
        } else {
            Err(Violation::NotJson { at: self.at })
        }
    }

    fn enter(&mut self, names: Option<usize>) -> Result<(), Violation> {
        if self.open.len() >= self.depth {
            return Err(Violation::TooDeep { at: self.at });
        }
        self.open.push(names);
        self.at += 1;
        Ok(())
    }

    fn leave(&mut self) -> Result<(), Violation> {
        let Some(container) = self.open.pop() else {
            return Err(Violation::NotJson { at: self.at });
        };
        if let Some(start) = container {
            let names = self.names.get(start..).unwrap_or_default();
            if has_duplicate(names.iter().map(AsRef::as_ref)) {
                return Err(Violation::DuplicateName { at: self.at });
            }
            self.names.truncate(start);
        }
        self.at += 1;
        Ok(())
    }

    /// A string, which is a name when a colon follows it.
    fn string(&mut self) -> Result<(), Violation> {
        let start = self.at;
        let mut escaped = false;
        self.at += 1;
        loop {
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.at += 2;
                }
                Some(_) => self.at += 1,
                None => return Err(Violation::NotJson { at: start }),
            }
        }
        self.at += 1;
        let is_name = self.colon_follows();
        let quoted = self.text.get(start..self.at).unwrap_or_default();
        if escaped && !surrogates_pair_up(quoted) {
            return Err(Violation::LoneSurrogate { at: start });
        }
        if is_name {
            let name = if escaped {
                // Decoding is the one way to compare.
                let decoded = serde_json::from_str(quoted);
                Cow::Owned(decoded.map_err(|_| Violation::NotJson { at: start })?)
            } else {
                Cow::Borrowed(quoted.trim_matches('"'))
            };
            if name.starts_with(RESERVED) {
                return Err(Violation::ReservedName { at: start });
            }
            self.names.push(name);
        }
        Ok(())
    }

    fn colon_follows(&self) -> bool {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        rest.iter()
            .find(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
            == Some(&b':')
    }

    fn number(&mut self) -> Result<(), Violation> {
        let start = self.at;
        let mut exponent = false;
        while let Some(byte @ (b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')) =
            self.bytes.get(self.at)
        {
            exponent |= matches!(byte, b'e' | b'E');
            self.at += 1;
        }
        // Only an exponent, or more than 308 digits, can leave the range.
        if exponent || self.at - start > 308 {
            let number: f64 = self
                .text
                .get(start..self.at)
                .and_then(|text| text.parse().ok())
                .unwrap_or(f64::INFINITY);
            if !number.is_finite() {
                return Err(Violation::NumberOutOfRange { at: start });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
