//! Sampling: a question for the client's model, and what it said (*Sampling*). Deprecated since 2026-07-28.
//!
//! **Deprecated since 2026-07-28**, and kept for clients and servers that have it. A new server calls a model provider itself.
//!
//! Whatever a model said is untrusted input, and whatever a server asks may be shown to, changed by, or refused by the person.

use serde::de::{self, Deserializer};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::content::{AudioContent, ContentBlock, ImageContent, Role, TextContent};
use crate::object::{self, JsonObject, RawObject, as_string};
use crate::tools::Tool;
use crate::word::words;

pub use conversation::ConversationError;

mod conversation;

/// Params of `sampling/createMessage`. Deprecated since 2026-07-28: a new server calls a model provider itself.
///
/// With `tools` or `tool_choice` it is a question of the kind [`SamplingWithTools`](crate::Kind::SamplingWithTools), an empty list of
/// tools included.
///
/// ```
/// use mrtr_protocol::sampling::{CreateMessageParams, SamplingMessage};
/// let params = CreateMessageParams::new(vec![SamplingMessage::user("Capital of France?")], 100);
/// assert_eq!(params.check(), Ok(()));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateMessageParams {
    /// The conversation so far.
    #[serde(deserialize_with = "object::list")]
    pub messages: Vec<SamplingMessage>,
    /// Which model is wanted. Advice.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::optional"
    )]
    pub model_preferences: Option<ModelPreferences>,
    /// A system prompt. The client may change or leave it out.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::present"
    )]
    pub system_prompt: Option<String>,
    /// Context of other servers. Default: none.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::present"
    )]
    pub include_context: Option<IncludeContext>,
    /// How random the model is; the range is the provider's.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::present"
    )]
    pub temperature: Option<f64>,
    /// How many tokens may be generated. The client must respect it.
    pub max_tokens: u64,
    /// Texts that end the generation.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::present"
    )]
    pub stop_sequences: Option<Vec<String>>,
    /// For the provider, in its own shape.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::present"
    )]
    pub metadata: Option<JsonObject>,
    /// Tools that the model may use. They belong to this question alone.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional_list"
    )]
    pub tools: Option<Vec<Tool>>,
    /// Whether it must or may use them. Default: it may.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::optional"
    )]
    pub tool_choice: Option<ToolChoice>,
}

/// Absent and empty differ: an empty list of tools is still a list of tools.
fn optional_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    object::list(deserializer).map(Some)
}

impl CreateMessageParams {
    /// A conversation and a limit in tokens; the rest are public fields. Deprecated since 2026-07-28: a new server calls a model provider
    /// itself.
    #[must_use]
    pub fn new(messages: Vec<SamplingMessage>, max_tokens: u64) -> Self {
        Self {
            messages,
            model_preferences: None,
            system_prompt: None,
            include_context: None,
            temperature: None,
            max_tokens,
            stop_sequences: None,
            metadata: None,
            tools: None,
            tool_choice: None,
        }
    }

    /// Whether it lets the model use tools, or speaks of them. Deprecated since 2026-07-28: a new server calls a model provider itself.
    #[must_use]
    pub fn has_tools(&self) -> bool {
        self.tools.is_some() || self.tool_choice.is_some()
    }

    /// Checks that each use of a tool has its result (*Sampling, Message Content Constraints*), and that numbers are such that JSON can say
    /// them. Deprecated since 2026-07-28: a new server calls a model provider itself.
    ///
    /// # Errors
    ///
    /// [`ConversationError`].
    pub fn check(&self) -> Result<(), ConversationError> {
        let preferences = self.model_preferences.as_ref();
        let numbers = [
            self.temperature,
            preferences.and_then(|wanted| wanted.cost_priority),
            preferences.and_then(|wanted| wanted.speed_priority),
            preferences.and_then(|wanted| wanted.intelligence_priority),
        ];
        if numbers.into_iter().flatten().any(|n| !n.is_finite()) {
            return Err(ConversationError::NotFinite);
        }
        conversation::check(&self.messages)
    }
}

/// One message of a conversation. Deprecated since 2026-07-28: a new server calls a model provider itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplingMessage {
    /// Who speaks.
    pub role: Role,
    /// What.
    pub content: SamplingContent,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing_if = "RawObject::is_empty")]
    pub meta: RawObject,
}

impl SamplingMessage {
    /// A message of a role. Deprecated since 2026-07-28: a new server calls a model provider itself.
    pub fn new(role: Role, content: impl Into<SamplingContent>) -> Self {
        Self {
            role,
            content: content.into(),
            meta: RawObject::new(),
        }
    }

    /// What the person says, or the results of tools. Deprecated since 2026-07-28: a new server calls a model provider itself.
    pub fn user(content: impl Into<SamplingContent>) -> Self {
        Self::new(Role::User, content)
    }

    /// What the model says. Deprecated since 2026-07-28: a new server calls a model provider itself.
    pub fn assistant(content: impl Into<SamplingContent>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

/// What a model said: the answer to `sampling/createMessage`. Deprecated since 2026-07-28: a new server calls a model provider itself.
///
/// To go on with it, append [`CreateMessageResult::to_message`] to the conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CreateMessageResult {
    /// Who speaks: the model.
    pub role: Role,
    /// What it said. Untrusted.
    pub content: SamplingContent,
    /// Which model it was, by the client's word.
    pub model: String,
    /// Why it stopped, if known.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::present"
    )]
    pub stop_reason: Option<StopReason>,
    /// `_meta`.
    #[serde(rename = "_meta", default, skip_serializing_if = "RawObject::is_empty")]
    pub meta: RawObject,
}

impl CreateMessageResult {
    /// What a model of this name said, without a stop reason. Deprecated since 2026-07-28: a new server calls a model provider itself.
    pub fn new(model: impl Into<String>, content: impl Into<SamplingContent>) -> Self {
        Self {
            role: Role::Assistant,
            content: content.into(),
            model: model.into(),
            stop_reason: None,
            meta: RawObject::new(),
        }
    }

    /// The same with a stop reason. Deprecated since 2026-07-28: a new server calls a model provider itself.
    #[must_use]
    pub fn stopped(mut self, reason: StopReason) -> Self {
        self.stop_reason = Some(reason);
        self
    }

    /// The texts, joined by newlines. Deprecated since 2026-07-28: a new server calls a model provider itself.
    #[must_use]
    pub fn joined_text(&self) -> String {
        self.content.joined_text()
    }

    /// The uses of tools that the model wants, in its order. Deprecated since 2026-07-28: a new server calls a model provider itself.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUseContent> {
        self.content
            .blocks()
            .iter()
            .filter_map(|block| match block {
                SamplingBlock::ToolUse(tool_use) => Some(tool_use),
                _ => None,
            })
    }

    /// The message to append to the conversation. Deprecated since 2026-07-28: a new server calls a model provider itself.
    #[must_use]
    pub fn to_message(&self) -> SamplingMessage {
        SamplingMessage {
            role: self.role,
            content: self.content.clone(),
            meta: self.meta.clone(),
        }
    }
}

/// One block of content, or several. Deprecated since 2026-07-28: a new server calls a model provider itself.
///
/// The two forms mean the same where there is one block; which it was is kept, so that a message is written as it was read.
#[derive(Debug, Clone, PartialEq)]
pub enum SamplingContent {
    /// A block by itself.
    One(SamplingBlock),
    /// A list of blocks.
    Many(Vec<SamplingBlock>),
}

impl SamplingContent {
    /// The blocks. Deprecated since 2026-07-28: a new server calls a model provider itself.
    #[must_use]
    pub fn blocks(&self) -> &[SamplingBlock] {
        match self {
            Self::One(block) => std::slice::from_ref(block),
            Self::Many(blocks) => blocks,
        }
    }

    /// The texts, joined by newlines. Deprecated since 2026-07-28: a new server calls a model provider itself.
    #[must_use]
    pub fn joined_text(&self) -> String {
        let texts = self.blocks().iter().filter_map(|block| match block {
            SamplingBlock::Text(content) => Some(content.text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl From<&str> for SamplingContent {
    fn from(text: &str) -> Self {
        Self::One(SamplingBlock::text(text))
    }
}

impl From<String> for SamplingContent {
    fn from(text: String) -> Self {
        Self::One(SamplingBlock::text(text))
    }
}

impl From<SamplingBlock> for SamplingContent {
    fn from(block: SamplingBlock) -> Self {
        Self::One(block)
    }
}

impl From<Vec<SamplingBlock>> for SamplingContent {
    fn from(blocks: Vec<SamplingBlock>) -> Self {
        Self::Many(blocks)
    }
}

impl Serialize for SamplingContent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::One(block) => block.serialize(serializer),
            Self::Many(blocks) => blocks.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SamplingContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let read = if raw.get().starts_with('[') {
            serde_json::from_str(raw.get()).map(Self::Many)
        } else {
            serde_json::from_str(raw.get()).map(Self::One)
        };
        read.map_err(de::Error::custom)
    }
}

/// One block of a message. Deprecated since 2026-07-28: a new server calls a model provider itself.
///
/// Unlike a tool's [`ContentBlock`], a type that the revision does not define is refused: a conversation of which a part was not understood
/// must not go to a model as if it were whole.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SamplingBlock {
    /// `text`.
    Text(TextContent),
    /// `image`.
    Image(ImageContent),
    /// `audio`.
    Audio(AudioContent),
    /// `tool_use`: the model wants a tool to be used.
    ToolUse(ToolUseContent),
    /// `tool_result`: what came of it.
    ToolResult(ToolResultContent),
}

impl SamplingBlock {
    /// Plain text. Deprecated since 2026-07-28: a new server calls a model provider itself.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent {
            text: text.into(),
            annotations: None,
            meta: RawObject::new(),
        })
    }
}

impl Serialize for SamplingBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(content) => content.serialize(serializer),
            Self::Image(content) => content.serialize(serializer),
            Self::Audio(content) => content.serialize(serializer),
            Self::ToolUse(content) => content.serialize(serializer),
            Self::ToolResult(content) => content.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SamplingBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let block = JsonObject::deserialize(deserializer)?;
        let members = block.members().map_err(de::Error::custom)?;
        let read = match members.get("type").and_then(as_string).as_deref() {
            Some("text") => block.read().map(Self::Text),
            Some("image") => block.read().map(Self::Image),
            Some("audio") => block.read().map(Self::Audio),
            Some("tool_use") => block.read().map(Self::ToolUse),
            Some("tool_result") => block.read().map(Self::ToolResult),
            _ => return Err(de::Error::custom("content of no known `type`")),
        };
        read.map_err(de::Error::custom)
    }
}

/// A tool that the model wants to be used. Deprecated since 2026-07-28: a new server calls a model provider itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "tool_use")]
pub struct ToolUseContent {
    /// Which use it is; its result names it.
    pub id: String,
    /// The tool, one of the question's own.
    pub name: String,
    /// Its arguments. Untrusted: check them against the tool's schema.
    pub input: JsonObject,
    /// `_meta`. Keep it when the message goes into the next question: providers cache by it.
    #[serde(rename = "_meta", default, skip_serializing_if = "RawObject::is_empty")]
    pub meta: RawObject,
}

/// What came of using a tool. Deprecated since 2026-07-28: a new server calls a model provider itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "tool_result", rename_all = "camelCase")]
pub struct ToolResultContent {
    /// The use that it belongs to.
    pub tool_use_id: String,
    /// What came out.
    pub content: Vec<ContentBlock>,
    /// A value that fits the tool's output schema. `null` is a value.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::present"
    )]
    pub structured_content: Option<StructuredContent>,
    /// Whether the tool failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// `_meta`. Keep it when the message goes into the next question.
    #[serde(rename = "_meta", default, skip_serializing_if = "RawObject::is_empty")]
    pub meta: RawObject,
}

impl ToolResultContent {
    /// The result of a use of a tool. Deprecated since 2026-07-28: a new server calls a model provider itself.
    pub fn new(tool_use_id: impl Into<String>, content: Vec<ContentBlock>) -> Self {
        Self {
            tool_use_id: tool_use_id.into(),
            content,
            structured_content: None,
            is_error: false,
            meta: RawObject::new(),
        }
    }
}

/// Any JSON value, as its text. Deprecated since 2026-07-28, as the tool results that hold it: a new server calls a model provider itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StructuredContent(pub Box<RawValue>);

/// Equal text.
impl PartialEq for StructuredContent {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

/// Why a model stopped. Deprecated since 2026-07-28: a new server calls a model provider itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// `endTurn`: it is done.
    EndTurn,
    /// `stopSequence`: one of the stop sequences came.
    StopSequence,
    /// `maxTokens`: the limit was reached.
    MaxTokens,
    /// `toolUse`: it wants tools to be used.
    ToolUse,
    /// A provider's own word.
    Other(String),
}

impl StopReason {
    /// The word on the wire. Deprecated since 2026-07-28: a new server calls a model provider itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "endTurn",
            Self::StopSequence => "stopSequence",
            Self::MaxTokens => "maxTokens",
            Self::ToolUse => "toolUse",
            Self::Other(word) => word,
        }
    }
}

impl From<String> for StopReason {
    fn from(word: String) -> Self {
        match word.as_str() {
            "endTurn" => Self::EndTurn,
            "stopSequence" => Self::StopSequence,
            "maxTokens" => Self::MaxTokens,
            "toolUse" => Self::ToolUse,
            _ => Self::Other(word),
        }
    }
}

impl Serialize for StopReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for StopReason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

/// Which model a server would like. Advice. Deprecated since 2026-07-28: a new server calls a model provider itself.
///
/// Each priority goes from 0 to 1; the range is not checked here.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelPreferences {
    /// Names or parts of names, in order of preference.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "object::list"
    )]
    pub hints: Vec<ModelHint>,
    /// How much low cost matters.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::present"
    )]
    pub cost_priority: Option<f64>,
    /// How much speed matters.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::present"
    )]
    pub speed_priority: Option<f64>,
    /// How much ability matters.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::present"
    )]
    pub intelligence_priority: Option<f64>,
}

/// A part of a model's name. Deprecated since 2026-07-28: a new server calls a model provider itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ModelHint {
    /// The part.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::present"
    )]
    pub name: Option<String>,
}

/// Whether the model must or may use tools. Deprecated since 2026-07-28: a new server calls a model provider itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToolChoice {
    /// Default: `auto`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "object::present"
    )]
    pub mode: Option<ToolChoiceMode>,
}

/// The ways to choose. Deprecated since 2026-07-28: a new server calls a model provider itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolChoiceMode {
    /// The model decides.
    Auto,
    /// It must use at least one tool.
    Required,
    /// It must not use any.
    None,
}

words!(ToolChoiceMode {
    Auto = "auto",
    Required = "required",
    None = "none",
});

/// Context that the client adds. Deprecated since 2026-07-28: a new server calls a model provider itself.
///
/// The values but `none` were deprecated before sampling was: leave the member out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IncludeContext {
    /// None.
    None,
    /// Of the server that asks.
    ThisServer,
    /// Of all servers.
    AllServers,
}

words!(IncludeContext {
    None = "none",
    ThisServer = "thisServer",
    AllServers = "allServers",
});

#[cfg(test)]
mod tests;
