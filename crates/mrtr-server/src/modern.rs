//! Requests of the modern era, whichever transport brought them: what `_meta` must say, and the methods.

use std::sync::Arc;

use http::StatusCode;
use mrtr_protocol::notification::{LogLevel, ProgressToken};
use mrtr_protocol::object::as_string;
use mrtr_protocol::{
    CallToolParams, CompleteParams, ErrorObject, GetPromptParams, KindSet, Members, MetaError,
    REVISION, ReadResourceParams, RequestMeta, code, meta, method,
};

use serde_json::value::RawValue;

use crate::call::{Asked, Requester, answer as answer_call};
use crate::completion;
use crate::methods;
use crate::outbox::LogGate;
use crate::reply::Reply;
use crate::server::Inner;

/// A request that no method sees: the error, and the HTTP status it travels with.
pub(crate) type Refusal = Box<(StatusCode, ErrorObject)>;

/// What a request says of its client in `_meta`.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) kinds: KindSet,
    pub(crate) progress: Option<ProgressToken>,
    pub(crate) log: LogGate,
}

/// Whether a request says in `_meta` that it is of the modern era.
pub(crate) fn is_modern(params: &RawValue) -> bool {
    Members::parse(params)
        .ok()
        .and_then(|params| RequestMeta::of(&params).ok())
        .is_some_and(|meta| meta.get(meta::PROTOCOL_VERSION).is_some())
}

/// Reads `_meta` in the order in which its faults are told: the version is there, it is served, the capabilities are there.
pub(crate) fn declared(meta: Result<RequestMeta<'_>, MetaError>) -> Result<Declared, Refusal> {
    let invalid = |why: &dyn std::fmt::Display| refusal(format!("Invalid params: {why}."));
    let meta = meta.map_err(|error| invalid(&error))?;
    let version = meta.protocol_version().map_err(|error| invalid(&error))?;
    if version != REVISION {
        let error = ErrorObject::unsupported_version(version.into_owned(), [REVISION]);
        return Err(Box::new((StatusCode::BAD_REQUEST, error)));
    }
    let capabilities = meta
        .client_capabilities()
        .map_err(|error| invalid(&error))?;
    let log = match meta.get(meta::LOG_LEVEL).map(as_string) {
        None => LogGate::Shut,
        Some(word) => word
            .and_then(|word| LogLevel::from_word(&word))
            .map(LogGate::From)
            .ok_or_else(|| {
                invalid(&format_args!(
                    "`{}` in `_meta` is not a level",
                    meta::LOG_LEVEL
                ))
            })?,
    };
    Ok(Declared {
        kinds: capabilities.kinds(),
        progress: progress_token(&meta).map_err(|why| invalid(&why))?,
        log,
    })
}

/// The token under which the request wants progress to be reported, in both eras.
pub(crate) fn progress_token(
    meta: &RequestMeta<'_>,
) -> Result<Option<ProgressToken>, &'static str> {
    let Some(raw) = meta.get(meta::PROGRESS_TOKEN) else {
        return Ok(None);
    };
    ProgressToken::from_raw(raw)
        .map(Some)
        .ok_or("`progressToken` in `_meta` must be a string or an integer")
}

fn refusal(message: String) -> Refusal {
    Box::new((
        StatusCode::BAD_REQUEST,
        ErrorObject::new(code::INVALID_PARAMS, message),
    ))
}

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
        method::DISCOVER => return Some(methods::discover(inner)),
        method::TOOLS_LIST => return Some(methods::list_tools(inner, params)),
        method::PROMPTS_LIST if !catalogue.prompts.is_empty() => {
            return Some(methods::list_prompts(inner, params));
        }
        method::RESOURCES_LIST if catalogue.has_resources() => {
            return Some(methods::list_resources(inner, params));
        }
        method::RESOURCES_TEMPLATES_LIST if catalogue.has_resources() => {
            return Some(methods::list_templates(inner, params));
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
