//! The page that a URL question leads to: whoever opens it has visited it. A real one would have its visitor log in first, as
//! `examples/link-account` does.

use std::future::Future;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::get;
use mrtr_server::{MemoryVisits, Pages};
use mrtr_state::SystemClock;
use tokio::net::TcpListener;

use crate::server::ServeError;

/// Pages on a free port of the loopback interface, and what serves them until it is dropped.
pub(crate) async fn open() -> Result<(Pages, impl Future<Output = io::Result<()>>), ServeError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let base = format!("http://{}/page", listener.local_addr()?);
    let pages = Pages::new(&base, MemoryVisits::new(SystemClock))?;
    let visits = Arc::clone(pages.visits());
    let visited = move |Path(handle): Path<String>| async move {
        match visits.complete(&handle).await {
            Ok(true) => (StatusCode::OK, "Thank you."),
            Ok(false) => (StatusCode::NOT_FOUND, "There is no such page."),
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "Try again."),
        }
    };
    let routes = Router::new().route("/page/{handle}", get(visited));
    Ok((pages, async { axum::serve(listener, routes).await }))
}
