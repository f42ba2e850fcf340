//! What was not sealed does not open, and what was sealed opens in one spelling.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use mrtr_state::{
    Binding, Draft, Envelope, Key, KeyRing, Principal, Purpose, RawValue, Reason, RequestDigest,
    Sealer, StateCodec, Timestamp, WireState, token,
};
use mrtr_state_aead::AeadCodec;
use mrtr_state_hmac::HmacCodec;

use crate::json::{self, Json};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const LIFETIME: Duration = Duration::from_secs(600);

/// A codec, and a token that it sealed.
struct Sealed {
    envelope: Envelope,
    sealer: Arc<dyn Sealer>,
    good: String,
}

static SEALED: LazyLock<[Sealed; 2]> = LazyLock::new(|| {
    let key: Vec<u8> = (0..32).collect();
    let ring = || KeyRing::new(Key::from_bytes(&key).expect("a key"));
    [
        sealed(&HmacCodec::new(ring()).expect("one key")),
        sealed(&AeadCodec::new(ring()).expect("one key")),
    ]
});

fn sealed(codec: &dyn StateCodec) -> Sealed {
    let envelope = Envelope::new(codec, Purpose::REQUEST_STATE, "https://bank.example/mcp");
    let draft = Draft::single(NOW, LIFETIME, RawValue::NULL).expect("a generator");
    let good = envelope.seal(&binding(), &draft).expect("a small state");
    Sealed {
        envelope,
        sealer: codec.sealer(&Purpose::REQUEST_STATE),
        good,
    }
}

fn binding() -> Binding {
    Binding {
        principal: Principal::user("https://as.example", "user-a"),
        request: RequestDigest::builder("tools/call", "transfer").finish(),
    }
}

/// The first byte says what the rest is: a token, edits of a good token, claims, or one segment.
pub fn run(data: &[u8]) {
    let Some((&mode, rest)) = data.split_first() else {
        return;
    };
    for sealed in &*SEALED {
        match mode {
            b't' => text(sealed, &String::from_utf8_lossy(rest)),
            b'e' => text(sealed, &edited(&sealed.good, rest)),
            b'c' => claims(sealed, rest),
            _ => segment(&String::from_utf8_lossy(rest)),
        }
    }
}

/// Opens for the token that was sealed, and for no other text.
fn text(sealed: &Sealed, text: &str) {
    let opened = sealed.envelope.open(text, &binding(), NOW, LIFETIME, None);
    match opened {
        Ok(_) => assert_eq!(text, sealed.good, "a token that nobody sealed"),
        Err(rejected) => {
            assert_ne!(text, sealed.good, "{rejected}");
            let known = [Reason::Malformed, Reason::BadSignature, Reason::TooLarge];
            assert!(known.contains(&rejected.reason()), "{rejected}");
            assert!(rejected.into_late().is_none());
        }
    }
    let raw = sealed.sealer.open(WireState::new(text));
    assert_eq!(raw.is_ok(), text == sealed.good);
}

/// The good token after edits of three bytes each: where, what kind, and a byte.
fn edited(good: &str, edits: &[u8]) -> String {
    let mut bytes = good.as_bytes().to_vec();
    for edit in edits.chunks_exact(3) {
        let at = usize::from(edit[0]) * 3 % bytes.len().max(1);
        match edit[1] % 6 {
            0 if !bytes.is_empty() => bytes[at] = edit[2],
            1 if !bytes.is_empty() => bytes[at] ^= 1 << (edit[2] % 8),
            2 if !bytes.is_empty() => drop(bytes.remove(at)),
            3 => bytes.insert(at, edit[2]),
            4 => bytes.truncate(at),
            5 if !bytes.is_empty() => {
                let other = usize::from(edit[2]) % bytes.len();
                bytes.swap(at, other);
            }
            _ => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whatever is sealed comes back, and claims that open are claims.
fn claims(sealed: &Sealed, payload: &[u8]) {
    let token = sealed.sealer.seal(payload).expect("a payload");
    let back = sealed
        .sealer
        .open(WireState::new(&token))
        .expect("a good token");
    assert_eq!(back.payload, payload);
    for part in token.split('.').skip(2) {
        segment(part);
    }
    if let Ok(state) = sealed
        .envelope
        .open(&token, &binding(), NOW, LIFETIME, None)
    {
        let text = std::str::from_utf8(payload).expect("claims are text");
        let claims = json::read(text).expect("claims are JSON, and no name is there twice");
        assert_eq!(
            claims.get("aud").and_then(Json::text),
            Some(sealed.envelope.audience())
        );
        assert_eq!(claims.get("v"), Some(&Json::Number("1".into())));
        assert!(claims.get("data").is_some());
        assert!(NOW < state.exp());
    }
}

/// Bytes have one spelling.
fn segment(text: &str) {
    if let Some(bytes) = token::decode(text) {
        assert_eq!(token::encode(&bytes), text);
        assert_eq!(bytes.len(), text.len() * 3 / 4);
    }
    let sixteen = token::decode_array::<16>(text);
    assert_eq!(
        sixteen.map(Vec::from),
        token::decode(text).filter(|bytes| bytes.len() == 16)
    );
    // A key that is read has the length that it must have, and a text is at most one of the two spellings of the same key.
    for key in [Key::from_hex(text), Key::from_base64(text)]
        .into_iter()
        .flatten()
    {
        assert!(key.secret_bytes().len() >= 32);
    }
}
