//! A client, and the requests of one round: discovery and the lists.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mrtr_protocol::{
    DiscoverResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, ParamHeaders, Prompt, RawObject, Resource, ResourceTemplate, Tool, meta,
    method,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::builder::ClientBuilder;
use crate::error::{ProtocolError, RequestError};
use crate::exchange::Tally;
use crate::host::Host;
use crate::notices::{ProgressListener, ProgressReport};
use crate::outgoing::Outgoing;
use crate::over_http::HttpLink;
use crate::over_stdio::{PipeLink, Source};
use crate::process::ServerProcess;

/// A client of one server. Cloning is cheap, and clones share ids, handlers and connections.
///
/// In the modern era every request carries the protocol version, who is asking, and the capabilities that follow from the handlers. There is
/// no session to open: the first request is the first thing that is sent. With a server of the earlier era the first request opens a
/// session; [`Client::close`] ends it.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
    pub(crate) options: Arc<Options>,
}

pub(crate) struct Inner {
    pub(crate) host: Arc<Host>,
    pub(crate) link: Link,
    /// What the last list said about arguments in headers, for the tools that want any.
    param_headers: Mutex<HashMap<String, Arc<ParamHeaders>>>,
}

/// How messages get to the server.
#[derive(Debug)]
pub(crate) enum Link {
    Http(HttpLink),
    Pipe(PipeLink),
}

/// What may differ from request to request.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) on_progress: Option<ProgressListener>,
    /// Members of `_meta` that the host adds.
    pub(crate) meta: RawObject,
    /// Whether what the client has still is not good enough.
    pub(crate) fresh: bool,
}

impl Options {
    /// Whether results may come from what is kept, and be kept: not when the host adds what a server may look at. A trace is for whoever
    /// follows it.
    pub(crate) fn may_keep(&self) -> bool {
        let traces = [meta::TRACEPARENT, meta::TRACESTATE, meta::BAGGAGE];
        self.meta.iter().all(|(name, _)| traces.contains(&name))
    }
}

impl Inner {
    pub(crate) fn new(host: Host, link: Link) -> Self {
        Self {
            host: Arc::new(host),
            link,
            param_headers: Mutex::default(),
        }
    }
}

impl Client {
    /// More pages than this are taken for a list without end.
    const MAX_PAGES: usize = 100;

    /// Begins to build a client for the MCP endpoint at `url`.
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(url.into())
    }

    /// Begins to build a client for a server that runs as a child process and talks over its standard streams. `name` is the host's, and
    /// stays the same: a call that is stored can be resumed by a client of the same name only.
    pub fn stdio(name: impl Into<String>, process: ServerProcess) -> ClientBuilder {
        ClientBuilder::over_lines(name.into(), Source::Process(process))
    }

    /// Begins to build a client for a server at the other end of two byte streams, framed as stdio is: one message a line. A Unix socket, or
    /// a test's own ends. When they close there is no other connection.
    pub fn pipe(
        name: impl Into<String>,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> ClientBuilder {
        ClientBuilder::over_lines(name.into(), Source::once(reader, writer))
    }

    pub(crate) fn of(inner: Inner, options: Options) -> Self {
        Self {
            inner: Arc::new(inner),
            options: Arc::new(options),
        }
    }

    fn with(&self, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::clone(&self.options);
        change(&mut options);
        Self {
            inner: Arc::clone(&self.inner),
            options: Arc::new(options),
        }
    }

    /// The same client with another [`request_timeout`](ClientBuilder::request_timeout) for the requests that are made with it.
    #[must_use]
    pub fn with_timeout(&self, timeout: impl Into<Option<Duration>>) -> Self {
        self.with(|options| options.request_timeout = timeout.into())
    }

    /// The same client with another [listener for progress](ClientBuilder::on_progress) of the requests that are made with it.
    #[must_use]
    pub fn with_progress(&self, listener: impl Fn(ProgressReport) + Send + Sync + 'static) -> Self {
        self.with(|options| options.on_progress = Some(Arc::new(listener)))
    }

    /// The same client, whose requests all go to the server, whatever it has [kept](crate::CacheLimits). What comes is kept again.
    #[must_use]
    pub fn fresh(&self) -> Self {
        self.with(|options| options.fresh = true)
    }

    /// The same client with one more member in `_meta` of the requests that are made with it: a
    /// [trace context](mrtr_protocol::meta::TRACEPARENT), for instance.
    ///
    /// The fields of the protocol (`io.modelcontextprotocol/..`, `progressToken`) stay the client's own. With members other than a trace
    /// context nothing is [kept](crate::CacheLimits), because a server may look at them.
    ///
    /// # Errors
    ///
    /// [`RequestError::Unwritable`] when the value does not serialize, or the key is one of the protocol's.
    pub fn with_meta<T: Serialize + ?Sized>(
        &self,
        key: &str,
        value: &T,
    ) -> Result<Self, RequestError> {
        if key.starts_with("io.modelcontextprotocol/") || key == mrtr_protocol::meta::PROGRESS_TOKEN
        {
            return Err(RequestError::Unwritable(format!(
                "`{key}` in `_meta` is the protocol's own"
            )));
        }
        let mut more = self.options.meta.clone();
        more.insert(key, value)
            .map_err(|error| RequestError::Unwritable(error.to_string()))?;
        Ok(self.with(|options| options.meta = more))
    }

    /// `server/discover`: versions, capabilities, identity. Calling it is optional. It belongs to the modern era; [`Client::server`] tells the
    /// like in both.
    ///
    /// # Errors
    ///
    /// [`RequestError`]; [`RequestError::NotInThisEra`] when the server speaks the earlier era.
    pub async fn discover(&self) -> Result<DiscoverResult, RequestError> {
        let answered = self.exchange(&Outgoing::new(method::DISCOVER)).await?;
        answered.complete(method::DISCOVER)
    }

    /// `tools/list`, all pages of it, in the server's order.
    ///
    /// A tool whose `x-mcp-header` annotations are invalid is left out, with a warning in the log, as the specification demands. The valid
    /// ones are remembered: calls of those tools carry the `Mcp-Param-*` headers. In the earlier era and over
    /// stdio the annotations mean nothing.
    ///
    /// The limits of one request hold for the whole list: all pages together may have
    /// [`max_response_bytes`](ClientBuilder::max_response_bytes) and take [`request_timeout`](ClientBuilder::request_timeout). There may be
    /// 100 pages.
    ///
    /// # Errors
    ///
    /// [`RequestError`]; [`ProtocolError::EndlessPages`] when a cursor comes a second time, or after 100 pages.
    pub async fn list_tools(&self) -> Result<Vec<Tool>, RequestError> {
        let split = |page: ListToolsResult| (page.tools, page.next_cursor);
        let (mut tools, is_modern) = self.list(method::TOOLS_LIST, split, |_| false).await?;
        if !(is_modern && matches!(self.inner.link, Link::Http(_))) {
            return Ok(tools);
        }
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
        let (all, _) = self.list(method::PROMPTS_LIST, split, |_| false).await?;
        Ok(all)
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
        let (all, _) = self.list(method::RESOURCES_LIST, split, |_| false).await?;
        Ok(all)
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
        let (all, _) = self
            .list(method::RESOURCES_TEMPLATES_LIST, split, |_| false)
            .await?;
        Ok(all)
    }

    /// Asks for the list of tools as far as the page that names `tool`, and remembers its arguments in headers.
    pub(crate) async fn look_up_headers(&self, tool: &str) -> Result<(), RequestError> {
        // What was kept is what led to the headers that the server does not take.
        let (mut tools, _) = self
            .fresh()
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
    /// of bytes and one of time for all of it. Says too whether the server answered in the modern era.
    async fn list<P: DeserializeOwned, I>(
        &self,
        method: &'static str,
        split: impl Fn(P) -> (Vec<I>, Option<String>),
        enough: impl Fn(&[I]) -> bool,
    ) -> Result<(Vec<I>, bool), RequestError> {
        let list = async {
            let tally = self.tally();
            let pages = self.pages(method, &split, &enough, &tally).await;
            match pages {
                // A cursor that was kept with its page may be none any more. All pages are asked for anew.
                Err((RequestError::Rpc(_), true)) => {
                    if let Some(cache) = &self.inner.host.cache {
                        cache.forget_list(method);
                    }
                    let fresh = self.fresh();
                    let pages = fresh.pages(method, &split, &enough, &tally).await;
                    pages.map_err(|(error, _)| error)
                }
                pages => pages.map_err(|(error, _)| error),
            }
        };
        self.patience()
            .wait_for(list)
            .await
            .unwrap_or_else(|after| Err(RequestError::TimedOut { after }))
    }

    /// The pages of a list; or why not, and whether any came from what was kept.
    async fn pages<P: DeserializeOwned, I>(
        &self,
        method: &'static str,
        split: &impl Fn(P) -> (Vec<I>, Option<String>),
        enough: &impl Fn(&[I]) -> bool,
        tally: &Tally,
    ) -> Result<(Vec<I>, bool), (RequestError, bool)> {
        let mut all = Vec::new();
        let mut seen = HashSet::new();
        let mut cursor: Option<String> = None;
        let mut kept = false;
        for _ in 0..Self::MAX_PAGES {
            let failed = |error: RequestError| (error, kept);
            let outgoing = match &cursor {
                Some(cursor) => Outgoing::new(method)
                    .with("cursor", cursor)
                    .map_err(failed)?,
                None => Outgoing::new(method),
            };
            let answered = self
                .exchange_counted(&outgoing, Some(tally))
                .await
                .map_err(failed)?;
            let (items, next) = split(answered.complete(method).map_err(failed)?);
            kept |= answered.is_kept;
            let enough = enough(&items);
            all.extend(items);
            let Some(next) = next.filter(|_| !enough) else {
                return Ok((all, answered.is_modern));
            };
            if !seen.insert(next.clone()) {
                break;
            }
            cursor = Some(next);
        }
        Err((ProtocolError::EndlessPages.into(), kept))
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

/// Never prints the token.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("host", &self.inner.host)
            .field("link", &self.inner.link)
            .finish_non_exhaustive()
    }
}
