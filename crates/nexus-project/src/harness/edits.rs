//! What happened in a session beside plan and tasks: `tool-log.jsonl`, who edited which file, and how often
//! something finished was opened again.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use nexus_base::clock::Timestamp;
use nexus_base::file::{self, Durability};
use nexus_base::text::shorten;
use serde_json::{Map, Value, json};

use super::HarnessId;
use crate::document::FILE_MODE;
use crate::{Project, ProjectError, document};

/// Most edits that are kept; the oldest go first.
const MAX_EDITS: usize = 2_000;
/// How much of an error is logged.
const MAX_ERROR_LEN: usize = 500;
/// A log that is larger than this, in bytes, is put aside when a session ends.
const MAX_LOG_LEN: u64 = 1024 * 1024;

/// How a call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Went {
    /// It did what was asked.
    Ok,
    /// It failed.
    Error,
    /// It was not allowed to run.
    Blocked,
}

impl Went {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Blocked => "blocked",
        }
    }
}

/// One line of the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) agent_id: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) file: Option<&'a str>,
    pub(crate) went: Went,
    pub(crate) error: Option<&'a str>,
}

/// Where tool calls are written down, as `tool-log.jsonl`. The contract's texts differ, so a person may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolLog {
    /// In one file for all harnesses.
    #[default]
    Shared,
    /// In a file for each harness, beside what else it keeps.
    Harness,
}

impl ToolLog {
    pub(crate) fn path(self, project: &Project, harness: &HarnessId) -> PathBuf {
        let folder = match self {
            Self::Shared => project.state(),
            Self::Harness => project.namespace(harness),
        };
        folder.join("tool-log.jsonl")
    }
}

/// Appends a line to the log at `path`.
pub(crate) fn log(project: &Project, path: &Path, line: &Line<'_>) -> Result<(), ProjectError> {
    project.check()?;
    let mut entry = json!({
        "ts": Timestamp::now().to_string(), "agent_id": line.agent_id, "tool": line.tool, "status": line.went.name(),
    });
    if let Some(file) = line.file {
        entry["file"] = Value::from(file);
    }
    if let Some(error) = line.error {
        entry["error"] = Value::from(shorten(error, MAX_ERROR_LEN));
    }
    // One write, appended: lines of several processes never mix.
    let mut log = file::open_append(path, FILE_MODE)?;
    log.write_all(format!("{entry}\n").as_bytes())
        .map_err(|error| ProjectError::file("appending to", path, error))
}

/// Notes that an instance edited files.
pub(crate) fn edited(
    project: &Project,
    harness: &HarnessId,
    agent_id: &str,
    files: &[String],
) -> Result<(), ProjectError> {
    change(project, harness, "edit-tracker.json", "edits", |edits| {
        for file in files {
            edits.retain(|edit| edit["path"] != *file || edit["agent_id"] != agent_id);
            edits.push(json!({ "path": file, "agent_id": agent_id, "ts": Timestamp::now().to_string() }));
        }
        let over = edits.len().saturating_sub(MAX_EDITS);
        edits.drain(..over);
    })
}

/// Returns the files an instance edited in this session.
pub(crate) fn edits_of(
    project: &Project,
    harness: &HarnessId,
    agent_id: &str,
) -> Result<Vec<String>, ProjectError> {
    let edits = list(project, harness, "edit-tracker.json", "edits")?;
    let own = edits.iter().filter(|edit| edit["agent_id"] == agent_id);
    Ok(own.filter_map(|edit| edit["path"].as_str()).map(str::to_owned).collect())
}

/// Counts that something finished was opened again, and returns how often that makes.
pub(crate) fn reopened(
    project: &Project,
    harness: &HarnessId,
    kind: &str,
    id: u64,
) -> Result<u64, ProjectError> {
    let mut count = 1;
    change(project, harness, "reopen-tracker.json", "reopens", |reopens| {
        count +=
            position(reopens, kind, id).map_or(0, |at| reopens.remove(at)["count"].as_u64().unwrap_or(0));
        reopens
            .push(json!({ "kind": kind, "id": id, "count": count, "last_ts": Timestamp::now().to_string() }));
    })?;
    Ok(count)
}

/// Returns how often something was opened again in this cycle.
pub(crate) fn reopens_of(
    project: &Project,
    harness: &HarnessId,
    kind: &str,
    id: u64,
) -> Result<u64, ProjectError> {
    let reopens = list(project, harness, "reopen-tracker.json", "reopens")?;
    Ok(position(&reopens, kind, id).and_then(|at| reopens[at]["count"].as_u64()).unwrap_or(0))
}

/// Removes what belonged to the cycle that ended: reopenings, and what the harness kept beside plan and tasks.
pub(crate) fn cycle_ended(project: &Project, harness: &HarnessId) -> Result<(), ProjectError> {
    for name in ["reopen-tracker.json", "plan.extension.json", "tasks.extension.json"] {
        document::remove(&place(project, harness, name))?;
    }
    Ok(())
}

/// Removes what belonged to a plan that another one took the place of: reopenings of its issues, and what the harness
/// kept beside it. What names the plan that is open now is kept.
pub(crate) fn plan_replaced(project: &Project, harness: &HarnessId) -> Result<(), ProjectError> {
    let plan = document::read_object(&project.plan())?.unwrap_or_default();
    let extension = place(project, harness, "plan.extension.json");
    // One that cannot be read names no plan.
    let named = document::read_object(&extension).ok().flatten().unwrap_or_default();
    let is_of_now = named.get("extension_for_plan_id").is_some_and(|id| plan.get("id") == Some(id));
    if !is_of_now {
        document::remove(&extension)?;
    }
    if list(project, harness, "reopen-tracker.json", "reopens")?.iter().any(|one| one["kind"] == "issue") {
        change(project, harness, "reopen-tracker.json", "reopens", |reopens| {
            reopens.retain(|one| one["kind"] != "issue");
        })?;
    }
    Ok(())
}

/// Removes what belonged to the session alone and puts a long log aside.
pub(crate) fn session_ended(project: &Project, harness: &HarnessId, log: &Path) -> Result<(), ProjectError> {
    for name in ["edit-tracker.json", "reopen-tracker.json", "session.json"] {
        document::remove(&place(project, harness, name))?;
    }
    let is_long =
        std::fs::symlink_metadata(log).is_ok_and(|found| found.is_file() && found.len() > MAX_LOG_LEN);
    if is_long {
        let aside = place(project, harness, "tool-log.previous.jsonl");
        file::rename(log, &aside)?;
    }
    Ok(())
}

fn place(project: &Project, harness: &HarnessId, name: &str) -> PathBuf {
    project.namespace(harness).join(name)
}

fn position(reopens: &[Value], kind: &str, id: u64) -> Option<usize> {
    reopens.iter().position(|one| one["kind"] == kind && one["id"] == id)
}

fn list(project: &Project, harness: &HarnessId, name: &str, key: &str) -> Result<Vec<Value>, ProjectError> {
    let found = document::read_object(&place(project, harness, name))?.unwrap_or_default();
    Ok(found.get(key).and_then(Value::as_array).cloned().unwrap_or_default())
}

fn change(
    project: &Project,
    harness: &HarnessId,
    name: &str,
    key: &str,
    change: impl FnOnce(&mut Vec<Value>),
) -> Result<(), ProjectError> {
    project.start(harness)?;
    let _lock = project.write_lock(&[])?;
    let mut entries = list(project, harness, name, key)?;
    change(&mut entries);
    let value = Value::Object(Map::from_iter([(key.to_owned(), Value::Array(entries))]));
    document::write(&place(project, harness, name), &value, Durability::Crash)
}
