//! How many tokens a request will have, from its bytes and from what providers counted before.

use std::sync::atomic::{AtomicU64, Ordering};

use nexus_llm::{Content, Conversation, Message};
use nexus_protocol::tool::ToolSpec;

/// Bytes of one token, in thousandths, before any provider has counted. English prose has about four,
/// code and JSON three; guessing low makes room early rather than late.
const FIRST_GUESS: u64 = 3_500;
/// What a provider's count can teach at most; anything else is a misunderstanding.
const LEAST: u64 = 1_000;
const MAX_COUNT: u64 = 8_000;
/// What a message costs beside its text, in bytes.
const MESSAGE_OVERHEAD: usize = 16;

/// Bytes per token as one model counts them; shared by everybody who talks to it.
#[derive(Debug)]
pub struct Calibration {
    thousandths: AtomicU64,
}

impl Default for Calibration {
    fn default() -> Self {
        Self { thousandths: AtomicU64::new(FIRST_GUESS) }
    }
}

impl Calibration {
    /// Returns how many tokens so many bytes are.
    pub fn tokens(&self, bytes: usize) -> u64 {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        bytes.saturating_mul(1_000).div_ceil(self.thousandths.load(Ordering::Relaxed))
    }

    /// Returns how many bytes so many tokens are.
    pub fn bytes(&self, tokens: u64) -> usize {
        let bytes = tokens.saturating_mul(self.thousandths.load(Ordering::Relaxed)) / 1_000;
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Takes a provider's count into account; a single strange one does not upset the rest.
    pub fn learn(&self, bytes: usize, tokens: u64) {
        let Some(seen) = seen(bytes, tokens) else { return };
        let known = self.thousandths.load(Ordering::Relaxed);
        self.thousandths.store((known * 3 + seen) / 4, Ordering::Relaxed);
    }

    /// Takes it that so many bytes are at least so many tokens, because a provider refused them.
    pub fn learn_at_least(&self, bytes: usize, tokens: u64) {
        let Some(seen) = seen(bytes, tokens) else { return };
        self.thousandths.fetch_min(seen, Ordering::Relaxed);
    }
}

fn seen(bytes: usize, tokens: u64) -> Option<u64> {
    // A handful of tokens says nothing about the language they are in.
    if tokens < 100 {
        return None;
    }
    Some((u64::try_from(bytes).ok()?.saturating_mul(1_000) / tokens).clamp(LEAST, MAX_COUNT))
}

/// Returns the bytes of a whole request, as far as a model reads them.
pub(crate) fn request_bytes(conversation: &Conversation) -> usize {
    conversation.system.len() + tools_bytes(&conversation.tools) + messages_bytes(&conversation.messages)
}

/// Returns the bytes of the tools as a model is told about them.
pub(crate) fn tools_bytes(tools: &[ToolSpec]) -> usize {
    tools
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.to_string().len())
        .sum()
}

pub(crate) fn messages_bytes(messages: &[Message]) -> usize {
    messages
        .iter()
        .map(|message| MESSAGE_OVERHEAD + message.content.iter().map(content_bytes).sum::<usize>())
        .sum()
}

fn content_bytes(content: &Content) -> usize {
    match content {
        Content::Text { text } | Content::Thinking { text, .. } | Content::ToolResult { text, .. } => {
            text.len()
        }
        Content::ToolUse { name, input, .. } => name.len() + input.to_string().len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_s_count_moves_the_guess_and_nonsense_does_not() {
        let calibration = Calibration::default();
        assert_eq!(calibration.tokens(3_500), 1_000);
        for _ in 0..40 {
            calibration.learn(20_000, 10_000);
        }
        assert!((1_990..=2_010).contains(&calibration.tokens(4_000)), "{}", calibration.tokens(4_000));
        calibration.learn(1_000_000, 3);
        assert!((1_990..=2_010).contains(&calibration.tokens(4_000)));
        calibration.learn(u32::MAX as usize, 200);
        assert!(calibration.tokens(8_000) >= 1_000);
    }

    #[test]
    fn a_refusal_makes_the_guess_smaller_at_once_and_never_larger() {
        let calibration = Calibration::default();
        calibration.learn_at_least(200_000, 100_000);
        assert_eq!(calibration.tokens(200_000), 100_000);
        calibration.learn_at_least(200_000, 10_000);
        assert_eq!(calibration.tokens(200_000), 100_000);
        assert_eq!(calibration.bytes(100_000), 200_000);
    }
}
