//! Enums whose values are single words on the wire.

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
                match word.as_str() {
                    $($word => Ok(Self::$variant),)*
                    _ => Err(serde::de::Error::unknown_variant(&word, &[$($word),*])),
                }
            }
        }
    };
}

pub(crate) use words;
