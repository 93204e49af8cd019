//! What a model was sent, part by part, and what stands for the turns it was not sent.

use nexus_agent::{ContextRecord, PromptPart};
use nexus_base::id::{RequestId, SessionLabel};
use nexus_protocol::control::CompactionView;
use nexus_protocol::trace::{PromptPartView, PromptView, RememberedView};
use nexus_store::agents::Compaction;
use nexus_store::{Store, StoreError};

/// Returns what the turn of a request was sent; none when there is no such request or its turn was not
/// sent anything yet.
///
/// # Errors
/// A database cannot be read.
pub async fn prompt_view(store: &Store, id: &RequestId) -> Result<Option<PromptView>, StoreError> {
    let Some(item) = store.agents().item_of_request(id).await? else { return Ok(None) };
    let Some(turn_id) = item.turn_id.clone() else { return Ok(None) };
    let Some(text) = store.agents().turn_context(&turn_id).await? else { return Ok(None) };
    let model = store.agents().turn(&turn_id).await?.and_then(|turn| turn.model);
    // Written by us; a hand-edited row shows no parts rather than failing.
    let record: ContextRecord = serde_json::from_str(&text).unwrap_or_default();
    Ok(Some(PromptView {
        request_id: id.clone(),
        turn_id,
        session: item.new.session,
        model,
        parts: parts(&record),
        total_bytes: wide(record.total_bytes),
        memory: record
            .memory
            .into_iter()
            .map(|fact| RememberedView { id: fact.id, score: fact.score, text: fact.text })
            .collect(),
        compactions: record.compactions,
    }))
}

fn parts(record: &ContextRecord) -> Vec<PromptPartView> {
    let part = |section: &str, name: &str, bytes: usize| PromptPartView {
        section: section.to_owned(),
        name: name.to_owned(),
        bytes: wide(bytes),
        cut_from: None,
    };
    let named = |section: &str, one: &PromptPart| PromptPartView {
        cut_from: one.cut_from.map(wide),
        ..part(section, &one.name, one.bytes)
    };
    let mut parts = vec![part("tools", &format!("{} tools", record.tools.count), record.tools.bytes)];
    parts.extend(record.system.iter().map(|one| named("system", one)));
    parts.extend(record.summary_bytes.map(|bytes| part("history", "summary", bytes)));
    if record.history.count > 0 {
        let name = format!("{} earlier turns", record.history.count);
        parts.push(part("history", &name, record.history.bytes));
    }
    // Additions stand inside the block; what is left of it are the facts about the message.
    let memory = if record.memory.is_empty() { 0 } else { memory_bytes(record) };
    let added: usize = record.additions.iter().map(|one| one.bytes).sum();
    parts.push(part("message", "context", record.frame_bytes.saturating_sub(memory + added)));
    if memory > 0 {
        parts.push(part("message", &format!("memory, {} facts", record.memory.len()), memory));
    }
    parts.extend(record.additions.iter().map(|one| named("message", one)));
    parts.push(part("message", "words", record.words_bytes));
    parts
}

/// Size of the block that the facts stand in: each on a line of its own, between two lines.
fn memory_bytes(record: &ContextRecord) -> usize {
    let lines: usize = record.memory.iter().map(|fact| fact.text.len() + "  - \n".len()).sum();
    lines + "<memory_context>\n</memory_context>\n".len()
}

/// Returns compactions, newest first: those of one session, or all.
///
/// # Errors
/// The database cannot be read.
pub async fn compactions(
    store: &Store,
    session: Option<&SessionLabel>,
    limit: usize,
) -> Result<Vec<CompactionView>, StoreError> {
    let listed = store.agents().compactions(session, limit).await?;
    Ok(listed.into_iter().map(compaction_view).collect())
}

/// Shows one compaction.
pub fn compaction_view(compaction: Compaction) -> CompactionView {
    let Compaction { new, created_at, undone_at } = compaction;
    CompactionView {
        id: new.id,
        session: new.session,
        turn_id: new.turn_id,
        turns: new.turns_summarized,
        shortened_results: wide(new.trims.len()),
        cause: new.cause.as_str().to_owned(),
        author: new.author,
        tokens_before: new.tokens_before,
        tokens_after: new.tokens_after,
        summary: new.summary,
        created_at,
        undone_at,
    }
}

fn wide(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}
