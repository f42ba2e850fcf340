//! A server that follows a script and records what it was sent.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use futures_util::stream::{self, StreamExt};
use mrtr_client::{
    Client, ClientBuilder, FormAnswer, FormQuestion, Refusal, ResponseBody, Transport,
    TransportError, TransportFuture,
};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// One request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) verb: String,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl Seen {
    /// The body's method, or the verb of a request without a body.
    pub(crate) fn what(&self) -> &str {
        self.body["method"].as_str().unwrap_or(match self.body {
            Value::Null => &self.verb,
            _ => "response",
        })
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.headers
            .get("mcp-protocol-version")
            .is_some_and(|version| version == "2026-07-28")
    }

    pub(crate) fn id(&self) -> &Value {
        &self.body["id"]
    }

    pub(crate) fn params(&self) -> &Value {
        &self.body["params"]
    }

    /// A member of the params, `null` and absent apart.
    pub(crate) fn param(&self, name: &str) -> Option<&Value> {
        self.params().get(name)
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

/// What the script says to a request.
pub(crate) enum Reply {
    /// A result, under the request's own id.
    Result(Value),
    /// An error, under the request's own id.
    Error(StatusCode, Value),
    /// Anything.
    Raw(StatusCode, &'static str, String),
    /// A redirect.
    Redirect(StatusCode, String),
    /// An event stream; `true` keeps it open.
    Stream(Vec<String>, bool),
    /// An event stream that the test writes to.
    Live(UnboundedReceiver<String>),
    /// 202 without a body.
    Accepted,
    /// Another reply with one more header.
    With(&'static str, String, Box<Reply>),
    /// No response, ever.
    Silence,
}

impl Reply {
    /// A status without a body.
    pub(crate) fn status(status: u16) -> Self {
        let status = StatusCode::from_u16(status).unwrap();
        Self::Raw(status, "text/plain", String::new())
    }
}

type Script = dyn Fn(usize, &Seen) -> Reply + Send + Sync;

/// Records requests, and asks the script.
#[derive(Clone)]
pub(crate) struct Recorder {
    seen: Arc<Mutex<Vec<Seen>>>,
    more: Arc<Notify>,
    script: Arc<Script>,
}

impl Recorder {
    pub(crate) fn new(script: impl Fn(usize, &Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self {
            seen: Arc::default(),
            more: Arc::default(),
            script: Arc::new(script),
        }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// The methods of all that came, in order.
    pub(crate) fn methods(&self) -> Vec<String> {
        self.seen()
            .iter()
            .map(|seen| seen.what().to_owned())
            .collect()
    }

    /// Waits until `count` requests of this kind came, and gives the last of them.
    pub(crate) async fn until(&self, what: &str, count: usize) -> Seen {
        let waiting = async {
            loop {
                let more = self.more.notified();
                let seen = self.seen();
                let nth = seen
                    .iter()
                    .filter(|seen| seen.what() == what)
                    .nth(count - 1);
                if let Some(seen) = nth {
                    return seen.clone();
                }
                more.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), waiting)
            .await
            .unwrap_or_else(|_| panic!("no {what} {count}: {:?}", self.methods()))
    }

    async fn answer(&self, verb: &str, headers: HeaderMap, body: &[u8]) -> Response<Body> {
        let text = String::from_utf8(body.to_vec()).unwrap();
        let seen = Seen {
            verb: verb.to_owned(),
            headers,
            body: if text.is_empty() {
                Value::Null
            } else {
                serde_json::from_str(&text).unwrap()
            },
            text,
        };
        let n = {
            let mut all = self.seen.lock().unwrap();
            all.push(seen.clone());
            all.len()
        };
        self.more.notify_waiters();
        respond((self.script)(n, &seen), &seen).await
    }
}

async fn respond(reply: Reply, seen: &Seen) -> Response<Body> {
    let json = |status: StatusCode, body: String| {
        Response::builder()
            .status(status)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .unwrap()
    };
    match reply {
        Reply::Result(result) => json(
            StatusCode::OK,
            json!({"jsonrpc": "2.0", "id": seen.id(), "result": result}).to_string(),
        ),
        Reply::Error(status, error) => json(
            status,
            json!({"jsonrpc": "2.0", "id": seen.id(), "error": error}).to_string(),
        ),
        Reply::Raw(status, media, body) => Response::builder()
            .status(status)
            .header(header::CONTENT_TYPE, media)
            .body(Body::from(body))
            .unwrap(),
        Reply::Redirect(status, to) => Response::builder()
            .status(status)
            .header(header::LOCATION, to)
            .body(Body::empty())
            .unwrap(),
        Reply::Stream(chunks, open) => {
            let chunks = stream::iter(
                chunks
                    .into_iter()
                    .map(|chunk| Ok::<_, std::io::Error>(Bytes::from(chunk))),
            );
            let body = if open {
                Body::from_stream(chunks.chain(stream::pending()))
            } else {
                Body::from_stream(chunks)
            };
            Response::builder()
                .header(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")
                .body(body)
                .unwrap()
        }
        Reply::Live(events) => {
            let chunks = stream::unfold(events, |mut events| async move {
                let event = events.recv().await?;
                Some((Ok::<_, std::io::Error>(Bytes::from(event)), events))
            });
            Response::builder()
                .header(header::CONTENT_TYPE, "text/event-stream")
                .body(Body::from_stream(chunks))
                .unwrap()
        }
        Reply::Accepted => Response::builder()
            .status(StatusCode::ACCEPTED)
            .body(Body::empty())
            .unwrap(),
        Reply::With(name, value, reply) => {
            let mut response = Box::pin(respond(*reply, seen)).await;
            response
                .headers_mut()
                .insert(name, value.try_into().unwrap());
            response
        }
        Reply::Silence => std::future::pending().await,
    }
}

/// Over a socket.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) recorder: Recorder,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(
        script: impl Fn(usize, &Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let recorder = Recorder::new(script);
        let app = Router::new().fallback(serve).with_state(recorder.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            url,
            recorder,
            task,
        }
    }

    pub(crate) fn client(&self) -> ClientBuilder {
        Client::builder(&self.url)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.recorder.seen()
    }

    pub(crate) fn count(&self) -> usize {
        self.recorder.count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    State(recorder): State<Recorder>,
    verb: axum::http::Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    recorder.answer(verb.as_str(), headers, &body).await
}

/// In process, for tests with a clock that stands still.
impl Transport for Recorder {
    fn send(&self, request: Request<Bytes>) -> TransportFuture<'_> {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let response = self
                .answer(parts.method.as_str(), parts.headers, &body)
                .await;
            Ok(response.map(|body| {
                ResponseBody::from_stream(
                    body.into_data_stream()
                        .map(|chunk| chunk.map_err(TransportError::interrupted)),
                )
            }))
        })
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}

/// A client whose clock may stand still.
pub(crate) fn in_process(recorder: &Recorder) -> ClientBuilder {
    Client::builder("http://in.process/mcp").transport(recorder.clone())
}

/// A round that puts one question of any kind under `k`.
pub(crate) fn puts(question: &Value, state: &str) -> Reply {
    Reply::Result(
        json!({"resultType": "input_required", "inputRequests": {"k": question}, "requestState": state}),
    )
}

/// A form with one box to tick.
pub(crate) fn form() -> Value {
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": "Sure?",
        "requestedSchema": {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}}})
}

/// A round that asks one form under `key`, with a state.
pub(crate) fn asks(key: &str, state: &str) -> Reply {
    Reply::Result(
        json!({"resultType": "input_required", "inputRequests": {key: form()}, "requestState": state}),
    )
}

pub(crate) fn done(text: &str) -> Reply {
    Reply::Result(json!({"resultType": "complete", "content": [{"type": "text", "text": text}]}))
}

/// Says yes to everything.
pub(crate) async fn yes(_: FormQuestion) -> Result<FormAnswer, Refusal> {
    Ok(FormAnswer::Accept(json!({"ok": true})))
}

/// What `yes` puts on the wire.
pub(crate) fn accepted() -> Value {
    json!({"action": "accept", "content": {"ok": true}})
}

/// The streams that a script opened, for the test to write to.
#[derive(Clone, Default)]
pub(crate) struct Streams(Arc<Mutex<Vec<UnboundedSender<String>>>>);

impl Streams {
    /// Opens one.
    pub(crate) fn open(&self) -> Reply {
        let (sender, receiver) = unbounded_channel();
        self.0.lock().unwrap().push(sender);
        Reply::Live(receiver)
    }

    pub(crate) fn send(&self, nth: usize, message: &Value) {
        self.write(nth, format!("data: {message}\n\n"));
    }

    pub(crate) fn write(&self, nth: usize, text: String) {
        // A reader that is gone is the test's to notice.
        drop(self.0.lock().unwrap()[nth].send(text));
    }

    /// Ends one as if the connection closed in order.
    pub(crate) fn close(&self, nth: usize) {
        let (dead, _) = unbounded_channel();
        self.0.lock().unwrap()[nth] = dead;
    }

    /// Whether its reader is still there.
    pub(crate) async fn closed(&self, nth: usize) {
        let sender = self.0.lock().unwrap()[nth].clone();
        tokio::time::timeout(Duration::from_secs(60), sender.closed())
            .await
            .expect("the stream is still read");
    }
}

/// A request of the server.
pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

/// A form as a request of the server.
pub(crate) fn form_request(id: impl Into<Value>) -> Value {
    request(id, "elicitation/create", form()["params"].clone())
}

pub(crate) fn response(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// The text of a tool, as the earlier era has it.
pub(crate) fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// A server of the earlier era with a session. What is not its handshake goes to the script; what that leaves is refused or accepted.
pub(crate) fn session(
    revision: &'static str,
    script: impl Fn(&Seen) -> Option<Reply> + Send + Sync + 'static,
) -> impl Fn(usize, &Seen) -> Reply + Send + Sync + 'static {
    move |_, seen| {
        if let Some(reply) = script(seen) {
            return reply;
        }
        match seen.what() {
            _ if seen.is_modern() => Reply::status(400),
            "initialize" => Reply::With(
                "mcp-session-id",
                "s-1".to_owned(),
                Box::new(Reply::Result(json!({
                    "protocolVersion": revision,
                    "capabilities": {"tools": {}, "logging": {}},
                    "serverInfo": {"name": "old", "version": "1"},
                }))),
            ),
            "GET" => Reply::status(405),
            "DELETE" => Reply::status(200),
            "ping" | "logging/setLevel" => Reply::Result(json!({})),
            _ => Reply::Accepted,
        }
    }
}
