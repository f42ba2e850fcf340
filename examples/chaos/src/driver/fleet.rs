//! The servers: processes that are started, misled, stopped and killed here, and nowhere left behind.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{sleep, timeout};

use crate::driver::Failure;
use crate::history::{Recorder, What};
use crate::terms::SHUTDOWN;
use crate::trace::{self, Process};

/// How long a server may take to say where it listens, and to obey.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a server is started until it listens.
const STARTS: u32 = 10;

/// Where a server is, while it is up.
#[derive(Clone, Debug)]
pub(crate) struct Up {
    pub(crate) process: Process,
    pub(crate) url: String,
}

/// The servers of a run.
#[derive(Debug)]
pub(crate) struct Fleet {
    folder: PathBuf,
    /// What every server is started with.
    flags: Vec<String>,
    slots: Vec<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    up: Mutex<Option<Up>>,
    control: tokio::sync::Mutex<Control>,
}

/// Held by whoever does something to a server, for as long as that takes.
#[derive(Debug, Default)]
struct Control {
    lives: u32,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    process: Process,
    child: Child,
    orders: ChildStdin,
    words: Lines<BufReader<ChildStdout>>,
}

impl Fleet {
    /// No server runs yet.
    pub(crate) fn new(folder: &Path, size: usize, flags: Vec<String>) -> Self {
        Self {
            folder: folder.to_owned(),
            flags,
            slots: (0..size).map(|_| Slot::default()).collect(),
        }
    }

    /// A server that is up, if one is.
    pub(crate) fn any(&self, rng: &mut Rng) -> Option<Up> {
        let up: Vec<Up> = self.slots.iter().filter_map(Slot::up).collect();
        rng.choice(up)
    }

    /// Starts every server that does not run.
    pub(crate) async fn start_all(&self, seen: &Recorder) -> Result<(), Failure> {
        for (slot, at) in self.slots.iter().enumerate() {
            let mut control = at.control.lock().await;
            if control.running.is_none() {
                self.start(slot, &mut control, seen).await?;
            }
        }
        Ok(())
    }

    /// Kills a server, and starts it again after a while.
    pub(crate) async fn kill(
        &self,
        slot: usize,
        down: Duration,
        seen: &Recorder,
    ) -> Result<(), Failure> {
        let at = self.slot(slot)?;
        let mut control = at.control.lock().await;
        if let Some(mut running) = control.running.take() {
            let from = trace::now();
            running.child.kill().await?;
            at.gone();
            seen.incident(What::Killed(running.process), from);
        }
        sleep(down).await;
        self.start(slot, &mut control, seen).await
    }

    /// Stops a server in good order, and starts it again after a while.
    pub(crate) async fn stop(
        &self,
        slot: usize,
        down: Duration,
        seen: &Recorder,
    ) -> Result<(), Failure> {
        let at = self.slot(slot)?;
        let mut control = at.control.lock().await;
        if let Some(running) = control.running.take() {
            // Nobody is sent there any more; who is on the way finds it closed.
            at.gone();
            stop(running, seen).await?;
        }
        sleep(down).await;
        self.start(slot, &mut control, seen).await
    }

    /// Lets a server stand still for a while.
    pub(crate) async fn pause(
        &self,
        slot: usize,
        lasts: Duration,
        seen: &Recorder,
    ) -> Result<(), Failure> {
        let control = self.slot(slot)?.control.lock().await;
        if let Some(running) = &control.running {
            let from = trace::now();
            running.signal(Signal::STOP)?;
            sleep(lasts).await;
            running.signal(Signal::CONT)?;
            seen.incident(What::Paused(running.process), from);
        }
        Ok(())
    }

    /// Sets a server's clock to an offset. Returns the server, if there is one.
    pub(crate) async fn set_clock(
        &self,
        slot: usize,
        offset: i64,
        seen: &Recorder,
    ) -> Result<Option<Process>, Failure> {
        let mut control = self.slot(slot)?.control.lock().await;
        let Some(running) = &mut control.running else {
            return Ok(None);
        };
        let from = trace::now();
        running.order(&format!("clock {offset}")).await?;
        running.word("clock is set").await?;
        let process = running.process;
        seen.incident(What::Clock(process, offset), from);
        Ok(Some(process))
    }

    /// Sets a server's clock right, unless another one has taken its place: that one's is.
    pub(crate) async fn set_clock_right(
        &self,
        process: Process,
        seen: &Recorder,
    ) -> Result<(), Failure> {
        let now = self.slot(process.slot)?.up();
        if now.is_none_or(|up| up.process != process) {
            return Ok(());
        }
        self.set_clock(process.slot, 0, seen).await.map(drop)
    }

    /// Stops everything in good order.
    pub(crate) async fn stop_all(&self, seen: &Recorder) -> Result<(), Failure> {
        for at in &self.slots {
            let mut control = at.control.lock().await;
            at.gone();
            if let Some(running) = control.running.take() {
                stop(running, seen).await?;
            }
        }
        Ok(())
    }

    /// Ends whatever runs, at once.
    pub(crate) async fn kill_all(&self) {
        for at in &self.slots {
            if let Some(mut running) = at.control.lock().await.running.take() {
                // It may have ended by itself.
                _ = running.child.kill().await;
            }
        }
    }

    fn slot(&self, slot: usize) -> Result<&Slot, Failure> {
        let at = self.slots.get(slot);
        at.ok_or_else(|| Failure::new(format!("there is no server in slot {slot}")))
    }

    /// Starts a server. One that does not get as far as to listen, because the ledger was taken away from it, is started
    /// again, as a supervisor would.
    async fn start(
        &self,
        slot: usize,
        control: &mut Control,
        seen: &Recorder,
    ) -> Result<(), Failure> {
        for _ in 1..STARTS {
            let log = match std::env::var_os("RUST_LOG") {
                Some(_) => Stdio::inherit(),
                None => Stdio::null(),
            };
            let start = self.start_once(slot, control, log, seen);
            if start.await.is_ok() {
                return Ok(());
            }
        }
        // What it says is heard when it is the last thing that it says.
        self.start_once(slot, control, Stdio::inherit(), seen).await
    }

    async fn start_once(
        &self,
        slot: usize,
        control: &mut Control,
        log: Stdio,
        seen: &Recorder,
    ) -> Result<(), Failure> {
        let from = trace::now();
        let process = Process {
            slot,
            life: control.lives,
        };
        control.lives += 1;
        let mut child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .args(["--process", &process.to_string()])
            .arg("--folder")
            .arg(&self.folder)
            .args(&self.flags)
            // Its orders; the end of them is its end, so that it does not outlive this process.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        let (Some(orders), Some(words)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::new("a server without orders or words"));
        };
        let mut running = Running {
            process,
            child,
            orders,
            words: BufReader::new(words).lines(),
        };
        let url = running.word("listening on ").await?;
        control.running = Some(running);
        seen.incident(What::Started(process), from);
        let up = Up { process, url };
        if let Some(at) = self.slots.get(slot) {
            *at.up.lock().unwrap_or_else(PoisonError::into_inner) = Some(up);
        }
        Ok(())
    }
}

impl Slot {
    fn up(&self) -> Option<Up> {
        self.up
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn gone(&self) {
        *self.up.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Running {
    async fn order(&mut self, order: &str) -> Result<(), Failure> {
        self.orders
            .write_all(format!("{order}\n").as_bytes())
            .await?;
        Ok(self.orders.flush().await?)
    }

    /// The next line that the server says; what stands behind `prefix` in it.
    async fn word(&mut self, prefix: &str) -> Result<String, Failure> {
        let process = self.process;
        let line = timeout(PATIENCE, self.words.next_line())
            .await
            .map_err(|_| Failure::new(format!("{process} does not say {prefix:?}")))??;
        let line = line.ok_or_else(|| Failure::new(format!("{process} has ended by itself")))?;
        line.strip_prefix(prefix)
            .map(str::to_owned)
            .ok_or_else(|| Failure::new(format!("{process} says {line:?}, not {prefix:?}")))
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        let pid = id.and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Failure::new(format!("{} has ended", self.process)))?;
        kill_process(pid, signal).map_err(|error| Failure::new(error.to_string()))
    }
}

async fn stop(mut running: Running, seen: &Recorder) -> Result<(), Failure> {
    let from = trace::now();
    running.order("stop").await?;
    // It waits for what runs; somewhat later it would be hanging.
    let ended = timeout(SHUTDOWN + PATIENCE, running.child.wait()).await;
    let process = running.process;
    let status = ended.map_err(|_| Failure::new(format!("{process} does not stop")))??;
    if !status.success() {
        return Err(Failure::new(format!(
            "{process} was stopped, and ended with {status}"
        )));
    }
    seen.incident(What::Stopped(process), from);
    Ok(())
}
