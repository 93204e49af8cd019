//! `permission_requests`, `grants` and `grant_log`: what the owner was asked, what they answered,
//! and the consents that stand.

use nexus_base::clock::Timestamp;
use nexus_base::id::{RequestId, SessionLabel, ToolCallId, new_ulid};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::{Value, json};

use super::tokens::texts;
use super::{Identity, LISTING_LIMIT};
use crate::error::StoreError;
use crate::words::{json, moment, moment_or_none, words};
use crate::writer::Sync;

words! {
    /// Where a request for consent stands.
    PermissionStatus {
        /// Nobody has answered.
        Pending = "pending",
        /// The owner agreed.
        Approved = "approved",
        /// The owner refused.
        Denied = "denied",
        /// Nobody answered in time.
        Expired = "expired",
    }
}

words! {
    /// What happened to a grant.
    GrantActivity {
        /// It was given.
        Created = "created",
        /// Something was allowed because of it.
        Used = "used",
        /// It ran out.
        Expired = "expired",
        /// It was taken back.
        Revoked = "revoked",
    }
}

/// A request for consent to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPermissionRequest {
    pub id: String,
    /// Who asks.
    pub requester: String,
    /// Over which way.
    pub platform: String,
    /// tool, exec, access.
    pub kind: String,
    /// The tool, for tool calls.
    pub tool: Option<String>,
    pub tool_call_id: Option<ToolCallId>,
    /// The session it happens in.
    pub session: Option<SessionLabel>,
    /// The request it happens in.
    pub request_id: Option<RequestId>,
    /// In a few words.
    pub summary: String,
    /// What it would open.
    pub resources: Vec<String>,
    /// Why they ask.
    pub reason: Option<String>,
    /// When it was asked.
    pub created_at: Timestamp,
    /// When silence becomes a refusal.
    pub expires_at: Timestamp,
}

/// A stored request for consent.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionRequest {
    /// As it was asked.
    pub new: NewPermissionRequest,
    /// Where it stands.
    pub status: PermissionStatus,
    /// Who answered.
    pub responder: Option<String>,
    pub responded_at: Option<Timestamp>,
    /// The standing consent that came of it.
    pub grant_id: Option<String>,
}

/// An answer to a request for consent.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionAnswer {
    /// The request.
    pub id: String,
    /// What it becomes.
    pub status: PermissionStatus,
    /// Who answered.
    pub responder: String,
    /// Over which way.
    pub platform: String,
    pub at: Timestamp,
    /// A consent to stand from now on.
    pub grant: Option<NewGrant>,
}

/// A consent to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewGrant {
    pub id: String,
    pub requester: String,
    /// What it opens.
    pub resources: Vec<String>,
    /// When it was given.
    pub created_at: Timestamp,
    /// When it runs out.
    pub expires_at: Option<Timestamp>,
    /// Who gave it.
    pub granted_by: String,
    /// Why.
    pub reason: Option<String>,
}

/// A stored consent.
#[derive(Debug, Clone, PartialEq)]
pub struct GrantRow {
    /// As it was given.
    pub new: NewGrant,
    /// When it was taken back.
    pub revoked_at: Option<Timestamp>,
}

impl GrantRow {
    /// Tells whether it opens anything at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.new.expires_at.is_none_or(|end| now < end)
    }
}

impl Identity {
    /// Stores a request for consent unless its requester already has `most` open ones; returns
    /// whether it was stored.
    pub async fn add_permission_request(
        &self,
        request: NewPermissionRequest,
        most: u32,
    ) -> Result<bool, StoreError> {
        self.database
            .write(Sync::Normal, move |connection| {
                let open: u32 = connection
                    .prepare_cached(
                        "SELECT count(*) FROM permission_requests
                         WHERE status = 'pending' AND requester_id = ?1 AND expires_at > ?2",
                    )?
                    .query_row(params![request.requester, request.created_at.as_millis()], |row| {
                        row.get(0)
                    })?;
                if open >= most {
                    return Ok(false);
                }
                insert(connection, &request)?;
                Ok(true)
            })
            .await
    }

    /// Answers a request that is still open at `answer.at`, with its grant in the same step.
    /// Returns the request as it stands afterwards; an answer that comes too late changes nothing.
    pub async fn answer_permission(
        &self,
        answer: PermissionAnswer,
    ) -> Result<Option<PermissionRequest>, StoreError> {
        self.database
            .write(Sync::Full, move |connection| {
                if let Some(grant) = &answer.grant {
                    let is_open: bool = connection
                        .prepare_cached(
                            "SELECT EXISTS (SELECT 1 FROM permission_requests
                             WHERE id = ?1 AND status = 'pending' AND expires_at > ?2)",
                        )?
                        .query_row(params![answer.id, answer.at.as_millis()], |row| row.get(0))?;
                    if is_open {
                        insert_grant(connection, grant)?;
                    }
                }
                connection
                    .prepare_cached(
                        "UPDATE permission_requests SET status = ?2, responder = ?3, response_platform = ?4,
                            response_at = ?5, grant_id = ?6
                         WHERE id = ?1 AND status = 'pending' AND expires_at > ?5",
                    )?
                    .execute(params![
                        answer.id,
                        answer.status,
                        answer.responder,
                        answer.platform,
                        answer.at.as_millis(),
                        answer.grant.as_ref().map(|grant| grant.id.as_str()),
                    ])?;
                one(connection, &answer.id)
            })
            .await
    }

    /// Marks requests whose time is over and returns them.
    pub async fn expire_permissions(&self, now: Timestamp) -> Result<Vec<PermissionRequest>, StoreError> {
        self.database
            .write(Sync::Normal, move |connection| {
                let mut statement = connection.prepare_cached(
                    "UPDATE permission_requests SET status = 'expired'
                     WHERE status = 'pending' AND expires_at <= ?1 RETURNING *",
                )?;
                let rows = statement.query_map([now.as_millis()], PermissionRequest::from_row)?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    /// Returns one request for consent.
    pub async fn permission_request(&self, id: &str) -> Result<Option<PermissionRequest>, StoreError> {
        let id = id.to_owned();
        self.database.read(move |connection| one(connection, &id)).await
    }

    /// Returns requests for consent, newest first: the open ones, or all.
    pub async fn list_permission_requests(
        &self,
        all: bool,
        limit: u32,
    ) -> Result<Vec<PermissionRequest>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT * FROM permission_requests WHERE ?1 OR status = 'pending'
                     ORDER BY created_at DESC, id DESC LIMIT ?2",
                )?;
                let rows = statement
                    .query_map(params![all, limit.min(LISTING_LIMIT)], PermissionRequest::from_row)?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    /// Returns grants, newest first; those of one requester, or all.
    pub async fn list_grants(
        &self,
        requester: Option<&str>,
        limit: u32,
    ) -> Result<Vec<GrantRow>, StoreError> {
        let requester = requester.map(str::to_owned);
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT * FROM grants WHERE ?1 IS NULL OR principal_query ->> '$.requester' = ?1
                     ORDER BY created_at DESC, id DESC LIMIT ?2",
                )?;
                let rows =
                    statement.query_map(params![requester, limit.min(LISTING_LIMIT)], GrantRow::from_row)?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    /// Takes a grant back; false when there is none of that id that still stood.
    pub async fn revoke_grant(&self, id: &str, actor: &str) -> Result<bool, StoreError> {
        let (id, actor) = (id.to_owned(), actor.to_owned());
        self.database
            .write(Sync::Full, move |connection| {
                let now = Timestamp::now();
                let changed = connection
                    .prepare_cached("UPDATE grants SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL")?
                    .execute(params![id, now.as_millis()])?;
                if changed == 1 {
                    log(connection, &id, GrantActivity::Revoked, &actor, now)?;
                }
                Ok(changed == 1)
            })
            .await
    }

    /// Notes that something was allowed because of a grant; not awaited.
    pub fn grant_used_later(&self, id: String, actor: String) {
        self.database.write_later(move |connection| {
            log(connection, &id, GrantActivity::Used, &actor, Timestamp::now())
        });
    }

    /// Returns what happened to a grant, oldest first.
    pub async fn grant_activity(&self, id: &str) -> Result<Vec<GrantActivity>, StoreError> {
        let id = id.to_owned();
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT activity FROM grant_log WHERE grant_id = ?1 ORDER BY timestamp, id",
                )?;
                let rows = statement.query_map([id], |row| row.get(0))?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }
}

fn one(connection: &Connection, id: &str) -> Result<Option<PermissionRequest>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT * FROM permission_requests WHERE id = ?1")?;
    Ok(statement.query_row([id], PermissionRequest::from_row).optional()?)
}

fn insert(connection: &Connection, request: &NewPermissionRequest) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO permission_requests (id, requester_id, requester_platform, kind, tool_name, tool_call_id,
                session_key, nexus_request_id, summary, resources, reason, created_at, expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?
        .execute(params![
            request.id,
            request.requester,
            request.platform,
            request.kind,
            request.tool,
            request.tool_call_id.as_ref().map(ToolCallId::as_str),
            request.session.as_ref().map(SessionLabel::as_str),
            request.request_id.as_ref().map(RequestId::as_str),
            request.summary,
            json!(request.resources).to_string(),
            request.reason,
            request.created_at.as_millis(),
            request.expires_at.as_millis(),
        ])?;
    Ok(())
}

fn insert_grant(connection: &Connection, grant: &NewGrant) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO grants (id, principal_query, resources, created_at, expires_at, granted_by, reason)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            grant.id,
            json!({ "requester": grant.requester }).to_string(),
            json!(grant.resources).to_string(),
            grant.created_at.as_millis(),
            grant.expires_at.map(Timestamp::as_millis),
            grant.granted_by,
            grant.reason,
        ])?;
    log(connection, &grant.id, GrantActivity::Created, &grant.granted_by, grant.created_at)
}

fn log(
    connection: &Connection,
    grant: &str,
    activity: GrantActivity,
    actor: &str,
    at: Timestamp,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO grant_log (id, timestamp, grant_id, activity, actor) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![new_ulid(), at.as_millis(), grant, activity, actor])?;
    Ok(())
}

impl PermissionRequest {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let text = |name: &str| row.get::<_, Option<String>>(name);
        Ok(Self {
            new: NewPermissionRequest {
                id: row.get("id")?,
                requester: text("requester_id")?.unwrap_or_default(),
                platform: text("requester_platform")?.unwrap_or_default(),
                kind: text("kind")?.unwrap_or_default(),
                tool: text("tool_name")?,
                tool_call_id: text("tool_call_id")?.map(ToolCallId::new),
                session: text("session_key")?.map(SessionLabel::new),
                request_id: text("nexus_request_id")?.map(RequestId::new),
                summary: text("summary")?.unwrap_or_default(),
                resources: texts(json(row, "resources")?),
                reason: text("reason")?,
                created_at: moment(row, "created_at")?,
                expires_at: moment(row, "expires_at")?,
            },
            status: row.get("status")?,
            responder: text("responder")?,
            responded_at: moment_or_none(row, "response_at")?,
            grant_id: text("grant_id")?,
        })
    }
}

impl GrantRow {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let query: Option<Value> = json(row, "principal_query")?;
        let requester = query.as_ref().and_then(|query| query["requester"].as_str()).unwrap_or_default();
        Ok(Self {
            new: NewGrant {
                id: row.get("id")?,
                requester: requester.to_owned(),
                resources: texts(json(row, "resources")?),
                created_at: moment(row, "created_at")?,
                expires_at: moment_or_none(row, "expires_at")?,
                granted_by: row.get("granted_by")?,
                reason: row.get("reason")?,
            },
            revoked_at: moment_or_none(row, "revoked_at")?,
        })
    }
}
