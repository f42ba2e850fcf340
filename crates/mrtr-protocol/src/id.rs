//! Request ids, which keep their type and their digits.

use std::fmt;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

use crate::object::as_string;

/// The id of a request: a string or an integer (*Overview, Requests*).
///
/// * It is echoed exactly: `1` stays a number, `"1"` a string, and an integer of any length keeps every digit.
/// * `null`, booleans, fractions and exponents (`1.0`, `1e2`) are refused.
/// * Equality and hash go by type and value: `1` is not `"1"`; `-0` is `0`.
///
/// ```
/// use mrtr_protocol::RequestId;
/// let id: RequestId = serde_json::from_str("9223372036854775808")?;
/// assert_eq!(serde_json::to_string(&id)?, "9223372036854775808");
/// assert_ne!(id, RequestId::from("9223372036854775808"));
/// assert!(serde_json::from_str::<RequestId>("1.0").is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone)]
pub struct RequestId(Repr);

#[derive(Clone)]
enum Repr {
    Text(Box<str>),
    /// JSON spells an integer of this range in one way only, `-0` aside, so the value is enough to echo it.
    Small(i64),
    /// Everything longer, and `-0`, as it was spelt.
    Digits(Box<str>),
}

/// Type and value, for comparing.
#[derive(PartialEq, Eq, Hash)]
enum Value<'a> {
    Text(&'a str),
    Small(i64),
    Digits(&'a str),
}

impl RequestId {
    /// Reads an id from its JSON text. `None`: the value cannot be an id.
    #[must_use]
    pub fn from_raw(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        if text.starts_with('"') {
            return as_string(raw).map(|text| Self(Repr::Text(text.into())));
        }
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(Self(match text.parse() {
            Ok(small) if text != "-0" => Repr::Small(small),
            _ => Repr::Digits(text.into()),
        }))
    }

    /// The string, when the id is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Repr::Text(text) => Some(text),
            Repr::Small(_) | Repr::Digits(_) => None,
        }
    }

    fn value(&self) -> Value<'_> {
        match &self.0 {
            Repr::Text(text) => Value::Text(text),
            Repr::Small(small) => Value::Small(*small),
            Repr::Digits(digits) if &**digits == "-0" => Value::Small(0),
            Repr::Digits(digits) => Value::Digits(digits),
        }
    }
}

impl From<i64> for RequestId {
    fn from(id: i64) -> Self {
        Self(Repr::Small(id))
    }
}

impl From<&str> for RequestId {
    fn from(id: &str) -> Self {
        Self(Repr::Text(id.into()))
    }
}

impl From<String> for RequestId {
    fn from(id: String) -> Self {
        Self(Repr::Text(id.into()))
    }
}

impl PartialEq for RequestId {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

impl Eq for RequestId {}

impl Hash for RequestId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value().hash(state);
    }
}

/// As JSON spells it: a string with its quotes.
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Text(text) => write!(f, "{text:?}"),
            Repr::Small(small) => write!(f, "{small}"),
            Repr::Digits(digits) => f.write_str(digits),
        }
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({self})")
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Repr::Text(text) => serializer.serialize_str(text),
            Repr::Small(small) => serializer.serialize_i64(*small),
            Repr::Digits(digits) => {
                let raw: &RawValue =
                    serde_json::from_str(digits).map_err(serde::ser::Error::custom)?;
                raw.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_raw(&raw)
            .ok_or_else(|| de::Error::custom("a request id is a string or an integer"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn case_253_echoes_type_and_digits() {
        for id in [
            "1",
            "\"1\"",
            "0",
            "-1",
            "-0",
            "\"\"",
            "\"é\"",
            "9007199254740993",
            "9223372036854775807",
            "9223372036854775808",
            "-9223372036854775809",
        ] {
            let read: RequestId = serde_json::from_str(id).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), id);
        }
        for bad in ["1.0", "1e2", "1.5", "null", "true", "[]", "{}", "-"] {
            assert!(serde_json::from_str::<RequestId>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn compares_by_type_and_value() {
        let read = |text: &str| serde_json::from_str::<RequestId>(text).unwrap();
        assert_eq!(read("1"), RequestId::from(1));
        assert_eq!(read("-0"), read("0"));
        assert_ne!(read("1"), read("\"1\""));
        assert_ne!(read("9223372036854775808"), read("9223372036854775809"));
        assert_eq!(read(r#""\u0041""#), RequestId::from("A"));
        let set: HashSet<_> = ["0", "-0", "\"0\""].map(read).into_iter().collect();
        assert_eq!(set.len(), 2);
    }

    proptest! {
        #[test]
        fn integers_of_any_length_survive(text in "-?[1-9][0-9]{0,60}") {
            let id: RequestId = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(serde_json::to_string(&id).unwrap(), text.clone());
            prop_assert_ne!(id, RequestId::from(text));
        }

        #[test]
        fn strings_survive(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            let id: RequestId = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(id.as_str(), Some(text.as_str()));
            prop_assert_eq!(serde_json::to_string(&id).unwrap(), json);
        }
    }
}
