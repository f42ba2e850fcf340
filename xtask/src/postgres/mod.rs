//! `cargo xtask postgres`: a throw-away PostgreSQL from the machine's own binaries, for tests.
//!
//! The server is kept by a process of its own, the guard (`guard.rs`), which ends and removes it when its input ends.
//! The end of a pipe is all that needs no help from who held it: a program that panics, is interrupted or is killed
//! leaves no server behind.

mod binaries;
mod guard;

use std::env;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::failure::Failure;

/// Says to tests how to connect, or [`NONE`].
pub(crate) const VARIABLE: &str = "MRTR_TEST_POSTGRES";

/// There is no server, and tests that want one have been told why.
pub(crate) const NONE: &str = "none";

const HELP: &str = "\
cargo xtask postgres

Starts a PostgreSQL server of its own in a temporary directory, as a user that is not root, reachable over a socket there
alone. Prints one line with how to connect, and ends and removes the server when its input ends (Ctrl-D).

It looks for initdb and pg_ctl on the path, where `pg_config --bindir` says, and in /usr/lib/postgresql. Where there are
none it prints a line that begins with `skip:` and exits with 0.

Lines that it takes on its input, each answered with `ok` (and how to connect, where that is news) or `failed: ..`:
  stop      shut the server down
  crash     end it as a power cut would
  start     start it again
  standby   make a copy that follows it, as a server of its own
  promote   end the server as a power cut would, and let the copy take its place
";

/// The command. Its first line on stdout says how to connect, and after that it passes lines on.
pub(crate) fn run(args: &[String]) -> Result<(), Failure> {
    match args.first().map(String::as_str) {
        None => {}
        Some("-h" | "--help") => return Ok(io::stdout().write_all(HELP.as_bytes())?),
        Some(guard::ARGUMENT) => return guard::run(),
        Some(other) => {
            return Err(Failure::usage(format!(
                "`postgres` takes no arguments, but was given `{other}`"
            )));
        }
    }
    let mut server = match Server::start()? {
        Started::Server(server) => server,
        Started::Not(why) => return Ok(writeln!(io::stdout(), "skip: {why}")?),
    };
    writeln!(io::stdout(), "{}", server.connection)?;
    io::stdout().flush()?;
    for line in io::stdin().lines() {
        let answer = server.ask(line?.trim())?;
        writeln!(io::stdout(), "{answer}")?;
        io::stdout().flush()?;
    }
    Ok(())
}

/// A server, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Server {
    /// How to connect, as PostgreSQL's own clients read it.
    pub(crate) connection: String,
    guard: Child,
    // Taken when it is dropped: its end is the guard's sign.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// Whether there is a server now.
#[derive(Debug)]
pub(crate) enum Started {
    Server(Server),
    /// The machine has no PostgreSQL; this says what was looked for.
    Not(String),
}

impl Server {
    /// Makes and starts a server, which takes a second or two.
    pub(crate) fn start() -> Result<Started, Failure> {
        let mut command = Command::new(env::current_exe()?);
        command.args(["postgres", guard::ARGUMENT]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        in_a_group_of_its_own(&mut command);
        let mut guard = command.spawn()?;
        let (Some(orders), Some(answers)) = (guard.stdin.take(), guard.stdout.take()) else {
            return Err(Failure::failed(
                "the guard of the PostgreSQL server has no pipes",
                "this is a mistake in xtask/src/postgres",
            ));
        };
        let mut server = Self {
            connection: String::new(),
            guard,
            orders: Some(orders),
            answers: BufReader::new(answers),
        };
        let first = server.answer()?;
        if let Some(why) = first.strip_prefix("skip: ") {
            return Ok(Started::Not(why.to_owned()));
        }
        server.connection = first;
        Ok(Started::Server(server))
    }

    fn ask(&mut self, order: &str) -> Result<String, Failure> {
        if let Some(orders) = &mut self.orders {
            writeln!(orders, "{order}")?;
        }
        self.answer()
    }

    fn answer(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(Failure::failed(
                "the PostgreSQL server for the tests could not be started",
                "what went wrong stands above",
            ));
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.orders.take());
        _ = self.guard.wait();
    }
}

/// For a run of tests: the server, or why there is none, said in one line. In CI that is a failure: a run that skips
/// there would skip for ever.
pub(crate) fn for_tests() -> Result<Option<Server>, Failure> {
    match Server::start()? {
        Started::Server(server) => Ok(Some(server)),
        Started::Not(why) if in_ci() => Err(Failure::failed(
            why,
            "install it (on Debian: postgresql); .ci/run does",
        )),
        Started::Not(why) => {
            eprintln!("skip: what needs PostgreSQL is not run: {why}");
            Ok(None)
        }
    }
}

fn in_ci() -> bool {
    env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// What a terminal's Ctrl-C reaches is its foreground group. The guard must outlive it, to clean up.
#[cfg(unix)]
fn in_a_group_of_its_own(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0);
}

#[cfg(not(unix))]
fn in_a_group_of_its_own(_: &mut Command) {}
