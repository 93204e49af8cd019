//! `nexus_requests`: one row tells the story of one request, stage by stage.

mod row;

use nexus_base::clock::Timestamp;
use nexus_base::id::{EntityId, RequestId, SessionLabel, TurnId};
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

pub use self::row::{NewRequest, Request, RequestStatus, RequestUpdate, StageTiming};
use super::{LISTING_LIMIT, Runtime};
use crate::error::StoreError;
use crate::words::{json_text, stored_count};
use crate::writer::Sync;

impl Runtime {
    /// Opens a request's row unless it is there already; not awaited.
    pub fn request_started_later(&self, request: NewRequest) {
        self.database.write_later(move |connection| started(connection, &request).map(drop));
    }

    /// Opens a request's row; returns false when it was there already.
    pub async fn request_started(&self, request: NewRequest) -> Result<bool, StoreError> {
        self.database.write(Sync::Normal, move |connection| started(connection, &request)).await
    }

    /// Adds what a stage found; not awaited.
    pub fn request_stage_later(&self, id: RequestId, update: RequestUpdate) {
        self.database.write_later(move |connection| updated(connection, &id, &update).map(drop));
    }

    /// Ends a request with `status`; not awaited.
    pub fn request_finished_later(&self, id: RequestId, status: RequestStatus, update: RequestUpdate) {
        self.database.write_later(move |connection| finished(connection, &id, status, update).map(drop));
    }

    /// Ends a request with `status`; returns false when there is no such request.
    pub async fn request_finished(
        &self,
        id: RequestId,
        status: RequestStatus,
        update: RequestUpdate,
    ) -> Result<bool, StoreError> {
        self.database.write(Sync::Normal, move |connection| finished(connection, &id, status, update)).await
    }

    /// Ends a request with `status`, opening its row first if it is missing.
    pub async fn request_ended(
        &self,
        request: NewRequest,
        status: RequestStatus,
        update: RequestUpdate,
    ) -> Result<(), StoreError> {
        tracing::trace!("S8: the trace is closed");
        self.database
            .write(Sync::Normal, move |connection| {
                started(connection, &request)?;
                finished(connection, &request.id, status, update).map(drop)
            })
            .await
    }

    pub async fn request(&self, id: RequestId) -> Result<Option<Request>, StoreError> {
        self.database
            .look(move |connection| {
                let mut statement =
                    connection.prepare_cached("SELECT * FROM nexus_requests WHERE id = ?1")?;
                Ok(statement.query_row([id.as_str()], Request::from_row).optional()?)
            })
            .await
    }

    /// Returns a request and everything it led to, oldest first.
    pub async fn request_tree(&self, root: RequestId) -> Result<Vec<Request>, StoreError> {
        self.listing(
            "SELECT * FROM nexus_requests WHERE root_request_id = ?1 ORDER BY rowid LIMIT ?2",
            Some(root),
            LISTING_LIMIT,
        )
        .await
    }

    /// Returns the newest requests, newest first.
    pub async fn recent_requests(&self, limit: u32) -> Result<Vec<Request>, StoreError> {
        let sql = "SELECT * FROM nexus_requests ORDER BY rowid DESC LIMIT ?1";
        self.listing(sql, None, limit.min(LISTING_LIMIT)).await
    }

    /// Returns requests whose trace has no end, oldest first.
    pub async fn unfinished_requests(&self) -> Result<Vec<Request>, StoreError> {
        let sql = "SELECT * FROM nexus_requests WHERE status = 'processing' ORDER BY rowid LIMIT ?1";
        self.listing(sql, None, LISTING_LIMIT).await
    }

    /// Returns those of the given requests that have no row.
    pub async fn unknown_requests(&self, requests: Vec<RequestId>) -> Result<Vec<RequestId>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement =
                    connection.prepare_cached("SELECT 1 FROM nexus_requests WHERE id = ?1")?;
                let mut unknown = Vec::new();
                for request in requests {
                    if !statement.exists([request.as_str()])? {
                        unknown.push(request);
                    }
                }
                Ok(unknown)
            })
            .await
    }

    async fn listing(
        &self,
        sql: &'static str,
        root: Option<RequestId>,
        limit: u32,
    ) -> Result<Vec<Request>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(sql)?;
                let read = |row: &Row<'_>| Request::from_row(row);
                let rows = match root {
                    Some(root) => statement.query_map(params![root.as_str(), limit], read)?,
                    None => statement.query_map([limit], read)?,
                };
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }
}

fn started(connection: &Connection, request: &NewRequest) -> Result<bool, StoreError> {
    let inserted = connection
        .prepare_cached(
            "INSERT INTO nexus_requests (id, parent_request_id, root_request_id, event_id, event_type,
                event_source, stage, status, session_key, started_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'processing', ?8, ?9) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            request.id.as_str(),
            request.parent_request_id.as_ref().map(RequestId::as_str),
            request.root_request_id.as_str(),
            request.event_id.as_str(),
            request.event_type,
            request.event_source,
            request.stage,
            request.session_key.as_ref().map(SessionLabel::as_str),
            request.started_at.as_millis(),
        ])?;
    Ok(inserted == 1)
}

fn finished(
    connection: &Connection,
    id: &RequestId,
    status: RequestStatus,
    mut update: RequestUpdate,
) -> Result<bool, StoreError> {
    // Ending twice keeps the first end, unless the first one was only an interruption.
    connection
        .prepare_cached(
            "UPDATE nexus_requests SET completed_at =
                CASE WHEN status IN ('processing', 'interrupted') THEN ?2 ELSE coalesce(completed_at, ?2) END
             WHERE id = ?1",
        )?
        .execute(params![id.as_str(), Timestamp::now().as_millis()])?;
    update.status = Some(status);
    updated(connection, id, &update)
}

fn updated(connection: &Connection, id: &RequestId, update: &RequestUpdate) -> Result<bool, StoreError> {
    let changed = connection
        .prepare_cached(
            "UPDATE nexus_requests SET
                stage = coalesce(:stage, stage),
                status = coalesce(:status, status),
                stage_timings = iif(:timing IS NULL, stage_timings,
                    json_insert(stage_timings, '$[#]', json(:timing))),
                principal_id = coalesce(:principal_id, principal_id),
                principal_type = coalesce(:principal_type, principal_type),
                principal_is_user = coalesce(:principal_is_user, principal_is_user),
                access_decision = coalesce(:access_decision, access_decision),
                access_policy = coalesce(:access_policy, access_policy),
                session_key = coalesce(:session_key, session_key),
                session_persona = coalesce(:session_persona, session_persona),
                permissions = coalesce(:permissions, permissions),
                hooks_matched = coalesce(:hooks_matched, hooks_matched),
                hooks_fired = coalesce(:hooks_fired, hooks_fired),
                hooks_handled = coalesce(:hooks_handled, hooks_handled),
                hooks_context = coalesce(:hooks_context, hooks_context),
                turn_id = coalesce(:turn_id, turn_id),
                agent_model = coalesce(:agent_model, agent_model),
                agent_tokens_prompt = coalesce(:tokens_prompt, agent_tokens_prompt),
                agent_tokens_completion = coalesce(:tokens_completion, agent_tokens_completion),
                agent_tokens_total = coalesce(:tokens_total, agent_tokens_total),
                agent_tool_calls = coalesce(:tool_calls, agent_tool_calls),
                delivery_channel = coalesce(:delivery_channel, delivery_channel),
                delivery_message_ids = coalesce(:delivery_message_ids, delivery_message_ids),
                delivery_success = coalesce(:delivery_success, delivery_success),
                delivery_error = coalesce(:delivery_error, delivery_error),
                error_stage = coalesce(:error_stage, error_stage),
                error_message = coalesce(:error_message, error_message),
                error_stack = coalesce(:error_stack, error_stack),
                request_snapshot = coalesce(:snapshot, request_snapshot)
             WHERE id = :id",
        )?
        .execute(named_params! {
            ":id": id.as_str(),
            ":stage": update.stage,
            ":status": update.status,
            ":timing": update.timing.as_ref().map(StageTiming::to_json),
            ":principal_id": update.principal_id.as_ref().map(EntityId::as_str),
            ":principal_type": update.principal_type,
            ":principal_is_user": update.principal_is_user,
            ":access_decision": update.access_decision,
            ":access_policy": update.access_policy,
            ":session_key": update.session_key.as_ref().map(SessionLabel::as_str),
            ":session_persona": update.session_persona,
            ":permissions": json_text(update.permissions.as_ref()),
            ":hooks_matched": json_text(update.hooks_matched.as_ref()),
            ":hooks_fired": json_text(update.hooks_fired.as_ref()),
            ":hooks_handled": update.hooks_handled,
            ":hooks_context": json_text(update.hooks_context.as_ref()),
            ":turn_id": update.turn_id.as_ref().map(TurnId::as_str),
            ":agent_model": update.agent_model,
            ":tokens_prompt": update.tokens_prompt.map(stored_count),
            ":tokens_completion": update.tokens_completion.map(stored_count),
            ":tokens_total": update.tokens_total.map(stored_count),
            ":tool_calls": json_text(update.tool_calls.as_ref()),
            ":delivery_channel": update.delivery_channel,
            ":delivery_message_ids": json_text(update.delivery_message_ids.as_ref()),
            ":delivery_success": update.delivery_success,
            ":delivery_error": update.delivery_error,
            ":error_stage": update.error_stage,
            ":error_message": update.error_message,
            ":error_stack": update.error_stack,
            ":snapshot": json_text(update.snapshot.as_ref()),
        })?;
    Ok(changed == 1)
}
