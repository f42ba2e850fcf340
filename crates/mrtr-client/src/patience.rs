//! How long a request may take: not while a person thinks, longer while the server says that it gets on, and never without end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The time that questions of a server were in front of somebody while its requests were open.
///
/// Only the earlier era has such time: there a server asks while the call stays open. It is counted once however many questions are open.
#[derive(Debug)]
pub(crate) struct Thinking {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    open: usize,
    /// When `open` was last 0 and became 1.
    since: Instant,
    /// What is over.
    spent: Duration,
}

impl State {
    fn spent_at(&self, now: Instant) -> Duration {
        match self.open {
            0 => self.spent,
            _ => self.spent + now.saturating_duration_since(self.since),
        }
    }
}

impl Thinking {
    pub(crate) fn new() -> Arc<Self> {
        let state = State {
            open: 0,
            since: Instant::now(),
            spent: Duration::ZERO,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            changed: Notify::new(),
        })
    }

    /// Somebody is being asked, until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> Thought {
        let mut state = self.lock();
        if state.open == 0 {
            state.since = Instant::now();
        }
        state.open += 1;
        drop(state);
        self.changed.notify_waiters();
        Thought(Arc::clone(self))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One question in front of somebody.
#[derive(Debug)]
pub(crate) struct Thought(Arc<Thinking>);

impl Drop for Thought {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        let now = Instant::now();
        if state.open == 1 {
            state.spent = state.spent_at(now);
        }
        state.open = state.open.saturating_sub(1);
        drop(state);
        self.0.changed.notify_waiters();
    }
}

/// A moment, and what had been thought by then.
#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Instant,
    spent: Duration,
}

/// The time-outs of one request, or of several that share them.
#[derive(Debug)]
pub(crate) struct Patience {
    thinking: Arc<Thinking>,
    limit: Option<Duration>,
    ceiling: Option<Duration>,
    begun: Mark,
    /// The last sign that the server gets on.
    last: Mutex<Mark>,
}

impl Patience {
    /// Begins to count: `limit` from the last progress, `ceiling` from now.
    pub(crate) fn new(
        thinking: &Arc<Thinking>,
        limit: Option<Duration>,
        ceiling: Option<Duration>,
    ) -> Arc<Self> {
        let now = Instant::now();
        let begun = Mark {
            at: now,
            spent: thinking.lock().spent_at(now),
        };
        Arc::new(Self {
            thinking: Arc::clone(thinking),
            limit,
            ceiling,
            begun,
            last: Mutex::new(begun),
        })
    }

    /// The server reported progress: the limit counts from now.
    pub(crate) fn progress(&self) {
        let now = Instant::now();
        let spent = self.thinking.lock().spent_at(now);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Mark { at: now, spent };
    }

    /// Runs until the time is over, and says then which limit it was.
    pub(crate) async fn wait_for<T>(&self, work: impl Future<Output = T>) -> Result<T, Duration> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            after = self.over() => Err(after),
        }
    }

    async fn over(&self) -> Duration {
        loop {
            let changed = self.thinking.changed.notified();
            let now = Instant::now();
            let (thinking, spent) = {
                let state = self.thinking.lock();
                (state.open > 0, state.spent_at(now))
            };
            if thinking {
                changed.await;
                continue;
            }
            let since = |mark: &Mark| {
                let all = now.saturating_duration_since(mark.at);
                all.saturating_sub(spent.saturating_sub(mark.spent))
            };
            let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
            let left = |limit: Option<Duration>, mark: &Mark| {
                limit.map(|limit| (limit.saturating_sub(since(mark)), limit))
            };
            let next = [left(self.limit, &last), left(self.ceiling, &self.begun)];
            match next.into_iter().flatten().min() {
                Some((Duration::ZERO, limit)) => return limit,
                Some((left, _)) => {
                    tokio::select! {
                        () = tokio::time::sleep(left) => {}
                        () = changed => {}
                    }
                }
                None => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn the_limit_counts_from_the_start() {
        let patience = Patience::new(&Thinking::new(), Some(MINUTE), None);
        let begun = Instant::now();
        assert_eq!(patience.wait_for(async { 7 }).await, Ok(7));
        assert_eq!(patience.wait_for(pending::<()>()).await, Err(MINUTE));
        assert_eq!(begun.elapsed(), MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn thinking_is_not_counted_however_many_think() {
        let thinking = Thinking::new();
        let patience = Patience::new(&thinking, Some(MINUTE), Some(2 * MINUTE));
        let begun = Instant::now();
        let person = async {
            tokio::time::sleep(MINUTE / 2).await;
            let one = thinking.begin();
            tokio::time::sleep(10 * MINUTE).await;
            let two = thinking.begin();
            drop(one);
            tokio::time::sleep(10 * MINUTE).await;
            drop(two);
            pending::<()>().await;
        };
        assert_eq!(patience.wait_for(person).await, Err(MINUTE));
        assert_eq!(begun.elapsed(), 21 * MINUTE);
        // What was thought before a request began is not its own.
        let next = Patience::new(&thinking, Some(MINUTE), None);
        let begun = Instant::now();
        assert_eq!(next.wait_for(pending::<()>()).await, Err(MINUTE));
        assert_eq!(begun.elapsed(), MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn progress_begins_the_limit_anew_up_to_the_ceiling() {
        let patience = Patience::new(&Thinking::new(), Some(MINUTE), Some(5 * MINUTE));
        let begun = Instant::now();
        let reports = async {
            loop {
                tokio::time::sleep(MINUTE / 2).await;
                patience.progress();
            }
        };
        let ended: Result<(), _> = patience.wait_for(reports).await;
        assert_eq!(ended, Err(5 * MINUTE));
        assert_eq!(begun.elapsed(), 5 * MINUTE);
        let stopped = Patience::new(&Thinking::new(), Some(MINUTE), Some(5 * MINUTE));
        let begun = Instant::now();
        let once = async {
            tokio::time::sleep(MINUTE / 2).await;
            stopped.progress();
            pending::<()>().await;
        };
        assert_eq!(stopped.wait_for(once).await, Err(MINUTE));
        assert_eq!(begun.elapsed(), MINUTE + MINUTE / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn without_limits_nothing_ends() {
        let patience = Patience::new(&Thinking::new(), None, None);
        let waited = patience.wait_for(tokio::time::sleep(1_000 * MINUTE)).await;
        assert_eq!(waited, Ok(()));
    }
}
