//! Requests beside calls and lists: who the server is, completion, and what only the earlier era has.

use std::sync::Arc;

use mrtr_protocol::earlier::SetLevelParams;
use mrtr_protocol::{
    CompleteParams, CompleteResult, Completion, DiscoverResult, Implementation, JsonObject,
    LogLevel, Members, ServerCapabilities, method,
};
use serde_json::value::to_raw_value;

use crate::client::{Client, Link};
use crate::earlier::{Session, notification};
use crate::era::Era;
use crate::error::RequestError;
use crate::outgoing::Outgoing;

/// Who a server is and what it offers, in either era.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// The era that it speaks with this client.
    pub era: Era,
    /// What it offers.
    pub capabilities: ServerCapabilities,
    /// Its name for itself. Show it; do not rely on it.
    pub info: Option<Implementation>,
    /// Guidance for the model. Untrusted.
    pub instructions: Option<String>,
}

impl ServerInfo {
    fn modern(result: DiscoverResult) -> Self {
        Self {
            era: Era::Modern,
            info: result.meta.server_info(),
            capabilities: result.capabilities,
            instructions: result.instructions,
        }
    }

    fn earlier(session: &Session) -> Self {
        let server = session.server();
        Self {
            era: Era::Earlier(session.revision()),
            capabilities: server.capabilities.clone(),
            info: Some(server.server_info.clone()),
            instructions: server.instructions.clone(),
        }
    }
}

impl Client {
    /// Who the server is and what it offers: by `server/discover` in the modern era, and by what `initialize` said in the earlier one.
    ///
    /// # Errors
    ///
    /// [`RequestError`].
    pub async fn server(&self) -> Result<ServerInfo, RequestError> {
        match self.discover().await {
            Ok(result) => Ok(ServerInfo::modern(result)),
            Err(RequestError::NotInThisEra { .. }) => {
                Ok(ServerInfo::earlier(&*self.any_session().await?))
            }
            Err(error) => Err(error),
        }
    }

    /// The era that the server speaks, if that is known already: a client that speaks both finds it out with its first request. `None` also
    /// while a server that is known to speak the earlier era has no session with this client.
    #[must_use]
    pub fn era(&self) -> Option<Era> {
        match &self.inner.link {
            Link::Http(link) => link.era(),
            Link::Pipe(link) => link.era(),
        }
    }

    /// Suggestions for an argument of a prompt, or for a variable of a resource template.
    ///
    /// ```no_run
    /// # use mrtr_client::Client;
    /// use mrtr_client::protocol::{CompleteParams, CompletionReference};
    /// # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut typed = CompleteParams::new(CompletionReference::prompt("review"), "framework", "fla");
    /// typed.context = vec![("language".into(), "python".into())];
    /// println!("{:?}", client.complete(&typed).await?.values);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Wait a little after each key that is pressed: servers limit how often they are asked. `meta` of the params is not sent;
    /// [`Client::with_meta`] is for that.
    ///
    /// # Errors
    ///
    /// [`RequestError`].
    pub async fn complete(&self, params: &CompleteParams<'_>) -> Result<Completion, RequestError> {
        let text =
            to_raw_value(params).map_err(|error| RequestError::Unwritable(error.to_string()))?;
        let members =
            Members::parse(&text).map_err(|error| RequestError::Unwritable(error.to_string()))?;
        let outgoing = Outgoing::new(method::COMPLETION_COMPLETE)
            .with_raw("ref", members.get("ref"))
            .with_raw("argument", members.get("argument"))
            .with_raw("context", members.get("context"));
        let answered = self.exchange(&outgoing).await?;
        let result: CompleteResult = answered.complete(method::COMPLETION_COMPLETE)?;
        Ok(result.completion)
    }

    /// Whether the server is there and answers. The earlier era only: in the modern one every request stands for itself, and
    /// [`Client::discover`] says as much.
    ///
    /// # Errors
    ///
    /// [`RequestError`]; [`RequestError::NotInThisEra`].
    pub async fn ping(&self) -> Result<(), RequestError> {
        let outgoing = self.earlier_only(Outgoing::new(method::PING)).await?;
        self.exchange(&outgoing).await.map(drop)
    }

    /// Says which log messages the host wants, if it [listens](crate::ClientBuilder::on_log): the session with `logging/setLevel`, and in
    /// the modern era with every request from now on. Deprecated since 2026-07-28, as logging is: read the server's stderr, or
    /// OpenTelemetry.
    ///
    /// # Errors
    ///
    /// [`RequestError`]. In the modern era nothing is sent.
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), RequestError> {
        self.inner.host.notices.set_log_level(level);
        match self.earlier_only(set_level(level)?).await {
            Ok(outgoing) => self.exchange(&outgoing).await.map(drop),
            Err(RequestError::NotInThisEra { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Tells a server of the earlier era that the host's folders are others now, if it has a session and may ask for them. A modern server
    /// asks when it needs to know, and is told nothing. Deprecated since 2026-07-28, as roots are: a new server takes folders as
    /// parameters, resource URIs or configuration.
    ///
    /// # Errors
    ///
    /// [`RequestError`].
    pub async fn roots_changed(&self) -> Result<(), RequestError> {
        match self.open_session_now() {
            Some(session) if session.has_roots() => {
                let body = notification(method::ROOTS_LIST_CHANGED, &JsonObject::empty())?;
                session.tell(body).await
            }
            _ => Ok(()),
        }
    }

    /// Ends what is open: in the earlier era over HTTP the session, with a DELETE; over stdio the child process, in the order that
    /// [`ServerProcess`](crate::ServerProcess) tells, and this returns when it has ended. Modern servers over HTTP have nothing to end.
    ///
    /// Calls that are open fail. A request after this opens another session or starts another process; so this is to be called last, once,
    /// by whoever holds the last clone. A client that is dropped without it leaves a session for the server to expire, and ends a child in
    /// the background.
    pub async fn close(&self) {
        match &self.inner.link {
            Link::Http(link) => {
                if let Some(session) = link.leave() {
                    session.close().await;
                }
            }
            Link::Pipe(link) => link.close().await,
        }
    }

    /// Makes sure that the server speaks the earlier era.
    async fn earlier_only<'a>(&self, outgoing: Outgoing<'a>) -> Result<Outgoing<'a>, RequestError> {
        let era = match self.era() {
            Some(era) => era,
            None => self.server().await?.era,
        };
        match era {
            Era::Earlier(_) => Ok(outgoing),
            Era::Modern => Err(RequestError::NotInThisEra {
                method: outgoing.method,
                era,
            }),
        }
    }

    fn open_session_now(&self) -> Option<Arc<Session>> {
        match &self.inner.link {
            Link::Http(link) => link.session(),
            Link::Pipe(link) => link.now()?.session(),
        }
    }

    /// The session that the last request was made in, or a new one.
    pub(crate) async fn any_session(&self) -> Result<Arc<Session>, RequestError> {
        match (&self.inner.link, self.open_session_now()) {
            (_, Some(session)) => Ok(session),
            (Link::Http(link), None) => self.session(link).await,
            (Link::Pipe(_), None) => Err(RequestError::SessionLost),
        }
    }
}

/// `logging/setLevel`.
pub(crate) fn set_level(level: LogLevel) -> Result<Outgoing<'static>, RequestError> {
    let SetLevelParams { level, .. } = SetLevelParams::new(level);
    Outgoing::new(method::LOGGING_SET_LEVEL).with("level", &level)
}
