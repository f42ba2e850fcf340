//! Credentials for requests over HTTP (*Authorization, Access Token Usage; Error Handling*).
//!
//! [`ClientBuilder::bearer`](crate::ClientBuilder::bearer) sends one token as it is. [`Credentials`] is for tokens that come about, expire
//! and are not always enough: it is asked before each request is sent, and told when the server refuses one with 401 or 403. The crate
//! `mrtr-auth` has the implementation of the specification's authorization flow.

use std::fmt;
use std::pin::Pin;

use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};

/// What [`Credentials`] answer with.
pub type CredentialsFuture<'a, T> =
    Pin<Box<dyn Future<Output = Result<T, CredentialsError>> + Send + 'a>>;

/// Gives the credentials of one principal for the requests to one server, in both eras: every POST, streams that are resumed or stay open,
/// subscriptions, and the end of a session.
///
/// # Contract
///
/// * Look at [`Sending::uri`] and give a token only to the server that it was issued for. The client follows no redirect, so that what it is
///   given goes to the URI that it names and nowhere else.
/// * Give the credentials of the same principal as long as the client lives: results that a server calls private are kept in the client.
/// * Have time-outs of your own. What a person takes to log in is not counted against the request's
///   [`request_timeout`](crate::ClientBuilder::request_timeout), and neither is the rest of the time that these methods take.
/// * The futures may be dropped at any point, and run at the same time for several requests.
/// * No token in [`Debug`], in logs or in the texts of errors.
pub trait Credentials: fmt::Debug + Send + Sync + 'static {
    /// The `Authorization` for a request that is about to be sent; `None` sends it without.
    ///
    /// # Errors
    ///
    /// [`CredentialsError`] when the request shall not be sent. Nothing was sent then.
    fn authorize<'a>(
        &'a self,
        sending: Sending<'a>,
    ) -> CredentialsFuture<'a, Option<Authorization>>;

    /// The server refused a request with 401 or 403, and so did nothing with it. Says whether it is to be sent once more, with what
    /// [`authorize`](Self::authorize) gives then.
    ///
    /// It is asked at most [`MAX_CHALLENGES`] times for one request. A server also says 403 for reasons that no token mends.
    ///
    /// # Errors
    ///
    /// [`CredentialsError`] in place of the server's own words, when they can be said better.
    fn challenged<'a>(&'a self, challenge: Challenge<'a>) -> CredentialsFuture<'a, Again>;
}

/// How many refusals of one request are put to [`Credentials::challenged`]: one for a token that expired, one for scopes that were missing,
/// and one to spare. The next one is the answer.
pub const MAX_CHALLENGES: u32 = 3;

/// A request that is about to be sent.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Sending<'a> {
    /// The HTTP method.
    pub method: &'a Method,
    /// Where it goes.
    pub uri: &'a Uri,
}

/// A refusal: 401 or 403.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Challenge<'a> {
    /// The request that was refused.
    pub sending: Sending<'a>,
    /// What it was sent with. Another request may have brought newer credentials in the meantime.
    pub used: Option<&'a Authorization>,
    /// 401 or 403.
    pub status: StatusCode,
    /// The headers of the response. They are the server's word, to be bounded and checked like all of it.
    pub headers: &'a HeaderMap,
    /// How often this request was refused: 1 for the first time, and up to [`MAX_CHALLENGES`].
    pub nth: u32,
}

impl<'a> Challenge<'a> {
    /// The `WWW-Authenticate` headers, which say what the server wants (RFC 9110, section 11.6.1).
    pub fn www_authenticate(&self) -> impl Iterator<Item = &'a HeaderValue> + use<'a> {
        self.headers.get_all(header::WWW_AUTHENTICATE).iter()
    }
}

/// Whether a refused request is sent once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// It is, with new credentials.
    Send,
    /// The refusal is the answer.
    Stop,
}

/// What a request is sent with. It never prints.
#[derive(Clone, PartialEq, Eq)]
pub struct Authorization {
    value: HeaderValue,
    proof: Option<HeaderValue>,
}

impl Authorization {
    /// `Bearer` and a token (RFC 6750, section 2.1).
    ///
    /// # Errors
    ///
    /// [`InvalidToken`] when no header can carry it.
    pub fn bearer(token: &str) -> Result<Self, InvalidToken> {
        Ok(Self {
            value: sensitive(format!("Bearer {token}"))?,
            proof: None,
        })
    }

    /// `DPoP` and a token that is bound to a key, with the proof for this very request (RFC 9449, section 7.1).
    ///
    /// # Errors
    ///
    /// [`InvalidToken`] when no header can carry one of the two.
    pub fn dpop(token: &str, proof: &str) -> Result<Self, InvalidToken> {
        Ok(Self {
            value: sensitive(format!("DPoP {token}"))?,
            proof: Some(sensitive(proof.to_owned())?),
        })
    }

    /// Whether it carries this token, whatever the scheme. What the server refused may not be what there is by now.
    #[must_use]
    pub fn is_of(&self, token: &str) -> bool {
        let value = self.value.as_bytes();
        let own = value
            .strip_prefix(b"Bearer ")
            .or_else(|| value.strip_prefix(b"DPoP "));
        own == Some(token.as_bytes())
    }

    pub(crate) fn put_into(&self, headers: &mut HeaderMap) {
        headers.insert(header::AUTHORIZATION, self.value.clone());
        match &self.proof {
            Some(proof) => headers.insert("dpop", proof.clone()),
            None => headers.remove("dpop"),
        };
    }
}

fn sensitive(text: String) -> Result<HeaderValue, InvalidToken> {
    let mut value = HeaderValue::try_from(text).map_err(|_| InvalidToken)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Never prints the token.
impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorization")
    }
}

/// A token with characters that no header can carry. It is not printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the token holds characters that no header can carry")]
pub struct InvalidToken;

impl From<InvalidToken> for CredentialsError {
    fn from(error: InvalidToken) -> Self {
        Self::new(error)
    }
}

/// Why there are no credentials. The request was not sent, or the server refused it and did nothing with it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CredentialsError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl CredentialsError {
    /// Wraps the cause, whose text must not hold a token.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }

    /// The cause as the implementation gave it, to be downcast.
    #[must_use]
    pub fn cause(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.0
    }

    /// The same, to be kept.
    #[must_use]
    pub fn into_cause(self) -> Box<dyn std::error::Error + Send + Sync> {
        self.0
    }
}

/// One token as it is, for as long as the client lives.
#[derive(Debug)]
pub(crate) struct Fixed(Authorization);

impl Fixed {
    pub(crate) fn bearer(token: &str) -> Result<Self, InvalidToken> {
        Authorization::bearer(token).map(Self)
    }
}

impl Credentials for Fixed {
    fn authorize<'a>(&'a self, _: Sending<'a>) -> CredentialsFuture<'a, Option<Authorization>> {
        Box::pin(async { Ok(Some(self.0.clone())) })
    }

    fn challenged<'a>(&'a self, _: Challenge<'a>) -> CredentialsFuture<'a, Again> {
        Box::pin(async { Ok(Again::Stop) })
    }
}
