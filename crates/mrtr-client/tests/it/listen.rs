//! Subscriptions of the modern era, over HTTP and over lines (*Subscriptions*).

use std::time::Duration;

use futures_util::StreamExt as _;
use mrtr_client::{Change, Client, Ended, ProtocolError, RequestError};
use mrtr_protocol::SubscriptionFilter;
use serde_json::{Value, json};

use crate::script::{Recorder, Reply, Streams, done, in_process};
use crate::stdio::peer::{Peer, modern, result, text};

fn filter() -> SubscriptionFilter {
    SubscriptionFilter {
        tools_list_changed: true,
        resource_subscriptions: vec!["note://1".to_owned(), "file:///p/".to_owned()],
        ..SubscriptionFilter::default()
    }
}

fn on(id: &Value, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": id});
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

fn acknowledged(id: &Value) -> Value {
    let notifications =
        json!({"toolsListChanged": true, "resourceSubscriptions": ["note://1", "file:///p/"]});
    on(
        id,
        "notifications/subscriptions/acknowledged",
        json!({"notifications": notifications}),
    )
}

fn tools_changed(id: &Value) -> Value {
    on(id, "notifications/tools/list_changed", json!({}))
}

fn updated(id: &Value, uri: &str) -> Value {
    on(id, "notifications/resources/updated", json!({"uri": uri}))
}

fn ended(id: &Value) -> Value {
    let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
    json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "_meta": meta}})
}

/// A server of either transport that lets the test say everything after the request.
enum Server {
    Http(Recorder, Streams),
    Lines(Peer),
}

impl Server {
    fn all() -> Vec<(Client, Self)> {
        let streams = Streams::default();
        let open = streams.clone();
        let recorder = Recorder::new(move |_, seen| match seen.what() {
            "subscriptions/listen" => open.open(),
            "server/discover" => Reply::Result(
                json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}),
            ),
            "tools/list" => Reply::Result(
                json!({"resultType": "complete", "tools": [], "ttlMs": 600_000, "cacheScope": "private"}),
            ),
            _ => done("x"),
        });
        let http = in_process(&recorder)
            .request_timeout(Duration::from_secs(20))
            .build()
            .unwrap();
        let (lines, peer) = modern(|message| match message["method"].as_str() {
            Some("tools/list") => vec![result(
                message,
                json!({"resultType": "complete", "tools": [], "ttlMs": 600_000, "cacheScope": "private"}),
            )],
            Some("tools/call") => vec![text(message, "x")],
            _ => Vec::new(),
        });
        let lines = lines
            .request_timeout(Duration::from_secs(20))
            .build()
            .unwrap();
        vec![
            (http, Self::Http(recorder, streams)),
            (lines, Self::Lines(peer)),
        ]
    }

    /// The request of the nth subscription.
    async fn request(&self, nth: usize) -> Value {
        match self {
            Self::Http(recorder, _) => recorder.until("subscriptions/listen", nth).await.body,
            Self::Lines(peer) => peer.until("subscriptions/listen", nth).await,
        }
    }

    fn say(&self, nth: usize, message: &Value) {
        match self {
            Self::Http(_, streams) => streams.send(nth - 1, message),
            Self::Lines(peer) => peer.say(message),
        }
    }

    fn hang_up(&self, nth: usize) {
        match self {
            Self::Http(_, streams) => streams.close(nth - 1),
            Self::Lines(peer) => peer.hang_up(),
        }
    }

    /// The server has learnt that nobody listens any more.
    async fn until_cancelled(&self, nth: usize, id: &Value) {
        match self {
            Self::Http(_, streams) => streams.closed(nth - 1).await,
            Self::Lines(peer) => {
                let cancelled = peer.until("notifications/cancelled", nth).await;
                assert_eq!(cancelled["params"]["requestId"], *id);
            }
        }
    }

    fn methods(&self) -> Vec<String> {
        match self {
            Self::Http(recorder, _) => recorder.methods(),
            Self::Lines(peer) => peer.methods(),
        }
    }

    /// Opens the nth subscription, which is acknowledged.
    async fn listen(&self, client: &Client, nth: usize) -> (Value, mrtr_client::Subscription) {
        let listening = tokio::spawn({
            let client = client.clone();
            async move { client.listen(filter()).await }
        });
        let id = self.request(nth).await["id"].clone();
        self.say(nth, &acknowledged(&id));
        (id, listening.await.unwrap().unwrap())
    }
}

#[tokio::test]
async fn changes_come_as_they_were_asked_for() {
    for (client, server) in Server::all() {
        let (id, mut subscription) = server.listen(&client, 1).await;
        let request = server.request(1).await;
        assert_eq!(
            request["params"]["notifications"],
            json!({"toolsListChanged": true, "resourceSubscriptions": ["note://1", "file:///p/"]})
        );
        assert_eq!(
            request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"],
            "2026-07-28"
        );
        assert_eq!(*subscription.acknowledged(), filter());
        assert!(subscription.ended().is_none());
        server.say(1, &tools_changed(&id));
        assert_eq!(subscription.next().await.unwrap(), Change::ToolsList);
        for uri in ["note://1", "file:///p/a.txt"] {
            server.say(1, &updated(&id, uri));
            let change = Change::Resource {
                uri: uri.to_owned(),
            };
            assert_eq!(subscription.next().await.unwrap(), change);
        }
        server.say(1, &ended(&id));
        assert!(matches!(subscription.next().await, Err(Ended::Graceful)));
        assert!(matches!(subscription.next().await, Err(Ended::Graceful)));
        assert!(matches!(subscription.ended(), Some(Ended::Graceful)));
        // Other requests go on meanwhile, and what ended is not cancelled.
        client.call_tool("t", ()).await.unwrap();
        drop(subscription);
        client.call_tool("t", ()).await.unwrap();
        assert!(
            !server
                .methods()
                .contains(&"notifications/cancelled".to_owned())
        );
    }
}

#[tokio::test]
async fn what_was_not_asked_for_or_belongs_to_another_is_ignored() {
    for (client, server) in Server::all() {
        let (id, mut subscription) = server.listen(&client, 1).await;
        let other = json!(id.as_i64().unwrap() + 1_000);
        for message in [
            on(&id, "notifications/prompts/list_changed", json!({})),
            on(&id, "notifications/resources/list_changed", json!({})),
            on(
                &id,
                "notifications/message",
                json!({"level": "error", "data": 1}),
            ),
            updated(&id, "note://2"),
            updated(&id, "file:///px"),
            updated(&other, "note://1"),
            tools_changed(&other),
            tools_changed(&json!(id.to_string())),
            json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
            json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {}}),
            json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": id}}}),
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": other}}),
            json!({"jsonrpc": "2.0", "id": 9, "method": "elicitation/create", "params": {}}),
            acknowledged(&id),
        ] {
            server.say(1, &message);
        }
        server.say(1, &updated(&id, "note://1"));
        let change = Change::Resource {
            uri: "note://1".to_owned(),
        };
        assert_eq!(subscription.next().await.unwrap(), change);
    }
}

#[tokio::test]
async fn less_than_asked_for_may_be_honoured_and_more_is_not_believed() {
    for (client, server) in Server::all() {
        let listening = tokio::spawn(async move { client.listen(filter()).await });
        let id = server.request(1).await["id"].clone();
        let honoured =
            json!({"promptsListChanged": true, "resourceSubscriptions": ["note://1", "note://9"]});
        server.say(
            1,
            &on(
                &id,
                "notifications/subscriptions/acknowledged",
                json!({"notifications": honoured}),
            ),
        );
        let mut subscription = listening.await.unwrap().unwrap();
        let expected = SubscriptionFilter {
            resource_subscriptions: vec!["note://1".to_owned()],
            ..SubscriptionFilter::default()
        };
        assert_eq!(*subscription.acknowledged(), expected);
        server.say(1, &tools_changed(&id));
        server.say(1, &updated(&id, "note://9"));
        server.say(1, &ended(&id));
        assert!(subscription.next().await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn it_begins_with_the_acknowledgement_or_not_at_all() {
    let malformed = |id: &Value| {
        on(
            id,
            "notifications/subscriptions/acknowledged",
            json!({"notifications": []}),
        )
    };
    type Say = Box<dyn Fn(&Value) -> Value>;
    let firsts: Vec<Say> = vec![
        Box::new(tools_changed),
        Box::new(ended),
        Box::new(malformed),
    ];
    for first in firsts {
        for (client, server) in Server::all() {
            let listening = tokio::spawn(async move { client.listen(filter()).await });
            let id = server.request(1).await["id"].clone();
            server.say(1, &first(&id));
            let error = listening.await.unwrap().unwrap_err();
            assert!(
                matches!(
                    error,
                    RequestError::Protocol(ProtocolError::NotAcknowledged)
                ),
                "{error}"
            );
        }
    }
    // An error, an end, and silence.
    for (client, server) in Server::all() {
        let listening = tokio::spawn(async move { client.listen(filter()).await });
        let id = server.request(1).await["id"].clone();
        server.say(
            1,
            &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "no"}}),
        );
        assert!(matches!(
            listening.await.unwrap().unwrap_err(),
            RequestError::Rpc(_)
        ));
    }
    for (client, server) in Server::all() {
        let listening = tokio::spawn(async move { client.listen(filter()).await });
        server.request(1).await;
        server.hang_up(1);
        let error = listening.await.unwrap().unwrap_err();
        assert!(
            matches!(
                error,
                RequestError::NoResponse | RequestError::Interrupted(_)
            ),
            "{error}"
        );
    }
    for (client, server) in Server::all() {
        let error = client.listen(filter()).await.unwrap_err();
        assert!(matches!(error, RequestError::TimedOut { .. }), "{error}");
        let id = server.request(1).await["id"].clone();
        server.until_cancelled(1, &id).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_has_no_time_limit_and_tells_a_break_from_an_end() {
    for (client, server) in Server::all() {
        let (id, mut subscription) = server.listen(&client, 1).await;
        tokio::time::sleep(Duration::from_secs(100_000)).await;
        server.say(1, &tools_changed(&id));
        assert_eq!(subscription.next().await.unwrap(), Change::ToolsList);
        server.hang_up(1);
        let Err(Ended::Broken(why)) = subscription.next().await else {
            panic!("no break")
        };
        assert!(
            matches!(
                *why,
                RequestError::NoResponse | RequestError::Interrupted(_)
            ),
            "{why}"
        );
    }
    // A server that says that it ends, and then does.
    for (client, server) in Server::all() {
        let (id, mut subscription) = server.listen(&client, 1).await;
        server.say(1, &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "_meta": {"io.modelcontextprotocol/subscriptionId": id}}}));
        server.hang_up(1);
        assert!(matches!(subscription.next().await, Err(Ended::Graceful)));
    }
}

#[tokio::test]
async fn dropping_it_ends_it_and_no_other() {
    for (client, server) in Server::all() {
        let (first_id, first) = server.listen(&client, 1).await;
        let (id, mut second) = server.listen(&client, 2).await;
        assert_ne!(first_id, id);
        drop(first);
        server.until_cancelled(1, &first_id).await;
        server.say(2, &tools_changed(&id));
        assert_eq!(second.next().await.unwrap(), Change::ToolsList);
    }
}

#[tokio::test]
async fn it_is_a_stream() {
    for (client, server) in Server::all() {
        let (id, subscription) = server.listen(&client, 1).await;
        server.say(1, &updated(&id, "note://1"));
        server.say(1, &ended(&id));
        let all: Vec<Change> = subscription.collect().await;
        assert_eq!(
            all,
            [Change::Resource {
                uri: "note://1".to_owned()
            }]
        );
    }
}

#[tokio::test]
async fn word_of_a_change_makes_stale_what_was_kept() {
    for (client, server) in Server::all() {
        let (id, mut subscription) = server.listen(&client, 1).await;
        client.list_tools().await.unwrap();
        client.list_tools().await.unwrap();
        let asked = || {
            server
                .methods()
                .iter()
                .filter(|what| *what == "tools/list")
                .count()
        };
        assert_eq!(asked(), 1);
        server.say(1, &tools_changed(&id));
        subscription.next().await.unwrap();
        client.list_tools().await.unwrap();
        assert_eq!(asked(), 2);
    }
}

#[tokio::test]
async fn a_flood_takes_no_memory_and_loses_no_word() {
    for (client, server) in Server::all() {
        let (id, mut subscription) = server.listen(&client, 1).await;
        for n in 0..5_000 {
            server.say(1, &updated(&id, &format!("file:///p/{n}")));
            server.say(1, &tools_changed(&id));
        }
        server.say(1, &ended(&id));
        let (mut resources, mut lists, mut missed) = (0, 0, 0);
        loop {
            match subscription.next().await {
                Ok(Change::Resource { .. }) => resources += 1,
                Ok(Change::ToolsList) => lists += 1,
                Ok(Change::Missed) => missed += 1,
                Ok(other) => panic!("{other:?}"),
                Err(_) => break,
            }
        }
        assert!(lists >= 1, "{lists}");
        assert!(resources + missed * 5_000 >= 5_000, "{resources} {missed}");
    }
}

#[tokio::test]
async fn an_endless_event_breaks_it() {
    let streams = Streams::default();
    let open = streams.clone();
    let recorder = Recorder::new(move |_, seen| match seen.what() {
        "subscriptions/listen" => open.open(),
        _ => Reply::Result(
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}),
        ),
    });
    let client = in_process(&recorder)
        .max_response_bytes(10_000)
        .build()
        .unwrap();
    let server = Server::Http(recorder, streams.clone());
    let (_, mut subscription) = server.listen(&client, 1).await;
    streams.write(0, format!("data: {}", "x".repeat(20_000)));
    let Err(Ended::Broken(why)) = subscription.next().await else {
        panic!("no break")
    };
    assert!(matches!(*why, RequestError::TooLarge { .. }), "{why}");
}

#[tokio::test]
async fn case_220_comments_keep_it_open_and_garbage_breaks_it() {
    let streams = Streams::default();
    let open = streams.clone();
    let recorder = Recorder::new(move |_, seen| match seen.what() {
        "subscriptions/listen" => open.open(),
        _ => Reply::Result(
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}),
        ),
    });
    let client = in_process(&recorder).build().unwrap();
    let server = Server::Http(recorder, streams.clone());
    let (id, mut subscription) = server.listen(&client, 1).await;
    streams.write(0, ":\r\n\r\n: alive\n\n".to_owned());
    server.say(1, &tools_changed(&id));
    assert_eq!(subscription.next().await.unwrap(), Change::ToolsList);
    streams.write(0, "data: {\n\n".to_owned());
    let Err(Ended::Broken(why)) = subscription.next().await else {
        panic!("no break")
    };
    assert!(matches!(*why, RequestError::Protocol(_)), "{why}");
}

#[tokio::test]
async fn a_server_that_answers_with_json_does_not_listen() {
    for (reply, is_rpc) in [
        (json!({"code": -32601, "message": "Method not found"}), true),
        (json!(null), false),
    ] {
        let recorder = Recorder::new(move |_, seen| match (seen.what(), is_rpc) {
            ("subscriptions/listen", true) => {
                Reply::Error(axum::http::StatusCode::NOT_FOUND, reply.clone())
            }
            ("subscriptions/listen", false) => Reply::Result(json!({"resultType": "complete"})),
            _ => Reply::Result(
                json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}}),
            ),
        });
        let client = in_process(&recorder).build().unwrap();
        let error = client.listen(filter()).await.unwrap_err();
        assert_eq!(matches!(error, RequestError::Rpc(_)), is_rpc, "{error}");
    }
}

#[tokio::test]
async fn a_subscription_keeps_its_connection() {
    for (client, server) in Server::all() {
        let (id, mut subscription) = server.listen(&client, 1).await;
        drop(client);
        server.say(1, &tools_changed(&id));
        assert_eq!(subscription.next().await.unwrap(), Change::ToolsList);
    }
}
