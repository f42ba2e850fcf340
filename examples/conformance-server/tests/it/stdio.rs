//! Both eras on one process, over lines.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// Nothing here takes long; a process that hangs is killed by its test.
const PATIENCE: Duration = Duration::from_secs(30);

/// The process, and what was said on its stdout.
struct Peer {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    next_id: u64,
}

impl Peer {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_conformance-server"))
            .arg("--stdio")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            child,
            stdin,
            lines,
            next_id: 1,
        }
    }

    async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.stdin.write_all(line.as_bytes()).await.unwrap();
    }

    /// The next message. A line that is no JSON-RPC message fails the test: nothing else may be on stdout.
    async fn receive(&mut self) -> Value {
        let line = timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.expect("a line in time").unwrap().expect("a line");
        let message: Value = serde_json::from_str(&line).expect(&line);
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    /// Sends a request and returns its id.
    async fn request(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
        id
    }

    /// Sends a request and returns its result; nothing else may come before it.
    async fn result(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        let response = self.receive().await;
        assert_eq!(response["id"], id, "{response}");
        assert!(response["error"].is_null(), "{response}");
        response["result"].clone()
    }

    async fn modern(&mut self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
        });
        self.result(method, params).await
    }

    async fn initialize(&mut self) -> Value {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "test", "version": "1" },
        });
        let result = self.result("initialize", params).await;
        self.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
        result
    }

    /// Closes stdin, and waits for the process's end.
    async fn end(mut self) {
        drop(self.stdin);
        let status = timeout(PATIENCE, self.child.wait()).await;
        assert!(status.expect("an end in time").unwrap().success());
        let rest = timeout(PATIENCE, self.lines.next_line()).await;
        assert_eq!(rest.expect("the end of stdout").unwrap(), None);
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn both_eras_are_served_on_one_process() {
    let mut peer = Peer::start();

    // Modern, before anybody has opened a session.
    let discovered = peer.modern("server/discover", json!({})).await;
    let versions = discovered["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{versions:?}");

    // The earlier era, on the same two pipes.
    let opened = peer.initialize().await;
    assert_eq!(opened["protocolVersion"], "2025-11-25");
    assert!(opened.get("resultType").is_none(), "{opened}");
    let listed = peer.result("tools/list", json!({})).await;
    let earlier = listed["tools"].as_array().unwrap().clone();
    assert_eq!(earlier[0]["name"], "test_simple_text");

    // The question comes to the client as a request, while the call is open.
    let arguments =
        json!({ "name": "test_elicitation", "arguments": { "message": "Who are you?" } });
    let call = peer.request("tools/call", arguments).await;
    let question = peer.receive().await;
    assert_eq!(question["method"], "elicitation/create", "{question}");
    assert_eq!(question["params"]["message"], "Who are you?");
    // A modern request is answered meanwhile: the call that waits holds nobody up.
    let modern = peer.modern("tools/list", json!({})).await;
    assert_eq!(modern["resultType"], "complete");
    assert_eq!(modern["tools"].as_array().unwrap().len(), earlier.len());
    let content = json!({ "username": "ada", "email": "ada@example.com" });
    let answer = json!({ "action": "accept", "content": content });
    peer.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer }))
        .await;
    let response = peer.receive().await;
    assert_eq!(response["id"], call);
    assert!(
        text(&response["result"]).contains("ada@example.com"),
        "{response}"
    );

    // Modern: the question is the answer, and the call is sent again.
    let mut params = json!({ "name": "test_input_required_result_request_state", "arguments": {} });
    let asked = peer.modern("tools/call", params.clone()).await;
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(
        asked["inputRequests"]["confirm"]["method"],
        "elicitation/create"
    );
    params["requestState"] = asked["requestState"].clone();
    params["inputResponses"] =
        json!({ "confirm": { "action": "accept", "content": { "ok": true } } });
    let done = peer.modern("tools/call", params).await;
    assert_eq!(text(&done), "state-ok: confirmed");

    peer.end().await;
}

#[tokio::test]
async fn messages_come_before_the_result_in_both_eras() {
    let mut peer = Peer::start();
    peer.initialize().await;
    let token =
        |meta: Value| json!({ "name": "test_tool_with_progress", "arguments": {}, "_meta": meta });
    let modern = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": "modern",
    });
    for (params, name) in [
        (token(json!({ "progressToken": "earlier" })), "earlier"),
        (token(modern), "modern"),
    ] {
        let id = peer.request("tools/call", params).await;
        for expected in [0.0, 50.0, 100.0] {
            let report = peer.receive().await;
            assert_eq!(report["method"], "notifications/progress", "{report}");
            assert_eq!(report["params"]["progressToken"], name);
            assert_eq!(report["params"]["progress"], expected);
        }
        let response = peer.receive().await;
        assert_eq!(response["id"], id);
        assert!(text(&response["result"]).contains("successfully"));
    }
    peer.end().await;
}

/// The fixtures are sealed as anybody's tool is: what rejects a changed state is no mark in it that a test put there.
#[tokio::test]
async fn case_264_states_of_the_fixtures_are_sealed() {
    let mut peer = Peer::start();
    let call = json!({ "name": "test_input_required_result_request_state", "arguments": {} });
    let asked = peer.modern("tools/call", call.clone()).await;
    let state = asked["requestState"].as_str().unwrap().to_owned();
    assert!(state.starts_with("mrtr1.x."), "encrypted: {state}");
    let mut retry = call;
    retry["inputResponses"] =
        json!({ "confirm": { "action": "accept", "content": { "ok": true } } });
    retry["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
    });
    // Any one character of the sealed part, and more than one.
    let sealed = state.rfind('.').unwrap() + 1;
    let mut forged: Vec<String> = (sealed..state.len() - 1)
        .step_by(7)
        .map(|at| {
            let other = if state.as_bytes()[at] == b'A' {
                "B"
            } else {
                "A"
            };
            format!("{}{other}{}", &state[..at], &state[at + 1..])
        })
        .collect();
    forged.push(format!("{state}-TAMPERED"));
    for forged in forged {
        retry["requestState"] = forged.clone().into();
        let id = peer.request("tools/call", retry.clone()).await;
        let refused = peer.receive().await;
        assert_eq!(
            (&refused["id"], &refused["error"]["code"]),
            (&json!(id), &json!(-32602))
        );
        let reason = refused["error"]["data"]["reason"].as_str().unwrap();
        assert!(
            ["bad_signature", "malformed"].contains(&reason),
            "{forged}: {reason}"
        );
    }
    retry["requestState"] = state.into();
    let done = peer.result("tools/call", retry).await;
    assert_eq!(text(&done), "state-ok: confirmed");
    peer.end().await;
}
