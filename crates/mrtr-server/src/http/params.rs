//! `Mcp-Param-*` against the arguments: what an intermediary routed by must be what the tool gets.
//!
//! Which arguments of a tool are mirrored, its input schema says; the builder has read it. This revision and this transport
//! alone have the headers: over stdio and in the earlier era nobody sends them, and nobody looks.
//!
//! Specification: `basic/transports/streamable-http`, "Server Behavior for Custom Headers".

use http::{HeaderMap, HeaderValue};
use mrtr_protocol::headers::HeaderValueError;
use mrtr_protocol::object::as_string;
use mrtr_protocol::param_headers::{ParamHeader, ParamValue};
use mrtr_protocol::{Members, method};

use crate::access::Granted;
use crate::catalogue::Catalogue;

/// Why a header and an argument do not belong together: -32020, HTTP 400. Names the header and never a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Mismatch<'c> {
    #[error("the {0} header is missing, and the argument that it mirrors is there")]
    Missing(&'c str),
    #[error("the {0} header is there more than once")]
    Doubled(&'c str),
    #[error("the {header} header cannot be read: {why}")]
    Unreadable {
        header: &'c str,
        why: HeaderValueError,
    },
    #[error("the {0} header is there, and the argument that it mirrors is absent or null")]
    Surplus(&'c str),
    #[error("the {0} header and the argument that it mirrors differ")]
    Differs(&'c str),
    #[error(
        "the argument that the {0} header mirrors is an integer beyond 2^53 - 1, which readers of headers take for another one"
    )]
    Unsafe(&'c str),
}

/// Compares the headers of a `tools/call` with its arguments. Other methods have none, and neither has a tool that is not
/// there; headers that this tool does not know are not ours to judge.
pub(crate) fn compare<'c>(
    catalogue: &'c Catalogue,
    granted: &Granted,
    map: &HeaderMap,
    method: &str,
    params: &Members<'_>,
) -> Result<(), Mismatch<'c>> {
    if method != method::TOOLS_CALL {
        return Ok(());
    }
    let name = params.get("name").and_then(as_string);
    let tool = name.and_then(|name| catalogue.tool(&name, granted));
    let Some(mirrored) = tool
        .map(|tool| &tool.param_headers)
        .filter(|mirrored| !mirrored.is_empty())
    else {
        return Ok(());
    };
    let arguments = params
        .get("arguments")
        .and_then(|raw| Members::parse(raw).ok())
        .unwrap_or_default();
    mirrored
        .iter()
        .try_for_each(|header| compare_one(map, header, header.value(&arguments)))
}

fn compare_one<'c>(
    map: &HeaderMap,
    header: &'c ParamHeader,
    value: Option<ParamValue<'_>>,
) -> Result<(), Mismatch<'c>> {
    let name = header.name();
    let mut sent = map.get_all(name).iter();
    let (first, second) = (sent.next(), sent.next());
    if second.is_some() {
        return Err(Mismatch::Doubled(name));
    }
    match (first.map(text), value) {
        (_, Some(ParamValue::Unsafe)) => Err(Mismatch::Unsafe(name)),
        (None, None) => Ok(()),
        // Of a type that the schema does not permit here: no header could say it, and the schema refuses it to the model.
        (None, Some(ParamValue::Other)) => Ok(()),
        (None, Some(_)) => Err(Mismatch::Missing(name)),
        (Some(Err(why)), _) => Err(Mismatch::Unreadable { header: name, why }),
        (Some(Ok(_)), None) => Err(Mismatch::Surplus(name)),
        (Some(Ok(text)), Some(value)) => match value.is_said_by(text) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Mismatch::Differs(name)),
            Err(why) => Err(Mismatch::Unreadable { header: name, why }),
        },
    }
}

/// A header's value without the white space around it, which HTTP does not count to it.
fn text(value: &HeaderValue) -> Result<&str, HeaderValueError> {
    let text =
        std::str::from_utf8(value.as_bytes()).map_err(|_| HeaderValueError::InvalidCharacter)?;
    Ok(text.trim_matches([' ', '\t']))
}
