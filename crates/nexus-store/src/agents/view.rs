//! What people look at: a session's lines, the list of sessions, the turns of a request.
//! What turns used, summed up: the truth about tokens, since every turn that ends is written here.

use nexus_base::clock::Timestamp;
use nexus_base::id::{MessageId, OutboxId, RequestId, SessionLabel, TurnId};
use rusqlite::{Connection, params};

use super::model::{Item, OutboxState, SessionRecord};
use super::{Agents, rows};
use crate::error::StoreError;
use crate::words::count;

/// One line of a conversation; `state` is none for the person's own words.
#[derive(Debug, Clone)]
pub struct HistoryLine {
    /// Stable id.
    pub message_id: MessageId,
    /// Turn it belongs to; none while it waits.
    pub turn_id: Option<TurnId>,
    pub request_id: RequestId,
    /// What the line is to its reader.
    pub state: Option<OutboxState>,
    /// The words.
    pub text: String,
    pub at: Timestamp,
}

/// One session in a listing.
#[derive(Debug, Clone)]
pub struct SessionRow {
    pub session: SessionRecord,
    /// Turns on the path to its head.
    pub turns: u64,
    /// Items waiting.
    pub queued: u64,
    /// Whether a turn has taken items and not ended.
    pub running: bool,
}

impl Agents {
    /// Returns the newest `limit` lines of a conversation, oldest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn chat_history(
        &self,
        session: &SessionLabel,
        limit: usize,
    ) -> Result<Vec<HistoryLine>, StoreError> {
        let session = session.clone();
        self.database.read(move |connection| Ok(chat_history(connection, &session, limit)?)).await
    }

    /// Returns the sessions, most recently used first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn sessions(&self, limit: usize) -> Result<Vec<SessionRow>, StoreError> {
        self.database
            .read(move |connection| {
                let sessions: Vec<SessionRow> = connection
                    .prepare_cached(concat!("SELECT ", rows::session_columns!(), ", \
                         COALESCE((SELECT depth + 1 FROM turns WHERE turns.id = sessions.head_turn_id), 0), \
                         (SELECT COUNT(*) FROM queue_items WHERE session_label = label AND queue_items.status <> 'done' AND queue_items.status = 'pending'), \
                         EXISTS (SELECT 1 FROM queue_items WHERE session_label = label AND queue_items.status <> 'done' AND queue_items.status = 'processing') \
                         FROM sessions ORDER BY updated_at DESC, label LIMIT ?1"))?
                    .query_map([limit], |row| {
                        Ok(SessionRow {
                            session: rows::session(row)?,
                            turns: row.get(13)?,
                            queued: row.get(14)?,
                            running: row.get(15)?,
                        })
                    })?
                    .collect::<rusqlite::Result<_>>()?;
                Ok(sessions)
            })
            .await
    }

    /// Returns the requests that ended most recently, for a look whether the other files know them.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn newest_ended(&self, limit: u32) -> Result<Vec<RequestId>, StoreError> {
        self.database
            .read(move |connection| {
                let requests = connection
                    .prepare_cached(
                        "SELECT request_id FROM (SELECT request_id, status FROM queue_items ORDER BY rowid DESC LIMIT ?1) \
                         WHERE status = 'done'",
                    )?
                    .query_map([limit], |row| Ok(RequestId::new(row.get::<_, String>(0)?)))?
                    .collect::<rusqlite::Result<_>>()?;
                Ok(requests)
            })
            .await
    }

    /// Returns the newest lines and the requests they answer, likewise.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn newest_lines(&self, limit: u32) -> Result<Vec<(OutboxId, RequestId)>, StoreError> {
        self.database
            .read(move |connection| {
                let lines = connection
                    .prepare_cached("SELECT id, request_id FROM outbox ORDER BY rowid DESC LIMIT ?1")?
                    .query_map([limit], |row| {
                        Ok((
                            OutboxId::new(row.get::<_, String>(0)?),
                            RequestId::new(row.get::<_, String>(1)?),
                        ))
                    })?
                    .collect::<rusqlite::Result<_>>()?;
                Ok(lines)
            })
            .await
    }

    /// Returns every item of the tree a request belongs to, oldest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn items_of_tree(&self, request: &RequestId) -> Result<Vec<Item>, StoreError> {
        let request = request.clone();
        self.database
            .read(move |connection| {
                let items = connection
                    .prepare_cached(concat!(
                        "SELECT ",
                        rows::item_columns!(),
                        " FROM queue_items WHERE root_request_id = \
                         (SELECT root_request_id FROM queue_items WHERE request_id = ?1) ORDER BY rowid"
                    ))?
                    .query_map([request.as_str()], rows::item)?
                    .collect::<rusqlite::Result<_>>()?;
                Ok(items)
            })
            .await
    }
}

/// Both sides of the talk are cut before they are put together, so that a long one costs no more
/// than a short one. Their order is that of their rows: a clock that was set back moves nothing.
pub(super) fn chat_history(
    connection: &Connection,
    session: &SessionLabel,
    limit: usize,
) -> rusqlite::Result<Vec<HistoryLine>> {
    let mut lines: Vec<HistoryLine> = connection
        .prepare_cached(
            "SELECT * FROM (SELECT id, turn_id, request_id, NULL AS state, content AS text, enqueued_at AS at, rowid AS place, \
                 0 AS late, rowid AS line \
                 FROM queue_items WHERE session_label = ?1 AND kind = 'message' ORDER BY rowid DESC LIMIT ?2) \
             UNION ALL \
             SELECT * FROM (SELECT message_id, turn_id, request_id, state, text, created_at, after_item, 1, rowid \
                 FROM outbox WHERE session_label = ?1 AND status = 'delivered' ORDER BY rowid DESC LIMIT ?2) \
             ORDER BY place DESC, late DESC, line DESC LIMIT ?2",
        )?
        .query_map(params![session.as_str(), limit], |row| {
            Ok(HistoryLine {
                message_id: MessageId::new(row.get::<_, String>(0)?),
                turn_id: row.get::<_, Option<String>>(1)?.map(TurnId::new),
                request_id: RequestId::new(row.get::<_, String>(2)?),
                state: row.get(3)?,
                text: row.get(4)?,
                at: Timestamp(row.get(5)?),
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    lines.reverse();
    Ok(lines)
}

/// What turns of one day used, by provider and model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnUsage {
    /// The day, `YYYY-MM-DD` in this machine's time zone.
    pub day: String,
    pub provider: String,
    pub model: String,
    pub turns: u64,
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens produced.
    pub output_tokens: u64,
    /// Tokens from the provider's cache.
    pub cached_input_tokens: u64,
}

impl Agents {
    /// Sums up turns that began at `since` or later, oldest day first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn turn_usage(&self, since: Timestamp) -> Result<Vec<TurnUsage>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT strftime('%Y-%m-%d', started_at / 1000, 'unixepoch', 'localtime') AS day,
                            coalesce(provider, '') AS provider, model, count(*), sum(input_tokens + cache_write_tokens),
                            sum(output_tokens), sum(cached_input_tokens)
                     FROM turns WHERE started_at >= ?1 AND model IS NOT NULL
                     GROUP BY day, provider, model ORDER BY day, provider, model",
                )?;
                let rows = statement.query_map([since.as_millis()], |row| {
                    Ok(TurnUsage {
                        day: row.get(0)?,
                        provider: row.get(1)?,
                        model: row.get(2)?,
                        turns: count(row, 3)?,
                        input_tokens: count(row, 4)?,
                        output_tokens: count(row, 5)?,
                        cached_input_tokens: count(row, 6)?,
                    })
                })?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }
}
