//! Requests to authorization servers and for metadata: bounded, in time, without redirects, and to no place where a server could only want
//! to send a client for the harm of it (security best practices, "Server-Side Request Forgery").

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde::de::DeserializeOwned;
use url::{Host, Url};

use super::error::{AuthError, What};
use crate::metadata::is_secure;

/// The largest answer that is read, in bytes. Metadata and tokens are a few thousand.
const MAX_BODY: usize = 256 * 1024;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long one request may take in all.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Sends requests, and says which may be sent.
pub(super) struct Fetcher {
    /// To the MCP server's own origin, and to what the host configured.
    open: reqwest::Client,
    /// To where documents from outside point.
    guarded: reqwest::Client,
    server: Url,
    /// Whether documents from outside may point to this machine and to private networks.
    may_be_private: bool,
}

/// An answer, whatever its status.
pub(super) struct Answer {
    what: What,
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
    /// For the next proof of possession (RFC 9449, section 8).
    pub(super) dpop_nonce: Option<String>,
}

impl Answer {
    /// The JSON of a success.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, AuthError> {
        let what = self.what;
        if !self.status.is_success() {
            let status = self.status;
            return Err(AuthError::Status { what, status });
        }
        serde_json::from_slice(&self.body).map_err(|_| AuthError::Malformed { what })
    }
}

/// What is posted.
pub(super) enum Post<'a> {
    Form(&'a [(&'static str, String)]),
    Json(&'a serde_json::Value),
}

impl Fetcher {
    /// `given`: a client of the host's own, which then decides where requests may go.
    pub(super) fn new(
        server: Url,
        private_addresses: bool,
        given: Option<reqwest::Client>,
    ) -> Result<Self, AuthError> {
        if !is_usable(&server) {
            return Err(AuthError::insecure(What::Server));
        }
        // A server on this machine is somebody's development, and so is what it points to.
        let may_be_private = private_addresses || given.is_some() || is_this_machine(&server);
        let open = match given {
            Some(client) => client,
            None => built(client())?,
        };
        let guarded = match may_be_private {
            true => open.clone(),
            false => built(client().dns_resolver(PublicAddresses))?,
        };
        Ok(Self {
            open,
            guarded,
            server,
            may_be_private,
        })
    }

    pub(super) fn server(&self) -> &Url {
        &self.server
    }

    /// Fetches what a document from outside points to.
    pub(super) async fn get(&self, what: What, url: &Url) -> Result<Answer, AuthError> {
        let request = self.towards(what, url)?.get(url.clone());
        read(what, request.header(header::ACCEPT, "application/json")).await
    }

    /// Posts to where a document from outside points.
    pub(super) async fn post(
        &self,
        what: What,
        url: &Url,
        post: Post<'_>,
        headers: HeaderMap,
    ) -> Result<Answer, AuthError> {
        let client = self.towards(what, url)?;
        send(client, what, url, post, headers).await
    }

    /// Posts to a place that the host configured.
    pub(super) async fn post_configured(
        &self,
        what: What,
        url: &Url,
        post: Post<'_>,
        headers: HeaderMap,
    ) -> Result<Answer, AuthError> {
        if !is_usable(url) {
            return Err(AuthError::insecure(what));
        }
        send(&self.open, what, url, post, headers).await
    }

    /// The client for this URL, if there is one.
    fn towards(&self, what: What, url: &Url) -> Result<&reqwest::Client, AuthError> {
        if !is_usable(url) {
            return Err(AuthError::insecure(what));
        }
        if url.origin() == self.server.origin() {
            return Ok(&self.open);
        }
        // A resolver is not asked about an address.
        let is_private = match url.host() {
            Some(Host::Ipv4(address)) => !is_public(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => !is_public(IpAddr::V6(address)),
            _ => is_this_machine(url),
        };
        if is_private && !self.may_be_private {
            return Err(AuthError::PrivateAddress { what });
        }
        Ok(&self.guarded)
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher")
            .field("server", &self.server.as_str())
            .finish_non_exhaustive()
    }
}

/// Secure, and without a user name that would get into logs.
pub(super) fn is_usable(url: &Url) -> bool {
    is_secure(url) && url.username().is_empty() && url.password().is_none()
}

/// Reads a URL that may be used.
pub(super) fn usable(what: What, url: &str) -> Result<Url, AuthError> {
    Url::parse(url)
        .ok()
        .filter(|url| is_usable(url) && url.fragment().is_none())
        .ok_or(AuthError::Insecure { what })
}

fn client() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(TIMEOUT)
        .referer(false)
        // What `HTTP_PROXY` names would read codes and tokens.
        .no_proxy()
}

fn built(client: reqwest::ClientBuilder) -> Result<reqwest::Client, AuthError> {
    client
        .build()
        .map_err(|_| AuthError::Internal("the HTTP client does not start"))
}

async fn send(
    client: &reqwest::Client,
    what: What,
    url: &Url,
    post: Post<'_>,
    headers: HeaderMap,
) -> Result<Answer, AuthError> {
    let (media, body) = match post {
        Post::Form(pairs) => {
            let mut form = url::form_urlencoded::Serializer::new(String::new());
            form.extend_pairs(pairs);
            ("application/x-www-form-urlencoded", form.finish())
        }
        Post::Json(value) => ("application/json", value.to_string()),
    };
    let request = client
        .post(url.clone())
        .headers(headers)
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, media)
        .body(body);
    read(what, request).await
}

async fn read(what: What, request: reqwest::RequestBuilder) -> Result<Answer, AuthError> {
    let unreachable = |error: reqwest::Error| AuthError::Unreachable {
        what,
        source: error.without_url(),
    };
    let mut response = request.send().await.map_err(unreachable)?;
    let dpop_nonce = response
        .headers()
        .get("dpop-nonce")
        .and_then(|nonce| nonce.to_str().ok())
        .map(str::to_owned);
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if body.len() + chunk.len() > MAX_BODY {
            let limit = MAX_BODY;
            return Err(AuthError::TooLarge { what, limit });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer {
        what,
        status: response.status(),
        body,
        dpop_nonce,
    })
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => false,
    }
}

/// Whether an address is one of the internet's. The URL's parser has undone other spellings (octal, hexadecimal, shortened) by now, and an
/// IPv4 address inside an IPv6 one is looked at as such.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let reserved = a == 0
        || a >= 240
        // Shared between a carrier and its customers (RFC 6598).
        || (a == 100 && (64..128).contains(&b))
        // Protocol assignments and benchmarks.
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b & 0xfe) == 18);
    !(reserved
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // Global unicast, but for addresses that hold an IPv4 one: 6to4 and Teredo. That of NAT64 is not in it.
    (first & 0xe000) == 0x2000
        && first != 0x2002
        && !(first == 0x2001 && second == 0)
        && !(first == 0x2001 && second == 0x0db8)
}

/// Resolves names to addresses of the internet alone. The connection goes to what was resolved, so a name cannot become another address in
/// between.
#[derive(Debug)]
struct PublicAddresses;

impl Resolve for PublicAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<_> = found.filter(|found| is_public(found.ip())).collect();
            if public.is_empty() {
                return Err("the name has no address of the public internet".into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetcher(server: &str, private_addresses: bool) -> Fetcher {
        Fetcher::new(server.parse().unwrap(), private_addresses, None).unwrap()
    }

    fn may(fetcher: &Fetcher, url: &str) -> bool {
        let url = url.parse().unwrap();
        fetcher.towards(What::ServerMetadata, &url).is_ok()
    }

    #[test]
    fn a_public_server_sends_nobody_into_a_private_network() {
        let public = fetcher("https://mcp.example/mcp", false);
        let told = fetcher("https://mcp.example/mcp", true);
        for url in [
            "https://10.0.0.1/x",
            "https://172.16.0.1/x",
            "https://192.168.1.1/x",
            "https://169.254.169.254/latest/meta-data",
            "https://127.0.0.1/x",
            "https://127.1/x",
            "https://0x7f000001/x",
            "https://017700000001/x",
            "https://2130706433/x",
            "https://0.0.0.0/x",
            "https://100.64.0.1/x",
            "https://localhost/x",
            "https://a.localhost/x",
            "http://localhost:6379/x",
            "http://127.0.0.1:6379/x",
            "https://[::1]/x",
            "https://[::]/x",
            "https://[fc00::1]/x",
            "https://[fe80::1]/x",
            "https://[::ffff:10.0.0.1]/x",
            "https://[::ffff:169.254.169.254]/x",
            "https://[64:ff9b::a00:1]/x",
            "https://[2002:a00:1::]/x",
            "https://[2001::1]/x",
        ] {
            assert!(!may(&public, url), "{url}");
            assert!(may(&told, url), "{url}");
        }
        for url in [
            "https://as.example/x",
            "https://8.8.8.8/x",
            "https://[2606:4700::1]/x",
        ] {
            assert!(may(&public, url), "{url}");
        }
        for url in [
            "http://as.example/x",
            "http://8.8.8.8/x",
            "ftp://as.example/x",
            "https://a:b@as.example/x",
            "file:///etc/passwd",
        ] {
            assert!(!may(&public, url) && !may(&told, url), "{url}");
        }
    }

    #[test]
    fn a_server_on_this_machine_may_point_to_this_machine() {
        let local = fetcher("http://localhost:3000/mcp", false);
        assert!(may(&local, "http://127.0.0.1:4000/x"));
        assert!(!may(&local, "http://10.0.0.1/x"));
        // A private server may be asked itself, and no other.
        let inside = fetcher("https://10.0.0.1/mcp", false);
        assert!(may(&inside, "https://10.0.0.1/.well-known/x"));
        assert!(!may(&inside, "https://10.0.0.2/x"));
        assert!(Fetcher::new("http://mcp.example/mcp".parse().unwrap(), true, None).is_err());
    }

    #[tokio::test]
    async fn a_name_of_this_machine_does_not_resolve_to_a_public_address() {
        let name = "localhost".parse().unwrap();
        assert!(PublicAddresses.resolve(name).await.is_err());
    }
}
