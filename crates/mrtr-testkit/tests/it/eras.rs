//! The same tools for a client of either era, over HTTP and over lines: same answers, same effects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mrtr_client::{
    Change, Client, ClientBuilder, Era, EraChoice, FormAnswer, FormQuestion, Refusal,
};
use mrtr_protocol::SubscriptionFilter;
use mrtr_server::{Principal, Server, resource};
use mrtr_testkit::{Effects, Harness};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

use crate::bank;

async fn yes(_: FormQuestion) -> Result<FormAnswer, Refusal> {
    Ok(FormAnswer::Accept(json!({"ok": true})))
}

/// A bank that announces what changes there.
fn open(effects: &Effects) -> Server {
    bank::server(bank::hmac(), effects, |server, _| {
        server
            .announces_changes()
            .resource(resource("bank://rates", async || "5 %"))
    })
}

/// A client of a new server by each way, and the effects there.
fn ways() -> Vec<(&'static str, ClientBuilder, Effects)> {
    servers()
        .into_iter()
        .map(|(way, client, effects, _)| (way, client, effects))
        .collect()
}

fn servers() -> Vec<(&'static str, ClientBuilder, Effects, Server)> {
    let effects = Effects::new();
    let served_over_http = open(&effects);
    let harness = Harness::new(served_over_http.clone());
    let over_http = harness.by("alice").client();
    let effects_of_lines = Effects::new();
    let server = open(&effects_of_lines);
    let served_over_lines = server.clone();
    let (reader, into_client) = tokio::io::duplex(64 * 1024);
    let (from_client, writer) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move {
        let alice = Principal::user("https://login.example", "alice");
        let forever = std::future::pending();
        server
            .serve_lines(from_client, into_client, alice, forever)
            .await
            .unwrap();
    });
    let over_lines = Client::pipe("bank", reader, writer);
    vec![
        ("HTTP", over_http, effects, served_over_http),
        ("lines", over_lines, effects_of_lines, served_over_lines),
    ]
}

#[tokio::test]
async fn case_228_what_is_asked_and_done_is_the_same() {
    for era in [EraChoice::Auto, EraChoice::Modern, EraChoice::Earlier] {
        for (way, client, effects) in ways() {
            let asked = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&asked);
            let client = client
                .era(era)
                .on_form(move |question| {
                    counter.fetch_add(1, Ordering::Relaxed);
                    yes(question)
                })
                .build()
                .unwrap();
            let text = async |tool: &str, arguments| {
                let result = client.call_tool(tool, arguments).await;
                result
                    .unwrap_or_else(|error| panic!("{way} {era:?}: {error}"))
                    .joined_text()
            };
            assert_eq!(text("charge_good", json!({"amount": 5})).await, "charged 5");
            assert_eq!(text("two", json!({})).await, "true true");
            assert_eq!(text("plain", json!({})).await, "done");
            assert_eq!(asked.load(Ordering::Relaxed), 3, "{way} {era:?}");
            assert_eq!(effects.count("charge"), 2, "{way} {era:?}");
            let is_earlier = matches!(client.era(), Some(Era::Earlier(_)));
            assert_eq!(is_earlier, era == EraChoice::Earlier, "{way} {era:?}");
            // A new session, or process, serves as well as the first.
            client.close().await;
        }
    }
}

#[tokio::test]
async fn a_refusal_of_the_host_is_no_consent_in_either_era() {
    for era in [EraChoice::Modern, EraChoice::Earlier] {
        for (way, client, effects) in ways() {
            let client = client
                .era(era)
                .on_form(async |_| Err(Refusal::new("policy")))
                .build()
                .unwrap();
            let answered = client.call_tool("charge_good", json!({"amount": 5})).await;
            // The modern call is abandoned; the earlier one is ended by its server.
            assert!(
                answered.is_err() || answered.unwrap().is_error,
                "{way} {era:?}"
            );
            assert_eq!(effects.count("charge"), 0, "{way} {era:?}");
        }
    }
}

#[tokio::test]
async fn who_cannot_be_asked_is_told_so_in_either_era() {
    for era in [EraChoice::Modern, EraChoice::Earlier] {
        for (way, client, effects) in ways() {
            let client = client.era(era).build().unwrap();
            let answered = client.call_tool("charge_good", json!({"amount": 5})).await;
            assert!(
                answered.is_err() || answered.unwrap().is_error,
                "{way} {era:?}"
            );
            assert_eq!(effects.count("charge"), 0, "{way} {era:?}");
        }
    }
}

#[tokio::test]
async fn word_of_a_change_reaches_who_asked_for_it() {
    let filter = SubscriptionFilter {
        tools_list_changed: true,
        resource_subscriptions: vec!["bank://rates".to_owned()],
        ..SubscriptionFilter::default()
    };
    for era in [EraChoice::Modern, EraChoice::Earlier] {
        for (way, client, _, server) in servers() {
            let client = client.era(era).build().unwrap();
            let mut subscription = client.listen(filter.clone()).await.unwrap();
            assert_eq!(*subscription.acknowledged(), filter, "{way} {era:?}");
            server.changes().prompts();
            server.changes().resource("bank://rates");
            let rates = Change::Resource {
                uri: "bank://rates".to_owned(),
            };
            assert_eq!(subscription.next().await.unwrap(), rates, "{way} {era:?}");
            server.changes().tools();
            assert_eq!(
                subscription.next().await.unwrap(),
                Change::ToolsList,
                "{way} {era:?}"
            );
        }
    }
}

/// Carries lines, and garbage before each; counts what was said and not what it put there.
async fn carry(from: DuplexStream, mut to: DuplexStream, said: Arc<AtomicUsize>) {
    let garbage = "Listening\n\u{feff}\nnull\n[]\n{\"jsonrpc\":\"2.0\"}\n{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,\"message\":\"x\"}}\n";
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        said.fetch_add(1, Ordering::SeqCst);
        let all = format!("{garbage}{line}\n");
        if to.write_all(all.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The server says one error of each bad line, and the client nothing: neither answers the other's for ever.
#[tokio::test(start_paused = true)]
async fn case_243_garbage_between_two_ends_is_not_answered_for_ever() {
    for era in [EraChoice::Modern, EraChoice::Earlier] {
        let server = open(&Effects::new());
        let [(reader, a), (b, into_client), (from_client, c), (d, writer)] =
            std::array::from_fn(|_| tokio::io::duplex(64 * 1024));
        let counts: [Arc<AtomicUsize>; 2] = Default::default();
        tokio::spawn(carry(b, a, Arc::clone(&counts[0])));
        tokio::spawn(carry(d, c, Arc::clone(&counts[1])));
        tokio::spawn(async move {
            let alice = Principal::user("https://login.example", "alice");
            let forever = std::future::pending();
            server
                .serve_lines(from_client, into_client, alice, forever)
                .await
        });
        let client = Client::pipe("bank", reader, writer).era(era).on_form(yes);
        let client = client.build().unwrap();
        let result = client.call_tool("charge_good", json!({"amount": 5})).await;
        assert_eq!(result.unwrap().joined_text(), "charged 5", "{era:?}");
        let said = || counts.each_ref().map(|count| count.load(Ordering::SeqCst));
        tokio::time::sleep(Duration::from_secs(60)).await;
        let by_then = said();
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(said(), by_then, "{era:?}: silence");
        assert!(by_then[0] <= 6 * by_then[1], "{era:?}: {by_then:?}");
        assert!(by_then[1] < 10, "{era:?}: {by_then:?}");
    }
}
