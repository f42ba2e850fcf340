//! Cases 201 to 269 over real sockets: how connections and servers end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mrtr_server::{Cancelled, DurableFlow, Form, Progress, State, ToolError, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tower_service::Service as _;

use crate::bank::{Bank, Call, Effects, accept};

/// The machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A bank that listens.
struct Serving {
    bank: Bank,
    address: SocketAddr,
    shutdown: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Serving {
    async fn start(bank: Bank) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (shutdown, ended) = oneshot::channel::<()>();
        let server = bank.server.clone();
        let task =
            tokio::spawn(async move { server.serve(listener, async { drop(ended.await) }).await });
        Self {
            bank,
            address,
            shutdown,
            task,
        }
    }

    async fn send(&self, call: &Call) -> TcpStream {
        let body = call.body.to_string();
        self.send_head(call, body.len(), &body).await
    }

    /// A request that says that its body has this length.
    async fn send_head(&self, call: &Call, length: usize, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut head = String::from("POST /mcp HTTP/1.1\r\n");
        for (name, value) in &call.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!(
            "content-length: {length}\r\nconnection: close\r\n\r\n"
        ));
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        stream
    }

    async fn answer(&self, call: &Call) -> String {
        read(self.send(call).await).await
    }
}

/// All that comes until the connection ends.
async fn read(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut text)).await;
    drop(read.expect("it ends"));
    String::from_utf8(text).unwrap()
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect(what);
}

#[tokio::test]
async fn case_201_a_length_that_is_not_the_bodys() {
    let serving = Serving::start(Bank::new()).await;
    let call = Call::of("plain", json!({}));
    let body = call.body.to_string();
    assert!(serving.answer(&call).await.contains("done"));
    // Less than there is: what remains is no part of it. More than there is: it never comes.
    let short = read(serving.send_head(&call, 10, &body).await).await;
    assert!(
        short.starts_with("HTTP/1.1 400") && short.contains("-32700"),
        "{short}"
    );
    let mut stream = serving.send_head(&call, body.len() + 1, &body).await;
    stream.shutdown().await.unwrap();
    assert!(!read(stream).await.contains("done"));
    assert_eq!(serving.bank.effects.count(), 1);
}

/// Says that it has begun, and does something when nobody waits for it any more.
async fn waits(
    progress: Progress,
    cancelled: Cancelled,
    State(effects): State<Effects>,
) -> &'static str {
    effects.happen();
    progress.report(1.0, None, None);
    tokio::spawn(async move {
        cancelled.happens().await;
        effects.happen();
    });
    std::future::pending().await
}

#[tokio::test]
async fn case_209_a_connection_that_goes_takes_its_call_along() {
    let call = Call::of("waits", json!({}));
    let on_a_stream = call.clone().meta("progressToken", 1);
    for call in [&call, &on_a_stream] {
        // Closed, and closed for writing alone, as some proxies do.
        for half in [false, true] {
            let bank = Bank::with(|builder| builder.tool(tool("waits", waits)));
            let serving = Serving::start(bank).await;
            let mut stream = serving.send(call).await;
            let effects = serving.bank.effects.clone();
            until("it has begun", || effects.count() == 1).await;
            let kept = if half {
                stream.shutdown().await.unwrap();
                Some(stream)
            } else {
                drop(stream);
                None
            };
            until("it is cancelled", || effects.count() == 2).await;
            drop(kept);
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

/// How many have claimed their round, and a place for each that may go on.
#[derive(Clone)]
struct Gate {
    begun: Effects,
    open: Arc<Semaphore>,
}

/// Reports, waits at the gate, and then does the one thing.
async fn guarded(
    progress: Progress,
    flow: DurableFlow,
    State(gate): State<Gate>,
    State(effects): State<Effects>,
) -> Result<String, ToolError> {
    let answer = flow.ask("confirm", Form::<Confirm>::new("Sure?")).await;
    if !answer.accepted().is_some_and(|Confirm { ok }| ok) {
        return Ok("not done".into());
    }
    progress.report(1.0, None, None);
    gate.begun.happen();
    drop(gate.open.acquire().await);
    let count = flow
        .once("effect", async || Ok::<_, ToolError>(effects.happen()))
        .await?;
    Ok(format!("done {count}"))
}

/// A bank with that tool, and fifty retries that are on their way on streams.
async fn fifty(shutdown: Duration) -> (Serving, Gate, Vec<Call>, Vec<TcpStream>) {
    let gate = Gate {
        begun: Effects::default(),
        open: Arc::new(Semaphore::new(0)),
    };
    let bank = Bank::with(|builder| {
        builder
            .state(gate.clone())
            .limits(|limits| limits.shutdown = shutdown)
            .tool(tool("guarded", guarded))
    });
    let serving = Serving::start(bank).await;
    let call = Call::of("guarded", json!({})).meta("progressToken", "t");
    let (mut retries, mut streams) = (Vec::new(), Vec::new());
    for _ in 0..50 {
        let asked = serving.bank.send(&call).await;
        let retry = call
            .clone()
            .id(2)
            .state(asked.state())
            .answer("confirm", accept(json!({ "ok": true })));
        streams.push(serving.send(&retry).await);
        retries.push(retry);
    }
    let begun = gate.begun.clone();
    until("all have begun", || begun.count() == 50).await;
    (serving, gate, retries, streams)
}

/// What another look at the same ledger says: code or text of each.
async fn again(bank: &Bank, retries: &[Call]) -> Vec<String> {
    let mut said = Vec::new();
    for retry in retries {
        let request = retry.with_body(retry.body.to_string());
        let response = bank.server.clone().call(request).await.unwrap();
        let bytes = http_body_util::BodyExt::collect(response.into_body())
            .await
            .unwrap();
        said.push(String::from_utf8(bytes.to_bytes().to_vec()).unwrap());
    }
    said
}

#[tokio::test]
async fn case_269_calls_that_can_end_do_and_are_settled() {
    let (serving, gate, retries, streams) = fifty(Duration::from_secs(30)).await;
    serving.shutdown.send(()).unwrap();
    gate.open.add_permits(50);
    for stream in streams {
        let text = read(stream).await;
        assert!(
            text.contains("text/event-stream") && text.contains("done "),
            "{text}"
        );
    }
    let ended = tokio::time::timeout(PATIENCE, serving.task).await;
    ended.expect("it ends").unwrap().unwrap();
    assert_eq!(serving.bank.effects.count(), 50);
    for said in again(&serving.bank, &retries).await {
        assert!(said.contains("mrtr/replayed"), "{said}");
    }
    assert_eq!(serving.bank.effects.count(), 50);
}

#[tokio::test]
async fn case_269_calls_that_do_not_end_are_cut_and_never_run_again() {
    let (serving, gate, retries, streams) = fifty(Duration::from_millis(300)).await;
    serving.shutdown.send(()).unwrap();
    let ended = tokio::time::timeout(PATIENCE, serving.task).await;
    ended.expect("it ends in its time").unwrap().unwrap();
    for stream in streams {
        assert!(!read(stream).await.contains("\"done "));
    }
    // Each has a row that says that somebody was there.
    assert_eq!(serving.bank.rows().await.0, 50);
    gate.open.add_permits(50);
    for said in again(&serving.bank, &retries).await {
        assert!(!said.contains("\"done "), "{said}");
    }
    assert_eq!(serving.bank.effects.count(), 0);
    assert_eq!(gate.begun.count(), 50, "no body ran twice");
}
