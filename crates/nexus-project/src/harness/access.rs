//! `memory-access.jsonl`: one line for each memory file whose content was read.

use std::path::{Component, Path, PathBuf};

use nexus_base::clock::Timestamp;
use nexus_base::file::{self, Durability};
use serde_json::{Value, json};

use super::HarnessId;
use crate::document::FILE_MODE;
use crate::{Project, ProjectError, document};

/// What each line says about its own form.
const LINE_VERSION: &str = "0.10";
/// The file's name in each harness's folder.
const NAME: &str = "memory-access.jsonl";
/// Most folders below `state/` that are looked at.
const MAX_HARNESSES: usize = 100;

/// Records that `reader` read the content of a file below `.nexus/memory/`.
///
/// # Errors
/// The file lies elsewhere, or the record is damaged or cannot be written.
pub fn record_read(
    project: &Project,
    harness: &HarnessId,
    read: &Path,
    reader: &str,
) -> Result<(), ProjectError> {
    let read = project.root().join(read);
    let climbs = read.components().any(|part| part == Component::ParentDir);
    if climbs || !read.starts_with(project.folder().join("memory")) || reader.is_empty() {
        return Err(ProjectError::Parameter(format!("{} is not a memory file", read.display())));
    }
    project.start(harness)?;
    let _lock = project.write_lock(&[])?;
    let path = place(project, harness);
    let key = read.to_string_lossy();
    let mut lines = records(&path)?;
    let known = lines.iter().position(|record| record["path"] == *key).map(|at| lines.remove(at));
    let count = known.and_then(|record| record["access_count"].as_u64()).unwrap_or(0);
    lines.push(json!({
        "path": key, "last_accessed_ts": Timestamp::now().to_string(), "access_count": count + 1,
        "last_agent": reader, "schema_version": LINE_VERSION,
    }));
    save(&path, &lines)
}

/// Returns every record of reads in the project, of all harnesses.
pub(crate) fn reads(project: &Project) -> Result<Vec<Value>, ProjectError> {
    let mut all = Vec::new();
    let folders = std::fs::read_dir(project.state()).into_iter().flatten().take(MAX_HARNESSES);
    let mut folders: Vec<PathBuf> = folders.filter_map(Result::ok).map(|entry| entry.path()).collect();
    folders.sort();
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        all.extend(records(&folder.join(NAME))?);
    }
    Ok(all)
}

/// Drops the records of files that are gone.
pub(crate) fn forget(project: &Project, harness: &HarnessId, gone: &[PathBuf]) -> Result<(), ProjectError> {
    let path = place(project, harness);
    let _lock = project.write_lock(&[])?;
    let mut lines = records(&path)?;
    let before = lines.len();
    lines.retain(|record| !gone.iter().any(|path| record["path"] == *path.to_string_lossy()));
    if lines.len() == before { Ok(()) } else { save(&path, &lines) }
}

fn place(project: &Project, harness: &HarnessId) -> PathBuf {
    project.namespace(harness).join(NAME)
}

fn records(path: &Path) -> Result<Vec<Value>, ProjectError> {
    let text = document::read_bytes(path)?.unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n').zip(1..).filter(|(line, _)| !line.is_empty());
    lines
        .map(|(line, number)| {
            serde_json::from_slice(line)
                .map_err(|error| document::damaged(path, number, error.column(), "a line is not valid JSON"))
        })
        .collect()
}

fn save(path: &Path, lines: &[Value]) -> Result<(), ProjectError> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Ok(file::replace(path, text.as_bytes(), FILE_MODE, Durability::Crash)?)
}
