//! What a request of the modern era says of itself in `_meta`, whichever transport brought it.

use http::StatusCode;
use mrtr_protocol::notification::ProgressToken;
use mrtr_protocol::{ErrorObject, KindSet, Members, MetaError, REVISION, RequestMeta, code, meta};
use serde_json::value::RawValue;

use crate::outbox::LogGate;

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
    let log = meta.log_level().map_err(|error| invalid(&error))?;
    Ok(Declared {
        kinds: capabilities.kinds(),
        progress: meta.progress_token().map_err(|error| invalid(&error))?,
        log: log.map_or(LogGate::Shut, LogGate::From),
    })
}

fn refusal(message: String) -> Refusal {
    Box::new((
        StatusCode::BAD_REQUEST,
        ErrorObject::new(code::INVALID_PARAMS, message),
    ))
}
