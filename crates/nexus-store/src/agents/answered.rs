//! A message that is answered without a turn: its item and the reply, in one transaction.

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;

use super::Agents;
use super::model::{ItemOutcome, NewItem, NewSession, OutboxState, Untaken};
use super::{outbox, queue, session};
use crate::error::StoreError;
use crate::writer::Sync;

impl Agents {
    /// Keeps an item that somebody else has dealt with, together with what the person is told; nothing
    /// when the item is known already.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn answer(
        &self,
        new_session: NewSession,
        item: NewItem,
        reply: &str,
    ) -> Result<Option<Untaken>, StoreError> {
        let reply = reply.to_owned();
        let answered = self
            .database
            // Synced like a refusal: `events.db` is told at once and must never know more than this file.
            .write(Sync::Full, move |connection| {
                let now = Timestamp::now();
                session::ensure(connection, &new_session, now)?;
                if !queue::insert(connection, &item, now)? {
                    return Ok(None);
                }
                let line = outbox::insert_for_item(connection, &item, OutboxState::Final, &reply, now)?;
                let outcome = ItemOutcome::Completed;
                queue::end_untaken(connection, &item.id, outcome, "", now)?;
                // Nothing went wrong with it; who dealt with it stands in its trace.
                connection
                    .prepare_cached("UPDATE queue_items SET error = NULL WHERE id = ?1")?
                    .execute([item.id.as_str()])?;
                let item = queue::of_id(connection, &item.id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
                failpoint::hit("s3.before_answer");
                Ok(Some(Untaken { item, line: Some(line) }))
            })
            .await?;
        failpoint::hit("s3.answered");
        Ok(answered)
    }
}
