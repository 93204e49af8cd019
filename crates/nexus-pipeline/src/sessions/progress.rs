//! What a running turn shows: bus events and the trace's stages.

use std::time::Duration;

use nexus_agent::ports::Progress;
use nexus_base::clock::Timestamp;
use nexus_base::conversation::Role;
use nexus_base::text::shorten;
use nexus_protocol::bus::BusBody;
use nexus_protocol::trace::Stage;
use nexus_store::agents::{ClaimedTurn, Item};

use crate::sessions::broker::Shared;
use crate::sessions::engine::Passage;

/// Longest summary of a call shown while it runs.
const SUMMARY_LENGTH: usize = 120;

/// Says that a turn begins.
pub(crate) fn announce(shared: &Shared, claimed: &ClaimedTurn, last: &Item) {
    for item in &claimed.items {
        shared.parts.observer.taken(item, &claimed.session);
    }
    shared.parts.observer.publish(
        &last.new.root_request_id,
        BusBody::TurnStarted {
            request_id: last.new.request_id.clone(),
            session: claimed.session.label.clone(),
            turn_id: claimed.turn.id.clone(),
            attempt: claimed.turn.attempt,
            speaker: shared.parts.engine.speaker(),
        },
    );
}

/// Notes that a turn's requests passed a stage.
pub(crate) fn passed(shared: &Shared, items: &[Item], stage: Stage, started: Timestamp, took: Duration) {
    for item in items {
        let (request, root) = (&item.new.request_id, &item.new.root_request_id);
        shared.parts.observer.passed(&Passage { request, root, stage, started, took });
    }
}

/// Shows what a turn does while it runs.
pub(crate) fn show(shared: &Shared, claimed: &ClaimedTurn, last: &Item, progress: &Progress<'_>) {
    let session = claimed.session.label.clone();
    let turn_id = claimed.turn.id.clone();
    let body = match progress {
        // What a worker says while it works is its own business; its report is what counts.
        Progress::Text(_) if claimed.session.role == Role::Worker => return,
        Progress::Text(text) => BusBody::Delta {
            request_id: last.new.request_id.clone(),
            session,
            turn_id,
            attempt: claimed.turn.attempt,
            text: (*text).to_owned(),
        },
        Progress::Used { usage } => BusBody::Used {
            session,
            turn_id,
            input_tokens: usage.input + usage.cache_read + usage.cache_write,
            cached_input_tokens: usage.cache_read,
            output_tokens: usage.output,
        },
        Progress::Compacted { compacted } => BusBody::Compacted {
            session,
            turn_id,
            compaction_id: compacted.id.clone(),
            turns: u64::try_from(compacted.turns).unwrap_or(u64::MAX),
            tokens_before: compacted.tokens.0,
            tokens_after: compacted.tokens.1,
        },
        Progress::CallStarted { call } => BusBody::ToolStarted {
            session,
            turn_id,
            tool_call_id: call.id.clone(),
            tool: call.tool.clone(),
            summary: summary(&call.arguments),
        },
        Progress::CallEnded { call, is_error, milliseconds } => BusBody::ToolEnded {
            session,
            turn_id,
            tool_call_id: call.id.clone(),
            tool: call.tool.clone(),
            is_error: *is_error,
            duration_ms: *milliseconds,
        },
    };
    shared.parts.observer.publish(&last.new.root_request_id, body);
}

/// Shows the argument a person would ask about first.
fn summary(arguments: &serde_json::Value) -> String {
    let told = ["command", "path", "pattern", "query", "op", "text"]
        .iter()
        .find_map(|name| arguments.get(name).and_then(serde_json::Value::as_str))
        .unwrap_or_default();
    let line = told.lines().next().unwrap_or_default();
    shorten(line, SUMMARY_LENGTH)
}
