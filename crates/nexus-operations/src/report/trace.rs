//! The story of a request, put together from its trace row and the ledger.

use std::collections::HashMap;

use nexus_base::id::{RequestId, SessionLabel};
use nexus_base::redact::Redactor;
use nexus_base::text::shorten;
use nexus_protocol::status::SessionView;
use nexus_protocol::trace::{AccessView, RequestSummary, RequestView, StageTiming, ToolCallView};
use nexus_store::agents::{CallRecord, Item, TaskStatus, TurnRecord};
use nexus_store::runtime::Request;
use nexus_store::{Store, StoreError};
use serde_json::Value;

/// How much of a text a trace shows.
const SHOWN: usize = 600;
/// How much of a text a listing shows.
const LISTED: usize = 80;

/// Returns a request and everything it led to; the request may be any of the tree.
///
/// # Errors
/// A database cannot be read.
pub(crate) async fn request_view(
    store: &Store,
    redactor: &Redactor,
    id: &RequestId,
) -> Result<Option<RequestView>, StoreError> {
    let Some(own) = store.runtime().request(id.clone()).await? else { return Ok(None) };
    let tree = store.runtime().request_tree(own.root_request_id.clone()).await?;
    let items = store.agents().items_of_tree(id).await?;
    let mut views = HashMap::new();
    for request in tree.iter().chain([&own]) {
        if views.contains_key(&request.id) {
            continue;
        }
        let item = items.iter().find(|item| item.new.request_id == request.id);
        let turn = match item.and_then(|item| item.turn_id.as_ref()) {
            Some(turn) => store.agents().turn(turn).await?,
            None => None,
        };
        let lines = store.agents().lines_of_request(&request.id).await?;
        let output = lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n\n");
        let output = if output.is_empty() { last_words(turn.as_ref()) } else { output };
        let input = words_of(store, item, request).await?;
        views.insert(request.id.clone(), one(request, item, turn.as_ref(), (&input, &output), redactor));
    }
    Ok(assemble(&mut views, &tree, id))
}

/// Returns what was asked; one that is held back or was refused has no place in a queue.
async fn words_of(store: &Store, item: Option<&Item>, request: &Request) -> Result<String, StoreError> {
    if let Some(item) = item {
        return Ok(item.new.content.clone());
    }
    let event = store.events().get(request.event_id.clone()).await?;
    Ok(event.map(|event| event.body.content).unwrap_or_default())
}

/// Returns the newest requests that no other request led to.
///
/// # Errors
/// A database cannot be read.
pub(crate) async fn recent_requests(store: &Store, limit: usize) -> Result<Vec<RequestSummary>, StoreError> {
    // Workers and their results stand below their roots, so more rows are looked at than shown.
    let looked_at = u32::try_from(limit.saturating_mul(8)).unwrap_or(u32::MAX);
    let requests = store.runtime().recent_requests(looked_at).await?;
    let mut summaries = Vec::new();
    for request in requests.iter().filter(|request| request.parent_request_id.is_none()).take(limit) {
        let item = store.agents().item_of_request(&request.id).await?;
        let input = words_of(store, item.as_ref(), request).await?;
        summaries.push(RequestSummary {
            request_id: request.id.clone(),
            event_type: request.event_type.clone(),
            session: request.found.session_key.clone(),
            status: request.status.as_str().to_owned(),
            input: shorten(&input, LISTED),
            started_at: request.started_at,
            duration_ms: request
                .completed_at
                .map(|end| u64::try_from(end.since(request.started_at).as_millis()).unwrap_or(u64::MAX)),
        });
    }
    Ok(summaries)
}

/// Returns the sessions, most recently used first.
///
/// # Errors
/// The database cannot be read.
pub(crate) async fn sessions(store: &Store, limit: usize) -> Result<Vec<SessionView>, StoreError> {
    let rows = store.agents().sessions(limit).await?;
    Ok(rows
        .into_iter()
        .map(|row| SessionView {
            session: row.session.label,
            persona: row.session.persona,
            status: row.session.status,
            task_status: row.session.task_status.map(|status: TaskStatus| status.as_str().to_owned()),
            task: row.session.task.map(|task| shorten(&task, SHOWN)),
            parent: row.session.parent,
            turns: row.turns,
            queued: row.queued,
            running: row.running,
            updated_at: row.session.updated_at,
        })
        .collect())
}

/// Takes a request's view out of the map and hangs its children under it.
fn assemble(
    views: &mut HashMap<RequestId, RequestView>,
    tree: &[Request],
    id: &RequestId,
) -> Option<RequestView> {
    let mut view = views.remove(id)?;
    for child in tree.iter().filter(|request| request.parent_request_id.as_ref() == Some(id)) {
        view.children.extend(assemble(views, tree, &child.id));
    }
    Some(view)
}

fn one(
    request: &Request,
    item: Option<&Item>,
    turn: Option<&TurnRecord>,
    (input, output): (&str, &str),
    redactor: &Redactor,
) -> RequestView {
    let calls = turn.map(|turn| turn.messages.iter().flat_map(|message| &message.calls).collect::<Vec<_>>());
    RequestView {
        request_id: request.id.clone(),
        parent_request_id: request.parent_request_id.clone(),
        event_id: request.event_id.clone(),
        event_type: request.event_type.clone(),
        event_source: request.event_source.clone(),
        stage: request.stage.clone(),
        status: request.status.as_str().to_owned(),
        access: request
            .found
            .access_decision
            .clone()
            .map(|decision| AccessView { decision, policy: request.found.access_policy.clone() }),
        session: item.map(|item| item.new.session.clone()).or_else(|| request.found.session_key.clone()),
        turn_id: item.and_then(|item| item.turn_id.clone()),
        attempts: item.map_or(0, |item| item.attempt),
        model: turn.and_then(|turn| turn.model.clone()),
        // Redacted before it is cut: half a secret would not be known for one.
        input: shorten(&redactor.redact(input), SHOWN),
        output: shorten(&redactor.redact(output), SHOWN),
        input_tokens: turn.map_or(0, |turn| turn.input_tokens),
        output_tokens: turn.map_or(0, |turn| turn.output_tokens),
        started_at: request.started_at,
        completed_at: request.completed_at,
        stages: request
            .timings
            .iter()
            .map(|timing| StageTiming {
                stage: timing.stage.clone(),
                started_at: timing.started_at,
                duration_us: timing.duration_us,
            })
            .collect(),
        tool_calls: calls.unwrap_or_default().into_iter().map(|call| tool_call(call, redactor)).collect(),
        untrusted: turn
            .and_then(|turn| turn.taint.as_deref())
            .map(|sources| sources.lines().map(|source| redactor.redact(source)).collect())
            .unwrap_or_default(),
        error: item.and_then(|item| item.error.clone()).or_else(|| request.found.error_message.clone()),
        children: Vec::new(),
    }
}

fn tool_call(call: &CallRecord, redactor: &Redactor) -> ToolCallView {
    let arguments = redactor.redact(&call.arguments_json);
    ToolCallView {
        tool: call.tool.clone(),
        arguments: serde_json::from_str(&arguments).unwrap_or(Value::String(arguments)),
        status: call.status.as_str().to_owned(),
        result: redactor.redact_cut(&shorten(call.result.as_deref().unwrap_or_default(), SHOWN)),
        duration_ms: call
            .completed_at
            .map(|end| u64::try_from(end.since(call.started_at).as_millis()).unwrap_or(u64::MAX)),
        spawned_session: call.spawned.as_ref().map(|label| SessionLabel::new(label.as_str())),
    }
}

fn last_words(turn: Option<&TurnRecord>) -> String {
    let last = turn.and_then(|turn| turn.messages.iter().rev().find(|message| !message.content.is_empty()));
    match last {
        Some(message) if message.role == nexus_store::agents::MessageRole::Assistant => {
            message.content.clone()
        }
        Some(_) | None => String::new(),
    }
}
