//! URI templates (RFC 6570), read backwards: from a URI to the variables that it was made of.
//!
//! | module | what is in it |
//! |---|---|
//! | `expression` | the text of a template: literals, operators, names and modifiers |
//! | `pattern` | what URIs it stands for, as a pattern of characters |
//! | `automaton` | matching in one pass, and the proof that a URI is read in one way |
//!
//! A template whose URIs could be read in two ways is refused when the server is built, with a URI that shows it: a handler
//! that is given one reading of two would be given what the client did not mean.

mod automaton;
mod expression;
mod pattern;

use serde_json::{Map, Value};
use thiserror::Error;

use self::automaton::Automaton;
use self::expression::{Part, Variable};

/// A template that can tell its variables from a URI, in one way.
#[derive(Debug)]
pub(crate) struct Template {
    /// What stands before the first expression.
    prefix: String,
    variables: Vec<Variable>,
    automaton: Automaton,
}

/// Why a text is not a template that this server can match.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(crate) enum TemplateError {
    /// A brace without its other.
    #[error("a brace has no counterpart")]
    Brace,
    /// A literal character that no URI has.
    #[error("no URI has the character {0:?}")]
    Literal(char),
    /// An operator that is reserved.
    #[error("RFC 6570 keeps the operator `{0}` for later")]
    Operator(char),
    /// An expression without a name, or with one that is none.
    #[error("`{0}` is no name of a variable: use letters, digits, `_` and `.`")]
    Name(String),
    /// One name twice.
    #[error("the variable `{0}` occurs twice")]
    Twice(String),
    /// A prefix modifier.
    #[error("`{{{0}}}` shows the beginning of a value, which is that of many values")]
    Prefix(String),
    /// No variable at all.
    #[error("it has no variable; use `resource` for one URI")]
    Constant,
    /// A URI has two readings.
    #[error("`{uri}` could be read in two ways, as {one} and as {other}")]
    Ambiguous {
        /// One such URI.
        uri: String,
        /// Its variables, read one way.
        one: String,
        /// And the other.
        other: String,
    },
    /// More than is matched here.
    #[error("it is too large to be matched")]
    TooLarge,
}

/// The longest URI that is matched, in bytes. A client sends it in a header, and few proxies take one that long.
const LONGEST_URI: usize = 8 * 1024;

impl Template {
    /// Reads a template. `required` says of a variable whether the handler needs it, `None` where it takes no notice of it.
    pub(crate) fn parse(
        text: &str,
        required: impl Fn(&str) -> Option<bool>,
    ) -> Result<Self, TemplateError> {
        let parts = expression::parse(text)?;
        let (prefix, parts) = match parts.split_first() {
            Some((Part::Literal(prefix), rest)) => (prefix.clone(), rest),
            _ => (String::new(), parts.as_slice()),
        };
        let variables = expression::variables(parts)?;
        if variables.is_empty() {
            return Err(TemplateError::Constant);
        }
        let pattern = pattern::of(parts, required)?;
        let template = Self {
            prefix,
            variables,
            automaton: Automaton::new(pattern),
        };
        match template.automaton.ambiguity() {
            None => Ok(template),
            Some(ambiguity) => Err(template.ambiguous(&ambiguity)),
        }
    }

    fn ambiguous(&self, ambiguity: &automaton::Ambiguity) -> TemplateError {
        let reading = |run: &[usize]| {
            let variables = self.read(run, &ambiguity.tokens).unwrap_or_default();
            Value::Object(variables).to_string()
        };
        let uri = ambiguity.tokens.iter().map(ToString::to_string);
        TemplateError::Ambiguous {
            uri: self.prefix.clone() + &uri.collect::<String>(),
            one: reading(&ambiguity.one),
            other: reading(&ambiguity.other),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.variables.iter().any(|variable| variable.name == name)
    }

    /// Whether a variable stands for a list: the explode modifier.
    pub(crate) fn is_list(&self, name: &str) -> bool {
        self.variables
            .iter()
            .any(|variable| variable.explode && variable.name == name)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.variables.iter().map(|variable| variable.name.clone());
        names.collect()
    }

    /// The variables of a URI that fits, percent-decoded: texts, and lists of texts where they are exploded. What was
    /// undefined is not there.
    pub(crate) fn variables(&self, uri: &str) -> Option<Map<String, Value>> {
        if uri.len() > LONGEST_URI {
            return None;
        }
        let tokens = automaton::tokens(uri.strip_prefix(self.prefix.as_str())?)?;
        self.read(&self.automaton.run(&tokens)?, &tokens)
    }

    /// What the tokens say, each at its position.
    fn read(&self, run: &[usize], tokens: &[automaton::Token]) -> Option<Map<String, Value>> {
        let mut values: Vec<Vec<Vec<u8>>> = vec![Vec::new(); self.variables.len()];
        for (&position, token) in run.iter().zip(tokens) {
            let act = self.automaton.act(position)?;
            if let Some(variable) = act.begins() {
                values.get_mut(variable)?.push(Vec::new());
            }
            if let Some(variable) = act.adds() {
                values.get_mut(variable)?.last_mut()?.push(token.byte);
            }
        }
        let mut variables = Map::new();
        for (variable, values) in self.variables.iter().zip(values) {
            let texts: Result<Vec<String>, _> = values.into_iter().map(String::from_utf8).collect();
            let texts = texts.ok()?;
            let value = match variable.explode {
                true if texts.is_empty() => continue,
                true => Value::from(texts),
                false => match texts.into_iter().next() {
                    Some(text) => Value::from(text),
                    None => continue,
                },
            };
            variables.insert(variable.name.clone(), value);
        }
        Some(variables)
    }
}

#[cfg(test)]
mod tests;
