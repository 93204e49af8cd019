//! A reply while it is being put together, and its final form.

use nexus_base::redact::Redactor;
use nexus_llm::{Content, Conversation, ModelReply, StopReason, Usage};
use serde_json::{Value, json};

use crate::text::shorten;

/// Longest reply in bytes, whatever the caller allows.
const MAX_REPLY_LEN: usize = 12_000;
/// Smallest allowance that is honoured; below it nothing could be said at all.
const MIN_ALLOWANCE_SIZE: usize = 256;
/// Most calls in one reply.
const MAX_CALLS: usize = 20;

/// Paragraphs and calls of one reply.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    paragraphs: Vec<String>,
    calls: Vec<(&'static str, Value)>,
}

impl Draft {
    /// Adds a paragraph; an empty one adds nothing.
    pub(crate) fn say(&mut self, paragraph: impl Into<String>) {
        let paragraph: String = paragraph.into();
        let trimmed = paragraph.trim();
        if !trimmed.is_empty() && !self.paragraphs.iter().any(|known| known == trimmed) {
            self.paragraphs.push(trimmed.to_owned());
        }
    }

    /// Adds a tool call.
    pub(crate) fn call(&mut self, name: &'static str, input: Value) {
        if self.calls.len() < MAX_CALLS {
            self.calls.push((name, input));
        }
    }

    /// Adds the dispatch of a worker.
    pub(crate) fn dispatch(&mut self, task: &str) {
        self.call("agent_send", json!({ "op": "dispatch", "text": task }));
    }

    /// Returns whether nothing is said yet.
    pub(crate) fn is_silent(&self) -> bool {
        self.paragraphs.is_empty()
    }

    /// Returns whether nothing is said or called yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_silent() && self.calls.is_empty()
    }

    pub(crate) fn finish(self, conversation: &Conversation) -> ModelReply {
        let allowance = usize::try_from(conversation.max_tokens).unwrap_or(usize::MAX).saturating_mul(4);
        let most = allowance.clamp(MIN_ALLOWANCE_SIZE, MAX_REPLY_LEN);
        // Nothing we quote may carry a key further, whoever pasted it.
        let text = shorten(&Redactor::new().redact(&self.paragraphs.join("\n\n")), most);
        let mut content = Vec::new();
        let mut output = text.len();
        if !text.is_empty() {
            content.push(Content::Text { text });
        }
        let stop = if self.calls.is_empty() { StopReason::EndTurn } else { StopReason::ToolUse };
        let seed = if self.calls.is_empty() { 0 } else { fingerprint(conversation) };
        for (number, (name, input)) in self.calls.into_iter().enumerate() {
            output += name.len() + input.to_string().len();
            content.push(Content::ToolUse {
                id: format!("guide_{seed:032x}_{number}"),
                name: name.to_owned(),
                input,
            });
        }
        let usage = Usage {
            input: tokens(conversation_length(conversation)),
            output: tokens(output),
            ..Usage::default()
        };
        ModelReply { content, stop, usage, model: None }
    }
}

/// Estimates tokens as a quarter of the bytes, rounded up.
fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX)
}

fn conversation_length(conversation: &Conversation) -> usize {
    let tools: usize = conversation.tools.iter().map(|tool| tool.name.len() + tool.description.len()).sum();
    let messages: usize = conversation
        .messages
        .iter()
        .flat_map(|message| &message.content)
        .map(|part| match part {
            Content::Text { text } | Content::Thinking { text, .. } | Content::ToolResult { text, .. } => {
                text.len()
            }
            Content::ToolUse { name, input, .. } => name.len() + input.to_string().len(),
        })
        .sum();
    conversation.system.len() + tools + messages
}

/// Tells conversations apart, so that call ids repeat only when the same conversation is asked
/// twice. FNV-1a, 128 bits: no secret hangs on it, and it never changes between builds.
fn fingerprint(conversation: &Conversation) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mut hash = BASIS;
    let mut eat = |bytes: &[u8]| {
        for byte in bytes.iter().chain(&[0xff]) {
            hash = (hash ^ u128::from(*byte)).wrapping_mul(PRIME);
        }
    };
    eat(conversation.system.as_bytes());
    for message in &conversation.messages {
        for part in &message.content {
            match part {
                Content::Text { text } | Content::Thinking { text, .. } => eat(text.as_bytes()),
                Content::ToolUse { id, name, input } => {
                    eat(id.as_bytes());
                    eat(name.as_bytes());
                    eat(input.to_string().as_bytes());
                }
                Content::ToolResult { tool_use_id, text, .. } => {
                    eat(tool_use_id.as_bytes());
                    eat(text.as_bytes());
                }
            }
        }
    }
    hash
}
