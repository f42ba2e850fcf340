//! Methods that only say what there is.

use mrtr_protocol::{
    DiscoverResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, Members, REVISION,
};

use crate::reply::Reply;
use crate::server::Inner;

/// `server/discover` (specification, `server/discover`).
pub(crate) fn discover(inner: &Inner) -> Reply {
    let caching = inner.caching.discovery;
    Reply::result(&DiscoverResult {
        supported_versions: vec![REVISION.to_owned()],
        capabilities: inner.capabilities.clone(),
        instructions: inner.instructions.clone(),
        ttl_ms: caching.ttl_ms(),
        cache_scope: caching.scope,
        meta: inner.result_meta(),
    })
}

/// `tools/list` (specification, `server/tools`, "Listing Tools").
pub(crate) fn list_tools(inner: &Inner, params: &Members<'_>) -> Reply {
    let caching = inner.caching.tools;
    match inner.catalogue.tools.page(params, inner.page_size) {
        Ok(page) => Reply::result(&ListToolsResult {
            tools: page.entries,
            next_cursor: page.next,
            ttl_ms: caching.ttl_ms(),
            cache_scope: caching.scope,
            meta: inner.result_meta(),
        }),
        Err(refused) => refused,
    }
}

/// `prompts/list` (specification, `server/prompts`, "Listing Prompts").
pub(crate) fn list_prompts(inner: &Inner, params: &Members<'_>) -> Reply {
    let caching = inner.caching.prompts;
    match inner.catalogue.prompts.page(params, inner.page_size) {
        Ok(page) => Reply::result(&ListPromptsResult {
            prompts: page.entries,
            next_cursor: page.next,
            ttl_ms: caching.ttl_ms(),
            cache_scope: caching.scope,
            meta: inner.result_meta(),
        }),
        Err(refused) => refused,
    }
}

/// `resources/list` (specification, `server/resources`, "Listing Resources").
pub(crate) fn list_resources(inner: &Inner, params: &Members<'_>) -> Reply {
    let caching = inner.caching.resources;
    match inner.catalogue.resources.page(params, inner.page_size) {
        Ok(page) => Reply::result(&ListResourcesResult {
            resources: page.entries,
            next_cursor: page.next,
            ttl_ms: caching.ttl_ms(),
            cache_scope: caching.scope,
            meta: inner.result_meta(),
        }),
        Err(refused) => refused,
    }
}

/// `resources/templates/list` (specification, `server/resources`, "Resource Templates").
pub(crate) fn list_templates(inner: &Inner, params: &Members<'_>) -> Reply {
    let caching = inner.caching.templates;
    match inner.catalogue.templates.page(params, inner.page_size) {
        Ok(page) => Reply::result(&ListResourceTemplatesResult {
            resource_templates: page.entries,
            next_cursor: page.next,
            ttl_ms: caching.ttl_ms(),
            cache_scope: caching.scope,
            meta: inner.result_meta(),
        }),
        Err(refused) => refused,
    }
}
