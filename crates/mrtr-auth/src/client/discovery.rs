//! Where the documents are (`basic/authorization/authorization-server-discovery`), and which of them are believed.

use http::StatusCode;
use url::Url;

use super::error::{AuthError, What, shown};
use super::fetch::{Fetcher, usable};
use crate::metadata::{
    AUTHORIZATION_SERVER, AuthorizationServerMetadata, OPENID_CONFIGURATION, PROTECTED_RESOURCE,
    ProtectedResourceMetadata, inserted,
};

/// What the MCP server says of itself: where the challenge says, or else in the well-known places, at the endpoint's path and at the root.
pub(super) async fn protected_resource(
    fetcher: &Fetcher,
    challenged: Option<&str>,
) -> Result<ProtectedResourceMetadata, AuthError> {
    let what = What::ResourceMetadata;
    let places = match challenged {
        Some(url) => vec![usable(what, url)?],
        None => well_known(fetcher.server()),
    };
    let mut absent = AuthError::Status {
        what,
        status: StatusCode::NOT_FOUND,
    };
    for place in places {
        let answer = fetcher.get(what, &place).await?;
        match answer.json::<ProtectedResourceMetadata>() {
            Ok(metadata) => {
                let server = fetcher.server();
                if !is_of(&metadata.resource, server) {
                    let found = shown(&metadata.resource);
                    return Err(AuthError::ResourceMismatch { found });
                }
                return Ok(metadata);
            }
            Err(error) if error.is_absence() => absent = error,
            Err(error) => return Err(error),
        }
    }
    Err(absent)
}

fn well_known(server: &Url) -> Vec<Url> {
    let mut root = server.clone();
    root.set_path("/");
    root.set_query(None);
    let mut places = vec![
        inserted(server, PROTECTED_RESOURCE),
        inserted(&root, PROTECTED_RESOURCE),
    ];
    places.dedup();
    places
}

/// Whether a resource identifier is the server's: its URL, or one above it on the same origin, for a server that describes all of its
/// endpoints as one resource. It is compared as a URL here and sent as it is spelt.
fn is_of(resource: &str, server: &Url) -> bool {
    let Ok(url) = Url::parse(resource) else {
        return false;
    };
    let above = url.path().trim_end_matches('/');
    let below = server.path().strip_prefix(above);
    url.origin() == server.origin()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none()
        && (url.query().is_none() || url.query() == server.query())
        && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What an authorization server says of itself, in the first of the well-known places that has it. Its `issuer` is the one that was asked for,
/// to the last byte; metadata that says otherwise is not used, and no other place is asked then.
pub(super) async fn authorization_server(
    fetcher: &Fetcher,
    issuer: &str,
) -> Result<AuthorizationServerMetadata, AuthError> {
    let what = What::ServerMetadata;
    let url = usable(What::AuthorizationServer, issuer)?;
    if url.query().is_some() {
        return Err(AuthError::insecure(What::AuthorizationServer));
    }
    for place in places(&url) {
        let answer = fetcher.get(what, &place).await?;
        match answer.json::<AuthorizationServerMetadata>() {
            Ok(metadata) if metadata.issuer == issuer => return Ok(metadata),
            Ok(metadata) => {
                return Err(AuthError::IssuerMismatch {
                    expected: shown(issuer),
                    found: shown(&metadata.issuer),
                });
            }
            Err(error) if error.is_absence() => {}
            Err(error) => return Err(error),
        }
    }
    Err(AuthError::NoServerMetadata {
        issuer: shown(issuer),
    })
}

/// In the specification's order of priority.
fn places(issuer: &Url) -> Vec<Url> {
    let mut places = vec![
        inserted(issuer, AUTHORIZATION_SERVER),
        inserted(issuer, OPENID_CONFIGURATION),
    ];
    let path = issuer.path().trim_end_matches('/');
    if !path.is_empty() {
        let mut appended = issuer.clone();
        appended.set_path(&format!("{path}{OPENID_CONFIGURATION}"));
        places.push(appended);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(places: Vec<Url>) -> Vec<String> {
        places.into_iter().map(String::from).collect()
    }

    #[test]
    fn resource_metadata_is_looked_for_at_the_path_and_at_the_root() {
        let places = |server: &str| shown(well_known(&server.parse().unwrap()));
        assert_eq!(
            places("https://mcp.example/public/mcp"),
            [
                "https://mcp.example/.well-known/oauth-protected-resource/public/mcp",
                "https://mcp.example/.well-known/oauth-protected-resource",
            ]
        );
        for root in ["https://mcp.example", "https://mcp.example/"] {
            assert_eq!(
                places(root),
                ["https://mcp.example/.well-known/oauth-protected-resource"]
            );
        }
    }

    #[test]
    fn server_metadata_is_looked_for_in_the_order_of_the_specification() {
        let places = |issuer: &str| shown(places(&issuer.parse().unwrap()));
        assert_eq!(
            places("https://auth.example.com/tenant1"),
            [
                "https://auth.example.com/.well-known/oauth-authorization-server/tenant1",
                "https://auth.example.com/.well-known/openid-configuration/tenant1",
                "https://auth.example.com/tenant1/.well-known/openid-configuration",
            ]
        );
        for root in ["https://auth.example.com", "https://auth.example.com/"] {
            assert_eq!(
                places(root),
                [
                    "https://auth.example.com/.well-known/oauth-authorization-server",
                    "https://auth.example.com/.well-known/openid-configuration",
                ]
            );
        }
    }

    #[test]
    fn a_resource_is_the_servers_url_or_above_it() {
        let server = "https://mcp.example/a/mcp".parse().unwrap();
        for resource in [
            "https://mcp.example/a/mcp",
            "https://MCP.example/a/mcp/",
            "https://mcp.example:443/a",
            "https://mcp.example",
            "https://mcp.example/",
        ] {
            assert!(is_of(resource, &server), "{resource}");
        }
        for resource in [
            "https://evil.example/a/mcp",
            "https://mcp.example.evil.example/a/mcp",
            "http://mcp.example/a/mcp",
            "https://mcp.example:8443/a/mcp",
            "https://mcp.example/a/m",
            "https://mcp.example/a/mcp/b",
            "https://mcp.example/b",
            "https://mcp.example/a/mcp#f",
            "https://mcp.example/a/mcp?x=1",
            "https://u@mcp.example/a/mcp",
            "mcp.example",
            "",
        ] {
            assert!(!is_of(resource, &server), "{resource}");
        }
    }
}
