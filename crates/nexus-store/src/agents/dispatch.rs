//! Sending workers off and talking to them; the effect commits with the tool call's result (S5).

use nexus_base::clock::Timestamp;
use nexus_base::conversation::Role;
use nexus_base::failpoint;
use nexus_base::id::{QueueItemId, RequestId, SessionLabel, ToolCallId, TurnId, new_ulid};
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{ItemFacts, SessionSettings, UNTRUSTED};
use super::model::{
    Aftermath, ItemKind, ItemMode, ItemOutcome, NewItem, Reported, SessionRecord, TaskStatus,
};
use super::{Agents, ledger, marks, queue, rows, session};
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
    /// Settings fixed at creation.
    pub settings: SessionSettings,
    /// The task as a queue item of the new session.
    pub task: NewItem,
    /// Most unfinished workers one parent may have.
    pub most_outstanding: u32,
}

/// Words for another session.
#[derive(Debug, Clone)]
pub struct NewPost {
    pub call: ToolCallId,
    /// Text for the model that called.
    pub result: String,
    /// The words as a queue item.
    pub item: NewItem,
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
                        "INSERT INTO sessions (label, persona, role, parent_session_label, parent_turn_id, \
                         dispatch_id, task_description, task_status, spawn_depth, settings_json, origin, created_at, \
                         updated_at) VALUES (?1, ?2, 'worker', ?3, ?4, ?5, ?6, 'pending', ?7, ?8, 'subagent', ?9, \
                         ?9)",
                    )?
                    .execute(params![
                        new.label.as_str(),
                        new.persona,
                        new.parent.as_str(),
                        new.parent_turn.as_str(),
                        new.call.as_str(),
                        new.task.content,
                        new.depth,
                        new.settings,
                        now.0,
                    ])?;
                queue::insert(connection, &new.task, now)?;
                ledger::complete_at_once(connection, &new.call, &new.result, now)?;
                connection
                    .prepare_cached("UPDATE tool_calls SET spawned_session_label = ?2 WHERE id = ?1")?
                    .execute(params![new.call.as_str(), new.label.as_str()])?;
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
                ledger::complete_at_once(connection, &new.call, &new.result, now)?;
                Ok(())
            })
            .await
    }

    /// Cancels a worker and everything below it. Workers without a running turn end here with a result
    /// for their parent; running ones are marked, so that a restart knows, and named, so that whoever
    /// runs them can end them.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn cancel(&self, label: &SessionLabel, reason: &str) -> Result<Aftermath, StoreError> {
        let (label, reason) = (label.clone(), reason.to_owned());
        self.database
            .write(Sync::Normal, move |connection| {
                let now = Timestamp::now();
                let mut aftermath = Aftermath::default();
                end_worker(connection, &label, &reason, now, &mut aftermath)?;
                end_below(connection, &label, &reason, now, &mut aftermath)?;
                Ok(aftermath)
            })
            .await
    }

    /// Returns how many tasks one request and its workers have given to workers.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn tasks_given(&self, root: &RequestId) -> Result<u32, StoreError> {
        let root = root.clone();
        self.database
            .read(move |connection| {
                Ok(connection
                    .prepare_cached(
                        "SELECT count(*) FROM queue_items WHERE root_request_id = ?1 AND kind = 'task'",
                    )?
                    .query_row([root.as_str()], |row| row.get(0))?)
            })
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
                    .prepare_cached(concat!(
                        "SELECT ",
                        rows::session_columns!(),
                        " FROM sessions WHERE parent_session_label = ?1 ORDER BY rowid"
                    ))?
                    .query_map([parent.as_str()], rows::session)?
                    .collect::<rusqlite::Result<_>>()?;
                Ok(workers)
            })
            .await
    }

    /// Tells whether nothing waits in a session but reports, while others of its workers are still out.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn only_some_reports_wait(&self, label: &SessionLabel) -> Result<bool, StoreError> {
        let label = label.clone();
        self.database
            .look(move |connection| {
                let (reports, others): (u32, u32) = connection
                    .prepare_cached(
                        "SELECT COUNT(*) FILTER (WHERE kind = ?2 AND status = 'pending'), \
                                COUNT(*) FILTER (WHERE kind <> ?2 OR status <> 'pending') \
                         FROM queue_items WHERE session_label = ?1 AND status <> 'done'",
                    )?
                    .query_row(params![label.as_str(), ItemKind::WorkerResult], |row| {
                        Ok((row.get(0)?, row.get(1)?))
                    })?;
                Ok(reports > 0 && others == 0 && outstanding(connection, &label)? > 0)
            })
            .await
    }

    /// Returns how many of a session's workers have not reported.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn outstanding_workers(&self, parent: &SessionLabel) -> Result<u32, StoreError> {
        let parent = parent.clone();
        self.database.look(move |connection| Ok(outstanding(connection, &parent)?)).await
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

/// Closes a worker's task and puts its report into its parent's queue. A parent that has ended or is
/// being ended takes no more turns for results: there the report is kept, and that is all.
pub(super) fn report(
    connection: &Connection,
    worker: &SessionRecord,
    turn: Option<&TurnId>,
    status: TaskStatus,
    text: &str,
    now: Timestamp,
    aftermath: &mut Aftermath,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE sessions SET task_status = ?2, cancel_reason = NULL, updated_at = ?3 WHERE label = ?1",
        )?
        .execute(params![worker.label.as_str(), status, now.0])?;
    let (Some(parent), Some(dispatch)) = (&worker.parent, &worker.dispatch_id) else { return Ok(()) };
    let Some(task) = queue::of_id(connection, &QueueItemId::new(format!("task:{dispatch}")))? else {
        return Ok(());
    };
    let first = QueueItemId::new(format!("result:{dispatch}"));
    // A worker that is spoken to again after its result reports again, under the turn that did and in the
    // tree that led to it: whoever spoke to it waits for this report, and nobody else does any more.
    let (id, cause) = match (queue::of_id(connection, &first)?, turn) {
        (None, _) => (first, task),
        (Some(_), Some(turn)) => {
            let id = QueueItemId::new(format!("{first}:{turn}"));
            (id, queue::last_of_turn(connection, turn)?.unwrap_or(task))
        }
        (Some(_), None) => (QueueItemId::new(format!("{first}:{}", new_ulid())), task),
    };
    let mut facts = vec![
        ("dispatch", dispatch.to_string()),
        ("session", worker.label.to_string()),
        ("status", status.as_str().to_owned()),
    ];
    // What a worker read is in what it reports, however it words it.
    facts.extend(marks::of_session(connection, &worker.label)?.map(|taint| (UNTRUSTED, taint)));
    let item = NewItem {
        id,
        session: parent.clone(),
        request_id: RequestId::generate(),
        parent_request_id: cause.new.parent_request_id,
        root_request_id: cause.new.root_request_id,
        source_event_id: None,
        kind: ItemKind::WorkerResult,
        mode: ItemMode::Followup,
        facts: ItemFacts::new(facts),
        content: text.to_owned(),
        permissions: cause.new.permissions,
    };
    queue::insert(connection, &item, now)?;
    aftermath.reported.push(Reported {
        worker: worker.label.clone(),
        parent: parent.clone(),
        status,
        root: item.root_request_id.clone(),
    });
    if session::find(connection, parent)?.is_some_and(|parent| takes_results(&parent)) {
        aftermath.wake.push(parent.clone());
    } else {
        let reason = "the agent that started the worker had ended";
        aftermath.ended.push(queue::end_untaken(connection, &item.id, ItemOutcome::Cancelled, reason, now)?);
    }
    Ok(())
}

fn takes_results(session: &SessionRecord) -> bool {
    match session.role {
        Role::Manager => true,
        Role::Worker => session.cancel_reason.is_none() && is_unfinished(session),
    }
}

const fn is_unfinished(worker: &SessionRecord) -> bool {
    match worker.task_status {
        Some(TaskStatus::Pending | TaskStatus::Running) => true,
        Some(TaskStatus::Completed | TaskStatus::Failed | TaskStatus::Cancelled) | None => false,
    }
}

/// Ends everything below a session, from the top down.
pub(super) fn end_below(
    connection: &Connection,
    label: &SessionLabel,
    reason: &str,
    now: Timestamp,
    aftermath: &mut Aftermath,
) -> rusqlite::Result<()> {
    let below: Vec<SessionLabel> = connection
        .prepare_cached(
            "WITH RECURSIVE family (label, generation) AS ( \
                 SELECT ?1, 0 UNION SELECT sessions.label, generation + 1 FROM family \
                 JOIN sessions ON sessions.parent_session_label = family.label) \
             SELECT label FROM family WHERE generation > 0 ORDER BY generation",
        )?
        .query_map([label.as_str()], |row| Ok(SessionLabel::new(row.get::<_, String>(0)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for worker in &below {
        end_worker(connection, worker, reason, now, aftermath)?;
    }
    Ok(())
}

fn end_worker(
    connection: &Connection,
    label: &SessionLabel,
    reason: &str,
    now: Timestamp,
    aftermath: &mut Aftermath,
) -> rusqlite::Result<()> {
    let Some(worker) = session::find(connection, label)?.filter(is_unfinished) else { return Ok(()) };
    aftermath.cancelled += 1;
    end_waiting(connection, label, None, reason, now, aftermath)?;
    let running: Option<String> = connection
        .prepare_cached(
            "SELECT turn_id FROM queue_items WHERE session_label = ?1 AND status <> 'done' AND status = 'processing' \
             LIMIT 1",
        )?
        .query_row([label.as_str()], |row| row.get(0))
        .optional()?;
    if let Some(turn) = running {
        connection
            .prepare_cached(
                "UPDATE sessions SET cancel_reason = COALESCE(cancel_reason, ?2) WHERE label = ?1",
            )?
            .execute(params![label.as_str(), reason])?;
        aftermath.running.push((label.clone(), TurnId::new(turn)));
        return Ok(());
    }
    let text = match worker.task_status {
        Some(TaskStatus::Running) => format!("The task was cancelled: {reason}."),
        _ => format!("Cancelled before it began: {reason}."),
    };
    report(connection, &worker, None, TaskStatus::Cancelled, &text, now, aftermath)
}

/// Ends what waits for a session: everything, or one kind of items.
pub(super) fn end_waiting(
    connection: &Connection,
    label: &SessionLabel,
    kind: Option<ItemKind>,
    reason: &str,
    now: Timestamp,
    aftermath: &mut Aftermath,
) -> rusqlite::Result<()> {
    let waiting: Vec<QueueItemId> = connection
        .prepare_cached(
            "SELECT id FROM queue_items WHERE session_label = ?1 AND status <> 'done' AND status = 'pending' AND (?2 \
             IS NULL OR kind = ?2) ORDER BY rowid",
        )?
        .query_map(params![label.as_str(), kind], |row| Ok(QueueItemId::new(row.get::<_, String>(0)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for id in &waiting {
        aftermath.ended.push(queue::end_untaken(connection, id, ItemOutcome::Cancelled, reason, now)?);
    }
    Ok(())
}
