//! Subscriptions: word of changes as a stream (*Subscriptions*; in the earlier era *2025-11-25, Resources, Subscriptions* and the
//! `list_changed` notifications).

mod inbox;
mod modern;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::Stream;
use mrtr_protocol::notification::ResourceUpdatedParams;
use mrtr_protocol::{Notification, SubscriptionFilter, method};

use crate::client::{Client, Link};
use crate::era::Era;
use crate::error::RequestError;
use crate::notices::params;

pub(crate) use self::inbox::Inbox;
pub(crate) use self::modern::{Listening, listen_request, subscription_of};

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
        self.inbox.ended()
    }
}

impl Stream for Subscription {
    type Item = Change;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Change>> {
        self.inbox.poll(context).map(Result::ok)
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
    /// [`RequestError`]; [`NotAcknowledged`](crate::ProtocolError::NotAcknowledged) when the server says anything else first.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(uri: &str) -> Change {
        Change::Resource {
            uri: uri.to_owned(),
        }
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
}
