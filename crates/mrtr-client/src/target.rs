//! What a call is for: a tool, a prompt or a resource.

use std::fmt;

use mrtr_protocol::{CallToolResult, GetPromptResult, ReadResourceResult, method, object::read};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::ProtocolError;

/// What a call is for. These are the three methods that a server may answer with questions (*Multi Round-Trip Requests, Supported
/// Requests*).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "method", content = "name", deny_unknown_fields)]
#[non_exhaustive]
pub enum Target {
    /// `tools/call` of the tool of this name.
    #[serde(rename = "tools/call")]
    Tool(String),
    /// `prompts/get` of the prompt of this name.
    #[serde(rename = "prompts/get")]
    Prompt(String),
    /// `resources/read` of the resource at this URI.
    #[serde(rename = "resources/read")]
    Resource(String),
}

impl Target {
    /// The method.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match self {
            Self::Tool(_) => method::TOOLS_CALL,
            Self::Prompt(_) => method::PROMPTS_GET,
            Self::Resource(_) => method::RESOURCES_READ,
        }
    }

    /// The name of the tool or prompt, or the URI of the resource.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Tool(name) | Self::Prompt(name) | Self::Resource(name) => name,
        }
    }
}

/// `tool submit_expense`, `prompt briefing`, `resource note://1`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::Tool(_) => "tool",
            Self::Prompt(_) => "prompt",
            Self::Resource(_) => "resource",
        };
        write!(f, "{what} {}", self.name())
    }
}

/// The result of a call, by what it was for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Completed {
    /// Of a tool. It may say `isError`: the tool's own failure, for the model to read.
    Tool(CallToolResult),
    /// Of a prompt.
    Prompt(GetPromptResult),
    /// Of a resource.
    Resource(ReadResourceResult),
}

impl Completed {
    /// Reads a complete result as that of `target`, whatever it looks like.
    pub(crate) fn read(target: &Target, result: &RawValue) -> Result<Self, ProtocolError> {
        match target {
            Target::Tool(_) => read(result).map(Self::Tool),
            Target::Prompt(_) => read(result).map(Self::Prompt),
            Target::Resource(_) => read(result).map(Self::Resource),
        }
        .map_err(|_| ProtocolError::Result {
            method: target.method(),
        })
    }

    /// The texts, joined by newlines.
    #[must_use]
    pub fn joined_text(&self) -> String {
        match self {
            Self::Tool(result) => result.joined_text(),
            Self::Prompt(result) => result.joined_text(),
            Self::Resource(result) => result.joined_text(),
        }
    }

    /// The result of a tool, if it was one.
    #[must_use]
    pub fn into_tool(self) -> Option<CallToolResult> {
        match self {
            Self::Tool(result) => Some(result),
            _ => None,
        }
    }

    /// The result of a prompt, if it was one.
    #[must_use]
    pub fn into_prompt(self) -> Option<GetPromptResult> {
        match self {
            Self::Prompt(result) => Some(result),
            _ => None,
        }
    }

    /// The result of a resource, if it was one.
    #[must_use]
    pub fn into_resource(self) -> Option<ReadResourceResult> {
        match self {
            Self::Resource(result) => Some(result),
            _ => None,
        }
    }
}
