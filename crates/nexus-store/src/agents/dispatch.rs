//! Sending workers off and talking to them; the effect commits with the tool call's result (S5).

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::id::{QueueItemId, RequestId, SessionLabel, ToolCallId, TurnId};
use rusqlite::{Connection, params};

use super::Agents;
use super::model::{CallStatus, Item, ItemKind, ItemMode, ItemOutcome, NewItem, SessionRecord, TaskStatus};
use super::{ledger, queue, rows, session};
use crate::error::StoreError;
use crate::writer::Sync;

/// A worker to be sent off.
#[derive(Debug, Clone)]
pub struct NewDispatch {
    /// The tool call; becomes the dispatch id.
    pub call: ToolCallId,
    /// Text for the model that called.
    pub result: String,
    /// Session that dispatches.
    pub parent: SessionLabel,
    /// Its running turn.
    pub parent_turn: TurnId,
    /// Label of the new session.
    pub label: SessionLabel,
    /// Persona it inherits.
    pub persona: String,
    /// Depth of the new session.
    pub depth: u32,
    /// Settings fixed at creation, as JSON.
    pub settings_json: String,
    /// The task as a queue item of the new session.
    pub task: NewItem,
    /// Most unfinished workers one parent may have.
    pub most_outstanding: u32,
}

/// Words for another session.
#[derive(Debug, Clone)]
pub struct NewPost {
    /// The tool call.
    pub call: ToolCallId,
    /// Text for the model that called.
    pub result: String,
    /// The words as a queue item.
    pub item: NewItem,
}

/// What a cancellation found.
#[derive(Debug, Clone, Default)]
pub struct Cancelled {
    /// Sessions whose turn runs now and must be ended by whoever runs them.
    pub running: Vec<SessionLabel>,
    /// Sessions that had not begun and are ended.
    pub ended: Vec<SessionLabel>,
    /// Sessions that now have a result waiting.
    pub wake: Vec<SessionLabel>,
}

impl Agents {
    /// Makes the worker, its task and the call's result in one step; false when the parent has too
    /// many unfinished workers, and then nothing was written.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn dispatch(&self, new: NewDispatch) -> Result<bool, StoreError> {
        let done = self
            .database
            .write(Sync::Normal, move |connection| {
                let now = Timestamp::now();
                if outstanding(connection, &new.parent)? >= new.most_outstanding {
                    return Ok(false);
                }
                connection
                    .prepare_cached(
                        "INSERT INTO sessions (label, persona, role, parent_session_label, parent_turn_id, dispatch_id, \
                         task_description, task_status, spawn_depth, settings_json, origin, created_at, updated_at) \
                         VALUES (?1, ?2, 'worker', ?3, ?4, ?5, ?6, 'pending', ?7, ?8, 'subagent', ?9, ?9)",
                    )?
                    .execute(params![
                        new.label.as_str(),
                        new.persona,
                        new.parent.as_str(),
                        new.parent_turn.as_str(),
                        new.call.as_str(),
                        new.task.content,
                        new.depth,
                        new.settings_json,
                        now.0,
                    ])?;
                queue::insert(connection, &new.task, now)?;
                ledger::set_result(connection, &new.call, CallStatus::Completed, &new.result, now)?;
                connection.execute(
                    "UPDATE tool_calls SET spawned_session_label = ?2 WHERE id = ?1",
                    params![new.call.as_str(), new.label.as_str()],
                )?;
                failpoint::hit("s5.dispatch.before_commit");
                Ok(true)
            })
            .await?;
        failpoint::hit("s5.dispatch.committed");
        Ok(done)
    }

    /// Puts words into another session's queue together with the call's result.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn post(&self, new: NewPost) -> Result<(), StoreError> {
        self.database
            .write(Sync::Normal, move |connection| {
                let now = Timestamp::now();
                queue::insert(connection, &new.item, now)?;
                ledger::set_result(connection, &new.call, CallStatus::Completed, &new.result, now)?;
                Ok(())
            })
            .await
    }

    /// Cancels a worker and everything below it. Workers that have not begun end here with a result
    /// for their parent; running ones are named so that their runner can end them.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn cancel(&self, label: &SessionLabel, reason: &str) -> Result<Cancelled, StoreError> {
        let (label, reason) = (label.clone(), reason.to_owned());
        self.database
            .write(Sync::Normal, move |connection| Ok(cancel(connection, &label, &reason, Timestamp::now())?))
            .await
    }

    /// Returns a session's workers, newest last.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn workers_of(&self, parent: &SessionLabel) -> Result<Vec<SessionRecord>, StoreError> {
        let parent = parent.clone();
        self.database
            .read(move |connection| {
                let workers = connection
                    .prepare_cached(&format!(
                        "SELECT {} FROM sessions WHERE parent_session_label = ?1 ORDER BY created_at",
                        rows::SESSION_COLUMNS
                    ))?
                    .query_map([parent.as_str()], rows::session)?
                    .collect::<rusqlite::Result<_>>()?;
                Ok(workers)
            })
            .await
    }

    /// Returns how many of a session's workers have not reported.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn outstanding_workers(&self, parent: &SessionLabel) -> Result<u32, StoreError> {
        let parent = parent.clone();
        self.database.read(move |connection| Ok(outstanding(connection, &parent)?)).await
    }
}

pub(super) fn outstanding(connection: &Connection, parent: &SessionLabel) -> rusqlite::Result<u32> {
    connection
        .prepare_cached(
            "SELECT COUNT(*) FROM sessions \
             WHERE parent_session_label = ?1 AND task_status IN ('pending', 'running')",
        )?
        .query_row([parent.as_str()], |row| row.get(0))
}

/// Puts a worker's report into its parent's queue and closes its task. Returns the parent.
pub(super) fn report(
    connection: &Connection,
    worker: &SessionRecord,
    task: &Item,
    status: TaskStatus,
    text: &str,
    now: Timestamp,
) -> rusqlite::Result<Option<SessionLabel>> {
    connection
        .prepare_cached("UPDATE sessions SET task_status = ?2, updated_at = ?3 WHERE label = ?1")?
        .execute(params![worker.label.as_str(), status, now.0])?;
    let (Some(parent), Some(dispatch)) = (&worker.parent, &worker.dispatch_id) else { return Ok(None) };
    let first = format!("result:{dispatch}");
    let known: bool = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM queue_items WHERE id = ?1)")?
        .query_row([&first], |row| row.get(0))?;
    // A worker that is spoken to again after its result reports again, under the turn that did.
    let id = match (&task.turn_id, known) {
        (Some(turn), true) => format!("{first}:{turn}"),
        (None, true) => return Ok(None),
        (_, false) => first,
    };
    let frame = serde_json::json!([
        ["dispatch", dispatch.as_str()],
        ["session", worker.label.as_str()],
        ["status", status.as_str()],
    ]);
    let item = NewItem {
        id: QueueItemId::new(id),
        session: parent.clone(),
        request_id: RequestId::generate(),
        parent_request_id: task.new.parent_request_id.clone(),
        root_request_id: task.new.root_request_id.clone(),
        source_event_id: None,
        kind: ItemKind::WorkerResult,
        mode: ItemMode::Followup,
        frame_json: frame.to_string(),
        content: text.to_owned(),
        permissions_json: task.new.permissions_json.clone(),
    };
    queue::insert(connection, &item, now)?;
    Ok(Some(parent.clone()))
}

fn cancel(
    connection: &Connection,
    label: &SessionLabel,
    reason: &str,
    now: Timestamp,
) -> rusqlite::Result<Cancelled> {
    let family: Vec<SessionLabel> = connection
        .prepare_cached(
            "WITH RECURSIVE family (label) AS ( \
                 SELECT ?1 UNION SELECT sessions.label FROM family \
                 JOIN sessions ON sessions.parent_session_label = family.label) \
             SELECT label FROM family",
        )?
        .query_map([label.as_str()], |row| Ok(SessionLabel::new(row.get::<_, String>(0)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut cancelled = Cancelled::default();
    for member in family {
        let Some(worker) = session::find(connection, &member)? else { continue };
        let open: Vec<Item> = connection
            .prepare_cached(&format!(
                "SELECT {} FROM queue_items WHERE session_label = ?1 AND status <> 'done' ORDER BY enqueued_at, id",
                rows::ITEM_COLUMNS
            ))?
            .query_map([member.as_str()], rows::item)?
            .collect::<rusqlite::Result<_>>()?;
        for item in open.iter().filter(|item| item.turn_id.is_none()) {
            queue::end_untaken(connection, &item.new.id, ItemOutcome::Cancelled, reason, now)?;
        }
        if open.iter().any(|item| item.turn_id.is_some()) {
            cancelled.running.push(member);
        } else if matches!(worker.task_status, Some(TaskStatus::Pending | TaskStatus::Running))
            && let Some(task) = open.first()
        {
            let text = format!("Cancelled before it began: {reason}");
            cancelled.wake.extend(report(connection, &worker, task, TaskStatus::Cancelled, &text, now)?);
            cancelled.ended.push(member);
        }
    }
    Ok(cancelled)
}
