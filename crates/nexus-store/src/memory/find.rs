//! Facts by their words, by rows and by the events they came from, with what a viewer may not see
//! left out before anything is ranked.

use std::collections::HashMap;

use nexus_base::clock::Timestamp;
use nexus_base::id::{EntityId, EventId, FactId};
use rusqlite::{Connection, params};
use serde_json::json;

use super::{Fact, LISTING_LIMIT, Memory, facts, select};
use crate::error::StoreError;
use crate::search::{self, Words};
use crate::writer::Sync;

/// Whose facts are meant: those that are about these entities and about nobody else, and those that
/// were learnt in these conversations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SharedFacts {
    pub entities: Vec<EntityId>,
    pub conversations: Vec<String>,
}

/// Which facts are looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FactFilter {
    /// Only these; all when none.
    pub shared: Option<SharedFacts>,
    /// Only facts about this entity.
    pub about: Option<EntityId>,
    /// True at this time or later.
    pub after: Option<Timestamp>,
    /// True before this time.
    pub before: Option<Timestamp>,
}

/// A fact whose words match.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FactHit {
    pub row: i64,
    /// How well it matches; more is better.
    pub score: f64,
}

/// What the arrays beside the vectors hold of a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactMark {
    pub row: i64,
    /// Its sentence.
    pub text: String,
    /// When it was true, in Unix milliseconds.
    pub as_of: i64,
}

/// A fact with its row.
#[derive(Debug, Clone, PartialEq)]
pub struct FactRow {
    pub row: i64,
    pub fact: Fact,
}

/// The condition that leaves out what a viewer may not see. `?2` is a JSON array of entities, or
/// NULL for all facts; `?3` one of conversations.
const VISIBLE: &str = "(?2 IS NULL
    OR facts.conversation IN (SELECT value FROM json_each(?3))
    OR (EXISTS (SELECT 1 FROM fact_entities AS link WHERE link.fact_id = facts.id)
        AND NOT EXISTS (SELECT 1 FROM fact_entities AS link WHERE link.fact_id = facts.id
            AND link.entity_id NOT IN (SELECT value FROM json_each(?2)))))
    AND (?4 IS NULL OR EXISTS (SELECT 1 FROM fact_entities AS link
            WHERE link.fact_id = facts.id AND link.entity_id = ?4))
    AND (?5 IS NULL OR facts.as_of >= ?5) AND (?6 IS NULL OR facts.as_of < ?6)";

impl Memory {
    /// Returns facts with any of the words, best match first. Words that most facts have are left
    /// out while rarer ones remain; scripts without spaces are matched by parts of words.
    pub async fn find_facts(
        &self,
        words: Vec<String>,
        filter: FactFilter,
        limit: u32,
    ) -> Result<Vec<FactHit>, StoreError> {
        self.database
            .read(move |connection| find(connection, &words, &filter, limit.min(LISTING_LIMIT)))
            .await
    }

    /// Returns the facts of these rows that the filter lets through, in no particular order.
    pub async fn facts_by_row(&self, rows: Vec<i64>, filter: FactFilter) -> Result<Vec<FactRow>, StoreError> {
        self.database
            .read(move |connection| {
                let condition = format!("WHERE facts.row IN (SELECT value FROM json_each(?1)) AND {VISIBLE}");
                let sql = select(&condition);
                let mut statement = connection.prepare_cached(&sql)?;
                let (entities, conversations) = filter.shared_json();
                let found = statement.query_map(
                    params![
                        json!(rows).to_string(),
                        entities,
                        conversations,
                        filter.about.as_ref().map(EntityId::as_str),
                        filter.after.map(Timestamp::as_millis),
                        filter.before.map(Timestamp::as_millis),
                    ],
                    |row| Ok(FactRow { row: row.get("row")?, fact: Fact::from_row(row)? }),
                )?;
                Ok(found.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    /// Returns row, text and time of the facts after a row, in the order of rows.
    pub async fn facts_after(&self, row: i64, limit: u32) -> Result<Vec<FactMark>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT row, text, as_of FROM facts WHERE row > ?1 ORDER BY row LIMIT ?2",
                )?;
                let rows = statement.query_map(params![row, limit], |row| {
                    Ok(FactMark { row: row.get(0)?, text: row.get(1)?, as_of: row.get(2)? })
                })?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    /// Returns the rows of all facts that the filter lets through, sorted.
    pub async fn visible_rows(&self, filter: FactFilter) -> Result<Vec<i64>, StoreError> {
        self.database
            .read(move |connection| {
                let sql = format!("SELECT facts.row, 1.0 FROM facts WHERE ?1 IS NOT NULL AND {VISIBLE} AND ?7 > 0 ORDER BY facts.row");
                Ok(run(connection, &sql, "", &filter, 1)?.into_iter().map(|hit| hit.row).collect())
            })
            .await
    }

    /// Returns the facts that were learnt from an event.
    pub async fn facts_from(&self, event: EventId) -> Result<Vec<Fact>, StoreError> {
        self.database
            .read(move |connection| {
                let sql = select("WHERE facts.source_event_id = ?1 ORDER BY facts.row LIMIT 1000");
                facts(connection, &sql, params![event.as_str()])
            })
            .await
    }

    /// Names another event as the one a fact was learnt from.
    pub async fn set_source(&self, fact: FactId, event: EventId) -> Result<(), StoreError> {
        self.database
            .write(Sync::Normal, move |connection| {
                connection
                    .prepare_cached("UPDATE facts SET source_event_id = ?2 WHERE id = ?1")?
                    .execute(params![fact.as_str(), event.as_str()])?;
                Ok(())
            })
            .await
    }

    /// Counts the facts about each entity.
    pub async fn facts_per_entity(&self) -> Result<HashMap<EntityId, u64>, StoreError> {
        self.database
            .read(|connection| {
                let mut statement = connection
                    .prepare_cached("SELECT entity_id, count(*) FROM fact_entities GROUP BY entity_id")?;
                let rows = statement.query_map([], |row| {
                    Ok((EntityId::new(row.get::<_, String>(0)?), crate::words::count(row, 1)?))
                })?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    /// Returns the row of the newest fact; 0 when there is none.
    pub async fn last_fact(&self) -> Result<i64, StoreError> {
        self.database.read(last_row).await
    }
}

impl FactFilter {
    fn shared_json(&self) -> (Option<String>, Option<String>) {
        let Some(shared) = &self.shared else { return (None, None) };
        (Some(json!(shared.entities).to_string()), Some(json!(shared.conversations).to_string()))
    }
}

fn find(
    connection: &Connection,
    words: &[String],
    filter: &FactFilter,
    limit: u32,
) -> Result<Vec<FactHit>, StoreError> {
    let total = last_row(connection)?;
    if let Some(query) = search::rare(connection, "facts_fts", Words::Whole, words, total)? {
        let hits = matches(connection, "facts_fts", &query, filter, limit)?;
        if !hits.is_empty() {
            return Ok(hits);
        }
    }
    if let Some(query) = search::rare(connection, "facts_trigrams", Words::Parts, words, total)? {
        let hits = matches(connection, "facts_trigrams", &query, filter, limit)?;
        if !hits.is_empty() {
            return Ok(hits);
        }
    }
    // Words of one or two characters are whole words in some scripts and noise in others.
    let patterns: Vec<String> = words
        .iter()
        .flat_map(|word| search::short_patterns(word))
        .filter(|pattern| !pattern.is_ascii())
        .collect();
    if patterns.is_empty() {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT facts.row, 1.0 FROM facts WHERE EXISTS
            (SELECT 1 FROM json_each(?1) AS pattern WHERE facts.text LIKE pattern.value) AND {VISIBLE}
         ORDER BY facts.row DESC LIMIT ?7"
    );
    run(connection, &sql, &json!(patterns).to_string(), filter, limit)
}

fn matches(
    connection: &Connection,
    table: &str,
    query: &str,
    filter: &FactFilter,
    limit: u32,
) -> Result<Vec<FactHit>, StoreError> {
    // The join costs more than the match, so it is left out where nothing is filtered.
    let rest = if *filter == FactFilter::default() {
        format!(
            "WHERE {table} MATCH ?1 AND ?2 IS NULL AND ?3 IS NULL AND ?4 IS NULL AND ?5 IS NULL AND ?6 IS NULL"
        )
    } else {
        format!("JOIN facts ON facts.row = {table}.rowid WHERE {table} MATCH ?1 AND {VISIBLE}")
    };
    let sql = format!(
        "SELECT {table}.rowid, -bm25({table}) AS score FROM {table} {rest}
         ORDER BY score DESC, {table}.rowid DESC LIMIT ?7"
    );
    run(connection, &sql, query, filter, limit)
}

fn run(
    connection: &Connection,
    sql: &str,
    first: &str,
    filter: &FactFilter,
    limit: u32,
) -> Result<Vec<FactHit>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let (entities, conversations) = filter.shared_json();
    let rows = statement.query_map(
        params![
            first,
            entities,
            conversations,
            filter.about.as_ref().map(EntityId::as_str),
            filter.after.map(Timestamp::as_millis),
            filter.before.map(Timestamp::as_millis),
            limit
        ],
        |row| Ok(FactHit { row: row.get(0)?, score: row.get(1)? }),
    )?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn last_row(connection: &Connection) -> Result<i64, StoreError> {
    Ok(connection
        .prepare_cached("SELECT coalesce(max(row), 0) FROM facts")?
        .query_row([], |row| row.get(0))?)
}
