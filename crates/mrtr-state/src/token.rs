//! The framing that every codec shares, for those who write one.
//!
//! ```text
//! mrtr1 . <variant> . <kid> . <segment> [ . <segment> ]
//! ```
//!
//! Segments are base64url without padding in their canonical spelling: one token, one spelling.
//! Nothing here interprets what a segment holds.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::codec::{Kid, WireState};
use crate::purpose::{Purpose, Variant};
use crate::reason::Reason;

/// The version of the token format: first part of every token, of every key derivation and of
/// everything that is authenticated.
pub const VERSION: &str = "mrtr1";

/// Starts a token with room for `payload_bytes` more, unencoded, in segments.
#[must_use]
pub fn start(variant: Variant, kid: Kid, payload_bytes: usize) -> String {
    // 4 characters for 3 bytes, and the prefix, separators and rounding.
    let mut token = String::with_capacity(payload_bytes / 3 * 4 + 48);
    token.push_str(VERSION);
    token.push('.');
    token.push(variant.letter());
    push_segment(&mut token, kid.as_bytes());
    token
}

/// Appends a separator and one segment.
pub fn push_segment(token: &mut String, bytes: &[u8]) {
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(bytes, token);
}

/// Splits a token of `variant` into its kid and exactly `N` further segments, undecoded.
///
/// # Errors
///
/// [`Reason::Malformed`] where version, variant or the number of segments differ, or the kid is
/// not eight bytes in their canonical spelling.
pub fn split<'a, const N: usize>(
    token: WireState<'a>,
    variant: Variant,
) -> Result<(Kid, [&'a str; N]), Reason> {
    let mut parts = token.as_str().split('.');
    let mut next = || parts.next().ok_or(Reason::Malformed);

    let mut letter = [0; 4];
    if next()? != VERSION || next()? != &*variant.letter().encode_utf8(&mut letter) {
        return Err(Reason::Malformed);
    }
    let kid = decode_array(next()?).map(Kid::from_bytes);
    let mut segments = [""; N];
    for segment in &mut segments {
        *segment = next()?;
    }
    match (kid, parts.next()) {
        (Some(kid), None) => Ok((kid, segments)),
        _ => Err(Reason::Malformed),
    }
}

/// Appends base64url without padding.
pub fn encode_into(bytes: &[u8], out: &mut String) {
    URL_SAFE_NO_PAD.encode_string(bytes, out);
}

/// Base64url without padding.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes a segment; `None` for anything but the canonical spelling (padding, non-zero bits
/// behind the last byte, whitespace, the other alphabet).
#[must_use]
pub fn decode(segment: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(segment).ok()
}

/// Decodes a segment of exactly `N` bytes; `None` for anything else.
#[must_use]
pub fn decode_array<const N: usize>(segment: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    match URL_SAFE_NO_PAD.decode_slice(segment, &mut bytes) {
        Ok(written) if written == N => Some(bytes),
        _ => None,
    }
}

/// Appends the length of `part` as eight bytes, big-endian, and `part` itself. A sequence of
/// such parts has one reading only.
pub fn put_length_prefixed(out: &mut Vec<u8>, part: &[u8]) {
    out.extend_from_slice(&length_prefix(part));
    out.extend_from_slice(part);
}

/// The eight bytes that [`put_length_prefixed`] puts before `part`.
#[must_use]
pub const fn length_prefix(part: &[u8]) -> [u8; 8] {
    (part.len() as u64).to_be_bytes()
}

/// What every codec authenticates beside its payload: version, variant and kid, each
/// length-prefixed.
#[must_use]
pub fn associated_data(variant: Variant, kid: Kid) -> Vec<u8> {
    let mut data = Vec::with_capacity(3 * 8 + VERSION.len() + 1 + 8);
    put_length_prefixed(&mut data, VERSION.as_bytes());
    put_length_prefixed(
        &mut data,
        variant.letter().encode_utf8(&mut [0; 4]).as_bytes(),
    );
    put_length_prefixed(&mut data, kid.as_bytes());
    data
}

/// The label for deriving a key: version, variant, purpose and what the key is used for, each
/// length-prefixed. Different labels, unrelated keys.
#[must_use]
pub fn derivation_label(variant: Variant, purpose: &Purpose, usage: &str) -> Vec<u8> {
    let mut label = Vec::with_capacity(96);
    put_length_prefixed(&mut label, VERSION.as_bytes());
    put_length_prefixed(
        &mut label,
        variant.letter().encode_utf8(&mut [0; 4]).as_bytes(),
    );
    put_length_prefixed(&mut label, purpose.namespace().as_bytes());
    put_length_prefixed(&mut label, purpose.name().as_bytes());
    put_length_prefixed(&mut label, usage.as_bytes());
    label
}
