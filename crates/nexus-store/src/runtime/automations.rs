//! `automations`: code registered for hook points, shipped or the owner's own.

use nexus_base::clock::Timestamp;
use nexus_base::id::new_ulid;
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};
use serde_json::Value;

use super::{LISTING_LIMIT, Runtime};
use crate::error::StoreError;
use crate::words::{count, count_or_none, json, json_text, moment, moment_or_none, stored_count, words};
use crate::writer::Sync;

words! {
    /// How often an automation may run.
    AutomationMode {
        /// Whenever its hook point is reached.
        Persistent = "persistent",
        /// Once.
        OneShot = "one-shot",
    }
}

words! {
    /// Whether an automation runs.
    AutomationStatus {
        /// It runs.
        Active = "active",
        /// Put off by the owner.
        Paused = "paused",
        /// Switched off.
        Disabled = "disabled",
        /// Switched off because it kept failing.
        Errored = "errored",
    }
}

words! {
    /// State of an automation's circuit breaker.
    CircuitState {
        /// Runs as usual.
        Closed = "closed",
        /// Skipped after repeated errors.
        Open = "open",
        /// One trial is allowed.
        HalfOpen = "half-open",
    }
}

/// An automation to be registered.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAutomation {
    /// Unique name.
    pub name: String,
    /// What it does, for people.
    pub description: String,
    /// How often it may run.
    pub mode: AutomationMode,
    /// `builtin:…` or a path.
    pub script_path: String,
    /// Hash of the script, for those that are files.
    pub script_hash: Option<String>,
    /// When to run, beyond the hook point.
    pub triggers: Option<Value>,
    /// Its own settings.
    pub config: Option<Value>,
    /// Where it runs.
    pub hook_point: String,
    /// Folder of its own, relative to the workspace.
    pub workspace_dir: Option<String>,
    /// Automations whose folders it may use.
    pub peer_workspaces: Option<Value>,
    /// Whether it reflects on what it did.
    pub self_improvement: bool,
    /// Longest it may take.
    pub timeout_ms: Option<u64>,
    /// Whether the turn waits for it.
    pub blocking: bool,
    /// Whether it came with Nexus.
    pub bundled: bool,
    /// Version of the shipped definition.
    pub seed_version: Option<u32>,
}

/// A registered automation.
#[derive(Debug, Clone, PartialEq)]
pub struct Automation {
    pub id: String,
    /// As it was registered.
    pub definition: NewAutomation,
    /// Whether it runs.
    pub status: AutomationStatus,
    /// Why it was switched off.
    pub disabled_reason: Option<String>,
    /// When it was registered.
    pub created_at: Timestamp,
    /// When its row last changed.
    pub updated_at: Timestamp,
    /// When it last ran.
    pub last_triggered: Option<Timestamp>,
    /// How often it ran.
    pub trigger_count: u64,
    /// Why it last failed.
    pub last_error: Option<String>,
    /// Failures in a row.
    pub consecutive_errors: u64,
    /// Its circuit breaker.
    pub circuit_state: CircuitState,
    /// When the breaker opened.
    pub circuit_opened_at: Option<Timestamp>,
}

impl Runtime {
    /// Registers an automation unless one of that name exists, whatever its state: a person who
    /// switched a shipped one off keeps that choice. Returns whether a row was made.
    pub async fn seed_automation(&self, automation: NewAutomation) -> Result<bool, StoreError> {
        self.database.write(Sync::Normal, move |connection| seed(connection, &automation)).await
    }

    /// Returns all automations by name.
    pub async fn list_automations(&self) -> Result<Vec<Automation>, StoreError> {
        self.database.read(list).await
    }

    /// Like [`Runtime::list_automations`], for callers outside an async runtime.
    pub fn list_automations_blocking(&self) -> Result<Vec<Automation>, StoreError> {
        self.database.read_blocking(list)
    }

    pub async fn automation(&self, name: &str) -> Result<Option<Automation>, StoreError> {
        let name = name.to_owned();
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached("SELECT * FROM automations WHERE name = ?1")?;
                Ok(statement.query_row([name], Automation::from_row).optional()?)
            })
            .await
    }

    /// Switches an automation on or off; returns false when there is none of that name.
    pub async fn set_automation_status(
        &self,
        name: &str,
        status: AutomationStatus,
        reason: Option<&str>,
    ) -> Result<bool, StoreError> {
        let (name, reason) = (name.to_owned(), reason.map(ToOwned::to_owned));
        self.database
            .write(Sync::Normal, move |connection| set_status(connection, &name, status, reason.as_deref()))
            .await
    }

    /// Like [`Runtime::set_automation_status`], for callers outside an async runtime.
    pub fn set_automation_status_blocking(
        &self,
        name: &str,
        status: AutomationStatus,
        reason: Option<&str>,
    ) -> Result<bool, StoreError> {
        let (name, reason) = (name.to_owned(), reason.map(ToOwned::to_owned));
        self.database.write_blocking(Sync::Normal, move |connection| {
            set_status(connection, &name, status, reason.as_deref())
        })
    }
}

fn set_status(
    connection: &Connection,
    name: &str,
    status: AutomationStatus,
    reason: Option<&str>,
) -> Result<bool, StoreError> {
    let now = Timestamp::now().as_millis();
    let off = status != AutomationStatus::Active;
    let changed = connection
        .prepare_cached(
            "UPDATE automations SET status = ?2, updated_at = ?3, disabled_at = ?4, disabled_reason = ?5,
                consecutive_errors = iif(?4 IS NULL, 0, consecutive_errors),
                circuit_state = iif(?4 IS NULL, 'closed', circuit_state)
             WHERE name = ?1",
        )?
        .execute(params![name, status, now, off.then_some(now), reason.filter(|_| off)])?;
    Ok(changed == 1)
}

fn seed(connection: &Connection, automation: &NewAutomation) -> Result<bool, StoreError> {
    let inserted = connection
        .prepare_cached(
            "INSERT INTO automations (id, name, description, mode, script_path, script_hash, triggers_json,
                config_json, created_at, updated_at, hook_point, workspace_dir, peer_workspaces,
                self_improvement, timeout_ms, blocking, bundled, seed_version)
             VALUES (:id, :name, :description, :mode, :script_path, :script_hash, :triggers, :config, :now, :now,
                :hook_point, :workspace_dir, :peers, :self_improvement, :timeout_ms, :blocking, :bundled,
                :seed_version)
             ON CONFLICT (name) DO NOTHING",
        )?
        .execute(named_params! {
            ":id": new_ulid(),
            ":name": automation.name,
            ":description": automation.description,
            ":mode": automation.mode,
            ":script_path": automation.script_path,
            ":script_hash": automation.script_hash,
            ":triggers": json_text(automation.triggers.as_ref()),
            ":config": json_text(automation.config.as_ref()),
            ":now": Timestamp::now().as_millis(),
            ":hook_point": automation.hook_point,
            ":workspace_dir": automation.workspace_dir,
            ":peers": json_text(automation.peer_workspaces.as_ref()),
            ":self_improvement": automation.self_improvement,
            ":timeout_ms": automation.timeout_ms.map(stored_count),
            ":blocking": automation.blocking,
            ":bundled": automation.bundled,
            ":seed_version": automation.seed_version,
        })?;
    Ok(inserted == 1)
}

fn list(connection: &Connection) -> Result<Vec<Automation>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT * FROM automations ORDER BY name LIMIT ?1")?;
    let rows = statement.query_map([LISTING_LIMIT], Automation::from_row)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

impl Automation {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get("id")?,
            definition: NewAutomation {
                name: row.get("name")?,
                description: row.get::<_, Option<String>>("description")?.unwrap_or_default(),
                mode: row.get("mode")?,
                script_path: row.get::<_, Option<String>>("script_path")?.unwrap_or_default(),
                script_hash: row.get("script_hash")?,
                triggers: json(row, "triggers_json")?,
                config: json(row, "config_json")?,
                hook_point: row.get::<_, Option<String>>("hook_point")?.unwrap_or_default(),
                workspace_dir: row.get("workspace_dir")?,
                peer_workspaces: json(row, "peer_workspaces")?,
                self_improvement: row.get("self_improvement")?,
                timeout_ms: count_or_none(row, "timeout_ms")?,
                blocking: row.get("blocking")?,
                bundled: row.get("bundled")?,
                seed_version: row.get("seed_version")?,
            },
            status: row.get("status")?,
            disabled_reason: row.get("disabled_reason")?,
            created_at: moment(row, "created_at")?,
            updated_at: moment(row, "updated_at")?,
            last_triggered: moment_or_none(row, "last_triggered")?,
            trigger_count: count(row, "trigger_count")?,
            last_error: row.get("last_error")?,
            consecutive_errors: count(row, "consecutive_errors")?,
            circuit_state: row.get("circuit_state")?,
            circuit_opened_at: moment_or_none(row, "circuit_opened_at")?,
        })
    }
}
