//! JSON objects, read so that nothing but an object passes.
//!
//! * [`Object`] wraps a derived type and refuses the array that serde would take for it.
//! * [`Members`] is a borrowed view of one object: names and raw values, in order, `null` and absent apart.
//! * [`RawObject`] is the owned, ordered form, for members that must be kept although nobody here knows them.
//! * [`JsonObject`] is one object as verbatim text: a schema, a form's content.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeOwned, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A value that was read from a JSON object, never from an array.
///
/// serde's derived structs accept `["2.0", 1]` for `{"jsonrpc": "2.0", "id": 1}`. Two readers of one message that differ in this may
/// take it for two messages, so whatever comes off the wire is read through this type.
///
/// Not guaranteed: structs nested in `T` are as strict as their own implementations. Those of this crate are. `T` cannot be a type that
/// reads the object's text itself (`RawValue`, [`JsonObject`], [`ContentBlock`](crate::ContentBlock)): those refuse arrays anyway, and
/// inside this type they refuse everything.
///
/// ```
/// use mrtr_protocol::Object;
/// #[derive(serde::Deserialize)]
/// struct Point { x: i32 }
///
/// assert!(serde_json::from_str::<Point>("[1]").is_ok());
/// assert!(serde_json::from_str::<Object<Point>>("[1]").is_err());
/// assert_eq!(serde_json::from_str::<Object<Point>>(r#"{"x":1}"#).unwrap().0.x, 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object<T>(pub T);

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_map(ObjectVisitor(PhantomData))
            .map(Object)
    }
}

/// Reads `T` from the text of a JSON object.
///
/// # Errors
///
/// When the text is not an object, or not a `T`.
pub fn read<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, serde_json::Error> {
    serde_json::from_str::<Object<T>>(raw.get()).map(|object| object.0)
}

/// For `#[serde(deserialize_with)]` on a required field.
pub(crate) fn required<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Object::<T>::deserialize(deserializer).map(|object| object.0)
}

/// For `#[serde(default, deserialize_with)]` on an optional field: absent is `None`, `null` is an error.
pub(crate) fn optional<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    required(deserializer).map(Some)
}

/// For `#[serde(deserialize_with)]` on an array of objects.
pub(crate) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Vec::<Object<T>>::deserialize(deserializer)
        .map(|items| items.into_iter().map(|object| object.0).collect())
}

/// For `#[serde(default, deserialize_with)]` on a field whose JSON `null` is a value of its own, not an absence.
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// The text of a JSON string, borrowed where it holds no escape. `None`: the value is not a string, or cannot be decoded (a lone
/// surrogate).
#[must_use]
pub fn as_string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(raw.get()).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// Whether the value is an object. Only its first byte is looked at: a [`RawValue`] is valid JSON without white space around it.
#[must_use]
pub fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

/// Why a value is not a readable object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// It is another JSON value, or no JSON.
    #[error("not an object")]
    NotAnObject,
    /// A member name occurs twice, compared after unescaping.
    #[error("a member name occurs twice")]
    DuplicateName,
}

/// One object's members: names decoded, values raw, in the order of the text.
///
/// Guaranteed: it was an object, and no name occurs twice *at this level*. What the values hold is not looked at; run
/// [`strict::check`](crate::strict::check) over the whole body for that.
///
/// Debug prints names only: values may be answers, arguments or states.
#[derive(Clone, Default)]
pub struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Reads one level of `raw`.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] when it is not an object or has a name twice.
    pub fn parse(raw: &'a RawValue) -> Result<Self, ObjectError> {
        let members: Self =
            serde_json::from_str(raw.get()).map_err(|_| ObjectError::NotAnObject)?;
        if has_duplicate(members.0.iter().map(|(name, _)| name.as_ref())) {
            return Err(ObjectError::DuplicateName);
        }
        Ok(members)
    }

    /// The member of this name. `Some` when it is there, `null` included.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, value)| *value)
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> IntoIterator for Members<'a> {
    type Item = (Cow<'a, str>, &'a RawValue);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Debug for Members<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

/// Up to this many names the quadratic comparison is cheaper than sorting.
const FEW: usize = 16;

/// Whether a name occurs twice; `n log n` for many names.
pub(crate) fn has_duplicate<'n>(names: impl ExactSizeIterator<Item = &'n str> + Clone) -> bool {
    if names.len() <= FEW {
        let mut rest = names;
        while let Some(name) = rest.next() {
            if rest.clone().any(|other| other == name) {
                return true;
            }
        }
        return false;
    }
    let mut sorted: Vec<&str> = names.collect();
    sorted.sort_unstable();
    sorted
        .iter()
        .zip(sorted.iter().skip(1))
        .any(|(a, b)| a == b)
}

/// A member name, borrowed where it holds no escape.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::with_capacity(8);
                while let Some(Name(name)) = map.next_key()? {
                    members.push((name, map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// An owned, ordered object whose values nobody here needs to understand: `_meta`, extensions, unknown members.
///
/// Names are unique; values keep their text.
#[derive(Clone, Default)]
pub struct RawObject(Vec<(Box<str>, Box<RawValue>)>);

impl RawObject {
    /// An object without members.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The member of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.0
            .iter()
            .find(|(own, _)| **own == *name)
            .map(|(_, value)| value.as_ref())
    }

    /// The member of this name, read as `T`. `None` when it is absent or of another shape.
    #[must_use]
    pub fn get_as<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// Sets a member, replacing one of the same name in its place.
    pub fn insert_raw(&mut self, name: impl Into<Box<str>>, value: Box<RawValue>) {
        let name = name.into();
        match self.0.iter_mut().find(|(own, _)| *own == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// Sets a member from anything that serializes.
    ///
    /// # Errors
    ///
    /// When the value does not serialize to JSON.
    pub fn insert<T: Serialize + ?Sized>(
        &mut self,
        name: impl Into<Box<str>>,
        value: &T,
    ) -> Result<(), serde_json::Error> {
        self.insert_raw(name, serde_json::value::to_raw_value(value)?);
        Ok(())
    }

    /// Removes a member and returns it.
    pub fn remove(&mut self, name: &str) -> Option<Box<RawValue>> {
        let at = self.0.iter().position(|(own, _)| **own == *name)?;
        Some(self.0.remove(at).1)
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for RawObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(name, value)| (name, value.get())))
            .finish()
    }
}

/// Equal names in equal order with equal text.
impl PartialEq for RawObject {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self
                .iter()
                .zip(other.iter())
                .all(|((n, v), (m, w))| n == m && v.get() == w.get())
    }
}

impl Serialize for RawObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (name, value) in self.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RawObjectVisitor;
        impl<'de> Visitor<'de> for RawObjectVisitor {
            type Value = RawObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject, A::Error> {
                let mut members: Vec<(Box<str>, Box<RawValue>)> = Vec::new();
                while let Some(name) = map.next_key()? {
                    members.push((name, map.next_value()?));
                }
                if has_duplicate(members.iter().map(|(name, _)| name.as_ref())) {
                    return Err(de::Error::custom(ObjectError::DuplicateName));
                }
                Ok(RawObject(members))
            }
        }
        deserializer.deserialize_map(RawObjectVisitor)
    }
}

/// One JSON object, kept as its text.
///
/// ```
/// use mrtr_protocol::JsonObject;
/// let schema = JsonObject::parse(r#"{"type": "object"}"#)?;
/// assert_eq!(schema.as_str(), r#"{"type": "object"}"#);
/// assert!(JsonObject::parse("[]").is_err());
/// # Ok::<(), mrtr_protocol::object::ObjectError>(())
/// ```
#[derive(Clone)]
pub struct JsonObject(Box<RawValue>);

impl JsonObject {
    /// Takes a raw value that is an object.
    ///
    /// # Errors
    ///
    /// [`ObjectError::NotAnObject`] for every other JSON value.
    pub fn new(raw: Box<RawValue>) -> Result<Self, ObjectError> {
        if is_object(&raw) {
            Ok(Self(raw))
        } else {
            Err(ObjectError::NotAnObject)
        }
    }

    /// Takes JSON text.
    ///
    /// # Errors
    ///
    /// [`ObjectError::NotAnObject`] when it is not JSON or not an object.
    pub fn parse(text: &str) -> Result<Self, ObjectError> {
        Self::new(serde_json::from_str(text).map_err(|_| ObjectError::NotAnObject)?)
    }

    /// Serializes a value that becomes an object.
    ///
    /// # Errors
    ///
    /// [`ObjectError::NotAnObject`] when it does not serialize, or to something else.
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self, ObjectError> {
        Self::new(serde_json::value::to_raw_value(value).map_err(|_| ObjectError::NotAnObject)?)
    }

    /// `{}`.
    #[must_use]
    pub fn empty() -> Self {
        Self(RawObject::new().into_raw())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The text as a raw value.
    #[must_use]
    pub fn as_raw(&self) -> &RawValue {
        &self.0
    }

    /// Its members.
    ///
    /// # Errors
    ///
    /// [`ObjectError::DuplicateName`] when a name occurs twice.
    pub fn members(&self) -> Result<Members<'_>, ObjectError> {
        Members::parse(&self.0)
    }

    /// Reads it as `T`.
    ///
    /// # Errors
    ///
    /// When it is not a `T`.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        read(&self.0)
    }
}

impl RawObject {
    fn into_raw(self) -> Box<RawValue> {
        // Names and raw values always serialize; `null` stands in for an error that cannot occur.
        serde_json::value::to_raw_value(&self).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }
}

impl fmt::Debug for JsonObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Equal text. Two spellings of one object are not equal.
impl PartialEq for JsonObject {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Serialize for JsonObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Deserialize::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn members_tell_null_from_absent_and_refuse_other_shapes() {
        let value = raw(r#"{"a":null,"b\u0063":1}"#);
        let members = Members::parse(&value).unwrap();
        assert_eq!(members.get("a").unwrap().get(), "null");
        assert_eq!(members.get("bc").unwrap().get(), "1");
        assert!(members.get("z").is_none());
        for other in ["[]", "null", "1", "\"x\"", "true"] {
            assert_eq!(
                Members::parse(&raw(other)).unwrap_err(),
                ObjectError::NotAnObject,
                "{other}"
            );
        }
    }

    #[test]
    fn members_refuse_a_name_twice_however_spelt() {
        for (text, ok) in [
            (r#"{"a":1,"b":2}"#, true),
            (r#"{"a":1,"a":2}"#, false),
            (r#"{"a":1,"\u0061":2}"#, false),
        ] {
            assert_eq!(Members::parse(&raw(text)).is_ok(), ok, "{text}");
        }
        let many = |last: &str| {
            format!(
                "{{{}\"{last}\":0}}",
                (0..100).map(|n| format!("\"k{n}\":0,")).collect::<String>()
            )
        };
        assert!(Members::parse(&raw(&many("k100"))).is_ok());
        assert_eq!(
            Members::parse(&raw(&many("k7"))).unwrap_err(),
            ObjectError::DuplicateName
        );
    }

    #[test]
    fn raw_objects_keep_order_and_text() {
        let text = r#"{"z":1.00,"a":{"x": [1]}}"#;
        let object: RawObject = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&object).unwrap(), text);
        assert!(serde_json::from_str::<RawObject>(r#"{"a":1,"a":2}"#).is_err());
        assert!(serde_json::from_str::<RawObject>("[]").is_err());
    }

    #[test]
    fn strings_decode_or_are_refused() {
        assert_eq!(as_string(&raw(r#""abc""#)).unwrap(), "abc");
        assert_eq!(as_string(&raw(r#""a\"b""#)).unwrap(), "a\"b");
        assert_eq!(as_string(&raw("1")), None);
        assert_eq!(as_string(&raw(r#""\ud800""#)), None);
    }

    #[test]
    fn the_empty_object_is_an_object() {
        assert_eq!(JsonObject::empty().as_str(), "{}");
    }
}
