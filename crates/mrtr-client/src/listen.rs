//! Subscriptions: word of changes as a stream (*Subscriptions*; in the earlier era *2025-11-25, Resources, Subscriptions* and the
//! `list_changed` notifications).

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::stream::Stream;
use mrtr_protocol::notification::ResourceUpdatedParams;
use mrtr_protocol::subscriptions::AcknowledgedParams;
use mrtr_protocol::{
    CancelledParams, Members, Notification, RequestId, ResultType, SubscriptionFilter, meta, method,
};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::client::{Client, Link};
use crate::era::Era;
use crate::error::{ProtocolError, RequestError};
use crate::host::Host;
use crate::notices::params;

/// Something that a server said has changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// The list of tools.
    ToolsList,
    /// The list of prompts.
    PromptsList,
    /// The list of resources, or of templates.
    ResourcesList,
    /// What a resource holds.
    Resource {
        /// The resource. It may lie below the one that was subscribed to.
        uri: String,
    },
    /// More resources changed than are kept for a listener that does not keep up: read again whatever matters.
    Missed,
}

impl Change {
    /// The change that a notification tells of.
    pub(crate) fn of(notification: &Notification<'_>) -> Option<Self> {
        Some(match notification.method.as_ref() {
            method::TOOLS_LIST_CHANGED => Self::ToolsList,
            method::PROMPTS_LIST_CHANGED => Self::PromptsList,
            method::RESOURCES_LIST_CHANGED => Self::ResourcesList,
            method::RESOURCES_UPDATED => Self::Resource {
                uri: params::<ResourceUpdatedParams>(notification)?.uri,
            },
            _ => return None,
        })
    }

    /// Whether a filter asks for it.
    pub(crate) fn is_in(&self, filter: &SubscriptionFilter) -> bool {
        match self {
            Self::ToolsList => filter.tools_list_changed,
            Self::PromptsList => filter.prompts_list_changed,
            Self::ResourcesList => filter.resources_list_changed,
            Self::Resource { uri } => filter
                .resource_subscriptions
                .iter()
                .any(|wanted| lies_below(uri, wanted)),
            Self::Missed => true,
        }
    }
}

/// Whether a resource is the one that was subscribed to, or one below it.
fn lies_below(uri: &str, wanted: &str) -> bool {
    uri.strip_prefix(wanted).is_some_and(|rest| {
        rest.is_empty() || wanted.ends_with('/') || rest.starts_with(['/', '?', '#'])
    })
}

/// How a subscription ended.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// The server ended it in good order. Only the modern era has that.
    #[error("the server ended the subscription")]
    Graceful,
    /// The connection or session is gone, or the server broke the rules. Changes may have been missed: subscribe again, and read again
    /// whatever matters.
    #[error("the subscription broke: {0}")]
    Broken(#[source] Arc<RequestError>),
}

/// Word of changes, until it is dropped or ends.
///
/// Guaranteed: only what was asked for comes, and only after the server has acknowledged it. Changes that wait are kept once each, up to 1024
/// resources; beyond that [`Change::Missed`] stands for them. What the client [keeps](crate::CacheLimits) of the changed things is stale
/// from the moment that the change is read, whether or not anybody asks here.
///
/// Dropping it ends the subscription: its stream is closed, or the server told.
///
/// It is a [`Stream`] too, which ends when the subscription does; [`Subscription::ended`] tells how.
///
/// ```no_run
/// # use mrtr_client::{Change, Client, Ended};
/// # use mrtr_client::protocol::SubscriptionFilter;
/// # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut filter = SubscriptionFilter::default();
/// filter.tools_list_changed = true;
/// let mut subscription = client.listen(filter).await?;
/// if !subscription.acknowledged().tools_list_changed {
///     println!("this server does not tell");
/// }
/// loop {
///     match subscription.next().await {
///         Ok(Change::ToolsList) => println!("{} tools now", client.list_tools().await?.len()),
///         Ok(_) => {}
///         Err(Ended::Graceful) => break,
///         // Wait a little, and listen anew.
///         Err(broken) => return Err(broken.into()),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Subscription {
    inbox: Arc<Inbox>,
    acknowledged: SubscriptionFilter,
    /// Ends it on the other side.
    _end: End,
    /// A subscription needs its connection.
    _client: Client,
}

/// Does on drop what ends a subscription.
pub(crate) struct End(Option<Box<dyn FnOnce() + Send + Sync>>);

impl End {
    pub(crate) fn by(end: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(end)))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("End")
    }
}

impl Subscription {
    pub(crate) fn new(
        inbox: Arc<Inbox>,
        acknowledged: SubscriptionFilter,
        end: End,
        client: Client,
    ) -> Self {
        Self {
            inbox,
            acknowledged,
            _end: end,
            _client: client,
        }
    }

    /// What of the filter the server honours. Compare it with what was asked for: what is missing never comes.
    #[must_use]
    pub fn acknowledged(&self) -> &SubscriptionFilter {
        &self.acknowledged
    }

    /// The next change. It may be given up and asked again; nothing is lost.
    ///
    /// # Errors
    ///
    /// [`Ended`], once everything that came before was given out, and from then on always.
    pub async fn next(&mut self) -> Result<Change, Ended> {
        std::future::poll_fn(|context| self.inbox.poll(context)).await
    }

    /// How it ended; `None`: it has not, or there are changes to be taken still.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        let state = self.inbox.lock();
        match state.is_empty() {
            true => state.ended.clone(),
            false => None,
        }
    }
}

impl Stream for Subscription {
    type Item = Change;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Change>> {
        self.inbox.poll(context).map(Result::ok)
    }
}

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

    fn poll(&self, context: &mut Context<'_>) -> Poll<Result<Change, Ended>> {
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

/// A subscription of the modern era, as its messages arrive.
#[derive(Debug)]
pub(crate) struct Listening {
    id: RequestId,
    wanted: SubscriptionFilter,
    host: Arc<Host>,
    inbox: Arc<Inbox>,
    phase: Mutex<Phase>,
}

#[derive(Debug)]
enum Phase {
    /// Until the server says what it honours.
    Opening(oneshot::Sender<Result<SubscriptionFilter, RequestError>>),
    Open(SubscriptionFilter),
    /// The server has said that it ends.
    Ending,
    Over,
}

/// Where the word of the acknowledgement arrives.
pub(crate) type Acknowledgement = oneshot::Receiver<Result<SubscriptionFilter, RequestError>>;

impl Listening {
    pub(crate) fn new(
        host: &Arc<Host>,
        id: RequestId,
        wanted: SubscriptionFilter,
    ) -> (Arc<Self>, Acknowledgement) {
        let (sender, receiver) = oneshot::channel();
        let listening = Self {
            id,
            wanted,
            host: Arc::clone(host),
            inbox: Arc::default(),
            phase: Mutex::new(Phase::Opening(sender)),
        };
        (Arc::new(listening), receiver)
    }

    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Takes a notification that came on this subscription's stream, or names it.
    pub(crate) fn take(&self, notification: &Notification<'_>) {
        if notification.method == method::CANCELLED {
            let cancelled = params::<CancelledParams>(notification);
            if cancelled.is_some_and(|params| params.request_id == self.id) {
                let mut phase = self.phase();
                if matches!(*phase, Phase::Open(_)) {
                    *phase = Phase::Ending;
                }
            }
            return;
        }
        if subscription_of(notification).as_ref() != Some(&self.id) {
            tracing::debug!(method = %notification.method, "a notification of no subscription is ignored");
            return;
        }
        if notification.method == method::SUBSCRIPTIONS_ACKNOWLEDGED {
            self.acknowledged(notification);
            return;
        }
        let Some(change) = Change::of(notification) else {
            tracing::debug!(method = %notification.method, "a notification that no subscription has is ignored");
            return;
        };
        let phase = self.phase();
        match &*phase {
            Phase::Open(filter) if change.is_in(filter) => {
                if let Some(cache) = &self.host.cache {
                    cache.changed(&change);
                }
                self.inbox.put(change);
            }
            Phase::Open(_) => {
                tracing::warn!(method = %notification.method, "the server tells what was not asked for; it is ignored");
            }
            Phase::Opening(_) => {
                drop(phase);
                self.broke(ProtocolError::NotAcknowledged.into());
            }
            Phase::Ending | Phase::Over => {}
        }
    }

    fn acknowledged(&self, notification: &Notification<'_>) {
        let mut phase = self.phase();
        if !matches!(*phase, Phase::Opening(_)) {
            tracing::debug!("a subscription is acknowledged once; the rest is ignored");
            return;
        }
        let Some(params) = params::<AcknowledgedParams>(notification) else {
            drop(phase);
            self.broke(ProtocolError::NotAcknowledged.into());
            return;
        };
        let honoured = common(&self.wanted, params.notifications);
        if let Phase::Opening(sender) =
            std::mem::replace(&mut *phase, Phase::Open(honoured.clone()))
        {
            // Whoever waited may have gone.
            drop(sender.send(Ok(honoured)));
        }
    }

    /// The response to the request that opened it.
    pub(crate) fn answered(&self, answer: Result<Box<RawValue>, RequestError>) {
        let result = match answer {
            Ok(result) => result,
            Err(error) => return self.broke(error),
        };
        match ResultType::of(&result) {
            Ok(ResultType::Complete) => {}
            Ok(ResultType::InputRequired) => {
                return self.broke(ProtocolError::RoundNotAllowed.into());
            }
            Err(error) => return self.broke(ProtocolError::from(error).into()),
        }
        let mut phase = self.phase();
        match std::mem::replace(&mut *phase, Phase::Over) {
            Phase::Opening(sender) => {
                drop(sender.send(Err(ProtocolError::NotAcknowledged.into())));
            }
            _ => self.inbox.end(Ended::Graceful),
        }
    }

    /// Nothing comes any more.
    pub(crate) fn broke(&self, error: RequestError) {
        let mut phase = self.phase();
        match std::mem::replace(&mut *phase, Phase::Over) {
            Phase::Opening(sender) => drop(sender.send(Err(error))),
            // It had said so.
            Phase::Ending => self.inbox.end(Ended::Graceful),
            Phase::Open(_) => self.inbox.end(Ended::Broken(Arc::new(error))),
            Phase::Over => {}
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.phase(), Phase::Over)
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The subscription that a notification names.
pub(crate) fn subscription_of(notification: &Notification<'_>) -> Option<RequestId> {
    let params = Members::parse(notification.params?).ok()?;
    let meta = Members::parse(params.get("_meta")?).ok()?;
    RequestId::from_raw(meta.get(meta::SUBSCRIPTION_ID)?)
}

/// What was asked for and is honoured. A server that says more than that is not believed.
fn common(wanted: &SubscriptionFilter, honoured: SubscriptionFilter) -> SubscriptionFilter {
    let mut uris = honoured.resource_subscriptions;
    uris.retain(|uri| wanted.resource_subscriptions.contains(uri));
    SubscriptionFilter {
        tools_list_changed: wanted.tools_list_changed && honoured.tools_list_changed,
        prompts_list_changed: wanted.prompts_list_changed && honoured.prompts_list_changed,
        resources_list_changed: wanted.resources_list_changed && honoured.resources_list_changed,
        resource_subscriptions: uris,
    }
}

impl Client {
    /// Subscribes to word of changes. This returns when the server has acknowledged what it honours, within
    /// [`request_timeout`](crate::ClientBuilder::request_timeout); the subscription itself has no time limit.
    ///
    /// In the modern era it is `subscriptions/listen`. In a session of the earlier era the resources are subscribed to one by one, and
    /// honoured is what the server's capabilities announce; over HTTP the word comes on a stream of its own, which a server may not have:
    /// the subscription is then broken soon.
    ///
    /// # Errors
    ///
    /// [`RequestError`]; [`ProtocolError::NotAcknowledged`] when the server says anything else first.
    pub async fn listen(&self, filter: SubscriptionFilter) -> Result<Subscription, RequestError> {
        let era = match self.era() {
            Some(era) => era,
            None => self.server().await?.era,
        };
        match (&self.inner.link, era) {
            (Link::Http(link), Era::Modern) => self.listen_over_http(link, filter).await,
            (Link::Pipe(link), Era::Modern) => self.listen_over_stdio(link, filter).await,
            (_, Era::Earlier(_)) => {
                let session = self.any_session().await?;
                self.listen_in_session(session, filter).await
            }
        }
    }
}

/// `subscriptions/listen`.
pub(crate) fn listen_request(
    filter: &SubscriptionFilter,
) -> Result<crate::outgoing::Outgoing<'static>, RequestError> {
    crate::outgoing::Outgoing::new(method::SUBSCRIPTIONS_LISTEN).with("notifications", filter)
}

#[cfg(test)]
mod tests {
    use mrtr_protocol::Incoming;
    use serde_json::json;

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

    #[test]
    fn a_change_is_for_whoever_asked_for_it() {
        let filter = SubscriptionFilter {
            prompts_list_changed: true,
            resource_subscriptions: vec!["file:///p".to_owned(), "note://".to_owned()],
            ..SubscriptionFilter::default()
        };
        for (change, wanted) in [
            (Change::PromptsList, true),
            (Change::ToolsList, false),
            (Change::ResourcesList, false),
            (resource("file:///p"), true),
            (resource("file:///p/x"), true),
            (resource("file:///p#x"), true),
            (resource("file:///p2"), false),
            (resource("file:///"), false),
            (resource("note://7"), true),
        ] {
            assert_eq!(change.is_in(&filter), wanted, "{change:?}");
        }
    }

    #[test]
    fn the_subscription_of_a_notification_is_told_by_type_and_value() {
        for (id, expected) in [
            (json!(7), Some(RequestId::from(7))),
            (json!("7"), Some(RequestId::from("7"))),
            (json!(null), None),
            (json!({}), None),
        ] {
            let text = json!({"jsonrpc": "2.0", "method": "x", "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": id}}});
            let text = text.to_string();
            let Ok(Incoming::Notification(notification)) = Incoming::parse(text.as_bytes()) else {
                panic!("{text}")
            };
            assert_eq!(subscription_of(&notification), expected, "{text}");
        }
    }
}
