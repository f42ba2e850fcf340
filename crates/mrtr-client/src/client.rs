//! Building a client, and the requests of one round: discovery and the lists.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderValue, Uri};
use mrtr_protocol::meta::ClientMeta;
use mrtr_protocol::object::read;
use mrtr_protocol::{
    DiscoverResult, Implementation, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, ParamHeaders, Prompt, REVISION, RequestId, Resource,
    ResourceTemplate, ResultType, Tool, method,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use crate::error::{ProtocolError, RequestError};
use crate::handler::{FormHandler, Handlers};
use crate::page::UrlHandler;
use crate::roots::RootsHandler;
use crate::sampling::SamplingHandler;
use crate::transport::{HttpTransport, Transport, TransportError};

/// A client of one server. Cloning is cheap, and clones share ids, handlers and connections.
///
/// Every request carries the protocol version, who is asking, and the capabilities that follow from the handlers. There is no connection
/// and no session to open: the first request is the first thing that is sent.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    /// As the host wrote it.
    pub(crate) url: String,
    pub(crate) uri: Uri,
    pub(crate) label: Option<String>,
    pub(crate) authorization: Option<HeaderValue>,
    /// `_meta` of every request, written once.
    pub(crate) meta: Box<RawValue>,
    pub(crate) handlers: Handlers,
    pub(crate) max_rounds: Option<u32>,
    pub(crate) max_questions: Option<usize>,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) max_response_bytes: usize,
    pub(crate) transport: Arc<dyn Transport>,
    ids: AtomicI64,
    /// What the last list said about arguments in headers, for the tools that want any.
    param_headers: Mutex<HashMap<String, Arc<ParamHeaders>>>,
}

/// Params of a request that carries only `_meta`.
#[derive(Serialize)]
struct MetaParams<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
    #[serde(rename = "_meta")]
    meta: &'a RawValue,
}

impl Client {
    /// More pages than this are taken for a list without end.
    const MAX_PAGES: usize = 100;

    /// Begins to build a client for the MCP endpoint at `url`.
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(url.into())
    }

    /// `server/discover`: versions, capabilities, identity. Calling it is optional.
    ///
    /// # Errors
    ///
    /// [`RequestError`].
    pub async fn discover(&self) -> Result<DiscoverResult, RequestError> {
        let params = MetaParams {
            cursor: None,
            meta: &self.inner.meta,
        };
        let result = self.exchange(method::DISCOVER, Vec::new(), &params).await?;
        complete(method::DISCOVER, &result)
    }

    /// `tools/list`, all pages of it, in the server's order.
    ///
    /// A tool whose `x-mcp-header` annotations are invalid is left out, with a warning in the log, as the specification demands. The valid
    /// ones are remembered: calls of those tools carry the `Mcp-Param-*` headers.
    ///
    /// The limits of one request hold for the whole list: all pages together may have
    /// [`max_response_bytes`](ClientBuilder::max_response_bytes) and take [`request_timeout`](ClientBuilder::request_timeout). There may be
    /// 100 pages.
    ///
    /// # Errors
    ///
    /// [`RequestError`]; [`ProtocolError::EndlessPages`] when a cursor comes a second time, or after 100 pages.
    pub async fn list_tools(&self) -> Result<Vec<Tool>, RequestError> {
        let mut tools = self
            .list(
                method::TOOLS_LIST,
                |page: ListToolsResult| (page.tools, page.next_cursor),
                |_| false,
            )
            .await?;
        let headers = take_headers(&mut tools);
        *self
            .inner
            .param_headers
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = headers;
        Ok(tools)
    }

    /// `prompts/list`, all pages of it, in the server's order.
    ///
    /// The limits are those of [`Client::list_tools`].
    ///
    /// # Errors
    ///
    /// As [`Client::list_tools`].
    pub async fn list_prompts(&self) -> Result<Vec<Prompt>, RequestError> {
        let split = |page: ListPromptsResult| (page.prompts, page.next_cursor);
        self.list(method::PROMPTS_LIST, split, |_| false).await
    }

    /// `resources/list`, all pages of it, in the server's order.
    ///
    /// The limits are those of [`Client::list_tools`].
    ///
    /// # Errors
    ///
    /// As [`Client::list_tools`].
    pub async fn list_resources(&self) -> Result<Vec<Resource>, RequestError> {
        let split = |page: ListResourcesResult| (page.resources, page.next_cursor);
        self.list(method::RESOURCES_LIST, split, |_| false).await
    }

    /// `resources/templates/list`, all pages of it, in the server's order.
    ///
    /// The limits are those of [`Client::list_tools`].
    ///
    /// # Errors
    ///
    /// As [`Client::list_tools`].
    pub async fn list_resource_templates(&self) -> Result<Vec<ResourceTemplate>, RequestError> {
        let split = |page: ListResourceTemplatesResult| (page.resource_templates, page.next_cursor);
        self.list(method::RESOURCES_TEMPLATES_LIST, split, |_| false)
            .await
    }

    /// Asks for the list of tools as far as the page that names `tool`, and remembers its arguments in headers.
    pub(crate) async fn look_up_headers(&self, tool: &str) -> Result<(), RequestError> {
        let mut tools = self
            .list(
                method::TOOLS_LIST,
                |page: ListToolsResult| (page.tools, page.next_cursor),
                |tools| tools.iter().any(|listed| listed.name == tool),
            )
            .await?;
        tools.retain(|listed| listed.name == tool);
        let found = take_headers(&mut tools).remove(tool);
        let mut all = self
            .inner
            .param_headers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match found {
            Some(headers) => all.insert(tool.to_owned(), headers),
            None => all.remove(tool),
        };
        Ok(())
    }

    /// Asks for the pages of a list, and joins what `split` takes out of each; `enough` looks at each page and may end it early. One budget
    /// of bytes and one of time for all of it.
    async fn list<P: DeserializeOwned, I>(
        &self,
        method: &'static str,
        split: impl Fn(P) -> (Vec<I>, Option<String>),
        enough: impl Fn(&[I]) -> bool,
    ) -> Result<Vec<I>, RequestError> {
        let list = async {
            let mut all = Vec::new();
            let mut taken = 0;
            let mut seen = HashSet::new();
            let mut cursor: Option<String> = None;
            for _ in 0..Self::MAX_PAGES {
                let params = MetaParams {
                    cursor: cursor.as_deref(),
                    meta: &self.inner.meta,
                };
                let result = self
                    .exchange_counted(method, Vec::new(), &params, Some(&mut taken))
                    .await?;
                let (items, next) = split(complete(method, &result)?);
                let enough = enough(&items);
                all.extend(items);
                let Some(next) = next.filter(|_| !enough) else {
                    return Ok(all);
                };
                if !seen.insert(next.clone()) {
                    break;
                }
                cursor = Some(next);
            }
            Err(ProtocolError::EndlessPages.into())
        };
        match self.inner.request_timeout {
            Some(after) => tokio::time::timeout(after, list)
                .await
                .unwrap_or(Err(RequestError::TimedOut { after })),
            None => list.await,
        }
    }

    /// What the last list said about a tool's arguments in headers.
    pub(crate) fn param_headers(&self, tool: &str) -> Option<Arc<ParamHeaders>> {
        self.inner
            .param_headers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(tool)
            .cloned()
    }

    /// Another id than any before: rounds of a call are independent requests.
    pub(crate) fn next_id(&self) -> RequestId {
        RequestId::from(self.inner.ids.fetch_add(1, Ordering::Relaxed))
    }
}

/// Leaves out tools with invalid annotations, and gives the valid annotations.
fn take_headers(tools: &mut Vec<Tool>) -> HashMap<String, Arc<ParamHeaders>> {
    let mut all = HashMap::new();
    tools.retain(|tool| match ParamHeaders::of(&tool.input_schema) {
        Ok(headers) => {
            if !headers.is_empty() {
                all.insert(tool.name.clone(), Arc::new(headers));
            }
            true
        }
        Err(error) => {
            tracing::warn!(tool = %tool.name, %error, "a tool with invalid x-mcp-header annotations is left out");
            false
        }
    });
    all
}

/// Reads the result of a method that may not ask.
fn complete<T: DeserializeOwned>(
    method: &'static str,
    result: &RawValue,
) -> Result<T, RequestError> {
    match ResultType::of(result).map_err(ProtocolError::from)? {
        ResultType::Complete => read(result).map_err(|_| ProtocolError::Result { method }.into()),
        ResultType::InputRequired => Err(ProtocolError::RoundNotAllowed.into()),
    }
}

/// Never prints the token.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("url", &self.inner.url)
            .field("handlers", &self.inner.handlers)
            .field("max_rounds", &self.inner.max_rounds)
            .field("authorized", &self.inner.authorization.is_some())
            .finish_non_exhaustive()
    }
}

/// Collects what a [`Client`] needs.
#[must_use]
pub struct ClientBuilder {
    url: String,
    label: Option<String>,
    token: Option<String>,
    client_info: Option<Implementation>,
    handlers: Handlers,
    max_rounds: Option<u32>,
    max_questions: Option<usize>,
    request_timeout: Option<Duration>,
    max_response_bytes: usize,
    transport: Option<Arc<dyn Transport>>,
}

impl ClientBuilder {
    /// How many rounds a call is carried through by default. A person answers two or three; ten leaves room for a wizard.
    pub const MAX_ROUNDS: u32 = 10;
    /// How many questions one round may have by default. All of them are put at the same time, and nobody answers more at once.
    pub const MAX_QUESTIONS: usize = 32;
    /// How long one request may take by default. A person's thinking lies between requests and is not counted.
    pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);
    /// How large one answer, or one event of a stream, may be by default: room for an image in base64.
    pub const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;

    fn new(url: String) -> Self {
        Self {
            url,
            label: None,
            token: None,
            client_info: Some(Implementation::new(
                "mrtr-client",
                env!("CARGO_PKG_VERSION"),
            )),
            handlers: Handlers::default(),
            max_rounds: Some(Self::MAX_ROUNDS),
            max_questions: Some(Self::MAX_QUESTIONS),
            request_timeout: Some(Self::REQUEST_TIMEOUT),
            max_response_bytes: Self::MAX_RESPONSE_BYTES,
            transport: None,
        }
    }

    /// The host's own name for the server, which handlers show to the person who is asked.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Sends `Authorization: Bearer` with this token. It is in no Debug, log or error.
    pub fn bearer(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Who is asking; `None` sends no `clientInfo`. The default names this crate.
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

    /// How many rounds a call goes along with, [`ClientBuilder::MAX_ROUNDS`] by default; `None` for as many as the server
    /// likes. With a limit of 3 a call makes at most 4 requests.
    pub fn max_rounds(mut self, rounds: impl Into<Option<u32>>) -> Self {
        self.max_rounds = rounds.into();
        self
    }

    /// How many questions one round may have, [`ClientBuilder::MAX_QUESTIONS`] by default; `None` for as many as the server likes. With one
    /// more, none of them is asked. A call that is carried on by hand is not counted: its host sees how many there are.
    pub fn max_questions(mut self, questions: impl Into<Option<usize>>) -> Self {
        self.max_questions = questions.into();
        self
    }

    /// How long one request may take from sending to the last byte that matters, [`ClientBuilder::REQUEST_TIMEOUT`] by default; `None`
    /// for no limit.
    pub fn request_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.request_timeout = timeout.into();
        self
    }

    /// How many bytes one answer may have, or all pages of a list together, [`ClientBuilder::MAX_RESPONSE_BYTES`] by default.
    pub fn max_response_bytes(mut self, limit: usize) -> Self {
        self.max_response_bytes = limit;
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
        let uri: Uri = self.url.parse().map_err(|_| BuildError::Url)?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(BuildError::Url);
        }
        if uri
            .authority()
            .is_none_or(|authority| authority.as_str().contains('@'))
        {
            return Err(BuildError::UserInfo);
        }
        let authorization = self.token.map(|token| {
            let mut value =
                HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| BuildError::Token)?;
            value.set_sensitive(true);
            Ok(value)
        });
        let capabilities = self.handlers.kinds().to_capabilities();
        let mut meta = ClientMeta::new(REVISION, &capabilities);
        meta.client_info = self.client_info.as_ref();
        let meta = to_raw_value(&meta).map_err(|_| BuildError::ClientInfo)?;
        let transport = match self.transport {
            Some(transport) => transport,
            None => Arc::new(HttpTransport::new().map_err(BuildError::Transport)?),
        };
        Ok(Client {
            inner: Arc::new(Inner {
                url: self.url,
                uri,
                label: self.label,
                authorization: authorization.transpose()?,
                meta,
                handlers: self.handlers,
                max_rounds: self.max_rounds,
                max_questions: self.max_questions,
                request_timeout: self.request_timeout,
                max_response_bytes: self.max_response_bytes,
                transport,
                ids: AtomicI64::new(1),
                param_headers: Mutex::default(),
            }),
        })
    }
}

/// Never prints the token.
impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("handlers", &self.handlers)
            .field("authorized", &self.token.is_some())
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
    /// The transport does not start.
    #[error("the HTTP transport does not start: {0}")]
    Transport(#[source] TransportError),
}
