//! A server that follows a script and records what it was sent.

use std::fmt;
use std::sync::{Arc, Mutex};

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

/// One request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    pub(crate) body: Value,
}

impl Seen {
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
    Redirect(String),
    /// An event stream; `true` keeps it open.
    Stream(Vec<String>, bool),
    /// No response, ever.
    Silence,
}

type Script = dyn Fn(usize, &Seen) -> Reply + Send + Sync;

/// Records requests, and asks the script.
#[derive(Clone)]
pub(crate) struct Recorder {
    seen: Arc<Mutex<Vec<Seen>>>,
    script: Arc<Script>,
}

impl Recorder {
    pub(crate) fn new(script: impl Fn(usize, &Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self {
            seen: Arc::default(),
            script: Arc::new(script),
        }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    async fn answer(&self, headers: HeaderMap, body: &[u8]) -> Response<Body> {
        let text = String::from_utf8(body.to_vec()).unwrap();
        let seen = Seen {
            headers,
            body: serde_json::from_str(&text).unwrap(),
            text,
        };
        let n = {
            let mut all = self.seen.lock().unwrap();
            all.push(seen.clone());
            all.len()
        };
        let reply = (self.script)(n, &seen);
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
            Reply::Redirect(to) => Response::builder()
                .status(StatusCode::TEMPORARY_REDIRECT)
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
            Reply::Silence => std::future::pending().await,
        }
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
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    recorder.answer(headers, &body).await
}

/// In process, for tests with a clock that stands still.
impl Transport for Recorder {
    fn send(&self, request: Request<Bytes>) -> TransportFuture<'_> {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let response = self.answer(parts.headers, &body).await;
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
