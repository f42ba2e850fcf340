//! The codec that seals nothing.

use std::sync::Arc;

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use mrtr_state::{
    Kid, Opened, Purpose, Reason, SealError, Sealer, Slot, StateCodec, Tag, Variant, WireState,
    token,
};
use sha2::{Digest, Sha256};

/// Takes the guard [`Sealing`](super::Guard::Sealing) off: **whatever the client wrote is believed.**
///
/// Its tokens look like those of the HMAC codec, `mrtr1.h.<kid>.<claims>.<tag>`, so that the same attacks can be played
/// against both. There is no key: `<tag>` is 32 zero bytes, and of a token that comes in nothing is looked at but the
/// claims, in any spelling of base64. The tags by which a state names its principal and request are plain hashes, so that
/// those guards still work against everybody who does not forge.
///
/// It fails `mrtr_state::codec_suite!`, as it must.
///
/// ```
/// use mrtr_state::{Purpose, StateCodec, WireState, token};
/// use mrtr_testkit::guards::UnsealedCodec;
///
/// let sealer = UnsealedCodec::new().sealer(&Purpose::REQUEST_STATE);
/// let forged = format!("mrtr1.h.AAAAAAAAAAA.{}.", token::encode(b"a price of 1.00"));
/// assert_eq!(sealer.open(WireState::new(&forged)).unwrap().payload, b"a price of 1.00");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct UnsealedCodec {
    lasting: bool,
}

/// Names no key, because there is none.
const KID: Kid = Kid::from_bytes([0; 8]);

/// As long as the HMAC codec's.
const TAG: [u8; 32] = [0; 32];

/// Stands all that the codecs refuse: padding or none, bits left over.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl UnsealedCodec {
    /// A codec that says of its keys that they end with the process, so that a server takes a ledger in memory with it.
    #[must_use]
    pub const fn new() -> UnsealedCodec {
        UnsealedCodec { lasting: false }
    }

    /// A codec that says of its keys what `codec` says of its own, to be put in that one's place.
    #[must_use]
    pub fn in_place_of(codec: &impl StateCodec) -> UnsealedCodec {
        UnsealedCodec {
            lasting: codec.keys_are_lasting(),
        }
    }
}

impl StateCodec for UnsealedCodec {
    fn sealer(&self, _: &Purpose) -> Arc<dyn Sealer> {
        Arc::new(UnsealedSealer)
    }

    fn keys_are_lasting(&self) -> bool {
        self.lasting
    }
}

#[derive(Debug)]
struct UnsealedSealer;

impl Sealer for UnsealedSealer {
    fn variant(&self) -> Variant {
        Variant::Hmac
    }

    fn kid(&self) -> Kid {
        KID
    }

    fn seal(&self, payload: &[u8]) -> Result<String, SealError> {
        let mut token = token::start(Variant::Hmac, KID, payload.len() + TAG.len());
        token::push_segment(&mut token, payload);
        token::push_segment(&mut token, &TAG);
        Ok(token)
    }

    fn open(&self, token: WireState<'_>) -> Result<Opened, Reason> {
        let claims = token.as_str().split('.').nth(3).ok_or(Reason::Malformed)?;
        let claims: String = claims
            .chars()
            .filter(|c| !c.is_whitespace())
            .map(|c| match c {
                '+' => '-',
                '/' => '_',
                c => c,
            })
            .collect();
        let payload = LENIENT.decode(claims).map_err(|_| Reason::Malformed)?;
        Ok(Opened { payload, kid: KID })
    }

    fn tag(&self, _: Kid, slot: Slot, message: &[u8]) -> Option<Tag> {
        let hash: [u8; 32] = Sha256::new()
            .chain_update(slot.usage())
            .chain_update([0])
            .chain_update(message)
            .finalize()
            .into();
        hash.first_chunk().copied().map(Tag::from_bytes)
    }
}

#[cfg(test)]
mod tests {
    use mrtr_state::KeyRing;
    use mrtr_state_hmac::HmacCodec;

    use super::*;

    const PAYLOAD: &[u8] = b"{\"quantity\":2,\"price\":190.00}???>>>";

    fn sealer() -> Arc<dyn Sealer> {
        UnsealedCodec::new().sealer(&Purpose::REQUEST_STATE)
    }

    fn opens(token: &str) -> Option<Vec<u8>> {
        let opened = sealer().open(WireState::new(token));
        opened.map(|opened| opened.payload).ok()
    }

    #[test]
    fn tokens_have_the_shape_of_hmac_ones() {
        let hmac = HmacCodec::new(KeyRing::generate().unwrap()).unwrap();
        let sealed = hmac.sealer(&Purpose::REQUEST_STATE).seal(PAYLOAD).unwrap();
        let unsealed = sealer().seal(PAYLOAD).unwrap();
        let segments = |token: &str| -> Vec<usize> { token.split('.').map(str::len).collect() };
        assert_eq!(segments(&sealed), segments(&unsealed));
        assert_eq!(sealed.split('.').nth(3), unsealed.split('.').nth(3));
        assert!(unsealed.starts_with("mrtr1.h."));
        // And each is taken for one.
        assert_eq!(opens(&sealed).unwrap(), PAYLOAD);
    }

    #[test]
    fn every_spelling_opens() {
        let token = sealer().seal(PAYLOAD).unwrap();
        assert_eq!(opens(&token).unwrap(), PAYLOAD);
        let (head, tag) = token.rsplit_once('.').unwrap();
        for spelling in [
            format!("{head}.{tag}="),
            format!("{head}=.{tag}\n"),
            format!("{head}\n.{tag}"),
            format!("{head}."),
            head.to_owned(),
            token.replace('-', "+").replace('_', "/"),
        ] {
            assert_eq!(opens(&spelling).as_deref(), Some(PAYLOAD), "{spelling:?}");
        }
        assert_eq!(opens("hello"), None);
    }

    #[test]
    fn says_of_its_keys_what_it_is_told() {
        let fresh = HmacCodec::new(KeyRing::generate().unwrap()).unwrap();
        let key = mrtr_state::Key::generate().unwrap();
        let configured = HmacCodec::new(KeyRing::new(key)).unwrap();
        assert!(!UnsealedCodec::new().keys_are_lasting());
        assert!(!UnsealedCodec::in_place_of(&fresh).keys_are_lasting());
        assert!(UnsealedCodec::in_place_of(&configured).keys_are_lasting());
    }
}
