//! The canonical bytes of a number, from its text.
//!
//! ```text
//! <kind> <sign> <length> <digits> <exponent>
//!
//! kind      i: written without point and exponent;  d: with
//! sign      + or -, of a zero too
//! digits    the significant ones: no zero leads or trails. None: the number is zero
//! exponent  x <8 bytes: power of ten of the last digit, two's complement, big-endian>
//!        or y <the same for the digits alone> <sign> <length> <the written exponent's digits>
//! ```
//!
//! The value is `digits * 10^exponent`, exact at any length. The second form is for a written
//! exponent of more than [`MAX_EXPONENT_DIGITS`] digits, which no arithmetic here could hold:
//! it goes in as it is spelt. Such a number may then differ from another spelling of the same
//! value, and never equals a different one.

use crate::token::length_prefix;

/// 18 digits and the length of any text in memory add up within 64 bits.
const MAX_EXPONENT_DIGITS: usize = 18;

/// Emits the number `text`, which the scan has found to be one.
pub(super) fn emit(text: &str, sink: &mut impl FnMut(&[u8])) {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let decimal = exponent.is_some() || fraction.is_some();
    sink(if decimal { b"d" } else { b"i" });
    sink(if negative { b"-" } else { b"+" });

    // The significant digits lie in `whole`, in `fraction`, or across both.
    let fraction = fraction.unwrap_or_default();
    let mut whole = whole.trim_start_matches('0');
    let mut tail = fraction.trim_end_matches('0');
    let mut power = -as_i64(tail.len());
    if tail.is_empty() {
        let stripped = whole.trim_end_matches('0');
        power = as_i64(whole.len() - stripped.len());
        whole = stripped;
    }
    if whole.is_empty() {
        tail = tail.trim_start_matches('0');
    }
    sink(&(as_u64(whole.len()) + as_u64(tail.len())).to_be_bytes());
    sink(whole.as_bytes());
    sink(tail.as_bytes());
    if whole.is_empty() && tail.is_empty() {
        // Zero is zero under any exponent.
        return;
    }

    let exponent = exponent.unwrap_or("0");
    let (down, digits) = match exponent.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, exponent.strip_prefix('+').unwrap_or(exponent)),
    };
    let digits = digits.trim_start_matches('0');
    if digits.len() <= MAX_EXPONENT_DIGITS {
        let written: i64 = digits.bytes().fold(0, |n, d| n * 10 + i64::from(d - b'0'));
        sink(b"x");
        sink(&(power + if down { -written } else { written }).to_be_bytes());
    } else {
        sink(b"y");
        sink(&power.to_be_bytes());
        sink(if down { b"-" } else { b"+" });
        sink(&length_prefix(digits.as_bytes()));
        sink(digits.as_bytes());
    }
}

fn as_i64(len: usize) -> i64 {
    // Nothing in memory is longer than `isize::MAX`.
    i64::try_from(len).unwrap_or(i64::MAX)
}

fn as_u64(len: usize) -> u64 {
    len as u64
}
