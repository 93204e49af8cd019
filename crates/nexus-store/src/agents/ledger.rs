//! The ledger inside a turn: what the model said and the calls it made, written before they run (S5).

use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::id::{MessageId, ToolCallId, TurnId};
use rusqlite::{Connection, params};

use super::Agents;
use super::model::{CallStatus, MessageRole, TurnRecord};
use super::rows;
use crate::error::StoreError;
use crate::writer::Sync;

/// One reply of the model that asks for tool calls.
#[derive(Debug, Clone)]
pub struct NewStep {
    pub turn_id: TurnId,
    pub message_id: MessageId,
    /// Text of the reply; may be empty.
    pub text: String,
    /// Reasoning kept apart.
    pub thinking: Option<String>,
    /// Calls in the order the model made them.
    pub calls: Vec<NewCall>,
    /// One of them may act on the world. It must be known after a loss of power that it may have run,
    /// or it would run a second time.
    pub acts: bool,
}

/// One call the model asked for.
#[derive(Debug, Clone)]
pub struct NewCall {
    /// Our id; the dispatch id if it starts a worker.
    pub id: ToolCallId,
    /// Id the model gave it.
    pub model_call_id: String,
    /// Tool name.
    pub tool: String,
    /// Arguments as JSON text.
    pub arguments_json: String,
}

impl Agents {
    /// Writes a reply and all its calls before the first of them runs.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn record_step(&self, step: NewStep) -> Result<(), StoreError> {
        tracing::trace!("S5: the step and its calls are stored");
        let sync = if step.acts { Sync::Full } else { Sync::Normal };
        self.database
            .write(sync, move |connection| {
                let now = Timestamp::now();
                let sequence = next_sequence(connection, &step.turn_id)?;
                insert_message(
                    connection,
                    &step.turn_id,
                    step.message_id.as_str(),
                    sequence,
                    MessageRole::Assistant,
                    None,
                    &step.text,
                    step.thinking.as_deref(),
                    now,
                )?;
                for (number, call) in (0u32..).zip(&step.calls) {
                    connection
                        .prepare_cached(
                            "INSERT INTO tool_calls (id, turn_id, message_id, sequence, model_call_id, tool_name, \
                             arguments_json, status, started_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'intended', ?8)",
                        )?
                        .execute(params![
                            call.id.as_str(),
                            step.turn_id.as_str(),
                            step.message_id.as_str(),
                            number,
                            call.model_call_id,
                            call.tool,
                            call.arguments_json,
                            now.0,
                        ])?;
                }
                failpoint::hit("s5.step.before_commit");
                Ok(())
            })
            .await?;
        failpoint::hit("s5.step.committed");
        Ok(())
    }

    /// Writes a call's result, and when it began and how long it took if that is known.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn record_result(
        &self,
        call: &ToolCallId,
        status: CallStatus,
        result: String,
        span: Option<(Timestamp, Duration)>,
    ) -> Result<(), StoreError> {
        let call = call.clone();
        self.database
            .write(Sync::Normal, move |connection| {
                let began = span.map(|(began, _)| began);
                let ended = span.map_or_else(Timestamp::now, |(began, took)| began.plus(took));
                set_result(connection, &call, status, &result, (began, ended))?;
                failpoint::hit("s5.result.before_commit");
                Ok(())
            })
            .await?;
        failpoint::hit("s5.result.committed");
        Ok(())
    }

    /// Returns the turns on the path to `head` that have at least `from` turns before them, oldest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn history(&self, head: &TurnId, from: u32) -> Result<Vec<TurnRecord>, StoreError> {
        let head = head.clone();
        self.database.read(move |connection| Ok(rows::load_path(connection, &head, from)?)).await
    }

    /// Returns a turn with everything said and done in it.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn turn(&self, id: &TurnId) -> Result<Option<TurnRecord>, StoreError> {
        let id = id.clone();
        self.database.look(move |connection| Ok(rows::load_turn(connection, &id)?)).await
    }
}

pub(super) fn next_sequence(connection: &Connection, turn: &TurnId) -> rusqlite::Result<u32> {
    connection
        .prepare_cached("SELECT COALESCE(MAX(sequence) + 1, 0) FROM messages WHERE turn_id = ?1")?
        .query_row([turn.as_str()], |row| row.get(0))
}

#[expect(clippy::too_many_arguments, reason = "one argument per column; a struct would only repeat them")]
pub(super) fn insert_message(
    connection: &Connection,
    turn: &TurnId,
    id: &str,
    sequence: u32,
    role: MessageRole,
    frame: Option<&str>,
    content: &str,
    thinking: Option<&str>,
    now: Timestamp,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO messages (id, turn_id, sequence, role, frame, content, thinking, created_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![id, turn.as_str(), sequence, role, frame, content, thinking, now.0])?;
    Ok(())
}

/// Writes the result of a call that is done with being noted.
pub(super) fn complete_at_once(
    connection: &Connection,
    call: &ToolCallId,
    result: &str,
    now: Timestamp,
) -> rusqlite::Result<()> {
    set_result(connection, call, CallStatus::Completed, result, (Some(now), now))
}

fn set_result(
    connection: &Connection,
    call: &ToolCallId,
    status: CallStatus,
    result: &str,
    (began, ended): (Option<Timestamp>, Timestamp),
) -> rusqlite::Result<()> {
    // Until then the call's beginning is when it was written down; it may have waited for others.
    connection
        .prepare_cached(
            "UPDATE tool_calls SET status = ?2, result = ?3, completed_at = ?4, \
             started_at = coalesce(?5, started_at) WHERE id = ?1",
        )?
        .execute(params![call.as_str(), status, result, ended.0, began.map(|began| began.0)])?;
    Ok(())
}
