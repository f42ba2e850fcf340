//! The load: connections that send one request after the other, check each answer, and use the state that came for the second.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::wire::{self, Call};

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// One call that asks nothing.
    Plain,
    /// A call that asks, and the call again with answer and state: two requests.
    BothRounds,
    /// Calls that ask, and whose answer never comes.
    FirstRound,
}

/// What one turn was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    /// Calls that came to their end; with both rounds, two requests each.
    pub(crate) calls: u64,
    pub(crate) elapsed: Duration,
}

impl Turn {
    #[allow(clippy::cast_precision_loss, reason = "counts of calls")]
    pub(crate) fn per_second(&self) -> f64 {
        self.calls as f64 / self.elapsed.as_secs_f64()
    }
}

/// Keeps so many connections busy for so long. Every answer is looked at: a wrong one is an error, not a slow call.
pub(crate) async fn run(
    address: SocketAddr,
    work: Work,
    connections: usize,
    time: Duration,
) -> io::Result<Turn> {
    let mut open = Vec::with_capacity(connections);
    for _ in 0..connections {
        open.push(Connection::open(address).await?);
    }
    let start = Instant::now();
    let tasks: Vec<_> = open
        .into_iter()
        .enumerate()
        .map(|(number, mut connection)| {
            tokio::spawn(async move {
                let mut calls = 0;
                while start.elapsed() < time {
                    connection
                        .call(work, number as u64 * 1_000_000 + calls)
                        .await?;
                    calls += 1;
                }
                io::Result::Ok(calls)
            })
        })
        .collect();
    let mut calls = 0;
    for task in tasks {
        calls += task.await.map_err(io::Error::other)??;
    }
    Ok(Turn {
        calls,
        elapsed: start.elapsed(),
    })
}

struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            request: Vec::new(),
            answer: Vec::new(),
        })
    }

    async fn call(&mut self, work: Work, id: u64) -> io::Result<()> {
        match work {
            Work::Plain => self
                .exchange(&Call::Echo { id }, b"hello, world")
                .await
                .map(drop),
            Work::FirstRound => self
                .exchange(&Call::Ask { id }, b"input_required")
                .await
                .map(drop),
            Work::BothRounds => {
                let body = self.exchange(&Call::Ask { id }, b"input_required").await?;
                let state = wire::state(&self.answer[body])?.to_owned();
                let again = Call::Answer {
                    id: id + 500_000,
                    state: &state,
                };
                self.exchange(&again, b"\"done\"").await.map(drop)
            }
        }
    }

    /// Sends a call and reads its answer, which must hold `expected`. Where the body lies in the answer.
    async fn exchange(
        &mut self,
        call: &Call<'_>,
        expected: &[u8],
    ) -> io::Result<std::ops::Range<usize>> {
        self.request.clear();
        call.write(&mut self.request);
        self.stream.write_all(&self.request).await?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some(body) = wire::body(&self.answer)? {
                return if wire::holds(&self.answer[body.clone()], expected) {
                    Ok(body)
                } else {
                    Err(io::Error::other(format!(
                        "an answer without {}: {}",
                        String::from_utf8_lossy(expected),
                        String::from_utf8_lossy(&self.answer)
                    )))
                };
            }
        }
    }
}
