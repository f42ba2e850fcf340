//! A bounded reader of server-sent events (*WHATWG HTML, Server-sent events, Interpreting an event stream*).

use std::time::Duration;

/// An event, or its beginning, is larger than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Takes bytes as they arrive, gives the data of each message event.
///
/// Lines end with CRLF, LF or CR, wherever chunks are cut. Comments and events with a name other than `message` are read and dropped. An
/// event that the stream does not finish is dropped with its id, as the standard demands. Ids and retry times are for whoever resumes the
/// stream, which only the earlier era does.
#[derive(Debug)]
pub(crate) struct SseReader {
    limit: usize,
    /// The line that is not finished yet.
    line: Vec<u8>,
    /// The data lines of this event, each with a newline behind it.
    data: Vec<u8>,
    /// Whether the event has a name that is not `message`.
    foreign: bool,
    /// The last byte was a CR, so that an LF now ends nothing.
    after_cr: bool,
    /// No line was finished yet, so a byte order mark may be there.
    at_start: bool,
    /// The id that the event which is being read will have; ids last until the next one.
    id: EventId,
    /// The id of the last event that was finished.
    last_id: EventId,
    retry: Option<Duration>,
    ready: std::collections::VecDeque<Vec<u8>>,
}

/// `None`: none, or none that could be sent back.
type EventId = Option<Box<[u8]>>;

impl SseReader {
    /// An id longer than this is taken for none: it would have to fit into a header.
    const MAX_ID: usize = 1024;

    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            foreign: false,
            after_cr: false,
            at_start: true,
            id: None,
            last_id: None,
            retry: None,
            ready: Default::default(),
        }
    }

    /// Takes a chunk. Events that it completes wait for [`SseReader::next`].
    pub(crate) fn push(&mut self, mut chunk: &[u8]) -> Result<(), TooLarge> {
        while let Some(&first) = chunk.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                chunk = chunk.get(1..).unwrap_or_default();
                continue;
            }
            let end = chunk.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let (line, rest) = chunk.split_at(end.unwrap_or(chunk.len()));
            if self.line.len() + self.data.len() + line.len() > self.limit {
                return Err(TooLarge);
            }
            self.line.extend_from_slice(line);
            if let Some((&terminator, rest)) = rest.split_first() {
                self.after_cr = terminator == b'\r';
                self.end_line();
                chunk = rest;
            } else {
                chunk = rest;
            }
        }
        Ok(())
    }

    /// The data of the next complete event.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    /// The stream goes on with another connection: what was not finished is dropped, what resuming needs is kept.
    pub(crate) fn reconnect(&mut self) {
        self.line.clear();
        self.data.clear();
        self.foreign = false;
        self.after_cr = false;
        self.at_start = true;
        self.id.clone_from(&self.last_id);
    }

    /// The id of the last event that was finished, with data or without. Bytes other than NUL, CR and LF, and at most 1024 of them.
    pub(crate) fn last_event_id(&self) -> Option<&[u8]> {
        self.last_id.as_deref()
    }

    /// How long to wait before the stream is asked for again, if it said so.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    fn end_line(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.at_start) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if line.is_empty() {
            self.end_event();
        } else {
            self.field(&line);
        }
        // The buffer is kept for the next line.
        line.clear();
        self.line = line;
    }

    fn field(&mut self, line: &[u8]) {
        let (name, value) = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => (
                line.get(..colon).unwrap_or_default(),
                line.get(colon + 1..).unwrap_or_default(),
            ),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => self.foreign = !value.is_empty() && value != b"message",
            b"id" if value.contains(&0) => {}
            b"id" => {
                self.id = (!value.is_empty() && value.len() <= Self::MAX_ID).then(|| value.into());
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let text = std::str::from_utf8(value).unwrap_or_default();
                // More digits than a number has are a time that nobody waits for.
                self.retry = Some(Duration::from_millis(text.parse().unwrap_or(u64::MAX)));
            }
            // Comments have an empty name.
            _ => {}
        }
    }

    fn end_event(&mut self) {
        self.last_id.clone_from(&self.id);
        let mut data = std::mem::take(&mut self.data);
        // The newline behind the last line is no part of the data; without one there was no data and so no event.
        if data.pop().is_some() && !std::mem::take(&mut self.foreign) {
            self.ready.push_back(data);
        }
        self.foreign = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(chunks: &[&[u8]]) -> Vec<String> {
        let mut reader = SseReader::new(1_000);
        let mut events = Vec::new();
        for chunk in chunks {
            reader.push(chunk).unwrap();
            events.extend(
                std::iter::from_fn(|| reader.next()).map(|data| String::from_utf8(data).unwrap()),
            );
        }
        events
    }

    #[test]
    fn case_216_reads_events_however_they_are_spelt() {
        for (stream, events) in [
            ("data: {\"a\":1}\n\n", vec!["{\"a\":1}"]),
            ("data:x\n\n", vec!["x"]),
            ("data:  x\n\n", vec![" x"]),
            ("data: {\"a\":\ndata: 1}\n\n", vec!["{\"a\":\n1}"]),
            ("data\n\n", vec![""]),
            ("data\ndata\n\n", vec!["\n"]),
            (": comment\n\ndata: x\n\n", vec!["x"]),
            (":\r\n:\r\n\r\ndata: x\r\n\r\n", vec!["x"]),
            ("data: x\r\rdata: y\r\r", vec!["x", "y"]),
            ("event: message\nid: 7\nretry: 5\ndata: x\n\n", vec!["x"]),
            ("event: ping\ndata: x\n\ndata: y\n\n", vec!["y"]),
            ("event: ping\n\ndata: y\n\n", vec!["y"]),
            ("\u{feff}data: x\n\n", vec!["x"]),
            ("data: x\n\n\u{feff}data: y\n\n", vec!["x"]),
            ("Data: x\n\n", vec![]),
            ("data: x\n", vec![]),
            ("data: x", vec![]),
            ("\n\n\n", vec![]),
        ] {
            assert_eq!(read(&[stream.as_bytes()]), events, "{stream:?}");
        }
    }

    #[test]
    fn ids_and_retry_times_are_kept_for_resuming() {
        let read = |stream: &str| {
            let mut reader = SseReader::new(10_000);
            reader.push(stream.as_bytes()).unwrap();
            let id = reader
                .last_event_id()
                .map(|id| String::from_utf8(id.to_vec()).unwrap());
            (
                id,
                reader.retry().map(|retry| retry.as_millis()),
                std::iter::from_fn(|| reader.next()).count(),
            )
        };
        let id = |text: &str| Some(text.to_owned());
        // An event without data has an id all the same.
        assert_eq!(read("id: 7\n\n"), (id("7"), None, 0));
        assert_eq!(read("id: 7\ndata\n\n"), (id("7"), None, 1));
        // It lasts until the next, and an empty one ends it.
        assert_eq!(read("id:7\ndata: x\n\ndata: y\n\n"), (id("7"), None, 2));
        assert_eq!(read("id: 7\n\nid\n\n"), (None, None, 0));
        // An event that is not finished has not been seen.
        assert_eq!(read("id: 7\n\nid: 8\ndata: x\n"), (id("7"), None, 0));
        assert_eq!(read("id: 8"), (None, None, 0));
        // NUL is ignored; what is too long cannot be sent back, and an older id would repeat events.
        assert_eq!(read("id: 7\n\nid: 8\0\n\n"), (id("7"), None, 0));
        let long = "x".repeat(1025);
        assert_eq!(read(&format!("id: 7\n\nid: {long}\n\n")), (None, None, 0));
        let (longest, _) = long.split_at(1024);
        assert_eq!(read(&format!("id: {longest}\n\n")), (id(longest), None, 0));
        // A foreign event's id counts too.
        assert_eq!(read("event: ping\nid: 9\ndata: x\n\n"), (id("9"), None, 0));
        assert_eq!(read("retry: 500\n"), (None, Some(500), 0));
        for junk in [
            "retry: -1\n",
            "retry: 5s\n",
            "retry: 1.5\n",
            "retry\n",
            "retry: \n",
            "retry: 1 \n",
        ] {
            assert_eq!(read(junk), (None, None, 0), "{junk:?}");
        }
        let never = format!("retry: 1\nretry: {}\n", "9".repeat(40));
        assert_eq!(read(&never).1, Some(u128::from(u64::MAX)));
    }

    #[test]
    fn case_217_chunks_may_be_cut_anywhere() {
        let stream = "\u{feff}: hi\r\ndata: {\"é\":\r\ndata: \"😀\"}\r\n\r\nevent: message\rdata: y\r\rdata: z\n\n".as_bytes();
        let whole = read(&[stream]);
        assert_eq!(whole, ["{\"é\":\n\"😀\"}", "y", "z"]);
        for cut in 0..=stream.len() {
            let (a, b) = stream.split_at(cut);
            assert_eq!(read(&[a, b]), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(read(&bytes), whole);
    }

    #[test]
    fn case_219_an_event_without_end_is_given_up() {
        let mut reader = SseReader::new(100);
        assert_eq!(reader.push(b"data: "), Ok(()));
        assert_eq!(reader.push(&[b'x'; 90]), Ok(()));
        assert_eq!(reader.push(&[b'x'; 90]), Err(TooLarge));
        let mut lines = SseReader::new(100);
        assert!((0..100).any(|_| lines.push(b"data: xxxxxxxxxx\n").is_err()));
        // Finished events, comments and other fields do not add up.
        let mut many = SseReader::new(100);
        for _ in 0..1_000 {
            many.push(b": ping\n\ndata: xxxxxxxxxx\n\n").unwrap();
            assert!(many.next().is_some());
        }
    }
}
