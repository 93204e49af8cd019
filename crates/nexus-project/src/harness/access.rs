//! `memory-access.jsonl`: one line for each memory file whose content was read.

use std::path::{Component, Path};

use nexus_base::clock::Timestamp;
use nexus_base::file::{self, Durability};
use serde_json::{Value, json};

use super::HarnessId;
use crate::document::FILE_MODE;
use crate::{Project, ProjectError, document};

/// What each line says about its own form.
const LINE_VERSION: &str = "0.10";

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
        return Err(ProjectError::Parameter(format!("{} is no memory file", read.display())));
    }
    let path = project.namespace(harness).join("memory-access.jsonl");
    project.start(harness)?;
    let _lock = project.write_lock(&[])?;
    let text = document::read_bytes(&path)?.unwrap_or_default();
    let key = read.to_string_lossy();
    let mut lines = Vec::new();
    let mut count = 0;
    for (line, number) in text.split(|byte| *byte == b'\n').zip(1..).filter(|(line, _)| !line.is_empty()) {
        let record: Value = serde_json::from_slice(line)
            .map_err(|error| document::damaged(&path, number, error.column(), "a line is no JSON"))?;
        if record["path"] == *key {
            count = record["access_count"].as_u64().unwrap_or(0);
        } else {
            lines.push(record);
        }
    }
    lines.push(json!({
        "path": key, "last_accessed_ts": Timestamp::now().to_string(), "access_count": count + 1,
        "last_agent": reader, "schema_version": LINE_VERSION,
    }));
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Ok(file::replace(&path, text.as_bytes(), FILE_MODE, Durability::Crash)?)
}
