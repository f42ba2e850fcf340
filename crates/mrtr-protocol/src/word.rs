//! Enums whose values are single words on the wire.

use serde::{Deserialize, Deserializer};

/// Writes and reads a fieldless enum as one of the given words, exactly as spelt.
///
/// serde's own derive also reads `{"word":null}` for `"word"`: an object where every other reader wants a string.
macro_rules! words {
    ($name:ident { $($variant:ident = $word:literal),* $(,)? }) => {
        impl $name {
            /// The word on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// The value that this word stands for. `None`: no such word, and words are compared exactly.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        impl crate::word::FromWord for $name {
            fn of(word: &str) -> Option<Self> {
                Self::from_word(word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = String::deserialize(deserializer)?;
                Self::from_word(&word)
                    .ok_or_else(|| serde::de::Error::unknown_variant(&word, &[$($word),*]))
            }
        }
    };
}

/// For `#[serde(default, deserialize_with)]` on a word that is only displayed: one that is not known, and `null`, are absent.
pub(crate) fn known<'de, D: Deserializer<'de>, T: FromWord>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let word = Option::<String>::deserialize(deserializer)?;
    Ok(word.and_then(|word| T::of(&word)))
}

/// For `#[serde(default, deserialize_with)]` on a list of words that are only displayed: those that are not known are left out.
pub(crate) fn known_list<'de, D: Deserializer<'de>, T: FromWord>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let words = Option::<Vec<String>>::deserialize(deserializer)?;
    Ok(words
        .iter()
        .flatten()
        .filter_map(|word| T::of(word))
        .collect())
}

/// What [`words!`] makes.
pub(crate) trait FromWord: Sized {
    fn of(word: &str) -> Option<Self>;
}

pub(crate) use words;
