//! Cases 245 to 252: a server that is a process of its own, and how it ends.

use std::process::Stdio;
use std::time::Duration;

use mrtr_server::{Answer, Caller, Flow, Form, Server, tool};
use mrtr_state::{Key, KeyRing};
use mrtr_state_hmac::HmacCodec;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::bank::{Call, accept};
use crate::session::text;

/// Nothing here takes long, but the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

async fn confirm(flow: Flow) -> &'static str {
    match flow.ask("confirm", Form::<Confirm>::new("Sure?")).await {
        Answer::Accept(Confirm { ok: true }) => "confirmed",
        _ => "not confirmed",
    }
}

#[tokio::test]
#[ignore = "a child process of the tests here"]
async fn child() {
    let key = match std::env::var("MRTR_TEST_KEY") {
        Ok(key) => Key::from_hex(&key).unwrap(),
        Err(_) => Key::generate().unwrap(),
    };
    let server = Server::builder("child", "1")
        .audience("child")
        .codec(HmacCodec::new(KeyRing::new(key)).unwrap())
        .allow_anonymous()
        .limits(|limits| limits.shutdown = Duration::from_secs(1))
        .tool(tool("confirm", confirm))
        .tool(tool("slow", async || {
            tokio::time::sleep(Duration::from_millis(300)).await;
            "done"
        }))
        .tool(tool("endless", async || {
            std::future::pending::<()>().await;
            "never"
        }))
        .tool(tool("who", async |Caller(caller): Caller| {
            format!("{caller:?}")
        }))
        .build()
        .unwrap();
    server.serve_stdio(std::future::pending()).await.unwrap();
}

struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl Process {
    /// With this key, or one of its own.
    fn start(key: Option<&str>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "--exact",
                "cases::process::child",
                "--ignored",
                "--nocapture",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        if let Some(key) = key {
            command.env("MRTR_TEST_KEY", key);
        }
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            child,
            stdin,
            lines: Some(lines),
        }
    }

    async fn send(&mut self, call: &Call) {
        let line = format!("{}\n", call.body);
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).await.unwrap();
    }

    /// The next message; what the test harness prints before it serves is skipped.
    async fn message(&mut self) -> Option<Value> {
        let lines = self.lines.as_mut().unwrap();
        loop {
            let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
            let line = line.expect("a line in time").unwrap()?;
            if line.starts_with('{') {
                return Some(serde_json::from_str(&line).unwrap());
            }
        }
    }

    async fn ask(&mut self, call: &Call) -> Value {
        self.send(call).await;
        self.message().await.expect("an answer")
    }

    async fn ended(&mut self) {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        assert!(ended.expect("it ends").unwrap().success());
    }
}

fn of(tool: &str) -> Call {
    Call::of(tool, json!({}))
}

#[tokio::test]
async fn case_245_what_was_asked_before_the_end_is_answered_and_then_the_process_ends() {
    let mut process = Process::start(None);
    process.send(&of("slow")).await;
    process.stdin = None;
    assert_eq!(text(&process.message().await.unwrap()), "done");
    assert_eq!(process.message().await, None);
    process.ended().await;
}

#[tokio::test]
async fn case_245_the_end_of_the_input_is_the_end_whatever_runs() {
    // Idle, and with a call that would never end.
    for call in [None, Some(of("endless"))] {
        let mut process = Process::start(None);
        assert_eq!(text(&process.ask(&of("slow")).await), "done");
        if let Some(call) = &call {
            process.send(call).await;
        }
        process.stdin = None;
        process.ended().await;
    }
}

#[tokio::test]
async fn case_245_nobody_reads_any_more() {
    let mut process = Process::start(None);
    assert_eq!(text(&process.ask(&of("slow")).await), "done");
    process.lines = None;
    for _ in 0..3 {
        // It may be gone already.
        let line = format!("{}\n", of("slow").body);
        let stdin = process.stdin.as_mut().unwrap();
        drop(stdin.write_all(line.as_bytes()).await);
    }
    process.stdin = None;
    process.ended().await;
}

#[cfg(unix)]
#[tokio::test]
async fn case_251_a_process_answers_to_its_own_user() {
    let uid = std::process::Command::new("id").arg("-u").output().unwrap();
    let uid = String::from_utf8(uid.stdout).unwrap();
    let mut process = Process::start(None);
    let who = process.ask(&of("who")).await;
    let expected = mrtr_server::Principal::user("stdio", format!("uid:{}", uid.trim()));
    assert_eq!(text(&who), format!("{expected:?}"));
}

#[tokio::test]
async fn case_252_a_process_that_is_killed_between_two_rounds() {
    for key in [Some(KEY), None] {
        let mut process = Process::start(key);
        let asked = process.ask(&of("confirm")).await;
        let state = asked["result"]["requestState"].as_str().unwrap();
        let retry = of("confirm")
            .id(2)
            .state(state)
            .answer("confirm", accept(json!({ "ok": true })));
        process.child.kill().await.unwrap();
        let mut process = Process::start(key);
        let answer = process.ask(&retry).await;
        if key.is_some() {
            assert_eq!(text(&answer), "confirmed");
            continue;
        }
        // A key that died with its process: nobody can go on, and it is said what to do.
        let error = &answer["error"];
        assert_eq!(error["data"]["reason"], "bad_signature", "{answer}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("Start the request again"), "{message}");
    }
}

/// Hundredths of a second of processor time, of all of its threads.
#[cfg(target_os = "linux")]
fn processor_time(process: &Process) -> u64 {
    let pid = process.child.id().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let times = fields.split_whitespace().skip(11).take(2);
    times.map(|time| time.parse::<u64>().unwrap()).sum()
}

/// A loop that is busy would take nearly all of the time, however busy the machine is.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn case_245_a_process_that_waits_takes_no_processor_time() {
    let mut process = Process::start(None);
    assert_eq!(text(&process.ask(&of("slow")).await), "done");
    process.send(&of("endless")).await;
    let before = processor_time(&process);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let taken = processor_time(&process) - before;
    assert!(taken < 10, "{taken} hundredths of a second");
    process.stdin = None;
    process.ended().await;
}
