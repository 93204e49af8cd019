//! The neutral conversation that every model understands.
//! The trait every model implements.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use nexus_protocol::tool::ToolSpec;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::ModelError;

/// Everything one model call is given.
#[derive(Debug, Clone)]
pub struct Conversation {
    /// System prompt; byte-identical from turn to turn of a session wherever possible.
    pub system: Arc<str>,
    /// Messages, oldest first; the last one is the user's or a set of tool results.
    pub messages: Vec<Message>,
    /// Tools the model may call; fixed when the session was made.
    pub tools: Arc<[ToolSpec]>,
    /// Longest reply, in tokens.
    pub max_tokens: u32,
}

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person, the runtime, or tool results.
    User,
    /// The model.
    Assistant,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What, in order.
    pub content: Vec<Content>,
}

impl Message {
    /// A user message of one text.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: vec![Content::Text { text: text.into() }] }
    }

    /// An assistant message of one text.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, content: vec![Content::Text { text: text.into() }] }
    }

    /// Returns all text of the message, parts joined by a line break.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|part| match part {
                Content::Text { text } => Some(text.as_str()),
                Content::Thinking { .. } | Content::ToolUse { .. } | Content::ToolResult { .. } => None,
            })
            .collect();
        texts.join("\n")
    }
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Plain text.
    Text { text: String },
    /// Reasoning that is kept apart from the reply.
    Thinking {
        /// The reasoning.
        text: String,
        /// Opaque proof that some providers want back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// The model calls a tool.
    ToolUse {
        /// The call's id, as the model made it.
        id: String,
        /// Tool name.
        name: String,
        /// Arguments; not yet checked against the schema.
        input: Value,
    },
    /// What a tool call gave back.
    ToolResult {
        /// The call it answers.
        tool_use_id: String,
        /// Text for the model.
        text: String,
        /// The call did not do what was asked.
        is_error: bool,
    },
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said everything.
    EndTurn,
    /// It wants its tools called.
    ToolUse,
    /// It ran into `max_tokens`.
    MaxTokens,
    /// The provider refused to go on.
    Refusal,
}

/// What a call cost, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to a cache.
    pub input: u64,
    /// Tokens produced.
    pub output: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
    /// Part of `output` that was reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// Returns all tokens of the call.
    pub const fn total(&self) -> u64 {
        let input = self.input.saturating_add(self.cache_read).saturating_add(self.cache_write);
        input.saturating_add(self.output)
    }

    /// Adds another call's cost.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.input, other.input),
            (&mut self.output, other.output),
            (&mut self.cache_read, other.cache_read),
            (&mut self.cache_write, other.cache_write),
            (&mut self.reasoning, other.reasoning),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Which model answers, as people write it: `provider/model`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelName {
    /// Provider, such as `anthropic` or `nexus`.
    pub provider: String,
    /// Model, such as `guide`.
    pub model: String,
}

impl fmt::Display for ModelName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.provider, self.model)
    }
}

/// A piece of a reply while it is being made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelEvent {
    /// Text for the reader.
    TextDelta(String),
    /// Reasoning, shown apart if at all.
    ThinkingDelta(String),
}

/// Takes the pieces of a reply as they arrive; must not block.
pub type ReplySink<'a> = &'a (dyn Fn(ModelEvent) + Send + Sync);

/// A whole reply.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelReply {
    /// Text, reasoning and tool calls in the order the model gave them.
    pub content: Vec<Content>,
    /// Why it stopped.
    pub stop: StopReason,
    /// What it cost.
    pub usage: Usage,
    /// Which model answered, where that may be another than the one asked first.
    pub model: Option<ModelName>,
}

/// Something that continues a conversation.
#[async_trait]
pub trait Model: Send + Sync + fmt::Debug {
    /// Returns the model's name for the ledger.
    fn name(&self) -> ModelName;

    /// Continues the conversation by one reply, streaming it into `sink`.
    ///
    /// # Errors
    /// See [`ModelError`]; a cancelled call answers [`ModelError::Cancelled`] at once.
    async fn reply(
        &self,
        conversation: &Conversation,
        sink: ReplySink<'_>,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelError>;
}
