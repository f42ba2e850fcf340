use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::*;

/// The slow reference: one level at a time, recursively, each object with a set of its names. It reads numbers from their text, so it says
/// the same with serde_json's `arbitrary_precision`.
fn reference(raw: &RawValue) -> Result<(), &'static str> {
    let text = raw.get();
    match text.as_bytes()[0] {
        b'{' => {
            let Pairs(pairs) = serde_json::from_str(text).map_err(|_| "object")?;
            let mut names = BTreeSet::new();
            for (name, value) in pairs {
                if name.starts_with(RESERVED) || !names.insert(name) {
                    return Err("name");
                }
                reference(value)?;
            }
            Ok(())
        }
        b'[' => serde_json::from_str::<Vec<&RawValue>>(text)
            .map_err(|_| "array")?
            .into_iter()
            .try_for_each(reference),
        b'"' => serde_json::from_str::<String>(text)
            .map(|_| ())
            .map_err(|_| "string"),
        b'-' | b'0'..=b'9' => text
            .parse::<f64>()
            .unwrap()
            .is_finite()
            .then_some(())
            .ok_or("number"),
        _ => Ok(()),
    }
}

struct Pairs<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = Pairs<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(PairsVisitor)
    }
}

#[test]
fn finds_duplicates_at_any_depth_and_in_any_spelling() {
    for good in [
        r#"{}"#,
        r#"{"a":1}"#,
        r#"{"a":{"a":{"a":1}}}"#,
        r#"[{"a":1},{"a":2}]"#,
        r#"{"a":"b","b":"a"}"#,
        r#"{"a" : "a"}"#,
        r#"{"é":1,"e\u0301":2}"#,
    ] {
        assert_eq!(check(good.as_bytes()), Ok(()), "{good}");
    }
    for bad in [
        r#"{"a":1,"a":1}"#,
        r#"{"x":[[{"a":1,"b":{"c":1},"a":2}]]}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"a/b":1,"a\/b":2}"#,
        r#"{"":1,"":2}"#,
        r#"{"a":{"q":1},"b":1,"a" :2}"#,
        r#"{"😀":1,"\ud83d\ude00":2}"#,
    ] {
        assert!(
            matches!(check(bad.as_bytes()), Err(Violation::DuplicateName { .. })),
            "{bad}"
        );
    }
}

#[test]
fn case_262_bounds_depth_without_recursion() {
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert_eq!(check(nested(128).as_bytes()), Ok(()));
    assert_eq!(
        check(nested(129).as_bytes()),
        Err(Violation::TooDeep { at: 128 })
    );
    assert_eq!(
        check_with(nested(3).as_bytes(), 2),
        Err(Violation::TooDeep { at: 2 })
    );
    assert_eq!(check_with(nested(1_000_000).as_bytes(), usize::MAX), Ok(()));
}

#[test]
fn refuses_reserved_names_surrogates_and_numbers_out_of_range() {
    for name in [
        "$serde_json::private::RawValue",
        "$serde_json::private::Number",
        r"\u0024serde_json::private::x",
    ] {
        assert!(
            matches!(
                check(format!(r#"{{"x":{{"{name}":"1"}}}}"#).as_bytes()),
                Err(Violation::ReservedName { .. })
            ),
            "{name}"
        );
    }
    assert_eq!(
        check(br#"{"x":"$serde_json::private::RawValue"}"#),
        Ok(()),
        "as a value it is a string like any other"
    );
    for text in [
        r#"{"to":"\ud800"}"#,
        r#"["\udc00\ud800"]"#,
        r#"{"\ud800":1}"#,
    ] {
        assert!(
            matches!(check(text.as_bytes()), Err(Violation::LoneSurrogate { .. })),
            "{text}"
        );
    }
    assert_eq!(check(br#"["\ud83d\ude00"]"#), Ok(()));
    for text in ["1e400", "-1e400", "[1E999]", &"9".repeat(400)] {
        assert!(
            matches!(
                check(text.as_bytes()),
                Err(Violation::NumberOutOfRange { .. })
            ),
            "{text}"
        );
    }
    for text in [
        "1e-400",
        "1e308",
        "-0",
        "-0.0",
        "1.00",
        &"9".repeat(300),
        &format!("0.{}", "9".repeat(400)),
    ] {
        assert_eq!(check(text.as_bytes()), Ok(()), "{text}");
    }
}

#[test]
fn codes_follow_the_kind() {
    assert_eq!(
        check(br#"{"a":1,"a":1}"#).unwrap_err().code(),
        code::INVALID_REQUEST
    );
    assert_eq!(check(b"1e400").unwrap_err().code(), code::PARSE_ERROR);
    assert_eq!(check(b"\xff").unwrap_err(), Violation::NotJson { at: 0 });
}

#[test]
fn case_262_many_members_are_not_quadratic() {
    let members: Vec<String> = (0..200_000).map(|n| format!("\"key{n}\":0")).collect();
    let body = format!("{{{}}}", members.join(","));
    let twice = format!("{{{},\"key0\":0}}", members.join(","));
    let begun = Instant::now();
    assert_eq!(check(body.as_bytes()), Ok(()));
    assert!(matches!(
        check(twice.as_bytes()),
        Err(Violation::DuplicateName { .. })
    ));
    // Quadratic would be 2 * 10^10 comparisons; the bound is generous for slow machines.
    assert!(begun.elapsed() < Duration::from_secs(20));
}

/// JSON text whose names come from a small alphabet, so that duplicates are frequent, in several spellings.
fn json_text() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("\"a\""),
        Just("\"\\u0061\""),
        Just("\"b\""),
        Just("\"\""),
        Just("\"\\\"\""),
        Just("\"c\\\\\""),
        Just("\"é\""),
        Just("\"\\u00e9\""),
        Just("\"$serde_json::private::Number\""),
        Just("\"k:{\"")
    ];
    let leaf = prop_oneof![
        Just("1".to_owned()),
        Just("-0.5e3".to_owned()),
        Just("1e400".to_owned()),
        Just("true".to_owned()),
        Just("null".to_owned()),
        Just("\"a\"".to_owned()),
        Just("\"}:,\\\"\"".to_owned()),
        Just("\"\\ud800\"".to_owned()),
        Just("\"\\\\\"".to_owned())
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5)
                .prop_map(|items| format!("[{}]", items.join(" , "))),
            proptest::collection::vec((name.clone(), inner), 0..6).prop_map(|members| {
                let members: Vec<String> = members
                    .into_iter()
                    .map(|(name, value)| format!("{name} :\n{value}"))
                    .collect();
                format!("{{ {} }}", members.join(","))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn agrees_with_the_slow_reference(text in json_text()) {
        let expected = reference(serde_json::from_str(&text).unwrap());
        prop_assert_eq!(check(text.as_bytes()).is_ok(), expected.is_ok(), "{} {:?}", text, expected);
    }

    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = check(&bytes);
    }
}
