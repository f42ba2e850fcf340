//! Standard input and output, or any other stream of lines in both directions: the connection, when it is opened anew, and the era that
//! is spoken on it (*stdio, Backward Compatibility*).

pub(crate) mod lines;
mod listen;
pub(crate) mod pipe;
mod reading;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mrtr_protocol::earlier::{EarlierRevision, InitializeResult};
use mrtr_protocol::object::read;
use mrtr_protocol::{DiscoverResult, REVISION, RequestId, method};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OnceCell;

use self::pipe::Pipe;
use crate::client::Client;
use crate::earlier::{Carrier, Session, TOLD_WITHIN, initialize_request, initialized};
use crate::era::{Era, EraChoice, Verdict, latest};
use crate::error::{ProtocolError, RequestError};
use crate::exchange::{Answered, Tally};
use crate::outgoing::{Meta, Outgoing};
use crate::process::ServerProcess;
use crate::transport::TransportError;

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Where connections come from.
pub(crate) enum Source {
    /// A child, which can be started again.
    Process(ServerProcess),
    /// Streams of the host's own, good for one connection.
    Once(Mutex<Option<(Reader, Writer)>>),
}

impl Source {
    pub(crate) fn once(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let streams: (Reader, Writer) = (Box::new(reader), Box::new(writer));
        Self::Once(Mutex::new(Some(streams)))
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(process) => process.fmt(f),
            Self::Once(_) => f.write_str("Once"),
        }
    }
}

/// The connection to a server, and how to get another.
#[derive(Debug)]
pub(crate) struct PipeLink {
    source: Source,
    choice: EraChoice,
    /// One at a time starts a process.
    starting: tokio::sync::Mutex<Starts>,
    now: Mutex<Option<Arc<Connection>>>,
}

/// How the last starts went.
#[derive(Debug, Default)]
struct Starts {
    /// How many processes in a row ended without a word.
    mute: u32,
    /// The era of the process before: what is tried first with the next.
    last: Option<Era>,
}

/// A connection and its era, which is found out with its first request.
#[derive(Debug)]
pub(crate) struct Connection {
    pipe: Pipe,
    /// The era of the process before.
    hint: Option<Era>,
    spoken: OnceCell<Spoken>,
}

/// What is spoken on a connection.
#[derive(Debug)]
enum Spoken {
    Modern,
    Earlier(Arc<Session>),
}

impl Connection {
    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        match self.spoken.get()? {
            Spoken::Modern => None,
            Spoken::Earlier(session) => Some(Arc::clone(session)),
        }
    }

    fn era(&self) -> Option<Era> {
        self.spoken.get().map(|spoken| match spoken {
            Spoken::Modern => Era::Modern,
            Spoken::Earlier(session) => Era::Earlier(session.revision()),
        })
    }
}

impl PipeLink {
    pub(crate) fn new(source: Source, choice: EraChoice) -> Self {
        Self {
            source,
            choice,
            starting: tokio::sync::Mutex::default(),
            now: Mutex::default(),
        }
    }

    /// The connection that is open, if one is.
    pub(crate) fn now(&self) -> Option<Arc<Connection>> {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.as_ref()
            .filter(|connection| !connection.pipe.is_closed())
            .cloned()
    }

    pub(crate) fn era(&self) -> Option<Era> {
        self.now()?.era()
    }

    fn replace(&self, connection: Option<Arc<Connection>>) -> Option<Arc<Connection>> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *now, connection)
    }

    /// Closes the connection, and waits until a child behind it has ended.
    pub(crate) async fn close(&self) {
        if let Some(connection) = self.replace(None) {
            connection.pipe.close().await;
        }
    }
}

/// How long a server may take to say that it knows `server/discover`, before it is taken for one of the earlier era.
const PROBE: Duration = Duration::from_secs(10);

impl Client {
    /// Sends a request over the connection, and opens one first if there is none.
    pub(crate) async fn over_stdio(
        &self,
        link: &PipeLink,
        outgoing: &Outgoing<'_>,
        tally: Option<&Tally>,
    ) -> Result<Answered, RequestError> {
        match self.over_this_one(link, outgoing, tally).await {
            // The process ended in this moment, before anything of the request was written. There will be another.
            Err(RequestError::NotSent(error)) if matches!(link.source, Source::Process(_)) => {
                tracing::debug!(%error, "the request is sent to a new process");
                self.over_this_one(link, outgoing, tally).await
            }
            other => other,
        }
    }

    async fn over_this_one(
        &self,
        link: &PipeLink,
        outgoing: &Outgoing<'_>,
        tally: Option<&Tally>,
    ) -> Result<Answered, RequestError> {
        let connection = self.connected(link).await?;
        match self.spoken(link, &connection).await? {
            Spoken::Modern => {
                let mut answered = self.on_the_pipe(&connection, outgoing, tally, true).await;
                // The server changed its mind about a version that it had said it speaks.
                if let Err(RequestError::Rpc(error)) = &answered
                    && Verdict::of_modern_error(error) == Some(Verdict::Again)
                {
                    answered = self.on_the_pipe(&connection, outgoing, tally, true).await;
                }
                answered.map(Answered::modern)
            }
            Spoken::Earlier(session) => {
                session.allows(outgoing)?;
                self.on_the_pipe(&connection, outgoing, tally, false)
                    .await
                    .map(Answered::earlier)
            }
        }
    }

    /// The connection that is open, or a new one.
    pub(crate) async fn connected(&self, link: &PipeLink) -> Result<Arc<Connection>, RequestError> {
        if let Some(connection) = link.now() {
            return Ok(connection);
        }
        let mut starts = link.starting.lock().await;
        if let Some(connection) = link.now() {
            return Ok(connection);
        }
        if let Some(before) = link.replace(None) {
            starts.last = before.era().or(starts.last);
            starts.mute = match before.pipe.spoke() {
                true => 0,
                false => starts.mute.saturating_add(1),
            };
        }
        let host = &self.inner.host;
        let not_sent = |error: std::io::Error| RequestError::from(TransportError::not_sent(error));
        let pipe = match &link.source {
            Source::Process(process) => {
                if starts.mute > 0 {
                    tokio::time::sleep(pause(starts.mute)).await;
                }
                let started = process.start().map_err(not_sent)?;
                Pipe::open(host, started.stdout, started.stdin, Some(started.running))
            }
            Source::Once(streams) => {
                let streams = streams
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
                let gone =
                    || std::io::Error::other("the connection is closed, and there is no other");
                let (reader, writer) = streams.ok_or_else(|| not_sent(gone()))?;
                Pipe::open(host, reader, writer, None)
            }
        };
        let connection = Arc::new(Connection {
            pipe,
            hint: starts.last,
            spoken: OnceCell::new(),
        });
        link.replace(Some(Arc::clone(&connection)));
        Ok(connection)
    }

    /// What the server speaks. Several callers find it out together; nothing of theirs is sent before.
    async fn spoken<'c>(
        &self,
        link: &PipeLink,
        connection: &'c Connection,
    ) -> Result<&'c Spoken, RequestError> {
        connection
            .spoken
            .get_or_try_init(|| async {
                let patience = self.patience();
                let finding = self.find_out(link, connection);
                patience
                    .wait_for(finding)
                    .await
                    .unwrap_or_else(|after| Err(RequestError::TimedOut { after }))
                    .map_err(|error| RequestError::Handshake(Box::new(error)))
            })
            .await
    }

    async fn find_out(
        &self,
        link: &PipeLink,
        connection: &Connection,
    ) -> Result<Spoken, RequestError> {
        let propose = match (link.choice, connection.hint) {
            (EraChoice::Earlier, _) => EarlierRevision::LATEST,
            (EraChoice::Auto, Some(Era::Earlier(revision))) => {
                // A server that was silent about `server/discover` would be so again.
                match self.handshake(connection, revision, None).await {
                    Err(RequestError::Rpc(_)) => return self.probe(link, connection).await,
                    other => return other,
                }
            }
            _ => return self.probe(link, connection).await,
        };
        self.handshake(connection, propose, None).await
    }

    /// Asks for what only a modern server knows. A client of the modern era alone does so too: other servers might take a call of its for
    /// one of their own.
    async fn probe(
        &self,
        link: &PipeLink,
        connection: &Connection,
    ) -> Result<Spoken, RequestError> {
        let host = &self.inner.host;
        let id = host.next_id();
        let meta = Meta {
            fields: Some(&host.meta),
            ..Meta::default()
        };
        let body = Outgoing::new(method::DISCOVER).modern(&id, &meta)?;
        let mut answer = connection.pipe.send(&id, body).await?;
        let only_modern = link.choice == EraChoice::Modern;
        let answered = match only_modern {
            true => Ok((&mut answer).await),
            false => tokio::time::timeout(self.probe_time(), &mut answer).await,
        };
        let refused = match answered {
            Ok(Ok(Ok(result))) => match verdict_of(&result) {
                Some(Verdict::Earlier(revision)) if !only_modern => {
                    return self.handshake(connection, revision, None).await;
                }
                Some(Verdict::Modern) => return Ok(Spoken::Modern),
                Some(_) => return Err(no_common_version(&result)),
                None => RequestError::from(ProtocolError::Result {
                    method: method::DISCOVER,
                }),
            },
            Ok(Ok(Err(RequestError::Rpc(error)))) => match Verdict::of_modern_error(&error) {
                Some(Verdict::Again) => return Ok(Spoken::Modern),
                Some(Verdict::Earlier(revision)) if !only_modern => {
                    return self.handshake(connection, revision, None).await;
                }
                // It is modern, and what it says is for the caller to know.
                Some(_) => return Err(error.into()),
                None => error.into(),
            },
            Ok(Ok(Err(error @ RequestError::Interrupted(_)))) => return Err(error),
            Ok(Ok(Err(error))) => error,
            // The connection is gone: no server of any era.
            Ok(Err(_)) => return Err(pipe::broken()),
            // Silence. It may be slow to start: whatever it answers first counts.
            Err(_) => {
                tracing::debug!("the server is silent about server/discover");
                return self
                    .handshake(connection, EarlierRevision::LATEST, Some(answer))
                    .await;
            }
        };
        if only_modern {
            return Err(refused);
        }
        tracing::debug!(%refused, "the server does not speak the modern era");
        self.handshake(connection, EarlierRevision::LATEST, None)
            .await
    }

    /// A third of a request's time at most, so that there is time for the handshake.
    fn probe_time(&self) -> Duration {
        let third = self.options.request_timeout.map(|timeout| timeout / 3);
        third.map_or(PROBE, |third| third.min(PROBE))
    }

    /// `initialize`, and `notifications/initialized` once the versions agree. `late`: where an answer to the probe would still arrive.
    async fn handshake(
        &self,
        connection: &Connection,
        propose: EarlierRevision,
        late: Option<tokio::sync::oneshot::Receiver<Result<Box<RawValue>, RequestError>>>,
    ) -> Result<Spoken, RequestError> {
        let host = &self.inner.host;
        let id = host.next_id();
        let body = initialize_request(host, &id, propose)?;
        let initialize = connection.pipe.request(&id, body, false);
        let modern_after_all = async {
            let answered = match late {
                Some(late) => late.await,
                None => std::future::pending().await,
            };
            match answered {
                Ok(Ok(result)) if verdict_of(&result) == Some(Verdict::Modern) => {}
                _ => std::future::pending().await,
            }
        };
        let result = tokio::select! {
            biased;
            () = modern_after_all => return Ok(Spoken::Modern),
            result = initialize => result?,
        };
        let server: InitializeResult = read(&result).map_err(|_| ProtocolError::Result {
            method: method::INITIALIZE,
        })?;
        let Some(revision) = server.revision() else {
            let offered = server.protocol_version;
            return Err(ProtocolError::Revision { offered }.into());
        };
        let carrier = Carrier::Pipe(Arc::clone(connection.pipe.shared()));
        let session = Arc::new(Session::new(host, revision, server, carrier));
        session.begin_on(connection.pipe.shared());
        session.tell(initialized()?).await?;
        tracing::debug!(%revision, "a session is open");
        self.opened_on_the_pipe(connection, &session).await;
        Ok(Spoken::Earlier(session))
    }

    /// Says which log messages are wanted. It is not worth failing for.
    async fn opened_on_the_pipe(&self, connection: &Connection, session: &Session) {
        if let Some(outgoing) = session.wanted_log_level()
            && let Err(error) = self
                .with_timeout(TOLD_WITHIN)
                .on_the_pipe(connection, &outgoing, None, false)
                .await
        {
            tracing::warn!(%error, "the server was not told which log messages are wanted");
        }
    }

    /// Sends a request in the session of this connection, if it is the one that is meant.
    pub(crate) async fn in_this_session(
        &self,
        link: &PipeLink,
        session: &Session,
        outgoing: &Outgoing<'_>,
    ) -> Result<(), RequestError> {
        match link.now() {
            Some(connection) if !session.is_over() => self
                .on_the_pipe(&connection, outgoing, None, false)
                .await
                .map(drop),
            _ => Err(RequestError::SessionLost),
        }
    }

    /// Sends a request in the one era or the other, and waits for its answer.
    async fn on_the_pipe(
        &self,
        connection: &Connection,
        outgoing: &Outgoing<'_>,
        tally: Option<&Tally>,
        modern: bool,
    ) -> Result<Box<RawValue>, RequestError> {
        let host = &self.inner.host;
        let id: RequestId = host.next_id();
        let ticket = self.ticket(&id, outgoing);
        let mut meta = Meta {
            progress: ticket.token(),
            more: Some(&self.options.meta),
            ..Meta::default()
        };
        let body = if modern {
            meta.fields = Some(&host.meta);
            meta.log_level = host.notices.log_level();
            outgoing.modern(&id, &meta)?
        } else {
            outgoing.earlier(&id, &meta)?
        };
        tracing::debug!(method = outgoing.method, %id, "request on a pipe");
        let result = ticket
            .wait_for(connection.pipe.request(&id, body, true))
            .await?;
        if let Some(tally) = tally {
            tally.take(result.get().len())?;
        }
        Ok(result)
    }
}

/// What a result of `server/discover` says; `None` when it is none.
fn verdict_of(result: &RawValue) -> Option<Verdict> {
    let found: DiscoverResult = read(result).ok()?;
    if found
        .supported_versions
        .iter()
        .any(|version| version == REVISION)
    {
        return Some(Verdict::Modern);
    }
    Some(latest(&found.supported_versions).map_or(Verdict::Unknown, Verdict::Earlier))
}

fn no_common_version(result: &RawValue) -> RequestError {
    let versions = read::<DiscoverResult>(result).map(|found| found.supported_versions.join(", "));
    ProtocolError::Revision {
        offered: versions.unwrap_or_default(),
    }
    .into()
}

/// The pause before a server is started again that ended without a word: from 100 ms, doubled up to 5 s.
fn pause(mute: u32) -> Duration {
    let doubled = 100_u64.saturating_mul(1 << mute.saturating_sub(1).min(6));
    Duration::from_millis(doubled.min(5_000))
}
