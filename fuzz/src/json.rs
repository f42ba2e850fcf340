//! A reader and a writer of JSON, written by the book (RFC 8259) and for nothing but comparison: no speed, no library.

use std::fmt::Write as _;

/// How deep arrays and objects may nest, here as in the project.
const DEPTH: usize = 128;

/// A value. Numbers keep their text, and members their order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(String),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Reads a whole text. `None`: not JSON, or nested too deep, or a name twice in an object, or a string that is not Unicode.
pub(crate) fn read(text: &str) -> Option<Json> {
    let mut reader = Reader { rest: text };
    reader.space();
    let value = reader.value(0)?;
    reader.space();
    reader.rest.is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn eat(&mut self, what: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(what)?;
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        let first = self.rest.chars().next()?;
        match first {
            'n' => self.eat("null").map(|()| Json::Null),
            't' => self.eat("true").map(|()| Json::Bool(true)),
            'f' => self.eat("false").map(|()| Json::Bool(false)),
            '"' => self.string().map(Json::String),
            '[' if depth < DEPTH => self.array(depth + 1),
            '{' if depth < DEPTH => self.object(depth + 1),
            _ => self.number(),
        }
    }

    fn array(&mut self, depth: usize) -> Option<Json> {
        self.eat("[")?;
        let mut items = Vec::new();
        self.space();
        if self.eat("]").is_some() {
            return Some(Json::Array(items));
        }
        loop {
            self.space();
            items.push(self.value(depth)?);
            self.space();
            if self.eat(",").is_none() {
                self.eat("]")?;
                return Some(Json::Array(items));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<Json> {
        self.eat("{")?;
        let mut members: Vec<(String, Json)> = Vec::new();
        self.space();
        if self.eat("}").is_some() {
            return Some(Json::Object(members));
        }
        loop {
            self.space();
            let name = self.string()?;
            self.space();
            self.eat(":")?;
            self.space();
            let value = self.value(depth)?;
            members.push((name, value));
            self.space();
            if self.eat(",").is_none() {
                self.eat("}")?;
                let mut names: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
                names.sort_unstable();
                let twice = names.windows(2).any(|pair| pair[0] == pair[1]);
                return (!twice).then_some(Json::Object(members));
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        self.eat("\"")?;
        // UTF-16, so that the two halves of a pair are joined at the end and a lone one is found there.
        let mut units: Vec<u16> = Vec::new();
        loop {
            let c = self.next()?;
            match c {
                '"' => return String::from_utf16(&units).ok(),
                '\\' => units.push(self.escape()?),
                '\0'..='\x1f' => return None,
                _ => units.extend_from_slice(c.encode_utf16(&mut [0; 2])),
            }
        }
    }

    fn escape(&mut self) -> Option<u16> {
        Some(match self.next()? {
            '"' => 0x22,
            '\\' => 0x5c,
            '/' => 0x2f,
            'b' => 8,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'u' => {
                let mut unit = 0;
                for _ in 0..4 {
                    unit = unit * 16 + u16::try_from(self.next()?.to_digit(16)?).ok()?;
                }
                unit
            }
            _ => return None,
        })
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn number(&mut self) -> Option<Json> {
        let start = self.rest;
        let _ = self.eat("-");
        if self.eat("0").is_none() {
            self.digits()?;
        }
        if self.eat(".").is_some() {
            self.digits()?;
        }
        if self.eat("e").or_else(|| self.eat("E")).is_some() {
            let _ = self.eat("+").or_else(|| self.eat("-"));
            self.digits()?;
        }
        let text = &start[..start.len() - self.rest.len()];
        Some(Json::Number(text.to_owned()))
    }

    fn digits(&mut self) -> Option<()> {
        let rest = self.rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let some = rest.len() < self.rest.len();
        self.rest = rest;
        some.then_some(())
    }
}

/// How a value is written.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Style {
    /// Members from the last to the first.
    pub(crate) reversed: bool,
    /// White space wherever it may be.
    pub(crate) spaced: bool,
    /// Every character of every string as an escape, in capitals where there are two ways.
    pub(crate) escaped: bool,
    /// Numbers in another spelling of the same value and kind.
    pub(crate) respelt: bool,
}

impl Json {
    pub(crate) fn write(&self, style: Style) -> String {
        let mut out = String::new();
        self.put(style, &mut out);
        out
    }

    fn put(&self, style: Style, out: &mut String) {
        let space = if style.spaced { " \t\r\n" } else { "" };
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(text) if style.respelt => out.push_str(&respelt(text)),
            Json::Number(text) => out.push_str(text),
            Json::String(text) => string(text, style, out),
            Json::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    out.push_str(space);
                    item.put(style, out);
                    out.push_str(space);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                let mut members: Vec<_> = members.iter().collect();
                if style.reversed {
                    members.reverse();
                }
                for (index, (name, value)) in members.into_iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    out.push_str(space);
                    string(name, style, out);
                    out.push_str(space);
                    out.push(':');
                    out.push_str(space);
                    value.put(style, out);
                    out.push_str(space);
                }
                out.push('}');
            }
        }
    }

    /// Every value of it, containers before what they hold, to be changed.
    pub(crate) fn visit(&mut self, each: &mut impl FnMut(&mut Json)) {
        each(self);
        match self {
            Json::Array(items) => items.iter_mut().for_each(|item| item.visit(each)),
            Json::Object(members) => members.iter_mut().for_each(|(_, value)| value.visit(each)),
            _ => {}
        }
    }

    /// Whether some value or name of it has this property.
    pub(crate) fn any(&self, has: &impl Fn(Part<'_>) -> bool) -> bool {
        match self {
            Json::Array(items) => items.iter().any(|item| item.any(has)),
            Json::Object(members) => members
                .iter()
                .any(|(name, value)| has(Part::Name(name)) || value.any(has)),
            other => has(Part::Value(other)),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members
                .iter()
                .find(|(own, _)| own == name)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }
}

/// What [`Json::any`] looks at.
pub(crate) enum Part<'a> {
    Name(&'a str),
    Value(&'a Json),
}

fn string(text: &str, style: Style, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        if style.escaped || matches!(c, '"' | '\\' | '\0'..='\x1f') {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04X}");
            }
        } else {
            out.push(c);
        }
    }
    out.push('"');
}

/// The same number of the same kind: a number with point or exponent gets zeros that say nothing. Integers have one spelling.
fn respelt(text: &str) -> String {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    if exponent.is_none() && !mantissa.contains('.') {
        return text.to_owned();
    }
    let mantissa = match mantissa.contains('.') {
        true => format!("{mantissa}00"),
        false => format!("{mantissa}.0"),
    };
    let exponent = exponent.unwrap_or("0");
    match exponent.strip_prefix('-') {
        Some(digits) => format!("{mantissa}E-00{digits}"),
        None => format!("{mantissa}E+0{}", exponent.trim_start_matches('+')),
    }
}
