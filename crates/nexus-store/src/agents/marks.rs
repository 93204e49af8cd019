//! Files that hold words nobody vouches for.
//! What turns read that nobody vouches for.

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::id::{RequestId, SessionLabel, ToolCallId, TurnId};
use rusqlite::{Connection, OptionalExtension, params};

use super::Agents;
use crate::error::StoreError;
use crate::writer::Sync;

/// One marked file, or a folder with everything below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMark {
    /// Relative to the workspace, or absolute.
    pub path: String,
    /// The command that runs in the folder, for as long as it does.
    pub call: Option<ToolCallId>,
    /// The request that wrote it.
    pub request: RequestId,
    /// What its run had read.
    pub sources: String,
    pub at: Timestamp,
}

/// A change of marks that is one step.
#[derive(Debug, Clone, Default)]
pub struct MarkChange {
    /// A command that has ended.
    pub ended: Option<ToolCallId>,
    /// Paths whose marks go, those of commands under way included.
    pub removed: Vec<String>,
    /// Marks that come, in place of what stood there.
    pub added: Vec<FileMark>,
}

impl Agents {
    /// Returns every mark.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn file_marks(&self) -> Result<Vec<FileMark>, StoreError> {
        self.database
            .read(|connection| {
                let marks = connection
                    .prepare_cached(
                        "SELECT path, call_id, request_id, sources, marked_at FROM file_marks ORDER BY path",
                    )?
                    .query_map([], |row| {
                        let call: String = row.get(1)?;
                        Ok(FileMark {
                            path: row.get(0)?,
                            call: (!call.is_empty()).then(|| ToolCallId::new(call)),
                            request: RequestId::new(row.get::<_, String>(2)?),
                            sources: row.get(3)?,
                            at: Timestamp(row.get(4)?),
                        })
                    })?
                    .collect::<rusqlite::Result<_>>()?;
                Ok(marks)
            })
            .await
    }

    /// Changes marks. On disk when this returns: a file must not outlive the mark it was given first.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn change_marks(&self, change: MarkChange) -> Result<(), StoreError> {
        self.database
            .write(Sync::Full, move |connection| {
                if let Some(call) = &change.ended {
                    connection
                        .prepare_cached("DELETE FROM file_marks WHERE call_id = ?1")?
                        .execute([call.as_str()])?;
                }
                for path in &change.removed {
                    connection.prepare_cached("DELETE FROM file_marks WHERE path = ?1")?.execute([path])?;
                }
                for mark in &change.added {
                    connection
                        .prepare_cached(
                            "INSERT OR REPLACE INTO file_marks (path, call_id, request_id, sources, marked_at) \
                             VALUES (?1, ?2, ?3, ?4, ?5)",
                        )?
                        .execute(params![
                            mark.path,
                            mark.call.as_ref().map_or("", ToolCallId::as_str),
                            mark.request.as_str(),
                            mark.sources,
                            mark.at.0,
                        ])?;
                }
                failpoint::hit("marks.before_commit");
                Ok(())
            })
            .await?;
        failpoint::hit("marks.committed");
        Ok(())
    }
}

/// Sources on one line of a frame are set apart by this.
const BETWEEN: &str = "; ";

/// The newest tainted turn of a session that its conversation still has in view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaintedTurn {
    pub id: TurnId,
    /// Its sources, one a line.
    pub sources: String,
}

impl Agents {
    /// Writes what a turn has read, in place of what was written before.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn taint_turn(&self, turn: &TurnId, sources: String) -> Result<(), StoreError> {
        let turn = turn.clone();
        self.database
            .write(Sync::Normal, move |connection| {
                connection
                    .prepare_cached("UPDATE turns SET taint = ?2 WHERE id = ?1")?
                    .execute(params![turn.as_str(), sources])?;
                failpoint::hit("s5.taint.before_commit");
                Ok(())
            })
            .await?;
        failpoint::hit("s5.taint.committed");
        Ok(())
    }

    /// Returns the newest tainted turn of a session, if it has one: since the conversation began anew, and also
    /// when a summary stands for it, because a summary is made of its words.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn newest_taint(&self, label: &SessionLabel) -> Result<Option<TaintedTurn>, StoreError> {
        let label = label.clone();
        self.database.look(move |connection| Ok(newest(connection, &label)?)).await
    }
}

/// Returns what the newest tainted turn of a session read, on one line.
pub(super) fn of_session(connection: &Connection, label: &SessionLabel) -> rusqlite::Result<Option<String>> {
    Ok(newest(connection, label)?.map(|turn| turn.sources.lines().collect::<Vec<_>>().join(BETWEEN)))
}

fn newest(connection: &Connection, label: &SessionLabel) -> rusqlite::Result<Option<TaintedTurn>> {
    connection
        .prepare_cached(
            "SELECT id, taint FROM turns WHERE session_label = ?1 AND taint IS NOT NULL AND depth > coalesce( \
                 (SELECT max(through_depth) FROM compactions \
                  WHERE session_label = ?1 AND cause = 'reset' AND undone_at IS NULL), -1) \
             ORDER BY depth DESC LIMIT 1",
        )?
        .query_row([label.as_str()], |row| {
            Ok(TaintedTurn { id: TurnId::new(row.get::<_, String>(0)?), sources: row.get(1)? })
        })
        .optional()
}
