//! Files that hold words nobody vouches for.

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::id::{RequestId, ToolCallId};
use rusqlite::params;

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
