//! What the writer has done: which events it has seen, what caused what, which stretches of
//! conversation belong together.

use nexus_base::clock::Timestamp;
use nexus_base::id::{EventId, FactId, new_ulid};
use rusqlite::{OptionalExtension, params};
use serde_json::json;

use super::Memory;
use crate::error::StoreError;
use crate::writer::Sync;

/// A stretch of conversation to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEpisode {
    /// How it was cut: time_gap, thread, session.
    pub strategy: String,
    /// Platform it belongs to.
    pub platform: Option<String>,
    /// Thread it belongs to.
    pub thread_id: Option<String>,
    /// First moment.
    pub start: Timestamp,
    /// Last moment.
    pub end: Timestamp,
    /// Its events, in order.
    pub events: Vec<EventId>,
}

impl Memory {
    /// Notes that the writer has seen these events; noting it again changes nothing.
    pub async fn mark_processed(&self, events: Vec<EventId>, run: Option<String>) -> Result<(), StoreError> {
        self.database
            .write(Sync::Normal, move |connection| {
                let mut statement = connection.prepare_cached(
                    "INSERT INTO memory_processing_log (event_id, processed_at, writer_run_id, created_at)
                     VALUES (?1, ?2, ?3, ?2) ON CONFLICT DO NOTHING",
                )?;
                let now = Timestamp::now().as_millis();
                for event in &events {
                    statement.execute(params![event.as_str(), now, run])?;
                }
                Ok(())
            })
            .await
    }

    /// Returns those of the events that the writer has not seen.
    pub async fn unprocessed(&self, events: Vec<EventId>) -> Result<Vec<EventId>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT value FROM json_each(?1)
                     WHERE value NOT IN (SELECT event_id FROM memory_processing_log) ORDER BY key",
                )?;
                let ids: Vec<&str> = events.iter().map(EventId::as_str).collect();
                let rows = statement.query_map([json!(ids).to_string()], |row| row.get::<_, String>(0))?;
                Ok(rows.map(|id| id.map(EventId::new)).collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    /// Returns those of the events that are part of no stretch of a session that ended.
    pub async fn without_episode(&self, events: Vec<EventId>) -> Result<Vec<EventId>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT value FROM json_each(?1) WHERE NOT EXISTS (
                        SELECT 1 FROM episode_events JOIN episodes ON episodes.id = episode_id
                        WHERE event_id = value AND thread_id IS NOT NULL) ORDER BY key",
                )?;
                let ids: Vec<&str> = events.iter().map(EventId::as_str).collect();
                let rows = statement.query_map([json!(ids).to_string()], |row| row.get::<_, String>(0))?;
                Ok(rows.map(|id| id.map(EventId::new)).collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    /// Notes that one fact led to another.
    ///
    /// # Errors
    /// See [`StoreError`]; one of the facts is not there.
    pub async fn link_cause(&self, cause: FactId, effect: FactId, strength: f64) -> Result<(), StoreError> {
        self.database
            .write(Sync::Normal, move |connection| {
                connection
                    .prepare_cached(
                        "INSERT INTO causal_links (from_fact_id, to_fact_id, strength, created_at)
                         VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET strength = excluded.strength",
                    )?
                    .execute(params![
                        cause.as_str(),
                        effect.as_str(),
                        strength.clamp(0.0, 1.0),
                        Timestamp::now().as_millis()
                    ])?;
                Ok(())
            })
            .await
    }

    /// Returns rows of facts that led to these or followed from them, with the strength of the link.
    pub async fn causes_and_effects(&self, rows: Vec<i64>) -> Result<Vec<(i64, f64)>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "WITH seeds AS (SELECT id FROM facts WHERE row IN (SELECT value FROM json_each(?1)))
                     SELECT facts.row, max(strength) FROM (
                        SELECT to_fact_id AS id, strength FROM causal_links
                            WHERE from_fact_id IN (SELECT id FROM seeds)
                        UNION ALL
                        SELECT from_fact_id, strength FROM causal_links
                            WHERE to_fact_id IN (SELECT id FROM seeds)
                     ) AS linked JOIN facts ON facts.id = linked.id GROUP BY facts.row",
                )?;
                let found =
                    statement.query_map([json!(rows).to_string()], |row| Ok((row.get(0)?, row.get(1)?)))?;
                Ok(found.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    /// Stores a stretch of conversation; returns its id. A stretch that begins with the same event
    /// is replaced, since conversations go on.
    pub async fn put_episode(&self, episode: NewEpisode) -> Result<String, StoreError> {
        self.database
            .write(Sync::Normal, move |connection| {
                let first = episode.events.first().map(EventId::as_str);
                // Whoever cuts it again need not know whose session it is.
                let thread: Option<Option<String>> = connection
                    .prepare_cached(
                        "DELETE FROM episodes WHERE first_event_id = ?1 AND strategy = ?2 RETURNING thread_id",
                    )?
                    .query_row(params![first, episode.strategy], |row| row.get(0))
                    .optional()?;
                let thread = episode.thread_id.clone().or(thread.flatten());
                let id = new_ulid();
                connection
                    .prepare_cached(
                        "INSERT INTO episodes (id, strategy, platform, thread_id, start_time, end_time,
                            event_count, first_event_id, last_event_id, created_at)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                    )?
                    .execute(params![
                        id,
                        episode.strategy,
                        episode.platform,
                        thread,
                        episode.start.as_millis(),
                        episode.end.as_millis(),
                        i64::try_from(episode.events.len()).unwrap_or(i64::MAX),
                        first,
                        episode.events.last().map(EventId::as_str),
                        Timestamp::now().as_millis(),
                    ])?;
                let mut statement = connection.prepare_cached(
                    "INSERT INTO episode_events (episode_id, event_id, position) VALUES (?1, ?2, ?3)",
                )?;
                for (position, event) in (0i64..).zip(&episode.events) {
                    statement.execute(params![id, event.as_str(), position])?;
                }
                Ok(id)
            })
            .await
    }
}
