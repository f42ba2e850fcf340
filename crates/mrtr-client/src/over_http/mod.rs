//! Streamable HTTP: the endpoint, what it speaks, and what both eras share in reading a response.

mod listen;
mod modern;

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use http::{Method, StatusCode, Uri, header};
use mrtr_protocol::earlier::EarlierRevision;
use mrtr_protocol::{ErrorObject, Members, RequestId, Response, code};
use serde_json::value::RawValue;

use crate::client::Client;
use crate::credentials::{
    Again, Challenge, Credentials, CredentialsError, MAX_CHALLENGES, Sending,
};
use crate::earlier::{Session, TOLD_WITHIN};
use crate::era::{Era, EraChoice, Verdict};
use crate::error::{ProtocolError, RequestError, RpcError};
use crate::exchange::{Answered, Tally};
use crate::listen::Change;
use crate::outgoing::Outgoing;
use crate::patience::Thinking;
use crate::transport::{ResponseBody, Transport, TransportError};

/// Where requests go, and how.
pub(crate) struct Endpoint {
    pub(crate) uri: Uri,
    pub(crate) credentials: Option<Arc<dyn Credentials>>,
    pub(crate) transport: Arc<dyn Transport>,
    /// Whoever logs in takes their time.
    pub(crate) thinking: Arc<Thinking>,
}

impl Endpoint {
    /// A request with what every one has.
    pub(crate) fn request(&self, method: Method) -> http::request::Builder {
        let mut request = http::Request::builder()
            .method(method)
            .uri(self.uri.clone());
        if let Some(authority) = self.uri.authority() {
            request = request.header(header::HOST, authority.as_str());
        }
        request
    }

    /// A message for the server.
    pub(crate) fn post(&self) -> http::request::Builder {
        self.request(Method::POST)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream")
    }

    pub(crate) async fn send(
        &self,
        request: http::request::Builder,
        body: impl Into<Bytes>,
    ) -> Result<http::Response<ResponseBody>, RequestError> {
        let request = request
            .body(body.into())
            .map_err(|error| RequestError::Unwritable(error.to_string()))?;
        match &self.credentials {
            None => Ok(self.transport.send(request).await?),
            Some(credentials) => self.send_with(&**credentials, request).await,
        }
    }

    /// Sends a request with credentials, and once more after a refusal where they say so: 401 and 403 say that nothing was done with it.
    async fn send_with(
        &self,
        credentials: &dyn Credentials,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<ResponseBody>, RequestError> {
        let mut nth = 0;
        loop {
            let mut request = request.clone();
            let (method, uri) = (request.method().clone(), request.uri().clone());
            let sending = Sending {
                method: &method,
                uri: &uri,
            };
            let used = self.unhurried(credentials.authorize(sending)).await?;
            if let Some(used) = &used {
                used.put_into(request.headers_mut());
            }
            let response = self.transport.send(request).await?;
            let status = response.status();
            if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
                || nth == MAX_CHALLENGES
            {
                return Ok(response);
            }
            nth += 1;
            let challenge = Challenge {
                sending,
                used: used.as_ref(),
                status,
                headers: response.headers(),
                nth,
            };
            match self.unhurried(credentials.challenged(challenge)).await? {
                Again::Send => tracing::debug!(%status, nth, "a refused request is sent again"),
                Again::Stop => return Ok(response),
            }
        }
    }

    /// Waits for credentials, and does not count the time: somebody may be logging in. What is there at once costs nothing.
    async fn unhurried<T>(
        &self,
        credentials: impl Future<Output = Result<T, CredentialsError>>,
    ) -> Result<T, RequestError> {
        let mut credentials = pin!(credentials);
        let mut thought = None;
        let given = poll_fn(|context| {
            let given = credentials.as_mut().poll(context);
            if given.is_pending() && thought.is_none() {
                thought = Some(self.thinking.begin());
            }
            given
        });
        Ok(given.await?)
    }
}

/// Never prints the token.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("authorized", &self.credentials.is_some())
            .finish_non_exhaustive()
    }
}

impl From<TransportError> for RequestError {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::NotSent(_) => Self::NotSent(error),
            TransportError::Interrupted(_) => Self::Interrupted(error),
        }
    }
}

/// An endpoint and what is known of its server.
#[derive(Debug)]
pub(crate) struct HttpLink {
    pub(crate) endpoint: Arc<Endpoint>,
    choice: EraChoice,
    known: Mutex<Known>,
    /// One at a time opens a session.
    opening: tokio::sync::Mutex<()>,
}

/// What the server speaks: a property of the server, so it is remembered.
#[derive(Debug, Clone)]
enum Known {
    Nothing,
    Modern,
    /// No session is open; the next request opens one.
    Earlier,
    InSession(Arc<Session>),
}

impl HttpLink {
    pub(crate) fn new(endpoint: Endpoint, choice: EraChoice) -> Self {
        let known = match choice {
            EraChoice::Auto => Known::Nothing,
            EraChoice::Modern => Known::Modern,
            EraChoice::Earlier => Known::Earlier,
        };
        Self {
            endpoint: Arc::new(endpoint),
            choice,
            known: Mutex::new(known),
            opening: tokio::sync::Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_earlier(&self) -> bool {
        matches!(*self.known(), Known::Earlier | Known::InSession(_))
    }

    fn is_modern(&self) -> bool {
        matches!(*self.known(), Known::Modern)
    }

    fn remember(&self, known: Known) {
        *self.known() = known;
    }

    /// The session that is open, if one is.
    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        match &*self.known() {
            Known::InSession(session) if !session.is_over() => Some(Arc::clone(session)),
            _ => None,
        }
    }

    /// What is known of the server's era.
    pub(crate) fn era(&self) -> Option<Era> {
        match &*self.known() {
            Known::Nothing | Known::Earlier => None,
            Known::Modern => Some(Era::Modern),
            Known::InSession(session) => Some(Era::Earlier(session.revision())),
        }
    }

    /// Forgets the session, so that the next request opens another.
    pub(crate) fn leave(&self) -> Option<Arc<Session>> {
        let mut known = self.known();
        match std::mem::replace(&mut *known, Known::Earlier) {
            Known::InSession(session) => Some(session),
            other => {
                *known = other;
                None
            }
        }
    }
}

impl Client {
    /// Sends a request in the era that the server speaks, and finds out which that is on the way (*Streamable HTTP, Backward
    /// Compatibility*).
    pub(crate) async fn over_http(
        &self,
        link: &HttpLink,
        outgoing: &Outgoing<'_>,
        tally: Option<&Tally>,
    ) -> Result<Answered, RequestError> {
        let mut error = None;
        if link.is_earlier() {
            match self.in_session(link, outgoing, tally).await {
                // A server that was replaced by a modern one; nothing but the handshake was refused.
                Err(RequestError::Handshake(refused))
                    if link.choice == EraChoice::Auto && is_refusal(&refused) =>
                {
                    link.remember(Known::Nothing);
                    error = Some(RequestError::Handshake(refused));
                }
                other => return other,
            }
        }
        let known = link.is_modern();
        let failed = match self.modern_over_http(link, outgoing, tally).await {
            Ok(result) => {
                if !known && says_that_it_is_modern(&result) {
                    link.remember(Known::Modern);
                }
                return Ok(Answered::modern(result));
            }
            Err(failed) => failed,
        };
        match Verdict::over_http(&failed, outgoing, known) {
            Verdict::Modern => {
                link.remember(Known::Modern);
                Err(failed)
            }
            Verdict::Again => {
                link.remember(Known::Modern);
                let result = self.modern_over_http(link, outgoing, tally).await?;
                Ok(Answered::modern(result))
            }
            Verdict::Earlier(revision) if link.choice == EraChoice::Auto && error.is_none() => {
                tracing::debug!(%revision, "the server does not speak the modern era");
                match self.open_session(link, revision).await {
                    Ok(_) => self.in_session(link, outgoing, tally).await,
                    Err(refused) => Err(self.neither(link, failed, refused)),
                }
            }
            Verdict::Earlier(_) | Verdict::Unknown => Err(error.unwrap_or(failed)),
        }
    }

    /// The server took neither a modern request nor `initialize`: which of the two says more.
    fn neither(
        &self,
        link: &HttpLink,
        modern: RequestError,
        earlier: RequestError,
    ) -> RequestError {
        let RequestError::Handshake(refused) = &earlier else {
            return earlier;
        };
        match &**refused {
            RequestError::Rpc(error) if Verdict::of_modern_error(error).is_some() => {
                link.remember(Known::Modern);
                modern
            }
            RequestError::Rpc(error) if error.error.code == code::METHOD_NOT_FOUND => modern,
            RequestError::Http { .. } => modern,
            _ => earlier,
        }
    }

    /// The session to send in: the one that is open, or a new one. Several callers open one together.
    pub(crate) async fn session(&self, link: &HttpLink) -> Result<Arc<Session>, RequestError> {
        match link.session() {
            Some(session) => Ok(session),
            None => self.open_session(link, EarlierRevision::LATEST).await,
        }
    }

    async fn open_session(
        &self,
        link: &HttpLink,
        propose: EarlierRevision,
    ) -> Result<Arc<Session>, RequestError> {
        let _one = link.opening.lock().await;
        if let Some(session) = link.session() {
            return Ok(session);
        }
        let opening = Session::over_http(&self.inner.host, &link.endpoint, propose);
        let opened = self
            .patience()
            .wait_for(opening)
            .await
            .unwrap_or_else(|after| Err(RequestError::TimedOut { after }));
        let session = Arc::new(opened.map_err(|error| RequestError::Handshake(Box::new(error)))?);
        if let Some(cache) = &self.inner.host.cache {
            // What a modern server said at this place is not what this one says.
            cache.changed(&Change::Missed);
        }
        link.remember(Known::InSession(Arc::clone(&session)));
        self.opened(&session).await;
        Ok(session)
    }

    /// What a new session begins with, where the host wants to hear or to be asked. None of it is worth failing for.
    async fn opened(&self, session: &Session) {
        if let Some(outgoing) = session.wanted_log_level()
            && let Err(error) = self
                .with_timeout(TOLD_WITHIN)
                .call_in(session, &outgoing, None)
                .await
        {
            tracing::warn!(%error, "the server was not told which log messages are wanted");
        }
        if session.may_be_asked() || self.inner.host.notices.log_level().is_some() {
            session.hear_the_unasked().await;
        }
    }
}

/// Whether the server said no, as opposed to saying nothing.
fn is_refusal(error: &RequestError) -> bool {
    match error {
        RequestError::Rpc(_) => true,
        RequestError::Http { status } => status.is_client_error(),
        _ => false,
    }
}

/// A modern server says what kind of result it is; one of the earlier era may have taken the request for one of its own.
fn says_that_it_is_modern(result: &RawValue) -> bool {
    Members::parse(result).is_ok_and(|members| members.get("resultType").is_some())
}

/// The media type without parameters, in lower case.
pub(crate) fn essence(response: &http::response::Parts) -> Option<String> {
    let value = response.headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let essence = value.split(';').next().unwrap_or_default().trim();
    Some(essence.to_ascii_lowercase())
}

/// Reads a whole body, up to the limit.
pub(crate) async fn read_whole(
    body: &mut ResponseBody,
    tally: &Tally,
) -> Result<Bytes, RequestError> {
    let mut whole = BytesMut::new();
    while let Some(chunk) = body.chunk().await? {
        tally.take(chunk.len())?;
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.freeze())
}

/// What the response says to the request of this id.
pub(crate) fn outcome(
    id: &RequestId,
    response: Response<'_>,
    status: StatusCode,
) -> Result<Box<RawValue>, RequestError> {
    // An error without an id answers the only request of this exchange: the server could not read it.
    if response.id.is_some_and(|own| own != *id) {
        return Err(ProtocolError::OtherId.into());
    }
    match response.outcome {
        Ok(result) if status.is_success() => Ok(result.to_owned()),
        Ok(_) => Err(RequestError::Http { status }),
        Err(error) => Err(rpc(status, error)),
    }
}

pub(crate) fn rpc(status: StatusCode, error: ErrorObject) -> RequestError {
    RequestError::Rpc(RpcError { status, error })
}
