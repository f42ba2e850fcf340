//! Properties of sealing and opening, for both codecs.

use std::time::Duration;

use mrtr_state::{
    Binding, Draft, Envelope, Epoch, FlowId, Key, KeyRing, Nonce, Principal, Purpose, RawValue,
    RequestDigest, Sealer, StateCodec, Timestamp, WireState,
};
use mrtr_state_aead::AeadCodec;
use mrtr_state_hmac::HmacCodec;
use proptest::prelude::*;
use std::sync::Arc;

const LIFETIME: Duration = Duration::from_secs(600);

fn codecs(key: [u8; 32]) -> [Arc<dyn StateCodec>; 2] {
    let ring = || KeyRing::new(Key::from_bytes(&key).unwrap());
    [
        Arc::new(HmacCodec::new(ring()).unwrap()),
        Arc::new(AeadCodec::new(ring()).unwrap()),
    ]
}

fn sealers() -> [Arc<dyn Sealer>; 2] {
    codecs(std::array::from_fn(|n| n as u8)).map(|codec| codec.sealer(&Purpose::REQUEST_STATE))
}

fn principal() -> impl Strategy<Value = Principal> {
    prop_oneof![
        Just(Principal::Anonymous),
        (".{0,8}", ".{0,8}").prop_map(|(issuer, subject)| Principal::user(issuer, subject)),
        (".{0,4}", ".{0,4}", ".{0,4}").prop_map(|(issuer, subject, client)| {
            Principal::user(issuer, subject).with_client(client)
        }),
    ]
}

proptest! {
    #[test]
    fn any_payload_comes_back(payload: Vec<u8>) {
        for sealer in sealers() {
            let token = sealer.seal(&payload).unwrap();
            let opened = sealer.open(WireState::new(&token)).unwrap();
            prop_assert_eq!(&opened.payload, &payload);
        }
    }

    #[test]
    fn any_edit_of_a_token_is_refused(
        payload: Vec<u8>,
        at: prop::sample::Index,
        removed in 0_usize..4,
        inserted in "[A-Za-z0-9_.=+/-]{0,4}",
    ) {
        for sealer in sealers() {
            let token = sealer.seal(&payload).unwrap();
            let from = at.index(token.len() + 1);
            let to = (from + removed).min(token.len());
            let edited = format!("{}{inserted}{}", &token[..from], &token[to..]);
            prop_assert!(sealer.open(WireState::new(&token)).is_ok());
            prop_assert_eq!(sealer.open(WireState::new(&edited)).is_ok(), edited == token);
        }
    }

    #[test]
    fn no_string_opens(text in "(mrtr1\\.[hx]\\.)?.{0,80}") {
        for sealer in sealers() {
            prop_assert!(sealer.open(WireState::new(&text)).is_err());
        }
    }

    #[test]
    fn any_state_opens_for_its_binding_and_for_no_other(
        (principal, other) in (principal(), principal()),
        (audience, text) in (".{0,20}", ".{0,40}"),
        (nonce, flow) in any::<([u8; 16], [u8; 16])>(),
        epoch in any::<Option<[u8; 16]>>(),
        (iat, life, more) in (0_u64..1 << 50, 1_u64..600_000, 0_u64..1 << 50),
        round: u32,
    ) {
        let data = serde_json::to_string(&text).unwrap();
        let data = RawValue::from_string(data).unwrap();
        let binding = Binding {
            principal,
            request: RequestDigest::builder("tools/call", &text).finish(),
        };
        let iat = Timestamp::from_millis(iat);
        let exp = iat.saturating_add(Duration::from_millis(life));
        let draft = Draft {
            nonce: Nonce::from_bytes(nonce),
            flow: FlowId::from_bytes(flow),
            flow_exp: exp.saturating_add(Duration::from_millis(more)),
            round,
            epoch: epoch.map(Epoch::from_bytes),
            exp,
            iat,
            data: &data,
        };
        for codec in codecs([7, 8].repeat(16).try_into().unwrap()) {
            let envelope = Envelope::new(&*codec, Purpose::REQUEST_STATE, &*audience);
            let token = envelope.seal(&binding, &draft).unwrap();
            let open = |binding| envelope.open(&token, binding, iat, LIFETIME, draft.epoch);
            let state = open(&binding).unwrap();
            prop_assert_eq!(state.nonce(), draft.nonce);
            prop_assert_eq!(state.flow(), draft.flow);
            prop_assert_eq!(state.flow_exp(), draft.flow_exp);
            prop_assert_eq!(state.round(), draft.round);
            prop_assert_eq!(state.epoch(), draft.epoch);
            prop_assert_eq!(state.exp(), draft.exp);
            prop_assert_eq!(state.iat(), draft.iat);
            prop_assert_eq!(state.data().get(), data.get());

            let other = Binding { principal: other.clone(), ..binding.clone() };
            prop_assert_eq!(open(&other).is_ok(), other == binding);
        }
    }
}
