//! Over a real socket: serving, and ending well.

use std::time::Duration;

use mrtr_server::{Server, State, tool};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

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

#[derive(Clone)]
struct Reached(std::sync::Arc<tokio::sync::Notify>);

#[tokio::test]
async fn a_graceful_shutdown_lets_calls_finish() {
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
