//! A site that answers by path and writes down what it was asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use url::form_urlencoded;

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Hit {
    pub(super) verb: String,
    pub(super) path: String,
    pub(super) query: HashMap<String, String>,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl Hit {
    /// `GET /path`.
    pub(super) fn what(&self) -> String {
        format!("{} {}", self.verb, self.path)
    }

    pub(super) fn base(&self) -> String {
        format!("http://{}", self.headers["host"].to_str().unwrap())
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(super) fn form(&self) -> HashMap<String, String> {
        form_urlencoded::parse(self.body.as_bytes())
            .into_owned()
            .collect()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

pub(super) fn json(status: u16, value: &Value) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    let media = [(header::CONTENT_TYPE, "application/json")];
    (status, media, value.to_string()).into_response()
}

pub(super) fn status(status: u16) -> Response {
    StatusCode::from_u16(status).unwrap().into_response()
}

pub(super) fn redirect(to: &str) -> Response {
    (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to)]).into_response()
}

type Answer = dyn Fn(&Hit) -> Response + Send + Sync;

#[derive(Default)]
struct Shared {
    hits: Mutex<Vec<Hit>>,
    answers: Mutex<HashMap<String, Arc<Answer>>>,
}

pub(super) struct Site {
    pub(super) url: String,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

impl Site {
    /// Answers 404 to everything, until it is told better.
    pub(super) async fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let app = Router::new()
            .fallback(serve)
            .with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, shared, task }
    }

    /// What it says from now on to `GET /path`.
    pub(super) fn on(&self, what: &str, answer: impl Fn(&Hit) -> Response + Send + Sync + 'static) {
        let mut answers = self.shared.answers.lock().unwrap();
        answers.insert(what.to_owned(), Arc::new(answer));
    }

    pub(super) fn hits(&self, what: &str) -> Vec<Hit> {
        let hits = self.shared.hits.lock().unwrap();
        hits.iter()
            .filter(|hit| hit.what() == what)
            .cloned()
            .collect()
    }

    pub(super) fn count(&self, what: &str) -> usize {
        self.hits(what).len()
    }

    /// Everything, in order.
    pub(super) fn all(&self) -> Vec<String> {
        let hits = self.shared.hits.lock().unwrap();
        hits.iter().map(Hit::what).collect()
    }

    /// Whether a text is in anything that was sent here.
    pub(super) fn saw(&self, text: &str) -> bool {
        let hits = self.shared.hits.lock().unwrap();
        hits.iter().any(|hit| format!("{hit:?}").contains(text))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    State(shared): State<Arc<Shared>>,
    verb: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let query = uri.query().unwrap_or_default();
    let hit = Hit {
        verb: verb.to_string(),
        path: uri.path().to_owned(),
        query: form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect(),
        headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    };
    shared.hits.lock().unwrap().push(hit.clone());
    let answer = shared.answers.lock().unwrap().get(&hit.what()).cloned();
    match answer {
        Some(answer) => answer(&hit),
        None => status(404),
    }
}
