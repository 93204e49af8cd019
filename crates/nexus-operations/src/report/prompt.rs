//! What a model was sent, part by part, and what stands for the turns it was not sent.

use nexus_agent::{ContextRecord, PromptPart, SentPart};
use nexus_base::id::{RequestId, SessionLabel};
use nexus_base::redact::Redactor;
use nexus_protocol::control::CompactionView;
use nexus_protocol::trace::{PromptPartView, PromptView, RememberedView};
use nexus_store::agents::{Compaction, MessageRole};
use nexus_store::{Store, StoreError};

/// Returns what the turn of a request was sent; none when there is no such request or its turn was not
/// sent anything yet.
///
/// # Errors
/// A database cannot be read.
pub(crate) async fn prompt_view(store: &Store, id: &RequestId) -> Result<Option<PromptView>, StoreError> {
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

/// Returns the same with the words of every part that are still kept, known secrets hidden. Each tool stands
/// for itself then. Earlier turns are what `nexus sessions` shows, and keep to their size here.
///
/// # Errors
/// A database cannot be read.
pub(crate) async fn prompt_in_full(
    store: &Store,
    redactor: &Redactor,
    id: &RequestId,
) -> Result<Option<PromptView>, StoreError> {
    let Some(mut view) = prompt_view(store, id).await? else { return Ok(None) };
    let record = store.agents().turn_context(&view.turn_id).await?.unwrap_or_default();
    let record: ContextRecord = serde_json::from_str(&record).unwrap_or_default();
    let kept = match &record.prompt {
        Some(prompt) => store.agents().prompt(prompt).await?.unwrap_or_default(),
        None => String::new(),
    };
    let kept: Vec<SentPart> = serde_json::from_str(&kept).unwrap_or_default();
    let (tools, system): (Vec<_>, Vec<_>) = kept.into_iter().partition(|part| part.section == "tools");
    let words = store.agents().turn(&view.turn_id).await?.and_then(|turn| {
        let mut said = turn.messages.into_iter().rev();
        said.find(|message| message.role == MessageRole::User).map(|message| (message.frame, message.content))
    });
    let mut system = system.into_iter();
    for part in &mut view.parts {
        part.text = match (part.section.as_str(), part.name.as_str()) {
            ("system", _) => system.next().map(|kept| redactor.redact(&kept.text)),
            ("message", "words") => words.as_ref().map(|(_, words)| redactor.redact(words)),
            // Memory and additions stand inside it.
            ("message", "context") => {
                words.as_ref().and_then(|(frame, _)| Some(redactor.redact(frame.as_deref()?)))
            }
            (_, _) => None,
        };
    }
    if !tools.is_empty() {
        let each = tools.into_iter().map(|tool| PromptPartView {
            section: tool.section,
            name: tool.name,
            bytes: wide(tool.text.len()),
            cut_from: None,
            text: Some(redactor.redact(&tool.text)),
        });
        let rest = view.parts.split_off(1);
        view.parts.extend(each);
        view.parts.extend(rest);
    }
    Ok(Some(view))
}

fn parts(record: &ContextRecord) -> Vec<PromptPartView> {
    let part = |section: &str, name: &str, bytes: usize| PromptPartView {
        section: section.to_owned(),
        name: name.to_owned(),
        bytes: wide(bytes),
        cut_from: None,
        text: None,
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
pub(crate) async fn compactions(
    store: &Store,
    session: Option<&SessionLabel>,
    limit: usize,
) -> Result<Vec<CompactionView>, StoreError> {
    let listed = store.agents().compactions(session, limit).await?;
    Ok(listed.into_iter().map(compaction_view).collect())
}

/// Shows one compaction.
pub(crate) fn compaction_view(compaction: Compaction) -> CompactionView {
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
