//! Lists that come in pages.
//!
//! A cursor is the mark of the last entry of the page before: a hash of its name. So it needs nothing on the server, it is the
//! same on every instance, and it stays good when a restart has put other entries before it or changed the size of pages.
//!
//! Specification: `server/utilities/pagination`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mrtr_protocol::{Members, PaginatedParams};
use sha2::{Digest as _, Sha256};

use crate::access::{Access, Granted};
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
    access: Vec<Arc<Access>>,
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
            access: Vec::new(),
        }
    }

    /// Adds an entry of this name, which no other has, and who sees it.
    pub(crate) fn push(&mut self, name: &str, entry: T, access: &Arc<Access>) {
        self.access.push(Arc::clone(access));
        self.marks.push(mark(self.method, name));
        self.entries.push(entry);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it depends on who asks.
    pub(crate) fn is_divided(&self) -> bool {
        self.access.iter().any(|access| access.divides())
    }

    /// The page that the params ask for, of at most `size` of the entries that this caller sees. A cursor that stands behind
    /// another entry is none of theirs.
    pub(crate) fn page(
        &self,
        params: &Members<'_>,
        size: usize,
        granted: &Granted,
    ) -> Result<Page<T>, Reply> {
        let invalid = || {
            Reply::invalid_params(
                "Invalid cursor: it is not one of this list, or not any more. List from the beginning, without it.",
            )
        };
        let cursor = PaginatedParams::of(params).map_err(|_| invalid())?.cursor;
        let mut seen = self.access.iter().zip(&self.marks).zip(&self.entries);
        let mut seen = seen
            .by_ref()
            .filter(|((access, _), _)| access.is_listed(granted))
            .map(|((_, mark), entry)| (mark, entry));
        if let Some(cursor) = cursor {
            let wanted = read(&cursor).ok_or_else(invalid)?;
            seen.find(|(mark, _)| **mark == wanted)
                .ok_or_else(invalid)?;
        }
        let page: Vec<_> = seen.by_ref().take(size).collect();
        let more = seen.next().is_some();
        let last = page.last().filter(|_| more);
        Ok(Page {
            next: last.map(|(mark, _)| URL_SAFE_NO_PAD.encode(mark)),
            entries: page.into_iter().map(|(_, entry)| entry.clone()).collect(),
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
