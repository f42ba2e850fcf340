//! Credentials that come about, expire and are refused.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use mrtr_client::credentials::MAX_CHALLENGES;
use mrtr_client::{
    Again, Authorization, CallError, Challenge, Client, Credentials, CredentialsError,
    CredentialsFuture, EraChoice, RequestError, Sending,
};
use mrtr_protocol::SubscriptionFilter;
use serde_json::json;

use crate::script::{Recorder, Reply, Seen, Server, asks, done, in_process, yes};

/// Tokens `secret-0`, `secret-1` and so on: the next one after each refusal.
#[derive(Clone, Default)]
struct Numbered(Arc<State>);

#[derive(Default)]
struct State {
    current: AtomicU32,
    /// What was refused, as it was told.
    told: Mutex<Vec<String>>,
    stops: bool,
    login: Option<Duration>,
}

impl Numbered {
    fn told(&self) -> Vec<String> {
        self.0.told.lock().unwrap().clone()
    }

    fn token(&self) -> String {
        format!("secret-{}", self.0.current.load(Ordering::Relaxed))
    }
}

impl std::fmt::Debug for Numbered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Numbered")
    }
}

impl Credentials for Numbered {
    fn authorize<'a>(
        &'a self,
        sending: Sending<'a>,
    ) -> CredentialsFuture<'a, Option<Authorization>> {
        Box::pin(async move {
            assert!(sending.uri.path().starts_with("/mcp"));
            Ok(Some(Authorization::bearer(&self.token())?))
        })
    }

    fn challenged<'a>(&'a self, challenge: Challenge<'a>) -> CredentialsFuture<'a, Again> {
        Box::pin(async move {
            assert!(challenge.used.unwrap().is_of(&self.token()));
            let wanted = challenge.www_authenticate().next();
            self.0.told.lock().unwrap().push(format!(
                "{} {} {} {}",
                challenge.nth,
                challenge.sending.method,
                challenge.status.as_u16(),
                wanted.map_or("nothing", |value| value.to_str().unwrap()),
            ));
            if let Some(login) = self.0.login {
                tokio::time::sleep(login).await;
            }
            if self.0.stops {
                return Ok(Again::Stop);
            }
            self.0.current.fetch_add(1, Ordering::Relaxed);
            Ok(Again::Send)
        })
    }
}

fn refused(status: u16) -> Reply {
    let challenge = r#"Bearer scope="files:write""#.to_owned();
    Reply::With(
        "www-authenticate",
        challenge,
        Box::new(Reply::status(status)),
    )
}

fn has(seen: &Seen, token: &str) -> bool {
    seen.headers
        .get_all("authorization")
        .iter()
        .eq([&*format!("Bearer {token}")])
}

#[tokio::test]
async fn a_refused_call_is_sent_again_with_what_is_there_by_then() {
    for status in [401, 403] {
        let server = Server::start(move |_, seen| {
            if has(seen, "secret-1") {
                done("x")
            } else {
                refused(status)
            }
        })
        .await;
        let credentials = Numbered::default();
        let client = server
            .client()
            .credentials(credentials.clone())
            .build()
            .unwrap();
        let result = client.call_tool("t", json!({"a": 1})).await.unwrap();
        assert_eq!(result.joined_text(), "x");
        let seen = server.seen();
        assert_eq!(seen.len(), 2);
        assert!(has(&seen[0], "secret-0") && has(&seen[1], "secret-1"));
        // The same request, to the last byte.
        assert_eq!(seen[0].text, seen[1].text);
        let told = format!(r#"1 POST {status} Bearer scope="files:write""#);
        assert_eq!(credentials.told(), [told]);
        // The next one begins with what was good.
        client.call_tool("t", ()).await.unwrap();
        assert_eq!((server.count(), credentials.told().len()), (3, 1));
    }
}

#[tokio::test]
async fn a_server_that_refuses_for_ever_is_not_asked_for_ever() {
    let server = Server::start(|_, _| refused(403)).await;
    let credentials = Numbered::default();
    let client = server
        .client()
        .credentials(credentials.clone())
        .build()
        .unwrap();
    let error = client.call_tool("t", ()).await.unwrap_err();
    assert!(
        matches!(
            error,
            CallError::Http {
                status: StatusCode::FORBIDDEN,
                ..
            }
        ),
        "{error}"
    );
    let sent = server.count();
    assert_eq!(sent, MAX_CHALLENGES as usize + 1);
    assert_eq!(credentials.told().len(), sent - 1);
}

#[tokio::test]
async fn only_a_refusal_is_a_reason_to_send_again_and_only_when_they_say_so() {
    let stops = || {
        Numbered(Arc::new(State {
            stops: true,
            ..State::default()
        }))
    };
    for (credentials, status, told) in [
        (stops(), 401, 1),
        (stops(), 403, 1),
        (Numbered::default(), 400, 0),
        (Numbered::default(), 407, 0),
        (Numbered::default(), 500, 0),
        (Numbered::default(), 503, 0),
    ] {
        let server = Server::start(move |_, _| refused(status)).await;
        let client = server
            .client()
            .era(EraChoice::Modern)
            .credentials(credentials.clone())
            .build()
            .unwrap();
        let error = client.call_tool("t", ()).await.unwrap_err();
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        assert_eq!(
            (server.count(), credentials.told().len()),
            (1, told),
            "{status}"
        );
    }
    // A token that is given as it is has nothing to say to a refusal.
    let server = Server::start(|_, _| refused(401)).await;
    let client = server.client().bearer("secret").build().unwrap();
    client.call_tool("t", ()).await.unwrap_err();
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn a_redirect_takes_no_token_to_another_origin() {
    let other = Server::start(|_, _| done("stolen")).await;
    let to = other.url.clone();
    let server =
        Server::start(move |_, _| Reply::Redirect(StatusCode::TEMPORARY_REDIRECT, to.clone()))
            .await;
    let client = server
        .client()
        .credentials(Numbered::default())
        .build()
        .unwrap();
    client.call_tool("t", ()).await.unwrap_err();
    assert_eq!((server.count(), other.count()), (1, 0));
    assert!(has(&server.seen()[0], "secret-0"));
}

fn earlier(seen: &Seen) -> Reply {
    match seen.what() {
        "initialize" => Reply::With(
            "mcp-session-id",
            "s".to_owned(),
            Box::new(Reply::Result(json!({
                "protocolVersion": "2025-11-25",
                "serverInfo": {"name": "x", "version": "1"},
                "capabilities": {},
            }))),
        ),
        "notifications/initialized" => Reply::Accepted,
        "GET" | "DELETE" => Reply::status(405),
        _ => Reply::Result(json!({"content": [{"type": "text", "text": "x"}]})),
    }
}

#[tokio::test]
async fn every_request_of_a_session_has_them_and_each_refusal_is_told() {
    // Each method is refused the first time that it comes.
    let known = Arc::new(Mutex::new(Vec::<String>::new()));
    let server = Server::start(move |_, seen| {
        let mut known = known.lock().unwrap();
        if known.iter().any(|what| what == seen.what()) {
            return earlier(seen);
        }
        known.push(seen.what().to_owned());
        refused(401)
    })
    .await;
    let credentials = Numbered::default();
    let client = server
        .client()
        .era(EraChoice::Earlier)
        .on_form(yes)
        .credentials(credentials.clone())
        .build()
        .unwrap();
    client.call_tool("t", ()).await.unwrap();
    client.close().await;
    let mut told = credentials.told();
    told.sort();
    let want = |method| format!(r#"1 {method} 401 Bearer scope="files:write""#);
    let post = want("POST");
    assert_eq!(
        told,
        [
            want("DELETE"),
            want("GET"),
            post.clone(),
            post.clone(),
            post
        ]
    );
    let tokens: Vec<_> = server
        .seen()
        .iter()
        .map(|seen| seen.header("authorization").to_owned())
        .collect();
    assert!(
        tokens
            .iter()
            .all(|token| token.starts_with("Bearer secret-")),
        "{tokens:?}"
    );
    assert_eq!(
        server
            .recorder
            .methods()
            .iter()
            .filter(|what| *what == "tools/call")
            .count(),
        2
    );
}

#[tokio::test]
async fn a_subscription_and_a_round_have_them_too() {
    let server = Server::start(|_, seen| {
        if !has(seen, "secret-1") {
            return refused(401);
        }
        match seen.what() {
            "subscriptions/listen" => {
                let acknowledged = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
                    "notifications": {"toolsListChanged": true},
                    "_meta": {"io.modelcontextprotocol/subscriptionId": seen.id()},
                }});
                Reply::Stream(vec![format!("data: {acknowledged}\n\n")], true)
            }
            _ if seen.param("inputResponses").is_none() => asks("k", "S"),
            _ => done("x"),
        }
    })
    .await;
    let client = server
        .client()
        .era(EraChoice::Modern)
        .on_form(yes)
        .credentials(Numbered::default())
        .build()
        .unwrap();
    let filter = SubscriptionFilter {
        tools_list_changed: true,
        ..SubscriptionFilter::default()
    };
    let subscription = client.listen(filter).await.unwrap();
    assert_eq!(server.count(), 2);
    client.call_tool("t", ()).await.unwrap();
    assert_eq!(server.count(), 4);
    assert!(server.seen()[1..].iter().all(|seen| has(seen, "secret-1")));
    drop(subscription);
}

/// There are none.
#[derive(Debug)]
struct Nobody;

impl Credentials for Nobody {
    fn authorize<'a>(&'a self, _: Sending<'a>) -> CredentialsFuture<'a, Option<Authorization>> {
        Box::pin(async { Err(CredentialsError::new("nobody logged in")) })
    }

    fn challenged<'a>(&'a self, _: Challenge<'a>) -> CredentialsFuture<'a, Again> {
        Box::pin(async { Ok(Again::Stop) })
    }
}

#[tokio::test]
async fn without_credentials_nothing_is_sent_and_the_call_can_go_on() {
    let server = Server::start(|_, _| done("x")).await;
    let client = server.client().credentials(Nobody).build().unwrap();
    let error = client.call_tool("t", json!({"a": 1})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "no credentials: nobody logged in; resume the call when there are"
    );
    let CallError::NoCredentials { pending, .. } = error else {
        panic!("{error}")
    };
    let error = client.list_tools().await.unwrap_err();
    assert!(matches!(error, RequestError::Credentials(_)), "{error}");
    assert_eq!(server.count(), 0);
    let client = server
        .client()
        .credentials(Numbered::default())
        .build()
        .unwrap();
    client.resume(*pending).await.unwrap();
    assert_eq!(server.seen()[0].params()["arguments"], json!({"a": 1}));
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_login_is_not_the_requests() {
    let recorder = Recorder::new(|n, _| if n == 1 { refused(401) } else { done("x") });
    let hour = Duration::from_secs(3_600);
    let credentials = Numbered(Arc::new(State {
        login: Some(hour),
        ..State::default()
    }));
    let client = in_process(&recorder)
        .credentials(credentials)
        .build()
        .unwrap();
    let begun = tokio::time::Instant::now();
    client.call_tool("t", ()).await.unwrap();
    assert_eq!(begun.elapsed(), hour);
}

#[test]
fn tokens_are_not_printed() {
    let bearer = Authorization::bearer("secret-4711").unwrap();
    let dpop = Authorization::dpop("secret-4711", "secret-4712").unwrap();
    assert!(bearer.is_of("secret-4711") && dpop.is_of("secret-4711"));
    assert!(!bearer.is_of("secret-471") && !dpop.is_of(""));
    let client = Client::builder("http://127.0.0.1:1/mcp").bearer("secret-4711");
    let printed = format!("{bearer:?} {dpop:?} {client:?}");
    let printed = format!("{printed} {:?}", client.build().unwrap());
    assert!(!printed.contains("secret-47"), "{printed}");
    let error = Authorization::bearer("secret-4711\n").unwrap_err();
    assert!(!format!("{error} {error:?}").contains("4711"));
    assert!(Authorization::dpop("x", "secret\n").is_err());
}
