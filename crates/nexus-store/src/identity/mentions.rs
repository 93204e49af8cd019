//! Entities that are spoken of: found by name, made when they are new, and counted.

use nexus_base::clock::Timestamp;
use nexus_base::id::EntityId;
use rusqlite::{OptionalExtension, params};

use super::{Entity, EntitySource, Identity, normalize};
use crate::error::StoreError;
use crate::writer::Sync;

/// Somebody or something that is spoken of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mentioned {
    pub name: String,
    /// person, place, persona, … used when the entity is made.
    pub kind: String,
}

impl Identity {
    /// Finds canonical entities by name, upper and lower case aside, people who wrote to us first.
    pub async fn entities_named(&self, name: &str) -> Result<Vec<Entity>, StoreError> {
        let normalized = normalize(name);
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT * FROM entities WHERE normalized = ?1 AND merged_into IS NULL
                     ORDER BY is_user DESC, source = 'delivery' DESC, mention_count DESC, id LIMIT 16",
                )?;
                let rows = statement.query_map([&normalized], Entity::from_row)?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    /// Notes that entities were spoken of together: each is found by its name or made, counted, and
    /// counted with each of the others and with `speaker`. The owner is never found by a name here;
    /// who means the owner says so with `speaker`. Returns id and whether it was made, in order.
    pub async fn mention(
        &self,
        speaker: Option<EntityId>,
        mentioned: Vec<Mentioned>,
        at: Timestamp,
    ) -> Result<Vec<(EntityId, bool)>, StoreError> {
        self.database
            .write(Sync::Normal, move |connection| {
                let now = at.as_millis();
                let mut found = Vec::with_capacity(mentioned.len());
                for Mentioned { name, kind } in &mentioned {
                    let known: Option<String> = connection
                        .prepare_cached(
                            "SELECT id FROM entities
                             WHERE normalized = ?1 AND merged_into IS NULL AND is_user = 0
                             ORDER BY source = 'delivery' DESC, mention_count DESC, id LIMIT 1",
                        )?
                        .query_row([normalize(name)], |row| row.get(0))
                        .optional()?;
                    let is_new = known.is_none();
                    let id = known.map_or_else(EntityId::generate, EntityId::new);
                    connection
                        .prepare_cached(
                            "INSERT INTO entities (id, name, type, normalized, source, mention_count, first_seen,
                                last_seen, created_at, updated_at)
                             VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?6, ?7, ?7)
                             ON CONFLICT (id) DO UPDATE SET mention_count = mention_count + 1,
                                last_seen = max(coalesce(last_seen, 0), excluded.last_seen)",
                        )?
                        .execute(params![
                            id.as_str(),
                            name.trim(),
                            kind,
                            normalize(name),
                            EntitySource::Inferred,
                            now,
                            Timestamp::now().as_millis()
                        ])?;
                    found.push((id, is_new));
                }
                let mut together: Vec<&str> = found.iter().map(|(id, _)| id.as_str()).collect();
                together.extend(speaker.as_ref().map(EntityId::as_str));
                together.sort_unstable();
                together.dedup();
                let mut pair = connection.prepare_cached(
                    "INSERT INTO entity_cooccurrences (entity_id_1, entity_id_2, count, last_cooccurred)
                     VALUES (?1, ?2, 1, ?3) ON CONFLICT DO UPDATE SET count = count + 1,
                        last_cooccurred = max(last_cooccurred, excluded.last_cooccurred)",
                )?;
                for (place, first) in together.iter().enumerate() {
                    for second in &together[place + 1..] {
                        pair.execute(params![first, second, now])?;
                    }
                }
                Ok(found)
            })
            .await
    }

    /// Returns canonical entities that carry any of the tags.
    pub async fn entities_tagged(&self, tags: Vec<String>) -> Result<Vec<EntityId>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT DISTINCT entities.id FROM entity_tags
                     JOIN entities ON entities.id = entity_tags.entity_id AND entities.merged_into IS NULL
                     WHERE entity_tags.tag IN (SELECT value FROM json_each(?1)) LIMIT 10000",
                )?;
                let tags = serde_json::json!(tags).to_string();
                let rows = statement.query_map([tags], |row| row.get::<_, String>(0))?;
                Ok(rows.map(|id| id.map(EntityId::new)).collect::<rusqlite::Result<_>>()?)
            })
            .await
    }
}
