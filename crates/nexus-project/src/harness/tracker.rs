//! `agent-tracker.json`: one entry for each instance a harness started in this session.

use std::path::{Path, PathBuf};

use nexus_base::clock::Timestamp;
use nexus_base::file::Durability;
use serde_json::{Value, json};

use super::{HarnessId, is_name};
use crate::{Project, ProjectError, document};

/// What an instance left when it ended.
#[derive(Debug, Clone, Default)]
pub struct Completion {
    /// The last it said.
    pub last_message: Option<String>,
    /// Files it changed.
    pub files_touched: Vec<String>,
}

/// Records that an instance starts.
///
/// # Errors
/// The name is no role's, or the file is damaged or cannot be written.
pub fn spawned(
    project: &Project,
    harness: &HarnessId,
    agent_name: &str,
    agent_id: &str,
) -> Result<(), ProjectError> {
    if !is_name(agent_name) {
        return Err(ProjectError::Parameter(format!("{agent_name:?} is not a role name")));
    }
    change(project, harness, |entries| {
        entries.push(json!({
            "harness_id": harness.as_str(), "agent_name": agent_name, "agent_id": agent_id,
            "started_at": Timestamp::now().to_string(), "resume_count": 0, "status": "running",
        }));
        Ok(())
    })
}

/// Records that an instance ended.
///
/// # Errors
/// No such instance was started, or the file is damaged or cannot be written.
pub fn completed(
    project: &Project,
    harness: &HarnessId,
    agent_id: &str,
    completion: &Completion,
) -> Result<(), ProjectError> {
    change(project, harness, |entries| {
        let entry = latest(entries, agent_id)?;
        entry["status"] = Value::from("completed");
        entry["stopped_at"] = Value::from(Timestamp::now().to_string());
        if let Some(message) = &completion.last_message {
            entry["last_message"] = Value::from(message.as_str());
        }
        // An instance that was resumed has touched what it touched before as well.
        let mut touched = entry["files_touched"].as_array().cloned().unwrap_or_default();
        for file in &completion.files_touched {
            if !touched.iter().any(|known| known == file) {
                touched.push(Value::from(file.as_str()));
            }
        }
        entry["files_touched"] = Value::Array(touched);
        Ok(())
    })
}

/// Records that an instance goes on.
///
/// # Errors
/// No such instance was started, or the file is damaged or cannot be written.
pub fn resumed(project: &Project, harness: &HarnessId, agent_id: &str) -> Result<(), ProjectError> {
    change(project, harness, |entries| {
        let entry = latest(entries, agent_id)?;
        let count = entry["resume_count"].as_u64().unwrap_or(0) + 1;
        entry["status"] = Value::from("running");
        entry["resume_count"] = Value::from(count);
        entry["last_resumed_at"] = Value::from(Timestamp::now().to_string());
        Ok(())
    })
}

/// Begins the tracker of a session: nothing of an earlier one is kept.
pub(crate) fn begin(project: &Project, harness: &HarnessId) -> Result<(), ProjectError> {
    let _lock = project.write_lock(&[])?;
    document::write(&path(project, harness), &Value::Array(Vec::new()), Durability::Crash)
}

/// Returns the instances of a harness, oldest first.
pub(crate) fn entries(project: &Project, harness: &HarnessId) -> Result<Vec<Value>, ProjectError> {
    read(&path(project, harness))
}

/// Returns whether this session of the harness started such an instance.
///
/// # Errors
/// The tracker is damaged.
pub fn is_tracked(project: &Project, harness: &HarnessId, agent_id: &str) -> Result<bool, ProjectError> {
    Ok(entries(project, harness)?.iter().any(|entry| entry["agent_id"] == agent_id))
}

/// Removes the tracker; everything that belongs to the project stays.
///
/// # Errors
/// The file cannot be removed.
pub fn session_ended(project: &Project, harness: &HarnessId) -> Result<(), ProjectError> {
    project.check()?;
    document::remove(&path(project, harness)).map(drop)
}

fn path(project: &Project, harness: &HarnessId) -> PathBuf {
    project.namespace(harness).join("agent-tracker.json")
}

fn latest<'entries>(
    entries: &'entries mut [Value],
    agent_id: &str,
) -> Result<&'entries mut Value, ProjectError> {
    let mut newest_first = entries.iter_mut().rev().filter(|entry| entry.is_object());
    newest_first
        .find(|entry| entry["agent_id"] == agent_id)
        .ok_or_else(|| ProjectError::Refused(format!("Agent {agent_id} not found")))
}

fn change(
    project: &Project,
    harness: &HarnessId,
    change: impl FnOnce(&mut Vec<Value>) -> Result<(), ProjectError>,
) -> Result<(), ProjectError> {
    let path = path(project, harness);
    project.start(harness)?;
    let _lock = project.write_lock(&[])?;
    let mut entries = read(&path)?;
    change(&mut entries)?;
    document::write(&path, &Value::Array(entries), Durability::Crash)
}

fn read(path: &Path) -> Result<Vec<Value>, ProjectError> {
    match document::read_bytes(path)? {
        Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| document::damaged_by(path, &error)),
        None => Ok(Vec::new()),
    }
}
