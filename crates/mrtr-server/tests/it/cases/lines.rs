//! Cases 238 to 262 over lines: what is no message, ids that are used twice, whose process it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mrtr_server::{Cancelled, Principal, State, tool};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex};
use tokio::sync::Notify;

use crate::bank::{Bank, Call};
use crate::notices::{Pipe, modern};
use crate::session::{everything, initialize, text};

fn plain(id: i64) -> Value {
    modern(id, &Call::of("plain", json!({})))
}

#[tokio::test]
async fn case_234_what_may_come_before_the_session_is_ready() {
    let bank = Bank::new();
    let mut pipe = Pipe::open(&bank.server);
    pipe.send(&initialize("2025-11-25", everything())).await;
    assert!(pipe.message().await["result"]["protocolVersion"].is_string());
    let request = |id: i64, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    for (id, method, params) in [
        (1, "ping", json!({})),
        (2, "tools/list", json!({})),
        (3, "logging/setLevel", json!({ "level": "info" })),
    ] {
        pipe.send(&request(id, method, params)).await;
        assert_eq!(pipe.message().await["id"], id, "{method}");
    }
    pipe.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
        .await;
    pipe.send(&request(4, "tools/call", json!({ "name": "plain" })))
        .await;
    assert_eq!(text(&pipe.message().await), "done");
    pipe.end().await;
}

#[tokio::test]
async fn case_235_a_modern_request_leaves_the_session_alone() {
    let bank = Bank::new();
    let mut pipe = Pipe::open(&bank.server);
    pipe.send(&initialize("2025-11-25", json!({}))).await;
    assert!(pipe.message().await["result"]["protocolVersion"].is_string());
    // What the session declared is not what this request declares, and neither goes over to the other.
    pipe.send(&modern(1, &Call::first())).await;
    assert_eq!(
        pipe.message().await["result"]["resultType"],
        "input_required"
    );
    pipe.send(&modern(2, &Call::first().declaring(json!({}))))
        .await;
    assert_eq!(pipe.message().await["error"]["code"], -32021);
    let arguments = json!({ "to": "acct-7", "amount": 100 });
    let call = json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": { "name": "transfer", "arguments": arguments } });
    pipe.send(&call).await;
    assert_eq!(pipe.message().await["result"]["isError"], true);
    pipe.end().await;
}

#[tokio::test]
async fn case_238_initialize_where_there_are_no_sessions() {
    let bank = Bank::with(|builder| builder.modern_only());
    let mut pipe = Pipe::open(&bank.server);
    pipe.send(&initialize("2025-11-25", everything())).await;
    let refused = pipe.message().await;
    assert_eq!(refused["id"], "init");
    assert_eq!(refused["error"]["code"], -32022);
    let data = json!({ "supported": ["2026-07-28"], "requested": "2025-11-25" });
    assert_eq!(refused["error"]["data"], data);
    pipe.send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize" }))
        .await;
    assert_eq!(pipe.message().await["error"]["code"], -32602);
    pipe.send(&plain(1)).await;
    assert_eq!(text(&pipe.message().await), "done");
    pipe.end().await;
}

#[tokio::test]
async fn case_243_a_bad_line_is_answered_once_at_most() {
    let bank = Bank::with(|builder| builder.limits(|limits| limits.body = 1 << 20));
    let mut pipe = Pipe::open(&bank.server);
    let bad: [Vec<u8>; 14] = [
        b"Listening on stdio".into(),
        "\u{feff}".into(),
        format!("\u{feff}{}", plain(1)).into(),
        b"null".into(),
        b"[]".into(),
        b"{}".into(),
        b"\"x\"".into(),
        br#"{"jsonrpc":"2.0"}"#.into(),
        br#"{"jsonrpc":"2.0","method":"notifications/x","params":null}"#.into(),
        br#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}"#.into(),
        br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#.into(),
        br#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}"#.into(),
        b"\xff\xfe\x80".into(),
        vec![b'x'; 10 << 20],
    ];
    for round in 0..8 {
        for (n, bad) in bad.iter().enumerate() {
            let id = round * 100 + i64::try_from(n).unwrap();
            let line = [bad.as_slice(), format!("\n{}\n", plain(id)).as_bytes()].concat();
            let Pipe {
                lines, to_server, ..
            } = &mut pipe;
            let writing = to_server.write_all(&line);
            let reading = async {
                let mut errors = 0;
                loop {
                    let line = lines.next_line().await.unwrap().expect("it goes on");
                    let message: Value = serde_json::from_str(&line).unwrap();
                    if message.get("result").is_some() {
                        assert_eq!(message["id"], id);
                        return errors;
                    }
                    assert!(message["error"]["code"].is_i64(), "{message}");
                    errors += 1;
                }
            };
            let (written, errors) = tokio::join!(writing, reading);
            written.unwrap();
            assert!(
                errors <= 1,
                "{errors} errors for {:?}",
                String::from_utf8_lossy(&bad[..bad.len().min(80)])
            );
        }
    }
    pipe.end().await;
}

/// Carries lines to the other end, and counts them.
async fn carry(from: DuplexStream, mut to: DuplexStream, count: Arc<AtomicUsize>) {
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // Whoever answers for ever is not carried for ever.
        if count.fetch_add(1, Ordering::SeqCst) > 100 {
            return;
        }
        if to.write_all(format!("{line}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

/// What each says of a bad line comes to the other as one that it need not answer.
#[tokio::test(start_paused = true)]
async fn case_243_two_servers_that_hear_each_other_fall_silent() {
    let serve = || {
        let server = Bank::new().server;
        let (into, from_other) = duplex(1 << 16);
        let (to_other, out) = duplex(1 << 16);
        let principal = Principal::user("stdio", "the other");
        let never = std::future::pending();
        tokio::spawn(async move {
            server
                .serve_lines(from_other, to_other, principal, never)
                .await
        });
        (into, out)
    };
    let ((mut into_a, out_of_a), (into_b, out_of_b)) = (serve(), serve());
    let garbage = "nonsense\n[]\nnull\n{\"jsonrpc\":\"2.0\",\"id\":1}\n{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}\n";
    into_a.write_all(garbage.as_bytes()).await.unwrap();
    let counts: [Arc<AtomicUsize>; 2] = Default::default();
    tokio::spawn(carry(out_of_a, into_b, Arc::clone(&counts[0])));
    tokio::spawn(carry(out_of_b, into_a, Arc::clone(&counts[1])));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let said = counts.map(|count| count.load(Ordering::SeqCst));
    assert_eq!(said, [garbage.lines().count(), 0]);
}

#[derive(Clone, Default)]
struct Begun(Arc<Notify>);

#[tokio::test]
async fn case_255_an_id_that_is_in_use() {
    let begun = Begun::default();
    let bank = Bank::with(|builder| {
        builder.state(begun.clone()).tool(tool(
            "waits",
            async |State(begun): State<Begun>, cancelled: Cancelled| {
                begun.0.notify_one();
                cancelled.happens().await;
                "cancelled"
            },
        ))
    });
    let waits = Call::of("waits", json!({}));
    let mut pipe = Pipe::open(&bank.server);
    pipe.send(&modern(1, &waits)).await;
    begun.0.notified().await;
    pipe.send(&plain(1)).await;
    let refused = pipe.message().await;
    assert_eq!(
        (&refused["id"], &refused["error"]["code"]),
        (&json!(1), &json!(-32600))
    );
    assert_eq!(bank.effects.count(), 0, "the second did not run");
    pipe.send(&plain(2)).await;
    assert_eq!(pipe.message().await["id"], 2);
    // Over HTTP each request has an exchange of its own.
    let waiting = {
        let bank = bank.clone();
        let waits = waits.clone();
        tokio::spawn(async move { bank.send(&waits).await })
    };
    begun.0.notified().await;
    let beside = bank.send(&Call::of("plain", json!({})).id(1)).await;
    assert_eq!(beside.text(), "done");
    assert!(!waiting.is_finished());
    waiting.abort();
    // The first is still running.
    pipe.send(&plain(1)).await;
    assert_eq!(pipe.message().await["error"]["code"], -32600);
    pipe.end().await;
}

#[tokio::test]
async fn case_251_a_process_belongs_to_its_user() {
    let bank = Bank::new();
    let user = |uid: &str| Pipe::of(&bank.server, Principal::user("stdio", uid));
    let mut own = user("uid:1000");
    own.send(&modern(1, &Call::first())).await;
    let asked = own.message().await;
    let state = asked["result"]["requestState"].as_str().unwrap();
    let anonymous = Pipe::of(&bank.server, Principal::Anonymous);
    for mut other in [user("uid:1001"), anonymous] {
        other.send(&modern(2, &Call::retry(state))).await;
        let refused = other.message().await;
        assert_eq!(
            refused["error"]["data"]["reason"], "different_principal",
            "{refused}"
        );
        other.end().await;
    }
    assert_eq!((bank.effects.count(), bank.rows().await), (0, (0, 0)));
    own.send(&modern(3, &Call::retry(state))).await;
    assert_eq!(text(&own.message().await), "done 1");
    own.end().await;
}

#[tokio::test]
async fn case_257_every_message_says_2_0() {
    let bank = Bank::new();
    let mut pipe = Pipe::open(&bank.server);
    let good = Call::of("plain", json!({}));
    for version in [
        Some(json!("1.0")),
        Some(json!(2.0)),
        Some(json!("2")),
        Some(json!("2.00")),
        Some(Value::Null),
        None,
    ] {
        let mut bad = good.clone();
        match &version {
            Some(version) => bad.body["jsonrpc"] = version.clone(),
            None => drop(bad.body.as_object_mut().unwrap().remove("jsonrpc")),
        }
        let reply = bank.send(&bad).await;
        assert_eq!(
            (reply.status.as_u16(), reply.code()),
            (400, Some(-32600)),
            "{version:?}"
        );
        pipe.send(&modern(7, &bad)).await;
        assert_eq!(pipe.message().await["error"]["code"], -32600, "{version:?}");
    }
    assert_eq!(bank.effects.count(), 0);
    assert_eq!(bank.send(&good).await.text(), "done");
    pipe.end().await;
}

/// A server whose line and body are as deep, wide and long as they may be, and beyond.
#[tokio::test]
async fn case_262_deep_wide_and_long() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let wide = |count: usize| {
        let members: Vec<String> = (0..count).map(|n| format!("\"k{n}\":0")).collect();
        format!("{{{}}}", members.join(","))
    };
    let long = |length: usize| format!("{{\"{}\":0}}", "k".repeat(length));
    let call = |value: &str| {
        let call = Call::of("plain", json!({})).meta("com.example/x", "@");
        (call.clone(), call.body.to_string().replace("\"@\"", value))
    };
    // The value lies three deep: in the message, its params and their `_meta`.
    for (limit, value, status) in [
        (4 << 20, deep(125), 200),
        (4 << 20, deep(126), 400),
        (4 << 20, deep(1_000_000), 400),
        (16 << 20, wide(1_000_000), 200),
        (4 << 20, wide(1_000_000), 413),
        (16 << 20, long(10 << 20), 200),
        (4 << 20, long(10 << 20), 413),
    ] {
        let bank = Bank::with(|builder| builder.limits(|limits| limits.body = limit));
        let (call, body) = call(&value);
        let begun = std::time::Instant::now();
        let reply = bank.send_raw(call.with_body(body)).await;
        let shown = &value[..20];
        assert_eq!(reply.status.as_u16(), status, "{shown}: {reply:?}");
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{shown}: {:?}",
            begun.elapsed()
        );
        assert_eq!(bank.effects.count(), usize::from(status == 200), "{shown}");
        assert_eq!(
            bank.send(&Call::of("plain", json!({}))).await.text(),
            "done",
            "{shown}"
        );
    }
}

/// A line that goes on for a while, then a request.
struct Endless(usize, std::io::Cursor<Vec<u8>>);

impl tokio::io::AsyncRead for Endless {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        into: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        let n = into.remaining().min(self.0);
        if n == 0 {
            return std::pin::Pin::new(&mut self.1).poll_read(cx, into);
        }
        self.0 -= n;
        into.initialize_unfilled_to(n).fill(b'x');
        into.advance(n);
        std::task::Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn case_250_a_line_without_end_is_answered_once_and_the_next_is_read() {
    let bank = Bank::new();
    let next = format!("\n{}\n", plain(7)).into_bytes();
    let endless = Endless(256 << 20, std::io::Cursor::new(next));
    let (to_client, from_server) = duplex(1 << 14);
    let principal = Principal::user("stdio", "somebody");
    let serving = bank
        .server
        .serve_lines(endless, to_client, principal, std::future::pending());
    let said = async {
        let mut lines = BufReader::new(from_server).lines();
        let mut said = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            said.push(serde_json::from_str::<Value>(&line).unwrap());
        }
        said
    };
    let (served, said) = tokio::join!(serving, said);
    served.unwrap();
    let [refused, done] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!(
        (&refused["error"]["code"], refused.get("id")),
        (&json!(-32600), None)
    );
    assert_eq!((text(done), &done["id"]), ("done", &json!(7)));
}
