//! Where the thread's work comes from, and how long it waits for it.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

use crate::job::Task;

/// How many operations share a commit at most. More would make the first of them wait for the last.
const BATCH: usize = 512;

/// How long the thread looks out for work before it sleeps. A caller that claims and settles is back by then, and waking a
/// thread takes about as long.
const LOOKOUT: Duration = Duration::from_micros(50);

/// How long a batch waits for those who were in the last one, whose answers are on their way to them. A caller that is
/// alone never waits.
const COMPANY: Duration = Duration::from_micros(20);

/// The queue's end at the thread.
pub(crate) struct Intake {
    queue: mpsc::Receiver<Task>,
    /// How many came last.
    last: usize,
}

impl Intake {
    pub(crate) fn new(queue: mpsc::Receiver<Task>) -> Self {
        Self { queue, last: 0 }
    }

    /// What there is to do, and with `may_wait` at least one task. `None`: the ledger was dropped.
    pub(crate) fn next(&mut self, may_wait: bool) -> Option<Vec<Task>> {
        let mut tasks = Vec::new();
        match self.queue.try_recv() {
            Ok(task) => tasks.push(task),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) if !may_wait => {}
            Err(TryRecvError::Empty) => {
                let task = self.look_out().or_else(|| self.queue.blocking_recv())?;
                tasks.push(task);
            }
        }
        if !tasks.is_empty() {
            let more = self.last.saturating_sub(1);
            wait(COMPANY, || (self.queue.len() >= more).then_some(()));
        }
        while tasks.len() < BATCH
            && let Ok(task) = self.queue.try_recv()
        {
            tasks.push(task);
        }
        self.last = tasks.len();
        Some(tasks)
    }

    fn look_out(&mut self) -> Option<Task> {
        wait(LOOKOUT, || self.queue.try_recv().ok())
    }
}

/// Looks again and again, for this long at most, and leaves the processor to others in between.
fn wait<T>(time: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    if let Some(found) = look() {
        return Some(found);
    }
    let start = Instant::now();
    while start.elapsed() < time {
        std::thread::yield_now();
        if let Some(found) = look() {
            return Some(found);
        }
    }
    None
}
