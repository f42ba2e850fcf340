//! HTTP/1.1 by hand: requests that no client library would send, and answers read with bounds.
//!
//! Each request has a connection of its own. Redirects are not followed, proxies are not asked, nothing is decompressed.

use std::future::pending;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The most that is read of a response's head, in bytes.
const HEAD: usize = 64 * 1024;
/// The most that is read of a response's body, in bytes.
const BODY: usize = 1024 * 1024;
/// The most header lines of a response.
const LINES: usize = 128;

/// Where requests go.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    addresses: Vec<SocketAddr>,
    /// What the `Host` header says.
    pub(crate) authority: String,
    pub(crate) path: String,
}

/// Why a URL is no endpoint.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EndpointError {
    #[error(
        "it is not an http URL with a host; https is not spoken here: probe the server behind its TLS"
    )]
    NotHttp,
    #[error("its host has no address: {0}")]
    NoAddress(#[source] std::io::Error),
    #[error("{0} is not a loopback address; add --allow-remote if the server is yours to attack")]
    Remote(IpAddr),
}

/// Why no response came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Broken {
    /// No connection.
    Unreachable(String),
    /// The connection ended before a response did.
    Closed,
    /// Nothing in time.
    Late,
    /// What came is no HTTP/1.1, or larger than is read.
    Unreadable(&'static str),
}

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The first header of this name, which is in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.header("content-type")
            .is_some_and(|value| value.starts_with("text/event-stream"))
    }
}

impl Endpoint {
    /// Looks an endpoint up, once: every request goes to the addresses that were checked here.
    pub(crate) async fn resolve(url: &str, allow_remote: bool) -> Result<Self, EndpointError> {
        let url: http::Uri = url.parse().map_err(|_| EndpointError::NotHttp)?;
        let host = url.host().unwrap_or_default();
        if url.scheme_str() != Some("http") || host.is_empty() {
            return Err(EndpointError::NotHttp);
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let port = url.port_u16().unwrap_or(80);
        let addresses: Vec<SocketAddr> = tokio::net::lookup_host((bare, port))
            .await
            .map_err(EndpointError::NoAddress)?
            .collect();
        if !allow_remote && let Some(remote) = addresses.iter().find(|to| !to.ip().is_loopback()) {
            return Err(EndpointError::Remote(remote.ip()));
        }
        Ok(Self {
            addresses,
            authority: match url.port_u16() {
                Some(port) => format!("{host}:{port}"),
                None => host.to_owned(),
            },
            path: url
                .path_and_query()
                .map_or_else(|| "/".to_owned(), |path| path.as_str().to_owned()),
        })
    }

    pub(crate) fn is_loopback(&self) -> bool {
        self.addresses.iter().all(|to| to.ip().is_loopback())
    }

    /// Sends these bytes and reads one response. `done` is asked of a stream's body whether it holds what was waited for.
    pub(crate) async fn exchange(
        &self,
        request: &[u8],
        patience: Duration,
        done: fn(&[u8]) -> bool,
    ) -> Result<Response, Broken> {
        let exchange = async {
            let mut stream = self.connect().await?;
            let (mut from, mut to) = stream.split();
            // A server may answer before it has read everything, and then stop reading: the answer ends the exchange.
            let write = async {
                let _ = to.write_all(request).await;
                let _ = to.flush().await;
                pending::<()>().await;
            };
            tokio::select! {
                response = read(&mut from, done) => response,
                () = write => Err(Broken::Closed),
            }
        };
        tokio::time::timeout(patience, exchange)
            .await
            .unwrap_or(Err(Broken::Late))
    }

    /// Sends these bytes, and after a while closes the connection without having read anything.
    pub(crate) async fn hang_up(&self, request: &[u8], after: Duration) -> Result<(), Broken> {
        let mut stream = self.connect().await?;
        stream
            .write_all(request)
            .await
            .map_err(|_| Broken::Closed)?;
        stream.flush().await.map_err(|_| Broken::Closed)?;
        tokio::time::sleep(after).await;
        Ok(())
    }

    async fn connect(&self) -> Result<TcpStream, Broken> {
        let stream = TcpStream::connect(self.addresses.as_slice())
            .await
            .map_err(|error| Broken::Unreachable(error.kind().to_string()))?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Unreachable(why) => write!(out, "no connection: {why}"),
            Broken::Closed => out.write_str("the connection was closed without a response"),
            Broken::Late => out.write_str("no response in time"),
            Broken::Unreadable(what) => out.write_str(what),
        }
    }
}

async fn read(
    from: &mut (impl AsyncRead + Unpin),
    done: fn(&[u8]) -> bool,
) -> Result<Response, Broken> {
    let mut buffer = Vec::new();
    loop {
        let head = loop {
            if let Some(head) = parsed(&buffer)? {
                break head;
            }
            if buffer.len() > HEAD {
                return Err(Broken::Unreadable("the response's head is too large"));
            }
            if !more(from, &mut buffer).await? {
                return Err(Broken::Closed);
            }
        };
        let (mut response, length) = head;
        buffer.drain(..length);
        // An interim response: the real one follows.
        if (100..200).contains(&response.status) {
            continue;
        }
        response.body = body(from, buffer, &response, done).await?;
        return Ok(response);
    }
}

/// The head of a response and its length, once it is whole.
fn parsed(buffer: &[u8]) -> Result<Option<(Response, usize)>, Broken> {
    let mut lines = [httparse::EMPTY_HEADER; LINES];
    let mut head = httparse::Response::new(&mut lines);
    let Ok(status) = head.parse(buffer) else {
        return Err(Broken::Unreadable("what came back is no HTTP/1.1"));
    };
    let httparse::Status::Complete(length) = status else {
        return Ok(None);
    };
    let text = |value: &[u8]| String::from_utf8_lossy(value).trim().to_owned();
    let headers = head.headers.iter();
    let headers = headers.map(|line| (line.name.to_ascii_lowercase(), text(line.value)));
    let response = Response {
        status: head.code.unwrap_or_default(),
        headers: headers.collect(),
        body: Vec::new(),
    };
    Ok(Some((response, length)))
}

async fn body(
    from: &mut (impl AsyncRead + Unpin),
    mut raw: Vec<u8>,
    head: &Response,
    done: fn(&[u8]) -> bool,
) -> Result<Vec<u8>, Broken> {
    let chunked = head
        .header("transfer-encoding")
        .is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
    let length: Option<usize> = head
        .header("content-length")
        .and_then(|value| value.parse().ok());
    if matches!(head.status, 204 | 304) {
        return Ok(Vec::new());
    }
    loop {
        let (body, ended) = match (chunked, length) {
            (true, _) => dechunked(&raw)?,
            (false, Some(length)) => (raw.clone(), raw.len() >= length),
            (false, None) => (raw.clone(), false),
        };
        if ended || (head.is_stream() && done(&body)) {
            return Ok(body);
        }
        if body.len() > BODY || raw.len() > 2 * BODY {
            return Err(Broken::Unreadable("the response's body is too large"));
        }
        match more(from, &mut raw).await {
            Ok(true) => {}
            // A body without a length ends with its connection, and so does a stream that is cut off.
            Ok(false) | Err(Broken::Closed)
                if head.is_stream() || (!chunked && length.is_none()) =>
            {
                return Ok(body);
            }
            Ok(false) => return Err(Broken::Closed),
            Err(broken) => return Err(broken),
        }
    }
}

/// What the chunks hold so far, and whether the last one is there.
fn dechunked(mut raw: &[u8]) -> Result<(Vec<u8>, bool), Broken> {
    let mut body = Vec::new();
    loop {
        match httparse::parse_chunk_size(raw) {
            Ok(httparse::Status::Complete((_, 0))) => return Ok((body, true)),
            Ok(httparse::Status::Complete((start, size))) => {
                let size = usize::try_from(size).unwrap_or(usize::MAX);
                let rest = raw.get(start..).unwrap_or_default();
                let chunk = rest.get(..size.min(rest.len())).unwrap_or_default();
                body.extend_from_slice(chunk);
                match rest.get(size.saturating_add(2)..) {
                    Some(next) => raw = next,
                    None => return Ok((body, false)),
                }
            }
            Ok(httparse::Status::Partial) => return Ok((body, false)),
            Err(_) => return Err(Broken::Unreadable("a chunk of the response is none")),
        }
    }
}

async fn more(from: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Result<bool, Broken> {
    let mut piece = [0; 16 * 1024];
    let read = from.read(&mut piece).await.map_err(|_| Broken::Closed)?;
    buffer.extend_from_slice(piece.get(..read).unwrap_or_default());
    Ok(read > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(text: &str) -> Result<Response, Broken> {
        read(&mut text.as_bytes(), |_| false).await
    }

    #[tokio::test]
    async fn bodies_of_every_framing_are_read() {
        for text in [
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\nhello",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        ] {
            let response = read_all(text).await.unwrap();
            assert_eq!(
                (response.status, response.body.as_slice()),
                (200, &b"hello"[..]),
                "{text}"
            );
        }
    }

    #[tokio::test]
    async fn half_a_response_is_none() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhell",
        ] {
            assert_eq!(read_all(text).await.unwrap_err(), Broken::Closed, "{text}");
        }
        assert!(matches!(
            read_all("SSH-2.0-x\r\n").await,
            Err(Broken::Unreadable(_))
        ));
    }

    #[tokio::test]
    async fn what_is_read_has_a_bound() {
        let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", "a".repeat(BODY + 1));
        assert!(matches!(
            read_all(&endless).await,
            Err(Broken::Unreadable(_))
        ));
        let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "a".repeat(2 * HEAD));
        assert!(matches!(
            read_all(&endless).await,
            Err(Broken::Unreadable(_))
        ));
    }

    #[tokio::test]
    async fn other_machines_are_refused_unless_they_are_allowed() {
        let refused = Endpoint::resolve("http://192.0.2.1/mcp", false).await;
        assert!(matches!(refused, Err(EndpointError::Remote(_))));
        let allowed = Endpoint::resolve("http://192.0.2.1/mcp", true)
            .await
            .unwrap();
        assert!(!allowed.is_loopback());
        for url in ["http://127.0.0.1:8/mcp", "http://[::1]/mcp"] {
            assert!(
                Endpoint::resolve(url, false).await.unwrap().is_loopback(),
                "{url}"
            );
        }
        for url in ["https://127.0.0.1/mcp", "127.0.0.1", "ftp://127.0.0.1/", ""] {
            let refused = Endpoint::resolve(url, true).await;
            assert!(matches!(refused, Err(EndpointError::NotHttp)), "{url}");
        }
    }
}
