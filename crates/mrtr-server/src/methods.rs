//! The methods that both eras have, by name, and those of them that only say what there is.

use std::sync::Arc;

use http::StatusCode;
use mrtr_protocol::{
    CallToolParams, CompleteParams, DiscoverResult, ErrorObject, GetPromptParams,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, Members,
    REVISION, ReadResourceParams, code, method,
};

use crate::access::Granted;
use crate::call::{Asked, Requester, answer as answer_call};
use crate::completion;
use crate::reply::Reply;
use crate::server::Inner;

/// That no method of this name is served here.
pub(crate) fn not_found(name: &str) -> ErrorObject {
    ErrorObject::new(code::METHOD_NOT_FOUND, format!("Method not found: {name}"))
}

/// Answers the methods that both eras have. `None`: no method of this name is served here.
pub(crate) async fn dispatch(
    inner: &Arc<Inner>,
    name: &str,
    params: &Members<'_>,
    requester: Requester,
) -> Option<Reply> {
    let catalogue = &inner.catalogue;
    let asked = match name {
        method::TOOLS_CALL => CallToolParams::of(params).map(Asked::from),
        method::PROMPTS_GET if !catalogue.prompts.is_empty() => {
            GetPromptParams::of(params).map(Asked::from)
        }
        method::RESOURCES_READ if catalogue.has_resources() => {
            ReadResourceParams::of(params).map(Asked::from)
        }
        method::COMPLETION_COMPLETE if catalogue.completes() => {
            return Some(match CompleteParams::of(params) {
                Ok(params) => completion::answer(inner, requester, &params).await,
                Err(error) => Reply::error(StatusCode::OK, error.to_error_object()),
            });
        }
        method::DISCOVER => return Some(discover(inner)),
        method::TOOLS_LIST => return Some(list_tools(inner, params, &requester.granted)),
        method::PROMPTS_LIST if !catalogue.prompts.is_empty() => {
            return Some(list_prompts(inner, params, &requester.granted));
        }
        method::RESOURCES_LIST if catalogue.has_resources() => {
            return Some(list_resources(inner, params, &requester.granted));
        }
        method::RESOURCES_TEMPLATES_LIST if catalogue.has_resources() => {
            return Some(list_templates(inner, params, &requester.granted));
        }
        _ => return None,
    };
    Some(match asked {
        Ok(mut asked) => {
            if requester.link.is_earlier() {
                // The earlier era knows neither: they are members like any other that is not known.
                asked.responses = None;
                asked.state = None;
            }
            answer_call(inner, requester, &asked).await
        }
        Err(error) => Reply::error(StatusCode::OK, error.to_error_object()),
    })
}

/// `server/discover` (specification, `server/discover`).
fn discover(inner: &Inner) -> Reply {
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
fn list_tools(inner: &Inner, params: &Members<'_>, granted: &Granted) -> Reply {
    let caching = inner.caching.tools.within(&inner.catalogue.tools);
    match inner.catalogue.tools.page(params, inner.page_size, granted) {
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
fn list_prompts(inner: &Inner, params: &Members<'_>, granted: &Granted) -> Reply {
    let caching = inner.caching.prompts.within(&inner.catalogue.prompts);
    match inner
        .catalogue
        .prompts
        .page(params, inner.page_size, granted)
    {
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
fn list_resources(inner: &Inner, params: &Members<'_>, granted: &Granted) -> Reply {
    let caching = inner.caching.resources.within(&inner.catalogue.resources);
    match inner
        .catalogue
        .resources
        .page(params, inner.page_size, granted)
    {
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
fn list_templates(inner: &Inner, params: &Members<'_>, granted: &Granted) -> Reply {
    let caching = inner.caching.templates.within(&inner.catalogue.templates);
    match inner
        .catalogue
        .templates
        .page(params, inner.page_size, granted)
    {
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
