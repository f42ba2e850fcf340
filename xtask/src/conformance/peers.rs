//! Building and starting what is tested, and the suite against it.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::install::Suite;
use super::legs::{Leg, Scenarios, Side};
use super::shown;
use crate::cargo::{self, cargo};
use crate::failure::Failure;

const SERVER: &str = "conformance-server";
const CLIENT: &str = "conformance-client";

/// How long a leg may take; each scenario has a limit of its own, which is the suite's.
const LEG: Duration = Duration::from_secs(10 * 60);

/// How long the suite gives a scenario, in milliseconds. All clients are started at once, and a machine may be small.
const SCENARIO: &str = "90000";

/// How long a server may take to end once its stdin is closed.
const END: Duration = Duration::from_secs(10);

/// The programs that are tested: both built, and the server running if a leg needs it. All its legs are run against the one
/// process, because one URL is to serve both eras.
#[derive(Debug)]
pub(super) struct Peers {
    binaries: PathBuf,
    server: Option<Server>,
}

impl Peers {
    /// Builds what these legs need, and starts the server; its data and its log go into the folder.
    pub(super) fn start(metadata: &Value, legs: &[Leg], folder: &Path) -> Result<Self, Failure> {
        let needed = |side| legs.iter().any(|leg| leg.side == side);
        let mut build = cargo(["build"]);
        for (side, package) in [(Side::Server, SERVER), (Side::Client, CLIENT)] {
            if needed(side) {
                build.args(["-p", package]);
            }
        }
        build.stdout(Stdio::null());
        cargo::run(build, "mend what the compiler reports above")?;
        let target = cargo::text(metadata, "target_directory").ok_or_else(|| {
            Failure::failed(
                "`cargo metadata` names no target directory",
                "is this cargo 1.89 or newer?",
            )
        })?;
        let binaries = Path::new(target).join("debug");
        let server = match needed(Side::Server) {
            true => Some(Server::start(&binaries, folder)?),
            false => None,
        };
        Ok(Self { binaries, server })
    }

    /// Runs the whole suite of one leg; its result files are in the folder afterwards.
    pub(super) fn run(&self, suite: &Suite, leg: Leg, folder: &Path) -> Result<(), Failure> {
        let mut command = Command::new(&suite.node.program);
        command.arg(&suite.script);
        // The suite splits a command at its spaces: a path without a folder has none.
        command.current_dir(&self.binaries);
        match (leg.side, &self.server) {
            (Side::Server, Some(server)) => {
                command.args(["server", "--url", &server.url]);
            }
            _ => {
                let client = format!("./{CLIENT}{}", std::env::consts::EXE_SUFFIX);
                command.args(["client", "--command", &client]);
            }
        }
        match leg.scenarios {
            Scenarios::Of(revision) => {
                command.args(["--suite", "all", "--spec-version", revision]);
            }
            Scenarios::Extensions => {
                command.args(["--suite", "extensions"]);
            }
        }
        command.args(["--timeout", SCENARIO, "--output-dir"]);
        command.arg(folder);
        cargo::without_run_variables(&mut command);

        let log = folder.join("suite.log");
        let file = File::create(&log)?;
        command.stderr(file.try_clone()?).stdout(file);
        command.stdin(Stdio::null());
        let line = cargo::shown(&command);
        let mut child = command.spawn().map_err(|error| {
            Failure::failed(
                format!("`{line}` could not be started: {error}"),
                "is Node on the path?",
            )
        })?;
        // Its exit code says what its result files say better, and says it of scenarios that are known to fail, too.
        if wait(&mut child, LEG)?.is_none() {
            child.kill()?;
            child.wait()?;
            return Err(Failure::failed(
                format!(
                    "{leg}: the suite did not come to its end within {} s",
                    LEG.as_secs()
                ),
                format!("its output is in {}", shown(&log)),
            ));
        }
        Ok(())
    }
}

/// The server that is tested. It ends when its stdin is closed, so also when this process dies.
#[derive(Debug)]
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(binaries: &Path, folder: &Path) -> Result<Self, Failure> {
        let data = folder.join("data");
        let log = folder.join("server.log");
        let mut command =
            Command::new(binaries.join(format!("{SERVER}{}", std::env::consts::EXE_SUFFIX)));
        command.args(["--listen", "127.0.0.1:0", "--until-stdin-closes", "--data"]);
        command.arg(&data);
        cargo::without_run_variables(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(File::create(&log)?);
        let failed = |what: String| {
            Failure::failed(
                format!("{SERVER} {what}"),
                format!("what it said is in {}", shown(&log)),
            )
        };
        let child = command
            .spawn()
            .map_err(|error| failed(format!("could not be started: {error}")))?;
        // From here on it is ended, whatever comes.
        let mut server = Self {
            child,
            url: String::new(),
        };
        let mut line = String::new();
        if let Some(stdout) = server.child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        server.url = line
            .trim()
            .strip_prefix("listening on ")
            .ok_or_else(|| failed("did not say where it listens".to_owned()))?
            .to_owned();
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if !matches!(wait(&mut self.child, END), Ok(Some(_))) {
            eprintln!("{SERVER} did not end when its stdin was closed; it is killed");
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Waits for the end of a child; `None` when it took too long.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>, Failure> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > limit {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(50));
    }
}
