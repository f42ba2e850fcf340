//! Methods other than `tools/call`.

use std::sync::Arc;

use mrtr_protocol::{CacheScope, DiscoverResult, ListToolsResult, Members, REVISION};

use crate::reply::Reply;
use crate::server::Inner;

/// How long a client may keep a list or a discovery, in milliseconds: one minute. Both are fixed while the process lives;
/// a restart may change them.
const TTL_MS: u64 = 60_000;

/// `server/discover` (specification, `server/discover`).
pub(crate) fn discover(inner: &Arc<Inner>) -> Reply {
    Reply::result(&DiscoverResult {
        supported_versions: vec![REVISION.to_owned()],
        capabilities: inner.capabilities.clone(),
        instructions: inner.instructions.clone(),
        ttl_ms: TTL_MS,
        cache_scope: CacheScope::Public,
        meta: inner.result_meta(),
    })
}

/// `tools/list` (specification, `server/tools`, "Listing Tools"). All tools on one page, in the order they were given.
pub(crate) fn list_tools(inner: &Arc<Inner>, params: &Members<'_>) -> Reply {
    if params.get("cursor").is_some() {
        return Reply::invalid_params(
            "Invalid cursor: this server lists all tools on one page. Ask again without it.",
        );
    }
    Reply::result(&ListToolsResult {
        tools: inner
            .tools
            .iter()
            .map(|tool| tool.published.clone())
            .collect(),
        next_cursor: None,
        ttl_ms: TTL_MS,
        cache_scope: CacheScope::Public,
        meta: inner.result_meta(),
    })
}
