//! The outbox: what must be said, until it is readable (S7) and told to the other files (S8).
//! A message that is answered without a turn: its item and the reply, in one transaction.

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::id::{MessageId, OutboxId, RequestId, TurnId};
use rusqlite::{Connection, params};

use super::model::{ItemOutcome, NewItem, NewSession, OutboxRecord, OutboxState, OutboxStatus, Untaken};
use super::{Agents, queue, rows, session};
use crate::error::StoreError;
use crate::writer::Sync;

impl Agents {
    /// Returns lines that are not delivered, oldest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn undelivered(&self, limit: usize) -> Result<Vec<OutboxRecord>, StoreError> {
        self.database
            .read(move |connection| {
                let lines = connection
                    .prepare_cached(concat!(
                        "SELECT ",
                        rows::outbox_columns!(),
                        " FROM outbox WHERE status <> 'delivered' ORDER BY rowid LIMIT ?1"
                    ))?
                    .query_map([limit], rows::outbox)?
                    .collect::<rusqlite::Result<_>>()?;
                Ok(lines)
            })
            .await
    }

    /// Returns the lines that answer one request, oldest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn lines_of_request(&self, request: &RequestId) -> Result<Vec<OutboxRecord>, StoreError> {
        let request = request.clone();
        self.database
            .look(move |connection| {
                let lines = connection
                    .prepare_cached(concat!(
                        "SELECT ",
                        rows::outbox_columns!(),
                        " FROM outbox WHERE request_id = ?1 ORDER BY rowid"
                    ))?
                    .query_map([request.as_str()], rows::outbox)?
                    .collect::<rusqlite::Result<_>>()?;
                Ok(lines)
            })
            .await
    }

    /// Marks a line as being said.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn outbox_sending(&self, id: &OutboxId) -> Result<(), StoreError> {
        tracing::trace!("S7: the line is being said");
        let id = id.clone();
        self.database
            .write(Sync::Normal, move |connection| {
                connection
                    .prepare_cached(
                        "UPDATE outbox SET status = 'sending', attempts = attempts + 1 \
                         WHERE id = ?1 AND status <> 'delivered'",
                    )?
                    .execute([id.as_str()])?;
                failpoint::hit("s7.sending.before_commit");
                Ok(())
            })
            .await?;
        failpoint::hit("s7.sending.committed");
        Ok(())
    }

    /// Marks a line as readable by its reader.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn outbox_delivered(&self, id: &OutboxId) -> Result<(), StoreError> {
        let id = id.clone();
        self.database
            .write(Sync::Normal, move |connection| {
                connection
                    .prepare_cached(
                        "UPDATE outbox SET status = 'delivered', delivered_at = ?2 WHERE id = ?1",
                    )?
                    .execute(params![id.as_str(), Timestamp::now().0])?;
                failpoint::hit("s7.delivered.before_commit");
                Ok(())
            })
            .await?;
        failpoint::hit("s7.delivered.committed");
        Ok(())
    }

    /// Returns every delivered line of a request's tree, oldest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn replies_of(&self, request: &RequestId) -> Result<Vec<OutboxRecord>, StoreError> {
        let request = request.clone();
        self.database
            .look(move |connection| {
                let lines = connection
                    .prepare_cached(concat!(
                        "SELECT ",
                        rows::outbox_columns!(),
                        " FROM outbox WHERE status = 'delivered' AND root_request_id = \
                         (SELECT root_request_id FROM queue_items WHERE request_id = ?1) ORDER BY rowid"
                    ))?
                    .query_map([request.as_str()], rows::outbox)?
                    .collect::<rusqlite::Result<_>>()?;
                Ok(lines)
            })
            .await
    }
}

pub(super) fn insert(connection: &Connection, line: &OutboxRecord) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR IGNORE INTO outbox (id, turn_id, session_label, request_id, root_request_id, message_id, state, \
             text, status, created_at, reply_to, after_item) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, \
             (SELECT MAX(rowid) FROM queue_items))",
        )?
        .execute(params![
            line.id.as_str(),
            line.turn_id.as_ref().map(TurnId::as_str),
            line.session.as_str(),
            line.request_id.as_str(),
            line.root_request_id.as_str(),
            line.message_id.as_str(),
            line.state,
            line.text,
            line.status,
            line.created_at.0,
            line.reply_to,
        ])?;
    Ok(())
}

/// Writes a line about an item that no turn took.
pub(super) fn insert_for_item(
    connection: &Connection,
    item: &NewItem,
    state: OutboxState,
    text: &str,
    now: Timestamp,
) -> rusqlite::Result<OutboxRecord> {
    let line = OutboxRecord {
        id: OutboxId::new(format!("{}:refused", item.id)),
        turn_id: None,
        session: item.session.clone(),
        request_id: item.request_id.clone(),
        root_request_id: item.root_request_id.clone(),
        message_id: MessageId::new(format!("{}:refused", item.id)),
        state,
        text: text.to_owned(),
        reply_to: None,
        status: OutboxStatus::Pending,
        created_at: now,
    };
    insert(connection, &line)?;
    Ok(line)
}

/// Returns the lines a turn said.
pub(super) fn of_turn(connection: &Connection, turn: &TurnId) -> rusqlite::Result<Vec<OutboxRecord>> {
    connection
        .prepare_cached(concat!(
            "SELECT ",
            rows::outbox_columns!(),
            " FROM outbox WHERE id = ?1 || ':0' AND status <> 'delivered'"
        ))?
        .query_map([turn.as_str()], rows::outbox)?
        .collect()
}

/// Says whether anything was said in a tree since a turn took the newest words a person said there.
pub(super) fn answered(connection: &Connection, root: &RequestId) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM outbox JOIN turns ON turns.id = outbox.turn_id \
             WHERE outbox.root_request_id = ?1 AND turns.depth >= \
                 (SELECT COALESCE(MAX(turns.depth), 0) FROM queue_items JOIN turns ON turns.id = queue_items.turn_id \
                  WHERE queue_items.root_request_id = ?1 AND queue_items.kind = 'message'))",
        )?
        .query_row([root.as_str()], |row| row.get(0))
}

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
                let line = insert_for_item(connection, &item, OutboxState::Final, &reply, now)?;
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
