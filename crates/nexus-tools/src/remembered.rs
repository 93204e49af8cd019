//! What memory knows about a message before anybody asks for it.

use nexus_memory::{Memory, Provenance, RecallRequest, Scope};
use serde::{Deserialize, Serialize};

use crate::{Toolbox, relevance};

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
