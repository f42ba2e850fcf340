//! A server process as its tests see it: it is started, asked over HTTP, killed or seen to die.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use mrtr_ledger_postgres::tokio_postgres::{self, NoTls};
use mrtr_ledger_sqlite::rusqlite;
use serde_json::Value;
use tempfile::TempDir;

use super::child::{EFFECTS, LEDGER, POINT, POSTGRES, SECONDS, payments_table};
use crate::bank::{Call, Reply};

/// How long an answer may take that does not depend on anybody.
const PATIENCE: Duration = Duration::from_secs(60);

const SIGABRT: i32 = 6;

/// Where a ledger is.
#[derive(Clone, Copy)]
pub(crate) enum Store {
    Sqlite,
    /// In the server that this connects to.
    Postgres(&'static str),
}

impl Store {
    /// The server that `cargo xtask test` names. `None`: there is none, and that is said past the harness, which shows nothing of
    /// what a test prints that passes.
    pub(crate) fn postgres() -> Option<Self> {
        static NAMED: OnceLock<Option<String>> = OnceLock::new();
        static SAID: OnceLock<()> = OnceLock::new();
        let named = NAMED.get_or_init(|| {
            let connection = std::env::var("MRTR_TEST_POSTGRES").ok();
            connection.filter(|connection| connection != "none")
        });
        if named.is_none() {
            let in_ci = std::env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false");
            assert!(
                !in_ci,
                "tests are not skipped in CI: MRTR_TEST_POSTGRES names no server"
            );
            SAID.get_or_init(|| {
                _ = writeln!(
                    io::stderr(),
                    "skip: server processes on PostgreSQL, for MRTR_TEST_POSTGRES names none; `cargo xtask test` does"
                );
            });
        }
        named.as_deref().map(Store::Postgres)
    }
}

/// What outlives every process: the ledger and the record of effects.
pub(crate) struct Place {
    folder: TempDir,
    store: Store,
    /// In the folder, or on a server where others are.
    ledger: String,
}

impl Place {
    pub(crate) fn new(store: Store) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let folder = tempfile::tempdir().unwrap();
        let ledger = match store {
            Store::Sqlite => {
                let file = folder.path().join("ledger.sqlite");
                file.into_os_string().into_string().unwrap()
            }
            Store::Postgres(_) => {
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                format!("crash_{}_{number}", std::process::id())
            }
        };
        Self {
            folder,
            store,
            ledger,
        }
    }

    /// A new process.
    pub(crate) fn start(&self) -> Process {
        self.start_at(0)
    }

    /// A new process whose clock is that many seconds ahead of the first one's.
    pub(crate) fn start_at(&self, seconds: u64) -> Process {
        self.process(seconds, None)
    }

    /// A new process that dies when it comes to this point.
    pub(crate) fn start_to_die(&self, point: &str) -> Process {
        self.process(0, Some(point))
    }

    fn process(&self, seconds: u64, point: Option<&str>) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "--exact",
                "crash::child::child",
                "--ignored",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(EFFECTS, self.effects())
            .env(LEDGER, &self.ledger)
            .env(SECONDS, seconds.to_string())
            .env_remove(POINT)
            .env_remove(POSTGRES)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(point) = point {
            command.env(POINT, point);
        }
        if let Store::Postgres(connection) = self.store {
            command.env(POSTGRES, connection);
        }
        let mut child = command.spawn().unwrap();
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut process = Process {
            child,
            orders,
            answers,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        let listening = process.answer();
        process.address = listening
            .strip_prefix("listening ")
            .unwrap_or_else(|| panic!("{listening}"))
            .parse()
            .unwrap();
        process
    }

    /// Who made which payment, and sent which mail, by the record of effects alone.
    pub(crate) fn payments(&self) -> Vec<String> {
        let book = std::fs::read_to_string(self.effects()).unwrap_or_default();
        let mut payments: Vec<String> = book.lines().map(str::to_owned).collect();
        payments.extend(match self.store {
            Store::Sqlite => self.payments_in_sqlite(),
            Store::Postgres(connection) => self.payments_in_postgres(connection),
        });
        payments
    }

    /// What was paid in the ledger's own file.
    fn payments_in_sqlite(&self) -> Vec<String> {
        let db = rusqlite::Connection::open(&self.ledger).unwrap();
        let mut select = db
            .prepare("SELECT payer FROM payments ORDER BY rowid")
            .unwrap();
        let payers = select.query_map([], |row| row.get(0)).unwrap();
        payers.map(Result::unwrap).collect()
    }

    /// What was paid in the ledger's own database.
    fn payments_in_postgres(&self, connection: &str) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(connection, NoTls).await.unwrap();
            tokio::spawn(connection);
            let table = payments_table(&self.ledger);
            let select = format!("SELECT payer FROM {table} ORDER BY number");
            let rows = client.query(&select, &[]).await.unwrap();
            rows.iter().map(|row| row.get(0)).collect()
        })
    }

    fn effects(&self) -> PathBuf {
        self.folder.path().join("effects")
    }
}

/// Rows of a ledger: rounds, settled rounds, steps, settled steps, notes.
pub(crate) type Rows = [u64; 5];

pub(crate) struct Process {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Process {
    /// How its payments are named.
    pub(crate) fn name(&self) -> String {
        self.child.id().to_string()
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::to(self.address)
    }

    /// One call on a connection of its own, and its response.
    pub(crate) fn send(&self, call: &Call) -> Reply {
        let reply = self.connect().send(call);
        reply.unwrap_or_else(|error| panic!("no response: {error}"))
    }

    /// The first call of a tool: the state that comes back.
    pub(crate) fn open(&self, tool: &str) -> String {
        let reply = self.send(&Call::first().named(tool));
        assert_eq!(reply.asks(), ["confirm"], "{reply:?}");
        reply.state().to_owned()
    }

    pub(crate) fn rows(&mut self) -> Rows {
        let answer = self.ask("rows");
        let rows: Vec<u64> = answer.split(' ').map(|row| row.parse().unwrap()).collect();
        rows.try_into().unwrap()
    }

    /// Sets its clock forward.
    pub(crate) fn pass(&mut self, seconds: u64) {
        assert_eq!(self.ask(&format!("pass {seconds}")), "passed");
    }

    pub(crate) fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
    }

    fn ask(&mut self, order: &str) -> String {
        self.order(order);
        self.answer()
    }

    /// The next line of the child's own; the test harness prints others.
    pub(crate) fn answer(&mut self) -> String {
        for line in self.answers.by_ref().lines() {
            if let Some((_, answer)) = line.unwrap().split_once("child: ") {
                return answer.to_owned();
            }
        }
        panic!("the process has ended");
    }

    /// Sends a call that the process does not survive: no response, and an `abort`.
    pub(crate) fn dies_of(mut self, call: &Call) {
        match self.connect().send(call) {
            Err(error) => assert_ne!(error.kind(), io::ErrorKind::WouldBlock, "it only hangs"),
            Ok(reply) => panic!("it was to die, and answered {reply:?}"),
        }
        let status = self.child.wait().unwrap();
        assert_eq!(status.signal(), Some(SIGABRT), "{status}");
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// A connection that is kept.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    pub(crate) fn send(&mut self, call: &Call) -> io::Result<Reply> {
        self.request(call)?;
        self.response()
    }

    /// Sends, and does not wait.
    pub(crate) fn request(&mut self, call: &Call) -> io::Result<()> {
        let body = call.body.to_string();
        let mut text = String::from("POST /mcp HTTP/1.1\r\n");
        for (name, value) in &call.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
        self.0.get_mut().write_all(text.as_bytes())
    }

    pub(crate) fn response(&mut self) -> io::Result<Reply> {
        let status = self.line()?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or(io::ErrorKind::InvalidData)?;
        let mut headers = HeaderMap::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(": ") else {
                break;
            };
            headers.insert(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        let length: usize = headers["content-length"].to_str().unwrap().parse().unwrap();
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok(Reply {
            status: StatusCode::from_u16(status).unwrap(),
            headers,
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        })
    }

    /// Waits until a response has begun to arrive, and takes none of it.
    pub(crate) fn wait_for_response(&mut self) {
        assert!(!self.0.fill_buf().unwrap().is_empty(), "it was closed");
    }

    pub(crate) fn cut(self) {
        self.0.get_ref().shutdown(Shutdown::Both).unwrap();
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}
