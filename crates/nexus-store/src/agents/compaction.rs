//! Compactions: which turns of a session are sent as a summary and which results shortened, and how
//! that is taken back.

use nexus_base::clock::Timestamp;
use nexus_base::conversation::CompactionCause;
use nexus_base::failpoint;
use nexus_base::id::{CompactionId, SessionLabel, ToolCallId, TurnId};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::{Value, json};

use super::Agents;
use super::model::TurnRecord;
use super::rows;
use crate::error::StoreError;
use crate::words::{count, stored_count, word};
use crate::writer::Sync;

/// A result that is sent shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trim {
    pub call: ToolCallId,
    /// What is sent in place of its result.
    pub text: String,
}

/// A compaction to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCompaction {
    pub id: CompactionId,
    pub session: SessionLabel,
    /// The turn that needed the room, or the last one before somebody asked.
    pub turn_id: TurnId,
    /// The last turn that the summary stands for.
    pub through: Option<TurnId>,
    /// How many turns that are.
    pub turns_summarized: u64,
    /// What is sent in their place.
    pub summary: Option<String>,
    /// Results that are sent shortened.
    pub trims: Vec<Trim>,
    /// Why.
    pub cause: CompactionCause,
    /// Who wrote the summary.
    pub author: String,
    /// Estimated tokens of the request before.
    pub tokens_before: u64,
    /// Estimated tokens of the request after.
    pub tokens_after: u64,
}

/// A compaction as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compaction {
    /// What was put in.
    pub new: NewCompaction,
    /// When it was taken.
    pub created_at: Timestamp,
    pub undone_at: Option<Timestamp>,
}

/// What became of a wish to undo one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// The turns are sent again from the next message on.
    Done(Box<Compaction>),
    /// There is no such compaction.
    Unknown,
    /// It was undone before.
    Already,
    /// A later one builds on it and has to be undone first.
    BuiltUpon(CompactionId),
}

/// Everything a session's next turn follows on.
#[derive(Debug, Clone, Default)]
pub struct Past {
    /// The compaction in force.
    pub compaction: Option<Compaction>,
    /// The turns after it, oldest first.
    pub turns: Vec<TurnRecord>,
}

macro_rules! columns {
    () => {
        "id, session_label, turn_id, through_turn_id, turns_summarized, summary, trims_json, cause, author, \
         tokens_before, tokens_after, created_at, undone_at"
    };
}

impl Agents {
    /// Keeps a compaction; it is in force from now on.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn record_compaction(&self, new: NewCompaction) -> Result<(), StoreError> {
        self.database
            .write(Sync::Normal, move |connection| {
                insert(connection, &new, Timestamp::now())?;
                failpoint::hit("turn.compaction.before_commit");
                Ok(())
            })
            .await?;
        failpoint::hit("turn.compaction.committed");
        Ok(())
    }

    /// Keeps a compaction that somebody asked for and will be told of: it holds after a loss of power, too.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn record_asked_compaction(&self, new: NewCompaction) -> Result<Compaction, StoreError> {
        let kept = self
            .database
            .write(Sync::Full, move |connection| {
                let created_at = Timestamp::now();
                insert(connection, &new, created_at)?;
                failpoint::hit("shorten.before_commit");
                Ok(Compaction { new, created_at, undone_at: None })
            })
            .await?;
        failpoint::hit("shorten.committed");
        Ok(kept)
    }

    /// Returns the compaction in force and the turns on the path to `head` that it does not stand for.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn past(&self, session: &SessionLabel, head: &TurnId) -> Result<Past, StoreError> {
        let (session, head) = (session.clone(), head.clone());
        self.database
            .read(move |connection| {
                let (compaction, from) = in_force(connection, &session)?;
                Ok(Past { compaction, turns: rows::load_path(connection, &head, from)? })
            })
            .await
    }

    /// Lists compactions, newest first: those of one session, or all.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn compactions(
        &self,
        session: Option<&SessionLabel>,
        limit: usize,
    ) -> Result<Vec<Compaction>, StoreError> {
        let session = session.map(|session| session.as_str().to_owned());
        self.database
            .read(move |connection| {
                let found = connection
                    .prepare_cached(concat!(
                        "SELECT ",
                        columns!(),
                        " FROM compactions WHERE ?1 IS NULL OR session_label = ?1 ORDER BY rowid DESC LIMIT ?2"
                    ))?
                    .query_map(params![session, limit], compaction)?
                    .collect::<rusqlite::Result<_>>()?;
                Ok(found)
            })
            .await
    }

    /// Takes a compaction back.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn undo_compaction(&self, id: &CompactionId) -> Result<Undone, StoreError> {
        let id = id.clone();
        self.database.write(Sync::Full, move |connection| Ok(undo(connection, &id)?)).await
    }
}

fn insert(connection: &Connection, new: &NewCompaction, now: Timestamp) -> rusqlite::Result<()> {
    let trims: Vec<Value> =
        new.trims.iter().map(|trim| json!({"call": trim.call.as_str(), "text": trim.text})).collect();
    connection
        .prepare_cached(
            "INSERT INTO compactions (id, session_label, turn_id, through_turn_id, through_depth, turns_summarized, \
             summary, trims_json, cause, author, tokens_before, tokens_after, created_at) \
             VALUES (?1, ?2, ?3, ?4, (SELECT depth FROM turns WHERE id = ?4), ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            new.id.as_str(),
            new.session.as_str(),
            new.turn_id.as_str(),
            new.through.as_ref().map(TurnId::as_str),
            stored_count(new.turns_summarized),
            new.summary,
            Value::Array(trims).to_string(),
            new.cause.as_str(),
            new.author,
            stored_count(new.tokens_before),
            stored_count(new.tokens_after),
            now.0,
        ])?;
    Ok(())
}

/// Returns the compaction in force and the depth of the first turn it does not stand for.
fn in_force(connection: &Connection, session: &SessionLabel) -> rusqlite::Result<(Option<Compaction>, u32)> {
    let found = connection
        .prepare_cached(concat!(
            "SELECT ",
            columns!(),
            ", through_depth FROM compactions WHERE session_label = ?1 AND undone_at IS NULL \
             ORDER BY rowid DESC LIMIT 1"
        ))?
        .query_row([session.as_str()], |row| Ok((compaction(row)?, row.get::<_, Option<u32>>(13)?)))
        .optional()?;
    Ok(match found {
        Some((compaction, depth)) => (Some(compaction), depth.map_or(0, |depth| depth + 1)),
        None => (None, 0),
    })
}

fn undo(connection: &Connection, id: &CompactionId) -> rusqlite::Result<Undone> {
    let found = connection
        .prepare_cached(concat!("SELECT ", columns!(), " FROM compactions WHERE id = ?1"))?
        .query_row([id.as_str()], compaction)
        .optional()?;
    let Some(found) = found else { return Ok(Undone::Unknown) };
    if found.undone_at.is_some() {
        return Ok(Undone::Already);
    }
    if let (Some(latest), _) = in_force(connection, &found.new.session)?
        && latest.new.id != *id
    {
        return Ok(Undone::BuiltUpon(latest.new.id));
    }
    connection
        .prepare_cached("UPDATE compactions SET undone_at = ?2 WHERE id = ?1")?
        .execute(params![id.as_str(), Timestamp::now().0])?;
    Ok(Undone::Done(Box::new(found)))
}

fn compaction(row: &Row<'_>) -> rusqlite::Result<Compaction> {
    let trims: String = row.get(6)?;
    Ok(Compaction {
        new: NewCompaction {
            id: CompactionId::new(row.get::<_, String>(0)?),
            session: SessionLabel::new(row.get::<_, String>(1)?),
            turn_id: TurnId::new(row.get::<_, String>(2)?),
            through: row.get::<_, Option<String>>(3)?.map(TurnId::new),
            turns_summarized: count(row, 4)?,
            summary: row.get(5)?,
            trims: read_trims(&trims),
            cause: word(row, 7, CompactionCause::parse)?,
            author: row.get(8)?,
            tokens_before: count(row, 9)?,
            tokens_after: count(row, 10)?,
        },
        created_at: Timestamp(row.get(11)?),
        undone_at: row.get::<_, Option<i64>>(12)?.map(Timestamp),
    })
}

/// Written by us; a hand-edited row only sends its results whole again.
fn read_trims(text: &str) -> Vec<Trim> {
    let listed: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    let read = |one: &Value| {
        Some(Trim {
            call: ToolCallId::new(one.get("call")?.as_str()?),
            text: one.get("text")?.as_str()?.to_owned(),
        })
    };
    listed.iter().filter_map(read).collect()
}
