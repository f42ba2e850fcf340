//! The client's event stream: no difference how it is cut, and no result that a second reader does not find.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use mrtr_client::era::EraChoice;
use mrtr_client::{Client, ResponseBody, Transport, TransportFuture};
use mrtr_protocol::{CallToolResult, Response, object};

use crate::json::{self, Json};
use crate::{cut, runtime};

/// The most that the client reads of one answer.
const LIMIT: usize = 64 << 10;

/// The first byte says how the rest, an event stream, is cut. In it `$ID` stands for the request's id.
pub fn run(data: &[u8]) {
    let Some((&seed, events)) = data.split_first() else {
        return;
    };
    LazyLock::force(&GOOD);
    let whole = answered(events, None);
    assert_eq!(answered(events, Some(seed)), whole, "cut at other places");
    assert_eq!(
        answered(events, Some(seed.wrapping_add(7))),
        whole,
        "cut at other places"
    );
    if let Ok(result) = &whole.0 {
        let last = whole.1.last().expect("a result without a request");
        assert!(
            found(&filled(events, last), last).contains(result),
            "a result that the stream does not hold"
        );
    }
}

/// A good stream has a result.
static GOOD: LazyLock<()> = LazyLock::new(|| {
    let [_, good @ ..] = include_bytes!("../seeds/sse/00");
    let (result, ids) = answered(good, None);
    assert!(
        result.is_ok_and(|result| result.contains("hi")) && !ids.is_empty(),
        "the good path"
    );
});

/// What a call of a tool comes to, and the ids of the requests that were made for it.
fn answered(events: &[u8], seed: Option<u8>) -> (Result<String, String>, Vec<String>) {
    let wire = Wire {
        events: events.to_vec(),
        seed,
        ids: Arc::default(),
    };
    let ids = Arc::clone(&wire.ids);
    let client = Client::builder("http://localhost/mcp")
        .transport(wire)
        .era(EraChoice::Modern)
        .without_cache()
        .max_rounds(3)
        .max_response_bytes(LIMIT)
        .request_timeout(Duration::from_secs(5))
        .build()
        .expect("a client");
    let result = runtime().block_on(client.call_tool("t", ()));
    let result = match result {
        Ok(result) => Ok(serde_json::to_string(&result).expect("JSON")),
        Err(error) => Err(error.to_string()),
    };
    let ids = ids.lock().expect("not poisoned").clone();
    (result, ids)
}

/// Answers every request with the same events.
#[derive(Debug)]
struct Wire {
    events: Vec<u8>,
    seed: Option<u8>,
    ids: Arc<Mutex<Vec<String>>>,
}

impl Transport for Wire {
    fn send(&self, request: http::Request<Bytes>) -> TransportFuture<'_> {
        let text = std::str::from_utf8(request.body()).expect("a client sends text");
        let message = json::read(text).expect("a client sends JSON");
        let id = message
            .get("id")
            .map_or(String::new(), |id| id.write(json::Style::default()));
        let events = filled(&self.events, &id);
        self.ids.lock().expect("not poisoned").push(id);
        let pieces = match self.seed {
            Some(seed) => cut(&events, seed),
            None => vec![&*events],
        };
        let pieces: Vec<_> = pieces
            .into_iter()
            .map(|piece| Ok(Bytes::copy_from_slice(piece)))
            .collect();
        let response = http::Response::builder()
            .header("content-type", "text/event-stream")
            .body(ResponseBody::from_stream(stream::iter(pieces)))
            .expect("a response");
        Box::pin(async { Ok(response) })
    }
}

fn filled(events: &[u8], id: &str) -> Vec<u8> {
    let mut filled = Vec::new();
    let mut rest = events;
    while let Some(at) = rest.windows(3).position(|window| window == b"$ID") {
        filled.extend_from_slice(&rest[..at]);
        filled.extend_from_slice(id.as_bytes());
        rest = &rest[at + 3..];
    }
    filled.extend_from_slice(rest);
    filled
}

/// The results for this id that a second reader finds, by the standard's own algorithm on the whole text.
fn found(stream: &[u8], id: &str) -> Vec<String> {
    let stream = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let mut results = Vec::new();
    let (mut data, mut name) = (Vec::<u8>::new(), Vec::new());
    for line in lines(stream) {
        if line.is_empty() {
            let event = std::mem::take(&mut data);
            let name = std::mem::take(&mut name);
            if matches!(&*name, b"" | b"message") {
                results.extend(result(event.strip_suffix(b"\n").unwrap_or_default(), id));
            }
            continue;
        }
        let colon = line.iter().position(|&byte| byte == b':');
        let (field, value) = match colon {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                data.extend_from_slice(value);
                data.push(b'\n');
            }
            b"event" => name = value.to_vec(),
            _ => {}
        }
    }
    results
}

/// The lines that have an end: CRLF, LF or CR.
fn lines(mut stream: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while let Some(at) = stream.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        lines.push(&stream[..at]);
        let both = stream[at] == b'\r' && stream.get(at + 1) == Some(&b'\n');
        stream = &stream[at + 1 + usize::from(both)..];
    }
    lines
}

fn result(event: &[u8], id: &str) -> Option<String> {
    let response = Response::parse(event).ok()?;
    let own = serde_json::to_string(&response.id?).ok()?;
    let result: CallToolResult = object::read(response.outcome.ok()?).ok()?;
    let result = serde_json::to_string(&result).ok()?;
    // Read by the second reader too: an answer with a name twice is none.
    let text = std::str::from_utf8(event).ok()?;
    matches!(json::read(text)?, Json::Object(_)).then_some(())?;
    (own == id).then_some(result)
}
