//! A server that runs as a child process (*stdio*): how it is started, and how it is ended.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::over_stdio::lines::{Line, Lines};

/// How to start a server as a child process: program, arguments, environment.
///
/// ```
/// use mrtr_client::{Client, ServerProcess};
/// let process = ServerProcess::new("expenses-server").arg("--quiet").env("BOOK", "/srv/book");
/// let client = Client::stdio("expenses", process).build()?;
/// # Ok::<(), mrtr_client::BuildError>(())
/// ```
///
/// The program is started without a shell, with the first request, and again with the next request after it ended unexpectedly. On Unix it
/// leads a process group of its own, so that what it starts itself is ended with it; a terminal's Ctrl-C does not reach it, but the end of
/// its input does.
///
/// It ends in the order of the specification when the client is [closed](crate::Client::close) or the last clone is dropped: its input is
/// closed; after [`grace`](Self::grace) the group is sent `SIGTERM`; after another, `SIGKILL`. Where there are no signals it is terminated
/// after the first. Not guaranteed when the client is only dropped: that this is finished before the program ends. A runtime that shuts
/// down kills the child at once.
///
/// Debug prints neither arguments nor environment: they hold secrets often enough.
#[derive(Clone)]
#[must_use]
pub struct ServerProcess {
    program: OsString,
    args: Vec<OsString>,
    /// `None`: removed.
    env: BTreeMap<OsString, Option<OsString>>,
    env_clear: bool,
    current_dir: Option<PathBuf>,
    stderr: Stderr,
    grace: Duration,
}

/// What becomes of what a server writes to its standard error. It is always read to the end, so that a server never waits for it.
///
/// The specification leaves it to the client, and warns: what stands there need not be an error.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Stderr {
    /// It goes where this program's goes.
    #[default]
    Inherit,
    /// Nobody hears it.
    Discard,
    /// Line by line to a function; see [`Stderr::lines`].
    Lines(Arc<dyn Fn(&str) + Send + Sync>),
}

impl Stderr {
    /// Hands each line to a function, without its end; of one longer than 8 KiB its beginning. What is no UTF-8 is replaced. Untrusted: it
    /// may hold control characters. The function is called where the line is read, so it must return soon.
    pub fn lines(listener: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self::Lines(Arc::new(listener))
    }
}

impl fmt::Debug for Stderr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inherit => "Inherit",
            Self::Discard => "Discard",
            Self::Lines(_) => "Lines",
        })
    }
}

impl ServerProcess {
    /// How long a server has to end by itself, and again after `SIGTERM`.
    pub const GRACE: Duration = Duration::from_secs(3);

    /// A program, as the operating system finds it. No shell is involved.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: BTreeMap::new(),
            env_clear: false,
            current_dir: None,
            stderr: Stderr::default(),
            grace: Self::GRACE,
        }
    }

    /// One more argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// More arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let args = args.into_iter().map(|arg| arg.as_ref().to_owned());
        self.args.extend(args);
        self
    }

    /// Sets a variable of the environment. The rest is this program's, unless it is [cleared](Self::env_clear).
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .insert(name.as_ref().to_owned(), Some(value.as_ref().to_owned()));
        self
    }

    /// Removes a variable of the environment.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.insert(name.as_ref().to_owned(), None);
        self
    }

    /// Gives the server nothing of this program's environment, whose secrets are none of its business.
    pub fn env_clear(mut self) -> Self {
        self.env_clear = true;
        self
    }

    /// The directory to start in.
    pub fn current_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.current_dir = Some(dir.into());
        self
    }

    /// What becomes of the server's standard error: [`Stderr::Inherit`] by default.
    pub fn stderr(mut self, stderr: Stderr) -> Self {
        self.stderr = stderr;
        self
    }

    /// How long the server has to end by itself, and again after `SIGTERM`: [`ServerProcess::GRACE`] by default.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Starts it.
    pub(crate) fn start(&self) -> io::Result<Started> {
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        if self.env_clear {
            command.env_clear();
        }
        for (name, value) in &self.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(dir) = &self.current_dir {
            command.current_dir(dir);
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(match self.stderr {
                Stderr::Inherit => Stdio::inherit(),
                Stderr::Discard => Stdio::null(),
                Stderr::Lines(_) => Stdio::piped(),
            })
            .kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn()?;
        let missing = || io::Error::other("the child has no such stream");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        if let (Stderr::Lines(listener), Some(stderr)) = (&self.stderr, child.stderr.take()) {
            tokio::spawn(hear(stderr, Arc::clone(listener)));
        }
        let running = Running {
            group: child.id(),
            child,
            grace: self.grace,
        };
        Ok(Started {
            running,
            stdin,
            stdout,
        })
    }
}

impl fmt::Debug for ServerProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerProcess")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("stderr", &self.stderr)
            .finish_non_exhaustive()
    }
}

/// A child and its streams.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) running: Running,
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
}

/// A child that runs.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// On Unix the child's id is its group's.
    #[cfg_attr(not(unix), allow(dead_code, reason = "there are no groups"))]
    group: Option<u32>,
    grace: Duration,
}

impl Running {
    /// Waits until it ends by itself.
    pub(crate) async fn ended(&mut self) {
        match self.child.wait().await {
            Ok(status) => tracing::debug!(%status, "the server has ended"),
            Err(error) => tracing::warn!(%error, "whether the server has ended is not known"),
        }
    }

    /// Ends it, once its input is closed: in peace, then by `SIGTERM`, then by `SIGKILL`.
    pub(crate) async fn end(mut self) {
        if tokio::time::timeout(self.grace, self.ended()).await.is_ok() {
            return;
        }
        tracing::debug!("the server did not end with its input, and is terminated");
        self.signal(Signal::Terminate);
        let terminated = tokio::time::timeout(self.grace, self.ended()).await;
        if terminated.is_err() {
            tracing::warn!("the server did not end when it was told to, and is killed");
        }
        // What it started may be there still. An empty group takes no signal.
        self.signal(Signal::Kill);
        if terminated.is_err() {
            if let Err(error) = self.child.start_kill() {
                tracing::warn!(%error, "the server cannot be killed");
            }
            self.ended().await;
        }
    }

    #[cfg(unix)]
    fn signal(&self, signal: Signal) {
        use rustix::process::{Pid, kill_process_group};
        let signal = match signal {
            Signal::Terminate => rustix::process::Signal::TERM,
            Signal::Kill => rustix::process::Signal::KILL,
        };
        let group = self.group.and_then(|id| i32::try_from(id).ok());
        if let Some(group) = group.and_then(Pid::from_raw)
            && let Err(error) = kill_process_group(group, signal)
        {
            tracing::debug!(%error, ?signal, "the server's group took no signal");
        }
    }

    /// Without signals the child is terminated by `start_kill`.
    #[cfg(not(unix))]
    fn signal(&self, signal: Signal) {
        let _ = signal;
    }
}

#[derive(Debug, Clone, Copy)]
enum Signal {
    Terminate,
    Kill,
}

/// Reads standard error to its end.
async fn hear(stderr: ChildStderr, listener: Arc<dyn Fn(&str) + Send + Sync>) {
    const LONGEST: usize = 8 * 1024;
    let mut lines = Lines::new(stderr, LONGEST);
    loop {
        match lines.next().await {
            Ok(Some(Line::Whole(line) | Line::TooLong(line))) => {
                listener(&String::from_utf8_lossy(&line));
            }
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(%error, "the server's standard error cannot be read");
                return;
            }
        }
    }
}
