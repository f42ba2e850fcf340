//! What URIs a template stands for: a pattern of characters, in which some begin a value or belong to one.

use super::TemplateError;
use super::expression::{Expression, Operator, Part};

/// Positions of the pattern, and what may follow what.
pub(super) struct Pattern {
    pub(super) positions: Vec<Position>,
    pub(super) node: Node,
}

/// One place in the pattern: which characters fit, and what they mean.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    pub(super) fits: Set,
    /// The byte behind a literal escape.
    pub(super) escaped: Option<u8>,
    pub(super) act: Act,
}

/// What a character at a position does. Variables are numbered in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// It is part of the template.
    Nothing,
    /// It is part of the template, and a value begins behind it.
    Begin(usize),
    /// It is part of a value.
    Add(usize),
    /// It is the first of a value.
    BeginAdd(usize),
}

impl Act {
    pub(super) fn begins(self) -> Option<usize> {
        match self {
            Self::Begin(variable) | Self::BeginAdd(variable) => Some(variable),
            Self::Nothing | Self::Add(_) => None,
        }
    }

    pub(super) fn adds(self) -> Option<usize> {
        match self {
            Self::Add(variable) | Self::BeginAdd(variable) => Some(variable),
            Self::Nothing | Self::Begin(_) => None,
        }
    }
}

/// A set of characters: a bit each, and that of `%` for any escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Set(pub(super) u128);

impl Set {
    fn of(characters: &str) -> Self {
        let bits = characters
            .bytes()
            .map(|byte| 1_u128 << u32::from(byte & 127));
        Self(bits.fold(0, |all, bit| all | bit))
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) fn has(self, symbol: u8) -> bool {
        self.0 >> u32::from(symbol & 127) & 1 == 1
    }
}

/// How positions follow each other.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Empty,
    At(usize),
    Seq(Vec<Node>),
    Either(Box<Node>, Box<Node>),
    Opt(Box<Node>),
    Star(Box<Node>),
}

/// The most positions; two readings are looked for among pairs of them.
const MOST_POSITIONS: usize = 256;
/// Letters, digits and the four marks that are never encoded, and any escape.
const PLAIN: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%";
/// Reserved characters that many clients leave as they are in a value, although an expansion encodes them.
const LENIENT: &str = "!$&'()*+,;=:@";
const RESERVED: &str = ":/?#[]@!$&'()*+,;=";

/// The pattern of what stands behind the first literal.
pub(super) fn of(
    parts: &[Part],
    required: impl Fn(&str) -> Option<bool>,
) -> Result<Pattern, TemplateError> {
    let mut builder = Builder {
        positions: Vec::new(),
        plain: Set::of(PLAIN).and(Set::of(LENIENT).without(delimiters(parts))),
        next: 0,
    };
    let mut nodes = Vec::new();
    for part in parts {
        nodes.push(match part {
            Part::Literal(literal) => builder.literal(literal, Act::Nothing),
            Part::Expression(expression) => builder.expression(expression, &required),
        });
        if builder.positions.len() > MOST_POSITIONS {
            return Err(TemplateError::TooLarge);
        }
    }
    Ok(Pattern {
        positions: builder.positions,
        node: Node::Seq(nodes),
    })
}

/// What the template itself uses: in a value it must be encoded, or it would end the value.
fn delimiters(parts: &[Part]) -> Set {
    let mut used = Set(0);
    for part in parts {
        match part {
            Part::Literal(literal) => used = used.and(Set::of(literal)),
            Part::Expression(Expression {
                operator,
                variables,
            }) => {
                let many = variables.len() > 1 || variables.iter().any(|variable| variable.explode);
                let between = many.then(|| operator.separator());
                let equals = operator.names().then_some('=');
                for delimiter in [operator.first(), between, equals].into_iter().flatten() {
                    used = used.and(Set::of(delimiter.encode_utf8(&mut [0; 4])));
                }
            }
        }
    }
    used
}

struct Builder {
    positions: Vec<Position>,
    /// What a value may hold as it is.
    plain: Set,
    /// The next variable's number.
    next: usize,
}

impl Builder {
    fn at(&mut self, fits: Set, act: Act) -> Node {
        self.positions.push(Position {
            fits,
            escaped: None,
            act,
        });
        Node::At(self.positions.len() - 1)
    }

    /// Characters of the template; `last` is what the last one does.
    fn literal(&mut self, literal: &str, last: Act) -> Node {
        let tokens = super::automaton::tokens(literal).unwrap_or_default();
        let mut nodes = Vec::with_capacity(tokens.len());
        for token in &tokens {
            let node = self.at(Set(1 << u32::from(token.symbol & 127)), Act::Nothing);
            if let Some(position) = self.positions.last_mut() {
                position.escaped = (token.symbol == b'%').then_some(token.byte);
            }
            nodes.push(node);
        }
        if let Some(position) = self.positions.last_mut() {
            position.act = last;
        }
        Node::Seq(nodes)
    }

    fn character(&mut self, character: char, act: Act) -> Node {
        self.literal(character.encode_utf8(&mut [0; 4]), act)
    }

    fn expression(
        &mut self,
        expression: &Expression,
        required: &impl Fn(&str) -> Option<bool>,
    ) -> Node {
        let Expression {
            operator,
            variables,
        } = expression;
        let items: Vec<Item<'_>> = variables
            .iter()
            .map(|variable| Item {
                number: self.number(),
                name: &variable.name,
                explode: variable.explode,
                // Where nothing but the value shows that a variable is defined, it is, unless the handler can do without.
                optional: match required(&variable.name) {
                    Some(required) => !required,
                    None => operator.first().is_some(),
                },
            })
            .collect();
        let begun = operator.first() == Some(operator.separator());
        self.items(*operator, &items, begun)
    }

    fn number(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// `begun`: a separator, not the operator's first character, stands before the next variable.
    fn items(&mut self, operator: Operator, items: &[Item<'_>], begun: bool) -> Node {
        let Some((item, rest)) = items.split_first() else {
            return Node::Empty;
        };
        if self.positions.len() > MOST_POSITIONS {
            return Node::Empty;
        }
        let this = self.item(operator, item, begun);
        if !item.optional {
            return Node::Seq(vec![this, self.items(operator, rest, true)]);
        }
        if begun {
            return Node::Seq(vec![
                Node::Opt(Box::new(this)),
                self.items(operator, rest, true),
            ]);
        }
        let with = Node::Seq(vec![this, self.items(operator, rest, true)]);
        let without = self.items(operator, rest, false);
        Node::Either(Box::new(with), Box::new(without))
    }

    /// One variable that is defined, with what stands before it.
    fn item(&mut self, operator: Operator, item: &Item<'_>, begun: bool) -> Node {
        let before = match begun {
            true => Some(operator.separator()),
            false => operator.first(),
        };
        let one = self.value(operator, item, before);
        if !item.explode {
            return one;
        }
        let more = self.value(operator, item, Some(operator.separator()));
        Node::Seq(vec![one, Node::Star(Box::new(more))])
    }

    /// One value.
    fn value(&mut self, operator: Operator, item: &Item<'_>, before: Option<char>) -> Node {
        let Item { number, name, .. } = *item;
        let fits = match operator.is_reserved() {
            true => Set::of(PLAIN).and(Set::of(RESERVED)),
            false => self.plain,
        };
        // Without a first character, an empty value could not be told from none.
        let shows = operator.first().is_some();
        let act = |shown: bool| {
            if shown {
                Act::Begin(number)
            } else {
                Act::Nothing
            }
        };
        let mut nodes = Vec::new();
        if let Some(before) = before {
            nodes.push(self.character(before, act(shows && !operator.names())));
        }
        match operator {
            Operator::Parameter => {
                nodes.push(self.literal(name, act(true)));
                let equals = self.character('=', Act::Nothing);
                let first = self.at(fits, Act::Add(number));
                let more = self.at(fits, Act::Add(number));
                let value = Node::Seq(vec![equals, first, Node::Star(Box::new(more))]);
                nodes.push(Node::Opt(Box::new(value)));
            }
            Operator::Query | Operator::Continuation => {
                nodes.push(self.literal(name, Act::Nothing));
                nodes.push(self.character('=', act(true)));
                let value = self.at(fits, Act::Add(number));
                nodes.push(Node::Star(Box::new(value)));
            }
            _ => {
                if !shows {
                    nodes.push(self.at(fits, Act::BeginAdd(number)));
                }
                let value = self.at(fits, Act::Add(number));
                nodes.push(Node::Star(Box::new(value)));
            }
        }
        Node::Seq(nodes)
    }
}

struct Item<'e> {
    number: usize,
    name: &'e str,
    explode: bool,
    optional: bool,
}
