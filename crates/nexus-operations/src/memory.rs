//! Memory: asked, added to, looked at and made to forget.

use nexus_base::id::{EntityId, FactId};
use nexus_memory::{Budget, Memory, MemoryError, Provenance, RecallRequest, Recalled, Scope, Viewer};
use nexus_pipeline::memory_service::beside;
use nexus_protocol::control::Nothing;
use nexus_protocol::memory::{
    MemoryAdd, MemoryAdded, MemoryBudget, MemoryChangesOf, MemoryEntities, MemoryEntity, MemoryForget,
    MemoryForgotten, MemoryFound, MemoryItem, MemoryRecall, MemoryScope, MemoryStats,
};
use serde_json::Value;

use crate::RuntimeError;
use crate::call::{Call, internal, missing};

/// Items given when the caller does not say how many.
const DEFAULT_ITEMS: usize = 10;
/// Most entities in one answer.
const MAX_ENTITIES: u32 = 1000;

pub(crate) async fn recall(call: &Call<'_>, asked: MemoryRecall) -> Result<MemoryFound, RuntimeError> {
    let mut request = RecallRequest::new(asked.query).limit(asked.limit.unwrap_or(DEFAULT_ITEMS));
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
    let answer = memory(call).recall(request).await.map_err(refused)?;
    Ok(found(&answer.items, answer.not_indexed))
}

pub(crate) async fn add(call: &Call<'_>, asked: MemoryAdd) -> Result<MemoryAdded, RuntimeError> {
    let whose = call.caller.as_worker().map_or_else(|| whose(asked.by_agent), |worker| worker.provenance);
    let id = memory(call).remember(&asked.text, None, whose).await.map_err(refused)?;
    let kept = call.store.memory().fact(id.clone()).await?;
    Ok(MemoryAdded { id: id.to_string(), text: kept.map_or(asked.text, |fact| fact.text) })
}

/// What was learnt last, with whose words it is.
pub(crate) async fn changes(call: &Call<'_>, asked: MemoryChangesOf) -> Result<MemoryFound, RuntimeError> {
    if call.caller.viewer() != Viewer::Owner {
        return Err(call.refuse("what was learnt last is shown to the owner's own agents only".to_owned()));
    }
    let memory = memory(call);
    let mut recent = memory.recent(asked.limit.unwrap_or(DEFAULT_ITEMS)).await.map_err(refused)?;
    recent.retain(|fact| !asked.untrusted || fact.provenance == Provenance::Untrusted);
    Ok(found(&recent, memory.not_indexed().await.map_err(refused)?))
}

pub(crate) async fn entities(call: &Call<'_>, _: Nothing) -> Result<MemoryEntities, RuntimeError> {
    let facts = call.store.memory().facts_per_entity().await?;
    let known = call.store.identity().list_entities(MAX_ENTITIES).await?;
    let viewer = call.caller.viewer();
    let is_shown = |entity: &EntityId| match &viewer {
        Viewer::Owner => true,
        Viewer::Shared { entities, .. } => entities.contains(entity),
        Viewer::Nobody => false,
    };
    let known = known.into_iter().filter(|entity| is_shown(&entity.id));
    let entities = known.map(|entity| MemoryEntity {
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

pub(crate) async fn stats(call: &Call<'_>, _: Nothing) -> Result<MemoryStats, RuntimeError> {
    let memory = memory(call);
    let counts = memory.counts().await.map_err(refused)?;
    let vectors = memory.vector_counts().await.map_err(refused)?;
    let data = call.layout().data();
    let size = |file: &str| std::fs::metadata(data.join(file)).map_or(0, |found| found.len());
    let bytes = size("memory.db") + size("memory.db-wal") + vectors.facts * nexus_memory::BYTES_PER_VECTOR;
    Ok(MemoryStats {
        facts: counts.facts,
        entities: counts.entities,
        turns: call.store.events().turn_count().await?,
        vectors: vectors.facts + vectors.turns,
        not_indexed: memory.not_indexed().await.map_err(refused)?,
        model: vectors.model,
        bytes,
        bytes_per_fact: bytes.checked_div(counts.facts),
    })
}

pub(crate) async fn forget(call: &Call<'_>, asked: MemoryForget) -> Result<MemoryForgotten, RuntimeError> {
    let (memory, beside) = (memory(call), beside(call.layout()));
    memory.finish_forgetting(&beside).await.map_err(refused)?;
    if !asked.source {
        let forgotten = memory.forget_fact(FactId::new(asked.id)).await.map_err(refused)?;
        return Ok(MemoryForgotten {
            facts: vec![forgotten.id.to_string()],
            source_remains: forgotten.source.is_some(),
            source_event: forgotten.source.map(|event| event.to_string()),
            rows: 1,
            files: Vec::new(),
        });
    }
    // Logs and notes quote what was said.
    let forgotten = memory.forget_source(&asked.id, &beside).await.map_err(refused)?;
    Ok(MemoryForgotten {
        facts: forgotten.facts.iter().map(ToString::to_string).collect(),
        source_event: forgotten.event.map(|event| event.to_string()),
        source_remains: false,
        rows: forgotten.rows,
        files: forgotten.files.iter().map(|file| file.display().to_string()).collect(),
    })
}

/// Returns the memory as far as the caller may see it.
fn memory(call: &Call<'_>) -> Memory {
    match call.running {
        Some(operations) => operations.daemon().agent_factory.memory.seen_by(call.caller.viewer()),
        // Nothing is counted and no vector is kept where nothing is written.
        None if call.method.entry().is_mutating() => Memory::new(call.store),
        None => Memory::read_only(call.store),
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

fn refused(error: MemoryError) -> RuntimeError {
    match error {
        MemoryError::Unknown { id } => missing("fact or event", id),
        MemoryError::Empty | MemoryError::TooLong { .. } | MemoryError::Busy { .. } => {
            RuntimeError::Invalid { message: error.to_string(), hint: error.hint() }
        }
        MemoryError::Store(error) => error.into(),
        MemoryError::Interrupted | MemoryError::Files { .. } => internal(&error),
    }
}
