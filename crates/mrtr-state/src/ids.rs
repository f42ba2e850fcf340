//! Identifiers of 16 random bytes: of one state, of a flow, of a ledger's life.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::random::{RandomError, random};
use crate::token;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, debug: $debug:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            /// Sixteen fresh random bytes.
            ///
            /// # Errors
            ///
            /// [`RandomError`] where the operating system gives none.
            pub fn generate() -> Result<Self, RandomError> {
                random().map(Self)
            }

            /// The identifier with these bytes.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// The sixteen bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }

            /// Base64url without padding, 22 characters.
            #[must_use]
            pub fn to_text(&self) -> String {
                token::encode(&self.0)
            }

            /// Reads what [`to_text`](Self::to_text) wrote. Any other spelling of the same
            /// bytes is refused.
            #[must_use]
            pub fn from_text(text: &str) -> Option<Self> {
                token::decode_array(text).map(Self)
            }

            /// The first four bytes of the SHA-256 of the identifier, in hexadecimal: enough to
            /// follow one through a log, too little to use it.
            #[must_use]
            pub fn short_hash(&self) -> String {
                let hash: [u8; 32] = Sha256::digest(self.0).into();
                let [a, b, c, d, ..] = hash;
                format!("{a:02x}{b:02x}{c:02x}{d:02x}")
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.$debug())
            }
        }
    };
}

id! {
    /// What makes one sealed state different from every other: drawn when it is sealed.
    ///
    /// A replay ledger keys on these bytes, never on a token's spelling. `Debug` prints
    /// [`short_hash`](Nonce::short_hash).
    Nonce, debug: short_hash
}

id! {
    /// A flow: one originating request and all its retries.
    ///
    /// `Debug` prints [`short_hash`](FlowId::short_hash).
    FlowId, debug: short_hash
}

id! {
    /// A replay ledger's life, from its creation or its last rotation.
    ///
    /// Not a secret; `Debug` prints its text.
    Epoch, debug: to_text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_has_one_spelling() {
        let nonce = Nonce::from_bytes([0xfb; 16]);
        let text = nonce.to_text();
        assert_eq!(text.len(), 22);
        assert_eq!(Nonce::from_text(&text), Some(nonce));

        let last_character_replaced = |c: char| format!("{}{c}", &text[..21]);
        // 16 bytes leave four unused bits in the last character: only `w` has them zero.
        assert_eq!(text.chars().last(), Some('w'));
        for alias in [
            last_character_replaced('x'),
            last_character_replaced('y'),
            last_character_replaced('z'),
            format!("{text}=="),
            format!("{text}\n"),
            text.replace('-', "+"),
            text.replace('_', "/"),
            text[..21].to_owned(),
            format!("{text}A"),
            String::new(),
        ] {
            if alias != text {
                assert_eq!(Nonce::from_text(&alias), None, "{alias:?}");
            }
        }
    }

    #[test]
    fn debug_of_a_flow_does_not_tell_the_flow() {
        let flow = FlowId::generate().unwrap();
        let debug = format!("{flow:?}");
        assert_eq!(debug, format!("FlowId({})", flow.short_hash()));
        assert!(!debug.contains(&flow.to_text()));
    }

    #[test]
    fn generated_ones_differ() {
        assert_ne!(Nonce::generate().unwrap(), Nonce::generate().unwrap());
    }
}
