//! What a sealer owes, whatever is sealed.

use super::*;

const PAYLOAD: &[u8] = b"{\"to\":\"acct-7\",\"n\":1}";

/// Payloads of every kind come back, in tokens that fit headers and URLs.
pub fn opens_what_it_sealed(make: Make<'_>) {
    let sealer = sealer(make);
    let every_byte: Vec<u8> = (0..=255).collect();
    let long = vec![b'x'; 100_000];
    for payload in [b"".as_slice(), b"a", PAYLOAD, &every_byte, &long] {
        let token = sealer.seal(payload).unwrap();
        let opened = sealer.open(WireState::new(&token)).unwrap();
        assert_eq!(opened.payload, payload);
        assert_eq!(opened.kid, sealer.kid());

        let prefix = format!(
            "{}.{}.{}.",
            token::VERSION,
            sealer.variant().letter(),
            token::encode(sealer.kid().as_bytes())
        );
        assert!(token.starts_with(&prefix), "{token}");
        assert!(
            token
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c)),
            "a token is base64url and dots: {token}"
        );
    }
    assert_ne!(sealer.seal(b"a").unwrap(), sealer.seal(b"b").unwrap());
}

/// At every position every other printable character is refused, and a few that are not.
pub fn refuses_every_other_character(make: Make<'_>) {
    let sealer = sealer(make);
    let token = sealer.seal(PAYLOAD).unwrap();
    opens(&*sealer, &token, PAYLOAD);

    let others: Vec<char> = (' '..='~')
        .chain([
            '\0', '\t', '\n', '\r', '\x7f', '\u{80}', '\u{e9}', '\u{ff0e}',
        ])
        .collect();
    for (at, present) in token.char_indices() {
        for &other in others.iter().filter(|&&other| other != present) {
            refuses(
                &*sealer,
                &format!("{}{other}{}", &token[..at], &token[at + 1..]),
            );
        }
    }
    // Tries that failed have not used the state up.
    opens(&*sealer, &token, PAYLOAD);
}

/// Every character removed, doubled, swapped with its neighbour; every shorter token.
pub fn refuses_removed_doubled_and_swapped_characters(make: Make<'_>) {
    let sealer = sealer(make);
    let token = sealer.seal(PAYLOAD).unwrap();
    opens(&*sealer, &token, PAYLOAD);

    for at in 0..token.len() {
        let (before, c, after) = (&token[..at], &token[at..=at], &token[at + 1..]);
        refuses(&*sealer, before);
        refuses(&*sealer, &token[at + 1..]);
        refuses(&*sealer, &format!("{before}{after}"));
        refuses(&*sealer, &format!("{before}{c}{c}{after}"));
        if let Some(next) = after.get(..1).filter(|next| *next != c) {
            refuses(&*sealer, &format!("{before}{next}{c}{}", &after[1..]));
        }
    }
    refuses(&*sealer, &format!("{token}{token}"));
    refuses(&*sealer, &format!("{token}."));
    refuses(&*sealer, &format!("{token}.{token}"));
    opens(&*sealer, &token, PAYLOAD);
}

/// The same bytes in another spelling are another string, and refused: else a record of used
/// strings could be passed by.
pub fn refuses_other_spellings(make: Make<'_>) {
    let sealer = sealer(make);
    // Many payloads, so that every length of segment and both characters in which the alphabets
    // differ occur.
    let (mut respelt, mut trailing_bits) = (0, 0);
    for filler in 0..48_u8 {
        let payload: Vec<u8> = (0..filler).map(|n| 0xf8 | n.wrapping_mul(filler)).collect();
        let token = sealer.seal(&payload).unwrap();
        opens(&*sealer, &token, &payload);

        for (index, segment) in encoded_segments(&token) {
            let mut aliases = vec![
                segment.replace('-', "+"),
                segment.replace('_', "/"),
                segment.replace('-', "%2D"),
            ];
            for suffix in ["=", "==", "===", "%3D", "\n", "\r\n", " ", "\t", "\0", "A"] {
                aliases.push(format!("{segment}{suffix}"));
            }
            for prefix in ["=", "\n", " "] {
                aliases.push(format!("{prefix}{segment}"));
            }
            let middle = segment.len() / 2;
            aliases.push(format!("{}\n{}", &segment[..middle], &segment[middle..]));
            let of_last_character = spellings_of_last_character(segment);
            trailing_bits += of_last_character.len();
            aliases.extend(of_last_character);

            for alias in aliases.iter().filter(|alias| *alias != segment) {
                refuses(&*sealer, &with_segment(&token, index, alias));
                respelt += 1;
            }
        }
        for other in [
            token.to_uppercase(),
            format!(" {token}"),
            format!("{token}\n"),
            format!("\u{feff}{token}"),
            token.replace('.', "%2E"),
        ] {
            refuses(&*sealer, &other);
        }
    }
    assert!(
        respelt > 1_000 && trailing_bits > 100,
        "the test tests too little"
    );
}

/// The segment with the unused bits of its last character set in every other way. They decode
/// to the same bytes wherever those bits are not looked at.
fn spellings_of_last_character(segment: &str) -> Vec<String> {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let unused_bits = match segment.len() % 4 {
        2 => 4,
        3 => 2,
        _ => return Vec::new(),
    };
    let (rest, last) = segment.split_at(segment.len() - 1);
    let value = ALPHABET.find(last).unwrap();
    (0..1 << unused_bits)
        .map(|bits| (value >> unused_bits << unused_bits) | bits)
        .filter(|&other| other != value)
        .map(|other| format!("{rest}{}", &ALPHABET[other..=other]))
        .collect()
}

/// Segments cut short or drawn out, above all the one with the seal: no prefix of a tag is a
/// tag, and an empty one least of all.
pub fn refuses_segments_of_other_lengths(make: Make<'_>) {
    let sealer = sealer(make);
    let token = sealer.seal(PAYLOAD).unwrap();
    opens(&*sealer, &token, PAYLOAD);

    for (index, segment) in encoded_segments(&token) {
        let bytes = token::decode(segment).unwrap();
        let lengths = [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 39, 40, 41, 64, 1_000];
        for len in lengths.into_iter().filter(|&len| len != bytes.len()) {
            let mut other = bytes.clone();
            other.resize(len, 0);
            refuses(
                &*sealer,
                &with_segment(&token, index, &token::encode(&other)),
            );
            // From the other end.
            if let Some(tail) = bytes.len().checked_sub(len) {
                let tail = token::encode(&bytes[tail..]);
                refuses(&*sealer, &with_segment(&token, index, &tail));
            }
        }
    }
}

/// A segment of one token in another of the same key.
pub fn refuses_segments_of_two_tokens_mixed(make: Make<'_>) {
    let sealer = sealer(make);
    // Of one length, so that nothing but the seal can tell.
    let (a, b) = (
        sealer.seal(b"quantity 02").unwrap(),
        sealer.seal(b"quantity 20").unwrap(),
    );
    opens(&*sealer, &a, b"quantity 02");
    opens(&*sealer, &b, b"quantity 20");

    let mut mixed = 0;
    for (index, segment) in encoded_segments(&b) {
        let other = with_segment(&a, index, segment);
        if other != a && other != b {
            assert_eq!(refuses(&*sealer, &other), Reason::BadSignature);
            mixed += 1;
        }
        // Within one segment: the front of one, the back of the other.
        let of_a = a.split('.').nth(index).unwrap();
        for at in 1..segment.len().min(of_a.len()) {
            let spliced = with_segment(&a, index, &format!("{}{}", &segment[..at], &of_a[at..]));
            if spliced != a && spliced != b {
                refuses(&*sealer, &spliced);
                mixed += 1;
            }
        }
    }
    assert!(mixed > 0, "the test tests too little");
}

/// Another version or variant has no shape that this sealer reads, above all none without a
/// seal.
pub fn refuses_other_versions_and_variants(make: Make<'_>) {
    let sealer = sealer(make);
    let token = sealer.seal(PAYLOAD).unwrap();
    opens(&*sealer, &token, PAYLOAD);

    let present = sealer.variant().letter().to_string();
    let letters = ('0'..='z').map(String::from);
    for letter in letters.chain(["", "hx", "none", "\u{127}"].map(String::from)) {
        if letter != present {
            let other = with_segment(&token, 1, &letter);
            assert_eq!(refuses(&*sealer, &other), Reason::Malformed, "{other}");
        }
    }
    for version in ["", "mrtr", "mrtr0", "mrtr2", "mrtr11", "MRTR1", "mrtr1 "] {
        let other = with_segment(&token, 0, version);
        assert_eq!(refuses(&*sealer, &other), Reason::Malformed, "{other}");
    }
}

/// A token opens under no key but its own, whatever kid it bears.
pub fn refuses_other_keys(make: Make<'_>) {
    let (ours, theirs) = (sealer(make), make(ring(32)).sealer(&PURPOSE));
    assert_ne!(ours.kid(), theirs.kid());
    let token = theirs.seal(PAYLOAD).unwrap();
    opens(&*theirs, &token, PAYLOAD);

    assert_eq!(refuses(&*ours, &token), Reason::BadSignature);
    for kid in [
        ours.kid(),
        Kid::from_bytes([0; 8]),
        Kid::from_bytes([0xff; 8]),
    ] {
        let claimed = with_segment(&token, 2, &token::encode(kid.as_bytes()));
        assert_eq!(refuses(&*ours, &claimed), Reason::BadSignature);
        // And where both keys are in the ring, the kid does not choose.
        let both = make(ring(0).and_opens(key(32)).unwrap()).sealer(&PURPOSE);
        opens(&*both, &token, PAYLOAD);
        assert_eq!(refuses(&*both, &claimed), Reason::BadSignature);
    }
}

/// What was sealed in each phase opens in that phase and the next, on servers of either.
pub fn rotates_keys_in_three_phases(make: Make<'_>) {
    let phases = [
        ring(0),
        ring(0).and_opens(key(32)).unwrap(),
        ring(32).and_opens(key(0)).unwrap(),
        ring(32),
    ]
    .map(|ring| make(ring).sealer(&PURPOSE));
    let kids = [&phases[0], &phases[3]].map(|sealer| sealer.kid());
    assert_eq!(
        [0, 0, 1, 1].map(|n: usize| kids[n]),
        [0, 1, 2, 3].map(|n: usize| phases[n].kid()),
        "the first key seals"
    );

    for pair in phases.windows(2) {
        let tokens = [&pair[0], &pair[1]].map(|sealer| sealer.seal(PAYLOAD).unwrap());
        for (sealer, token) in pair.iter().flat_map(|s| tokens.iter().map(move |t| (s, t))) {
            opens(&**sealer, token, PAYLOAD);
        }
    }
    // Two phases apart nothing is promised; three apart the key is gone.
    let oldest = phases[0].seal(PAYLOAD).unwrap();
    assert_eq!(refuses(&*phases[3], &oldest), Reason::BadSignature);

    // Tags go by the key that sealed, wherever it stands in the ring.
    let tag = |n: usize| phases[n].tag(kids[0], Slot::Principal, b"a");
    assert!(tag(0).is_some());
    assert_eq!((tag(0), tag(0)), (tag(1), tag(2)));
    assert_eq!(tag(3), None);
}

/// What is sealed for one purpose opens for no other, even with the other's kid on it.
pub fn keeps_purposes_apart(make: Make<'_>) {
    let codec = make(ring(0));
    let purposes = [
        PURPOSE,
        Purpose::application("cookie"),
        Purpose::application("request state"),
        Purpose::application(""),
        Purpose::REQUEST_STATE,
        Purpose::STORED_OUTCOME,
        Purpose::STORED_JOURNAL,
        Purpose::STORED_KEY,
    ];
    for from in purposes {
        let token = codec.sealer(&from).seal(PAYLOAD).unwrap();
        for to in purposes {
            let sealer = codec.sealer(&to);
            if from == to {
                opens(&*sealer, &token, PAYLOAD);
                continue;
            }
            assert_eq!(refuses(&*sealer, &token), Reason::BadSignature);
            let claimed = with_segment(&token, 2, &token::encode(sealer.kid().as_bytes()));
            assert_eq!(refuses(&*sealer, &claimed), Reason::BadSignature);
        }
    }
}

/// Tags are the same for the same key, purpose, slot and message, and differ with each.
pub fn keeps_tags_apart(make: Make<'_>) {
    let both = make(ring(0).and_opens(key(32)).unwrap());
    let sealer = both.sealer(&PURPOSE);
    let other = both.sealer(&Purpose::application("cookie"));
    let kids = [sealer.kid(), make(ring(32)).sealer(&PURPOSE).kid()];

    let mut tags = Vec::new();
    for slot in Slot::ALL {
        for message in [b"".as_slice(), b"a", b"b", b"aa"] {
            for kid in kids {
                let tag = sealer.tag(kid, slot, message).unwrap();
                assert_eq!(sealer.tag(kid, slot, message), Some(tag));
                tags.push(*tag.as_bytes());
            }
            tags.push(*other.tag(other.kid(), slot, message).unwrap().as_bytes());
        }
        assert_eq!(sealer.tag(Kid::from_bytes([0; 8]), slot, b"a"), None);
        assert_eq!(sealer.tag(other.kid(), slot, b"a"), None);
    }
    let all = tags.len();
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), all, "two tags are the same");
}

/// No string makes a sealer panic, and none that it did not seal opens.
pub fn survives_any_string(make: Make<'_>) {
    let sealer = sealer(make);
    let token = sealer.seal(PAYLOAD).unwrap();
    opens(&*sealer, &token, PAYLOAD);
    let prefix =
        &token[..token.len() - token.split('.').skip(3).map(|s| s.len() + 1).sum::<usize>()];

    for text in [
        "",
        ".",
        "..",
        "...",
        "....",
        ".....",
        "hello",
        "mrtr1",
        "mrtr1.",
        "\u{1f600}",
    ] {
        refuses(&*sealer, text);
        refuses(&*sealer, &format!("{prefix}{text}"));
        refuses(&*sealer, &format!("{prefix}.{text}"));
    }
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    for round in 0..2_000 {
        let bytes: Vec<u8> = (0..round % 97).map(|_| noise.next() as u8).collect();
        let text = String::from_utf8_lossy(&bytes);
        let encoded = token::encode(&bytes);
        refuses(&*sealer, &text);
        refuses(&*sealer, &encoded);
        refuses(&*sealer, &format!("{prefix}.{text}"));
        refuses(&*sealer, &format!("{prefix}.{encoded}"));
        refuses(&*sealer, &format!("{prefix}.{encoded}.{encoded}"));
        refuses(
            &*sealer,
            &format!("{prefix}.{encoded}.{}", token::encode(&[0; 32])),
        );
    }
    opens(&*sealer, &token, PAYLOAD);
}

/// A reproducible stream of numbers (xorshift): a failure happens again.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 16
    }
}

/// Neither codec nor sealer prints a key, in no usual notation, nor what was sealed.
pub fn debug_does_not_leak_key(make: Make<'_>) {
    // Bytes that stand out in every notation.
    let secret: Vec<u8> = (0..32).map(|n| 0xa0 ^ (n * 7)).collect();
    let codec = make(KeyRing::new(Key::from_bytes(&secret).unwrap()));
    let sealer = codec.sealer(&PURPOSE);
    let token = sealer.seal(PAYLOAD).unwrap();
    let opened = sealer.open(WireState::new(&token)).unwrap();
    assert_eq!(opened.payload, PAYLOAD);

    let printed = format!(
        "{codec:?} {codec:#?} {sealer:?} {sealer:#?} {opened:?} {:?} {:?}",
        WireState::new(&token),
        sealer.tag(sealer.kid(), Slot::Principal, b"a")
    );
    for four in secret.windows(4).chain(PAYLOAD.windows(4)) {
        let hex: String = four.iter().map(|byte| format!("{byte:02x}")).collect();
        let list = format!("{four:?}");
        let lines: String = four.iter().map(|byte| format!("{byte},")).collect();
        let printed = printed.to_lowercase();
        assert!(!printed.contains(&hex), "{printed}");
        assert!(
            !printed.contains(list.trim_matches(['[', ']'])),
            "{printed}"
        );
        assert!(
            !printed.replace([' ', '\n'], "").contains(&lines),
            "{printed}"
        );
    }
    let text = token::encode(&secret);
    assert!(!printed.contains(&text[..6]), "{printed}");
    assert!(!printed.contains(&token[token.len() - 12..]), "{printed}");
}

/// Configured keys last, drawn ones do not; and a drawn one works all the same.
pub fn knows_whether_keys_last(make: Make<'_>) {
    assert!(make(ring(0)).keys_are_lasting());
    assert!(make(ring(0).and_opens(key(32)).unwrap()).keys_are_lasting());

    let drawn = make(KeyRing::generate().unwrap());
    assert!(!drawn.keys_are_lasting());
    let token = drawn.sealer(&PURPOSE).seal(PAYLOAD).unwrap();
    opens(&*drawn.sealer(&PURPOSE), &token, PAYLOAD);
    refuses(
        &*make(KeyRing::generate().unwrap()).sealer(&PURPOSE),
        &token,
    );
}
