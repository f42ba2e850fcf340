//! Equal digests for equal values, and for no others.

use mrtr_state::{JsonDigest, RequestDigest, walk_json};

use crate::json::{self, Json, Style};

/// The first byte says what is changed, the rest is JSON.
pub fn run(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(rest) else {
        return;
    };
    let Some(value) = json::read(text) else {
        return;
    };
    let digest = of(text);
    for style in 1..16_u8 {
        let style = Style {
            reversed: style & 1 > 0,
            spaced: style & 2 > 0,
            escaped: style & 4 > 0,
            respelt: style & 8 > 0,
        };
        assert_eq!(
            of(&value.write(style)),
            digest,
            "another spelling: {style:?}"
        );
    }
    let other = changed(value, usize::from(choice));
    let other = other.write(Style::default());
    assert_ne!(of(&other), digest, "another value: {other}");
}

/// All digests of a text, and its canonical bytes, which may not be much longer than the text is.
fn of(text: &str) -> ([u8; 32], [u8; 32], Vec<u8>) {
    let request = RequestDigest::builder("tools/call", "t").json("arguments", text);
    let request = *request.expect("a digest").finish().as_bytes();
    let question = *JsonDigest::of("question", text)
        .expect("a digest")
        .as_bytes();
    let mut bytes = Vec::new();
    walk_json(text, &mut |piece| bytes.extend_from_slice(piece)).expect("JSON");
    assert!(bytes.len() <= 40 + 40 * text.len(), "{} bytes", bytes.len());
    (request, question, bytes)
}

/// Another value: one place of it, chosen by number, is changed.
fn changed(mut value: Json, choice: usize) -> Json {
    let mut places = 0;
    value.visit(&mut |_| places += 1);
    let chosen = choice % places;
    let mut place = 0;
    value.visit(&mut |value| {
        if place == chosen {
            change(value);
        }
        place += 1;
    });
    value
}

fn change(value: &mut Json) {
    match value {
        Json::Null => *value = Json::Bool(false),
        Json::Bool(bool) => *bool = !*bool,
        // An integer and the same number with a point are two values: a handler can tell them apart.
        Json::Number(text) if text.contains(['.', 'e', 'E']) => *value = Json::Null,
        Json::Number(text) => text.push_str(".0"),
        Json::String(text) => text.push('\u{301}'),
        Json::Array(items) => items.push(Json::Null),
        Json::Object(members) => match members.pop() {
            Some((mut name, value)) => {
                while name.is_empty() || members.iter().any(|(own, _)| *own == name) {
                    name.push('x');
                }
                name.push('x');
                while members.iter().any(|(own, _)| *own == name) {
                    name.push('x');
                }
                members.push((name, value));
            }
            None => members.push((String::new(), Json::Null)),
        },
    }
}
