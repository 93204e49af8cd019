//! Memory over the control plane: asking, adding, looking at what is known and who is known, and
//! forgetting.

use nexus_base::clock::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Parameters of `memory.recall`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryRecall {
    /// What to look for.
    pub query: String,
    /// At most this many items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// How hard to look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<MemoryBudget>,
    /// Where to look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<MemoryScope>,
    /// Only facts about this entity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Only what was so at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Timestamp>,
    /// Only what was so before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Timestamp>,
}

/// How hard to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryBudget {
    /// By meaning alone.
    Low,
    /// By meaning and words.
    Mid,
    /// With more candidates and with causes.
    High,
}

/// Where to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryScope {
    /// Facts and turns.
    All,
    /// Facts alone.
    Facts,
    /// Turns alone.
    Turns,
}

/// Answer to `memory.recall` and `memory.changes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryFound {
    /// Everything, best first.
    pub items: Vec<MemoryItem>,
    /// The facts among them.
    pub facts: Vec<MemoryItem>,
    /// Rows whose meaning is not indexed yet.
    pub not_indexed: u64,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryItem {
    /// fact or turn.
    pub kind: String,
    /// Its id.
    pub id: String,
    /// Its words.
    pub text: String,
    /// When it was so, or was said.
    pub as_of: Timestamp,
    /// How well it fits, at most 1.
    pub score: f64,
    /// The parts of its score.
    pub why: Map<String, Value>,
    /// Whose words: owner, agent, untrusted.
    pub provenance: String,
    /// Who said it, for turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaker: Option<String>,
    /// The event a fact was learnt from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_event: Option<String>,
    /// Whom and what a fact is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entity_ids: Vec<String>,
}

/// Parameters of `memory.add`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryAdd {
    /// The fact, as one sentence.
    pub text: String,
    /// An agent worked it out; the owner did not say it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_agent: bool,
}

/// Answer to `memory.add`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryAdded {
    /// The fact.
    pub id: String,
    /// Its sentence as it was kept.
    pub text: String,
}

/// Parameters of `memory.changes`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryChangesOf {
    /// At most this many, newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Only those that nobody vouches for.
    #[serde(default)]
    pub untrusted: bool,
}

/// Parameters of `memory.forget`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryForget {
    /// A fact; with `source` also an event.
    pub id: String,
    /// Whether everything it came from goes too.
    #[serde(default)]
    pub source: bool,
}

/// Answer to `memory.forget`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryForgotten {
    /// Facts that are gone.
    pub facts: Vec<String>,
    /// The event they came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_event: Option<String>,
    /// Whether that event still holds the words.
    pub source_remains: bool,
    /// Rows that were overwritten or removed.
    pub rows: u64,
    /// Files that were changed, besides the databases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// Answer to `memory.entities`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryEntities {
    /// The owner first, then those seen last.
    pub entities: Vec<MemoryEntity>,
}

/// Somebody or something that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryEntity {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// person, place, persona, …
    pub kind: String,
    /// Whether it is the owner.
    pub is_owner: bool,
    /// How it became known: delivery, inferred, imported, manual.
    pub source: String,
    /// How often it was spoken of.
    pub mentions: u64,
    /// Facts about it.
    pub facts: u64,
}

/// Answer to `memory.stats`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryStats {
    /// Facts.
    pub facts: u64,
    /// Entities that facts are about.
    pub entities: u64,
    /// Turns that can be found.
    pub turns: u64,
    /// Vectors of facts and of turns.
    pub vectors: u64,
    /// Rows without a vector.
    pub not_indexed: u64,
    /// What makes the vectors.
    pub model: String,
    /// Bytes of `memory.db` and of the vectors.
    pub bytes: u64,
    /// The same for each fact; none without facts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_fact: Option<u64>,
}
