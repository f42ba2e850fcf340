//! A server's process: where it listens, how it says so, and what ends it.

use std::future::{Future, pending};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;

use crate::arguments::{Arguments, UsageError};

/// What the flags `--listen`, `--until-stdin-closes` and `--census` say.
#[derive(Debug, Clone, Copy)]
pub struct Process {
    listen: SocketAddr,
    until_stdin_closes: bool,
    census: bool,
}

impl Process {
    /// Takes the flags, and sends the log to stderr.
    ///
    /// # Errors
    ///
    /// [`UsageError`].
    pub fn take(arguments: &mut Arguments) -> Result<Process, UsageError> {
        let filter = EnvFilter::builder()
            .with_default_directive(tracing_subscriber::filter::LevelFilter::WARN.into())
            .from_env_lossy();
        // An error means that somebody has installed a log before, and then theirs is as good.
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(io::stderr)
            .try_init();
        Ok(Process {
            listen: arguments
                .value("--listen")?
                .unwrap_or((Ipv4Addr::LOCALHOST, 0).into()),
            until_stdin_closes: arguments.flag("--until-stdin-closes"),
            census: arguments.flag("--census"),
        })
    }

    /// Listens, and says where: the one line on stdout, or with `--census` the first of two.
    ///
    /// # Errors
    ///
    /// Where an address cannot be listened on.
    pub async fn listen(&self) -> io::Result<TcpListener> {
        let listener = TcpListener::bind(self.listen).await?;
        let address = listener.local_addr()?;
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "listening on http://{address}/mcp")?;
        if self.census {
            writeln!(stdout, "census on {}", census()?)?;
        }
        stdout.flush()?;
        Ok(listener)
    }

    /// Completes at SIGINT, SIGTERM (Ctrl-C elsewhere) or, if so told, when stdin reaches its end.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let until_stdin_closes = self.until_stdin_closes;
        async move {
            let stdin = async {
                match until_stdin_closes {
                    true => stdin_closed().await,
                    false => pending().await,
                }
            };
            tokio::select! {
                () = interrupted() => {}
                () = terminated() => {}
                () = stdin => {}
            }
            // Whoever says it twice means at once.
            tokio::spawn(async {
                tokio::select! {
                    () = interrupted() => {}
                    () = terminated() => {}
                }
                std::process::exit(1);
            });
        }
    }
}

/// Tells whoever connects how many tasks and threads there are: one JSON object, and the end of the connection. It has a
/// thread of its own, so that it counts nothing that it adds itself, and returns where it listens.
fn census() -> io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let tasks = tokio::runtime::Handle::current().metrics();
    std::thread::Builder::new()
        .name("census".to_owned())
        .spawn(move || {
            for connection in listener.incoming() {
                let counts =
                    serde_json::json!({ "tasks": tasks.num_alive_tasks(), "threads": threads() });
                // Whoever did not wait for the answer did not want it.
                let _ = connection.and_then(|mut to| to.write_all(counts.to_string().as_bytes()));
            }
        })?;
    Ok(address)
}

/// This process's threads; 0 where the system does not tell.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        // There is no such signal to be had; the others remain.
        pending::<()>().await;
    }
}

#[cfg(unix)]
async fn terminated() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut signal) => _ = signal.recv().await,
        Err(_) => pending().await,
    }
}

#[cfg(not(unix))]
async fn terminated() {
    pending().await
}

/// A thread of its own, because a read from stdin cannot be cancelled and would keep the runtime from ending.
async fn stdin_closed() {
    let (closed, wait) = oneshot::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 256];
        let mut stdin = io::stdin().lock();
        loop {
            match stdin.read(&mut buffer) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        _ = closed.send(());
    });
    _ = wait.await;
}
