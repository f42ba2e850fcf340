//! Properties of the digest: one for all spellings of a text, another for every other text.

use mrtr_state::{DigestError, JsonDigest, RequestDigest};
use proptest::prelude::*;

/// A JSON value as a text means it. Numbers are kept as kind, sign, digits and exponent.
#[derive(Clone, Debug, PartialEq)]
enum Json {
    Null,
    Bool(bool),
    Integer(Integer),
    Decimal(Decimal),
    String(String),
    Array(Vec<Json>),
    /// Sorted by name, names different.
    Object(Vec<(String, Json)>),
}

#[derive(Clone, Debug, PartialEq)]
struct Integer {
    negative: bool,
    /// No zero leads, unless it is the only digit.
    digits: String,
}

#[derive(Clone, Debug, PartialEq)]
struct Decimal {
    negative: bool,
    /// Neither end is a zero. Empty: the number is zero, and `power` too.
    digits: String,
    /// The power of ten of the last digit.
    power: i32,
}

fn json() -> impl Strategy<Value = Json> {
    let integer = (any::<bool>(), "0|[1-9][0-9]{0,30}")
        .prop_map(|(negative, digits)| Json::Integer(Integer { negative, digits }));
    let digits = "[1-9]|[1-9][0-9]{0,30}[1-9]";
    let decimal = (any::<bool>(), digits, -400..400).prop_map(|(negative, digits, power)| {
        Json::Decimal(Decimal {
            negative,
            digits,
            power,
        })
    });
    let zero = any::<bool>().prop_map(|negative| {
        Json::Decimal(Decimal {
            negative,
            digits: String::new(),
            power: 0,
        })
    });
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        integer,
        decimal,
        zero,
        any::<String>().prop_map(Json::String),
        "[a-c\u{e9}\u{301}\u{1f600}\"\\\\]{0,3}".prop_map(Json::String),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            prop::collection::btree_map("[a-c\u{e9}\u{1f600}\"]{0,2}", inner, 0..6)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

/// A source of choices for one of a value's spellings.
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % bound
    }
}

/// Writes one of the value's spellings.
fn spell(json: &Json, choices: &mut Choices, out: &mut String) {
    let space = |choices: &mut Choices, out: &mut String| {
        for _ in 0..choices.below(3) {
            out.push([' ', '\t', '\n', '\r'][choices.below(4) as usize]);
        }
    };
    space(choices, out);
    match json {
        Json::Null => out.push_str("null"),
        Json::Bool(true) => out.push_str("true"),
        Json::Bool(false) => out.push_str("false"),
        Json::Integer(integer) => {
            out.push_str(if integer.negative { "-" } else { "" });
            out.push_str(&integer.digits);
        }
        Json::Decimal(decimal) => spell_decimal(decimal, choices, out),
        Json::String(text) => spell_string(text, choices, out),
        Json::Array(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                out.push_str(if n > 0 { "," } else { "" });
                spell(item, choices, out);
            }
            space(choices, out);
            out.push(']');
        }
        Json::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            for n in (1..members.len()).rev() {
                members.swap(n, choices.below(n as u64 + 1) as usize);
            }
            out.push('{');
            for (n, (name, value)) in members.into_iter().enumerate() {
                out.push_str(if n > 0 { "," } else { "" });
                space(choices, out);
                spell_string(name, choices, out);
                space(choices, out);
                out.push(':');
                spell(value, choices, out);
            }
            space(choices, out);
            out.push('}');
        }
    }
    space(choices, out);
}

fn spell_decimal(decimal: &Decimal, choices: &mut Choices, out: &mut String) {
    out.push_str(if decimal.negative { "-" } else { "" });
    // Some zeros behind, the point somewhere, and the exponent that makes up for both.
    let zeros = choices.below(4) as usize;
    let digits = format!("{}{}", decimal.digits, "0".repeat(zeros));
    let digits = if digits.is_empty() { "0" } else { &digits };
    let fraction = choices.below(digits.len() as u64 + 4) as usize;
    let padded = format!("{digits:0>width$}", width = fraction + 1);
    let (whole, part) = padded.split_at(padded.len() - fraction);
    out.push_str(match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    });
    if !part.is_empty() {
        out.push('.');
        out.push_str(part);
    }
    let exponent = match decimal.digits.is_empty() {
        true => choices.below(2_000) as i64 - 1_000,
        false => i64::from(decimal.power) - zeros as i64 + fraction as i64,
    };
    // Without a point, the exponent is what makes it a decimal.
    if exponent != 0 || part.is_empty() || choices.below(2) == 0 {
        out.push(['e', 'E'][choices.below(2) as usize]);
        out.push_str(match (exponent < 0, choices.below(2)) {
            (true, _) => "-",
            (false, 0) => "+",
            (false, _) => "",
        });
        out.push_str(&"0".repeat(choices.below(3) as usize));
        out.push_str(&exponent.unsigned_abs().to_string());
    }
}

fn spell_string(text: &str, choices: &mut Choices, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        let short = match c {
            '"' => Some('"'),
            '\\' => Some('\\'),
            '/' => Some('/'),
            '\u{8}' => Some('b'),
            '\u{c}' => Some('f'),
            '\n' => Some('n'),
            '\r' => Some('r'),
            '\t' => Some('t'),
            _ => None,
        };
        let may_be_bare = c > '\u{1f}' && c != '"' && c != '\\';
        match (short, choices.below(3)) {
            (_, 0) if may_be_bare => out.push(c),
            (Some(short), 1) => out.extend(['\\', short]),
            (None, 1) if may_be_bare => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let digits = format!("{unit:04x}");
                    out.push_str("\\u");
                    out.push_str(&match choices.below(2) {
                        0 => digits,
                        _ => digits.to_uppercase(),
                    });
                }
            }
        }
    }
    out.push('"');
}

fn spelling(json: &Json, seed: u64) -> String {
    let mut out = String::new();
    spell(json, &mut Choices(seed | 1), &mut out);
    out
}

fn digest(text: &str) -> Result<JsonDigest, DigestError> {
    JsonDigest::of("test", text)
}

/// All values that differ from `json` in one place, in one way of many.
fn neighbours(json: &Json) -> Vec<Json> {
    let mut all = match json {
        Json::Null => vec![Json::Bool(false), Json::String("null".into())],
        Json::Bool(b) => vec![Json::Bool(!b), Json::Null, Json::String(b.to_string())],
        Json::Integer(i) => {
            let with = |digits: String| {
                Json::Integer(Integer {
                    digits,
                    ..i.clone()
                })
            };
            let stripped = i.digits.trim_end_matches('0');
            vec![
                Json::Integer(Integer {
                    negative: !i.negative,
                    ..i.clone()
                }),
                with(format!("1{}", i.digits)),
                match &*i.digits {
                    "0" => with("1".into()),
                    digits => with(format!("{digits}0")),
                },
                // The same value, of the other kind.
                Json::Decimal(Decimal {
                    negative: i.negative,
                    digits: stripped.to_owned(),
                    power: match stripped {
                        "" => 0,
                        _ => (i.digits.len() - stripped.len()) as i32,
                    },
                }),
                Json::String(i.digits.clone()),
            ]
        }
        Json::Decimal(d) => {
            let with = |digits: String, power| {
                Json::Decimal(Decimal {
                    negative: d.negative,
                    digits,
                    power,
                })
            };
            vec![
                Json::Decimal(Decimal {
                    negative: !d.negative,
                    ..d.clone()
                }),
                with(format!("1{}", d.digits), d.power),
                with(format!("{}1", d.digits), d.power),
                with(format!("{}1", d.digits), d.power - 1),
                match d.digits.is_empty() {
                    true => Json::Null,
                    false => with(d.digits.clone(), d.power + 1),
                },
            ]
        }
        Json::String(s) => vec![
            Json::String(format!("{s}a")),
            Json::String(format!("{s}\0")),
            Json::String(format!(" {s}")),
            Json::Array(vec![json.clone()]),
            Json::Object(vec![(s.clone(), Json::Null)]),
        ],
        Json::Array(items) => {
            let mut all = vec![
                Json::Array(vec![json.clone()]),
                Json::Array([items.clone(), vec![Json::Null]].concat()),
                Json::Object(vec![]),
            ];
            for n in 0..items.len() {
                let mut without = items.clone();
                without.remove(n);
                all.push(Json::Array(without));
                for other in neighbours(&items[n]) {
                    let mut items = items.clone();
                    items[n] = other;
                    all.push(Json::Array(items));
                }
                if n > 0 && items[n] != items[n - 1] {
                    let mut swapped = items.clone();
                    swapped.swap(n, n - 1);
                    all.push(Json::Array(swapped));
                }
            }
            all
        }
        Json::Object(members) => {
            let more = ("zzz".to_owned(), Json::Null);
            let mut all = vec![
                Json::Array(members.iter().map(|(_, value)| value.clone()).collect()),
                Json::Object([members.clone(), vec![more]].concat()),
            ];
            for n in 0..members.len() {
                let mut without = members.clone();
                without.remove(n);
                all.push(Json::Object(without));
                let mut renamed = members.clone();
                renamed[n].0.push('\u{301}');
                all.push(Json::Object(renamed));
                for other in neighbours(&members[n].1) {
                    let mut members = members.clone();
                    members[n].1 = other;
                    all.push(Json::Object(members));
                }
            }
            all
        }
    };
    all.retain(|other| other != json);
    all
}

proptest! {
    #[test]
    fn all_spellings_share_one_digest(json in json(), seeds: [u64; 3]) {
        let digests = seeds.map(|seed| digest(&spelling(&json, seed)).unwrap());
        prop_assert_eq!(digests[0], digests[1]);
        prop_assert_eq!(digests[0], digests[2]);
    }

    #[test]
    fn every_other_text_has_another(json in json(), seed: u64) {
        let own = digest(&spelling(&json, seed)).unwrap();
        for other in neighbours(&json) {
            let text = spelling(&other, seed.rotate_left(7));
            prop_assert_ne!(own, digest(&text).unwrap(), "{:?} and {:?}", json, other);
        }
    }

    /// The reader here and `serde_json` agree on what is JSON, numbers that overflow aside.
    #[test]
    fn reads_what_serde_json_reads(
        json in json(),
        seed: u64,
        at: prop::sample::Index,
        c in "[\\[\\]{}:,\"\\\\ 0-9eE.+-]|\\\\u[dD][89abcAC]00|.",
    ) {
        let mut text = spelling(&json, seed);
        let ours = |text: &str| match digest(text) {
            Ok(_) | Err(DigestError::DuplicateName) => true,
            Err(_) => false,
        };
        // A raw value takes a number of any size.
        let theirs = |text: &str| {
            serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
                // ... and does not decode strings, where a lone surrogate hides.
                && (!text.contains("\\u") || serde_json::from_str::<serde_json::Value>(text).is_ok())
        };
        let overflows = |text: &str| {
            serde_json::from_str::<serde_json::Value>(text)
                .is_err_and(|error| error.to_string().starts_with("number out of range"))
        };
        prop_assert!(ours(&text));
        let positions: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        text.insert_str(positions[at.index(positions.len())], &c);
        if !overflows(&text) {
            prop_assert_eq!(ours(&text), theirs(&text), "{}", text);
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "[\\[\\]{}:,\"\\\\ 0-9eE.+\\-utrfalsn\u{e9}]{0,40}") {
        let _ = digest(&text);
    }
}

#[test]
fn kinds_signs_and_values_of_numbers() {
    let groups: &[&[&str]] = &[
        &["1"],
        &[
            "1.0",
            "1.00",
            "1e0",
            "10e-1",
            "0.1e1",
            "1E+0",
            "1e-0",
            "0.01E+002",
        ],
        &["-1"],
        &["-1.0"],
        &["0"],
        &["-0"],
        &["0.0", "0e0", "0.000", "0e99", "0E-99999999999999999999"],
        &["-0.0", "-0e0"],
        &["100"],
        &["100.0", "1e2", "1e+02"],
        &["9007199254740992"],
        &["9007199254740993"],
        &["9007199254740992.0"],
        &["9007199254740993.0"],
        &["0.1"],
        &["0.10000000000000000555"],
        &["1e400", "10e399"],
        &["1e-400"],
        &["1e999999999999999999", "10e999999999999999998"],
        &["1e9999999999999999999", "1e+009999999999999999999"],
        &["1e-9999999999999999999"],
        &["2e9999999999999999999"],
        &["1.5e9999999999999999999"],
        &["15e9999999999999999999"],
    ];
    for (i, group) in groups.iter().enumerate() {
        for (j, other) in groups.iter().enumerate() {
            for a in *group {
                for b in *other {
                    assert_eq!(
                        digest(a).unwrap() == digest(b).unwrap(),
                        i == j,
                        "{a} and {b}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_is_not_json_has_no_digest() {
    assert!(digest("[1]").is_ok());
    for text in [
        "",
        " ",
        "nul",
        "nulll",
        "True",
        "+1",
        "01",
        "-",
        "-a",
        "1.",
        ".5",
        "1e",
        "1e+",
        "1.e1",
        "0x1",
        "NaN",
        "Infinity",
        "-Infinity",
        "[",
        "]",
        "[1",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{",
        "{}}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "{'a':1}",
        "'a'",
        "\"",
        "\"\n\"",
        "\"\t\"",
        "\"\0\"",
        "\"\u{1f}\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\ud800x\"",
        "\"\\ud800\\n\"",
        "\"\\ud800\\ud800\"",
        "\"\\udc00\"",
        "{\"\\ud800\":1}",
        "1 1",
        "[1]x",
        "\u{feff}1",
        "\u{a0}1",
        "/**/1",
        "1//",
        "\"\\",
    ] {
        assert!(
            matches!(digest(text), Err(DigestError::Syntax { .. })),
            "{text:?}: {:?}",
            digest(text)
        );
    }
    // Where it went wrong, in bytes.
    assert_eq!(digest("[1,x]"), Err(DigestError::Syntax { at: 3 }));
}

#[test]
fn nesting_is_bounded() {
    let nested =
        |open: &str, close: &str, depth| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        assert!(digest(&nested(open, close, 128)).is_ok());
        for depth in [129, 1_000_000] {
            let deep = digest(&nested(open, close, depth));
            assert_eq!(deep, Err(DigestError::TooDeep));
        }
    }
}

#[test]
fn names_that_occur_twice_are_refused() {
    assert!(digest(r#"{"a":1,"b":{"a":1},"A":2}"#).is_ok());
    for text in [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"a":1,"b":2,"a":3}"#,
        r#"{"b":1,"a":2,"b":3}"#,
        r#"[{"x":{"b":1,"a":2,"b":3}}]"#,
        r#"{"":1,"":2}"#,
    ] {
        assert_eq!(digest(text), Err(DigestError::DuplicateName), "{text}");
    }
}

#[test]
fn large_inputs_take_time_in_proportion() {
    // Quadratic behaviour would take minutes on any of these.
    let unsorted: Vec<String> = (0..100_000)
        .rev()
        .map(|n| format!("\"{n:06}\":{n}"))
        .collect();
    assert!(digest(&format!("{{{}}}", unsorted.join(","))).is_ok());
    let deep = format!("{{\"b\":1,\"a\":{}", "{\"b\":1,\"a\":".repeat(126));
    let deep = format!("{deep}\"{}\"{}", "\\n".repeat(1 << 20), "}".repeat(127));
    assert!(digest(&deep).is_ok());
    let digits = "9".repeat(1 << 20);
    assert!(digest(&format!("[{digits}.{digits}e{digits}]")).is_ok());
}

#[test]
fn labels_and_kinds_of_parts_count() {
    let builder = || RequestDigest::builder("m", "t");
    let all = [
        builder().finish(),
        RequestDigest::builder("mt", "").finish(),
        builder().absent("a").finish(),
        builder().absent("b").finish(),
        builder().absent("a").absent("b").finish(),
        builder().absent("b").absent("a").finish(),
        builder().bytes("a", b"").finish(),
        builder().bytes("a", b"n").finish(),
        builder().bytes("", b"an").finish(),
        builder().json("a", "null").unwrap().finish(),
        builder().json("a", "\"\"").unwrap().finish(),
        builder().json("a", "{}").unwrap().finish(),
    ];
    for (i, a) in all.iter().enumerate() {
        for (j, b) in all.iter().enumerate() {
            assert_eq!(a == b, i == j, "{i} and {j}");
        }
    }
    assert_eq!(
        builder().json("a", "[").unwrap_err(),
        DigestError::Syntax { at: 1 }
    );
    assert_ne!(JsonDigest::of("a", "1"), JsonDigest::of("b", "1"));
    assert_eq!(format!("{:?}", builder().finish()), "RequestDigest(..)");
}
