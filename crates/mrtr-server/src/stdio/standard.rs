//! The process's own standard input and output, and its user.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use mrtr_state::Principal;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::PollSender;

/// Standard input, and where messages are written. What is printed from here on goes to standard error, and what is read from
/// standard input, by a child that a handler starts for instance, is nothing.
pub(super) fn take() -> io::Result<(Input, Output)> {
    Ok((Input::new(input()?)?, Output::new(output()?)?))
}

#[cfg(unix)]
fn output() -> io::Result<File> {
    use std::os::fd::AsFd as _;

    let output = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(output.into())
}

#[cfg(unix)]
fn input() -> io::Result<File> {
    use std::os::fd::AsFd as _;

    let input = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(input.into())
}

#[cfg(windows)]
fn input() -> io::Result<File> {
    use std::os::windows::io::AsHandle as _;

    let input = io::stdin().as_handle().try_clone_to_owned()?;
    Ok(input.into())
}

#[cfg(windows)]
fn output() -> io::Result<File> {
    use std::os::windows::io::AsHandle as _;

    let output = io::stdout().as_handle().try_clone_to_owned()?;
    Ok(output.into())
}

/// The process's user, as the issuer `stdio` names them.
pub(super) fn user() -> Principal {
    Principal::user("stdio", subject())
}

#[cfg(unix)]
fn subject() -> String {
    format!("uid:{}", rustix::process::getuid().as_raw())
}

#[cfg(windows)]
fn subject() -> String {
    std::env::var("USERNAME").unwrap_or_else(|_| "local".into())
}

/// Standard input, read in a thread of its own: a read that waits for ever must not hold the runtime's end up.
pub(super) struct Input {
    chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
    rest: Vec<u8>,
}

/// Chunks that are read ahead, of 16 KiB each at most.
const AHEAD: usize = 4;

impl Input {
    fn new(mut stdin: File) -> io::Result<Self> {
        let (sender, chunks) = mpsc::channel(AHEAD);
        std::thread::Builder::new()
            .name("stdin".into())
            .spawn(move || {
                let mut chunk = vec![0; 16 << 10];
                loop {
                    let read = match stdin.read(&mut chunk) {
                        Ok(0) => return,
                        Ok(n) => Ok(chunk.get(..n).unwrap_or_default().to_vec()),
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                        Err(error) => Err(error),
                    };
                    let failed = read.is_err();
                    if sender.blocking_send(read).is_err() || failed {
                        return;
                    }
                }
            })?;
        Ok(Self {
            chunks,
            rest: Vec::new(),
        })
    }
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.rest.is_empty() {
            match ready!(self.chunks.poll_recv(cx)) {
                None => return Poll::Ready(Ok(())),
                Some(chunk) => self.rest = chunk?,
            }
        }
        let n = self.rest.len().min(buf.remaining());
        let rest = self.rest.split_off(n);
        buf.put_slice(&self.rest);
        self.rest = rest;
        Poll::Ready(Ok(()))
    }
}

/// Where messages are written, by a thread of its own: a client that does not read must not hold the runtime's end up.
pub(super) struct Output {
    chunks: PollSender<Vec<u8>>,
    /// Resolves when all is written, or cannot be.
    written: oneshot::Receiver<()>,
}

impl Output {
    fn new(mut output: File) -> io::Result<Self> {
        let (sender, mut chunks) = mpsc::channel::<Vec<u8>>(AHEAD);
        let (done, written) = oneshot::channel::<()>();
        std::thread::Builder::new()
            .name("stdout".into())
            .spawn(move || {
                let _done = done;
                while let Some(chunk) = chunks.blocking_recv() {
                    if let Err(error) = output.write_all(&chunk) {
                        tracing::debug!(%error, "the client does not read any more");
                        return;
                    }
                }
            })?;
        Ok(Self {
            chunks: PollSender::new(sender),
            written,
        })
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        ready!(self.chunks.poll_reserve(cx)).map_err(gone)?;
        self.chunks.send_item(buf.to_vec()).map_err(gone)?;
        Poll::Ready(Ok(buf.len()))
    }

    /// What is taken is written as soon as it can be.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.chunks.close();
        Pin::new(&mut self.written).poll(cx).map(|_| Ok(()))
    }
}
