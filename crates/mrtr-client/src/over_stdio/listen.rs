//! A subscription of the modern era over stdio: its messages share the channel and name it (*Subscriptions; stdio, Receiving Messages*).

use std::sync::Arc;

use mrtr_protocol::{RequestId, SubscriptionFilter};

use super::pipe::{Shared, broken};
use super::{PipeLink, Spoken};
use crate::client::Client;
use crate::error::RequestError;
use crate::listen::{End, Listening, Subscription, listen_request};
use crate::outgoing::Meta;

impl Client {
    pub(crate) async fn listen_over_stdio(
        &self,
        link: &PipeLink,
        filter: SubscriptionFilter,
    ) -> Result<Subscription, RequestError> {
        let host = &self.inner.host;
        let connection = self.connected(link).await?;
        if let Spoken::Earlier(session) = self.spoken(link, &connection).await? {
            // The process was replaced by one that speaks the other era.
            return self.listen_in_session(Arc::clone(session), filter).await;
        }
        let id = host.next_id();
        let outgoing = listen_request(&filter)?;
        let meta = Meta {
            fields: Some(&host.meta),
            more: Some(&self.options.meta),
            ..Meta::default()
        };
        let body = outgoing.modern(&id, &meta)?;
        let (listening, acknowledgement) = Listening::new(host, id.clone(), filter);
        let shared = connection.pipe.shared();
        let open = Open::new(shared, &id, &listening);
        let opening = async {
            let answer = connection.pipe.send(&id, body).await?;
            let answered = Arc::clone(&listening);
            tokio::spawn(async move {
                match answer.await {
                    Ok(answer) => answered.answered(answer),
                    Err(_) => answered.broke(broken()),
                }
            });
            acknowledgement
                .await
                .unwrap_or(Err(RequestError::NoResponse))
        };
        let honoured = self
            .patience()
            .wait_for(opening)
            .await
            .unwrap_or_else(|after| Err(RequestError::TimedOut { after }))?;
        let inbox = Arc::clone(listening.inbox());
        let end = End::by(move || drop(open));
        Ok(Subscription::new(inbox, honoured, end, self.clone()))
    }
}

/// On the list of those whose messages are looked for. When it is dropped, the server is told that nobody listens any more.
struct Open {
    shared: Arc<Shared>,
    id: RequestId,
}

impl Open {
    fn new(shared: &Arc<Shared>, id: &RequestId, listening: &Arc<Listening>) -> Self {
        shared.listen(id, listening);
        Self {
            shared: Arc::clone(shared),
            id: id.clone(),
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.listen_no_more(&self.id);
    }
}
