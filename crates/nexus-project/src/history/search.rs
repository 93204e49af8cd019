//! Searching archived cycles: the index says which may match, the file says which do.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::index::{Entry, Index, bits, folded};
use crate::{ProjectError, document};

/// What a search found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Matches in all.
    pub(crate) total: usize,
    /// Summaries of the last of them, oldest first.
    pub(crate) cycles: Vec<Value>,
}

pub(super) fn run(index: &Index, path: &Path, query: &str, last: usize) -> Result<Found, ProjectError> {
    let Some(file) = document::open(path)? else { return Ok(Found::default()) };
    let mut buffer = Vec::new();
    if query.is_empty() {
        let skipped = index.count().saturating_sub(last);
        let shown = index.entries.iter().skip(skipped);
        let cycles = shown
            .map(|entry| Ok(summary(&cycle(&file, path, entry, &mut buffer)?)))
            .collect::<Result<_, ProjectError>>()?;
        return Ok(Found { total: index.count(), cycles });
    }
    let query = folded(query);
    let wanted = bits(query.as_bytes());
    let mut found = Found::default();
    // From the newest backwards, so that only what is shown is kept.
    for entry in index.candidates(&wanted) {
        let cycle = cycle(&file, path, entry, &mut buffer)?;
        if !folded(&cycle.to_string()).contains(&query) {
            continue;
        }
        found.total += 1;
        if found.cycles.len() < last {
            found.cycles.push(summary(&cycle));
        }
    }
    found.cycles.reverse();
    Ok(found)
}

fn cycle(file: &File, path: &Path, entry: &Entry, buffer: &mut Vec<u8>) -> Result<Value, ProjectError> {
    buffer.resize(entry.length, 0);
    file.read_exact_at(buffer, entry.offset).map_err(|error| ProjectError::file("reading", path, error))?;
    serde_json::from_slice(buffer).map_err(|error| document::damaged_by(path, &error))
}

fn summary(cycle: &Value) -> Value {
    let mut summary = Map::new();
    for name in ["completed_at", "branch"] {
        summary.insert(name.to_owned(), cycle.get(name).cloned().unwrap_or_else(|| Value::from("")));
    }
    if let Some(plan) = cycle.get("plan").filter(|plan| plan.is_object()) {
        if let Some(topic) = plan.get("topic") {
            summary.insert("topic".to_owned(), topic.clone());
        }
        let issues = plan.get("issues").and_then(Value::as_array);
        let decisions: Vec<Value> = issues
            .into_iter()
            .flatten()
            .filter(|issue| issue.get("decision").is_some_and(Value::is_string))
            .map(|issue| json!({ "title": issue["title"], "decision": issue["decision"] }))
            .collect();
        summary.insert("decisions".to_owned(), Value::Array(decisions));
    }
    let tasks = cycle.get("tasks").and_then(Value::as_array).map_or(0, Vec::len);
    summary.insert("task_count".to_owned(), Value::from(tasks));
    Value::Object(summary)
}
