//! Lists that come in pages.
//!
//! A cursor is the mark of the last entry of the page before: a hash of its name. So it needs nothing on the server, it is the
//! same on every instance, and it stays good when a restart has put other entries before it or changed the size of pages.
//!
//! Specification: `server/utilities/pagination`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mrtr_protocol::{Members, PaginatedParams};
use sha2::{Digest as _, Sha256};

use crate::reply::Reply;

/// Bytes of a mark. Names are the author's, so that nobody looks for two of one mark.
const MARK: usize = 16;

type Mark = [u8; MARK];

/// What is listed, in order, each entry with its mark.
#[derive(Debug)]
pub(crate) struct Listed<T> {
    method: &'static str,
    entries: Vec<T>,
    marks: Vec<Mark>,
}

/// Some of a list, and where it goes on.
pub(crate) struct Page<T> {
    pub(crate) entries: Vec<T>,
    pub(crate) next: Option<String>,
}

impl<T: Clone> Listed<T> {
    /// The list of this method, whose cursors are good for no other.
    pub(crate) fn new(method: &'static str) -> Self {
        Self {
            method,
            entries: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// Adds an entry of this name, which no other has.
    pub(crate) fn push(&mut self, name: &str, entry: T) {
        self.marks.push(mark(self.method, name));
        self.entries.push(entry);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The page that the params ask for, of at most `size` entries.
    pub(crate) fn page(&self, params: &Members<'_>, size: usize) -> Result<Page<T>, Reply> {
        let invalid = || {
            Reply::invalid_params(
                "Invalid cursor: it is not one of this list, or not any more. List from the beginning, without it.",
            )
        };
        let cursor = PaginatedParams::of(params).map_err(|_| invalid())?.cursor;
        let from = match cursor {
            None => 0,
            Some(cursor) => {
                let wanted = read(&cursor).ok_or_else(invalid)?;
                let last = self.marks.iter().position(|mark| *mark == wanted);
                last.ok_or_else(invalid)? + 1
            }
        };
        let to = from.saturating_add(size).min(self.entries.len());
        let more = to < self.entries.len();
        let last = to.checked_sub(1).and_then(|last| self.marks.get(last));
        Ok(Page {
            entries: self.entries.get(from..to).unwrap_or_default().to_vec(),
            next: last
                .filter(|_| more)
                .map(|mark| URL_SAFE_NO_PAD.encode(mark)),
        })
    }
}

fn mark(method: &str, name: &str) -> Mark {
    let mut hash = Sha256::new();
    hash.update(b"mrtr cursor v1\0");
    hash.update(method);
    hash.update(b"\0");
    hash.update(name);
    let hash: [u8; 32] = hash.finalize().into();
    let mut mark = [0; MARK];
    mark.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
    mark
}

fn read(cursor: &str) -> Option<Mark> {
    // Nothing longer is decoded.
    if cursor.len() != MARK.div_ceil(3) * 4 - 2 {
        return None;
    }
    URL_SAFE_NO_PAD.decode(cursor).ok()?.try_into().ok()
}
