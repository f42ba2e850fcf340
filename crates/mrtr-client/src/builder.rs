//! Building a client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use mrtr_protocol::meta::ClientMeta;
use mrtr_protocol::{Implementation, LogLevel, REVISION, RawObject};
use serde_json::value::to_raw_value;

use crate::cache::{Cache, CacheLimits};
use crate::client::{Client, Inner, Link, Options};
use crate::credentials::{Credentials, Fixed};
use crate::earlier::own_name;
use crate::era::EraChoice;
use crate::handler::{FormHandler, Handlers};
use crate::host::{Host, Limits};
use crate::notices::{LogListener, LogMessage, Notices, ProgressListener, ProgressReport};
use crate::over_http::{Endpoint, HttpLink};
use crate::over_stdio::{PipeLink, Source};
use crate::page::UrlHandler;
use crate::patience::Thinking;
use crate::roots::RootsHandler;
use crate::sampling::SamplingHandler;
use crate::transport::{HttpTransport, Transport, TransportError};

/// Where the server is.
enum Way {
    Http(String),
    /// The host's name for it, and its streams.
    Lines(String, Source),
}

/// What requests are sent with.
enum Authorized {
    Not,
    Bearer(String),
    By(Arc<dyn Credentials>),
}

impl Authorized {
    fn is_not(&self) -> bool {
        matches!(self, Self::Not)
    }

    fn credentials(self) -> Result<Option<Arc<dyn Credentials>>, BuildError> {
        Ok(match self {
            Self::Not => None,
            Self::Bearer(token) => Some(Arc::new(
                Fixed::bearer(&token).map_err(|_| BuildError::Token)?,
            )),
            Self::By(credentials) => Some(credentials),
        })
    }
}

/// Collects what a [`Client`] needs.
#[must_use]
pub struct ClientBuilder {
    way: Way,
    label: Option<String>,
    authorized: Authorized,
    client_info: Option<Implementation>,
    handlers: Handlers,
    era: EraChoice,
    on_progress: Option<ProgressListener>,
    on_log: Option<(LogLevel, LogListener)>,
    request_timeout: Option<Duration>,
    limits: Limits,
    cache: Option<CacheLimits>,
    transport: Option<Arc<dyn Transport>>,
}

impl ClientBuilder {
    /// How many rounds a call is carried through by default. A person answers two or three; ten leaves room for a wizard.
    pub const MAX_ROUNDS: u32 = 10;
    /// How many questions one round may have by default. All of them are put at the same time, and nobody answers more at once.
    pub const MAX_QUESTIONS: usize = 32;
    /// How long one request may take by default. The time that a person thinks is never counted.
    pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);
    /// How long one request may take by default however much progress the server reports.
    pub const MAX_REQUEST_TIME: Duration = Duration::from_secs(60 * 60);
    /// How large one answer, or one event of a stream, may be by default: room for an image in base64.
    pub const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;

    pub(crate) fn new(url: String) -> Self {
        Self::to(Way::Http(url))
    }

    pub(crate) fn over_lines(name: String, source: Source) -> Self {
        Self::to(Way::Lines(name, source))
    }

    fn to(way: Way) -> Self {
        Self {
            way,
            label: None,
            authorized: Authorized::Not,
            client_info: Some(own_name()),
            handlers: Handlers::default(),
            era: EraChoice::Auto,
            on_progress: None,
            on_log: None,
            request_timeout: Some(Self::REQUEST_TIMEOUT),
            limits: Limits {
                max_rounds: Some(Self::MAX_ROUNDS),
                max_questions: Some(Self::MAX_QUESTIONS),
                max_request_time: Some(Self::MAX_REQUEST_TIME),
                max_response_bytes: Self::MAX_RESPONSE_BYTES,
            },
            cache: Some(CacheLimits::default()),
            transport: None,
        }
    }

    /// The host's own name for the server, which handlers show to the person who is asked.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Sends `Authorization: Bearer` with this token. It is in no Debug, log or error. It replaces [`credentials`](Self::credentials).
    pub fn bearer(mut self, token: impl Into<String>) -> Self {
        self.authorized = Authorized::Bearer(token.into());
        self
    }

    /// Asks these credentials for the `Authorization` of each request, and tells them of 401 and 403. They replace a
    /// [`bearer`](Self::bearer) token.
    pub fn credentials(mut self, credentials: impl Credentials) -> Self {
        self.authorized = Authorized::By(Arc::new(credentials));
        self
    }

    /// Which eras the client speaks: [`EraChoice::Auto`] by default.
    pub fn era(mut self, era: EraChoice) -> Self {
        self.era = era;
        self
    }

    /// Who is asking; `None` sends no `clientInfo`. The default names this crate, and so does `None` in the earlier era, which demands a name.
    pub fn client_info(mut self, info: impl Into<Option<Implementation>>) -> Self {
        self.client_info = info.into();
        self
    }

    /// Puts forms to this handler, and declares `elicitation.form`.
    pub fn on_form(mut self, handler: impl FormHandler) -> Self {
        self.handlers.form = Some(Arc::new(handler));
        self
    }

    /// Puts pages to this handler, and declares `elicitation.url`.
    pub fn on_url(mut self, handler: impl UrlHandler) -> Self {
        self.handlers.url = Some(Arc::new(handler));
        self
    }

    /// Puts questions for a model to this handler, and declares `sampling`. Deprecated since 2026-07-28: a new server calls a model
    /// provider itself.
    pub fn on_sampling(mut self, handler: impl SamplingHandler) -> Self {
        self.handlers.sampling = Some(Arc::new(handler));
        self
    }

    /// Says that the sampling handler lets a model use the tools that a question brings, and declares `sampling.tools`. Without a sampling
    /// handler it declares nothing. Deprecated since 2026-07-28: a new server calls a model provider itself.
    pub fn with_sampling_tools(mut self) -> Self {
        self.handlers.sampling_tools = true;
        self
    }

    /// Asks this handler for the host's folders, and declares `roots`. Deprecated since 2026-07-28: a new server takes folders as
    /// parameters, resource URIs or configuration.
    pub fn on_roots(mut self, handler: impl RootsHandler) -> Self {
        self.handlers.roots = Some(Arc::new(handler));
        self
    }

    /// Hears how far requests have come, of those that the server reports it for: every request asks it to. At most 100 reports of a request
    /// are passed on a second. The listener is called where the message is read, so it must return soon.
    ///
    /// Progress lets a request take longer than [`request_timeout`](Self::request_timeout), up to
    /// [`max_request_time`](Self::max_request_time). [`Client::with_progress`] listens to some requests only.
    pub fn on_progress(
        mut self,
        listener: impl Fn(ProgressReport) + Send + Sync + 'static,
    ) -> Self {
        self.on_progress = Some(Arc::new(listener));
        self
    }

    /// Hears log messages of this level and above: every request, or in the earlier era the session, asks for them. At most 100 are passed
    /// on a second. The listener is called where the message is read, so it must return soon.
    ///
    /// Deprecated since 2026-07-28, as logging is: read the server's stderr, or OpenTelemetry.
    pub fn on_log(
        mut self,
        level: LogLevel,
        listener: impl Fn(LogMessage) + Send + Sync + 'static,
    ) -> Self {
        self.on_log = Some((level, Arc::new(listener)));
        self
    }

    /// How many rounds a call goes along with, [`ClientBuilder::MAX_ROUNDS`] by default; `None` for as many as the server
    /// likes. With a limit of 3 a call makes at most 4 requests. A server of the earlier era may put as many questions during a call as so
    /// many rounds could hold.
    pub fn max_rounds(mut self, rounds: impl Into<Option<u32>>) -> Self {
        self.limits.max_rounds = rounds.into();
        self
    }

    /// How many questions one round may have, [`ClientBuilder::MAX_QUESTIONS`] by default; `None` for as many as the server likes. With one
    /// more, none of them is asked. A call that is carried on by hand is not counted: its host sees how many there are.
    pub fn max_questions(mut self, questions: impl Into<Option<usize>>) -> Self {
        self.limits.max_questions = questions.into();
        self
    }

    /// How long one request may take from sending to the last byte that matters, [`ClientBuilder::REQUEST_TIMEOUT`] by default; `None`
    /// for no limit. Not counted is the time in which a server of the earlier era has a question in front of somebody; progress begins it
    /// anew. [`max_request_time`](Self::max_request_time) holds besides. [`Client::with_timeout`] sets another for some requests.
    pub fn request_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.request_timeout = timeout.into();
        self
    }

    /// How long one request may take however much progress is reported, [`ClientBuilder::MAX_REQUEST_TIME`] by default; `None` for no limit.
    /// Somebody's thinking is not counted here either.
    pub fn max_request_time(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.limits.max_request_time = time.into();
        self
    }

    /// How many bytes one answer may have, or all pages of a list together, [`ClientBuilder::MAX_RESPONSE_BYTES`] by default.
    pub fn max_response_bytes(mut self, limit: usize) -> Self {
        self.limits.max_response_bytes = limit;
        self
    }

    /// How much is kept of results that the server says may be used again: [`CacheLimits::default`] by default, because a server that says
    /// so expects not to be asked, and one that does not is asked each time. [`Client::fresh`] asks in any case.
    pub fn cache(mut self, limits: CacheLimits) -> Self {
        self.cache = Some(limits);
        self
    }

    /// Keeps no result: the server is asked each time.
    pub fn without_cache(mut self) -> Self {
        self.cache = None;
        self
    }

    /// Another transport than [`HttpTransport`].
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// Builds the client. Nothing is sent.
    ///
    /// # Errors
    ///
    /// [`BuildError`].
    pub fn build(self) -> Result<Client, BuildError> {
        let capabilities = self.handlers.kinds().to_capabilities();
        let meta = ClientMeta {
            client_info: self.client_info.as_ref(),
            ..ClientMeta::new(REVISION, &capabilities)
        };
        let meta = to_raw_value(&meta).map_err(|_| BuildError::ClientInfo)?;
        let meta: RawObject =
            serde_json::from_str(meta.get()).map_err(|_| BuildError::ClientInfo)?;
        let thinking = Thinking::new();
        let (name, link) = match self.way {
            Way::Http(url) => {
                let credentials = self.authorized.credentials()?;
                let endpoint = endpoint(&url, credentials, self.transport, &thinking)?;
                (url, Link::Http(HttpLink::new(endpoint, self.era)))
            }
            Way::Lines(_, _) if !self.authorized.is_not() || self.transport.is_some() => {
                return Err(BuildError::OnlyOverHttp);
            }
            Way::Lines(name, _) if name.is_empty() => return Err(BuildError::Name),
            Way::Lines(name, source) => (
                format!("stdio:{name}"),
                Link::Pipe(PipeLink::new(source, self.era)),
            ),
        };
        let host = Host::new(
            name,
            self.label,
            self.client_info,
            meta,
            self.handlers,
            self.limits,
            Notices::new(self.on_log),
            self.cache.map(Cache::new),
            thinking,
        );
        let inner = Inner::new(host, link);
        let options = Options {
            request_timeout: self.request_timeout,
            on_progress: self.on_progress,
            meta: RawObject::new(),
            fresh: false,
        };
        Ok(Client::of(inner, options))
    }
}

/// Checks the URL before anything is sent there.
fn endpoint(
    url: &str,
    credentials: Option<Arc<dyn Credentials>>,
    transport: Option<Arc<dyn Transport>>,
    thinking: &Arc<Thinking>,
) -> Result<Endpoint, BuildError> {
    let uri: Uri = url.parse().map_err(|_| BuildError::Url)?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(BuildError::Url);
    }
    if uri
        .authority()
        .is_none_or(|authority| authority.as_str().contains('@'))
    {
        return Err(BuildError::UserInfo);
    }
    let transport = match transport {
        Some(transport) => transport,
        None => Arc::new(HttpTransport::new().map_err(BuildError::Transport)?),
    };
    Ok(Endpoint {
        uri,
        credentials,
        transport,
        thinking: Arc::clone(thinking),
    })
}

/// Never prints the token.
impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("handlers", &self.handlers)
            .field("era", &self.era)
            .field("authorized", &!self.authorized.is_not())
            .finish_non_exhaustive()
    }
}

/// Why a client cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Not an absolute http or https URL.
    #[error("the server's URL must be absolute, with http or https")]
    Url,
    /// A user name or password in the URL, from where it would get into logs.
    #[error(
        "the server's URL must have a host and no user name or password; use `bearer` for a token"
    )]
    UserInfo,
    /// A token that no header can carry.
    #[error("the bearer token holds characters that no header can carry")]
    Token,
    /// A `clientInfo` that does not serialize.
    #[error("the client info cannot be written as JSON")]
    ClientInfo,
    /// Credentials or a transport for a server that is not reached over HTTP. Give a child process its secrets in its environment.
    #[error(
        "`bearer`, `credentials` and `transport` are for servers over HTTP; a child process takes secrets from its environment"
    )]
    OnlyOverHttp,
    /// A server over stdio without a name.
    #[error("a server over stdio needs a name of the host's own")]
    Name,
    /// The transport does not start.
    #[error("the HTTP transport does not start: {0}")]
    Transport(#[source] TransportError),
}
