//! The codec whose signatures nobody checks.

use std::sync::Arc;

use mrtr_state::{
    Kid, Opened, Purpose, Reason, SealError, Sealer, Slot, StateCodec, Tag, Variant, WireState,
    token,
};

/// Seals with the inner codec, and **opens without checking the signature**: what stands in the claims is believed.
///
/// It is the mistake of a server that has keys and a codec, puts a real signature under each state, and then reads what
/// comes back without verifying it. On the wire its tokens cannot be told from well guarded ones.
///
/// It reads the readable claims of HMAC tokens. A token of another variant, whose payload only its key can read, is
/// malformed to it. Principal and request are compared as the inner codec does, by keyed tags, so a forger has to start
/// from a state of their own.
///
/// Unlike [`UnsealedCodec`](super::UnsealedCodec) it is no way to take a [`Guard`](super::Guard) off, but a fault to be
/// shown beside one. It fails `mrtr_state::codec_suite!`, as it must.
///
/// ```
/// use mrtr_state::{KeyRing, Purpose, StateCodec, WireState, token};
/// use mrtr_state_hmac::HmacCodec;
/// use mrtr_testkit::guards::UncheckedCodec;
///
/// let codec = HmacCodec::new(KeyRing::generate()?)?;
/// let sealed = codec.sealer(&Purpose::REQUEST_STATE).seal(b"3 jars")?;
/// let forged = sealed.replace(&token::encode(b"3 jars"), &token::encode(b"300 jars"));
///
/// assert!(codec.sealer(&Purpose::REQUEST_STATE).open(WireState::new(&forged)).is_err());
/// let unchecked = UncheckedCodec::new(codec).sealer(&Purpose::REQUEST_STATE);
/// assert_eq!(unchecked.open(WireState::new(&forged)).unwrap().payload, b"300 jars");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct UncheckedCodec<C>(C);

impl<C: StateCodec> UncheckedCodec<C> {
    /// The codec, with its signatures unchecked.
    #[must_use]
    pub const fn new(codec: C) -> Self {
        UncheckedCodec(codec)
    }
}

impl<C: StateCodec> StateCodec for UncheckedCodec<C> {
    fn sealer(&self, purpose: &Purpose) -> Arc<dyn Sealer> {
        Arc::new(UncheckedSealer(self.0.sealer(purpose)))
    }

    fn keys_are_lasting(&self) -> bool {
        self.0.keys_are_lasting()
    }
}

#[derive(Debug)]
struct UncheckedSealer(Arc<dyn Sealer>);

impl Sealer for UncheckedSealer {
    fn variant(&self) -> Variant {
        self.0.variant()
    }

    fn kid(&self) -> Kid {
        self.0.kid()
    }

    fn seal(&self, payload: &[u8]) -> Result<String, SealError> {
        self.0.seal(payload)
    }

    fn open(&self, token: WireState<'_>) -> Result<Opened, Reason> {
        let (kid, [claims, _signature]) = token::split(token, Variant::Hmac)?;
        let payload = token::decode(claims).ok_or(Reason::Malformed)?;
        Ok(Opened { payload, kid })
    }

    fn tag(&self, kid: Kid, slot: Slot, message: &[u8]) -> Option<Tag> {
        self.0.tag(kid, slot, message)
    }
}

#[cfg(test)]
mod tests {
    use mrtr_state::KeyRing;
    use mrtr_state_aead::AeadCodec;
    use mrtr_state_hmac::HmacCodec;

    use super::*;

    #[test]
    fn only_the_check_is_missing() {
        let codec = HmacCodec::new(KeyRing::generate().unwrap()).unwrap();
        let checked = codec.sealer(&Purpose::REQUEST_STATE);
        let unchecked = UncheckedCodec::new(codec).sealer(&Purpose::REQUEST_STATE);
        let sealed = unchecked.seal(b"3 jars").unwrap();
        let opened = |sealer: &dyn Sealer, token: &str| {
            sealer
                .open(WireState::new(token))
                .map(|opened| opened.payload)
        };
        // What it seals is sealed.
        assert_eq!(opened(&*checked, &sealed).unwrap(), b"3 jars");
        assert_eq!(opened(&*unchecked, &sealed).unwrap(), b"3 jars");

        let forged = sealed.replace(&token::encode(b"3 jars"), &token::encode(b"300 jars"));
        assert_eq!(opened(&*checked, &forged), Err(Reason::BadSignature));
        assert_eq!(opened(&*unchecked, &forged).unwrap(), b"300 jars");

        // The shape is looked at still, and so are the tags of principal and request.
        let longer = format!("{forged}.AA");
        assert_eq!(opened(&*unchecked, &longer), Err(Reason::Malformed));
        for slot in Slot::ALL {
            let mine = unchecked.tag(unchecked.kid(), slot, b"mine");
            assert!(mine.is_some());
            assert_eq!(mine, checked.tag(checked.kid(), slot, b"mine"));
            assert_ne!(mine, unchecked.tag(unchecked.kid(), slot, b"other"));
        }
    }

    #[test]
    fn what_only_a_key_can_read_is_malformed() {
        let codec = AeadCodec::new(KeyRing::generate().unwrap()).unwrap();
        let unchecked = UncheckedCodec::new(codec).sealer(&Purpose::REQUEST_STATE);
        let sealed = unchecked.seal(b"3 jars").unwrap();
        let opened = unchecked.open(WireState::new(&sealed));
        assert_eq!(opened.map(drop), Err(Reason::Malformed));
    }
}
