//! Reads a JSON text, strictly, into a flat list of nodes.

use std::borrow::Cow;
use std::str::Chars;

use super::{DigestError, MAX_DEPTH};

/// One value, or one member's name. A container's content follows it in the list.
#[derive(Clone, Copy)]
pub(super) struct Node {
    pub(super) kind: Kind,
    /// Where its text starts: of a string, behind the quote.
    pub(super) start: usize,
    /// Where its text ends: of a string, before the quote.
    pub(super) end: usize,
    /// The index of the node behind this one and all that it holds.
    pub(super) next: usize,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Null,
    True,
    False,
    Number,
    /// `escaped`: there is a backslash to decode.
    String {
        escaped: bool,
    },
    Array,
    /// `ascending`: the names are already sorted, and differ.
    Object {
        ascending: bool,
    },
}

impl Node {
    /// The string that this node spells.
    pub(super) fn decoded<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let raw = text.get(self.start..self.end).unwrap_or_default();
        match self.kind {
            Kind::String { escaped: true } => Cow::Owned(unescape(raw)),
            _ => Cow::Borrowed(raw),
        }
    }
}

/// Reads the whole of `text` as one JSON value.
pub(super) fn scan(text: &str) -> Result<Vec<Node>, DigestError> {
    let mut scan = Scan {
        text,
        bytes: text.as_bytes(),
        at: 0,
        nodes: Vec::with_capacity(16),
    };
    scan.whitespace();
    scan.value(0)?;
    scan.whitespace();
    match scan.peek() {
        None => Ok(scan.nodes),
        Some(_) => Err(scan.error()),
    }
}

struct Scan<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
}

impl Scan<'_> {
    fn value(&mut self, depth: usize) -> Result<(), DigestError> {
        match self.peek() {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'n') => self.word("null", Kind::Null),
            Some(b't') => self.word("true", Kind::True),
            Some(b'f') => self.word("false", Kind::False),
            _ => Err(self.error()),
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), DigestError> {
        let index = self.open(depth, Kind::Array)?;
        if !self.eat(b']') {
            loop {
                self.whitespace();
                self.value(depth)?;
                self.whitespace();
                if self.eat(b']') {
                    break;
                }
                self.expect(b',')?;
            }
        }
        self.close(index, Kind::Array);
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<(), DigestError> {
        let index = self.open(depth, Kind::Object { ascending: true })?;
        let mut ascending = true;
        let mut previous: Option<Node> = None;
        if !self.eat(b'}') {
            loop {
                self.whitespace();
                let name_at = self.nodes.len();
                self.string()?;
                if let Some(&name) = self.nodes.get(name_at) {
                    // Equal names clear the flag too: the sort then finds them.
                    ascending &= previous
                        .is_none_or(|before| before.decoded(self.text) < name.decoded(self.text));
                    previous = Some(name);
                }
                self.whitespace();
                self.expect(b':')?;
                self.whitespace();
                self.value(depth)?;
                self.whitespace();
                if self.eat(b'}') {
                    break;
                }
                self.expect(b',')?;
            }
        }
        self.close(index, Kind::Object { ascending });
        Ok(())
    }

    /// Begins a container at its bracket and returns its index.
    fn open(&mut self, depth: usize, kind: Kind) -> Result<usize, DigestError> {
        if depth > MAX_DEPTH {
            return Err(DigestError::TooDeep);
        }
        let index = self.nodes.len();
        self.push(kind, self.at, self.at);
        self.at += 1;
        self.whitespace();
        Ok(index)
    }

    fn close(&mut self, index: usize, kind: Kind) {
        let next = self.nodes.len();
        if let Some(node) = self.nodes.get_mut(index) {
            node.kind = kind;
            node.next = next;
        }
    }

    fn string(&mut self) -> Result<(), DigestError> {
        self.expect(b'"')?;
        let start = self.at;
        let mut escaped = false;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.at += 1;
                    self.escape()?;
                }
                // Control characters must be escaped (RFC 8259, section 7).
                Some(0..=0x1f) | None => return Err(self.error()),
                Some(_) => self.at += 1,
            }
        }
        self.push(Kind::String { escaped }, start, self.at);
        self.at += 1;
        Ok(())
    }

    /// Reads what is behind a backslash.
    fn escape(&mut self) -> Result<(), DigestError> {
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 1;
                Ok(())
            }
            Some(b'u') => {
                self.at += 1;
                match self.four_digits()? {
                    0xd800..=0xdbff => {
                        self.expect(b'\\')?;
                        self.expect(b'u')?;
                        match self.four_digits()? {
                            0xdc00..=0xdfff => Ok(()),
                            _ => Err(self.error()),
                        }
                    }
                    0xdc00..=0xdfff => Err(self.error()),
                    _ => Ok(()),
                }
            }
            _ => Err(self.error()),
        }
    }

    fn four_digits(&mut self) -> Result<u32, DigestError> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|c| char::from(c).to_digit(16));
            unit = unit << 4 | digit.ok_or(self.error())?;
            self.at += 1;
        }
        Ok(unit)
    }

    fn number(&mut self) -> Result<(), DigestError> {
        let start = self.at;
        self.eat(b'-');
        // A zero may not lead other digits.
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            if !self.eat(b'+') {
                self.eat(b'-');
            }
            self.digits()?;
        }
        self.push(Kind::Number, start, self.at);
        Ok(())
    }

    /// One digit or more.
    fn digits(&mut self) -> Result<(), DigestError> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.error());
        }
        Ok(())
    }

    fn word(&mut self, word: &str, kind: Kind) -> Result<(), DigestError> {
        let start = self.at;
        for expected in word.bytes() {
            self.expect(expected)?;
        }
        self.push(kind, start, self.at);
        Ok(())
    }

    fn push(&mut self, kind: Kind, start: usize, end: usize) {
        let next = self.nodes.len() + 1;
        self.nodes.push(Node {
            kind,
            start,
            end,
            next,
        });
    }

    fn whitespace(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), DigestError> {
        if self.eat(byte) {
            Ok(())
        } else {
            Err(self.error())
        }
    }

    fn error(&self) -> DigestError {
        DigestError::Syntax { at: self.at }
    }
}

/// Decodes the escapes of a string that was scanned.
fn unescape(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((plain, behind)) = rest.split_once('\\') {
        out.push_str(plain);
        let mut chars = behind.chars();
        match chars.next() {
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('u') => {
                let mut code = code_unit(&mut chars);
                if (0xd800..=0xdbff).contains(&code) {
                    // The scan saw to it that `\u` and the other half follow.
                    chars.nth(1);
                    code = 0x10000 + ((code & 0x3ff) << 10 | code_unit(&mut chars) & 0x3ff);
                }
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(same) => out.push(same),
            None => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out
}

fn code_unit(chars: &mut Chars<'_>) -> u32 {
    chars
        .by_ref()
        .take(4)
        .filter_map(|c| c.to_digit(16))
        .fold(0, |unit, digit| unit << 4 | digit)
}
