//! Announcing that something has changed.

use std::fmt;

use mrtr_state::Principal;

use crate::extract::{Call, Extract, ExtractError, Spec};
use crate::hub::{Change, Hub, List};

/// Tells subscribed clients that something has changed. A handle that is cheap to clone, from [`Server::changes`] or as an
/// extractor of a handler; both need [`announces_changes`] on the builder.
///
/// Clients of both eras hear of it: on a stream that they opened with `subscriptions/listen` and this in its filter, or in
/// a session of the earlier era. They look again; what has changed is never in the message.
///
/// ```
/// use mrtr_server::{Changes, Server, resource, tool};
///
/// async fn publish(changes: Changes) -> &'static str {
///     // .. write the new price list ..
///     changes.resource("shop://prices");
///     "Published."
/// }
///
/// let server = Server::builder("shop", "1.0.0")
///     .allow_anonymous()
///     .announces_changes()
///     .tool(tool("publish", publish))
///     .resource(resource("shop://prices", async || "none yet"))
///     .build()?;
/// // From anywhere else: another task, a database's trigger.
/// server.changes().resource("shop://prices");
/// # Ok::<(), mrtr_server::BuildError>(())
/// ```
///
/// Announcing never waits and never fails. Changes of one kind that a client has not read yet are told as one, so that a
/// slow client costs no memory, whatever happens.
///
/// **Not guaranteed:** that anybody hears. Only clients of this process are told: where several serve one URL, each announces for
/// itself. That something changed is told to whoever subscribed to its URI, who need not be permitted to read it; use
/// [`only_for`](Self::only_for) where that itself is a secret. What this server lists is fixed while it runs: announce a
/// list when what is behind the URL has changed, such as by a new release beside this one.
///
/// Specification: `basic/patterns/subscriptions`; revision 2025-11-25, `server/resources`, "Subscriptions".
///
/// [`Server::changes`]: crate::Server::changes
/// [`announces_changes`]: crate::ServerBuilder::announces_changes
#[derive(Clone)]
pub struct Changes {
    hub: Hub,
    only: Option<Principal>,
}

impl Changes {
    pub(crate) fn new(hub: Hub) -> Self {
        Self { hub, only: None }
    }

    /// The same, heard by this principal's clients alone.
    #[must_use]
    pub fn only_for(&self, principal: Principal) -> Self {
        Self {
            hub: self.hub.clone(),
            only: Some(principal),
        }
    }

    /// The list of tools has changed.
    pub fn tools(&self) {
        self.announce(&Change::List(List::Tools));
    }

    /// The list of prompts has changed.
    pub fn prompts(&self) {
        self.announce(&Change::List(List::Prompts));
    }

    /// The list of resources, or of templates, has changed.
    pub fn resources(&self) {
        self.announce(&Change::List(List::Resources));
    }

    /// What this resource holds has changed. Heard by those who subscribed to exactly this URI.
    pub fn resource(&self, uri: &str) {
        self.announce(&Change::Resource(uri.into()));
    }

    fn announce(&self, change: &Change) {
        self.hub.announce(change, self.only.as_ref());
    }
}

impl Extract for Changes {
    fn describe(spec: &mut Spec) {
        spec.announces = true;
    }

    fn extract(call: &mut Call<'_>) -> Result<Self, ExtractError> {
        call.states
            .get::<Self>()
            .ok_or(ExtractError::Missing("`announces_changes`"))
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes")
            .field("only", &self.only)
            .finish_non_exhaustive()
    }
}
