//! The server under attack: requests within the bounds, flows up to the last question, and the count of effects.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mrtr_protocol::method;
use serde_json::{Map, Value, json};

use crate::http::{Broken, Endpoint};
use crate::redact::Redact;
use crate::target::Target;
use crate::wire::{Call, Message, Reply, Said, has_event, tool_call};

/// How many rounds a flow may take.
const ROUNDS: usize = 16;
/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How old a state may become before another is taken, where nothing is known of its lifetime.
const AGE: Duration = Duration::from_secs(30);

/// Why a row came to no end.
#[derive(Debug, Clone)]
pub(crate) enum Stop {
    /// A bound of the run was reached.
    Bound(String),
    /// The server did not do what it did on the good path.
    Trouble(String),
}

/// A flow whose last question is open.
#[derive(Debug, Clone)]
pub(crate) struct Prey {
    pub(crate) state: Value,
    pub(crate) questions: Map<String, Value>,
    pub(crate) answers: Map<String, Value>,
    pub(crate) asked: Instant,
}

impl Prey {
    pub(crate) fn text(&self) -> &str {
        self.state.as_str().unwrap_or_default()
    }
}

/// What the good path showed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Good {
    /// How many rounds ask before the result comes.
    pub(crate) rounds: usize,
    /// Whether the last round has a state.
    pub(crate) has_state: bool,
    /// The result's text with every run of digits made equal.
    pub(crate) masked: String,
}

/// A server, and what was seen of it so far.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) target: &'a Target,
    pub(crate) endpoint: Endpoint,
    pub(crate) redact: Redact,
    pub(crate) good: Good,
    requests: AtomicUsize,
    began: Instant,
    seen: Mutex<Seen>,
}

/// What the replies gave away, whichever row they belong to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) internal: Vec<(String, String)>,
    pub(crate) leaks: Vec<(String, String)>,
}

/// What replies must not hold, whatever went wrong.
const LEAKS: &[&str] = &[
    "Traceback (most recent call last)",
    "panicked at",
    "RUST_BACKTRACE",
    "stack backtrace",
    ".rs:",
    ".js:",
    ".ts:",
    ".py\\\"",
    ".go:",
    "node_modules",
    "/home/",
    "/usr/",
    "SQLSTATE",
];

impl<'a> Subject<'a> {
    pub(crate) fn new(target: &'a Target, endpoint: Endpoint) -> Self {
        let tokens = [&target.token, &target.other_token];
        Self {
            target,
            endpoint,
            redact: Redact::new(tokens.into_iter().flatten()),
            good: Good::default(),
            requests: AtomicUsize::new(0),
            began: Instant::now(),
            seen: Mutex::default(),
        }
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes one request off the budget, and says how long it may take.
    fn admit(&self) -> Result<Duration, Stop> {
        let sent = self.requests.fetch_add(1, Ordering::Relaxed);
        if sent >= self.target.max_requests {
            self.requests.fetch_sub(1, Ordering::Relaxed);
            return Err(Stop::Bound(format!(
                "{sent} requests were sent; --max-requests allows more"
            )));
        }
        match self.target.max_time.checked_sub(self.elapsed()) {
            Some(left) if !left.is_zero() => Ok(left.min(PATIENCE)),
            _ => Err(Stop::Bound(
                "the time is over; --max-seconds allows more".to_owned(),
            )),
        }
    }

    pub(crate) async fn send(&self, message: &Message) -> Result<Reply, Stop> {
        let patience = self.admit()?;
        let bytes = message.bytes(&self.endpoint);
        let reply = Reply::of(self.endpoint.exchange(&bytes, patience, has_event).await);
        match &reply.came {
            Err(Broken::Unreachable(why)) => {
                return Err(Stop::Trouble(format!(
                    "the server cannot be reached: {why}"
                )));
            }
            Ok(response) if response.status == 429 => {
                return Err(Stop::Trouble(
                    "the server limits how often it is called (HTTP 429)".to_owned(),
                ));
            }
            _ => {}
        }
        self.note(message, &reply);
        Ok(reply)
    }

    /// Sends a request, and after a while closes the connection without having read what came back.
    pub(crate) async fn hang_up(&self, message: &Message, after: Duration) -> Result<(), Stop> {
        self.admit()?;
        let bytes = message.bytes(&self.endpoint);
        let sent = self.endpoint.hang_up(&bytes, after).await;
        sent.map_err(|broken| Stop::Trouble(broken.to_string()))
    }

    fn note(&self, message: &Message, reply: &Reply) {
        let broken = message.shows_a_fault(reply);
        let leaks = self.leaks(reply);
        if !broken && !leaks {
            return;
        }
        let shown = (message.shown(&self.redact), reply.shown(&self.redact));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if broken {
            seen.internal.push(shown.clone());
        }
        if leaks {
            seen.leaks.push(shown);
        }
    }

    /// Whether an error tells of the inside, or any reply repeats a bearer token.
    fn leaks(&self, reply: &Reply) -> bool {
        let Ok(response) = &reply.came else {
            return false;
        };
        let text = String::from_utf8_lossy(&response.body);
        let error = matches!(
            reply.said(),
            Said::Refused(_) | Said::Status(_) | Said::Failed(_)
        );
        self.redact.occurs_in(&text) || (error && LEAKS.iter().any(|leak| text.contains(leak)))
    }

    /// A request of the person whose states are attacked.
    pub(crate) fn call(&self, method: &str, params: Value) -> Call {
        Call::new(method, params, self.target.token.as_deref())
    }

    /// The first call.
    pub(crate) fn first(&self) -> Call {
        self.with_arguments(&self.target.arguments)
    }

    pub(crate) fn with_arguments(&self, arguments: &Value) -> Call {
        tool_call(&self.target.tool, arguments, self.target.token.as_deref())
    }

    /// The honest retry.
    pub(crate) fn retry(&self, prey: &Prey) -> Call {
        let answers = Value::Object(prey.answers.clone());
        let call = self.first().with("inputResponses", answers);
        match &prey.state {
            Value::Null => call,
            state => call.with("requestState", state.clone()),
        }
    }

    /// The honest retry with another state.
    pub(crate) fn retry_with(&self, prey: &Prey, state: impl Into<Value>) -> Call {
        self.retry(prey).with("requestState", state.into())
    }

    /// Reads the question of a reply and answers it as it was said.
    pub(crate) fn caught(&self, reply: &Reply) -> Result<Prey, String> {
        let result = reply.result().cloned().unwrap_or_default();
        let questions = result.get("inputRequests").and_then(Value::as_object);
        let questions = questions.cloned().unwrap_or_default();
        let mut answers = Map::new();
        for (key, question) in &questions {
            answers.insert(key.clone(), self.answer_to(key, question)?);
        }
        Ok(Prey {
            state: result.get("requestState").cloned().unwrap_or_default(),
            questions,
            answers,
            asked: Instant::now(),
        })
    }

    fn answer_to(&self, key: &str, question: &Value) -> Result<Value, String> {
        let named = self.target.answers.get(key);
        let method = question.get("method").and_then(Value::as_str);
        let mode = question.pointer("/params/mode").and_then(Value::as_str);
        match (method, mode) {
            (Some(method::ELICITATION_CREATE), Some("url")) => Ok(json!({ "action": "accept" })),
            (Some(method::ELICITATION_CREATE), _) => {
                let content = named.unwrap_or(&self.target.answer);
                Ok(json!({ "action": "accept", "content": content }))
            }
            (other, _) => named.cloned().ok_or_else(|| {
                let kind = other.unwrap_or("something unnamed");
                format!("`{key}` asks for {kind}: --answers must say what is answered")
            }),
        }
    }

    /// Opens a flow and answers it up to its last question.
    pub(crate) async fn open(&self) -> Result<Prey, Stop> {
        self.open_with(&self.target.arguments).await
    }

    pub(crate) async fn open_with(&self, arguments: &Value) -> Result<Prey, Stop> {
        let mut call = self.with_arguments(arguments);
        for round in 1.. {
            let reply = self.send(&call.message()).await?;
            if reply.said() != Said::Asked {
                return Err(Stop::Trouble(format!(
                    "a flow did not open: the server {}",
                    reply.sort()
                )));
            }
            let prey = self.caught(&reply).map_err(Stop::Trouble)?;
            if round >= self.good.rounds {
                return Ok(prey);
            }
            call = self.with_arguments(arguments);
            call = call.with("inputResponses", Value::Object(prey.answers.clone()));
            if !prey.state.is_null() {
                call = call.with("requestState", prey.state);
            }
        }
        Err(Stop::Trouble("a flow did not open".to_owned()))
    }

    /// Whether a state may expire soon.
    pub(crate) fn is_old(&self, prey: &Prey) -> bool {
        let age = self.target.lifetime.map_or(AGE, |lifetime| lifetime / 4);
        prey.asked.elapsed() >= age
    }

    /// How many effects there were, where a tool counts them.
    pub(crate) async fn effects(&self) -> Result<Option<u64>, Stop> {
        let Some(tool) = &self.target.effect_tool else {
            return Ok(None);
        };
        let token = self.target.token.as_deref();
        let call = tool_call(tool, &self.target.effect_arguments, token);
        let reply = self.send(&call.message()).await?;
        match reply.said() {
            Said::Complete(result) => counted(result).map(Some).ok_or_else(|| {
                Stop::Trouble(format!(
                    "`{tool}` returned no number, and it should count effects"
                ))
            }),
            _ => Err(Stop::Trouble(format!(
                "`{tool}` should count effects, but the server {}",
                reply.sort()
            ))),
        }
    }

    /// Plays the good path to its end, and remembers what it looks like. The error says why it is none.
    pub(crate) async fn prove(&mut self) -> Result<(String, String), Stop> {
        let before = self.effects().await?;
        let mut call = self.first();
        let mut rounds = 0;
        let mut has_state = false;
        let (sent, reply) = loop {
            let message = call.message();
            let reply = self.send(&message).await?;
            match reply.said() {
                Said::Complete(_) => break (message, reply),
                Said::Asked if rounds < ROUNDS => {}
                _ => {
                    return Err(Stop::Trouble(format!(
                        "the server {}: {}",
                        reply.sort(),
                        reply.shown(&self.redact)
                    )));
                }
            }
            rounds += 1;
            let prey = self.caught(&reply).map_err(Stop::Trouble)?;
            has_state = prey.state.is_string();
            call = self.retry(&prey);
        };
        if rounds == 0 {
            return Err(Stop::Trouble(
                "the tool gave a result and asked nothing: give arguments with which it asks"
                    .to_owned(),
            ));
        }
        let after = self.effects().await?;
        if let (Some(before), Some(after)) = (before, after)
            && after != before + 1
        {
            return Err(Stop::Trouble(format!(
                "the effects went from {before} to {after} on the good path, and must rise by one: \
                 does --effect-tool count what --tool does, and does nobody else use the server?"
            )));
        }
        let masked = reply.result().map(masked).unwrap_or_default();
        self.good = Good {
            rounds,
            has_state,
            masked,
        };
        Ok((sent.shown(&self.redact), reply.shown(&self.redact)))
    }
}

/// The number in a result: the first in its structured content, or else in its text.
fn counted(result: &Value) -> Option<u64> {
    fn first(value: &Value) -> Option<u64> {
        match value {
            Value::Number(number) => number.as_u64(),
            Value::Array(items) => items.iter().find_map(first),
            Value::Object(members) => members.values().find_map(first),
            _ => None,
        }
    }
    result.get("structuredContent").and_then(first).or_else(|| {
        let text = texts(result);
        let digits = text.split(|character: char| !character.is_ascii_digit());
        digits
            .filter(|digits| !digits.is_empty())
            .find_map(|digits| digits.parse().ok())
    })
}

fn texts(result: &Value) -> String {
    let blocks = result.get("content").and_then(Value::as_array);
    let texts = blocks.into_iter().flatten();
    let texts: Vec<&str> = texts
        .filter_map(|block| block.get("text")?.as_str())
        .collect();
    texts.join("\n")
}

/// What a result says, with numbers made equal: two runs of a tool say the same then.
pub(crate) fn masked(result: &Value) -> String {
    let mut said = texts(result);
    if let Some(structured) = result.get("structuredContent") {
        said.push_str(&structured.to_string());
    }
    if said.is_empty() {
        said = result.to_string();
    }
    let mut out = String::with_capacity(said.len());
    for character in said.chars() {
        match character.is_ascii_digit() {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_results() {
        let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
        assert_eq!(counted(&text("There were 12 of 30.")), Some(12));
        assert_eq!(counted(&text("none")), None);
        let both = json!({ "content": [{ "text": "3" }], "structuredContent": { "count": 4 } });
        assert_eq!(counted(&both), Some(4));
    }

    #[test]
    fn two_runs_say_the_same() {
        let text = |text: &str| masked(&json!({ "content": [{ "type": "text", "text": text }] }));
        assert_eq!(text("entry 9 of 2026"), text("entry 10 of 1"));
        assert_ne!(text("entry 9"), text("nothing was done"));
    }
}
