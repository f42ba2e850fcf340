//! The tools, as servers, clients and checker know them.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A tool. What it does is in [`server::tools`](crate::server::tools).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Tool {
    /// Asks, then takes one step.
    Pay,
    /// Asks, then takes two steps, of which the second fails where it is told to.
    Pair,
    /// Asks, takes a step, asks again, takes another.
    Stages,
    /// Keeps a price and some ballast, asks with the price, takes a step with it.
    Quote,
    /// Takes a step before it asks, and another one after.
    Eager,
    /// Takes a step with a time limit of its own around it, asks, and needs the step's outcome.
    Hasty,
    /// Asks, keeps a price, takes two steps with it; may run again after a crash, and panics now and then in between.
    Again,
    /// The same over two rounds, with its steps in the ledger's own database.
    Book,
}

impl Tool {
    pub(crate) const ALL: [Tool; 8] = [
        Tool::Pay,
        Tool::Pair,
        Tool::Stages,
        Tool::Quote,
        Tool::Eager,
        Tool::Hasty,
        Tool::Again,
        Tool::Book,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Tool::Pay => "pay",
            Tool::Pair => "pair",
            Tool::Stages => "stages",
            Tool::Quote => "quote",
            Tool::Eager => "eager",
            Tool::Hasty => "hasty",
            Tool::Again => "again",
            Tool::Book => "book",
        }
    }

    /// Whether a lost run of it may be taken over.
    pub(crate) fn runs_again(self) -> bool {
        matches!(self, Tool::Again | Tool::Book)
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a tool is called with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// The business key. No two flows have the same.
    pub(crate) flow: u64,
    /// How long the body works before its first step, in milliseconds.
    pub(crate) before: u32,
    /// How long each step works before its effect.
    pub(crate) inside: u32,
    /// How long each step works after its effect, before its outcome is there.
    pub(crate) after: u32,
    /// Whether the last step fails once its effect has happened.
    pub(crate) fails: bool,
    /// How long `hasty` gives its step.
    pub(crate) patience: u32,
    /// How many bytes `quote` keeps besides, so that its journal is too large to be carried.
    pub(crate) ballast: u32,
    /// Of a hundred runs of `again` and `book`, how many panic.
    pub(crate) panics: u8,
}

/// What a person answers.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Choice {
    /// Which way the person wants it.
    pub(crate) pick: u32,
}

/// What a tool says, in a question's message and in a result's text alike, as JSON: the steps that it vouches for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Said {
    /// Each step that was taken, and the name of its effect.
    pub(crate) steps: BTreeMap<String, String>,
    /// The price that the tool goes by, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) price: Option<u32>,
    /// The answer that the tool goes by, once it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pick: Option<u32>,
}

impl Said {
    pub(crate) fn to_text(&self) -> String {
        // A map of strings and two numbers have no way to fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}
