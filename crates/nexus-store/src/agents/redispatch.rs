//! Sending a worker off again: an instance that goes on gets its next task in its own session.

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::id::{SessionLabel, ToolCallId, TurnId};
use rusqlite::params;

use super::Agents;
use super::columns::SessionSettings;
use super::dispatch::outstanding;
use super::model::NewItem;
use super::{ledger, queue};
use crate::error::StoreError;
use crate::writer::Sync;

/// A worker to be sent off again.
#[derive(Debug, Clone)]
pub struct Redispatch {
    /// The tool call; becomes the dispatch id.
    pub call: ToolCallId,
    /// Text for the model that called.
    pub result: String,
    /// Session that dispatches, the worker's parent.
    pub parent: SessionLabel,
    /// Its running turn.
    pub parent_turn: TurnId,
    /// The worker.
    pub label: SessionLabel,
    /// Settings that hold from now on.
    pub settings: SessionSettings,
    /// The task as a queue item of the worker.
    pub task: NewItem,
    /// Most unfinished workers one parent may have.
    pub most_outstanding: u32,
}

impl Agents {
    /// Gives a worker that has reported its next task, with the call's result, in one step. False when it is not
    /// the parent's, has not reported, or the parent has too many unfinished workers: then nothing was written.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn redispatch(&self, new: Redispatch) -> Result<bool, StoreError> {
        let done = self
            .database
            .write(Sync::Normal, move |connection| {
                let now = Timestamp::now();
                if outstanding(connection, &new.parent)? >= new.most_outstanding {
                    return Ok(false);
                }
                let changed = connection
                    .prepare_cached(
                        "UPDATE sessions SET dispatch_id = ?3, parent_turn_id = ?4, task_description = ?5, \
                         task_status = 'pending', settings_json = ?6, updated_at = ?7 \
                         WHERE label = ?1 AND parent_session_label = ?2 AND cancel_reason IS NULL \
                         AND task_status IN ('completed', 'failed')",
                    )?
                    .execute(params![
                        new.label.as_str(),
                        new.parent.as_str(),
                        new.call.as_str(),
                        new.parent_turn.as_str(),
                        new.task.content,
                        new.settings,
                        now.0,
                    ])?;
                if changed == 0 {
                    return Ok(false);
                }
                queue::insert(connection, &new.task, now)?;
                ledger::complete_at_once(connection, &new.call, &new.result, now)?;
                connection
                    .prepare_cached("UPDATE tool_calls SET spawned_session_label = ?2 WHERE id = ?1")?
                    .execute(params![new.call.as_str(), new.label.as_str()])?;
                failpoint::hit("s5.redispatch.before_commit");
                Ok(true)
            })
            .await?;
        failpoint::hit("s5.redispatch.committed");
        Ok(done)
    }
}
