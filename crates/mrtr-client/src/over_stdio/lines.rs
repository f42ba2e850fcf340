//! A bounded reader of lines (*stdio*): one message each, whatever the chunks.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// A line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// The beginning of one that is longer than the limit; the rest of it is skipped.
    TooLong(Vec<u8>),
}

/// Lines end with LF; a CR before it belongs to the end. The last one need not end. Reading may be given up at any await and gone on with.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    limit: usize,
    chunk: Box<[u8]>,
    /// What of the chunk has not been looked at.
    ahead: std::ops::Range<usize>,
    line: Vec<u8>,
    /// The line is too long, and was given out.
    skipping: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    const CHUNK: usize = 16 * 1024;
    /// How much is kept of a line that is too long.
    const BEGINNING: usize = 1024;

    pub(crate) fn new(reader: R, limit: usize) -> Self {
        Self {
            reader,
            limit,
            chunk: vec![0; Self::CHUNK].into(),
            ahead: 0..0,
            line: Vec::new(),
            skipping: false,
        }
    }

    /// The next line; `None` at the end.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let ahead = self.chunk.get(self.ahead.clone()).unwrap_or_default();
            if ahead.is_empty() {
                let read = self.reader.read(&mut self.chunk).await?;
                self.ahead = 0..read;
                if read == 0 {
                    let last = std::mem::take(&mut self.line);
                    return Ok((!last.is_empty()).then(|| Line::Whole(trimmed(last))));
                }
                continue;
            }
            let end = ahead.iter().position(|&byte| byte == b'\n');
            let (part, taken) = match end {
                Some(end) => (ahead.get(..end).unwrap_or_default(), end + 1),
                None => (ahead, ahead.len()),
            };
            let fits = self.skipping || self.line.len() + part.len() <= self.limit;
            if fits && !self.skipping {
                self.line.extend_from_slice(part);
            }
            let mut beginning = None;
            if !fits {
                let room = Self::BEGINNING.saturating_sub(self.line.len());
                self.line
                    .extend_from_slice(part.get(..room.min(part.len())).unwrap_or_default());
                self.line.truncate(Self::BEGINNING);
                beginning = Some(std::mem::take(&mut self.line));
            }
            self.ahead.start += taken;
            let skipped = self.skipping;
            self.skipping = end.is_none() && (skipped || !fits);
            if let Some(beginning) = beginning {
                return Ok(Some(Line::TooLong(beginning)));
            }
            if end.is_some() && !skipped {
                return Ok(Some(Line::Whole(trimmed(std::mem::take(&mut self.line)))));
            }
        }
    }
}

fn trimmed(mut line: Vec<u8>) -> Vec<u8> {
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    line
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    async fn read(chunks: &[&[u8]], limit: usize) -> Vec<Line> {
        let (mut writer, reader) = tokio::io::duplex(1 << 20);
        let mut lines = Lines::new(reader, limit);
        let mut all = Vec::new();
        let reading = async {
            while let Some(line) = lines.next().await.unwrap() {
                all.push(line);
            }
        };
        let writing = async {
            for chunk in chunks {
                writer.write_all(chunk).await.unwrap();
                tokio::task::yield_now().await;
            }
            drop(writer);
        };
        tokio::join!(reading, writing);
        all
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn case_242_lines_are_whole_wherever_they_are_cut() {
        let text = "{\"é\":1}\r\n\n\r\nb\nlast".as_bytes();
        let expected = [
            whole("{\"é\":1}"),
            whole(""),
            whole(""),
            whole("b"),
            whole("last"),
        ];
        assert_eq!(read(&[text], 100).await, expected);
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(read(&bytes, 100).await, expected);
        assert_eq!(read(&[], 100).await, []);
        assert_eq!(read(&[b"\n"], 100).await, [whole("")]);
        assert_eq!(read(&[b"a\r"], 100).await, [whole("a")]);
    }

    #[tokio::test]
    async fn case_250_a_line_that_is_too_long_is_skipped_to_its_end() {
        let long = "x".repeat(50_000);
        let text = format!("a\n{long}\nb\n");
        for limit in [1, 10, 1_024, 49_999] {
            let read = read(&[text.as_bytes()], limit).await;
            let [first, Line::TooLong(beginning), last] = read.as_slice() else {
                panic!("{limit}: {} lines", read.len())
            };
            assert_eq!((first, last), (&whole("a"), &whole("b")));
            assert!(
                beginning.len() <= 1_024 && beginning.starts_with(b"x"),
                "{limit}"
            );
        }
        assert_eq!(
            read(&[text.as_bytes()], 50_000).await.get(1),
            Some(&whole(&long))
        );
        // Without an end, and with one right behind the limit.
        assert_eq!(read(&[b"abcdef"], 3).await.len(), 1);
        assert_eq!(
            read(&[b"abc", b"d", b"\n", b"e\n"], 3).await,
            [Line::TooLong(b"abcd".to_vec()), whole("e")]
        );
    }

    #[tokio::test]
    async fn case_250_an_endless_line_takes_no_memory() {
        struct Endless(usize);
        impl AsyncRead for Endless {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
                into: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<io::Result<()>> {
                let n = into.remaining().min(self.0);
                self.0 -= n;
                into.initialize_unfilled_to(n).fill(b'x');
                into.advance(n);
                std::task::Poll::Ready(Ok(()))
            }
        }
        let mut lines = Lines::new(Endless(256 << 20), 10_000);
        assert!(matches!(
            lines.next().await.unwrap(),
            Some(Line::TooLong(_))
        ));
        assert_eq!(lines.next().await.unwrap(), None);
        assert!(
            lines.line.capacity() <= 32 * 1024,
            "{}",
            lines.line.capacity()
        );
    }

    #[tokio::test]
    async fn reading_may_be_given_up_and_gone_on_with() {
        let (mut writer, reader) = tokio::io::duplex(100);
        let mut lines = Lines::new(reader, 100);
        writer.write_all(b"ab").await.unwrap();
        let given_up = tokio::time::timeout(std::time::Duration::from_millis(10), lines.next());
        assert!(given_up.await.is_err());
        writer.write_all(b"c\n").await.unwrap();
        assert_eq!(lines.next().await.unwrap(), Some(whole("abc")));
    }
}
