//! What can be read of a state without any key.

use base64::Engine as _;
use base64::engine::general_purpose::{
    GeneralPurpose, STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD,
};
use serde_json::Value;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A part of a state that is JSON, and how to write it back.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// Which of the state's segments it is.
    pub(crate) index: usize,
    pub(crate) json: Value,
    /// `None`: the JSON stands in the state as it is.
    encoding: Option<&'static GeneralPurpose>,
}

impl Part {
    pub(crate) fn write(&self, json: &Value) -> String {
        match self.encoding {
            Some(encoding) => encoding.encode(json.to_string()),
            None => json.to_string(),
        }
    }
}

/// The parts between the dots; one where there is no dot, or where the state is JSON itself.
pub(crate) fn segments(state: &str) -> Vec<&str> {
    match json(state.as_bytes()) {
        Some(_) => vec![state],
        None => state.split('.').collect(),
    }
}

/// The parts of a state that are JSON objects or arrays.
pub(crate) fn parts(state: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    for (index, segment) in segments(state).into_iter().enumerate() {
        let plain = json(segment.as_bytes()).map(|json| (None, json));
        let found = plain.or_else(|| {
            encodings()
                .into_iter()
                .find_map(|encoding| Some((Some(encoding), json(&encoding.decode(segment).ok()?)?)))
        });
        if let Some((encoding, json)) = found {
            parts.push(Part {
                index,
                json,
                encoding,
            });
        }
    }
    parts
}

fn encodings() -> [&'static GeneralPurpose; 4] {
    [&URL_SAFE_NO_PAD, &STANDARD_NO_PAD, &URL_SAFE, &STANDARD]
}

fn json(bytes: &[u8]) -> Option<Value> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    (value.is_object() || value.is_array()).then_some(value)
}

/// Everything that the segments decode to, as text with losses.
pub(crate) fn readable(state: &str) -> String {
    let mut text = state.to_owned();
    for segment in segments(state) {
        let decoded = encodings()
            .into_iter()
            .find_map(|encoding| encoding.decode(segment).ok());
        if let Some(bytes) = decoded {
            text.push('\n');
            text.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
    text
}

/// The same document with one leaf changed, once for each leaf.
pub(crate) fn edits(document: &Value) -> Vec<Value> {
    let mut pointers = Vec::new();
    leaves(document, &mut String::new(), &mut pointers);
    let edited = pointers.iter().filter_map(|pointer| {
        let mut copy = document.clone();
        let leaf = copy.pointer_mut(pointer)?;
        *leaf = changed(leaf);
        Some(copy)
    });
    edited.collect()
}

fn leaves(value: &Value, at: &mut String, found: &mut Vec<String>) {
    let length = at.len();
    let mut step = |name: &str, inner: &Value| {
        at.push('/');
        at.push_str(&name.replace('~', "~0").replace('/', "~1"));
        leaves(inner, at, found);
        at.truncate(length);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, inner)| step(name, inner)),
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                step(&index.to_string(), inner);
            }
        }
        _ => found.push(at.clone()),
    }
}

/// Another value of the same type.
pub(crate) fn changed(value: &Value) -> Value {
    match value {
        Value::Bool(value) => Value::Bool(!value),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => number.saturating_add(1).into(),
            (None, Some(number)) => (number + 1.0).into(),
            _ => Value::from(1),
        },
        Value::String(text) => format!("{text}x").into(),
        other => other.clone(),
    }
}

/// The state with the character at a position changed, so that the bytes that it stands for are others: in base64 one bit, and of the
/// last character of a segment one that is used.
pub(crate) fn flipped(state: &str, at: usize) -> Option<String> {
    let mut bytes = state.as_bytes().to_vec();
    let last = matches!(bytes.get(at + 1), None | Some(b'.' | b'='));
    let byte = bytes.get_mut(at)?;
    if !byte.is_ascii() {
        return None;
    }
    *byte = match value_of(*byte) {
        Some(value) => {
            let bit = if last { 5 } else { at % 6 };
            *ALPHABET.get(value ^ (1 << bit))?
        }
        None if *byte == b'.' => b'A',
        None => b'.',
    };
    String::from_utf8(bytes).ok()
}

fn value_of(byte: u8) -> Option<usize> {
    let byte = match byte {
        b'+' => b'-',
        b'/' => b'_',
        other => other,
    };
    ALPHABET.iter().position(|other| *other == byte)
}

/// Spellings of a segment's last character that differ in bits that carry nothing.
pub(crate) fn unused_bits(segment: &str) -> Vec<String> {
    let unused = match segment.len() % 4 {
        2 => 4,
        3 => 2,
        _ => return Vec::new(),
    };
    let Some((start, last)) = segment.split_at_checked(segment.len() - 1) else {
        return Vec::new();
    };
    let Some(value) = last.bytes().next().and_then(value_of) else {
        return Vec::new();
    };
    let others = (1..1_usize << unused).filter_map(|bits| ALPHABET.get(value ^ bits));
    others
        .map(|byte| format!("{start}{}", char::from(*byte)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn journals_are_found_in_every_dress() {
        let journal = json!({ "p": "alice", "n": [1, true] });
        for state in [
            journal.to_string(),
            URL_SAFE_NO_PAD.encode(journal.to_string()),
            format!("v1.{}.c2ln", STANDARD.encode(journal.to_string())),
        ] {
            let found = parts(&state);
            assert_eq!(found.len(), 1, "{state}");
            assert_eq!(found[0].json, journal);
            assert!(state.contains(&found[0].write(&journal)), "{state}");
        }
        assert!(parts("v1.c2ln.c2ln").is_empty());
        let edited = edits(&journal);
        assert_eq!(edited.len(), 3);
        assert!(edited.contains(&json!({ "p": "alicex", "n": [1, true] })));
        assert!(edited.contains(&json!({ "p": "alice", "n": [1, false] })));
    }

    #[test]
    fn a_flip_changes_bytes_and_other_bits_do_not() {
        let lenient = base64::engine::GeneralPurposeConfig::new()
            .with_encode_padding(false)
            .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true);
        let lenient = GeneralPurpose::new(&base64::alphabet::URL_SAFE, lenient);
        for bytes in [&b"a"[..], b"ab", b"abc", b"abcd"] {
            let state = URL_SAFE_NO_PAD.encode(bytes);
            for at in 0..state.len() {
                let flipped = flipped(&state, at).unwrap();
                assert_ne!(
                    lenient.decode(&flipped).unwrap(),
                    bytes,
                    "{state} {flipped}"
                );
            }
            for other in unused_bits(&state) {
                assert_ne!(other, state);
                assert_eq!(lenient.decode(&other).unwrap(), bytes, "{state} {other}");
            }
        }
        assert_eq!(unused_bits("YQ").len(), 15);
        assert_eq!(unused_bits("YWI").len(), 3);
    }
}
