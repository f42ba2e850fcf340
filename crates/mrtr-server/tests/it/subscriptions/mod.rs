//! `subscriptions/listen`, and what of it the earlier era has.

mod earlier;
mod lines;
mod many;

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use mrtr_server::{
    BuildError, Changes, Limits, Principal, Server, ServerBuilder, StaticTokens, prompt, resource,
    template, tool,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tower_service::Service as _;

use crate::bank::Call;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Note {
    id: String,
}

async fn publish(changes: Changes) -> &'static str {
    changes.tools();
    changes.resource("shop://prices");
    "Published."
}

fn user(name: &str) -> Principal {
    Principal::user("https://as.example", name)
}

/// A shop that has something of everything.
fn shop() -> ServerBuilder {
    Server::builder("shop", "1.0.0")
        .authenticator(
            StaticTokens::new()
                .token("user-a", user("user-a"))
                .token("user-b", user("user-b")),
        )
        .tool(tool("plain", async || "answered"))
        .prompt(prompt("greet", async || "Hello."))
        .resource(resource("shop://prices", async || "none"))
        .resource(template(
            "note://{id}",
            async |mrtr_server::Args(note): mrtr_server::Args<Note>| note.id,
        ))
}

fn announcing(limits: impl FnOnce(&mut Limits)) -> Server {
    shop()
        .announces_changes()
        .limits(limits)
        .tool(tool("publish", publish))
        .build()
        .unwrap()
}

fn listen(id: impl Into<Value>, filter: Value) -> Call {
    Call::nameless("subscriptions/listen")
        .id(id)
        .param("notifications", filter)
}

fn everything() -> Value {
    json!({
        "toolsListChanged": true,
        "promptsListChanged": true,
        "resourcesListChanged": true,
        "resourceSubscriptions": ["shop://prices", "note://1"],
    })
}

fn request(call: &Call) -> Request<Body> {
    call.with_body(call.body.to_string())
}

async fn reply(server: &Server, call: &Call) -> (StatusCode, Value) {
    let response = server.clone().call(request(call)).await.unwrap();
    let status = response.status();
    assert_eq!(response.headers()["content-type"], "application/json");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

/// A stream of events, as its reader sees it.
struct Events {
    body: Body,
}

#[derive(Debug, PartialEq)]
enum Seen {
    Message(Value),
    Comment,
    Nothing,
    End,
}

impl Events {
    async fn open(server: &Server, call: &Call) -> Self {
        Self::answering(server, request(call)).await
    }

    async fn answering(server: &Server, request: Request<Body>) -> Self {
        let response = server.clone().call(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        Self {
            body: response.into_body(),
        }
    }

    /// What is there now.
    fn now(&mut self) -> Seen {
        let mut cx = Context::from_waker(Waker::noop());
        match pin!(self.body.frame()).poll(&mut cx) {
            Poll::Pending => Seen::Nothing,
            Poll::Ready(None) => Seen::End,
            Poll::Ready(Some(frame)) => seen(frame.unwrap().into_data().unwrap().as_ref()),
        }
    }

    fn message(&mut self) -> Value {
        match self.now() {
            Seen::Message(message) => message,
            other => panic!("no message but {other:?}"),
        }
    }

    /// Messages that are there now, by method; each carries the subscription's id.
    fn methods(&mut self, id: &Value) -> Vec<String> {
        let mut methods = Vec::new();
        while let Seen::Message(message) = self.now() {
            assert_eq!(message["params"]["_meta"][SUBSCRIPTION], *id, "{message}");
            methods.push(message["method"].as_str().unwrap().to_owned());
        }
        methods
    }
}

/// One event, which came as one frame.
fn seen(frame: &[u8]) -> Seen {
    let text = std::str::from_utf8(frame).unwrap();
    if text.starts_with(':') {
        return Seen::Comment;
    }
    let event = text.strip_suffix("\n\n").unwrap();
    let data = event
        .lines()
        .find_map(|line| line.strip_prefix("data: "))
        .unwrap();
    Seen::Message(serde_json::from_str(data).unwrap())
}

#[tokio::test]
async fn the_first_message_says_what_is_honoured() {
    let server = announcing(|_| {});
    let long = format!("note://{}", "x".repeat(2_050));
    let filter = json!({
        "toolsListChanged": true,
        "resourcesListChanged": true,
        "promptsListChanged": false,
        "resourceSubscriptions": ["shop://prices", "shop://secrets", "note://1", "shop://prices", "no uri", long],
    });
    for id in [json!(1), json!("1"), json!("listen-ü"), json!(-7)] {
        let mut events = Events::open(&server, &listen(id.clone(), filter.clone())).await;
        assert_eq!(
            events.message(),
            json!({
                "jsonrpc": "2.0",
                "method": "notifications/subscriptions/acknowledged",
                "params": {
                    "_meta": { SUBSCRIPTION: id },
                    "notifications": {
                        "toolsListChanged": true,
                        "resourcesListChanged": true,
                        "resourceSubscriptions": ["shop://prices", "note://1"],
                    },
                },
            })
        );
        assert_eq!(events.now(), Seen::Nothing);
    }
}

#[tokio::test]
async fn ids_keep_every_digit() {
    let server = announcing(|_| {});
    let call = listen(1, json!({}));
    let body = call
        .body
        .to_string()
        .replacen(r#""id":1,"#, r#""id":9223372036854775808,"#, 1);
    let mut events = Events::answering(&server, call.with_body(body)).await;
    let frame = events.body.frame().await.unwrap().unwrap();
    let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
    let id = format!(r#""{SUBSCRIPTION}":9223372036854775808}}"#);
    assert!(text.contains(&id), "{text}");
}

#[tokio::test]
async fn a_stream_tells_of_what_was_asked_for_and_of_nothing_else() {
    let server = announcing(|_| {});
    let changes = server.changes();
    let all = || {
        changes.tools();
        changes.prompts();
        changes.resources();
        changes.resource("shop://prices");
        changes.resource("note://1");
        changes.resource("note://2");
    };
    for (filter, heard) in [
        (json!({}), vec![]),
        (
            json!({ "toolsListChanged": true }),
            vec!["notifications/tools/list_changed"],
        ),
        (
            json!({ "promptsListChanged": true, "toolsListChanged": false }),
            vec!["notifications/prompts/list_changed"],
        ),
        (
            json!({ "resourcesListChanged": true }),
            vec!["notifications/resources/list_changed"],
        ),
        (
            json!({ "resourceSubscriptions": ["note://1"] }),
            vec!["notifications/resources/updated"],
        ),
        (
            everything(),
            vec![
                "notifications/tools/list_changed",
                "notifications/prompts/list_changed",
                "notifications/resources/list_changed",
                "notifications/resources/updated",
                "notifications/resources/updated",
            ],
        ),
    ] {
        let mut events = Events::open(&server, &listen("l", filter.clone())).await;
        all();
        let mut expected = vec!["notifications/subscriptions/acknowledged"];
        expected.extend(heard);
        assert_eq!(events.methods(&json!("l")), expected, "{filter}");
        all();
        assert_eq!(events.methods(&json!("l")), &expected[1..], "{filter}");
    }
    let one = json!({ "resourceSubscriptions": ["note://1"] });
    let mut events = Events::open(&server, &listen(1, one)).await;
    events.message();
    all();
    assert_eq!(events.message()["params"]["uri"], "note://1");
}

#[tokio::test]
async fn a_handler_announces_to_streams_of_other_requests() {
    let server = announcing(|_| {});
    let mut a = Events::open(&server, &listen(1, everything()).by("user-a")).await;
    let mut b = Events::open(&server, &listen(2, everything()).by("user-b")).await;
    let (status, body) = reply(&server, &Call::of("publish", json!({})).by("user-b")).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let heard = [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
        "notifications/resources/updated",
    ];
    assert_eq!(a.methods(&json!(1)), heard);
    assert_eq!(b.methods(&json!(2)), heard);

    server.changes().only_for(user("user-b")).prompts();
    assert_eq!(a.now(), Seen::Nothing);
    assert_eq!(b.methods(&json!(2)), ["notifications/prompts/list_changed"]);
}

#[tokio::test]
async fn a_slow_reader_is_told_once_of_what_happened_often() {
    let server = announcing(|_| {});
    let mut events = Events::open(&server, &listen(1, everything())).await;
    for _ in 0..10_000 {
        server.changes().tools();
        server.changes().resource("note://1");
    }
    assert_eq!(
        events.methods(&json!(1)),
        [
            "notifications/subscriptions/acknowledged",
            "notifications/tools/list_changed",
            "notifications/resources/updated",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn silence_is_broken_by_comments() {
    let server = announcing(|_| {});
    let mut events = Events::open(&server, &listen(1, everything())).await;
    events.message();
    assert_eq!(events.now(), Seen::Nothing);
    for _ in 0..3 {
        tokio::time::advance(Duration::from_millis(14_900)).await;
        assert_eq!(events.now(), Seen::Nothing);
        tokio::time::advance(Duration::from_millis(200)).await;
        assert_eq!(events.now(), Seen::Comment);
    }
    server.changes().tools();
    events.message();
    tokio::time::advance(Duration::from_secs(14)).await;
    assert_eq!(events.now(), Seen::Nothing, "a message breaks it as well");
}

#[tokio::test]
async fn the_server_ends_a_subscription_in_good_order() {
    let server = announcing(|_| {});
    for id in [json!(1), json!("one")] {
        let mut events = Events::open(&server, &listen(id.clone(), everything())).await;
        events.message();
        server.changes().tools();
        server.close();
        assert_eq!(
            events.message()["method"],
            "notifications/tools/list_changed",
            "what was to be told is told"
        );
        let cancelled = events.message();
        assert_eq!(cancelled["method"], "notifications/cancelled");
        assert_eq!(cancelled["params"]["requestId"], id);
        assert_eq!(cancelled["params"]["_meta"][SUBSCRIPTION], id);
        let response = events.message();
        assert_eq!(response["id"], id);
        assert_eq!(response["result"]["resultType"], "complete");
        assert_eq!(response["result"]["_meta"][SUBSCRIPTION], id);
        let server_info = &response["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(server_info["name"], "shop");
        assert_eq!(events.now(), Seen::End);
        assert_eq!(server.open_subscriptions(), 0);
    }
    // Later ones are not affected; one that ends before it was read still acknowledges first.
    let mut later = Events::open(&server, &listen(2, everything())).await;
    server.close();
    assert_eq!(
        later.message()["method"],
        "notifications/subscriptions/acknowledged"
    );
    assert_eq!(later.message()["method"], "notifications/cancelled");
}

#[tokio::test]
async fn a_subscription_goes_with_its_connection() {
    let server = announcing(|_| {});
    let events = Events::open(&server, &listen(1, everything())).await;
    assert_eq!(server.open_subscriptions(), 1);
    drop(events);
    assert_eq!(server.open_subscriptions(), 0);
    server.changes().tools();
}

#[tokio::test]
async fn subscriptions_are_limited_for_each_principal_and_in_all() {
    let server = announcing(|limits| {
        limits.subscriptions = 3;
        limits.subscriptions_per_principal = 2;
    });
    let mine = |n: i64| listen(n, everything()).by("user-a");
    let theirs = |n: i64| listen(n, everything()).by("user-b");
    let first = Events::open(&server, &mine(1)).await;
    let _second = Events::open(&server, &mine(2)).await;
    let (status, refused) = reply(&server, &mine(3)).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (StatusCode::OK, &json!(1003))
    );
    assert_eq!(refused["id"], 3);
    let _third = Events::open(&server, &theirs(4)).await;
    let (_, refused) = reply(&server, &theirs(5)).await;
    assert_eq!(refused["error"]["code"], 1003);
    drop(first);
    let _again = Events::open(&server, &theirs(6)).await;
    assert_eq!(server.open_subscriptions(), 3);
}

#[tokio::test]
async fn a_filter_that_cannot_be_read_or_is_too_long_opens_nothing() {
    let server = announcing(|limits| limits.subscribed_resources = 3);
    let uris = |n: usize| {
        let uris: Vec<_> = (0..n).map(|n| format!("note://{n}")).collect();
        json!({ "resourceSubscriptions": uris })
    };
    let mut good = Events::open(&server, &listen(1, uris(3))).await;
    let honoured = &good.message()["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(honoured.as_array().unwrap().len(), 3);
    for bad in [
        uris(4),
        json!(null),
        json!([]),
        json!({ "toolsListChanged": null }),
        json!({ "toolsListChanged": "yes" }),
        json!({ "resourceSubscriptions": [1] }),
    ] {
        let (status, body) = reply(&server, &listen(2, bad.clone())).await;
        assert_eq!(status, StatusCode::OK, "{bad}");
        assert_eq!(body["error"]["code"], -32602, "{bad}");
    }
    let without = Call::nameless("subscriptions/listen");
    let (_, body) = reply(&server, &without).await;
    assert_eq!(body["error"]["code"], -32602);
    assert_eq!(server.open_subscriptions(), 1);
}

#[tokio::test]
async fn the_boundary_checks_a_subscription_as_any_request() {
    let server = announcing(|_| {});
    let good = listen(1, everything());
    drop(Events::open(&server, &good).await);
    for (bad, status, code) in [
        (
            good.clone().header("mcp-method", "tools/list"),
            StatusCode::BAD_REQUEST,
            -32020,
        ),
        (
            good.clone().without_header("mcp-protocol-version"),
            StatusCode::BAD_REQUEST,
            -32020,
        ),
        (
            good.clone().without_param("_meta"),
            StatusCode::BAD_REQUEST,
            -32602,
        ),
        (
            good.clone().header("accept", "application/json"),
            StatusCode::NOT_ACCEPTABLE,
            -32600,
        ),
    ] {
        let (got, body) = reply(&server, &bad).await;
        assert_eq!(
            (got, &body["error"]["code"]),
            (status, &json!(code)),
            "{body}"
        );
    }
    let response = server.clone().call(request(&good.clone().by("nobody")));
    assert_eq!(response.await.unwrap().status(), StatusCode::UNAUTHORIZED);
    // Whoever does not say what they accept takes anything.
    drop(Events::open(&server, &good.without_header("accept")).await);
}

#[tokio::test]
async fn changes_are_offered_only_where_they_are_announced() {
    let (silent, telling) = (shop().build().unwrap(), announcing(|_| {}));
    let capabilities = async |server: &Server| {
        let (_, body) = reply(server, &Call::nameless("server/discover")).await;
        body["result"]["capabilities"].clone()
    };
    let of = capabilities(&telling).await;
    assert_eq!(of["tools"], json!({ "listChanged": true }));
    assert_eq!(of["prompts"], json!({ "listChanged": true }));
    assert_eq!(
        of["resources"],
        json!({ "subscribe": true, "listChanged": true })
    );
    let of = capabilities(&silent).await;
    for offered in ["tools", "prompts", "resources"] {
        assert_eq!(of[offered], json!({}), "{offered}");
    }
    drop(Events::open(&telling, &listen(1, everything())).await);
    let (status, body) = reply(&silent, &listen(1, everything())).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (StatusCode::NOT_FOUND, &json!(-32601))
    );
    silent.changes().tools();

    // What a server does not have at all cannot change.
    let tools_alone = Server::builder("t", "1")
        .allow_anonymous()
        .announces_changes()
        .tool(tool("publish", publish))
        .build()
        .unwrap();
    let call = listen(1, everything()).without_header("authorization");
    let mut events = Events::open(&tools_alone, &call).await;
    assert_eq!(
        events.message()["params"]["notifications"],
        json!({ "toolsListChanged": true })
    );

    let error = shop().tool(tool("publish", publish)).build().unwrap_err();
    assert!(matches!(&error, BuildError::NoChanges { handler } if handler.contains("publish")));
    assert!(
        error.to_string().contains(".announces_changes()"),
        "{error}"
    );
}

/// Reads from a socket until `end` is there.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    let reading = async {
        let mut chunk = [0; 4_096];
        while !text.contains(end) {
            let n = stream.read(&mut chunk).await.unwrap();
            assert!(n > 0, "the connection ended after {text}");
            text.push_str(std::str::from_utf8(&chunk[..n]).unwrap());
        }
    };
    tokio::time::timeout(Duration::from_secs(20), reading)
        .await
        .expect("it comes");
    text
}

async fn post(stream: &mut TcpStream, call: &Call) {
    let body = call.body.to_string();
    let mut head = String::from("POST /mcp HTTP/1.1\r\n");
    for (name, value) in &call.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn over_sockets_a_change_arrives_and_a_shutdown_ends_well() {
    let server = announcing(|_| {});
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (shutdown, ended) = oneshot::channel::<()>();
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve(listener, async { drop(ended.await) }).await }
    });

    let mut kept = TcpStream::connect(address).await.unwrap();
    post(&mut kept, &listen("kept", everything())).await;
    read_until(&mut kept, "acknowledged").await;
    let mut left = TcpStream::connect(address).await.unwrap();
    post(&mut left, &listen("left", everything())).await;
    read_until(&mut left, "acknowledged").await;
    assert_eq!(server.open_subscriptions(), 2);

    let mut caller = TcpStream::connect(address).await.unwrap();
    post(&mut caller, &Call::of("publish", json!({}))).await;
    read_until(&mut caller, "Published.").await;
    let told = read_until(&mut kept, "notifications/resources/updated").await;
    assert!(told.contains("notifications/tools/list_changed"), "{told}");

    drop(left);
    let noticed = async {
        while server.open_subscriptions() > 1 {
            server.changes().tools();
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), noticed)
        .await
        .expect("a connection that has gone is noticed");

    shutdown.send(()).unwrap();
    let last = read_until(&mut kept, r#""resultType":"complete""#).await;
    assert!(last.contains("notifications/cancelled"), "{last}");
    // Long before the limit of a shutdown: nothing is waited for.
    tokio::time::timeout(Duration::from_secs(10), serving)
        .await
        .expect("it ends in its time")
        .unwrap()
        .unwrap();
    assert_eq!(server.open_subscriptions(), 0);
}
