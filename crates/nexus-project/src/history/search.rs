//! Searching archived cycles: the index says which match or may match, the file says the rest.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::index::{Entry, Index, bits};
use super::text::{folded, without_indentation};
use crate::{ProjectError, document};

/// Least and most bytes that are read at once.
const MIN_LEN: u64 = 16 * 1024;
const MAX_LEN: u64 = 256 * 1024;

/// What a search found.
#[derive(Debug)]
pub(crate) struct Found {
    /// Matches in all.
    pub(crate) total: usize,
    /// How many of them are shown: the last ones.
    pub(crate) showing: usize,
    /// Summaries of those, oldest first, as a JSON list. Text, since there may be as many as there are cycles.
    pub(crate) cycles: String,
}

impl Found {
    pub(super) fn nothing() -> Self {
        Self { total: 0, showing: 0, cycles: "[]".to_owned() }
    }
}

pub(super) fn run(index: &Index, path: &Path, query: &str, last: usize) -> Result<Found, ProjectError> {
    let Some(file) = document::open(path)? else { return Ok(Found::nothing()) };
    let mut buffer = Vec::new();
    let (total, shown) = matches(index, &file, path, &folded(query), last)?;
    let mut cycles = String::from("[");
    for (number, entry) in shown.iter().rev().enumerate() {
        if number > 0 {
            cycles.push(',');
        }
        cycles.push_str(&summary(&cycle(&file, path, entry, &mut buffer)?).to_string());
    }
    cycles.push(']');
    Ok(Found { total, showing: shown.len(), cycles })
}

/// Counts the cycles that hold a folded query, and returns the last of them, newest first.
fn matches(
    index: &Index,
    file: &File,
    path: &Path,
    query: &str,
    last: usize,
) -> Result<(usize, Vec<Entry>), ProjectError> {
    if query.is_empty() {
        return Ok((index.count(), index.entries.iter().rev().take(last).copied().collect()));
    }
    let wanted = bits(query.as_bytes());
    let holding = index.words.holding(query, index.count());
    let lies_there = is_the_same_indented(query);
    let mut stretch = Stretch::new(file, path);
    let mut buffer = Vec::new();
    let (mut total, mut shown) = (0, Vec::new());
    for (number, entry, may_hold) in index.newest_first(&wanted) {
        let known = holding.as_ref().and_then(|holding| holding.get(number)).copied();
        let holds = match known {
            Some(true) => true,
            Some(false) if !entry.is_unsure => false,
            _ if !may_hold => false,
            _ if entry.is_plain && lies_there => stretch.folded(entry)?.contains(query),
            _ if entry.is_plain => without_indentation(stretch.folded(entry)?).contains(query),
            _ => folded(&cycle(file, path, entry, &mut buffer)?.to_string()).contains(query),
        };
        total += usize::from(holds);
        if holds && shown.len() < last {
            shown.push(*entry);
        }
    }
    Ok((total, shown))
}

/// Tells whether a query occurs in the compact text of a cycle exactly when it occurs in the indented one. They differ
/// only in space between values: after a colon, and at the beginning of lines.
fn is_the_same_indented(query: &str) -> bool {
    let bytes = query.as_bytes();
    if bytes.iter().any(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)) {
        return false;
    }
    // Neither text has this outside of strings, and inside of strings they are the same.
    let in_a_string = bytes.windows(2).any(|pair| match *pair {
        [_, b':'] => true,
        [before, b' '] => !matches!(before, b' ' | b':'),
        _ => false,
    });
    in_a_string || !bytes.iter().any(|byte| b" {}[],:".contains(byte))
}

/// A part of the history that was read at once: cycles that lie beside each other cost one reading.
struct Stretch<'file> {
    file: &'file File,
    path: &'file Path,
    bytes: Vec<u8>,
    offset: u64,
    wanted: u64,
}

impl<'file> Stretch<'file> {
    fn new(file: &'file File, path: &'file Path) -> Self {
        Self { file, path, bytes: Vec::new(), offset: 0, wanted: 0 }
    }

    /// Returns a cycle's text without the difference of ASCII cases. Cycles are asked for from the newest backwards.
    fn folded(&mut self, entry: &Entry) -> Result<&str, ProjectError> {
        let end = entry.offset + entry.length as u64;
        if entry.offset < self.offset || end > self.offset + self.bytes.len() as u64 {
            // More each time the next cycle was near, less when it was not.
            let is_near = self.offset.saturating_sub(end) < self.bytes.len() as u64;
            self.wanted = if is_near { (self.wanted * 2).clamp(MIN_LEN, MAX_LEN) } else { 0 };
            self.offset = entry.offset.min(end.saturating_sub(self.wanted));
            self.bytes.resize(usize::try_from(end - self.offset).unwrap_or(0), 0);
            self.file
                .read_exact_at(&mut self.bytes, self.offset)
                .map_err(|error| ProjectError::file("reading", self.path, error))?;
            self.bytes.make_ascii_lowercase();
        }
        let at = usize::try_from(entry.offset - self.offset).unwrap_or(0);
        let text = self.bytes.get(at..at + entry.length).unwrap_or_default();
        std::str::from_utf8(text).map_err(|_| document::damaged(self.path, 1, 1, "text that is not UTF-8"))
    }
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
