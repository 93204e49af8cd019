//! From rows to records.

use std::collections::HashMap;

use nexus_base::clock::Timestamp;
use nexus_base::conversation::Role;
use nexus_base::id::{
    BootId, EventId, MessageId, OutboxId, QueueItemId, RequestId, SessionLabel, ToolCallId, TurnId,
};
use rusqlite::{Connection, OptionalExtension, Row};

use super::columns::SessionSettings;
use super::model::{CallRecord, Item, MessageRecord, NewItem, OutboxRecord, SessionRecord, TurnRecord};
use crate::words::word;

// Columns as macros, so that whole statements are literals and none is put together at run time.
macro_rules! session_columns {
    () => {
        "label, head_turn_id, persona, role, parent_session_label, dispatch_id, task_description, task_status, \
         cancel_reason, spawn_depth, settings_json, status, updated_at"
    };
}
macro_rules! item_columns {
    () => {
        "id, session_label, request_id, parent_request_id, root_request_id, source_event_id, kind, mode, frame_json, \
         content, permissions_json, status, outcome, attempt, boot_id, turn_id, error, enqueued_at, finished_at"
    };
}
macro_rules! outbox_columns {
    () => {
        "id, turn_id, session_label, request_id, root_request_id, message_id, state, text, status, created_at, \
         reply_to"
    };
}
macro_rules! turn_columns {
    () => {
        "id, parent_turn_id, depth, turns.status, session_label, request_id, attempt, provider, model, stop_reason, \
         error, input_tokens + cached_input_tokens + cache_write_tokens, output_tokens, started_at, completed_at, taint"
    };
}
macro_rules! message_columns {
    () => {
        "messages.turn_id, messages.id, messages.sequence, messages.role, frame, content, thinking"
    };
}
macro_rules! call_columns {
    () => {
        "tool_calls.message_id, tool_calls.id, model_call_id, tool_name, arguments_json, tool_calls.status, result, \
         spawned_session_label, tool_calls.started_at, tool_calls.completed_at"
    };
}
pub(super) use {item_columns, outbox_columns, session_columns};

pub(super) fn session(row: &Row<'_>) -> rusqlite::Result<SessionRecord> {
    Ok(SessionRecord {
        label: SessionLabel::new(row.get::<_, String>(0)?),
        head_turn_id: row.get::<_, Option<String>>(1)?.map(TurnId::new),
        persona: row.get(2)?,
        role: word(row, 3, Role::parse)?,
        parent: row.get::<_, Option<String>>(4)?.map(SessionLabel::new),
        dispatch_id: row.get::<_, Option<String>>(5)?.map(ToolCallId::new),
        task: row.get(6)?,
        task_status: row.get(7)?,
        cancel_reason: row.get(8)?,
        depth: row.get(9)?,
        settings: SessionSettings::read(row.get_ref(10)?.as_str()?),
        status: row.get(11)?,
        updated_at: Timestamp(row.get(12)?),
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
            facts: row.get(8)?,
            content: row.get(9)?,
            permissions: row.get(10)?,
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
        reply_to: row.get(10)?,
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
        taint: row.get(15)?,
        messages: Vec::new(),
    })
}

/// Loads a turn with its messages and their tool calls.
pub(super) fn load_turn(connection: &Connection, id: &TurnId) -> rusqlite::Result<Option<TurnRecord>> {
    let found = connection
        .prepare_cached(concat!("SELECT ", turn_columns!(), " FROM turns WHERE id = ?1"))?
        .query_row([id.as_str()], turn_without_messages)
        .optional()?;
    let Some(mut turn) = found else { return Ok(None) };
    let messages = connection
        .prepare_cached(concat!(
            "SELECT ",
            message_columns!(),
            " FROM messages WHERE turn_id = ?1 ORDER BY sequence"
        ))?
        .query_map([id.as_str()], message)?
        .collect::<rusqlite::Result<_>>()?;
    let calls = connection
        .prepare_cached(concat!(
            "SELECT ",
            call_columns!(),
            " FROM tool_calls WHERE turn_id = ?1 ORDER BY sequence"
        ))?
        .query_map([id.as_str()], call)?
        .collect::<rusqlite::Result<_>>()?;
    fill(std::slice::from_mut(&mut turn), messages, calls);
    Ok(Some(turn))
}

/// Loads the turns on the path to `head` whose depth is at least `from`, oldest first, in three
/// queries however long the path is.
pub(super) fn load_path(
    connection: &Connection,
    head: &TurnId,
    from: u32,
) -> rusqlite::Result<Vec<TurnRecord>> {
    macro_rules! path {
        () => {
            "WITH RECURSIVE path (id, parent, depth) AS ( \
                 SELECT id, parent_turn_id, depth FROM turns WHERE id = ?1 AND depth >= ?2 UNION ALL \
                 SELECT turns.id, turns.parent_turn_id, turns.depth FROM path JOIN turns ON turns.id = path.parent \
                 WHERE turns.depth >= ?2) "
        };
    }
    let parameters = rusqlite::params![head.as_str(), from];
    let mut turns: Vec<TurnRecord> = connection
        .prepare_cached(concat!(
            path!(),
            "SELECT ",
            turn_columns!(),
            " FROM turns WHERE id IN (SELECT path.id FROM path) ORDER BY depth"
        ))?
        .query_map(parameters, turn_without_messages)?
        .collect::<rusqlite::Result<_>>()?;
    let messages = connection
        .prepare_cached(concat!(
            path!(),
            "SELECT ",
            message_columns!(),
            " FROM path JOIN messages ON messages.turn_id = path.id ORDER BY path.depth, sequence"
        ))?
        .query_map(parameters, message)?
        .collect::<rusqlite::Result<_>>()?;
    let calls = connection
        .prepare_cached(concat!(
            path!(),
            "SELECT ",
            call_columns!(),
            " FROM path JOIN tool_calls ON tool_calls.turn_id = path.id ORDER BY path.depth, tool_calls.sequence"
        ))?
        .query_map(parameters, call)?
        .collect::<rusqlite::Result<_>>()?;
    fill(&mut turns, messages, calls);
    Ok(turns)
}

fn message(row: &Row<'_>) -> rusqlite::Result<(TurnId, MessageRecord)> {
    let record = MessageRecord {
        id: MessageId::new(row.get::<_, String>(1)?),
        sequence: row.get(2)?,
        role: row.get(3)?,
        frame: row.get(4)?,
        content: row.get(5)?,
        thinking: row.get(6)?,
        calls: Vec::new(),
    };
    Ok((TurnId::new(row.get::<_, String>(0)?), record))
}

fn call(row: &Row<'_>) -> rusqlite::Result<(MessageId, CallRecord)> {
    let record = CallRecord {
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
    Ok((MessageId::new(row.get::<_, String>(0)?), record))
}

/// Puts messages into their turns and calls into their messages; both come in order.
fn fill(
    turns: &mut [TurnRecord],
    messages: Vec<(TurnId, MessageRecord)>,
    calls: Vec<(MessageId, CallRecord)>,
) {
    let mut calls_of: HashMap<MessageId, Vec<CallRecord>> = HashMap::new();
    for (message, call) in calls {
        calls_of.entry(message).or_default().push(call);
    }
    let mut messages_of: HashMap<TurnId, Vec<MessageRecord>> = HashMap::new();
    for (turn, mut message) in messages {
        message.calls = calls_of.remove(&message.id).unwrap_or_default();
        messages_of.entry(turn).or_default().push(message);
    }
    for turn in turns {
        turn.messages = messages_of.remove(&turn.id).unwrap_or_default();
    }
}
