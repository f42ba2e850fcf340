//! Bodies in failure messages: what helps whoever reads them, and no state.

use std::fmt;

use serde_json::Value;

/// A body as text, the states in it replaced by their length.
pub(crate) struct Redacted<'a>(pub(crate) &'a [u8]);

impl fmt::Debug for Redacted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match serde_json::from_slice::<Value>(self.0) {
            Ok(mut body) => {
                redact(&mut body);
                write!(f, "{body}")
            }
            // What is no JSON may be a state, or hold one.
            Err(_) => write!(f, "{} bytes that are no JSON", self.0.len()),
        }
    }
}

fn redact(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(state) if name == "requestState" => {
                        *member = format!("({} bytes)", state.len()).into();
                    }
                    member => redact(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_not_printed_wherever_they_are() {
        let body = br#"{"result":{"requestState":"mrtr1.h.secret","inputRequests":[{"requestState":"secret"}],"x":1}}"#;
        let text = format!("{:?}", Redacted(body));
        assert!(!text.contains("secret"), "{text}");
        assert!(
            text.contains("(14 bytes)") && text.contains("\"x\":1"),
            "{text}"
        );
        assert_eq!(
            format!("{:?}", Redacted(b"secret")),
            "6 bytes that are no JSON"
        );
    }
}
