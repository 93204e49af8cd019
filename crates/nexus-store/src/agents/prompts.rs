//! System prompts and tools as models were sent them.
//! What a turn was told besides its words: additions to its newest message, and the record of every
//! part that was sent.

use nexus_base::failpoint;
use nexus_base::id::TurnId;
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

impl Agents {
    /// Keeps the block before a turn's newest words as it was sent, additions included, so that
    /// history repeats it byte for byte and a resumed turn does not ask for them again.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn record_enrichment(
        &self,
        turn: &TurnId,
        frame: String,
        context_json: String,
    ) -> Result<(), StoreError> {
        let turn = turn.clone();
        self.database
            .write(Sync::Normal, move |connection| {
                connection
                    .prepare_cached(
                        "UPDATE messages SET frame = ?2 WHERE turn_id = ?1 AND sequence = \
                         (SELECT MAX(sequence) FROM messages WHERE turn_id = ?1 AND role = 'user')",
                    )?
                    .execute(params![turn.as_str(), frame])?;
                connection
                    .prepare_cached("UPDATE turns SET context_json = ?2 WHERE id = ?1")?
                    .execute(params![turn.as_str(), context_json])?;
                failpoint::hit("turn.enrichment.before_commit");
                Ok(())
            })
            .await?;
        failpoint::hit("turn.enrichment.committed");
        Ok(())
    }

    /// Returns the record of what a turn was sent, part by part, as JSON.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn turn_context(&self, turn: &TurnId) -> Result<Option<String>, StoreError> {
        let turn = turn.clone();
        self.database
            .look(move |connection| {
                let found: Option<Option<String>> = connection
                    .prepare_cached("SELECT context_json FROM turns WHERE id = ?1")?
                    .query_row([turn.as_str()], |row| row.get(0))
                    .optional()?;
                Ok(found.flatten())
            })
            .await
    }
}
