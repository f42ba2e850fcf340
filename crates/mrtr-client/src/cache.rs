//! Results that a server said may be used again for a while (*Caching*).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mrtr_protocol::{Members, ResultType, code, method};
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::error::RequestError;
use crate::exchange::Answered;
use crate::listen::Change;
use crate::outgoing::Outgoing;

/// How much a client keeps of results that a server said may be used again.
///
/// Kept are results of `server/discover`, of the lists and of `resources/read`, each page by itself, for as long as their `ttlMs` says and a
/// day at most. Never kept are rounds, and results of requests that answered one. A client has one authorization, and its cache is its own,
/// so `cacheScope` is honoured without a look at it. The earlier era has no such results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheLimits {
    /// How many results. Beyond, the one that would be stale first goes.
    pub entries: usize,
    /// How many bytes of JSON in all. A result larger than a quarter of it is not kept.
    pub bytes: usize,
}

/// 256 results and 4 MiB: the lists of a large server, and what a host reads in a while.
impl Default for CacheLimits {
    fn default() -> Self {
        Self {
            entries: 256,
            bytes: 4 * 1024 * 1024,
        }
    }
}

/// The results of one client.
#[derive(Debug)]
pub(crate) struct Cache {
    limits: CacheLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<Key, Entry>,
    bytes: usize,
    /// Grows with every change, so that what was asked for before it is not kept after it.
    changes: u64,
}

/// Method and the one param that the result depends on: the cursor, or the URI.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    method: &'static str,
    param: Option<Box<str>>,
}

#[derive(Debug)]
struct Entry {
    result: Box<RawValue>,
    until: Instant,
}

/// When a result was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AskedAt(u64);

impl Cache {
    /// Longer than this nothing is kept, whatever the server says.
    const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

    pub(crate) fn new(limits: CacheLimits) -> Self {
        Self {
            limits,
            state: Mutex::default(),
        }
    }

    /// Under what a result of this request may be kept; `None`: under nothing.
    pub(crate) fn key(outgoing: &Outgoing<'_>) -> Option<Key> {
        let param = match outgoing.method {
            method::DISCOVER => None,
            method::TOOLS_LIST
            | method::PROMPTS_LIST
            | method::RESOURCES_LIST
            | method::RESOURCES_TEMPLATES_LIST => outgoing.member("cursor"),
            method::RESOURCES_READ if !outgoing.is_retry() => outgoing.member("uri"),
            _ => return None,
        };
        Some(Key {
            method: outgoing.method,
            param: param.map(Into::into),
        })
    }

    /// The result that is fresh still.
    pub(crate) fn get(&self, key: &Key) -> Option<Box<RawValue>> {
        let state = self.lock();
        let entry = state.entries.get(key)?;
        (Instant::now() < entry.until).then(|| entry.result.clone())
    }

    pub(crate) fn asked_at(&self) -> AskedAt {
        AskedAt(self.lock().changes)
    }

    /// Keeps a result, if it may be kept and nothing has changed since it was asked for.
    pub(crate) fn put(&self, key: Key, asked: AskedAt, answered: &Answered) {
        let ttl = match (answered.is_modern, answered.kind()) {
            (true, Ok(ResultType::Complete)) => time_to_live(&answered.result),
            _ => Duration::ZERO,
        };
        let size = answered.result.get().len() + key.param.as_ref().map_or(0, |param| param.len());
        let mut state = self.lock();
        state.remove(&key);
        let changed = state.changes != asked.0;
        if ttl.is_zero() || changed || self.limits.entries == 0 || size > self.limits.bytes / 4 {
            return;
        }
        while state.entries.len() >= self.limits.entries || state.bytes + size > self.limits.bytes {
            let first = state.entries.iter().min_by_key(|(_, entry)| entry.until);
            let Some(first) = first.map(|(key, _)| key.clone()) else {
                return;
            };
            state.remove(&first);
        }
        state.bytes += size;
        let entry = Entry {
            result: answered.result.clone(),
            until: Instant::now() + ttl.min(Self::LONGEST),
        };
        state.entries.insert(key, entry);
    }

    /// The server says that something changed: what was kept of it is stale.
    pub(crate) fn changed(&self, change: &Change) {
        match change {
            Change::ToolsList => self.forget(|key| key.method == method::TOOLS_LIST),
            Change::PromptsList => self.forget(|key| key.method == method::PROMPTS_LIST),
            Change::ResourcesList => self.forget(|key| {
                matches!(
                    key.method,
                    method::RESOURCES_LIST | method::RESOURCES_TEMPLATES_LIST
                )
            }),
            Change::Resource { uri } => self.forget(|key| {
                key.method == method::RESOURCES_READ && key.param.as_deref() == Some(uri)
            }),
            Change::Missed => self.forget(|_| true),
        }
    }

    /// Forgets all pages of a list.
    pub(crate) fn forget_list(&self, method: &'static str) {
        self.forget(|key| key.method == method);
    }

    /// A server that does not know what it is asked for, or its params, may have other lists by now.
    pub(crate) fn doubt(&self, outgoing: &Outgoing<'_>, error: &RequestError) {
        let RequestError::Rpc(error) = error else {
            return;
        };
        if matches!(
            error.error.code,
            code::INVALID_PARAMS | code::METHOD_NOT_FOUND
        ) {
            match outgoing.method {
                method::TOOLS_CALL => self.forget_list(method::TOOLS_LIST),
                method::PROMPTS_GET => self.forget_list(method::PROMPTS_LIST),
                _ => {}
            }
        }
    }

    fn forget(&self, which: impl Fn(&Key) -> bool) {
        let mut state = self.lock();
        state.changes = state.changes.wrapping_add(1);
        let keys: Vec<Key> = state
            .entries
            .keys()
            .filter(|key| which(key))
            .cloned()
            .collect();
        for key in keys {
            state.remove(&key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            let param = key.param.as_ref().map_or(0, |param| param.len());
            self.bytes = self.bytes.saturating_sub(entry.result.get().len() + param);
        }
    }
}

/// What `ttlMs` says: nothing when it is absent, negative or no integer.
fn time_to_live(result: &RawValue) -> Duration {
    let ttl = Members::parse(result)
        .ok()
        .and_then(|members| members.get("ttlMs")?.get().parse().ok());
    Duration::from_millis(ttl.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json, value::to_raw_value};

    use super::*;

    fn answered(result: Value) -> Answered {
        Answered::modern(to_raw_value(&result).unwrap())
    }

    fn list(method: &'static str, cursor: Option<&str>) -> Key {
        let outgoing = Outgoing::new(method);
        let outgoing = match cursor {
            Some(cursor) => outgoing.with("cursor", cursor).unwrap(),
            None => outgoing,
        };
        Cache::key(&outgoing).unwrap()
    }

    fn fresh(cache: &Cache, key: &Key, ttl: Value) -> bool {
        let asked = cache.asked_at();
        cache.put(
            key.clone(),
            asked,
            &answered(json!({"resultType": "complete", "ttlMs": ttl})),
        );
        cache.get(key).is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn results_are_fresh_for_as_long_as_the_server_says() {
        let cache = Cache::new(CacheLimits::default());
        let key = list(method::TOOLS_LIST, None);
        assert!(fresh(&cache, &key, json!(1_000)));
        tokio::time::advance(Duration::from_millis(999)).await;
        assert!(cache.get(&key).is_some());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(cache.get(&key).is_none());
        for none in [json!(0), json!(-5), json!(1.5), json!("60000"), json!(null)] {
            assert!(!fresh(&cache, &key, none.clone()), "{none}");
        }
        assert!(fresh(&cache, &key, json!(u64::MAX)));
        tokio::time::advance(Cache::LONGEST).await;
        assert!(cache.get(&key).is_none());
        assert_eq!(
            cache.lock().bytes,
            answered(json!({"resultType": "complete", "ttlMs": u64::MAX}))
                .result
                .get()
                .len()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn rounds_and_what_the_earlier_era_says_are_not_kept() {
        let cache = Cache::new(CacheLimits::default());
        let read = Outgoing::new(method::RESOURCES_READ)
            .with("uri", "note://1")
            .unwrap();
        let key = Cache::key(&read).unwrap();
        assert!(fresh(&cache, &key, json!(60_000)));
        let round = json!({"resultType": "input_required", "ttlMs": 60_000, "requestState": "S"});
        cache.put(key.clone(), cache.asked_at(), &answered(round));
        assert!(cache.get(&key).is_none(), "nor is what was kept before");
        let complete = json!({"ttlMs": 60_000});
        let earlier = Answered::earlier(to_raw_value(&complete).unwrap());
        cache.put(key.clone(), cache.asked_at(), &earlier);
        assert!(cache.get(&key).is_none());
        let retry = read.with_round("requestState", Some("S")).unwrap();
        assert_eq!(Cache::key(&retry), None);
        assert_eq!(Cache::key(&Outgoing::new(method::TOOLS_CALL)), None);
        let other = Outgoing::new(method::RESOURCES_READ)
            .with("uri", "note://2")
            .unwrap();
        assert_ne!(Cache::key(&other).unwrap(), key);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_makes_stale_what_it_is_about_and_what_is_on_its_way() {
        let cache = Cache::new(CacheLimits::default());
        let (tools, page) = (
            list(method::TOOLS_LIST, None),
            list(method::TOOLS_LIST, Some("2")),
        );
        let prompts = list(method::PROMPTS_LIST, None);
        for key in [&tools, &page, &prompts] {
            assert!(fresh(&cache, key, json!(60_000)));
        }
        let asked = cache.asked_at();
        cache.changed(&Change::ToolsList);
        assert!(cache.get(&tools).is_none() && cache.get(&page).is_none());
        assert!(cache.get(&prompts).is_some());
        let late = answered(json!({"resultType": "complete", "ttlMs": 60_000}));
        cache.put(tools.clone(), asked, &late);
        assert!(cache.get(&tools).is_none());
        cache.changed(&Change::Missed);
        assert!(cache.get(&prompts).is_none());
        assert_eq!(cache.lock().bytes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_bounded_in_number_and_bytes() {
        let limits = CacheLimits {
            entries: 10,
            bytes: 4_000,
        };
        let cache = Cache::new(limits);
        let put = |n: u64, size: usize| {
            let key = list(method::TOOLS_LIST, Some(&n.to_string()));
            let result =
                json!({"resultType": "complete", "ttlMs": 60_000 + n, "x": "y".repeat(size)});
            cache.put(key, cache.asked_at(), &answered(result));
        };
        for n in 0..1_000 {
            put(n, 10);
            let state = cache.lock();
            assert!(state.entries.len() <= 10 && state.bytes <= 4_000);
        }
        for n in 1_000..1_100 {
            put(n, 800);
            assert!(cache.lock().bytes <= 4_000);
        }
        put(5_000, 1_000);
        assert!(
            cache.get(&list(method::TOOLS_LIST, Some("5000"))).is_none(),
            "too large"
        );
        assert!(cache.get(&list(method::TOOLS_LIST, Some("1099"))).is_some());
        let none = Cache::new(CacheLimits {
            entries: 0,
            bytes: 1_000_000,
        });
        assert!(!fresh(
            &none,
            &list(method::TOOLS_LIST, None),
            json!(60_000)
        ));
    }
}
