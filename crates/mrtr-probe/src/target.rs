//! What is attacked, and within which bounds.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, Value};

/// The server, the tool and what it is called with.
///
/// The two bearer tokens are secrets: neither `Debug` nor any report shows them.
#[derive(Clone)]
#[non_exhaustive]
pub struct Target {
    /// The endpoint, an `http` URL.
    pub url: String,
    /// The tool that asks.
    pub tool: String,
    /// Its arguments: a JSON object. The call with them must ask, and act once it is answered.
    pub arguments: Value,
    /// Other arguments with which the tool asks too. Without them single values of `arguments` are changed.
    pub other_arguments: Option<Value>,
    /// The content of an accepted form: what is answered to every question that `answers` does not name.
    pub answer: Value,
    /// What is answered to single questions, by their key: the content of an accepted form, or for another kind the whole answer.
    pub answers: Map<String, Value>,
    /// The bearer token of the person whose states are attacked.
    pub token: Option<String>,
    /// The bearer token of somebody else.
    pub other_token: Option<String>,
    /// A tool that returns how many effects there were, as a number in its structured content or text.
    pub effect_tool: Option<String>,
    /// The arguments of that tool.
    pub effect_arguments: Value,
    /// Another tool that asks and acts, called with `arguments` too.
    pub other_tool: Option<String>,
    /// How long the server lets a state live, where it is short enough to be waited for.
    pub lifetime: Option<Duration>,
    /// Whether the server may be on another machine.
    pub allow_remote: bool,
    /// How many positions of a state are changed; of a longer one so many, evenly spread.
    pub max_positions: usize,
    /// How many requests are sent at most.
    pub max_requests: usize,
    /// How long a run may take.
    pub max_time: Duration,
}

impl Target {
    /// A tool behind an endpoint, called without arguments and answered with an empty form.
    #[must_use]
    pub fn new(url: impl Into<String>, tool: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            tool: tool.into(),
            arguments: Value::Object(Map::new()),
            other_arguments: None,
            answer: Value::Object(Map::new()),
            answers: Map::new(),
            token: None,
            other_token: None,
            effect_tool: None,
            effect_arguments: Value::Object(Map::new()),
            other_tool: None,
            lifetime: None,
            allow_remote: false,
            max_positions: 768,
            max_requests: 3000,
            max_time: Duration::from_secs(180),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Target")
            .field("url", &self.url)
            .field("tool", &self.tool)
            .field("lifetime", &self.lifetime)
            .field("max_requests", &self.max_requests)
            .field("max_time", &self.max_time)
            .finish_non_exhaustive()
    }
}
