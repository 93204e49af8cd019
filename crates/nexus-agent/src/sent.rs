//! The texts of a request that many turns share, kept once so that people can read what a model was told.

use nexus_protocol::tool::ToolSpec;
use serde::{Deserialize, Serialize};

use crate::prompt::SystemPrompt;
use crate::turn::{Agent, TurnInput};
use nexus_tools::changes::hash_of;
use nexus_tools::ports::LedgerError;

/// One part of what was sent, with its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentPart {
    /// `tools` or `system`.
    pub section: String,
    pub name: String,
    /// Its words, without secrets.
    pub text: String,
}

impl Agent {
    /// Keeps the system prompt and the tools of a turn unless they are kept already; returns their id.
    pub(crate) async fn keep_sent(
        &self,
        prompt: &SystemPrompt,
        tools: &[ToolSpec],
        input: &TurnInput<'_>,
    ) -> Result<String, LedgerError> {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let id = hash_of(format!("{}\0{}", prompt.hash, names.join(",")).as_bytes());
        if self.parts.prompts.is_kept(&id) {
            return Ok(id);
        }
        let redact = |text: &str| self.parts.toolbox.redact(text);
        let mut parts: Vec<SentPart> = tools
            .iter()
            .map(|tool| SentPart {
                section: "tools".to_owned(),
                name: tool.name.clone(),
                text: redact(&format!("{}\n{}", tool.description, tool.input_schema)),
            })
            .collect();
        let mut rest: &str = &prompt.text;
        for part in &prompt.parts {
            let (text, after) = rest.split_at_checked(part.bytes).unwrap_or((rest, ""));
            let (section, name) = ("system".to_owned(), part.name.clone());
            parts.push(SentPart { section, name, text: redact(text) });
            rest = after;
        }
        // Texts only: they can always be written as JSON.
        input.ledger.record_prompt(&id, &serde_json::to_string(&parts).unwrap_or_default()).await?;
        self.parts.prompts.note_kept(&id);
        Ok(id)
    }
}
