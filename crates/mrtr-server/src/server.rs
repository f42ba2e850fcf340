//! The server: what was built, and the methods that it answers.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use mrtr_ledger::{Account, Ledger, LedgerError};
use mrtr_protocol::{Implementation, ResultMeta, ServerCapabilities};
use mrtr_state::{Clock, Envelope, Epoch, Timestamp};
use tokio_util::task::TaskTracker;

use crate::auth::Authenticator;
use crate::builder::ServerBuilder;
use crate::caching::ListCaching;
use crate::catalogue::Catalogue;
use crate::changes::Changes;
use crate::extract::States;
use crate::flow::outcome::Outcomes;
use crate::http::earlier::Sessions;
use crate::http::gate::Gate;
use crate::hub::Hub;
use crate::limits::Limits;
use crate::pace::Pace;
use crate::stored_codec::StoredSizes;

/// An MCP server of revision 2026-07-28, and of the earlier era for clients that open with `initialize`. Cheap to clone; clones are
/// the same server.
///
/// It is mounted with [`router`](Self::router), run with [`serve`](Self::serve), or called directly as a
/// `tower::Service`.
///
/// In the modern era it holds nothing between the rounds of a flow: what must be remembered travels in the sealed state, and what must happen
/// once is recorded in the ledger. Any instance with the same keys, ledger and audience can finish a call.
#[derive(Clone)]
pub struct Server {
    pub(crate) inner: Arc<Inner>,
}

/// Everything that a request needs.
pub(crate) struct Inner {
    pub(crate) info: Implementation,
    pub(crate) instructions: Option<String>,
    pub(crate) capabilities: ServerCapabilities,
    /// Seals and opens request state; absent when no codec was given.
    pub(crate) envelope: Option<Envelope>,
    pub(crate) durability: Option<Durability>,
    /// From which size on journals are kept in the ledger; `None`: all are carried.
    pub(crate) stored: Option<StoredSizes>,
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    pub(crate) gate: Gate,
    pub(crate) caching: ListCaching,
    /// Entries of a list that are told at a time.
    pub(crate) page_size: usize,
    pub(crate) opaque_rejections: bool,
    pub(crate) bind_questions: bool,
    pub(crate) states: States,
    pub(crate) catalogue: Catalogue,
    /// Tasks that hold a claim; a graceful shutdown waits for them.
    pub(crate) tasks: TaskTracker,
    pub(crate) running: Running,
    /// Whether clients of the earlier era are served too.
    pub(crate) earlier_era: bool,
    /// Their sessions over HTTP.
    pub(crate) sessions: Sessions,
    /// Whether anything that is served may send messages before a result.
    pub(crate) sends: bool,
    /// How often each principal asks for completions.
    pub(crate) pace: Pace,
    /// Whether changes are announced, and can be subscribed to.
    pub(crate) announces: bool,
    pub(crate) hub: Hub,
}

impl Server {
    /// Starts building a server of this name and version, which clients show and log.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> ServerBuilder {
        ServerBuilder::new(Implementation::new(name, version))
    }

    pub(crate) fn new(inner: Inner) -> Self {
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Waits until every call that holds a claim has settled it, however long that takes: a ledger that does not answer
    /// is asked again and again, and a call of the earlier era may wait for a person. New calls are still taken; stop the listener and
    /// [close](Self::close) what is held open first. [`serve`](Self::serve) waits for
    /// [`Limits::shutdown`](crate::Limits::shutdown) at most.
    pub async fn settled(&self) {
        self.inner.tasks.wait().await;
    }
}

impl Server {
    /// Announces changes to those who subscribed. It reaches nobody unless the builder was told
    /// [`announces_changes`](ServerBuilder::announces_changes).
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes::new(self.inner.hub.clone())
    }

    /// Ends what is held open for clients: each subscription, in good order and with word to its client, and each session of the earlier
    /// era with what is open in it. [`serve`](Self::serve) does so when it shuts down; who mounts the [`router`](Self::router)
    /// calls this when the listener stops. What is opened afterwards is not affected.
    pub fn close(&self) {
        self.inner.hub.end_all();
        self.inner.sessions.close();
    }

    /// How many sessions of the earlier era are open over HTTP, for an operator to see. In the modern era there are none.
    #[must_use]
    pub fn open_sessions(&self) -> usize {
        self.inner.sessions.count()
    }

    /// How many subscriptions (`subscriptions/listen`) are open, for an operator to see.
    #[must_use]
    pub fn open_subscriptions(&self) -> usize {
        self.inner.hub.count()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("info", &self.inner.info)
            .field("catalogue", &self.inner.catalogue)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Every result names the server (specification, `basic/index`, "Per-response protocol fields").
    pub(crate) fn result_meta(&self) -> ResultMeta {
        ResultMeta::default().with_server_info(&self.info)
    }
}

/// The ledger, how outcomes are kept in it, and its epoch as last seen.
#[derive(Debug)]
pub(crate) struct Durability {
    pub(crate) ledger: Arc<dyn Ledger>,
    pub(crate) outcomes: Outcomes,
    /// How journals are kept that are too large to be carried.
    pub(crate) journals: Outcomes,
    /// The server's identity, as it is sealed.
    pub(crate) audience: Arc<str>,
    epoch: RwLock<Option<(Epoch, Timestamp)>>,
}

/// How long an epoch counts as just seen: a flow that opens this long after a rotation elsewhere is opened in vain.
const EPOCH_AGE: Duration = Duration::from_secs(2);

impl Durability {
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        outcomes: Outcomes,
        journals: Outcomes,
        audience: Arc<str>,
    ) -> Self {
        Self {
            ledger,
            outcomes,
            journals,
            audience,
            epoch: RwLock::default(),
        }
    }

    /// The ledger's epoch as seen a moment ago: what a flow that opens now carries. A stale one does no harm but to that
    /// flow, because every claim compares it in its own statement.
    pub(crate) async fn epoch(&self, now: Timestamp) -> Result<Epoch, LedgerError> {
        let seen = *self.epoch.read().unwrap_or_else(PoisonError::into_inner);
        match seen {
            Some((epoch, at)) if at <= now && now.saturating_since(at) < EPOCH_AGE => Ok(epoch),
            _ => self.refreshed_epoch(now).await,
        }
    }

    /// The ledger's epoch, asked for now.
    pub(crate) async fn refreshed_epoch(&self, now: Timestamp) -> Result<Epoch, LedgerError> {
        let epoch = self.ledger.epoch().await?;
        *self.epoch.write().unwrap_or_else(PoisonError::into_inner) = Some((epoch, now));
        Ok(epoch)
    }

    /// A claim has found the epoch to be another one: the next flow asks for it.
    pub(crate) fn forget_epoch(&self) {
        *self.epoch.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// How many bodies run for each principal.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<HashMap<Account, usize>>);

impl Running {
    /// Room for one more body of this principal, given back when the permit is dropped.
    pub(crate) fn permit(inner: &Arc<Inner>, account: Account) -> Option<Permit> {
        let mut running = inner
            .running
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let count = running.entry(account).or_default();
        if *count >= inner.limits.running_per_principal {
            return None;
        }
        *count += 1;
        drop(running);
        Some(Permit {
            inner: Arc::clone(inner),
            account,
        })
    }
}

/// Room for one body.
pub(crate) struct Permit {
    inner: Arc<Inner>,
    account: Account,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut running = self
            .inner
            .running
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = running.get_mut(&self.account) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.account);
            }
        }
    }
}
