//! System prompts and tools as models were sent them.

use nexus_base::failpoint;
use rusqlite::{OptionalExtension, params};

use super::Agents;
use crate::error::StoreError;
use crate::writer::Sync;

/// Prompts that are kept; the oldest go first.
const MAX_COUNT: u32 = 500;

impl Agents {
    /// Keeps a prompt under its id, unless it is there.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn keep_prompt(&self, id: &str, parts_json: String) -> Result<(), StoreError> {
        let id = id.to_owned();
        self.database
            .write(Sync::Normal, move |connection| {
                connection
                    .prepare_cached("INSERT OR IGNORE INTO prompts (id, parts_json) VALUES (?1, ?2)")?
                    .execute(params![id, parts_json])?;
                connection
                    .prepare_cached(
                        "DELETE FROM prompts WHERE rowid <= (SELECT MAX(rowid) FROM prompts) - ?1",
                    )?
                    .execute([MAX_COUNT])?;
                failpoint::hit("turn.prompt.before_commit");
                Ok(())
            })
            .await?;
        failpoint::hit("turn.prompt.committed");
        Ok(())
    }

    /// Returns the parts of a prompt as JSON, while it is kept.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn prompt(&self, id: &str) -> Result<Option<String>, StoreError> {
        let id = id.to_owned();
        self.database
            .read(move |connection| {
                Ok(connection
                    .prepare_cached("SELECT parts_json FROM prompts WHERE id = ?1")?
                    .query_row([id], |row| row.get(0))
                    .optional()?)
            })
            .await
    }
}
