//! Subscriptions over lines: standard input and output, and the like.

use tokio::io::{AsyncBufReadExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

use super::*;

/// A client at the other end of the lines.
struct Client {
    to: WriteHalf<DuplexStream>,
    from: Lines<BufReader<ReadHalf<DuplexStream>>>,
    shutdown: Option<oneshot::Sender<()>>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Client {
    fn of(server: &Server) -> Self {
        let (ours, theirs) = tokio::io::duplex(4_096);
        let (reader, writer) = tokio::io::split(theirs);
        let (shutdown, ended) = oneshot::channel::<()>();
        let server = server.clone();
        let serving = tokio::spawn(async move {
            let ended = async { drop(ended.await) };
            server
                .serve_lines(reader, writer, user("user-a"), ended)
                .await
        });
        let (from, to) = tokio::io::split(ours);
        Self {
            to,
            from: BufReader::new(from).lines(),
            shutdown: Some(shutdown),
            serving,
        }
    }

    async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.to.write_all(line.as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(Duration::from_secs(20), self.from.next_line());
        let line = line.await.expect("a line or the end").unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    async fn message(&mut self) -> Value {
        self.next().await.expect("a message")
    }

    /// Something that is answered: whatever was to come before it has come by then.
    async fn call(&mut self, id: &str) -> Vec<Value> {
        let call = Call::of("plain", json!({})).id(id);
        self.send(&call.body).await;
        let mut before = Vec::new();
        loop {
            let message = self.message().await;
            if message["id"] == id {
                return before;
            }
            before.push(message);
        }
    }

    async fn end(mut self) {
        drop(self.shutdown.take());
        while self.next().await.is_some() {}
        self.serving.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn subscriptions_share_one_channel_and_are_told_apart() {
    let server = announcing(|_| {});
    let mut client = Client::of(&server);
    let filters = [
        (json!(1), json!({ "toolsListChanged": true })),
        (json!("1"), json!({ "promptsListChanged": true })),
    ];
    for (id, filter) in &filters {
        client.send(&listen(id.clone(), filter.clone()).body).await;
        let acknowledged = client.message().await;
        assert_eq!(
            acknowledged["method"],
            "notifications/subscriptions/acknowledged"
        );
        assert_eq!(acknowledged["params"]["_meta"][SUBSCRIPTION], *id);
        assert_eq!(acknowledged["params"]["notifications"], *filter);
    }
    server.changes().prompts();
    let told = client.message().await;
    assert_eq!(told["method"], "notifications/prompts/list_changed");
    assert_eq!(told["params"]["_meta"][SUBSCRIPTION], json!("1"));
    server.changes().tools();
    let told = client.message().await;
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(told["params"]["_meta"][SUBSCRIPTION], json!(1));
    client.end().await;
}

#[tokio::test]
async fn the_client_cancels_one_and_hears_no_more_of_it() {
    let server = announcing(|_| {});
    let mut client = Client::of(&server);
    for id in ["kept", "cancelled"] {
        client.send(&listen(id, everything()).body).await;
        client.message().await;
    }
    assert_eq!(server.open_subscriptions(), 2);
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "cancelled" } });
    client.send(&cancel).await;
    assert_eq!(client.call("a").await, Vec::<Value>::new());
    let gone = async {
        while server.open_subscriptions() > 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone)
        .await
        .expect("it is gone");
    server.changes().tools();
    let told = client.message().await;
    assert_eq!(told["params"]["_meta"][SUBSCRIPTION], "kept");
    assert_eq!(client.call("b").await, Vec::<Value>::new());
    client.end().await;
}

#[tokio::test]
async fn a_shutdown_ends_each_in_good_order() {
    let server = announcing(|_| {});
    let mut client = Client::of(&server);
    client.send(&listen("one", everything()).body).await;
    client.message().await;
    drop(client.shutdown.take());
    let cancelled = client.message().await;
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], "one");
    assert_eq!(cancelled["params"]["_meta"][SUBSCRIPTION], "one");
    let response = client.message().await;
    assert_eq!(response["id"], "one");
    assert_eq!(response["result"]["resultType"], "complete");
    assert_eq!(response["result"]["_meta"][SUBSCRIPTION], "one");
    assert_eq!(client.next().await, None);
    client.serving.await.unwrap().unwrap();
    assert_eq!(server.open_subscriptions(), 0);
}

#[tokio::test]
async fn the_end_of_one_client_is_not_another_s() {
    let server = announcing(|_| {});
    let (mut one, mut other) = (Client::of(&server), Client::of(&server));
    for client in [&mut one, &mut other] {
        client.send(&listen(1, everything()).body).await;
        client.message().await;
    }
    one.end().await;
    server.changes().tools();
    assert_eq!(
        other.message().await["method"],
        "notifications/tools/list_changed"
    );
    other.end().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_costs_nothing_and_misses_nothing() {
    let server = announcing(|_| {});
    let mut client = Client::of(&server);
    client.send(&listen(1, everything()).body).await;
    client.message().await;
    // Far more than pipe and queue hold, if each were a message. Yielding lets them become messages.
    for n in 0..20_000 {
        server.changes().tools();
        if n % 4 == 0 {
            tokio::task::yield_now().await;
        }
    }
    server.changes().resource("note://1");
    let mut told = 0;
    loop {
        let message = client.message().await;
        if message["method"] == "notifications/resources/updated" {
            break;
        }
        told += 1;
    }
    assert!((1..2_000).contains(&told), "{told}");
    client.end().await;
}

#[tokio::test]
async fn a_session_of_the_earlier_era_is_told_once_it_is_ready() {
    let server = announcing(|_| {});
    let mut client = Client::of(&server);
    client.send(&earlier::initialize()).await;
    let result = client.message().await;
    assert_eq!(
        result["result"]["capabilities"]["resources"],
        json!({ "subscribe": true, "listChanged": true })
    );
    server.changes().tools();
    let ping = json!({ "jsonrpc": "2.0", "id": "p", "method": "ping" });
    client.send(&ping).await;
    assert_eq!(client.message().await["id"], "p", "it is not ready yet");
    client.send(&earlier::initialized()).await;
    let told = client.message().await;
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(told["params"].get("_meta"), None);
    client
        .send(&earlier::subscribe("resources/subscribe", "note://1"))
        .await;
    assert_eq!(client.message().await["result"], json!({}));
    server.changes().resource("note://1");
    assert_eq!(
        client.message().await["params"],
        json!({ "uri": "note://1" })
    );
    client.end().await;
}
