//! JSON texts, and texts that are none: what readers of JSON have been at odds about.

/// Numbers, in every spelling that one reader or another has changed, rounded or refused.
pub(crate) const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "0.0",
    "-0.0",
    "0e0",
    "0e999999999999999999999",
    "1",
    "1.0",
    "1.00",
    "1e0",
    "1E0",
    "1E+0",
    "1e-0",
    "10e-1",
    "0.1e1",
    "-1",
    "2.0",
    "1e2",
    "100",
    "1.5",
    "0.1",
    "0.30000000000000004",
    "1e22",
    "1e23",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "9007199254740993.0",
    "-9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "123456789012345678901234567890",
    "-123456789012345678901234567890",
    "1.7976931348623157e308",
    "1.7976931348623159e308",
    "1e308",
    "1e309",
    "1e400",
    "1E400",
    "-1e400",
    "1e-400",
    "5e-324",
    "4.9406564584124654e-324",
    "1e-324",
    "2.2250738585072011e-308",
    "3.141592653589793238462643383279502884197",
    "0.000000000000000000000000000000000000001",
    "1e99999999999999999999",
    "1e-99999999999999999999",
    "60",
    "120",
    "121",
    "255",
    "256",
    "4294967295",
    "4294967296",
    "2e0",
    "20e-1",
    // None of these is a number.
    "01",
    "+1",
    ".5",
    "1.",
    "-",
    "1e",
    "1e+",
    "0x10",
    "NaN",
    "Infinity",
    "-Infinity",
    "1_000",
    "--1",
    "1.0.0",
];

/// Everything that is not a number.
pub(crate) const OTHERS: &[&str] = &[
    "null",
    "true",
    "false",
    "\"\"",
    "\"a\"",
    r#""\u0061""#,
    r#""\u00e9""#,
    "\"é\"",
    "\"e\u{301}\"",
    r#""\ud83d\ude00""#,
    "\"\u{1f600}\"",
    r#""\ud800""#,
    r#""\udc00""#,
    r#""\ude00\ud83d""#,
    r#""\ud83d\u0041""#,
    r#""a\ud800""#,
    r#""\u0000""#,
    "\"\u{0}\"",
    r#""\/""#,
    "\"/\"",
    r#""\x41""#,
    "\"a\nb\"",
    "\"\u{feff}\"",
    "\"1\"",
    "\"1.0\"",
    "{}",
    "[]",
    "[1]",
    "[1.0]",
    "[[],{}]",
    r#"{"a":1}"#,
    r#"{"a":1.0}"#,
    r#"{"b":1,"a":2}"#,
    r#"{"a":2,"b":1}"#,
    r#"{ "a" : 2 , "b" : 1 }"#,
    r#"{"a":1,"a":2}"#,
    r#"{"a":1,"\u0061":1}"#,
    r#"{"a":{"x":1,"x":1}}"#,
    r#"[{"x":1,"y":{"z":0,"z":0}}]"#,
    "{\"\u{20ac}\":1,\"\\r\":2,\"\u{fb33}\":3,\"1\":4,\"\u{1f600}\":5,\"\u{80}\":6,\"\u{f6}\":7}",
    "{\"\u{fb33}\":3,\"1\":4,\"\u{1f600}\":5,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":1,\"\\r\":2}",
    r#"{"":0}"#,
    r#"{"\ud800":0}"#,
    r#"{"A":0,"a":1}"#,
    r#"{"n":1e2,"m":[1e400]}"#,
    r#"{"n":[1,1.0,1e0,{"k":-0}]}"#,
    r#"{"$serde_json::private::Number":"1"}"#,
    r#"{"$serde_json::private::Number":"1e400"}"#,
    r#"{"$serde_json::private::RawValue":"[1]"}"#,
    r#"{"\u0024serde_json::private::Number":"x"}"#,
    r#"{"$serde_json::private::Number":"1","a":2}"#,
    r#"[{"$serde_json::private::Number":"NaN"}]"#,
    "",
    " ",
    "{",
    "[",
    "]",
    "{]",
    "\"",
    "[1,]",
    "{\"a\":1,}",
    "{a:1}",
    "'a'",
    "nul",
    "True",
    "1 2",
    "{}{}",
    "/**/1",
    "\u{feff}1",
];

/// All of them, with what is too long to be written out.
pub(crate) fn all() -> Vec<String> {
    let mut texts: Vec<String> = NUMBERS
        .iter()
        .chain(OTHERS)
        .map(|text| (*text).to_owned())
        .collect();
    for depth in [100, 120, 124, 125, 126, 127, 128, 129, 1_000] {
        texts.push(format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        texts.push(format!(
            "{}1e0{}",
            "{\"a\":".repeat(depth),
            "}".repeat(depth)
        ));
    }
    for digits in [19, 308, 309, 310, 1_000] {
        texts.push("9".repeat(digits));
        texts.push(format!("0.{}1", "0".repeat(digits)));
        texts.push(format!("{}e-{digits}", "9".repeat(digits)));
    }
    let members = |names: &mut dyn Iterator<Item = usize>| {
        let members: Vec<String> = names.map(|n| format!("\"k{n}\":{n}.0")).collect();
        format!("{{{}}}", members.join(","))
    };
    texts.push(members(&mut (0..100)));
    texts.push(members(&mut (0..100).rev()));
    texts.push(members(&mut (0..100).chain([7])));
    texts.push(format!("\"{}\"", "é".repeat(2_000)));
    texts
}
