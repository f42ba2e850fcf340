//! Word of changes in a session (*2025-11-25, Resources, Subscriptions; List Changed Notification*).

use std::time::Duration;

use mrtr_client::{Change, ClientBuilder, Ended, EraChoice, RequestError};
use mrtr_protocol::SubscriptionFilter;
use serde_json::{Value, json};

use crate::script::{Recorder, Reply, Streams, in_process, session};
use crate::stdio::peer::{self, Peer};

fn all() -> SubscriptionFilter {
    SubscriptionFilter {
        tools_list_changed: true,
        prompts_list_changed: true,
        resources_list_changed: true,
        resource_subscriptions: vec!["note://1".to_owned(), "note://2".to_owned()],
    }
}

fn initialized(capabilities: &Value) -> Value {
    json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "s", "version": "1"}})
}

fn announcing() -> Value {
    json!({"tools": {"listChanged": true}, "prompts": {"listChanged": false}, "resources": {"subscribe": true, "listChanged": true}})
}

fn over_http(streams: &Streams, capabilities: Value) -> (ClientBuilder, Recorder) {
    let streams = streams.clone();
    let recorder = Recorder::new(session("2025-11-25", move |seen| match seen.what() {
        "initialize" => Some(Reply::With(
            "mcp-session-id",
            "s-1".to_owned(),
            Box::new(Reply::Result(initialized(&capabilities))),
        )),
        "GET" => Some(streams.open()),
        "resources/subscribe" if seen.params()["uri"] == "note://2" => Some(Reply::Error(
            axum::http::StatusCode::OK,
            json!({"code": -32002, "message": "Resource not found", "data": {"uri": "note://2"}}),
        )),
        "resources/subscribe" | "resources/unsubscribe" => Some(Reply::Result(json!({}))),
        _ => None,
    }));
    (in_process(&recorder).era(EraChoice::Earlier), recorder)
}

fn over_lines() -> (ClientBuilder, Peer) {
    let (client, peer) = Peer::start(|message| match message["method"].as_str() {
        Some("initialize") => vec![peer::result(message, initialized(&announcing()))],
        Some("resources/subscribe") if message["params"]["uri"] == "note://2" => {
            vec![peer::error(message, -32002)]
        }
        Some("resources/subscribe" | "resources/unsubscribe") => {
            vec![peer::result(message, json!({}))]
        }
        _ => Vec::new(),
    });
    (client.era(EraChoice::Earlier), peer)
}

fn notify(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

fn honoured() -> SubscriptionFilter {
    SubscriptionFilter {
        tools_list_changed: true,
        resources_list_changed: true,
        resource_subscriptions: vec!["note://1".to_owned()],
        ..SubscriptionFilter::default()
    }
}

#[tokio::test]
async fn what_the_server_announces_is_honoured_and_heard() {
    let streams = Streams::default();
    let (client, recorder) = over_http(&streams, announcing());
    let client = client.build().unwrap();
    let mut subscription = client.listen(all()).await.unwrap();
    assert_eq!(*subscription.acknowledged(), honoured());
    recorder.until("GET", 1).await;
    for message in [
        notify("notifications/prompts/list_changed", json!({})),
        notify(
            "notifications/resources/updated",
            json!({"uri": "note://3"}),
        ),
        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
        notify(
            "notifications/resources/updated",
            json!({"uri": "note://1"}),
        ),
    ] {
        streams.send(0, &message);
    }
    assert_eq!(subscription.next().await.unwrap(), Change::ToolsList);
    let change = Change::Resource {
        uri: "note://1".to_owned(),
    };
    assert_eq!(subscription.next().await.unwrap(), change);
    drop(subscription);
    let told = recorder.until("resources/unsubscribe", 1).await;
    assert_eq!(told.params()["uri"], "note://1");
}

#[tokio::test]
async fn over_lines_it_is_the_same() {
    let (client, peer) = over_lines();
    let client = client.build().unwrap();
    let mut subscription = client.listen(all()).await.unwrap();
    assert_eq!(*subscription.acknowledged(), honoured());
    peer.say(&notify("notifications/resources/list_changed", json!({})));
    assert_eq!(subscription.next().await.unwrap(), Change::ResourcesList);
    drop(subscription);
    peer.until("resources/unsubscribe", 1).await;
    let mut again = client.listen(all()).await.unwrap();
    peer.hang_up();
    let Err(Ended::Broken(why)) = again.next().await else {
        panic!("no break")
    };
    assert!(matches!(*why, RequestError::Interrupted(_)), "{why}");
}

#[tokio::test]
async fn a_resource_is_left_when_the_last_who_listens_goes() {
    let streams = Streams::default();
    let (client, recorder) = over_http(&streams, announcing());
    let client = client.build().unwrap();
    let first = client.listen(all()).await.unwrap();
    let mut second = client.listen(all()).await.unwrap();
    drop(first);
    recorder.until("GET", 1).await;
    streams.send(
        0,
        &notify(
            "notifications/resources/updated",
            json!({"uri": "note://1"}),
        ),
    );
    second.next().await.unwrap();
    assert!(
        !recorder
            .methods()
            .contains(&"resources/unsubscribe".to_owned())
    );
    drop(second);
    recorder.until("resources/unsubscribe", 1).await;
    let gets = recorder
        .methods()
        .iter()
        .filter(|what| *what == "GET")
        .count();
    assert_eq!(gets, 1, "one stream for all who listen");
}

#[tokio::test]
async fn a_server_that_announces_nothing_honours_nothing() {
    let streams = Streams::default();
    let (client, recorder) = over_http(&streams, json!({"tools": {}, "resources": {}}));
    let client = client.build().unwrap();
    let subscription = client.listen(all()).await.unwrap();
    assert!(subscription.acknowledged().is_empty());
    assert!(
        !recorder
            .methods()
            .contains(&"resources/subscribe".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_stream_for_it_there_is_no_word_and_it_says_so() {
    let (client, _recorder) = {
        let recorder = Recorder::new(session("2025-11-25", |seen| match seen.what() {
            "initialize" => Some(Reply::Result(initialized(&announcing()))),
            "resources/subscribe" => Some(Reply::Result(json!({}))),
            _ => None,
        }));
        (in_process(&recorder).era(EraChoice::Earlier), recorder)
    };
    let client = client.build().unwrap();
    let mut subscription = client.listen(all()).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), subscription.next()).await;
    let Ok(Err(Ended::Broken(why))) = ended else {
        panic!("{ended:?}")
    };
    assert!(
        matches!(&*why, RequestError::Http { status } if *status == 405),
        "{why}"
    );
}

#[tokio::test]
async fn closing_ends_it() {
    let streams = Streams::default();
    let (client, recorder) = over_http(&streams, announcing());
    let client = client.build().unwrap();
    let mut subscription = client.listen(all()).await.unwrap();
    recorder.until("GET", 1).await;
    client.close().await;
    assert!(matches!(subscription.next().await, Err(Ended::Broken(_))));
    drop(subscription);
    recorder.until("DELETE", 1).await;
    assert!(
        !recorder
            .methods()
            .contains(&"resources/unsubscribe".to_owned())
    );
}
