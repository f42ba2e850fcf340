//! Methods that only say what there is.

use mrtr_protocol::{
    CacheScope, DiscoverResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, Members, REVISION,
};

use crate::reply::Reply;
use crate::server::Inner;

/// How long a client may keep a list or a discovery, in milliseconds: one minute. Both are fixed while the process lives;
/// a restart may change them.
const TTL_MS: u64 = 60_000;

/// `server/discover` (specification, `server/discover`).
pub(crate) fn discover(inner: &Inner) -> Reply {
    Reply::result(&DiscoverResult {
        supported_versions: vec![REVISION.to_owned()],
        capabilities: inner.capabilities.clone(),
        instructions: inner.instructions.clone(),
        ttl_ms: TTL_MS,
        cache_scope: CacheScope::Public,
        meta: inner.result_meta(),
    })
}

/// All of a list on one page, in the order in which it was given; a cursor was not made here.
fn on_one_page(params: &Members<'_>, list: impl FnOnce() -> Reply) -> Reply {
    match params.get("cursor") {
        None => list(),
        Some(_) => Reply::invalid_params(
            "Invalid cursor: this server lists everything on one page. Ask again without it.",
        ),
    }
}

/// `tools/list` (specification, `server/tools`, "Listing Tools").
pub(crate) fn list_tools(inner: &Inner, params: &Members<'_>) -> Reply {
    on_one_page(params, || {
        Reply::result(&ListToolsResult {
            tools: inner.catalogue.tools.clone(),
            next_cursor: None,
            ttl_ms: TTL_MS,
            cache_scope: CacheScope::Public,
            meta: inner.result_meta(),
        })
    })
}

/// `prompts/list` (specification, `server/prompts`, "Listing Prompts").
pub(crate) fn list_prompts(inner: &Inner, params: &Members<'_>) -> Reply {
    on_one_page(params, || {
        Reply::result(&ListPromptsResult {
            prompts: inner.catalogue.prompts.clone(),
            next_cursor: None,
            ttl_ms: TTL_MS,
            cache_scope: CacheScope::Public,
            meta: inner.result_meta(),
        })
    })
}

/// `resources/list` (specification, `server/resources`, "Listing Resources").
pub(crate) fn list_resources(inner: &Inner, params: &Members<'_>) -> Reply {
    on_one_page(params, || {
        Reply::result(&ListResourcesResult {
            resources: inner.catalogue.resources.clone(),
            next_cursor: None,
            ttl_ms: TTL_MS,
            cache_scope: CacheScope::Public,
            meta: inner.result_meta(),
        })
    })
}

/// `resources/templates/list` (specification, `server/resources`, "Resource Templates").
pub(crate) fn list_templates(inner: &Inner, params: &Members<'_>) -> Reply {
    on_one_page(params, || {
        Reply::result(&ListResourceTemplatesResult {
            resource_templates: inner.catalogue.templates.clone(),
            next_cursor: None,
            ttl_ms: TTL_MS,
            cache_scope: CacheScope::Public,
            meta: inner.result_meta(),
        })
    })
}
