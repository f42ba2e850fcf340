//! Changes that wait for whoever listens: each once, and not without end.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::{Change, Ended};

/// Changes that wait to be taken.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    lists: Vec<Change>,
    resources: VecDeque<String>,
    known: HashSet<String>,
    missed: bool,
    ended: Option<Ended>,
    waker: Option<Waker>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.lists.is_empty() && self.resources.is_empty() && !self.missed
    }

    fn take(&mut self) -> Option<Change> {
        if !self.lists.is_empty() {
            return Some(self.lists.remove(0));
        }
        if std::mem::take(&mut self.missed) {
            return Some(Change::Missed);
        }
        let uri = self.resources.pop_front()?;
        self.known.remove(&uri);
        Some(Change::Resource { uri })
    }
}

impl Inbox {
    /// So many resources are kept for a listener that does not keep up.
    const MOST: usize = 1024;
    /// And no longer URIs than this, in bytes.
    const LONGEST: usize = 8 * 1024;

    pub(crate) fn put(&self, change: Change) {
        let mut state = self.lock();
        if state.ended.is_some() {
            return;
        }
        match change {
            Change::Resource { uri } => {
                if state.known.contains(&uri) {
                    return;
                }
                if state.known.len() >= Self::MOST || uri.len() > Self::LONGEST {
                    state.missed = true;
                } else {
                    state.known.insert(uri.clone());
                    state.resources.push_back(uri);
                }
            }
            Change::Missed => state.missed = true,
            list if state.lists.contains(&list) => return,
            list => state.lists.push(list),
        }
        wake(state);
    }

    /// Only the first end counts.
    pub(crate) fn end(&self, ended: Ended) {
        let mut state = self.lock();
        if state.ended.is_none() {
            state.ended = Some(ended);
            wake(state);
        }
    }

    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<Result<Change, Ended>> {
        let mut state = self.lock();
        if let Some(change) = state.take() {
            return Poll::Ready(Ok(change));
        }
        if let Some(ended) = &state.ended {
            return Poll::Ready(Err(ended.clone()));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// How it ended, if everything that came before was taken.
    pub(super) fn ended(&self) -> Option<Ended> {
        let state = self.lock();
        state.ended.clone().filter(|_| state.is_empty())
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// After the lock is given back, so that whoever wakes does not wait for it.
fn wake(mut state: MutexGuard<'_, Waiting>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(uri: &str) -> Change {
        Change::Resource {
            uri: uri.to_owned(),
        }
    }

    fn all(inbox: &Inbox) -> Vec<Change> {
        let mut state = inbox.lock();
        std::iter::from_fn(|| state.take()).collect()
    }

    #[test]
    fn changes_that_wait_are_kept_once() {
        let inbox = Inbox::default();
        for _ in 0..100 {
            inbox.put(Change::ToolsList);
            inbox.put(resource("a:1"));
            inbox.put(Change::ResourcesList);
            inbox.put(resource("a:2"));
        }
        let once = [
            Change::ToolsList,
            Change::ResourcesList,
            resource("a:1"),
            resource("a:2"),
        ];
        assert_eq!(all(&inbox), once);
        // Once taken, it may come again.
        inbox.put(resource("a:1"));
        assert_eq!(all(&inbox), [resource("a:1")]);
    }

    #[test]
    fn a_flood_of_resources_is_bounded() {
        let inbox = Inbox::default();
        for n in 0..100_000 {
            inbox.put(resource(&format!("a:{n}")));
        }
        inbox.put(resource(&"x".repeat(9_000)));
        let taken = all(&inbox);
        assert_eq!(taken.len(), 1_025);
        assert!(taken.contains(&Change::Missed));
        inbox.end(Ended::Graceful);
        inbox.put(Change::ToolsList);
        assert_eq!(all(&inbox), []);
    }
}
