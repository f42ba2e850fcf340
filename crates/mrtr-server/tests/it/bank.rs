//! The server `bank`: a transfer that asks, two questions at once, two rounds, a slow effect. Its effects are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use mrtr_ledger::{Ledger, MemoryLedger};
use mrtr_server::{
    Answer, Args, DurableFlow, Flow, Form, Principal, Server, ServerBuilder, State, StaticTokens,
    ToolError, tool,
};
use mrtr_state::{Key, KeyRing, Timestamp};
use mrtr_state_hmac::HmacCodec;
use mrtr_testkit::ManualClock;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tower_service::Service as _;

pub(crate) const T0: u64 = 1_800_000_000_000;

/// How often the bank's effect happened.
#[derive(Clone, Default)]
pub(crate) struct Effects(Arc<AtomicUsize>);

impl Effects {
    pub(crate) fn happen(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[derive(Deserialize, JsonSchema)]
#[allow(
    dead_code,
    reason = "the arguments matter to the digest, not to the body"
)]
struct Transfer {
    to: String,
    amount: f64,
    memo: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

async fn transfer(
    _: Args<Transfer>,
    flow: DurableFlow,
    State(effects): State<Effects>,
) -> Result<String, ToolError> {
    match flow.ask("confirm", Form::<Confirm>::new("Transfer?")).await {
        Answer::Accept(Confirm { ok: true }) => {}
        Answer::Accept(_) => return Ok("unticked".into()),
        Answer::Decline => return Ok("declined".into()),
        Answer::Cancel => return Ok("cancelled".into()),
    }
    let count = flow
        .once("transfer", async || Ok::<_, ToolError>(effects.happen()))
        .await?;
    Ok(format!("done {count}"))
}

/// The same without `once`: only the claimed round keeps it from happening twice.
async fn transfer_plainly(
    _: Args<Transfer>,
    flow: Flow,
    State(effects): State<Effects>,
) -> &'static str {
    match flow.ask("confirm", Form::<Confirm>::new("Transfer?")).await {
        Answer::Accept(Confirm { ok: true }) => {
            effects.happen();
            "done"
        }
        _ => "not done",
    }
}

async fn two(flow: Flow, State(effects): State<Effects>) -> String {
    let a = flow.ask("a", Form::<Confirm>::new("A?"));
    let b = flow.ask("b", Form::<Confirm>::new("B?"));
    let (a, b) = tokio::join!(a, b);
    effects.happen();
    format!("{} {}", a.accepted().is_some(), b.accepted().is_some())
}

async fn steps(flow: Flow, State(effects): State<Effects>) -> &'static str {
    let _ = flow.ask("a", Form::<Confirm>::new("First?")).await;
    let _ = flow.ask("b", Form::<Confirm>::new("Second?")).await;
    effects.happen();
    "done"
}

/// An unguarded effect before a question: it happens once a round.
async fn eager(flow: Flow, State(effects): State<Effects>) -> &'static str {
    effects.happen();
    let _ = flow.ask("confirm", Form::<Confirm>::new("Sure?")).await;
    "done"
}

/// The same effect inside `once`.
async fn eager_once(
    flow: DurableFlow,
    State(effects): State<Effects>,
) -> Result<&'static str, ToolError> {
    flow.once("effect", async || Ok::<_, ToolError>(effects.happen()))
        .await?;
    let _ = flow.ask("confirm", Form::<Confirm>::new("Sure?")).await;
    Ok("done")
}

#[derive(Deserialize, JsonSchema)]
#[allow(
    dead_code,
    reason = "what is typed is validated; the body looks at nothing"
)]
struct Survey {
    #[schemars(range(min = 0, max = 120))]
    age: u8,
    #[schemars(email)]
    mail: Option<String>,
    c: Option<Colour>,
    #[schemars(length(min = 1, max = 2))]
    tags: Option<Vec<Colour>>,
}

#[derive(Deserialize, JsonSchema)]
enum Colour {
    R,
    G,
}

async fn survey(flow: Flow, State(effects): State<Effects>) -> &'static str {
    match flow
        .ask("confirm", Form::<Survey>::new("Who are you?"))
        .await
    {
        Answer::Accept(_) => {
            effects.happen();
            "done"
        }
        _ => "not done",
    }
}

async fn plain(State(effects): State<Effects>) -> &'static str {
    effects.happen();
    "done"
}

/// A bank with a memory ledger, a clock of its own and two customers.
#[derive(Clone)]
pub(crate) struct Bank {
    pub(crate) server: Server,
    pub(crate) effects: Effects,
    pub(crate) clock: ManualClock,
    pub(crate) ledger: Option<Arc<dyn Ledger>>,
}

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Reply {
    pub(crate) fn code(&self) -> Option<i64> {
        self.body["error"]["code"].as_i64()
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        self.body["error"]["data"]["reason"].as_str()
    }

    pub(crate) fn state(&self) -> &str {
        self.body["result"]["requestState"]
            .as_str()
            .unwrap_or_else(|| panic!("no state in {self:?}"))
    }

    pub(crate) fn asks(&self) -> Vec<&str> {
        let requests = self.body["result"]["inputRequests"].as_object();
        requests
            .into_iter()
            .flat_map(|requests| requests.keys())
            .map(String::as_str)
            .collect()
    }

    pub(crate) fn text(&self) -> &str {
        self.body["result"]["content"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("no text in {self:?}"))
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.body["result"]["_meta"]["mrtr/replayed"] == true
    }
}

impl Bank {
    pub(crate) fn new() -> Self {
        Self::with(|builder| builder)
    }

    /// A bank whose builder is changed before it opens.
    pub(crate) fn with(change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(T0));
        let ledger = Arc::new(MemoryLedger::new(Arc::new(clock.clone())).unwrap());
        let builder = Self::builder(&clock)
            .ledger(Arc::clone(&ledger))
            .dangerous()
            .allow_forgetful_ledger();
        let effects = Effects::default();
        let server = change(builder.state(effects.clone())).build().unwrap();
        Self {
            server,
            effects,
            clock,
            ledger: Some(ledger),
        }
    }

    /// A bank that forgets what was used; without the tools that act once.
    pub(crate) fn without_ledger() -> Self {
        Self::without_ledger_with(|builder| builder)
    }

    /// The same, whose builder is changed before it opens.
    pub(crate) fn without_ledger_with(change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(T0));
        let effects = Effects::default();
        let builder = Server::builder("bank", "1.0.0")
            .audience("https://bank.example/mcp")
            .codec(codec())
            .clock(clock.clone())
            .authenticator(tokens())
            .state(effects.clone())
            .tool(tool("transfer", transfer_plainly));
        Self {
            server: change(builder).build().unwrap(),
            effects,
            clock,
            ledger: None,
        }
    }

    fn builder(clock: &ManualClock) -> ServerBuilder {
        Server::builder("bank", "1.0.0")
            .audience("https://bank.example/mcp")
            .codec(codec())
            .clock(clock.clone())
            .authenticator(tokens())
            .tool(tool("transfer", transfer).description("Transfers money after a confirmation."))
            .tool(tool("transfer_plainly", transfer_plainly))
            .tool(tool("two", two))
            .tool(tool("steps", steps))
            .tool(tool("eager", eager))
            .tool(tool("eager_once", eager_once))
            .tool(tool("survey", survey))
            .tool(tool("plain", plain))
    }

    pub(crate) async fn send(&self, call: &Call) -> Reply {
        self.send_raw(call.with_body(call.body.to_string())).await
    }

    /// The response's body as it crossed the wire.
    pub(crate) async fn send_for_text(&self, call: &Call) -> String {
        self.send_raw_for_text(call.with_body(call.body.to_string()))
            .await
    }

    pub(crate) async fn send_raw_for_text(&self, request: Request<Body>) -> String {
        let response = self.server.clone().call(request).await.unwrap();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    pub(crate) async fn send_raw(&self, request: Request<Body>) -> Reply {
        let response = self.server.clone().call(request).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes).unwrap()
        };
        Reply {
            status: head.status,
            headers: head.headers,
            body,
        }
    }

    /// The first round of `transfer`: its state.
    pub(crate) async fn open(&self) -> String {
        let reply = self.send(&Call::first()).await;
        assert_eq!(reply.asks(), ["confirm"], "{reply:?}");
        reply.state().to_owned()
    }

    /// Rows in the ledger: rounds and steps.
    pub(crate) async fn rows(&self) -> (u64, u64) {
        let rows = self
            .ledger
            .as_ref()
            .expect("a ledger")
            .rows()
            .await
            .unwrap();
        (rows.rounds, rows.steps)
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

/// `K1`: bytes 00 to 1f.
pub(crate) fn codec() -> HmacCodec {
    let key: Vec<u8> = (0..32).collect();
    HmacCodec::new(KeyRing::new(Key::from_bytes(&key).unwrap())).unwrap()
}

pub(crate) fn tokens() -> StaticTokens {
    let user = |name: &str| Principal::user("https://as.example", name).with_client("app-1");
    StaticTokens::new()
        .token("user-a", user("user-a"))
        .token("user-b", user("user-b"))
        .or_anonymous()
}

/// A `tools/call` that can be bent before it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Call {
    /// The first call of `transfer`, by user-a.
    pub(crate) fn first() -> Self {
        Self::of("transfer", json!({ "to": "acct-7", "amount": 100 }))
    }

    /// Its good retry.
    pub(crate) fn retry(state: &str) -> Self {
        Self::first().id(2).state(state).answer(
            "confirm",
            json!({ "action": "accept", "content": { "ok": true } }),
        )
    }

    pub(crate) fn of(tool: &str, arguments: Value) -> Self {
        let headers = [
            ("host", "localhost"),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", tool),
            ("authorization", "Bearer user-a"),
        ];
        let body = json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": tool,
                "arguments": arguments,
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {}, "url": {} } },
                },
            },
        });
        Self {
            headers: headers
                .map(|(name, value)| (name.into(), value.into()))
                .into(),
            body,
        }
    }

    /// A `prompts/get`.
    pub(crate) fn prompt(name: &str, arguments: Value) -> Self {
        Self::of(name, arguments).method("prompts/get")
    }

    /// A `resources/read`.
    pub(crate) fn resource(uri: &str) -> Self {
        Self::of("", json!({}))
            .without_param("name")
            .without_param("arguments")
            .param("uri", uri)
            .header("mcp-name", uri)
            .method("resources/read")
    }

    /// A request without a name, such as a list.
    pub(crate) fn nameless(method: &str) -> Self {
        Self::of("", json!({}))
            .without_param("name")
            .without_param("arguments")
            .without_header("mcp-name")
            .method(method)
    }

    /// The call's headers with a body that may be another than its own.
    pub(crate) fn with_body(&self, body: impl Into<Body>) -> Request<Body> {
        let mut request = Request::post("/mcp");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(body.into()).unwrap()
    }

    pub(crate) fn method(mut self, method: &str) -> Self {
        self.body["method"] = method.into();
        self.header("mcp-method", method)
    }

    pub(crate) fn id(mut self, id: impl Into<Value>) -> Self {
        self.body["id"] = id.into();
        self
    }

    pub(crate) fn state(self, state: &str) -> Self {
        self.param("requestState", state)
    }

    pub(crate) fn param(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.body["params"][name] = value.into();
        self
    }

    pub(crate) fn without_param(mut self, name: &str) -> Self {
        self.body["params"]
            .as_object_mut()
            .expect("params")
            .remove(name)
            .expect("the param was there");
        self
    }

    pub(crate) fn argument(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.body["params"]["arguments"][name] = value.into();
        self
    }

    pub(crate) fn meta(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.body["params"]["_meta"][name] = value.into();
        self
    }

    pub(crate) fn answer(mut self, key: &str, answer: Value) -> Self {
        self.body["params"]["inputResponses"][key] = answer;
        self
    }

    pub(crate) fn named(self, tool: &str) -> Self {
        self.param("name", tool).header("mcp-name", tool)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn without_header(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    pub(crate) fn by(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn declaring(self, capabilities: Value) -> Self {
        self.meta("io.modelcontextprotocol/clientCapabilities", capabilities)
    }
}

pub(crate) fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}
