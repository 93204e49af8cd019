//! Finishing a turn: turn, session pointer, items, reply and worker's report in one transaction (S6).

use std::borrow::Cow;
use std::sync::Arc;

use nexus_base::clock::Timestamp;
use nexus_base::conversation::Role;
use nexus_base::failpoint;
use nexus_base::id::{MessageId, OutboxId, SessionLabel, TurnId};
use rusqlite::{Connection, params};

use super::Agents;
use super::model::{
    Aftermath, Item, ItemKind, ItemOutcome, MessageRole, OutboxRecord, OutboxState, OutboxStatus,
    SessionRecord, TaskStatus, TurnStatus,
};
use super::{dispatch, ledger, outbox, queue, rows, session};
use crate::error::StoreError;
use crate::writer::Sync;

/// Said when nothing else was.
const SILENCE: &str = "The turn ended without a reply. Please try again, perhaps in other words.";

/// How a turn ended.
#[derive(Debug, Clone)]
pub struct FinishTurn {
    pub turn_id: TurnId,
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
    pub output_tokens: u64,
    /// Tokens read from a cache.
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub reasoning_tokens: u64,
    /// What was sent, part by part, as JSON.
    pub context_json: Option<String>,
    /// The last message of the turn, when it is not yet in the ledger.
    pub last_message: Option<(String, Option<String>)>,
    /// What the person is told; managers only.
    pub reply: Option<NewReply>,
    /// What the parent is told; workers only.
    pub report: Option<WorkerReport>,
    /// Whether nothing said is an answer, as it is in a group.
    pub may_be_silent: bool,
}

/// A line for the person.
#[derive(Debug, Clone)]
pub struct NewReply {
    /// What it is to its reader.
    pub state: OutboxState,
    /// The words.
    pub text: String,
    /// The message or event it quotes.
    pub reply_to: Option<String>,
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
    /// What the end of a worker led to.
    pub aftermath: Aftermath,
}

impl Agents {
    /// Ends a turn. Everything it leads to is on disk, power loss included, when this returns.
    ///
    /// # Errors
    /// The database cannot be written; the turn is then still pending and will be resumed.
    pub async fn finish_turn(&self, finish: Arc<FinishTurn>) -> Result<Finished, StoreError> {
        tracing::trace!("S6: the end is stored");
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
    if !is_pending(connection, &finish.turn_id)? {
        // An end that was written although its writer heard otherwise; once is enough.
        let outbox = outbox::of_turn(connection, &finish.turn_id)?;
        return Ok(Finished { outbox, items: items_of(connection, turn)?, aftermath: Aftermath::default() });
    }
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
    let items = items_of(connection, turn)?;
    let mut aftermath = Aftermath::default();
    if let Some(report) = report_of(connection, finish, &session)? {
        end_task(connection, &session, &finish.turn_id, &report, now, &mut aftermath)?;
    }
    let outbox = reply(connection, finish, &session, &items, now)?;
    Ok(Finished { outbox, items, aftermath })
}

fn is_pending(connection: &Connection, turn: &TurnId) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT status = 'pending' FROM turns WHERE id = ?1")?
        .query_row([turn.as_str()], |row| row.get(0))
}

fn items_of(connection: &Connection, turn: &str) -> rusqlite::Result<Vec<Item>> {
    connection
        .prepare_cached(concat!(
            "SELECT ",
            rows::item_columns!(),
            " FROM queue_items WHERE turn_id = ?1 ORDER BY rowid"
        ))?
        .query_map([turn], rows::item)?
        .collect()
}

const fn outcome(status: TurnStatus) -> ItemOutcome {
    match status {
        TurnStatus::Completed => ItemOutcome::Completed,
        TurnStatus::Aborted => ItemOutcome::Aborted,
        TurnStatus::Failed | TurnStatus::Pending => ItemOutcome::Failed,
    }
}

/// Returns what a worker reports. One that was interrupted reports nothing, because what interrupted it
/// is still to come; if that is gone, or the worker is being ended, nothing else would ever report.
fn report_of<'a>(
    connection: &Connection,
    finish: &'a FinishTurn,
    session: &SessionRecord,
) -> rusqlite::Result<Option<Cow<'a, WorkerReport>>> {
    if let Some(report) = &finish.report {
        return Ok(Some(Cow::Borrowed(report)));
    }
    let goes_on = session.cancel_reason.is_none()
        && (has_waiting(connection, &session.label)?
            || dispatch::outstanding(connection, &session.label)? > 0);
    if session.role == Role::Manager || goes_on {
        return Ok(None);
    }
    let reason = session.cancel_reason.as_deref().or(finish.error.as_deref()).unwrap_or("it was interrupted");
    let text = format!("The task was cancelled: {reason}.");
    Ok(Some(Cow::Owned(WorkerReport { status: TaskStatus::Cancelled, text })))
}

/// A worker reports once nothing of its own is left to do: no worker out, nothing waiting. One that
/// failed or is being ended reports at once and takes everything below it along.
fn end_task(
    connection: &Connection,
    worker: &SessionRecord,
    turn: &TurnId,
    report: &WorkerReport,
    now: Timestamp,
    aftermath: &mut Aftermath,
) -> rusqlite::Result<()> {
    let outstanding = dispatch::outstanding(connection, &worker.label)?;
    let completed = report.status == TaskStatus::Completed && worker.cancel_reason.is_none();
    if completed && (outstanding > 0 || has_waiting(connection, &worker.label)?) {
        return Ok(());
    }
    // It ended well just as it was cancelled; its own workers did not.
    let status = match report.status {
        TaskStatus::Completed if outstanding > 0 => TaskStatus::Cancelled,
        other => other,
    };
    dispatch::report(connection, worker, Some(turn), status, &report.text, now, aftermath)?;
    if !completed {
        let reason = "the agent that started it had ended";
        let results = Some(ItemKind::WorkerResult);
        dispatch::end_waiting(connection, &worker.label, results, reason, now, aftermath)?;
        dispatch::end_below(connection, &worker.label, reason, now, aftermath)?;
    }
    Ok(())
}

/// Writes what the person is told. A turn may say nothing while its tree goes on or has answered; no
/// tree ends with a person's words unanswered.
fn reply(
    connection: &Connection,
    finish: &FinishTurn,
    session: &SessionRecord,
    items: &[Item],
    now: Timestamp,
) -> rusqlite::Result<Vec<OutboxRecord>> {
    let Some(last) = items.last().filter(|_| session.role == Role::Manager) else {
        return Ok(Vec::new());
    };
    let root = &last.new.root_request_id;
    let reply_to = finish.reply.as_ref().and_then(|reply| reply.reply_to.clone());
    let (state, text) = match &finish.reply {
        Some(reply) => (reply.state, reply.text.clone()),
        None if finish.may_be_silent => return Ok(Vec::new()),
        None if queue::is_open(connection, root)? || outbox::answered(connection, root)? => {
            return Ok(Vec::new());
        }
        None => match dispatch::outstanding(connection, &finish.session)? {
            0 => (OutboxState::Error, SILENCE.to_owned()),
            1 => (OutboxState::Final, "Noted. 1 worker is still running.".to_owned()),
            several => (OutboxState::Final, format!("Noted. {several} workers are still running.")),
        },
    };
    let line = OutboxRecord {
        id: OutboxId::new(format!("{}:0", finish.turn_id)),
        turn_id: Some(finish.turn_id.clone()),
        session: finish.session.clone(),
        request_id: last.new.request_id.clone(),
        root_request_id: root.clone(),
        message_id: MessageId::new(format!("{}:0", finish.turn_id)),
        state,
        text,
        reply_to,
        status: OutboxStatus::Pending,
        created_at: now,
    };
    outbox::insert(connection, &line)?;
    Ok(vec![line])
}

pub(super) fn has_waiting(connection: &Connection, label: &SessionLabel) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM queue_items WHERE session_label = ?1 AND status <> 'done' AND status = \
             'pending')",
        )?
        .query_row([label.as_str()], |row| row.get(0))
}
