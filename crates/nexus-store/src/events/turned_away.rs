//! Messages that were closed without ever reaching a queue. Only their trace tells of them, and a trace
//! may be lost.

use super::{AcceptedEvent, Events};
use crate::error::StoreError;

impl Events {
    /// Returns those of the newest `look_back` promises that were denied, dealt with or passed over.
    pub async fn turned_away(&self, look_back: u32) -> Result<Vec<AcceptedEvent>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare(
                    "SELECT events.*, newest.request_id, newest.body_hash, newest.accepted_at FROM
                         (SELECT * FROM inbox ORDER BY rowid DESC LIMIT ?1) AS newest
                     JOIN events ON events.id = newest.event_id
                     WHERE newest.outcome IN ('denied', 'handled', 'skipped')",
                )?;
                let rows = statement.query_map([look_back], AcceptedEvent::from_row)?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }
}
