//! `recall` and `remember`: memory as a model uses it.
//! What memory knows about a message before anybody asks for it.

use nexus_base::id::EventId;
use nexus_memory::{Memory, Provenance, RecallRequest, Scope};
use nexus_protocol::tool::ToolOutput;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::scope::Done;
use crate::{Toolbox, relevance};

/// Tool that searches memory.
pub(crate) const RECALL: &str = "recall";
/// Tool that keeps a fact.
pub(crate) const REMEMBER: &str = "remember";

const DEFAULT_LIMIT: usize = 5;
const MAX_LIMIT: usize = 20;

pub(crate) async fn recall(memory: &Memory, arguments: &Value) -> Done {
    let Some(query) = arguments.get("query").and_then(Value::as_str) else {
        return Done::own(ToolOutput::error("recall needs `query`, the words to look for"));
    };
    let limit = arguments
        .get("limit")
        .and_then(Value::as_u64)
        .map_or(DEFAULT_LIMIT, |limit| usize::try_from(limit).unwrap_or(MAX_LIMIT).clamp(1, MAX_LIMIT));
    match memory.tell(RecallRequest::new(query).limit(limit)).await {
        Ok(found) if found.is_empty() => Done::own(ToolOutput::ok("nothing found")),
        Ok(found) => {
            let lines: Vec<String> = found
                .iter()
                .map(|fact| {
                    let moment = fact.as_of.to_local_rfc3339();
                    let mark = if fact.provenance == Provenance::Untrusted { " [untrusted]" } else { "" };
                    format!("{}{mark}: {}", moment.get(..10).unwrap_or(&moment), fact.text)
                })
                .collect();
            let output = ToolOutput::ok(lines.join("\n"));
            // Whoever reads what a page once said has read the page.
            match found.iter().any(|fact| fact.provenance == Provenance::Untrusted) {
                true => Done::from_outside(output, "remembered text of unknown origin"),
                false => Done::own(output),
            }
        }
        Err(error) => Done::own(ToolOutput::error(format!("memory did not answer: {error}"))),
    }
}

pub(crate) async fn remember(
    memory: &Memory,
    arguments: &Value,
    source: Option<EventId>,
    provenance: Provenance,
) -> ToolOutput {
    let Some(text) = arguments.get("text").and_then(Value::as_str) else {
        return ToolOutput::error("remember needs `text`, one full sentence");
    };
    match memory.remember(text, source, provenance).await {
        Ok(_) => ToolOutput::ok(format!("remembered: {}", text.trim())),
        Err(error) => ToolOutput::error(format!("not remembered: {error}")),
    }
}

/// Most facts that are looked up by the runtime itself.
const MAX_FACTS: usize = 3;
/// Facts looked at for them.
const CANDIDATES: usize = 8;
/// Nearness in meaning from which a fact is about a message although they share no word.
const NEAR: f64 = 0.6;
/// Longest fact in a message, in characters.
const MAX_FACT_LEN: usize = 220;

/// A fact that was put before a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RememberedFact {
    /// The fact.
    pub id: String,
    /// How well it fitted.
    pub score: f64,
    /// What was sent.
    pub text: String,
}

impl Toolbox {
    /// Looks up what is known about a message; a memory that does not answer is no reason to fail.
    pub async fn remembered(&self, words: &str) -> Vec<RememberedFact> {
        remembered(self.memory(), words).await
    }
}

async fn remembered(memory: &Memory, words: &str) -> Vec<RememberedFact> {
    let Some(query) = relevance::Query::of(words) else { return Vec::new() };
    let request = RecallRequest::new(words).limit(CANDIDATES).scope(Scope::FACTS);
    let found = match memory.recall(request).await {
        Ok(answer) => answer.items,
        Err(error) => {
            tracing::warn!(%error, "memory did not answer");
            return Vec::new();
        }
    };
    let mut facts: Vec<RememberedFact> = found
        .iter()
        // What nobody vouches for is only told to those who ask for it.
        .filter(|fact| fact.provenance != Provenance::Untrusted)
        .filter_map(|fact| {
            let near = fact.why.dense >= NEAR;
            let score = query.fit(&fact.text).or(near.then_some(fact.why.dense))?;
            let moment = fact.as_of.to_local_rfc3339();
            let text = nexus_base::text::shorten(&fact.text, MAX_FACT_LEN);
            let text = format!("{}: {text}", moment.get(..10).unwrap_or(&moment));
            Some(RememberedFact { id: fact.item.as_str().to_owned(), score, text })
        })
        .collect();
    facts.sort_by(|left, right| right.score.total_cmp(&left.score));
    facts.truncate(MAX_FACTS);
    facts
}
