//! What a conversation with tools must look like (*Sampling, Message Content Constraints*).

use super::{SamplingBlock, SamplingMessage};
use crate::content::Role;

/// Why no model can go on with a conversation. Deprecated since 2026-07-28: a new server calls a model provider itself.
///
/// Positions count messages from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConversationError {
    /// A result of a tool beside other content.
    #[error(
        "message {at} mixes results of tools with other content; give them a message of their own"
    )]
    MixedResults {
        /// Which message.
        at: usize,
    },
    /// The person uses a tool, or the model reports a result.
    #[error(
        "message {at} is of the wrong role: the assistant uses tools, and the user brings their results"
    )]
    WrongRole {
        /// Which message.
        at: usize,
    },
    /// A use of a tool without a result in the next message, a result without its use, or one of them twice.
    #[error(
        "the results in message {at} are not those of the tools that the message before it uses, each once"
    )]
    Unbalanced {
        /// Where the results have to be.
        at: usize,
    },
    /// An infinity or a NaN, which JSON cannot say.
    #[error("the temperature and the priorities must be finite numbers")]
    NotFinite,
}

/// Each message that uses tools is followed by one that brings the result of each, and nothing else.
pub(super) fn check(messages: &[SamplingMessage]) -> Result<(), ConversationError> {
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let mut uses = Vec::new();
        let mut results = Vec::new();
        let mut others = 0_usize;
        for block in message.content.blocks() {
            match block {
                SamplingBlock::ToolUse(tool_use) => uses.push(tool_use.id.as_str()),
                SamplingBlock::ToolResult(result) => results.push(result.tool_use_id.as_str()),
                _ => others += 1,
            }
        }
        let (may_use, may_report) = match message.role {
            Role::Assistant => (true, false),
            Role::User => (false, true),
        };
        if (!may_use && !uses.is_empty()) || (!may_report && !results.is_empty()) {
            return Err(ConversationError::WrongRole { at });
        }
        if !results.is_empty() && others > 0 {
            return Err(ConversationError::MixedResults { at });
        }
        results.sort_unstable();
        if results != open {
            return Err(ConversationError::Unbalanced { at });
        }
        uses.sort_unstable();
        if uses.iter().zip(uses.iter().skip(1)).any(|(a, b)| a == b) {
            return Err(ConversationError::Unbalanced { at: at + 1 });
        }
        open = uses;
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(ConversationError::Unbalanced { at: messages.len() })
    }
}
