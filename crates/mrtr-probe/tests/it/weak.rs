//! A small server on plain axum that is strict in everything but, on request, one thing.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hmac::{Hmac, KeyInit as _, Mac as _};
use mrtr_protocol::{headers, meta, strict};
use serde_json::{Value, json};
use sha2::Sha256;

/// The one thing that a server is careless about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weak {
    Nowhere,
    /// The tag is not looked at.
    Unsigned,
    /// A tag that is the beginning of the right one is taken.
    TagInPart,
    /// What stands behind the right tag is not looked at.
    TagAndMore,
    /// Base64 in every spelling.
    Spelling,
    /// A state in clear is taken.
    InClear,
    /// A state that is too large to verify is taken.
    TooLargeToVerify,
    /// A state that is no string is not verified.
    NoString,
    /// A state is good for all arguments, and once for each.
    Arguments,
    /// .. for all tools.
    Tool,
    /// .. for prompts.
    Method,
    /// .. for everybody.
    Principal,
    /// A stored result is given to everybody.
    StoredForAll,
    /// Who is who is not checked where there is a state.
    NoCredentials,
    /// States do not expire.
    Lifetime,
    /// .. and what is used is forgotten after a lifetime.
    Forgetful,
    /// Answers count without a state.
    NoState,
    /// Names of members have no case.
    CaseOfMembers,
    /// An answer counts under any key.
    AnyKey,
    /// An answer of any kind is a yes.
    AnyKind,
    /// What looks like true is true.
    Coerced,
    /// The action's spelling does not matter.
    AnyAction,
    /// Content beside a no counts.
    NoWithContent,
    /// Any method runs the tool where there is a state.
    Elsewhere,
    /// States are good again and again.
    Reusable,
    /// A used state is good for another answer.
    Forks,
    /// A used state is looked for, then the tool runs, then it is noted.
    Race,
    /// A state is spent before its principal is checked.
    BurnsFirst,
    /// It asks whoever calls.
    Undeclared,
    /// Requests without `_meta` are served, answers and all.
    EarlierEra,
    /// Headers are not compared with the body.
    HeadersUncompared,
    /// Headers may be missing.
    HeadersMissing,
    /// Of headers that come twice the first is taken.
    HeadersTwice,
    Origin,
    Host,
    MediaType,
    /// Of members that come twice the last is taken.
    MembersTwice,
    /// What stands behind the first JSON value is not looked at.
    Trailing,
    Batches,
    /// Ids are not looked at.
    Notifications,
    LargeBodies,
    /// A deep body ends the connection.
    DeepBodies,
    /// The state holds the bearer token.
    TokenInState,
    /// Errors tell where they come from.
    Talkative,
    /// A bad state is an internal error.
    Crashes,
    /// Nothing, but it takes its time.
    Slow,
    /// After a large body nothing is served any more.
    GivesUp,
}

use Weak::*;

/// The server.
pub(crate) struct Bank {
    weak: Weak,
    lifetime: Duration,
    began: Instant,
    effects: AtomicU64,
    nonces: AtomicU64,
    given_up: AtomicBool,
    /// By nonce, and by arguments where states are good for all of them.
    ledger: Mutex<HashMap<(u64, String), Used>>,
}

#[derive(Clone)]
struct Used {
    fingerprint: String,
    result: Value,
}

/// An error: HTTP status, code, message.
struct Refused(u16, i64, String);

type Outcome = Result<Value, Refused>;

const KEY: &[u8] = b"a key that only this test knows..";
const LARGE: usize = 4 * 1024 * 1024;
const STATE: usize = 32 * 1024;

/// Starts a server with this weakness, which ends with the test's runtime; its URL.
pub(crate) async fn serve(weak: Weak, lifetime: Duration) -> String {
    let bank = Arc::new(Bank {
        weak,
        lifetime,
        began: Instant::now(),
        effects: AtomicU64::new(0),
        nonces: AtomicU64::new(0),
        given_up: AtomicBool::new(false),
        ledger: Mutex::default(),
    });
    let router = Router::new()
        .route("/mcp", axum::routing::post(handle))
        .layer(DefaultBodyLimit::disable())
        .with_state(bank);
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

async fn handle(State(bank): State<Arc<Bank>>, headers: HeaderMap, body: Bytes) -> Response {
    let (id, outcome) = bank.answer(&headers, &body).await;
    let (status, mut message) = match outcome {
        Ok(Value::Array(all)) => (200, Value::Array(all)),
        Ok(result) => (200, json!({ "jsonrpc": "2.0", "result": result })),
        Err(Refused(status, code, mut text)) => {
            if bank.is(Talkative) {
                text.push_str(" (panicked at src/state.rs:17)");
            }
            let error = json!({ "code": code, "message": text });
            (status, json!({ "jsonrpc": "2.0", "error": error }))
        }
    };
    if let (Some(id), Some(members)) = (id, message.as_object_mut()) {
        members.insert("id".into(), id);
    }
    let status = StatusCode::from_u16(status).unwrap();
    (
        status,
        [("content-type", "application/json")],
        message.to_string(),
    )
        .into_response()
}

fn refused<T>(status: u16, code: i64, text: &str) -> Result<T, Refused> {
    Err(Refused(status, code, text.to_owned()))
}

fn bad_state<T>(why: &str) -> Result<T, Refused> {
    refused(200, -32602, &format!("Invalid requestState: {why}"))
}

impl Bank {
    fn is(&self, weak: Weak) -> bool {
        self.weak == weak
    }

    async fn answer(&self, headers: &HeaderMap, body: &[u8]) -> (Option<Value>, Outcome) {
        if self.is(Slow) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let checked = self.gate(headers).and_then(|()| self.body(body));
        let body = match checked {
            Ok(body) => body,
            Err(refused) => return (None, Err(refused)),
        };
        if let (true, Value::Array(all)) = (self.is(Batches), &body) {
            let mut results = Vec::new();
            for one in all {
                if let Ok(result) = self.request(headers, one).await {
                    results.push(json!({ "id": one["id"], "result": result }));
                }
            }
            return (None, Ok(Value::Array(results)));
        }
        let id = body
            .get("id")
            .filter(|id| id.is_string() || id.is_i64())
            .cloned();
        if id.is_none() && !self.is(Notifications) {
            return (None, refused(400, -32600, "no id"));
        }
        (id, self.request(headers, &body).await)
    }

    /// What is looked at before the body.
    fn gate(&self, headers: &HeaderMap) -> Result<(), Refused> {
        if self.given_up.load(Ordering::SeqCst) {
            return refused(503, -32600, "not any more");
        }
        if headers.contains_key("origin") && !self.is(Origin) {
            return refused(403, -32600, "foreign origin");
        }
        let host = text(headers, "host");
        let local = host
            .rsplit_once(':')
            .is_some_and(|(name, _)| name == "127.0.0.1");
        if !local && !self.is(Host) {
            return refused(403, -32600, "foreign host");
        }
        if text(headers, "content-type") != "application/json" && !self.is(MediaType) {
            return refused(415, -32600, "not JSON");
        }
        Ok(())
    }

    fn body(&self, bytes: &[u8]) -> Outcome {
        if bytes.len() > LARGE {
            self.given_up.store(self.is(GivesUp), Ordering::SeqCst);
            if !self.is(LargeBodies) {
                return refused(413, -32600, "too large");
            }
        }
        let first = serde_json::Deserializer::from_slice(bytes)
            .into_iter::<Value>()
            .next();
        let whole = match self.is(Trailing) {
            true => first.unwrap_or(Ok(Value::Null)),
            false => serde_json::from_slice(bytes),
        };
        match whole {
            Err(error) if error.to_string().contains("recursion") && self.is(DeepBodies) => {
                panic!("the weakness of this server");
            }
            Err(_) => refused(400, -32700, "no JSON"),
            Ok(_)
                if strict::check(bytes).is_err()
                    && !self.is(MembersTwice)
                    && !self.is(Trailing) =>
            {
                refused(400, -32600, "a member twice")
            }
            Ok(value) => Ok(value),
        }
    }

    async fn request(&self, headers: &HeaderMap, body: &Value) -> Outcome {
        let Some(method) = body.get("method").and_then(Value::as_str) else {
            return refused(400, -32600, "no method");
        };
        let mut params = body["params"].clone();
        if self.is(CaseOfMembers) {
            fold(&mut params);
        }
        let principal = self.principal(headers, &params)?;
        let earlier = self.is(EarlierEra) && params["_meta"].is_null() && method == "tools/call";
        if !earlier {
            self.described(headers, method, &params)?;
        }
        let list = json!([{ "name": "transfer" }, { "name": "donate" }, { "name": "count" }]);
        let elsewhere = self.is(Elsewhere) && params["requestState"].is_string();
        match (method, params["name"].as_str()) {
            ("tools/call", Some("count")) => {
                Ok(said(&self.effects.load(Ordering::SeqCst).to_string()))
            }
            ("tools/call", Some("transfer" | "donate")) => {
                self.call(method, &params, &principal, earlier).await
            }
            ("prompts/get", Some("transfer")) => {
                self.call(method, &params, &principal, false).await
            }
            ("tools/list", _) if elsewhere => {
                self.call("tools/call", &params, &principal, false).await
            }
            ("tools/list", _) => Ok(json!({ "resultType": "complete", "tools": list })),
            ("prompts/list", _) => {
                Ok(json!({ "resultType": "complete", "prompts": [{ "name": "transfer" }] }))
            }
            ("tools/call" | "prompts/get", _) => refused(200, -32602, "no such name"),
            _ => refused(404, -32601, "no such method"),
        }
    }

    fn principal(&self, headers: &HeaderMap, params: &Value) -> Result<String, Refused> {
        let lines = headers.get_all("authorization").iter().count();
        let known = match text(headers, "authorization") {
            "Bearer token-of-alice" => Some("alice"),
            "Bearer token-of-bob" => Some("bob"),
            _ => None,
        };
        if let (1, Some(known)) = (lines, known) {
            return Ok(known.to_owned());
        }
        if self.is(NoCredentials) && lines < 2 && params["requestState"].is_string() {
            return Ok("alice".to_owned());
        }
        if self.is(HeadersTwice)
            && let Some(known) = known
        {
            return Ok(known.to_owned());
        }
        refused(401, -32600, "who are you?")
    }

    /// Headers against the body, then `_meta`.
    fn described(&self, headers: &HeaderMap, method: &str, params: &Value) -> Result<(), Refused> {
        let version = params["_meta"][meta::PROTOCOL_VERSION].as_str();
        let name = params["name"]
            .as_str()
            .filter(|_| headers::name_source(method).is_some());
        let expected = [
            (headers::METHOD, Some(method)),
            (headers::NAME, name),
            (headers::PROTOCOL_VERSION, version),
        ];
        for (header, value) in expected {
            let Some(value) = value else { continue };
            let lines = headers.get_all(header).iter().count();
            let said = text(headers, header);
            let missing = lines == 0 || said.is_empty();
            let compared = missing || headers::decode(said).is_ok_and(|said| said == value);
            let good = (!missing || self.is(HeadersMissing))
                && (lines < 2 || self.is(HeadersTwice))
                && (compared || (self.is(HeadersUncompared) && lines < 2));
            if !good {
                return refused(400, -32020, "the headers say something else");
            }
        }
        match version {
            Some(mrtr_protocol::REVISION) => Ok(()),
            _ => refused(400, -32602, "no version"),
        }
    }

    async fn call(&self, method: &str, params: &Value, principal: &str, earlier: bool) -> Outcome {
        let answers = params.get("inputResponses");
        let claims = match params.get("requestState") {
            None if answers.is_some() && (self.is(NoState) || earlier) => {
                return Ok(self.decided(params, answers));
            }
            None => return self.ask(method, params, principal),
            Some(Value::String(state)) => self.opened(state)?,
            Some(state) if self.is(NoString) && !state.is_null() => {
                return Ok(self.decided(params, answers));
            }
            Some(_) => return bad_state("no string"),
        };
        let scope = match self.is(Arguments) {
            true => params["arguments"].to_string(),
            false => String::new(),
        };
        let nonce = (claims["nonce"].as_u64().unwrap_or_default(), scope);
        let burnt = self.is(BurnsFirst) && self.ledger.lock().unwrap().contains_key(&nonce);
        if self.is(BurnsFirst) && !burnt {
            self.keep(nonce.clone(), String::new(), Value::Null);
        }
        let used = self.ledger.lock().unwrap().get(&nonce).cloned();
        let for_all = self.is(StoredForAll) && used.is_some();
        if claims["p"] != principal && !self.is(Principal) && !for_all {
            return bad_state("somebody else's");
        }
        let another_tool = claims["n"] != params["name"] && !self.is(Tool);
        let another_method = claims["m"] != method && !self.is(Method);
        // A prompt's arguments are texts, so that they are never those of a tool.
        let other_arguments = claims["a"] != params["arguments"]
            && !self.is(Arguments)
            && !(self.is(Method) && method == "prompts/get");
        if another_tool || another_method || other_arguments {
            return bad_state("another request's");
        }
        let now = self.began.elapsed().as_millis();
        let expired = now >= u128::from(claims["exp"].as_u64().unwrap_or_default());
        if expired && !self.is(Lifetime) && !self.is(Forgetful) {
            return bad_state("expired");
        }
        let answers_kept = self.are_answers(answers)?;
        let fingerprint = answers_kept.to_string();
        let again = match self.weak {
            Reusable | Forks | BurnsFirst => true,
            Forgetful => expired,
            _ => false,
        };
        match used {
            Some(_) if burnt => return bad_state("spent"),
            Some(used) if used.fingerprint == fingerprint && !again => {
                return Ok(repeated(used.result));
            }
            Some(used) if used.fingerprint == fingerprint && self.is(Forks) => {
                return Ok(repeated(used.result));
            }
            Some(_) if !again => return bad_state("already used"),
            _ => {}
        }
        if self.is(Race) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        } else if !self.claimed(nonce.clone(), &fingerprint) && !again {
            return bad_state("already used");
        }
        let result = match answers_kept {
            answers if self.says_something(answers) => self.decided(params, Some(answers)),
            _ => self.ask(method, params, principal)?,
        };
        self.keep(nonce, fingerprint, result.clone());
        Ok(result)
    }

    /// Takes a nonce, once. Nothing is awaited until its result is kept, and `handle` runs on one thread for each test.
    fn claimed(&self, nonce: (u64, String), fingerprint: &str) -> bool {
        let mut ledger = self.ledger.lock().unwrap();
        if ledger.contains_key(&nonce) {
            return false;
        }
        let used = Used {
            fingerprint: fingerprint.to_owned(),
            result: json!({}),
        };
        ledger.insert(nonce, used);
        true
    }

    fn keep(&self, nonce: (u64, String), fingerprint: String, result: Value) {
        self.ledger.lock().unwrap().insert(
            nonce,
            Used {
                fingerprint,
                result,
            },
        );
    }

    /// Answers whose shape is right.
    fn are_answers<'a>(&self, answers: Option<&'a Value>) -> Result<&'a Value, Refused> {
        let Some(all) = answers.and_then(Value::as_object) else {
            return refused(200, -32602, "no answers");
        };
        for answer in all.values() {
            let kind =
                self.is(AnyKind) && (answer.get("role").is_some() || answer.get("roots").is_some());
            let action = answer.get("action").and_then(Value::as_str);
            let known = matches!(action, Some("accept" | "decline" | "cancel"));
            if !answer.is_object() || !(known || kind || self.is(AnyAction)) {
                return refused(200, -32602, "no answer");
            }
        }
        Ok(answers.unwrap_or(&Value::Null))
    }

    fn confirm<'a>(&self, answers: &'a Value) -> Option<&'a Value> {
        let own = answers.get("confirm");
        own.or_else(|| match self.is(AnyKey) {
            true => answers.as_object()?.values().next(),
            false => None,
        })
    }

    /// Whether the question is answered, and not to be put again.
    fn says_something(&self, answers: &Value) -> bool {
        let Some(answer) = self.confirm(answers) else {
            return false;
        };
        let content = answer.get("content");
        answer["action"] != "accept"
            || self.is(Coerced)
            || content.is_some_and(|content| content["ok"].is_boolean())
    }

    fn decided(&self, params: &Value, answers: Option<&Value>) -> Value {
        let Some(answer) = answers.and_then(|answers| self.confirm(answers)) else {
            return said("Nothing was transferred.");
        };
        let action = answer["action"].as_str().unwrap_or("accept").to_lowercase();
        let accepted = action == "accept" || self.is(NoWithContent);
        let ok = &answer["content"]["ok"];
        let coerced = self.is(Coerced) && (ok == "yes" || ok == "true" || ok == 1);
        let any_kind = self.is(AnyKind) && answer.get("action").is_none();
        if (accepted && (*ok == true || coerced)) || any_kind {
            let effect = self.effects.fetch_add(1, Ordering::SeqCst) + 1;
            return said(&format!(
                "Transferred by {} as number {effect}.",
                params["name"]
            ));
        }
        said("Nothing was transferred.")
    }

    fn ask(&self, method: &str, params: &Value, principal: &str) -> Outcome {
        let declared = &params["_meta"][meta::CLIENT_CAPABILITIES]["elicitation"]["form"];
        if !declared.is_object() && !self.is(Undeclared) && !self.is(EarlierEra) {
            return refused(400, -32021, "forms are needed");
        }
        if !declared.is_object() && self.is(EarlierEra) && !params["_meta"].is_null() {
            return refused(400, -32021, "forms are needed");
        }
        let mut claims = json!({
            "p": principal,
            "m": method,
            "n": params["name"],
            "a": params["arguments"],
            "nonce": self.nonces.fetch_add(1, Ordering::SeqCst) + 1000,
            "exp": u64::try_from((self.began.elapsed() + self.lifetime).as_millis()).unwrap(),
        });
        if self.is(TokenInState) {
            claims["bearer"] = json!(format!("token-of-{principal}"));
        }
        let payload = URL_SAFE_NO_PAD.encode(claims.to_string());
        let tag = URL_SAFE_NO_PAD.encode(tag(claims.to_string().as_bytes()));
        let schema = json!({ "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"] });
        let question = json!({ "mode": "form", "message": "Transfer?", "requestedSchema": schema });
        Ok(json!({
            "resultType": "input_required",
            "inputRequests": { "confirm": { "method": "elicitation/create", "params": question } },
            "requestState": format!("{payload}.{tag}"),
        }))
    }

    /// The claims of a state that holds.
    fn opened(&self, state: &str) -> Outcome {
        if self.is(InClear) && state.starts_with('{') && state.contains("confirmed") {
            return self.stale_claims();
        }
        if state.len() > STATE {
            if self.is(TooLargeToVerify) {
                return self.stale_claims();
            }
            return bad_state("too large");
        }
        let (payload, given) = state.split_once('.').unwrap_or((state, ""));
        let lenient = GeneralPurpose::new(
            &URL_SAFE,
            GeneralPurposeConfig::new()
                .with_decode_allow_trailing_bits(true)
                .with_decode_padding_mode(DecodePaddingMode::Indifferent),
        );
        let decode = |text: &str| match self.is(Spelling) {
            true => lenient.decode(text.trim()).ok(),
            false => URL_SAFE_NO_PAD.decode(text).ok(),
        };
        let Some(bytes) = decode(payload) else {
            return bad_state("malformed");
        };
        let Some(given) = decode(given) else {
            return bad_state("malformed");
        };
        let right = tag(&bytes);
        let good = match self.weak {
            Unsigned => true,
            TagInPart => right.starts_with(&given),
            TagAndMore => given.starts_with(&right),
            _ => given == right,
        };
        if !good && self.is(Crashes) {
            return refused(500, -32603, "signature error");
        }
        let claims: Option<Value> = serde_json::from_slice(&bytes).ok();
        match claims.filter(|claims| good && claims["nonce"].is_u64()) {
            Some(claims) => Ok(claims),
            None => bad_state("bad signature"),
        }
    }

    /// The claims that whoever takes a state without looking makes up for it.
    fn stale_claims(&self) -> Outcome {
        Ok(json!({
            "p": "alice", "m": "tools/call", "n": "transfer", "a": { "to": "bob", "amount": 100 },
            "nonce": self.nonces.fetch_add(1, Ordering::SeqCst) + 1_000_000, "exp": u64::MAX,
        }))
    }
}

/// A stored result, which says that it is one.
fn repeated(mut result: Value) -> Value {
    result["_meta"] = json!({ meta::REPLAYED: true });
    result
}

fn tag(bytes: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(KEY).unwrap();
    mac.update(bytes);
    mac.finalize().into_bytes().to_vec()
}

fn said(text: &str) -> Value {
    json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }] })
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// Gives members that are spelt in other letters their names.
fn fold(params: &mut Value) {
    let Some(members) = params.as_object_mut() else {
        return;
    };
    for name in ["requestState", "inputResponses"] {
        let found = members
            .keys()
            .find(|key| key.eq_ignore_ascii_case(name))
            .cloned();
        if let Some(value) = found.and_then(|key| members.remove(&key)) {
            members.insert(name.to_owned(), value);
        }
    }
}
