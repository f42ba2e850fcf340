//! A redirect to this machine (RFC 8252, section 7.3): for programs that run where their user's browser does.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use super::BoxError;
use super::agent::{AgentFuture, Redirection, UserAgent};

/// How large the head of a request may be, in bytes.
const MAX_HEAD: usize = 16 * 1024;

/// How many connections are looked at. Browsers open some to no purpose, and ask for an icon.
const MAX_CONNECTIONS: usize = 64;

/// How long one connection may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(5);

type Opener = dyn Fn(&Url) -> Result<(), BoxError> + Send + Sync;

/// Opens the host's browser, and receives the redirect on 127.0.0.1.
///
/// It listens while somebody is logging in and not longer: on a free port, for one redirect whose `state` is the one that was sent. Anything
/// else is answered with an error and does not end the wait, so that another page cannot put an end to it either.
#[derive(Clone)]
pub struct LoopbackReceiver {
    open: Arc<Opener>,
    port: u16,
    path: String,
    timeout: Duration,
}

impl LoopbackReceiver {
    /// How long a person may take by default.
    pub const TIMEOUT: Duration = Duration::from_secs(300);

    /// `open` opens a URL in the browser of the person, without a shell in between: the URL is in part the authorization server's word.
    pub fn new(open: impl Fn(&Url) -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        Self {
            open: Arc::new(open),
            port: 0,
            path: "/callback".to_owned(),
            timeout: Self::TIMEOUT,
        }
    }

    /// A fixed port, for a client whose registration names one. By default any that is free is taken.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// The path of the redirect URI, `/callback` by default.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// How long a person may take, [`LoopbackReceiver::TIMEOUT`] by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    async fn listen(&self, registered: Option<&str>) -> std::io::Result<TcpListener> {
        let before = registered
            .and_then(|uri| Url::parse(uri).ok())
            .filter(|uri| uri.host_str() == Some("127.0.0.1") && uri.path() == self.path)
            .and_then(|uri| uri.port());
        if let (0, Some(port)) = (self.port, before)
            && let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await
        {
            return Ok(listener);
        }
        TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await
    }
}

impl fmt::Debug for LoopbackReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopbackReceiver")
            .field("port", &self.port)
            .field("path", &self.path)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl UserAgent for LoopbackReceiver {
    fn begin<'a>(&'a self, registered: Option<&'a str>) -> AgentFuture<'a, Box<dyn Redirection>> {
        Box::pin(async move {
            let listener = self.listen(registered).await?;
            let port = listener.local_addr()?.port();
            let redirect_uri = format!("http://127.0.0.1:{port}{}", self.path);
            let receiver = self.clone();
            let waiting = Waiting {
                listener,
                redirect_uri,
                receiver,
            };
            Ok(Box::new(waiting) as Box<dyn Redirection>)
        })
    }
}

struct Waiting {
    listener: TcpListener,
    redirect_uri: String,
    receiver: LoopbackReceiver,
}

impl Redirection for Waiting {
    fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    fn visit(self: Box<Self>, url: Url) -> AgentFuture<'static, String> {
        Box::pin(async move {
            let state = parameter(&url, "state").ok_or("the authorization request has no state")?;
            let open = Arc::clone(&self.receiver.open);
            let opening = url.clone();
            tokio::task::spawn_blocking(move || open(&opening)).await??;
            match tokio::time::timeout(self.receiver.timeout, self.receive(&state)).await {
                Ok(redirect) => redirect,
                Err(_) => Err("nobody came back from the authorization server in time".into()),
            }
        })
    }
}

impl Waiting {
    async fn receive(&self, state: &str) -> Result<String, BoxError> {
        for _ in 0..MAX_CONNECTIONS {
            let (mut connection, _) = self.listener.accept().await?;
            let asked = tokio::time::timeout(PATIENCE, target(&mut connection)).await;
            let Ok(Some(target)) = asked else {
                continue;
            };
            let redirect = self.redirect(&target, state);
            let told = match &redirect {
                Some(_) => DONE,
                None => NOT_FOUND,
            };
            // A browser that is gone has brought what it had to bring.
            drop(tokio::time::timeout(PATIENCE, say(&mut connection, told)).await);
            if let Some(redirect) = redirect {
                return Ok(redirect.into());
            }
        }
        Err("too many connections came that were not the redirect".into())
    }

    /// The redirect, if this is it.
    fn redirect(&self, target: &str, state: &str) -> Option<Url> {
        let own = Url::parse(&self.redirect_uri).ok()?;
        let url = own.join(target).ok()?;
        let is_own = url.origin() == own.origin() && url.path() == own.path();
        (is_own && parameter(&url, "state")? == state).then_some(url)
    }
}

fn parameter(url: &Url, name: &str) -> Option<String> {
    let mut found = url.query_pairs().filter(|(key, _)| key == name);
    found.next().map(|(_, value)| value.into_owned())
}

/// What a GET asks for; `None` when it is something else.
async fn target(connection: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut chunk = [0; 1024];
        let read = connection.read(&mut chunk).await.ok()?;
        head.extend_from_slice(chunk.get(..read)?);
        if read == 0 || head.len() > MAX_HEAD {
            return None;
        }
    }
    let head = String::from_utf8(head).ok()?;
    let mut line = head.lines().next()?.split(' ');
    let is_get = line.next()? == "GET";
    let target = line.next()?;
    (is_get && target.starts_with('/') && !target.starts_with("//")).then(|| target.to_owned())
}

async fn say(connection: &mut TcpStream, response: &str) -> std::io::Result<()> {
    connection.write_all(response.as_bytes()).await?;
    connection.shutdown().await
}

/// The page loads nothing, and the address with the code in it is not passed on.
const DONE: &str = "HTTP/1.1 200 OK\r\n\
    content-type: text/html; charset=utf-8\r\n\
    content-security-policy: default-src 'none'\r\n\
    referrer-policy: no-referrer\r\n\
    cache-control: no-store\r\n\
    connection: close\r\n\
    \r\n\
    <!doctype html><title>Done</title><p>You can close this page and go back to the application.\n";

const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
