//! What a turn's newest message is given besides its words, and the record of everything that was sent.
//!
//! The manager's own memory and what automations add stand inside the runtime's block before the
//! words. They are kept with the turn, so that history repeats the very bytes that were sent and a
//! resumed turn asks nobody again.

use nexus_protocol::framing::{self, Kind};
use serde::{Deserialize, Serialize};

use crate::history::PastMessage;
use crate::ports::Enrichment;
use crate::prompt::{PromptPart, SystemPrompt};
use crate::turn::{Agent, TurnInput};
use nexus_tools::ports::LedgerError;
use nexus_tools::{RememberedFact, Role};

/// Name of the block that holds what was remembered.
const MEMORY_BLOCK: &str = "memory_context";
/// Longest addition of one automation, in bytes.
const MAX_ADDITION_LEN: usize = 8_000;

/// What a turn was sent, part by part; sizes in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContextRecord {
    /// Id of the words of system prompt and tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Parts of the system prompt, in order.
    pub system: Vec<PromptPart>,
    /// Whether the onboarding section was in it.
    pub onboarding: bool,
    pub tools: SizedCount,
    /// Earlier turns and their size.
    pub history: SizedCount,
    /// Size of the summary that stands for turns before them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_bytes: Option<usize>,
    /// The block before the newest words.
    pub frame_bytes: usize,
    /// The newest words.
    pub words_bytes: usize,
    pub memory: Vec<RememberedFact>,
    /// What automations added, by source.
    pub additions: Vec<PromptPart>,
    /// Compactions taken while it ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compactions: Vec<String>,
    /// The whole request as it was first sent.
    pub total_bytes: usize,
}

/// How many, and how much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizedCount {
    /// How many.
    pub count: usize,
    /// How many bytes together.
    pub bytes: usize,
}

impl ContextRecord {
    pub(crate) fn note_prompt(&mut self, prompt: &SystemPrompt) {
        self.system.clone_from(&prompt.parts);
        self.onboarding = prompt.onboarding;
    }
}

impl Agent {
    /// Adds to the newest message what memory and automations know about it, unless an earlier attempt
    /// went past that.
    pub(crate) async fn enrich(
        &self,
        input: &mut TurnInput<'_>,
        record: &mut ContextRecord,
    ) -> Result<(), LedgerError> {
        let Some(PastMessage::User { frame, .. }) = input.current.messages.last() else { return Ok(()) };
        if input.told.is_some() {
            return Ok(());
        }
        let mut rich = frame.clone();
        let is_message = framing::split(frame).0.kind() == Some(Kind::Message);
        if input.role == Role::Manager && is_message {
            record.memory = self.parts.toolbox.remembered(&input.facts.words).await;
            if !record.memory.is_empty() {
                let lines: Vec<String> =
                    record.memory.iter().map(|fact| format!("- {}", fact.text)).collect();
                rich = framing::with_block(&rich, MEMORY_BLOCK, &lines.join("\n"));
            }
        }
        for Enrichment { source, text } in input.hooks.context_ready(&input.facts).await {
            let whole = text.len();
            let kept = &text[..text.floor_char_boundary(MAX_ADDITION_LEN)];
            let before = rich.len();
            rich = framing::with_block(&rich, &source, kept);
            record.additions.push(PromptPart {
                name: source,
                bytes: rich.len() - before,
                cut_from: (kept.len() < whole).then_some(whole),
            });
        }
        if record.memory.is_empty() && record.additions.is_empty() {
            return Ok(());
        }
        // A record that cannot be written as JSON does not exist: it holds texts and numbers only.
        let kept = serde_json::to_string(record).unwrap_or_default();
        input.ledger.record_enrichment(&rich, &kept).await?;
        if let Some(PastMessage::User { frame, .. }) = input.current.messages.last_mut() {
            *frame = rich;
        }
        Ok(())
    }
}
