//! Mounting and running a server.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::any_service;
use axum::serve::ListenerExt as _;
use tokio::net::TcpListener;

use crate::server::Server;

impl Server {
    /// A router that serves this server at `path`, to be nested or merged into an application's own.
    ///
    /// ```
    /// # use mrtr_server::Server;
    /// let server = Server::builder("clock", "1.0.0").allow_anonymous().build()?;
    /// let app: axum::Router = axum::Router::new().merge(server.router("/mcp"));
    /// # Ok::<(), mrtr_server::BuildError>(())
    /// ```
    ///
    /// Without connection info (`into_make_service_with_connect_info::<SocketAddr>()`) all anonymous callers share one
    /// account's limits.
    ///
    /// # Panics
    ///
    /// When `path` is not one that axum can route: it begins with `/`.
    pub fn router(&self, path: &str) -> Router {
        Router::new().route(path, any_service(self.clone()))
    }

    /// Serves `/mcp` on this listener until `shutdown` resolves, then lets calls finish.
    ///
    /// A call that holds a claim is carried to its settling, even when its connection has gone, for
    /// [`Limits::shutdown`](crate::Limits::shutdown) at most.
    ///
    /// # Errors
    ///
    /// When the listener fails.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let listener = listener.tap_io(|connection| {
            // A failure costs latency and nothing else.
            let _ = connection.set_nodelay(true);
        });
        let service = self
            .router("/mcp")
            .into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, service)
            .with_graceful_shutdown(shutdown)
            .await?;
        let patience = self.inner.limits.shutdown;
        if tokio::time::timeout(patience, self.settled())
            .await
            .is_err()
        {
            tracing::error!(
                ?patience,
                "calls that hold a claim did not settle it in time; what came of them is unknown"
            );
        }
        Ok(())
    }
}
