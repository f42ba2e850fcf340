//! Codecs under which a state is good for anybody, or for anything.

use std::sync::Arc;

use mrtr_state::{
    Kid, Opened, Purpose, Reason, SealError, Sealer, Slot, StateCodec, Tag, Variant, WireState,
};

/// Takes the guard [`Principal`](super::Guard::Principal) off: a state is good for **whoever presents it**.
///
/// Everything else is the inner codec's.
#[derive(Clone, Debug)]
pub struct AnyPrincipal<C>(C);

/// Takes the guard [`Request`](super::Guard::Request) off: a state is good for **every request** of its principal.
///
/// Everything else is the inner codec's.
#[derive(Clone, Debug)]
pub struct AnyRequest<C>(C);

impl<C: StateCodec> AnyPrincipal<C> {
    /// The codec without the guard.
    #[must_use]
    pub const fn new(codec: C) -> Self {
        AnyPrincipal(codec)
    }
}

impl<C: StateCodec> AnyRequest<C> {
    /// The codec without the guard.
    #[must_use]
    pub const fn new(codec: C) -> Self {
        AnyRequest(codec)
    }
}

impl<C: StateCodec> StateCodec for AnyPrincipal<C> {
    fn sealer(&self, purpose: &Purpose) -> Arc<dyn Sealer> {
        Arc::new(SameTag {
            slot: Slot::Principal,
            inner: self.0.sealer(purpose),
        })
    }

    fn keys_are_lasting(&self) -> bool {
        self.0.keys_are_lasting()
    }
}

impl<C: StateCodec> StateCodec for AnyRequest<C> {
    fn sealer(&self, purpose: &Purpose) -> Arc<dyn Sealer> {
        Arc::new(SameTag {
            slot: Slot::Request,
            inner: self.0.sealer(purpose),
        })
    }

    fn keys_are_lasting(&self) -> bool {
        self.0.keys_are_lasting()
    }
}

/// Gives every message in one slot the same tag.
#[derive(Debug)]
struct SameTag {
    slot: Slot,
    inner: Arc<dyn Sealer>,
}

impl Sealer for SameTag {
    fn variant(&self) -> Variant {
        self.inner.variant()
    }

    fn kid(&self) -> Kid {
        self.inner.kid()
    }

    fn seal(&self, payload: &[u8]) -> Result<String, SealError> {
        self.inner.seal(payload)
    }

    fn open(&self, token: WireState<'_>) -> Result<Opened, Reason> {
        self.inner.open(token)
    }

    fn tag(&self, kid: Kid, slot: Slot, message: &[u8]) -> Option<Tag> {
        let message = if slot == self.slot { &[][..] } else { message };
        self.inner.tag(kid, slot, message)
    }
}
