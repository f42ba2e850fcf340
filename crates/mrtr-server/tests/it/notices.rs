//! What is sent before a result, in both eras and on each transport.

use std::time::Duration;

use http::StatusCode;
use http_body_util::BodyExt as _;
use mrtr_server::protocol::LogLevel;
use mrtr_server::{Cancelled, Log, Polling, Progress, Server, State, tool};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower_service::Service as _;

use crate::bank::{Bank, Call, Effects, accept};
use crate::session::{Session, everything, initialize, text};

async fn counts(progress: Progress) -> String {
    // The second is no progress, and the last two are no numbers.
    for (done, pause) in [(1.0, 20), (1.0, 20), (50.5, 20), (f64::NAN, 20), (100.0, 0)] {
        progress.report(done, Some(100.0), Some("counting\nsheep"));
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    format!("wanted: {}", progress.is_wanted())
}

async fn hurries(progress: Progress) -> &'static str {
    for n in 0..1_000 {
        progress.report(f64::from(n), None, None);
    }
    progress.report(1_000.0, Some(1_000.0), None);
    "done"
}

async fn logs(log: Log) -> &'static str {
    log.send(LogLevel::Debug, None, "fine");
    log.send(LogLevel::Warning, Some("disk"), json!({ "free": 3 }));
    "done"
}

/// Waits until nobody waits for it, and then does something.
async fn notices(cancelled: Cancelled, State(effects): State<Effects>) -> &'static str {
    tokio::spawn(async move {
        cancelled.happens().await;
        effects.happen();
    });
    std::future::pending().await
}

async fn hangs_up(polling: Polling, progress: Progress) -> &'static str {
    polling.hang_up(Duration::from_millis(500));
    progress.report(1.0, None, None);
    tokio::time::sleep(Duration::from_millis(50)).await;
    "polled"
}

fn bank() -> Bank {
    Bank::with(|builder| {
        builder
            .tool(tool("counts", counts))
            .tool(tool("hurries", hurries))
            .tool(tool("logs", logs))
            .tool(tool("notices", notices))
            .tool(tool("hangs_up", hangs_up))
    })
}

/// The messages of a modern answer: of a stream, or the one of a JSON body.
async fn messages(bank: &Bank, call: &Call) -> (String, Vec<Value>) {
    let request = call.with_body(call.body.to_string());
    let response = bank.server.clone().call(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let kind = response.headers()["content-type"]
        .to_str()
        .unwrap()
        .to_owned();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let body = std::str::from_utf8(&bytes).unwrap();
    let messages = match kind.as_str() {
        "application/json" => vec![serde_json::from_str(body).unwrap()],
        _ => {
            let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
            data.map(|data| serde_json::from_str(data).unwrap())
                .collect()
        }
    };
    (kind, messages)
}

fn progress_of(messages: &[Value]) -> Vec<f64> {
    let progress = messages
        .iter()
        .filter(|message| message["method"] == "notifications/progress");
    progress
        .map(|message| message["params"]["progress"].as_f64().unwrap())
        .collect()
}

#[tokio::test]
async fn progress_is_sent_before_the_result_where_it_is_asked_for() {
    let bank = bank();
    let (kind, all) = messages(&bank, &Call::of("counts", json!({}))).await;
    assert_eq!(kind, "application/json");
    assert_eq!(text(&all[0]), "wanted: false");
    for token in [json!("t-1"), json!(7), json!(12345678901234567890_u64)] {
        let call = Call::of("counts", json!({})).meta("progressToken", token.clone());
        let (kind, all) = messages(&bank, &call).await;
        assert_eq!(kind, "text/event-stream");
        assert_eq!(progress_of(&all), [1.0, 50.5, 100.0]);
        assert!(
            all.iter()
                .take(3)
                .all(|message| message["params"]["progressToken"] == token)
        );
        assert_eq!(text(&all[3]), "wanted: true");
        assert_eq!(all[3]["id"], 1);
    }
    for token in [json!(null), json!(1.5), json!([]), json!({})] {
        let call = Call::of("counts", json!({})).meta("progressToken", token.clone());
        assert_eq!(bank.send(&call).await.code(), Some(-32602), "{token}");
    }
    // A client that takes no stream gets the result.
    let call = Call::of("counts", json!({}))
        .meta("progressToken", 1)
        .header("accept", "application/json");
    assert_eq!(messages(&bank, &call).await.0, "application/json");
}

#[tokio::test]
async fn reports_are_thinned_out_and_the_last_one_arrives() {
    let bank = bank();
    let call = Call::of("hurries", json!({})).meta("progressToken", 1);
    let progress = progress_of(&messages(&bank, &call).await.1);
    assert!(progress.len() < 100, "{}", progress.len());
    assert_eq!((progress[0], progress.last()), (0.0, Some(&1_000.0)));
}

#[tokio::test]
async fn case_212_a_stream_says_that_nobody_may_hold_it_back() {
    let bank = bank();
    let call = Call::of("counts", json!({})).meta("progressToken", 1);
    let request = call.with_body(call.body.to_string());
    let response = bank.server.clone().call(request).await.unwrap();
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    assert_eq!(response.headers()["cache-control"], "no-store");
}

#[tokio::test]
async fn log_messages_are_sent_to_whoever_asked_for_their_level() {
    const LEVEL: &str = "io.modelcontextprotocol/logLevel";
    let bank = bank();
    let sent = async |call: Call| messages(&bank, &call).await.1.len() - 1;
    assert_eq!(sent(Call::of("logs", json!({}))).await, 0);
    for (level, count) in [("debug", 2), ("info", 1), ("warning", 1), ("error", 0)] {
        assert_eq!(
            sent(Call::of("logs", json!({})).meta(LEVEL, level)).await,
            count,
            "{level}"
        );
    }
    let call = Call::of("logs", json!({})).meta(LEVEL, "loud");
    assert_eq!(bank.send(&call).await.code(), Some(-32602));
    let (_, all) = messages(&bank, &Call::of("logs", json!({})).meta(LEVEL, "info")).await;
    let params = &all[0]["params"];
    assert_eq!(
        (&params["level"], &params["logger"]),
        (&json!("warning"), &json!("disk"))
    );
    assert_eq!(params["data"]["free"], 3);
    // In the earlier era the session says it.
    let session = Session::open(&bank.server, json!({})).await;
    let mut call = session.call(1, "logs", json!({})).await;
    assert_eq!(call.message().await["params"]["level"], "warning");
    assert_eq!(text(&call.message().await), "done");
    let set = session
        .ask(2, "logging/setLevel", json!({ "level": "alert" }))
        .await
        .json()
        .await;
    assert_eq!(set["result"], json!({}));
    assert!(!session.call(3, "logs", json!({})).await.is_stream());
    let bad = session
        .ask(4, "logging/setLevel", json!({ "level": "loud" }))
        .await
        .json()
        .await;
    assert_eq!(bad["error"]["code"], -32602);
}

#[tokio::test]
async fn case_209_a_closed_stream_takes_its_request_along() {
    let bank = bank();
    // Before anything was sent, and after.
    let call = Call::of("notices", json!({}));
    let request = call.with_body(call.body.to_string());
    let sending = bank.server.clone().call(request);
    assert!(
        tokio::time::timeout(Duration::from_millis(50), sending)
            .await
            .is_err()
    );
    tokio::task::yield_now().await;
    assert_eq!(bank.effects.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn case_220_a_silent_stream_has_comments() {
    let bank = Bank::with(|builder| {
        builder.tool(tool("slow", async |progress: Progress| {
            progress.report(1.0, None, None);
            tokio::time::sleep(Duration::from_secs(40)).await;
            "done"
        }))
    });
    let call = Call::of("slow", json!({})).meta("progressToken", 1);
    let request = call.with_body(call.body.to_string());
    let response = bank.server.clone().call(request).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body = std::str::from_utf8(&body).unwrap();
    assert_eq!(
        body.lines().filter(|line| *line == ":").count(),
        2,
        "{body}"
    );
}

#[tokio::test]
async fn a_call_may_let_go_of_its_connection() {
    let bank = bank();
    let session = Session::open(&bank.server, json!({})).await;
    let mut call = session.call(1, "hangs_up", json!({})).await;
    let primed = call.event().await.unwrap();
    assert!(primed.id.is_some() && primed.data == Value::Null);
    let retry = call.event().await.unwrap();
    assert_eq!(retry.retry.as_deref(), Some("500"));
    assert_eq!(call.event().await, None);
    let mut rest = session.get(primed.id.as_deref()).await;
    assert_eq!(text(&rest.message().await), "polled");
    // In the modern era there is nothing to come back to, and so it is nothing.
    assert_eq!(
        bank.send(&Call::of("hangs_up", json!({}))).await.text(),
        "polled"
    );
}

/// A client over lines.
pub(crate) struct Pipe {
    pub(crate) lines: tokio::io::Lines<BufReader<DuplexStream>>,
    pub(crate) to_server: DuplexStream,
    pub(crate) serving: JoinHandle<std::io::Result<()>>,
    _shutdown: oneshot::Sender<()>,
}

impl Pipe {
    pub(crate) fn open(server: &Server) -> Self {
        Self::of(server, mrtr_server::Principal::user("stdio", "somebody"))
    }

    pub(crate) fn of(server: &Server, principal: mrtr_server::Principal) -> Self {
        let (to_server, from_client) = duplex(1 << 10);
        let (to_client, from_server) = duplex(1 << 10);
        let (shutdown, ended) = oneshot::channel::<()>();
        let server = server.clone();
        let serving = tokio::spawn(async move {
            let shutdown = async { drop(ended.await) };
            server
                .serve_lines(from_client, to_client, principal, shutdown)
                .await
        });
        Self {
            lines: BufReader::new(from_server).lines(),
            to_server,
            serving,
            _shutdown: shutdown,
        }
    }

    pub(crate) async fn write(&mut self, text: &str) {
        self.to_server.write_all(text.as_bytes()).await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.write(&format!("{message}\n")).await;
    }

    pub(crate) async fn message(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"))
    }

    pub(crate) async fn end(self) {
        drop(self.to_server);
        self.serving.await.unwrap().unwrap();
    }
}

pub(crate) fn modern(id: i64, call: &Call) -> Value {
    let mut body = call.body.clone();
    body["id"] = id.into();
    body
}

#[tokio::test]
async fn case_235_both_eras_over_the_same_lines() {
    let bank = bank();
    let mut pipe = Pipe::open(&bank.server);
    // The earlier era may be pinged before it is opened.
    pipe.send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "ping" }))
        .await;
    assert_eq!(pipe.message().await["result"], json!({}));
    // The modern one: a round that asks, and its retry.
    pipe.send(&modern(1, &Call::first())).await;
    let asks = pipe.message().await;
    assert_eq!(asks["result"]["resultType"], "input_required");
    let state = asks["result"]["requestState"].as_str().unwrap();
    pipe.send(&modern(2, &Call::retry(state))).await;
    assert_eq!(text(&pipe.message().await), "done 1");
    // A state of the same server for somebody else is nobody's here.
    let other = bank.open().await;
    pipe.send(&modern(3, &Call::retry(&other))).await;
    assert_eq!(
        pipe.message().await["error"]["data"]["reason"],
        "different_principal"
    );
    // The earlier one, on the same connection.
    pipe.send(&initialize("2025-11-25", everything())).await;
    assert_eq!(
        pipe.message().await["result"]["protocolVersion"],
        "2025-11-25"
    );
    pipe.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
        .await;
    let arguments = json!({ "to": "acct-7", "amount": 100 });
    let call = json!({ "jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": { "name": "transfer", "arguments": arguments } });
    pipe.send(&call).await;
    let question = pipe.message().await;
    assert_eq!(question["method"], "elicitation/create");
    pipe.send(
        &json!({ "jsonrpc": "2.0", "id": question["id"], "result": accept(json!({ "ok": true })) }),
    )
    .await;
    let result = pipe.message().await;
    assert_eq!((text(&result), result["id"].as_i64()), ("done 2", Some(4)));
    // And the modern one again.
    pipe.send(&modern(5, &Call::of("plain", json!({})))).await;
    assert_eq!(pipe.message().await["result"]["resultType"], "complete");
    pipe.send(&initialize("2025-11-25", everything())).await;
    assert_eq!(pipe.message().await["error"]["code"], -32600);
    pipe.end().await;
}

#[tokio::test]
async fn case_243_lines_that_are_no_messages_are_answered_and_skipped() {
    let bank = Bank::with(|builder| builder.limits(|limits| limits.body = 2_000));
    let mut pipe = Pipe::open(&bank.server);
    let deep = format!("{}{}\n", "[".repeat(1_900 / 2), "]".repeat(1_900 / 2));
    let long = format!("{}\n", "x".repeat(5_000));
    for (line, code) in [
        ("hello\n", -32700),
        ("[]\n", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1}\n", -32600),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":1,\"a\":2}}\n",
            -32600,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n",
            -32602,
        ),
        (&deep, -32600),
        (&long, -32600),
    ] {
        pipe.write(line).await;
        assert_eq!(pipe.message().await["error"]["code"], code, "{line}");
    }
    pipe.write("\n \r\n").await;
    for line in [
        "{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":{}}}\n",
    ] {
        pipe.write(line).await;
    }
    // Cut anywhere.
    let body = format!("{}\r\n", modern(7, &Call::of("plain", json!({}))));
    for byte in body.split_inclusive('"') {
        pipe.write(byte).await;
    }
    assert_eq!(pipe.message().await["id"], 7);
    pipe.end().await;
}

#[tokio::test]
async fn case_248_a_request_is_cancelled_by_its_id_and_nothing_is_said_of_it() {
    let bank = bank();
    let mut pipe = Pipe::open(&bank.server);
    pipe.send(&modern(1, &Call::of("notices", json!({})))).await;
    pipe.send(&modern(2, &Call::of("plain", json!({})))).await;
    assert_eq!(pipe.message().await["id"], 2);
    pipe.send(&modern(1, &Call::of("plain", json!({})))).await;
    assert_eq!(pipe.message().await["error"]["code"], -32600);
    // An id of another type is another request's.
    pipe.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "1" } })).await;
    pipe.send(&modern(1, &Call::of("plain", json!({})))).await;
    assert_eq!(pipe.message().await["error"]["code"], -32600);
    pipe.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } })).await;
    // The id is free again, and the first thing that is said under it is the new request's.
    loop {
        pipe.send(&modern(1, &Call::of("plain", json!({})))).await;
        let said = pipe.message().await;
        if said.get("result").is_some() {
            break;
        }
        assert_eq!(said["error"]["code"], -32600);
    }
    pipe.end().await;
    assert_eq!(bank.effects.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn case_245_what_was_asked_before_the_end_is_answered() {
    let bank = bank();
    let mut pipe = Pipe::open(&bank.server);
    let call = Call::of("counts", json!({})).meta("progressToken", 1);
    pipe.send(&modern(1, &call)).await;
    drop(std::mem::replace(&mut pipe.to_server, duplex(1).0));
    let mut all = Vec::new();
    while let Some(line) = pipe.lines.next_line().await.unwrap() {
        all.push(serde_json::from_str::<Value>(&line).unwrap());
    }
    assert_eq!(all.last().unwrap()["id"], 1);
    pipe.serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn case_242_the_end_of_the_input_ends_its_last_line() {
    let bank = bank();
    let mut pipe = Pipe::open(&bank.server);
    let call = modern(1, &Call::of("plain", json!({}))).to_string();
    pipe.write(&call).await;
    drop(std::mem::replace(&mut pipe.to_server, duplex(1).0));
    assert_eq!(text(&pipe.message().await), "done");
    pipe.serving.await.unwrap().unwrap();
    // One that is cut is no message, and its sender is told.
    let mut pipe = Pipe::open(&bank.server);
    pipe.write(&call[..call.len() - 1]).await;
    drop(std::mem::replace(&mut pipe.to_server, duplex(1).0));
    assert_eq!(pipe.message().await["error"]["code"], -32700);
}

#[tokio::test(start_paused = true)]
async fn what_runs_is_cancelled_when_the_client_goes() {
    let bank = bank();
    let mut pipe = Pipe::open(&bank.server);
    pipe.send(&modern(1, &Call::of("notices", json!({})))).await;
    pipe.send(&modern(2, &Call::of("plain", json!({})))).await;
    assert_eq!(pipe.message().await["id"], 2);
    pipe.end().await;
    tokio::task::yield_now().await;
    assert_eq!(bank.effects.count(), 2);
}

#[tokio::test]
async fn progress_over_lines() {
    let bank = bank();
    let mut pipe = Pipe::open(&bank.server);
    pipe.send(&modern(
        1,
        &Call::of("counts", json!({})).meta("progressToken", "p"),
    ))
    .await;
    let mut all = Vec::new();
    while all.last().is_none_or(|message: &Value| message["id"] != 1) {
        all.push(pipe.message().await);
    }
    assert_eq!(progress_of(&all), [1.0, 50.5, 100.0]);
    pipe.end().await;
}
