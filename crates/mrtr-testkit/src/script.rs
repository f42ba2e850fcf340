//! The answers that a check gives.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};

/// The answers to a tool's questions, by key.
///
/// A key that is given several answers gives them in turn, and the last of them for ever after: a wrong answer and then a good one.
#[derive(Clone, Debug, Default)]
#[must_use = "a script does nothing until a check plays it"]
pub struct Script(HashMap<String, VecDeque<Value>>);

impl Script {
    /// A script without answers.
    pub fn new() -> Script {
        Script::default()
    }

    /// Accepts a form with this content.
    pub fn accept(self, key: impl Into<String>, content: impl Into<Value>) -> Script {
        self.answer(
            key,
            json!({ "action": "accept", "content": content.into() }),
        )
    }

    /// Declines.
    pub fn decline(self, key: impl Into<String>) -> Script {
        self.answer(key, json!({ "action": "decline" }))
    }

    /// Dismisses.
    pub fn cancel(self, key: impl Into<String>) -> Script {
        self.answer(key, json!({ "action": "cancel" }))
    }

    /// An answer in whatever shape.
    pub fn answer(mut self, key: impl Into<String>, answer: impl Into<Value>) -> Script {
        self.0
            .entry(key.into())
            .or_default()
            .push_back(answer.into());
        self
    }

    pub(crate) fn next(&mut self, key: &str) -> Option<Value> {
        let answers = self.0.get_mut(key)?;
        match answers.len() {
            0 | 1 => answers.front().cloned(),
            _ => answers.pop_front(),
        }
    }
}
