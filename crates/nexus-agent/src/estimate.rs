//! How many tokens a request will have, from its bytes and from what providers counted before.

use std::sync::atomic::{AtomicU64, Ordering};

use nexus_llm::{Content, Conversation, Message, Usage};
use nexus_protocol::tool::ToolSpec;

/// Bytes of one token, in thousandths, before any provider has counted. English prose has about four,
/// code and JSON three; guessing low makes room early rather than late.
const FIRST_GUESS: u64 = 3_500;
/// What a provider's count can teach at most; anything else is a misunderstanding.
const MIN_COUNT: u64 = 1_000;
const MAX_COUNT: u64 = 8_000;
/// A count is believed between these, and with so many tokens more that only the provider sees: instructions of its
/// own before the request, reasoning before the reply.
const MAX_BYTES_PER_TOKEN: u64 = 32;
const MAX_TOKENS_PER_BYTE: u64 = 4;
const UNSEEN_INPUT: u64 = 20_000;
const UNSEEN_OUTPUT: u64 = 500_000;
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
    Some((u64::try_from(bytes).ok()?.saturating_mul(1_000) / tokens).clamp(MIN_COUNT, MAX_COUNT))
}

/// Returns what a call counts as: what the provider says, and our own estimate where it says nothing or something that
/// cannot be. `sent` and `got` are bytes.
pub(crate) fn counted(said: Usage, sent: usize, got: usize, calibration: &Calibration) -> Usage {
    let between = |tokens: u64, bytes: usize, more: u64| {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let fewest = bytes / MAX_BYTES_PER_TOKEN;
        (fewest..=bytes.saturating_mul(MAX_TOKENS_PER_BYTE).saturating_add(more)).contains(&tokens)
    };
    let read = said.input.saturating_add(said.cache_read).saturating_add(said.cache_write);
    let input = if between(read, sent, UNSEEN_INPUT) && read > 0 {
        said
    } else {
        Usage { input: calibration.tokens(sent), ..Usage::default() }
    };
    let output = if between(said.output, got, UNSEEN_OUTPUT) { said.output } else { calibration.tokens(got) };
    Usage { output, reasoning: said.reasoning.min(output), ..input }
}

/// Returns the bytes of a reply.
pub(crate) fn reply_bytes(content: &[Content]) -> usize {
    content.iter().map(content_bytes).sum()
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
    fn a_count_that_cannot_be_is_replaced_by_our_own() {
        let calibration = Calibration::default();
        let said = |input, output| Usage { input, output, ..Usage::default() };
        let ours = said(10_000, 100);
        for (given, expected) in [
            (said(9_000, 80), said(9_000, 80)),
            (
                Usage { cache_read: 8_000, reasoning: 70, ..said(1_000, 80) },
                Usage { cache_read: 8_000, reasoning: 70, ..said(1_000, 80) },
            ),
            (Usage::default(), ours),
            (said(1, 1), ours),
            (said(9_000, 1), said(9_000, 100)),
            (said(u64::MAX, u64::MAX), ours),
            (Usage { cache_read: u64::MAX, cache_write: u64::MAX, ..said(9_000, 80) }, said(10_000, 80)),
            (Usage { reasoning: u64::MAX, ..said(9_000, 80) }, Usage { reasoning: 80, ..said(9_000, 80) }),
        ] {
            assert_eq!(counted(given, 35_000, 350, &calibration), expected, "{given:?}");
        }
        let mut sum = said(u64::MAX, 1);
        sum.add(&said(1, u64::MAX));
        assert_eq!(sum.total(), u64::MAX);
    }

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
