//! Removing memory: how each file stands, and taking files away as one commit that names the way back.

use std::fs;
use std::path::PathBuf;

use nexus_base::clock::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use super::git::Repository;
use super::keep::names;
use crate::harness::{self, HarnessId};
use crate::tools::{Tool, call};
use crate::{Project, ProjectError, document};

/// Most cycles that are counted.
const MAX_CYCLES: u64 = 100_000;
/// Most files removed at once.
const MAX_FILES: usize = 200;
const DAY: u64 = 24 * 3600;

/// How one memory file stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// Its name below `.nexus/memory/`.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// How often its content was read, as far as anybody counted.
    pub reads: u64,
    pub last_read: Option<String>,
    /// Days since then.
    pub days: Option<u64>,
    /// Cycles finished since then.
    pub cycles: Option<u64>,
}

/// Three limits that together, and only together, make a file one that may go by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Not read for at least so many days.
    pub days: u64,
    /// Not read for at least so many finished cycles.
    pub cycles: u64,
    /// Read at most so often.
    pub reads: u64,
}

/// What was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// The files, relative to the project.
    pub files: Vec<PathBuf>,
    pub commit: String,
    /// What brings them back.
    pub recovery: String,
}

/// Tells how every memory file stands.
///
/// # Errors
/// A file cannot be read, or a record is damaged.
pub fn standings(project: &Project) -> Result<Vec<Standing>, ProjectError> {
    let records = harness::reads(project)?;
    let cycles = finished(project)?;
    let now = Timestamp::now();
    let folder = project.folder().join("memory");
    let mut all = Vec::new();
    for name in names(project, "memory")? {
        let path = folder.join(&name);
        let about =
            fs::symlink_metadata(&path).map_err(|error| ProjectError::file("inspecting", &path, error))?;
        let key = path.to_string_lossy();
        let own: Vec<&Value> = records.iter().filter(|record| record["path"] == *key).collect();
        let reads = own.iter().filter_map(|record| record["access_count"].as_u64()).sum();
        let last = own.iter().filter_map(|record| record["last_accessed_ts"].as_str()).max();
        all.push(Standing {
            bytes: about.len(),
            reads,
            last_read: last.map(str::to_owned),
            days: last.and_then(Timestamp::parse).map(|at| now.since(at).as_secs() / DAY),
            cycles: last.map(|last| cycles.iter().filter(|at| at.as_str() > last).count() as u64),
            name,
        });
    }
    Ok(all)
}

/// Returns the files that all three limits agree on. One that nobody was ever seen to read is not among them: without
/// a record there is no sign.
pub fn unused(standings: &[Standing], limits: Limits) -> Vec<String> {
    let agrees = |one: &&Standing| {
        one.days.is_some_and(|days| days >= limits.days)
            && one.cycles.is_some_and(|cycles| cycles >= limits.cycles)
            && one.reads <= limits.reads
    };
    standings.iter().filter(agrees).map(|one| one.name.clone()).collect()
}

/// Removes memory files: one commit of these paths only, then the files. Waits for git, so it belongs on a thread
/// that may.
///
/// # Errors
/// Outside git, for a file that is not there or has changes no commit holds, or when git refuses: nothing is removed.
pub fn remove(project: &Project, harness: &HarnessId, wanted: &[String]) -> Result<Removed, ProjectError> {
    let known = names(project, "memory")?;
    if wanted.is_empty() || wanted.len() > MAX_FILES {
        return Err(ProjectError::Parameter(format!("name 1 to {MAX_FILES} memory files")));
    }
    let mut files = Vec::new();
    for name in wanted {
        let name = name.strip_prefix(".nexus/memory/").unwrap_or(name);
        let name = if name.ends_with(".md") { name.to_owned() } else { format!("{name}.md") };
        if !known.contains(&name) {
            return Err(ProjectError::Parameter(format!(
                "there is no memory file {name}; there are {}",
                listed(&known)
            )));
        }
        let file = PathBuf::from(".nexus/memory").join(name);
        if !files.contains(&file) {
            files.push(file);
        }
    }
    // A fresh clone has no folder for what is made on the way.
    project.start(harness)?;
    let repository = Repository::open(project.root(), &project.state().join(HarnessId::OURS))?;
    for file in &files {
        if !repository.holds(file)? {
            return Err(ProjectError::Refused(format!(
                "{} has uncommitted changes, so it could not be restored; commit it first",
                file.display()
            )));
        }
    }
    let shown: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let recovery =
        |parent: &str| format!("git checkout {} -- {}", parent.get(..12).unwrap_or(parent), shown.join(" "));
    let commit = repository.commit_removal(&files, |parent| {
        let count = files.len();
        let noun = if count == 1 { "file" } else { "files" };
        format!(
            "memory: remove {count} {noun}\n\n{}\n\nBring back with:\n  {}\n",
            shown.join("\n"),
            recovery(parent)
        )
    })?;
    let gone: Vec<PathBuf> = files.iter().map(|file| project.root().join(file)).collect();
    for path in &gone {
        document::remove(path)?;
    }
    harness::forget(project, harness, &gone)?;
    Ok(Removed { recovery: recovery(&commit.parent), commit: commit.id, files })
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Returns when cycles were finished.
fn finished(project: &Project) -> Result<Vec<String>, ProjectError> {
    let parameters = Map::from_iter([("last_n".to_owned(), Value::from(MAX_CYCLES))]);
    let found = call(project, Tool::HistorySearch, &parameters)?;
    let cycles = found["cycles"].as_array().into_iter().flatten();
    Ok(cycles.filter_map(|cycle| cycle["completed_at"].as_str()).map(str::to_owned).collect())
}
