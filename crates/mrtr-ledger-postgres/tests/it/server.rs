//! The PostgreSQL server of the tests: the one that `cargo xtask test` names, or one that is started here.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock};

/// How to connect to the server that somebody else keeps, or `none`.
pub(crate) const VARIABLE: &str = "MRTR_TEST_POSTGRES";

/// A server of our own, kept by `cargo xtask postgres`, which ends it when this process ends, whatever ends it.
pub(crate) struct Server {
    pub(crate) connection: String,
    pipes: Mutex<(Option<ChildStdin>, BufReader<ChildStdout>)>,
    keeper: Child,
}

impl Server {
    /// `None`: there is no PostgreSQL on this machine.
    pub(crate) fn start() -> Option<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .nth(2)
            .unwrap();
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command
            .args(["run", "--quiet", "--package", "xtask", "--", "postgres"])
            .current_dir(root);
        let mut keeper = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = keeper.stdin.take().unwrap();
        let mut answers = BufReader::new(keeper.stdout.take().unwrap());
        let mut first = String::new();
        answers.read_line(&mut first).unwrap();
        assert!(
            !first.is_empty(),
            "`cargo xtask postgres` says above what went wrong"
        );
        let server = Self {
            connection: first.trim_end().to_owned(),
            pipes: Mutex::new((Some(orders), answers)),
            keeper,
        };
        match server.connection.strip_prefix("skip:") {
            Some(why) => skip(why.trim()),
            None => Some(server),
        }
    }

    /// `stop`, `crash`, `start`, `standby` or `promote`: see `cargo xtask postgres --help`. What follows the `ok`.
    pub(crate) fn order(&self, order: &str) -> String {
        let mut pipes = self.pipes.lock().unwrap();
        writeln!(pipes.0.as_mut().unwrap(), "{order}").unwrap();
        let mut answer = String::new();
        pipes.1.read_line(&mut answer).unwrap();
        let rest = answer.trim_end().strip_prefix("ok");
        rest.unwrap_or_else(|| panic!("{order}: {answer}"))
            .trim()
            .to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The end of its input is the keeper's sign.
        if let Ok(pipes) = self.pipes.get_mut() {
            pipes.0 = None;
        }
        _ = self.keeper.wait();
    }
}

/// How to connect to the server that the tests of this process share. `None`: there is none, and that has been said.
pub(crate) fn shared() -> Option<&'static str> {
    static SHARED: OnceLock<Option<Server>> = OnceLock::new();
    static NAMED: OnceLock<Option<String>> = OnceLock::new();
    match NAMED.get_or_init(|| env::var(VARIABLE).ok()) {
        Some(none) if none == "none" => skip("as was said before"),
        Some(connection) => Some(connection),
        None => SHARED
            .get_or_init(Server::start)
            .as_ref()
            .map(|server| server.connection.as_str()),
    }
}

/// Says so once, past the harness, which shows nothing of what a test prints that passes.
fn skip<T>(why: &str) -> Option<T> {
    static SAID: OnceLock<()> = OnceLock::new();
    let in_ci = env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    assert!(!in_ci, "tests are not skipped in CI: {why}");
    SAID.get_or_init(|| {
        _ = writeln!(
            std::io::stderr(),
            "skip: the tests on PostgreSQL are not run: {why}"
        );
    });
    None
}
