//! JSON as a tree, the same in every build.
//!
//! serde_json keeps the text of a number where any crate of the build turns `arbitrary_precision` on. A handler would then take
//! numbers that it refuses elsewhere: `-0` as a signed integer, 2^64 as an `i128`.

use std::sync::LazyLock;

use serde_json::{Number, Value};

/// Whether numbers keep their text in this build.
static KEPT: LazyLock<bool> = LazyLock::new(|| {
    serde_json::from_str::<Number>("1.00").is_ok_and(|number| number.to_string() == "1.00")
});

/// Reads a text. What is no integer within 64 bits is a floating-point number, and so is `-0`, as in a build without
/// `arbitrary_precision`.
pub(crate) fn read(text: &str) -> serde_json::Result<Value> {
    let mut value = serde_json::from_str(text)?;
    if *KEPT {
        without_text(&mut value);
    }
    Ok(value)
}

/// Recursion is bounded: serde_json reads no deeper than 128.
fn without_text(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(same) = usual(number) {
                *number = same;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_text),
        Value::Object(members) => members.values_mut().for_each(without_text),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn usual(number: &Number) -> Option<Number> {
    match (number.as_u64(), number.as_i64()) {
        (Some(0), _) | (_, Some(0)) if number.to_string().starts_with('-') => {
            Number::from_f64(-0.0)
        }
        (Some(natural), _) => Some(natural.into()),
        (None, Some(integer)) => Some(integer.into()),
        (None, None) => number.as_f64().and_then(Number::from_f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_their_text_are_those_of_a_build_that_never_had_it() {
        // How a float is printed is serde_json's choice, and differs between builds; which one it is does not.
        let beyond = Number::from_f64(18_446_744_073_709_551_616.0)
            .unwrap()
            .to_string();
        for (text, usually) in [
            ("0", "0"),
            ("-0", "-0.0"),
            ("1", "1"),
            ("-1", "-1"),
            ("1.00", "1.0"),
            ("1e2", "100.0"),
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551616", beyond.as_str()),
            ("-9223372036854775808", "-9223372036854775808"),
        ] {
            let mut value: Value = serde_json::from_str(text).unwrap();
            without_text(&mut value);
            assert_eq!(value.to_string(), usually, "{text}");
            assert_eq!(value, read(text).unwrap(), "{text}");
        }
    }
}
