//! Subscriptions in a session: resources one by one, and word of lists that the server's capabilities announce (*2025-11-25, Resources,
//! Subscriptions; List Changed Notification of Tools, Prompts and Resources*).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mrtr_protocol::discover::ListChanged;
use mrtr_protocol::{ServerCapabilities, SubscriptionFilter, method};

use super::session::Session;
use crate::client::{Client, Link};
use crate::error::RequestError;
use crate::listen::{Change, End, Ended, Inbox, Subscription};
use crate::outgoing::Outgoing;

/// Who listens in a session, and to what.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    all: HashMap<u64, (SubscriptionFilter, Arc<Inbox>)>,
    /// How many listen to each resource.
    resources: HashMap<String, usize>,
}

impl Listeners {
    fn add(&self, filter: SubscriptionFilter, inbox: &Arc<Inbox>) -> u64 {
        let mut state = self.lock();
        state.next += 1;
        let nth = state.next;
        for uri in &filter.resource_subscriptions {
            *state.resources.entry(uri.clone()).or_default() += 1;
        }
        state.all.insert(nth, (filter, Arc::clone(inbox)));
        nth
    }

    /// The resources that nobody listens to any more.
    fn remove(&self, nth: u64) -> Vec<String> {
        let mut state = self.lock();
        let Some((filter, _)) = state.all.remove(&nth) else {
            return Vec::new();
        };
        let mut unheard = Vec::new();
        for uri in filter.resource_subscriptions {
            if let Some(count) = state.resources.get_mut(&uri) {
                *count -= 1;
                if *count == 0 {
                    state.resources.remove(&uri);
                    unheard.push(uri);
                }
            }
        }
        unheard
    }

    pub(super) fn changed(&self, change: &Change) {
        for (filter, inbox) in self.lock().all.values() {
            if change.is_in(filter) {
                inbox.put(change.clone());
            }
        }
    }

    /// Nothing comes any more.
    pub(super) fn end(&self, why: RequestError) {
        let all = std::mem::take(&mut self.lock().all);
        let why = Arc::new(why);
        for (_, inbox) in all.into_values() {
            inbox.end(Ended::Broken(Arc::clone(&why)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of a filter a server can honour, by what it says of itself.
fn announced(capabilities: &ServerCapabilities, wanted: SubscriptionFilter) -> SubscriptionFilter {
    let list = |capability: Option<ListChanged>| {
        capability.and_then(|capability| capability.list_changed) == Some(true)
    };
    let resources = capabilities.resources.unwrap_or_default();
    SubscriptionFilter {
        tools_list_changed: wanted.tools_list_changed && list(capabilities.tools),
        prompts_list_changed: wanted.prompts_list_changed && list(capabilities.prompts),
        resources_list_changed: wanted.resources_list_changed
            && resources.list_changed == Some(true),
        resource_subscriptions: match resources.subscribe {
            Some(true) => wanted.resource_subscriptions,
            _ => Vec::new(),
        },
    }
}

impl Client {
    pub(crate) async fn listen_in_session(
        &self,
        session: Arc<Session>,
        wanted: SubscriptionFilter,
    ) -> Result<Subscription, RequestError> {
        let mut honoured = announced(&session.server().capabilities, wanted);
        let inbox: Arc<Inbox> = Arc::default();
        // Before the server is told, so that no word is missed.
        let nth = session.listeners().add(honoured.clone(), &inbox);
        let end = self.end_of(&session, nth);
        if session.is_over() {
            return Err(RequestError::SessionLost);
        }
        session.hear_the_unasked().await;
        let mut heard = Vec::new();
        for uri in honoured.resource_subscriptions {
            let subscribed = self.tell_of(&session, method::RESOURCES_SUBSCRIBE, &uri);
            match subscribed.await {
                Ok(()) => heard.push(uri),
                // This one cannot be subscribed to; what is honoured says so.
                Err(RequestError::Rpc(error)) => {
                    tracing::debug!(
                        code = error.error.code,
                        "a resource cannot be subscribed to"
                    );
                }
                Err(error) => return Err(error),
            }
        }
        honoured.resource_subscriptions = heard;
        Ok(Subscription::new(inbox, honoured, end, self.clone()))
    }

    /// Takes the listener off, and the subscriptions that were for it alone.
    fn end_of(&self, session: &Arc<Session>, nth: u64) -> End {
        let (client, session) = (self.clone(), Arc::clone(session));
        End::by(move || {
            let unheard = session.listeners().remove(nth);
            let Ok(runtime) = tokio::runtime::Handle::try_current() else {
                return;
            };
            if unheard.is_empty() || session.is_over() {
                return;
            }
            runtime.spawn(async move {
                for uri in unheard {
                    let told = client.tell_of(&session, method::RESOURCES_UNSUBSCRIBE, &uri);
                    if let Err(error) = told.await {
                        tracing::debug!(%error, "a resource is subscribed to still");
                    }
                }
            });
        })
    }

    /// Sends one of the two requests in this session and no other.
    async fn tell_of(
        &self,
        session: &Session,
        method: &'static str,
        uri: &str,
    ) -> Result<(), RequestError> {
        let outgoing = Outgoing::new(method).with("uri", uri)?;
        match &self.inner.link {
            Link::Http(_) => self.call_in(session, &outgoing, None).await.map(drop),
            Link::Pipe(link) => self.in_this_session(link, session, &outgoing).await,
        }
    }
}
