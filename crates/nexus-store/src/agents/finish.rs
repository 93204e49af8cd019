//! Finishing a turn: turn, session pointer, items, reply and worker's report in one transaction (S6).

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::id::{MessageId, OutboxId, SessionLabel, TurnId};
use rusqlite::{Connection, params};

use super::Agents;
use super::model::{
    Item, ItemOutcome, MessageRole, OutboxRecord, OutboxState, OutboxStatus, SessionRecord, SessionRole,
    TaskStatus, TurnStatus,
};
use super::{dispatch, ledger, outbox, rows, session};
use crate::error::StoreError;
use crate::writer::Sync;

/// How a turn ended.
#[derive(Debug, Clone)]
pub struct FinishTurn {
    /// The turn.
    pub turn_id: TurnId,
    /// Its session.
    pub session: SessionLabel,
    /// Completed, failed or aborted.
    pub status: TurnStatus,
    /// Why the model stopped.
    pub stop_reason: String,
    /// Why it failed.
    pub error: Option<String>,
    /// Provider that answered.
    pub provider: String,
    /// Model that answered.
    pub model: String,
    /// Input tokens neither read from nor written to a cache.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Tokens read from a cache.
    pub cache_read_tokens: u64,
    /// Tokens written to a cache.
    pub cache_write_tokens: u64,
    /// Reasoning tokens.
    pub reasoning_tokens: u64,
    /// What was sent, part by part, as JSON.
    pub context_json: Option<String>,
    /// The last message of the turn, when it is not yet in the ledger.
    pub last_message: Option<(String, Option<String>)>,
    /// What the person is told; managers only.
    pub reply: Option<NewReply>,
    /// What stands in for a reply when the whole tree would otherwise end in silence; managers only.
    pub silence: String,
    /// What the parent is told; workers only.
    pub report: Option<WorkerReport>,
}

/// A line for the person.
#[derive(Debug, Clone)]
pub struct NewReply {
    /// What it is to its reader.
    pub state: OutboxState,
    /// The words.
    pub text: String,
}

/// A worker's report to its parent.
#[derive(Debug, Clone)]
pub struct WorkerReport {
    /// How the task ended.
    pub status: TaskStatus,
    /// The words.
    pub text: String,
}

/// What finishing led to.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Lines to deliver.
    pub outbox: Vec<OutboxRecord>,
    /// The items the turn answered.
    pub items: Vec<Item>,
    /// A session that now has a result waiting.
    pub wake: Option<SessionLabel>,
    /// Whether workers of this session are still out.
    pub outstanding_workers: u32,
}

impl Agents {
    /// Ends a turn. Everything it leads to is on disk, power loss included, when this returns.
    ///
    /// # Errors
    /// The database cannot be written; the turn is then still pending and will be resumed.
    pub async fn finish_turn(&self, finish: FinishTurn) -> Result<Finished, StoreError> {
        let finished = self
            .database
            .write(Sync::Full, move |connection| {
                let finished = finish_turn(connection, &finish, Timestamp::now())?;
                failpoint::hit("s6.before_commit");
                Ok(finished)
            })
            .await?;
        failpoint::hit("s6.committed");
        Ok(finished)
    }
}

fn finish_turn(connection: &Connection, finish: &FinishTurn, now: Timestamp) -> rusqlite::Result<Finished> {
    let turn = finish.turn_id.as_str();
    let session = session::find(connection, &finish.session)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    if let Some((text, thinking)) = &finish.last_message {
        let sequence = ledger::next_sequence(connection, &finish.turn_id)?;
        ledger::insert_message(
            connection,
            &finish.turn_id,
            MessageId::generate().as_str(),
            sequence,
            MessageRole::Assistant,
            None,
            text,
            thinking.as_deref(),
            now,
        )?;
    }
    connection
        .prepare_cached(
            "UPDATE turns SET status = ?2, stop_reason = ?3, error = ?4, provider = ?5, model = ?6, input_tokens = ?7, \
             output_tokens = ?8, cached_input_tokens = ?9, cache_write_tokens = ?10, reasoning_tokens = ?11, \
             context_json = ?12, completed_at = ?13 WHERE id = ?1",
        )?
        .execute(params![
            turn,
            finish.status,
            finish.stop_reason,
            finish.error,
            finish.provider,
            finish.model,
            finish.input_tokens,
            finish.output_tokens,
            finish.cache_read_tokens,
            finish.cache_write_tokens,
            finish.reasoning_tokens,
            finish.context_json,
            now.0,
        ])?;
    // Every call of an ended turn has an end of its own, so that history never shows an open one.
    connection
        .prepare_cached(
            "UPDATE tool_calls SET status = 'interrupted', result = COALESCE(result, 'interrupted, outcome unknown'), \
             completed_at = ?2 WHERE turn_id = ?1 AND status = 'intended'",
        )?
        .execute(params![turn, now.0])?;
    connection
        .prepare_cached("UPDATE sessions SET head_turn_id = ?2, updated_at = ?3 WHERE label = ?1")?
        .execute(params![finish.session.as_str(), turn, now.0])?;
    connection
        .prepare_cached(
            "INSERT INTO session_history (session_label, turn_id, changed_at) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![finish.session.as_str(), turn, now.0])?;
    connection
        .prepare_cached(
            "UPDATE queue_items SET status = 'done', outcome = ?2, error = ?3, finished_at = ?4 \
             WHERE turn_id = ?1 AND status = 'processing'",
        )?
        .execute(params![turn, outcome(finish.status), finish.error, now.0])?;
    let items: Vec<Item> = connection
        .prepare_cached(&format!(
            "SELECT {} FROM queue_items WHERE turn_id = ?1 ORDER BY enqueued_at, id",
            rows::ITEM_COLUMNS
        ))?
        .query_map([turn], rows::item)?
        .collect::<rusqlite::Result<_>>()?;
    let outstanding_workers = dispatch::outstanding(connection, &finish.session)?;
    let wake = report_if_done(connection, finish, &session, &items, outstanding_workers, now)?;
    let outbox = reply(connection, finish, &session, &items, outstanding_workers, now)?;
    Ok(Finished { outbox, items, wake, outstanding_workers })
}

const fn outcome(status: TurnStatus) -> ItemOutcome {
    match status {
        TurnStatus::Completed => ItemOutcome::Completed,
        TurnStatus::Aborted => ItemOutcome::Aborted,
        TurnStatus::Failed | TurnStatus::Pending => ItemOutcome::Failed,
    }
}

/// A worker reports once nothing of its own is left to do: no worker out, nothing waiting.
fn report_if_done(
    connection: &Connection,
    finish: &FinishTurn,
    session: &SessionRecord,
    items: &[Item],
    outstanding_workers: u32,
    now: Timestamp,
) -> rusqlite::Result<Option<SessionLabel>> {
    let (Some(report), Some(task)) = (&finish.report, items.last()) else { return Ok(None) };
    let goes_on = report.status == TaskStatus::Completed
        && (outstanding_workers > 0 || has_waiting(connection, &finish.session)?);
    if goes_on {
        return Ok(None);
    }
    dispatch::report(connection, session, task, report.status, &report.text, now)
}

fn reply(
    connection: &Connection,
    finish: &FinishTurn,
    session: &SessionRecord,
    items: &[Item],
    outstanding_workers: u32,
    now: Timestamp,
) -> rusqlite::Result<Vec<OutboxRecord>> {
    if session.role == SessionRole::Worker {
        return Ok(Vec::new());
    }
    let Some(last) = items.last() else { return Ok(Vec::new()) };
    let root = &last.new.root_request_id;
    let (state, text) = match &finish.reply {
        Some(reply) => (reply.state, reply.text.as_str()),
        None if outstanding_workers > 0
            || has_waiting(connection, &finish.session)?
            || outbox::said_anything(connection, root)? =>
        {
            return Ok(Vec::new());
        }
        None => (OutboxState::Error, finish.silence.as_str()),
    };
    let line = OutboxRecord {
        id: OutboxId::new(format!("{}:0", finish.turn_id)),
        turn_id: Some(finish.turn_id.clone()),
        session: finish.session.clone(),
        request_id: last.new.request_id.clone(),
        root_request_id: root.clone(),
        message_id: MessageId::new(format!("{}:0", finish.turn_id)),
        state,
        text: text.to_owned(),
        status: OutboxStatus::Pending,
        created_at: now,
    };
    outbox::insert(connection, &line)?;
    Ok(vec![line])
}

fn has_waiting(connection: &Connection, label: &SessionLabel) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM queue_items WHERE session_label = ?1 AND status = 'pending')",
        )?
        .query_row([label.as_str()], |row| row.get(0))
}
