//! Pages: consent is not completion, and a link is its owner's.

use axum::body::{Body, Bytes};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use mrtr_server::page::PageFuture;
use mrtr_server::{
    Answer, Flow, MemoryVisits, Page, Pages, Principal, State, Submission, Visit, tool,
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tower_service::Service as _;

use crate::bank::{Bank, Call, Reply};
use crate::session::{Session, everything, text};

/// What pages were given, by whom.
#[derive(Clone, Default)]
struct Vault(Arc<Mutex<Vec<String>>>);

impl Page for Vault {
    /// A login by header, in place of a cookie.
    fn visitor<'a>(&'a self, head: &'a Parts) -> PageFuture<'a, Option<Principal>> {
        let name = head
            .headers
            .get("x-logged-in")
            .and_then(|name| name.to_str().ok());
        let visitor = name.map(|name| Principal::user("https://as.example", name));
        Box::pin(async { visitor })
    }

    fn login(&self, back: &str) -> Response<Body> {
        Response::new(Body::from(format!("log in, then go back to {back}")))
    }

    fn show<'a>(&'a self, visit: &'a Visit) -> PageFuture<'a, String> {
        Box::pin(async move { format!("<p>for {}</p>", visit.key) })
    }

    fn submit<'a>(&'a self, _: &'a Visit, body: Bytes) -> PageFuture<'a, Submission> {
        Box::pin(async move {
            let text = String::from_utf8_lossy(&body).into_owned();
            if text.is_empty() {
                return Submission::Again("empty".into());
            }
            self.0.lock().unwrap().push(text);
            Submission::Done("done".into())
        })
    }
}

async fn link(flow: Flow, State(pages): State<Pages>) -> &'static str {
    match flow.ask_url("go", "Link your account.", &pages).await {
        Answer::Accept(()) => "linked",
        Answer::Decline => "declined",
        Answer::Cancel => "dismissed",
    }
}

struct Site {
    bank: Bank,
    vault: Vault,
    router: axum::Router,
}

impl Site {
    fn new() -> Self {
        let clock = Bank::new().clock;
        let pages = Pages::new(
            "https://bank.example/connect",
            MemoryVisits::new(clock.clone()),
        )
        .unwrap();
        let vault = Vault::default();
        let router = pages.routes(vault.clone());
        let bank = Bank::with(|builder| {
            builder
                .clock(clock.clone())
                .state(pages)
                .tool(tool("link", link))
        });
        Self {
            bank: Bank { clock, ..bank },
            vault,
            router,
        }
    }

    async fn visit(
        &self,
        method: &str,
        url: &str,
        visitor: Option<&str>,
        body: &str,
        headers: &[(&str, &str)],
    ) -> (StatusCode, String) {
        let path = url
            .strip_prefix("https://bank.example")
            .expect("the pages' address");
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "bank.example");
        if let Some(visitor) = visitor {
            request = request.header("x-logged-in", visitor);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self
            .router
            .clone()
            .call(request.body(Body::from(body.to_owned())).unwrap())
            .await
            .unwrap();
        let (head, body) = response.into_parts();
        assert_eq!(head.headers["cache-control"], "no-store");
        assert_eq!(head.headers["referrer-policy"], "same-origin");
        let bytes = body.collect().await.unwrap().to_bytes();
        (head.status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    fn stored(&self) -> Vec<String> {
        self.vault.0.lock().unwrap().clone()
    }
}

fn call() -> Call {
    Call::of("link", json!({}))
}

fn url(reply: &Reply) -> String {
    reply.body["result"]["inputRequests"]["go"]["params"]["url"]
        .as_str()
        .unwrap_or_else(|| panic!("{reply:?}"))
        .to_owned()
}

fn retry(last: &Reply, answer: Value) -> Call {
    call().id(2).state(last.state()).answer("go", answer)
}

fn consent() -> Value {
    json!({ "action": "accept" })
}

#[tokio::test]
async fn case_171_consent_is_not_completion_and_the_url_stays_the_same() {
    let site = Site::new();
    let asked = site.bank.send(&call()).await;
    let page = url(&asked);
    for part in ["user-a", "app-1", "acct", asked.state()] {
        assert!(!page.contains(part), "{page}");
    }
    let again = site.bank.send(&retry(&asked, consent())).await;
    assert_eq!(url(&again), page, "asked again, with the same URL");
    let shown = site.visit("GET", &page, Some("user-a"), "", &[]).await;
    assert_eq!(shown, (StatusCode::OK, "<p>for go</p>".into()));
    let looked = site.bank.send(&retry(&again, consent())).await;
    assert_eq!(url(&looked), page, "having looked is not having done");
    assert_eq!(
        site.visit("POST", &page, Some("user-a"), "", &[]).await.1,
        "empty"
    );
    assert_eq!(
        site.visit("POST", &page, Some("user-a"), "a secret", &[])
            .await
            .1,
        "done"
    );
    let done = site.bank.send(&retry(&looked, consent())).await;
    assert_eq!(
        (done.text(), site.stored()),
        ("linked", vec!["a secret".to_owned()])
    );
}

#[tokio::test]
async fn a_decline_is_a_decline_even_after_the_visit() {
    for (action, text) in [("decline", "declined"), ("cancel", "dismissed")] {
        let site = Site::new();
        let asked = site.bank.send(&call()).await;
        site.visit("POST", &url(&asked), Some("user-a"), "a secret", &[])
            .await;
        let done = site
            .bank
            .send(&retry(&asked, json!({ "action": action })))
            .await;
        assert_eq!(done.text(), text);
    }
}

#[tokio::test]
async fn case_170_somebody_elses_visit_stores_nothing_and_completes_nothing() {
    let site = Site::new();
    let asked = site.bank.send(&call()).await;
    let page = url(&asked);
    for method in ["GET", "POST"] {
        let (status, _) = site
            .visit(method, &page, Some("user-b"), "a secret", &[])
            .await;
        assert_eq!(status, StatusCode::FORBIDDEN);
        let (_, login) = site.visit(method, &page, None, "a secret", &[]).await;
        assert!(login.starts_with("log in"), "{login}");
    }
    let (unknown, _) = site
        .visit(
            "POST",
            "https://bank.example/connect/AAAAAAAAAAAAAAAAAAAAAA",
            Some("user-a"),
            "x",
            &[],
        )
        .await;
    assert_eq!(unknown, StatusCode::NOT_FOUND);
    for foreign in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let (status, _) = site
            .visit("POST", &page, Some("user-a"), "a secret", &[foreign])
            .await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{foreign:?}");
    }
    assert!(site.stored().is_empty());
    let again = site.bank.send(&retry(&asked, consent())).await;
    assert_eq!(url(&again), page, "nothing is done");
    let own = [
        ("origin", "https://bank.example"),
        ("sec-fetch-site", "same-origin"),
    ];
    assert_eq!(
        site.visit("POST", &page, Some("user-a"), "a secret", &own)
            .await
            .0,
        StatusCode::OK
    );
    assert_eq!(
        site.bank.send(&retry(&again, consent())).await.text(),
        "linked"
    );
}

#[tokio::test]
async fn a_visit_ends_with_its_flow() {
    let site = Site::new();
    let asked = site.bank.send(&call()).await;
    site.bank.clock.advance(Duration::from_secs(3600));
    let (status, _) = site
        .visit("POST", &url(&asked), Some("user-a"), "a secret", &[])
        .await;
    assert_eq!((status, site.stored()), (StatusCode::NOT_FOUND, vec![]));
}

#[tokio::test]
async fn two_flows_have_two_pages_and_anonymous_callers_none() {
    let site = Site::new();
    let (one, other) = (site.bank.send(&call()).await, site.bank.send(&call()).await);
    assert_ne!(url(&one), url(&other));
    site.visit("POST", &url(&one), Some("user-a"), "a secret", &[])
        .await;
    assert_eq!(
        url(&site.bank.send(&retry(&other, consent())).await),
        url(&other),
        "the other's visit is its own"
    );
    let anonymous = site
        .bank
        .send(&call().without_header("authorization"))
        .await;
    assert_eq!(anonymous.code(), Some(-32603), "{anonymous:?}");
}

/// Who declares elicitation without a mode declares forms.
#[tokio::test]
async fn case_115_a_page_is_for_clients_that_open_pages() {
    let site = Site::new();
    for capabilities in [json!({}), json!({ "form": {} })] {
        let capabilities = json!({ "elicitation": capabilities });
        let reply = site.bank.send(&call().declaring(capabilities)).await;
        assert_eq!(
            (reply.status, reply.code()),
            (StatusCode::BAD_REQUEST, Some(-32021))
        );
        assert_eq!(
            reply.body["error"]["data"]["requiredCapabilities"],
            json!({ "elicitation": { "url": {} } })
        );
    }
    let url_alone = json!({ "elicitation": { "url": {} } });
    url(&site.bank.send(&call().declaring(url_alone)).await);
}

#[test]
fn the_address_of_pages_is_one() {
    let clock = Bank::new().clock;
    for good in [
        "https://a.example/connect",
        "http://127.0.0.1:3000",
        "https://a.example/x/",
    ] {
        Pages::new(good, MemoryVisits::new(clock.clone())).unwrap();
    }
    for bad in [
        "",
        "/connect",
        "ftp://a/x",
        "https://a.example/x?y=1",
        "javascript:alert(1)",
    ] {
        Pages::new(bad, MemoryVisits::new(clock.clone())).unwrap_err();
    }
}

#[tokio::test]
async fn case_228_in_a_session_a_page_is_asked_for_by_request_under_an_id() {
    let site = Site::new();
    let session = Session::open(&site.bank.server, everything()).await;
    let mut call = session.call(1, "link", json!({})).await;
    let first = call.message().await;
    let params = &first["params"];
    assert_eq!(
        (&first["method"], &params["mode"]),
        (&json!("elicitation/create"), &json!("url"))
    );
    assert!(!params["elicitationId"].as_str().unwrap().is_empty());
    let page = params["url"].as_str().unwrap().to_owned();
    // Consent to look is not completion in this era either, and somebody else's visit is none.
    session.answer(&first, json!({ "action": "accept" })).await;
    let (status, _) = site.visit("POST", &page, Some("user-b"), "x", &[]).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let early = tokio::time::timeout(Duration::from_millis(50), call.event()).await;
    assert!(early.is_err(), "{early:?}");
    site.visit("POST", &page, Some("user-a"), "a secret", &[])
        .await;
    let complete = call.message().await;
    assert_eq!(complete["method"], "notifications/elicitation/complete");
    assert_eq!(complete["params"]["elicitationId"], params["elicitationId"]);
    assert_eq!(text(&call.message().await), "linked");
}
