//! A session of the earlier era: what `initialize` agreed on, and what is open in it.
//!
//! A session belongs to the principal that opened it. It is the one thing that this server holds for a client, so it is bounded in
//! number, in size and in time, and a server for the modern era alone opens none.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::StatusCode;
use mrtr_ledger::Account;
use mrtr_protocol::earlier::{
    EarlierRevision, InitializeParams, InitializeResult, SetLevelParams, SubscribeParams,
};
use mrtr_protocol::notification::{CancelledParams, LogLevel};
use mrtr_protocol::object::read;
use mrtr_protocol::{
    ErrorObject, KindSet, Members, Notification, REVISION, RequestMeta, Response, code, method,
};
use mrtr_state::Principal;
use serde_json::value::{RawValue, to_raw_value};
use tokio_util::sync::CancellationToken;

use crate::access::{self, Granted};
use crate::call::Requester;
use crate::calls::Calls;
use crate::hub::{Change, Subscriber, Subscription};
use crate::line::{Answered, Line, Questions};
use crate::listen::{announced, can_watch};
use crate::methods::{self, not_found};
use crate::outbox::{Link, LogGate, Outbox};
use crate::registered::Surface;
use crate::reply::Reply;
use crate::server::Inner;

/// What one client and this server have agreed on.
pub(crate) struct Session {
    pub(crate) revision: EarlierRevision,
    principal: Principal,
    account: Account,
    declared: KindSet,
    /// Requests of the client's that are being answered.
    pub(crate) calls: Arc<Calls>,
    /// Questions of this server's that wait for the client's answers.
    questions: Arc<Questions>,
    log: Arc<Mutex<LogLevel>>,
    /// What the client is told of, where changes are announced.
    changes: Option<Subscription>,
    /// The server is shutting down: calls go on, and questions do not.
    winding_up: CancellationToken,
}

impl Session {
    /// Answers `initialize`: the session, and the result that tells the client of it.
    pub(crate) fn open(
        inner: &Inner,
        principal: Principal,
        account: Account,
        calls: Arc<Calls>,
        params: Option<&RawValue>,
    ) -> Result<(Self, Box<RawValue>), ErrorObject> {
        let params = params.and_then(|params| Members::parse(params).ok());
        let asked = InitializeParams::of(&params.unwrap_or_default())
            .map_err(|error| error.to_error_object())?;
        // A version that is not served is answered with the latest that is; the client leaves if that does not suit it.
        let revision = EarlierRevision::negotiate(&asked.protocol_version);
        let changes = if inner.announces {
            let subscriber = Subscriber {
                principal: principal.clone(),
                account,
            };
            // Not counted: it is there as long as its session.
            inner
                .hub
                .subscribe(subscriber, announced(&inner.capabilities), None)
                .ok()
        } else {
            None
        };
        let session = Self {
            revision,
            principal,
            account,
            declared: asked.kinds(revision),
            calls,
            questions: Arc::default(),
            log: Arc::new(Mutex::new(LogLevel::Info)),
            changes,
            winding_up: CancellationToken::new(),
        };
        let mut result =
            InitializeResult::new(revision, inner.capabilities.clone(), inner.info.clone());
        result.instructions = inner.instructions.clone();
        let result = to_raw_value(&result).map_err(|error| {
            tracing::error!(%error, "the result of `initialize` does not serialize");
            ErrorObject::new(
                code::INTERNAL_ERROR,
                "The result could not be written as JSON.",
            )
        })?;
        Ok((session, result))
    }

    /// Ends what waits for a person: nobody will be able to answer. What works goes on.
    pub(crate) fn wind_up(&self) {
        self.winding_up.cancel();
    }

    pub(crate) fn belongs_to(&self, principal: &Principal) -> bool {
        self.principal == *principal
    }

    pub(crate) fn account(&self) -> Account {
        self.account
    }

    /// The next change that the client is to hear of. Pending where there will never be one.
    pub(crate) fn poll_change(&self, cx: &Context<'_>) -> Poll<Change> {
        match &self.changes {
            Some(changes) => match changes.poll_next(cx) {
                Poll::Ready(Some(change)) => Poll::Ready(change),
                // The session ends by other means.
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            },
            None => Poll::Pending,
        }
    }

    /// Takes a notification. The ones that are not known are nobody's to judge.
    pub(crate) fn notified(&self, notification: &Notification<'_>) {
        if notification.method != method::CANCELLED {
            return;
        }
        match notification.params.map(read::<CancelledParams>) {
            Some(Ok(cancelled)) => self.calls.cancel(&cancelled.request_id),
            _ => tracing::debug!("a cancellation that cannot be read is ignored"),
        }
    }

    /// Takes a response to a question of this server's.
    pub(crate) fn answered(&self, response: Response<'_>, granted: &Granted) -> Answered {
        let Some(id) = &response.id else {
            return Answered::Unknown;
        };
        self.questions.answer(id, response.outcome, granted)
    }

    /// Answers one request: the reply as the earlier era writes it. Once it is `cancelled` no answer counts for it.
    pub(crate) async fn answer(
        &self,
        inner: &Arc<Inner>,
        outbox: Outbox,
        cancelled: CancellationToken,
        granted: Granted,
        name: &str,
        params: Option<&RawValue>,
    ) -> Reply {
        let Ok(params) = params.map(Members::parse).transpose() else {
            return Reply::invalid_params("Invalid params: a member name occurs twice.");
        };
        let params = params.unwrap_or_default();
        let meta = RequestMeta::optional(&params);
        let progress = match meta.and_then(|meta| meta.progress_token()) {
            Ok(progress) => progress,
            Err(error) => return Reply::invalid_params(format!("Invalid params: {error}.")),
        };
        let line = Line::new(
            self.revision,
            Arc::clone(&outbox),
            Arc::clone(&self.questions),
            cancelled,
            self.winding_up.clone(),
            access::addressed(&inner.catalogue, name, &params).cloned(),
        );
        let requester = Requester {
            principal: self.principal.clone(),
            granted: granted.clone(),
            account: self.account,
            declared: self.declared,
            link: Link {
                outbox: Some(outbox),
                progress,
                log: LogGate::Session(Arc::clone(&self.log)),
                line: Some(Arc::new(line)),
            },
        };
        let reply = match name {
            method::PING => Some(Reply::nothing()),
            method::LOGGING_SET_LEVEL if inner.catalogue.logs => Some(self.set_level(&params)),
            method::RESOURCES_SUBSCRIBE | method::RESOURCES_UNSUBSCRIBE => {
                self.subscribe(inner, name, &params, &granted)
            }
            // What only the modern era has.
            method::DISCOVER | method::SUBSCRIPTIONS_LISTEN => None,
            method::INITIALIZE => Some(Reply::invalid_request(
                "This session is initialized; open another one with `initialize` and no session id.",
            )),
            _ => methods::dispatch(inner, name, &params, requester).await,
        };
        reply
            .unwrap_or_else(|| Reply::error(StatusCode::OK, not_found(name)))
            .in_earlier_era()
    }

    /// `resources/subscribe` and `resources/unsubscribe`. `None`: this server announces no changes of resources.
    fn subscribe(
        &self,
        inner: &Inner,
        name: &str,
        params: &Members<'_>,
        granted: &Granted,
    ) -> Option<Reply> {
        let changes = self
            .changes
            .as_ref()
            .filter(|_| inner.catalogue.has_resources())?;
        let uri = match SubscribeParams::of(params) {
            Ok(params) => params.uri,
            Err(error) => return Some(Reply::error(StatusCode::OK, error.to_error_object())),
        };
        if name == method::RESOURCES_UNSUBSCRIBE {
            changes.unwatch(&uri);
            return Some(Reply::nothing());
        }
        if !can_watch(inner, &uri, granted) {
            return Some(Reply::nothing_there(Surface::Resource, &uri));
        }
        let most = inner.limits.subscribed_resources;
        Some(if changes.watch(&uri, most) {
            Reply::nothing()
        } else {
            Reply::unavailable(&format!(
                "A session is subscribed to {most} resources at most on this server; unsubscribe from one that is not needed."
            ))
        })
    }

    fn set_level(&self, params: &Members<'_>) -> Reply {
        match SetLevelParams::of(params) {
            Ok(asked) => {
                *self.log.lock().unwrap_or_else(PoisonError::into_inner) = asked.level;
                Reply::nothing()
            }
            Err(error) => Reply::error(StatusCode::OK, error.to_error_object()),
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

/// What `initialize` is answered with where there are no sessions: the version that is spoken instead.
pub(crate) fn no_sessions(params: Option<&RawValue>) -> ErrorObject {
    let params = params.and_then(|params| Members::parse(params).ok());
    match InitializeParams::of(&params.unwrap_or_default()) {
        Ok(asked) => ErrorObject::unsupported_version(asked.protocol_version, [REVISION]),
        Err(error) => error.to_error_object(),
    }
}
