//! The other end of two byte streams, which follows a script and records what it was sent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mrtr_client::{Client, ClientBuilder};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// What the peer does.
pub(crate) enum Said {
    /// Writes a message as a line.
    Line(Value),
    /// Writes these bytes.
    Raw(Vec<u8>),
}

pub(crate) fn result(to: &Value, result: Value) -> Said {
    Said::Line(json!({"jsonrpc": "2.0", "id": to["id"], "result": result}))
}

pub(crate) fn error(to: &Value, code: i64) -> Said {
    Said::Line(json!({"jsonrpc": "2.0", "id": to["id"], "error": {"code": code, "message": "no"}}))
}

#[derive(Clone)]
pub(crate) struct Peer {
    seen: Arc<Mutex<Vec<Value>>>,
    more: Arc<Notify>,
    out: Arc<Mutex<Option<UnboundedSender<Vec<u8>>>>>,
}

impl Peer {
    /// A peer, and the beginning of its client.
    pub(crate) fn start(
        script: impl Fn(&Value) -> Vec<Said> + Send + 'static,
    ) -> (ClientBuilder, Self) {
        let (reader, into_client) = tokio::io::duplex(64 * 1024);
        let (from_client, writer) = tokio::io::duplex(64 * 1024);
        let peer = Self::at(from_client, into_client, script);
        (Client::pipe("peer", reader, writer), peer)
    }

    fn at(
        from_client: DuplexStream,
        mut into_client: DuplexStream,
        script: impl Fn(&Value) -> Vec<Said> + Send + 'static,
    ) -> Self {
        let (out, mut writes) = unbounded_channel::<Vec<u8>>();
        let peer = Self {
            seen: Arc::default(),
            more: Arc::default(),
            out: Arc::new(Mutex::new(Some(out))),
        };
        tokio::spawn(async move {
            while let Some(bytes) = writes.recv().await {
                if into_client.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        });
        let own = peer.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(from_client).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line).unwrap();
                let said = script(&message);
                own.seen.lock().unwrap().push(message);
                own.more.notify_waiters();
                for said in said {
                    match said {
                        Said::Line(message) => own.say(&message),
                        Said::Raw(bytes) => own.write(bytes),
                    }
                }
            }
            // Its input has ended: so does it.
            own.seen.lock().unwrap().push(json!({"method": "END"}));
            own.more.notify_waiters();
            own.hang_up();
        });
        peer
    }

    pub(crate) fn write(&self, bytes: impl Into<Vec<u8>>) {
        if let Some(out) = &*self.out.lock().unwrap() {
            drop(out.send(bytes.into()));
        }
    }

    pub(crate) fn say(&self, message: &Value) {
        self.write(format!("{message}\n"));
    }

    pub(crate) fn hang_up(&self) {
        self.out.lock().unwrap().take();
    }

    pub(crate) fn seen(&self) -> Vec<Value> {
        self.seen.lock().unwrap().clone()
    }

    /// The methods of what came; `response` for a response.
    pub(crate) fn methods(&self) -> Vec<String> {
        self.seen()
            .iter()
            .map(|seen| what(seen).to_owned())
            .collect()
    }

    pub(crate) async fn until(&self, wanted: &str, count: usize) -> Value {
        let waiting = async {
            loop {
                let more = self.more.notified();
                let seen = self.seen();
                let nth = seen
                    .iter()
                    .filter(|seen| what(seen) == wanted)
                    .nth(count - 1);
                if let Some(seen) = nth {
                    return seen.clone();
                }
                more.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waiting)
            .await
            .unwrap_or_else(|_| panic!("no {wanted} {count}: {:?}", self.methods()))
    }
}

fn what(message: &Value) -> &str {
    message["method"].as_str().unwrap_or("response")
}

pub(crate) fn discovered(to: &Value, versions: &[&str]) -> Said {
    result(
        to,
        json!({"resultType": "complete", "supportedVersions": versions, "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}),
    )
}

/// A modern peer: what it says to everything but the probe.
pub(crate) fn modern(
    script: impl Fn(&Value) -> Vec<Said> + Send + 'static,
) -> (ClientBuilder, Peer) {
    Peer::start(move |message| match message["method"].as_str() {
        Some("server/discover") => vec![discovered(message, &["2026-07-28"])],
        _ => script(message),
    })
}

/// A peer of the earlier era: what it says to everything but the probe and the handshake.
pub(crate) fn earlier(
    script: impl Fn(&Value) -> Vec<Said> + Send + 'static,
) -> (ClientBuilder, Peer) {
    Peer::start(move |message| match message["method"].as_str() {
        Some("server/discover") => vec![error(message, -32601)],
        Some("initialize") => vec![initialized(message, "2025-11-25")],
        Some("ping" | "logging/setLevel") => vec![result(message, json!({}))],
        _ => script(message),
    })
}

pub(crate) fn initialized(to: &Value, version: &str) -> Said {
    result(
        to,
        json!({"protocolVersion": version, "capabilities": {"tools": {}, "logging": {}}, "serverInfo": {"name": "old", "version": "1"}}),
    )
}

pub(crate) fn text(to: &Value, text: &str) -> Said {
    result(
        to,
        json!({"resultType": "complete", "content": [{"type": "text", "text": text}]}),
    )
}
