//! What a sealed thing is for, and which algorithm sealed it.

/// What a sealed thing is for. Each purpose has keys of its own, so that what was sealed for
/// one never opens for another: a cookie is never a request state.
///
/// ```
/// use mrtr_state::Purpose;
///
/// const LOGIN: Purpose = Purpose::application("login cookie");
/// assert_ne!(LOGIN, Purpose::REQUEST_STATE);
/// // An application's purposes are in a namespace of their own.
/// assert_ne!(Purpose::application("request state"), Purpose::REQUEST_STATE);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Purpose {
    namespace: &'static str,
    name: &'static str,
}

impl Purpose {
    /// A `requestState` of a multi round-trip request.
    pub const REQUEST_STATE: Purpose = Purpose::built_in("request state");
    /// An outcome kept in a replay ledger.
    pub const STORED_OUTCOME: Purpose = Purpose::built_in("stored outcome");
    /// What a flow remembers, kept in a replay ledger because it is too large to be carried.
    pub const STORED_JOURNAL: Purpose = Purpose::built_in("stored journal");
    /// A key or secret kept in a store.
    pub const STORED_KEY: Purpose = Purpose::built_in("stored key");

    /// Every purpose of this project's own.
    pub const BUILT_IN: [Purpose; 4] = [
        Purpose::REQUEST_STATE,
        Purpose::STORED_OUTCOME,
        Purpose::STORED_JOURNAL,
        Purpose::STORED_KEY,
    ];

    const fn built_in(name: &'static str) -> Purpose {
        Purpose {
            namespace: "mrtr",
            name,
        }
    }

    /// A purpose of the application's own. Two with the same name are the same purpose; one can
    /// never equal a built-in one.
    #[must_use]
    pub const fn application(name: &'static str) -> Purpose {
        Purpose {
            namespace: "application",
            name,
        }
    }

    /// `mrtr` or `application`.
    #[must_use]
    pub const fn namespace(&self) -> &'static str {
        self.namespace
    }

    /// The name within the namespace.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// Which kind of seal a token bears. A server accepts the variant it is configured for, and
/// never the one that a token asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Variant {
    /// HMAC-SHA256: whole, but readable by whoever holds it.
    Hmac,
    /// XChaCha20-Poly1305: whole and private.
    Aead,
    /// An algorithm that this project does not have. The character is its own in the token and
    /// must be an ASCII letter or digit other than `h` and `x`.
    Other(char),
}

impl Variant {
    /// The character that names the variant in a token.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Variant::Hmac => 'h',
            Variant::Aead => 'x',
            Variant::Other(letter) => letter,
        }
    }
}
