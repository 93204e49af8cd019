//! `contacts`: which entity writes to us from which address. Only delivery makes contacts.

use nexus_base::clock::Timestamp;
use nexus_base::id::EntityId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{EntitySource, Identity, LISTING_LIMIT, NewEntity, upsert};
use crate::error::StoreError;
use crate::words::{count, moment};
use crate::writer::Sync;

/// An address somebody wrote from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    pub platform: String,
    /// Server or team; empty where the platform has none.
    pub space_id: String,
    /// The sender, in the platform's terms.
    pub sender_id: String,
    /// The entity it belongs to; it may have been merged since.
    pub entity_id: EntityId,
    /// First message.
    pub first_seen: Timestamp,
    /// Latest message.
    pub last_seen: Timestamp,
    /// Messages in all.
    pub message_count: u64,
    /// Latest name the sender had there.
    pub sender_name: Option<String>,
}

impl Identity {
    /// Counts a message from an address and returns the entity behind it; the first message makes both.
    pub async fn record_contact(
        &self,
        platform: &str,
        space_id: Option<&str>,
        sender_id: &str,
        sender_name: Option<&str>,
    ) -> Result<EntityId, StoreError> {
        let (platform, sender_id) = (platform.to_owned(), sender_id.to_owned());
        let space_id = space_id.unwrap_or_default().to_owned();
        let sender_name = sender_name.map(ToOwned::to_owned);
        self.database
            .write(Sync::Normal, move |connection| {
                record(connection, &platform, &space_id, &sender_id, sender_name.as_deref())
            })
            .await
    }

    /// Returns contacts, of one entity or of all, latest first.
    pub async fn list_contacts(
        &self,
        entity_id: Option<EntityId>,
        limit: u32,
    ) -> Result<Vec<Contact>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT * FROM contacts WHERE ?1 IS NULL OR entity_id = ?1
                     ORDER BY last_seen DESC, sender_id LIMIT ?2",
                )?;
                let entity = entity_id.as_ref().map(EntityId::as_str);
                let rows =
                    statement.query_map(params![entity, limit.min(LISTING_LIMIT)], Contact::from_row)?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }
}

fn record(
    connection: &Connection,
    platform: &str,
    space_id: &str,
    sender_id: &str,
    sender_name: Option<&str>,
) -> Result<EntityId, StoreError> {
    let now = Timestamp::now().as_millis();
    let known: Option<String> = connection
        .prepare_cached(
            "UPDATE contacts SET last_seen = ?4, message_count = message_count + 1,
                sender_name = coalesce(?5, sender_name)
             WHERE platform = ?1 AND space_id = ?2 AND sender_id = ?3 RETURNING entity_id",
        )?
        .query_row(params![platform, space_id, sender_id, now, sender_name], |row| row.get(0))
        .optional()?;
    if let Some(entity_id) = known {
        return Ok(EntityId::new(entity_id));
    }
    let id = if space_id.is_empty() {
        EntityId::new(format!("{platform}:{sender_id}"))
    } else {
        EntityId::new(format!("{platform}:{space_id}:{sender_id}"))
    };
    let name = sender_name.unwrap_or(sender_id).to_owned();
    let kind = handle_kind(platform);
    upsert(connection, &NewEntity { id: id.clone(), name, kind, source: EntitySource::Delivery })?;
    connection
        .prepare_cached(
            "INSERT INTO contacts (platform, space_id, sender_id, entity_id, first_seen, last_seen,
                message_count, sender_name) VALUES (?1, ?2, ?3, ?4, ?5, ?5, 1, ?6)",
        )?
        .execute(params![platform, space_id, sender_id, id.as_str(), now, sender_name])?;
    Ok(id)
}

/// What kind of name a sender has on a platform.
fn handle_kind(platform: &str) -> String {
    match platform {
        "email" | "gmail" => "email".to_owned(),
        "sms" | "whatsapp" | "signal" => "phone".to_owned(),
        other => format!("{other}_handle"),
    }
}

impl Contact {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            platform: row.get("platform")?,
            space_id: row.get("space_id")?,
            sender_id: row.get("sender_id")?,
            entity_id: EntityId::new(row.get::<_, String>("entity_id")?),
            first_seen: moment(row, "first_seen")?,
            last_seen: moment(row, "last_seen")?,
            message_count: count(row, "message_count")?,
            sender_name: row.get("sender_name")?,
        })
    }
}
