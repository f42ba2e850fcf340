//! The text of a template: literals and expressions.

use super::TemplateError;

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// As it stands in the URI: what is not ASCII is percent-encoded.
    Literal(String),
    Expression(Expression),
}

/// `{operator variable, variable}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expression {
    pub(super) operator: Operator,
    pub(super) variables: Vec<Variable>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) explode: bool,
}

/// What is done with the variables of an expression (RFC 6570, appendix A).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    /// `{x}`
    Simple,
    /// `{+x}`
    Reserved,
    /// `{#x}`
    Fragment,
    /// `{.x}`
    Label,
    /// `{/x}`
    Path,
    /// `{;x}`
    Parameter,
    /// `{?x}`
    Query,
    /// `{&x}`
    Continuation,
}

impl Operator {
    /// What stands before the first variable that is defined.
    pub(super) fn first(self) -> Option<char> {
        match self {
            Self::Simple | Self::Reserved => None,
            Self::Fragment => Some('#'),
            Self::Query => Some('?'),
            Self::Label | Self::Path | Self::Parameter | Self::Continuation => {
                Some(self.separator())
            }
        }
    }

    /// What stands between two.
    pub(super) fn separator(self) -> char {
        match self {
            Self::Simple | Self::Reserved | Self::Fragment => ',',
            Self::Label => '.',
            Self::Path => '/',
            Self::Parameter => ';',
            Self::Query | Self::Continuation => '&',
        }
    }

    /// Whether the URI has the variable's name too.
    pub(super) fn names(self) -> bool {
        matches!(self, Self::Parameter | Self::Query | Self::Continuation)
    }

    /// Whether the value stands there with its reserved characters as they are.
    pub(super) fn is_reserved(self) -> bool {
        matches!(self, Self::Reserved | Self::Fragment)
    }
}

pub(super) fn parse(text: &str) -> Result<Vec<Part>, TemplateError> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (inside, after) = after.split_once('}').ok_or(TemplateError::Brace)?;
        if !before.is_empty() {
            parts.push(Part::Literal(literal(before)?));
        }
        parts.push(Part::Expression(expression(inside)?));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Literal(literal(rest)?));
    }
    Ok(parts)
}

/// Every variable once, in order.
pub(super) fn variables(parts: &[Part]) -> Result<Vec<Variable>, TemplateError> {
    let mut variables: Vec<Variable> = Vec::new();
    for part in parts {
        let Part::Expression(expression) = part else {
            continue;
        };
        for variable in &expression.variables {
            if variables.iter().any(|known| known.name == variable.name) {
                return Err(TemplateError::Twice(variable.name.clone()));
            }
            variables.push(variable.clone());
        }
    }
    Ok(variables)
}

fn literal(text: &str) -> Result<String, TemplateError> {
    let mut literal = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '%' => {
                let mut escape = rest.clone();
                let digits = [escape.next(), escape.next()];
                if !digits
                    .iter()
                    .all(|digit| digit.is_some_and(|digit| digit.is_ascii_hexdigit()))
                {
                    return Err(TemplateError::Literal('%'));
                }
                literal.push('%');
            }
            '}' => return Err(TemplateError::Brace),
            c if c.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=".contains(c) => {
                literal.push(c)
            }
            c if c.is_ascii() => return Err(TemplateError::Literal(c)),
            c => {
                let mut buffer = [0; 4];
                for byte in c.encode_utf8(&mut buffer).bytes() {
                    literal.push_str(&format!("%{byte:02X}"));
                }
            }
        }
    }
    Ok(literal)
}

fn expression(inside: &str) -> Result<Expression, TemplateError> {
    let operator = match inside.chars().next() {
        Some('+') => Operator::Reserved,
        Some('#') => Operator::Fragment,
        Some('.') => Operator::Label,
        Some('/') => Operator::Path,
        Some(';') => Operator::Parameter,
        Some('?') => Operator::Query,
        Some('&') => Operator::Continuation,
        Some(kept @ ('=' | ',' | '!' | '@' | '|')) => return Err(TemplateError::Operator(kept)),
        _ => Operator::Simple,
    };
    let list = match operator {
        Operator::Simple => inside,
        _ => inside.get(1..).unwrap_or_default(),
    };
    let variables: Result<Vec<Variable>, _> = list.split(',').map(variable).collect();
    Ok(Expression {
        operator,
        variables: variables?,
    })
}

fn variable(text: &str) -> Result<Variable, TemplateError> {
    let (name, explode) = match text.strip_suffix('*') {
        Some(name) => (name, true),
        None => (text, false),
    };
    if let Some((name, length)) = name.split_once(':')
        && is_name(name)
        && length.parse::<u16>().is_ok()
    {
        return Err(TemplateError::Prefix(text.to_owned()));
    }
    if !is_name(name) {
        return Err(TemplateError::Name(name.to_owned()));
    }
    Ok(Variable {
        name: name.to_owned(),
        explode,
    })
}

fn is_name(name: &str) -> bool {
    name.split('.').all(|part| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}
