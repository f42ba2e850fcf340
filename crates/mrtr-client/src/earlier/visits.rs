//! Pages that must be visited before a call is sent again, and word that they were (*2025-11-25, Elicitation, URL mode*).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The ids of the pages that somebody is sent to. Word of others is ignored.
#[derive(Debug, Default)]
pub(crate) struct Visits {
    open: Mutex<HashMap<String, Open>>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Open {
    /// How many calls wait for it.
    waiting: usize,
    done: bool,
}

impl Visits {
    /// Waits for word of these, until the guard is dropped.
    pub(crate) fn expect<'a>(self: &Arc<Self>, ids: impl Iterator<Item = &'a str>) -> Visit {
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        let mut open = self.lock();
        for id in &ids {
            open.entry(id.clone()).or_default().waiting += 1;
        }
        drop(open);
        Visit {
            visits: Arc::clone(self),
            ids,
        }
    }

    /// The server says that a page is done with.
    pub(crate) fn done(&self, id: &str) {
        if let Some(page) = self.lock().get_mut(id) {
            page.done = true;
            self.changed.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pages of one call.
#[derive(Debug)]
pub(crate) struct Visit {
    visits: Arc<Visits>,
    ids: Vec<String>,
}

impl Visit {
    /// Ends when the server has said of all of them that they are done with, which it need not ever do.
    pub(crate) async fn all_done(&self) {
        loop {
            let changed = self.visits.changed.notified();
            let all = {
                let open = self.visits.lock();
                self.ids
                    .iter()
                    .all(|id| open.get(id).is_some_and(|page| page.done))
            };
            if all {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut open = self.visits.lock();
        for id in &self.ids {
            if let Some(page) = open.get_mut(id) {
                page.waiting -= 1;
                if page.waiting == 0 {
                    open.remove(id);
                }
            }
        }
    }
}
