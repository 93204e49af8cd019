//! What arrived and what was said: `events.db`. `inbox` is the durable promise behind an
//! acknowledgement; who keeps the promise is decided elsewhere.
//! Messages that were closed without ever reaching a queue. Only their trace tells of them, and a trace
//! may be lost.

mod model;
mod turns;

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::id::{EventId, RequestId};
use rusqlite::{Connection, OptionalExtension, named_params, params};

use crate::database::Database;
use crate::error::StoreError;
use crate::search;
use crate::words::{count, json_text};
use crate::writer::Sync;

pub use self::model::{AcceptedEvent, Direction, Event, InboxOutcome, InboxState, NewEvent, Received};
pub use self::turns::{Turn, TurnFilter, TurnHit, conversation_key};

/// Most rows one listing returns.
const LISTING_LIMIT: u32 = 1000;

/// Typed queries on `events.db`.
#[derive(Debug, Clone)]
pub struct Events {
    database: Database,
}

impl Events {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }

    /// Stores an event that asks for an answer, once. After this returns [`Received::New`] the event
    /// survives the loss of power and may be acknowledged.
    ///
    /// # Errors
    /// The event is not stored; see [`StoreError`].
    pub async fn receive(
        &self,
        event: NewEvent,
        request_id: RequestId,
        body_hash: String,
    ) -> Result<Received, StoreError> {
        tracing::trace!("S1: the event and its promise are stored");
        let received = self
            .database
            .write(Sync::Full, move |connection| {
                let received = receive(connection, &event, &request_id, &body_hash)?;
                failpoint::hit("s1.before_commit");
                Ok(received)
            })
            .await?;
        failpoint::hit("s1.committed");
        Ok(received)
    }

    /// Records how an accepted event ended. Returns false when it had ended before.
    pub async fn close_inbox(&self, event_id: EventId, outcome: InboxOutcome) -> Result<bool, StoreError> {
        self.database.write(Sync::Normal, move |connection| close_inbox(connection, &event_id, outcome)).await
    }

    /// Stores an event that asks for no answer, such as a reply; returns false when it was there.
    pub async fn insert_outbound(&self, event: NewEvent) -> Result<bool, StoreError> {
        self.database.write(Sync::Normal, move |connection| insert(connection, &event)).await
    }

    /// Stores what was said in answer to an event and records how that event ended, both or neither.
    /// Repeatable: what is there stays, and so does the first end.
    pub async fn answered(
        &self,
        said: Vec<NewEvent>,
        ended: Option<(EventId, InboxOutcome)>,
    ) -> Result<(), StoreError> {
        tracing::trace!("S8: the answer is stored, the promise kept");
        self.database
            .write(Sync::Normal, move |connection| {
                for event in &said {
                    insert(connection, event)?;
                }
                if let Some((event, outcome)) = &ended {
                    close_inbox(connection, event, *outcome)?;
                }
                Ok(())
            })
            .await
    }

    /// Returns events whose promise is still open, oldest first.
    pub async fn accepted(&self, limit: u32) -> Result<Vec<AcceptedEvent>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT events.*, inbox.request_id, inbox.body_hash, inbox.accepted_at FROM inbox
                     JOIN events ON events.id = inbox.event_id
                     WHERE inbox.outcome = 'accepted' ORDER BY events.row LIMIT ?1",
                )?;
                let rows = statement.query_map([limit], AcceptedEvent::from_row)?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    pub async fn get(&self, event_id: EventId) -> Result<Option<Event>, StoreError> {
        self.database
            .look(move |connection| {
                let mut statement = connection.prepare_cached("SELECT * FROM events WHERE id = ?1")?;
                Ok(statement.query_row([event_id.as_str()], Event::from_row).optional()?)
            })
            .await
    }

    /// Returns those of the given events that are not stored.
    pub async fn unknown(&self, events: Vec<EventId>) -> Result<Vec<EventId>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached("SELECT 1 FROM events WHERE id = ?1")?;
                let mut unknown = Vec::new();
                for event in events {
                    if !statement.exists([event.as_str()])? {
                        unknown.push(event);
                    }
                }
                Ok(unknown)
            })
            .await
    }

    /// Returns where an event's promise stands, and the request that serves it.
    pub async fn inbox_state(&self, event_id: EventId) -> Result<Option<InboxState>, StoreError> {
        self.database.look(move |connection| inbox_state(connection, &event_id)).await
    }

    /// Returns events whose content has any of the words, best match first.
    pub async fn search(&self, text: &str, limit: u32) -> Result<Vec<Event>, StoreError> {
        let Some(words) = search::any_word(text) else { return Ok(Vec::new()) };
        let query = format!("own : ({words})");
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT events.* FROM turns_fts JOIN events ON events.row = turns_fts.rowid
                     WHERE turns_fts MATCH ?1 ORDER BY bm25(turns_fts), events.row DESC LIMIT ?2",
                )?;
                let rows = statement.query_map(params![query, limit.min(LISTING_LIMIT)], Event::from_row)?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    /// Returns how many events are stored, and how many promises are open.
    pub async fn counts(&self) -> Result<(u64, u64), StoreError> {
        self.database.read(counts).await
    }

    /// Like [`Events::counts`], for callers outside an async runtime.
    pub fn counts_blocking(&self) -> Result<(u64, u64), StoreError> {
        self.database.read_blocking(counts)
    }
}

fn receive(
    connection: &Connection,
    event: &NewEvent,
    request_id: &RequestId,
    body_hash: &str,
) -> Result<Received, StoreError> {
    let event_id = event.id();
    let is_new = insert(connection, event)?;
    if !is_new && let Some(stored) = inbox_state(connection, &event_id)? {
        return Ok(Received::Duplicate {
            request_id: stored.request_id,
            same_body: stored.body_hash == body_hash,
            outcome: stored.outcome,
        });
    }
    // An event that is stored without a promise was only observed. Seeing it again must not start
    // work either, and the refusal should be visible.
    let outcome = if is_new { InboxOutcome::Accepted } else { InboxOutcome::Skipped };
    let now = Timestamp::now();
    connection
        .prepare_cached(
            "INSERT INTO inbox (event_id, request_id, body_hash, outcome, accepted_at, closed_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            event_id.as_str(),
            request_id.as_str(),
            body_hash,
            outcome,
            now.as_millis(),
            (!is_new).then_some(now.as_millis()),
        ])?;
    if is_new {
        return Ok(Received::New);
    }
    Ok(Received::Duplicate { request_id: request_id.clone(), same_body: true, outcome })
}

fn insert(connection: &Connection, event: &NewEvent) -> Result<bool, StoreError> {
    let inserted = connection
        .prepare_cached(
            "INSERT INTO events (id, source, source_id, type, direction, platform, account_id, sender_id,
                to_recipients, space_id, container_kind, container_id, thread_id, reply_to, content,
                content_type, attachments, timestamp, received_at, metadata)
             VALUES (:id, :source, :source_id, :type, :direction, :platform, :account_id, :sender_id,
                :to_recipients, :space_id, :container_kind, :container_id, :thread_id, :reply_to, :content,
                :content_type, :attachments, :timestamp, :received_at, :metadata)
             ON CONFLICT DO NOTHING",
        )?
        .execute(named_params! {
            ":id": event.id().as_str(),
            ":source": event.source,
            ":source_id": event.source_id,
            ":type": event.kind,
            ":direction": event.direction,
            ":platform": event.platform,
            ":account_id": event.account_id,
            ":sender_id": event.sender_id,
            ":to_recipients": json_text(event.to_recipients.as_ref()),
            ":space_id": event.space_id,
            ":container_kind": event.container_kind,
            ":container_id": event.container_id,
            ":thread_id": event.thread_id,
            ":reply_to": event.reply_to,
            ":content": event.content,
            ":content_type": event.content_type,
            ":attachments": json_text(event.attachments.as_ref()),
            ":timestamp": event.timestamp.as_millis(),
            ":received_at": Timestamp::now().as_millis(),
            ":metadata": json_text(event.metadata.as_ref()),
        })?;
    if inserted == 1 {
        turns::index(connection, event, connection.last_insert_rowid())?;
    }
    Ok(inserted == 1)
}

fn close_inbox(
    connection: &Connection,
    event_id: &EventId,
    outcome: InboxOutcome,
) -> Result<bool, StoreError> {
    if outcome == InboxOutcome::Accepted {
        return Ok(false);
    }
    let closed = connection
        .prepare_cached(
            "UPDATE inbox SET outcome = ?2, closed_at = ?3 WHERE event_id = ?1 AND outcome = 'accepted'",
        )?
        .execute(params![event_id.as_str(), outcome, Timestamp::now().as_millis()])?;
    Ok(closed == 1)
}

fn inbox_state(connection: &Connection, event_id: &EventId) -> Result<Option<InboxState>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT request_id, body_hash, outcome FROM inbox WHERE event_id = ?1")?;
    let state = statement
        .query_row([event_id.as_str()], |row| {
            Ok(InboxState {
                request_id: RequestId::new(row.get::<_, String>(0)?),
                body_hash: row.get(1)?,
                outcome: row.get(2)?,
            })
        })
        .optional()?;
    Ok(state)
}

fn counts(connection: &Connection) -> Result<(u64, u64), StoreError> {
    Ok(connection.query_row(
        "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM inbox WHERE outcome = 'accepted')",
        [],
        |row| Ok((count(row, 0)?, count(row, 1)?)),
    )?)
}

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
