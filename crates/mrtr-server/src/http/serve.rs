//! Mounting and running a server.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::any_service;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutWriter;
use tower_service::Service as _;

use crate::server::Server;

/// Pause after the listener failed to accept, which is mostly for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Server {
    /// A router that serves this server at `path`, to be nested or merged into an application's own.
    ///
    /// Without connection info (`into_make_service_with_connect_info::<SocketAddr>()`) all anonymous callers share one
    /// account's limits. Limits of connections are those of whoever runs the router: `axum::serve` has no time limit for
    /// a request's head and none for an answer that nobody reads, so put a reverse proxy before it that has.
    ///
    /// ```
    /// # use mrtr_server::Server;
    /// let server = Server::builder("clock", "1.0.0").allow_anonymous().build()?;
    /// let app: axum::Router = axum::Router::new().merge(server.router("/mcp"));
    /// # Ok::<(), mrtr_server::BuildError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// When `path` is not one that axum can route: it begins with `/`.
    pub fn router(&self, path: &str) -> Router {
        Router::new().route(path, any_service(self.clone()))
    }

    /// Serves `/mcp` on this listener until `shutdown` resolves, then lets calls finish.
    ///
    /// A call of the earlier era that waits for a person ends with an error that says so: nobody could answer it any more. Its
    /// sessions end when their calls have. A call that holds a claim is carried to its settling, even when its connection has gone. All of it together takes
    /// [`Limits::shutdown`](crate::Limits::shutdown) at most; then connections are cut. Connections are limited in number,
    /// a request's head and an unread answer in time.
    ///
    /// **Not guaranteed:** TLS, HTTP/2 and fairness between addresses; a reverse proxy gives those.
    ///
    /// # Errors
    ///
    /// When the listener has no address. A connection that cannot be accepted is logged, and the next one is.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        listener.local_addr()?;
        let limits = self.inner.limits;
        let places = Arc::new(Semaphore::new(limits.connections));
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            let (stream, address, place) = tokio::select! {
                biased;
                () = &mut shutdown => break,
                // Those that have ended are forgotten.
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                accepted = accept(&listener, &places) => accepted,
            };
            connections.spawn(self.connection(stream, address, place, &graceful));
        }
        drop(listener);
        // Whoever subscribes from here on is told at once that it is over.
        let _closing = self.inner.hub.closing();
        self.inner.sessions.wind_up();
        let ended = async {
            graceful.shutdown().await;
            while connections.join_next().await.is_some() {}
            self.inner.sessions.ended().await;
            self.settled().await;
        };
        if tokio::time::timeout(limits.shutdown, ended).await.is_err() {
            tracing::error!(patience = ?limits.shutdown, "calls did not end in time; their connections are cut, and what is not settled is unknown");
        }
        self.close();
        Ok(())
    }

    /// One connection, from its first request to its last.
    fn connection(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        place: OwnedSemaphorePermit,
        graceful: &GracefulShutdown,
    ) -> impl Future<Output = ()> + Send + use<> {
        // A failure costs latency and nothing else.
        let _ = stream.set_nodelay(true);
        let limits = self.inner.limits;
        let mut stream = TimeoutWriter::new(stream);
        stream.set_timeout(Some(limits.write_timeout));
        let router = self.router("/mcp");
        let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(ConnectInfo(address));
            router.clone().call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_timeout)
            .serve_connection(TokioIo::new(Box::pin(stream)), service);
        let connection = graceful.watch(connection);
        async move {
            if let Err(error) = connection.await {
                // Clients break off; that is theirs to do.
                tracing::debug!(%error, "a connection broke");
            }
            drop(place);
        }
    }
}

/// The next connection, once there is a place for it.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    loop {
        let Ok(place) = Arc::clone(places).acquire_owned().await else {
            // The semaphore is never closed.
            std::future::pending().await
        };
        match listener.accept().await {
            Ok((stream, address)) => return (stream, address, place),
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
