//! The suite fails for codecs that are at fault: a check that cannot fail checks nothing.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use mrtr_state::suite::{self, Make};
use mrtr_state::{
    KeyRing, Kid, Opened, Purpose, Reason, SealError, Sealer, Slot, StateCodec, Tag, Variant,
    WireState, token,
};
use mrtr_state_hmac::HmacCodec;

/// Of the suite's functions that are picked, the names of those that fail.
fn failures(make: Make<'_>, pick: impl Fn(&str) -> bool) -> Vec<&'static str> {
    suite::ALL
        .iter()
        .filter(|(name, _)| pick(name))
        .filter(|(_, test)| catch_unwind(AssertUnwindSafe(|| test(make))).is_err())
        .map(|(name, _)| *name)
        .collect()
}

/// Writes what it is given into a token, and believes every token.
#[derive(Debug)]
struct SealsNothing;

impl SealsNothing {
    const KID: Kid = Kid::from_bytes([0; 8]);
}

impl StateCodec for SealsNothing {
    fn sealer(&self, _: &Purpose) -> Arc<dyn Sealer> {
        Arc::new(SealsNothing)
    }

    fn keys_are_lasting(&self) -> bool {
        true
    }
}

impl Sealer for SealsNothing {
    fn variant(&self) -> Variant {
        Variant::Other('n')
    }

    fn kid(&self) -> Kid {
        Self::KID
    }

    fn seal(&self, payload: &[u8]) -> Result<String, SealError> {
        let mut token = token::start(self.variant(), Self::KID, payload.len());
        token::push_segment(&mut token, payload);
        Ok(token)
    }

    fn open(&self, token: WireState<'_>) -> Result<Opened, Reason> {
        let (kid, [payload]) = token::split(token, self.variant())?;
        let payload = token::decode(payload).ok_or(Reason::Malformed)?;
        Ok(Opened { payload, kid })
    }

    fn tag(&self, _: Kid, _: Slot, _: &[u8]) -> Option<Tag> {
        Some(Tag::from_bytes([0; 16]))
    }
}

#[test]
fn a_codec_that_seals_nothing_fails_wherever_a_seal_is_what_counts() {
    let failed = failures(&suite::make(|_| SealsNothing), |_| true);
    let passed: Vec<&str> = suite::ALL
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !failed.contains(name))
        .collect();
    // These are about framing, about times and claims, which the envelope checks by itself. All
    // else has to fail.
    assert_eq!(
        passed,
        [
            "opens_what_it_sealed",
            "refuses_other_versions_and_variants",
            "debug_does_not_leak_key",
            "gives_back_all_claims",
            "binds_the_audience",
            "binds_the_epoch",
            "expires_to_the_millisecond",
            "allows_for_skew",
            "bounds_lifetimes",
            "keeps_the_size_limit_in_both_directions",
            "reads_claims_strictly",
            "refuses_sealed_nonsense",
        ]
    );
}

/// One thing that a codec can get wrong while it does everything else right.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    TrimsWhitespace,
    IgnoresPadding,
    ReadsBothAlphabets,
    IgnoresTrailingBits,
    AcceptsATruncatedTag,
    ParsesFirst,
    OneKeyForAllPurposes,
    OpensWithTheFirstKeyOnly,
    IgnoresTheKid,
    TagsIgnoreTheMessage,
    TagsIgnoreTheSlot,
    TagsIgnoreTheKid,
    PanicsOnShortTokens,
    PrintsTheKey,
    SaysThatKeysLast,
    LosesEmptyPayloads,
    AnyVersion,
}

struct Faulty {
    fault: Fault,
    ring: KeyRing,
    purpose: Purpose,
    inner: HmacCodec,
    sealer: Arc<dyn Sealer>,
}

impl Faulty {
    fn new(fault: Fault, ring: KeyRing, purpose: Purpose) -> Faulty {
        let inner = HmacCodec::new(ring.clone()).unwrap();
        let sealer = inner.sealer(&purpose);
        Faulty {
            fault,
            ring,
            purpose,
            inner,
            sealer,
        }
    }
}

impl StateCodec for Faulty {
    fn sealer(&self, purpose: &Purpose) -> Arc<dyn Sealer> {
        let purpose = match self.fault {
            Fault::OneKeyForAllPurposes => self.purpose,
            _ => *purpose,
        };
        Arc::new(Faulty::new(self.fault, self.ring.clone(), purpose))
    }

    fn keys_are_lasting(&self) -> bool {
        self.fault == Fault::SaysThatKeysLast || self.inner.keys_are_lasting()
    }
}

impl Sealer for Faulty {
    fn variant(&self) -> Variant {
        self.sealer.variant()
    }

    fn kid(&self) -> Kid {
        self.sealer.kid()
    }

    fn seal(&self, payload: &[u8]) -> Result<String, SealError> {
        match self.fault {
            Fault::LosesEmptyPayloads if payload.is_empty() => Err(SealError::Codec),
            _ => self.sealer.seal(payload),
        }
    }

    fn open(&self, wire: WireState<'_>) -> Result<Opened, Reason> {
        let text = wire.as_str();
        let open = |text: &str| self.sealer.open(WireState::new(text));
        match self.fault {
            Fault::TrimsWhitespace => open(text.trim()),
            Fault::IgnoresPadding => open(&text.replace('=', "")),
            Fault::ReadsBothAlphabets => open(&text.replace('+', "-").replace('/', "_")),
            Fault::IgnoresTrailingBits => open(&canonical_last_character(text)),
            Fault::AcceptsATruncatedTag => open(text).or_else(|reason| {
                let (_, [payload, tag]) = token::split(wire, self.variant())?;
                let payload = token::decode(payload).ok_or(reason)?;
                let tag = token::decode(tag).ok_or(reason)?;
                let whole = self.sealer.seal(&payload).map_err(|_| reason)?;
                let of_whole = token::decode(whole.rsplit('.').next().unwrap()).ok_or(reason)?;
                match of_whole.starts_with(&tag) {
                    true => open(&whole),
                    false => Err(reason),
                }
            }),
            Fault::ParsesFirst => {
                let (_, [payload, _]) = token::split(wire, self.variant())?;
                let payload = token::decode(payload).ok_or(Reason::Malformed)?;
                if std::str::from_utf8(&payload).is_err() {
                    return Err(Reason::Malformed);
                }
                open(text)
            }
            Fault::OpensWithTheFirstKeyOnly => match open(text) {
                Ok(opened) if opened.kid != self.kid() => Err(Reason::BadSignature),
                result => result,
            },
            Fault::IgnoresTheKid => open(text).or_else(|reason| {
                let (_, segments) = token::split::<2>(wire, self.variant())?;
                let with = |purpose: &Purpose| {
                    let sealer = self.inner.sealer(purpose);
                    let kid = token::encode(sealer.kid().as_bytes());
                    let token = format!("mrtr1.h.{kid}.{}.{}", segments[0], segments[1]);
                    sealer.open(WireState::new(&token))
                };
                with(&self.purpose).map_err(|_| reason)
            }),
            Fault::PanicsOnShortTokens => {
                assert!(text.len() > 8, "{text}");
                open(text)
            }
            Fault::AnyVersion => {
                let rest = text.split_once('.').map_or("", |(_, rest)| rest);
                open(&format!("{}.{rest}", token::VERSION))
            }
            _ => open(text),
        }
    }

    fn tag(&self, kid: Kid, slot: Slot, message: &[u8]) -> Option<Tag> {
        match self.fault {
            Fault::TagsIgnoreTheMessage => self.sealer.tag(kid, slot, b""),
            Fault::TagsIgnoreTheSlot => self.sealer.tag(kid, Slot::Principal, message),
            Fault::TagsIgnoreTheKid => self.sealer.tag(self.kid(), slot, message),
            _ => self.sealer.tag(kid, slot, message),
        }
    }
}

/// The token with the two unused bits of its tag's last character cleared.
fn canonical_last_character(token: &str) -> String {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    match token.chars().next_back().and_then(|c| ALPHABET.find(c)) {
        Some(value) => {
            let canonical = &ALPHABET[value & !3..=value & !3];
            format!("{}{canonical}", &token[..token.len() - 1])
        }
        None => token.to_owned(),
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault {
            Fault::PrintsTheKey => f
                .debug_list()
                .entries(self.ring.keys().map(|key| key.secret_bytes()))
                .finish(),
            _ => f.write_str("Faulty"),
        }
    }
}

#[test]
fn each_fault_is_found_by_the_test_that_is_about_it() {
    let purpose = Purpose::application("faults");
    let codec = |fault| suite::make(move |ring| Faulty::new(fault, ring, purpose));
    assert_eq!(failures(&codec(Fault::None), |_| true), [""; 0]);
    for (fault, test) in [
        (Fault::TrimsWhitespace, "refuses_other_spellings"),
        (Fault::IgnoresPadding, "refuses_other_spellings"),
        (Fault::ReadsBothAlphabets, "refuses_other_spellings"),
        (Fault::IgnoresTrailingBits, "refuses_other_spellings"),
        (
            Fault::AcceptsATruncatedTag,
            "refuses_segments_of_other_lengths",
        ),
        (
            Fault::ParsesFirst,
            "refuses_a_wrong_seal_whatever_is_under_it",
        ),
        (Fault::OneKeyForAllPurposes, "keeps_purposes_apart"),
        (
            Fault::OpensWithTheFirstKeyOnly,
            "rotates_keys_in_three_phases",
        ),
        (Fault::IgnoresTheKid, "refuses_every_other_character"),
        (Fault::TagsIgnoreTheMessage, "binds_the_principal"),
        (Fault::TagsIgnoreTheMessage, "binds_the_request"),
        (Fault::TagsIgnoreTheSlot, "keeps_tags_apart"),
        (Fault::TagsIgnoreTheKid, "rotates_keys_in_three_phases"),
        (Fault::PanicsOnShortTokens, "survives_any_string"),
        (Fault::PrintsTheKey, "debug_does_not_leak_key"),
        (Fault::SaysThatKeysLast, "knows_whether_keys_last"),
        (Fault::LosesEmptyPayloads, "opens_what_it_sealed"),
        (Fault::AnyVersion, "refuses_other_versions_and_variants"),
    ] {
        let failed = failures(&codec(fault), |name| name == test);
        assert_eq!(failed, [test], "{fault:?} passes");
    }
}
