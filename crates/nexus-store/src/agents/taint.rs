//! What turns read that nobody vouches for.

use nexus_base::failpoint;
use nexus_base::id::{SessionLabel, TurnId};
use rusqlite::{Connection, OptionalExtension, params};

use super::Agents;
use crate::error::StoreError;
use crate::writer::Sync;

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
