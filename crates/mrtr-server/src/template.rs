//! URI templates whose expressions are all of the form `{name}` (RFC 6570, level 1).

use std::collections::HashSet;

use serde_json::{Map, Value};
use thiserror::Error;

/// A template that can tell its variables from a URI.
#[derive(Debug)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Variable(String),
}

/// Why a text is not a template that this server can match.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(crate) enum TemplateError {
    /// A brace without its other.
    #[error("a brace has no counterpart")]
    Brace,
    /// An expression with an operator, a list or a modifier.
    #[error("`{{{0}}}` is not of the form {{name}}, which is all that is matched here")]
    Expression(String),
    /// One name twice.
    #[error("the variable `{0}` occurs twice")]
    Twice(String),
    /// Two variables with nothing between them.
    #[error(
        "nothing stands between `{0}` and the variable before it, so that a URI could be read in two ways"
    )]
    Adjacent(String),
    /// No variable at all.
    #[error("it has no variable; use `resource` for one URI")]
    Constant,
}

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut names = HashSet::new();
        let mut rest = text;
        while let Some((literal, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or(TemplateError::Brace)?;
            if literal.contains('}') {
                return Err(TemplateError::Brace);
            }
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                return Err(TemplateError::Expression(name.to_owned()));
            }
            if !names.insert(name) {
                return Err(TemplateError::Twice(name.to_owned()));
            }
            match (literal.is_empty(), parts.is_empty()) {
                (true, false) => return Err(TemplateError::Adjacent(name.to_owned())),
                (true, true) => {}
                (false, _) => parts.push(Part::Literal(literal.to_owned())),
            }
            parts.push(Part::Variable(name.to_owned()));
            rest = after;
        }
        if rest.contains('}') {
            return Err(TemplateError::Brace);
        }
        if names.is_empty() {
            return Err(TemplateError::Constant);
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        Ok(Self { parts })
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.parts.iter().filter_map(|part| match part {
            Part::Variable(name) => Some(name.clone()),
            Part::Literal(_) => None,
        });
        names.collect()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part, Part::Variable(own) if own == name))
    }

    /// The variables of a URI that fits. Each stands for the shortest text up to what follows it, so that a URI is read in
    /// one way.
    pub(crate) fn variables(&self, uri: &str) -> Option<Map<String, Value>> {
        let mut variables = Map::new();
        let mut rest = uri;
        let mut parts = self.parts.iter().peekable();
        while let Some(part) = parts.next() {
            match part {
                Part::Literal(literal) => rest = rest.strip_prefix(literal.as_str())?,
                Part::Variable(name) => {
                    let length = match parts.peek() {
                        // The last literal must end the URI.
                        Some(Part::Literal(next)) if is_last(&self.parts, next) => {
                            rest.len().checked_sub(next.len())?
                        }
                        Some(Part::Literal(next)) => rest.find(next.as_str())?,
                        _ => rest.len(),
                    };
                    let (value, after) = rest.split_at_checked(length)?;
                    if value.is_empty() || value.contains('/') {
                        return None;
                    }
                    variables.insert(name.clone(), decoded(value)?.into());
                    rest = after;
                }
            }
        }
        rest.is_empty().then_some(variables)
    }
}

fn is_last(parts: &[Part], literal: &str) -> bool {
    matches!(parts.last(), Some(Part::Literal(last)) if std::ptr::eq(last.as_str(), literal))
}

/// Percent-decoded; `None` when that is not UTF-8 or a `%` begins no escape.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(template: &str, uri: &str) -> Option<Value> {
        Template::parse(template)
            .unwrap()
            .variables(uri)
            .map(Value::Object)
    }

    #[test]
    fn uris_that_fit_give_their_variables() {
        let json = |text: &str| Some(serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(
            variables("note://{day}", "note://monday"),
            json(r#"{"day":"monday"}"#)
        );
        assert_eq!(
            variables("note://{day}.md", "note://mon.md.md"),
            json(r#"{"day":"mon.md"}"#)
        );
        assert_eq!(
            variables("a://{x}/b/{y}", "a://1/b/2"),
            json(r#"{"x":"1","y":"2"}"#)
        );
        assert_eq!(
            variables("a://{x}-{y}", "a://1-2-3"),
            json(r#"{"x":"1","y":"2-3"}"#)
        );
        assert_eq!(
            variables("a://{x}", "a://caf%C3%A9%2F"),
            json("{\"x\":\"caf\u{e9}/\"}")
        );
    }

    #[test]
    fn uris_that_do_not_fit_give_none() {
        for (template, uri) in [
            ("note://{day}", "note://"),
            ("note://{day}", "note://a/b"),
            ("note://{day}", "other://a"),
            ("note://{day}.md", "note://a"),
            ("note://{day}.md", "note://.md"),
            ("note://{day}", "note://%"),
            ("note://{day}", "note://%zz"),
            ("note://{day}", "note://%ff"),
            ("a://{x}/b", "a://x/b/c"),
        ] {
            assert_eq!(variables(template, uri), None, "{template} {uri}");
        }
    }

    #[test]
    fn what_cannot_be_matched_is_refused() {
        let error = |text: &str| Template::parse(text).unwrap_err();
        assert_eq!(error("a://{x"), TemplateError::Brace);
        assert_eq!(error("a://x}"), TemplateError::Brace);
        assert_eq!(error("a://{+x}"), TemplateError::Expression("+x".into()));
        assert_eq!(error("a://{}"), TemplateError::Expression(String::new()));
        assert_eq!(error("a://{x}/{x}"), TemplateError::Twice("x".into()));
        assert_eq!(error("a://{x}{y}"), TemplateError::Adjacent("y".into()));
        assert_eq!(error("a://x"), TemplateError::Constant);
    }
}
