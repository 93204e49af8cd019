//! Admission: a message becomes a queue item, once (S3).

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::id::{QueueItemId, RequestId, SessionLabel, TurnId};
use rusqlite::{Connection, OptionalExtension, params};

use super::Agents;
use super::model::{
    Admitted, Item, ItemKind, ItemOutcome, NewItem, NewSession, OutboxState, Overflow, Untaken,
};
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
        tracing::trace!("S3: the item is queued");
        let (again_session, again_item) = (new_session.clone(), item.clone());
        let admitted = self
            .database
            .write(Sync::Normal, move |connection| {
                let now = Timestamp::now();
                session::ensure(connection, &new_session, now)?;
                let admitted = admit_if_room(connection, &item, cap, now)?;
                failpoint::hit("s3.before_commit");
                Ok(admitted)
            })
            .await?;
        let admitted = match admitted {
            Some(admitted) => admitted,
            // A message that ends here is told to `events.db` at once, which must never know more than
            // this file does after a loss of power. So this one is synced.
            None => {
                let (new_session, item) = (again_session, again_item);
                self.database
                    .write(Sync::Full, move |connection| {
                        let now = Timestamp::now();
                        session::ensure(connection, &new_session, now)?;
                        Ok(admit_into_full(connection, &item, cap, overflow, now)?)
                    })
                    .await?
            }
        };
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
                         GROUP BY session_label ORDER BY MIN(rowid)",
                    )?
                    .query_map([], |row| Ok(SessionLabel::new(row.get::<_, String>(0)?)))?
                    .collect::<rusqlite::Result<_>>()?;
                Ok(labels)
            })
            .await
    }

    /// Tells whether anything is unfinished that a restored copy brought along.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn has_restored_work(&self) -> Result<bool, StoreError> {
        self.database
            .read(|connection| {
                let mut statement = connection
                    .prepare_cached("SELECT 1 FROM queue_items WHERE status <> 'done' AND boot_id = ?1")?;
                Ok(statement.exists([crate::restored::RESTORED])?)
            })
            .await
    }

    /// Returns the item that belongs to a request.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn item_of_request(&self, request: &RequestId) -> Result<Option<Item>, StoreError> {
        let request = request.clone();
        self.database.look(move |connection| Ok(of_request(connection, &request)?)).await
    }

    /// Returns items that ended but are not yet told to `events.db` and `runtime.db` (S8).
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn unprojected_items(&self, limit: usize) -> Result<Vec<Item>, StoreError> {
        self.database
            .read(move |connection| {
                let items = connection
                    .prepare_cached(concat!(
                        "SELECT ",
                        rows::item_columns!(),
                        " FROM queue_items WHERE status = 'done' AND projected_at IS NULL \
                         ORDER BY rowid LIMIT ?1"
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

    /// Returns the tree a request belongs to and whether nothing in it is queued, running or
    /// undelivered; `None` when no item of the request was ever admitted.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn quiescence(&self, request: &RequestId) -> Result<Option<(RequestId, bool)>, StoreError> {
        let request = request.clone();
        self.database
            .look(move |connection| {
                let root: Option<String> = connection
                    .prepare_cached("SELECT root_request_id FROM queue_items WHERE request_id = ?1")?
                    .query_row([request.as_str()], |row| row.get(0))
                    .optional()?;
                let Some(root) = root.map(RequestId::new) else { return Ok(None) };
                let undelivered: bool = connection
                    .prepare_cached(
                        "SELECT EXISTS (SELECT 1 FROM outbox WHERE root_request_id = ?1 \
                         AND status IN ('pending', 'sending'))",
                    )?
                    .query_row([root.as_str()], |row| row.get(0))?;
                let open = undelivered || is_open(connection, &root)?;
                Ok(Some((root, !open)))
            })
            .await
    }
}

/// Says whether anything of a tree is queued or running, or a worker of it has not reported: one that was
/// interrupted by words from another tree goes on there and comes back here.
pub(super) fn is_open(connection: &Connection, root: &RequestId) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM queue_items WHERE root_request_id = ?1 \
             AND status IN ('pending', 'processing')) \
             OR EXISTS (SELECT 1 FROM queue_items JOIN sessions ON sessions.label = queue_items.session_label \
             WHERE queue_items.root_request_id = ?1 AND queue_items.kind = ?2 \
             AND sessions.task_status IN ('pending', 'running'))",
        )?
        .query_row(params![root.as_str(), ItemKind::Task], |row| row.get(0))
}

/// Makes two trees one: whoever waits for something of `from` waits for all of `into` from here on.
pub(super) fn merge_trees(
    connection: &Connection,
    from: &RequestId,
    into: &RequestId,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE queue_items SET root_request_id = ?2 WHERE root_request_id = ?1")?
        .execute([from.as_str(), into.as_str()])?;
    connection
        .prepare_cached("UPDATE outbox SET root_request_id = ?2 WHERE root_request_id = ?1")?
        .execute([from.as_str(), into.as_str()])?;
    Ok(())
}

pub(super) fn of_id(connection: &Connection, id: &QueueItemId) -> rusqlite::Result<Option<Item>> {
    connection
        .prepare_cached(concat!("SELECT ", rows::item_columns!(), " FROM queue_items WHERE id = ?1"))?
        .query_row([id.as_str()], rows::item)
        .optional()
}

pub(super) fn of_request(connection: &Connection, request: &RequestId) -> rusqlite::Result<Option<Item>> {
    connection
        .prepare_cached(concat!("SELECT ", rows::item_columns!(), " FROM queue_items WHERE request_id = ?1"))?
        .query_row([request.as_str()], rows::item)
        .optional()
}

/// Returns the newest item that a turn answers.
pub(super) fn last_of_turn(connection: &Connection, turn: &TurnId) -> rusqlite::Result<Option<Item>> {
    connection
        .prepare_cached(concat!(
            "SELECT ",
            rows::item_columns!(),
            " FROM queue_items WHERE turn_id = ?1 ORDER BY rowid DESC LIMIT 1"
        ))?
        .query_row([turn.as_str()], rows::item)
        .optional()
}

/// Inserts without looking at the cap; returns false when the id is known. What follows from another
/// request belongs to that one's tree as it is now, which may have been merged since.
pub(super) fn insert(connection: &Connection, item: &NewItem, now: Timestamp) -> rusqlite::Result<bool> {
    let inserted = connection
        .prepare_cached(
            "INSERT INTO queue_items (id, session_label, request_id, parent_request_id, root_request_id, \
             source_event_id, kind, mode, frame_json, content, permissions_json, status, enqueued_at) \
             VALUES (?1, ?2, ?3, ?4, \
                 COALESCE((SELECT root_request_id FROM queue_items WHERE request_id = ?4), ?5), \
                 ?6, ?7, ?8, ?9, ?10, ?11, 'pending', ?12) ON CONFLICT (id) DO NOTHING",
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
            item.facts,
            item.content,
            item.permissions,
            now.0,
        ])?;
    Ok(inserted == 1)
}

/// Ends an item that no turn took; returns it as it is then.
pub(super) fn end_untaken(
    connection: &Connection,
    id: &QueueItemId,
    outcome: ItemOutcome,
    error: &str,
    now: Timestamp,
) -> rusqlite::Result<Item> {
    connection
        .prepare_cached(
            "UPDATE queue_items SET status = 'done', outcome = ?2, error = ?3, finished_at = ?4 WHERE id = ?1",
        )?
        .execute(params![id.as_str(), outcome, error, now.0])?;
    of_id(connection, id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)
}

/// Admits unless the queue is full; `None` means that it is, and nothing was written.
pub(super) fn admit_if_room(
    connection: &Connection,
    item: &NewItem,
    cap: usize,
    now: Timestamp,
) -> rusqlite::Result<Option<Admitted>> {
    if of_id(connection, &item.id)?.is_some() {
        return Ok(Some(Admitted::AlreadyThere));
    }
    // Only a person's words count: dropping a worker's would lose work already paid for.
    let waiting: usize = connection
        .prepare_cached(
            "SELECT COUNT(*) FROM queue_items INDEXED BY queue_items_open \
             WHERE session_label = ?1 AND status <> 'done' AND status = 'pending' AND kind = 'message'",
        )?
        .query_row([item.session.as_str()], |row| row.get(0))?;
    if waiting >= cap.max(1) {
        return Ok(None);
    }
    insert(connection, item, now)?;
    Ok(Some(Admitted::Queued))
}

/// Admits into a queue that was full a moment ago.
fn admit_into_full(
    connection: &Connection,
    item: &NewItem,
    cap: usize,
    overflow: Overflow,
    now: Timestamp,
) -> rusqlite::Result<Admitted> {
    if !insert(connection, item, now)? {
        return Ok(Admitted::AlreadyThere);
    }
    let waiting: Vec<Item> = connection
        .prepare_cached(concat!(
            "SELECT ",
            rows::item_columns!(),
            " FROM queue_items INDEXED BY queue_items_open \
             WHERE session_label = ?1 AND status <> 'done' AND status = 'pending' AND kind = 'message' \
             ORDER BY rowid"
        ))?
        .query_map([item.session.as_str()], rows::item)?
        .collect::<rusqlite::Result<_>>()?;
    let (oldest, next) = match waiting.as_slice() {
        [oldest, next, ..] if waiting.len() > cap.max(1) => (oldest, next),
        _ => return Ok(Admitted::Queued),
    };
    let full = format!("{cap} messages were already waiting in {}", item.session);
    match overflow {
        Overflow::RejectNew => refuse(connection, item, &full, now).map(Box::new).map(Admitted::Refused),
        Overflow::DropOldest => {
            refuse(connection, &oldest.new, &full, now).map(Box::new).map(Admitted::QueuedInPlaceOf)
        }
        Overflow::Summarize => {
            fold(connection, oldest, next, now).map(Box::new).map(Admitted::QueuedInPlaceOf)
        }
    }
}

fn refuse(
    connection: &Connection,
    item: &NewItem,
    reason: &str,
    now: Timestamp,
) -> rusqlite::Result<Untaken> {
    let text =
        format!("This message was not accepted: {reason}. Send it again when the others have been answered.");
    let line = outbox::insert_for_item(connection, item, OutboxState::Error, &text, now)?;
    let item = end_untaken(connection, &item.id, ItemOutcome::Rejected, reason, now)?;
    Ok(Untaken { item, line: Some(line) })
}

/// Shortens `oldest` into `next`; whoever waits for `oldest` waits for `next` from here on.
fn fold(connection: &Connection, oldest: &Item, next: &Item, now: Timestamp) -> rusqlite::Result<Untaken> {
    let short: String = oldest.new.content.chars().take(SHORTENED_LENGTH).collect();
    let cut = if short.len() < oldest.new.content.len() { " […]" } else { "" };
    let content = format!("(earlier, shortened: {short}{cut})\n{}", next.new.content);
    connection
        .prepare_cached("UPDATE queue_items SET content = ?2 WHERE id = ?1")?
        .execute(params![next.new.id.as_str(), content])?;
    merge_trees(connection, &oldest.new.root_request_id, &next.new.root_request_id)?;
    let reason = "merged into the next message";
    let item = end_untaken(connection, &oldest.new.id, ItemOutcome::Merged, reason, now)?;
    Ok(Untaken { item, line: None })
}
