use super::*;

fn counting(from: u8) -> Vec<u8> {
    (from..from + 32).collect()
}

#[test]
fn weak_keys_are_refused() {
    assert!(Key::from_bytes(&counting(0)).is_ok());
    for len in [0, 1, 16, 31] {
        let bytes: Vec<u8> = (0..len).collect();
        assert_eq!(
            Key::from_bytes(&bytes).unwrap_err(),
            KeyError::TooShort { len: len.into() }
        );
    }
    assert_eq!(Key::from_bytes(&[0; 32]).unwrap_err(), KeyError::Uniform);
    assert_eq!(Key::from_bytes(&[0x61; 64]).unwrap_err(), KeyError::Uniform);
}

#[test]
fn hexadecimal_text_is_decoded_or_refused_and_never_used_as_text() {
    let text: String = counting(0).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(
        Key::from_bytes(text.as_bytes()).unwrap_err(),
        KeyError::HexText
    );
    for spelling in [text.clone(), text.to_uppercase()] {
        assert_eq!(
            Key::from_hex(&spelling).unwrap().secret_bytes(),
            counting(0)
        );
    }
    for bad in [
        &text[1..],
        &format!("{text}\n"),
        &format!(" {text} "),
        &format!("0x{text}"),
        &text.replace('a', "g"),
        &text.replace("0a", "+a"),
    ] {
        assert_eq!(Key::from_hex(bad).unwrap_err(), KeyError::NotHex, "{bad:?}");
    }
    assert_eq!(
        Key::from_hex(&text[..62]).unwrap_err(),
        KeyError::TooShort { len: 31 }
    );
}

#[test]
fn base64_is_read_in_both_alphabets() {
    let bytes: Vec<u8> = (0xe0..=0xff).collect();
    for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
        let key = Key::from_base64(&engine.encode(&bytes)).unwrap();
        assert_eq!(key.secret_bytes(), bytes);
    }
    assert_eq!(
        Key::from_base64("not base64!").unwrap_err(),
        KeyError::NotBase64
    );
    assert_eq!(
        Key::from_base64("AAAA").unwrap_err(),
        KeyError::TooShort { len: 3 }
    );
}

#[test]
fn a_ring_holds_a_key_once() {
    let ring = KeyRing::new(Key::from_bytes(&counting(0)).unwrap())
        .and_opens(Key::from_bytes(&counting(32)).unwrap())
        .unwrap();
    for again in [0, 32] {
        let key = Key::from_bytes(&counting(again)).unwrap();
        assert_eq!(
            ring.clone().and_opens(key).unwrap_err(),
            KeyError::Duplicate
        );
    }
    let firsts: Vec<u8> = ring.keys().map(|key| key.secret_bytes()[0]).collect();
    assert_eq!(firsts, [0, 32]);
}

#[test]
fn only_configured_keys_last() {
    assert!(KeyRing::new(Key::generate().unwrap()).is_lasting());
    assert!(!KeyRing::generate().unwrap().is_lasting());
}

#[test]
fn debug_does_not_leak_key() {
    let key = Key::from_bytes(&counting(64)).unwrap();
    assert_eq!(format!("{key:?}"), "Key(..)");
    assert_eq!(format!("{:?}", KeyRing::new(key)), "KeyRing(1 key)");
}

/// Compiles only where dropping wipes: the one field of a key does, and a ring has nothing secret but keys.
#[test]
fn case_039_a_key_is_wiped_and_no_error_has_one() {
    fn wiped<T: zeroize::ZeroizeOnDrop>(_: &T) {}
    let Key(bytes) = Key::from_bytes(&counting(64)).unwrap();
    wiped(&bytes);

    let secret = "c0ffee5ecre7c0ffee5ecre7c0ffee5ecre7c0ffee5ecre7c0ffee5ecre7zz";
    let hex: String = counting(64).iter().map(|b| format!("{b:02x}")).collect();
    for refused in [
        Key::from_hex(secret),
        Key::from_base64(&format!("{secret}!")),
        Key::from_bytes(secret.as_bytes().get(..31).unwrap()),
        Key::from_bytes(hex.as_bytes()),
        Key::from_hex(&hex[..62]),
    ] {
        let error = refused.unwrap_err();
        let printed = format!("{error} {error:?} {error:#?}");
        assert!(
            !printed.contains("c0ff") && !printed.contains("4041"),
            "{printed}"
        );
    }
}
