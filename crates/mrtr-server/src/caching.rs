//! How long, and by whom, a client may keep what it was told.
//!
//! Specification: `server/utilities/caching`.

use std::time::Duration;

use mrtr_protocol::{CacheScope, ReadResourceResult};

use crate::listed::Listed;

/// A hint for caches: how long a result may be taken for fresh, and whether one caller's may be shown to another.
///
/// It is a hint, and no promise that the result stays as it is. **Not guaranteed:** that anybody heeds it. Never put what one
/// caller may see and another may not behind a public hint: a shared cache answers without asking this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caching {
    pub(crate) ttl: Duration,
    pub(crate) scope: CacheScope,
}

impl Caching {
    /// Stale at once, and for this caller alone: what a result of a resource says by itself.
    pub const NONE: Self = Self::private(Duration::ZERO);

    /// Fresh for so long, for anybody, whoever asked.
    #[must_use]
    pub const fn public(ttl: Duration) -> Self {
        Self {
            ttl,
            scope: CacheScope::Public,
        }
    }

    /// Fresh for so long, for this caller alone.
    #[must_use]
    pub const fn private(ttl: Duration) -> Self {
        Self {
            ttl,
            scope: CacheScope::Private,
        }
    }

    /// The same for a list, which is nobody's but the caller's where it depends on who asks.
    pub(crate) fn within<T: Clone>(self, list: &Listed<T>) -> Self {
        match list.is_divided() {
            true => Self::private(self.ttl),
            false => self,
        }
    }

    /// In milliseconds, as far as every reader of JSON agrees on an integer.
    pub(crate) fn ttl_ms(self) -> u64 {
        const SAFE: u64 = (1 << 53) - 1;
        u64::try_from(self.ttl.as_millis()).map_or(SAFE, |ttl| ttl.min(SAFE))
    }

    /// Puts this into a result, which is one that says nothing of it by itself.
    pub(crate) fn hint(self, result: &mut ReadResourceResult) {
        result.ttl_ms = self.ttl_ms();
        result.cache_scope = self.scope;
    }

    /// Takes every hint out of a result that came of answers: they are no part of what a cache looks up by.
    pub(crate) fn forbid(result: &mut ReadResourceResult) {
        result.ttl_ms = 0;
        result.cache_scope = CacheScope::Private;
    }
}

/// Hints for what a server says of itself: each public and fresh for a minute by default, because it is the same for every
/// caller and fixed while the process lives.
///
/// All pages of a list have the same hint. A list that depends on the caller's scopes is hinted to be private, whatever is said
/// here ([`Tool::scopes`](crate::Tool::scopes)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListCaching {
    /// `server/discover`.
    pub discovery: Caching,
    /// `tools/list`.
    pub tools: Caching,
    /// `prompts/list`.
    pub prompts: Caching,
    /// `resources/list`.
    pub resources: Caching,
    /// `resources/templates/list`.
    pub templates: Caching,
}

impl Default for ListCaching {
    fn default() -> Self {
        let minute = Caching::public(Duration::from_secs(60));
        Self {
            discovery: minute,
            tools: minute,
            prompts: minute,
            resources: minute,
            templates: minute,
        }
    }
}
