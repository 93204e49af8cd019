//! Forgetting where something came from: the event, everything that was said and done because of it,
//! and every place that quotes it, overwritten in all six databases, and then in the files themselves.
//!
//! What is to be forgotten is written down first, each step can be repeated, and one that a crash cut off is
//! completed by doing it again.

mod noted;

use std::collections::HashMap;
use std::sync::Arc;

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::id::{EntityId, EventId};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;

use crate::database::Database;
use crate::embeddings::{self, VectorKind};
use crate::error::StoreError;
use crate::memory::Fact;
use crate::open::{self, Checkpoint};
use crate::schema::DatabaseName;
use crate::search;
use crate::store::Store;
use crate::writer::Sync;

pub use self::noted::Forgetting;

/// What stands where something was.
pub const TOMBSTONE: &str = "[forgotten]";
/// Shortest text that is looked for elsewhere, in characters: shorter ones are in everything.
const MIN_QUOTE_LEN: usize = 8;
/// Most quotes that are looked for.
const MAX_QUOTES: usize = 64;

/// Why a source was not forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotForgotten {
    /// There is no such event.
    Unknown,
    /// It is still being worked on.
    Busy,
}

/// What is done in one database; returns how many rows it changed.
type Step = fn(&Connection, &Forgetting) -> Result<u64, StoreError>;

impl Store {
    /// Overwrites what was said and done because of an event, its facts, and every text that quotes them;
    /// returns how many rows were changed.
    ///
    /// # Errors
    /// See [`StoreError`]; doing it again completes it.
    pub async fn overwrite(&self, forgetting: &Forgetting) -> Result<u64, StoreError> {
        let it = Arc::new(forgetting.clone());
        let databases: [(&Database, Step); 6] = [
            (self.events_database(), in_events),
            (self.agents_database(), in_agents),
            (self.runtime_database(), in_runtime),
            (self.identity_database(), in_identity),
            (self.memory_database(), in_memory),
            (self.embeddings_database(), in_vectors),
        ];
        let mut rows = 0;
        for (database, step) in databases {
            let it = Arc::clone(&it);
            rows += database
                .write(Sync::Full, move |connection| {
                    connection.pragma_update(None, "secure_delete", true)?;
                    Ok(step(connection, &it)? + sweep(connection, &it.quotes)?)
                })
                .await?;
            failpoint::hit("forget.overwritten");
        }
        tracing::info!(
            event = forgetting.event.as_ref().map(EventId::as_str),
            rows,
            facts = forgetting.facts.len(),
            "source forgotten"
        );
        Ok(rows)
    }

    /// Returns the entities that no other fact is about: those of the facts, and those whose name is
    /// in the words and who came from a fact that is gone already.
    async fn only_known_from(&self, facts: &[Fact], content: &str) -> Result<Vec<EntityId>, StoreError> {
        let all = self.memory().facts_per_entity().await?;
        let mut here: HashMap<EntityId, u64> = HashMap::new();
        for entity in facts.iter().flat_map(|fact| &fact.entity_ids) {
            *here.entry(entity.clone()).or_default() += 1;
        }
        let words = content.to_lowercase();
        let named = self.identity_database().read(move |connection| named_in(connection, &words)).await?;
        for entity in named {
            here.entry(entity).or_default();
        }
        let only = here.into_iter().filter(|(entity, count)| all.get(entity).is_none_or(|all| all <= count));
        Ok(only.map(|(entity, _)| entity).collect())
    }

    /// Writes all six files anew, so that nothing that was overwritten or removed is left in unused
    /// parts of them or in their logs.
    ///
    /// # Errors
    /// See [`StoreError`]; somebody else reads for too long.
    pub async fn scrub(&self) -> Result<(), StoreError> {
        let store = self.clone();
        let scrubbed = tokio::task::spawn_blocking(move || {
            for (name, database) in DatabaseName::ALL.into_iter().zip(store.databases()) {
                scrub(name, database)?;
            }
            Ok(())
        });
        scrubbed
            .await
            .unwrap_or_else(|_| Err(StoreError::Panicked { path: self.events_database().path().to_owned() }))
    }
}

fn scrub(name: DatabaseName, database: &Database) -> Result<(), StoreError> {
    let source = open::Source::new(database.path().to_owned(), name.as_str(), name.migrations());
    let connection = open::open_locker(&source)?;
    // An index keeps removed words until its parts are merged.
    let merge = match name {
        DatabaseName::Events => {
            "INSERT INTO turns_fts (turns_fts) VALUES ('optimize');
             INSERT INTO turns_trigrams (turns_trigrams) VALUES ('optimize');"
        }
        DatabaseName::Memory => {
            "INSERT INTO facts_fts (facts_fts) VALUES ('rebuild');
             INSERT INTO facts_trigrams (facts_trigrams) VALUES ('rebuild');"
        }
        DatabaseName::Agents | DatabaseName::Identity | DatabaseName::Embeddings | DatabaseName::Runtime => {
            ""
        }
    };
    source.edge(connection.execute_batch(&format!("PRAGMA secure_delete = ON; {merge} VACUUM;")))?;
    source.edge(open::checkpoint(&connection, Checkpoint::Truncate))?;
    source.edge(connection.close().map_err(|(_, error)| error))
}

/// The requests that an event led to: its own, and those of every worker below it. `?1` is the
/// event, `?2` the request.
const TREE: &str = "SELECT request_id FROM queue_items
    WHERE source_event_id = ?1 OR id = ?1 OR request_id = ?2 OR root_request_id = ?2";

fn is_open(connection: &Connection, event: &str, request: Option<&str>) -> Result<bool, StoreError> {
    let sql = format!("SELECT 1 FROM queue_items WHERE status <> 'done' AND request_id IN ({TREE})");
    Ok(connection.prepare(&sql)?.exists(params![event, request])?)
}

fn in_agents(connection: &Connection, it: &Forgetting) -> Result<u64, StoreError> {
    let Some(event) = it.event.as_ref().map(EventId::as_str) else { return Ok(0) };
    let request = it.request.as_deref();
    let turns = format!("SELECT id FROM turns WHERE request_id IN ({TREE})");
    let mut rows = 0;
    for sql in [
        format!("UPDATE messages SET content = ?3, thinking = NULL, frame = CASE WHEN frame IS NULL THEN NULL ELSE '' END
                 WHERE turn_id IN ({turns})"),
        format!("UPDATE tool_calls SET arguments_json = '{{}}', result = CASE WHEN result IS NULL THEN NULL ELSE ?3 END
                 WHERE turn_id IN ({turns})"),
        format!("UPDATE outbox SET text = ?3 WHERE request_id IN ({TREE})"),
        format!("UPDATE sessions SET task_description = ?3
                 WHERE task_description IS NOT NULL AND parent_turn_id IN ({turns})"),
        format!("UPDATE turns SET context_json = NULL, error = CASE WHEN error IS NULL THEN NULL ELSE ?3 END
                 WHERE request_id IN ({TREE})"),
        format!("UPDATE queue_items SET content = ?3, frame_json = '[]',
                    error = CASE WHEN error IS NULL THEN NULL ELSE ?3 END
                 WHERE request_id IN ({TREE})"),
    ] {
        rows += count(connection.execute(&sql, params![event, request, TOMBSTONE])?);
    }
    Ok(rows)
}

fn in_runtime(connection: &Connection, it: &Forgetting) -> Result<u64, StoreError> {
    let Some(event) = it.event.as_ref().map(EventId::as_str) else { return Ok(0) };
    let request = it.request.as_deref();
    let requests = connection.execute(
        "UPDATE nexus_requests SET request_snapshot = NULL, agent_tool_calls = NULL, hooks_context = NULL,
            error_message = CASE WHEN error_message IS NULL THEN NULL ELSE ?3 END, error_stack = NULL
         WHERE event_id = ?1 OR id = ?2 OR root_request_id = ?2",
        params![event, request, TOMBSTONE],
    )?;
    let runs = connection.execute(
        "UPDATE hook_invocations SET result_json = NULL, stack_trace = NULL,
            error = CASE WHEN error IS NULL THEN NULL ELSE ?3 END
         WHERE event_id = ?1 OR request_id IN (SELECT id FROM nexus_requests WHERE root_request_id = ?2 OR id = ?2)",
        params![event, request, TOMBSTONE],
    )?;
    Ok(count(requests + runs))
}

/// Returns entities that were only spoken of and whose name is in the words, given in lower case.
fn named_in(connection: &Connection, words: &str) -> Result<Vec<EntityId>, StoreError> {
    let mut statement = connection.prepare(
        "SELECT id FROM entities WHERE source = 'inferred' AND is_user = 0 AND merged_into IS NULL
           AND length(normalized) > 2 AND instr(?1, normalized) > 0",
    )?;
    let rows = statement.query_map([words], |row| row.get::<_, String>(0))?;
    Ok(rows.map(|id| id.map(EntityId::new)).collect::<rusqlite::Result<_>>()?)
}

/// Removes entities that only the forgotten words spoke of.
fn in_identity(connection: &Connection, it: &Forgetting) -> Result<u64, StoreError> {
    let mut rows = 0;
    for entity in &it.orphans {
        let id = entity.as_str();
        let is_inferred = connection
            .prepare_cached(
                "SELECT 1 FROM entities WHERE id = ?1 AND source = 'inferred' AND is_user = 0
               AND NOT EXISTS (SELECT 1 FROM contacts WHERE contacts.entity_id = entities.id)
               AND NOT EXISTS (SELECT 1 FROM entities AS other WHERE other.merged_into = entities.id)",
            )?
            .exists([id])?;
        if is_inferred {
            for sql in [
                "DELETE FROM entity_cooccurrences WHERE entity_id_1 = ?1 OR entity_id_2 = ?1",
                "DELETE FROM merge_candidates WHERE entity_a_id = ?1 OR entity_b_id = ?1",
                "DELETE FROM entity_tags WHERE entity_id = ?1",
                "DELETE FROM entities WHERE id = ?1",
            ] {
                rows += count(connection.execute(sql, [id])?);
            }
        }
    }
    Ok(rows)
}

fn turn_rows(connection: &Connection, event: &str) -> Result<Vec<i64>, StoreError> {
    let mut statement = connection.prepare("SELECT row FROM events WHERE id = ?1 OR reply_to = ?1")?;
    let rows = statement.query_map([event], |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn in_events(connection: &Connection, it: &Forgetting) -> Result<u64, StoreError> {
    let turns = &it.turns;
    let mut rows = 0;
    for row in turns {
        // The turn after it was indexed with its words.
        let next: Option<(i64, String)> = connection
            .prepare_cached(
                "SELECT later.row, events.content FROM turns JOIN turns AS later
                    ON later.episode = turns.episode AND later.row > turns.row
                 JOIN events ON events.row = later.row WHERE turns.row = ?1 ORDER BY later.row LIMIT 1",
            )?
            .query_row([row], |found| Ok((found.get(0)?, found.get(1)?)))
            .optional()?;
        if let Some((next, words)) = next.filter(|(next, _)| !turns.contains(next)) {
            connection.execute("DELETE FROM turns_fts WHERE rowid = ?1", [next])?;
            let sql = "INSERT INTO turns_fts (rowid, own, before) VALUES (?1, ?2, '')";
            connection.execute(sql, params![next, words])?;
        }
        connection.execute("DELETE FROM turns_fts WHERE rowid = ?1", [row])?;
        connection.execute("DELETE FROM turns_trigrams WHERE rowid = ?1", [row])?;
        connection.execute("DELETE FROM turns WHERE row = ?1", [row])?;
        rows += count(connection.execute(
            "UPDATE events SET content = ?2, metadata = NULL, attachments = NULL WHERE row = ?1",
            params![row, TOMBSTONE],
        )?);
    }
    // The hash of a short text tells the text.
    rows += sweep(connection, &it.quotes)?;
    for row in &it.quoting {
        reindex(connection, *row)?;
        let sql = "SELECT later.row FROM turns JOIN turns AS later ON later.episode = turns.episode
            AND later.row > turns.row WHERE turns.row = ?1 ORDER BY later.row LIMIT 1";
        let next: Option<i64> =
            connection.prepare_cached(sql)?.query_row([row], |found| found.get(0)).optional()?;
        if let Some(next) = next {
            reindex(connection, next)?;
        }
    }
    if let Some(event) = &it.event {
        let sql = "UPDATE inbox SET body_hash = ?2 WHERE event_id = ?1";
        rows += count(connection.execute(sql, params![event.as_str(), TOMBSTONE])?);
    }
    Ok(rows)
}

/// Indexes a turn anew by what it says now.
fn reindex(connection: &Connection, row: i64) -> Result<(), StoreError> {
    let words: Option<(String, String)> = connection
        .prepare_cached(
            "SELECT events.content, coalesce((
                SELECT earlier.content FROM turns AS other JOIN events AS earlier ON earlier.row = other.row
                WHERE other.episode = turns.episode AND other.row < turns.row ORDER BY other.row DESC LIMIT 1), '')
             FROM turns JOIN events ON events.row = turns.row WHERE turns.row = ?1",
        )?
        .query_row([row], |found| Ok((found.get(0)?, found.get(1)?)))
        .optional()?;
    for sql in ["DELETE FROM turns_fts WHERE rowid = ?1", "DELETE FROM turns_trigrams WHERE rowid = ?1"] {
        connection.prepare_cached(sql)?.execute([row])?;
    }
    let Some((own, before)) = words else { return Ok(()) };
    connection
        .prepare_cached("INSERT INTO turns_fts (rowid, own, before) VALUES (?1, ?2, ?3)")?
        .execute(params![row, own, before])?;
    if search::has_unspaced_script(&own) {
        connection
            .prepare_cached("INSERT INTO turns_trigrams (rowid, own) VALUES (?1, ?2)")?
            .execute(params![row, own])?;
    }
    Ok(())
}

/// Returns the rows of other turns that quote what is to be forgotten.
fn quoting_rows(connection: &Connection, quotes: &[String], own: &[i64]) -> Result<Vec<i64>, StoreError> {
    let mut statement = connection.prepare(
        "SELECT turns.row FROM turns JOIN events ON events.row = turns.row
         WHERE EXISTS (SELECT 1 FROM json_each(?1) WHERE instr(events.content, value) > 0)",
    )?;
    let rows = statement.query_map([json!(quotes).to_string()], |row| row.get(0))?;
    let rows: Vec<i64> = rows.collect::<rusqlite::Result<_>>()?;
    Ok(rows.into_iter().filter(|row| !own.contains(row)).collect())
}

fn in_memory(connection: &Connection, it: &Forgetting) -> Result<u64, StoreError> {
    let event = it.event.as_ref().map(EventId::as_str).unwrap_or_default();
    let removed = connection.execute(
        "DELETE FROM facts WHERE source_event_id = ?1 OR id IN (SELECT value FROM json_each(?2))",
        params![event, json!(it.facts).to_string()],
    )?;
    connection.execute(
        "INSERT INTO forget_log (id, event_id, facts, forgotten_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
        params![
            it.id(),
            event,
            i64::try_from(it.facts.len()).unwrap_or(i64::MAX),
            Timestamp::now().as_millis()
        ],
    )?;
    Ok(count(removed))
}

fn in_vectors(connection: &Connection, it: &Forgetting) -> Result<u64, StoreError> {
    let mut rows = 0;
    // A vector of what quotes it was made of words that are gone.
    for (kind, gone) in
        [(VectorKind::Turn, &it.turns), (VectorKind::Turn, &it.quoting), (VectorKind::Fact, &it.fact_rows)]
    {
        for row in gone {
            rows += u64::from(embeddings::remove(connection, kind, *row)?);
        }
    }
    Ok(rows)
}

/// Replaces the quotes in every text of a database; keys, ids and hashes are left alone.
fn sweep(connection: &Connection, quotes: &[String]) -> Result<u64, StoreError> {
    let mut statement = connection.prepare(
        "SELECT tables.name, columns.name FROM pragma_table_list AS tables
         JOIN pragma_table_info(tables.name) AS columns
         WHERE tables.schema = 'main' AND tables.type = 'table' AND tables.name NOT LIKE 'sqlite%'
           AND tables.name NOT IN ('schema_version', 'forgetting') AND columns.type = 'TEXT' AND columns.pk = 0
           AND columns.name NOT LIKE '%id' AND columns.name NOT LIKE '%hash' AND columns.name NOT LIKE '%key'",
    )?;
    let columns = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    let columns: Vec<(String, String)> = columns.collect::<rusqlite::Result<_>>()?;
    let mut rows = 0;
    for (table, column) in columns {
        let sql = format!(
            "UPDATE \"{table}\" SET \"{column}\" = replace(\"{column}\", ?1, ?2) WHERE instr(\"{column}\", ?1) > 0"
        );
        let mut statement = connection.prepare(&sql)?;
        for quote in quotes {
            rows += count(statement.execute(params![quote, TOMBSTONE])?);
        }
    }
    Ok(rows)
}

/// Returns what to look for elsewhere, longest first: the texts, their sentences, and both as they
/// look inside JSON.
fn quotes<'a>(content: &str, facts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut quotes: Vec<String> = Vec::new();
    let mut add = |text: &str| {
        let text = text.trim();
        if text.chars().count() < MIN_QUOTE_LEN || text == TOMBSTONE {
            return;
        }
        let once = json!(text).to_string();
        let once = once.trim_matches('"').to_owned();
        let twice = json!(once).to_string().trim_matches('"').to_owned();
        for form in [text.to_owned(), once, twice] {
            if !quotes.contains(&form) && quotes.len() < MAX_QUOTES {
                quotes.push(form);
            }
        }
    };
    add(content);
    facts.for_each(&mut add);
    content.split(['.', '!', '?', '\n']).for_each(&mut add);
    quotes.sort_by_key(|quote| std::cmp::Reverse(quote.len()));
    quotes
}

fn count(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}
