//! One canonical byte sequence for all spellings of a JSON text.
//!
//! ```text
//! null    n
//! true    t
//! false   f
//! string  s <length> <UTF-8 of the decoded string>
//! number  see `number`
//! array   [ <value>* ]
//! object  { ( k <length> <UTF-8 of the decoded name> <value> )* }      names ascending by bytes
//! ```
//!
//! A length is eight bytes, big-endian. Every value starts with a byte that says what it is and
//! ends where its content says, so that no two values share a sequence and none is the beginning
//! of another. It is not the JSON Canonicalization Scheme (RFC 8785), which maps large integers
//! onto floats.
//!
//! The text is read here and not through a JSON library, because what such a library makes of a
//! number depends on how it was built.

use std::borrow::Cow;

use crate::token::length_prefix;

mod number;
mod scan;

use scan::{Kind, Node};

/// How deep arrays and objects may nest, as in `serde_json`.
pub const MAX_DEPTH: usize = 128;

/// A JSON text has no digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DigestError {
    /// Not JSON (RFC 8259), lone surrogates included.
    #[error("not JSON at byte {at}")]
    Syntax {
        /// Where, in bytes from the start.
        at: usize,
    },
    /// Arrays and objects nest deeper than [`MAX_DEPTH`].
    #[error("arrays and objects nest deeper than {MAX_DEPTH}")]
    TooDeep,
    /// An object has two members of one name, and which of them counts is anybody's guess.
    #[error("an object has two members of the same name")]
    DuplicateName,
}

/// Feeds the canonical bytes of a JSON text to `sink`, piece by piece.
///
/// Guaranteed: equal sequences for texts that differ in whitespace, in the order of members, in
/// the spelling of escapes, and in the spelling of a number's value within its kind; different
/// sequences otherwise. Unicode is not normalised. An integer and a number with a point or an
/// exponent are different kinds, zeros have a sign, digits count at any length. The sequence is
/// the same in every build.
///
/// Takes time and memory in proportion to the text, sorting of names aside.
///
/// # Errors
///
/// [`DigestError`]; `sink` may have been fed a part by then.
///
/// ```
/// let bytes = |text| {
///     let mut bytes = Vec::new();
///     mrtr_state::walk_json(text, &mut |piece| bytes.extend_from_slice(piece)).map(|()| bytes)
/// };
/// assert_eq!(bytes(r#"{"a": 1.0, "b": "\u0041"}"#)?, bytes(r#"{"b":"A","a":1e0}"#)?);
/// assert_ne!(bytes("1")?, bytes("1.0")?);
/// # Ok::<(), mrtr_state::DigestError>(())
/// ```
pub fn walk_json(text: &str, sink: &mut impl FnMut(&[u8])) -> Result<(), DigestError> {
    let nodes = scan::scan(text)?;
    let walk = Walk {
        text,
        nodes: &nodes,
    };
    walk.value(0, sink).map(|_next| ())
}

/// Walks the nodes that the scan left, in text order: a container is followed by what it holds.
struct Walk<'a> {
    text: &'a str,
    nodes: &'a [Node],
}

impl<'a> Walk<'a> {
    /// Emits the node at `index` with what it holds; returns the index behind that.
    ///
    /// Recursion is bounded: the scan refuses what nests too deep.
    fn value(&self, index: usize, sink: &mut impl FnMut(&[u8])) -> Result<usize, DigestError> {
        let Some(node) = self.nodes.get(index) else {
            return Ok(index);
        };
        match node.kind {
            Kind::Null => sink(b"n"),
            Kind::True => sink(b"t"),
            Kind::False => sink(b"f"),
            Kind::Number => number::emit(self.text_of(node), sink),
            Kind::String { .. } => self.string(b"s", node, sink),
            Kind::Array => {
                sink(b"[");
                let mut at = index + 1;
                while at < node.next {
                    at = self.value(at, sink)?;
                }
                sink(b"]");
            }
            Kind::Object { ascending } => {
                sink(b"{");
                if ascending {
                    let mut at = index + 1;
                    while at < node.next {
                        at = self.member(at, sink)?;
                    }
                } else {
                    for at in self.sorted_members(index, node.next)? {
                        self.member(at, sink)?;
                    }
                }
                sink(b"}");
            }
        }
        Ok(node.next)
    }

    /// Emits the name at `index` and the value behind it.
    fn member(&self, index: usize, sink: &mut impl FnMut(&[u8])) -> Result<usize, DigestError> {
        if let Some(name) = self.nodes.get(index) {
            self.string(b"k", name, sink);
        }
        self.value(index + 1, sink)
    }

    /// Where the members of the object at `index` are, ascending by name.
    fn sorted_members(&self, index: usize, end: usize) -> Result<Vec<usize>, DigestError> {
        let mut members: Vec<(Cow<'a, str>, usize)> = Vec::new();
        let mut at = index + 1;
        while let Some(name) = self.nodes.get(at).filter(|_| at < end) {
            members.push((name.decoded(self.text), at));
            at = self.nodes.get(at + 1).map_or(end, |value| value.next);
        }
        members.sort_unstable();
        if members
            .windows(2)
            .any(|pair| matches!(pair, [a, b] if a.0 == b.0))
        {
            return Err(DigestError::DuplicateName);
        }
        Ok(members.into_iter().map(|(_, at)| at).collect())
    }

    fn string(&self, tag: &[u8], node: &Node, sink: &mut impl FnMut(&[u8])) {
        let decoded = node.decoded(self.text);
        sink(tag);
        sink(&length_prefix(decoded.as_bytes()));
        sink(decoded.as_bytes());
    }

    fn text_of(&self, node: &Node) -> &'a str {
        self.text.get(node.start..node.end).unwrap_or_default()
    }
}
