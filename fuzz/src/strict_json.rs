//! A body is taken exactly where it should be.

use mrtr_protocol::object::is_object;
use mrtr_protocol::{JsonObject, Members, strict};
use mrtr_state::{RawValue, walk_json};

use crate::json::{self, Json, Part, Style};

/// serde_json's in-band markers.
const RESERVED: &str = "$serde_json::private::";

/// Bytes that may be a body.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        assert!(strict::check(data).is_err(), "a body that is not UTF-8");
        return;
    };
    let read = json::read(text);
    let has_digest = walk_json(text, &mut |_| ()).is_ok();
    assert_eq!(
        has_digest,
        read.is_some(),
        "a digest is had by JSON and nothing else"
    );

    let raw = serde_json::from_str::<&RawValue>(text);
    let accepted = raw.is_ok() && strict::check(data).is_ok();
    let expected = read.as_ref().is_some_and(|value| !value.any(&refused));
    assert_eq!(
        accepted, expected,
        "what serde_json and the strict pass take together"
    );

    let (Ok(raw), true, Some(read)) = (raw, accepted, read) else {
        return;
    };
    // What is accepted can be printed and is accepted again, as the same value.
    let printed = read.write(Style::default());
    assert_eq!(json::read(&printed).as_ref(), Some(&read));
    assert!(strict::check(printed.as_bytes()).is_ok());
    // One level of it reads as the members that are there.
    let Json::Object(members) = &read else {
        assert!(Members::parse(raw).is_err() && !is_object(raw));
        return;
    };
    let own = Members::parse(raw).expect("an object with distinct names");
    assert_eq!(own.len(), members.len());
    for (name, value) in members {
        let text = own.get(name).expect("a member by its decoded name").get();
        assert_eq!(json::read(text).as_ref(), Some(value));
    }
    let object = JsonObject::new(raw.to_owned()).expect("an object");
    assert!(object.members().is_ok());
}

/// What JSON may hold and a body may not.
fn refused(part: Part<'_>) -> bool {
    match part {
        Part::Name(name) => name.starts_with(RESERVED),
        Part::Value(Json::Number(text)) => text.parse().is_ok_and(f64::is_infinite),
        Part::Value(_) => false,
    }
}
