//! Pages: where a URL question leads, and how the server learns that somebody has been there.
//!
//! Accepting a URL question is only consent to open the page. What the person types there never passes through the client,
//! and whether they are done is the server's own record. A page's URL carries a random *handle* and nothing else: no state,
//! no name, no login. Whoever opens it must log in, and must be the principal whose call asked
//! (specification, `client/elicitation`, "Phishing").
//!
//! | part | what it is |
//! |---|---|
//! | [`Visits`] | the record: handle, principal, flow, key, expiry, done or not; [`MemoryVisits`] for one process |
//! | [`Pages`] | the record and the pages' address: what a handler asks with |
//! | [`Page`] | what a page shows and takes; [`Pages::routes`] mounts it in axum |

mod routes;

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use http::Uri;
use mrtr_state::{Clock, FlowId, Principal, Timestamp};
use thiserror::Error;

pub use self::routes::{Page, PageFuture, Submission};

/// One visit that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Visit {
    /// The random end of the URL.
    pub handle: String,
    /// Whose call asked, and so whose visit counts.
    pub principal: Principal,
    /// The flow that waits for it.
    pub flow: FlowId,
    /// The question's key in that flow.
    pub key: String,
    /// When the flow ends, and the visit with it.
    pub expires: Timestamp,
}

/// What [`Visits`] returns.
pub type VisitFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, VisitError>> + Send + 'a>>;

/// The record of visits did not answer, or has no room. Nothing is asked then.
#[derive(Debug, Error)]
#[error("the record of visits is unavailable: {0}")]
pub struct VisitError(#[from] Box<dyn std::error::Error + Send + Sync>);

impl From<&'static str> for VisitError {
    fn from(why: &'static str) -> Self {
        Self(why.into())
    }
}

/// The record of visits. All instances of one service need the same.
///
/// Implementers: opening a visit again must not undo its completion; an expired visit is not found, and counts as not done.
pub trait Visits: fmt::Debug + Send + Sync + 'static {
    /// Records a visit that is asked for. Called in every round, with the same visit.
    fn open(&self, visit: Visit) -> VisitFuture<'_, ()>;

    /// The visit of this handle.
    fn find<'a>(&'a self, handle: &'a str) -> VisitFuture<'a, Option<Visit>>;

    /// Records that the visit is done. False: there is none of this handle.
    fn complete<'a>(&'a self, handle: &'a str) -> VisitFuture<'a, bool>;

    /// Whether the visit is done.
    fn is_done<'a>(&'a self, handle: &'a str) -> VisitFuture<'a, bool>;
}

/// A record in memory: for one process, lost with it.
#[derive(Debug)]
pub struct MemoryVisits {
    clock: Arc<dyn Clock>,
    visits: Mutex<HashMap<String, (Visit, bool)>>,
}

impl MemoryVisits {
    /// Open visits at a time: 10,000. Beyond that nothing is asked; expired ones make room.
    pub const LIMIT: usize = 10_000;

    /// An empty record.
    pub fn new(clock: impl Clock) -> Self {
        Self {
            clock: Arc::new(clock),
            visits: Mutex::default(),
        }
    }

    fn live<T>(&self, handle: &str, look: impl FnOnce(&mut (Visit, bool)) -> T) -> Option<T> {
        let now = self.clock.now();
        let mut visits = self.visits.lock().unwrap_or_else(PoisonError::into_inner);
        visits
            .get_mut(handle)
            .filter(|(visit, _)| now < visit.expires)
            .map(look)
    }
}

impl Visits for MemoryVisits {
    fn open(&self, visit: Visit) -> VisitFuture<'_, ()> {
        let now = self.clock.now();
        let mut visits = self.visits.lock().unwrap_or_else(PoisonError::into_inner);
        if visits.len() >= Self::LIMIT {
            visits.retain(|_, (visit, _)| now < visit.expires);
        }
        if visits.len() >= Self::LIMIT && !visits.contains_key(&visit.handle) {
            return Box::pin(ready(Err("too many visits are open".into())));
        }
        visits.entry(visit.handle.clone()).or_insert((visit, false));
        Box::pin(ready(Ok(())))
    }

    fn find<'a>(&'a self, handle: &'a str) -> VisitFuture<'a, Option<Visit>> {
        Box::pin(ready(Ok(self.live(handle, |(visit, _)| visit.clone()))))
    }

    fn complete<'a>(&'a self, handle: &'a str) -> VisitFuture<'a, bool> {
        Box::pin(ready(Ok(self
            .live(handle, |(_, done)| *done = true)
            .is_some())))
    }

    fn is_done<'a>(&'a self, handle: &'a str) -> VisitFuture<'a, bool> {
        Box::pin(ready(Ok(self
            .live(handle, |(_, done)| *done)
            .unwrap_or(false))))
    }
}

/// Where pages are, and the record of who has been there. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pages {
    base: Arc<str>,
    visits: Arc<dyn Visits>,
}

/// The address of the pages is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not the address of pages: give an absolute http or https URL without a query")]
pub struct PagesError(String);

impl Pages {
    /// Pages at `base`, such as `https://mcp.example/connect`: a page's URL is that, a slash, and its handle.
    ///
    /// Use https outside of a developer's machine; a browser's login cookie is only as safe as its connection.
    ///
    /// # Errors
    ///
    /// When `base` is not an absolute http or https URL.
    pub fn new(base: &str, visits: impl Visits) -> Result<Self, PagesError> {
        let is_address = base.parse::<Uri>().is_ok_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.authority().is_some()
                && uri.query().is_none()
        });
        match is_address {
            true => Ok(Self {
                base: base.trim_end_matches('/').into(),
                visits: Arc::new(visits),
            }),
            false => Err(PagesError(base.to_owned())),
        }
    }

    /// The record.
    #[must_use]
    pub fn visits(&self) -> &Arc<dyn Visits> {
        &self.visits
    }

    pub(crate) fn url(&self, handle: &str) -> String {
        format!("{}/{handle}", self.base)
    }

    /// The path under which [`routes`](Self::routes) mounts the pages.
    fn path(&self) -> String {
        let path = self
            .base
            .parse::<Uri>()
            .map(|uri| uri.path().trim_end_matches('/').to_owned());
        path.unwrap_or_default()
    }
}

/// Whether two principals are the same person: a browser logs somebody in, and no MCP client.
pub(crate) fn same_person(one: &Principal, other: &Principal) -> bool {
    match (one, other) {
        (Principal::User(one), Principal::User(other)) => {
            one.issuer() == other.issuer() && one.subject() == other.subject()
        }
        _ => false,
    }
}
