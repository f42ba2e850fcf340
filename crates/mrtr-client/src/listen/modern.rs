//! A subscription of the modern era, whatever its messages come over: acknowledged first, ended in the end (*Subscriptions*).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mrtr_protocol::subscriptions::AcknowledgedParams;
use mrtr_protocol::{
    CancelledParams, Members, Notification, RequestId, ResultType, SubscriptionFilter, meta, method,
};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::{Change, Ended, Inbox};
use crate::error::{ProtocolError, RequestError};
use crate::host::Host;
use crate::notices::params;
use crate::outgoing::Outgoing;

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

/// `subscriptions/listen`.
pub(crate) fn listen_request(
    filter: &SubscriptionFilter,
) -> Result<Outgoing<'static>, RequestError> {
    Outgoing::new(method::SUBSCRIPTIONS_LISTEN).with("notifications", filter)
}

#[cfg(test)]
mod tests {
    use mrtr_protocol::Incoming;
    use serde_json::json;

    use super::*;

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
