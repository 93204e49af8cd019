//! `auth_tokens`: tokens that were given out, known by their hash only.

use nexus_base::clock::Timestamp;
use nexus_base::id::EntityId;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::{Identity, LISTING_LIMIT};
use crate::error::StoreError;
use crate::words::{json, moment, moment_or_none};
use crate::writer::Sync;

/// A token to be stored; the token itself is never part of it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewToken {
    pub id: String,
    /// `control-plane` or `ingress`.
    pub audience: String,
    /// Its first letters, to recognise it by.
    pub prefix: String,
    /// SHA-256 of the token, in hex.
    pub hash: String,
    /// SHA-256 of the owner's token it was given out under; none in rows of versions that did not write it down.
    pub issued_under: Option<String>,
    /// Whom it stands for.
    pub entity_id: EntityId,
    /// What its holder is.
    pub role: String,
    /// What it may do, as a list of permissions.
    pub scopes: Vec<String>,
    pub label: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it runs out.
    pub expires_at: Option<Timestamp>,
}

/// A stored token.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenRow {
    /// As it was made.
    pub new: NewToken,
    pub last_used_at: Option<Timestamp>,
    /// When it was ended.
    pub revoked_at: Option<Timestamp>,
}

impl TokenRow {
    /// Tells whether it opens anything at `now`, while the owner's token has the hash `under`.
    pub fn is_live(&self, now: Timestamp, under: &str) -> bool {
        self.revoked_at.is_none()
            && self.new.expires_at.is_none_or(|end| now < end)
            && self.new.issued_under.as_deref() == Some(under)
    }
}

impl Identity {
    pub async fn add_token(&self, token: NewToken) -> Result<(), StoreError> {
        self.database.write(Sync::Full, move |connection| insert(connection, &token)).await
    }

    /// Ends one token and stores another in the same step; false when there is none to end.
    pub async fn replace_token(&self, old: &str, new: NewToken) -> Result<bool, StoreError> {
        let old = old.to_owned();
        self.database
            .write(Sync::Full, move |connection| {
                if !revoke(connection, &old)? {
                    return Ok(false);
                }
                insert(connection, &new)?;
                Ok(true)
            })
            .await
    }

    /// Ends a token; false when there is none of that id that was not ended before.
    pub async fn revoke_token(&self, id: &str) -> Result<bool, StoreError> {
        let id = id.to_owned();
        self.database.write(Sync::Full, move |connection| revoke(connection, &id)).await
    }

    /// Ends every token that was given out under another owner's token and returns how many that were.
    pub async fn revoke_tokens_not_under(&self, under: &str) -> Result<usize, StoreError> {
        let under = under.to_owned();
        self.database
            .write(Sync::Full, move |connection| {
                Ok(connection
                    .prepare_cached(
                        "UPDATE auth_tokens SET revoked_at = ?1 WHERE revoked_at IS NULL AND issued_under IS NOT ?2",
                    )?
                    .execute(params![Timestamp::now().as_millis(), under])?)
            })
            .await
    }

    /// Binds live tokens that are bound to nothing to this owner's token.
    pub async fn bind_tokens(&self, under: &str) -> Result<(), StoreError> {
        let under = under.to_owned();
        self.database
            .write(Sync::Full, move |connection| {
                connection
                    .prepare_cached(
                        "UPDATE auth_tokens SET issued_under = ?1 WHERE revoked_at IS NULL AND issued_under IS NULL",
                    )?
                    .execute([under])?;
                Ok(())
            })
            .await
    }

    /// Notes that a token was used; not awaited.
    pub fn token_used_later(&self, id: String, at: Timestamp) {
        self.database.write_later(move |connection| {
            connection
                .prepare_cached("UPDATE auth_tokens SET last_used_at = ?2 WHERE id = ?1")?
                .execute(params![id, at.as_millis()])?;
            Ok(())
        });
    }

    /// Returns the token with this hash, whatever its state.
    pub async fn token_by_hash(&self, hash: &str) -> Result<Option<TokenRow>, StoreError> {
        let hash = hash.to_owned();
        self.database
            .look(move |connection| {
                let mut statement =
                    connection.prepare_cached("SELECT * FROM auth_tokens WHERE token_hash = ?1")?;
                Ok(statement.query_row([hash], TokenRow::from_row).optional()?)
            })
            .await
    }

    /// Returns the token of this id, whatever its state.
    pub async fn token(&self, id: &str) -> Result<Option<TokenRow>, StoreError> {
        let id = id.to_owned();
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached("SELECT * FROM auth_tokens WHERE id = ?1")?;
                Ok(statement.query_row([id], TokenRow::from_row).optional()?)
            })
            .await
    }

    /// Returns all tokens, newest first.
    pub async fn list_tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        self.database
            .read(|connection| {
                let mut statement = connection
                    .prepare_cached("SELECT * FROM auth_tokens ORDER BY created_at DESC, id DESC LIMIT ?1")?;
                let rows = statement.query_map([LISTING_LIMIT], TokenRow::from_row)?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }
}

fn insert(connection: &Connection, token: &NewToken) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO auth_tokens
                (id, audience, token_prefix, token_hash, entity_id, role, scopes, label, created_at, expires_at,
                 issued_under)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            token.id,
            token.audience,
            token.prefix,
            token.hash,
            token.entity_id.as_str(),
            token.role,
            serde_json::json!(token.scopes).to_string(),
            token.label,
            token.created_at.as_millis(),
            token.expires_at.map(Timestamp::as_millis),
            token.issued_under,
        ])?;
    Ok(())
}

fn revoke(connection: &Connection, id: &str) -> Result<bool, StoreError> {
    let changed = connection
        .prepare_cached("UPDATE auth_tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL")?
        .execute(params![id, Timestamp::now().as_millis()])?;
    Ok(changed == 1)
}

impl TokenRow {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            new: NewToken {
                id: row.get("id")?,
                audience: row.get("audience")?,
                prefix: row.get("token_prefix")?,
                hash: row.get("token_hash")?,
                issued_under: row.get("issued_under")?,
                entity_id: EntityId::new(row.get::<_, String>("entity_id")?),
                role: row.get("role")?,
                scopes: texts(json(row, "scopes")?),
                label: row.get("label")?,
                created_at: moment(row, "created_at")?,
                expires_at: moment_or_none(row, "expires_at")?,
            },
            last_used_at: moment_or_none(row, "last_used_at")?,
            revoked_at: moment_or_none(row, "revoked_at")?,
        })
    }
}

/// Takes the texts out of a stored list; anything else in it is worth nothing.
pub(super) fn texts(value: Option<Value>) -> Vec<String> {
    let items = match value {
        Some(Value::Array(items)) => items,
        Some(_) | None => Vec::new(),
    };
    items.into_iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}
