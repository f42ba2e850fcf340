//! Sending a person to the authorization server and hearing what comes back. Both are the host's.

use std::fmt;
use std::pin::Pin;

use url::Url;

use super::BoxError;

/// What a user agent answers with.
pub type AgentFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send + 'a>>;

/// Takes a person to the authorization server's page and brings the redirect back: a browser, on a desktop.
///
/// [`LoopbackReceiver`](super::LoopbackReceiver) does it for a program that runs where its user's browser does. A web application redirects the
/// browser that it is talking to, and waits for the request to its own redirect URI.
///
/// # Contract
///
/// * Open the URL outside of this process and of any web view that it controls, so that nobody here sees the person's password.
/// * Give back the redirect exactly as it came. State, issuer and code in it are checked here.
/// * End by yourself if nobody comes back.
pub trait UserAgent: fmt::Debug + Send + Sync + 'static {
    /// Gets ready for one redirect, before anybody is sent anywhere: the redirect URI is part of what they are sent with.
    ///
    /// `registered` is the redirect URI that the client is registered with already. Another one costs a new registration.
    fn begin<'a>(&'a self, registered: Option<&'a str>) -> AgentFuture<'a, Box<dyn Redirection>>;
}

/// One redirect that is waited for.
pub trait Redirection: Send {
    /// Where the person comes back to: https, or http on this machine.
    fn redirect_uri(&self) -> &str;

    /// Takes the person to this URL, and gives back the one that they were redirected to, with its query.
    fn visit(self: Box<Self>, url: Url) -> AgentFuture<'static, String>;
}
