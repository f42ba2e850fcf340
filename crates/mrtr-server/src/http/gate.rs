//! Origin and Host: who may reach a server through somebody's browser.
//!
//! A page on any site can make a browser send requests to `localhost`, or to its own name after pointing that name at
//! 127.0.0.1 (*DNS rebinding*). The first carries a foreign `Origin`, the second a foreign `Host`. Both are checked, before
//! anything of the request is read (specification, `basic/transports/streamable-http`, "Security & Endpoint").

use std::fmt;

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;

/// Names that are served until the first one is given.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Whether pages of an origin, in lower case, may call.
type Allowed = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// Which `Host` and `Origin` are served.
#[derive(Default)]
pub(crate) struct Gate {
    hosts: Vec<String>,
    origins: Vec<String>,
    allowed: Vec<Allowed>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hosts, origins, .. } = self;
        f.debug_struct("Gate")
            .field("hosts", hosts)
            .field("origins", origins)
            .finish_non_exhaustive()
    }
}

/// Why a request is not let in; all of them are HTTP 403.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Barred {
    #[error("this server is not served under that Host; its operator names it with `allow_host`")]
    Host,
    #[error(
        "pages of that Origin may not call this server; its operator names it with `allow_origin`"
    )]
    Origin,
}

impl Gate {
    pub(crate) fn allow_host(&mut self, host: String) {
        self.hosts.push(host.to_ascii_lowercase());
    }

    pub(crate) fn allow_origin(&mut self, origin: String) {
        self.origins.push(origin.to_ascii_lowercase());
    }

    pub(crate) fn allow_origins(&mut self, allowed: Allowed) {
        self.allowed.push(allowed);
    }

    fn is_named(&self, origin: &str) -> bool {
        self.origins.iter().any(|named| named == origin)
            || self.allowed.iter().any(|allowed| allowed(origin))
    }

    /// Whether the request may come in. A page's `Origin`, where there is one, is then one that may read the answer.
    pub(crate) fn check(&self, head: &Parts) -> Result<(), Barred> {
        let host = one_host(head).ok_or(Barred::Host)?;
        let name = host.host().to_ascii_lowercase();
        let served = if self.hosts.is_empty() {
            LOOPBACK.contains(&name.as_str())
        } else {
            self.hosts
                .iter()
                .any(|allowed| *allowed == name || *allowed == host.as_str().to_ascii_lowercase())
        };
        if !served {
            return Err(Barred::Host);
        }
        let mut origins = head.headers.get_all(ORIGIN).iter();
        let Some(origin) = origins.next() else {
            return Ok(());
        };
        let origin = origin
            .to_str()
            .map(str::to_ascii_lowercase)
            .map_err(|_| Barred::Origin)?;
        let own = origin
            .strip_prefix("http://")
            .or(origin.strip_prefix("https://"))
            .is_some_and(|authority| authority == host.as_str().to_ascii_lowercase());
        if origins.next().is_none() && (own || self.is_named(&origin)) {
            Ok(())
        } else {
            Err(Barred::Origin)
        }
    }
}

/// The one host that the request names. In HTTP/1.1 that is `Host`, and an absolute target must agree with it; in HTTP/2
/// it is `:authority`.
fn one_host(head: &Parts) -> Option<Authority> {
    let mut named = head.headers.get_all(HOST).iter();
    let header = named.next().map(|value| value.as_bytes().try_into().ok());
    if named.next().is_some() {
        return None;
    }
    let host: Authority = match (header, head.uri.authority()) {
        (None, authority) => authority.cloned()?,
        (Some(host), None) => host?,
        (Some(host), Some(authority)) => host.filter(|host: &Authority| host == authority)?,
    };
    (!host.as_str().contains('@')).then_some(host)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn checked(gate: &Gate, host: &str, origin: Option<&str>) -> Result<(), Barred> {
        let mut request = Request::post("/mcp").header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        gate.check(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn loopback_by_default() {
        let gate = Gate::default();
        for host in [
            "localhost",
            "localhost:3000",
            "127.0.0.1:80",
            "[::1]:3000",
            "LOCALHOST:1",
        ] {
            assert_eq!(checked(&gate, host, None), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.1",
            "user@localhost",
            "",
        ] {
            assert_eq!(checked(&gate, host, None), Err(Barred::Host), "{host}");
        }
    }

    #[test]
    fn an_origin_must_be_the_servers_own_or_named() {
        let mut gate = Gate::default();
        gate.allow_origin("https://app.example".into());
        for origin in [
            "http://localhost:3000",
            "https://app.example",
            "https://APP.example",
        ] {
            assert_eq!(
                checked(&gate, "localhost:3000", Some(origin)),
                Ok(()),
                "{origin}"
            );
        }
        for origin in [
            "http://evil.example",
            "null",
            "file://",
            "",
            "http://localhost.evil.example",
            "http://localhost:3000/",
            "http://localhost:4000",
            "http://127.0.0.1:3000",
            "http://127.1",
            "https://app.example:8443",
            "http://app.example",
            "https://app.example.evil",
        ] {
            assert_eq!(
                checked(&gate, "localhost:3000", Some(origin)),
                Err(Barred::Origin),
                "{origin}"
            );
        }
    }

    #[test]
    fn naming_a_host_replaces_loopback() {
        let mut gate = Gate::default();
        gate.allow_host("mcp.example".into());
        assert_eq!(checked(&gate, "mcp.example", None), Ok(()));
        assert_eq!(checked(&gate, "MCP.example:443", None), Ok(()));
        assert_eq!(checked(&gate, "localhost", None), Err(Barred::Host));
    }

    #[test]
    fn two_hosts_or_two_origins_are_no_host_and_no_origin() {
        let gate = Gate::default();
        let request = Request::post("/")
            .header("host", "localhost")
            .header("host", "localhost")
            .body(())
            .unwrap();
        assert_eq!(gate.check(&request.into_parts().0), Err(Barred::Host));
        let request = Request::post("http://evil.example/")
            .header("host", "localhost")
            .body(())
            .unwrap();
        assert_eq!(gate.check(&request.into_parts().0), Err(Barred::Host));
        let own = "http://localhost";
        let request = Request::post("/")
            .header("host", "localhost")
            .header("origin", own)
            .header("origin", own)
            .body(())
            .unwrap();
        assert_eq!(gate.check(&request.into_parts().0), Err(Barred::Origin));
    }
}
