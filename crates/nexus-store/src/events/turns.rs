//! What was said, as memory finds it: every message with the words of the one before it, inside its
//! stretch of conversation. Filled with the event itself; how hits are ranked is decided elsewhere.

use nexus_base::clock::Timestamp;
use nexus_base::id::EventId;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::json;

use super::{Direction, Events, NewEvent};
use crate::error::StoreError;
use crate::search::{self, Words};
use crate::words::moment;

/// Silence that ends a stretch of conversation, in milliseconds.
const SILENCE: i64 = 90 * 60 * 1000;
/// Weight of the words of the turn before, beside 1 for the turn's own.
const BEFORE_WEIGHT: f64 = 0.7;
/// Most words too short for an index that one query looks for.
const SHORT_WORDS: usize = 4;
/// Most rows one call hands out.
const MAX_ROWS: u32 = 4096;

/// Which turns are looked at. What is left out is left out before anything is ranked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TurnFilter {
    /// Only these conversations; all when none.
    pub conversations: Option<Vec<String>>,
    /// Said at this time or later.
    pub after: Option<Timestamp>,
    /// Said before this time.
    pub before: Option<Timestamp>,
    /// Only this platform.
    pub platform: Option<String>,
}

/// A turn whose words match.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TurnHit {
    pub row: i64,
    /// How well its words and those before it match; more is better.
    pub score: f64,
}

/// A turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Its row, which orders turns as they were stored.
    pub row: i64,
    pub event_id: EventId,
    /// Number of its conversation.
    pub conversation: i64,
    /// Number of its stretch of conversation.
    pub episode: i64,
    /// Row of the turn before it in that stretch.
    pub previous: Option<i64>,
    /// Row of the turn after it in that stretch.
    pub next: Option<i64>,
    pub said_at: Timestamp,
    /// Who said it, in the platform's terms.
    pub sender_id: String,
    /// Which way it went.
    pub direction: Direction,
    /// The words.
    pub content: String,
}

/// Returns the name under which a conversation's turns are kept together. `room` is the event's
/// container, and our own sessions are containers.
pub fn conversation_key(platform: &str, room: &str) -> String {
    let platform = match platform {
        "control-plane" | "nexus" => "nexus",
        other => other,
    };
    format!("{platform}:{room}")
}

impl NewEvent {
    /// Returns the conversation this event belongs to.
    pub fn conversation(&self) -> String {
        let session = || self.metadata.as_ref().and_then(|metadata| metadata.get("session")?.as_str());
        let room = self.container_id.as_deref().or_else(session).unwrap_or(&self.sender_id);
        conversation_key(&self.platform, room)
    }
}

impl Events {
    /// Returns turns with any of the words, best match first. Words that most rows have are left out
    /// while rarer ones remain.
    pub async fn find_turns(
        &self,
        words: Vec<String>,
        filter: TurnFilter,
        limit: u32,
    ) -> Result<Vec<TurnHit>, StoreError> {
        self.database.read(move |connection| find(connection, &words, &filter, limit.min(MAX_ROWS))).await
    }

    /// Returns the turns of these rows, in no particular order.
    pub async fn turns(&self, rows: Vec<i64>) -> Result<Vec<Turn>, StoreError> {
        self.database
            .read(move |connection| {
                let sql = format!("{SELECT} WHERE turns.row IN (SELECT value FROM json_each(?1))");
                turns(connection, &sql, params![json!(rows).to_string()])
            })
            .await
    }

    /// Returns the turns after a row, in the order they were stored.
    pub async fn turns_after(&self, row: i64, limit: u32) -> Result<Vec<Turn>, StoreError> {
        self.database
            .read(move |connection| {
                let sql = format!("{SELECT} WHERE turns.row > ?1 ORDER BY turns.row LIMIT ?2");
                turns(connection, &sql, params![row, limit.min(MAX_ROWS)])
            })
            .await
    }

    /// Returns the rows of those of the events that are turns.
    pub async fn turn_rows(&self, events: Vec<EventId>) -> Result<Vec<i64>, StoreError> {
        self.database
            .look(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT turns.row FROM events JOIN turns ON turns.row = events.row
                     WHERE events.id IN (SELECT value FROM json_each(?1))",
                )?;
                let rows = statement.query_map([json!(events).to_string()], |row| row.get(0))?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    /// Returns those of the rows that belong to a platform.
    pub async fn turns_on(&self, rows: Vec<i64>, platform: &str) -> Result<Vec<i64>, StoreError> {
        let platform = platform.to_owned();
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT row FROM events WHERE row IN (SELECT value FROM json_each(?1)) AND platform = ?2",
                )?;
                let found =
                    statement.query_map(params![json!(rows).to_string(), platform], |row| row.get(0))?;
                Ok(found.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    /// Returns the events of the stretch of conversation that an event belongs to, in order, with their
    /// times; none when the event is no turn.
    pub async fn stretch(&self, event: EventId) -> Result<Vec<(EventId, Timestamp)>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT events.id, turns.said_at FROM turns JOIN events ON events.row = turns.row
                     WHERE turns.episode = (SELECT turns.episode FROM turns JOIN events
                        ON events.row = turns.row WHERE events.id = ?1)
                     ORDER BY turns.row LIMIT ?2",
                )?;
                let rows = statement.query_map(params![event.as_str(), MAX_ROWS], |row| {
                    Ok((EventId::new(row.get::<_, String>(0)?), moment(row, "said_at")?))
                })?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    /// Returns the row of the newest turn; 0 when there is none.
    pub async fn last_turn(&self) -> Result<i64, StoreError> {
        self.database.look(last_row).await
    }

    /// Counts the turns that can be found.
    pub async fn turn_count(&self) -> Result<u64, StoreError> {
        self.database
            .read(|connection| {
                Ok(connection
                    .query_row("SELECT count(*) FROM turns", [], |row| crate::words::count(row, 0))?)
            })
            .await
    }

    /// Returns the numbers of conversations; unknown ones are left out.
    pub async fn conversation_numbers(&self, keys: Vec<String>) -> Result<Vec<i64>, StoreError> {
        self.database.look(move |connection| numbers(connection, &keys)).await
    }

    /// Returns who spoke in these conversations, in all of them when none are given, those who spoke
    /// last first.
    pub async fn speakers(&self, filter: TurnFilter, limit: u32) -> Result<Vec<String>, StoreError> {
        self.database
            .read(move |connection| {
                let conversations = filter.numbers(connection)?;
                // Who spoke long ago and never since is not looked for: that would read every row.
                let mut statement = connection.prepare_cached(
                    "SELECT sender_id FROM (
                        SELECT events.sender_id, turns.row FROM turns JOIN events ON events.row = turns.row
                        WHERE (?1 IS NULL OR turns.conversation IN (SELECT value FROM json_each(?1)))
                        ORDER BY turns.row DESC LIMIT 500)
                     GROUP BY sender_id ORDER BY max(row) DESC LIMIT ?2",
                )?;
                let rows = statement.query_map(params![conversations, limit], |row| row.get(0))?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }
}

const SELECT: &str = "SELECT turns.row, events.id, turns.conversation, turns.episode, turns.said_at,
        events.sender_id, events.direction, events.content,
        (SELECT min(later.row) FROM turns AS later
            WHERE later.episode = turns.episode AND later.row > turns.row) AS next,
        (SELECT max(earlier.row) FROM turns AS earlier
            WHERE earlier.episode = turns.episode AND earlier.row < turns.row) AS previous
    FROM turns JOIN events ON events.row = turns.row";

/// Puts a message that was just stored into the index; part of the transaction that stores it.
pub(super) fn index(connection: &Connection, event: &NewEvent, row: i64) -> Result<(), StoreError> {
    if event.kind != "message" {
        return Ok(());
    }
    let key = event.conversation();
    connection
        .prepare_cached("INSERT INTO conversations (key) VALUES (?1) ON CONFLICT DO NOTHING")?
        .execute([&key])?;
    let conversation: i64 = connection
        .prepare_cached("SELECT id FROM conversations WHERE key = ?1")?
        .query_row([&key], |found| found.get(0))?;
    let before: Option<(i64, i64, Option<String>, String)> = connection
        .prepare_cached(
            "SELECT turns.episode, turns.said_at, events.thread_id, events.content
             FROM turns JOIN events ON events.row = turns.row
             WHERE turns.conversation = ?1 ORDER BY turns.row DESC LIMIT 1",
        )?
        .query_row([conversation], |found| Ok((found.get(0)?, found.get(1)?, found.get(2)?, found.get(3)?)))
        .optional()?;
    let said_at = event.timestamp.as_millis();
    let goes_on = before.filter(|(_, earlier, thread, _)| {
        *thread == event.thread_id && said_at.saturating_sub(*earlier) <= SILENCE
    });
    let (episode, words_before) =
        goes_on.map_or((row, String::new()), |(episode, _, _, content)| (episode, content));
    connection
        .prepare_cached("INSERT INTO turns (row, conversation, episode, said_at) VALUES (?1, ?2, ?3, ?4)")?
        .execute([row, conversation, episode, said_at])?;
    connection
        .prepare_cached("INSERT INTO turns_fts (rowid, own, before) VALUES (?1, ?2, ?3)")?
        .execute(params![row, event.content, words_before])?;
    if search::has_unspaced_script(&event.content) {
        connection
            .prepare_cached("INSERT INTO turns_trigrams (rowid, own) VALUES (?1, ?2)")?
            .execute(params![row, event.content])?;
    }
    Ok(())
}

fn find(
    connection: &Connection,
    words: &[String],
    filter: &TurnFilter,
    limit: u32,
) -> Result<Vec<TurnHit>, StoreError> {
    let total = last_row(connection)?;
    let conversations = filter.numbers(connection)?;
    let mut hits = Vec::new();
    let (spaced, unspaced): (Vec<&String>, Vec<&String>) =
        words.iter().partition(|word| !search::has_unspaced_script(word));
    if let Some(query) = search::rare(connection, "turns_fts", Words::Whole, &spaced, total)? {
        hits =
            matches(connection, "turns_fts", BEFORE_WEIGHT, &query, filter, conversations.as_deref(), limit)?;
    }
    if let Some(query) = search::rare(connection, "turns_trigrams", Words::Parts, &unspaced, total)? {
        hits.extend(matches(
            connection,
            "turns_trigrams",
            0.0,
            &query,
            filter,
            conversations.as_deref(),
            limit,
        )?);
    }
    if hits.is_empty() {
        // Words of one or two characters are whole words in some scripts, and below any index.
        let patterns: Vec<String> =
            unspaced.iter().flat_map(|word| search::short_patterns(word)).filter(|p| !p.is_ascii()).collect();
        for pattern in patterns.iter().take(SHORT_WORDS) {
            hits.extend(contain(connection, pattern, filter, conversations.as_deref(), limit)?);
        }
    }
    Ok(hits)
}

fn contain(
    connection: &Connection,
    pattern: &str,
    filter: &TurnFilter,
    conversations: Option<&str>,
    limit: u32,
) -> Result<Vec<TurnHit>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT turns.row FROM turns JOIN events ON events.row = turns.row WHERE events.content LIKE ?1
           AND (?2 IS NULL OR turns.conversation IN (SELECT value FROM json_each(?2)))
           AND (?3 IS NULL OR turns.said_at >= ?3) AND (?4 IS NULL OR turns.said_at < ?4)
           AND (?5 IS NULL OR events.platform = ?5)
         ORDER BY turns.row DESC LIMIT ?6",
    )?;
    let (after, before) = (filter.after.map(Timestamp::as_millis), filter.before.map(Timestamp::as_millis));
    let rows = statement
        .query_map(params![pattern, conversations, after, before, filter.platform, limit], |row| {
            Ok(TurnHit { row: row.get(0)?, score: 1.0 })
        })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn matches(
    connection: &Connection,
    table: &str,
    before_weight: f64,
    query: &str,
    filter: &TurnFilter,
    conversations: Option<&str>,
    limit: u32,
) -> Result<Vec<TurnHit>, StoreError> {
    let weights = if before_weight > 0.0 { format!(", 1.0, {before_weight:.2}") } else { String::new() };
    // The join costs more than the match, so it is left out where nothing is filtered.
    let narrowed = *filter != TurnFilter::default();
    let join = if narrowed {
        format!(
            "JOIN turns ON turns.row = {table}.rowid
             WHERE {table} MATCH ?1
               AND (?2 IS NULL OR turns.conversation IN (SELECT value FROM json_each(?2)))
               AND (?3 IS NULL OR turns.said_at >= ?3) AND (?4 IS NULL OR turns.said_at < ?4)
               AND (?5 IS NULL OR (SELECT platform FROM events WHERE events.row = turns.row) = ?5)"
        )
    } else {
        format!("WHERE {table} MATCH ?1 AND ?2 IS NULL AND ?3 IS NULL AND ?4 IS NULL AND ?5 IS NULL")
    };
    let sql = format!(
        "SELECT {table}.rowid, -bm25({table}{weights}) AS score FROM {table} {join}
         ORDER BY score DESC, {table}.rowid DESC LIMIT ?6"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(
        params![
            query,
            conversations,
            filter.after.map(Timestamp::as_millis),
            filter.before.map(Timestamp::as_millis),
            filter.platform,
            limit
        ],
        |row| Ok(TurnHit { row: row.get(0)?, score: row.get(1)? }),
    )?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

impl TurnFilter {
    /// Returns the numbers of the conversations as a JSON array, or none when all are meant.
    fn numbers(&self, connection: &Connection) -> Result<Option<String>, StoreError> {
        match &self.conversations {
            None => Ok(None),
            Some(keys) => Ok(Some(json!(numbers(connection, keys)?).to_string())),
        }
    }
}

fn numbers(connection: &Connection, keys: &[String]) -> Result<Vec<i64>, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT id FROM conversations WHERE key IN (SELECT value FROM json_each(?1))")?;
    let rows = statement.query_map([json!(keys).to_string()], |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn last_row(connection: &Connection) -> Result<i64, StoreError> {
    Ok(connection
        .prepare_cached("SELECT coalesce(max(row), 0) FROM turns")?
        .query_row([], |row| row.get(0))?)
}

fn turns(
    connection: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
) -> Result<Vec<Turn>, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(parameters, Turn::from_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

impl Turn {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            row: row.get("row")?,
            event_id: EventId::new(row.get::<_, String>("id")?),
            conversation: row.get("conversation")?,
            episode: row.get("episode")?,
            previous: row.get("previous")?,
            next: row.get("next")?,
            said_at: moment(row, "said_at")?,
            sender_id: row.get("sender_id")?,
            direction: row.get("direction")?,
            content: row.get("content")?,
        })
    }
}
