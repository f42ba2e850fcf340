//! The whole boundary: which arguments, answers and states are taken, and flows that move between builds.

use mrtr_server::{Answer, Args, Flow, Form, Server, tool};
use mrtr_state::{Clock, Key, KeyRing, Timestamp};
use mrtr_state_hmac::HmacCodec;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tower_service::Service as _;

use crate::{Problem, corpus, line};

#[derive(Deserialize, JsonSchema)]
struct Transfer {
    amount: f64,
    count: Option<i64>,
    #[schemars(range(min = 1, max = 120))]
    age: Option<u8>,
    to: Option<String>,
    wide: Option<i128>,
}

#[derive(Deserialize, JsonSchema)]
struct Rate {
    #[schemars(range(max = 1e300))]
    rate: Option<f64>,
    #[schemars(range(min = 0, max = 120))]
    age: Option<u8>,
    count: Option<i64>,
    name: Option<String>,
}

/// Shows what it was given, bit by bit.
async fn transfer(Args(given): Args<Transfer>, flow: Flow) -> String {
    let amount = given.amount.to_bits();
    let question = format!(
        "{amount:x} {:?} {:?} {:?} {:?}",
        given.count, given.age, given.to, given.wide
    );
    match flow.ask("rate", Form::<Rate>::new(question)).await {
        Answer::Accept(given) => format!(
            "{:x?} {:?} {:?} {:?}",
            given.rate.map(f64::to_bits),
            given.age,
            given.count,
            given.name
        ),
        Answer::Decline => "declined".to_owned(),
        Answer::Cancel => "cancelled".to_owned(),
    }
}

/// The same moment in every build.
#[derive(Debug)]
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000)
    }
}

struct Bank {
    server: Server,
    runtime: tokio::runtime::Runtime,
}

/// What came back: the parts that do not depend on chance, and no words of a validator, which quote a number as it was read.
struct Reply {
    status: u16,
    body: Value,
}

impl Bank {
    fn new() -> Result<Self, Problem> {
        let key: Vec<u8> = (0..32).collect();
        let server = Server::builder("bank", "1.0.0")
            .audience("https://bank.example/mcp")
            .codec(HmacCodec::new(KeyRing::new(Key::from_bytes(&key)?))?)
            .clock(Stopped)
            .allow_anonymous()
            .tool(tool("transfer", transfer))
            .build()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Self { server, runtime })
    }

    /// A `tools/call` with this text, which may be no JSON, as its arguments, and whatever comes behind them.
    fn call(&self, arguments: &str, rest: &str) -> Result<Reply, Problem> {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"transfer","_meta":{{
            "io.modelcontextprotocol/protocolVersion":"2026-07-28",
            "io.modelcontextprotocol/clientCapabilities":{{"elicitation":{{"form":{{}}}}}}}},"arguments":{arguments}{rest}}}}}"#
        );
        let request = http::Request::post("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "transfer")
            .body(body)?;
        let mut server = self.server.clone();
        self.runtime.block_on(async move {
            let Ok(response) = server.call(request).await;
            let status = response.status().as_u16();
            let bytes = http_body_util::BodyExt::collect(response.into_body()).await;
            let bytes = bytes.map_err(|_| "the answer broke off")?.to_bytes();
            let body = serde_json::from_slice(&bytes).unwrap_or_default();
            Ok(Reply { status, body })
        })
    }
}

impl Reply {
    fn at(&self, pointer: &str) -> &Value {
        self.body.pointer(pointer).unwrap_or(&Value::Null)
    }

    fn state(&self) -> Option<&str> {
        self.at("/result/requestState").as_str()
    }

    fn verdict(&self) -> String {
        let is_error = self.at("/result/isError") == true;
        let text = match is_error {
            true => &Value::Null,
            false => self.at("/result/content/0/text"),
        };
        format!(
            "{} {} {} asks {} error {is_error} says {text}",
            self.status,
            self.at("/error/code"),
            self.at("/error/data/reason"),
            self.at("/result/inputRequests/rate/params/message"),
        )
    }
}

/// Where in the arguments a text of the corpus goes.
const ARGUMENTS: &[&str] = &[
    r#"{"amount":?}"#,
    r#"{"amount":1,"count":?}"#,
    r#"{"amount":1,"age":?}"#,
    r#"{"amount":1,"to":?}"#,
    r#"{"amount":1,"wide":?}"#,
    r#"{"amount":1,"other":?}"#,
    "?",
];

/// Where in an answer.
const CONTENTS: &[&str] = &[
    r#"{"rate":?}"#,
    r#"{"age":?}"#,
    r#"{"count":?}"#,
    r#"{"name":?}"#,
    r#"{"other":?}"#,
    "?",
];

/// The members that make a call a retry.
fn retry(state: &str, content: &str) -> String {
    format!(
        r#","requestState":"{state}","inputResponses":{{"rate":{{"action":"accept","content":{content}}}}}"#
    )
}

pub(crate) fn verdicts() -> Result<Vec<String>, Problem> {
    let bank = Bank::new()?;
    let first = bank.call(r#"{"amount":1e2}"#, "")?;
    let state = first.state().ok_or_else(|| first.verdict())?;
    let mut lines = Vec::new();
    for text in corpus::all() {
        for pattern in ARGUMENTS {
            let arguments = pattern.replace('?', &text);
            let verdict = bank.call(&arguments, "")?.verdict();
            lines.push(line("called", &arguments, &verdict));
        }
        for pattern in CONTENTS {
            let content = pattern.replace('?', &text);
            let reply = bank.call(r#"{"amount":1e2}"#, &retry(state, &content))?;
            lines.push(line("answered", &content, &reply.verdict()));
        }
    }
    Ok(lines)
}

/// Prints the state of a first call for each text that can be an argument.
pub(crate) fn ask() -> Result<Vec<String>, Problem> {
    let bank = Bank::new()?;
    let mut lines = Vec::new();
    for (index, text) in corpus::all().iter().enumerate() {
        for (place, pattern) in ARGUMENTS.iter().enumerate() {
            let reply = bank.call(&pattern.replace('?', text), "")?;
            if let Some(state) = reply.state() {
                lines.push(format!("{index} {place} {state}"));
            }
        }
    }
    Ok(lines)
}

/// Answers calls that another build has asked about.
pub(crate) fn answer(input: &str) -> Result<Vec<String>, Problem> {
    let bank = Bank::new()?;
    let texts = corpus::all();
    let mut lines = Vec::new();
    for row in input.lines() {
        let mut words = row.split(' ');
        let mut index = || words.next().and_then(|word| word.parse::<usize>().ok());
        let text = index().and_then(|index| texts.get(index));
        let pattern = index().and_then(|place| ARGUMENTS.get(place));
        let (Some(text), Some(pattern), Some(state)) = (text, pattern, words.next()) else {
            return Err(format!("not a line of `ask`: {row}").into());
        };
        let arguments = pattern.replace('?', text);
        let reply = bank.call(&arguments, &retry(state, r#"{"rate":1.5}"#))?;
        lines.push(line("continued", &arguments, &reply.verdict()));
    }
    Ok(lines)
}
