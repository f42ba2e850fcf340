//! A server in a process of its own, on a processor of its own.

use std::io::{self, BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// It ends with this value.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a program of this package, which prints its address first.
    pub(crate) fn start(folder: &Path, name: &str, args: &[String]) -> io::Result<Self> {
        let mut command = Command::new(folder.join(name));
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = on_processor(0, || command.spawn())?
            .map_err(|error| io::Error::other(format!("{name} does not start: {error}")))?;
        let stdout = child
            .stdout
            .take()
            .ok_or_else(|| io::Error::other("no stdout"))?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line
            .trim()
            .parse()
            .map_err(|_| io::Error::other(format!("{name} has not said where it listens")));
        match address {
            Ok(address) => Ok(Self { child, address }),
            Err(error) => {
                _ = child.kill();
                _ = child.wait();
                Err(error)
            }
        }
    }

    /// Processor time that it has used so far.
    pub(crate) fn processor_time(&self) -> io::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in parentheses may hold anything; what follows it is numbers.
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let ticks: u64 = [11, 12]
            .iter()
            .filter_map(|&field| fields.get(field)?.parse::<u64>().ok())
            .sum();
        let a_second = rustix::param::clock_ticks_per_second();
        Ok(Duration::from_nanos(
            ticks.saturating_mul(1_000_000_000 / a_second.max(1)),
        ))
    }

    /// What it holds in memory, in bytes.
    pub(crate) fn memory(&self) -> io::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        kib.map(|kib| kib * 1024)
            .ok_or_else(|| io::Error::other("no VmRSS"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Whether servers and load can have a processor each.
pub(crate) fn two_processors() -> bool {
    sched_getaffinity(None).is_ok_and(|set| set.is_set(0) && set.is_set(1))
}

/// From here on this thread, and what it starts, runs on the load's processor alone.
pub(crate) fn keep_to_the_loads_processor() -> io::Result<()> {
    if two_processors() {
        set(1)?;
    }
    Ok(())
}

/// What is started in `work` stays on that processor.
fn on_processor<T>(processor: usize, work: impl FnOnce() -> T) -> io::Result<T> {
    let before = sched_getaffinity(None)?;
    let all = std::thread::available_parallelism()?.get();
    if all > 1 || before.is_set(1) {
        set(processor)?;
    }
    let done = work();
    sched_setaffinity(None, &before)?;
    Ok(done)
}

fn set(processor: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    Ok(sched_setaffinity(None, &set)?)
}
