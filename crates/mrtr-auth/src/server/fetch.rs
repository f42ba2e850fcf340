//! HTTP to an authorization server, bounded in time and size. Nothing is followed, and nothing of a proxy is taken from the
//! environment.

use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder};
use thiserror::Error;

use super::ConfigError;

/// Longest answer that is read, in bytes.
const LARGEST: usize = 256 * 1024;

const CONNECT: Duration = Duration::from_secs(3);
const WHOLE: Duration = Duration::from_secs(5);

/// Why there is no answer. It names neither what was sent nor what came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum FetchError {
    #[error("it cannot be reached in time")]
    Unreachable,
    #[error("it answers with status {0}")]
    Status(u16),
    #[error("its answer is too large")]
    TooLarge,
    #[error("its answer is not what was asked for")]
    Unreadable,
}

pub(super) fn client() -> Result<Client, ConfigError> {
    Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT)
        .timeout(WHOLE)
        .build()
        .map_err(|error| ConfigError::Http(error.to_string()))
}

/// Sends it and reads the whole body of a 200.
pub(super) async fn send(request: RequestBuilder) -> Result<Vec<u8>, FetchError> {
    let sent = request.header("accept", "application/json").send().await;
    let mut response = sent.map_err(|_| FetchError::Unreachable)?;
    if response.status() != 200 {
        return Err(FetchError::Status(response.status().as_u16()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|_| FetchError::Unreachable)?
    {
        if body.len() + chunk.len() > LARGEST {
            return Err(FetchError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
