//! `subscriptions/listen`: one open subscription of the modern era, as the messages that go to its client.
//!
//! ```text
//! notifications/subscriptions/acknowledged    what of the filter is honoured
//! notifications/.. list_changed, updated      each with the subscription's id, for as long as it is open
//! notifications/cancelled                     when this server ends it
//! the response                                and nothing after it
//! ```
//!
//! Messages are made when they can be written, out of marks that the [hub](crate::hub) keeps; none wait here.
//!
//! Specification: `basic/patterns/subscriptions`, `basic/patterns/cancellation`.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use mrtr_protocol::jsonrpc::write_notification;
use mrtr_protocol::notification::{CancelledParams, ListChangedParams, ResourceUpdatedParams};
use mrtr_protocol::{
    AcknowledgedParams, ListenParams, ListenResult, Members, NotificationMeta, RequestId,
    ServerCapabilities, SubscriptionFilter, method,
};
use serde::Serialize;

use crate::access::Granted;
use crate::hub::{Change, List, PerList, Places, Subscriber, Subscription};
use crate::reply::Reply;
use crate::server::Inner;

/// Longest URI that can be subscribed to, in bytes. No template here serves one that anybody would call longer.
const LONGEST_URI: usize = 2_048;

/// An open subscription.
pub(crate) struct Listening {
    id: RequestId,
    subscription: Subscription,
    stage: Stage,
    result: ListenResult,
}

enum Stage {
    /// Nothing has been said yet.
    Opening(Box<SubscriptionFilter>),
    Open,
    Ended,
}

impl Listening {
    /// Opens the subscription that a request asks for. Everything that is kept of the request is its id.
    pub(crate) fn open(
        inner: &Inner,
        id: &RequestId,
        params: &Members<'_>,
        subscriber: Subscriber,
        granted: &Granted,
    ) -> Result<Self, Reply> {
        let asked = ListenParams::of(params)
            .map_err(|error| Reply::invalid_params(format!("Invalid params: {error}.")))?
            .notifications;
        let most = inner.limits.subscribed_resources;
        if asked.resource_subscriptions.len() > most {
            return Err(Reply::invalid_params(format!(
                "Invalid params: one subscription is for {most} resources at most on this server; open another one for the rest."
            )));
        }
        let mut honoured = honoured(inner, asked, granted);
        let mut lists = PerList::default();
        *lists.of_mut(List::Tools) = honoured.tools_list_changed;
        *lists.of_mut(List::Prompts) = honoured.prompts_list_changed;
        *lists.of_mut(List::Resources) = honoured.resources_list_changed;
        let places = Places {
            all: inner.limits.subscriptions,
            of_account: inner.limits.subscriptions_per_principal,
        };
        let subscription = inner
            .hub
            .subscribe(subscriber, lists, Some(places))
            .map_err(|full| {
                tracing::warn!(%full, "a subscription is refused");
                Reply::unavailable(&format!("No subscription was opened: {full}."))
            })?;
        honoured
            .resource_subscriptions
            .retain(|uri| subscription.watch(uri, most));
        let mut result = ListenResult::new(id);
        result.meta = result.meta.with_server_info(&inner.info);
        Ok(Self {
            id: id.clone(),
            subscription,
            stage: Stage::Opening(Box::new(honoured)),
            result,
        })
    }

    pub(crate) fn id(&self) -> &RequestId {
        &self.id
    }

    /// Ends it, as a shutdown does.
    pub(crate) fn end(&self) {
        self.subscription.end();
    }

    /// Whether it has been ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.subscription.has_ended()
    }

    /// The next notification. `None`: there are no more, and the [result](Self::result) is due.
    pub(crate) fn poll_notification(&mut self, cx: &Context<'_>) -> Poll<Option<Vec<u8>>> {
        match std::mem::replace(&mut self.stage, Stage::Open) {
            Stage::Opening(honoured) => {
                let params = AcknowledgedParams::new(&self.id, *honoured);
                Poll::Ready(Some(write(method::SUBSCRIPTIONS_ACKNOWLEDGED, &params)))
            }
            Stage::Open => {
                let change = ready!(self.subscription.poll_next(cx));
                Poll::Ready(Some(match change {
                    Some(change) => self.tell(&change),
                    None => {
                        self.stage = Stage::Ended;
                        self.cancelled()
                    }
                }))
            }
            Stage::Ended => {
                self.stage = Stage::Ended;
                Poll::Ready(None)
            }
        }
    }

    /// The same, to wait for. Dropped, it takes nothing with it.
    pub(crate) async fn notification(&mut self) -> Option<Vec<u8>> {
        poll_fn(|cx| self.poll_notification(cx)).await
    }

    /// What the request comes to when the server ends the subscription.
    pub(crate) fn result(&self) -> Reply {
        Reply::result(&self.result)
    }

    fn tell(&self, change: &Change) -> Vec<u8> {
        let list = |method| write(method, &ListChangedParams::on_subscription(&self.id));
        match change {
            Change::List(List::Tools) => list(method::TOOLS_LIST_CHANGED),
            Change::List(List::Prompts) => list(method::PROMPTS_LIST_CHANGED),
            Change::List(List::Resources) => list(method::RESOURCES_LIST_CHANGED),
            Change::Resource(uri) => {
                let mut params = ResourceUpdatedParams::new(&**uri);
                params.meta = self.meta();
                write(method::RESOURCES_UPDATED, &params)
            }
        }
    }

    /// The server ends this subscription, and says which.
    fn cancelled(&self) -> Vec<u8> {
        let mut params = CancelledParams::new(self.id.clone());
        params.reason = Some("The server ends the subscription.".to_owned());
        params.meta = self.meta();
        write(method::CANCELLED, &params)
    }

    fn meta(&self) -> NotificationMeta {
        NotificationMeta::default().with_subscription_id(&self.id)
    }
}

/// A change as a session of the earlier era is told it.
pub(crate) fn in_session(change: &Change) -> Vec<u8> {
    let list = |method| write(method, &ListChangedParams::default());
    match change {
        Change::List(List::Tools) => list(method::TOOLS_LIST_CHANGED),
        Change::List(List::Prompts) => list(method::PROMPTS_LIST_CHANGED),
        Change::List(List::Resources) => list(method::RESOURCES_LIST_CHANGED),
        Change::Resource(uri) => write(
            method::RESOURCES_UPDATED,
            &ResourceUpdatedParams::new(&**uri),
        ),
    }
}

/// The lists whose changes this server announces.
pub(crate) fn announced(capabilities: &ServerCapabilities) -> PerList<bool> {
    let mut announced = PerList::default();
    let of = |list: Option<bool>| list == Some(true);
    *announced.of_mut(List::Tools) = of(capabilities.tools.and_then(|tools| tools.list_changed));
    *announced.of_mut(List::Prompts) = of(capabilities
        .prompts
        .and_then(|prompts| prompts.list_changed));
    *announced.of_mut(List::Resources) = of(capabilities
        .resources
        .and_then(|resources| resources.list_changed));
    announced
}

/// Whether this resource can be subscribed to: this server announces changes of resources, and serves this one to this caller.
pub(crate) fn can_watch(inner: &Inner, uri: &str, granted: &Granted) -> bool {
    let subscribe = inner
        .capabilities
        .resources
        .and_then(|resources| resources.subscribe);
    subscribe == Some(true)
        && uri.len() <= LONGEST_URI
        && inner.catalogue.resource(uri, granted).is_some()
}

/// What of the filter this server can honour; each resource once, in the order in which it was given.
fn honoured(inner: &Inner, asked: SubscriptionFilter, granted: &Granted) -> SubscriptionFilter {
    let announced = announced(&inner.capabilities);
    let mut honoured = SubscriptionFilter {
        tools_list_changed: asked.tools_list_changed && *announced.of(List::Tools),
        prompts_list_changed: asked.prompts_list_changed && *announced.of(List::Prompts),
        resources_list_changed: asked.resources_list_changed && *announced.of(List::Resources),
        resource_subscriptions: Vec::new(),
    };
    for uri in asked.resource_subscriptions {
        if !honoured.resource_subscriptions.contains(&uri) && can_watch(inner, &uri, granted) {
            honoured.resource_subscriptions.push(uri);
        }
    }
    honoured
}

/// The types here serialize always.
fn write(method: &str, params: &impl Serialize) -> Vec<u8> {
    write_notification(method, params).unwrap_or_else(|error| {
        tracing::error!(%error, method, "a notification does not serialize");
        Vec::new()
    })
}
