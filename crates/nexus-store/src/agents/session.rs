//! Sessions: made once, found by label.

use nexus_base::clock::Timestamp;
use nexus_base::id::SessionLabel;
use rusqlite::{Connection, OptionalExtension, params};

use super::Agents;
use super::model::{NewSession, SessionRecord};
use super::rows;
use crate::error::StoreError;

impl Agents {
    /// Returns a session.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn session(&self, label: &SessionLabel) -> Result<Option<SessionRecord>, StoreError> {
        let label = label.clone();
        self.database.look(move |connection| Ok(find(connection, &label)?)).await
    }
}

pub(super) fn find(connection: &Connection, label: &SessionLabel) -> rusqlite::Result<Option<SessionRecord>> {
    connection
        .prepare_cached(concat!("SELECT ", rows::session_columns!(), " FROM sessions WHERE label = ?1"))?
        .query_row([label.as_str()], rows::session)
        .optional()
}

/// Makes the session unless it is there.
pub(super) fn ensure(connection: &Connection, new: &NewSession, now: Timestamp) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO sessions (label, persona, role, origin, settings_json, created_at, updated_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
        )?
        .execute(params![new.label.as_str(), new.persona, new.role.as_str(), new.origin, new.settings, now.0])?;
    Ok(())
}
