//! Facts as sentences and whom they are about: `memory.db`. What is worth a fact, and how recall
//! ranks across keyword, meaning and people, is decided elsewhere.

mod find;
mod log;

use nexus_base::clock::Timestamp;
use nexus_base::id::{EntityId, EventId, FactId, to_hex};
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub use self::find::{FactFilter, FactHit, FactMark, FactRow, SharedFacts};
pub use self::log::NewEpisode;
use crate::database::Database;
use crate::error::StoreError;
use crate::search;
use crate::words::{count, json, moment};
use crate::writer::Sync;

/// Most rows one listing returns.
const LISTING_LIMIT: u32 = 1000;

/// A fact to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewFact {
    /// One sentence.
    pub text: String,
    /// What was going on.
    pub context: Option<String>,
    /// When it was true.
    pub as_of: Timestamp,
    /// Event it was learnt from.
    pub source_event_id: Option<EventId>,
    /// Provenance and anything else, as a JSON object.
    pub metadata: Value,
    /// Whom and what it is about.
    pub entity_ids: Vec<EntityId>,
    /// Conversation it was learnt in.
    pub conversation: Option<String>,
}

/// What storing a fact did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedFact {
    pub row: i64,
    pub id: FactId,
    /// Whether it was not there before.
    pub is_new: bool,
}

/// A stored fact.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    pub id: FactId,
    /// One sentence.
    pub text: String,
    /// What was going on.
    pub context: Option<String>,
    /// When it was true.
    pub as_of: Timestamp,
    /// When we learnt it.
    pub ingested_at: Timestamp,
    /// Event it was learnt from.
    pub source_event_id: Option<EventId>,
    /// Provenance and anything else.
    pub metadata: Value,
    /// How often recall returned it.
    pub access_count: u64,
    /// Whom and what it is about.
    pub entity_ids: Vec<EntityId>,
    /// Conversation it was learnt in.
    pub conversation: Option<String>,
}

/// How much memory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryCounts {
    pub facts: u64,
    /// Entities that facts are about.
    pub entities: u64,
    pub episodes: u64,
}

/// Typed queries on `memory.db`.
#[derive(Debug, Clone)]
pub struct Memory {
    database: Database,
}

impl Memory {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }

    /// Stores a fact. The same sentence is stored once: the id of the first is returned, and people
    /// named now are added to it.
    pub async fn add_fact(&self, fact: NewFact) -> Result<FactId, StoreError> {
        self.database.write(Sync::Normal, move |connection| add(connection, &fact)).await
    }

    /// Stores facts in one transaction; returns for each its row, its id and whether it is new.
    ///
    /// # Errors
    /// See [`StoreError`]; none is stored.
    pub async fn add_facts(&self, facts: Vec<NewFact>) -> Result<Vec<AddedFact>, StoreError> {
        self.database
            .write(Sync::Normal, move |connection| {
                facts.iter().map(|fact| insert(connection, fact)).collect()
            })
            .await
    }

    /// Returns facts with any of the words, best match first. When no word matches, parts of words
    /// do, which also serves scripts that put no spaces between words.
    pub async fn search_facts(&self, query: &str, limit: u32) -> Result<Vec<Fact>, StoreError> {
        let query = query.to_owned();
        self.database.read(move |connection| find(connection, &query, limit.min(LISTING_LIMIT))).await
    }

    /// Returns the facts learnt last, newest first.
    pub async fn recent_facts(&self, limit: u32) -> Result<Vec<Fact>, StoreError> {
        self.database
            .read(move |connection| {
                let sql = select("ORDER BY facts.ingested_at DESC, facts.row DESC LIMIT ?1");
                facts(connection, &sql, params![limit.min(LISTING_LIMIT)])
            })
            .await
    }

    /// Returns facts about an entity, the most recently true first.
    pub async fn facts_about(&self, entity_id: EntityId, limit: u32) -> Result<Vec<Fact>, StoreError> {
        self.database
            .read(move |connection| {
                let sql = select(
                    "JOIN fact_entities ON fact_entities.fact_id = facts.id
                     WHERE fact_entities.entity_id = ?1 ORDER BY facts.as_of DESC, facts.row DESC LIMIT ?2",
                );
                facts(connection, &sql, params![entity_id.as_str(), limit.min(LISTING_LIMIT)])
            })
            .await
    }

    pub async fn fact(&self, id: FactId) -> Result<Option<Fact>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(&select("WHERE facts.id = ?1"))?;
                Ok(statement.query_row([id.as_str()], Fact::from_row).optional()?)
            })
            .await
    }

    /// Removes a fact and its links; returns the row it had, or none when there is none of that id.
    pub async fn forget(&self, id: FactId) -> Result<Option<i64>, StoreError> {
        self.database
            .write(Sync::Normal, move |connection| {
                let mut statement =
                    connection.prepare_cached("DELETE FROM facts WHERE id = ?1 RETURNING row")?;
                Ok(statement.query_row([id.as_str()], |row| row.get(0)).optional()?)
            })
            .await
    }

    /// Counts that recall returned these facts; not awaited.
    pub fn count_access_later(&self, ids: Vec<FactId>) {
        self.database.write_later(move |connection| {
            let mut statement = connection
                .prepare_cached("UPDATE facts SET access_count = access_count + 1 WHERE id = ?1")?;
            for id in &ids {
                statement.execute([id.as_str()])?;
            }
            Ok(())
        });
    }

    /// Counts what memory holds.
    pub async fn counts(&self) -> Result<MemoryCounts, StoreError> {
        self.database.read(counts).await
    }

    /// Like [`Memory::counts`], for callers outside an async runtime.
    pub fn counts_blocking(&self) -> Result<MemoryCounts, StoreError> {
        self.database.read_blocking(counts)
    }
}

fn add(connection: &Connection, fact: &NewFact) -> Result<FactId, StoreError> {
    insert(connection, fact).map(|added| added.id)
}

fn insert(connection: &Connection, fact: &NewFact) -> Result<AddedFact, StoreError> {
    let now = Timestamp::now().as_millis();
    let hash = to_hex(Sha256::digest(fact.text.as_bytes()).as_slice());
    let inserted: Option<(i64, String)> = connection
        .prepare_cached(
            "INSERT INTO facts (id, text, text_hash, context, as_of, ingested_at, source_event_id, metadata,
                created_at, conversation) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?6, ?9)
             ON CONFLICT (text_hash) DO NOTHING RETURNING row, id",
        )?
        .query_row(
            params![
                FactId::generate().as_str(),
                fact.text,
                hash,
                fact.context,
                fact.as_of.as_millis(),
                now,
                fact.source_event_id.as_ref().map(EventId::as_str),
                fact.metadata.to_string(),
                fact.conversation,
            ],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let is_new = inserted.is_some();
    let (row, id): (i64, String) = match inserted {
        Some(inserted) => inserted,
        None => connection
            .prepare_cached("SELECT row, id FROM facts WHERE text_hash = ?1")?
            .query_row([&hash], |row| Ok((row.get(0)?, row.get(1)?)))?,
    };
    let mut link = connection.prepare_cached(
        "INSERT INTO fact_entities (fact_id, entity_id) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
    )?;
    for entity_id in &fact.entity_ids {
        link.execute([id.as_str(), entity_id.as_str()])?;
    }
    Ok(AddedFact { row, id: FactId::new(id), is_new })
}

fn find(connection: &Connection, text: &str, limit: u32) -> Result<Vec<Fact>, StoreError> {
    if let Some(query) = search::any_word(text) {
        let sql = select(
            "JOIN facts_fts ON facts_fts.rowid = facts.row WHERE facts_fts MATCH ?1
             ORDER BY bm25(facts_fts), facts.row DESC LIMIT ?2",
        );
        let found = facts(connection, &sql, params![query, limit])?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    if let Some(query) = search::any_part(text) {
        let sql = select(
            "JOIN facts_trigrams ON facts_trigrams.rowid = facts.row WHERE facts_trigrams MATCH ?1
             ORDER BY bm25(facts_trigrams), facts.row DESC LIMIT ?2",
        );
        let found = facts(connection, &sql, params![query, limit])?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    // Words of one or two characters are whole words in some scripts and noise in others.
    let patterns: Vec<String> =
        search::short_patterns(text).into_iter().filter(|pattern| !pattern.is_ascii()).collect();
    if patterns.is_empty() {
        return Ok(Vec::new());
    }
    let conditions = vec!["facts.text LIKE ?"; patterns.len()].join(" OR ");
    let sql = select(&format!("WHERE {conditions} ORDER BY facts.row DESC LIMIT {limit}"));
    facts(connection, &sql, params_from_iter(patterns))
}

fn select(rest: &str) -> String {
    format!(
        "SELECT facts.*, (SELECT json_group_array(entity_id) FROM fact_entities AS links
            WHERE links.fact_id = facts.id) AS entity_ids FROM facts {rest}"
    )
}

fn facts(
    connection: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
) -> Result<Vec<Fact>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(parameters, Fact::from_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn counts(connection: &Connection) -> Result<MemoryCounts, StoreError> {
    Ok(connection.query_row(
        "SELECT (SELECT count(*) FROM facts), (SELECT count(DISTINCT entity_id) FROM fact_entities),
                (SELECT count(*) FROM episodes)",
        [],
        |row| Ok(MemoryCounts { facts: count(row, 0)?, entities: count(row, 1)?, episodes: count(row, 2)? }),
    )?)
}

impl Fact {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let entity_ids = json(row, "entity_ids")?.unwrap_or_default();
        let entity_ids = entity_ids.as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(Self {
            id: FactId::new(row.get::<_, String>("id")?),
            text: row.get("text")?,
            context: row.get("context")?,
            as_of: moment(row, "as_of")?,
            ingested_at: moment(row, "ingested_at")?,
            source_event_id: row.get::<_, Option<String>>("source_event_id")?.map(EventId::new),
            metadata: json(row, "metadata")?.unwrap_or_default(),
            access_count: count(row, "access_count")?,
            entity_ids: entity_ids.iter().filter_map(Value::as_str).map(EntityId::new).collect(),
            conversation: row.get("conversation")?,
        })
    }
}
