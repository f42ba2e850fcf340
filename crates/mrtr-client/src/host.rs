//! The host's side of a client: who answers, who listens, and how much is allowed. It knows nothing of connections, so that the tasks
//! which read what a server sends unasked can hold it without holding the client.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use mrtr_protocol::{Implementation, RawObject, RequestId};

use crate::cache::Cache;
use crate::earlier::Visits;
use crate::handler::{Handlers, ServerLabel};
use crate::notices::Notices;
use crate::patience::Thinking;

pub(crate) struct Host {
    /// What the server is to the host: its URL as the host wrote it, or `stdio:` and the host's name for it.
    pub(crate) endpoint: String,
    pub(crate) label: Option<String>,
    pub(crate) client_info: Option<Implementation>,
    /// The modern era's fields of `_meta`, written once.
    pub(crate) meta: RawObject,
    pub(crate) handlers: Handlers,
    pub(crate) limits: Limits,
    pub(crate) notices: Arc<Notices>,
    pub(crate) thinking: Arc<Thinking>,
    pub(crate) visits: Arc<Visits>,
    pub(crate) cache: Option<Cache>,
    ids: AtomicI64,
    /// How many requests were begun.
    requests: AtomicU64,
}

/// How much a server may ask of this side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) max_rounds: Option<u32>,
    pub(crate) max_questions: Option<usize>,
    pub(crate) max_request_time: Option<Duration>,
    pub(crate) max_response_bytes: usize,
}

impl Limits {
    /// How many questions a server of the earlier era may put during one call, or, where nothing says which call it is, since the last request
    /// of this side: as many as the rounds of a modern call could hold.
    pub(crate) fn questions_of_a_call(&self) -> Option<usize> {
        let rounds = usize::try_from(self.max_rounds?).unwrap_or(usize::MAX);
        Some(rounds.saturating_mul(self.max_questions?))
    }
}

impl Host {
    #[allow(
        clippy::too_many_arguments,
        reason = "it is called once, by the builder"
    )]
    pub(crate) fn new(
        endpoint: String,
        label: Option<String>,
        client_info: Option<Implementation>,
        meta: RawObject,
        handlers: Handlers,
        limits: Limits,
        notices: Notices,
        cache: Option<Cache>,
        thinking: Arc<Thinking>,
    ) -> Self {
        Self {
            endpoint,
            label,
            client_info,
            meta,
            handlers,
            limits,
            notices: Arc::new(notices),
            thinking,
            visits: Arc::default(),
            cache,
            ids: AtomicI64::new(1),
            requests: AtomicU64::new(0),
        }
    }

    /// Another id than any before: rounds of a call are independent requests.
    pub(crate) fn next_id(&self) -> RequestId {
        RequestId::from(self.ids.fetch_add(1, Ordering::Relaxed))
    }

    /// A request begins.
    pub(crate) fn begin_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests were begun so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Who is asking, for whoever is asked.
    pub(crate) fn server_label(&self, self_reported: Option<String>) -> ServerLabel {
        ServerLabel {
            url: self.endpoint.clone(),
            label: self.label.clone(),
            self_reported,
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("endpoint", &self.endpoint)
            .field("handlers", &self.handlers)
            .finish_non_exhaustive()
    }
}
