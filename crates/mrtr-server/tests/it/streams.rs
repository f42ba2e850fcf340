//! What a stream and a line carry, and what they never do.

use std::io::Write as _;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use mrtr_server::protocol::LogLevel;
use mrtr_server::{
    Cancelled, Changes, Flow, Form, Json, Log, Principal, Progress, Server, State, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, duplex};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::Notify;
use tower_service::Service as _;

use crate::bank::{Bank, Call, Effects};

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

/// Tells somebody who outlives the call to go on.
#[derive(Clone, Default)]
struct Later(Arc<Notify>, Arc<Notify>);

async fn asks(progress: Progress, flow: Flow) -> String {
    progress.report(1.0, None, None);
    let answer = flow.ask("confirm", Form::<Confirm>::new("Sure?")).await;
    format!("{:?}", answer.accepted().map(|Confirm { ok }| ok))
}

/// Goes on reporting after its result.
async fn lingers(progress: Progress, log: Log, State(later): State<Later>) -> &'static str {
    progress.report(1.0, None, None);
    tokio::spawn(async move {
        later.0.notified().await;
        progress.report(2.0, None, None);
        log.send(LogLevel::Emergency, None, "too late");
        later.1.notify_one();
    });
    "done"
}

/// Goes on reporting after its question.
async fn lingers_and_asks(
    progress: Progress,
    log: Log,
    flow: Flow,
    later: State<Later>,
) -> &'static str {
    lingers(progress, log, later).await;
    let _ = flow.ask("confirm", Form::<Confirm>::new("Sure?")).await;
    "done"
}

/// Waits until nobody waits for it.
async fn waits(
    progress: Progress,
    cancelled: Cancelled,
    State(effects): State<Effects>,
) -> &'static str {
    progress.report(1.0, None, None);
    tokio::spawn(async move {
        cancelled.happens().await;
        effects.happen();
    });
    std::future::pending().await
}

/// Two calls at once: each reports when the other has.
async fn meets(
    progress: Progress,
    State(barrier): State<Arc<tokio::sync::Barrier>>,
) -> &'static str {
    for n in 0..5 {
        barrier.wait().await;
        progress.report(f64::from(n), None, None);
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    "met"
}

fn bank(later: &Later) -> Bank {
    Bank::with(|builder| {
        builder
            .state(later.clone())
            .state(Arc::new(tokio::sync::Barrier::new(2)))
            .tool(tool("asks", asks))
            .tool(tool("lingers", lingers))
            .tool(tool("lingers_and_asks", lingers_and_asks))
            .tool(tool("waits", waits))
            .tool(tool("meets", meets))
            .tool(tool("lines", async || {
                Json(RawValue::from_string("{\n\"a\":\r\n[1,\n2]}".into()).unwrap())
            }))
    })
}

fn reporting(tool: &str, token: &str) -> Call {
    Call::of(tool, json!({}))
        .meta("progressToken", token)
        .meta("io.modelcontextprotocol/logLevel", "debug")
}

/// The messages of a stream that has ended.
async fn streamed(bank: &Bank, call: &Call) -> Vec<Value> {
    let response = bank
        .server
        .clone()
        .call(call.with_body(call.body.to_string()))
        .await
        .unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(body.to_vec()).unwrap();
    text.lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

#[tokio::test]
async fn a_question_on_a_stream_is_its_result() {
    let bank = bank(&Later::default());
    let all = streamed(&bank, &reporting("asks", "t")).await;
    let [progress, result] = &all[..] else {
        panic!("{all:?}")
    };
    assert_eq!(progress["method"], "notifications/progress");
    assert!(progress.get("id").is_none(), "a notification: {progress}");
    assert_eq!((&result["id"], result.get("method")), (&json!(1), None));
    assert_eq!(result["result"]["resultType"], "input_required");
}

#[tokio::test]
async fn each_stream_has_what_is_about_its_own_request() {
    let bank = bank(&Later::default());
    let (a, b) = (reporting("meets", "a"), reporting("meets", "b"));
    let (a, b) = tokio::join!(streamed(&bank, &a), streamed(&bank, &b));
    for (token, all) in [("a", a), ("b", b)] {
        let (result, progress) = all.split_last().unwrap();
        assert_eq!(result["result"]["content"][0]["text"], "met");
        assert!(progress.len() > 1, "{progress:?}");
        assert!(
            progress
                .iter()
                .all(|message| message["params"]["progressToken"] == token),
            "{progress:?}"
        );
    }
}

#[tokio::test]
async fn case_209_a_stream_that_is_closed_half_way_cancels_its_request() {
    let bank = bank(&Later::default());
    let call = reporting("waits", "t");
    let request = call.with_body(call.body.to_string());
    let response = bank.server.clone().call(request).await.unwrap();
    let mut body = response.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("notifications/progress"));
    assert_eq!(bank.effects.count(), 0);
    drop(body);
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    assert_eq!(bank.effects.count(), 1);
}

#[tokio::test]
async fn who_sends_log_messages_says_so() {
    let capabilities = async |bank: &Bank| {
        let discovered = bank.send(&Call::nameless("server/discover")).await;
        discovered.body["result"]["capabilities"].clone()
    };
    assert_eq!(
        capabilities(&Bank::new()).await,
        json!({ "tools": {} }),
        "nobody sends any"
    );
    let bank = bank(&Later::default());
    assert_eq!(capabilities(&bank).await["logging"], json!({}));
}

#[tokio::test]
async fn log_messages_go_onto_the_stream_of_their_own_request_alone() {
    let bank = Bank::with(|builder| {
        builder.announces_changes().tool(tool(
            "says",
            async |log: Log, progress: Progress, changes: Changes| {
                log.send(LogLevel::Error, None, "said");
                progress.report(1.0, None, None);
                changes.tools();
                "done"
            },
        ))
    });
    let listen = Call::nameless("subscriptions/listen")
        .id("s")
        .param("notifications", json!({ "toolsListChanged": true }))
        .meta("io.modelcontextprotocol/logLevel", "debug")
        .meta("progressToken", "t");
    let request = listen.with_body(listen.body.to_string());
    let mut listening = bank.server.clone().call(request).await.unwrap().into_body();
    let mut told = async || {
        let frame = tokio::time::timeout(Duration::from_secs(30), listening.frame()).await;
        let data = frame
            .expect("in time")
            .unwrap()
            .unwrap()
            .into_data()
            .unwrap();
        let event = String::from_utf8(data.to_vec()).unwrap();
        let data = event
            .lines()
            .find_map(|line| line.strip_prefix("data: "))
            .unwrap()
            .to_owned();
        serde_json::from_str::<Value>(&data).unwrap()["method"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(told().await, "notifications/subscriptions/acknowledged");
    let own: Vec<Value> = streamed(&bank, &reporting("says", "t")).await;
    let methods: Vec<_> = own
        .iter()
        .map(|message| message["method"].as_str())
        .collect();
    assert_eq!(
        methods,
        [
            Some("notifications/message"),
            Some("notifications/progress"),
            None
        ]
    );
    assert_eq!(told().await, "notifications/tools/list_changed");
}

/// Logs without end from a thread of its own.
async fn floods(log: Log, State(later): State<Later>) -> &'static str {
    log.send(LogLevel::Emergency, None, "first");
    std::thread::spawn(move || {
        // Until the test is over.
        while Arc::strong_count(&later.0) > 2 {
            log.send(LogLevel::Emergency, None, "flood");
        }
    });
    later.1.notified().await;
    "done"
}

#[tokio::test]
async fn a_result_is_not_held_up_by_whoever_goes_on_sending() {
    let later = Later::default();
    let bank = Bank::with(|builder| builder.state(later.clone()).tool(tool("floods", floods)));
    let call = reporting("floods", "t");
    let request = call.with_body(call.body.to_string());
    let response = bank.server.clone().call(request).await.unwrap();
    let mut body = response.into_body();
    later.1.notify_one();
    let mut messages = 0;
    let mut last = None;
    while let Some(frame) = body.frame().await {
        messages += 1;
        assert!(messages < 100_000, "the result never comes");
        last = frame.unwrap().into_data().ok();
    }
    assert!(String::from_utf8_lossy(&last.unwrap()).contains("done"));
}

/// A gigabyte of reports, which nobody reads.
#[tokio::test]
async fn case_224_whoever_reads_slowly_is_told_less() {
    const REPORTS: u32 = 16_384;
    let bank = Bank::with(|builder| {
        builder.tool(tool("talks", async |progress: Progress| {
            let message = "x".repeat(64 << 10);
            for n in 1..=REPORTS {
                progress.report(f64::from(n), None, Some(&message));
                if n % 64 == 0 {
                    tokio::task::yield_now().await;
                }
            }
            "done"
        }))
    });
    let call = reporting("talks", "t");
    let request = call.with_body(call.body.to_string());
    let response = bank.server.clone().call(request).await.unwrap();
    let mut body = response.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("notifications/progress"));
    // Time in which it could go on.
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    let rest = body.collect().await.unwrap().to_bytes();
    assert!(rest.len() < 16 << 20, "{} bytes were kept", rest.len());
    let text = String::from_utf8_lossy(&rest);
    let last = text
        .lines()
        .rfind(|line| line.starts_with("data: "))
        .unwrap();
    assert!(last.contains("done"), "{last}");
}

/// A client over lines.
struct Pipe(Lines<BufReader<DuplexStream>>, DuplexStream);

impl Pipe {
    fn open(server: &Server) -> Self {
        let (to_server, from_client) = duplex(1 << 14);
        let (to_client, from_server) = duplex(1 << 14);
        let server = server.clone();
        let principal = Principal::user("stdio", "somebody");
        tokio::spawn(async move {
            let never = std::future::pending();
            server
                .serve_lines(from_client, to_client, principal, never)
                .await
        });
        Self(BufReader::new(from_server).lines(), to_server)
    }

    async fn send(&mut self, id: i64, call: &Call) {
        let mut body = call.body.clone();
        body["id"] = id.into();
        self.write(&body).await;
    }

    async fn write(&mut self, message: &Value) {
        self.1
            .write_all(format!("{message}\n").as_bytes())
            .await
            .unwrap();
    }

    async fn message(&mut self) -> Value {
        let line = self.0.next_line().await.unwrap().expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"))
    }
}

#[tokio::test]
async fn case_222_nothing_follows_a_result() {
    let later = Later::default();
    let all = streamed(&bank(&later), &reporting("lingers", "t")).await;
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(all[1]["id"], 1);
    let later = Later::default();
    let mut pipe = Pipe::open(&bank(&later).server);
    pipe.send(1, &reporting("lingers", "t")).await;
    assert_eq!(pipe.message().await["method"], "notifications/progress");
    assert_eq!(pipe.message().await["id"], 1);
    later.0.notify_one();
    later.1.notified().await;
    pipe.send(2, &Call::of("plain", json!({}))).await;
    assert_eq!(pipe.message().await["id"], 2);
}

#[tokio::test]
async fn case_126_nothing_follows_a_question() {
    let later = Later::default();
    let all = streamed(&bank(&later), &reporting("lingers_and_asks", "t")).await;
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(all[1]["result"]["resultType"], "input_required");
    let later = Later::default();
    let mut pipe = Pipe::open(&bank(&later).server);
    pipe.send(1, &reporting("lingers_and_asks", "t")).await;
    assert_eq!(pipe.message().await["method"], "notifications/progress");
    let asked = pipe.message().await;
    assert_eq!(asked["result"]["resultType"], "input_required");
    later.0.notify_one();
    later.1.notified().await;
    pipe.send(2, &Call::of("plain", json!({}))).await;
    assert_eq!(pipe.message().await["id"], 2);
}

#[tokio::test]
async fn a_message_is_one_line_whatever_it_holds() {
    let bank = bank(&Later::default());
    let mut pipe = Pipe::open(&bank.server);
    pipe.send(1, &Call::of("lines", json!({}))).await;
    let message = pipe.message().await;
    assert_eq!(
        message["result"]["structuredContent"],
        json!({ "a": [1, 2] })
    );
    pipe.send(2, &Call::of("plain", json!({}))).await;
    assert_eq!(pipe.message().await["id"], 2);
}

#[tokio::test]
async fn over_lines_a_question_is_a_result_too() {
    let bank = bank(&Later::default());
    let mut pipe = Pipe::open(&bank.server);
    pipe.send(1, &Call::first()).await;
    let asked = pipe.message().await;
    assert_eq!((&asked["id"], asked.get("method")), (&json!(1), None));
    assert_eq!(asked["result"]["resultType"], "input_required");
    pipe.send(2, &Call::of("plain", json!({}))).await;
    assert_eq!(pipe.message().await["id"], 2);
}

#[tokio::test]
async fn case_248_a_cancellation_that_comes_too_late_or_for_nobody_does_no_harm() {
    let bank = bank(&Later::default());
    let mut pipe = Pipe::open(&bank.server);
    pipe.send(1, &Call::of("plain", json!({}))).await;
    assert_eq!(pipe.message().await["id"], 1);
    for params in [
        json!({ "requestId": 1 }),
        json!({ "requestId": 1, "reason": "too late" }),
        json!({ "requestId": "nobody" }),
        json!({ "requestId": null }),
        json!({}),
        json!([]),
    ] {
        pipe.write(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }),
        )
        .await;
    }
    pipe.send(2, &Call::of("plain", json!({}))).await;
    // Of all those only the one that is no JSON-RPC is answered, without an id.
    let mut said = pipe.message().await;
    if said.get("id").is_none() {
        assert_eq!(said["error"]["code"], -32600);
        said = pipe.message().await;
    }
    assert_eq!(said["id"], 2, "{said}");
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_read_is_not_read_from_either_and_can_be_let_go_of() {
    // What is answered at once, and what is refused at once.
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
        "no message at all",
    ] {
        let server = bank(&Later::default()).server;
        let (mut to_server, from_client) = duplex(1 << 14);
        let (to_client, _unread) = duplex(1 << 14);
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let serving = tokio::spawn(async move {
            let principal = Principal::user("stdio", "somebody");
            let stopped = stopped.notified();
            server
                .serve_lines(from_client, to_client, principal, stopped)
                .await
        });
        let line = format!("{line}\n");
        let mut lines = 0;
        let second = Duration::from_secs(1);
        while tokio::time::timeout(second, to_server.write_all(line.as_bytes()))
            .await
            .is_ok()
        {
            lines += 1;
            assert!(lines < 50_000, "what nobody reads is held for ever");
        }
        stop.notify_one();
        let ended = tokio::time::timeout(Duration::from_secs(120), serving).await;
        ended.expect("it ends").unwrap().unwrap();
    }
}

#[tokio::test]
async fn calls_end_with_their_connection_however_it_ends() {
    let bank = bank(&Later::default());
    let server = bank.server.clone();
    let (mut to_server, from_client) = duplex(1 << 14);
    let (to_client, from_server) = duplex(1 << 14);
    let mut said = BufReader::new(from_server).lines();
    let call = format!("{}\n", reporting("waits", "t").body);
    to_server.write_all(call.as_bytes()).await.unwrap();
    let principal = Principal::user("stdio", "somebody");
    let serving = server.serve_lines(from_client, to_client, principal, std::future::pending());
    // Whoever serves gives up.
    tokio::select! {
        _ = serving => unreachable!(),
        line = said.next_line() => assert!(line.unwrap().is_some()),
    }
    let ended = async {
        while said.next_line().await.unwrap().is_some() {}
        while bank.effects.count() == 0 {
            tokio::task::yield_now().await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
    ended.expect("the call is cancelled, and nobody holds the connection");
}

/// Starts [`child`] in a process of its own.
fn start() -> (
    ChildStdin,
    Lines<BufReader<ChildStdout>>,
    tokio::process::Child,
) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "streams::child", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let stdin = child.stdin.take().unwrap();
    (
        stdin,
        BufReader::new(child.stdout.take().unwrap()).lines(),
        child,
    )
}

const SERVING: &str = "now it serves";

#[tokio::test]
#[ignore = "a child process of `case_246_nothing_but_messages_is_on_stdout`"]
async fn child() {
    fn noise() {
        println!("noise");
        std::io::stdout().write_all(b"more noise").unwrap();
        std::io::stdout().flush().unwrap();
        let loud = std::process::Command::new("sh")
            .args(["-c", "echo noise"])
            .status();
        assert!(loud.unwrap().success());
        std::panic::catch_unwind(|| panic!("noise")).unwrap_err();
        tracing::error!("noise");
    }
    // It writes to standard output unless it is told otherwise.
    tracing_subscriber::fmt().init();
    println!("\n{SERVING}");
    let server = Server::builder("noisy", "1")
        .tool(tool("noisy", async |progress: Progress| {
            noise();
            progress.report(1.0, None, None);
            noise();
            "done"
        }))
        .allow_anonymous()
        .build()
        .unwrap();
    server.serve_stdio(std::future::pending()).await.unwrap();
    noise();
}

#[tokio::test]
async fn case_246_nothing_but_messages_is_on_stdout() {
    let (mut stdin, mut lines, mut child) = start();
    let mut next = async || {
        let line = tokio::time::timeout(Duration::from_secs(30), lines.next_line()).await;
        line.expect("a line in time").unwrap()
    };
    // What the test harness prints comes before it.
    while next().await.expect("it serves") != SERVING {}
    let call = reporting("noisy", "t");
    stdin
        .write_all(format!("{}\n", call.body).as_bytes())
        .await
        .unwrap();
    for expected in ["notifications/progress", "done"] {
        let line = next().await.expect("a message");
        let message: Value = serde_json::from_str(&line).expect(&line);
        assert_eq!(message["jsonrpc"], "2.0");
        assert!(line.contains(expected), "{line}");
    }
    drop(stdin);
    assert_eq!(next().await, None, "nothing but messages");
    child.wait().await.unwrap();
}

#[tokio::test]
#[ignore = "a child process of `a_client_that_does_not_read_keeps_no_process_alive`"]
async fn talkative_child() {
    let server = Server::builder("talkative", "1")
        .tool(tool("talks", async || "x".repeat(1 << 20)))
        .limits(|limits| limits.shutdown = Duration::from_millis(200))
        .allow_anonymous()
        .build()
        .unwrap();
    let shutdown = tokio::time::sleep(Duration::from_millis(500));
    server.serve_stdio(shutdown).await.unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_read_keeps_no_process_alive() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "streams::talkative_child", "--ignored"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let call = Call::of("talks", json!({}));
    let call = format!("{}\n", call.body);
    stdin.write_all(call.as_bytes()).await.unwrap();
    let _unread = child.stdout.take().unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(20), child.wait()).await;
    ended.expect("it ends").unwrap();
}
