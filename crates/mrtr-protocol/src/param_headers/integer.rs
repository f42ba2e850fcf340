//! Integers by value: what a JSON number is worth, told from its text and never through a float.

use super::SAFE_INTEGER;

/// A number without a fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Integer {
    /// From -(2^53 - 1) to 2^53 - 1.
    Safe(i64),
    /// Beyond.
    Unsafe,
}

/// The most digits of a safe integer.
const DIGITS: usize = 16;

impl Integer {
    /// Reads a text that is spelt as JSON spells numbers. `None`: it is not, or it has a fraction that is not zero.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (rest, None),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) => (whole, digits(fraction)?),
            None => (mantissa, ""),
        };
        let whole = digits(whole)?;
        if whole.len() > 1 && whole.starts_with('0') {
            return None;
        }
        let exponent = exponent.map_or(Some(Exponent::Of(0)), Exponent::read)?;
        let all = [whole, fraction].concat();
        let significant = all.trim_start_matches('0');
        let trimmed = significant.trim_end_matches('0');
        if trimmed.is_empty() {
            return Some(Self::Safe(0));
        }
        // The value is `trimmed` times ten to this power.
        let zeros = i64::try_from(significant.len() - trimmed.len()).ok()?;
        let power = match exponent {
            Exponent::Of(power) => power + zeros - i64::try_from(fraction.len()).ok()?,
            Exponent::Huge => return Some(Self::Unsafe),
            Exponent::Tiny => return None,
        };
        let power = usize::try_from(power).ok()?;
        if trimmed.len().saturating_add(power) > DIGITS {
            return Some(Self::Unsafe);
        }
        let value: i64 = format!("{trimmed}{}", "0".repeat(power)).parse().ok()?;
        Some(match value <= SAFE_INTEGER {
            true => Self::Safe(if negative { -value } else { value }),
            false => Self::Unsafe,
        })
    }
}

enum Exponent {
    Of(i64),
    /// Larger than any text is long.
    Huge,
    /// The same below zero.
    Tiny,
}

impl Exponent {
    fn read(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(text) => (true, text),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let significant = digits(text)?.trim_start_matches('0');
        if significant.len() > 15 {
            return Some(if negative { Self::Tiny } else { Self::Huge });
        }
        let value: i64 = match significant {
            "" => 0,
            digits => digits.parse().ok()?,
        };
        Some(Self::Of(if negative { -value } else { value }))
    }
}

fn digits(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_value_has_many_spellings() {
        for text in [
            "42", "42.0", "42.000", "4.2e1", "4.2E+1", "420e-1", "4200e-2", "0.42e2", "42e0",
            "42e-0", "42e000",
        ] {
            assert_eq!(Integer::read(text), Some(Integer::Safe(42)), "{text}");
        }
        for text in [
            "0",
            "-0",
            "0.0",
            "0e9999999999999999999",
            "-0.00e-99999999999999999999",
        ] {
            assert_eq!(Integer::read(text), Some(Integer::Safe(0)), "{text}");
        }
        let safe = |text| Integer::read(text).unwrap();
        assert_eq!(safe("9007199254740991"), Integer::Safe(SAFE_INTEGER));
        assert_eq!(safe("-9007199254740991"), Integer::Safe(-SAFE_INTEGER));
        for text in [
            "9007199254740992",
            "-9007199254740992",
            "1e16",
            "1e99999999999999999999",
            "123456789012345678901234567890",
            "9007199254740992.0",
        ] {
            assert_eq!(safe(text), Integer::Unsafe, "{text}");
        }
    }

    #[test]
    fn what_is_no_integer_is_none() {
        for text in [
            "",
            "-",
            "+1",
            "01",
            "1.",
            ".5",
            "0.5",
            "1.5",
            "42.0001",
            "1e-1",
            "1e",
            "1e+",
            "1ee1",
            "0x2a",
            " 42",
            "42 ",
            "4_2",
            "٤٢",
            "NaN",
            "Infinity",
            "--1",
            "1e-99999999999999999999",
            "-e1",
            "1.0.0",
        ] {
            assert_eq!(Integer::read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn spellings_agree(value in -SAFE_INTEGER..=SAFE_INTEGER, zeros in 0_usize..5, shift in 0_usize..5) {
            let text = value.to_string();
            prop_assert_eq!(Integer::read(&text), Some(Integer::Safe(value)));
            let fraction = format!("{text}.{}", "0".repeat(zeros + 1));
            prop_assert_eq!(Integer::read(&fraction), Some(Integer::Safe(value)));
            let shifted = format!("{text}{}e-{shift}", "0".repeat(shift));
            if value != 0 {
                prop_assert_eq!(Integer::read(&shifted), Some(Integer::Safe(value)));
            }
        }

        #[test]
        fn no_text_panics(text in "[-+0-9.eE]{0,24}") {
            let read = Integer::read(&text);
            // Where serde_json agrees that it is a number, so does this, for whole ones.
            if let (Some(Integer::Safe(value)), Ok(number)) = (read, text.parse::<f64>()) {
                prop_assert!((number - value as f64).abs() < 1.0);
            }
        }
    }
}
