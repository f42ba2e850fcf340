//! A codec for states that are too large to be carried.

use std::sync::Arc;

use mrtr_state::StateCodec;

pub(crate) use self::sealed::StoredSizes;
use crate::builder::BuildError;
use crate::limits::Limits;

/// The largest journal that is stored, unless told otherwise.
const LARGEST: usize = 1 << 20;

/// A codec around another one: what a flow remembers goes into the ledger where it is large, and the state then carries a
/// key to it alone.
///
#[doc = include_str!("docs/stored_codec.md")]
#[derive(Debug)]
#[must_use = "a codec does nothing until a builder has it"]
pub struct StoredCodec {
    codec: Arc<dyn StateCodec>,
    sizes: StoredSizes,
}

impl StoredCodec {
    /// Seals with `codec`, and stores journals of more than `bytes` bytes of JSON. Those of `bytes` bytes or fewer are carried
    /// in the token, as ever. In a token each byte takes a byte and a third, and what is around the journal about 500 more.
    ///
    /// `bytes` is at most half of [`Limits::state`]: what is not stored must fit into a token.
    pub fn above(bytes: usize, codec: impl StateCodec) -> Self {
        Self {
            codec: Arc::new(codec),
            sizes: StoredSizes {
                above: bytes,
                up_to: LARGEST,
            },
        }
    }

    /// The largest journal that is stored, in bytes of JSON: 1 MiB by default. A call that wants to remember more ends with an
    /// internal error, as one without a `StoredCodec` does at [`Limits::state`].
    ///
    /// It bounds what one answer of the server writes into the ledger, and what a retry reads from it before anything is known
    /// of its answers. What one principal can write in all is bounded by the ledger's own limits.
    pub fn up_to(mut self, bytes: usize) -> Self {
        self.sizes.up_to = bytes;
        self
    }
}

impl StoredSizes {
    /// Whether a journal of this size goes into the ledger.
    pub(crate) fn stores(self, bytes: usize) -> bool {
        bytes > self.above
    }

    /// Whether a journal of this size can go nowhere.
    pub(crate) fn refuses(self, bytes: usize) -> bool {
        bytes > self.up_to
    }

    /// What a builder checks, once it knows everything.
    pub(crate) fn check(self, limits: &Limits, has_ledger: bool) -> Result<(), BuildError> {
        let Self { above, up_to } = self;
        let most = limits.state / 2;
        if !has_ledger {
            return Err(BuildError::StoredCodecWithoutLedger);
        }
        let fault = if above > most {
            format!(
                "carries journals of up to {above} bytes, which may not fit into a state: `Limits::state` permits {most}"
            )
        } else if up_to <= above {
            format!("stores nothing: journals are stored above {above} bytes and up to {up_to}")
        } else {
            return Ok(());
        };
        Err(BuildError::StoredCodecSizes(fault))
    }
}

mod sealed {
    use std::sync::Arc;

    use mrtr_state::StateCodec;

    /// From which size on journals are stored, and up to which.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[expect(unnameable_types, reason = "it is to be unnameable")]
    pub struct StoredSizes {
        pub(super) above: usize,
        pub(super) up_to: usize,
    }

    /// Keeps [`ServerCodec`](super::ServerCodec) from being implemented elsewhere.
    #[expect(unnameable_types, reason = "it is to be unnameable")]
    pub trait Sealed {
        /// A codec and, where journals may be stored, from which size on.
        fn parts(self) -> (Arc<dyn StateCodec>, Option<StoredSizes>);
    }
}

/// What [`ServerBuilder::codec`](crate::ServerBuilder::codec) takes: any [`StateCodec`], or a [`StoredCodec`] around one.
///
/// A `StoredCodec` is no `StateCodec` itself: the ledger that it needs is the server's, so that it seals nothing elsewhere.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no codec",
    note = "take `HmacCodec`, `AeadCodec`, another `StateCodec`, or a `StoredCodec` around one of them"
)]
pub trait ServerCodec: sealed::Sealed {}

impl<C: StateCodec> ServerCodec for C {}
impl<C: StateCodec> sealed::Sealed for C {
    fn parts(self) -> (Arc<dyn StateCodec>, Option<StoredSizes>) {
        (Arc::new(self), None)
    }
}

impl ServerCodec for StoredCodec {}
impl sealed::Sealed for StoredCodec {
    fn parts(self) -> (Arc<dyn StateCodec>, Option<StoredSizes>) {
        (self.codec, Some(self.sizes))
    }
}

/// A codec and, where journals may be stored, from which size on.
pub(crate) fn parts(codec: impl ServerCodec) -> (Arc<dyn StateCodec>, Option<StoredSizes>) {
    codec.parts()
}
