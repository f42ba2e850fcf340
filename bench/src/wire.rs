//! Just enough HTTP to send calls and see where an answer ends.

use std::io::{self, Write as _};
use std::ops::Range;

use mrtr_bench::TOKEN;

/// A `tools/call`.
pub(crate) enum Call<'a> {
    /// Asks nothing.
    Echo { id: u64 },
    /// Asks once.
    Ask { id: u64 },
    /// The same again, with the answer and the state that came.
    Answer { id: u64, state: &'a str },
}

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"0.0.0"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}"#;

impl Call<'_> {
    /// The whole request, head and body.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let name = match self {
            Self::Echo { .. } => "echo",
            Self::Ask { .. } | Self::Answer { .. } => "pay",
        };
        let body = match self {
            Self::Echo { id } => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"hello, world"}},{META}}}}}"#
            ),
            Self::Ask { id } => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"pay","arguments":{{"to":"acct-7","amount":100}},{META}}}}}"#
            ),
            Self::Answer { id, state } => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"pay","arguments":{{"to":"acct-7","amount":100}},"inputResponses":{{"confirm":{{"action":"accept","content":{{"ok":true}}}}}},"requestState":"{state}",{META}}}}}"#
            ),
        };
        // Writing to a vector does not fail.
        _ = write!(
            out,
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {name}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
    }
}

/// Where the body lies, once all of the answer is there. Anything but 200 is an error.
pub(crate) fn body(answer: &[u8]) -> io::Result<Option<Range<usize>>> {
    let Some(end) = find(answer, b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&answer[..end]).map_err(io::Error::other)?;
    let start = end + 4;
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    let mut length = None;
    let mut chunked = false;
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse::<usize>().map_err(io::Error::other)?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.trim().eq_ignore_ascii_case("chunked");
        }
    }
    let body = match length {
        Some(length) if answer.len() >= start + length => start..start + length,
        None if chunked && answer[start..].ends_with(b"\r\n0\r\n\r\n") => start..answer.len(),
        Some(_) => return Ok(None),
        None if chunked => return Ok(None),
        None => start..answer.len(),
    };
    if status.split(' ').nth(1) == Some("200") {
        Ok(Some(body))
    } else {
        let all = String::from_utf8_lossy(answer);
        Err(io::Error::other(format!("no 200: {all}")))
    }
}

/// The state in an answer that asks.
pub(crate) fn state(body: &[u8]) -> io::Result<&str> {
    const NAME: &[u8] = br#""requestState":""#;
    let none = || io::Error::other("an answer without a state");
    let start = find(body, NAME).ok_or_else(none)? + NAME.len();
    let length = find(&body[start..], b"\"").ok_or_else(none)?;
    std::str::from_utf8(&body[start..start + length]).map_err(io::Error::other)
}

pub(crate) fn holds(body: &[u8], expected: &[u8]) -> bool {
    find(body, expected).is_some()
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, what)
}
