//! Who wants to hear of which change.
//!
//! A subscriber holds no messages, only marks: which lists have changed since it looked, and which of its resources. So a
//! reader that is slow, or never reads, costs what its subscription costs and no more, and a change that happens ten times
//! meanwhile is told once. Nothing is lost by that: each of these notifications says "look again" and nothing else.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use mrtr_ledger::Account;
use mrtr_state::Principal;

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    /// The list of tools, of prompts, or of resources and templates.
    List(List),
    /// What the resource of this URI holds.
    Resource(Arc<str>),
}

/// A list that can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum List {
    Tools,
    Prompts,
    Resources,
}

impl List {
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];
}

/// Something for each list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PerList<T> {
    tools: T,
    prompts: T,
    resources: T,
}

impl<T> PerList<T> {
    pub(crate) fn of(&self, list: List) -> &T {
        match list {
            List::Tools => &self.tools,
            List::Prompts => &self.prompts,
            List::Resources => &self.resources,
        }
    }

    pub(crate) fn of_mut(&mut self, list: List) -> &mut T {
        match list {
            List::Tools => &mut self.tools,
            List::Prompts => &mut self.prompts,
            List::Resources => &mut self.resources,
        }
    }
}

/// Who subscribes.
#[derive(Debug, Clone)]
pub(crate) struct Subscriber {
    pub(crate) principal: Principal,
    pub(crate) account: Account,
}

/// How many subscriptions there may be. One that belongs to a session is bounded with its session instead.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    pub(crate) all: usize,
    pub(crate) of_account: usize,
}

/// There are as many subscriptions as there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Full {
    #[error("as many subscriptions are open on this server as may be")]
    All,
    #[error("as many subscriptions of this caller are open as may be")]
    OfAccount,
}

/// Where changes are announced and subscriptions are kept. Clones are the same hub.
#[derive(Clone, Default)]
pub(crate) struct Hub(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    last: u64,
    /// Those that are counted: what a shutdown ends.
    open: HashMap<u64, Arc<Inbox>>,
    lists: PerList<HashMap<u64, Arc<Inbox>>>,
    resources: HashMap<Arc<str>, HashMap<u64, Arc<Inbox>>>,
    by_account: HashMap<Account, usize>,
    /// How many shutdowns are under way: what is opened meanwhile ends at once.
    closing: usize,
}

/// The marks of one subscription.
struct Inbox {
    principal: Principal,
    marks: Mutex<Marks>,
}

#[derive(Default)]
struct Marks {
    lists: PerList<bool>,
    /// The resources, and whether each is among `changed`.
    watched: HashMap<Arc<str>, bool>,
    changed: VecDeque<Arc<str>>,
    ended: bool,
    reader: Option<Waker>,
}

impl Inbox {
    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a change; returns whom to wake.
    fn mark(&self, change: &Change) -> Option<Waker> {
        let mut marks = self.marks();
        match change {
            Change::List(list) => *marks.lists.of_mut(*list) = true,
            Change::Resource(uri) => {
                let marked = marks.watched.get_mut(uri)?;
                if !std::mem::replace(marked, true) {
                    marks.changed.push_back(Arc::clone(uri));
                }
            }
        }
        marks.reader.take()
    }

    fn end(&self) -> Option<Waker> {
        let mut marks = self.marks();
        marks.ended = true;
        marks.reader.take()
    }
}

impl Marks {
    fn take(&mut self) -> Option<Change> {
        for list in List::ALL {
            if std::mem::take(self.lists.of_mut(list)) {
                return Some(Change::List(list));
            }
        }
        let uri = self.changed.pop_front()?;
        if let Some(marked) = self.watched.get_mut(&uri) {
            *marked = false;
        }
        Some(Change::Resource(uri))
    }
}

impl Hub {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a subscription to these lists; resources are [watched](Subscription::watch) one by one. Without `places` it is
    /// not counted, and ends with its session alone.
    ///
    /// While a shutdown is under way one that is counted ends at once.
    pub(crate) fn subscribe(
        &self,
        subscriber: Subscriber,
        lists: PerList<bool>,
        places: Option<Places>,
    ) -> Result<Subscription, Full> {
        let Subscriber { principal, account } = subscriber;
        let mut table = self.table();
        let counted = places.map(|_| account);
        if let Some(places) = places {
            if table.open.len() >= places.all {
                return Err(Full::All);
            }
            let own = table.by_account.entry(account).or_default();
            if *own >= places.of_account {
                return Err(Full::OfAccount);
            }
            *own += 1;
        }
        table.last += 1;
        let id = table.last;
        let inbox = Arc::new(Inbox {
            principal,
            marks: Mutex::new(Marks {
                ended: counted.is_some() && table.closing > 0,
                ..Marks::default()
            }),
        });
        if counted.is_some() {
            table.open.insert(id, Arc::clone(&inbox));
        }
        for list in List::ALL {
            if *lists.of(list) {
                table.lists.of_mut(list).insert(id, Arc::clone(&inbox));
            }
        }
        drop(table);
        Ok(Subscription {
            hub: self.clone(),
            id,
            inbox,
            counted,
        })
    }

    /// Tells everybody who asked for it, or of them only `principal`.
    pub(crate) fn announce(&self, change: &Change, only: Option<&Principal>) {
        let table = self.table();
        let concerned = match change {
            Change::List(list) => Some(table.lists.of(*list)),
            Change::Resource(uri) => table.resources.get(uri),
        };
        let readers: Vec<Waker> = concerned
            .into_iter()
            .flat_map(HashMap::values)
            .filter(|inbox| only.is_none_or(|only| inbox.principal == *only))
            .filter_map(|inbox| inbox.mark(change))
            .collect();
        drop(table);
        readers.into_iter().for_each(Waker::wake);
    }

    /// Ends every subscription that is open, those of sessions left out.
    pub(crate) fn end_all(&self) {
        let readers: Vec<Waker> = self
            .table()
            .open
            .values()
            .filter_map(|inbox| inbox.end())
            .collect();
        readers.into_iter().for_each(Waker::wake);
    }

    /// Ends every subscription that is open, and those that are opened until the guard is dropped.
    pub(crate) fn closing(&self) -> Closing {
        self.table().closing += 1;
        self.end_all();
        Closing(self.clone())
    }

    /// How many subscriptions are open, those of sessions left out.
    pub(crate) fn count(&self) -> usize {
        self.table().open.len()
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("open", &self.count()).finish()
    }
}

/// A shutdown that is under way.
#[must_use = "it is over when this is dropped"]
pub(crate) struct Closing(Hub);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.table().closing -= 1;
    }
}

/// One open subscription. It is gone when this is dropped.
pub(crate) struct Subscription {
    hub: Hub,
    id: u64,
    inbox: Arc<Inbox>,
    counted: Option<Account>,
}

impl Subscription {
    /// Hears of this resource from now on, if there is room for one more. False: there is none.
    pub(crate) fn watch(&self, uri: &str, most: usize) -> bool {
        let mut table = self.hub.table();
        let mut marks = self.inbox.marks();
        if marks.watched.contains_key(uri) {
            return true;
        }
        if marks.watched.len() >= most {
            return false;
        }
        // One text for all who watch the same resource.
        let uri = match table.resources.get_key_value(uri) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(uri),
        };
        marks.watched.insert(Arc::clone(&uri), false);
        table
            .resources
            .entry(uri)
            .or_default()
            .insert(self.id, Arc::clone(&self.inbox));
        true
    }

    /// Hears no more of this resource, not even of a change that has not been told yet.
    pub(crate) fn unwatch(&self, uri: &str) {
        let mut table = self.hub.table();
        let mut marks = self.inbox.marks();
        if marks.watched.remove(uri) == Some(true) {
            marks.changed.retain(|changed| **changed != *uri);
        }
        table.forget(uri, self.id);
    }

    /// Ends it: what is marked is still told.
    pub(crate) fn end(&self) {
        if let Some(reader) = self.inbox.end() {
            reader.wake();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.inbox.marks().ended
    }

    /// The next change, or the end. Only the last context is woken.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<Change>> {
        let mut marks = self.inbox.marks();
        if let Some(change) = marks.take() {
            return Poll::Ready(Some(change));
        }
        if marks.ended {
            return Poll::Ready(None);
        }
        marks.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Table {
    fn forget(&mut self, uri: &str, id: u64) {
        if let Some(concerned) = self.resources.get_mut(uri) {
            concerned.remove(&id);
            if concerned.is_empty() {
                self.resources.remove(uri);
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut table = self.hub.table();
        table.open.remove(&self.id);
        for list in List::ALL {
            table.lists.of_mut(list).remove(&self.id);
        }
        let watched = std::mem::take(&mut self.inbox.marks().watched);
        for uri in watched.keys() {
            table.forget(uri, self.id);
        }
        if let Some(account) = self.counted
            && let Some(own) = table.by_account.get_mut(&account)
        {
            *own -= 1;
            if *own == 0 {
                table.by_account.remove(&account);
            }
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
