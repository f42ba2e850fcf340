use mrtr_state::{Key, Purpose};
use serde::Deserialize;

use super::*;

#[test]
fn equal_kids_in_a_ring_are_refused() {
    let kid = |n| Kid::from_bytes([n; 8]);
    assert_eq!(distinct([kid(1), kid(2), kid(3)].into_iter()), Ok(()));
    assert_eq!(
        distinct([kid(1), kid(2), kid(1)].into_iter()),
        Err(KeyError::Duplicate)
    );
}

/// Of the golden vectors, what is needed to seal one again.
#[derive(Deserialize)]
struct Vector {
    variant: String,
    key: String,
    purpose: (String, String),
    payload: String,
    aead_nonce: Option<String>,
    token: String,
}

#[test]
fn case_052_tokens_of_version_1_are_made_again_byte_for_byte() {
    let vectors: Vec<Vector> = serde_json::from_str(include_str!(
        "../../../mrtr-state/tests/vectors/tokens-1.json"
    ))
    .unwrap();
    let mut compared = 0;
    for vector in vectors.iter().filter(|vector| vector.variant == "x") {
        let purpose = match (&*vector.purpose.0, &*vector.purpose.1) {
            ("mrtr", "request state") => Purpose::REQUEST_STATE,
            ("application", "login cookie") => Purpose::application("login cookie"),
            other => panic!("{other:?}"),
        };
        let ring = KeyRing::new(Key::from_hex(&vector.key).unwrap());
        let hex = vector.aead_nonce.as_ref().unwrap();
        let nonce =
            std::array::from_fn(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap());

        let sealer = AeadSealer::new(&ring, &purpose);
        let token = sealer.seal_with(nonce, vector.payload.as_bytes()).unwrap();
        assert_eq!(token, vector.token);
        compared += 1;
    }
    assert_eq!(compared, 6);
}

#[test]
fn two_seals_of_one_payload_share_nothing_but_the_key() {
    let sealer = AeadSealer::new(&KeyRing::generate().unwrap(), &Purpose::REQUEST_STATE);
    let [a, b] = [(); 2].map(|()| sealer.seal(&[b'a'; 64]).unwrap());
    let sealed = |token: &str| token::decode(token.rsplit('.').next().unwrap()).unwrap();
    let (a, b) = (sealed(&a), sealed(&b));
    assert_ne!(a[..NONCE_LEN], b[..NONCE_LEN]);
    assert_ne!(a[NONCE_LEN..], b[NONCE_LEN..]);
    // Nor does the payload stand in it.
    assert!(!a.windows(4).any(|window| window == b"aaaa"));
}

fn ring(firsts: &[u8]) -> KeyRing {
    let key = |first: u8| Key::from_bytes(&(first..first + 32).collect::<Vec<u8>>()).unwrap();
    let (first, more) = firsts.split_first().unwrap();
    more.iter().fold(KeyRing::new(key(*first)), |ring, first| {
        ring.and_opens(key(*first)).unwrap()
    })
}

/// Sealed as `keys` would, with another kid in the token and among what is authenticated.
fn sealed_for(kid: Kid, keys: &Keys, payload: &[u8]) -> String {
    let mut sealed = [7; NONCE_LEN].to_vec();
    sealed.extend_from_slice(payload);
    let (nonce, text) = sealed.split_first_chunk_mut::<NONCE_LEN>().unwrap();
    let associated = token::associated_data(VARIANT, kid);
    let tag = keys
        .seal
        .encrypt_inout_detached(&XNonce::from(*nonce), &associated, text.into())
        .unwrap();
    sealed.extend_from_slice(&tag);
    let mut token = token::start(VARIANT, kid, sealed.len());
    token::push_segment(&mut token, &sealed);
    token
}

/// Whoever tried one key of the ring after the other would find one that opens these.
#[test]
fn case_030_the_kid_alone_says_which_key_is_tried() {
    let sealer = AeadSealer::new(&ring(&[0, 32, 64]), &Purpose::REQUEST_STATE);
    let open = |token: &str| sealer.open(WireState::new(token)).map(|opened| opened.kid);
    let unknown = Kid::from_bytes([9; 8]);
    for keys in &sealer.ring {
        assert_eq!(open(&sealed_for(keys.kid, keys, b"{}")), Ok(keys.kid));
        let others = sealer.ring.iter().map(|other| other.kid);
        for kid in others.chain([unknown]).filter(|kid| *kid != keys.kid) {
            let token = sealed_for(kid, keys, b"{}");
            assert_eq!(open(&token), Err(Reason::BadSignature));
        }
    }
    // The kid commits to the key: no other key has it.
    let kids: Vec<Kid> = sealer.ring.iter().map(|keys| keys.kid).collect();
    let again = AeadSealer::new(&ring(&[64, 0, 32]), &Purpose::REQUEST_STATE);
    assert_eq!([1, 2, 0].map(|at| again.ring[at].kid), kids[..]);
    distinct(kids.into_iter()).unwrap();
}

/// The tag is looked at before anything is decrypted, and an error has no room for what was.
#[test]
fn case_031_nothing_is_decrypted_under_a_wrong_tag() {
    let sealer = AeadSealer::new(&ring(&[0]), &Purpose::REQUEST_STATE);
    let payload = b"{\"ssn\":\"SECRET-4711\"}";
    let token = sealer.seal(payload).unwrap();
    let opened = sealer.open(WireState::new(&token)).unwrap();
    assert_eq!(opened.payload, payload, "the good path");

    let sealed = token::decode(token.rsplit('.').next().unwrap()).unwrap();
    let keys = &sealer.ring[0];
    for at in 0..TAG_LEN {
        for bit in [1, 0x80] {
            let mut bent = sealed.clone();
            let tag_at = bent.len() - TAG_LEN + at;
            bent[tag_at] ^= bit;
            let mut token = token::start(VARIANT, keys.kid, bent.len());
            token::push_segment(&mut token, &bent);
            let refused: Result<Opened, Reason> = sealer.open(WireState::new(&token));
            assert_eq!(refused.map(|opened| opened.kid), Err(Reason::BadSignature));

            // The buffer that is decrypted in place.
            let before = bent.clone();
            let (nonce, rest) = bent.split_first_chunk_mut::<NONCE_LEN>().unwrap();
            let (text, tag) = rest.split_last_chunk_mut::<TAG_LEN>().unwrap();
            let nonce = XNonce::from(*nonce);
            let tag = (*tag).into();
            keys.seal
                .decrypt_inout_detached(&nonce, &keys.associated_data, text.into(), &tag)
                .unwrap_err();
            assert_eq!(bent, before, "the buffer is as it was");
        }
    }
    assert_eq!(size_of::<Reason>(), 1, "a reason and nothing else");
}
