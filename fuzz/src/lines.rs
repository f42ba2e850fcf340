//! Lines, as stdio has them: for the server, and for the client.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use mrtr_client::Client;
use mrtr_client::era::EraChoice;
use mrtr_protocol::Incoming;
use mrtr_server::{Server, tool};
use mrtr_state::Principal;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::json::{self, Json};
use crate::{cut, runtime};

/// The most that a line may have.
const LIMIT: usize = 4 << 10;

/// A request that is good whatever came before it.
const PING: &str = r#"{"jsonrpc":"2.0","id":"the last","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// The first byte says how the rest, lines, is cut.
pub fn run(data: &[u8]) {
    let Some((&seed, lines)) = data.split_first() else {
        return;
    };
    let whole = served(lines, None);
    let pieces = served(lines, Some(seed));
    // Ids in flight and cancelling are about time, and time is where the cuts are.
    if !about_time(lines) {
        assert_eq!(pieces, whole, "cut at other places");
    }
    told(lines, Some(seed));
}

/// What the server answers to lines, sorted. Behind them comes a request that is good.
fn served(lines: &[u8], seed: Option<u8>) -> Vec<String> {
    let input = [lines, b"\n", PING.as_bytes(), b"\n"].concat();
    let (reader, writer) = (Pieces::new(&input, seed), Written::default());
    let out = writer.clone();
    let server = Server::builder("lines", "1.0.0")
        .limits(|limits| limits.body = LIMIT)
        .allow_anonymous()
        .tool(tool("plain", async || "done"))
        .build()
        .expect("a server");
    runtime().block_on(async {
        let principal = Principal::user("stdio", "user-a");
        let served = server.serve_lines(reader, writer, principal, std::future::pending());
        served.await.expect("reading does not fail");
    });
    let mut answers = out.lines();
    let asked = input
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.trim_ascii().is_empty());
    assert!(
        answers.len() <= asked.count(),
        "more answers than lines: {answers:?}"
    );
    for answer in &answers {
        well_formed(answer);
    }
    let last =
        |answer: &&String| answer.contains(r#""id":"the last""#) && answer.contains(r#""result""#);
    // A line before it may have had the same id.
    assert!(
        answers.iter().filter(last).count() >= 1
            || lines.windows(8).any(|window| window == b"the last"),
        "{answers:?}"
    );
    answers.sort_unstable();
    answers
}

/// One message, or the answer to a batch, which 2025-03-26 has.
fn well_formed(answer: &str) {
    let value = json::read(answer).unwrap_or_else(|| panic!("an answer that is no JSON: {answer}"));
    let messages = match &value {
        Json::Array(items) => &**items,
        one => std::slice::from_ref(one),
    };
    for message in messages {
        assert_eq!(
            message.get("jsonrpc").and_then(Json::text),
            Some("2.0"),
            "{answer}"
        );
        assert_ne!(message.get("id"), Some(&Json::Null), "{answer}");
        let error = message.get("error");
        if message.get("method").is_none() {
            assert_ne!(message.get("result").is_some(), error.is_some(), "{answer}");
        }
        let code = error.and_then(|error| error.get("code"));
        assert_ne!(
            code,
            Some(&Json::Number("-32603".into())),
            "an internal error: {answer}"
        );
    }
}

/// Whether what comes of the lines depends on when each is read.
fn about_time(lines: &[u8]) -> bool {
    let mut ids = Vec::new();
    for line in lines.split(|&byte| byte == b'\n') {
        match Incoming::parse(line) {
            Ok(Incoming::Request(request)) if request.method == "initialize" => return true,
            Ok(Incoming::Request(request)) => ids.push(request.id),
            Ok(_) => return true,
            Err(_) => {}
        }
        if line.trim_ascii_start().first() == Some(&b'[') {
            return true;
        }
    }
    let distinct: std::collections::HashSet<_> = ids.iter().collect();
    distinct.len() < ids.len()
}

/// The client at the other end of such lines: it ends, and says nothing that is not JSON-RPC.
fn told(lines: &[u8], seed: Option<u8>) {
    let (reader, writer) = (Pieces::new(lines, seed), Written::default());
    let out = writer.clone();
    let client = Client::pipe("lines", reader, writer)
        .era(EraChoice::Modern)
        .without_cache()
        .max_rounds(3)
        .max_response_bytes(LIMIT)
        .request_timeout(Duration::from_secs(5))
        .build()
        .expect("a client");
    runtime().block_on(async {
        // Whatever it comes to: it comes to something.
        drop(client.call_tool("t", ()).await);
        drop(client);
    });
    let said = out.lines();
    assert!(
        said.len() <= 16 + lines.split(|&byte| byte == b'\n').count(),
        "a storm: {said:?}"
    );
    for line in said {
        assert!(Incoming::parse(line.as_bytes()).is_ok(), "{line}");
    }
}

/// Reads piece by piece, then ends.
struct Pieces(VecDeque<Vec<u8>>);

impl Pieces {
    fn new(data: &[u8], seed: Option<u8>) -> Self {
        let pieces = match seed {
            Some(seed) => cut(data, seed),
            None => vec![data],
        };
        Self(pieces.into_iter().map(<[u8]>::to_vec).collect())
    }
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(mut piece) = self.0.pop_front() {
            let rest = piece.split_off(buf.remaining().min(piece.len()));
            buf.put_slice(&piece);
            if !rest.is_empty() {
                self.0.push_front(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Keeps what is written.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().expect("not poisoned");
        let text = std::str::from_utf8(&bytes).expect("what is written is text");
        text.lines().map(str::to_owned).collect()
    }
}

impl AsyncWrite for Written {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0
            .lock()
            .expect("not poisoned")
            .extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
