//! `access_log`: what was decided about each event and each control-plane call.

use nexus_base::clock::Timestamp;
use nexus_base::id::{EntityId, EventId, RequestId, SessionLabel, new_ulid};
use rusqlite::{Connection, Row, named_params};
use serde_json::Value;

use super::{Identity, LISTING_LIMIT};
use crate::error::StoreError;
use crate::words::{count_or_none, json, json_text, moment, stored_count, words};

words! {
    /// What was decided.
    AccessEffect {
        /// They may.
        Allow = "allow",
        /// They may not.
        Deny = "deny",
        /// The owner is asked.
        Ask = "ask",
    }
}

/// One decision.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessLogRow {
    pub timestamp: Timestamp,
    /// Event it was about.
    pub event_id: Option<EventId>,
    /// Request it was about.
    pub request_id: Option<RequestId>,
    /// Platform the sender used.
    pub platform: String,
    /// The sender, in the platform's terms.
    pub sender_id: String,
    /// dm, group, channel, direct.
    pub container_kind: Option<String>,
    pub principal_id: Option<EntityId>,
    /// owner, known, unknown, system, webhook, agent.
    pub principal_type: String,
    pub principal_name: Option<String>,
    pub policies_matched: Option<Value>,
    /// Decision.
    pub effect: AccessEffect,
    /// Why not.
    pub deny_reason: Option<String>,
    /// Tools they may use.
    pub tools_allowed: Option<Value>,
    /// Tools they may not use.
    pub tools_denied: Option<Value>,
    /// Credentials they may use.
    pub credentials_allowed: Option<Value>,
    /// none, minimal, contextual, full.
    pub data_access: Option<String>,
    /// Persona that answers.
    pub persona: Option<String>,
    /// Session that answers.
    pub session_key: Option<SessionLabel>,
    /// Grants that were used.
    pub grants_applied: Option<Value>,
    /// Milliseconds the decision took.
    pub processing_time_ms: Option<u64>,
    /// Control-plane operation, for calls that are no events.
    pub operation: Option<String>,
}

impl Identity {
    /// Records a decision; not awaited.
    pub fn log_access_later(&self, row: AccessLogRow) {
        self.database.write_later(move |connection| insert(connection, &row));
    }

    /// Returns the latest decisions, newest first.
    pub async fn recent_access(&self, limit: u32) -> Result<Vec<AccessLogRow>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement = connection
                    .prepare_cached("SELECT * FROM access_log ORDER BY timestamp DESC, id DESC LIMIT ?1")?;
                let rows = statement.query_map([limit.min(LISTING_LIMIT)], AccessLogRow::from_row)?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }
}

fn insert(connection: &Connection, row: &AccessLogRow) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO access_log (id, timestamp, event_id, request_id, platform, sender_id, container_kind,
                principal_id, principal_type, principal_name, policies_matched, effect, deny_reason,
                tools_allowed, tools_denied, credentials_allowed, data_access, persona, session_key,
                grants_applied, processing_time_ms, operation)
             VALUES (:id, :timestamp, :event_id, :request_id, :platform, :sender_id, :container_kind,
                :principal_id, :principal_type, :principal_name, :policies_matched, :effect, :deny_reason,
                :tools_allowed, :tools_denied, :credentials_allowed, :data_access, :persona, :session_key,
                :grants_applied, :processing_time_ms, :operation)",
        )?
        .execute(named_params! {
            ":id": new_ulid(),
            ":timestamp": row.timestamp.as_millis(),
            ":event_id": row.event_id.as_ref().map(EventId::as_str),
            ":request_id": row.request_id.as_ref().map(RequestId::as_str),
            ":platform": row.platform,
            ":sender_id": row.sender_id,
            ":container_kind": row.container_kind,
            ":principal_id": row.principal_id.as_ref().map(EntityId::as_str),
            ":principal_type": row.principal_type,
            ":principal_name": row.principal_name,
            ":policies_matched": json_text(row.policies_matched.as_ref()),
            ":effect": row.effect,
            ":deny_reason": row.deny_reason,
            ":tools_allowed": json_text(row.tools_allowed.as_ref()),
            ":tools_denied": json_text(row.tools_denied.as_ref()),
            ":credentials_allowed": json_text(row.credentials_allowed.as_ref()),
            ":data_access": row.data_access,
            ":persona": row.persona,
            ":session_key": row.session_key.as_ref().map(SessionLabel::as_str),
            ":grants_applied": json_text(row.grants_applied.as_ref()),
            ":processing_time_ms": row.processing_time_ms.map(stored_count),
            ":operation": row.operation,
        })?;
    Ok(())
}

impl AccessLogRow {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            timestamp: moment(row, "timestamp")?,
            event_id: row.get::<_, Option<String>>("event_id")?.map(EventId::new),
            request_id: row.get::<_, Option<String>>("request_id")?.map(RequestId::new),
            platform: row.get("platform")?,
            sender_id: row.get("sender_id")?,
            container_kind: row.get("container_kind")?,
            principal_id: row.get::<_, Option<String>>("principal_id")?.map(EntityId::new),
            principal_type: row.get("principal_type")?,
            principal_name: row.get("principal_name")?,
            policies_matched: json(row, "policies_matched")?,
            effect: row.get("effect")?,
            deny_reason: row.get("deny_reason")?,
            tools_allowed: json(row, "tools_allowed")?,
            tools_denied: json(row, "tools_denied")?,
            credentials_allowed: json(row, "credentials_allowed")?,
            data_access: row.get("data_access")?,
            persona: row.get("persona")?,
            session_key: row.get::<_, Option<String>>("session_key")?.map(SessionLabel::new),
            grants_applied: json(row, "grants_applied")?,
            processing_time_ms: count_or_none(row, "processing_time_ms")?,
            operation: row.get("operation")?,
        })
    }
}
