//! Memory as the owner uses it: the same answers for the control plane and for the command while no
//! daemon runs.

use crate::sessions::AgentRequest;
use nexus_base::id::{EntityId, FactId};
use nexus_identity::{DataLevel, Permissions};
use nexus_memory::{Beside, Budget, Memory, MemoryError, Provenance, RecallRequest, Recalled, Scope, Viewer};
use nexus_protocol::memory::{
    MemoryAdd, MemoryAdded, MemoryBudget, MemoryChangesOf, MemoryEntities, MemoryEntity, MemoryForget,
    MemoryForgotten, MemoryFound, MemoryItem, MemoryRecall, MemoryScope, MemoryStats,
};
use nexus_store::Store;
use nexus_store::events::conversation_key;
use nexus_store::identity::OWNER_ID;
use nexus_workspace::Layout;
use serde_json::Value;

/// Items given when the caller does not say how many.
const USUAL: usize = 10;
/// Most entities in one answer.
const MAX_ENTITIES: u32 = 1000;

/// Memory with the workspace around it.
#[derive(Debug, Clone)]
pub struct MemoryService {
    memory: Memory,
    store: Store,
    layout: Layout,
}

impl MemoryService {
    pub fn new(memory: Memory, store: Store, layout: Layout) -> Self {
        Self { memory, store, layout }
    }

    /// Answers `memory.recall`.
    pub async fn recall(&self, asked: MemoryRecall) -> Result<MemoryFound, MemoryError> {
        let mut request = RecallRequest::new(asked.query).limit(asked.limit.unwrap_or(USUAL));
        request.scope = match asked.scope.unwrap_or(MemoryScope::All) {
            MemoryScope::All => Scope::ALL,
            MemoryScope::Facts => Scope::FACTS,
            MemoryScope::Turns => Scope::TURNS,
        };
        request.budget = match asked.budget.unwrap_or(MemoryBudget::Mid) {
            MemoryBudget::Low => Budget::Low,
            MemoryBudget::Mid => Budget::Mid,
            MemoryBudget::High => Budget::High,
        };
        (request.after, request.before) = (asked.after, asked.before);
        request.about = asked.about.map(EntityId::new);
        let answer = self.memory.recall(request).await?;
        Ok(found(&answer.items, answer.not_indexed))
    }

    /// Answers `memory.add`: the owner's own words.
    pub async fn add(&self, asked: MemoryAdd) -> Result<MemoryAdded, MemoryError> {
        let id = self.memory.remember(&asked.text, None, whose(asked.by_agent)).await?;
        let kept = self.store.memory().fact(id.clone()).await?;
        Ok(MemoryAdded { id: id.to_string(), text: kept.map_or(asked.text, |fact| fact.text) })
    }

    /// Answers `memory.changes`: what was learnt last, with whose words it is.
    pub async fn changes(&self, asked: MemoryChangesOf) -> Result<MemoryFound, MemoryError> {
        let mut recent = self.memory.recent(asked.limit.unwrap_or(USUAL)).await?;
        recent.retain(|fact| !asked.untrusted || fact.provenance == Provenance::Untrusted);
        Ok(found(&recent, self.memory.not_indexed().await?))
    }

    /// Answers `memory.entities`.
    pub async fn entities(&self) -> Result<MemoryEntities, MemoryError> {
        let facts = self.store.memory().facts_per_entity().await?;
        let known = self.store.identity().list_entities(MAX_ENTITIES).await?;
        let entities = known.into_iter().map(|entity| MemoryEntity {
            facts: facts.get(&entity.id).copied().unwrap_or(0),
            id: entity.id.to_string(),
            name: entity.name,
            kind: entity.kind,
            is_owner: entity.is_user,
            source: entity.source.as_str().to_owned(),
            mentions: entity.mention_count,
        });
        Ok(MemoryEntities { entities: entities.collect() })
    }

    /// Answers `memory.forget`.
    pub async fn forget(&self, asked: MemoryForget) -> Result<MemoryForgotten, MemoryError> {
        self.memory.finish_forgetting(&beside(&self.layout)).await?;
        if !asked.source {
            let forgotten = self.memory.forget_fact(FactId::new(asked.id)).await?;
            return Ok(MemoryForgotten {
                facts: vec![forgotten.id.to_string()],
                source_remains: forgotten.source.is_some(),
                source_event: forgotten.source.map(|event| event.to_string()),
                rows: 1,
                files: Vec::new(),
            });
        }
        // Logs and notes quote what was said.
        let forgotten = self.memory.forget_source(&asked.id, &beside(&self.layout)).await?;
        Ok(MemoryForgotten {
            facts: forgotten.facts.iter().map(ToString::to_string).collect(),
            source_event: forgotten.event.map(|event| event.to_string()),
            source_remains: false,
            rows: forgotten.rows,
            files: forgotten.files.iter().map(|file| file.display().to_string()).collect(),
        })
    }

    /// Answers `memory.stats`.
    pub async fn stats(&self) -> Result<MemoryStats, MemoryError> {
        let counts = self.memory.counts().await?;
        let vectors = self.memory.vector_counts().await?;
        let size =
            |file: &str| std::fs::metadata(self.layout.data().join(file)).map_or(0, |found| found.len());
        let bytes =
            size("memory.db") + size("memory.db-wal") + vectors.facts * nexus_memory::BYTES_PER_VECTOR;
        Ok(MemoryStats {
            facts: counts.facts,
            entities: counts.entities,
            turns: self.store.events().turn_count().await?,
            vectors: vectors.facts + vectors.turns,
            not_indexed: self.memory.not_indexed().await?,
            model: vectors.model,
            bytes,
            bytes_per_fact: bytes.checked_div(counts.facts),
        })
    }
}

/// Returns the files beside the databases that may quote what was said.
pub fn beside(layout: &Layout) -> Beside {
    Beside {
        folder: layout.state().to_owned(),
        except: vec![layout.data(), layout.config().to_owned(), layout.credentials()],
    }
}

/// Returns how much of memory a turn's tools may see: what was decided when its message was let in.
pub(crate) fn viewer(request: &AgentRequest<'_>) -> Viewer {
    match Permissions::of(&request.item.new.permissions).data {
        DataLevel::Full => Viewer::Owner,
        DataLevel::None => Viewer::Nobody,
        DataLevel::Minimal | DataLevel::Contextual => {
            let label = request.session.label.as_str();
            let entity = label.strip_prefix("dm:").map(EntityId::new);
            Viewer::Shared {
                entities: entity.filter(|entity| entity.as_str() != OWNER_ID).into_iter().collect(),
                conversations: [conversation_key("nexus", label)].into(),
            }
        }
    }
}

/// Returns whose words a fact is that somebody adds.
const fn whose(by_agent: bool) -> Provenance {
    if by_agent { Provenance::Agent } else { Provenance::Owner }
}

fn found(items: &[Recalled], not_indexed: u64) -> MemoryFound {
    let items: Vec<MemoryItem> = items.iter().map(view).collect();
    MemoryFound {
        facts: items.iter().filter(|item| item.kind == "fact").cloned().collect(),
        items,
        not_indexed,
    }
}

fn view(item: &Recalled) -> MemoryItem {
    let why = match serde_json::to_value(item.why) {
        Ok(Value::Object(parts)) => parts,
        Ok(_) | Err(_) => serde_json::Map::new(),
    };
    MemoryItem {
        kind: if item.fact_id().is_some() { "fact" } else { "turn" }.to_owned(),
        id: item.item.as_str().to_owned(),
        text: item.text.clone(),
        as_of: item.as_of,
        score: item.score,
        why,
        provenance: item.provenance.as_str().to_owned(),
        speaker: item.speaker.clone(),
        source_event: item.source_event.as_ref().map(ToString::to_string),
        entity_ids: item.entity_ids.iter().map(ToString::to_string).collect(),
    }
}
