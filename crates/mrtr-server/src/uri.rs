//! URIs of resources: what is one (RFC 3986), and what must not be read as a path.

/// Whether a text is a URI: a scheme, a colon, and characters that a URI has.
///
/// Letters beyond ASCII are not among them; in a URI they are percent-encoded.
pub(crate) fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    is_scheme && !rest.is_empty() && is_of_uris(rest)
}

/// Whether a text is made of what a URI may hold behind its scheme, every `%` the begin of an escape.
fn is_of_uris(text: &str) -> bool {
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let fits = match byte {
            b'%' => {
                let mut is_digit = || rest.next().is_some_and(|digit| digit.is_ascii_hexdigit());
                is_digit() && is_digit()
            }
            _ => byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=".contains(&byte),
        };
        if !fits {
            return false;
        }
    }
    true
}

/// Whether a `file:` URI is not the plain path that it seems to be: a segment `.` or `..`, however it is spelt, or a
/// separator or a control character behind an escape.
///
/// False for every other scheme: what its paths mean is the handler's to say.
pub(crate) fn is_detour(uri: &str) -> bool {
    let Some(path) = uri
        .split_once(':')
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("file"))
        .map(|(_, path)| path)
    else {
        return false;
    };
    path.split(['/', '\\', '?', '#']).any(|segment| {
        let decoded = decoded(segment);
        decoded
            .iter()
            .any(|byte| byte.is_ascii_control() || matches!(byte, b'/' | b'\\'))
            || matches!(decoded.as_slice(), b"." | b"..")
    })
}

/// Percent-decoded once; what begins no escape stays.
fn decoded(segment: &str) -> Vec<u8> {
    let hex = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let bytes = segment.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped = (byte == b'%')
            .then(|| hex(bytes.get(at + 1)).zip(hex(bytes.get(at + 2))))
            .flatten();
        match escaped.and_then(|(high, low)| u8::try_from(high * 16 + low).ok()) {
            Some(escaped) => {
                decoded.push(escaped);
                at += 3;
            }
            None => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_those_of_rfc_3986() {
        for good in [
            "note://today",
            "a:b",
            "urn:isbn:0451450523",
            "x-y+z.1://[::1]:80/a?b=c#d",
            "note://caf%C3%A9",
            "file:///a/b.c",
        ] {
            assert!(is_uri(good), "{good}");
        }
        for bad in [
            "",
            "note",
            "/a/b",
            ":b",
            "a:",
            "1a:b",
            "a_b://c",
            "note://two words",
            "note://caf\u{e9}",
            "note://%",
            "note://%4",
            "note://%zz",
            "note://a\\b",
            "note://a\nb",
            "note://{day}",
            "note://<a>",
        ] {
            assert!(!is_uri(bad), "{bad}");
        }
    }

    #[test]
    fn files_have_plain_paths() {
        for plain in [
            "file:///a/b.c",
            "file:///a/.hidden/..b/c..",
            "file:///a%20b/%C3%BC",
            "file:///a/...",
            "file:///C:/a",
            "note://a/../b",
        ] {
            assert!(!is_detour(plain), "{plain}");
        }
        for detour in [
            "file:///a/../b",
            "file:///a/..",
            "file:///./b",
            "file:///a/%2e%2E/b",
            "file:///a/.%2e/b",
            "file:///a/..%2fb",
            "file:///a%2Fb",
            "file:///%2Fetc%2Fpasswd",
            "file:///a/..%5cb",
            "file:///a\\..\\b",
            "file:///a/..?b",
            "file:///a%00b",
            "FILE:///a/../b",
            "file:../b",
        ] {
            assert!(is_detour(detour), "{detour}");
        }
    }
}
