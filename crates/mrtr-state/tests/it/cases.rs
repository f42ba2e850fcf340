//! Faults that others had, by their number in docs/cases.md: those that would be in the state itself, for both codecs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use mrtr_state::{
    Binding, Draft, Envelope, Key, KeyRing, Principal, Purpose, RawValue, Reason, RequestDigest,
    Sealer, Slot, StateCodec, Timestamp, WireState, token, walk_json,
};
use mrtr_state_aead::AeadCodec;
use mrtr_state_hmac::HmacCodec;

const T0: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const LIFETIME: Duration = Duration::from_secs(600);
const AUDIENCE: &str = "https://server.example/mcp";

/// Both codecs, the signing one first, with the bytes `first`, `first + 1` and so on as their only key.
fn codecs(first: u8) -> [Arc<dyn StateCodec>; 2] {
    let bytes: Vec<u8> = (first..first + 32).collect();
    let ring = || KeyRing::new(Key::from_bytes(&bytes).unwrap());
    [
        Arc::new(HmacCodec::new(ring()).unwrap()),
        Arc::new(AeadCodec::new(ring()).unwrap()),
    ]
}

fn sealers(first: u8) -> [Arc<dyn Sealer>; 2] {
    codecs(first).map(|codec| codec.sealer(&Purpose::REQUEST_STATE))
}

fn envelopes(first: u8) -> [Envelope; 2] {
    codecs(first).map(|codec| Envelope::new(&*codec, Purpose::REQUEST_STATE, AUDIENCE))
}

fn digest(arguments: &str) -> RequestDigest {
    let builder = RequestDigest::builder("tools/call", "transfer");
    builder.json("arguments", arguments).unwrap().finish()
}

fn binding(arguments: &str) -> Binding {
    Binding {
        principal: Principal::user("https://as.example", "user-a").with_client("app-1"),
        request: digest(arguments),
    }
}

fn seal(envelope: &Envelope, binding: &Binding, data: &str) -> String {
    let data = RawValue::from_string(data.to_owned()).unwrap();
    let draft = Draft::single(T0, LIFETIME, &data).unwrap();
    let token = envelope.seal(binding, &draft).unwrap();
    let opened = envelope.open(&token, binding, T0, LIFETIME, None).unwrap();
    assert_eq!(opened.data().get(), data.get(), "the good path");
    token
}

fn reason(envelope: &Envelope, token: &str) -> Reason {
    let opened = envelope.open(token, &binding("{}"), T0, LIFETIME, None);
    opened.expect_err("refused").reason()
}

fn with_part(token: &str, at: usize, part: &str) -> String {
    let mut parts: Vec<&str> = token.split('.').collect();
    parts[at] = part;
    parts.join(".")
}

/// What the token shows to whoever holds it.
fn shown(token: &str) -> Vec<u8> {
    let mut shown = token.as_bytes().to_vec();
    for segment in token.split('.').skip(2) {
        shown.extend(token::decode(segment).unwrap());
    }
    shown
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn case_027_one_secret_behind_both_codecs() {
    let [signs, encrypts] = sealers(0);
    assert_ne!(signs.kid(), encrypts.kid(), "the keys are unrelated");
    for slot in Slot::ALL {
        let tag = |sealer: &dyn Sealer| sealer.tag(sealer.kid(), slot, b"user-a").unwrap();
        assert_ne!(tag(&*signs), tag(&*encrypts));
    }
    for (ours, theirs) in [(&signs, &encrypts), (&encrypts, &signs)] {
        let token = theirs.seal(b"{}").unwrap();
        let open = |sealer: &dyn Sealer, token: &str| sealer.open(WireState::new(token)).is_ok();
        assert!(open(&**theirs, &token), "the good path");
        let letter = ours.variant().letter().to_string();
        let kid = token::encode(ours.kid().as_bytes());
        let with_letter = with_part(&token, 1, &letter);
        for dressed in [
            with_part(&with_letter, 2, &kid),
            with_part(&token, 2, &kid),
            with_letter,
            token,
        ] {
            assert!(!open(&**ours, &dressed), "{dressed}");
        }
    }
    // Nor does what one derived sign for the other: the golden vectors have both under one key.
}

#[test]
fn case_032_a_sealed_part_that_is_too_short() {
    let [_, encrypts] = sealers(0);
    let [_, envelope] = envelopes(0);
    let empty = encrypts.seal(b"").unwrap();
    let opened = encrypts.open(WireState::new(&empty)).unwrap();
    assert!(opened.payload.is_empty(), "nothing under a good seal opens");
    assert_eq!(
        reason(&envelope, &empty),
        Reason::Malformed,
        "and is no state"
    );

    let sealed = token::decode(empty.rsplit('.').next().unwrap()).unwrap();
    assert_eq!(sealed.len(), 24 + 16, "nonce and tag");
    for length in 0..40 {
        for bytes in [
            &sealed[..length],
            &sealed[40 - length..],
            &[0; 40][..length],
        ] {
            let short = with_part(&empty, 3, &token::encode(bytes));
            assert_eq!(
                reason(&envelope, &short),
                Reason::Malformed,
                "{length} bytes"
            );
        }
    }
    for kid in 0..8 {
        let short = with_part(&empty, 2, &token::encode(&[7; 8][..kid]));
        assert_eq!(
            reason(&envelope, &short),
            Reason::Malformed,
            "a kid of {kid} bytes"
        );
    }
    let other = with_part(&empty, 3, &token::encode(&[0; 40]));
    assert_eq!(reason(&envelope, &other), Reason::BadSignature);
}

/// The signing codec says first that what it seals is readable; whom a state belongs to is not, with either.
#[test]
fn case_034_what_whoever_holds_a_state_can_read() {
    let binding = binding(r#"{"to":"acct-7"}"#);
    let data = r#"{"ssn":"SECRET-4711"}"#;
    let [signed, sealed] = envelopes(0).map(|envelope| shown(&seal(&envelope, &binding, data)));
    assert!(holds(&signed, b"SECRET-4711"), "as its documentation says");
    for secret in ["SECRET-4711", "ssn", "aud", "nonce", AUDIENCE] {
        assert!(!holds(&sealed, secret.as_bytes()), "{secret}");
    }
    for shown in [&signed, &sealed] {
        for name in [
            "user-a",
            "as.example",
            "app-1",
            "acct-7",
            "tools/call",
            "transfer",
        ] {
            assert!(!holds(shown, name.as_bytes()), "{name}");
        }
        assert!(
            !holds(shown, binding.request.as_bytes()),
            "the digest unkeyed"
        );
        assert!(!holds(shown, &binding.principal.canonical_bytes()));
    }
}

/// One nonce after another, as states and as the encrypting codec draw them.
#[test]
fn case_046_nonces_cannot_be_guessed() {
    const DRAWN: usize = 10_000;
    let data = RawValue::from_string("null".to_owned()).unwrap();
    let [_, encrypts] = sealers(0);
    let mut drawn: [Vec<Vec<u8>>; 3] = Default::default();
    for _ in 0..DRAWN {
        let draft = Draft::single(T0, LIFETIME, &data).unwrap();
        drawn[0].push(draft.nonce.as_bytes().to_vec());
        drawn[1].push(draft.flow.as_bytes().to_vec());
        let token = encrypts.seal(b"").unwrap();
        let sealed = token::decode(token.rsplit('.').next().unwrap()).unwrap();
        drawn[2].push(sealed[..24].to_vec());
    }
    for nonces in drawn {
        assert!(nonces[0].len() >= 16, "128 bits or more");
        // Neither half repeats: no counter and no time in either.
        for half in [0..8, 8..16] {
            let halves: HashSet<&[u8]> = nonces.iter().map(|nonce| &nonce[half.clone()]).collect();
            assert_eq!(halves.len(), DRAWN);
        }
        // Each bit is set half of the time, and as often as not the same as the nonce's before. Eight deviations.
        let (half, bound) = (DRAWN as i64 / 2, 8 * 50);
        for bit in 0..8 * nonces[0].len() {
            let value = |nonce: &Vec<u8>| nonce[bit / 8] >> (bit % 8) & 1;
            let set = nonces.iter().filter(|nonce| value(nonce) == 1).count() as i64;
            assert!((set - half).abs() < bound, "bit {bit} is set {set} times");
            let pairs = nonces.windows(2);
            let same = pairs
                .filter(|pair| value(&pair[0]) == value(&pair[1]))
                .count() as i64;
            assert!((same - half).abs() < bound, "bit {bit} stays {same} times");
        }
        // Every byte is as frequent as any other: chi-square of 255 degrees of freedom, whose deviation is 22.6.
        let mut counts = [0_u32; 256];
        for byte in nonces.iter().flatten() {
            counts[usize::from(*byte)] += 1;
        }
        let expected = f64::from(counts.iter().sum::<u32>()) / 256.0;
        let chi: f64 = counts
            .iter()
            .map(|count| (f64::from(*count) - expected).powi(2) / expected)
            .sum();
        assert!((chi - 255.0).abs() < 8.0 * 22.6, "{chi}");
    }
}

/// Members are sorted by the bytes of their names. RFC 8785 sorts by UTF-16 units, and nothing here says that it is that.
#[test]
fn case_069_names_are_sorted_by_bytes() {
    let names = [
        "\r",
        "1",
        "\u{80}",
        "\u{f6}",
        "\u{20ac}",
        "\u{fb33}",
        "\u{1f600}",
    ];
    let walked = |order: &[usize]| {
        let members: Vec<String> = order
            .iter()
            .map(|at| format!("{}:{at}", serde_json::to_string(names[*at]).unwrap()))
            .collect();
        let mut walked = Vec::new();
        let text = format!("{{{}}}", members.join(","));
        walk_json(&text, &mut |piece| walked.extend_from_slice(piece)).unwrap();
        walked
    };
    let sorted = walked(&[0, 1, 2, 3, 4, 5, 6]);
    for order in [
        [6, 5, 4, 3, 2, 1, 0],
        [4, 0, 5, 1, 6, 2, 3],
        [0, 1, 2, 3, 4, 6, 5],
    ] {
        assert_eq!(walked(&order), sorted, "whatever order they come in");
    }
    let mut last = 0;
    for name in names {
        let mut key = b"k".to_vec();
        token::put_length_prefixed(&mut key, name.as_bytes());
        let at = sorted.windows(key.len()).position(|window| window == key);
        assert!(
            at.is_some_and(|at| at > last || last == 0),
            "{name:?} is in its place"
        );
        last = at.unwrap();
    }
    // RFC 8785 makes one number of these; the digest may not.
    assert_ne!(digest("9007199254740993"), digest("9007199254740992"));
    let page = include_str!("../../../../docs/design.md");
    assert!(page.contains("## Why the digest is not JCS"));
    for text in [
        include_str!("../../README.md"),
        include_str!("../../src/lib.rs"),
        include_str!("../../src/digest.rs"),
        include_str!("../../src/canonical.rs"),
    ] {
        assert!(!text.contains("JCS"), "it calls itself what it is not");
    }
}

/// Of a request with few possibilities, whoever holds its state cannot find out which it is.
#[test]
fn case_071_a_digest_cannot_be_guessed_at() {
    let pin = |pin: u32| format!(r#"{{"pin":"{pin:04}"}}"#);
    let [envelope, _] = envelopes(0);
    let token = seal(&envelope, &binding(&pin(4711)), "null");
    let shown = shown(&token);
    let text = String::from_utf8_lossy(&shown).into_owned();
    let claim = |name: &str| {
        let rest = text.split_once(&format!("\"{name}\":\"")).unwrap().1;
        token::decode(rest.split('"').next().unwrap()).unwrap()
    };
    for name in ["dig", "sub"] {
        assert_eq!(claim(name).len(), 16, "{name} has 128 bits");
    }
    for guess in 0..10_000 {
        let digest = digest(&pin(guess));
        assert!(!holds(&shown, &digest.as_bytes()[..16]), "{guess}");
        assert_ne!(claim("dig"), digest.as_bytes()[16..], "{guess}");
    }
    // With the key it is told at once; with another key it is another.
    let tag = |first: u8| {
        let [signs, _] = sealers(first);
        let of = digest(&pin(4711));
        *signs
            .tag(signs.kid(), Slot::Request, of.as_bytes())
            .unwrap()
            .as_bytes()
    };
    assert_eq!(claim("dig"), tag(0));
    assert_ne!(claim("dig"), tag(32));
}
