//! Changes to `automations` after seeding: registered, brought up to date, removed, and the state of
//! their circuit breakers.

use nexus_base::clock::Timestamp;
use nexus_base::id::new_ulid;
use rusqlite::{Connection, named_params, params};

use super::{Automation, CircuitState, NewAutomation, Runtime};
use crate::error::StoreError;
use crate::words::{json_text, stored_count};
use crate::writer::Sync;

/// What came of registering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registered {
    New,
    /// It replaced an earlier definition of that name.
    Replaced,
    /// The name belongs to one that came with Nexus.
    NameTaken,
}

impl Runtime {
    /// Registers an automation, switched on, in place of an earlier one of the same name.
    pub async fn register_automation(&self, automation: NewAutomation) -> Result<Registered, StoreError> {
        self.database.write(Sync::Normal, move |connection| register(connection, &automation)).await
    }

    /// Brings a shipped definition up to date. Whether it runs, its settings and its history stay.
    pub async fn upgrade_automation(&self, automation: NewAutomation) -> Result<bool, StoreError> {
        self.database.write(Sync::Normal, move |connection| upgrade(connection, &automation)).await
    }

    /// Removes an automation that did not come with Nexus; returns false when there is none.
    pub async fn remove_automation(&self, name: &str) -> Result<bool, StoreError> {
        let name = name.to_owned();
        self.database
            .write(Sync::Normal, move |connection| {
                let removed = connection
                    .prepare_cached("DELETE FROM automations WHERE name = ?1 AND bundled = 0")?
                    .execute([name])?;
                Ok(removed == 1)
            })
            .await
    }

    /// Keeps the state of a circuit breaker; not awaited.
    pub fn set_circuit_later(&self, automation: &Automation, state: CircuitState, opened: Option<Timestamp>) {
        let id = automation.id.clone();
        self.database.write_later(move |connection| {
            connection
                .prepare_cached(
                    "UPDATE automations SET circuit_state = ?2, circuit_opened_at = ?3 WHERE id = ?1",
                )?
                .execute(params![id, state, opened.map(Timestamp::as_millis)])?;
            Ok(())
        });
    }
}

fn register(connection: &Connection, automation: &NewAutomation) -> Result<Registered, StoreError> {
    let before: Option<bool> = {
        let mut statement = connection.prepare_cached("SELECT bundled FROM automations WHERE name = ?1")?;
        let mut rows = statement.query([&automation.name])?;
        rows.next()?.map(|row| row.get(0)).transpose()?
    };
    if before == Some(true) {
        return Ok(Registered::NameTaken);
    }
    connection
        .prepare_cached(
            "INSERT INTO automations (id, name, description, mode, script_path, script_hash, triggers_json,
                config_json, created_at, updated_at, hook_point, workspace_dir, peer_workspaces,
                self_improvement, timeout_ms, blocking)
             VALUES (:id, :name, :description, :mode, :script_path, :script_hash, :triggers, :config, :now, :now,
                :hook_point, :workspace_dir, :peers, :self_improvement, :timeout_ms, :blocking)
             ON CONFLICT (name) DO UPDATE SET description = excluded.description, mode = excluded.mode,
                status = 'active', script_path = excluded.script_path, script_hash = excluded.script_hash,
                triggers_json = excluded.triggers_json, config_json = excluded.config_json,
                version = version + 1, updated_at = excluded.updated_at, disabled_at = NULL,
                disabled_reason = NULL, last_error = NULL, consecutive_errors = 0, circuit_state = 'closed',
                circuit_opened_at = NULL, hook_point = excluded.hook_point,
                workspace_dir = excluded.workspace_dir, peer_workspaces = excluded.peer_workspaces,
                self_improvement = excluded.self_improvement, timeout_ms = excluded.timeout_ms,
                blocking = excluded.blocking",
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
        })?;
    Ok(if before.is_some() { Registered::Replaced } else { Registered::New })
}

fn upgrade(connection: &Connection, automation: &NewAutomation) -> Result<bool, StoreError> {
    let changed = connection
        .prepare_cached(
            "UPDATE automations SET description = :description, mode = :mode, script_path = :script_path,
                hook_point = :hook_point, workspace_dir = :workspace_dir, peer_workspaces = :peers,
                self_improvement = :self_improvement, timeout_ms = :timeout_ms, blocking = :blocking,
                seed_version = :seed_version, version = version + 1, updated_at = :now
             WHERE name = :name AND bundled = 1 AND coalesce(seed_version, 0) < :seed_version",
        )?
        .execute(named_params! {
            ":name": automation.name,
            ":description": automation.description,
            ":mode": automation.mode,
            ":script_path": automation.script_path,
            ":now": Timestamp::now().as_millis(),
            ":hook_point": automation.hook_point,
            ":workspace_dir": automation.workspace_dir,
            ":peers": json_text(automation.peer_workspaces.as_ref()),
            ":self_improvement": automation.self_improvement,
            ":timeout_ms": automation.timeout_ms.map(stored_count),
            ":blocking": automation.blocking,
            ":seed_version": automation.seed_version,
        })?;
    Ok(changed == 1)
}
