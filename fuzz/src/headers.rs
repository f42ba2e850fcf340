//! One encoding of each value, and what is mirrored is recognised.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mrtr_protocol::headers::{decode, encode};
use mrtr_protocol::{JsonObject, Members, ParamHeaders};

/// A header's value; or, in three lines, a header's value, an input schema and arguments.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(3, '\n');
    let value = lines.next().unwrap_or_default();
    decoded(value);
    encoded(value);
    encoded(&text);
    if let (Some(schema), Some(arguments)) = (lines.next(), lines.next()) {
        mirrored(value, schema, arguments);
    }
}

/// What arrives stands for itself or is the one spelling of what it stands for.
fn decoded(value: &str) {
    let Ok(meaning) = decode(value) else { return };
    let plain = value == meaning;
    let canonical = value == format!("=?base64?{}?=", STANDARD.encode(meaning.as_bytes()));
    assert!(plain || canonical, "{value:?} for {meaning:?}");
    let again = encode(&meaning);
    assert_eq!(decode(&again).as_deref(), Ok(&*meaning));
    // Tabs and spaces at the ends are HTTP's own; everything else that is plain is written as it came.
    if plain && !meaning.contains('\t') && meaning.trim() == meaning && !meaning.is_empty() {
        assert_eq!(again, value);
    }
}

/// What is sent is a header value that HTTP leaves as it is, and reads as what was meant.
fn encoded(value: &str) {
    let header = encode(value);
    assert_eq!(decode(&header).as_deref(), Ok(value));
    assert!(http::HeaderValue::from_str(&header).is_ok());
    assert_eq!(header.trim(), header);
    assert!(!header.is_empty());
}

/// The headers that a client makes of arguments are the ones that a server expects.
fn mirrored(value: &str, schema: &str, arguments: &str) {
    let Ok(schema) = JsonObject::parse(schema) else {
        return;
    };
    let Ok(headers) = ParamHeaders::of(&schema) else {
        return;
    };
    for header in headers.iter() {
        assert!(
            http::HeaderName::from_bytes(header.name().as_bytes()).is_ok(),
            "{header:?}"
        );
        assert!(!header.path().is_empty());
    }
    let Ok(arguments) = JsonObject::parse(arguments) else {
        return;
    };
    let Ok(members) = Members::parse(arguments.as_raw()) else {
        return;
    };
    let Ok(made) = headers.values(Some(&arguments)) else {
        return;
    };
    assert!(made.len() <= headers.iter().count());
    for (name, text) in made {
        assert!(http::HeaderValue::from_str(&text).is_ok(), "{text:?}");
        let header = headers
            .iter()
            .find(|header| header.name().eq_ignore_ascii_case(&name));
        let argument = header
            .and_then(|header| header.value(&members))
            .expect("a mirrored argument");
        assert_eq!(argument.is_said_by(&text), Ok(true), "{name}: {text:?}");
        // Another value is another argument's, or another spelling of this one: it never stands for nothing at all.
        let _ = argument.is_said_by(value);
    }
}
