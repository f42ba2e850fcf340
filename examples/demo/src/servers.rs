//! Server processes on loopback: started here, ended here, nothing left behind.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use mrtr_ledger::{Ledger as _, Rows};
use mrtr_ledger_sqlite::SqliteLedger;
use mrtr_ledger_sqlite::rusqlite::{Connection, OpenFlags};
use serde::Deserialize;
use stage::record::{Entry, Record};
use tempfile::TempDir;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader, Lines,
};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::Fault;
use crate::wire::Wire;

/// Examples that take an address and nothing else, and say where they listen on stderr.
const PLAIN: [&str; 2] = ["minimal", "readme"];

/// How long a server may take to say where it listens.
const START: Duration = Duration::from_secs(30);

/// Where the example servers' binaries are, and which guards they run without.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    pub(crate) binaries: PathBuf,
    pub(crate) without: Vec<String>,
}

/// How a server is to be started.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    example: &'static str,
    flags: Vec<String>,
    data: Arc<TempDir>,
}

/// The tasks and threads of a server.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Census {
    pub(crate) tasks: usize,
    pub(crate) threads: usize,
}

/// A server that runs. Killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) url: String,
    /// Where its pages are, if it has any.
    pub(crate) pages: Option<String>,
    /// Where people log in, if it has an authorization server.
    pub(crate) logins: Option<String>,
    census: Option<String>,
    plan: Plan,
    child: Child,
    stage: Stage,
}

impl Stage {
    /// A server of this example, with a data directory of its own.
    pub(crate) fn plan(&self, example: &'static str) -> Result<Plan, Fault> {
        let data = tempfile::Builder::new().prefix("mrtr-demo-").tempdir()?;
        Ok(Plan {
            example,
            flags: Vec::new(),
            data: Arc::new(data),
        })
    }

    pub(crate) async fn start(&self, plan: &Plan) -> Result<Server, Fault> {
        let mut child = self.command(plan).spawn().map_err(|error| {
            Fault(format!(
                "{} does not start: {error}; is it built?",
                self.binary(plan.example).display()
            ))
        })?;
        let plain = PLAIN.contains(&plan.example);
        let said: Box<dyn AsyncRead + Send + Unpin> =
            match (child.stdout.take(), child.stderr.take()) {
                (_, Some(stderr)) if plain => Box::new(stderr),
                (Some(stdout), _) => Box::new(stdout),
                _ => return Err(Fault("nothing can be read from it".into())),
            };
        let mut lines = BufReader::new(said).lines();
        let announced = tokio::time::timeout(START, async {
            let url = announced(&mut lines, "listening on ").await?;
            let census = match plain {
                false => Some(announced(&mut lines, "census on ").await?),
                true => None,
            };
            let pages = match plan.example {
                "link-account" => Some(announced(&mut lines, "pages on ").await?),
                _ => None,
            };
            let logins = match plan.example {
                "authorized" => Some(announced(&mut lines, "logins at ").await?),
                _ => None,
            };
            Ok::<_, Fault>((url, census, pages, logins))
        });
        let (url, census, pages, logins) = match announced.await {
            Ok(Ok(announced)) => announced,
            Ok(Err(fault)) => return Err(Fault(format!("{} {fault}", plan.example))),
            Err(_) => {
                return Err(Fault(format!(
                    "{} did not say where it listens",
                    plan.example
                )));
            }
        };
        Ok(Server {
            url,
            pages,
            logins,
            census,
            plan: plan.clone(),
            child,
            stage: self.clone(),
        })
    }

    /// Starts a server that is expected not to start: its exit and what it printed on stderr.
    pub(crate) async fn fail_to_start(&self, plan: &Plan) -> Result<(ExitStatus, String), Fault> {
        let mut child = self.command(plan).stderr(Stdio::piped()).spawn()?;
        let mut stderr = child
            .stderr
            .take()
            .ok_or_else(|| Fault("no stderr".into()))?;
        let mut text = String::new();
        let ended = async { tokio::join!(stderr.read_to_string(&mut text), child.wait()) };
        match tokio::time::timeout(START, ended).await {
            Ok((_, status)) => Ok((status?, text)),
            Err(_) => Err(Fault(format!(
                "{} started, and should not have",
                plan.example
            ))),
        }
    }

    fn binary(&self, example: &str) -> PathBuf {
        self.binaries
            .join(example)
            .with_extension(std::env::consts::EXE_EXTENSION)
    }

    fn command(&self, plan: &Plan) -> Command {
        let mut command = Command::new(self.binary(plan.example));
        command.stderr(Stdio::null());
        if PLAIN.contains(&plan.example) {
            command.arg("127.0.0.1:0").stderr(Stdio::piped());
            // What they keep, they keep among temporary files.
            command.env("TMPDIR", plan.data.path());
        } else {
            command.args(["--until-stdin-closes", "--census"]);
        }
        command.args(&plan.flags);
        if plan.example != "greedy" && !PLAIN.contains(&plan.example) {
            command.arg("--data").arg(plan.data.path());
            for guard in &self.without {
                command.arg("--without").arg(guard);
            }
        }
        // stdin stays open while this process lives: its end is the server's end.
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        command.env_remove("MRTR_KEYS").env_remove("RUST_LOG");
        command
    }
}

impl Plan {
    pub(crate) fn flag(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.flags.push(name.into());
        self.flags
            .push(value.as_ref().to_string_lossy().into_owned());
        self
    }

    /// The path of a file in the data directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.data.path().join(name)
    }

    /// What the example recorded of its effects.
    pub(crate) fn record(&self) -> Result<Vec<Entry>, Fault> {
        match self.example {
            "expenses" => book(&self.path("ledger.sqlite")),
            _ => Ok(Record::read(self.path(Record::FILE))?),
        }
    }
}

impl Server {
    /// Raw requests to this server, by alice.
    pub(crate) fn wire(&self) -> Wire {
        Wire::new(&self.url)
    }

    pub(crate) fn record(&self) -> Result<Vec<Entry>, Fault> {
        self.plan.record()
    }

    /// The path of a file in the data directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.plan.path(name)
    }

    /// What stays there for as long as one looks: the fewest tasks and the fewest threads in a second.
    pub(crate) async fn census(&self) -> Result<Census, Fault> {
        let mut fewest = self.count().await?;
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let now = self.count().await?;
            fewest.tasks = fewest.tasks.min(now.tasks);
            fewest.threads = fewest.threads.min(now.threads);
        }
        Ok(fewest)
    }

    async fn count(&self) -> Result<Census, Fault> {
        let census = self.census.as_deref();
        let census = census.ok_or_else(|| Fault("it counts nothing".into()))?;
        let mut connection = TcpStream::connect(census).await?;
        let mut counts = Vec::new();
        connection.read_to_end(&mut counts).await?;
        Ok(serde_json::from_slice(&counts)?)
    }

    /// Ends the process as a power cut would, with SIGKILL.
    pub(crate) async fn kill(&mut self) -> Result<(), Fault> {
        Ok(self.child.kill().await?)
    }

    /// Starts the same server again, on a port of its own.
    pub(crate) async fn start_again(&self) -> Result<Server, Fault> {
        self.stage.start(&self.plan).await
    }
}

/// What stands behind `prefix` in the next line.
async fn announced(
    lines: &mut Lines<impl AsyncBufRead + Unpin>,
    prefix: &str,
) -> Result<String, Fault> {
    let line = lines.next_line().await?.unwrap_or_default();
    line.trim()
        .strip_prefix(prefix)
        .map(str::to_owned)
        .ok_or_else(|| Fault(format!("said {line:?} instead of {prefix:?}")))
}

/// The book of `expenses`, which is a table in its ledger's file; read beside the server that writes it.
fn book(ledger: &Path) -> Result<Vec<Entry>, Fault> {
    let book = Connection::open_with_flags(ledger, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let mut entries = book.prepare("SELECT entry, amount, memo FROM book ORDER BY entry")?;
    let entries = entries.query_map([], |row| {
        let (entry, amount, memo): (i64, f64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Entry {
            entry: entry.unsigned_abs(),
            kind: "expense".into(),
            value: serde_json::json!({ "amount": amount, "memo": memo }),
        })
    })?;
    Ok(entries.collect::<Result<_, _>>()?)
}

/// What a ledger file holds, counted beside the server that writes it.
pub(crate) async fn rows(ledger: &Path) -> Result<Rows, Fault> {
    let ledger = SqliteLedger::open(ledger)?;
    Ok(ledger.rows().await?)
}
