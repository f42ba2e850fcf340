//! Over a real socket: serving, and ending well.

use std::net::SocketAddr;
use std::time::Duration;

use mrtr_server::{Limits, Server, State, tool};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::bank::Call;

async fn post(stream: &mut TcpStream, call: &Call) {
    let body = call.body.to_string();
    let mut head = String::from("POST /mcp HTTP/1.1\r\n");
    for (name, value) in &call.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!(
        "content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    ));
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
}

/// A plain server of these limits, and where it listens.
async fn plain(
    change: impl FnOnce(&mut Limits),
) -> (
    SocketAddr,
    oneshot::Sender<()>,
    JoinHandle<std::io::Result<()>>,
) {
    let server = Server::builder("plain", "1")
        .allow_anonymous()
        .limits(change)
        .tool(tool("plain", async || "answered"))
        .build()
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (shutdown, ended) = oneshot::channel::<()>();
    let serving =
        tokio::spawn(async move { server.serve(listener, async { drop(ended.await) }).await });
    (address, shutdown, serving)
}

/// Whether a call is answered within a second.
async fn is_answered(address: SocketAddr) -> bool {
    let mut stream = TcpStream::connect(address).await.unwrap();
    post(&mut stream, &Call::of("plain", serde_json::json!({}))).await;
    let mut response = String::new();
    let read = stream.read_to_string(&mut response);
    matches!(
        tokio::time::timeout(Duration::from_secs(1), read).await,
        Ok(Ok(_))
    ) && response.contains("answered")
}

#[tokio::test]
async fn half_a_request_does_not_hold_a_shutdown_up() {
    let (address, shutdown, serving) =
        plain(|limits| limits.shutdown = Duration::from_millis(300)).await;
    assert!(is_answered(address).await);
    let mut half = TcpStream::connect(address).await.unwrap();
    half.write_all(b"POST /mcp HT").await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    shutdown.send(()).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(10), serving).await;
    ended.expect("it ends in its time").unwrap().unwrap();
}

#[tokio::test]
async fn silent_connections_are_closed_and_make_room() {
    let (address, shutdown, serving) = plain(|limits| {
        limits.connections = 2;
        limits.head_timeout = Duration::from_millis(700);
    })
    .await;
    let mut silent = [
        TcpStream::connect(address).await.unwrap(),
        TcpStream::connect(address).await.unwrap(),
    ];
    tokio::time::sleep(Duration::from_millis(100)).await;
    // Accepted only when a place is free.
    let mut waits = TcpStream::connect(address).await.unwrap();
    post(&mut waits, &Call::of("plain", serde_json::json!({}))).await;
    let mut byte = [0];
    let early = tokio::time::timeout(Duration::from_millis(200), waits.read(&mut byte)).await;
    assert!(early.is_err(), "no place yet");
    for stream in &mut silent {
        let closed = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut byte)).await;
        assert_eq!(closed.expect("it is closed").unwrap_or(0), 0);
    }
    let late = tokio::time::timeout(Duration::from_secs(10), waits.read(&mut byte)).await;
    assert_eq!(late.expect("there is a place now").unwrap(), 1);
    assert!(is_answered(address).await);
    shutdown.send(()).unwrap();
    serving.await.unwrap().unwrap();
}

#[derive(Clone)]
struct Reached(std::sync::Arc<tokio::sync::Notify>);

#[tokio::test]
async fn case_269_a_graceful_shutdown_lets_calls_finish() {
    let reached = Reached(Default::default());
    let server = Server::builder("slow", "1")
        .allow_anonymous()
        .state(reached.clone())
        .tool(tool("slow", async |State(reached): State<Reached>| {
            reached.0.notify_one();
            tokio::time::sleep(Duration::from_millis(200)).await;
            "finished"
        }))
        .build()
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (shutdown, ended) = oneshot::channel::<()>();
    let serving =
        tokio::spawn(async move { server.serve(listener, async { drop(ended.await) }).await });

    let mut stream = TcpStream::connect(address).await.unwrap();
    post(&mut stream, &Call::of("slow", serde_json::json!({}))).await;
    reached.0.notified().await;
    shutdown.send(()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(response.contains("finished"), "{response}");
    tokio::time::timeout(Duration::from_secs(30), serving)
        .await
        .expect("it ends")
        .unwrap()
        .unwrap();
    TcpStream::connect(address)
        .await
        .expect_err("nobody listens any more");
}
