//! A bounded reader of server-sent events (*WHATWG HTML, Server-sent events, Interpreting an event stream*).

/// An event, or its beginning, is larger than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Takes bytes as they arrive, gives the data of each message event.
///
/// Lines end with CRLF, LF or CR, wherever chunks are cut. Comments, ids, retry times and events with a name other than `message` are
/// read and dropped. An event that the stream does not finish is dropped, as the standard demands.
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
    ready: std::collections::VecDeque<Vec<u8>>,
}

impl SseReader {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            foreign: false,
            after_cr: false,
            at_start: true,
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
            // Comments have an empty name; `id` and `retry` are for reconnecting, which this protocol does not do.
            _ => {}
        }
    }

    fn end_event(&mut self) {
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
    fn reads_events_however_they_are_spelt() {
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
    fn chunks_may_be_cut_anywhere() {
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
    fn an_event_without_end_is_given_up() {
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
