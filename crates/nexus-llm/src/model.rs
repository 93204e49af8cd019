//! The trait every model implements.

use std::fmt;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::{Content, Conversation, ModelError, StopReason, Usage};

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
