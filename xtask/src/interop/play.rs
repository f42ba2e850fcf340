//! Starting servers and clients, and reading what they say.
//!
//! A client plays the cases of its run one after the other and writes a line for each. One that says nothing for too long is
//! ended with all that it started, and another one plays the rest.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::expected::{Case, Cell, Expected, Verdict};
use super::install::{self, Sdks};
use super::matrix::{Choice, Ours, Peer, Run, Transport};
use crate::cargo::{self, cargo, text};
use crate::failure::Failure;

/// How long a cell may take, the start of the client included. Its requests have limits of their own below this.
const CELL: Duration = Duration::from_secs(45);

/// How long a server may take to say where it listens. A first start compiles what it imports.
const START: Duration = Duration::from_secs(60);

/// How long a program may take to end once nothing keeps it.
const END: Duration = Duration::from_secs(10);

/// How much of a failing cell's stderr is shown.
const SHOWN_LINES: usize = 40;

/// Plays all runs of the choice; the cells are in their order afterwards.
pub(super) fn play(
    sdks: &Sdks,
    choice: &Choice,
    cases: &[Case],
    expected: &Expected,
    cells: &mut Vec<Cell>,
) -> Result<(), Failure> {
    let stage = Stage {
        sdks,
        binary: binary()?,
        logs: emptied_logs()?,
    };
    let mut server: Option<Server> = None;
    for run in choice.runs() {
        let start = Instant::now();
        let before = cells.len();
        if run.transport == Transport::Stdio {
            server = None;
        } else if server.as_ref().is_none_or(|server| !server.serves(&run)) {
            // One at a time.
            drop(server.take());
            server = Some(stage.server(&run)?);
        }
        let mut scene = Scene {
            stage: &stage,
            server: server.as_ref(),
            run,
            expected,
            cells,
        };
        scene.play(cases)?;
        let failed = cells.iter().skip(before).filter(|cell| cell.failed());
        eprintln!(
            "{run}: {} cells, {} failed, {:.1} s",
            cells.len() - before,
            failed.count(),
            start.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

/// Builds examples/interop.
fn binary() -> Result<PathBuf, Failure> {
    let mut build = cargo(["build", "-p", "interop"]);
    build.stdout(Stdio::null());
    cargo::run(build, "mend what the compiler reports above")?;
    let target = cargo::target(&cargo::metadata(false)?)?;
    Ok(target
        .join("debug")
        .join(format!("interop{}", std::env::consts::EXE_SUFFIX)))
}

fn emptied_logs() -> Result<PathBuf, Failure> {
    let logs = install::folder().join("logs");
    if logs.exists() {
        fs::remove_dir_all(&logs)?;
    }
    fs::create_dir_all(&logs)?;
    Ok(logs)
}

/// What all runs share.
struct Stage<'a> {
    sdks: &'a Sdks,
    binary: PathBuf,
    logs: PathBuf,
}

impl Stage<'_> {
    /// A server's program and arguments.
    fn server_command(&self, run: &Run) -> Vec<String> {
        match run.ours {
            Ours::Server => vec![
                self.binary.to_string_lossy().into_owned(),
                "serve".to_owned(),
            ],
            Ours::Client => self.sdks.command(run.peer, "server"),
        }
    }

    fn client_command(&self, run: &Run) -> Vec<String> {
        match run.ours {
            Ours::Server => self.sdks.command(run.peer, "client"),
            Ours::Client => vec![
                self.binary.to_string_lossy().into_owned(),
                "call".to_owned(),
            ],
        }
    }

    fn server(&self, run: &Run) -> Result<Server, Failure> {
        let mut words = self.server_command(run);
        if run.ours == Ours::Server {
            words.push("--until-stdin-closes".to_owned());
        }
        let log = self
            .logs
            .join(format!("{}-our-{}-server.log", run.peer, run.ours));
        let program = Program::start(&words, &log)?;
        let line = program.lines.recv_timeout(START).unwrap_or_default();
        let Some(url) = line.strip_prefix("listening on ") else {
            drop(program);
            eprint!("{}", said(&log, 0));
            return Err(Failure::failed(
                format!("the server of `{run}` did not say where it listens"),
                "what it said stands above",
            ));
        };
        Ok(Server {
            peer: run.peer,
            ours: run.ours,
            url: url.to_owned(),
            log,
            _program: program,
        })
    }
}

/// A server over HTTP. It serves both eras, because one URL is to do that.
struct Server {
    peer: Peer,
    ours: Ours,
    url: String,
    log: PathBuf,
    _program: Program,
}

impl Server {
    fn serves(&self, run: &Run) -> bool {
        self.peer == run.peer && self.ours == run.ours
    }
}

/// One run of the matrix.
struct Scene<'a> {
    stage: &'a Stage<'a>,
    server: Option<&'a Server>,
    run: Run,
    expected: &'a Expected,
    cells: &'a mut Vec<Cell>,
}

impl Scene<'_> {
    fn play(&mut self, cases: &[Case]) -> Result<(), Failure> {
        let mut left = Vec::new();
        for case in cases {
            match self.expected.without_playing(&self.run, case) {
                Some(cell) => self.cells.push(cell),
                None => left.push(case),
            }
        }
        let mut attempt = 0;
        while !left.is_empty() {
            attempt += 1;
            let played = self.attempt(&left, attempt)?;
            left.drain(..played);
        }
        Ok(())
    }

    /// Has a client play these cases. Returns how many were, at least one.
    fn attempt(&mut self, cases: &[&Case], attempt: u32) -> Result<usize, Failure> {
        let mut words = self.stage.client_command(&self.run);
        match self.server {
            Some(server) => words.extend(["--url".to_owned(), server.url.clone()]),
            None => {
                let mut command = self.stage.server_command(&self.run);
                command.push("--stdio".to_owned());
                words.extend(["--command".to_owned(), Value::from(command).to_string()]);
            }
        }
        words.extend(["--era".to_owned(), self.run.era.to_string()]);
        for case in cases {
            words.extend(["--case".to_owned(), case.name.clone()]);
        }
        let Run {
            peer,
            ours,
            era,
            transport,
        } = self.run;
        let log = format!("{peer}-our-{ours}-{era}-{transport}-client-{attempt}.log");
        let log = self.stage.logs.join(log);
        let mut ear = Ear::new(&log, self.server.map(|server| server.log.as_path()));
        let client = Program::start(&words, &log)?;
        for (played, case) in (1..).zip(cases) {
            ear.listen();
            let (cell, lost) = match client.lines.recv_timeout(CELL) {
                Ok(line) => (self.cell_of(case, &line), false),
                Err(RecvTimeoutError::Timeout) => {
                    let why = format!("nothing was observed within {} s", CELL.as_secs());
                    (self.expected.broken(&self.run, case, why), true)
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let why = "the client ended before it said what it observed".to_owned();
                    (self.expected.broken(&self.run, case, why), true)
                }
            };
            if let Verdict::Failed(why) = &cell.verdict {
                eprintln!("{}: {}: {why}", self.run, case.name);
                eprint!("{}", ear.heard());
            }
            self.cells.push(cell);
            if lost {
                return Ok(played);
            }
        }
        Ok(cases.len())
    }

    fn cell_of(&self, case: &Case, line: &str) -> Cell {
        let said: Option<Value> = serde_json::from_str(line).ok();
        let said = said.filter(|said| text(said, "case") == Some(&case.name));
        let broken = |why: String| self.expected.broken(&self.run, case, why);
        let Some(said) = said else {
            return broken(format!("the client said something else: {line}"));
        };
        match said.get("observed") {
            Some(observed) => self.expected.judge(&self.run, case, observed.clone()),
            None => broken(
                text(&said, "failed")
                    .unwrap_or("it did not say why")
                    .to_owned(),
            ),
        }
    }
}

/// A program with a process group of its own. It is told to end by the end of its stdin; whatever of the group is left a
/// while later is killed.
struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Program {
    fn start(words: &[String], log: &Path) -> Result<Self, Failure> {
        let (program, arguments) = words.split_first().ok_or_else(|| {
            Failure::failed("there is no program to start", "this is a fault of xtask")
        })?;
        let mut command = Command::new(program);
        command.args(arguments);
        cargo::without_run_variables(&mut command);
        // A proxy has no business between two programs of one machine, and colours none in a file.
        for name in [
            "http_proxy",
            "HTTP_PROXY",
            "https_proxy",
            "HTTPS_PROXY",
            "all_proxy",
            "ALL_PROXY",
        ] {
            command.env_remove(name);
        }
        command
            .env("NO_COLOR", "1")
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(File::create(log)?);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|error| {
            let line = cargo::shown(&command);
            Failure::failed(
                format!("`{line}` could not be started: {error}"),
                "remove target/interop and start again",
            )
        })?;
        let stdin = child.stdin.take();
        let lines = lines_of(child.stdout.take());
        Ok(Self {
            child,
            stdin,
            lines,
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let ended = wait(&mut self.child, END);
        // Whatever it started goes with it; after a good end there is nothing left.
        kill_group(&self.child);
        if !ended {
            eprintln!("a program did not end by itself and was killed");
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(unix)]
fn kill_group(child: &Child) {
    use rustix::process::{Pid, Signal, kill_process_group};
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // An error says that nobody is left.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(not(unix))]
fn kill_group(_: &Child) {}

/// The lines of a stream, as they come; the channel closes with the stream.
fn lines_of(stdout: Option<ChildStdout>) -> Receiver<String> {
    let (said, lines) = mpsc::channel();
    thread::spawn(move || {
        let lines = stdout
            .map(BufReader::new)
            .into_iter()
            .flat_map(BufReader::lines);
        for line in lines.map_while(Result::ok) {
            if said.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// Waits for the end of a child; false when it took too long.
fn wait(child: &mut Child, limit: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < limit {
        match child.try_wait() {
            Ok(None) => thread::sleep(Duration::from_millis(20)),
            Ok(Some(_)) => return true,
            Err(_) => return false,
        }
    }
    false
}

/// What client and server write to stderr during a cell.
struct Ear<'a> {
    logs: Vec<(&'static str, &'a Path)>,
    from: Vec<u64>,
}

impl<'a> Ear<'a> {
    fn new(client: &'a Path, server: Option<&'a Path>) -> Self {
        let mut logs = vec![("client", client)];
        logs.extend(server.map(|server| ("server", server)));
        Self {
            logs,
            from: Vec::new(),
        }
    }

    /// From here on.
    fn listen(&mut self) {
        let length = |(_, log): &(_, &Path)| fs::metadata(log).map_or(0, |file| file.len());
        self.from = self.logs.iter().map(length).collect();
    }

    fn heard(&self) -> String {
        let mut text = String::new();
        for ((who, log), from) in self.logs.iter().zip(&self.from) {
            let said = said(log, *from);
            if !said.is_empty() {
                text.push_str(&format!("  the {who} says:\n{said}"));
            }
        }
        text
    }
}

/// The last lines of a log from an offset on, indented.
fn said(log: &Path, from: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(SHOWN_LINES);
    lines
        .iter()
        .skip(from)
        .map(|line| format!("    {line}\n"))
        .collect()
}
