//! A pattern as an automaton whose states are its positions: a URI fits if a run of positions leads from the first to a last
//! one, a character each. Two runs for one URI are two readings of it.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use super::pattern::{Act, Node, Pattern, Position};

/// A character of a URI, or an escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    /// The character; `%` for every escape.
    pub(super) symbol: u8,
    /// The byte that it stands for.
    pub(super) byte: u8,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.symbol {
            b'%' => write!(f, "%{:02X}", self.byte),
            symbol => write!(f, "{}", char::from(symbol)),
        }
    }
}

/// Characters and escapes. `None`: not ASCII, or a `%` that begins no escape.
pub(super) fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(symbol) = rest.next() {
        let byte = match symbol {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            _ if symbol.is_ascii() => symbol,
            _ => return None,
        };
        tokens.push(Token { symbol, byte });
    }
    Some(tokens)
}

#[derive(Debug)]
pub(super) struct Automaton {
    states: Vec<State>,
    /// Where a run begins.
    first: Vec<usize>,
    /// Whether nothing at all fits.
    takes_nothing: bool,
}

#[derive(Debug)]
struct State {
    position: Position,
    next: Vec<usize>,
    is_last: bool,
}

/// A text that is read in two ways.
#[derive(Debug)]
pub(super) struct Ambiguity {
    pub(super) tokens: Vec<Token>,
    pub(super) one: Vec<usize>,
    pub(super) other: Vec<usize>,
}

/// Where a piece of a pattern begins and ends.
struct Ends {
    first: Vec<usize>,
    last: Vec<usize>,
    takes_nothing: bool,
}

impl Automaton {
    pub(super) fn new(pattern: Pattern) -> Self {
        let states = pattern.positions.into_iter().map(|position| State {
            position,
            next: Vec::new(),
            is_last: false,
        });
        let mut automaton = Self {
            states: states.collect(),
            first: Vec::new(),
            takes_nothing: false,
        };
        let ends = automaton.connect(&pattern.node);
        for last in ends.last {
            if let Some(state) = automaton.states.get_mut(last) {
                state.is_last = true;
            }
        }
        automaton.first = ends.first;
        automaton.takes_nothing = ends.takes_nothing;
        automaton
    }

    /// Connects the positions of a piece with each other.
    fn connect(&mut self, node: &Node) -> Ends {
        let mut ends = Ends {
            first: Vec::new(),
            last: Vec::new(),
            takes_nothing: true,
        };
        match node {
            Node::Empty => {}
            Node::At(position) => {
                ends.first.push(*position);
                ends.last.push(*position);
                ends.takes_nothing = false;
            }
            Node::Seq(nodes) => {
                for node in nodes {
                    let piece = self.connect(node);
                    self.lead(&ends.last, &piece.first);
                    if ends.takes_nothing {
                        ends.first.extend(&piece.first);
                    }
                    if !piece.takes_nothing {
                        ends.last.clear();
                    }
                    ends.last.extend(&piece.last);
                    ends.takes_nothing &= piece.takes_nothing;
                }
            }
            Node::Either(one, other) => {
                let (one, other) = (self.connect(one), self.connect(other));
                ends.first = [one.first, other.first].concat();
                ends.last = [one.last, other.last].concat();
                ends.takes_nothing = one.takes_nothing || other.takes_nothing;
            }
            Node::Opt(node) => {
                ends = self.connect(node);
                ends.takes_nothing = true;
            }
            Node::Star(node) => {
                ends = self.connect(node);
                self.lead(&ends.last, &ends.first);
                ends.takes_nothing = true;
            }
        }
        ends
    }

    fn lead(&mut self, from: &[usize], to: &[usize]) {
        for from in from {
            if let Some(state) = self.states.get_mut(*from) {
                for to in to {
                    if !state.next.contains(to) {
                        state.next.push(*to);
                    }
                }
            }
        }
    }

    pub(super) fn act(&self, state: usize) -> Option<Act> {
        self.states.get(state).map(|state| state.position.act)
    }

    /// Where a run goes on from here; from the beginning, when that is nowhere yet.
    fn next(&self, from: Option<usize>) -> &[usize] {
        match from {
            None => &self.first,
            Some(from) => self.states.get(from).map_or(&[], |state| &state.next),
        }
    }

    fn may_end(&self, at: Option<usize>) -> bool {
        match at {
            None => self.takes_nothing,
            Some(at) => self.states.get(at).is_some_and(|state| state.is_last),
        }
    }

    fn fits(&self, state: usize, token: Token) -> bool {
        self.states
            .get(state)
            .is_some_and(|State { position, .. }| {
                position.fits.has(token.symbol)
                    && position.escaped.is_none_or(|byte| byte == token.byte)
            })
    }

    /// The run of a text that fits: a position for each token. Steps of all runs are made together, so that the time is that
    /// of the text's length, whatever it holds.
    pub(super) fn run(&self, tokens: &[Token]) -> Option<Vec<usize>> {
        if tokens.is_empty() {
            return self.takes_nothing.then(Vec::new);
        }
        let mut reached: Vec<Vec<usize>> = Vec::with_capacity(tokens.len());
        // At which step a state was reached last.
        let mut seen = vec![0; self.states.len()];
        for (step, token) in (1..).zip(tokens) {
            let mut now: Vec<usize> = Vec::new();
            let mut reach = |from: Option<usize>| {
                for &to in self.next(from) {
                    if let Some(seen) = seen.get_mut(to)
                        && *seen != step
                        && self.fits(to, *token)
                    {
                        *seen = step;
                        now.push(to);
                    }
                }
            };
            match reached.last() {
                None => reach(None),
                Some(before) => before.iter().for_each(|&from| reach(Some(from))),
            }
            if now.is_empty() {
                return None;
            }
            reached.push(now);
        }
        // Backwards: of all that were reached at a step, one leads to the end.
        let mut steps = reached.iter().rev();
        let mut at = *steps.next()?.iter().find(|&&at| self.may_end(Some(at)))?;
        let mut run = vec![at];
        for before in steps {
            at = *before
                .iter()
                .find(|&&from| self.next(Some(from)).contains(&at))?;
            run.push(at);
        }
        run.reverse();
        Some(run)
    }

    /// A text with two runs, if there is one: among pairs of runs that take the same characters, one that has parted and ends.
    pub(super) fn ambiguity(&self) -> Option<Ambiguity> {
        let start = Pair {
            one: None,
            other: None,
            parted: false,
        };
        let mut came_from: HashMap<Pair, (Pair, Token)> = HashMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(pair) = queue.pop_front() {
            if pair.parted && self.may_end(pair.one) && self.may_end(pair.other) {
                return Some(walk_back(&came_from, pair));
            }
            for &one in self.next(pair.one) {
                for &other in self.next(pair.other) {
                    let Some(token) = self.common(one, other) else {
                        continue;
                    };
                    let next = Pair {
                        one: Some(one),
                        other: Some(other),
                        parted: pair.parted || one != other,
                    };
                    if let std::collections::hash_map::Entry::Vacant(entry) = came_from.entry(next)
                    {
                        entry.insert((pair, token));
                        queue.push_back(next);
                    }
                }
            }
        }
        None
    }

    /// A token that fits both.
    fn common(&self, one: usize, other: usize) -> Option<Token> {
        let (one, other) = (
            &self.states.get(one)?.position,
            &self.states.get(other)?.position,
        );
        let both = one.fits.0 & other.fits.0;
        let letters = u128::from(b'a')..=u128::from(b'z');
        // A letter reads best.
        let readable = letters.into_iter().find(|bit| both >> bit & 1 == 1);
        let symbol = match readable {
            Some(bit) => u8::try_from(bit).ok()?,
            None if both == 0 => return None,
            None => u8::try_from(both.trailing_zeros()).ok()?,
        };
        if symbol != b'%' {
            return Some(Token {
                symbol,
                byte: symbol,
            });
        }
        let others = both & !(1 << u32::from(b'%'));
        if others != 0 {
            let symbol = u8::try_from(others.trailing_zeros()).ok()?;
            return Some(Token {
                symbol,
                byte: symbol,
            });
        }
        match (one.escaped, other.escaped) {
            (Some(one), Some(other)) if one != other => None,
            (escaped, or) => Some(Token {
                symbol,
                byte: escaped.or(or).unwrap_or(b' '),
            }),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Pair {
    one: Option<usize>,
    other: Option<usize>,
    parted: bool,
}

fn walk_back(came_from: &HashMap<Pair, (Pair, Token)>, end: Pair) -> Ambiguity {
    let mut ambiguity = Ambiguity {
        tokens: Vec::new(),
        one: Vec::new(),
        other: Vec::new(),
    };
    let mut at = end;
    while let Some((before, token)) = came_from.get(&at) {
        ambiguity.tokens.push(*token);
        ambiguity.one.extend(at.one);
        ambiguity.other.extend(at.other);
        at = *before;
    }
    ambiguity.tokens.reverse();
    ambiguity.one.reverse();
    ambiguity.other.reverse();
    ambiguity
}
