//! Admission: a message becomes a queue item, once (S3).

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::id::{QueueItemId, RequestId, SessionLabel};
use rusqlite::{Connection, OptionalExtension, params};

use super::Agents;
use super::model::{Admitted, Item, ItemOutcome, NewItem, NewSession, OutboxState, Overflow};
use super::{outbox, rows, session};
use crate::error::StoreError;
use crate::writer::Sync;

/// How much of a message stays when a full queue folds it into the next one.
const SHORTENED_LENGTH: usize = 200;

impl Agents {
    /// Makes the session if needed and puts the item into its queue, unless its id is known already.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn admit(
        &self,
        new_session: NewSession,
        item: NewItem,
        cap: usize,
        overflow: Overflow,
    ) -> Result<Admitted, StoreError> {
        let admitted = self
            .database
            .write(Sync::Normal, move |connection| {
                let now = Timestamp::now();
                session::ensure(connection, &new_session, now)?;
                let admitted = admit(connection, &item, cap, overflow, now)?;
                failpoint::hit("s3.before_commit");
                Ok(admitted)
            })
            .await?;
        failpoint::hit("s3.committed");
        Ok(admitted)
    }

    /// Returns every session that has something waiting or taken by another life of the daemon.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn sessions_with_work(&self) -> Result<Vec<SessionLabel>, StoreError> {
        self.database
            .read(|connection| {
                let labels = connection
                    .prepare_cached(
                        "SELECT session_label FROM queue_items WHERE status <> 'done' \
                         GROUP BY session_label ORDER BY MIN(enqueued_at)",
                    )?
                    .query_map([], |row| Ok(SessionLabel::new(row.get::<_, String>(0)?)))?
                    .collect::<rusqlite::Result<_>>()?;
                Ok(labels)
            })
            .await
    }

    /// Returns the item that belongs to a request.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn item_of_request(&self, request: &RequestId) -> Result<Option<Item>, StoreError> {
        let request = request.clone();
        self.database.read(move |connection| Ok(of_request(connection, &request)?)).await
    }

    /// Returns items that ended but are not yet told to `events.db` and `runtime.db` (S8).
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn unprojected_items(&self, limit: usize) -> Result<Vec<Item>, StoreError> {
        self.database
            .read(move |connection| {
                let items = connection
                    .prepare_cached(&format!(
                        "SELECT {} FROM queue_items WHERE status = 'done' AND projected_at IS NULL \
                         ORDER BY enqueued_at LIMIT ?1",
                        rows::ITEM_COLUMNS
                    ))?
                    .query_map([limit], rows::item)?
                    .collect::<rusqlite::Result<_>>()?;
                Ok(items)
            })
            .await
    }

    /// Marks an item as told.
    pub fn item_projected(&self, id: QueueItemId) {
        self.database.write_later(move |connection| {
            connection
                .prepare_cached(
                    "UPDATE queue_items SET projected_at = ?2 WHERE id = ?1 AND projected_at IS NULL",
                )?
                .execute(params![id.as_str(), Timestamp::now().0])?;
            Ok(())
        });
    }

    /// Says whether nothing of a request's tree is queued, running or undelivered; `None` when no
    /// item of the request was ever admitted.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn is_quiescent(&self, request: &RequestId) -> Result<Option<bool>, StoreError> {
        let request = request.clone();
        self.database
            .read(move |connection| {
                let root: Option<String> = connection
                    .prepare_cached("SELECT root_request_id FROM queue_items WHERE request_id = ?1")?
                    .query_row([request.as_str()], |row| row.get(0))
                    .optional()?;
                let Some(root) = root else { return Ok(None) };
                let open: bool = connection
                    .prepare_cached(
                        "SELECT EXISTS (SELECT 1 FROM queue_items WHERE root_request_id = ?1 AND status <> 'done') \
                             OR EXISTS (SELECT 1 FROM outbox WHERE root_request_id = ?1 AND status <> 'delivered')",
                    )?
                    .query_row([root], |row| row.get(0))?;
                Ok(Some(!open))
            })
            .await
    }
}

pub(super) fn of_request(connection: &Connection, request: &RequestId) -> rusqlite::Result<Option<Item>> {
    connection
        .prepare_cached(&format!("SELECT {} FROM queue_items WHERE request_id = ?1", rows::ITEM_COLUMNS))?
        .query_row([request.as_str()], rows::item)
        .optional()
}

/// Inserts without looking at the cap; returns false when the id is known.
pub(super) fn insert(connection: &Connection, item: &NewItem, now: Timestamp) -> rusqlite::Result<bool> {
    let inserted = connection
        .prepare_cached(
            "INSERT OR IGNORE INTO queue_items (id, session_label, request_id, parent_request_id, root_request_id, \
             source_event_id, kind, mode, frame_json, content, permissions_json, status, enqueued_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 'pending', ?12)",
        )?
        .execute(params![
            item.id.as_str(),
            item.session.as_str(),
            item.request_id.as_str(),
            item.parent_request_id.as_ref().map(RequestId::as_str),
            item.root_request_id.as_str(),
            item.source_event_id.as_ref().map(nexus_base::id::EventId::as_str),
            item.kind,
            item.mode,
            item.frame_json,
            item.content,
            item.permissions_json,
            now.0,
        ])?;
    Ok(inserted == 1)
}

/// Ends an item that no turn took.
pub(super) fn end_untaken(
    connection: &Connection,
    id: &QueueItemId,
    outcome: ItemOutcome,
    error: &str,
    now: Timestamp,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE queue_items SET status = 'done', outcome = ?2, error = ?3, finished_at = ?4 WHERE id = ?1",
        )?
        .execute(params![id.as_str(), outcome, error, now.0])?;
    Ok(())
}

fn admit(
    connection: &Connection,
    item: &NewItem,
    cap: usize,
    overflow: Overflow,
    now: Timestamp,
) -> rusqlite::Result<Admitted> {
    if !insert(connection, item, now)? {
        return Ok(Admitted::AlreadyThere);
    }
    // Results of workers never count: dropping one would lose work already paid for.
    let waiting: Vec<Item> = connection
        .prepare_cached(&format!(
            "SELECT {} FROM queue_items WHERE session_label = ?1 AND status = 'pending' AND kind <> 'worker_result' \
             ORDER BY enqueued_at, id",
            rows::ITEM_COLUMNS
        ))?
        .query_map([item.session.as_str()], rows::item)?
        .collect::<rusqlite::Result<_>>()?;
    if waiting.len() <= cap {
        return Ok(Admitted::Queued);
    }
    let full = format!("{} messages were already waiting in {}", cap, item.session);
    match overflow {
        Overflow::RejectNew => {
            refuse(connection, item, &full, now)?;
            Ok(Admitted::Refused)
        }
        Overflow::DropOldest => {
            refuse(connection, &waiting[0].new, &full, now)?;
            Ok(Admitted::QueuedInPlaceOfAnother)
        }
        Overflow::Summarize => {
            fold(connection, &waiting[0], &waiting[1], now)?;
            Ok(Admitted::QueuedInPlaceOfAnother)
        }
    }
}

fn refuse(connection: &Connection, item: &NewItem, reason: &str, now: Timestamp) -> rusqlite::Result<()> {
    end_untaken(connection, &item.id, ItemOutcome::Rejected, reason, now)?;
    let text = format!("This message was not taken: {reason}. Send it again when the others are answered.");
    outbox::insert_for_item(connection, item, OutboxState::Error, &text, now)
}

/// Shortens `oldest` into `next`; whoever waits for `oldest` waits for `next` from here on.
fn fold(connection: &Connection, oldest: &Item, next: &Item, now: Timestamp) -> rusqlite::Result<()> {
    let short: String = oldest.new.content.chars().take(SHORTENED_LENGTH).collect();
    let cut = if short.len() < oldest.new.content.len() { " […]" } else { "" };
    let content = format!("(earlier, shortened: {short}{cut})\n{}", next.new.content);
    connection.execute(
        "UPDATE queue_items SET content = ?2 WHERE id = ?1",
        params![next.new.id.as_str(), content],
    )?;
    connection.execute(
        "UPDATE queue_items SET root_request_id = ?2 WHERE id = ?1",
        params![oldest.new.id.as_str(), next.new.root_request_id.as_str()],
    )?;
    end_untaken(connection, &oldest.new.id, ItemOutcome::Merged, "shortened into the next message", now)
}
