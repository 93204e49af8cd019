//! From rows to records.

use nexus_base::clock::Timestamp;
use nexus_base::id::{
    BootId, EventId, MessageId, OutboxId, QueueItemId, RequestId, SessionLabel, ToolCallId, TurnId,
};
use rusqlite::{Connection, OptionalExtension, Row};

use super::model::{CallRecord, Item, MessageRecord, NewItem, OutboxRecord, SessionRecord, TurnRecord};

pub(super) const SESSION_COLUMNS: &str = "label, head_turn_id, persona, role, parent_session_label, dispatch_id, \
     task_description, task_status, spawn_depth, settings_json, status, updated_at";

pub(super) const ITEM_COLUMNS: &str = "id, session_label, request_id, parent_request_id, root_request_id, \
     source_event_id, kind, mode, frame_json, content, permissions_json, status, outcome, attempt, boot_id, \
     turn_id, error, enqueued_at, finished_at";

pub(super) const OUTBOX_COLUMNS: &str =
    "id, turn_id, session_label, request_id, root_request_id, message_id, state, text, status, created_at";

pub(super) const TURN_COLUMNS: &str = "id, parent_turn_id, depth, status, session_label, request_id, attempt, \
     provider, model, stop_reason, error, input_tokens + cached_input_tokens + cache_write_tokens, output_tokens, \
     started_at, completed_at";

pub(super) fn session(row: &Row<'_>) -> rusqlite::Result<SessionRecord> {
    Ok(SessionRecord {
        label: SessionLabel::new(row.get::<_, String>(0)?),
        head_turn_id: row.get::<_, Option<String>>(1)?.map(TurnId::new),
        persona: row.get(2)?,
        role: row.get(3)?,
        parent: row.get::<_, Option<String>>(4)?.map(SessionLabel::new),
        dispatch_id: row.get::<_, Option<String>>(5)?.map(ToolCallId::new),
        task: row.get(6)?,
        task_status: row.get(7)?,
        depth: row.get(8)?,
        settings_json: row.get(9)?,
        status: row.get(10)?,
        updated_at: Timestamp(row.get(11)?),
    })
}

pub(super) fn item(row: &Row<'_>) -> rusqlite::Result<Item> {
    Ok(Item {
        new: NewItem {
            id: QueueItemId::new(row.get::<_, String>(0)?),
            session: SessionLabel::new(row.get::<_, String>(1)?),
            request_id: RequestId::new(row.get::<_, String>(2)?),
            parent_request_id: row.get::<_, Option<String>>(3)?.map(RequestId::new),
            root_request_id: RequestId::new(row.get::<_, String>(4)?),
            source_event_id: row.get::<_, Option<String>>(5)?.map(EventId::new),
            kind: row.get(6)?,
            mode: row.get(7)?,
            frame_json: row.get(8)?,
            content: row.get(9)?,
            permissions_json: row.get(10)?,
        },
        status: row.get(11)?,
        outcome: row.get(12)?,
        attempt: row.get(13)?,
        boot_id: row.get::<_, Option<String>>(14)?.map(BootId::new),
        turn_id: row.get::<_, Option<String>>(15)?.map(TurnId::new),
        error: row.get(16)?,
        enqueued_at: Timestamp(row.get(17)?),
        finished_at: row.get::<_, Option<i64>>(18)?.map(Timestamp),
    })
}

pub(super) fn outbox(row: &Row<'_>) -> rusqlite::Result<OutboxRecord> {
    Ok(OutboxRecord {
        id: OutboxId::new(row.get::<_, String>(0)?),
        turn_id: row.get::<_, Option<String>>(1)?.map(TurnId::new),
        session: SessionLabel::new(row.get::<_, String>(2)?),
        request_id: RequestId::new(row.get::<_, String>(3)?),
        root_request_id: RequestId::new(row.get::<_, String>(4)?),
        message_id: MessageId::new(row.get::<_, String>(5)?),
        state: row.get(6)?,
        text: row.get(7)?,
        status: row.get(8)?,
        created_at: Timestamp(row.get(9)?),
    })
}

pub(super) fn turn_without_messages(row: &Row<'_>) -> rusqlite::Result<TurnRecord> {
    let provider: Option<String> = row.get(7)?;
    let model: Option<String> = row.get(8)?;
    Ok(TurnRecord {
        id: TurnId::new(row.get::<_, String>(0)?),
        parent: row.get::<_, Option<String>>(1)?.map(TurnId::new),
        depth: row.get(2)?,
        status: row.get(3)?,
        session: SessionLabel::new(row.get::<_, String>(4)?),
        request_id: RequestId::new(row.get::<_, String>(5)?),
        attempt: row.get(6)?,
        model: provider.zip(model).map(|(provider, model)| format!("{provider}/{model}")),
        stop_reason: row.get(9)?,
        error: row.get(10)?,
        input_tokens: row.get(11)?,
        output_tokens: row.get(12)?,
        started_at: Timestamp(row.get(13)?),
        completed_at: row.get::<_, Option<i64>>(14)?.map(Timestamp),
        messages: Vec::new(),
    })
}

/// Loads a turn with its messages and their tool calls.
pub(super) fn load_turn(connection: &Connection, id: &TurnId) -> rusqlite::Result<Option<TurnRecord>> {
    let found = connection
        .prepare_cached(&format!("SELECT {TURN_COLUMNS} FROM turns WHERE id = ?1"))?
        .query_row([id.as_str()], turn_without_messages)
        .optional()?;
    let Some(mut turn) = found else { return Ok(None) };
    turn.messages = load_messages(connection, id)?;
    Ok(Some(turn))
}

pub(super) fn load_messages(connection: &Connection, turn: &TurnId) -> rusqlite::Result<Vec<MessageRecord>> {
    let mut messages: Vec<MessageRecord> = connection
        .prepare_cached(
            "SELECT id, sequence, role, frame, content, thinking FROM messages WHERE turn_id = ?1 ORDER BY sequence",
        )?
        .query_map([turn.as_str()], |row| {
            Ok(MessageRecord {
                id: MessageId::new(row.get::<_, String>(0)?),
                sequence: row.get(1)?,
                role: row.get(2)?,
                frame: row.get(3)?,
                content: row.get(4)?,
                thinking: row.get(5)?,
                calls: Vec::new(),
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    let calls: Vec<(String, CallRecord)> = connection
        .prepare_cached(
            "SELECT message_id, id, model_call_id, tool_name, arguments_json, status, result, \
             spawned_session_label, started_at, completed_at \
             FROM tool_calls WHERE turn_id = ?1 ORDER BY message_id, sequence",
        )?
        .query_map([turn.as_str()], |row| {
            let call = CallRecord {
                id: ToolCallId::new(row.get::<_, String>(1)?),
                model_call_id: row.get(2)?,
                tool: row.get(3)?,
                arguments_json: row.get(4)?,
                status: row.get(5)?,
                result: row.get(6)?,
                spawned: row.get::<_, Option<String>>(7)?.map(SessionLabel::new),
                started_at: Timestamp(row.get(8)?),
                completed_at: row.get::<_, Option<i64>>(9)?.map(Timestamp),
            };
            Ok((row.get(0)?, call))
        })?
        .collect::<rusqlite::Result<_>>()?;
    for (message_id, call) in calls {
        if let Some(message) = messages.iter_mut().find(|message| message.id.as_str() == message_id) {
            message.calls.push(call);
        }
    }
    Ok(messages)
}
