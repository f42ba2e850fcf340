//! One request and its response, whatever the era and the transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mrtr_protocol::object::read;
use mrtr_protocol::{ProgressToken, RequestId, ResultType};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::cache::Cache;
use crate::client::{Client, Link};
use crate::error::{ProtocolError, RequestError};
use crate::notices::Watch;
use crate::outgoing::Outgoing;
use crate::patience::Patience;

/// A result, and in which era it was given.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) result: Box<RawValue>,
    /// Only a modern result says what it is; in the earlier era every result is complete.
    pub(crate) is_modern: bool,
    /// It was not asked for: the client had it still.
    pub(crate) is_kept: bool,
}

impl Answered {
    pub(crate) fn modern(result: Box<RawValue>) -> Self {
        Self {
            result,
            is_modern: true,
            is_kept: false,
        }
    }

    pub(crate) fn earlier(result: Box<RawValue>) -> Self {
        Self {
            result,
            is_modern: false,
            is_kept: false,
        }
    }

    pub(crate) fn kind(&self) -> Result<ResultType, ProtocolError> {
        if self.is_modern {
            Ok(ResultType::of(&self.result)?)
        } else {
            Ok(ResultType::Complete)
        }
    }

    /// Reads the result of a method that may not ask.
    pub(crate) fn complete<T: DeserializeOwned>(
        &self,
        method: &'static str,
    ) -> Result<T, RequestError> {
        match self.kind()? {
            ResultType::Complete => {
                read(&self.result).map_err(|_| ProtocolError::Result { method }.into())
            }
            ResultType::InputRequired => Err(ProtocolError::RoundNotAllowed.into()),
        }
    }
}

/// A count of bytes up to a limit, which several responses may share.
#[derive(Debug)]
pub(crate) struct Tally {
    limit: usize,
    taken: AtomicUsize,
}

impl Tally {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            taken: AtomicUsize::new(0),
        }
    }

    /// Adds to the count, up to the limit.
    pub(crate) fn take(&self, more: usize) -> Result<(), RequestError> {
        let before = self.taken.fetch_add(more, Ordering::Relaxed);
        if before.saturating_add(more) > self.limit {
            return Err(RequestError::TooLarge { limit: self.limit });
        }
        Ok(())
    }
}

/// An open request: its time, and its progress if somebody listens.
#[derive(Debug)]
pub(crate) struct Ticket {
    patience: Arc<Patience>,
    watch: Option<Watch>,
}

impl Ticket {
    /// The token to ask for progress with.
    pub(crate) fn token(&self) -> Option<&ProgressToken> {
        self.watch.as_ref().map(Watch::token)
    }

    pub(crate) async fn wait_for<T>(
        &self,
        answer: impl Future<Output = Result<T, RequestError>>,
    ) -> Result<T, RequestError> {
        self.patience
            .wait_for(answer)
            .await
            .unwrap_or_else(|after| Err(RequestError::TimedOut { after }))
    }
}

impl Client {
    /// Sends a request and reads its response. Dropping the future cancels the request.
    pub(crate) async fn exchange(&self, outgoing: &Outgoing<'_>) -> Result<Answered, RequestError> {
        self.exchange_counted(outgoing, None).await
    }

    /// The same with a count of bytes that several requests share: all of their bodies together have the limit of one.
    pub(crate) async fn exchange_counted(
        &self,
        outgoing: &Outgoing<'_>,
        tally: Option<&Tally>,
    ) -> Result<Answered, RequestError> {
        let cache = self
            .inner
            .host
            .cache
            .as_ref()
            .filter(|_| self.options.may_keep());
        let Some(cache) = cache else {
            return self.over_the_wire(outgoing, tally).await;
        };
        let key = Cache::key(outgoing);
        if let Some(kept) = key.as_ref().filter(|_| !self.options.fresh)
            && let Some(result) = cache.get(kept)
        {
            if let Some(tally) = tally {
                tally.take(result.get().len())?;
            }
            return Ok(Answered {
                is_kept: true,
                ..Answered::modern(result)
            });
        }
        let asked = cache.asked_at();
        let answered = self.over_the_wire(outgoing, tally).await;
        match (&answered, key) {
            (Ok(answered), Some(key)) => cache.put(key, asked, answered),
            (Ok(_), None) => {}
            (Err(error), _) => cache.doubt(outgoing, error),
        }
        answered
    }

    async fn over_the_wire(
        &self,
        outgoing: &Outgoing<'_>,
        tally: Option<&Tally>,
    ) -> Result<Answered, RequestError> {
        match &self.inner.link {
            Link::Http(link) => self.over_http(link, outgoing, tally).await,
            Link::Pipe(link) => self.over_stdio(link, outgoing, tally).await,
        }
    }

    pub(crate) fn tally(&self) -> Tally {
        Tally::new(self.inner.host.limits.max_response_bytes)
    }

    /// The time that a request has.
    pub(crate) fn patience(&self) -> Arc<Patience> {
        let host = &self.inner.host;
        Patience::new(
            &host.thinking,
            self.options.request_timeout,
            host.limits.max_request_time,
        )
    }

    /// Begins to count a request's time and to listen for its progress.
    pub(crate) fn ticket(&self, id: &RequestId, outgoing: &Outgoing<'_>) -> Ticket {
        self.inner.host.begin_request();
        let patience = self.patience();
        let watch = self.options.on_progress.as_ref().map(|listener| {
            // The id is unique among the requests of a client, so it is a good token.
            let token = ProgressToken::from(id.clone());
            let (method, target) = (outgoing.method, outgoing.target);
            self.inner
                .host
                .notices
                .watch(token, method, target, listener, &patience)
        });
        Ticket { patience, watch }
    }
}
