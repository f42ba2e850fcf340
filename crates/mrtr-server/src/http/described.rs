//! Header against body: what an intermediary routed by must be what the server executes.
//!
//! Specification: `basic/transports/streamable-http`, "Request Metadata" and "Server Validation".

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue};
use mrtr_protocol::headers;

/// Why headers and body do not belong together: -32020, HTTP 400.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Mismatch {
    #[error("the {0} header is missing")]
    Missing(&'static str),
    #[error("the {0} header is there more than once")]
    Doubled(&'static str),
    #[error("the {header} header cannot be read: {why}")]
    Unreadable { header: &'static str, why: String },
    #[error("the {header} header and the body's {member} differ")]
    Differs {
        header: &'static str,
        member: &'static str,
    },
}

/// The headers that describe the body, each at most once and readable.
#[derive(Debug)]
pub(crate) struct Described<'h> {
    version: &'h str,
    method: &'h str,
    name: Option<Cow<'h, str>>,
}

impl<'h> Described<'h> {
    /// Reads the headers; the version and the method are required for every request.
    pub(crate) fn read(map: &'h HeaderMap) -> Result<Self, Mismatch> {
        let version = one(map, headers::PROTOCOL_VERSION)?
            .ok_or(Mismatch::Missing("MCP-Protocol-Version"))?;
        let method = one(map, headers::METHOD)?.ok_or(Mismatch::Missing("Mcp-Method"))?;
        let name = one(map, headers::NAME)?.map(headers::decode).transpose();
        let name = name.map_err(|error| Mismatch::Unreadable {
            header: "Mcp-Name",
            why: error.to_string(),
        })?;
        Ok(Self {
            version,
            method,
            name,
        })
    }

    /// Compares with the body. `version` is `_meta`'s, if it could be read; `target` is `params.name` or `params.uri`, if
    /// the method has one.
    pub(crate) fn compare(
        &self,
        body_method: &str,
        version: Option<&str>,
        target: Option<&str>,
    ) -> Result<(), Mismatch> {
        let differs = |header, member| Err(Mismatch::Differs { header, member });
        if self.method != body_method {
            return differs("Mcp-Method", "method");
        }
        if version.is_some_and(|version| version != self.version) {
            return differs("MCP-Protocol-Version", "protocolVersion");
        }
        let Some(member) = named_by(body_method) else {
            return Ok(());
        };
        match &self.name {
            None => Err(Mismatch::Missing("Mcp-Name")),
            Some(name) if name.is_empty() => Err(Mismatch::Missing("Mcp-Name")),
            Some(name) if Some(name.as_ref()) == target => Ok(()),
            Some(_) => differs("Mcp-Name", member),
        }
    }
}

/// The member of `params` that `Mcp-Name` mirrors, for the methods that require the header.
pub(crate) use mrtr_protocol::headers::name_source as named_by;

/// The one value of a header; an empty one counts as missing.
fn one<'h>(map: &'h HeaderMap, name: &'static str) -> Result<Option<&'h str>, Mismatch> {
    let mut values = map.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Mismatch::Doubled(shown(name)));
    }
    let text = HeaderValue::to_str(value).map_err(|_| Mismatch::Unreadable {
        header: shown(name),
        why: "it is not visible ASCII".into(),
    })?;
    // HTTP strips white space around a value; what is left of it here came over a connection that did not.
    Ok(Some(text.trim_matches([' ', '\t'])).filter(|text| !text.is_empty()))
}

fn shown(name: &'static str) -> &'static str {
    match name {
        headers::PROTOCOL_VERSION => "MCP-Protocol-Version",
        headers::METHOD => "Mcp-Method",
        _ => "Mcp-Name",
    }
}
