//! The page where an account is linked.

use axum::body::{Body, Bytes};
use http::Response;
use http::request::Parts;
use mrtr_server::page::PageFuture;
use mrtr_server::{Page, Principal, Submission, Visit};
use serde_json::json;
use stage::record::Record;

use crate::html::{self, Text};
use crate::login::Login;
use crate::vault::{Secret, Vault};
use crate::{NAME, SERVICE};

/// The page, and where what it takes goes.
pub(crate) struct Connect {
    pub(crate) login: Login,
    pub(crate) vault: Vault,
    pub(crate) record: Record,
    /// Where browsers find this page: host and port, and the path without the handle.
    pub(crate) host: String,
    pub(crate) path: String,
}

impl Page for Connect {
    fn visitor<'a>(&'a self, head: &'a Parts) -> PageFuture<'a, Option<Principal>> {
        Box::pin(std::future::ready(self.login.visitor(&head.headers)))
    }

    fn login(&self, back: &str) -> Response<Body> {
        Login::first(back)
    }

    fn show<'a>(&'a self, visit: &'a Visit) -> PageFuture<'a, String> {
        let note = match self.vault.holds(&visit.principal) {
            true => {
                "<p>An account is linked already. A new key takes the place of the one before.</p>\n"
            }
            false => "",
        };
        Box::pin(std::future::ready(self.form(visit, note)))
    }

    fn submit<'a>(&'a self, visit: &'a Visit, body: Bytes) -> PageFuture<'a, Submission> {
        Box::pin(async move {
            match Submitted::read(&body) {
                Submitted::Close => Submission::Again(self.closed(visit)),
                Submitted::NoKey => Submission::Again(self.form(visit, NO_KEY)),
                Submitted::Link(secret) => match self.link(&visit.principal, secret).await {
                    Ok(()) => Submission::Done(self.done(visit)),
                    Err(error) => {
                        tracing::error!(%error, "a secret could not be kept");
                        Submission::Again(self.form(visit, NOT_KEPT))
                    }
                },
            }
        })
    }
}

const NO_KEY: &str = "<p class=\"bad\" role=\"alert\">That is no API key: it is one word of ASCII letters, digits and signs. Nothing was stored.</p>\n";
const NOT_KEPT: &str =
    "<p class=\"bad\" role=\"alert\">The key could not be stored. Try again in a moment.</p>\n";

/// What somebody submitted.
#[derive(Debug, PartialEq, Eq)]
enum Submitted {
    Link(Secret),
    NoKey,
    Close,
}

impl Submitted {
    fn read(body: &[u8]) -> Submitted {
        let field = |name| {
            form_urlencoded::parse(body)
                .find(|(field, _)| field == name)
                .map(|(_, value)| value)
        };
        // What is not said to be a link is none.
        if field("do").as_deref() != Some("link") {
            return Submitted::Close;
        }
        field("api_key")
            .and_then(|text| Secret::pasted(&text))
            .map_or(Submitted::NoKey, Submitted::Link)
    }
}

impl Connect {
    async fn link(&self, principal: &Principal, secret: Secret) -> std::io::Result<()> {
        self.vault.keep(principal, secret).await?;
        let (issuer, subject) = names(principal);
        let linked = json!({ "service": SERVICE, "issuer": issuer, "subject": subject });
        self.record.append("linked", &linked).await?;
        Ok(())
    }

    fn form(&self, visit: &Visit, note: &'static str) -> String {
        let (issuer, subject) = names(&visit.principal);
        let body = format!(
            include_str!("html/connect.html"),
            service = Text(SERVICE),
            name = Text(NAME),
            issuer = Text(issuer),
            subject = Text(subject),
            host = Text(&self.host),
            left = self.left(visit),
            note = note,
            longest = Secret::LONGEST,
            login = Text(&Login::path(&format!("{}/{}", self.path, visit.handle))),
        );
        html::page(&format!("Link your {SERVICE} account"), &self.host, &body)
    }

    fn done(&self, visit: &Visit) -> String {
        let body = format!(
            include_str!("html/done.html"),
            service = Text(SERVICE),
            name = Text(NAME),
            subject = Text(names(&visit.principal).1),
        );
        html::page("Linked", &self.host, &body)
    }

    fn closed(&self, visit: &Visit) -> String {
        let body = format!(
            include_str!("html/closed.html"),
            subject = Text(names(&visit.principal).1),
            left = self.left(visit),
        );
        html::page("Nothing was linked", &self.host, &body)
    }

    /// How long the link works, in words.
    fn left(&self, visit: &Visit) -> String {
        match visit.expires.saturating_since(self.login.now()).as_secs() / 60 {
            0 => "less than a minute".into(),
            1 => "1 minute".into(),
            minutes => format!("{minutes} minutes"),
        }
    }
}

/// Issuer and subject. The routes let nobody come here who has none.
fn names(principal: &Principal) -> (&str, &str) {
    match principal {
        Principal::User(user) => (user.issuer(), user.subject()),
        _ => ("", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_key_that_is_meant_to_be_linked_is_linked() {
        let key = Secret::pasted("k+1/2=").map(Submitted::Link).unwrap();
        assert_eq!(Submitted::read(b"api_key=+k%2B1%2F2%3D&do=link"), key);
        for (body, submitted) in [
            ("api_key=k&do=close", Submitted::Close),
            ("api_key=k", Submitted::Close),
            ("", Submitted::Close),
            ("api_key=&do=link", Submitted::NoKey),
            ("do=link", Submitted::NoKey),
            ("api_key=two+words&do=link", Submitted::NoKey),
        ] {
            assert_eq!(Submitted::read(body.as_bytes()), submitted, "{body}");
        }
    }
}
