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
fn tokens_of_version_1_are_made_again_byte_for_byte() {
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
