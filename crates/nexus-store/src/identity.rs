//! People and other named things, how they reach us, and what was decided about them:
//! `identity.db`. It stores decisions; policies and merges are decided elsewhere.

mod access;
mod approvals;
mod contacts;
mod mentions;
mod tokens;

use nexus_base::clock::Timestamp;
use nexus_base::id::EntityId;
use rusqlite::{Connection, OptionalExtension, Row, params};

pub use self::access::{AccessEffect, AccessLogRow};
pub use self::approvals::{
    GrantActivity, GrantRow, NewGrant, NewPermissionRequest, PermissionAnswer, PermissionRequest,
    PermissionStatus,
};
pub use self::contacts::Contact;
pub use self::mentions::Mentioned;
pub use self::tokens::{NewToken, TokenRow};
use crate::database::Database;
use crate::error::StoreError;
use crate::words::{count, moment, moment_or_none, words};
use crate::writer::Sync;

/// Id of the owner's entity.
pub const OWNER_ID: &str = "entity-owner";
/// Longest chain of merges that is followed; also what ends a cycle.
const HOP_LIMIT: u32 = 32;
/// Most rows one listing returns.
const LISTING_LIMIT: u32 = 1000;

words! {
    /// How an entity became known.
    EntitySource {
        /// It wrote to us.
        Delivery = "delivery",
        /// It was mentioned.
        Inferred = "inferred",
        /// It came with imported data.
        Imported = "imported",
        /// The owner or Nexus itself made it.
        Manual = "manual",
    }
}

/// Somebody or something with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    pub id: EntityId,
    pub name: String,
    /// person, phone, org, project, … free text.
    pub kind: String,
    /// The entity that stands for it since a merge; none for a canonical one.
    pub merged_into: Option<EntityId>,
    /// Whether it is the owner.
    pub is_user: bool,
    /// How it became known.
    pub source: EntitySource,
    /// How often it was mentioned.
    pub mention_count: u64,
    pub first_seen: Option<Timestamp>,
    /// Latest time it was seen.
    pub last_seen: Option<Timestamp>,
    /// When its row was made.
    pub created_at: Timestamp,
}

/// An entity to be made or renamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntity {
    pub id: EntityId,
    pub name: String,
    /// person, phone, org, project, … free text.
    pub kind: String,
    /// How it became known.
    pub source: EntitySource,
}

/// Typed queries on `identity.db`.
#[derive(Debug, Clone)]
pub struct Identity {
    database: Database,
}

impl Identity {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }

    /// Makes the owner's entity unless there is an owner; returns whether it was made.
    pub async fn seed_owner(&self) -> Result<bool, StoreError> {
        self.database
            .write(Sync::Normal, |connection| {
                if owner(connection)?.is_some() {
                    return Ok(false);
                }
                let now = Timestamp::now().as_millis();
                connection
                    .prepare_cached(
                        "INSERT INTO entities
                            (id, name, type, normalized, is_user, source, created_at, updated_at)
                         VALUES (?1, 'Owner', 'person', 'owner', 1, 'manual', ?2, ?2)",
                    )?
                    .execute(params![OWNER_ID, now])?;
                Ok(true)
            })
            .await
    }

    pub async fn owner(&self) -> Result<Option<Entity>, StoreError> {
        self.database.look(owner).await
    }

    /// Like [`Identity::owner`], for callers outside an async runtime.
    pub fn owner_blocking(&self) -> Result<Option<Entity>, StoreError> {
        self.database.read_blocking(owner)
    }

    pub async fn entity(&self, id: EntityId) -> Result<Option<Entity>, StoreError> {
        self.database.look(move |connection| entity(connection, &id)).await
    }

    /// Gives an entity another name; returns false when there is none of that id.
    pub async fn rename_entity(&self, id: EntityId, name: &str) -> Result<bool, StoreError> {
        let name = name.trim().to_owned();
        self.database
            .write(Sync::Normal, move |connection| {
                let changed = connection
                    .prepare_cached(
                        "UPDATE entities SET name = ?2, normalized = ?3, updated_at = ?4 WHERE id = ?1",
                    )?
                    .execute(params![id.as_str(), name, normalize(&name), Timestamp::now().as_millis()])?;
                Ok(changed == 1)
            })
            .await
    }

    /// Makes an entity, or updates name and kind of the one with that id. Never makes an owner.
    pub async fn upsert_entity(&self, new: NewEntity) -> Result<(), StoreError> {
        self.database.write(Sync::Normal, move |connection| upsert(connection, &new)).await
    }

    /// Follows merges to the entity that stands for `id`; none when there is no such entity or the
    /// chain does not end.
    pub async fn resolve_canonical(&self, id: EntityId) -> Result<Option<Entity>, StoreError> {
        self.database
            .read(move |connection| {
                let mut current = entity(connection, &id)?;
                for _ in 0..HOP_LIMIT {
                    match current {
                        Some(Entity { merged_into: Some(next), .. }) => current = entity(connection, &next)?,
                        Some(_) | None => return Ok(current),
                    }
                }
                Ok(None)
            })
            .await
    }

    /// Adds a tag to an entity; adding it again changes nothing.
    pub async fn tag_entity(&self, id: EntityId, tag: &str) -> Result<(), StoreError> {
        let tag = tag.to_owned();
        self.database
            .write(Sync::Normal, move |connection| {
                connection
                    .prepare_cached(
                        "INSERT INTO entity_tags (entity_id, tag, created_at) VALUES (?1, ?2, ?3)
                         ON CONFLICT DO NOTHING",
                    )?
                    .execute(params![id.as_str(), tag, Timestamp::now().as_millis()])?;
                Ok(())
            })
            .await
    }

    /// Returns an entity's tags.
    pub async fn entity_tags(&self, id: EntityId) -> Result<Vec<String>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement = connection
                    .prepare_cached("SELECT tag FROM entity_tags WHERE entity_id = ?1 ORDER BY tag")?;
                let rows = statement.query_map([id.as_str()], |row| row.get(0))?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    /// Returns canonical entities, the owner first, then those seen last.
    pub async fn list_entities(&self, limit: u32) -> Result<Vec<Entity>, StoreError> {
        self.database.read(move |connection| list(connection, limit)).await
    }

    /// Like [`Identity::list_entities`], for callers outside an async runtime.
    pub fn list_entities_blocking(&self, limit: u32) -> Result<Vec<Entity>, StoreError> {
        self.database.read_blocking(|connection| list(connection, limit))
    }

    /// Waits until everything queued so far is committed.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.database.flush().await
    }
}

/// Returns the form under which names are compared: lower case, single spaces.
fn normalize(name: &str) -> String {
    name.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

fn owner(connection: &Connection) -> Result<Option<Entity>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT * FROM entities WHERE is_user = 1 AND merged_into IS NULL")?;
    Ok(statement.query_row([], Entity::from_row).optional()?)
}

fn entity(connection: &Connection, id: &EntityId) -> Result<Option<Entity>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT * FROM entities WHERE id = ?1")?;
    Ok(statement.query_row([id.as_str()], Entity::from_row).optional()?)
}

fn upsert(connection: &Connection, new: &NewEntity) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO entities
                (id, name, type, normalized, source, first_seen, last_seen, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?6, ?6)
             ON CONFLICT (id) DO UPDATE SET name = excluded.name, type = excluded.type,
                normalized = excluded.normalized, last_seen = excluded.last_seen, updated_at = excluded.updated_at",
        )?
        .execute(params![
            new.id.as_str(),
            new.name.trim(),
            new.kind,
            normalize(&new.name),
            new.source,
            Timestamp::now().as_millis(),
        ])?;
    Ok(())
}

fn list(connection: &Connection, limit: u32) -> Result<Vec<Entity>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT * FROM entities WHERE merged_into IS NULL
         ORDER BY is_user DESC, last_seen DESC NULLS LAST, id LIMIT ?1",
    )?;
    let rows = statement.query_map([limit.min(LISTING_LIMIT)], Entity::from_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

impl Entity {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: EntityId::new(row.get::<_, String>("id")?),
            name: row.get("name")?,
            kind: row.get("type")?,
            merged_into: row.get::<_, Option<String>>("merged_into")?.map(EntityId::new),
            is_user: row.get("is_user")?,
            source: row.get("source")?,
            mention_count: count(row, "mention_count")?,
            first_seen: moment_or_none(row, "first_seen")?,
            last_seen: moment_or_none(row, "last_seen")?,
            created_at: moment(row, "created_at")?,
        })
    }
}
