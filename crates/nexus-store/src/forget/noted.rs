//! What is being forgotten, written down first. The note goes last, so whatever a crash cuts off is found
//! again by it.

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::id::{EntityId, EventId, FactId, new_ulid};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{NotForgotten, is_open, quotes, quoting_rows, turn_rows};
use crate::error::StoreError;
use crate::memory::Fact;
use crate::store::Store;
use crate::writer::Sync;

/// Something that is being forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Forgetting {
    id: String,
    /// The event, with everything it led to; none when only facts are forgotten.
    pub event: Option<EventId>,
    pub(super) request: Option<String>,
    /// Facts that go with it.
    pub facts: Vec<FactId>,
    /// Rows of those facts.
    pub fact_rows: Vec<i64>,
    /// Rows of turns that go with it.
    pub turns: Vec<i64>,
    /// Rows of other turns that quote it.
    #[serde(default)]
    pub quoting: Vec<i64>,
    #[serde(default)]
    pub(super) orphans: Vec<EntityId>,
    /// What is looked for in every text.
    pub quotes: Vec<String>,
    /// Every place is overwritten; only the unused parts of the files are left.
    #[serde(skip)]
    pub is_overwritten: bool,
}

impl Forgetting {
    /// Returns the id of the note, which is also the one in the log.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl Store {
    /// Writes down that an event is to be forgotten with everything it led to.
    pub async fn note_forgetting(
        &self,
        event: EventId,
    ) -> Result<Result<Forgetting, NotForgotten>, StoreError> {
        let Some(source) = self.events().get(event.clone()).await? else {
            return Ok(Err(NotForgotten::Unknown));
        };
        let request =
            self.events().inbox_state(event.clone()).await?.map(|state| state.request_id.to_string());
        let (of_event, of_request) = (event.to_string(), request.clone());
        let is_open = self
            .agents_database()
            .read(move |connection| is_open(connection, &of_event, of_request.as_deref()))
            .await?;
        if is_open {
            return Ok(Err(NotForgotten::Busy));
        }
        let of_event = event.to_string();
        let turns = self.events_database().read(move |connection| turn_rows(connection, &of_event)).await?;
        let facts = self.memory().facts_from(event.clone()).await?;
        let orphans = self.only_known_from(&facts, &source.body.content).await?;
        let forgetting = Forgetting {
            event: Some(event),
            request,
            turns,
            orphans,
            quotes: quotes(&source.body.content, facts.iter().map(|fact| fact.text.as_str())),
            ..Forgetting::default()
        };
        Ok(Ok(self.note(forgetting, &facts).await?))
    }

    /// Writes down that a fact is to be forgotten that came from nowhere, with every text that quotes it.
    pub async fn note_forgetting_fact(&self, fact: &Fact) -> Result<Forgetting, StoreError> {
        let orphans = self.only_known_from(std::slice::from_ref(fact), &fact.text).await?;
        let quotes = quotes(&fact.text, std::iter::empty());
        self.note(Forgetting { orphans, quotes, ..Forgetting::default() }, std::slice::from_ref(fact)).await
    }

    /// Removes a fact and writes down that its vector and the unused parts of the files remain; none when
    /// there is no such fact.
    pub async fn forget_fact(&self, fact: FactId) -> Result<Option<Forgetting>, StoreError> {
        let noted = self
            .memory_database()
            .write(Sync::Full, move |connection| {
                connection.pragma_update(None, "secure_delete", true)?;
                let row: Option<i64> = connection
                    .prepare_cached("DELETE FROM facts WHERE id = ?1 RETURNING row")?
                    .query_row([fact.as_str()], |row| row.get(0))
                    .optional()?;
                let Some(row) = row else { return Ok(None) };
                let forgetting = Forgetting {
                    id: new_ulid(),
                    facts: vec![fact],
                    fact_rows: vec![row],
                    is_overwritten: true,
                    ..Forgetting::default()
                };
                put(connection, &forgetting)?;
                Ok(Some(forgetting))
            })
            .await?;
        failpoint::hit("forget.fact_removed");
        Ok(noted)
    }

    /// Returns what was begun and is not done.
    pub async fn unfinished_forgetting(&self) -> Result<Vec<Forgetting>, StoreError> {
        self.memory_database()
            .read(|connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT id, what, is_overwritten FROM forgetting ORDER BY begun_at, id",
                )?;
                let rows = statement.query_map([], |row| {
                    let (id, what): (String, String) = (row.get(0)?, row.get(1)?);
                    Ok((id, what, row.get(2)?))
                })?;
                let read = |(id, what, is_overwritten): (String, String, bool)| {
                    // A note that cannot be read is still a reason to clean up.
                    let what = serde_json::from_str(&what).unwrap_or_default();
                    Forgetting { id, is_overwritten, ..what }
                };
                Ok(rows.map(|row| row.map(read)).collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    /// Notes that every place is overwritten, and overwrites what was looked for.
    pub async fn forgetting_overwritten(&self, forgetting: &Forgetting) -> Result<(), StoreError> {
        let rest = Forgetting {
            quotes: Vec::new(),
            orphans: Vec::new(),
            is_overwritten: true,
            ..forgetting.clone()
        };
        self.memory_database()
            .write(Sync::Full, move |connection| {
                connection.pragma_update(None, "secure_delete", true)?;
                put(connection, &rest)
            })
            .await?;
        failpoint::hit("forget.all_overwritten");
        Ok(())
    }

    /// Removes the note: nothing is left to do.
    pub async fn forgetting_done(&self, id: &str) -> Result<(), StoreError> {
        let id = id.to_owned();
        self.memory_database()
            .write(Sync::Full, move |connection| {
                connection.execute("DELETE FROM forgetting WHERE id = ?1", [id])?;
                Ok(())
            })
            .await
    }

    async fn note(&self, forgetting: Forgetting, facts: &[Fact]) -> Result<Forgetting, StoreError> {
        let ids: Vec<FactId> = facts.iter().map(|fact| fact.id.clone()).collect();
        let (quotes, own) = (forgetting.quotes.clone(), forgetting.turns.clone());
        let quoting =
            self.events_database().read(move |connection| quoting_rows(connection, &quotes, &own)).await?;
        let noted = self
            .memory_database()
            .write(Sync::Full, move |connection| {
                // A fact that quotes it goes with it: nothing would be left of it but a gap.
                let mut statement = connection.prepare(
                    "SELECT id, row FROM facts WHERE id IN (SELECT value FROM json_each(?1))
                       OR EXISTS (SELECT 1 FROM json_each(?2) WHERE instr(text, value) > 0)",
                )?;
                let asked = params![json!(ids).to_string(), json!(forgetting.quotes).to_string()];
                let rows = statement.query_map(asked, |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
                let found: Vec<(String, i64)> = rows.collect::<rusqlite::Result<_>>()?;
                let (facts, fact_rows) = found.into_iter().map(|(id, row)| (FactId::new(id), row)).unzip();
                let forgetting = Forgetting { id: new_ulid(), facts, fact_rows, quoting, ..forgetting };
                put(connection, &forgetting)?;
                Ok(forgetting)
            })
            .await?;
        failpoint::hit("forget.noted");
        Ok(noted)
    }
}

fn put(connection: &Connection, forgetting: &Forgetting) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO forgetting (id, what, is_overwritten, begun_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (id) DO UPDATE SET what = excluded.what, is_overwritten = excluded.is_overwritten",
        )?
        .execute(params![
            forgetting.id,
            json!(forgetting).to_string(),
            forgetting.is_overwritten,
            Timestamp::now().as_millis()
        ])?;
    Ok(())
}
