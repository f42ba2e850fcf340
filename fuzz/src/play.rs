//! A server with a ledger, requests to it, and what must hold whatever they are.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use mrtr_ledger::MemoryLedger;
use mrtr_server::{
    Answer, Args, DurableFlow, Flow, Form, Principal, Server, State, StaticTokens, ToolError, tool,
};
use mrtr_state::{Clock, Key, KeyRing, Timestamp};
use mrtr_state_hmac::HmacCodec;
use schemars::JsonSchema;
use serde::Deserialize;
use tower_service::Service as _;

use crate::json::{self, Json};
use crate::script::{self, Known, Request};

/// The most bytes that one answer may have.
const LARGEST: usize = 256 << 10;

/// The eras that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Eras {
    Modern,
    Both,
}

/// Plays a script, and asserts after every request and at the end. How many effects there were.
pub(crate) fn play(data: &[u8], eras: Eras) -> usize {
    let bank = Bank::new(eras);
    crate::runtime().block_on(async {
        let mut game = Game::new(&bank);
        for text in script::requests(data) {
            let request = script::request(text, &game.known);
            game.turn(request).await;
        }
        // What had an effect is sent once more, byte for byte, and has none.
        for request in std::mem::take(&mut game.effective) {
            let before = bank.effects.count();
            game.send(&request).await;
            assert_eq!(
                bank.effects.count(),
                before,
                "a repeated request acted again: {request:?}"
            );
        }
        drop(game);
        bank.server.close();
        bank.server.settled().await;
    });
    bank.effects.each_once();
    bank.effects.count()
}

// ---------------------------------------------------------------------------------------------------------------- the server

/// Every effect, by the flow that it was for.
#[derive(Clone, Default)]
struct Effects {
    flows: Arc<AtomicU64>,
    happened: Arc<Mutex<Vec<u64>>>,
}

impl Effects {
    fn flow(&self) -> u64 {
        self.flows.fetch_add(1, Ordering::SeqCst)
    }

    fn happen(&self, flow: u64) {
        self.happened
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(flow);
    }

    fn count(&self) -> usize {
        self.happened
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    fn each_once(&self) {
        let happened = self.happened.lock().unwrap_or_else(PoisonError::into_inner);
        let distinct: HashSet<_> = happened.iter().collect();
        assert_eq!(
            distinct.len(),
            happened.len(),
            "an effect happened twice in one flow"
        );
    }
}

#[derive(Deserialize, JsonSchema)]
struct Transfer {
    #[schemars(length(max = 100))]
    to: String,
    amount: f64,
    count: Option<i64>,
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    ok: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Survey {
    #[schemars(range(min = 18, max = 120))]
    age: u8,
    #[schemars(length(min = 1, max = 8))]
    name: Option<String>,
    colours: Option<Vec<Colour>>,
    #[schemars(range(max = 1.0))]
    share: Option<f64>,
}

#[derive(Deserialize, JsonSchema)]
enum Colour {
    Red,
    Green,
}

/// Acts once, whatever comes. The arguments of the round that acts are those of the first.
async fn transfer(
    Args(given): Args<Transfer>,
    flow: DurableFlow,
    State(effects): State<Effects>,
) -> Result<String, ToolError> {
    let first = flow
        .memo("first", async || {
            (
                effects.flow(),
                given.to.clone(),
                given.amount.to_bits(),
                given.count,
            )
        })
        .await;
    assert_eq!(
        (&first.1, first.2, first.3),
        (&given.to, given.amount.to_bits(), given.count),
        "other arguments"
    );
    match flow
        .ask("confirm", Form::<Confirm>::new(format!("To {}?", given.to)))
        .await
    {
        Answer::Accept(Confirm { ok: true }) => {}
        _ => return Ok("nothing".into()),
    }
    flow.once("transfer", async || {
        effects.happen(first.0);
        Ok::<_, ToolError>(())
    })
    .await?;
    Ok("done".into())
}

/// Two rounds, and only the ledger's claim of the last keeps the effect from happening twice.
async fn steps(flow: Flow, State(effects): State<Effects>) -> &'static str {
    let id = flow.memo("id", async || effects.flow()).await;
    for key in ["a", "b"] {
        match flow
            .ask(key, Form::<Confirm>::new(format!("Step {key}?")))
            .await
        {
            Answer::Accept(Confirm { ok: true }) => {}
            _ => return "nothing",
        }
    }
    effects.happen(id);
    "done"
}

/// What is accepted keeps the form's rules.
async fn survey(flow: Flow, State(effects): State<Effects>) -> &'static str {
    let id = flow.memo("id", async || effects.flow()).await;
    let Answer::Accept(given) = flow.ask("who", Form::<Survey>::new("Who?")).await else {
        return "nothing";
    };
    assert!((18..=120).contains(&given.age));
    assert!(
        given
            .name
            .is_none_or(|name| (1..=8).contains(&name.chars().count()))
    );
    assert!(given.share.is_none_or(|share| share <= 1.0));
    drop(given.colours);
    effects.happen(id);
    "done"
}

/// A clock that a script moves.
#[derive(Debug, Clone)]
struct Moved(Arc<AtomicU64>);

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

struct Bank {
    server: Server,
    effects: Effects,
    clock: Moved,
}

impl Bank {
    fn new(eras: Eras) -> Self {
        let key: Vec<u8> = (0..32).collect();
        let codec =
            HmacCodec::new(KeyRing::new(Key::from_bytes(&key).expect("a key"))).expect("one key");
        let clock = Moved(Arc::new(AtomicU64::new(1_800_000_000_000)));
        let user = |name: &str| Principal::user("https://as.example", name);
        let tokens = ["user-a", "user-b"]
            .into_iter()
            .fold(StaticTokens::new(), |tokens, name| {
                tokens.token(name, user(name))
            });
        let effects = Effects::default();
        let builder = Server::builder("bank", "1.0.0")
            .audience("https://bank.example/mcp")
            .codec(codec)
            .clock(clock.clone())
            .authenticator(tokens)
            .state(effects.clone())
            .ledger(MemoryLedger::new(Arc::new(clock.clone())).expect("a generator"))
            .dangerous()
            .allow_forgetful_ledger()
            .limits(|limits| limits.body = 64 << 10)
            .tool(tool("transfer", transfer))
            .tool(tool("steps", steps))
            .tool(tool("survey", survey));
        let builder = match eras {
            Eras::Modern => builder.modern_only(),
            Eras::Both => builder,
        };
        let server = builder.build().expect("a server");
        Self {
            server,
            effects,
            clock,
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------- the game

struct Game<'a> {
    bank: &'a Bank,
    known: Known,
    /// For each state: whose it is.
    owners: Vec<(String, Option<Vec<u8>>)>,
    /// Answers that are still open: streams that wait for more.
    open: Vec<Answered>,
    /// Modern requests that had an effect.
    effective: Vec<Request>,
}

/// An answer, as far as it is there.
struct Answered {
    status: u16,
    kind: String,
    session: Option<String>,
    body: mrtr_body::Body,
    bytes: Vec<u8>,
    /// How much of it was looked at.
    seen: usize,
    id: Option<Json>,
}

/// The type of an answer's body has no short name of its own.
mod mrtr_body {
    use bytes::Bytes;
    use http_body_util::combinators::UnsyncBoxBody;

    pub(crate) type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;
}

impl<'a> Game<'a> {
    fn new(bank: &'a Bank) -> Self {
        Self {
            bank,
            known: Known::default(),
            owners: Vec::new(),
            open: Vec::new(),
            effective: Vec::new(),
        }
    }

    async fn turn(&mut self, request: Request) {
        let later = request.seconds * 1_000;
        self.bank.clock.0.fetch_add(later, Ordering::SeqCst);
        let before = self.bank.effects.count();
        self.send(&request).await;
        let effects = self.bank.effects.count() - before;
        assert!(effects <= 1, "{effects} effects of one request");
        if effects > 0 {
            let consent = self.consent(&request);
            assert!(consent.is_some(), "an effect without consent: {request:?}");
            if consent == Some(Consent::Modern) {
                self.effective.push(request);
            }
        }
    }

    /// Sends it, and looks at everything that has come by the time that nothing more comes.
    async fn send(&mut self, request: &Request) {
        let mut head = http::Request::builder()
            .method(&*request.method)
            .uri(&*request.path);
        for (name, value) in &request.headers {
            let value = http::HeaderValue::from_bytes(value);
            let (Ok(name), Ok(value)) = (name.parse::<http::HeaderName>(), value) else {
                return;
            };
            head = head.header(name, value);
        }
        let Ok(sent) = head.body(Full::new(Bytes::from(request.body.clone()))) else {
            return;
        };
        let id = std::str::from_utf8(&request.body).ok().and_then(json::read);
        let id = id.and_then(|body| body.get("id").cloned());
        let mut server = self.bank.server.clone();
        let answer = tokio::time::timeout(Duration::from_millis(20), async move {
            let Ok(response) = server.call(sent).await;
            response
        });
        // A call that waits with its head has said nothing wrong yet, and is given up like a closed connection.
        if let Ok(response) = answer.await {
            let (head, body) = response.into_parts();
            let header = |name: &str| {
                let value = head.headers.get(name)?;
                value.to_str().ok().map(str::to_owned)
            };
            let mut answered = Answered {
                status: head.status.as_u16(),
                kind: header("content-type").unwrap_or_default(),
                session: header("mcp-session-id"),
                body: body.map_err(Into::into).boxed_unsync(),
                bytes: Vec::new(),
                seen: 0,
                id,
            };
            let ended = answered.read().await;
            self.look(&mut answered, request, ended);
            if !ended {
                self.open.push(answered);
            }
        }
        let mut open = std::mem::take(&mut self.open);
        for mut answered in std::mem::take(&mut open) {
            let ended = answered.read().await;
            self.look(&mut answered, request, ended);
            if !ended {
                self.open.push(answered);
            }
        }
    }

    fn look(&mut self, answered: &mut Answered, request: &Request, ended: bool) {
        let status = answered.status;
        assert!(
            matches!(
                status,
                200 | 202 | 204 | 400 | 401 | 403 | 404 | 405 | 406 | 413 | 415 | 429
            ),
            "{status} for {request:?}"
        );
        if let Some(session) = answered.session.take() {
            self.known.session = Some(session);
        }
        for message in answered.messages(ended) {
            let value = well_formed(&message, answered);
            if let Some(state) = value
                .get("result")
                .and_then(|result| result.get("requestState"))
            {
                let state = state.text().expect("a state is a string").to_owned();
                assert!(
                    value
                        .get("result")
                        .and_then(|result| result.get("inputRequests"))
                        .is_some()
                );
                self.owners.push((
                    state.clone(),
                    request.header("authorization").map(<[u8]>::to_vec),
                ));
                self.known.states.push(state);
            }
            if let (Some(id), true) = (value.get("id"), value.get("method").is_some()) {
                self.known.questions.push(id.write(json::Style::default()));
            }
        }
    }

    /// Whether a request that had an effect holds a person's yes, to a state of this caller or to a question in its session.
    fn consent(&self, request: &Request) -> Option<Consent> {
        let body = json::read(std::str::from_utf8(&request.body).ok()?)?;
        // Revision 2025-03-26 may put responses into a batch.
        let responses = match &body {
            Json::Array(items) => &**items,
            one => std::slice::from_ref(one),
        };
        let answers = |response: &Json| response.get("result").is_some_and(accepted);
        if responses.iter().any(answers) {
            return Some(Consent::Earlier);
        }
        let params = body.get("params")?;
        let state = params.get("requestState")?.text()?;
        let (_, owner) = self.owners.iter().find(|(own, _)| own == state)?;
        let Json::Object(answers) = params.get("inputResponses")? else {
            return None;
        };
        let token =
            |header: Option<&[u8]>| header.map(|value| value.trim_ascii_end().to_ascii_lowercase());
        assert_eq!(
            token(owner.as_deref()),
            token(request.header("authorization")),
            "another caller's state"
        );
        answers
            .iter()
            .any(|(_, answer)| accepted(answer))
            .then_some(Consent::Modern)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Consent {
    Modern,
    Earlier,
}

fn accepted(answer: &Json) -> bool {
    answer.get("action").and_then(Json::text) == Some("accept") && answer.get("content").is_some()
}

impl Answered {
    /// Reads until nothing more comes; whether that is the end.
    async fn read(&mut self) -> bool {
        loop {
            match tokio::time::timeout(Duration::from_millis(20), self.body.frame()).await {
                Err(_) => return false,
                Ok(None) => return true,
                Ok(Some(frame)) => {
                    let frame =
                        frame.unwrap_or_else(|error| panic!("an answer that broke off: {error}"));
                    if let Ok(data) = frame.into_data() {
                        self.bytes.extend_from_slice(&data);
                    }
                    assert!(
                        self.bytes.len() <= LARGEST,
                        "an answer of {} bytes",
                        self.bytes.len()
                    );
                }
            }
        }
    }

    /// The messages that have come since the last look.
    fn messages(&mut self, ended: bool) -> Vec<String> {
        let text = std::str::from_utf8(&self.bytes).expect("an answer is text");
        if self.kind.starts_with("text/event-stream") {
            let new = &text[self.seen..];
            let whole = new.rfind("\n\n").map_or(0, |at| at + 2);
            self.seen += whole;
            let events = new[..whole].split("\n\n");
            let data = events
                .filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data:")));
            // An event without data is there for its id.
            return data
                .map(str::trim)
                .filter(|data| !data.is_empty())
                .map(str::to_owned)
                .collect();
        }
        if !ended || text.is_empty() {
            return Vec::new();
        }
        assert!(
            self.kind.starts_with("application/json") || text.len() < 1_024,
            "{}: {text}",
            self.kind
        );
        match self.kind.starts_with("application/json") {
            true => vec![text.to_owned()],
            false => Vec::new(),
        }
    }
}

/// One message of an answer. (An answer to a batch, which 2025-03-26 has, is several in one.)
fn well_formed(message: &str, answered: &Answered) -> Json {
    let value =
        json::read(message).unwrap_or_else(|| panic!("an answer that is no JSON: {message}"));
    let messages = match &value {
        Json::Array(items) => items.iter().collect(),
        other => vec![other],
    };
    for one in messages {
        assert_eq!(
            one.get("jsonrpc").and_then(Json::text),
            Some("2.0"),
            "{message}"
        );
        let (result, error) = (one.get("result"), one.get("error"));
        if one.get("method").is_none() {
            assert_ne!(result.is_some(), error.is_some(), "{message}");
            assert_ne!(one.get("id"), Some(&Json::Null), "{message}");
        }
        let code = error.and_then(|error| error.get("code"));
        assert_ne!(
            code,
            Some(&Json::Number("-32603".into())),
            "an internal error: {message}"
        );
        assert!(
            error.is_none_or(|error| error.get("message").and_then(Json::text).is_some()),
            "{message}"
        );
    }
    if let (Some(own), true, false) = (
        value.get("id"),
        answered.id.is_some(),
        value.get("method").is_some(),
    ) {
        assert_eq!(
            Some(own),
            answered.id.as_ref(),
            "the answer's id: {message}"
        );
    }
    value
}
