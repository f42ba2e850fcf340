//! Sessions of the earlier era under clients that are hostile, slow or gone, and handlers that are careless.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode};
use mrtr_server::{
    DurableFlow, Flow, Form, Limits, Polling, Progress, Server, State, ToolError, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::bank::{Bank, Call, Effects, accept};
use crate::session::{Session, everything, text};

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    #[allow(dead_code, reason = "whatever is answered will do")]
    ok: bool,
}

fn form(message: &str) -> Form<Confirm> {
    Form::new(message)
}

fn yes() -> Value {
    accept(json!({ "ok": true }))
}

/// Lets a test say when a handler goes on, and tells it that one has begun.
#[derive(Clone, Default)]
struct Gate {
    begun: Arc<Notify>,
    go: Arc<Notify>,
}

impl Gate {
    async fn pass(&self) {
        self.begun.notify_one();
        self.go.notified().await;
    }
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a guard of a handler's panics");
        }
    }
}

async fn waits(State(gate): State<Gate>) -> &'static str {
    gate.pass().await;
    "done"
}

async fn mined(State(gate): State<Gate>) -> &'static str {
    let _bomb = Bomb;
    gate.pass().await;
    "never"
}

async fn panics() -> &'static str {
    panic!("on purpose")
}

/// Asks, and then acts without `once`.
async fn acts(flow: Flow, State(effects): State<Effects>) -> &'static str {
    let _ = flow.ask("q", form("Act?")).await;
    effects.happen();
    "acted"
}

/// The same in a task that goes on without its client.
async fn acts_durably(flow: DurableFlow, State(effects): State<Effects>) -> &'static str {
    let _ = flow.ask("q", form("Act?")).await;
    effects.happen();
    "acted"
}

/// Looks something up while it asks.
async fn busy(
    flow: Flow,
    State(gate): State<Gate>,
    State(effects): State<Effects>,
) -> &'static str {
    let work = async {
        gate.begun.notified().await;
        let slow = async || gate.go.notified().await;
        flow.memo("slow", slow).await
    };
    let (_, ()) = tokio::join!(flow.ask("q", form("Act?")), work);
    effects.happen();
    "acted"
}

async fn two_steps(
    flow: DurableFlow,
    State(gate): State<Gate>,
    State(effects): State<Effects>,
) -> Result<&'static str, ToolError> {
    for name in ["first", "second"] {
        flow.once(name, async || {
            gate.pass().await;
            Ok::<_, ToolError>(effects.happen())
        })
        .await?;
    }
    Ok("done")
}

async fn hangs_up(polling: Polling, State(gate): State<Gate>) -> &'static str {
    polling.hang_up(Duration::from_millis(5));
    gate.pass().await;
    "polled"
}

fn careless() -> (Bank, Gate) {
    let gate = Gate::default();
    let bank = Bank::with(|builder| {
        builder
            .state(gate.clone())
            .tool(tool("waits", waits))
            .tool(tool("mined", mined))
            .tool(tool("panics", panics))
            .tool(tool("acts", acts))
            .tool(tool("acts_durably", acts_durably))
            .tool(tool("busy", busy))
            .tool(tool("two_steps", two_steps))
            .tool(tool("hangs_up", hangs_up))
            .tool(tool("reports", async |progress: Progress| {
                progress.report(1.0, None, None);
                "done"
            }))
    });
    (bank, gate)
}

/// A call whose client waits for whatever answer comes first.
fn call(
    session: &Session,
    id: i64,
    tool: &'static str,
) -> tokio::task::JoinHandle<crate::session::Answer> {
    let session = session.clone();
    tokio::spawn(async move { session.call(id, tool, json!({})).await })
}

/// What must come soon.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(Duration::from_secs(20), what).await;
    waited.expect("it comes")
}

/// The rest of a stream, up to its end.
async fn rest(mut answer: crate::session::Answer) -> Vec<Value> {
    let mut messages = Vec::new();
    while let Some(event) = soon(answer.event()).await {
        if event.data != Value::Null {
            messages.push(event.data);
        }
    }
    messages
}

#[tokio::test]
async fn a_call_of_a_session_that_ends_is_not_answered_with_nothing() {
    let (bank, gate) = careless();
    let session = Session::open(&bank.server, everything()).await;
    let called = call(&session, 1, "waits");
    gate.begun.notified().await;
    session.delete().await;
    let answer = soon(called).await.unwrap();
    assert!(answer.is_stream(), "an empty body is no JSON");
    assert!(rest(answer).await.is_empty());
}

#[tokio::test]
async fn a_long_call_is_not_forgotten_for_younger_ones() {
    let (bank, gate) = careless();
    let session = Session::open(&bank.server, everything()).await;
    let params = json!({ "name": "waits" });
    let long = json!({ "jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": params });
    let mut answer = session.post_for_events(&long).await;
    let primed = answer.event().await.unwrap();
    drop(answer);
    for id in 1..=20 {
        let list = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" });
        rest(session.post_for_events(&list).await).await;
    }
    gate.begun.notified().await;
    gate.go.notify_one();
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    let answer = session.get(primed.id.as_deref()).await;
    assert_eq!(answer.status, StatusCode::OK, "it ended last");
    assert_eq!(text(&rest(answer).await[0]), "done");
}

#[tokio::test]
async fn an_answer_to_a_cancelled_call_counts_for_nothing() {
    for tool in ["acts", "acts_durably"] {
        let (bank, _) = careless();
        let session = Session::open(&bank.server, everything()).await;
        let mut call = session.call(1, tool, json!({})).await;
        let question = call.message().await;
        // Both are here before the call has moved.
        session
            .notify("notifications/cancelled", json!({ "requestId": 1 }))
            .await;
        let answered = session.answer(&question, yes()).await;
        assert_eq!(answered.status, StatusCode::BAD_REQUEST, "{tool}");
        rest(call).await;
        bank.server.settled().await;
        assert_eq!(bank.effects.count(), 0, "{tool}");
    }
}

#[tokio::test]
async fn a_cancellation_right_after_an_answer_still_stops_what_has_not_begun() {
    let (bank, _) = careless();
    let session = Session::open(&bank.server, everything()).await;
    let mut call = session.call(1, "acts", json!({})).await;
    let question = call.message().await;
    session.answer(&question, yes()).await;
    session
        .notify("notifications/cancelled", json!({ "requestId": 1 }))
        .await;
    for message in rest(call).await {
        assert_ne!(message["id"], 1, "{message}");
    }
    assert_eq!(bank.effects.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_late_counts_for_nothing_while_work_goes_on() {
    let (bank, gate) = careless();
    let session = Session::open(&bank.server, everything()).await;
    let mut call = session.call(1, "busy", json!({})).await;
    let question = call.message().await;
    gate.begun.notify_one();
    tokio::time::sleep(Duration::from_secs(601)).await;
    session.answer(&question, yes()).await;
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    gate.go.notify_one();
    let said = rest(call).await;
    assert!(text(said.last().unwrap()).contains("in time"), "{said:?}");
    assert_eq!(bank.effects.count(), 0);
}

#[tokio::test]
async fn a_step_in_flight_is_settled_and_no_other_begins_when_the_session_ends() {
    let (bank, gate) = careless();
    let session = Session::open(&bank.server, everything()).await;
    let called = call(&session, 1, "two_steps");
    gate.begun.notified().await;
    session.delete().await;
    soon(called).await.unwrap();
    gate.go.notify_one();
    gate.go.notify_one();
    soon(bank.server.settled()).await;
    assert_eq!(bank.effects.count(), 1);
    assert_eq!(bank.rows().await.1, 1);
}

#[tokio::test]
async fn nobody_who_thinks_holds_a_shutdown_up() {
    let (bank, _) = careless();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = bank.server.clone();
    let stopped = async move { drop(stopped.await) };
    let serving = tokio::spawn(async move { server.serve(listener, stopped).await });
    let session = Session::open(&bank.server, everything()).await;
    let mut asked = Vec::new();
    for (id, tool) in [(1, "acts"), (2, "acts_durably")] {
        let mut call = session.call(id, tool, json!({})).await;
        let question = call.message().await;
        asked.push((call, question));
    }
    stop.send(()).unwrap();
    soon(serving).await.unwrap().unwrap();
    for (call, question) in asked {
        let answered = session.answer(&question, yes()).await;
        assert_eq!(answered.status, StatusCode::NOT_FOUND);
        rest(call).await;
    }
    assert_eq!((bank.effects.count(), bank.server.open_sessions()), (0, 0));
}

#[tokio::test]
async fn a_panic_is_an_error_and_gives_the_place_back() {
    let (bank, _) = careless();
    let session = Session::open(&bank.server, everything()).await;
    for _ in 0..3 {
        let result = soon(call(&session, 1, "panics"))
            .await
            .unwrap()
            .json()
            .await;
        assert_eq!(result["error"]["code"], -32603, "{result}");
    }
}

#[tokio::test]
async fn a_guard_that_panics_when_its_call_is_cancelled_leaves_no_stream_open() {
    let (bank, gate) = careless();
    let session = Session::open(&bank.server, everything()).await;
    let called = call(&session, 1, "mined");
    gate.begun.notified().await;
    session
        .notify("notifications/cancelled", json!({ "requestId": 1 }))
        .await;
    rest(soon(called).await.unwrap()).await;
    let result = soon(session.call(1, "plain", json!({}))).await.json().await;
    assert_eq!(text(&result), "done");
}

#[tokio::test]
async fn whoever_reads_the_stream_of_a_call_does_not_make_its_answer_hang() {
    let (bank, gate) = careless();
    let session = Session::open(&bank.server, everything()).await;
    let called = call(&session, 1, "waits");
    gate.begun.notified().await;
    // The ids of events can be guessed by whoever has the session.
    let mut other = session.get(Some("1-0")).await;
    assert_eq!(other.status, StatusCode::OK);
    let other = tokio::spawn(async move { other.event().await });
    tokio::task::yield_now().await;
    gate.go.notify_one();
    let mut answer = soon(called).await.unwrap();
    let said = match answer.is_stream() {
        true => soon(answer.message()).await,
        false => answer.json().await,
    };
    assert_eq!(text(&said), "done");
    soon(other).await.unwrap();
}

#[tokio::test]
async fn a_client_that_could_not_come_back_is_not_hung_up_on() {
    for (version, hung_up) in [("2025-06-18", false), ("2025-11-25", true)] {
        let (bank, gate) = careless();
        let session = Session::of(&bank.server, "user-a", version, everything()).await;
        let mut answer = session.call(1, "hangs_up", json!({})).await;
        let mut seen = None;
        if hung_up {
            let primed = answer.event().await.unwrap();
            assert_eq!(answer.event().await.unwrap().retry.as_deref(), Some("5"));
            assert_eq!(answer.event().await, None);
            seen = primed.id;
        }
        gate.begun.notified().await;
        gate.go.notify_one();
        if hung_up {
            answer = session.get(seen.as_deref()).await;
        }
        assert_eq!(text(&soon(answer.message()).await), "polled", "{version}");
    }
}

#[tokio::test]
async fn headers_that_say_two_things_or_nonsense_are_refused() {
    let (bank, _) = careless();
    let session = Session::open(&bank.server, everything()).await;
    let send = async |method: &str, extra: &[(&str, &str)]| {
        let mut request = Request::builder()
            .method(method)
            .uri("/mcp")
            .header("host", "localhost")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("authorization", "Bearer user-a")
            .header("mcp-session-id", &session.id);
        for (name, value) in extra {
            request = request.header(*name, *value);
        }
        let body = match method {
            "POST" => json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string(),
            _ => String::new(),
        };
        session
            .send(request.body(Body::from(body)).unwrap())
            .await
            .status
    };
    const VERSION: &str = "mcp-protocol-version";
    for method in ["POST", "GET"] {
        assert_eq!(send(method, &[]).await, StatusCode::OK, "{method}");
        assert_eq!(
            send(method, &[(VERSION, "2025-11-25")]).await,
            StatusCode::OK
        );
    }
    for method in ["POST", "GET", "DELETE"] {
        for bad in [
            &[("mcp-session-id", session.id.as_str())][..],
            &[("mcp-session-id", "another")],
            &[(VERSION, "2025-11-25"), (VERSION, "2026-07-28")],
            &[(VERSION, "2026-07-28"), (VERSION, "2025-11-25")],
            &[(VERSION, "2025-11-25"), (VERSION, "2025-11-25")],
            &[(VERSION, "1999-01-01")],
            &[(VERSION, "")],
        ] {
            assert_eq!(
                send(method, bad).await,
                StatusCode::BAD_REQUEST,
                "{method} {bad:?}"
            );
        }
    }
    for seen in ["0-0", "1-0"] {
        let twice = [("last-event-id", seen), ("last-event-id", "0-1")];
        assert_eq!(send("GET", &twice).await, StatusCode::BAD_REQUEST);
    }
    assert_eq!(bank.server.open_sessions(), 1);
}

/// Limits without a limit.
fn boundless(limits: &mut Limits) {
    limits.body = usize::MAX;
    limits.state = usize::MAX;
    limits.stored_result = usize::MAX;
    limits.connections = usize::MAX;
    limits.running_per_principal = usize::MAX;
    limits.sessions = usize::MAX;
    limits.sessions_per_principal = usize::MAX;
    limits.subscriptions = usize::MAX;
    limits.rounds = u32::MAX;
    limits.completions_per_second = u32::MAX;
    for time in [
        &mut limits.body_timeout,
        &mut limits.lifetime,
        &mut limits.flow_lifetime,
        &mut limits.skew,
        &mut limits.retention,
        &mut limits.lease,
        &mut limits.head_timeout,
        &mut limits.write_timeout,
        &mut limits.shutdown,
        &mut limits.keep_alive,
        &mut limits.session_idle,
    ] {
        *time = Duration::MAX;
    }
}

#[tokio::test]
async fn limits_may_be_as_large_as_they_can() {
    let bank = Bank::with(|builder| builder.limits(boundless).tool(tool("acts", acts)));
    let session = Session::open(&bank.server, everything()).await;
    for tool in ["acts", "transfer"] {
        let arguments = match tool {
            "acts" => json!({}),
            _ => json!({ "to": "acct-7", "amount": 100 }),
        };
        let mut call = soon(session.call(1, tool, arguments)).await;
        let question = soon(call.message()).await;
        assert_eq!(question["method"], "elicitation/create", "{question}");
        session.answer(&question, yes()).await;
        assert_eq!(soon(call.message()).await["result"].get("isError"), None);
    }
    let state = bank.open().await;
    assert_eq!(bank.send(&Call::retry(&state)).await.text(), "done 3");
    over_a_socket(&bank.server).await;
}

async fn over_a_socket(server: &Server) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = server.clone();
    let serving = tokio::spawn(async move {
        server
            .serve(listener, async move { drop(stopped.await) })
            .await
    });
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let call = Call::of("plain", json!({}));
    let head = call.with_body(String::new());
    let body = call.body.to_string();
    let mut text = format!(
        "POST /mcp HTTP/1.1\r\ncontent-length: {}\r\nconnection: close\r\n",
        body.len()
    );
    for (name, value) in head.headers() {
        text += &format!("{name}: {}\r\n", value.to_str().unwrap());
    }
    text += &format!("\r\n{body}");
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    stop.send(()).unwrap();
    soon(serving).await.unwrap().unwrap();
}
