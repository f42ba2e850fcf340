//! The page in a real browser: log in, paste, done, and the call completes.
//!
//! Needs Chromium and its driver (Debian: chromium, chromium-driver). Where they are absent the test says so and passes; with
//! `CI=true` it fails. It leaves pictures of the pages in the target directory, `link-account.png` and its like.

#![forbid(unsafe_code)]
#![allow(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "in a test, what panics has failed, and who skips it says so"
)]

mod recording;
mod server;
mod webdriver;

use std::panic::resume_unwind;

use mrtr_client::{Client, Refusal, UrlAnswer, UrlQuestion};
use tokio::sync::{mpsc, oneshot};

use crate::recording::Recording;
use crate::server::Server;
use crate::webdriver::{Browser, Driver, Programs, Sessions};

const KEY: &str = "k4711AlicesOwnAndNobodyElses";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_goes_from_the_browser_to_the_vault_and_past_the_client() {
    let Some(programs) = Programs::find() else {
        let absent = "no chromium/chromedriver (Debian: chromium, chromium-driver)";
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{absent}");
        println!("skipped: {absent}");
        return;
    };
    let driver = Driver::start(&programs).await;
    // In a task of its own, so that the browsers are ended whatever comes of it.
    let told = tokio::spawn(story(driver.sessions())).await;
    let left = driver.end().await;
    if let Err(failed) = told {
        resume_unwind(failed.into_panic());
    }
    assert_eq!(left, Vec::<String>::new(), "browser processes are left");
}

async fn story(sessions: Sessions) {
    let server = Server::start().await;
    let recording = Recording::new();
    let (client, mut questions) = alice(&server, &recording);
    assert_eq!(
        status(&client).await,
        "No account at tickets.example is linked."
    );
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("link_account", ()).await }
    });

    // Consent alone moves nothing.
    let (question, answer) = questions.recv().await.unwrap();
    assert_eq!((question.key.as_str(), question.repeated), ("link", 0));
    assert!(question.message.contains("API key"), "{}", question.message);
    let url = question.url.as_str().to_owned();
    let handle = url.strip_prefix(&format!("{}/", server.pages)).unwrap();
    answer.send(UrlAnswer::Accept).unwrap();
    let (again, answer) = questions.recv().await.unwrap();
    assert_eq!((again.url.as_str(), again.repeated), (url.as_str(), 1));
    assert_eq!(server.vault(), None);

    // Whoever opens it must log in.
    let browser = sessions.open_browser().await;
    browser.go(&url).await;
    assert_eq!(browser.text("h1").await, "Log in");
    browser.screenshot("link-account-login.png").await;
    assert_eq!(server.vault(), None);
    log_in(&browser, "alice").await;
    assert_eq!(browser.url().await, url);
    let shown = browser.text("main").await;
    for told in [
        "tickets.example",
        "link-account",
        "alice",
        "https://login.example",
        &server.host(),
    ] {
        assert!(shown.contains(told), "{told} is not shown: {shown}");
    }
    let cookie = browser.cookie("link_account_session").await;
    assert_eq!(
        (&cookie["httpOnly"], &cookie["sameSite"], &cookie["path"]),
        (&true.into(), &"Lax".into(), &"/".into())
    );

    // Somebody else is told so, and what they send is not taken.
    let other = sessions.open_browser().await;
    other.go(&url).await;
    log_in(&other, "bob").await;
    assert_eq!(
        (other.url().await, other.status().await),
        (url.clone(), 403)
    );
    assert!(other.text("body").await.contains("made for somebody else"));
    let cookie = other.cookie("link_account_session").await;
    assert_eq!(server.submit(&url, &cookie, KEY).await, 403);
    assert_eq!(server.vault(), None);

    // A no on the page is no key, and leaves the link as it was.
    browser.write("#api_key", KEY).await;
    browser.click("button[value=close]").await;
    assert_eq!(browser.text("h1").await, "Nothing was linked");
    assert_eq!(server.vault(), None);

    browser.go(&url).await;
    browser.write("#api_key", KEY).await;
    browser.screenshot("link-account.png").await;
    browser.prefer("dark").await;
    browser.screenshot("link-account-dark.png").await;
    browser.prefer("light").await;
    browser.click("button[value=link]").await;
    assert_eq!(browser.text("h1").await, "Linked");
    browser.screenshot("link-account-done.png").await;
    answer.send(UrlAnswer::Accept).unwrap();

    let result = call.await.unwrap().unwrap();
    assert_eq!(
        result.joined_text(),
        "The account at tickets.example is linked."
    );
    assert!(questions.try_recv().is_err(), "asked once more");
    assert_eq!(
        status(&client).await,
        "An account at tickets.example is linked."
    );
    let bob = Client::builder(&server.url)
        .bearer("bob-token")
        .build()
        .unwrap();
    assert_eq!(
        status(&bob).await,
        "No account at tickets.example is linked."
    );

    // The key is alice's in the vault, and nowhere else. What did pass is found by the same search: the end of the link.
    let vault = server.vault().unwrap();
    assert_eq!(vault.as_array().unwrap().len(), 1, "{vault}");
    assert_eq!(vault[0]["owner"]["subject"], "alice");
    assert_eq!(vault[0]["secret"], KEY);
    assert!(recording.plain(handle) > 0 && recording.in_base64(handle) > 0);
    assert_eq!((recording.plain(KEY), recording.in_base64(KEY)), (0, 0));
    let told = server.end().await;
    assert!(told.record.contains("\"linked\"") && told.record.contains("alice"));
    assert!(told.log.contains("somebody else"), "{}", told.log);
    assert!(!told.record.contains(KEY) && !told.log.contains(KEY));
}

type Questions = mpsc::UnboundedReceiver<(UrlQuestion, oneshot::Sender<UrlAnswer>)>;

/// A client of alice's whose questions come out here.
fn alice(server: &Server, recording: &Recording) -> (Client, Questions) {
    let (put, questions) = mpsc::unbounded_channel();
    let client = Client::builder(&server.url)
        .bearer("alice-token")
        .transport(recording.clone())
        .on_url(move |question: UrlQuestion| {
            let (answer, answered) = oneshot::channel();
            let put = put.send((question, answer));
            async move {
                put.map_err(|_| Refusal::new("nobody is there"))?;
                answered.await.map_err(|_| Refusal::new("nobody answered"))
            }
        })
        .build();
    (client.unwrap(), questions)
}

async fn status(client: &Client) -> String {
    let result = client.call_tool("account_status", ()).await;
    result.unwrap().joined_text()
}

async fn log_in(browser: &Browser, person: &str) {
    browser.write("#user", person).await;
    browser
        .write("#password", &format!("{person}-password"))
        .await;
    browser.click("form button").await;
}
