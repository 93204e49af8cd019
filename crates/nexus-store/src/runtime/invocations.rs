//! `hook_invocations`: one row per run of an automation, made when it starts so that a crash leaves
//! a trace, and completed when it ends together with the automation's own counters.

use nexus_base::clock::Timestamp;
use nexus_base::id::{EventId, RequestId, SessionLabel};
use rusqlite::{Connection, Row, named_params, params};
use serde_json::Value;

use super::{LISTING_LIMIT, Runtime};
use crate::error::StoreError;
use crate::words::{count_or_none, json, json_text, moment, moment_or_none, stored_count, words};
use crate::writer::Sync;

/// Rows looked at in one go while old ones are removed, so that nothing else waits long.
const PRUNED_AT_ONCE: i64 = 1_000;

words! {
    /// How a run ended.
    InvocationOutcome {
        /// As it should.
        Ok = "ok",
        Error = "error",
        /// Not in time.
        Timeout = "timeout",
        /// Not at all, because it failed too often before.
        SkippedCircuit = "skipped_circuit",
    }
}

/// A run that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewInvocation {
    /// Id of the run.
    pub id: String,
    pub automation_id: String,
    pub automation_name: String,
    /// Where it runs.
    pub hook_point: String,
    /// Request it runs in.
    pub request_id: Option<RequestId>,
    /// Event it looks at.
    pub event_id: Option<EventId>,
    /// Session it runs beside.
    pub session_label: Option<SessionLabel>,
    /// When it began.
    pub started_at: Timestamp,
}

/// How a run ended, with what it cost.
#[derive(Debug, Clone, PartialEq)]
pub struct InvocationEnd {
    pub outcome: InvocationOutcome,
    /// Whether it did something.
    pub fired: bool,
    /// What it returned.
    pub result: Option<Value>,
    /// Why it failed.
    pub error: Option<String>,
    /// Model calls it made.
    pub llm_calls: u64,
    /// Tokens it sent.
    pub llm_tokens_in: u64,
    /// Tokens it got.
    pub llm_tokens_out: u64,
    /// Searches it made.
    pub search_calls: u64,
}

/// A run of an automation.
#[derive(Debug, Clone, PartialEq)]
pub struct Invocation {
    /// As it began.
    pub start: NewInvocation,
    /// When it ended; none while it runs or when the daemon was killed.
    pub finished_at: Option<Timestamp>,
    /// Milliseconds it took.
    pub latency_ms: Option<u64>,
    /// How it ended.
    pub outcome: Option<InvocationOutcome>,
    /// Whether it did something.
    pub fired: bool,
    /// What it returned.
    pub result: Option<Value>,
    /// Why it failed.
    pub error: Option<String>,
}

impl Runtime {
    /// Records that a run begins; not awaited.
    pub fn invocation_started_later(&self, invocation: NewInvocation) {
        self.database.write_later(move |connection| started(connection, &invocation).map(drop));
    }

    /// Records that a run begins under an id that is fixed by what led to it; returns false when it
    /// was recorded before, by this life of the daemon or an earlier one.
    pub async fn invocation_started_once(&self, invocation: NewInvocation) -> Result<bool, StoreError> {
        self.database.write(Sync::Normal, move |connection| started(connection, &invocation)).await
    }

    /// Closes runs that an earlier life of the daemon left open; returns how many. Nothing of it counts
    /// against their automations: it was not them who ended.
    pub async fn close_left_over_invocations(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.database
            .write(Sync::Normal, move |connection| {
                let closed = connection
                    .prepare_cached(
                        "UPDATE hook_invocations SET finished_at = ?1, outcome = 'error',
                            error = 'the daemon ended while it ran'
                         WHERE finished_at IS NULL AND started_at < ?1",
                    )?
                    .execute([before.as_millis()])?;
                Ok(closed)
            })
            .await
    }

    /// Removes ended runs that began before a moment, and the oldest beyond `most`; looks at a bounded
    /// number of rows, so it is called until it returns 0.
    pub async fn prune_invocations(&self, before: Timestamp, most: u64) -> Result<usize, StoreError> {
        self.database
            .write(Sync::Normal, move |connection| {
                let total: i64 = connection
                    .prepare_cached("SELECT count(*) FROM hook_invocations")?
                    .query_row([], |row| row.get(0))?;
                let excess = total.saturating_sub(i64::try_from(most).unwrap_or(i64::MAX)).max(0);
                let removed = connection
                    .prepare_cached(
                        "DELETE FROM hook_invocations WHERE rowid IN (
                            SELECT rowid FROM (
                                SELECT rowid, started_at, row_number() OVER (ORDER BY rowid) AS place
                                FROM (SELECT rowid, started_at FROM hook_invocations
                                      WHERE finished_at IS NOT NULL ORDER BY rowid LIMIT ?3))
                            WHERE started_at < ?1 OR place <= ?2)",
                    )?
                    .execute(params![before.as_millis(), excess, PRUNED_AT_ONCE])?;
                Ok(removed)
            })
            .await
    }

    /// Records how a run ended and counts it on its automation; not awaited.
    pub fn invocation_finished_later(&self, id: String, end: InvocationEnd) {
        self.database.write_later(move |connection| finished(connection, &id, &end));
    }

    /// Returns the latest runs, of one automation or of all, newest first.
    pub async fn list_invocations(
        &self,
        automation: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Invocation>, StoreError> {
        let automation = automation.map(ToOwned::to_owned);
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT * FROM hook_invocations WHERE ?1 IS NULL OR automation_name = ?1
                     ORDER BY started_at DESC, id DESC LIMIT ?2",
                )?;
                let rows = statement
                    .query_map(params![automation, limit.min(LISTING_LIMIT)], Invocation::from_row)?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }
}

fn started(connection: &Connection, invocation: &NewInvocation) -> Result<bool, StoreError> {
    let inserted = connection
        .prepare_cached(
            "INSERT INTO hook_invocations (id, hook_id, automation_name, hook_point, request_id, event_id,
                session_label, started_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            invocation.id,
            invocation.automation_id,
            invocation.automation_name,
            invocation.hook_point,
            invocation.request_id.as_ref().map(RequestId::as_str),
            invocation.event_id.as_ref().map(EventId::as_str),
            invocation.session_label.as_ref().map(SessionLabel::as_str),
            invocation.started_at.as_millis(),
        ])?;
    Ok(inserted == 1)
}

fn finished(connection: &Connection, id: &str, end: &InvocationEnd) -> Result<(), StoreError> {
    let now = Timestamp::now().as_millis();
    let changed = connection
        .prepare_cached(
            "UPDATE hook_invocations SET finished_at = :now, latency_ms = max(0, :now - started_at),
                fired = :fired, outcome = :outcome, result_json = :result, error = :error,
                llm_calls = :calls, llm_tokens_in = :tokens_in, llm_tokens_out = :tokens_out,
                search_calls = :searches
             WHERE id = :id AND finished_at IS NULL",
        )?
        .execute(named_params! {
            ":id": id,
            ":now": now,
            ":fired": end.fired,
            ":outcome": end.outcome,
            ":result": json_text(end.result.as_ref()),
            ":error": end.error,
            ":calls": stored_count(end.llm_calls),
            ":tokens_in": stored_count(end.llm_tokens_in),
            ":tokens_out": stored_count(end.llm_tokens_out),
            ":searches": stored_count(end.search_calls),
        })?;
    if changed == 0 {
        return Ok(());
    }
    count_on_automation(connection, id, now, end)
}

fn count_on_automation(
    connection: &Connection,
    id: &str,
    now: i64,
    end: &InvocationEnd,
) -> Result<(), StoreError> {
    match end.outcome {
        InvocationOutcome::SkippedCircuit => {}
        InvocationOutcome::Ok => {
            connection
                .prepare_cached(
                    "UPDATE automations SET last_triggered = ?2, trigger_count = trigger_count + 1,
                        consecutive_errors = 0, circuit_state = 'closed', circuit_opened_at = NULL
                     WHERE id = (SELECT hook_id FROM hook_invocations WHERE id = ?1)",
                )?
                .execute(params![id, now])?;
        }
        InvocationOutcome::Error | InvocationOutcome::Timeout => {
            connection
                .prepare_cached(
                    "UPDATE automations SET last_triggered = ?2, trigger_count = trigger_count + 1,
                        consecutive_errors = consecutive_errors + 1, last_error = ?3
                     WHERE id = (SELECT hook_id FROM hook_invocations WHERE id = ?1)",
                )?
                .execute(params![id, now, end.error.as_deref().unwrap_or(end.outcome.as_str())])?;
        }
    }
    Ok(())
}

impl Invocation {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            start: NewInvocation {
                id: row.get("id")?,
                automation_id: row.get("hook_id")?,
                automation_name: row.get("automation_name")?,
                hook_point: row.get("hook_point")?,
                request_id: row.get::<_, Option<String>>("request_id")?.map(RequestId::new),
                event_id: row.get::<_, Option<String>>("event_id")?.map(EventId::new),
                session_label: row.get::<_, Option<String>>("session_label")?.map(SessionLabel::new),
                started_at: moment(row, "started_at")?,
            },
            finished_at: moment_or_none(row, "finished_at")?,
            latency_ms: count_or_none(row, "latency_ms")?,
            outcome: row.get("outcome")?,
            fired: row.get("fired")?,
            result: json(row, "result_json")?,
            error: row.get("error")?,
        })
    }
}
