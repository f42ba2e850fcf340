//! The receiver on this machine, with a browser that is a task.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mrtr_auth::client::{
    ApplicationType, AuthError, LoopbackReceiver, OAuth, Registration, UserAgent as _,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use url::Url;

use super::world::{World, call};

/// A receiver, and the URLs that it opened.
fn receiver() -> (LoopbackReceiver, Arc<Mutex<Vec<Url>>>) {
    let opened = Arc::<Mutex<Vec<Url>>>::default();
    let sink = Arc::clone(&opened);
    let receiver = LoopbackReceiver::new(move |url| {
        sink.lock().unwrap().push(url.clone());
        Ok(())
    });
    (receiver, opened)
}

/// What a browser gets for a request.
async fn say(uri: &Url, request: &str) -> String {
    let mut connection = TcpStream::connect(("127.0.0.1", uri.port().unwrap()))
        .await
        .unwrap();
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    // A receiver that hangs up says nothing.
    drop(connection.read_to_string(&mut response).await);
    response
}

fn authorization(state: &str) -> Url {
    format!("https://as.example/authorize?state={state}")
        .parse()
        .unwrap()
}

#[tokio::test]
async fn it_waits_for_the_redirect_and_lets_nothing_else_end_it() {
    let (receiver, opened) = receiver();
    let redirection = receiver.begin(None).await.unwrap();
    let uri: Url = redirection.redirect_uri().parse().unwrap();
    assert_eq!(
        (uri.host_str(), uri.path()),
        (Some("127.0.0.1"), "/callback")
    );
    let visit = tokio::spawn(redirection.visit(authorization("S")));
    for other in [
        "GET /favicon.ico HTTP/1.1\r\n\r\n",
        "GET /callback?code=x&state=T HTTP/1.1\r\n\r\n",
        "GET /callback?code=x HTTP/1.1\r\n\r\n",
        "GET /callback/y?state=S HTTP/1.1\r\n\r\n",
        "GET //evil.example/callback?state=S HTTP/1.1\r\n\r\n",
        "GET http://evil.example/callback?state=S HTTP/1.1\r\n\r\n",
        "POST /callback?code=x&state=S HTTP/1.1\r\n\r\n",
    ] {
        let response = say(&uri, other).await;
        assert!(!response.contains("200 OK"), "{other}: {response}");
    }
    let long = format!(
        "GET /callback?state=S&x={} HTTP/1.1\r\n\r\n",
        "x".repeat(100_000)
    );
    assert!(!say(&uri, &long).await.contains("200 OK"));
    let response = say(
        &uri,
        "GET /callback?code=C&state=S HTTP/1.1\r\nhost: x\r\n\r\n",
    )
    .await;
    assert!(response.starts_with("HTTP/1.1 200 OK"), "{response}");
    assert!(response.contains("no-referrer") && !response.contains("code=C"));
    let redirect = visit.await.unwrap().unwrap();
    assert_eq!(redirect, format!("{uri}?code=C&state=S"));
    assert_eq!(opened.lock().unwrap().len(), 1);
    // Nobody listens any more.
    assert!(
        TcpStream::connect(("127.0.0.1", uri.port().unwrap()))
            .await
            .is_err()
    );
    // The same port once more, where the client is registered with it.
    let again = receiver.begin(Some(uri.as_str())).await.unwrap();
    assert_eq!(again.redirect_uri(), uri.as_str());
    let elsewhere = receiver
        .begin(Some("https://app.example/callback"))
        .await
        .unwrap();
    assert!(elsewhere.redirect_uri().starts_with("http://127.0.0.1:"));
}

#[tokio::test]
async fn it_does_not_wait_for_ever_and_says_when_nothing_can_be_opened() {
    let (receiver, _) = receiver();
    let receiver = receiver.timeout(Duration::from_millis(50));
    let redirection = receiver.begin(None).await.unwrap();
    let error = redirection.visit(authorization("S")).await.unwrap_err();
    assert!(error.to_string().contains("in time"), "{error}");
    let broken = LoopbackReceiver::new(|_| Err("no browser".into()));
    let redirection = broken.begin(None).await.unwrap();
    let error = redirection.visit(authorization("S")).await.unwrap_err();
    assert_eq!(error.to_string(), "no browser");
    let world = World::start().await;
    let registration = Registration::new("Tests", ApplicationType::Native);
    let error = world
        .refused(OAuth::for_user(world.server(), broken).registration(registration))
        .await;
    assert!(matches!(error, AuthError::UserAgent(_)), "{error}");
}

#[tokio::test]
async fn a_login_by_it_is_a_login() {
    let world = World::start().await;
    let runtime = tokio::runtime::Handle::current();
    let receiver = LoopbackReceiver::new(move |url| {
        // A browser of its own, which follows the redirect.
        runtime.spawn(reqwest::get(url.clone()));
        Ok(())
    });
    let registration = Registration::new("Tests", ApplicationType::Native);
    let oauth = OAuth::for_user(world.server(), receiver)
        .registration(registration)
        .build()
        .unwrap();
    assert_eq!(
        call(&world.client(&oauth)).await.unwrap().joined_text(),
        "done"
    );
}
