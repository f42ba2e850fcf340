//! The kinds of question that a server may put, and sets of them.

use std::fmt;

use crate::capabilities::{
    ClientCapabilities, ElicitationCapability, RootsCapability, SamplingCapability,
};
use crate::object::JsonObject;

/// A kind of input request, as far as the capability that it needs (*Multi Round-Trip Requests, Server Requirements*).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// `elicitation/create` by form: needs `elicitation.form`.
    Form,
    /// `elicitation/create` by URL: needs `elicitation.url`.
    Url,
    /// `sampling/createMessage`: needs `sampling`. Deprecated since 2026-07-28: a new server calls a model provider itself.
    Sampling,
    /// `sampling/createMessage` with `tools` or `toolChoice`: needs `sampling.tools`. Deprecated since 2026-07-28: a new server calls a model
    /// provider itself.
    SamplingWithTools,
    /// `roots/list`: needs `roots`. Deprecated since 2026-07-28: a new server takes folders as parameters, resource URIs or configuration.
    Roots,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Form,
        Self::Url,
        Self::Sampling,
        Self::SamplingWithTools,
        Self::Roots,
    ];

    /// A short, stable name: `form`, `url`, `sampling`, `sampling_with_tools`, `roots`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Form => "form",
            Self::Url => "url",
            Self::Sampling => "sampling",
            Self::SamplingWithTools => "sampling_with_tools",
            Self::Roots => "roots",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of [`Kind`]s: what a client declared, what a round needs, and the difference.
///
/// ```
/// use mrtr_protocol::{Kind, KindSet};
/// let declared = KindSet::from(Kind::Form);
/// let needed = KindSet::from_iter([Kind::Form, Kind::Url]);
/// let missing = needed.minus(declared);
/// assert_eq!(missing, KindSet::from(Kind::Url));
/// assert_eq!(serde_json::to_string(&missing.to_capabilities())?, r#"{"elicitation":{"url":{}}}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct KindSet(u8);

impl KindSet {
    /// The empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self(0)
    }

    /// The set with one more kind.
    #[must_use]
    pub fn with(self, kind: Kind) -> Self {
        Self(self.0 | kind.bit())
    }

    /// Whether the kind is in it.
    #[must_use]
    pub fn contains(self, kind: Kind) -> bool {
        self.0 & kind.bit() != 0
    }

    /// What is in this set and not in the other.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether everything in this set is in the other.
    #[must_use]
    pub fn is_subset(self, other: Self) -> bool {
        self.minus(other).is_empty()
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The kinds, in the order of [`Kind::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL
            .into_iter()
            .filter(move |kind| self.contains(*kind))
    }

    /// The capabilities that a client declares for these kinds: `data.requiredCapabilities` of -32021.
    #[must_use]
    pub fn to_capabilities(self) -> ClientCapabilities {
        let declared = |kind| self.contains(kind).then(JsonObject::empty);
        let mut capabilities = ClientCapabilities::default();
        if self.contains(Kind::Form) || self.contains(Kind::Url) {
            capabilities.elicitation = Some(ElicitationCapability {
                form: declared(Kind::Form),
                url: declared(Kind::Url),
                ..Default::default()
            });
        }
        if self.contains(Kind::Sampling) || self.contains(Kind::SamplingWithTools) {
            capabilities.sampling = Some(SamplingCapability {
                tools: declared(Kind::SamplingWithTools),
                ..Default::default()
            });
        }
        if self.contains(Kind::Roots) {
            capabilities.roots = Some(RootsCapability::default());
        }
        capabilities
    }
}

impl From<Kind> for KindSet {
    fn from(kind: Kind) -> Self {
        Self::new().with(kind)
    }
}

impl FromIterator<Kind> for KindSet {
    fn from_iter<I: IntoIterator<Item = Kind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::new(), Self::with)
    }
}

impl fmt::Debug for KindSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
